"""What was tried and what came of it, as data: a row per member, and the errors to compare."""

from __future__ import annotations

import numpy as np

from bagwise.automatic.blending import best_member
from bagwise.automatic.members import MEAN
from bagwise.automatic.screening import Screen, Trial


def fold_errors(predictions: np.ndarray, screen: Screen) -> np.ndarray:
    """Root mean squared error of every fold."""
    loss, fold, weight = screen.loss(predictions), screen.fold[screen.counted], screen.weight
    return np.array([np.sqrt(loss[fold == k].sum() / weight[fold == k].sum()) for k in np.unique(fold)])


def rows_of(trials: list[Trial], weights: dict[str, float], screen: Screen) -> list[dict]:
    """A row for every member. ``status`` is "blended", "tried" (without weight), "dropped" after the first fold,
    "skipped" for want of time, or "failed"; ``why`` is the reason of the last three.

    ``rmse`` is the mean of the errors of the folds and ``rmse_se`` its standard error; ``difference`` is how much
    larger it is than that of the best member, fold by fold, and ``difference_se`` its standard error.
    """
    done = [trial for trial in trials if trial.done]
    errors = {trial.member.name: fold_errors(trial.held_out, screen) for trial in done}
    Z = np.column_stack([trial.held_out for trial in done])
    best = done[best_member(Z, screen.y, screen.sample_weight)].member.name
    return [_row(trial, errors.get(trial.member.name), errors[best], weights) for trial in trials]


def _row(trial: Trial, errors: np.ndarray | None, best: np.ndarray, weights: dict[str, float]) -> dict:
    name, weight = trial.member.name, weights[trial.member.name]
    status = "blended" if weight > 0 else trial.status
    row = {"member": name, "status": status, "why": trial.why, "weight": weight, "seconds": trial.seconds}
    if errors is None:
        return row | dict.fromkeys(("rmse", "rmse_se", "difference", "difference_se"), float("nan"))
    (rmse, se), (more, more_se) = _mean_and_error(errors), _mean_and_error(errors - best)
    return row | {"rmse": rmse, "rmse_se": se, "difference": more, "difference_se": more_se}


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
    spread = values.std(ddof=1) if len(values) > 1 else np.nan
    return float(values.mean()), float(spread / np.sqrt(len(values)))


def scores_of(names: list[str], Z: np.ndarray, held_out: np.ndarray, y: np.ndarray, sample_weight=None) -> dict:
    """Held-out error over all bags of what was chosen, of the best member and of predicting the mean."""

    def rmse(predictions):
        return float(np.sqrt(np.average((predictions - y) ** 2, weights=sample_weight)))

    best = best_member(Z, y, sample_weight)
    mean = rmse(Z[:, names.index(MEAN)])
    explained = 1.0 - (rmse(held_out) / mean) ** 2 if mean > 0 else 0.0
    return {
        "rmse": rmse(held_out),
        "mean_rmse": mean,
        "best": names[best],
        "best_rmse": rmse(Z[:, best]),
        "explained": explained,
    }
