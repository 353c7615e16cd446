"""`scan`: a table that need not fit into memory, of which only the schema and the footers are read at first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import narwhals as nw
import numpy as np

from bagwise.bags import Bags, check_bags, check_targets
from bagwise.bags.container import MOST_FEATURES
from bagwise.bags.frames import FrameColumns, as_fill_values, as_list, names_files
from bagwise.bags.shared_rows import SHARED_ROWS
from bagwise.bags.validation import ParameterError, ParameterTypeError, as_names, counted, warn_user
from bagwise.io.columns import (
    Roles,
    choose_features,
    left_out,
    refuse_no_labels,
    refuse_not_numeric,
    refuse_unknown,
    split_covariates,
)
from bagwise.io.conditions import Where, as_where
from bagwise.io.encodings import OTHER, asked_levels, encode, frequent_levels
from bagwise.io.load import load_labels
from bagwise.io.table_files import Part, find_parts, refuse_other_formats
from bagwise.io.table_output import as_html
from bagwise.scale.partitions import (
    Chunk,
    Layout,
    agree,
    columns_read,
    cut,
    cut_bags,
    read_bag_weights,
    read_footers,
)

MISSING = ("refuse", "drop-instances", "impute")
MOST_LABELS = 1_000_000  # of a column of categories, whose levels are counted


@dataclass(frozen=True)
class Scan:
    """A table that need not fit into memory, as `bagwise.scan` returns it.

    Attributes
    ----------
    chunks : tuple
        The parts in which the table is read.
    n_rows : int
        The number of rows of all files, by their footers, before ``where`` is applied.
    chunk_rows : int
        The largest number of rows that are worked on at a time.
    categories : dict of column -> the features that stand for its levels
    bag, target, groups, weights, bag_weights : names of the columns, or None
    feature_names, covariates : tuples of names of columns
    """

    chunks: tuple
    layout: Layout
    n_rows: int
    chunk_rows: int
    categories: dict | None = None
    source: Any = None  # of files
    left_out: tuple[str, ...] = ()  # paths of files of which no row is read

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.layout.features

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns of the bags, ``bag_features`` of `scan`."""
        return self.layout.covariates

    @property
    def dtype(self) -> np.dtype:
        """float32 if all feature columns are, otherwise float64."""
        return self.layout.dtype

    @property
    def bag(self) -> str:
        return str(self.layout.roles.bag)

    def _role(self, name: str) -> str | None:
        column = getattr(self.layout.roles, name)
        return None if column is None else str(column)

    @property
    def target(self) -> str | None:
        return self._role("target")

    @property
    def groups(self) -> str | None:
        return self._role("groups")

    @property
    def weights(self) -> str | None:
        return self._role("weights")

    @property
    def bag_weights(self) -> str | None:
        return self.layout.roles.labels.get("bag_weights")

    @property
    def files(self) -> dict[str, Part]:
        """The files that are read, by their paths."""
        return {chunk.part.path: chunk.part for chunk in self.chunks if isinstance(chunk, Chunk)}

    def warn_of_new_files(self) -> None:
        """Warn of files that appeared after the table was scanned; they are not read."""
        if self.source is None:
            return
        scanned = {*self.left_out, *self.files}
        new = [part.name for part in find_parts(self.source) if part.path not in scanned]
        if new:
            further = f" (and {len(new) - 1:,} further)" if len(new) > 1 else ""
            warn_user(
                f"{new[0]}{further} appeared after the table was scanned, and none of its rows were read. Scan the "
                "table again to include them."
            )

    def __repr__(self) -> str:
        of_files = f" of {counted(len(self.files), 'file')}" if self.files else ""
        before = " before where" if self.layout.where is not None else ""
        covariates = f", {counted(len(self.covariates), 'covariate')}" if self.covariates else ""
        weighed = ", instance weights" if self.weights is not None else ""
        return (
            f"Scan: {counted(self.n_rows, 'row')}{before} in {counted(len(self.chunks), 'chunk')}{of_files}, "
            f"{counted(len(self.feature_names), 'feature')} ({self.dtype}){covariates}{weighed}"
        )

    def _repr_html_(self) -> str:
        """Show the columns by their roles in a notebook."""
        more = len(self.feature_names) - MOST_FEATURES
        features = ", ".join(self.feature_names[:MOST_FEATURES]) + (f" and {more:,} more" if more > 0 else "")
        roles = {"bag": self.bag, "target": self.target, "groups": self.groups, "weights": self.weights}
        roles |= {"bag weights": self.bag_weights, "covariates": ", ".join(self.covariates), "features": features}
        shown = {role: name for role, name in roles.items() if name}
        table = as_html({"role": list(shown), "columns": list(shown.values())})
        return f"<p><strong>{escape(repr(self))}</strong></p>{table}"


