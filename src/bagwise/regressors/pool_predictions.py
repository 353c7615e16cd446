"""The simplest last step: a bag's prediction is the mean, or the median, of its instances' predictions."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.metaestimators import available_if

from bagwise.bags import check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.segments import segment_mean, segment_median
from bagwise.regressors.weighted_median import segment_median_shares, segment_weighted_median

STATISTICS = ("mean", "median")


def _is_mean(self) -> bool:
    return self.statistic == "mean"


class PoolPredictions(RegressorMixin, BaseEstimator):
    """ŷ = mean (or median) of the instance predictions of the bag, by their weights if any; nothing is learned.

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
        if self.statistic not in STATISTICS:
            raise ValueError(f"statistic must be 'mean' or 'median', not {self.statistic!r}")
        bags, _ = check_fit(bags, y, allow_weights=True)
        check_weights(sample_weight, bags)  # nothing is learned, so they change nothing
        if bags.n_features != 1:
            raise ValueError(f"PoolPredictions takes instance predictions (one column), not {bags.n_features} features")
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        values = bags.instances[:, 0].astype(np.float64)
        if self.statistic == "mean":
            return segment_mean(values, bags.offsets, bags.weights)
        if bags.weights is None:
            return segment_median(values, bags.offsets)
        return segment_weighted_median(values, bags.shares(), bags.offsets)

    def instance_weights(self, bags) -> np.ndarray:
        """The weight of every instance in the prediction: equal in a mean; in a median, that of the middle one or two.

        Instances of one prediction share alike.
        """
        bags = check_bags(bags, fitted=self, allow_weights=True)
        if self.statistic == "mean":
            return bags.shares()
        return segment_median_shares(bags.instances[:, 0].astype(np.float64), bags.shares(), bags.offsets)

    @available_if(_is_mean)
    def contributions(self, bags) -> np.ndarray:
        """What each instance adds to the mean: its share in the bag, times its prediction."""
        bags = check_bags(bags, fitted=self, allow_weights=True)
        return self.instance_weights(bags) * bags.instances[:, 0].astype(np.float64)
