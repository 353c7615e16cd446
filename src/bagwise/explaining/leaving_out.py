"""What a prediction would be without an instance, for every instance in turn and any method, many bags at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from joblib import Parallel, delayed
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.bags.naming import name_bags
from bagwise.bags.reach import compared
from bagwise.explaining.verbs import by_rows

MAX_INSTANCES = 1000  # of a bag: it is predicted as often as it has instances, a million rows
BLOCK_VALUES = 2**22  # numbers in the bags predicted at a time: 32 MB
BLOCK_BAGS = 4096  # and their number, for methods that make a row of each


def leave_one_out(model, bags: Bags, predictions: np.ndarray, *, max_instances: int, n_jobs=None) -> np.ndarray:
    """The prediction of the bag minus that without the instance, for every instance; 0 where nothing would be left.

    A bag of L instances is predicted L times with L - 1 of them. Stages that look at every instance by itself are
    passed once for all. Blocks depend on the bags alone, so the numbers are the same whatever ``n_jobs``.
    """
    _refuse_large(bags, max_instances)
    model, bags = _past_rows(model, bags)
    left_out = np.flatnonzero(bags.shares() < 1)
    blocks = _blocks(bags.expand(bags.sizes)[left_out] - 1, max(1, BLOCK_VALUES // bags.n_features))
    jobs = (delayed(_predict_without)(model, bags, left_out[block]) for block in blocks)
    effects = np.zeros(bags.n_instances)
    found = [np.empty(0), *Parallel(n_jobs=n_jobs)(jobs)]
    effects[left_out] = bags.expand(predictions)[left_out] - np.concatenate(found)
    return effects


def without_each(bags: Bags, left_out: np.ndarray) -> Bags:
    """For every instance (its row in the flat array) its bag without it; it must not be all that counts there.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0])])
    >>> [bag[:, 0].tolist() for bag in without_each(bags, np.array([0, 2, 4]))]
    [[2.0, 3.0], [1.0, 2.0], [7.0]]
    """
    which = np.searchsorted(bags.offsets, left_out, side="right") - 1
    whole = bags[which]
    gone = whole.offsets[:-1] + left_out - bags.offsets[which]
    keep = np.ones(whole.n_instances, dtype=bool)
    keep[gone] = False
    return _only(whole, keep)


def _only(bags: Bags, keep: np.ndarray) -> Bags:
    """The bags with the marked instances alone, and everything they carry."""
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
    """What comes after the stages that look at every instance by itself, and the bags it sees."""
    first = 0
    if isinstance(model, Pipeline):
        while first < len(model.steps) - 1 and by_rows(model.steps[first][1]):
            bags = model.steps[first][1].transform(bags)
            first += 1
    return (model[first:] if first else model), bags


def _blocks(rows: np.ndarray, most_rows: int) -> Iterator[slice]:
    """Runs of bags with at most so many rows, and `BLOCK_BAGS` bags; a larger bag is a run of its own."""
    total, start = np.concatenate([[0], np.cumsum(rows)]), 0
    while start < len(rows):
        stop = int(np.searchsorted(total, total[start] + most_rows, side="right")) - 1
        stop = min(max(stop, start + 1), start + BLOCK_BAGS)
        yield slice(start, stop)
        start = stop


def _refuse_large(bags: Bags, max_instances: int) -> None:
    large = bags.sizes > max_instances
    if large.any():
        raise ValueError(
            f"{name_bags(bags.ids, large)} more than {max_instances:,} instances (the largest {bags.sizes.max():,}); "
            "leaving out each in turn predicts a bag as often as it has instances: explain other bags, or pass "
            f"max_instances={bags.sizes.max()} and wait"
        )
