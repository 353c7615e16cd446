"""Plain summaries of a bag: one row of statistics."""

from __future__ import annotations

import numpy as np

from bagwise.bags import check_bags, remember_columns
from bagwise.bags.segments import (
    segment_max,
    segment_mean,
    segment_median,
    segment_min,
    segment_quantiles,
    segment_sum,
)
from bagwise.embeddings.embedding import Embedding

STATISTICS = ("mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max", "quantiles", "size")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
POWERS = {"skewness": 3, "kurtosis": 4}


class Pool(Embedding):
    """Statistics of every feature over the instances of a bag, side by side.

    Parameters
    ----------
    statistics : tuple of {"mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max",
    "quantiles", "size"}
        Variance and the moments above it are those of the instances themselves (divided by the size of the bag); the
        skewness and kurtosis of a bag that does not vary are 0. "size" is log(1 + number of instances), one column.
        Instance weights weigh means, moments and quantiles; instances of weight zero are no instances.
    quantiles : tuple of probabilities, for "quantiles"

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.embeddings import Pool
    >>> bags = bw.from_arrays([np.array([1.0, 3.0]), np.array([5.0])])
    >>> Pool(("mean", "max")).fit_transform(bags).tolist()
    [[2.0, 3.0], [5.0, 5.0]]
    """

    def __init__(self, statistics=("mean",), *, quantiles=QUANTILES):
        self.statistics = statistics
        self.quantiles = quantiles

    @property
    def is_mean(self) -> bool:
        """Whether the row of a bag is the mean of those that its instances have alone."""
        return tuple(self.statistics) == ("mean",)

    def fit(self, bags, y=None) -> Pool:
        self._check()
        remember_columns(self, check_bags(bags, allow_weights=True))
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        return self._rows(bags)

    def _check(self) -> None:
        unknown = [name for name in self.statistics if name not in STATISTICS]
        if unknown or not len(self.statistics) or isinstance(self.statistics, str):
            raise ValueError(f"statistics must be a tuple of {', '.join(STATISTICS)}; got {self.statistics!r}")

    def _rows(self, bags) -> np.ndarray:
        return np.column_stack([self._one(name, bags) for name in self.statistics])

    def _one(self, name: str, bags) -> np.ndarray:
        X, offsets, weights = bags.instances, bags.offsets, bags.weights
        if name == "size":
            return np.log1p(bags.sizes if weights is None else segment_sum((weights > 0).astype(np.int64), offsets))
        if name == "quantiles":
            return segment_quantiles(X, offsets, self.quantiles, weights).reshape(len(bags), -1)
        if name in ("mean", "median", "min", "max"):
            whole = {"mean": segment_mean, "median": segment_median, "min": segment_min, "max": segment_max}
            return whole[name](X, offsets, weights)
        return _moment(name, bags)


def _moment(name: str, bags) -> np.ndarray:
    def mean(values):
        return segment_mean(values, bags.offsets, bags.weights)

    centred = bags.instances - bags.expand(mean(bags.instances))
    variance = mean(centred**2)
    if name == "variance":
        return variance
    deviation = np.sqrt(variance)
    if name == "deviation":
        return deviation
    power = POWERS[name]
    return shape(power, mean(centred**power), deviation, mean(np.abs(bags.instances)))


def shape(power: int, moment: np.ndarray, deviation: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Skewness (power 3) or kurtosis (4) from the central moment, the deviation and the mean of |x|."""
    # A feature that is constant in a bag has a deviation of rounding size, and no shape.
    flat = deviation <= 1e-9 * np.maximum(size, 1e-300)
    standardised = moment / np.where(flat, 1.0, deviation) ** power - (3.0 if power == 4 else 0.0)
    return np.where(flat, 0.0, standardised)
