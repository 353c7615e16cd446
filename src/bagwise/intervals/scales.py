"""The scale of a bag's error: `BagScale` from its size and spread, the method's standard deviation, or one for all.

Every fold has a scale of its own, fitted without the bags of that fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, clone

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.checks import FAR, within_range
from bagwise.bags.segments import segment_mean
from bagwise.intervals.calibration import fit_without_folds

ROUNDS = 5
SMALLEST_SCALE = 0.1  # of the mean scale: no interval shrinks to nothing


class BagScale(BaseEstimator):
    r"""The scale of a bag's error: between that of a bag of one instance and that of an endless one.

    .. math:: s = (a + c\,v)\,u + (b + d\,v)\,(1 - u), \qquad u = 1 / \sqrt{\text{size}},

    with a, b, c, d not negative and v the within-bag spread: the root of the mean, over the features, of the variance
    inside the bag, in units of the variance of all instances. A bag's own sum of squares is completed by one instance
    of the usual spread, so that v of a bag of one is the usual and v of a large bag its own. The error of a mean over n
    instances falls with :math:`1/\sqrt n` down to what no size removes, and so does s; where larger bags are harder,
    b > a says so. s is bounded whatever the size of a new bag.

    The coefficients are those of non-negative least squares of the absolute residuals, every bag divided by its own
    scale (a few rounds of reweighting). Below a tenth of its mean over the training bags the scale is cut off. A value
    far outside the range of training (by more than three of its widths) counts as that far.

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
        """Fit to the residuals of bags by models that had not seen them."""
        bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        error = np.abs(np.asarray(residuals, dtype=np.float64))
        sizes = bags.effective_sizes()
        self.unequal_ = len(set(sizes.tolist())) > 1
        self.mean_, self.variance_ = _moments(bags.instances, bags.weights)
        self.usual_ = (sizes * self._variance(bags)).sum() / max(sizes.sum() - len(bags), 1)
        remember_columns(self, bags)
        # Residuals of mean one: the weights below then mean the same for targets of any scale.
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
        """The scale of every bag."""
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
        """Mean over the features of the variance inside every bag, divided by the variance of all instances."""
        varies = self.variance_ > 0
        if not varies.any():
            return np.zeros(len(bags))
        rows = (bags.instances[:, varies] - self.mean_[varies]) / np.sqrt(self.variance_[varies])
        rows = np.where(np.isnan(rows), 0.0, rows)  # a missing value counts as the mean
        mean, square = (segment_mean(part, bags.offsets, bags.weights) for part in (rows, rows**2))
        variance = square - mean**2
        return np.maximum(variance, 0.0).mean(axis=1)


def _moments(instances: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every feature over its known values that count; a feature without any has variance 0."""
    known = ~np.isnan(instances)
    if weights is not None:
        known &= weights[:, None] > 0
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, instances, 0.0).sum(axis=0, dtype=np.float64) / count
    return mean, (np.where(known, instances - mean, 0.0) ** 2).sum(axis=0) / count


MOST_SCALES = 10  # fitted; with more folds than that, several share one
INNER_FOLDS = 5  # of the training part of a split
SMALLEST = 1e-3  # of the median standard deviation


@dataclass(frozen=True)
class Constant:
    """Every bag alike."""

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
    """The scale "std"; a method that is certain of everything (constant targets) has scale 1."""
    typical = float(np.median(models.std_folds(bags)))
    return ModelStd(models, SMALLEST * typical if typical > 0 else 1.0)


def without_folds(scale, bags: Bags, residuals: np.ndarray, fold: np.ndarray) -> Fitted:
    """A scale per fold, fitted on the held-out residuals of the bags outside it."""
    part = fold % MOST_SCALES
    outside = [np.flatnonzero(part != j) for j in range(part.max() + 1)]
    return Fitted(tuple(clone(scale).fit(bags[rows], residuals[rows]) for rows in outside))


def within_training(scale, method, bags: Bags, y, weights, *, random_state, n_jobs) -> Fitted:
    """One scale, fitted on residuals held out within the training part of a split: the others are never looked at."""
    from bagwise.regressors.bayesian.evidence_ridge import few_folds

    fold = few_folds(bags, INNER_FOLDS, random_state)
    models = fit_without_folds(method, bags, y, fold, weights, n_jobs)
    return Fitted((clone(scale).fit(bags, y - models.held_out(bags, fold)),))
