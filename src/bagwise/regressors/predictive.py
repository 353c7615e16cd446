"""What the Bayesian regressors share: the scale of the targets, folds of held-out bags, the score of a prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags import Bags
from bagwise.instances import bag_folds


@dataclass(frozen=True)
class TargetScale:
    """Targets in standard deviations from their mean; ``scale`` is 0 when they do not vary beyond rounding.

    A target that never varied is thus predicted as it was, with a standard deviation of 0.
    """

    mean: float
    scale: float

    @classmethod
    def of(cls, y: np.ndarray) -> TargetScale:
        mean = float(y.mean())
        scale = float(np.sqrt(np.mean((y - mean) ** 2)))
        return cls(mean, scale if scale > 1e-13 * np.abs(y).max() else 0.0)

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
