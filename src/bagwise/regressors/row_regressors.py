"""Regressors on one row per bag: `LassoPath`, its penalty chosen on held-out bags, and `BoostedTrees`."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bagwise.bags import weights_or_ones
from bagwise.execution.resources import one_thread
from bagwise.kernels.formulas import mean_and_scale, row_keys
from bagwise.regressors.pipeline import TargetLimits
from bagwise.regressors.ridge_path import linear


class LassoPath(RegressorMixin, BaseEstimator):
    r"""Lasso on one row per bag, the penalty chosen on held-out bags: few columns keep a weight.

    Minimises 1/(2n) Σ (y - f)² + α Σ|w| on standardised columns and a standardised target, for a whole path of α.
    Without ``groups``, the folds of bags follow from a hash of their rows.

    Parameters
    ----------
    n_penalties : int, default=50
        Length of the path, from the α at which all weights are zero down to 1/300 of it.
    folds : int, default=5
        Number of folds of bags.

    Attributes
    ----------
    penalty_ : float
        The α chosen; for the target in its own units the penalty is α times its deviation.
    error_, residuals_ : float, ndarray of shape (n_bags,)
        Its mean squared held-out error, and the held-out residuals of the training bags.
    coef_, intercept_ : ndarray, float
        The linear function of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.regressors import LassoPath
    >>> Z = np.random.default_rng(0).normal(size=(60, 5))
    >>> model = LassoPath().fit(Z, 2.0 * Z[:, 1])
    >>> np.flatnonzero(np.abs(model.coef_) > 0.1).tolist()
    [1]
    """

    def __init__(self, n_penalties: int = 50, *, folds: int = 5):
        self.n_penalties = n_penalties
        self.folds = folds

    def fit(self, Z, y, sample_weight=None, groups=None) -> LassoPath:
        """Fit the path; bags with the same label in ``groups`` are in one fold."""
        Z, y = validate_data(self, Z, y, dtype=np.float64, y_numeric=True)
        y = y.astype(np.float64, copy=False)
        w = weights_or_ones(sample_weight, y)
        penalties, coef, intercept = _path(Z, y, w, self.n_penalties)
        keys = row_keys(Z.astype(np.float32), 0) if groups is None else np.asarray(groups)
        _, unit = np.unique(keys, return_inverse=True)
        residuals = np.repeat((y - np.average(y, weights=w))[:, None], len(penalties), axis=1)
        for fold in range(min(self.folds, unit.max() + 1)) if unit.max() else ():
            held_out = unit % self.folds == fold
            if not w[~held_out].any():
                continue  # no bag to fit on: predict the mean
            _, fold_coef, fold_intercept = _path(Z[~held_out], y[~held_out], w[~held_out], penalties)
            residuals[held_out] = y[held_out, None] - Z[held_out] @ fold_coef - fold_intercept
        errors = np.average(residuals**2, axis=0, weights=w)
        best = int(np.argmin(errors))
        self.penalty_, self.error_, self.residuals_ = float(penalties[best]), float(errors[best]), residuals[:, best]
        self.coef_, self.intercept_ = coef[:, best].copy(), float(intercept[best])
        return self

    def predict(self, Z) -> np.ndarray:
        """Return one prediction per row."""
        check_is_fitted(self)
        Z = validate_data(self, Z, reset=False, dtype=np.float64)
        return linear(Z, self.coef_, self.intercept_)


def _path(Z, y, w, penalties) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return penalties, coefficients (columns, penalties) and intercepts; ``penalties`` may be their number."""
    (mean, scale), centre = mean_and_scale(Z, w, constant=np.inf), np.average(y, weights=w)
    spread = np.sqrt(np.average((y - centre) ** 2, weights=w)) or 1.0
    root = np.sqrt(w / w.mean())
    X, target = root[:, None] * (Z - mean) / scale, root * (y - centre) / spread
    if np.isscalar(penalties):
        largest = np.abs(X.T @ target).max() / len(y) or 1.0
        penalties = largest * np.logspace(0, -2.5, penalties)
    with warnings.catch_warnings():  # the smallest penalties may not converge; their held-out error counts all the same
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, coef, _ = lasso_path(X, target, alphas=penalties, max_iter=1000, tol=1e-4)
    coef = coef * spread / scale[:, None]
    return penalties, coef, centre - mean @ coef


class BoostedTrees(TargetLimits, RegressorMixin, BaseEstimator):
    r"""Histogram gradient boosting on one row per bag: small trees, a fifth of the columns tried at each split.

    It is scikit-learn's `HistGradientBoostingRegressor` with a smallest leaf of min(20, max(2, ⌊n / 5⌋)) of the n bags
    of positive weight: scikit-learn's 20 from 100 bags on.

    Parameters
    ----------
    learning_rate : float, default=0.05
        Shrinkage of each tree.
    max_iter : int, default=200
        Number of trees.
    max_features : float, default=0.2
        Share of the columns tried at each split.
    max_leaf_nodes : int or None, default=15
        Maximum number of leaves of a tree.
    min_samples_leaf : int or "auto", default="auto"
        Least number of bags in a leaf; "auto" is the formula above.
    random_state : int, default=0
        Seed of the columns tried.

    Attributes
    ----------
    trees_ : HistGradientBoostingRegressor
        The fitted trees.

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
        """Fit the trees; a missing value (NaN) goes to the side of a split that fits better."""
        Z, y = validate_data(self, Z, y, dtype=np.float64, y_numeric=True, ensure_all_finite="allow-nan")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, Z, dtype=np.float64, ensure_non_negative=True)
        self.remember_targets(y, sample_weight)
        n = len(y) if sample_weight is None else np.count_nonzero(sample_weight)
        leaf = min(20, max(2, n // 5)) if self.min_samples_leaf == "auto" else self.min_samples_leaf
        options = self.get_params(deep=False) | {"min_samples_leaf": leaf, "early_stopping": False}
        # In one thread, because scikit-learn's threads that bin columns reset each other's filters of warnings.
        with one_thread():
            self.trees_ = HistGradientBoostingRegressor(**options).fit(Z, y, sample_weight=sample_weight)
        return self

    def predict(self, Z) -> np.ndarray:
        """Return one prediction per row."""
        check_is_fitted(self)
        Z = validate_data(self, Z, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return self.within_limits(self.trees_.predict(Z))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def n_iter_(self) -> int:
        """The number of trees."""
        check_is_fitted(self)
        return self.trees_.n_iter_
