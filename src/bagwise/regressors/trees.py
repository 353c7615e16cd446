"""Boosted trees whose smallest leaf follows the number of bags."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

LEAF = 20  # bags in the smallest leaf, where there are enough
FEWEST, LEAVES = 2, 5  # where there are not: so many leaves, of two bags at least


class BoostedTrees(RegressorMixin, BaseEstimator):
    r"""Histogram gradient boosting on one row per bag: small trees, a fifth of the columns tried at each split.

    It is scikit-learn's `HistGradientBoostingRegressor`, whose leaves hold 20 rows or more, so that fewer than 40 bags
    are never split and all are predicted as the mean. Here the smallest leaf of n bags (those of weight zero do not
    count) is

    .. math:: \min(20, \max(2, \lfloor n / 5 \rfloor)),

    the same 20 from 100 bags on.

    Parameters
    ----------
    learning_rate, max_iter, max_features, max_leaf_nodes : as in `HistGradientBoostingRegressor`
    min_samples_leaf : int or "auto"
        "auto" is the formula above.
    random_state : int, for the columns tried at a split

    Attributes
    ----------
    trees_ : the fitted `HistGradientBoostingRegressor`

    References
    ----------
    J. H. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.regressors import BoostedTrees
    >>> rows = np.arange(25.0)[:, None]
    >>> BoostedTrees(max_features=1.0).fit(rows, rows[:, 0]).predict([[2.0], [22.0]]).round()
    array([ 2., 22.])
    """

    def __init__(
        self,
        *,
        learning_rate: float = 0.05,
        max_iter: int = 200,
        max_features: float = 0.2,
        max_leaf_nodes: int | None = 15,
        min_samples_leaf: int | str = "auto",
        random_state: int = 0,
    ):
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def fit(self, Z, y, sample_weight=None) -> BoostedTrees:
        """Fit; a missing value (NaN) goes to that side of a split that fits better."""
        Z, y = validate_data(self, Z, y, dtype=np.float64, y_numeric=True, ensure_all_finite="allow-nan")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, Z, dtype=np.float64, ensure_non_negative=True)
        n = len(y) if sample_weight is None else np.count_nonzero(sample_weight)
        leaf = min(LEAF, max(FEWEST, n // LEAVES)) if self.min_samples_leaf == "auto" else self.min_samples_leaf
        options = self.get_params(deep=False) | {"min_samples_leaf": leaf, "early_stopping": False}
        self.trees_ = HistGradientBoostingRegressor(**options).fit(Z, y, sample_weight=sample_weight)
        return self

    def predict(self, Z) -> np.ndarray:
        """One number per row."""
        check_is_fitted(self)
        return self.trees_.predict(validate_data(self, Z, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def n_iter_(self) -> int:
        """The trees that were grown."""
        check_is_fitted(self)
        return self.trees_.n_iter_
