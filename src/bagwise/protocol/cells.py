"""One cell: fit a method on the training bags of a split, score it on the others. A pure function of its key."""

from __future__ import annotations

import traceback
from pathlib import Path

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.naming import name_bags
from bagwise.execution.watching import Watch
from bagwise.protocol.metrics import METRICS, score
from bagwise.protocol.plan import Cell
from bagwise.protocol.selection import choose_inside, fit, predict, predict_settings
from bagwise.threads import one_thread


def run_cell(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    """The result of a cell, as plain values. An error inside it becomes its result.

    ``settings`` are the ones scored and ``scores`` holds, for every metric, a value for each: the one chosen inside
    the training bags (``nested``), or all of them (``paper``; the best is found when every fold is known).
    """
    with one_thread(), Watch() as watch:
        try:
            outcome = _score_all(cell, bags, y) if cell.selection == "paper" else _score_chosen(cell, bags, y)
        except Exception as error:
            outcome = {"error": describe_error(error)}
    return finish(cell, outcome | {"seconds": cell.ahead + watch.seconds, "memory_mb": watch.memory_mb})


def finish(cell: Cell, outcome: dict) -> dict:
    """An outcome with the name of its cell, and every field there is."""
    result = {"key": cell.key, "method": cell.method, "repeat": cell.repeat, "fold": cell.fold}
    result |= {"selection": cell.selection, "n_train": len(cell.train), "n_test": len(cell.test), "error": None}
    empty = {"bags": [], "targets": [], "predictions": None, "std": None, "settings": [], "scores": {}}
    return result | empty | {"seconds": float("nan"), "memory_mb": float("nan")} | outcome


def _score_chosen(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    train, target = bags[cell.train], y[cell.train]
    setting = choose_inside(cell.estimator, cell.settings, train, target, metric=cell.metric, random_state=cell.seed)
    model = fit(cell.estimator, setting, train, target)
    return _outcome(cell, bags, y, [setting], [predict(model, bags[cell.test])])


def _score_all(cell: Cell, bags: Bags, y: np.ndarray) -> dict:
    both = predict_settings(cell.estimator, cell.settings, bags[cell.train], y[cell.train], bags[cell.test])
    return _outcome(cell, bags, y, cell.settings, both)


def _outcome(cell: Cell, bags: Bags, y: np.ndarray, settings, predictions) -> dict:
    scores: dict[str, list[float]] = {name: [] for name in METRICS}
    for prediction, std in predictions:
        prediction = np.asarray(prediction, dtype=np.float64)
        _refuse_odd(prediction, bags.ids[cell.test])
        for name, value in score(y[cell.test], prediction, std).items():
            scores[name].append(value)
    kept = len(settings) == 1  # with hundreds of settings the file would not be small
    return {
        "bags": cell.test.tolist(),
        "targets": y[cell.test].tolist(),
        "predictions": prediction.tolist() if kept else None,
        "std": np.asarray(std, dtype=np.float64).tolist() if kept and std is not None else None,
        "settings": [describe_setting(setting) for setting in settings],
        "scores": scores,
    }


def describe_setting(setting: dict) -> str:
    """A setting as a person would write it: the last word of every parameter and its value."""
    return ", ".join(f"{name.split('__')[-1]}={value!r}" for name, value in setting.items())


def describe_error(error: Exception) -> str:
    """The error in one line, then where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}\n(in {last.name}, line {last.lineno} of {Path(last.filename).name})"


def _refuse_odd(prediction: np.ndarray, ids: np.ndarray) -> None:
    if prediction.shape != ids.shape:
        raise ValueError(f"predict gave shape {prediction.shape} for {len(ids)} bags; one number per bag is needed")
    odd = ~np.isfinite(prediction)
    if odd.any():
        raise ValueError(f"{name_bags(ids, odd)} a prediction that is not a finite number")
