"""What bags may carry beside their instances: a weight per instance, and covariates, numbers of the bag as a whole."""

from __future__ import annotations

import numpy as np

from bagwise.bags.frames import names_of, unframe
from bagwise.bags.naming import name_bags
from bagwise.bags.parts import as_feature_names, bags_of, one_per_bag, unmask


def as_weights(weights, offsets: np.ndarray, ids: np.ndarray) -> np.ndarray | None:
    """One finite weight per instance, none negative, some above zero in every bag; or None."""
    if weights is None:
        return None
    array = unmask(weights)
    if array.shape != (offsets[-1],):
        raise ValueError(f"weights must have one entry per instance ({offsets[-1]}), not shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"weights must be numbers, not {array.dtype}")
    array = array.astype(np.float64)
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        raise ValueError(
            f"{name_bags(ids, bags_of(wrong, offsets))} an instance weight that is negative, missing or infinite; "
            "weights are numbers from zero up"
        )
    empty = ~bags_of(array > 0, offsets)
    if empty.any():
        raise ValueError(
            f"{name_bags(ids, empty)} no instance of weight above zero; every bag needs one: leave such bags out"
        )
    return array


def as_covariates(values, names, ids: np.ndarray, feature_names) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """A finite number per bag and covariate, as float64, and the names of the covariates; or None twice."""
    if values is None:
        if names is not None:
            raise ValueError("covariate_names without covariates; give both")
        return None, None
    values, columns = unframe(values, "covariates")
    array = one_per_bag(unmask(values), len(ids), "covariates")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"covariates must be a table of (bags, covariates), not an array of shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"covariates must be numbers, not {array.dtype}")
    array = array.astype(np.float64)
    unknown = ~np.isfinite(array).all(axis=1)
    if unknown.any():
        raise ValueError(f"{name_bags(ids, unknown)} a missing or infinite covariate; fill it in, or leave the bag out")
    names = as_feature_names(names_of(names, columns, "covariate_names"), array.shape[1])
    both = set(names or ()) & set(feature_names or ())
    if both:
        raise ValueError(f"{min(both)!r} is a feature of the instances and a covariate of the bag; it can be one")
    return array, names


def shares(weights: np.ndarray | None, offsets: np.ndarray) -> np.ndarray:
    """The share of every instance in its bag: its weight over that of the bag; 1 / size without weights."""
    sizes = np.diff(offsets)
    if weights is None:
        return np.repeat(1.0 / sizes, sizes)
    largest = np.maximum.reduceat(weights, offsets[:-1])  # divided by first, so that no sum overflows or is lost
    relative = weights / np.repeat(largest, sizes)
    return relative / np.repeat(np.add.reduceat(relative, offsets[:-1]), sizes)


def spread(bags) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Instances with the covariates of their bag as further columns, and the names of all columns if all have one."""
    wide = np.hstack([bags.instances, bags.expand(bags.covariates).astype(bags.dtype)])
    named = bags.feature_names is not None and bags.covariate_names is not None
    return wide, bags.feature_names + bags.covariate_names if named else None
