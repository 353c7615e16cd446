"""`TrainingProfile`: what a fitted model keeps of its training bags, to compare new bags with; a few kilobytes.

It holds the range of every column, a few landmarks, the rows of some training bags in the
embedding that the landmarks span, and how far training bags lie from one another there.
"""

from __future__ import annotations

import numpy as np

from bagwise.bags.container import Bags
from bagwise.bags.segments import segment_mean, segment_sum

PARENTS = 3
LANDMARKS = 12  # points that span the embedding
REFERENCES = 80  # training bags whose rows are kept
CALIBRATION = 300  # training bags whose distances are kept
INSTANCES = 2_000_000  # at most, of the bags that are embedded at fit; but of no fewer than `REFERENCES` bags
NEAREST = 3  # training bags to which the distance of a bag is averaged
FEWEST = 10  # bags (groups) of training from which on a distance can be called large
BLOCK_ROWS = 2**16


class TrainingProfile:
    r"""Range, landmark embedding and leave-one-out distances of the training bags.

    With z the columns in units of their deviation and l_1, ..., l_m points halfway between two training instances, a
    bag has the row μ, the mean of φ(z) = exp(-‖z - l_k‖² / 2s²) over its instances, s² the median squared distance.
    Rows are whitened by their covariance over the training bags, C + εI with ε the mean variance times max(0.05, m /
    bags), so that a direction in which training bags hardly differ counts as much as the others. The distance of a bag
    is the mean Euclidean distance to its nearest 3 of at most 80 training bags. A training bag is compared with others
    than itself (than those of its group), and the share of its instances outside the range with that of the others.

    Covariates are columns like others; a missing value is replaced by the mean of the column and is never outside.

    Parameters
    ----------
    bags : Bags
    means_within : (low, high), optional
        The range of the columns, where ``bags`` hold one instance each, the mean of a bag that is elsewhere (a scan).
        New bags are then compared by their means, and by no share outside the range.

    Attributes
    ----------
    names : list of the columns, covariates last; None if they have none
    range : array (2, columns), the lowest and the highest training value
    distances, shares : leave-one-out distance, and share outside the range of the others, of at most 300 training bags
    """

    def __init__(self, bags: Bags, *, means_within: tuple | None = None):
        from bagwise.bags.folds import units_of  # here, for it imports scikit-learn: loading stays light

        bags = _counting(bags.spread())
        self.names = None if bags.feature_names is None else list(bags.feature_names)
        self.of_means = means_within is not None
        lows, highs = _bag_ranges(bags)
        extremes = means_within or (np.fmin.reduce(lows, axis=0), np.fmax.reduce(highs, axis=0))
        self.range = np.array(extremes)
        unit = units_of(bags)
        self.n_bags, self.n_units = len(bags), int(unit.max()) + 1
        if self.n_units < FEWEST:
            return
        chosen = _some_bags(bags)
        some, unit_of_some = bags[chosen], unit[chosen]
        self._fit_embedding(some)
        rows = self._rows(some)
        kept = np.sort(np.random.default_rng(1).permutation(len(some))[:REFERENCES])
        self.references = rows[kept].astype(np.float32)
        apart = unit_of_some[:, None] != unit_of_some[kept][None]
        self.distances = _nearest(rows, self.references, apart).astype(np.float32)
        if self.of_means:  # how many instances of a bag are outside the range of the others is not known
            self.shares = np.ones(len(some), dtype=np.float32)
            return
        low, high = _of_others(lows, unit, np.fmin)[chosen], _of_others(highs, unit, np.fmax)[chosen]
        self.shares = _share(_any(_outside(some, some.expand(low), some.expand(high))), some).astype(np.float32)

    # At fit ---------------------------------------------------------------------------------------------------------

    def _fit_embedding(self, bags: Bags) -> None:
        rng = np.random.default_rng(0)
        values = bags.instances.astype(np.float64)
        with np.errstate(all="ignore"):
            self.centre, deviation = _mean_and_deviation(values)
        live = deviation > 1e-9 * np.maximum(np.abs(self.centre), 1e-300)  # a column that varies by rounding alone
        self.factor = np.where(live, 1 / np.where(live, deviation, 1.0), 0.0)
        self.landmarks = self._landmarks(values, bags, rng)
        sample = rng.permutation(len(values))[:1000]
        squares = _squared_distances(self._scaled(values[sample]), self.landmarks)
        self.width = float(np.median(squares)) or 1.0
        means = self._means(bags)
        self.mean = means.mean(axis=0)
        covariance = np.atleast_2d(np.cov(means.T))
        variances, directions = np.linalg.eigh(covariance)
        ridge = max(0.05, len(self.mean) / len(means)) * max(variances.mean(), 1e-12)
        self.whitening = directions / np.sqrt(np.maximum(variances, 0.0) + ridge)

    def _landmarks(self, values: np.ndarray, bags: Bags, rng: np.random.Generator) -> np.ndarray:
        """Points halfway between instances of two bags: one instance itself would set its own bag apart."""
        bag = rng.integers(len(bags), size=(2, LANDMARKS))
        rows = bags.offsets[bag] + rng.integers(bags.sizes[bag])
        return self._scaled(values[rows]).mean(axis=0).astype(np.float32)

    # The embedding --------------------------------------------------------------------------------------------------

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        values = np.where(np.isnan(values), self.centre, values)
        return (values - self.centre) * self.factor

    def _means(self, bags: Bags) -> np.ndarray:
        near = np.empty((bags.n_instances, len(self.landmarks)))
        for start in range(0, bags.n_instances, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            squares = _squared_distances(self._scaled(bags.instances[rows].astype(np.float64)), self.landmarks)
            near[rows] = np.exp(-squares / (2 * self.width))
        return segment_mean(near, bags.offsets, bags.weights)

    def _rows(self, bags: Bags) -> np.ndarray:
        # By einsum: the row of a bag is the same to the last bit whatever other bags there are.
        return np.einsum("ij,jk->ik", self._means(bags) - self.mean, self.whitening)

    # New bags -------------------------------------------------------------------------------------------------------

    def outside(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """The share of the instances of every bag outside the range: in any column (bags,), and (bags, columns).

        By their weights, if they have some.
        """
        bags = bags.spread()
        marked = _outside(bags, *self.range)
        return _share(_any(marked), bags), _share(marked, bags)

    def distance(self, bags: Bags) -> np.ndarray:
        """The mean distance of every bag to its nearest training bags."""
        bags = bags.spread()
        return _nearest(self._rows(_means_of(bags) if self.of_means else bags), self.references)

    def ranks(self, distance: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many training bags have a smaller distance; and a smaller larger-of-both-ranks, distance and share."""
        by_distance, larger = _ranks(self.distances, distance), self._larger(distance, share)
        return by_distance, _ranks(self._larger(self.distances, self.shares), larger)

    def _larger(self, distance: np.ndarray, share: np.ndarray) -> np.ndarray:
        return np.maximum(_ranks(self.distances, distance), _ranks(self.shares, share))


def _ranks(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How many known values are smaller than each; those that differ by the rounding of float32 alone are equal."""
    values = np.asarray(values, dtype=np.float64) * (1 - 1e-6)
    return np.searchsorted(np.sort(known), values.astype(np.float32), side="left")


def _counting(bags: Bags) -> Bags:
    """The bags without instances of weight zero."""
    if bags.weights is None or (bags.weights > 0).all():
        return bags
    kept = bags.weights > 0
    offsets = np.concatenate([[0], np.cumsum(segment_sum(kept.astype(np.int64), bags.offsets))])
    return bags._with(instances=bags.instances[kept], offsets=offsets, weights=bags.weights[kept], kept=None)


def _some_bags(bags: Bags) -> np.ndarray:
    """Positions of at most so many bags, chosen by chance, that they hold no more than so many instances."""
    order = np.random.default_rng(0).permutation(len(bags))[:CALIBRATION]
    few_enough = np.cumsum(bags.sizes[order]) <= INSTANCES
    few_enough[:REFERENCES] = True
    return np.sort(order[few_enough])


def _bag_ranges(bags: Bags) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of every column in every bag; NaN where it has none."""
    starts = bags.offsets[:-1]
    return np.fmin.reduceat(bags.instances, starts, axis=0), np.fmax.reduceat(bags.instances, starts, axis=0)


def _of_others(ends: np.ndarray, unit: np.ndarray, extreme: np.ufunc) -> np.ndarray:
    """For every bag the extreme over the bags of other units."""
    order = np.argsort(unit, kind="stable")
    starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
    of_unit = extreme.reduceat(ends[order], starts, axis=0)
    worst = -np.inf if extreme is np.fmax else np.inf
    filled = np.where(np.isnan(of_unit), worst, of_unit)
    first = filled.argmax(axis=0) if extreme is np.fmax else filled.argmin(axis=0)
    columns = np.arange(ends.shape[1])
    best = filled[first, columns]
    filled[first, columns] = worst
    second = extreme.reduce(filled, axis=0)
    units = np.arange(len(of_unit))[:, None]
    return np.where(units == first, second, best)[unit]


def _means_of(bags: Bags) -> Bags:
    """Every bag as one instance, its mean."""
    means = segment_mean(bags.instances.astype(np.float64), bags.offsets, bags.weights)
    return bags._with(instances=means, offsets=np.arange(len(bags) + 1), weights=None, kept=None)


def _share(marked: np.ndarray, bags: Bags) -> np.ndarray:
    """The share of the marked instances in every bag."""
    shares = bags.shares().reshape(-1, *[1] * (marked.ndim - 1))
    return np.minimum(segment_sum(marked * shares, bags.offsets), 1.0)


def _outside(bags: Bags, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Which values lie outside, (instances, columns); a missing one does not."""
    return (bags.instances < low) | (bags.instances > high)


def _any(marked: np.ndarray) -> np.ndarray:
    """Which rows have a mark in any column."""
    return np.logical_or.reduce(marked, axis=1)


def _mean_and_deviation(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = ~np.isnan(values)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / counts
    return mean, np.sqrt((np.where(known, values - mean, 0.0) ** 2).sum(axis=0) / counts)


def _squared_distances(values: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """Pair by pair, not by a product of matrices, whose rounding depends on how many rows there are."""
    from scipy.spatial.distance import cdist

    return cdist(values, landmarks.astype(np.float64), "sqeuclidean")


def _nearest(rows: np.ndarray, references: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    distances = np.sqrt(_squared_distances(rows, references))
    if allowed is not None:
        distances = np.where(allowed, distances, np.inf)
    nearest = np.sort(distances, axis=1)[:, :NEAREST]
    near = np.isfinite(nearest)
    return np.where(near, nearest, 0.0).sum(axis=1) / np.maximum(near.sum(axis=1), 1)
