"""Reductions over the rows of every bag, in one tested place.

`numpy.ufunc.reduceat` is silently wrong for an empty bag; `Bags` refuses those, so no reduction here meets one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def segment_sum(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum over every bag, along the first axis."""
    return np.add.reduceat(values, offsets[:-1], axis=0)


def segment_mean(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Mean over every bag, along the first axis."""
    sizes = np.diff(offsets)
    return segment_sum(values, offsets) / sizes.reshape(-1, *[1] * (values.ndim - 1))


def segment_min(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Minimum over every bag, along the first axis."""
    return np.minimum.reduceat(values, offsets[:-1], axis=0)


def segment_max(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Maximum over every bag, along the first axis."""
    return np.maximum.reduceat(values, offsets[:-1], axis=0)


def segment_quantiles(values: np.ndarray, offsets: np.ndarray, probabilities) -> np.ndarray:
    """Quantiles of every bag, interpolated linearly as by `numpy.quantile`: (bags, probabilities[, columns]).

    One sort of each column inside its bags (by value, then stably by bag) serves all bags at once. A bag with NaN
    in a column has NaN for its quantiles.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if probabilities.ndim != 1 or not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError("probabilities must be a list of numbers between 0 and 1")
    values = np.asarray(values, dtype=np.float64)
    flat = values.reshape(len(values), -1)
    sizes = np.diff(offsets)
    bag_of_row = np.repeat(np.arange(len(sizes)), sizes)
    at = (sizes[:, None] - 1) * probabilities[None, :]
    below = np.floor(at).astype(np.int64)
    share = at - below
    above = np.minimum(below + 1, sizes[:, None] - 1)
    out = np.empty((len(sizes), at.shape[1], flat.shape[1]))
    for j in range(flat.shape[1]):
        ordered = flat[np.lexsort((flat[:, j], bag_of_row)), j]
        low, high = ordered[offsets[:-1, None] + below], ordered[offsets[:-1, None] + above]
        out[:, :, j] = low + share * (high - low)
        out[np.isnan(ordered[offsets[1:] - 1]), :, j] = np.nan  # NaN is sorted to the end of its bag
    return out.reshape(len(sizes), at.shape[1], *values.shape[1:])


def segment_median(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Median of every bag, along the first axis."""
    return segment_quantiles(values, offsets, [0.5])[:, 0]


def segment_softmax(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """exp(score) normalised to sum to one inside every bag, without overflow."""
    sizes = np.diff(offsets)
    shifted = np.exp(scores - np.repeat(segment_max(scores, offsets), sizes, axis=0))
    return shifted / np.repeat(segment_sum(shifted, offsets), sizes, axis=0)


def row_blocks(offsets: np.ndarray, size: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Walk the rows in blocks of at most ``size``, cutting long bags in two where needed.

    Yields the rows of the block, the bags it touches, and the block's own offsets for those bags. Sums over bags
    add up over blocks: ``total[bags] += segment_sum(f(rows), own_offsets)``.
    """
    n_rows = int(offsets[-1])
    for start in range(0, n_rows, size):
        stop = min(start + size, n_rows)
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        yield slice(start, stop), slice(first, last), np.clip(offsets[first : last + 1], start, stop) - start
