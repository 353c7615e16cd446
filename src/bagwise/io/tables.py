"""The table that files make up: each read by the ending of its name, all one below the other, with ids that agree.

A second table with a row per bag (targets, groups, bag features) is joined to it by bag id (`join`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path

import narwhals as nw
import numpy as np

from bagwise.bags.frames import FrameColumns, as_frame, as_list
from bagwise.bags.validation import Message, Parameter, ParameterError, id_keys, label, name_bags
from bagwise.io.columns import Roles, find_bags, is_made_of, refuse_not_numeric, refuse_unknown
from bagwise.io.table_files import ENDINGS as PARQUET
from bagwise.io.table_files import (
    Part,
    find_files,
    find_parts,
    is_data_set,
    is_row_number,
    read_arrow,
    read_csv,
    read_parquet,
    reading,
    refuse_other_formats,
    visible,
)

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".feather", ".arrow", ".mat", ".npz")


def read_files(source, roles: Roles, *, only: bool = False, decimal: str = ".") -> nw.DataFrame | None:
    """Read all files of a source as one table; None for an archive (.mat, .npz), which is no data frame.

    Of unnamed row numbers and of partition columns those that have a role; with ``only``, no other column at all, where
    a format allows it.
    """
    asked, parts = roles.asked(), find_parts(source)
    partitions = {value.column for part in parts for value in part.values}
    partitioned = not partitions.isdisjoint(asked) and all(part.name.lower().endswith(PARQUET) for part in parts)
    if is_data_set(source) or partitioned:
        refuse_other_formats(parts)
        return stack([_read_part(part, asked, only) for part in parts], [part.name for part in parts])
    paths = find_files(source)
    endings = [_ending(path) for path in paths]
    archives = [path.name for path, ending in zip(paths, endings, strict=True) if ending in (".mat", ".npz")]
    if archives and len(paths) > 1:
        raise ValueError(
            f"several files must be tables (.csv, .tsv, .parquet, .feather, .arrow); {archives[0]} is not one"
        )
    if archives:
        return None
    frames = [
        _read(path, ending, roles.ids(), asked, only, decimal) for path, ending in zip(paths, endings, strict=True)
    ]
    import pyarrow as pa

    pa.default_memory_pool().release_unused()  # Arrow keeps what its readers needed: twice the table
    if len(frames) == 1:
        return frames[0]
    written = [ending.startswith((".csv", ".tsv")) for ending in endings]
    return stack(agree_on_ids(frames, paths, written, roles.ids()), paths)


def _read_part(part: Part, asked: list, only: bool) -> nw.DataFrame:
    with part.open() as file:
        there = file.schema_arrow.names
        refuse_unknown([*there, *(value.column for value in part.values)], asked if only else [], taken=asked)
        with reading(part.name):
            own = visible(there, asked, only)
            return nw.from_native(part.add_values(file.read(columns=own).select(own), asked), eager_only=True)


def _ending(path: Path) -> str:
    ending = next((one for one in ENDINGS if path.name.lower().endswith(one)), None)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise ValueError(f"{path.name} is a spreadsheet, which is not read; export the sheet as .csv")
    if ending is None:
        raise ValueError(f"{path.name} is of no known type; the known endings are {', '.join(ENDINGS)}")
    return ending


def _read(path: Path, ending: str, ids: list, asked: list, only: bool, decimal: str) -> nw.DataFrame:
    """Read the table of a file, without unnamed row numbers unless they are requested."""
    if ending == ".parquet":
        # reading some columns only is what the format is for; with features left open, all must be looked at
        frame = read_parquet(path, asked if only else None)
    elif ending in (".feather", ".arrow"):
        frame = read_arrow(path)
    else:
        frame = read_csv(path, "\t" if ending.startswith(".tsv") else ",", ids, decimal)
    with reading(path):  # names that are no text show themselves here
        frame = as_frame(frame)
        names = frame.columns
    return frame.drop([name for name in names if is_row_number(name) and name not in asked])


def stack(frames: list[nw.DataFrame], paths: Sequence[Path | str]) -> nw.DataFrame:
    """Return the rows of all files in one table; a bag may be spread over them, and columns are matched by name."""
    import pyarrow as pa

    names = frames[0].columns
    for frame, path in zip(frames[1:], paths[1:], strict=True):
        _refuse_other_columns(frame.columns, names, path, paths[0])
    tables = [frame.to_native().select(names) for frame in frames]
    for k, name in enumerate(names):
        kinds = list(dict.fromkeys(table.schema.field(k).type for table in tables))
        if len(kinds) > 1:
            kind = _common_type(name, kinds, tables, paths)
            tables = [table.set_column(k, name, table.column(k).cast(kind)) for table in tables]
    return nw.from_native(pa.concat_tables(tables, promote_options="permissive"), eager_only=True)


def _common_type(name, kinds: list, tables: list, paths: Sequence[Path | str]):
    """Return the type that holds the values of all files exactly: whole numbers, numbers, or text of either width."""
    import pyarrow as pa
    import pyarrow.compute as pc

    of = pa.types
    if all(of.is_string(kind) or of.is_large_string(kind) or kind == pa.string_view() for kind in kinds):
        return pa.large_string()
    if not all(of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind) for kind in kinds):
        shown = [str(nw.from_native(table.select([name])).schema[name]) for table in tables]
        other = next((k for k, one in enumerate(shown) if one != shown[0]), 1)
        raise ValueError(
            f"column {name!r} is {shown[0]} in {paths[0]} but {shown[other]} in {paths[other]}; give it one type"
        )
    whole = all(map(of.is_integer, kinds))
    limit = 2**63 - 1 if whole else 2**53
    for table, path in zip(tables, paths, strict=True):
        if of.is_integer(table[name].type) and (pc.max(table[name]).as_py() or 0) > limit:
            raise ValueError(
                f"column {name!r} of {path} has whole numbers beyond {limit}, which another file holds in a type that "
                "would round them; give the column one type"
            )
    return pa.int64() if whole else pa.float64()


def _refuse_other_columns(columns, names, path: Path | str, first: Path | str) -> None:
    lost, added = [n for n in names if n not in columns], [n for n in columns if n not in names]
    if lost or added:
        what = [f"lacks {', '.join(map(str, lost[:5]))}"] if lost else []
        what += [f"adds {', '.join(map(str, added[:5]))}"] if added else []
        raise ValueError(f"{path} {' and '.join(what)}; all files need the columns of the first, {first}")


def agree_on_ids(frames: list[nw.DataFrame], paths: list[Path], written: list[bool], ids: list) -> list[nw.DataFrame]:
    """Convert ids to one kind in all tables; ``written`` says which come from text files.

    In files of text alone, ids that are text in one are so in all. Beside a file in which they are numbers, they are
    numbers.
    """
    for name in ids:
        if all(name in frame.columns for frame in frames):  # else `stack` says what is missing
            columns = _agree([frame[name] for frame in frames], paths, written)
            frames = [frame.with_columns(column) for frame, column in zip(frames, columns, strict=True)]
    return frames


def _agree(columns: list[nw.Series], paths: list[Path], written: list[bool]) -> list[nw.Series]:
    if len({column.dtype for column in columns}) == 1:
        return columns
    if all(written):
        _refuse_two_forms(columns, paths)
        return [column.cast(nw.String) for column in columns]
    typed = [k for k, text in enumerate(written) if not text]
    if not all(columns[k].dtype.is_numeric() for k in typed):
        return columns
    kinds = [columns[k].dtype for k in typed]
    # The type in which ids of text are equal to those of the files with types; 0.1 is another number in Float32.
    if all(one.is_integer() for one in kinds):
        kind: type = nw.Int64
    else:
        kind = nw.Float32 if all(one == nw.Float32 for one in kinds) else nw.Float64
    beside = f"as {kinds[0]} in {paths[typed[0]]}"
    return [
        _as_numbers(column, path, kind, beside) if text and column.dtype == nw.String else column
        for column, path, text in zip(columns, paths, written, strict=True)
    ]


def _refuse_two_forms(columns: list[nw.Series], paths: list[Path]) -> None:
    """Refuse 7 in one file and 7.0 or 007 in another: one bag, or two, who knows."""
    whole: dict[Decimal, Path] = {}
    for column, path in zip(columns, paths, strict=True):
        if column.dtype != nw.String:
            whole |= dict.fromkeys(_distinct(column), path)
    for column, path in zip(columns, paths, strict=True):
        texts = _distinct(column) if column.dtype == nw.String else []
        forms = {text: number for text in texts if (number := _number(text)) is not None and number in whole}
        twice = [text for text, number in forms.items() if text != str(int(number))]
        if twice:
            number = forms[twice[0]]
            others = f" (and {len(twice) - 1} more such)" if len(twice) > 1 else ""
            raise ValueError(
                f"column {column.name!r} has {int(number)} in {whole[number]} and {twice[0]} in {path}{others}: one "
                "number in two forms, which as text are two ids; write it in one form in all files"
            )


def _as_numbers(column: nw.Series, path: Path, kind, beside: str) -> nw.Series:
    """Convert ids of text to numbers, if each is a number of its own."""
    numbers = {text: _fit(_number(text), kind) for text in _distinct(column)}
    seen: dict = {}
    for text, number in numbers.items():
        if number is None or number in seen:
            what = f"{text!r}, which is none" if number is None else f"{seen[number]!r} and {text!r}, which are one"
            raise ValueError(
                f"column {column.name!r} holds numbers, {beside}, but {path} has {what}; write the ids in one form in "
                "all files"
            )
        seen[number] = text
    values = [numbers.get(text) for text in column.to_list()]
    return nw.new_series(column.name, values, kind, backend=column.implementation)


def _fit(number: Decimal | None, kind) -> int | float | None:
    """Convert a number to a value of a type; None for none, or if it would have to be rounded."""
    if number is None:
        return None
    if not kind.is_integer():
        return float(np.float32(number) if kind == nw.Float32 else number)
    return int(number) if abs(number) < 2**63 and number == int(number) else None


def _number(text: str) -> Decimal | None:
    """Parse a number from a text; None if it is none."""
    try:
        number = Decimal(text.replace("_", "?"))  # which Python reads over
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _distinct(column: nw.Series) -> list:
    return sorted(column.drop_nulls().unique().to_list())


def join(table, roles: Roles) -> tuple:
    """Join the second table ``roles.targets``.

    Return the table, roles that name its target, and notes on unmatched rows. Bags without a target are left out, if
    there is one to learn; without a target every bag needs its row.
    """
    refuse_unknown(table.names, [] if roles.bag is None else [roles.bag], parameter="bag")
    second, what = _read_second(roles.targets, roles, table)
    if roles.bag is None or roles.bag not in second.names:
        raise ParameterError(
            "targets",
            f"{what} has no column {roles.bag!r}, by which it is joined; its columns are "
            f"{', '.join(map(str, second.names))}: rename the one with the bag ids, or name it with ",
            Parameter("bag"),
        )
    others = [name for name in second.names if name != roles.bag]
    twice = [name for name in others if name in table.names and name in roles.asked()]
    if twice:
        raise ParameterError(
            "targets",
            f"column {twice[0]!r} is in the table and in {what}; drop it from one of them, or rename it there",
        )
    others = [name for name in others if name not in table.names]
    roles = _with_target(roles, table, second, others, what)
    codes, ids = find_bags(table, roles.bag)
    row_of_bag, strangers = _match(ids, second, roles.bag, what)
    known = row_of_bag >= 0
    targets = [name for name in as_list(roles.target or ()) if name in others]
    if targets:
        for name in targets:
            refuse_not_numeric(second, name, "the target", "target")
        values = np.column_stack([np.asarray(second.numbers(name), dtype=np.float64) for name in targets])
        infinite = known & np.isinf(values[row_of_bag]).any(axis=1)
        if infinite.any():
            raise ParameterError(
                "target", f"{name_bags(ids, infinite)} an infinite target in {what}; correct it, or leave it empty"
            )
        known[known] &= np.isfinite(values[row_of_bag[known]]).any(axis=1)
    notes = []
    if not known.all():
        if not targets:
            raise ParameterError(
                "targets", f"{name_bags(ids, ~known)} no row in {what}; give every bag one, or leave out those bags"
            )
        if not known.any():
            raise ParameterError("targets", f"no bag has a target in column {targets[0]!r} of {what}; fill it in")
        notes.append(
            f"{np.count_nonzero(~known):,} of {len(ids):,} bags {_had(~known)} no target in {what} and "
            f"{_had(~known, 'was', 'were')} left out (the first is {label(ids[(~known).argmax()])})"
        )
        table = table.rows(np.flatnonzero(known[codes]))
        codes = codes[known[codes]]
    if len(strangers):
        are = "rows of {} have" if len(strangers) > 1 else "row of {} has"
        notes.append(f"{len(strangers):,} {are.format(what)} no bag (the first is {label(strangers[0])})")
    at = row_of_bag[codes]
    used = {name for name in others if any(is_made_of(name, role) for role in roles.asked())}
    unused = [] if roles.bag_features == "auto" else [name for name in others if name not in used]
    if unused:
        others_unused = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
        numeric = [name for name in unused if second.kind(name) in ("number", "boolean")]
        named = ", ".join(map(repr, unused[:5])) + others_unused
        notes.append(
            Message(
                f"column{'s' if len(unused) > 1 else ''} {named} of {what} {'are' if len(unused) > 1 else 'is'} not "
                "used; ",
                Parameter("bag_features", (numeric or unused)[:1]),
                " takes what describes the bag",
            )
        )
    more = {name: partial(second.select, name, at) for name in others}
    joined = [name for name in others if name not in unused]
    roles = replace(roles, targets=None, ignore=[*as_list(roles.ignore), *unused])
    return table.with_columns(more, of_bags=joined), roles, notes


def _had(marked: np.ndarray, one: str = "has", several: str = "have") -> str:
    return one if np.count_nonzero(marked) == 1 else several


def known_targets(source, roles: Roles, ids: np.ndarray, fill_values=()) -> np.ndarray:
    """Return the targets of some bags, a column each; NaN for a bag without one in the second table."""
    second = FrameColumns(source, fill_values)
    refuse_unknown(second.names, [roles.bag, *roles.target_list], parameter="targets")
    row_of_bag, _ = _match(ids, second, roles.bag, "targets")
    values = np.column_stack([np.asarray(second.numbers(name), dtype=np.float64) for name in roles.target_list])
    return np.where(row_of_bag[:, None] >= 0, values[row_of_bag], np.nan)


def _read_second(source, roles: Roles, table) -> tuple[FrameColumns, str]:
    from bagwise.io.load import names_files

    decimal = getattr(table, "decimal", ".")
    if not names_files(source):
        if hasattr(source, "to_frame") and hasattr(source, "index"):  # a pandas Series
            raise ParameterError(
                "targets",
                "targets is a Series; pass targets=series.rename_axis('plot').reset_index(), a frame with "
                "the bag ids as a column",
            )
        return FrameColumns(source, (*table.fill_values, *table.fill_texts), decimal), "targets"
    frame = read_files(source, replace(roles, targets=None), decimal=decimal)
    what = Path(source).name if not isinstance(source, list | tuple) else "targets"
    if frame is None:
        raise ParameterError("targets", f"{what} is not a table with named columns; give a .csv or .parquet")
    return FrameColumns(frame, (*table.fill_values, *table.fill_texts), decimal), what


def _with_target(roles: Roles, table, second: FrameColumns, others: list, what: str) -> Roles:
    """Return roles with the one column of the second table that can be the target, unless one is named."""
    if roles.target is not None:
        return roles
    free = [name for name in others if name not in roles.asked() and second.kind(name) in ("number", "boolean")]
    if roles.bag_features == "auto":
        free = free if len(free) == 1 else []
    if len(free) > 1:
        raise ParameterError(
            "target",
            f"{what} has several columns of numbers ({', '.join(map(str, free[:5]))}); name the target with ",
            Parameter("target", free[0]),
        )
    return replace(roles, target=free[0]) if free else roles


def _match(ids: np.ndarray, second: FrameColumns, bag, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of the second table of each bag, -1 for none; and the ids there that no bag has."""
    rows, theirs = find_bags(second, bag)
    again = np.bincount(rows, minlength=len(theirs)) > 1
    if again.any():
        raise ParameterError(
            "targets", f"{name_bags(theirs, again)} several rows in {what}; a second table has one row per bag"
        )
    known, here = id_keys(theirs, ids)
    place = {one: k for k, one in enumerate(known)}
    found = np.array([place.get(one, -1) for one in here], dtype=np.int64)
    if (found < 0).all():
        raise ParameterError(
            "targets",
            f"no bag id is in both tables: the first has {label(ids[0])}, and {what} has {label(theirs[0])}; write the "
            "ids in the same way",
        )
    used = np.zeros(len(theirs), dtype=bool)
    used[found[found >= 0]] = True
    return found, theirs[~used]
