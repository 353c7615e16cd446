"""`explain`: the contribution, weight or effect of each instance in the prediction of its bag.

The methods `contributions(bags)`, `instance_weights(bags)` and `predict_instances(bags)` of a model are optional. For a
Pipeline, those of the last step are used, on the bags that this step receives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from inspect import signature

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags, check_bags, from_arrays
from bagwise.bags.checks import compared
from bagwise.bags.segments import segment_sum
from bagwise.bags.validation import name_bags
from bagwise.instances import EachInstance, OutOfFold, OutOfFoldUnion
from bagwise.io.table_output import Table, as_html, own_name
from bagwise.regressors.pipeline import last_step

WRAPPERS = ("method_", "best_estimator_")  # attributes of `Intervals` and of scikit-learn's searches
BLEND = ("models_", "weights_")  # of `AutoRegressor`: dicts from name to fitted models, to weight
VALUES = ("contributions", "weights", "instance_predictions", "instance_std")
# Attribute -> column of the table, in the order of the columns.
SINGULAR = {"instance_predictions": "prediction", "instance_std": "std", "contributions": "contribution"}
SINGULAR |= {"weights": "weight", "effects": "effect"}
# Kind -> the attribute with its numbers.
KINDS = {"contributions": "contributions", "weights": "weights", "leave-one-out": "effects"}
MOST_BAGS = 10  # bags shown in a notebook
MAX_INSTANCES = 1000  # of a bag: predicting it once per instance takes a million rows
BLOCK_VALUES = 2**22  # numbers in the bags predicted at a time: 32 MB
BLOCK_BAGS = 4096  # bags predicted at a time, for methods that need a row per bag
ROUNDING = 1e-6  # contributions whose sum misses the prediction by more than this share are refused
MOST = [0.002, 0.998]  # the grid of `function_on_grid` ends at these quantiles of the predictions


def unwrapped(model):
    """Return the predicting method inside `Intervals` or a search."""
    for name in WRAPPERS:
        inner = getattr(model, name, None)
        if inner is not None:
            return unwrapped(inner)
    return model


def instance_values(model, bags: Bags) -> dict[str, np.ndarray | None]:
    """Return contributions, weights, predictions and deviations per instance; None for those the model lacks."""
    last, bags, column = _last_step(unwrapped(model), bags)
    values: dict[str, np.ndarray | None] = dict.fromkeys(VALUES)
    if not isinstance(bags, Bags):
        return values
    values["instance_predictions"] = column
    if isinstance(last, VotingRegressor) or all(hasattr(last, name) for name in BLEND):  # an average
        return values | {"contributions": _averaged(last, bags)}
    if hasattr(last, "instance_weights"):
        values["weights"] = last.instance_weights(bags)
    if getattr(last, "additive_", None) is False:
        return values
    alone = None
    if hasattr(last, "predict_instances"):
        if "return_std" in signature(last.predict_instances).parameters:
            alone, values["instance_std"] = last.predict_instances(bags, return_std=True)
        else:
            alone = last.predict_instances(bags)
    if column is None:
        values["instance_predictions"] = alone
    # If the prediction is the mean of instance predictions, these need not be predicted twice.
    if hasattr(last, "additive_"):
        values["contributions"] = last.limited_contributions(alone * bags.shares(), bags)
    elif hasattr(last, "contributions"):
        values["contributions"] = last.contributions(bags)
    return values


def refuse_several_targets(model, function: str) -> None:
    """Raise an error if a model has several targets."""
    if hasattr(model, "target_names_"):
        raise ValueError(
            f"this model has {len(model.estimators_)} targets ({', '.join(model.target_names_[:5])}), and {function} "
            "takes a model of one target; pass model.estimators_[0] for the first"
        )


def by_rows(stage) -> bool:
    """Return whether a stage treats each instance independently of its bag."""
    return isinstance(stage, EachInstance | OutOfFold | OutOfFoldUnion)


def _last_step(model, bags):
    """Return the last step, its input, and the instance predictions before it, if any."""
    column = None
    while isinstance(model, Pipeline):
        for _, stage in model.steps[:-1]:
            if stage in (None, "passthrough"):
                continue
            bags = stage.transform(bags)
            # a prediction of the target, not a scaled feature
            if by_rows(stage) and not hasattr(getattr(stage, "estimator_", None), "transform"):
                column = bags.instances.astype(np.float64)
        model = unwrapped(model.steps[-1][1])
    if column is not None:  # several learners: their average, by weights in the blend
        column = column @ getattr(model, "learner_weights_", np.full(column.shape[1], 1 / column.shape[1]))
    return model, bags, column


def _averaged(model, bags: Bags) -> np.ndarray | None:
    """Return the average of the members' contributions, or None if one has none.

    A blend clips its predictions to the range of the targets; the clipped part is divided among the bag's instances.
    """
    total = np.zeros(bags.n_instances)
    prepared = model.prepare(bags) if hasattr(model, "prepare") else bags  # as the members receive them
    for member, weight in _members(model):
        parts = instance_values(member, prepared)["contributions"]
        if parts is None:
            return None
        total += weight * parts
    over = model.predict(bags) - segment_sum(total, bags.offsets)
    return total + bags.expand(over / bags.sizes)


def _members(average) -> list[tuple]:
    """Return the fitted models of an average, and their weights, which sum to one."""
    if not isinstance(average, VotingRegressor):
        named = average.models_.items()
        return [(model, average.weights_[name] / len(models)) for name, models in named for model in models]
    is_member = [not (isinstance(member, str) and member == "drop") for _, member in average.estimators]
    weights = np.ones(len(is_member)) if average.weights is None else np.asarray(average.weights, dtype=np.float64)
    return list(zip(average.estimators_, weights[is_member] / weights[is_member].sum(), strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Table):
    """The contribution, weight or effect of each instance in the prediction of its bag.

    Attributes
    ----------
    kind : {"contributions", "weights", "leave-one-out"}, what ``values`` are
    bags : Bags, those explained
    predictions : array (bags,)
    contributions, weights, instance_predictions, effects, instance_std : array (instances,) or None
        Contributions sum to the prediction in every bag; weights are not negative and sum to one. Instance predictions
        are in units of the target, with standard deviations where the method knows them ("aggregate-gp"). An effect is
        the prediction of the bag minus that without the instance; 0 where ``alone``.
    additive_share : float or None
        For a blend of which only some members are sums over instances: the weight of these members. The effects are
        those of the whole blend.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> explanation = bw.explain(bw.method("aggregated").fit(bags, y), bags)
    >>> explanation
    Explanation of 30 bags (150 instances) by contributions
    >>> list(explanation.table())
    ['bag', 'instance', 'instance_predictions', 'contributions']
    """

    kind: str
    bags: Bags
    predictions: np.ndarray
    contributions: np.ndarray | None = None
    weights: np.ndarray | None = None
    instance_predictions: np.ndarray | None = None
    effects: np.ndarray | None = None
    instance_std: np.ndarray | None = None
    additive_share: float | None = None

    @property
    def values(self) -> np.ndarray:
        """The numbers of this kind, one per instance."""
        return getattr(self, KINDS[self.kind])

    @property
    def alone(self) -> np.ndarray:
        """Whether the instance is the only one of its bag, or the only one with positive weight."""
        return self.bags.shares() == 1

    def as_dict(self) -> dict[str, np.ndarray]:
        """Return the columns of `table`, a row per instance: bag id, position in the bag from 0, and its numbers.

        For bags from a table there are also the ``row`` in the table and the columns kept on loading. The column of ids
        has its name in that table, and ``row`` counts its rows, also those dropped on loading.
        """
        first = self.bags.expand(self.bags.offsets[:-1])
        numbers = {name: getattr(self, name) for name in SINGULAR if getattr(self, name) is not None}
        bag = own_name(self.bags.id_name, "bag", ["instance", "row", *SINGULAR])
        place = {bag: self.bags.expand(self.bags.ids), "instance": np.arange(self.bags.n_instances) - first}
        return place | (self.bags.kept or {}) | numbers

    def __repr__(self) -> str:
        text = f"Explanation of {len(self.bags):,} bags ({self.bags.n_instances:,} instances) by {self.kind}"
        share = self.additive_share
        return text if share is None else f"{text}; {share:.0%} of the blend is a sum over instances"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the first bags, each with the instance that matters most."""
        bags, n = self.bags, min(len(self.bags), MOST_BAGS)
        rows = bags.offsets[:n] + [np.abs(self.values[bags.rows([i])]).argmax() for i in range(n)]
        table = {
            "bag": bags.ids[:n].tolist(),
            "instances": bags.sizes[:n].tolist(),
            "prediction": self.predictions[:n].tolist(),
            "instance that matters most": self.as_dict()["instance"][rows].tolist(),
            KINDS[self.kind]: self.values[rows].tolist(),
        }
        more = f"<p>and {len(bags) - n:,} more; table() has every instance</p>" if len(bags) > n else ""
        return f"<p><strong>{escape(repr(self))}</strong></p>{as_html(table)}{more}"


