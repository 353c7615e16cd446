"""What share of the targets intervals cover: of ours, and of those a probabilistic method promises by itself."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

LEVELS = (0.5, 0.8, 0.9, 0.95)


def coverage(y, intervals) -> float:
    """The share of the targets inside their interval, the bounds included.

    Examples
    --------
    >>> coverage([1.0, 2.0, 3.0, 9.0], [[0, 4]] * 4)
    0.75
    """
    y, intervals = np.asarray(y), np.asarray(intervals)
    if intervals.shape != (len(y), 2):
        raise ValueError(f"expected a lower and an upper bound for each of {len(y)} bags, not shape {intervals.shape}")
    return float(np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1])))


def coverage_by_size(y, intervals, sizes) -> dict[str, float]:
    """Coverage of all bags, of the smallest fifth and of the largest fifth (all bags as small, or large, as those).

    Examples
    --------
    >>> coverage_by_size([1, 2, 3, 4, 5], [[0, 4]] * 5, sizes=[9, 7, 5, 3, 1])
    {'all': 0.8, 'smallest': 0.0, 'largest': 1.0}
    """
    y, intervals, sizes = np.asarray(y), np.asarray(intervals), np.asarray(sizes)
    low, high = np.quantile(sizes, 0.2, method="lower"), np.quantile(sizes, 0.8, method="higher")
    parts = {"all": sizes > 0, "smallest": sizes <= low, "largest": sizes >= high}
    return {name: coverage(y[part], intervals[part]) for name, part in parts.items()}


def gaussian_coverage(y, mean, std, levels=LEVELS) -> dict[float, float]:
    r"""How many targets lie within mean ± z std, z the normal quantile of each level: the level, if std is right.

    For the methods whose ``predict(bags, return_std=True)`` gives a standard deviation ("blr", "shrinkage", "bdr").

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=10_000)
    >>> {level: round(share, 2) for level, share in gaussian_coverage(y, 0.0, 1.0).items()}
    {0.5: 0.5, 0.8: 0.8, 0.9: 0.9, 0.95: 0.95}
    """
    distance = np.abs(np.asarray(y, dtype=np.float64) - mean)
    return {level: float(np.mean(distance <= norm.ppf(0.5 + level / 2) * std)) for level in levels}
