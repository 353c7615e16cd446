"""Finite-sample quantiles of scores, where the unit that counts is the bag, or the group of bags."""

from __future__ import annotations

from math import ceil
from numbers import Real

import numpy as np

from bagwise.bags import Bags

ROUNDING = 1e-9  # 0.9 * (9 + 1) must not ask for the tenth of nine scores
VALUES_AT_ONCE = 2**21


def check_level(level: float) -> float:
    if not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise ValueError(f"level is the share of bags to be covered, a number between 0 and 1, not {level!r}")
    return float(level)


def units_needed(level: float) -> int:
    """The least number of calibration bags (groups) for which ``level`` has a finite interval: level / (1 - level).

    Examples
    --------
    >>> [units_needed(level) for level in (0.8, 0.9, 0.95, 0.99)]
    [4, 9, 19, 99]
    """
    level = check_level(level)
    return max(1, ceil(level / (1.0 - level) - ROUNDING))


def units_of(bags: Bags) -> np.ndarray:
    """The unit (0, 1, ...) of every bag: its group, or itself; bags that repeat an id are one unit."""
    keys = bags.ids if bags.groups is None else bags.groups
    return np.unique(keys.astype(str) if keys.dtype == object else keys, return_inverse=True)[1]


def unit_shares(unit: np.ndarray) -> np.ndarray:
    """1 / (number of bags of the unit) for every bag: the shares of a unit add up to one."""
    return 1.0 / np.bincount(unit)[unit]


def conformal_quantile(values: np.ndarray, shares: np.ndarray, level: float) -> np.ndarray:
    r"""The smallest v in every row such that the values up to v hold ``level * (K + 1)`` of the K units.

    With one bag a unit, it is the ⌈level (n + 1)⌉-th smallest of n values. With groups it is the quantile of the
    hierarchical conformal method, where a score of a group of N bags has mass 1 / ((K + 1) N) and the last
    1 / (K + 1) lies at infinity.

    Parameters
    ----------
    values : array (rows, bags)
    shares : array (bags,), from `unit_shares`

    Examples
    --------
    >>> conformal_quantile(np.array([[3.0, 1.0, 2.0, 5.0]]), np.ones(4), 0.6)
    array([3.])
    """
    wanted = level * (shares.sum() + 1.0) - ROUNDING
    order = np.argsort(values, axis=1, kind="stable")
    place = (np.cumsum(shares[order], axis=1) >= wanted).argmax(axis=1)
    return values[np.arange(len(values)), order[np.arange(len(values)), place]]


def plus_interval(centre, half, fold, shares, level) -> np.ndarray:
    r"""The CV+ interval of every new bag.

    From the quantile of :math:`\mu_{-k(i)}(x) - h_i` at the bottom to that of :math:`\mu_{-k(i)}(x) + h_i` at the
    top, over the calibration bags i, where k(i) is the fold of i and :math:`h_i = s_{-k(i)}(x)` times its score.

    Parameters
    ----------
    centre : array (folds, new bags), the prediction of every fold's model
    half : function of a slice of new bags -> array (new bags, calibration bags), the half widths h
    fold : array (calibration bags,)
    """
    n_new = centre.shape[1]
    bounds = np.empty((n_new, 2))
    step = max(1, VALUES_AT_ONCE // len(fold))
    for start in range(0, n_new, step):
        rows = slice(start, min(start + step, n_new))
        middle, width = centre[fold, rows].T, half(rows)
        bounds[rows, 0] = -conformal_quantile(width - middle, shares, level)
        bounds[rows, 1] = conformal_quantile(width + middle, shares, level)
    return bounds


def around(predictions: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The bounds, moved out to the prediction where it lies outside: they never cross, and cover no less.

    Examples
    --------
    >>> around(np.array([1.0, 5.0]), np.array([[0.0, 2.0], [4.0, 3.0]]))
    array([[0., 2.],
           [4., 5.]])
    """
    return np.column_stack([np.minimum(bounds[:, 0], predictions), np.maximum(bounds[:, 1], predictions)])
