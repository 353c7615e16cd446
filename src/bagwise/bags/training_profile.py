"""`TrainingProfile`: a few kilobytes about the training bags, stored with each model for `bagwise.novelty`."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from bagwise.bags.container import Bags
from bagwise.bags.folds import units_of
from bagwise.bags.segments import counting, segment_mean, segment_sum

N_LANDMARKS = 12  # landmark points of the embedding
N_REFERENCES = 80  # training bags whose embeddings are stored
N_CALIBRATION = 300  # training bags whose distances are stored
MAX_INSTANCES = 2_000_000  # of the embedded training bags; at least `N_REFERENCES` bags are embedded
N_NEAREST = 3  # nearest training bags over which the distance of a bag is averaged
MIN_UNITS = 10  # training bags (groups) needed to judge a distance
BLOCK_ROWS = 2**16


class TrainingProfile:
    r"""Range, landmark embedding and leave-one-out distances of the training bags.

    Let z be a standardised instance, l_1, ..., l_m landmarks halfway between two training instances, and s² the median
    squared distance. The embedding of a bag is the mean over its instances of φ_k(z) = exp(-‖z - l_k‖² / 2s²). It is
    whitened by C + εI, where C is the covariance over the training bags and ε the mean variance times max(0.05, m /
    bags), so that directions in which training bags hardly differ count as much as the others. The distance of a bag is
    the mean Euclidean distance to the nearest 3 of at most 80 training bags. For a training bag, the distance and the
    share of instances outside the range are computed without the bag itself (without its group).

    Covariates are additional columns. A missing value is replaced by the mean of its column and is never outside.
    ``range`` has the minimum and maximum training value of each column, ``names`` the columns, covariates last.
    """

    def __init__(self, bags: Bags):
        bags = bags.spread()
        instances, offsets, weights = counting(bags.instances, bags.offsets, bags.weights)
        bags = bags._with(instances=instances, offsets=offsets, weights=weights, kept=None)
        self.names = None if bags.feature_names is None else list(bags.feature_names)
        lows, highs = (extreme.reduceat(instances, offsets[:-1], axis=0) for extreme in (np.fmin, np.fmax))
        self.range = np.array([np.fmin.reduce(lows, axis=0), np.fmax.reduce(highs, axis=0)])
        unit = units_of(bags)
        self.n_bags, self.n_units = len(bags), int(unit.max()) + 1
        if self.n_units < MIN_UNITS:
            return
        chosen = np.random.default_rng(0).permutation(len(bags))[:N_CALIBRATION]
        fits = np.cumsum(bags.sizes[chosen]) <= MAX_INSTANCES
        fits[:N_REFERENCES] = True
        chosen = np.sort(chosen[fits])
        sample = bags[chosen]
        self._fit_embedding(sample)
        rows = self._rows(sample)
        references = np.sort(np.random.default_rng(1).permutation(len(sample))[:N_REFERENCES])
        self.references = rows[references].astype(np.float32)
        allowed = unit[chosen][:, None] != unit[chosen][references]
        self.distances = _nearest(rows, self.references, allowed).astype(np.float32)
        low, high = _lowest_of_others(lows, unit)[chosen], -_lowest_of_others(-highs, unit)[chosen]
        outside = (sample.instances < sample.expand(low)) | (sample.instances > sample.expand(high))
        self.shares = _share(np.logical_or.reduce(outside, axis=1), sample).astype(np.float32)

    def _fit_embedding(self, bags: Bags) -> None:
        rng = np.random.default_rng(0)
        values = bags.instances.astype(np.float64)
        present = ~np.isnan(values)
        counts = np.maximum(present.sum(axis=0), 1)
        self.centre = np.where(present, values, 0.0).sum(axis=0) / counts
        deviation = np.sqrt((np.where(present, values - self.centre, 0.0) ** 2).sum(axis=0) / counts)
        varies = deviation > 1e-9 * np.maximum(np.abs(self.centre), 1e-300)  # False if a column varies only by rounding
        self.factor = np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)
        # Halfway between instances of two bags, because an instance as landmark would make its own bag an outlier.
        pairs = rng.integers(len(bags), size=(2, N_LANDMARKS))
        rows = bags.offsets[pairs] + rng.integers(bags.sizes[pairs])
        self.landmarks = self._scaled(values[rows]).mean(axis=0).astype(np.float32)
        sample = rng.permutation(len(values))[:1000]
        self.width = float(np.median(cdist(self._scaled(values[sample]), self.landmarks, "sqeuclidean"))) or 1.0
        means = self._means(bags)
        self.mean = means.mean(axis=0)
        variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(means.T)))
        ridge = max(0.05, len(self.mean) / len(means)) * max(variances.mean(), 1e-12)
        self.whitening = directions / np.sqrt(np.maximum(variances, 0.0) + ridge)

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        return (np.where(np.isnan(values), self.centre, values) - self.centre) * self.factor

    def _means(self, bags: Bags) -> np.ndarray:
        near = np.empty((bags.n_instances, len(self.landmarks)))
        for start in range(0, bags.n_instances, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            # cdist computes each pair separately; a matrix product rounds differently for other numbers of rows.
            squares = cdist(self._scaled(bags.instances[rows].astype(np.float64)), self.landmarks, "sqeuclidean")
            near[rows] = np.exp(-squares / (2 * self.width))
        return segment_mean(near, bags.offsets, bags.weights)

    def _rows(self, bags: Bags) -> np.ndarray:
        # einsum, so that the embedding of a bag does not depend on the other bags, not even in the last digit.
        return np.einsum("ij,jk->ik", self._means(bags) - self.mean, self.whitening)

    def outside(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Return the share of instances outside the range: in any column (bags,), and per column (bags, columns).

        Instances are weighted.
        """
        bags = bags.spread()
        marked = (bags.instances < self.range[0]) | (bags.instances > self.range[1])
        return _share(np.logical_or.reduce(marked, axis=1), bags), _share(marked, bags)

    def distance(self, bags: Bags) -> np.ndarray:
        """Return the mean distance of each bag to its nearest training bags."""
        rows = self._rows(bags.spread())
        return _nearest(rows, self.references, np.ones((1, len(self.references)), dtype=bool))

    def ranks(self, distance: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how many training bags have a smaller distance, and how many a smaller maximum of the two ranks."""

        def larger_rank(distance, share):
            return np.maximum(_ranks(self.distances, distance), _ranks(self.shares, share))

        smaller = _ranks(larger_rank(self.distances, self.shares), larger_rank(distance, share))
        return _ranks(self.distances, distance), smaller


def _ranks(references: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return how many reference values are smaller than each value, apart from float32 rounding."""
    values = np.asarray(values, dtype=np.float64) * (1 - 1e-6)
    return np.searchsorted(np.sort(references), values.astype(np.float32), side="left")


def _lowest_of_others(values: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return for each bag the minimum of each column over the bags of other units."""
    order = np.argsort(unit, kind="stable")
    starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
    of_unit = np.fmin.reduceat(values[order], starts, axis=0)
    of_unit[np.isnan(of_unit)] = np.inf
    first, columns = of_unit.argmin(axis=0), np.arange(values.shape[1])
    lowest = of_unit[first, columns]
    of_unit[first, columns] = np.inf
    return np.where(unit[:, None] == first, of_unit.min(axis=0), lowest)


def _share(marked: np.ndarray, bags: Bags) -> np.ndarray:
    """Return the (weighted) share of marked instances in each bag."""
    shares = bags.shares().reshape(-1, *[1] * (marked.ndim - 1))
    return np.minimum(segment_sum(marked * shares, bags.offsets), 1.0)


def _nearest(rows: np.ndarray, references: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the mean distance of each row to its `N_NEAREST` nearest allowed references."""
    distances = np.where(allowed, cdist(rows, references, "euclidean"), np.inf)
    nearest = np.sort(distances, axis=1)[:, :N_NEAREST]
    near = np.isfinite(nearest)
    return np.where(near, nearest, 0.0).sum(axis=1) / np.maximum(near.sum(axis=1), 1)
