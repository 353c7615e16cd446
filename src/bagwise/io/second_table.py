"""A second table with a row per bag (targets, groups, bag features), joined by bag id."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bagwise.bags.frames import FrameColumns, as_list, names_files
from bagwise.bags.validation import ParameterError, label, match_ids, name_bags
from bagwise.io.columns import Roles, find_bags, is_made_of, name_columns, refuse_not_numeric, refuse_unknown
from bagwise.io.table_files import read_files


def join(table, roles: Roles) -> tuple:
    """Join the second table ``roles.targets``; return the table, roles that name its target, and notes.

    If there is a target, bags without a value are left out; otherwise each bag needs a row in the second table.
    """
    fill_values = (*table.fill_values, *table.fill_texts)
    second, source = read_second(roles.targets, roles, fill_values, table.decimal)
    if roles.bag not in second.names:
        raise ParameterError(
            "targets",
            f"{source} has no column {roles.bag!r}, by which it is joined; its columns are "
            f"{', '.join(map(str, second.names))}: rename the one with the bag ids, or name it with bag=",
        )
    columns = [name for name in second.names if name != roles.bag]
    if repeated := [name for name in columns if name in table.names and name in roles.asked()]:
        raise ParameterError(
            "targets",
            f"column {repeated[0]!r} is in the table and in {source}; drop it from one of them, or rename it there",
        )
    columns = [name for name in columns if name not in table.names]
    roles = _with_target(roles, second, columns, source)
    codes, ids = find_bags(table, roles.bag)
    row_of_bag, ids_without_bag = match_rows(ids, second, roles.bag, source)
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
    encoded = [*roles.category_list, *as_list(roles.dates)]
    for name in roles.covariate_list:
        if name in columns and name not in encoded:  # here, where rows are those of the second table
            refuse_not_numeric(second, name, "a bag feature", "bag_features")
    used = {name for name in columns if any(is_made_of(name, role) for role in roles.asked())}
    unused = [] if roles.bag_features == "auto" else [name for name in columns if name not in used]
    if unused:
        numeric = [name for name in unused if second.kind(name) in ("number", "boolean")]
        are = "are" if len(unused) > 1 else "is"
        way = f"groups={unused[0]!r} would keep bags of one group together"
        if numeric:
            way = f"bag_features={numeric[:1]} takes what describes the bag"
        notes.append(f"{name_columns(list(map(repr, unused)))} of {source} {are} not used; {way}")
    at = row_of_bag[codes]
    table = table.with_columns(
        {name: partial(second.select, name, at) for name in columns},
        of_bags=[name for name in columns if name not in unused],
    )
    return table, replace(roles, targets=None, ignore=[*as_list(roles.ignore), *unused]), notes


def known_targets(source, roles: Roles, ids: np.ndarray, fill_values=()) -> np.ndarray:
    """Return a column per target for the given bags; NaN for a bag without a target in the second table."""
    second = FrameColumns(source, fill_values)
    refuse_unknown(second.names, [roles.bag, *roles.target_list], parameter="targets")
    row_of_bag, _ = match_rows(ids, second, roles.bag, "targets")
    return np.where(row_of_bag[:, None] >= 0, _targets(second, roles.target_list)[row_of_bag], np.nan)


def _targets(second: FrameColumns, names: list) -> np.ndarray:
    for name in names:
        refuse_not_numeric(second, name, "the target", "target")
    return np.column_stack([np.asarray(second.numbers(name), dtype=np.float64) for name in names])


def read_second(source, roles: Roles, fill_values=(), decimal: str = ".") -> tuple[FrameColumns, str]:
    """Return the columns of a second table, and the name by which messages refer to it."""
    title = Path(source).name if isinstance(source, str | Path) else "targets"
    if hasattr(source, "to_frame") and hasattr(source, "index"):  # a pandas Series
        raise ParameterError(
            "targets",
            "targets is a Series; pass targets=series.rename_axis('plot').reset_index(), a frame with the bag ids as a "
            "column",
        )
    frame = read_files(source, replace(roles, targets=None), decimal=decimal) if names_files(source) else source
    if frame is None:
        raise ParameterError("targets", f"{title} is not a table with named columns; give a .csv or .parquet")
    return FrameColumns(frame, fill_values, decimal), title


def _with_target(roles: Roles, second: FrameColumns, columns: list, title: str) -> Roles:
    """Return the roles with a target; without one, the only free numeric column of the second table is used."""
    if roles.target is not None:
        return roles
    free = [name for name in columns if name not in roles.asked() and second.kind(name) in ("number", "boolean")]
    if roles.bag_features == "auto":
        free = free if len(free) == 1 else []
    if len(free) > 1:
        raise ParameterError(
            "target",
            f"{title} has several columns of numbers ({', '.join(map(str, free[:5]))}); name the target with "
            f"target={free[0]!r}",
        )
    return replace(roles, target=free[0]) if free else roles


def match_rows(ids: np.ndarray, second: FrameColumns, bag, title: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each bag in the second table (-1 if there is none), and the ids that belong to no bag."""
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
