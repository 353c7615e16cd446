"""How hyperparameters are chosen: inside the training bags, or (as the paper did) on the folds that score.

Methods are fitted with one setting, or with each of many; what the settings share is fitted once.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from bagwise.bags import BagKFold, Bags
from bagwise.bags.folds import count_units
from bagwise.held_out import hold_out
from bagwise.metrics import LEVEL, best_of, get_metric
from bagwise.regressors import BagPipeline, EmbeddingRidge, RidgePath

SELECTIONS = ("nested", "paper")
# What tables and texts write of each; "none" is of a method with one setting, where the protocol chooses nothing.
LABELS = {"nested": "nested", "paper": "paper (optimistic)", "none": "none"}
EXPLANATIONS = {
    "nested": "hyperparameters chosen inside the training bags",
    "paper": "hyperparameters are the best on the scoring folds, as in Uriot (2019): optimistic",
    "none": "default settings, or those that a method chooses itself inside the training bags",
}
INNER_FOLDS = 5


def fit(estimator, setting: dict, bags: Bags, y: np.ndarray):
    """Fit a copy of the estimator with the setting."""
    # Values are copied too: two fits must not share a part, as in scikit-learn's own search.
    values = {name: clone(value, safe=False) for name, value in setting.items()}
    return clone(estimator).set_params(**values).fit(bags, y)


def predict(model, bags) -> tuple[np.ndarray, np.ndarray | None]:
    """Return predictions, and their standard deviations if the model gives any: one number per bag.

    A search does not pass on ``return_std``, so the part that predicts is called itself.
    """
    parts = [model]
    while (inside := _predicting_part(parts[-1])) is not None:
        parts.append(inside)
    if "return_std" not in inspect.signature(parts[-1].predict).parameters:
        return _one_per_bag(model.predict(bags), len(bags), "predictions"), None
    rows = bags
    for part in parts[:-1]:
        if isinstance(part, Pipeline) and len(part) > 1:
            rows = part[:-1].transform(rows)
    both = parts[-1].predict(rows, return_std=True)
    if not isinstance(both, tuple) or len(both) != 2:
        raise ValueError(f"predict(return_std=True) gave {type(both).__name__}; (predictions, deviations) are needed")
    return _one_per_bag(both[0], len(bags), "predictions"), _one_per_bag(both[1], len(bags), "std")


def _predicting_part(model):
    """Return the last step of a pipeline, or the best estimator of a search; None for other models."""
    return model[-1] if _is_plain_pipeline(model) else getattr(model, "best_estimator_", None)


def _is_plain_pipeline(model) -> bool:
    """Return whether a model is a pipeline whose `predict` is that of its last step."""
    plain = vars(Pipeline)["predict"], vars(BagPipeline)["predict"]
    return isinstance(model, Pipeline) and inspect.getattr_static(type(model), "predict") in plain


def _one_per_bag(values, count: int, name: str) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (count,):
        raise ValueError(f"predict gave {name} of shape {values.shape} for {count} bags; one number per bag is needed")
    return values


@dataclass(frozen=True)
class FittedSettings:
    """An estimator fitted with each of several settings, which predicts by each of them.

    ``prefix`` holds the fitted steps that all settings share, or None. ``models`` are pairs of a fitted model of the
    other steps and its number of settings, which is above one if they differ only in the penalty of a ridge.
    """

    prefix: Pipeline | None
    models: list[tuple[Any, int]]

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
    prefix, n_fixed = None, _count_fixed_steps(estimator, settings)
    if n_fixed:
        prefix, estimator = clone(estimator[:n_fixed]), estimator[n_fixed:]
        bags = prefix.fit_transform(bags, y)
    penalty, models = _penalty_of(estimator), []

    def all_but_penalty(numbered) -> tuple:
        number, setting = numbered
        if penalty is None or np.size(setting.get(penalty, ())) != 1 or setting.get(penalty.split("__")[0] + "__grid"):
            return (number,)
        return tuple(sorted((name, id(value)) for name, value in setting.items() if name != penalty))

    for _, group in groupby(enumerate(settings), all_but_penalty):
        run = [setting for _, setting in group]
        several = {penalty: tuple(np.ravel(setting[penalty])[0] for setting in run)} if len(run) > 1 else {}
        models.append((fit(estimator, run[0] | several, bags, y), len(run)))
    return FittedSettings(prefix, models)


def _penalty_of(estimator) -> str | None:
    """Return the parameter of the penalties of the last step, if one fit gives the predictions for all."""
    name, last = estimator.steps[-1] if _is_plain_pipeline(estimator) else ("", None)
    whole = isinstance(last, EmbeddingRidge) and isinstance(last.head, RidgePath) and not last.grid
    return f"{name}__head__penalties" if whole else None


def _count_fixed_steps(estimator, settings) -> int:
    """Return the number of steps of a Pipeline before the first that any setting changes; 0 if not needed."""
    if not isinstance(estimator, Pipeline) or len(settings) == 1:
        return 0
    changed = {name.split("__")[0] for setting in settings for name in setting}
    names = [name for name, _ in estimator.steps]
    if not changed <= set(names):  # a setting that changes the pipeline itself
        return 0
    return min([names.index(name) for name in changed], default=0)


def as_settings(space) -> tuple[dict, ...]:
    """Return all settings of a search space (parameter -> values, or a list of dicts); one empty one for none."""
    return tuple(ParameterGrid(space or {}))


def chooses_by_itself(estimator) -> bool:
    """Return whether some part of the estimator searches a ``grid`` of its own in `fit`."""
    parameters = estimator.get_params(deep=True)
    return any(name.split("__")[-1] == "grid" and value for name, value in parameters.items())


def choose_inside(
    estimator, settings, bags: Bags, y: np.ndarray, *, metric: str, random_state: int, level: float = LEVEL
) -> dict:
    """Return the setting with the best mean score over folds of these (training) bags; groups stay together.

    What ``GridSearchCV(estimator, space, cv=BagKFold(5))`` would choose, with the untouched steps fitted once a fold.
    R², Pearson and coverage mean little on a fold of few bags: the held-out bags of all folds are scored together. A
    setting without a score (NaN) is never chosen.
    """
    if len(settings) == 1:
        return settings[0]
    judge = get_metric(metric, level=level)
    splits = list(BagKFold(min(INNER_FOLDS, count_units(bags)), random_state=random_state).split(bags))
    held_out = hold_out([(partial(fit_settings, estimator, settings), *split) for split in splits], bags, y)

    def loss(number: int) -> float:
        """Return the loss of one setting; NaN without standard deviations that the metric needs."""
        parts: list[tuple] = []
        for held, (_, test) in zip(held_out, splits, strict=True):
            prediction, std = held.predictions[number]
            parts.append((y[test], prediction, std) if judge.needs_std else (y[test], prediction))
        if any(array is None for part in parts for array in part):
            return float("nan")
        if judge.pooled:
            parts = [tuple(map(np.concatenate, zip(*parts, strict=True)))]
        return float(np.mean([judge.loss(judge(*part)) for part in parts]))

    best = best_of([loss(number) for number in range(len(settings))])
    if best is None:
        other = ", or take a method that gives a standard deviation" if judge.needs_std else ""
        advice = f"; choose by 'rmse'{other}" if judge.needs_std or judge.pooled else ""
        text = f"{judge.name} needs {judge.needs}; none of {len(settings)} settings has a score"
        raise ValueError(f"{text} inside the training bags{advice}")
    return settings[best]
