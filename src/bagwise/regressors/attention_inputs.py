"""What an attention network is shown of a bag: its instances on a common scale, and moments of every feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean

NEAR = 3.0  # deviations from the mean up to which a value is shown as it is


@dataclass(frozen=True)
class Scale:
    """Deviations from the mean, and far values drawn in: beyond `NEAR` deviations they grow as a logarithm.

    A network extrapolates along straight lines, so that one instance 100 deviations away spoils the prediction of
    its bag; with the logarithm order is kept, and nothing is far. A column that did not vary in training is 0.
    """

    centre: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Scale:
        values = np.asarray(values, dtype=np.float64)
        deviation = values.std(axis=0)
        varies = deviation > 1e-12 * np.abs(values).max(axis=0, initial=0.0)
        return cls(values.mean(axis=0), np.where(varies, deviation, np.inf))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        scaled = (np.asarray(values, dtype=np.float64) - self.centre) / self.deviation
        beyond = np.maximum(np.abs(scaled) - NEAR, 0.0)
        return np.clip(scaled, -NEAR, NEAR) + np.sign(scaled) * np.log1p(beyond)


@dataclass(frozen=True)
class Inputs:
    """The scale of the instances and of their moments up to ``order``, learned from training bags."""

    order: int
    instances: Scale
    moments: Scale

    @classmethod
    def of(cls, bags: Bags, order: int) -> Inputs:
        instances = Scale.of(bags.instances)
        return cls(order, instances, Scale.of(bag_moments(instances(bags.instances), bags.offsets, order)))

    def __call__(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Rows of instances, and a row of moments per bag (no columns for order 0)."""
        rows = self.instances(bags.instances)
        return rows, self.moments(bag_moments(rows, bags.offsets, self.order))


def bag_moments(rows: np.ndarray, offsets: np.ndarray, order: int) -> np.ndarray:
    """Mean, variance, skewness, kurtosis and so on of every feature in every bag, (bags, order x features).

    From the third on, the central moment divided by that power of the deviation; 0 in a bag where nothing varies.

    Examples
    --------
    >>> import numpy as np
    >>> bag_moments(np.array([[1.0], [3.0], [5.0]]), np.array([0, 2, 3]), 4).tolist()
    [[2.0, 1.0, 0.0, 1.0], [5.0, 0.0, 0.0, 0.0]]
    """
    if order == 0:
        return np.empty((len(offsets) - 1, 0))
    mean = segment_mean(rows, offsets)
    central = rows - np.repeat(mean, np.diff(offsets), axis=0)
    variance = segment_mean(central**2, offsets)
    deviation = np.where(variance > 1e-24 * (1.0 + mean**2), np.sqrt(variance), np.inf)
    central = central / np.repeat(deviation, np.diff(offsets), axis=0)
    higher = [segment_mean(central**power, offsets) for power in range(3, order + 1)]
    return np.concatenate([mean, variance, *higher][:order], axis=1)
