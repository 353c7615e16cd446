"""Columns of lists: a bag per row (list columns), or the features of an instance in one cell (fixed-size lists)."""

from __future__ import annotations

import narwhals as nw
import numpy as np

from bagwise.bags.frames import ArrayColumns, to_numbers
from bagwise.bags.validation import name_bags


def spread_lists(table, names: list, codes: np.ndarray, ids: np.ndarray) -> tuple:
    """A table of plain columns with a row per instance, the names of its features, and the bag of every row.

    Plain columns beside list columns are repeated for every instance.
    """
    lists = {name: table.frame.get_column(name) for name in names if table.kind(name) == "list"}
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
    return ArrayColumns(arrays, table.fill_values), list(arrays), codes_of_instances


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
