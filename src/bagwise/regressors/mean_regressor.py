"""The mean of several bag regressors."""

from __future__ import annotations

from sklearn.ensemble import VotingRegressor

from bagwise.bags import check_fit, check_weights
from bagwise.regressors.pipeline import BagModel


class MeanRegressor(BagModel, VotingRegressor):
    """Mean of bag regressors: scikit-learn's VotingRegressor, whose ``fit`` takes a weight per bag.

    Parameters
    ----------
    estimators : list of (str, bag regressor)
        Names and regressors.
    weights : list of float, optional
        Their weights in the mean; equal by default.
    n_jobs, verbose
        As in scikit-learn's VotingRegressor.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.regressors import EmbeddingRidge, MeanRegressor
    >>> from bagwise.embeddings import Pool, Statistics
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> members = [("mean", EmbeddingRidge(Pool())), ("statistics", EmbeddingRidge(Statistics()))]
    >>> MeanRegressor(members).fit(bags, y, sample_weight=1.0 + y**2).predict(bags).shape
    (30,)
    """

    def fit(self, bags, y, sample_weight=None) -> MeanRegressor:
        """Fit each regressor to the bags."""
        bags, y = check_fit(bags, y, allow_missing=True, allow_weights=True, apart=True)
        weights = check_weights(sample_weight, bags)
        return super().fit(bags, y, **({} if weights is None else {"sample_weight": weights}))
