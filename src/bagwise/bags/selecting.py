"""Which bags a selection means, and which rows are theirs."""

from __future__ import annotations

import numpy as np


def positions(key, n_bags: int) -> np.ndarray:
    """The positions meant by a slice, a list of integers or a mask of bags."""
    if isinstance(key, slice):
        return np.arange(n_bags)[key]
    key = np.asarray(key)
    if key.size == 0:
        return np.empty(0, dtype=np.intp)
    if key.ndim != 1 or key.dtype.kind not in "iub":
        raise IndexError("bags are selected by an integer, a slice, a list of integers, or a mask")
    if key.dtype == bool:
        if len(key) != n_bags:
            raise IndexError(f"a mask of {len(key)} for {n_bags} bags; give one truth value per bag")
        return np.flatnonzero(key)
    key = key.astype(np.intp)  # small integer types overflow below
    outside = (key < -n_bags) | (key >= n_bags)
    if outside.any():
        raise IndexError(f"there is no bag at position {key[outside][0]}; there are {n_bags} bags")
    return np.where(key < 0, key + n_bags, key)


def rows_of(offsets: np.ndarray, chosen: np.ndarray) -> np.ndarray | slice:
    """Where the instances of the chosen bags lie, bag after bag; a slice for a run of bags: a view, not a copy."""
    if len(chosen) and (np.diff(chosen) == 1).all():
        return slice(offsets[chosen[0]], offsets[chosen[-1] + 1])
    sizes = np.diff(offsets)[chosen]
    shifts = offsets[chosen] - np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.repeat(shifts, sizes) + np.arange(sizes.sum())
