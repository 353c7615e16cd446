"""Held-out predictions of the training bags, and what predicts new bags without them: one function per way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.intervals.closed_form import leave_out_of_ridge
from bagwise.intervals.left_out import FoldModels, fit_once, fit_without_folds, keeps_folds
from bagwise.intervals.order_statistics import units_of


@dataclass(frozen=True)
class Calibration:
    """What every kind of interval is made of.

    Attributes
    ----------
    method : fitted; what predicts new bags
    left_out : offers ``predict_folds(bags) -> (folds, bags)``, each row by a model that never saw that fold
    positions : the training bags with a held-out prediction
    fold, held_out : of each of those, the row of ``left_out`` and what it predicts
    """

    method: Any
    left_out: Any
    positions: np.ndarray
    fold: np.ndarray
    held_out: np.ndarray


def by_folds(method, bags: Bags, y, weights, fold, *, kept: bool, n_jobs) -> Calibration:
    """For "cv+": the fold models of the method itself if it keeps any (and ``kept`` allows them), else one per fold."""
    fitted = fit_once(method, bags, y, weights)
    everything = np.arange(len(bags))
    if kept and keeps_folds(fitted, bags):
        return Calibration(fitted, fitted, everything, np.asarray(fitted.fold_), np.asarray(fitted.held_out_))
    models = fit_without_folds(method, bags, y, fold, weights, n_jobs)
    return Calibration(fitted, models, everything, fold, models.held_out(bags, fold))


def by_ridge(method, bags: Bags, y, weights, *, any_grid: bool) -> Calibration | None:
    """For "jackknife+", in closed form; None where that would not be honest."""
    ridge = leave_out_of_ridge(method, bags, y, weights, any_grid=any_grid)
    if ridge is None:
        return None
    return Calibration(ridge.method, ridge, np.arange(len(bags)), units_of(bags), y - ridge.residuals)


def by_split(method, bags: Bags, y, weights, fold) -> Calibration:
    """For "split": a model trained on all folds but the first, which is held out."""
    held_out, train = np.flatnonzero(fold == 0), np.flatnonzero(fold != 0)
    model = fit_once(method, bags[train], y[train], None if weights is None else weights[train])
    nought = np.zeros(len(held_out), dtype=np.int64)
    return Calibration(model, FoldModels((model,)), held_out, nought, model.predict(bags[held_out]))
