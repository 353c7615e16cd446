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


def tail_limits(y: np.ndarray) -> tuple[float, float]:
    """Return the range of the targets, widened on each side by the length of its tail, and by half the range at most.

    The length of a tail is the distance from the end of the range to the tenth of the targets nearest to it. So
    predictions may exceed a long tail, and hardly an end at which many targets lie.

    Examples
    --------
    >>> from bagwise.regressors.target_limits import tail_limits
    >>> tail_limits(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 8.0]))
    (0.0, 12.0)
    """
    low, tenth, last_tenth, high = np.quantile(y, [0.0, 0.1, 0.9, 1.0])
    most = SLACK * (high - low)
    return float(low - min(most, tenth - low)), float(high + min(most, high - last_tenth))


class TargetLimits:
    """Mixin of regressors whose predictions stay within the range of the training targets, widened on each side.

    The widening is a share of the range, the parameter ``slack`` of the regressor if it has one; None is no limit.
    """

    def remember_targets(self, y: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        """Store the limits as ``target_limits_``; bags of weight zero are ignored."""
        slack = getattr(self, "slack", SLACK)
        y = np.asarray(y) if sample_weight is None else np.asarray(y)[np.asarray(sample_weight) > 0]
        low, high = float(y.min()), float(y.max())
        widening = 0.0 if slack is None else slack * (high - low)
        self.target_limits_ = None if slack is None else np.array([low - widening, high + widening])

    def within_limits(self, predictions: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray:
        """Clip predictions to the limits.

        ``scale`` multiplies the limits: the exposure of each bag, for targets that are sums.
        """
        limits = getattr(self, "target_limits_", None)
        return predictions if limits is None else np.clip(predictions, limits[0] * scale, limits[1] * scale)

    def limited_contributions(self, parts: np.ndarray, bags: Bags, scale: np.ndarray | float = 1.0) -> np.ndarray:
        """Return contributions that sum to the limited prediction; the instances of a bag share the difference."""
        total = segment_sum(parts, bags.offsets)
        excess = self.within_limits(total, scale) - total
        return parts + bags.expand(excess) * bags.shares() if excess.any() else parts


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
