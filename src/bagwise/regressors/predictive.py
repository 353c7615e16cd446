"""What the Bayesian regressors share: the scale of the targets, folds of held-out bags, the score of a prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bagwise.bags import Bags
from bagwise.instances import bag_folds

ROUNDING = 4 * np.finfo(np.float64).eps  # of the largest target: numbers that lie closer are the same one, rounded


@dataclass(frozen=True)
class TargetScale:
    """Targets in standard deviations from their mean; ``scale`` is 0 when they do not vary beyond rounding.

    A target that never varied is thus predicted as it was, with a standard deviation of 0.
    """

    mean: float
    scale: float

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray | None = None) -> TargetScale:
        y, weight = (y, None) if weight is None else (y[weight > 0], weight[weight > 0])
        mean = float(np.average(y, weights=weight))
        scale = float(np.sqrt(np.average((y - mean) ** 2, weights=weight)))
        return cls(mean, scale if np.ptp(y) > ROUNDING * np.abs(y).max() else 0.0)

    def standardised(self, y: np.ndarray) -> np.ndarray:
        return (y - self.mean) / self.scale if self.scale else np.zeros(len(y))

    def restored(self, mean: np.ndarray, variance: np.ndarray, return_std: bool):
        mean = self.mean + self.scale * mean
        return (mean, self.scale * np.sqrt(variance)) if return_std else mean


def negative_log_likelihood(y, mean, std) -> np.ndarray:
    """-log N(y; mean, std²) of every bag.

    Examples
    --------
    >>> float(negative_log_likelihood([1.0], [1.0], [1.0])[0]).__round__(4)
    0.9189
    """
    y, mean, std = (np.asarray(a, dtype=np.float64) for a in (y, mean, std))
    return 0.5 * np.log(2 * np.pi) + np.log(std) + 0.5 * ((y - mean) / std) ** 2


def few_folds(bags: Bags, folds: int, random_state: int) -> np.ndarray:
    """The fold of every bag: ``folds`` of them, or as many as there are bags (groups) if those are fewer."""
    units = bags.ids if bags.groups is None else bags.groups
    return bag_folds(bags, min(folds, max(len(set(units.tolist())), 2)), random_state=random_state)


def weighed_folds(fold: np.ndarray, weight: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Masks of the bags to learn from and of those held out, for every fold in which both weigh something."""
    for k in range(fold.max() + 1):
        if weight[fold != k].any() and weight[fold == k].any():
            yield fold != k, fold == k
