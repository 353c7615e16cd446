"""Calibration: held-out predictions of training bags, and the predictions of new bags by the same models.

`by_folds` trains a model per fold, or uses the fold models that the method stores; `by_split` trains one model without
the held-out bags; `by_ridge` is leave-one-bag-out ridge regression in closed form, for training bags and new bags.
"""

from __future__ import annotations

import inspect
import time
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags, weights_or_ones
from bagwise.bags.folds import Folds, units_of
from bagwise.execution.tasks import starts_processes
from bagwise.held_out import assemble, fit_held_out, hold_out
from bagwise.instances import EachInstance, OutOfFold
from bagwise.regressors import EmbeddingRidge, RidgePath
from bagwise.regressors.pipeline import last_step

WORKERS_START = 3.0  # seconds of fits below which worker processes, which start with slow imports, do not pay off


@dataclass(frozen=True)
class Calibration:
    """Held-out predictions, and the models behind them, from which each kind of interval is made."""

    method: Any  # fitted, predicts new bags
    left_out: Any  # has predict_folds(bags) -> (folds, bags); each row is by a model fitted without that fold
    positions: np.ndarray  # positions of the training bags with a held-out prediction
    fold: np.ndarray  # row of ``left_out`` for each of these bags
    held_out: np.ndarray


def by_folds(method, bags: Bags, y, weights, folds: Folds, *, reuse: bool, n_jobs) -> Calibration:
    """Calibrate by "cv+": use the fold models that the method stores, if ``reuse`` allows it, or fit one per fold."""
    started = time.perf_counter()
    fitted = fit_once(method, bags, y, weights)
    quick = len(folds) * (time.perf_counter() - started) < WORKERS_START
    if reuse and keeps_folds(fitted, bags):
        models, fold, held_out = fold_models(fitted), np.asarray(fitted.fold_), np.asarray(fitted.held_out_)
    else:
        fold, n_jobs = folds.test, 1 if quick and starts_processes() else n_jobs
        models, held_out = fit_without_folds(method, bags, y, folds, weights, n_jobs)
    positions = np.flatnonzero(fold >= 0)
    return Calibration(fitted, models, positions, fold[positions], held_out[positions])


def by_split(method, bags: Bags, y, weights, split: tuple[np.ndarray, np.ndarray]) -> Calibration:
    """Calibrate by "split": fit a model on the training bags, and predict the held-out bags."""
    result = fit_held_out(partial(fit_once, method), *split, bags, y, weights)
    fold = np.zeros(len(split[1]), dtype=np.int64)
    return Calibration(result.model, FoldModels((result.model,)), split[1], fold, result.predictions)


# Models without a fold ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldModels:
    """A fitted model per fold, each trained without the bags of its fold."""

    models: tuple

    def predict_folds(self, bags: Bags) -> np.ndarray:
        """Return the predictions of each model, (folds, bags)."""
        return np.stack([model.predict(bags) for model in self.models])

    def std_folds(self, bags: Bags) -> np.ndarray:
        """Return the standard deviations of each model, (folds, bags), for methods that give them."""
        return np.stack([model.predict(bags, return_std=True)[1] for model in self.models])

    def held_out(self, bags: Bags, fold: np.ndarray) -> np.ndarray:
        """Return the prediction of each bag by the model of its fold."""
        values = np.empty(len(bags))
        for k, model in enumerate(self.models):
            values[fold == k] = model.predict(bags[fold == k])
        return values


def fit_once(method, bags: Bags, y: np.ndarray, weights: np.ndarray | None):
    """Return a fitted clone of the method; weights are passed on only if there are any."""
    return clone(method).fit(bags, y) if weights is None else clone(method).fit(bags, y, sample_weight=weights)


def fit_without_folds(method, bags: Bags, y, folds: Folds, weights, n_jobs) -> tuple[FoldModels, np.ndarray]:
    """Return one model per fold, trained without it, and the held-out prediction of each bag (NaN if there is none)."""
    pairs = list(folds.pairs())
    tasks = [(partial(fit_once, method), *pair) for pair in pairs]
    results = hold_out(tasks, bags, y, sample_weight=weights, n_jobs=n_jobs)
    return FoldModels(tuple(result.model for result in results)), assemble(results, pairs, len(bags))


def keeps_folds(model, bags: Bags) -> bool:
    """Return whether a model has fold models: ``held_out_``, ``fold_`` (one entry per bag) and ``predict_folds``."""
    offers = all(hasattr(model, name) for name in ("held_out_", "fold_", "predict_folds"))
    has_models = getattr(model, "fold_models_", True)
    return bool(offers and has_models and model.held_out_ is not None and len(model.held_out_) == len(bags))


def fold_models(model):
    """Return the stored fold models of a method; those of `auto` as a separate object, so that a file can hold both."""
    return FoldModels(tuple(model.split_folds())) if hasattr(model, "split_folds") else model


