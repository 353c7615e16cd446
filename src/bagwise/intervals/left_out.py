"""Models that never saw some of the bags: trained fold by fold, or kept by the method itself."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags


@dataclass(frozen=True)
class FoldModels:
    """A fitted model per fold, each trained without the bags of its fold."""

    models: tuple

    def predict_folds(self, bags: Bags) -> np.ndarray:
        """Predictions (folds, bags) of every model."""
        return np.stack([model.predict(bags) for model in self.models])

    def std_folds(self, bags: Bags) -> np.ndarray:
        """Their standard deviations (folds, bags), for methods that give them."""
        return np.stack([model.predict(bags, return_std=True)[1] for model in self.models])

    def held_out(self, bags: Bags, fold: np.ndarray) -> np.ndarray:
        """What the model that never saw it predicts for every training bag."""
        values = np.empty(len(bags))
        for k, model in enumerate(self.models):
            values[fold == k] = model.predict(bags[fold == k])
        return values


def fit_once(method, bags: Bags, y: np.ndarray, weights: np.ndarray | None):
    """A fresh copy of the method, fitted; weights are passed on only if there are any."""
    return clone(method).fit(bags, y) if weights is None else clone(method).fit(bags, y, sample_weight=weights)


def fit_without_folds(method, bags: Bags, y, fold: np.ndarray, weights, n_jobs) -> FoldModels:
    """One model per fold, trained on the bags of the others."""
    jobs = (delayed(_fit_without)(method, bags, y, fold, weights, k) for k in range(fold.max() + 1))
    return FoldModels(tuple(Parallel(n_jobs=n_jobs)(jobs)))


def _fit_without(method, bags: Bags, y, fold: np.ndarray, weights, k: int):
    part = np.flatnonzero(fold != k)
    return fit_once(method, bags[part], y[part], None if weights is None else weights[part])


def keeps_folds(model, bags: Bags) -> bool:
    """Whether a fitted model kept its fold models: ``held_out_``, ``fold_`` (a bag each) and ``predict_folds``."""
    offers = all(hasattr(model, name) for name in ("held_out_", "fold_", "predict_folds"))
    return offers and model.held_out_ is not None and len(model.held_out_) == len(bags)


def last_step(method):
    """The regressor at the end of a pipeline, or the method itself."""
    while isinstance(method, Pipeline):
        method = method.steps[-1][1]
    return method


def first_step(method):
    """What is given the bags: the beginning of a pipeline, or the method itself."""
    while isinstance(method, Pipeline):
        method = next((step for _, step in method.steps if step not in (None, "passthrough")), None)
    return method


def gives_std(method) -> bool:
    """Whether ``predict(bags, return_std=True)`` is understood."""
    return "return_std" in inspect.signature(last_step(method).predict).parameters
