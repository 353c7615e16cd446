"""The simplest last step: a bag's prediction is the mean, or the median, of its instances' predictions."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from bagwise.bags import check_bags, check_fit, remember_columns
from bagwise.bags.segments import segment_mean, segment_median

_POOLS = {"mean": segment_mean, "median": segment_median}


class PoolPredictions(RegressorMixin, BaseEstimator):
    """ŷ = mean (or median) of the instance predictions of the bag; nothing is learned.

    Parameters
    ----------
    statistic : {"mean", "median"}

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> predictions = bw.from_arrays([np.array([1.0, 2.0, 9.0]), np.array([5.0])])
    >>> PoolPredictions("median").fit(predictions, [2.0, 5.0]).predict(predictions).tolist()
    [2.0, 5.0]
    """

    def __init__(self, statistic: str = "mean"):
        self.statistic = statistic

    def fit(self, bags, y, sample_weight=None) -> PoolPredictions:
        if self.statistic not in _POOLS:
            raise ValueError(f"statistic must be 'mean' or 'median', not {self.statistic!r}")
        bags, _ = check_fit(bags, y)
        if bags.n_features != 1:
            raise ValueError(f"PoolPredictions takes instance predictions (one column), not {bags.n_features} features")
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self)
        return _POOLS[self.statistic](bags.instances[:, 0].astype(np.float64), bags.offsets)
