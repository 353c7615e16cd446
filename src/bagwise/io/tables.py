"""Bags from a long table: one row per instance, a column that says which bag it belongs to.

What the columns of a table with a role must satisfy: bag ids never missing, one target and one group per bag.

Columns of a table that belong to the bag as a whole: asked for, or found.

Columns of lists: a bag per row (list columns), or the features of an instance in one cell (fixed-size lists).
"""

from __future__ import annotations

import warnings

import narwhals as nw
import numpy as np
from scipy.sparse import csr_array

from bagwise.bags.container import Bags
from bagwise.bags.fill_values import FilledColumns, as_fill_values, warn_of_suspects
from bagwise.bags.frames import (
    ArrayColumns,
    FrameColumns,
    as_list,
    as_matrix,
    choose_features,
    refuse_unknown,
    to_numbers,
)
from bagwise.bags.validation import LARGEST, absent, name_bags
from bagwise.io.columns import alike_ids, doubtful_texts


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


def spread(table, names: list, codes: np.ndarray, ids: np.ndarray) -> tuple:
    """A table of plain columns with a row per instance, the names of its features, and the bag of every row.

    A table without lists comes back as it is. Plain columns beside list columns are repeated for every instance.
    """
    kinds = {name: table.kind(name) for name in names}
    if not {"list", "vector"} & set(kinds.values()):
        return table, names, codes
    lists = {name: table.frame.get_column(name) for name in names if kinds[name] == "list"}
    sizes = _sizes(lists, codes, ids) if lists else np.ones(len(codes), dtype=np.int64)
    codes_of_instances = np.repeat(codes, sizes)
    arrays = {}
    for name in names:
        if name in lists:
            block = _instances(name, lists[name], codes_of_instances, ids)
        else:
            block = np.repeat(_features(name, table.column(name), codes, ids), sizes, axis=0)
        columns = {name: block} if block.ndim == 1 else {f"{name}_{j}": part for j, part in enumerate(block.T, 1)}
        twice = arrays.keys() & columns.keys()
        if twice:
            raise ValueError(f"two features would be named {min(twice)!r}; rename the column of that name")
        arrays |= columns
    return ArrayColumns(arrays), list(arrays), codes_of_instances


