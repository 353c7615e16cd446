"""How hyperparameters are chosen: inside the training bags, or (as the paper did) on the folds that score.

Methods are fitted with one setting, or with each of many; what the settings share is fitted once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from bagwise.bags import BagKFold, Bags
from bagwise.metrics import Metric, best_of, get_metric
from bagwise.regressors import EmbeddingRidge, RidgePath


def fit(estimator, setting: dict, bags: Bags, y: np.ndarray):
    """Fit a copy of the estimator with the setting."""
    return _set(estimator, setting).fit(bags, y)


def _set(estimator, setting: dict):
    # Values are copied too: two fits must not share a part, as in scikit-learn's own search.
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in setting.items()})


def predict(model, bags) -> tuple[np.ndarray, np.ndarray | None]:
    """Return predictions, and their standard deviations if the model gives any: one number per bag."""
    if "return_std" not in inspect.signature(_last(model).predict).parameters:
        return _one_per_bag(model.predict(bags), len(bags), "predictions"), None
    both = _with_std(model, bags)
    if not isinstance(both, tuple) or len(both) != 2:
        raise ValueError(f"predict(return_std=True) gave {type(both).__name__}; (predictions, deviations) are needed")
    return _one_per_bag(both[0], len(bags), "predictions"), _one_per_bag(both[1], len(bags), "std")


def _last(model):
    """Return the part that predicts: the last step of a pipeline, the best of a search."""
    inside = model[-1] if _passes_on(model) else getattr(model, "best_estimator_", None)
    return model if inside is None else _last(inside)


def _passes_on(model) -> bool:
    """Return whether a model is a pipeline whose `predict` is not overridden."""
    predict = inspect.getattr_static(type(model), "predict", None)
    return isinstance(model, Pipeline) and predict is inspect.getattr_static(Pipeline, "predict")


def _with_std(model, bags):
    """Call ``predict(bags, return_std=True)`` of the part that predicts; a search does not pass options on."""
    if _passes_on(model):
        return _with_std(model[-1], model[:-1].transform(bags) if len(model) > 1 else bags)
    if hasattr(model, "best_estimator_"):
        return _with_std(model.best_estimator_, bags)
    return model.predict(bags, return_std=True)


def _one_per_bag(values, count: int, name: str) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (count,):
        raise ValueError(f"predict gave {name} of shape {values.shape} for {count} bags; one number per bag is needed")
    return values


def predict_settings(
    estimator, settings: tuple[dict, ...], train: Bags, y: np.ndarray, test: Bags
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield predictions of the test bags (and standard deviations, if any) by each setting.

    The steps of a Pipeline before the first that any setting touches are fitted once: a grid over the head of
    instance-kme trains its networks once, not once per setting. Settings that follow each other and differ in the
    penalty of a ridge alone share one decomposition. The numbers are those of refitting the whole, to rounding.
    """
    fixed = _fixed_steps(estimator, settings)
    if fixed:
        prefix, estimator = clone(estimator[:fixed]), estimator[fixed:]
        train = prefix.fit_transform(train, y)
        test = prefix.transform(test)
    for run in _runs(estimator, settings):
        if len(run) == 1:
            yield predict(_set(estimator, run[0]).fit(train, y), test)
        else:
            yield from ((column, None) for column in _predict_path(estimator, run, train, y, test))


def _runs(estimator, settings: tuple[dict, ...]) -> Iterator[list[dict]]:
    """Yield the settings in order, in runs that differ in one penalty only; most runs have one setting."""
    path = _penalty_of(estimator)

    def same(numbered) -> tuple:
        number, setting = numbered
        if path is None or np.size(setting.get(path, ())) != 1 or setting.get(path.split("__")[0] + "__grid"):
            return (number,)
        return tuple(sorted((name, id(value)) for name, value in setting.items() if name != path))

    for _, run in groupby(enumerate(settings), same):
        yield [setting for _, setting in run]


def _penalty_of(estimator) -> str | None:
    """Return the parameter of the penalties of the last step, if one fit gives the predictions for all."""
    name, last = estimator.steps[-1] if _passes_on(estimator) else ("", None)
    whole = isinstance(last, EmbeddingRidge) and isinstance(last.head, RidgePath) and not last.grid
    return f"{name}__head__penalties" if whole else None


