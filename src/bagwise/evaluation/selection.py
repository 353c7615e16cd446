"""How hyperparameters are chosen: inside the training bags, or (as the paper did) on the folds that score.

Methods are fitted with one setting, or with each of many; what the settings share is fitted once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from bagwise.bags import BagKFold, Bags
from bagwise.held_out import hold_out
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


@dataclass(frozen=True)
class FittedSettings:
    """An estimator fitted with each of several settings, which predicts by each of them.

    Attributes
    ----------
    prefix : Pipeline or None
        The fitted steps that all settings share.
    models : tuple of (fitted model of the other steps, number of settings)
        A model serves several settings that differ only in the penalty of a ridge.
    """

    prefix: Pipeline | None
    models: tuple[tuple[Any, int], ...]

    def predict(self, bags) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Return predictions of the bags, and their standard deviations if there are any, by each setting."""
        bags, pairs = bags if self.prefix is None else self.prefix.transform(bags), []
        for model, n_settings in self.models:
            if n_settings == 1:
                pairs.append(predict(model, bags))
            else:
                rows = model[:-1].transform(bags) if len(model) > 1 else bags
                pairs += [(column, None) for column in model[-1].predict_path(rows).T]
        return pairs


def fit_settings(estimator, settings, bags: Bags, y: np.ndarray, sample_weight=None) -> FittedSettings:
    """Fit copies of the estimator with each setting.

    The steps of a Pipeline before the first that any setting changes are fitted once: a grid over the head of
    instance-kme trains its networks once, not once per setting. Consecutive settings that differ only in the penalty
    of a ridge share one decomposition. The numbers are those of refitting the whole, to rounding.
    """
    prefix, fixed = None, _fixed_steps(estimator, settings)
    if fixed:
        prefix, estimator = clone(estimator[:fixed]), estimator[fixed:]
        bags = prefix.fit_transform(bags, y)
    path, models = _penalty_of(estimator), []
    for run in _runs(path, settings):
        several = {path: tuple(np.ravel(setting[path])[0] for setting in run)} if len(run) > 1 else {}
        models.append((fit(estimator, run[0] | several, bags, y), len(run)))
    return FittedSettings(prefix, tuple(models))


def _runs(path: str | None, settings) -> Iterator[list[dict]]:
    """Yield the settings in order, in runs that differ only in the penalty ``path``; most runs have one setting."""

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
    judge, splits = get_metric(metric), list(inner_splits(bags, random_state))
    held_out = hold_out([(partial(fit_settings, estimator, settings), *split) for split in splits], bags, y)
    folds = [(y[test], *zip(*held.predictions, strict=True)) for held, (_, test) in zip(held_out, splits, strict=True)]
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
