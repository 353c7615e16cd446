"""The median of every bag when its instances do not count the same."""

from __future__ import annotations

import numpy as np

from bagwise.bags.segments import segment_sum

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
    sizes = np.diff(offsets)
    order = np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))
    values, total = values[order], np.cumsum(weights[order])
    reached = total - np.repeat(np.concatenate([[0.0], total[offsets[1:-1] - 1]]), sizes)

    def first(past):
        """The first value of every bag whose running weight is past a limit; it is at most the last."""
        short = segment_sum((reached <= past).astype(np.int64), offsets)
        return values[offsets[:-1] + np.minimum(short, sizes - 1)]

    return (first(0.5 - ROUNDING) + first(0.5 + ROUNDING)) / 2
