"""How hyperparameters are chosen: inside the training bags, or (as the paper did) on the very folds that score."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.heads import RidgePath
from bagwise.instances import BagKFold
from bagwise.protocol.metrics import get_metric
from bagwise.regressors import EmbeddingRidge

# What every table and file says of each way.
SELECTIONS = {
    "nested": "nested",
    "paper": "paper (optimistic)",
}
EXPLAINED = {
    "nested": "hyperparameters chosen inside the training bags",
    "paper": "hyperparameters are the best on the scoring folds, as in Uriot (2019): optimistic",
}
INNER_FOLDS = 5


def as_settings(space) -> tuple[dict, ...]:
    """Every setting of a search space (parameter -> values, or a list of such dicts); one empty setting for none."""
    return tuple(ParameterGrid(space)) if space else ({},)


def chooses_by_itself(estimator) -> bool:
    """Whether some part of it searches a ``grid`` of its own while it fits."""
    parameters = estimator.get_params(deep=True)
    return any(name.split("__")[-1] == "grid" and value for name, value in parameters.items())


def predict_settings(
    estimator, settings: tuple[dict, ...], train: Bags, y: np.ndarray, test: Bags
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Predictions of the test bags (and their standard deviations, if any) by every setting, each fitted afresh.

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
    """The settings in their order, in runs that differ in one penalty alone; most runs are of one setting."""
    path = _penalty_of(estimator)

    def same(numbered) -> tuple:
        number, setting = numbered
        if path is None or np.size(setting.get(path, ())) != 1 or setting.get(path.split("__")[0] + "__grid"):
            return (number,)
        return tuple(sorted((name, id(value)) for name, value in setting.items() if name != path))

    for _, run in groupby(enumerate(settings), same):
        yield [setting for _, setting in run]


def _penalty_of(estimator) -> str | None:
    """What the penalties of the last step are called, if one fit gives the predictions by all of them."""
    name, last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", None)
    whole = isinstance(last, EmbeddingRidge) and isinstance(last.head, RidgePath) and not last.grid
    return f"{name}__head__penalties" if whole else None


def _predict_path(estimator, run: list[dict], train: Bags, y: np.ndarray, test: Bags) -> np.ndarray:
    """A row of predictions for every setting of a run."""
    path = _penalty_of(estimator)
    penalties = tuple(np.ravel(setting[path])[0] for setting in run)
    model = _set(estimator, run[0] | {path: penalties}).fit(train, y)
    rows = model[:-1].transform(test) if len(model) > 1 else test
    return model[-1].predict_path(rows).T


def choose_inside(estimator, settings, bags: Bags, y: np.ndarray, *, metric: str, random_state: int) -> dict:
    """The setting with the best mean score over folds of these (training) bags; groups stay together.

    What ``GridSearchCV(estimator, space, cv=BagKFold(5))`` would choose, with the untouched steps fitted once a fold.
    """
    if len(settings) == 1:
        return settings[0]
    judge = get_metric(metric)
    losses = np.zeros(len(settings))
    for train, test in inner_splits(bags, random_state):
        predictions = predict_settings(estimator, settings, bags[train], y[train], bags[test])
        losses += [judge.loss(_judged(judge, y[test], *both)) for both in predictions]
    return settings[int(np.argmin(losses))]


def inner_splits(bags: Bags, random_state: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The folds of training bags on which settings are compared."""
    units = len(set((bags.ids if bags.groups is None else bags.groups).tolist()))
    return BagKFold(min(INNER_FOLDS, units), random_state=random_state).split(bags)


def fit(estimator, setting: dict, bags: Bags, y: np.ndarray):
    """A fresh copy with the setting, fitted."""
    return _set(estimator, setting).fit(bags, y)


def predict(model, bags: Bags) -> tuple[np.ndarray, np.ndarray | None]:
    """Predictions, and their standard deviations if the model gives any."""
    last = model
    while isinstance(last, Pipeline) or hasattr(last, "best_estimator_"):
        last = last.steps[-1][1] if isinstance(last, Pipeline) else last.best_estimator_
    if "return_std" in inspect.signature(last.predict).parameters:
        model = getattr(model, "best_estimator_", model)  # a search does not pass options on
        return model.predict(bags, return_std=True)
    return model.predict(bags), None


def _judged(judge, y, prediction, std) -> float:
    if judge.needs_std and std is None:
        raise ValueError(f"{judge.name} needs standard deviations, which this method does not give; choose by 'rmse'")
    return judge.of(y, prediction, std)


def _fixed_steps(estimator, settings) -> int:
    """How many steps of a Pipeline come before the first that any setting touches; 0 if it is no use to know."""
    if not isinstance(estimator, Pipeline) or len(settings) == 1:
        return 0
    touched = {name.split("__")[0] for setting in settings for name in setting}
    names = [name for name, _ in estimator.steps]
    if not touched <= set(names):  # a setting that changes the pipeline itself
        return 0
    return min([names.index(name) for name in touched], default=0)


def _set(estimator, setting: dict):
    # Values are copied too: two fits must not share a part, as in scikit-learn's own search.
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in setting.items()})
