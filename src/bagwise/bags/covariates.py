"""Columns of a table that belong to the bag as a whole: asked for, or found."""

from __future__ import annotations

import numpy as np

from bagwise.bags.choosing import as_list, refuse_unknown
from bagwise.bags.naming import name_bags


def split_off(table, names: list, bag_features, roles, codes, first, ids) -> tuple[list, dict]:
    """The features that stay with the instances, and ``covariates`` and ``covariate_names`` of the bags.

    ``codes`` is the bag of every row, ``first`` the first row of every bag.
    """
    if bag_features is None:
        return names, {}
    if isinstance(bag_features, str) and bag_features == "auto":
        chosen = _constant(table, names, codes, first)
    else:
        chosen = as_list(bag_features)
        _refuse(table, chosen, roles)
    left = [name for name in names if name not in chosen]
    if not left:
        raise ValueError("every feature column is a bag feature; at least one must be left for the instances")
    if not chosen:
        return names, {}
    columns = [_one_per_bag(table, name, codes, first, ids) for name in chosen]
    return left, {"covariates": np.column_stack(columns), "covariate_names": chosen}


def _refuse(table, chosen, roles) -> None:
    refuse_unknown(table.names, chosen)
    taken = [name for name in chosen if name in [role for role in roles if role is not None]]
    if taken:
        raise ValueError(f"column {taken[0]!r} has another role; it cannot be a bag feature as well")
    odd = [name for name in chosen if table.kind(name) not in ("number", "boolean")]
    if odd:
        raise TypeError(f"a bag feature must be numbers; column {odd[0]!r} is {table.kind(odd[0])}")


def _constant(table, names, codes, first) -> list:
    """The feature columns that never vary within a bag; all but the first if that would leave no instance feature."""
    if len(first) == table.n_rows and not any(table.kind(name) == "list" for name in names):
        return []  # bags of one row: anything is constant
    plain = [name for name in names if table.kind(name) == "number"]
    found = [name for name in plain if not _varies(table, name, codes, first).any()]
    return found[1:] if len(found) == len(names) else found


def _varies(table, name, codes, first) -> np.ndarray:
    values = np.asarray(table.numbers(name), dtype=np.float64)
    return (values != values[first][codes]) & ~(np.isnan(values) & np.isnan(values[first][codes]))


def _one_per_bag(table, name, codes, first, ids) -> np.ndarray:
    varies = _varies(table, name, codes, first)
    if varies.any():
        marked = np.bincount(codes[varies], minlength=len(ids)) > 0
        raise ValueError(
            f"{name_bags(ids, marked)} more than one value in column {name!r}; a bag feature is the same on all rows "
            "of a bag: leave the column to the instances"
        )
    return np.asarray(table.numbers(name), dtype=np.float64)[first]