def need_scan(table) -> None:
    """Raise an error unless this is a scan."""
    if not isinstance(table, Scan):
        raise TypeError(f"Got {type(table).__name__}. A scan is required: call bagwise.scan(...) first.")


def scan(
    source,
    *,
    bag=None,
    target=None,
    features=None,
    ignore=(),
    groups=None,
    missing="refuse",
    fill_values=(),
    weights=None,
    bag_weights=None,
    bag_features=None,
    categories=(),
    dates=(),
    where=None,
    chunk_rows=1_000_000,
) -> Scan:
    """Describe a table that need not fit into memory; only its schema and footers are read.

    `fit_scan` and `predict_scan` read it chunk by chunk, and only the columns with a role. A bag may be spread over
    chunks and files in any order. A data frame is loaded as by `load`, and its bags are cut into chunks.

    Parameters
    ----------
    source : path, pattern, folder, URL, list of them, data frame, or Bags
        Parquet files. Folders are searched recursively; names that start with ``_`` or ``.`` are skipped, also by the
        wildcards of a pattern. URLs are those of fsspec (``s3://bucket/pixels``). A folder named ``year=2020`` gives
        the files in it a column ``year``, which can be the bag, the groups, a feature, or stand in ``where``; its
        values are whole numbers if all folders have whole numbers. The ids, groups, weights and covariates of `Bags`
        are used.
    bag : column of bag ids
        Left out for `Bags`.
    target : column of targets, optional
        The same number on every row of a bag; for `Bags`, the array of targets. `fit_scan` needs it.
    groups : column of labels, the same on every row of a bag, optional
        Bags of one group stay together in every fold.
    features : columns, optional
        Default: each numeric column without another role. A warning names the columns of other types, which are left
        out. A column that is given by folder names is a feature only if it is listed here.
    ignore : columns to leave out of the default features
    missing : {"refuse", "drop-instances", "impute"}
        What happens to rows with NaN or null features: an error that names the bag, or the row is left out, or
        `fit_scan` puts `bagwise.instances.Imputation` before the method. Infinite values are dropped by
        "drop-instances"; otherwise they raise an error.
    fill_values : number or numbers, default none
        What stands for a missing value in the features, the target, the weights and the covariates, such as -9999.
    weights : column of instance weights, optional
        Numbers from zero up, some above zero in every bag.
    bag_weights : column of weights of the bags, the same on every row of a bag, optional
        How much a bag counts in the fit: ``sample_weight`` of a fit in memory.
    bag_features : columns, optional
        Columns that are the same on every row of a bag: its covariates, and no features of the instances.
    categories : columns, or dict of column -> levels, optional
        Columns of levels, such as the crop. Each level becomes a feature ``crop=wheat`` that is 1 or 0, and
        ``crop=other`` stands for other levels and missing values. The levels are those given; or those of the table
        (the 50 most frequent of more), for which these columns are read now.
        ``features=list(model.feature_names_in_)`` asks for those of a model, and reads nothing.
    dates : columns, optional
        Dates, or text such as 2019-04-23. Each becomes three features: ``sown_sine`` and ``sown_cosine`` of the day of
        the year, as an angle, so that December is next to January; and ``sown_year``.
    where : text, or list of tuples, optional
        Which rows are read: ``"year >= 2019 and site == 'A'"``, ``[("year", ">=", 2019), ("site", "==", "A")]``, or
        lists of such lists, of which one holds; at most 250 conditions, where a list behind "in" counts as one. Files
        and row groups that cannot have such a row are not read. A null satisfies no condition.
    chunk_rows : int
        The most rows of a chunk, unless one row group has more.

    Returns
    -------
    Scan

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "aod": [0.3, 0.1, 0.3], "red": [1.0, 2.0, 3.0]})
    >>> table = bw.scan(frame, bag="site", target="aod", chunk_rows=2)
    >>> table
    Scan: 3 rows in 2 chunks, 1 feature (float64)
    >>> table.chunks
    (Chunk: 1 bag in memory (2 rows), Chunk: 1 bag in memory (1 rows))
    """
    if not isinstance(chunk_rows, int | float | np.integer | np.floating) or not chunk_rows >= 1 or chunk_rows % 1 != 0:
        raise ValueError(f"chunk_rows must be a whole number, at least 1, not {chunk_rows!r}")
    chunk_rows = int(chunk_rows)  # also from 1e6
    if missing not in MISSING:
        raise ParameterError("missing", f"missing must be 'refuse', 'drop-instances' or 'impute', not {missing!r}")
    if isinstance(source, Bags):
        options = {"bag": bag, "features": features, "ignore": ignore, "groups": groups, "where": where}
        options |= {"fill_values": fill_values, "weights": weights, "bag_weights": bag_weights}
        options |= {"bag_features": bag_features, "categories": categories, "dates": dates}
        if needless := [name for name, value in options.items() if value is not None and value not in ((), [])]:
            raise ValueError(f"{needless[0]}= chooses columns of a table, which Bags have done already. Leave it out.")
        return _scan_bags(source, target, chunk_rows, missing)
    roles = Roles(bag, target, features, ignore, groups, weights, bag_features, (), categories, dates)
    roles = roles if bag_weights is None else replace(roles, labels={"bag_weights": bag_weights})
    where = None if where is None else as_where(where)
    if not names_files(source):
        frame = source if where is None else _select_rows(source, where, roles)
        bags, y, labels = load_labels(frame, roles, missing=missing, fill_values=fill_values)
        return _scan_cut(bags, y, read_bag_weights(bags, labels, roles), roles, chunk_rows, missing)
    for name, value in (("categories", categories), ("bag_features", bag_features)):
        if isinstance(value, str) and value == "auto":
            raise ParameterError(name, f"{name}='auto' looks at the whole table at once; name the columns")
    if groups == SHARED_ROWS:
        raise ParameterError(
            "groups", f"groups={SHARED_ROWS!r} compares all rows, so it needs a table in memory: use load"
        )
    numbers, texts = as_fill_values(fill_values)
    if texts:
        raise ParameterError("fill_values", f"the text {texts[0]!r} as a fill value needs a table in memory: use load")
    return _scan_files(source, roles, where, chunk_rows, missing, numbers)


