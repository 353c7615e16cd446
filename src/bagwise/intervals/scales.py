"""The scale and the quantiles of a bag's error.

`BagScale` is a scale from the size and spread of the bag; others are the method's standard deviation, or a constant.
`BagQuantiles` gives quantiles of the error from size, spread, prediction and feature means, for the scores of
conformalised quantile regression. Each fold has a model of its own, fitted without the bags of that fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.linear_model import QuantileRegressor

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.checks import FAR, within_range
from bagwise.bags.segments import segment_mean

ROUNDS = 5
SMALLEST_SCALE = 0.1  # lower limit relative to the mean scale, so that no interval has zero width


class BagScale(BaseEstimator):
    r"""The scale of a bag's error: between that of a bag of one instance and that of an infinite bag.

    .. math:: s = (a + c\,v)\,u + (b + d\,v)\,(1 - u), \qquad u = 1 / \sqrt{\text{size}},

    with a, b, c, d not negative and v the within-bag spread: the root of the mean, over the features, of the variance
    inside the bag, in units of the variance of all instances. One instance of the usual spread is added to the sum of
    squares of a bag, so that a bag of one instance has the usual spread and a large bag its own. The error of a mean
    over n instances falls with :math:`1/\sqrt n` to a limit, and so does s; b > a if larger bags are harder. s is
    bounded whatever the size of a new bag.

    The coefficients are fitted to the absolute residuals by non-negative least squares, with each bag divided by its
    scale (a few rounds of reweighting). The scale is at least a tenth of its mean over the training bags. Values are
    clipped to the training range widened by three times its width.

    Parameters
    ----------
    spread : bool
        Whether the spread enters; otherwise c = d = 0.

    Attributes
    ----------
    coef_ : array (a, b, c, d)
    usual_ : float, the variance inside a bag over all training bags
    smallest_ : float, the least scale given

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=n) for n in np.tile([1, 4, 25, 100], 50)])
    >>> errors = rng.normal(size=200) * (0.1 + 1 / np.sqrt(bags.sizes))
    >>> BagScale(spread=False).fit(bags, errors).predict(bags[:4]).round(1)
    array([0.9, 0.5, 0.3, 0.2])
    """

    def __init__(self, *, spread: bool = True):
        self.spread = spread

    def fit(self, bags, residuals) -> BagScale:
        """Fit to held-out residuals of bags."""
        bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        error = np.abs(np.asarray(residuals, dtype=np.float64))
        sizes = bags.effective_sizes()
        self.unequal_ = len(set(sizes.tolist())) > 1
        self.mean_, self.variance_ = _moments(bags.instances, bags.weights)
        self.usual_ = (sizes * self._variance(bags)).sum() / max(sizes.sum() - len(bags), 1)
        remember_columns(self, bags)
        # Scale residuals to mean one, so that the weights below do not depend on the unit of the targets.
        unit = error.mean()
        columns, self.smallest_ = self._columns(bags), SMALLEST_SCALE
        expected = np.ones(len(bags))
        for _ in range(ROUNDS):
            self.coef_ = nnls(columns / expected[:, None], error / expected / unit)[0] if unit > 0 else np.ones(4)
            expected = np.maximum(columns @ self.coef_, SMALLEST_SCALE)
        if unit > 0:
            self.coef_, self.smallest_ = self.coef_ * unit, SMALLEST_SCALE * unit
        return self

    def predict(self, bags) -> np.ndarray:
        """Return the scale of each bag."""
        bags = check_bags(bags, fitted=self, allow_missing=True, allow_weights=True, apart=True)
        reached = within_range(bags, self, widths=FAR)
        return np.maximum(self._columns(reached) @ self.coef_, self.smallest_)

    def _columns(self, bags: Bags) -> np.ndarray:
        sizes = bags.effective_sizes()
        small = 1.0 / np.sqrt(sizes) if self.unequal_ else np.ones(len(bags))
        spread = np.zeros(len(bags))
        if self.spread:
            spread = np.sqrt(self._variance(bags) + self.usual_ / sizes)
        return np.column_stack([small, 1.0 - small, spread * small, spread * (1.0 - small)])

    def _variance(self, bags: Bags) -> np.ndarray:
        """Return the mean over features of the variance inside each bag, relative to that of all instances."""
        varies = self.variance_ > 0
        if not varies.any():
            return np.zeros(len(bags))
        return _within(bags, self.mean_, self.variance_)[1][:, varies].mean(axis=1)


def _moments(instances: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each feature over its known values; a feature without any has variance 0."""
    counted = ~np.isnan(instances)
    if weights is not None:
        counted &= weights[:, None] > 0
    n = np.maximum(counted.sum(axis=0), 1)
    mean = np.where(counted, instances, 0.0).sum(axis=0, dtype=np.float64) / n
    return mean, (np.where(counted, instances - mean, 0.0) ** 2).sum(axis=0) / n


