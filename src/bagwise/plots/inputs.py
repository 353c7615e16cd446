"""The check of what is to be drawn: columns of finite numbers, equally long."""

from __future__ import annotations

import numpy as np


def columns(**named) -> list[np.ndarray]:
    """The arrays as columns of numbers; refused when one is of another length, or not finite."""
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in named.items()}
    first, *_ = arrays
    for name, values in arrays.items():
        if values.ndim != 1:
            raise ValueError(f"{name} must be a column of numbers, not an array of shape {values.shape}")
        if len(values) != len(arrays[first]):
            raise ValueError(f"{name} has {len(values)} values and {first} has {len(arrays[first])}; they must match")
        if not len(values) or not np.isfinite(values).all():
            raise ValueError(f"{name} must hold finite numbers, at least one; drop what is missing before drawing")
    return list(arrays.values())


def as_intervals(intervals, n: int) -> np.ndarray:
    """Lower and upper bound of each of n predictions."""
    intervals = np.asarray(intervals, dtype=np.float64)
    if intervals.shape != (n, 2):
        raise ValueError(f"intervals must have a lower and an upper bound for each of {n}, not shape {intervals.shape}")
    if not np.isfinite(intervals).all() or (intervals[:, 0] > intervals[:, 1]).any():
        raise ValueError("intervals must be finite, the lower bound first")
    return intervals
