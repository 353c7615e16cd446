"""Read a new table with the columns that are stored in a model file, in the same way as the training table."""

from __future__ import annotations

import re
from pathlib import Path

from bagwise.bags.frames import as_list
from bagwise.bags.validation import ParameterError, ParameterTypeError

NEEDED = ("bag", "missing", "fill_values", "weights", "bag_features", "decimal")


def training_columns(header: dict) -> dict:
    """Return the options by which the training table was read, as keywords of `bagwise.load`."""
    return dict((header.get("training") or {}).get("columns") or {})


def columns_at_fit(header: dict, source, *, more: tuple[str, ...] = ()) -> dict:
    """Return how to read new tables for a model, as keywords of `bagwise.load`; ``more`` lists more columns to keep."""
    from bagwise.io.array_files import holds_bags

    columns, path = training_columns(header), str(as_list(source)[0])
    if path.lower().endswith(".npz") and Path(path).is_file() and holds_bags(Path(path)):
        return {name: columns[name] for name in ("missing", "fill_values") if name in columns}
    names = header.get("feature_names")
    how = {name: columns[name] for name in (*NEEDED, *more) if name in columns}
    return how | ({} if names is None else {"features": list(names)})


def load_like_training(header: dict, source, how: dict, second: str | None = None) -> tuple:
    """Return bags and targets, read by the keywords ``how`` of `bagwise.load`.

    The second table may have columns that the model does not need; they are left out without a note.
    """
    from bagwise.io.load import load_to_score

    try:
        if second is not None:
            frame = read_second_table(second, how)
            return load_to_score(source, **how, **({"targets": frame} if frame.num_columns > 1 else {}))
        return load_to_score(source, **how)
    except ParameterTypeError as error:
        # omit advice that does not apply: the model needs this column, in the form that it had at fit
        problem = re.split("; encode it|, or leave the column out", str(error))[0]
        if problem == str(error):
            raise
        needed = "the model was fitted with numbers in this column and needs them"
        raise ParameterTypeError(error.parameter, f"{problem}; {needed}") from None
    except ParameterError as error:
        lacks_second = second is None and "targets" in training_columns(header)
        if not lacks_second or error.parameter not in ("bag_features", "target", "groups"):
            raise
        way_out = "the model was fitted with a second table: give one with --targets"
        raise ParameterError("targets", f"{error}; {way_out}") from None


def load_to_predict(header: dict, source, how: dict, second: str | None = None, target=None) -> tuple:
    """Return bags, and the targets if they are named; bags of a second table may lack a target."""
    from bagwise.io.columns import Roles
    from bagwise.io.second_table import known_targets

    if second is None or target is None:
        return load_like_training(header, source, how | ({"target": target} if second is None else {}), second)
    bags, _ = load_like_training(header, source, how, second)
    frame, names = read_second_table(second, how | {"target": target}), as_list(target)
    y = known_targets(frame, Roles(bag=how.get("bag"), target=names), bags.ids, how.get("fill_values", ()))
    is_single = isinstance(target, str)
    return bags._with(target_name=target if is_single else tuple(target)), y[:, 0] if is_single else y


def read_second_table(path: str, how: dict):
    """Return the columns of a second table that the keywords of `bagwise.load` name."""
    from bagwise.io.columns import Roles, is_made_of
    from bagwise.io.table_files import read_files

    frame = read_files(path, Roles(bag=how.get("bag")), decimal=how.get("decimal", "."))
    if frame is None:
        raise ParameterError("targets", f"{path} is not a table with named columns; give a .csv or .parquet")
    named: dict = {name: how.get(name) for name in ("bag", "target", "groups", "weights", "bag_features")}
    roles = Roles(**named).asked()
    return frame.select([name for name in frame.column_names if any(is_made_of(name, role) for role in roles)])
