"""Features that are the same for all instances of a bag belong to the bag: they become covariates, for the head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean, segment_sum


@dataclass(frozen=True)
class Routing:
    """Which columns never vary within a training bag. Called with bags, it moves them to the covariates.

    In bags of one instance everything is constant: where those are half of the bags or more, nothing is moved. A new
    bag in which such a column does vary counts with its mean.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([[1.0, 7.0], [2.0, 7.0]]), np.array([[3.0, 8.0], [1.0, 8.0]])])
    >>> Routing.of(bags)(bags).covariates.tolist()
    [[7.0], [8.0]]
    """

    columns: np.ndarray

    @classmethod
    def of(cls, bags: Bags) -> Routing:
        first = bags.instances[bags.offsets[:-1]]
        same = (bags.instances == bags.expand(first)).all(axis=0)
        plain = same.all() or np.mean(bags.sizes > 1) <= 0.5
        return cls(np.flatnonzero(same & ~plain))

    def __call__(self, bags: Bags) -> Bags:
        if len(self.columns) == 0:
            return bags
        kept = np.setdiff1d(np.arange(bags.n_features), self.columns)
        names = bags.feature_names
        moved = _one_per_bag(bags, self.columns)
        left = bags.replace(bags.instances[:, kept], feature_names=None if names is None else [names[c] for c in kept])
        return left.with_covariates(*self._beside(bags, moved))

    def _beside(self, bags: Bags, moved: np.ndarray) -> tuple[np.ndarray, list | None]:
        """The covariates that the bags had, then those that were moved; names where all have one."""
        had = np.empty((len(bags), 0)) if bags.covariates is None else bags.covariates
        named = bags.feature_names is not None and (bags.covariates is None or bags.covariate_names is not None)
        names = [*(bags.covariate_names or ()), *(bags.feature_names[c] for c in self.columns)] if named else None
        return np.column_stack([had, moved]), names


def _one_per_bag(bags: Bags, columns: np.ndarray) -> np.ndarray:
    """The value itself where a bag has one (its mean would be rounded), else the mean."""
    values = bags.instances[:, columns].astype(np.float64)
    first = values[bags.offsets[:-1]]
    varies = segment_sum((values != bags.expand(first)).astype(np.int64), bags.offsets) > 0
    return np.where(varies, segment_mean(values, bags.offsets, bags.weights), first)


def without_equal_weights(bags: Bags) -> Bags:
    """The bags without instance weights that are the same all over a bag and so say nothing: some members take none."""
    if bags.weights is None:
        return bags
    first = bags.expand(bags.weights[bags.offsets[:-1]])
    return bags.without_weights() if (bags.weights == first).all() else bags
