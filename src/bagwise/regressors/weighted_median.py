"""The median of every bag when its instances do not count the same."""

from __future__ import annotations

import numpy as np

from bagwise.bags.segments import segment_cumsum, segment_sum

# Of the weight of a bag: equal weights must meet one half in spite of rounding.
ROUNDING = 1e-9


def segment_weighted_median(values: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The value at which half of the weight of a bag is reached; weights sum to one in every bag.

    Where exactly half lies on either side it is the midpoint, so with equal weights this is the median.

    Examples
    --------
    >>> import numpy as np
    >>> values, offsets = np.array([1.0, 3.0, 2.0, 8.0]), np.array([0, 4])
    >>> segment_weighted_median(values, np.array([0.25, 0.25, 0.25, 0.25]), offsets).tolist()
    [2.5]
    >>> segment_weighted_median(values, np.array([0.1, 0.1, 0.2, 0.6]), offsets).tolist()
    [8.0]
    """
    low, high = _middle(values, weights, offsets)
    return (low + high) / 2


def segment_median_shares(values: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """How much of the weighted median is whose: half is the lower middle value's, half the upper one's.

    Instances of one value share alike, so that their order does not matter. Shares sum to one in every bag, and the
    median is the sum of share times value.

    Examples
    --------
    >>> import numpy as np
    >>> equal = np.full(4, 0.25)
    >>> segment_median_shares(np.array([1.0, 3.0, 2.0, 8.0]), equal, np.array([0, 4])).tolist()
    [0.0, 0.5, 0.5, 0.0]
    >>> segment_median_shares(np.array([1.0, 3.0, 3.0, 8.0]), equal, np.array([0, 4])).tolist()
    [0.0, 0.5, 0.5, 0.0]
    """
    sizes, shares = np.diff(offsets), np.zeros(len(values))
    for middle in _middle(values, weights, offsets):
        there = ((values == np.repeat(middle, sizes)) & (weights > 0)).astype(np.float64)
        shares += 0.5 * there / np.repeat(segment_sum(there, offsets), sizes)
    return shares


def _middle(values: np.ndarray, weights: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values just below and just above the half of every bag's weight: one value, or the two about the middle."""
    sizes = np.diff(offsets)
    order = np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))
    values, reached = values[order], segment_cumsum(weights[order], offsets)

    def first(past):
        """The first value of every bag whose running weight is past a limit; it is at most the last."""
        short = segment_sum((reached <= past).astype(np.int64), offsets)
        return values[offsets[:-1] + np.minimum(short, sizes - 1)]

    return first(0.5 - ROUNDING), first(0.5 + ROUNDING)