# Files ----------------------------------------------------------------------------------------------------------------


def _scan_files(source, roles: Roles, where: Where | None, chunk_rows: int, missing: str, fill_values: tuple) -> Scan:
    import pyarrow as pa

    parts = find_parts(source)
    refuse_other_formats(parts)
    footers = read_footers(parts)
    names = footers[0].names
    columns = _asked(roles, where, names)
    refuse_unknown(names, columns, used=as_list(roles.features or []))
    only = roles.features is not None and roles.bag is not None and not roles.derived
    schema = agree(footers, columns, only=only)
    folders = [name for name in (where.names if where else ()) if name not in footers[0].schema.names]
    roles = replace(roles, ignore=[*as_list(roles.ignore), *folders])
    where = None if where is None else where.fitting(schema)
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in schema.types]
    types = dict(zip(schema.names, plain, strict=True))
    layout = Layout(roles, types=types, where=where, missing=missing, fill_values=fill_values)
    chunks = [chunk for footer in footers for chunk in cut(footer, chunk_rows, layout, schema)]
    n_rows = sum(sum(footer.sizes) for footer in footers)
    if not chunks:
        raise ValueError(
            "The table has no rows. At least one is required."
            if n_rows == 0
            else f"No row can satisfy where: it leaves out all {n_rows:,} rows. Check the condition."
        )
    layout, categories = _with_features(layout, chunks, schema)
    if roles.features is None:
        in_files = [name for name in schema.names if name in footers[0].schema.names]  # not those that folders name
        unused = FrameColumns(schema.empty_table().select(in_files))
        _warn_once(left_out(unused, roles, _asked(roles, where, unused.names)))
    paths = {chunk.part.path for chunk in chunks}
    unread = tuple(part.path for part in parts if part.path not in paths)
    chunks = [replace(chunk, layout=layout) for chunk in chunks]
    return Scan(tuple(chunks), layout, n_rows, chunk_rows, categories, source, unread)


