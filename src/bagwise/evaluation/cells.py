"""One cell: fit a method on the training bags of a split, score it on the others. A pure function of its key."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.validation import name_bags
from bagwise.evaluation.metrics import METRICS, score, uncertainty_of
from bagwise.evaluation.plan import Cell
from bagwise.evaluation.selection import choose_inside, fit, predict, predict_settings
from bagwise.execution.tasks import Watch
from bagwise.execution.threads import one_thread


def run_cell(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    """The result of a cell, as plain values. An error inside it becomes its result.

    ``settings`` are the ones scored and ``scores`` holds, for every metric, a value for each: the one chosen inside
    the training bags (``nested``), or all of them (``paper``; the best is found when every fold is known).
    """
    with one_thread(), Watch() as watch, warnings.catch_warnings():
        # Of held-out bags that is expected, and the score tells what it costs.
        warnings.filterwarnings("ignore", message=".*instance predictions of up to")
        try:
            outcome = _scored(cell, bags, y)
        except (Exception, SystemExit) as error:  # a method that calls exit() ends its cell, not the evaluation
            outcome = {"error": describe_error(error)}
    return finish(cell, outcome | {"seconds": cell.ahead + watch.seconds, "memory_mb": watch.memory_mb})


def finish(cell: Cell, outcome: dict) -> dict:
    """An outcome with the name of its cell, and every field there is."""
    result = {"key": cell.key, "method": cell.method, "repeat": cell.repeat, "fold": cell.fold}
    result |= {"selection": cell.selection, "n_train": len(cell.train), "n_test": len(cell.test), "error": None}
    empty = {
        "bags": [],
        "targets": [],
        "predictions": None,
        "std": None,
        "uncertainty": None,
        "settings": [],
        "scores": {},
    }
    return result | empty | {"seconds": float("nan"), "memory_mb": float("nan")} | outcome


def _scored(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    train, target, settings, uncertainty = bags[cell.train], y[cell.train], cell.settings, None
    if cell.selection == "paper":
        predictions = predict_settings(cell.estimator, settings, train, target, bags[cell.test])
    else:
        how = {"metric": cell.metric, "random_state": cell.seed}
        settings = [choose_inside(cell.estimator, settings, train, target, **how)]
        model = fit(cell.estimator, settings[0], train, target)
        predictions = [predict(model, bags[cell.test])]
        uncertainty = uncertainty_of(model, bags[cell.test], y[cell.test])
    scores: dict[str, list[float]] = {name: [] for name in METRICS}
    for prediction, std in predictions:
        _refuse_odd(prediction, std, bags.ids[cell.test])
        for name, value in score(y[cell.test], prediction, std, uncertainty).items():
            scores[name].append(value)
    kept = len(settings) == 1  # with hundreds of settings the file would not be small
    return {
        "bags": cell.test.tolist(),
        "targets": y[cell.test].tolist(),
        "predictions": prediction.tolist() if kept else None,
        "std": std.tolist() if kept and std is not None else None,
        "uncertainty": None if uncertainty is None else uncertainty.as_lists(),
        "settings": [describe_setting(setting) for setting in settings],
        "scores": scores,
    }


def describe_setting(setting: dict) -> str:
    """A setting as a person would write it: the last word of every parameter and its value."""
    return ", ".join(f"{name.split('__')[-1]}={value!r}" for name, value in setting.items())


def describe_error(error: BaseException) -> str:
    """The error in one line, then where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}\n(in {last.name}, line {last.lineno} of {Path(last.filename).name})"


def _refuse_odd(prediction: np.ndarray, std: np.ndarray | None, ids: np.ndarray) -> None:
    """Refuse what is no number. A std of 0 is accepted: CRPS and coverage are defined for it, and NLL is NaN."""
    odd = ~np.isfinite(prediction)
    if odd.any():
        raise ValueError(f"{name_bags(ids, odd)} a prediction that is not a finite number")
    odd = np.zeros(len(ids), dtype=bool) if std is None else ~(np.isfinite(std) & (std >= 0))
    if odd.any():
        value = float(std[odd.argmax()])
        raise ValueError(f"{name_bags(ids, odd)} a std of {value}; a finite number that is not negative is needed")
