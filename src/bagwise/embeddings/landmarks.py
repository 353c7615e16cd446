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
from bagwise.kernels.formulas import mean_and_scale, sample_rows

BLOCK = 8192  # rows per block: 4 MB of similarities to 60 landmarks
DRAWN = 5000  # number of sampled instances from which landmarks are computed


class LandmarkMean(Embedding):
    r"""Bag means μ̂_i of φ(x) = [k(x, u_1) .. k(x, u_s)] over the instances x of bag i, for landmarks u.

    Before the kernel, features are standardised and divided by sqrt(median squared distance / 2), so that a bandwidth
    of 1 is the usual rule and units only matter to which rows are drawn. Similarities are computed in blocks of rows.

    The mean of a bag of N instances has the sampling covariance Σ/N, with Σ the covariance of φ within a bag. The fit
    estimates Σ as ``noise_`` for regressors that take bag size into account. With instance weights the mean is
    weighted, and N is (Σ w)² / Σ w², the effective size of the bag.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(1.0)
        Its bandwidth may be a rule, such as `MarginalPseudolikelihood`.
    landmarks : int, default 60
        s; fewer if the instances have fewer distinct values.
    placement : {"kmeans", "random", "quantiles"}, default "kmeans"
        Centres of k-means on at most 5,000 sampled instances, a random choice of them, or their evenly spaced
        quantiles (for one feature).
    draw : {"bags", "rows"}, default "bags"
        How instances are sampled. "bags" gives each bag the same weight and sorts all instances. "rows" takes distinct
        rows by a hash of their content, which is possible for a stream of rows; mean and deviation of the features are
        then those of the sample.
    random_state : int, default 0

    Attributes
    ----------
    landmarks_ : array (s, n_features)
        In the units of the kernel.
    kernel_ : Kernel
        The kernel, with a number as bandwidth.
    centre_, scale_ : array (n_features,)
        The kernel is evaluated at ``(x - centre_) / scale_``.
    unit_ : float
        sqrt(median squared distance / 2) of standardised instances.
    noise_ : array (s, s)
        Unbiased covariance of φ within a bag, averaged over the training bags with at least two instances; zero if
        there are none.

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
        unbias = unbiasing(bags.effective_sizes())
        means, second = self.means_and_products(bags, unbias)
        self.keep_noise_sums(second, (means.T * unbias) @ means, int(np.count_nonzero(unbias)))
        return means

    def fit_sample(self, bags, rows) -> LandmarkMean:
        """Fit with ``draw="rows"`` from the rows of the `sampling`, for data that are not in memory.

        ``bags`` only name the columns. `keep_noise_sums` completes the fit, from sums of `means_and_products`.
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

    def keep_noise_sums(self, second: np.ndarray, outer: np.ndarray, n: int) -> None:
        """Compute ``noise_`` from two sums over bags of `unbiasing`, times the bag mean of φφᵀ and times μ̂μ̂ᵀ.

        n is the number of bags with a factor above zero.
        """
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
        self.centre_, scale = mean_and_scale(drawn if scaling is None else scaling, constant=np.inf)  # in no distance
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
        for rows, touched, offsets in row_blocks(bags.offsets, BLOCK):
            phi = self.similarities(bags.instances[rows])
            means[touched] += segment_sum(phi * share[rows, None], offsets)
            if weights is not None:
                second += (phi.T * (share[rows] * np.repeat(weights[touched], np.diff(offsets)))) @ phi
        return means, second


def k_means_centres(X: np.ndarray, n: int, rng: np.random.RandomState, *, starts: int = 1) -> np.ndarray:
    """Return the centres of n clusters of the rows, by k-means from `_distant_rows`: the first of the best starts."""
    with one_thread():  # sums over several threads round differently from run to run
        runs = [KMeans(n, init=X[_distant_rows(X, n, rng)], n_init=1).fit(X) for _ in range(starts)]
    limit = (1 + 1e-9) * min(run.inertia_ for run in runs)  # so that rounding does not decide
    return next(run.cluster_centers_ for run in runs if run.inertia_ <= limit)


def _distant_rows(X: np.ndarray, n: int, rng: np.random.RandomState) -> list[int]:
    """Return indices of n rows by k-means++: each is the best of a few candidates, drawn by squared distance.

    The best candidate leaves the smallest sum of squared distances to the chosen rows. Sums that are equal up to
    rounding, which differs between CPUs, are ties: the candidate that comes first in X is chosen.
    """
    trials = 2 + int(np.log(n))
    chosen = [int(rng.uniform() * len(X))]
    nearest = cdist(X[chosen], X, "sqeuclidean")[0]
    while len(chosen) < n:
        candidates = np.searchsorted(np.cumsum(nearest), rng.uniform(size=trials) * nearest.sum())
        candidates = np.unique(np.minimum(candidates, len(X) - 1))
        distances = np.minimum(nearest, cdist(X[candidates], X, "sqeuclidean"))
        sums = distances.sum(axis=1)
        best = np.flatnonzero(sums <= sums.min() * (1 + 1e-9))[0]
        chosen.append(int(candidates[best]))
        nearest = distances[best]
    return chosen


def unbiasing(sizes: np.ndarray) -> np.ndarray:
    """Return N / (N - 1) per bag of (effective) size N, the factor that makes Σ w φφᵀ - μ̂μ̂ᵀ unbiased; 0 if N is 1."""
    several = sizes > 1 + 1e-9
    return np.where(several, sizes / np.where(several, sizes - 1, 1.0), 0.0)
