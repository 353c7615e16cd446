"""`predict_subset`: predict the target of the part of a bag that satisfies a condition."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from bagwise.bags import Bags, check_bags
from bagwise.bags.checks import compared
from bagwise.bags.segments import segment_sum
from bagwise.bags.validation import label
from bagwise.explanations.explanation import instance_values, marked_part, refuse_several_targets, unwrapped
from bagwise.intervals.calibration import gives_std
from bagwise.io.conditions import as_where
from bagwise.io.table_output import Table
from bagwise.regressors.pipeline import last_step, without_limits

# Methods of the catalogue whose prediction is a mean of one function over the instances.
ADDITIVE = ["aggregated", "instance-mean", "additive", "aggregate-gp", "input-kme:linear", "blr", "auto:additive"]
ADDITIVE += ["instance-kme:additive", "instance-kme:single", "instance-kme:ridge"]
ROUNDING = 1e-5  # a sum over instances misses the prediction of a part by less than this share of what is added


@dataclass(frozen=True, eq=False, repr=False)
class SubsetPredictions(Table):
    """Predictions for a part of each bag.

    Attributes
    ----------
    ids : of the bags that have such instances, in the order of the bags
    prediction : array, one number per id
    std, std_of_mean : array or None
        Standard deviations, for methods that provide them: ``std`` of the target of a bag that consists of this part,
        and ``std_of_mean`` of its expected target, without the noise of a single bag (blr).
    share, instances : arrays, the share of the part in its bag by weight, and the number of its instances
    left_out : ids of the bags without such instances

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(30, instances=10)
    >>> found = bw.predict_subset(bw.method("aggregated").fit(bags, y), bags, bags.instances[:, 0] > 0)
    >>> list(found.table())
    ['bag', 'prediction', 'share', 'instances']
    """

    ids: np.ndarray
    prediction: np.ndarray
    std: np.ndarray | None
    std_of_mean: np.ndarray | None
    share: np.ndarray
    instances: np.ndarray
    left_out: np.ndarray

    def as_dict(self) -> dict[str, np.ndarray]:
        """Return the columns of `table`, a row per bag that has such instances."""
        std = {name: getattr(self, name) for name in ("std", "std_of_mean") if getattr(self, name) is not None}
        sizes = {"share": self.share, "instances": self.instances}
        return {"bag": self.ids, "prediction": self.prediction} | std | sizes

    def __repr__(self) -> str:
        n, none = len(self.ids), len(self.left_out)
        text = f"Predictions for a part of {n:,} bags, {self.share.mean():.0%} of the instances per bag on average"
        return text + (f"; {none:,} more have no such instance" if none else "")


def predict_subset(model, bags, where) -> SubsetPredictions:
    r"""Predict the target for the part of each bag that satisfies a condition.

    For methods whose prediction is a mean over instances, ŷ_i = Σ_l s_il h(x_il) with s_il the share of the instance in
    its bag, the prediction for the part S is

    ŷ_i(S) = Σ_{l ∈ S} s_il h(x_il) / Σ_{l ∈ S} s_il,

    so that the mean of the predictions for the part and for the rest, weighted by their shares, is the prediction of
    the bag. This is ecological inference: from totals of districts to groups of their inhabitants.

    Parameters
    ----------
    model : fitted bag regressor
        A method whose prediction is a mean over instances. Other methods raise an error that lists suitable ones.
    bags : Bags
    where : str, list of tuples, or array of bool
        A condition on features, covariates and columns kept on loading (``bw.load(..., keep=["age"])``): comparisons
        joined by "and", such as ``"age > 45 and sex == 2"``; or tuples (column, operator, value) that all hold, or
        lists of such lists, of which one holds; or a truth value per instance. A missing value satisfies no condition.

    Returns
    -------
    SubsetPredictions
        Bags without such an instance are left out, with a warning that names the first.

    Notes
    -----
    A subgroup is learned only from differences between bags. The prediction may be far off if the features of the
    subgroup hardly vary between bags, or if the target depends on the bag as a whole; the data do not show this. The
    standard deviation covers the first problem, not the second.

    References
    ----------
    King (1997), A solution to the ecological inference problem. Flaxman, Wang, Smola (2015), Who supported Obama in
    2012? Ecological inference through distribution regression.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> ages = [rng.uniform(20, 50 + a, size=50) for a in rng.uniform(0, 40, size=80)]
    >>> bags = bw.from_arrays([a[:, None] for a in ages], feature_names=["age"])
    >>> y = np.array([(a / 100).mean() for a in ages])
    >>> model = bw.method("blr").fit(bags, y)
    >>> old = bw.predict_subset(model, bags, "age > 45")
    >>> truth = [(a[a > 45] / 100).mean() for a in ages if (a > 45).any()]
    >>> bool(np.abs(old.prediction - truth).max() < 0.05)
    True
    """
    refuse_several_targets(model, "predict_subset")
    inner = unwrapped(model)
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    is_condition = isinstance(where, str | list | tuple)
    if is_condition:
        selected = as_where(where).holds(_columns(bags))
    else:
        selected = np.asarray(where)
        if selected.dtype != bool or selected.shape != (bags.n_instances,):
            raise ValueError(
                f"where must be a condition such as 'age > 45', or one truth value for each of {bags.n_instances:,} "
                f"instances, not an array of {selected.dtype} and shape {selected.shape}"
            )
    if bags.weights is not None:
        selected = selected & (bags.weights > 0)
    counts = segment_sum(selected.astype(np.int64), bags.offsets)
    there = counts > 0
    if not there.any():
        condition = f"where={where!r:.200}" if is_condition else "where"
        raise ValueError(f"no instance of {len(bags):,} bags satisfies {condition}; relax the condition")
    inner.predict(bags)  # warns of values that are odd
    inner = without_limits(inner)
    parts = instance_values(inner, compared(bags))["contributions"]
    if parts is None:
        raise ValueError(_refusal(inner))
    if not there.all():
        first, n = label(bags.ids[~there][0]), int(np.count_nonzero(~there))
        warnings.warn(
            f"{n:,} of {len(bags):,} bags have no instance that satisfies the condition (first: {first}); "
            "they are left out",
            stacklevel=2,
        )
    share = segment_sum(np.where(selected, bags.shares(), 0.0), bags.offsets)[there]
    by_sum = segment_sum(np.where(selected, parts, 0.0), bags.offsets)[there] / share
    size = segment_sum(np.where(selected, np.abs(parts), 0.0), bags.offsets)[there] / share
    subset = compared(marked_part(bags[there], selected[bags.expand(there)]))
    prediction, std = inner.predict(subset, return_std=True) if gives_std(inner) else (inner.predict(subset), None)
    if (np.abs(by_sum - prediction) > ROUNDING * np.maximum(size, np.abs(prediction))).any():
        raise ValueError(_refusal(inner))
    noise = getattr(last_step(inner), "noise_std_", None)
    of_mean = None if std is None or noise is None else np.sqrt(np.maximum(std**2 - noise**2, 0.0))
    return SubsetPredictions(bags.ids[there], prediction, std, of_mean, share, counts[there], bags.ids[~there])


def _columns(bags: Bags) -> dict[str, np.ndarray]:
    """Return the columns that a condition may name."""
    names = bags.feature_names or tuple(map(str, range(bags.n_features)))
    columns = {name: bags.instances[:, j] for j, name in enumerate(names)}
    if bags.covariates is not None:
        covariate_names = bags.covariate_names or tuple(f"covariate {j}" for j in range(bags.covariates.shape[1]))
        columns |= {name: bags.expand(bags.covariates[:, j]) for j, name in enumerate(covariate_names)}
    return columns | dict(bags.kept or {})


def _refusal(model) -> str:
    return (
        f"the prediction of this {type(model).__name__} is not a sum over instances, each of which counts by itself "
        "(it may look at the bag as a whole, or fill in missing values from it), so it says nothing of a part of a "
        f"bag; methods that can: {', '.join(ADDITIVE)}"
    )