def _with_features(layout: Layout, chunks: list[Chunk], schema) -> tuple[Layout, dict | None]:
    """Add the features to a layout; return also the features that stand for levels of each category."""
    columns, roles = FrameColumns(schema.empty_table()), layout.roles
    levels: dict = roles.categories if isinstance(roles.categories, dict) else {}
    unknown: dict = {name: () for name in roles.category_list if name not in levels}
    _choose(columns, roles, levels | unknown)  # before any row is read
    levels = levels | _levels(chunks, list(unknown))
    names, covariates, encoded = _choose(columns, roles, levels)
    single = all(name not in columns.names or columns.single(name) for name in names)
    levels = {name: tuple(level[len(name) + 1 :] for level in encoded[name][:-1]) for name in encoded}
    dates = tuple(dict.fromkeys([*as_list(roles.dates), *asked_levels(columns.names, roles)[1]]))
    read = [*names, *covariates, roles.bag, roles.target, roles.groups, roles.weights, *roles.labels.values()]
    features = roles.features if roles.features is not None else [name for name in names if name in columns.names]
    categories = {name: levels[name] for name in levels if name in roles.category_list}
    layout = replace(
        layout,
        roles=replace(roles, features=features, ignore=(), categories=categories),
        features=tuple(names),
        covariates=tuple(covariates),
        dtype=np.dtype(np.float32 if single else np.float64),
        columns=columns_read(read, levels, dates),
    )
    return layout, encoded or None


def _asked(roles: Roles, where: Where | None, names: list) -> list:
    """Return all columns that the roles or conditions name; for crop=wheat and sown_year, the columns crop and sown."""
    levels, dates = asked_levels(names, roles)
    derived = {*roles.covariate_list, *as_list(roles.features or [])} - set(names)
    starts = tuple(f"{name}{mark}" for name in (*levels, *dates) for mark in "=_")
    columns = [name for name in roles.asked() if name not in derived or not str(name).startswith(starts)]
    return list(dict.fromkeys([*columns, *levels, *dates, *(where.names if where else [])]))