def _predict_path(estimator, run: list[dict], train: Bags, y: np.ndarray, test: Bags) -> np.ndarray:
    """Return a row of predictions per setting of a run."""
    path = _penalty_of(estimator)
    penalties = tuple(np.ravel(setting[path])[0] for setting in run)
    model = _set(estimator, run[0] | {path: penalties}).fit(train, y)
    rows = model[:-1].transform(test) if len(model) > 1 else test
    return model[-1].predict_path(rows).T


def _fixed_steps(estimator, settings) -> int:
    """Return the number of steps of a Pipeline before the first that any setting changes; 0 if not needed."""
    if not isinstance(estimator, Pipeline) or len(settings) == 1:
        return 0
    touched = {name.split("__")[0] for setting in settings for name in setting}
    names = [name for name, _ in estimator.steps]
    if not touched <= set(names):  # a setting that changes the pipeline itself
        return 0
    return min([names.index(name) for name in touched], default=0)


SELECTIONS = ("nested", "paper")
# What tables and texts write of each; "none" is of a method with one setting, where the protocol chooses nothing.
LABELS = {"nested": "nested", "paper": "paper (optimistic)", "none": "none"}
EXPLANATIONS = {
    "nested": "hyperparameters chosen inside the training bags",
    "paper": "hyperparameters are the best on the scoring folds, as in Uriot (2019): optimistic",
    "none": "default settings, or those that a method chooses itself inside the training bags",
}
INNER_FOLDS = 5


def as_settings(space) -> tuple[dict, ...]:
    """Return all settings of a search space (parameter -> values, or a list of dicts); one empty one for none."""
    return tuple(ParameterGrid(space)) if space else ({},)


def chooses_by_itself(estimator) -> bool:
    """Return whether some part of the estimator searches a ``grid`` of its own in `fit`."""
    parameters = estimator.get_params(deep=True)
    return any(name.split("__")[-1] == "grid" and value for name, value in parameters.items())


def choose_inside(estimator, settings, bags: Bags, y: np.ndarray, *, metric: str, random_state: int) -> dict:
    """Return the setting with the best mean score over folds of these (training) bags; groups stay together.

    What ``GridSearchCV(estimator, space, cv=BagKFold(5))`` would choose, with the untouched steps fitted once a fold.
    R², Pearson and coverage mean little on a fold of few bags: the held-out bags of all folds are scored together. A
    setting without a score (NaN) is never chosen.
    """
    if len(settings) == 1:
        return settings[0]
    judge, folds = get_metric(metric), []
    for train, test in inner_splits(bags, random_state):
        both = zip(*predict_settings(estimator, settings, bags[train], y[train], bags[test]), strict=True)
        folds.append((y[test], *both))
        if judge.needs_std and all(std is None for std in folds[-1][-1]):
            break  # no setting will have a score, so there is no need to fit on
    best = best_of([_loss_inside(judge, folds, number) for number in range(len(settings))])
    if best is None:
        raise ValueError(_no_score(judge, len(settings)))
    return settings[best]


def _loss_inside(judge: Metric, folds: list[tuple], number: int) -> float:
    """Return the loss of one setting, from folds of (targets, a prediction per setting, a std per setting)."""
    parts = [(y, predictions[number], *([stds[number]] if judge.needs_std else [])) for y, predictions, stds in folds]
    if any(array is None for part in parts for array in part):
        return float("nan")
    if judge.pooled:
        parts = [tuple(map(np.concatenate, zip(*parts, strict=True)))]
    return float(np.mean([judge.loss(judge(*part)) for part in parts]))


def _no_score(judge: Metric, count: int) -> str:
    other = ", or take a method that gives a standard deviation" if judge.needs_std else ""
    advice = f"; choose by 'rmse'{other}" if judge.needs_std or judge.pooled else ""
    return f"{judge.name} needs {judge.needs}; none of {count} settings has a score inside the training bags{advice}"


def inner_splits(bags: Bags, random_state: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the folds of training bags on which settings are compared."""
    units = len(set((bags.ids if bags.groups is None else bags.groups).tolist()))
    return BagKFold(min(INNER_FOLDS, units), random_state=random_state).split(bags)
