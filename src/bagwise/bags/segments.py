"""Reductions over the rows of each bag: sums, means, extremes, quantiles and medians, with optional row weights.

A row of weight zero does not count. `numpy.ufunc.reduceat` is silently wrong for an empty bag; `Bags` refuses those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

SEARCHED = 1024  # bags searched at a time; keys contain the number of the bag, which costs digits
WIDE = 8  # columns from which a matrix product is faster
ROUNDING = 1e-9  # relative to a bag's weight: so close to one half counts as one half


def segment_sum(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum over each bag, along the first axis, in double precision."""
    if values.ndim == 2 and values.shape[1] >= WIDE:  # a sparse product is 3 to 10 times faster than reduceat
        from scipy.sparse import csr_array  # here: loading stays light

        ones, rows = np.ones(len(values)), np.arange(len(values))
        cells = csr_array((ones, rows, offsets), shape=(len(offsets) - 1, len(values)))
        return cells @ np.asarray(values, dtype=np.float64)
    return np.add.reduceat(values, offsets[:-1], axis=0, dtype=np.float64 if values.dtype == np.float32 else None)


def shares(weights: np.ndarray | None, offsets: np.ndarray) -> np.ndarray:
    """Return the share of each instance in its bag: its weight over that of the bag; 1 / size without weights."""
    sizes = np.diff(offsets)
    if weights is None:
        return np.repeat(1.0 / sizes, sizes)
    largest = np.maximum.reduceat(weights, offsets[:-1])  # dividing by it prevents overflow of sums
    relative = weights / np.repeat(largest, sizes)
    return relative / np.repeat(np.add.reduceat(relative, offsets[:-1]), sizes)


