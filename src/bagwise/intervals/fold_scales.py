"""The scale of a bag's error for every fold: fitted without the fold, given by its model, or one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags
from bagwise.intervals.left_out import fit_without_folds
from bagwise.regressors.predictive import few_folds

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
    fold = few_folds(bags, INNER_FOLDS, random_state)
    models = fit_without_folds(method, bags, y, fold, weights, n_jobs)
    return Fitted((clone(scale).fit(bags, y - models.held_out(bags, fold)),))
