"""Plain summaries of a bag: one row of statistics."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags import check_bags, remember_columns
from bagwise.bags.segments import segment_max, segment_mean, segment_median, segment_min, segment_quantiles

STATISTICS = ("mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max", "quantiles", "size")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


class Pool(BaseEstimator):
    """Statistics of every feature over the instances of a bag, side by side.

    Parameters
    ----------
    statistics : tuple of {"mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max",
    "quantiles", "size"}
        Variance and the moments above it are those of the instances themselves (divided by the size of the bag); the
        skewness and kurtosis of a bag that does not vary are 0. "size" is log(1 + number of instances), one column.
    quantiles : tuple of probabilities, for "quantiles"

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.embeddings import Pool
    >>> bags = bw.from_arrays([np.array([1.0, 3.0]), np.array([5.0])])
    >>> Pool(("mean", "max")).fit_transform(bags).tolist()
    [[2.0, 3.0], [5.0, 5.0]]
    """

    columns = "features"

    def __init__(self, statistics=("mean",), *, quantiles=QUANTILES):
        self.statistics = statistics
        self.quantiles = quantiles

    def fit(self, bags, y=None) -> Pool:
        unknown = [name for name in self.statistics if name not in STATISTICS]
        if unknown or not len(self.statistics) or isinstance(self.statistics, str):
            raise ValueError(f"statistics must be a tuple of {', '.join(STATISTICS)}; got {self.statistics!r}")
        remember_columns(self, check_bags(bags))
        return self

    def fit_transform(self, bags, y=None) -> np.ndarray:
        return self.fit(bags, y).transform(bags)

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self)
        return np.column_stack([self._one(name, bags) for name in self.statistics])

    def _one(self, name: str, bags) -> np.ndarray:
        X, offsets = bags.instances, bags.offsets
        if name == "size":
            return np.log1p(bags.sizes)
        if name == "quantiles":
            return segment_quantiles(X, offsets, self.quantiles).reshape(len(bags), -1)
        if name in ("mean", "median", "min", "max"):
            whole = {"mean": segment_mean, "median": segment_median, "min": segment_min, "max": segment_max}
            return whole[name](X, offsets)
        return _moment(name, bags)


def _moment(name: str, bags) -> np.ndarray:
    centred = bags.instances - bags.expand(segment_mean(bags.instances, bags.offsets))
    variance = segment_mean(centred**2, bags.offsets)
    if name == "variance":
        return variance
    deviation = np.sqrt(variance)
    if name == "deviation":
        return deviation
    power = 3 if name == "skewness" else 4
    moment = segment_mean(centred**power, bags.offsets)
    # A feature that is constant in a bag has a deviation of rounding size, and no shape.
    flat = deviation <= 1e-9 * np.maximum(np.abs(segment_mean(np.abs(bags.instances), bags.offsets)), 1e-300)
    shape = moment / np.where(flat, 1.0, deviation) ** power - (3.0 if power == 4 else 0.0)
    return np.where(flat, 0.0, shape)
