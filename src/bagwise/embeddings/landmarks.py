"""Mean similarity of the instances of a bag to landmarks, and the sampling variance of that mean."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.checks import check_options, whole_number
from bagwise.bags.segments import row_blocks, segment_sum
from bagwise.embeddings.summaries import Embedding
from bagwise.execution.resources import one_thread
from bagwise.kernels import Gaussian, MedianDistance, with_bandwidth
from bagwise.kernels.bandwidths import draw_instances
from bagwise.kernels.formulas import sample_rows, varies

BLOCK = 8192  # rows per block: 4 MB of similarities to 60 landmarks
DRAWN = 5000  # number of sampled instances from which landmarks are computed


class LandmarkMean(Embedding):
    r"""Bag means μ̂_i of φ(x) = [k(x, u_1) .. k(x, u_s)] over the instances x of bag i, for landmarks u.

    The features are standardised and divided by sqrt(median squared distance / 2) before the kernel sees them, so that
    a bandwidth of 1 is the usual rule and units matter only to which rows are drawn. Instances are read in blocks:
    similarities are held for one block at a time.

    An empirical mean of N instances is uncertain: its covariance is Σ/N, Σ the covariance of φ inside a bag, which the
    fit leaves in ``noise_`` for regressors that take bag size into account. With instance weights the mean is weighted,
    and N is (Σ w)² / Σ w², the effective size of the bag.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(1.0)
        Its bandwidth may be a rule, such as `MarginalPseudolikelihood`.
    landmarks : int
        s; fewer if the instances have fewer distinct values.
    placement : {"kmeans", "random", "quantiles"}
        Centres of k-means on at most 5,000 instances (every bag weighing the same); some of those instances; or
        evenly spaced quantiles of them, for one feature.
    draw : {"bags", "rows"}
        How those instances are drawn: so that every bag weighs the same, which takes a sort of all instances; or
        distinct rows by a hash of their content, which can be drawn from a stream of them. With "rows" mean and
        deviation of the features are theirs, so that nothing depends on the order in which instances come.
    random_state : int

    Attributes
    ----------
    landmarks_ : array (s, n_features), in the units in which the kernel sees the features
    kernel_ : the kernel, its bandwidth a number
    centre_, scale_ : of the features: the kernel sees (x - centre_) / scale_
    unit_ : sqrt(median squared distance / 2) of standardised instances
    noise_ : array (s, s)
        The covariance of φ inside a bag, unbiased, averaged over the training bags of at least two instances; zero
        when there is none.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.embeddings import LandmarkMean
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=(size, 2)) for size in (3, 40, 7)])
    >>> embedding = LandmarkMean(landmarks=4)
    >>> embedding.fit_transform(bags).shape, embedding.noise_.shape
    ((3, 4), (4, 4))

    References
    ----------
    Law, Sutherland, Sejdinovic, Flaxman (2018), Bayesian approaches to distribution regression.
    """

    is_mean = True

    def __init__(
        self, kernel=None, *, landmarks: int = 60, placement: str = "kmeans", draw: str = "bags", random_state: int = 0
    ):
        self.kernel = kernel
        self.landmarks = landmarks
        self.placement = placement
        self.draw = draw
        self.random_state = random_state

    def fit(self, bags, y=None) -> LandmarkMean:
        self.fit_transform(bags)
        return self

    def fit_transform(self, bags, y=None) -> np.ndarray:
        bags = check_bags(bags, fitting=self, allow_weights=True)
        self._check(bags)
        remember_columns(self, bags)
        if self.draw == "bags":
            self._place(draw_instances(bags, DRAWN, random_state=self.random_state), bags.instances)
        else:
            self._place(bags.instances[sample_rows(bags.instances, *self.sampling())].astype(np.float64))
        sizes = bags.effective_sizes()
        means, second = self.means_and_products(bags, unbiasing(sizes))
        self.keep_noise(means, second, sizes)
        return means

    def fit_sample(self, bags, rows) -> LandmarkMean:
        """Fit with ``draw="rows"`` from the rows of the `sampling`, where other rows are elsewhere.

        Of the bags only the columns count. `means_and_products` then gives the rows of some bags, and
        `keep_noise_sums` completes the fit.
        """
        self._check(bags)
        remember_columns(self, bags)
        self._place(rows.astype(np.float64))
        return self

    def sampling(self) -> tuple[int, int]:
        """Return the number of distinct rows from which landmarks are computed, and the seed of `row_keys`."""
        return DRAWN, self.random_state

    def similarities(self, X: np.ndarray) -> np.ndarray:
        """Return φ of each row."""
        return self.kernel_((X - self.centre_) / self.scale_, self.landmarks_)

    def keep_noise(self, means: np.ndarray, second: np.ndarray, sizes: np.ndarray) -> None:
        """Compute ``noise_`` from bag means of φ and Σ over bags of `unbiasing` times the mean of φφᵀ in the bag."""
        unbias = unbiasing(sizes)
        self.keep_noise_sums(second, (means.T * unbias) @ means, int(np.count_nonzero(unbias)))

    def keep_noise_sums(self, second: np.ndarray, outer: np.ndarray, n: int) -> None:
        """Compute ``noise_`` from Σ of `unbiasing` times μ̂μ̂ᵀ, over the n bags with a factor above zero."""
        self.noise_ = (second - outer) / max(n, 1)

    def transform(self, bags) -> np.ndarray:
        return self.means_and_products(check_bags(bags, fitted=self, allow_weights=True))[0]

    def _check(self, bags: Bags) -> None:
        check_options(self, placement=("kmeans", "random", "quantiles"), draw=("bags", "rows"))
        whole_number(self.landmarks, "landmarks")
        if self.placement == "quantiles" and bags.n_features != 1:
            raise ValueError(f"placement='quantiles' is for one feature, and there are {bags.n_features}; use 'kmeans'")

    def _place(self, drawn: np.ndarray, scaling: np.ndarray | None = None) -> None:
        """Scale by the columns of ``scaling``, by default those sampled, and choose kernel and landmarks."""
        self.centre_, scale = _moments(drawn if scaling is None else scaling)
        drawn = (drawn - self.centre_) / scale
        self.unit_ = MedianDistance(random_state=self.random_state).fit(drawn)
        self.scale_ = scale * self.unit_
        drawn /= self.unit_
        self.kernel_ = with_bandwidth(Gaussian() if self.kernel is None else self.kernel, drawn)
        self.landmarks_ = self._choose(drawn)

    def _choose(self, drawn: np.ndarray) -> np.ndarray:
        distinct = np.unique(drawn, axis=0)
        if len(distinct) <= self.landmarks:
            return distinct
        if self.placement == "quantiles":
            return np.unique(np.quantile(drawn, (np.arange(self.landmarks) + 0.5) / self.landmarks, axis=0), axis=0)
        rng = np.random.RandomState(self.random_state)
        if self.placement == "random":
            return distinct[rng.choice(len(distinct), self.landmarks, replace=False)]
        return k_means_centres(drawn, self.landmarks, rng)

    def means_and_products(self, bags: Bags, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the bag means of φ, and Σ over instances of weight(bag) share φφᵀ where weights are given."""
        s, share = len(self.landmarks_), bags.shares()
        means, second = np.zeros((len(bags), s)), np.zeros((s, s))
        for rows, own_bags, own in row_blocks(bags.offsets, BLOCK):
            phi = self.similarities(bags.instances[rows])
            means[own_bags] += segment_sum(phi * share[rows, None], own)
            if weights is not None:
                second += (phi.T * (share[rows] * np.repeat(weights[own_bags], np.diff(own)))) @ phi
        return means, second


