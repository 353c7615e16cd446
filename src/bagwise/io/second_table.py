"""A second table with a row per bag (targets, groups, bag features), joined to the first by bag id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from bagwise.bags.frames import ExtendedColumns, FrameColumns, as_list
from bagwise.bags.validation import Message, Parameter, ParameterError, label, name_bags
from bagwise.io.columns import Roles, find_bags, refuse_unknown


class JoinedColumn:
    """A column of the second table, repeated for the rows of the first."""

    def __init__(self, table: FrameColumns, name, at: np.ndarray):
        self.table, self.name, self.at = table, name, at

    @property
    def kind(self) -> str:
        return self.table.kind(self.name)

    @property
    def single(self) -> bool:
        return self.table.single(self.name)

    def numbers(self) -> np.ndarray:
        return self.table.numbers(self.name)[self.at]

    def values(self) -> np.ndarray:
        return self.table.values(self.name)[self.at]

    def factorise(self) -> tuple[np.ndarray, np.ndarray]:
        codes, labels = self.table.factorise(self.name)
        return codes[self.at], labels


def join(table, roles: Roles) -> tuple:
    """The table with the columns of ``roles.targets``, roles that name its target, and notes on what found no partner.

    Bags without a target are left out, if there is one to learn; without a target every bag needs its row.
    """
    second, what = _read(roles.targets, roles, table)
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
        values = np.column_stack([np.asarray(second.numbers(name), dtype=np.float64) for name in targets])
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
    unused = [name for name in others if name not in roles.asked() and roles.bag_features != "auto"]
    if unused:
        more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
        numeric = [name for name in unused if second.kind(name) in ("number", "boolean")]
        named = ", ".join(map(repr, unused[:5])) + more
        notes.append(
            Message(
                f"column{'s' if len(unused) > 1 else ''} {named} of {what} {'are' if len(unused) > 1 else 'is'} not "
                "used; ",
                Parameter("bag_features", (numeric or unused)[:1]),
                " takes what describes the bag",
            )
        )
    more = {name: JoinedColumn(second, name, at) for name in others}
    joined = [name for name in others if name not in unused]
    table = ExtendedColumns(table, more, of_bags=joined)
    return table, replace(roles, targets=None, ignore=[*as_list(roles.ignore), *unused]), notes


def _had(marked: np.ndarray, one: str = "has", several: str = "have") -> str:
    return one if np.count_nonzero(marked) == 1 else several


def known_targets(source, roles: Roles, ids: np.ndarray, fill_values=()) -> np.ndarray:
    """The targets of some bags, a column each; NaN for a bag that has none in the second table."""
    second = FrameColumns(source, fill_values)
    refuse_unknown(second.names, [roles.bag, *roles.target_list], parameter="targets")
    row_of_bag, _ = _match(ids, second, roles.bag, "targets")
    values = np.column_stack([np.asarray(second.numbers(name), dtype=np.float64) for name in roles.target_list])
    return np.where(row_of_bag[:, None] >= 0, values[row_of_bag], np.nan)


def _read(source, roles: Roles, table) -> tuple[FrameColumns, str]:
    from bagwise.io.load import names_files
    from bagwise.io.tables import read_files

    decimal = getattr(table, "decimal", ".")
    if not names_files(source):
        if hasattr(source, "to_frame") and hasattr(source, "index"):  # a pandas Series
            raise ParameterError(
                "targets",
                "targets is a Series; pass targets=series.rename_axis('plot').reset_index(), a frame with "
                "the bag ids as a column",
            )
        return FrameColumns(source, table.fill_values, decimal), "targets"
    frame = read_files(source, replace(roles, targets=None), decimal=decimal)
    what = Path(source).name if not isinstance(source, list | tuple) else "targets"
    if frame is None:
        raise ParameterError("targets", f"{what} is no table with named columns; give a .csv or .parquet")
    return FrameColumns(frame, table.fill_values, decimal), what


def _with_target(roles: Roles, table, second: FrameColumns, others: list, what: str) -> Roles:
    """Roles with the one column of the second table that can be the target, unless one is named."""
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
    """The row of the second table of every bag, -1 for none; and the ids there that no bag has."""
    rows, theirs = find_bags(second, bag)
    again = np.bincount(rows, minlength=len(theirs)) > 1
    if again.any():
        raise ParameterError(
            "targets", f"{name_bags(theirs, again)} several rows in {what}; a second table has one row per bag"
        )
    known, here = _keys(theirs, ids)
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


def _keys(*several: np.ndarray) -> list[list]:
    """Ids as they are compared: as they are, or as they are written where one table has numbers and the other text."""
    numbers = [np.asarray(ids).dtype.kind in "iuf" for ids in several]
    if len(set(numbers)) == 1:
        return [ids.tolist() for ids in several]
    return [[_written(one) for one in ids.tolist()] for ids in several]


def _written(one) -> str:
    return str(int(one)) if isinstance(one, float) and one.is_integer() else str(one)