def _within(bags: Bags, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each standardised feature inside each bag; 0 for a constant feature."""
    varies = variance > 0
    rows = np.zeros(bags.instances.shape)
    rows[:, varies] = (bags.instances[:, varies] - mean[varies]) / np.sqrt(variance[varies])
    rows = np.where(np.isnan(rows), 0.0, rows)  # replace missing values by the mean
    means, squares = (segment_mean(part, bags.offsets, bags.weights) for part in (rows, rows**2))
    return means, np.maximum(squares - means**2, 0.0)


SMALLEST = 1e-3  # lower limit relative to the median standard deviation


@dataclass(frozen=True)
class Constant:
    """The scale 1 for all bags."""

    def predict_folds(self, bags: Bags) -> np.ndarray:
        return np.ones((1, len(bags)))


@dataclass(frozen=True)
class Fitted:
    """Scales, each fitted without some of the folds: fold k has ``scales[k % len(scales)]``."""

    scales: tuple

    def predict_folds(self, bags: Bags) -> np.ndarray:
        return np.stack([scale.predict(bags) for scale in self.scales])


@dataclass(frozen=True)
class ModelStd:
    """The standard deviations that the fold models give, cut off at ``smallest``."""

    models: Any
    smallest: float

    def predict_folds(self, bags: Bags) -> np.ndarray:
        return np.maximum(self.models.std_folds(bags), self.smallest)


def model_std(models, bags: Bags) -> ModelStd:
    """Return the scale "std"; 1 for a method whose standard deviations are all zero."""
    typical = float(np.median(models.std_folds(bags)))
    return ModelStd(models, SMALLEST * typical if typical > 0 else 1.0)


MOST_BAGS = 1000  # largest number of bags in the linear programmes; about twenty coefficients need no more
CHANCE = 0.1  # probability that some column enters if the error depends on none
SMALLEST_WIDTH = 1e-3  # lower limit relative to the median width between the two quantiles


class BagQuantiles(BaseEstimator):
    r"""A lower and an upper quantile of the error of a bag's prediction, linear in a short description of the bag.

    The description z has 1/√size, the within-bag spread, the prediction itself, the bag's covariates, and the means of
    the features that go most with the size of the error. Each quantile τ, (1 - level)/2 and (1 + level)/2, is

    .. math:: \min_{a, b} \frac1n \sum_i \rho_\tau(r_i - a - b^\top z_i) + \lambda_\tau \lVert b \rVert_1, \qquad
              \rho_\tau(e) = \max(\tau e, (\tau - 1) e),

    with the columns of z standardised and, for p columns and a factor f (``penalty``),
    :math:`\lambda_\tau = f\,\Phi^{-1}(1 - 0.1 / 2p)\sqrt{\tau(1 - \tau)/n}`. For f = 1 Belloni and Chernozhukov show
    that no column enters (with probability 0.9) where the error depends on none, so that the two quantiles are those
    of all residuals. A factor of one half detects dependence earlier, at little cost if there is none
    (docs/intervals_measured.md has figures). Columns are clipped to their range in training, so that no quantile is
    extrapolated to a new bag.

    Parameters
    ----------
    level : float
        The share of errors between the two quantiles.
    penalty : float
        The factor f above.
    most_features : int
        Feature means that may enter, those with the largest correlation with the absolute residual.

    Attributes
    ----------
    coef_ : array (2, columns), of the standardised columns; ``intercept_`` : array (2,)
    chosen_ : positions of the features whose means are among the columns

    References
    ----------
    A. Belloni, V. Chernozhukov, "l1-penalized quantile regression in high-dimensional sparse models", Annals of
    Statistics, 2011.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=n) for n in np.tile([1, 4, 25, 100], 100)])
    >>> errors = rng.exponential(size=400) / np.sqrt(bags.sizes)
    >>> BagQuantiles(level=0.8).fit(bags, errors, np.zeros(400)).predict(bags[[0, 3]], np.zeros(2)).round(1)
    array([[0.1, 2.1],
           [0. , 0.2]])
    """

    def __init__(self, *, level: float = 0.9, penalty: float = 0.5, most_features: int = 20):
        self.level = level
        self.penalty = penalty
        self.most_features = most_features

    def fit(self, bags, residuals, predictions) -> BagQuantiles:
        """Fit to held-out residuals and held-out predictions of bags."""
        bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        remember_columns(self, bags)
        residuals, predictions = (np.asarray(values, dtype=np.float64) for values in (residuals, predictions))
        if len(bags) > MOST_BAGS:
            rows = np.linspace(0, len(bags) - 1, MOST_BAGS).round().astype(int)
            bags, residuals, predictions = bags[rows], residuals[rows], predictions[rows]
        self.mean_, self.variance_ = _moments(bags.instances, bags.weights)
        rows = self._describe(bags, np.abs(residuals))
        p = 1 + rows.shape[1] - len(self.chosen_) + bags.n_features
        columns = np.column_stack([predictions, rows])
        self.range_ = np.stack([columns.min(axis=0), columns.max(axis=0)])
        self.centre_, spread = columns.mean(axis=0), columns.std(axis=0)
        self.width_ = np.where(spread > 1e-9 * np.abs(columns).max(axis=0), spread, np.inf)
        self._solve((columns - self.centre_) / self.width_, residuals, p)
        return self

    def predict(self, bags, predictions) -> np.ndarray:
        """Return both quantiles per bag, (bags, 2), or (models, bags, 2) for predictions (models, bags)."""
        bags = check_bags(bags, fitted=self, allow_missing=True, allow_weights=True, apart=True)
        predictions = np.asarray(predictions, dtype=np.float64)
        quantiles = self._standardised(self._describe(bags), slice(1, None)) @ self.coef_[:, 1:].T + self.intercept_
        # Only the first column depends on the model that predicts.
        steps = self._standardised(predictions[..., None], slice(0, 1)) * self.coef_[:, 0]
        return np.sort(quantiles + steps, axis=-1)

    def _solve(self, columns: np.ndarray, residuals: np.ndarray, p: int) -> None:
        n, unit = len(residuals), float(np.abs(residuals).mean())
        self.coef_, self.intercept_ = np.zeros((2, columns.shape[1])), np.zeros(2)
        if unit == 0:
            return
        for side, tau in enumerate(((1 - self.level) / 2, (1 + self.level) / 2)):
            penalty = self.penalty * norm.ppf(1 - CHANCE / (2 * p)) * np.sqrt(tau * (1 - tau) / n)
            # Scale residuals to mean one, so that the solver's tolerances do not depend on the unit of the targets.
            fitted = QuantileRegressor(quantile=tau, alpha=penalty, solver="highs").fit(columns, residuals / unit)
            self.coef_[side], self.intercept_[side] = fitted.coef_ * unit, fitted.intercept_ * unit

    def _standardised(self, values: np.ndarray, which: slice) -> np.ndarray:
        low, high = self.range_[:, which]
        return (np.clip(values, low, high) - self.centre_[which]) / self.width_[which]

    def _describe(self, bags: Bags, errors: np.ndarray | None = None) -> np.ndarray:
        """Return 1/√size, spread, covariates and means of chosen features; ``errors`` choose them in a fit."""
        mean, variance = _within(bags, self.mean_, self.variance_)
        columns = [1.0 / np.sqrt(bags.effective_sizes()), np.sqrt(variance.mean(axis=1))]
        if bags.covariates is not None:
            covariates = np.asarray(bags.covariates, dtype=np.float64)
            if errors is not None:
                self.usual_ = _moments(covariates, None)[0]
            columns += list(np.where(np.isnan(covariates), self.usual_, covariates).T)
        if errors is not None:
            gap = mean - mean.mean(axis=0)
            strength = np.abs(gap.T @ (errors - errors.mean())) / np.maximum(np.linalg.norm(gap, axis=0), 1e-300)
            self.chosen_ = np.sort(np.argsort(-strength, kind="stable")[: self.most_features])
        return np.column_stack([*columns, mean[:, self.chosen_]])


@dataclass(frozen=True)
class FoldQuantiles:
    """Quantiles, each fitted without some of the folds: fold k has ``models[k % len(models)]``."""

    models: tuple
    smallest: float = 0.0

    def predict_folds(self, bags: Bags, centre: np.ndarray) -> np.ndarray:
        """Return bounds (folds, bags, 2) around the predictions (folds, bags) of the fold models."""
        bounds = np.empty((*centre.shape, 2))
        for j, model in enumerate(self.models):
            rows = slice(j, None, len(self.models))
            bounds[rows] = centre[rows][..., None] + model.predict(bags, centre[rows])
        return bounds

    def middle_and_half(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle between two bounds and half the width, which is above zero."""
        return (lower + upper) / 2, np.maximum((upper - lower) / 2, self.smallest)


def fold_quantiles(fitted: list[BagQuantiles], bags: Bags, held_out: np.ndarray) -> FoldQuantiles:
    """Return the quantiles of each fold, with the least width between them."""
    width = float(np.median([np.ptp(model.predict(bags, held_out), axis=1) for model in fitted]))
    return FoldQuantiles(tuple(fitted), SMALLEST_WIDTH * width if width > 0 else 1.0)