def gives_std(method) -> bool:
    """Return whether ``predict(bags, return_std=True)`` works."""
    return "return_std" in inspect.signature(last_step(method).predict).parameters


# Ridge regression without a bag, in closed form --------------------------------------------------------------------


class LeavingOut(RidgePath):
    r"""`RidgePath` with the smoother h, from which predictions without a bag follow.

    Ridge regression is linear in the targets, :math:`f(z) = \sum_i h_i(z)\, y_i`, and leaving bag i out is the same as
    giving it the target that the others predict for it. With the left-out residual :math:`r_i`,

    .. math:: f_{-i}(z) = f(z) - h_i(z)\, r_i, \qquad f_{-G}(z) = f(z) - \sum_{i \in G} h_i(z)\, r_i

    for a group G left out together. Exact for the rows, the penalty (the product λ n) and the centring by the other
    bags; nothing is refitted.

    Attributes
    ----------
    share_, centre_, matrix_ : arrays (bags,), (columns,), (columns, bags), with h(z) = share + (z - centre) matrix
    """

    def fit(self, Z, y, sample_weight=None, groups=None) -> LeavingOut:
        super().fit(Z, y, sample_weight=sample_weight, groups=groups)
        rows = np.asarray(Z, dtype=np.float64)
        w = weights_or_ones(sample_weight, rows)
        penalty = self.penalty_ * (np.count_nonzero(w) if self.scaling == "n" else 1.0)
        path = self._path(rows, np.zeros(len(rows)), w)
        if self.kernel == "linear":
            self.centre_, loadings = path.mean, path.Vt.T * (path.s / (path.spectrum + penalty))
        else:
            self.centre_, loadings = path.column_mean, np.sqrt(w)[:, None] * path.U / (path.spectrum + penalty)
        self.share_ = w / w.sum() if self.fit_intercept else np.zeros(len(rows))
        self.matrix_ = loadings @ (path.U.T * np.sqrt(w))
        return self

    def smoother(self, Z) -> np.ndarray:
        """Return the weights h of the training targets in the predictions of rows."""
        return self.share_ + (np.asarray(Z, dtype=np.float64) - self.centre_) @ self.matrix_


@dataclass(frozen=True)
class LeftOutHead:
    """Replacement of a fitted head that predicts by all left-out ridges at once, (units, rows)."""

    head: LeavingOut
    unit: np.ndarray

    def predict(self, Z) -> np.ndarray:
        moved = np.zeros((self.unit.max() + 1, len(Z)))
        np.add.at(moved, self.unit, (self.head.smoother(Z) * self.head.residuals_).T)
        return self.head.predict(Z) - moved


@dataclass(frozen=True)
class LeftOutRidge:
    """A fitted method ending in `EmbeddingRidge`, with every bag (group) left out of its ridge in turn."""

    method: Any
    unit: np.ndarray

    def predict_folds(self, bags: Bags) -> np.ndarray:
        """Return the predictions of new bags, (units, bags)."""
        ridge = copy(last_step(self.method))
        ridge.head_ = LeftOutHead(ridge.head_, self.unit)
        return with_last(self.method, ridge).predict(bags)


def by_ridge(method, bags: Bags, y, weights, *, any_grid: bool = False) -> Calibration | None:
    """Calibrate by "jackknife+" in closed form; return None where left-out errors would be too small.

    The closed form is valid if the stages before the ridge do not use the targets or are out of fold, no bag occurs
    twice, no bag is fitted exactly, and the ridge chooses only its penalty from data (unless ``any_grid`` is set).
    """
    unit = units_of(bags)
    has_copies = bags.groups is None and unit.max() + 1 < len(bags)
    *stages, last = [step for _, step in method.steps] if isinstance(method, Pipeline) else [method]
    is_ridge = type(last) is EmbeddingRidge and type(last.head) in (type(None), RidgePath)
    if has_copies or not is_ridge or not all(map(_sees_no_targets, stages)):
        return None
    if not any_grid and len(ParameterGrid(last.grid or {})) > 1:
        return None
    ridge = clone(last)
    ridge.set_params(head=LeavingOut(**(ridge.head or RidgePath()).get_params(deep=False)))
    fitted = fit_once(with_last(method, ridge), bags, y, weights)
    residuals = last_step(fitted).residuals_
    if not np.isfinite(residuals).all():
        return None
    return Calibration(fitted, LeftOutRidge(fitted, unit), np.arange(len(bags)), unit, y - residuals)


def _sees_no_targets(stage) -> bool:
    """Return whether a stage is out of fold or learns nothing from the targets."""
    if stage is None or stage == "passthrough" or isinstance(stage, OutOfFold):
        return True
    return isinstance(stage, EachInstance) and hasattr(stage.estimator, "transform")


def with_last(method, ridge):
    """Return the method with another last step; the other steps are shared, not copied."""
    if not isinstance(method, Pipeline):
        return ridge
    changed = copy(method)
    changed.steps = [*method.steps[:-1], (method.steps[-1][0], ridge)]
    return changed
