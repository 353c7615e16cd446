"""How hyperparameters are chosen: inside the training bags, or (as the paper did) on the very folds that score."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import ParameterGrid

from bagwise.bags import Bags
from bagwise.instances import BagKFold
from bagwise.protocol.fitting import predict_settings
from bagwise.protocol.metrics import Metric, best_of, get_metric

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


def choose_inside(estimator, settings, bags: Bags, y: np.ndarray, *, metric: str, random_state: int) -> dict:
    """The setting with the best mean score over folds of these (training) bags; groups stay together.

    What ``GridSearchCV(estimator, space, cv=BagKFold(5))`` would choose, with the untouched steps fitted once a fold.
    R², Pearson and coverage say nothing of a fold of few bags: the held-out bags of all folds are scored together. A
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
    """The loss of one setting, from folds of (targets, a prediction per setting, a std per setting)."""
    parts = [(y, predictions[number], *([stds[number]] if judge.needs_std else [])) for y, predictions, stds in folds]
    if any(one is None for part in parts for one in part):
        return float("nan")
    if judge.pooled:
        parts = [tuple(map(np.concatenate, zip(*parts, strict=True)))]
    return float(np.mean([judge.loss(judge.of(*part)) for part in parts]))


def _no_score(judge: Metric, count: int) -> str:
    other = ", or take a method that gives a standard deviation" if judge.needs_std else ""
    advice = f"; choose by 'rmse'{other}" if judge.needs_std or judge.pooled else ""
    return f"{judge.name} needs {judge.needs}; none of {count} settings has a score inside the training bags{advice}"


def inner_splits(bags: Bags, random_state: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The folds of training bags on which settings are compared."""
    units = len(set((bags.ids if bags.groups is None else bags.groups).tolist()))
    return BagKFold(min(INNER_FOLDS, units), random_state=random_state).split(bags)
