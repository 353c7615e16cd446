"""The pyarrow table that files make up: each read by the ending of its name, all stacked, with ids of one type.

A second table with a row per bag (targets, groups, bag features) is joined to it by bag id (`join`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bagwise.bags.frames import FrameColumns, as_frame, as_list, kind_of
from bagwise.bags.validation import Message, Parameter, ParameterError, label, match_ids, name_bags
from bagwise.io.columns import Roles, find_bags, is_made_of, refuse_not_numeric, refuse_unknown
from bagwise.io.table_files import (
    PARQUET,
    SEPARATORS,
    TABLES,
    Part,
    find_files,
    find_parts,
    is_data_set,
    names_files,
    read_table,
    reading,
    refuse_other_formats,
    visible,
)

if TYPE_CHECKING:
    import pyarrow as pa


def read_files(source, roles: Roles, *, only: bool = False, decimal: str = ".") -> pa.Table | None:
    """Read all files of a source as one table; None for an archive (.mat, .npz), which is no table.

    Of unnamed row numbers and of partition columns those that have a role; with ``only``, no other column at all, where
    a format allows it.
    """
    named, parts = roles.asked(), find_parts(source)
    partitions = {value.column for part in parts for value in part.values}
    partitioned = not partitions.isdisjoint(named) and all(part.name.lower().endswith(PARQUET) for part in parts)
    if is_data_set(source) or partitioned:
        refuse_other_formats(parts)
        return stack([_read_part(part, named, only) for part in parts], [part.name for part in parts])
    paths = find_files(source)
    tables = [read_table(path, roles.ids(), named, only=only, decimal=decimal) for path in paths]
    archive = next((path.name for path, table in zip(paths, tables, strict=True) if table is None), None)
    if archive is not None:
        if len(paths) > 1:
            raise ValueError(f"several files must be tables ({', '.join(TABLES)}); {archive} is not one")
        return None
    import pyarrow as pa

    pa.default_memory_pool().release_unused()  # Arrow keeps what its readers needed: twice the table
    if len(tables) == 1:
        return tables[0]
    are_text = [path.name.lower().endswith(tuple(SEPARATORS)) for path in paths]
    return stack(agree_on_ids(tables, paths, are_text, roles.ids()), paths)


def _read_part(part: Part, named: list, only: bool) -> pa.Table:
    with part.open() as file:
        names = file.schema_arrow.names
        refuse_unknown([*names, *(value.column for value in part.values)], named if only else [], used=named)
        with reading(part.name):
            columns = visible(names, named, only)
            return part.add_values(file.read(columns=columns).select(columns), named)


def stack(tables: list[pa.Table], paths: Sequence[Path | str]) -> pa.Table:
    """Return the rows of all files in one table; a bag may be spread over them, and columns are matched by name."""
    import pyarrow as pa

    names = tables[0].column_names
    for table, path in zip(tables[1:], paths[1:], strict=True):
        _refuse_other_columns(table.column_names, names, path, paths[0])
    tables = [table.select(names) for table in tables]
    for k, name in enumerate(names):
        types = list(dict.fromkeys(table.schema.field(k).type for table in tables))
        if len(types) > 1:
            common = _common_type(name, types, tables, paths)
            tables = [table.set_column(k, name, table.column(k).cast(common)) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def _common_type(name, types: list, tables: list, paths: Sequence[Path | str]):
    """Return the type that holds the values of all files exactly: whole numbers, numbers, or text of either width."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = [kind_of(table.schema.field(name).type) for table in tables]
    if set(kinds) == {"String"}:
        return pa.large_string()
    if set(kinds) != {"number"}:
        other = next((k for k, kind in enumerate(kinds) if kind != kinds[0]), 1)
        raise ValueError(
            f"column {name!r} is {kinds[0]} in {paths[0]} but {kinds[other]} in {paths[other]}; give it one type"
        )
    whole = all(map(pa.types.is_integer, types))
    limit = 2**63 - 1 if whole else 2**53
    for table, path in zip(tables, paths, strict=True):
        if pa.types.is_integer(table[name].type) and (pc.max(table[name]).as_py() or 0) > limit:
            raise ValueError(
                f"column {name!r} of {path} has whole numbers beyond {limit}, which another file holds in a type that "
                "would round them; give the column one type"
            )
    return pa.int64() if whole else pa.float64()


def _refuse_other_columns(columns, names, path: Path | str, first: Path | str) -> None:
    lost, added = [n for n in names if n not in columns], [n for n in columns if n not in names]
    if lost or added:
        clauses = [f"lacks {', '.join(lost[:5])}"] if lost else []
        clauses += [f"adds {', '.join(added[:5])}"] if added else []
        raise ValueError(f"{path} {' and '.join(clauses)}; all files need the columns of the first, {first}")


def agree_on_ids(tables: list[pa.Table], paths: list[Path], are_text: list[bool], ids: list) -> list[pa.Table]:
    """Convert ids to one type in all tables; ``are_text`` says which come from text files.

    In files of text alone, ids that are text in one are so in all. Beside a file in which they are numbers, they are
    numbers.
    """
    for name in ids:
        if all(name in table.column_names for table in tables):  # else `stack` says what is missing
            columns = _agree(name, [table[name] for table in tables], paths, are_text)
            tables = [
                table.set_column(table.column_names.index(name), name, column)
                for table, column in zip(tables, columns, strict=True)
            ]
    return tables