def explain(model, bags, *, kind: str = "auto", max_instances: int = MAX_INSTANCES, n_jobs=None) -> Explanation:
    r"""Explain the prediction of each bag by its instances, for any fitted method.

    Three kinds of answer:

    - contributions c_il, for methods with an additive form: ŷ_i = Σ_l c_il exactly;
    - weights w_il ≥ 0, Σ_l w_il = 1: attention, the chance to be the primary instance, or the weight in a median;
    - leave-one-out effects, for any method: e_il = ŷ(bag i) - ŷ(bag i without instance l). A bag of one instance has
      nothing to compare with: its effect is 0, and ``alone`` of the explanation marks it.

    Parameters
    ----------
    model : fitted bag regressor
        A method of the catalogue, or a custom one with any of the methods ``contributions(bags)``,
        ``instance_weights(bags)`` and ``predict_instances(bags)``. For `Intervals` and searches, the inner method is
        explained.
    bags : Bags
    kind : {"auto", "contributions", "weights", "leave-one-out"}
        "auto" is the first of the three that the method supports. Whatever the kind, the result has all numbers that
        the method provides; effects are computed only for "leave-one-out".
    max_instances : int
        Size of the largest bag that leave-one-out accepts; a bag of L instances is predicted L times.
    n_jobs : int, optional
        Processes that leave-one-out may use. The numbers do not depend on it.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(40, instances=5)
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> explanation = bw.explain(model, bags)
    >>> bool(np.allclose(explanation.values.reshape(40, 5).sum(axis=1), model.predict(bags), rtol=1e-12))
    True
    """
    if kind not in ("auto", *KINDS):
        raise ValueError(f"kind must be 'auto', {', '.join(map(repr, KINDS))}, not {kind!r}")
    refuse_several_targets(model, "explain")
    model, bags = unwrapped(model), check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    predictions = np.asarray(model.predict(bags), dtype=np.float64)
    bags = compared(bags)  # `predict` has compared them with the training range
    values = instance_values(model, bags)
    offered = [name for name in KINDS if name == "leave-one-out" or values[name] is not None]
    kind = offered[0] if kind == "auto" else kind
    if kind not in offered:
        raise ValueError(
            f"{type(model).__name__} has no {kind} of instances; it offers {', '.join(map(repr, offered))}: "
            "pass one of these as kind, or 'auto'"
        )
    if values["contributions"] is not None:  # rounding errors are divided among the instances
        parts = values["contributions"]
        over = predictions - segment_sum(parts, bags.offsets)
        size = np.maximum(np.abs(predictions), segment_sum(np.abs(parts), bags.offsets))
        if (np.abs(over) > ROUNDING * size).any():
            raise ValueError(
                f"contributions miss the prediction by {np.abs(over).max():.3g}; contributions(bags) of a method must "
                "sum to predict(bags) in every bag"
            )
        values["contributions"] = parts + bags.expand(over / bags.sizes)
    if kind == "leave-one-out":
        values["effects"] = leave_one_out(model, bags, predictions, max_instances=max_instances, n_jobs=n_jobs)
    share = None if values["contributions"] is not None else getattr(last_step(model), "additive_share_", None)
    return Explanation(kind, bags, predictions, **values, additive_share=share)


