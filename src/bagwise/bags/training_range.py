"""The range of the training values: what an estimator remembers of it, and what becomes of new values outside."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from bagwise.bags.container import Bags
from bagwise.bags.frames import is_known, plain_number
from bagwise.bags.validation import Message, Parameter, bags_of, name_bags

# A value is far outside if it lies beyond the training range by more than so many of its widths. New values of the same
# distribution do not, unless its tails are as heavy as those of a Cauchy distribution.
FAR = 3.0


def remember_range(estimator, low, high, *, of: str = "feature") -> None:
    """Note on the estimator the lowest and the highest training value of every column."""
    setattr(estimator, f"{of}_range_in_", np.array([low, high]))


def remember_ranges(estimator, bags: Bags) -> None:
    """The same, from the training bags: of their features and covariates. Instances of weight zero do not count."""
    counted = bags.instances if bags.weights is None else bags.instances[bags.weights > 0]
    remember_range(estimator, *_extremes(counted, bags.has_missing))
    if bags.covariates is not None:
        remember_range(estimator, *_extremes(bags.covariates), of="covariate")
    elif hasattr(estimator, "covariate_range_in_"):
        del estimator.covariate_range_in_


def compared(bags: Bags) -> Bags:
    """The same bags, marked as compared with training: the parts of an estimator do not warn of them again."""
    return bags if bags.compared else bags._with(compared=True)


def within_range(bags: Bags, fitted, *, widths: float = 0.0) -> Bags:
    """The same bags, a value beyond the training range (widened by so many widths) counting as the nearest end of it.

    What lies within is unchanged to the last bit. An estimator from a file of an earlier version remembers no range,
    and nothing is changed.
    """
    instances = _clipped(bags.instances, _limits(fitted, "feature", widths))
    covariates = None if bags.covariates is None else _clipped(bags.covariates, _limits(fitted, "covariate", widths))
    if instances is bags.instances and covariates is bags.covariates:
        return bags
    return bags._with(instances=instances, covariates=covariates)


class FarValue(NamedTuple):
    """A value far outside the range of training, and where it stands."""

    value: float
    column: str
    low: float
    high: float


def find_far(instances: np.ndarray, fitted, names=None, *, of: str = "feature") -> tuple[np.ndarray, FarValue | None]:
    """Which rows hold a value far outside the range that the estimator remembers, and the first of these values."""
    limits = _limits(fitted, of, FAR)
    rows = np.zeros(len(instances), dtype=bool)
    if limits is None or len(instances) == 0:
        return rows, None
    low, high = getattr(fitted, f"{of}_range_in_").astype(np.float64)
    extremes = _extremes(instances, missing=True)
    live = high > low  # a column that was constant in training says nothing of how far is far
    columns = np.flatnonzero(live & ((extremes[0] < limits[0]) | (extremes[1] > limits[1])))
    for j in columns:
        rows |= (instances[:, j] < limits[0][j]) | (instances[:, j] > limits[1][j])
    if len(columns) == 0:
        return rows, None
    row = int(rows.argmax())
    j = next(j for j in columns if not limits[0][j] <= instances[row, j] <= limits[1][j])
    name = str(j) if names is None else repr(str(names[j]))
    return rows, FarValue(float(instances[row, j]), name, float(low[j]), float(high[j]))


def warn_of_far(bags: Bags, fitted) -> None:
    """Warn, once, if bags hold values far outside the range of training."""
    rows, first = find_far(bags.instances, fitted, bags.feature_names)
    marked = bags_of(rows, bags.offsets)
    if bags.covariates is not None:
        others, other = find_far(bags.covariates, fitted, bags.covariate_names, of="covariate")
        if other is not None and (first is None or others.argmax() < marked.argmax()):
            first = other
        marked = marked | others
    if first is not None:
        say_far(bags.ids, marked, first)


def say_far(ids: np.ndarray, marked: np.ndarray, first: FarValue) -> None:
    """One sentence: the bag, the column, the value, and how many other bags."""
    number = plain_number(first.value)
    message = Message(
        f"{name_bags(ids, marked)} values far outside the range of training: "
        f"{number if first.value.is_integer() else f'{first.value:.6g}'} in column {first.column}, where "
        f"training had {first.low:.6g} to {first.high:.6g}; check its units"
    )
    if is_known(first.value):
        message += Message(", or, if it stands for a missing value, load with ", Parameter("fill_values", [number]))
    warnings.warn(message, UserWarning, stacklevel=4)


def _extremes(values: np.ndarray, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of every column; NaN where there is none."""
    if missing:
        return np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    return values.min(axis=0), values.max(axis=0)


def _limits(fitted, of: str, widths: float) -> np.ndarray | None:
    limits = getattr(fitted, f"{of}_range_in_", None)
    if limits is None or widths == 0.0:
        return limits
    low, high = limits.astype(np.float64)
    return np.array([low - widths * (high - low), high + widths * (high - low)])


def _clipped(values: np.ndarray, limits: np.ndarray | None) -> np.ndarray:
    if limits is None:
        return values
    low, high = limits
    if not ((values < low) | (values > high)).any():
        return values
    clipped = values.copy()  # of the same type: a float32 within the range must not become another number
    np.copyto(clipped, np.broadcast_to(low, values.shape), where=values < low, casting="same_kind")
    np.copyto(clipped, np.broadcast_to(high, values.shape), where=values > high, casting="same_kind")
    return clipped