def segment_mean(values: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the mean of each bag, along the first axis; with weights Σ w v / Σ w."""
    column = (-1, *[1] * (values.ndim - 1))
    if weights is not None:
        return segment_sum(values * shares(weights, offsets).reshape(column), offsets)
    return segment_sum(values, offsets) / np.diff(offsets).reshape(column)


def segment_cumsum(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute running sums within each bag."""
    return _within_bags(np.cumsum, values, offsets)


def _within_bags(function, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Apply `numpy.cumsum` or `numpy.sort` within each bag; bags of one size are handled at once."""
    out, sizes = np.empty_like(values), np.diff(offsets)
    for size in np.unique(sizes):
        rows = offsets[:-1][sizes == size][:, None] + np.arange(size)
        out[rows] = function(values[rows], axis=1)
    return out


def segment_search(
    rising: np.ndarray, offsets: np.ndarray, targets: np.ndarray, side: Literal["left", "right"] = "left"
) -> np.ndarray:
    """Search each bag for its targets (bags, k) among its rows, which rise from 0 to 1; return row numbers.

    One `numpy.searchsorted` searches several bags, for which the number of the bag is added to the values. Only
    `SEARCHED` bags are searched at a time, because large numbers would cost digits.
    """
    out, sizes = np.empty(targets.shape, dtype=np.int64), np.diff(offsets)
    for start in range(0, len(sizes), SEARCHED):
        chunk = slice(start, min(start + SEARCHED, len(sizes)))
        apart = 2.0 * np.arange(chunk.stop - start)
        keys = rising[offsets[start] : offsets[chunk.stop]] + np.repeat(apart, sizes[chunk])
        out[chunk] = offsets[start] + np.searchsorted(keys, targets[chunk] + apart[:, None], side=side)
    return out


def segment_min(values: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the minimum of each bag, along the first axis."""
    values, offsets = counting(values, offsets, weights)[:2]
    return np.minimum.reduceat(values, offsets[:-1], axis=0)


def segment_max(values: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the maximum of each bag, along the first axis."""
    values, offsets = counting(values, offsets, weights)[:2]
    return np.maximum.reduceat(values, offsets[:-1], axis=0)


def segment_quantiles(values: np.ndarray, offsets: np.ndarray, probabilities, weights=None) -> np.ndarray:
    """Compute quantiles of each bag, interpolated linearly as by `numpy.quantile`: (bags, probabilities[, columns]).

    A bag with NaN in a column has NaN for its quantiles. With weights the k-th smallest of n values stands at the
    probability (m_k - m_1) / (m_n - m_1), with m_k = w_1 + ... + w_{k-1} + w_k / 2 the middle of its weight. That is
    (k - 1) / (n - 1) when all weigh the same.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if probabilities.ndim != 1 or not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError("probabilities must be a list of numbers between 0 and 1")
    values, offsets, weights = counting(np.asarray(values, dtype=np.float64), offsets, weights)
    flat, n_bags = values.reshape(len(values), -1), len(offsets) - 1
    bag_of_row = np.repeat(np.arange(n_bags), np.diff(offsets))
    out = np.empty((n_bags, len(probabilities), flat.shape[1]))
    for j in range(flat.shape[1]):
        if weights is None:
            ordered, ordered_weights = _within_bags(np.sort, flat[:, j], offsets), None
        else:
            order = np.lexsort((flat[:, j], bag_of_row))
            ordered, ordered_weights = flat[order, j], weights[order]
        below, share = _places(offsets, probabilities, ordered_weights)
        above = np.minimum(below + 1, offsets[1:, None] - 1)
        out[:, :, j] = ordered[below] + share * (ordered[above] - ordered[below])
        out[np.isnan(ordered[offsets[1:] - 1]), :, j] = np.nan  # NaN is sorted to the end of its bag
    return out.reshape(n_bags, len(probabilities), *values.shape[1:])


def _places(offsets: np.ndarray, probabilities: np.ndarray, weights) -> tuple[np.ndarray, np.ndarray]:
    """Return the row just below each quantile (bags, probabilities), and the fraction of the way to the next row.

    Weights are sorted as the rows.
    """
    sizes = np.diff(offsets)
    if weights is None:
        at = (sizes[:, None] - 1) * probabilities
        below = np.floor(at).astype(np.int64)
        return offsets[:-1, None] + below, at - below
    share = shares(weights, offsets)
    middle = segment_cumsum(share, offsets) - share / 2
    first, last = middle[offsets[:-1]], middle[offsets[1:] - 1]
    at = first[:, None] + (last - first)[:, None] * probabilities
    below = segment_search(middle, offsets, at, side="right") - 1
    below = np.clip(below, offsets[:-1, None], np.maximum(offsets[1:, None] - 2, offsets[:-1, None]))
    gap = middle[np.minimum(below + 1, offsets[1:, None] - 1)] - middle[below]
    return below, np.clip((at - middle[below]) / np.where(gap > 0, gap, 1.0), 0.0, 1.0)


def counting(values: np.ndarray, offsets: np.ndarray, weights) -> tuple:
    """Return values, offsets and weights of the rows with positive weight; each bag has at least one such row."""
    if weights is None or (weights > 0).all():
        return values, offsets, weights
    counts = weights > 0
    return values[counts], chosen_offsets(counts, offsets)[0], weights[counts]


def chosen_offsets(chosen: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets of the bags if only chosen rows are kept, and a mask of the bags that keep any."""
    sizes = np.add.reduceat(chosen.astype(np.int64), offsets[:-1])
    return np.concatenate([[0], np.cumsum(sizes[sizes > 0])]), sizes > 0


def segment_median(values: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the median of each bag, along the first axis."""
    return segment_quantiles(values, offsets, [0.5], weights)[:, 0]


def segment_softmax(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute exp(score) normalised to sum to one within each bag, without overflow."""
    sizes = np.diff(offsets)
    shifted = np.exp(scores - np.repeat(segment_max(scores, offsets), sizes, axis=0))
    return shifted / np.repeat(segment_sum(shifted, offsets), sizes, axis=0)


def row_blocks(offsets: np.ndarray, size: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield rows in blocks of at most ``size``, the bags of each block, and their offsets within it.

    Sums over bags add up over blocks: ``total[bags] += segment_sum(f(rows), own_offsets)``.
    """
    n_rows = int(offsets[-1])
    for start in range(0, n_rows, size):
        stop = min(start + size, n_rows)
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        yield slice(start, stop), slice(first, last), np.clip(offsets[first : last + 1], start, stop) - start


def segment_weighted_median(values: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute the weighted median of each bag; weights sum to one in each bag.

    If a value splits the weight exactly in half, the result is the midpoint of the two middle values.

    >>> segment_weighted_median(np.array([1.0, 3.0, 2.0, 8.0]), np.array([0.1, 0.1, 0.2, 0.6]), np.array([0, 4]))
    array([8.])
    """
    low, high = _middle(values, weights, offsets)
    return (low + high) / 2


def segment_median_shares(values: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Compute the share of each instance in the weighted median.

    Half belongs to the lower middle value, half to the upper. Instances with equal values share equally, so that their
    order does not matter. Shares sum to one in each bag, and the median is the sum of share times value.

    >>> segment_median_shares(np.array([1.0, 3.0, 2.0, 8.0]), np.full(4, 0.25), np.array([0, 4]))
    array([0. , 0.5, 0.5, 0. ])
    """
    sizes, shares = np.diff(offsets), np.zeros(len(values))
    for middle in _middle(values, weights, offsets):
        there = ((values == np.repeat(middle, sizes)) & (weights > 0)).astype(np.float64)
        shares += 0.5 * there / np.repeat(segment_sum(there, offsets), sizes)
    return shares


def _middle(values: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values just below and just above half of the weight of each bag; they may be equal."""
    sizes = np.diff(offsets)
    order = np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))
    values, reached = values[order], segment_cumsum(weights[order], offsets)
    # the first row of each bag whose running weight exceeds a limit, or the last row
    short = [segment_sum((reached <= half).astype(np.int64), offsets) for half in (0.5 - ROUNDING, 0.5 + ROUNDING)]
    low, high = (values[offsets[:-1] + np.minimum(n_rows, sizes - 1)] for n_rows in short)
    return low, high


def pooled(bags, statistic: str) -> np.ndarray:
    """Compute the mean or median of each bag of scalars, by the weights of its instances if any."""
    values = bags.instances[:, 0].astype(np.float64)
    if statistic == "mean":
        return segment_mean(values, bags.offsets, bags.weights)
    if bags.weights is None:
        return segment_median(values, bags.offsets)
    return segment_weighted_median(values, bags.shares(), bags.offsets)
