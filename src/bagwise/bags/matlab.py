"""Bags from a MATLAB matrix: a row per instance, the bag id in the first column and the target in the last."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bagwise.bags.choosing import as_list
from bagwise.bags.columns import ArrayColumns
from bagwise.bags.reading import reading
from bagwise.bags.tables import gather

# Published files whose columns are known: so many reflectances, then so many angles.
_LAYOUTS = {"misr1": (12, 4), "misr2": (12, 4), "modis": (7, 5)}


def load_mat(
    path: Path, *, bag, target, features, ignore, groups, missing, fill_values, weights, bag_features, variable
):
    """See `bagwise.load`. Columns are given by name or by position, counted from the end if negative."""
    matrix = _find_matrix(path, variable)
    bag, target = 0 if bag is None else bag, -1 if target is None else target
    names = _name_columns(path.stem.lower(), matrix.shape[1], bag, target)
    bag, target, groups, weights = (_name_of(column, names) for column in (bag, target, groups, weights))
    if bag_features is not None and bag_features != "auto":
        bag_features = [_name_of(column, names) for column in as_list(bag_features)]
    columns = dict(zip(names, matrix.T, strict=True))
    ids = columns.get(bag)
    if ids is not None and (ids == np.trunc(ids)).all() and np.abs(ids).max() < 2**53:  # MATLAB counts in doubles
        columns[bag] = ids.astype(np.int64)
    return gather(
        ArrayColumns(columns),
        bag=bag,
        target=target,
        features=None if features is None else [_name_of(column, names) for column in as_list(features)],
        ignore=[_name_of(column, names) for column in as_list(ignore)],
        groups=groups,
        missing=missing,
        fill_values=fill_values,
        weights=weights,
        bag_features=bag_features,
    )


def _find_matrix(path: Path, variable: str | None) -> np.ndarray:
    from scipy.io import loadmat

    with path.open("rb") as file:
        if file.read(10) == b"MATLAB 7.3":
            raise ValueError(f"{path} is a MATLAB 7.3 (HDF5) file, which is not read; save it again with '-v7'")
    with reading(path):
        contents = loadmat(path)
    matrices = {name: value for name, value in contents.items() if _is_matrix(value)}
    if not matrices:
        raise ValueError(f"{path} holds no matrix of numbers with at least 3 columns (bag id, features, target)")
    if variable is None and len(matrices) > 1:
        raise ValueError(f"{path} holds several matrices; choose one with variable=: {', '.join(matrices)}")
    if variable is not None and variable not in matrices:
        raise ValueError(f"{path} holds no matrix {variable!r}; it holds {', '.join(matrices)}")
    return matrices[variable or next(iter(matrices))]


def _is_matrix(value) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fiu" and value.shape[1] >= 3


def _name_columns(stem: str, width: int, bag, target) -> list[str]:
    """ "bag", "target", and the features between them: by the published layout of the file, or x1, x2, ..."""
    bag_at = _position(bag if _is_position(bag) else 0, width)
    target_at = _position(target if _is_position(target) else -1, width)
    at = {bag_at: "bag", target_at: "target"}
    features = [f"x{j + 1}" for j in range(width - len(at))]
    reflectances, angles = _LAYOUTS.get(stem, (0, 0))
    if at == {0: "bag", width - 1: "target"} and reflectances + angles == len(features):
        features = [f"reflectance_{j + 1}" for j in range(reflectances)] + [f"angle_{j + 1}" for j in range(angles)]
    rest = iter(features)
    return [at.get(j) or next(rest) for j in range(width)]


def _name_of(column, names: list[str]):
    return names[_position(column, len(names))] if _is_position(column) else column


def _is_position(column) -> bool:
    return isinstance(column, int | np.integer)


def _position(column: int, width: int) -> int:
    if not -width <= column < width:
        raise ValueError(f"there is no column {column}; the matrix has {width}, counted from 0")
    return int(column) % width
