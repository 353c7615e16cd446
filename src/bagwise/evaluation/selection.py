"""Choose hyperparameters within the training bags, or (as in the paper) on the folds that are scored.

Methods are fitted with one setting or with each of several; steps that the settings share are fitted once.
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
# Labels in tables and texts; "none" is for a method with one setting, for which nothing is chosen.
LABELS = {"nested": "nested", "paper": "paper (optimistic)", "none": "none"}
EXPLANATIONS = {
    "nested": "hyperparameters chosen within the training bags",
    "paper": "hyperparameters are the best on the scoring folds, as in Uriot (2019): optimistic",
    "none": "default settings, or settings chosen by the method within the training bags",
}
INNER_FOLDS = 5


def fit(estimator, setting: dict, bags: Bags, y: np.ndarray):
    """Fit a copy of the estimator with the setting."""
    # Clone the values too, as GridSearchCV does, so that two fits do not share an estimator.
    values = {name: clone(value, safe=False) for name, value in setting.items()}
    return clone(estimator).set_params(**values).fit(bags, y)


def predict(model, bags) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the prediction of each bag and, if the model has them, the standard deviations (else None).

    A search has no ``return_std``, so its best estimator is called directly, and likewise the last step of a pipeline.
    """
    parts = [model]
    while (part := _predicting_part(parts[-1])) is not None:
        parts.append(part)
    if "return_std" not in inspect.signature(parts[-1].predict).parameters:
        return _one_per_bag(model.predict(bags), len(bags), "predictions"), None
    rows = bags
    for part in parts[:-1]:
        if isinstance(part, Pipeline) and len(part) > 1:
            rows = part[:-1].transform(rows)
    result = parts[-1].predict(rows, return_std=True)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ValueError(f"predict(return_std=True) must return (predictions, std), not {type(result).__name__}")
    return _one_per_bag(result[0], len(bags), "predictions"), _one_per_bag(result[1], len(bags), "std")


def _predicting_part(model):
    """Return the last step of a pipeline, or the best estimator of a search; None for other models."""
    return model[-1] if _is_plain_pipeline(model) else getattr(model, "best_estimator_", None)


def _is_plain_pipeline(model) -> bool:
    """Return whether a model is a pipeline whose `predict` calls only that of its last step."""
    plain = vars(Pipeline)["predict"], vars(BagPipeline)["predict"]
    return isinstance(model, Pipeline) and inspect.getattr_static(type(model), "predict") in plain


def _one_per_bag(values, count: int, name: str) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (count,):
        raise ValueError(f"predict returned {name} of shape {values.shape}. Expected one per bag, ({count},).")
    return values


@dataclass(frozen=True)
class FittedSettings:
    """Models of one estimator fitted with each of several settings.

    ``prefix`` has the fitted steps that all settings share, or None. ``models`` has pairs (model of the other steps,
    number of settings). A model has several settings if they differ only in the penalty of a ridge regression.
    """

    prefix: Pipeline | None
    models: list[tuple[Any, int]]

    def predict(self, bags) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Return for each setting the predictions of the bags, and their standard deviations or None."""
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

    Steps of a Pipeline before the first step that any setting changes are fitted once. A grid over the head of
    instance-kme thus trains its networks once, not once per setting. Consecutive settings that differ only in the
    penalty of a ridge share one decomposition. The results equal those of separate fits, up to rounding.
    """
    prefix, n_fixed = None, _count_fixed_steps(estimator, settings)
    if n_fixed:
        prefix, estimator = clone(estimator[:n_fixed]), estimator[n_fixed:]
        bags = prefix.fit_transform(bags, y)
    penalty, models = _penalty_of(estimator), []

    def without_penalty(numbered) -> tuple:
        number, setting = numbered
        if penalty is None or np.size(setting.get(penalty, ())) != 1 or setting.get(penalty.split("__")[0] + "__grid"):
            return (number,)
        return tuple(sorted((name, id(value)) for name, value in setting.items() if name != penalty))

    for _, group in groupby(enumerate(settings), without_penalty):
        alike = [setting for _, setting in group]
        penalties = {penalty: tuple(np.ravel(setting[penalty])[0] for setting in alike)} if len(alike) > 1 else {}
        models.append((fit(estimator, alike[0] | penalties, bags, y), len(alike)))
    return FittedSettings(prefix, models)


def _penalty_of(estimator) -> str | None:
    """Return the name of the penalty parameter if one fit gives the predictions for several penalties, else None."""
    name, last = estimator.steps[-1] if _is_plain_pipeline(estimator) else ("", None)
    has_path = isinstance(last, EmbeddingRidge) and isinstance(last.head, RidgePath) and not last.grid
    return f"{name}__head__penalties" if has_path else None


def _count_fixed_steps(estimator, settings) -> int:
    """Return the number of steps of a Pipeline before the first step that any setting changes."""
    if not isinstance(estimator, Pipeline) or len(settings) == 1:
        return 0
    changed = {name.split("__")[0] for setting in settings for name in setting}
    names = [name for name, _ in estimator.steps]
    if not changed <= set(names):  # a setting changes a parameter of the pipeline itself
        return 0
    return min([names.index(name) for name in changed], default=0)


def as_settings(space) -> tuple[dict, ...]:
    """Return all settings of a search space (a dict of lists, or a list of such dicts); without one, a single {}."""
    return tuple(ParameterGrid(space or {}))


def chooses_by_itself(estimator) -> bool:
    """Return whether a part of the estimator searches its parameter ``grid`` in `fit`."""
    parameters = estimator.get_params(deep=True)
    return any(name.split("__")[-1] == "grid" and value for name, value in parameters.items())


def choose_inside(
    estimator, settings, bags: Bags, y: np.ndarray, *, metric: str, random_state: int, level: float = LEVEL
) -> dict:
    """Return the setting with the best mean score over folds of these training bags; groups stay together.

    The result is that of ``GridSearchCV(estimator, space, cv=BagKFold(5))``, but steps that the settings share are
    fitted once per fold. R², Pearson and coverage are unreliable on a fold of few bags, so they are computed on the
    held-out bags of all folds together. A setting without a score (NaN) is not chosen.
    """
    if len(settings) == 1:
        return settings[0]
    measure = get_metric(metric, level=level)
    splits = list(BagKFold(min(INNER_FOLDS, count_units(bags)), random_state=random_state).split(bags))
    held_out = hold_out([(partial(fit_settings, estimator, settings), *split) for split in splits], bags, y)

    def loss(number: int) -> float:
        """Return the loss of a setting; NaN if the metric needs standard deviations and there are none."""
        parts: list[tuple] = []
        for held, (_, test) in zip(held_out, splits, strict=True):
            prediction, std = held.predictions[number]
            parts.append((y[test], prediction, std) if measure.needs_std else (y[test], prediction))
        if any(array is None for part in parts for array in part):
            return float("nan")
        if measure.pooled:
            parts = [tuple(map(np.concatenate, zip(*parts, strict=True)))]
        return float(np.mean([measure.loss(measure(*part)) for part in parts]))

    best = best_of([loss(number) for number in range(len(settings))])
    if best is None:
        other = ", or use a method that predicts standard deviations" if measure.needs_std else ""
        advice = f" Choose by 'rmse'{other}." if measure.needs_std or measure.pooled else ""
        text = f"None of {len(settings)} settings has a score within the training bags"
        raise ValueError(f"{text}, because {measure.name} needs {measure.needs}.{advice}")
    return settings[best]
