"""Bags from a long table: one row per instance, a column that says which bag it belongs to."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from bagwise.bags.choosing import choose_features
from bagwise.bags.columns import FrameColumns
from bagwise.bags.container import Bags
from bagwise.bags.lists import spread
from bagwise.bags.naming import name_bags
from bagwise.bags.parts import absent


def from_table(
    frame, *, bag, target=None, features=None, ignore=(), groups=None, missing="refuse"
) -> tuple[Bags, np.ndarray | None]:
    """Bags and targets from a data frame of any library (pandas, polars, pyarrow, ...).

    Bags come in order of first appearance; the rows of a bag need not be adjacent. Two types of column have a shape
    of their own. A column of *lists* holds a bag per row: the values of its instances, or one list of features per
    instance; plain columns beside it are repeated for every instance. A column of *fixed-size* lists holds an
    instance per row: its features, named ``column_1``, ``column_2``, ...

    Parameters
    ----------
    frame : data frame
    bag : column of bag ids
        Text, integers, dates or categories; never null.
    target : column of targets, optional
        The same number on every row of a bag.
    features : columns, optional
        Default: every numeric column that is not the bag, target or groups, nor ignored. Booleans are taken only
        when named here.
    ignore : columns to leave out of the default features
    groups : column of labels, the same on every row of a bag, optional
        Bags of one group stay together in every inner split.
    missing : {"refuse", "drop-instances", "keep"}
        What happens to rows with NaN or null features. Infinite values are dropped by "drop-instances", else refused.

    Returns
    -------
    bags : Bags
        float32 if every feature column is, else float64.
    y : array of float64, one target per bag, or None without ``target``

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "aod": [0.3, 0.1, 0.3], "red": [1.0, 2.0, 3.0]})
    >>> bags, y = bw.from_table(frame, bag="site", target="aod")
    >>> bags.ids.tolist(), y.tolist(), bags[0].tolist()
    (['b', 'a'], [0.3, 0.1], [[1.0], [3.0]])
    """
    return gather(
        FrameColumns(frame),
        bag=bag,
        target=target,
        features=features,
        ignore=ignore,
        groups=groups,
        missing=missing,
    )


def gather(table, *, bag, target, features, ignore, groups, missing) -> tuple[Bags, np.ndarray | None]:
    """`from_table` for columns of any origin (see `columns`)."""
    if missing not in ("refuse", "drop-instances", "keep"):
        raise ValueError(f"missing must be 'refuse', 'drop-instances' or 'keep', not {missing!r}")
    names = choose_features(table, bag=bag, target=target, groups=groups, features=features, ignore=ignore)
    if table.n_rows == 0:
        raise ValueError("the table has no rows; there is nothing to make bags of")
    codes, ids = _find_bags(table, bag)
    # the first row of every bag: bags are numbered as they appear, so the highest number so far rises there
    first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    y = None if target is None else _one_target(table, target, codes, first, ids)
    labels = None if groups is None else _one_group(table, groups, codes, first, ids)
    table, names, codes = spread(table, names, codes, ids)
    instances, offsets = fill(table, names, codes, ids, missing)
    missing = "keep" if missing == "keep" else "refuse"
    return Bags(instances, offsets, ids, groups=labels, feature_names=names, missing=missing), y


def fill(table, names, codes, ids, missing) -> tuple[np.ndarray, np.ndarray]:
    """The instances, bag after bag, and their offsets; column by column into one array, the only copy made."""
    rows = None  # all of them, as they are
    if missing == "drop-instances":
        finite = np.ones(len(codes), dtype=bool)
        for name in names:
            finite &= np.isfinite(table.numbers(name))
        rows = np.flatnonzero(finite)
        codes = codes[rows]
    sizes = np.bincount(codes, minlength=len(ids))
    if missing == "drop-instances" and (sizes == 0).any():
        raise ValueError(
            f"{name_bags(ids, sizes == 0)} no finite instance; every bag needs one; "
            "drop such bags and their targets, or fill the values in"
        )
    if (codes[1:] < codes[:-1]).any():
        order = _grouping_order(codes, len(ids))
        rows = order if rows is None else rows[order]
    single = all(table.single(name) for name in names)
    instances = np.empty((len(codes), len(names)), dtype=np.float32 if single else np.float64)
    for j, name in enumerate(names):
        column = table.numbers(name)
        instances[:, j] = column if rows is None else column[rows]
    return instances, np.concatenate([[0], np.cumsum(sizes)])


def _grouping_order(codes: np.ndarray, n_bags: int) -> np.ndarray:
    """A stable sort of the rows by bag. Transposing a sparse matrix counts instead of comparing: 10 times faster."""
    n = len(codes)
    cells = csr_array((np.ones(n, dtype=bool), codes, np.arange(n + 1)), shape=(n, n_bags))
    return cells.tocsc().indices


def _find_bags(table, bag) -> tuple[np.ndarray, np.ndarray]:
    if table.kind(bag) in ("list", "vector") or table.kind(bag).startswith(("List", "Array", "Struct")):
        raise TypeError(f"bag ids must be text, integers or dates; column {bag!r} holds lists or records")
    codes, ids = table.factorise(bag)
    unknown = absent(ids)[codes]
    if unknown.any():
        raise ValueError(
            f"{np.count_nonzero(unknown):,} of {len(codes):,} rows have no bag id (the first is row "
            f"{unknown.argmax()}, counted from 0); fill in column {bag!r}, or drop those rows"
        )
    return codes, ids


def _one_target(table, target, codes, first, ids) -> np.ndarray:
    if table.kind(target) not in ("number", "boolean"):
        raise TypeError(f"the target must be numbers; column {target!r} is {table.kind(target)}")
    values = np.asarray(table.numbers(target), dtype=np.float64)
    unknown = ~np.isfinite(values)
    if unknown.any():
        raise ValueError(
            f"{name_bags(ids, _any_row(unknown, codes, ids))} a missing or infinite target in column {target!r}; "
            "drop such bags, or leave target out to predict them"
        )
    y = values[first]
    differs = values != y[codes]
    if differs.any():
        marked = _any_row(differs, codes, ids)
        row = np.flatnonzero(differs & (codes == marked.argmax()))[0]
        raise ValueError(
            f"{name_bags(ids, marked)} more than one target in column {target!r} "
            f"({float(y[codes[row]])} and {float(values[row])}); a bag has one target, the same on all its rows"
        )
    return y


def _one_group(table, groups, codes, first, ids) -> np.ndarray:
    group_of_row, labels = table.factorise(groups)
    unknown = absent(labels)[group_of_row]
    if unknown.any():
        raise ValueError(
            f"{name_bags(ids, _any_row(unknown, codes, ids))} rows without a group in column {groups!r}; "
            "give every bag one, or leave groups out"
        )
    differs = group_of_row != group_of_row[first][codes]
    if differs.any():
        raise ValueError(
            f"{name_bags(ids, _any_row(differs, codes, ids))} rows of more than one group in column {groups!r}; "
            "a bag belongs to one group, the same on all its rows"
        )
    return labels[group_of_row[first]]


def _any_row(marked: np.ndarray, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Which bags have a marked row."""
    return np.bincount(codes[marked], minlength=len(ids)) > 0