def _sizes(lists: dict, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The number of instances of every bag, on which all list columns must agree."""
    if len(ids) < len(codes):
        raise ValueError(
            f"{name_bags(ids, np.bincount(codes) > 1)} several rows, but a list column holds a whole bag in one row; "
            "if each list holds the features of one instance, make it a fixed-size list, or a column per feature"
        )
    lengths = {name: _lengths(series) for name, series in lists.items()}
    for name, own in lengths.items():
        if (own <= 0).any():
            raise ValueError(
                f"{name_bags(ids, own <= 0)} no list, or an empty one, in column {name!r}; "
                "every bag needs at least one instance: leave such bags out"
            )
    first = next(iter(lengths))
    for name, own in lengths.items():
        if (own != lengths[first]).any():
            i = (own != lengths[first]).argmax()
            raise ValueError(
                f"{name_bags(ids, own != lengths[first])} lists of different lengths: {lengths[first][i]} values "
                f"in column {first!r}, {own[i]} in column {name!r}; every instance needs a value in both"
            )
    return lengths[first]


def _instances(name, cells: nw.Series, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """One cell per bag, the list of its instances, as an array with a row per instance."""
    if cells.dtype != nw.Object:
        return _features(name, _flatten(cells), codes, ids)
    arrays = [_as_array(cell) for cell in cells.to_list()]
    model = next((array for array in arrays if array is not None), None)
    odd = np.array([array is None or array.shape[1:] != model.shape[1:] for array in arrays])
    if odd.any():
        raise ValueError(
            f"{name_bags(ids, odd)} in column {name!r} what is not a list of numbers, "
            "nor of equally long lists of numbers, as in the other bags"
        )
    return np.concatenate(arrays)


def _as_array(cell) -> np.ndarray | None:
    """A list that pandas holds as an object, as numbers; None if it cannot be."""
    try:
        array = np.array(cell.tolist() if isinstance(cell, np.ndarray) and cell.dtype.kind == "O" else cell)
    except ValueError:  # lists of different lengths
        return None
    return array if array.dtype.kind in "fiub" and array.ndim in (1, 2) else None


def _features(name, cells: nw.Series, codes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """One cell per instance, a number or a list of them, as an array of one or two axes."""
    if cells.dtype != nw.List and cells.dtype != nw.Array:
        return to_numbers(cells)
    widths = _lengths(cells)
    width = int(widths.max())
    if width < 1 or (widths != width).any():
        marked = np.bincount(codes[(widths < 1) | (widths != width)], minlength=len(ids)) > 0
        raise ValueError(
            f"{name_bags(ids, marked)} instances without a full list of features in column {name!r}; "
            f"every instance needs the same number of features (the longest list has {max(width, 0)})"
        )
    return _features(name, _flatten(cells), codes, ids).reshape(-1, width)


def _lengths(series: nw.Series) -> np.ndarray:
    """The length of every list; -1 for null."""
    if series.dtype == nw.Object:
        return np.array([len(cell) if hasattr(cell, "__len__") else -1 for cell in series.to_list()])
    if series.dtype == nw.Array:
        return np.where(series.is_null().to_numpy(), -1, series.dtype.shape[0])
    return series.list.len().cast(nw.Int64).fill_null(-1).to_numpy()


def _flatten(series: nw.Series) -> nw.Series:
    """The elements of all lists, one after the other; no list may be null."""
    if series.implementation.is_polars():
        return nw.from_native(series.to_native().explode(), series_only=True)
    import pyarrow as pa
    import pyarrow.compute as pc

    column = series.to_arrow()
    column = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    return nw.from_native(pc.list_flatten(column), series_only=True)


def from_table(
    frame,
    *,
    bag,
    target=None,
    features=None,
    ignore=(),
    groups=None,
    missing="refuse",
    fill_values=(),
    weights=None,
    bag_features=None,
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
        when named here. A column of text is none, with a warning if most of its values are numbers.
    ignore : columns to leave out of the default features
    groups : column of labels, the same on every row of a bag, optional
        Bags of one group stay together in every inner split.
    missing : {"refuse", "drop-instances", "keep"}
        What happens to rows with NaN or null features. Infinite values are dropped by "drop-instances", else refused.
    fill_values : number or numbers, default none
        What stands for a missing value in the features, the target, the weights and the covariates, such as -9999; it
        is then missing, and ``missing`` says what happens. A warning names values that look like it.
    weights : column of instance weights, optional
        Numbers from zero up, some above zero in every bag.
    bag_features : columns, or "auto", optional
        Columns that are the same on every row of a bag and belong to the bag as a whole: they become its covariates,
        and are no features of the instances. "auto" takes every feature column that never varies within a bag (one
        feature at least stays with the instances; with bags of one row only nothing can be told, and none is taken).

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
        fill_values=fill_values,
        weights=weights,
        bag_features=bag_features,
    )


def gather(
    table, *, bag, target, features, ignore, groups, missing, fill_values=(), weights=None, bag_features=None
) -> tuple[Bags, np.ndarray | None]:
    """`from_table` for columns of any origin (see `columns`)."""
    if missing not in ("refuse", "drop-instances", "keep"):
        raise ValueError(f"missing must be 'refuse', 'drop-instances' or 'keep', not {missing!r}")
    table, fill_values = FilledColumns(table, as_fill_values(fill_values)), as_fill_values(fill_values)
    roles = {"bag": bag, "target": target, "groups": groups, "weights": weights}
    if table.n_rows == 0:
        raise ValueError("the table has no rows; there is nothing to make bags of")
    names = choose_features(table, **roles, features=features, ignore=ignore)
    if features is None:
        for doubt in doubtful_texts(table, {*names, *roles.values(), *as_list(ignore)}).values():
            warnings.warn(doubt, stacklevel=4)
    codes, ids = find_bags(table, bag)
    if doubt := alike_ids(ids):
        warnings.warn(doubt, stacklevel=4)
    # the first row of every bag: bags are numbered as they appear, so the highest number so far rises there
    first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    y = None if target is None else one_target(table, target, codes, first, ids)
    labels = None if groups is None else one_group(table, groups, codes, first, ids)
    names, covariates = split_off(table, names, bag_features, roles.values(), codes, first, ids)
    weighed = [] if weights is None else [weights]
    table, columns, codes = spread(table, [*names, *weighed], codes, ids)
    table = FilledColumns(table, fill_values)  # columns of lists were taken apart
    names = [name for name in columns if name not in weighed]
    rows, offsets = _rows_in_order(table, names, codes, ids, missing)
    extra = covariates | {"weights": table.numbers(weights)[rows] if weighed else None, "groups": labels}
    missing = "keep" if missing == "keep" else "refuse"
    bags = Bags(as_matrix(table, names, rows), offsets, ids, feature_names=names, missing=missing, **extra)
    warn_of_suspects([*zip(names, bags.instances.T, strict=True), *([] if y is None else [(target, y)])])
    return bags, y


def fill(table, names, codes, ids, missing) -> tuple[np.ndarray, np.ndarray]:
    """The instances, bag after bag, and their offsets."""
    rows, offsets = _rows_in_order(table, names, codes, ids, missing)
    return as_matrix(table, names, rows), offsets


def _rows_in_order(table, names, codes, ids, missing) -> tuple[np.ndarray | slice, np.ndarray]:
    """The rows that are instances, bag after bag (a slice for all, as they are), and the offsets of the bags."""
    rows = slice(None)
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
        rows = order if isinstance(rows, slice) else rows[order]
    return rows, np.concatenate([[0], np.cumsum(sizes)])


def _grouping_order(codes: np.ndarray, n_bags: int) -> np.ndarray:
    """A stable sort of the rows by bag. Transposing a sparse matrix counts instead of comparing: 10 times faster."""
    n = len(codes)
    cells = csr_array((np.ones(n, dtype=bool), codes, np.arange(n + 1)), shape=(n, n_bags))
    return cells.tocsc().indices