def _choose(columns: FrameColumns, roles: Roles, levels: dict) -> tuple[list, list, dict]:
    """Return the instance features, the bag features, and the features made from levels, by the rules of `load`.

    ``levels`` are those of the columns of categories. The columns of all other roles are checked.
    """
    table, roles, encoded, _ = encode(columns, replace(roles, categories=levels))
    names = choose_features(table, roles)
    lists = [name for name in names if table.kind(name) in ("list", "vector")]
    if lists:
        raise TypeError(
            f"column {lists[0]!r} holds lists, which are not read chunk by chunk; write a row per instance and a "
            "column per feature, ignore it, or read the table whole with bagwise.load"
        )
    as_names(names, None, len(names))  # no name twice
    refuse_no_labels(table, roles.bag, "bag", "bag ids")
    if roles.groups is not None:
        refuse_no_labels(table, roles.groups, "groups")
    if roles.target is not None:
        refuse_not_numeric(table, roles.target, "the target", "target")
    for parameter, name in (("weights", roles.weights), ("bag_weights", roles.labels.get("bag_weights"))):
        if name is not None and table.kind(name) not in ("number", "boolean"):
            raise ParameterTypeError(parameter, f"weights must be numbers; column {name!r} is {table.kind(name)}")
    empty = np.empty(0, dtype=np.int64)
    names, split = split_covariates(table.rows(empty), names, roles, empty, empty, empty)
    return names, list(split.get("covariate_names", ())), encoded


def _levels(chunks: list[Chunk], names: list) -> dict[str, tuple[str, ...]]:
    """Return the levels of category columns, counted over all chunks; warn of levels that count as other."""
    levels, notes = {}, []
    for name in names:
        counts: Counter = Counter()
        for chunk in chunks:
            table = chunk.table([name])
            if table.num_rows:
                codes, labels = FrameColumns(table).factorise(name)
                counts.update(dict(zip(labels.tolist(), np.bincount(codes).tolist(), strict=True)))
            if len(counts) > MOST_LABELS:
                raise ParameterError(
                    "categories",
                    f"column {name!r} holds more than {MOST_LABELS:,} distinct values, such as "
                    f"{next(iter(counts))!r}, and is no category; leave it out, or give its levels in a dict",
                )
        values = np.array([*counts, None], dtype=object)[:-1]
        levels[name], other = frequent_levels(name, values, np.array(list(counts.values()), dtype=np.int64))
        notes += [f"{' and '.join(other)} count as '{name}={OTHER}'"] if other else []
    _warn_once(notes)
    return levels


def _warn_once(notes: list) -> None:
    if notes:
        warn_user("; ".join(notes))


# Data in memory -------------------------------------------------------------------------------------------------------


def _select_rows(frame, where: Where, roles: Roles):
    """Return the rows of a data frame that satisfy the conditions; drop columns of text that only these name."""
    table = nw.from_native(frame).lazy().collect()
    refuse_unknown(table.columns, where.names)
    positions = np.flatnonzero(where.holds({name: table[name].to_numpy() for name in where.names}))
    if not len(positions):
        raise ValueError(f"No row satisfies where: it leaves out all {len(table):,} rows. Check the condition.")
    named = {*where.names} - {*roles.asked()}
    return table[positions].drop([name for name in named if not table.schema[name].is_numeric()]).to_native()


def _scan_bags(bags: Bags, y, chunk_rows: int, missing: str) -> Scan:
    if missing == "drop-instances":
        raise ValueError("missing='drop-instances' is for tables; load the bags with it, or use 'impute'")
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    y = None if y is None else check_targets(y, bags)
    target, groups = None if y is None else "target", None if bags.groups is None else "groups"
    roles = Roles("bag", target, None, (), groups, None if bags.weights is None else "weight")
    return _scan_cut(bags, y, None, roles, chunk_rows, missing)


def _scan_cut(bags: Bags, y, weight, roles: Roles, chunk_rows: int, missing: str) -> Scan:
    names = bags.feature_names or tuple(f"x{j + 1}" for j in range(bags.n_features))
    covariates = bags.covariate_names or ()
    if bags.covariates is not None and not covariates:
        covariates = tuple(f"c{j + 1}" for j in range(bags.covariates.shape[1]))
    layout = Layout(roles, names, tuple(covariates), bags.dtype, missing=missing)
    return Scan(cut_bags(bags, y, weight, chunk_rows), layout, bags.n_instances, chunk_rows, bags.categories)
