"""How hyperparameters are chosen: inside the training bags, or (as the paper did) on the very folds that score."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.instances import BagKFold
from bagwise.protocol.metrics import get_metric

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
    instance-kme trains its networks once, not once per setting. The numbers are those of refitting the whole.
    """
    fixed = _fixed_steps(estimator, settings)
    if fixed:
        prefix, estimator = clone(estimator[:fixed]), estimator[fixed:]
        train = prefix.fit_transform(train, y)
        test = prefix.transform(test)
    for setting in settings:
        yield predict(_set(estimator, setting).fit(train, y), test)


def choose_inside(estimator, settings, bags: Bags, y: np.ndarray, *, metric: str, random_state: int) -> dict:
    """The setting with the best mean score over folds of these (training) bags; groups stay together.

    What ``GridSearchCV(estimator, space, cv=BagKFold(5))`` would choose, with the untouched steps fitted once a fold.
    """
    if len(settings) == 1:
        return settings[0]
    judge = get_metric(metric)
    losses = np.zeros(len(settings))
    units = len(set((bags.ids if bags.groups is None else bags.groups).tolist()))
    for train, test in BagKFold(min(INNER_FOLDS, units), random_state=random_state).split(bags):
        predictions = predict_settings(estimator, settings, bags[train], y[train], bags[test])
        losses += [judge.loss(_judged(judge, y[test], *both)) for both in predictions]
    return settings[int(np.argmin(losses))]


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