def _agree(name, columns: list, paths: list[Path], are_text: list[bool]) -> list:
    import pyarrow as pa

    if len({column.type for column in columns}) == 1:
        return columns
    if all(are_text):
        _refuse_two_forms(name, columns, paths)
        return [column.cast(pa.string()) for column in columns]
    typed = [k for k, text in enumerate(are_text) if not text]
    types = [columns[k].type for k in typed]
    if not all(kind_of(kind) == "number" for kind in types):
        return columns
    # The type in which ids of text are equal to those of the files with types; 0.1 is another number in single.
    if all(map(pa.types.is_integer, types)):
        common = pa.int64()
    else:
        common = pa.float32() if set(types) == {pa.float32()} else pa.float64()
    reference = f"as {types[0]} in {paths[typed[0]]}"
    return [
        _as_numbers(name, column, path, common, reference) if text and kind_of(column.type) == "String" else column
        for column, path, text in zip(columns, paths, are_text, strict=True)
    ]


def _refuse_two_forms(name, columns: list, paths: list[Path]) -> None:
    """Refuse 7 in one file and 7.0 or 007 in another, which may be one bag or two."""
    path_of_number: dict[Decimal, Path] = {}
    for column, path in zip(columns, paths, strict=True):
        if kind_of(column.type) != "String":
            path_of_number |= dict.fromkeys(map(Decimal, _distinct(column)), path)
    for column, path in zip(columns, paths, strict=True):
        texts = _distinct(column) if kind_of(column.type) == "String" else []
        numbers = {text: number for text in texts if (number := _number(text)) in path_of_number}
        repeated = [text for text, number in numbers.items() if text != str(int(number))]
        if repeated:
            number = numbers[repeated[0]]
            more = f" (and {len(repeated) - 1} more such)" if len(repeated) > 1 else ""
            raise ValueError(
                f"column {name!r} has {int(number)} in {path_of_number[number]} and {repeated[0]} in {path}{more}: "
                "one number in two forms, which as text are two ids; write it in one form in all files"
            )


def _as_numbers(name, column, path: Path, common, reference: str):
    """Convert ids of text to numbers, if each is a number of its own."""
    import pyarrow as pa

    numbers = {text: _fit(_number(text), common) for text in _distinct(column)}
    text_of_number: dict = {}
    for text, number in numbers.items():
        if number is None or number in text_of_number:
            problem = f"{text!r}, which is none"
            if number is not None:
                problem = f"{text_of_number[number]!r} and {text!r}, which are one"
            raise ValueError(
                f"column {name!r} holds numbers, {reference}, but {path} has {problem}; write the ids in one form in "
                "all files"
            )
        text_of_number[number] = text
    return pa.chunked_array([[numbers.get(text) for text in column.to_pylist()]], common)


def _fit(number: Decimal | None, common) -> int | float | None:
    """Convert a number to a value of a type; None for none, or if it would have to be rounded."""
    import pyarrow as pa

    if number is None:
        return None
    if not pa.types.is_integer(common):
        return float(np.float32(number) if common == pa.float32() else number)
    return int(number) if abs(number) < 2**63 and number == int(number) else None


def _number(text: str) -> Decimal | None:
    """Parse a number from a text; None if it is none."""
    try:
        number = Decimal(text.replace("_", "?"))  # which Python reads over
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _distinct(column) -> list:
    return sorted(column.drop_null().unique().to_pylist())


