"""What a fitted method knows of its instances: contributions, weights and instance predictions.

The methods `contributions(bags)`, `instance_weights(bags)` and `predict_instances(bags)` are optional. A Pipeline is
asked through its last step, on the bags as that step sees them; an average of additive methods is additive.
"""

from __future__ import annotations

from inspect import signature

import numpy as np
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.bags.segments import segment_sum
from bagwise.instances import EachInstance, OutOfFold, OutOfFoldUnion

WRAPPERS = ("method_", "best_estimator_")  # of intervals, and of scikit-learn's searches
BLEND = ("models_", "weights_")  # name -> fitted models, name -> weight: of `AutoRegressor`
VALUES = ("contributions", "weights", "instance_predictions", "instance_std")


def unwrapped(model):
    """The method that predicts, inside intervals or a search."""
    for name in WRAPPERS:
        inner = getattr(model, name, None)
        if inner is not None:
            return unwrapped(inner)
    return model


def instance_values(model, bags: Bags) -> dict[str, np.ndarray | None]:
    """Contributions, weights, predictions of every instance and their deviations; None for what the model has not."""
    last, bags, column = _last_step(unwrapped(model), bags)
    if not isinstance(bags, Bags):
        return dict.fromkeys(VALUES)
    if _is_average(last):
        return dict.fromkeys(VALUES) | {"contributions": _averaged(last, bags), "instance_predictions": column}
    known = dict.fromkeys(VALUES) | {"weights": _ask(last, "instance_weights", bags), "instance_predictions": column}
    if getattr(last, "additive_", None) is False:
        return known
    if hasattr(last, "predict_instances") and "return_std" in signature(last.predict_instances).parameters:
        alone, known["instance_std"] = last.predict_instances(bags, return_std=True)
    else:
        alone = _ask(last, "predict_instances", bags)
    # Where the prediction is the mean of what instances predict alone, there is no need to predict them twice.
    parts = alone * bags.shares() if hasattr(last, "additive_") else _ask(last, "contributions", bags)
    return known | {"contributions": parts, "instance_predictions": alone if column is None else column}


def by_rows(stage) -> bool:
    """Whether a stage looks at every instance by itself, whatever bag it is in."""
    return isinstance(stage, EachInstance | OutOfFold | OutOfFoldUnion)


def _last_step(model, bags):
    """The last step, what it is given, and the instance predictions on the way there, if any."""
    column = None
    while isinstance(model, Pipeline):
        for _, stage in model.steps[:-1]:
            if stage in (None, "passthrough"):
                continue
            bags = stage.transform(bags)
            if _predicts(stage):
                column = bags.instances.astype(np.float64)
        model = unwrapped(model.steps[-1][1])
    if column is not None:  # of several learners, by their weights in the blend
        column = column @ getattr(model, "learner_weights_", np.full(column.shape[1], 1 / column.shape[1]))
    return model, bags, column


def _predicts(stage) -> bool:
    """Whether what comes out of an instance stage is a prediction of the target, not a scaled feature."""
    return by_rows(stage) and not hasattr(getattr(stage, "estimator_", None), "transform")


def _ask(step, name: str, bags: Bags):
    return getattr(step, name)(bags) if hasattr(step, name) else None


def _is_average(model) -> bool:
    return isinstance(model, VotingRegressor) or all(hasattr(model, name) for name in BLEND)


def _averaged(model, bags: Bags) -> np.ndarray | None:
    """The average of the members' contributions, if all of them have some.

    A blend keeps its predictions within the range of the targets: what it cuts off, all instances of the bag share.
    """
    total = np.zeros(bags.n_instances)
    prepared = model.prepare(bags) if hasattr(model, "prepare") else bags  # as the members see them
    for member, weight in _members(model):
        parts = instance_values(member, prepared)["contributions"]
        if parts is None:
            return None
        total += weight * parts
    over = model.predict(bags) - segment_sum(total, bags.offsets)
    return total + bags.expand(over / bags.sizes)


def _members(model) -> list[tuple]:
    """The fitted models of an average, and their weights, which sum to one."""
    if not isinstance(model, VotingRegressor):
        named = model.models_.items()
        return [(one, model.weights_[name] / len(models)) for name, models in named for one in models]
    kept = [not (isinstance(member, str) and member == "drop") for _, member in model.estimators]
    weights = np.ones(len(kept)) if model.weights is None else np.asarray(model.weights, dtype=np.float64)
    return list(zip(model.estimators_, weights[kept] / weights[kept].sum(), strict=True))
