"""What the columns of a table with a role must satisfy: bag ids never missing, one target and one group per bag."""

from __future__ import annotations

import numpy as np

from bagwise.bags.naming import name_bags
from bagwise.bags.parts import LARGEST, absent


def find_bags(table, bag) -> tuple[np.ndarray, np.ndarray]:
    refuse_no_labels(table, bag, "bag ids")
    codes, ids = table.factorise(bag)
    unknown = absent(ids)[codes]
    if unknown.any():
        raise ValueError(
            f"{np.count_nonzero(unknown):,} of {len(codes):,} rows have no bag id (the first is row "
            f"{unknown.argmax()}, counted from 0); fill in column {bag!r}, or drop those rows"
        )
    return codes, ids


def refuse_no_labels(table, name, what: str) -> None:
    if table.kind(name) in ("list", "vector") or table.kind(name).startswith(("List", "Array", "Struct")):
        raise TypeError(f"{what} must be text, integers or dates; column {name!r} holds lists or records")


def refuse_no_target(table, target) -> None:
    if table.kind(target) not in ("number", "boolean"):
        raise TypeError(f"the target must be numbers; column {target!r} is {table.kind(target)}")


def one_target(table, target, codes, first, ids) -> np.ndarray:
    refuse_no_target(table, target)
    values = np.asarray(table.numbers(target), dtype=np.float64)
    unknown = ~np.isfinite(values)
    if unknown.any():
        raise ValueError(
            f"{name_bags(ids, any_row(unknown, codes, ids))} a missing or infinite target in column {target!r}; "
            "drop such bags, or leave target out to predict them"
        )
    large = np.abs(values) > LARGEST
    if large.any():
        marked = any_row(large, codes, ids)
        raise ValueError(
            f"{name_bags(ids, marked)} a target beyond {LARGEST:g} in column {target!r}, whose square is infinite; "
            "rescale the targets, or look for a fill value"
        )
    y = values[first]
    differs = values != y[codes]
    if differs.any():
        marked = any_row(differs, codes, ids)
        row = np.flatnonzero(differs & (codes == marked.argmax()))[0]
        raise ValueError(
            f"{name_bags(ids, marked)} more than one target in column {target!r} "
            f"({float(y[codes[row]])} and {float(values[row])}); a bag has one target, the same on all its rows"
        )
    return y


def one_group(table, groups, codes, first, ids) -> np.ndarray:
    group_of_row, labels = table.factorise(groups)
    unknown = absent(labels)[group_of_row]
    if unknown.any():
        raise ValueError(
            f"{name_bags(ids, any_row(unknown, codes, ids))} rows without a group in column {groups!r}; "
            "give every bag one, or leave groups out"
        )
    differs = group_of_row != group_of_row[first][codes]
    if differs.any():
        raise ValueError(
            f"{name_bags(ids, any_row(differs, codes, ids))} rows of more than one group in column {groups!r}; "
            "a bag belongs to one group, the same on all its rows"
        )
    return labels[group_of_row[first]]


def any_row(marked: np.ndarray, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Which bags have a marked row."""
    return np.bincount(codes[marked], minlength=len(ids)) > 0