def leave_one_out(model, bags: Bags, predictions: np.ndarray, *, max_instances: int, n_jobs=None) -> np.ndarray:
    """Return the prediction of the bag minus that without each instance; 0 where no instance would be left.

    A bag of L instances is predicted L times with L - 1 of them. Stages that treat instances independently are applied
    only once. Blocks depend only on the bags, so the numbers do not depend on ``n_jobs``.
    """
    large = bags.sizes > max_instances
    if large.any():
        raise ValueError(
            f"{name_bags(bags.ids, large)} more than {max_instances:,} instances (the largest {bags.sizes.max():,}); "
            "leaving out each in turn predicts a bag as often as it has instances: explain other bags, or pass "
            f"max_instances={bags.sizes.max()} and wait"
        )
    model, bags = _past_rows(model, bags)
    left_out = np.flatnonzero(bags.shares() < 1)
    blocks = _blocks(bags.expand(bags.sizes)[left_out] - 1, max(1, BLOCK_VALUES // bags.n_features))
    jobs = (delayed(_predict_without)(model, bags, left_out[block]) for block in blocks)
    effects = np.zeros(bags.n_instances)
    predicted = [np.empty(0), *Parallel(n_jobs=n_jobs)(jobs)]
    effects[left_out] = bags.expand(predictions)[left_out] - np.concatenate(predicted)
    return effects


def without_each(bags: Bags, left_out: np.ndarray) -> Bags:
    """Return, for each instance, the bag without it; another instance of the bag must have positive weight."""
    which = np.searchsorted(bags.offsets, left_out, side="right") - 1
    whole = bags[which]
    gone = whole.offsets[:-1] + left_out - bags.offsets[which]
    keep = np.ones(whole.n_instances, dtype=bool)
    keep[gone] = False
    return marked_part(whole, keep)


def marked_part(bags: Bags, keep: np.ndarray) -> Bags:
    """Return the bags with only the marked instances (at least one per bag), and all parts that predictions use."""
    return Bags(
        bags.instances[keep],
        np.concatenate([[0], np.cumsum(keep)])[bags.offsets],
        groups=bags.groups,
        feature_names=bags.feature_names,
        missing="keep" if bags.has_missing else "refuse",
        weights=None if bags.weights is None else bags.weights[keep],
        covariates=bags.covariates,
        covariate_names=bags.covariate_names,
    )


def _predict_without(model, bags: Bags, left_out: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(compared(without_each(bags, left_out))), dtype=np.float64)


def _past_rows(model, bags: Bags) -> tuple[object, Bags]:
    """Return the steps after those that treat instances separately, and the bags they get."""
    first = 0
    for _, step in model.steps[:-1] if isinstance(model, Pipeline) else []:
        if not by_rows(step) or hasattr(step, "imputation_"):  # an imputation uses the medians of the whole bag
            break
        bags, first = step.transform(bags), first + 1
    return (model[first:] if first else model), bags


def _blocks(rows: np.ndarray, most_rows: int) -> Iterator[slice]:
    """Yield runs of bags with at most this many rows and `BLOCK_BAGS` bags; a larger bag is a run of its own."""
    total, start = np.concatenate([[0], np.cumsum(rows)]), 0
    while start < len(rows):
        stop = int(np.searchsorted(total, total[start] + most_rows, side="right")) - 1
        stop = min(max(stop, start + 1), start + BLOCK_BAGS)
        yield slice(start, stop)
        start = stop


def function_on_grid(head, predictions: Bags, points: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Return h on a grid of instance predictions: the prediction of a bag of that instance and mean covariates.

    ``head`` is the fitted last step of a method such as instance-kme:single, ``predictions`` what it is fitted on.
    """
    low, high = np.quantile(predictions.instances[:, 0], MOST)
    grid = np.linspace(low, high, points)
    alone = from_arrays(list(grid[:, None]))
    if predictions.covariates is not None:
        mean = np.tile(predictions.covariates.mean(axis=0), (points, 1))
        alone = alone.with_covariates(mean, predictions.covariate_names)
    return grid, head.predict(alone)
