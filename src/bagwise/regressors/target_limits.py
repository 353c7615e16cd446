"""Limits of predictions: a bag with a strange instance is not predicted far outside the training targets."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags import Bags
from bagwise.bags.segments import segment_sum

SLACK = 0.5  # how far predictions may lie outside the training targets, as a share of their range


def target_limits(y: np.ndarray, sample_weight: np.ndarray | None = None, *, slack: float = SLACK) -> np.ndarray:
    """Return the lowest and the highest prediction: the range of the targets, widened on each side.

    Parameters
    ----------
    y : array of shape (n_bags,)
        The training targets.
    sample_weight : array of shape (n_bags,), optional
        Bags of weight zero are ignored.
    slack : float, default 0.5
        The widening on each side, as a share of the range.

    Returns
    -------
    array of two numbers

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.regressors.target_limits import target_limits
    >>> target_limits(np.array([1.0, 3.0, 9.0]), np.array([1.0, 2.0, 0.0])).tolist()
    [0.0, 4.0]
    """
    y = np.asarray(y, dtype=np.float64) if sample_weight is None else np.asarray(y)[np.asarray(sample_weight) > 0]
    low, high = y.min(), y.max()
    return np.array([low - slack * (high - low), high + slack * (high - low)])


class TargetLimits:
    """Mixin of bag regressors whose predictions stay within `target_limits` of the training targets.

    A regressor with a parameter ``slack`` decides how far they may lie outside; None means anywhere.
    """

    def remember_targets(self, y: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        """Store the limits as ``target_limits_``."""
        slack = getattr(self, "slack", SLACK)
        self.target_limits_ = None if slack is None else target_limits(y, sample_weight, slack=slack)

    def within_limits(self, predictions: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray:
        """Return the predictions, those outside the limits moved to the nearest one.

        ``scale`` multiplies the limits: the exposure of each bag, for targets that are sums.
        """
        limits = getattr(self, "target_limits_", None)
        return predictions if limits is None else np.clip(predictions, limits[0] * scale, limits[1] * scale)

    def limited_contributions(self, parts: np.ndarray, bags: Bags, scale: np.ndarray | float = 1.0) -> np.ndarray:
        """Return contributions that sum to the limited prediction; the instances of a bag share what is cut off."""
        total = segment_sum(parts, bags.offsets)
        cut = self.within_limits(total, scale) - total
        return parts + bags.expand(cut) * bags.shares() if cut.any() else parts


def without_limits(model):
    """Return a copy of a fitted model that predicts without limits: parts of bags vary more than bags do."""
    model = deepcopy(model)
    for part in _parts_of(model):
        part.target_limits_ = None
    return model


def _parts_of(value: Any) -> Iterator[TargetLimits]:
    """Yield the regressors with limits in a fitted model, itself included."""
    if isinstance(value, TargetLimits):
        yield value
    if isinstance(value, BaseEstimator):
        value = vars(value)
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts_of(part)