def k_means_centres(X: np.ndarray, n: int, rng: np.random.RandomState, *, starts: int = 1) -> np.ndarray:
    """Return the centres of n clusters of the rows, by k-means from `_distant_rows`: the first of the best starts."""
    with one_thread():  # sums over several threads round differently from run to run
        runs = [KMeans(n, init=X[_distant_rows(X, n, rng)], n_init=1).fit(X) for _ in range(starts)]
    least = min(run.inertia_ for run in runs)
    return next(
        run.cluster_centers_ for run in runs if run.inertia_ <= least * (1 + 1e-9)
    )  # so that rounding does not decide


def _distant_rows(X: np.ndarray, n: int, rng: np.random.RandomState) -> list[int]:
    """Return indices of n rows by k-means++: each is the best of a few, drawn by squared distance to those before.

    Best is the smallest sum of squared distances that is left. Of two rows that are nearest to one another, either
    leaves the same sum, so that rounding would decide between them, differently on every CPU: of equals, the one that
    comes first in X is taken.
    """
    trials = 2 + int(np.log(n))
    chosen = [int(rng.uniform() * len(X))]
    nearest = cdist(X[chosen], X, "sqeuclidean")[0]
    while len(chosen) < n:
        tried = np.searchsorted(np.cumsum(nearest), rng.uniform(size=trials) * nearest.sum())
        tried = np.unique(np.minimum(tried, len(X) - 1))
        left = np.minimum(nearest, cdist(X[tried], X, "sqeuclidean"))
        sums = left.sum(axis=1)
        best = np.flatnonzero(sums <= sums.min() * (1 + 1e-9))[0]
        chosen.append(int(tried[best]))
        nearest = left[best]
    return chosen


def unbiasing(sizes: np.ndarray) -> np.ndarray:
    """Return N / (N - 1) per bag of (effective) size N, the factor that makes Σ w φφᵀ - μ̂μ̂ᵀ unbiased; 0 if N is 1."""
    several = sizes > 1 + 1e-9
    return np.where(several, sizes / np.where(several, sizes - 1, 1.0), 0.0)


def _moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation per column, in blocks; infinite for columns that vary by rounding only.

    Divided by infinity, a constant column stays out of all distances.
    """
    mean = X.mean(axis=0, dtype=np.float64)
    squares, largest = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK]
        squares += ((block - mean) ** 2).sum(axis=0)
        largest = np.maximum(largest, np.abs(block).max(axis=0))
    deviation = np.sqrt(squares / len(X))
    return mean, np.where(varies(deviation, largest), deviation, np.inf)