def join(table, roles: Roles) -> tuple:
    """Join the second table ``roles.targets``.

    Return the table, roles that name its target, and notes on unmatched rows. Bags without a target are left out, if
    there is one to learn; without a target every bag needs its row.
    """
    refuse_unknown(table.names, [] if roles.bag is None else [roles.bag], parameter="bag")
    second, source = _read_second(roles.targets, roles, table)
    if roles.bag is None or roles.bag not in second.names:
        raise ParameterError(
            "targets",
            f"{source} has no column {roles.bag!r}, by which it is joined; its columns are "
            f"{', '.join(map(str, second.names))}: rename the one with the bag ids, or name it with ",
            Parameter("bag"),
        )
    columns = [name for name in second.names if name != roles.bag]
    if repeated := [name for name in columns if name in table.names and name in roles.asked()]:
        raise ParameterError(
            "targets",
            f"column {repeated[0]!r} is in the table and in {source}; drop it from one of them, or rename it there",
        )
    columns = [name for name in columns if name not in table.names]
    roles = _with_target(roles, table, second, columns, source)
    codes, ids = find_bags(table, roles.bag)
    row_of_bag, ids_without_bag = _match(ids, second, roles.bag, source)
    has_target = row_of_bag >= 0
    targets = [name for name in as_list(roles.target or ()) if name in columns]
    if targets:
        values = _targets(second, targets)[row_of_bag]
        infinite = has_target & np.isinf(values).any(axis=1)
        if infinite.any():
            raise ParameterError(
                "target", f"{name_bags(ids, infinite)} an infinite target in {source}; correct it, or leave it empty"
            )
        has_target &= np.isfinite(values).any(axis=1)
    notes = []
    if not has_target.all():
        if not targets:
            raise ParameterError(
                "targets",
                f"{name_bags(ids, ~has_target)} no row in {source}; give every bag one, or leave out those bags",
            )
        if not has_target.any():
            raise ParameterError("targets", f"no bag has a target in column {targets[0]!r} of {source}; fill it in")
        n = np.count_nonzero(~has_target)
        has, was = ("has", "was") if n == 1 else ("have", "were")
        notes.append(
            f"{n:,} of {len(ids):,} bags {has} no target in {source} and {was} left out "
            f"(the first is {label(ids[(~has_target).argmax()])})"
        )
        table = table.rows(np.flatnonzero(has_target[codes]))
        codes = codes[has_target[codes]]
    if len(ids_without_bag):
        rows = f"rows of {source} have" if len(ids_without_bag) > 1 else f"row of {source} has"
        notes.append(f"{len(ids_without_bag):,} {rows} no bag (the first is {label(ids_without_bag[0])})")
    used = {name for name in columns if any(is_made_of(name, role) for role in roles.asked())}
    unused = [] if roles.bag_features == "auto" else [name for name in columns if name not in used]
    if unused:
        numeric = [name for name in unused if second.kind(name) in ("number", "boolean")]
        several = len(unused) > 1
        names = ", ".join(map(repr, unused[:5])) + (f" and {len(unused) - 5} more" if len(unused) > 5 else "")
        notes.append(
            Message(
                f"column{'s' * several} {names} of {source} {'are' if several else 'is'} not used; ",
                Parameter("bag_features", (numeric or unused)[:1]),
                " takes what describes the bag",
            )
        )
    at = row_of_bag[codes]
    table = table.with_columns(
        {name: partial(second.select, name, at) for name in columns},
        of_bags=[name for name in columns if name not in unused],
    )
    return table, replace(roles, targets=None, ignore=[*as_list(roles.ignore), *unused]), notes


def known_targets(source, roles: Roles, ids: np.ndarray, fill_values=()) -> np.ndarray:
    """Return the targets of some bags, a column each; NaN for a bag without one in the second table."""
    second = FrameColumns(source, fill_values)
    refuse_unknown(second.names, [roles.bag, *roles.target_list], parameter="targets")
    row_of_bag, _ = _match(ids, second, roles.bag, "targets")
    return np.where(row_of_bag[:, None] >= 0, _targets(second, roles.target_list)[row_of_bag], np.nan)


def _targets(second: FrameColumns, names: list) -> np.ndarray:
    for name in names:
        refuse_not_numeric(second, name, "the target", "target")
    return np.column_stack([np.asarray(second.numbers(name), dtype=np.float64) for name in names])


def _read_second(source, roles: Roles, table: FrameColumns) -> tuple[FrameColumns, str]:
    title = Path(source).name if isinstance(source, str | Path) else "targets"
    if names_files(source):
        frame = read_files(source, replace(roles, targets=None), decimal=table.decimal)
        if frame is None:
            raise ParameterError("targets", f"{title} is not a table with named columns; give a .csv or .parquet")
    elif hasattr(source, "to_frame") and hasattr(source, "index"):  # a pandas Series
        raise ParameterError(
            "targets",
            "targets is a Series; pass targets=series.rename_axis('plot').reset_index(), a frame with the bag ids as a "
            "column",
        )
    else:
        frame = as_frame(source)
    return FrameColumns(frame, (*table.fill_values, *table.fill_texts), table.decimal), title


def _with_target(roles: Roles, table, second: FrameColumns, columns: list, title: str) -> Roles:
    """Return roles with the one column of the second table that can be the target, unless one is named."""
    if roles.target is not None:
        return roles
    free = [name for name in columns if name not in roles.asked() and second.kind(name) in ("number", "boolean")]
    if roles.bag_features == "auto":
        free = free if len(free) == 1 else []
    if len(free) > 1:
        raise ParameterError(
            "target",
            f"{title} has several columns of numbers ({', '.join(map(str, free[:5]))}); name the target with ",
            Parameter("target", free[0]),
        )
    return replace(roles, target=free[0]) if free else roles


def _match(ids: np.ndarray, second: FrameColumns, bag, title: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of the second table of each bag, -1 for none; and the ids there that no bag has."""
    rows, second_ids = find_bags(second, bag)
    repeated = np.bincount(rows, minlength=len(second_ids)) > 1
    if repeated.any():
        raise ParameterError(
            "targets", f"{name_bags(second_ids, repeated)} several rows in {title}; a second table has one row per bag"
        )
    row_of_bag = match_ids(ids, second_ids)
    if (row_of_bag < 0).all():
        raise ParameterError(
            "targets",
            f"no bag id is in both tables: the first has {label(ids[0])}, and {title} has {label(second_ids[0])}; "
            "write the ids in the same way",
        )
    return row_of_bag, np.delete(second_ids, row_of_bag[row_of_bag >= 0])
