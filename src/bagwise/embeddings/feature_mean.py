"""Bag means of feature maps, and similarities to landmarks or prototypes, in time linear in the number of instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.segments import row_blocks, segment_max, segment_sum
from bagwise.bags.validation import check_options, one_of, whole_number
from bagwise.embeddings.kernel_mean import spectral_root, spread_of
from bagwise.embeddings.summaries import Embedding
from bagwise.execution.resources import one_thread
from bagwise.kernels import Gaussian, Kernel, MedianDistance, with_bandwidth
from bagwise.kernels.bandwidths import draw_instances
from bagwise.kernels.formulas import FourierFeatures, kernel_matrices, mean_and_scale, row_keys, sample_rows

ROWS_PER_CENTRE = 20  # maximum number of rows per centre that k-means uses


def pick_prototypes(rows: np.ndarray, n: int, pick: str = "random", random_state: int = 0) -> np.ndarray:
    """Return at most ``n`` distinct rows ("random"), or the centres of ``n`` clusters ("k-means").

    Rows are drawn by a hash of their content and the seed, so the order of the bags and of their instances does not
    matter. If there are at most ``n`` distinct rows, all are returned.
    """
    one_of(pick, ("random", "k-means"), "pick")
    whole_number(n, "the number of prototypes")
    with np.errstate(over="ignore"):
        rounded = rows.astype(np.float32)
    first = np.unique(row_keys(rounded, random_state), return_index=True)[1]
    # Ordered by the hash of their first three digits, because rounding of earlier sums must not change the choice.
    coarse = ((rounded[first].view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)
    distinct = rows[first[np.argsort(row_keys(coarse, random_state), kind="stable")]]
    if len(distinct) <= n or pick == "random":
        return distinct[:n].astype(np.float64)
    sample = distinct[: ROWS_PER_CENTRE * n].astype(np.float64)
    return k_means_centres(sample, n, np.random.RandomState(random_state))


def k_means_centres(X: np.ndarray, n: int, rng: np.random.RandomState, *, starts: int = 1) -> np.ndarray:
    """Return the centres of n clusters of the rows, by k-means from `_distant_rows`, of the best start."""
    with one_thread():  # sums over several threads round differently from run to run
        runs = [KMeans(n, init=X[_distant_rows(X, n, rng)], n_init=1).fit(X) for _ in range(starts)]
    limit = (1 + 1e-9) * min(run.inertia_ for run in runs)  # starts equal up to rounding are ties
    return next(run.cluster_centers_ for run in runs if run.inertia_ <= limit)


def _distant_rows(X: np.ndarray, n: int, rng: np.random.RandomState) -> list[int]:
    """Return indices of n rows by k-means++: each is the best of a few candidates, drawn by squared distance.

    Sums of squared distances that are equal up to rounding, which differs between CPUs, are ties.
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


def whitening(gram: np.ndarray) -> np.ndarray:
    """Return W with W Wᵀ the pseudo-inverse of a Gram matrix, without directions lost to rounding.

    Usually none is lost, and a Cholesky factor takes a sixth of the time of an eigendecomposition.
    """
    factor, not_positive = dpotrf(gram, lower=1)
    if not not_positive:
        inverse, _ = dtrtri(factor, lower=1)
        # An upper bound of the condition number, times ε.
        if len(gram) * np.finfo(float).eps * np.trace(gram) * (inverse**2).sum() < 1:
            return inverse.T
    vectors, root = spectral_root(gram)
    return vectors / root


BLOCK_ROWS = 512  # instances per block; 500 features of a block fit into the cache
LANDMARKS = (100, 500)  # minimum and maximum of the default number
PAIRS = 10**8  # pairs of instance and landmark (a few seconds), above which the default number is reduced


class FeatureMean(Embedding):
    r"""Bag mean of a feature map of the instances, z_i = 1/L_i Σ_l φ(x_il).

    With random Fourier features, φ(x)·φ(x') ≈ k(x, x') and z_i·z_j ≈ 1/(L_i L_j) ΣΣ k(x_il, x_jm): the kernel mean in
    linear time.

    Parameters
    ----------
    features : transformer of rows, default FourierFeatures(linear=False)
        For example `FourierFeatures`, `NystroemFeatures` or scikit-learn's PolynomialFeatures.

    Attributes
    ----------
    features_ : transformer
        The fitted map.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> bags = bw.from_arrays([np.array([1.0, 3.0]), np.array([5.0])])
    >>> FeatureMean(PolynomialFeatures(2)).fit_transform(bags).tolist()
    [[1.0, 2.0, 5.0], [1.0, 5.0, 25.0]]

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines.
    """

    is_mean = True

    def __init__(self, features=None):
        self.features = features

    def fit(self, bags, y=None) -> FeatureMean:
        bags = check_bags(bags, fitting=self, allow_weights=True)
        self.features_ = self.fresh_features().fit(bags.instances)
        remember_columns(self, bags)
        return self

    def fresh_features(self):
        """Return the unfitted map."""
        return FourierFeatures(linear=False) if self.features is None else clone(self.features)

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        return mean_of_features(self.features_.transform, bags)


class NystroemMean(Embedding):
    r"""Kernel mean projected on m landmarks, for any positive definite kernel, in O(N m).

    With landmarks U and their kernel matrix C, z_i = 1/L_i Σ_l k(x_il, U) W, where W Wᵀ = C⁻¹. The inner product
    z_i·z_j is that of the embeddings projected onto the span of k(·, u). It *equals* the double sum of `KernelMean` if
    every training instance is a landmark: small data are treated exactly, large data in linear time.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(1.0)
        Its bandwidth is a number or a rule, such as ``Gaussian(MedianDistance())``, fitted on the landmarks.
    landmarks : int or "auto", default "auto"
        m, the largest number of landmarks. "auto" is 500, and less for more than 200,000 instances, but at least 100.
    pick : {"random", "k-means"}, default "random"
        Whether landmarks are training instances, or centres of clusters of them, which cover the data better and cost
        more.
    units : {"spread", "label"}, default "spread"
        Whether instances are first divided by the root of their total variance, as in `KernelMean`.
    random_state : int, default 0

    Attributes
    ----------
    landmarks_, whitening_ : arrays (landmarks, features), (landmarks, columns)
        U in the units of the kernel, and W without directions lost to rounding.
    spread_, kernel_ : float, Kernel
        Divisor of the instances; the kernel with a number as bandwidth.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([0.0, 1.0]), np.array([2.0])])
    >>> Z = NystroemMean(units="label").fit_transform(bags)
    >>> float(Z[0] @ Z[1]).__round__(6) == round(float(np.exp(-2.0) + np.exp(-0.5)) / 2, 6)
    True

    References
    ----------
    Williams & Seeger (2001), Using the Nyström method to speed up kernel machines.
    """

    is_mean = True

    def __init__(
        self, kernel=None, *, landmarks: int | str = "auto", pick="random", units="spread", random_state: int = 0
    ):
        self.kernel = kernel
        self.landmarks = landmarks
        self.pick = pick
        self.units = units
        self.random_state = random_state

    def fit(self, bags, y=None) -> NystroemMean:
        bags = check_bags(bags, fitting=self, allow_weights=True)
        check_options(self, units=("spread", "label"))
        self.spread_ = spread_of(bags.instances) if self.units == "spread" else 1.0
        most: Any = int(np.clip(PAIRS // bags.n_instances, *LANDMARKS)) if self.landmarks == "auto" else self.landmarks
        self.landmarks_ = pick_prototypes(bags.instances, most, self.pick, self.random_state) / self.spread_
        self._fit_kernel()
        remember_columns(self, bags)
        return self

    def _fit_kernel(self) -> None:
        if not self._kernel.positive_definite:
            raise ValueError(f"{type(self._kernel).__name__} is not positive definite and has no feature map")
        self.kernel_ = with_bandwidth(self._kernel, self.landmarks_)
        self.whitening_ = whitening(self.kernel_(self.landmarks_, self.landmarks_))

    def fit_grid(self, bags, y, settings: Iterable[dict]) -> Iterator[tuple[dict, Embedding, np.ndarray]]:
        """Fit a copy per setting, as `Embedding.fit_grid`; settings of the kernel share landmarks and distances."""
        settings = list(settings)
        if any(setting.keys() != {"kernel"} for setting in settings):
            yield from super().fit_grid(bags, y, settings)
            return
        unfitted = [clone(self).set_params(**setting) for setting in settings]
        bags = check_bags(bags, allow_weights=True)
        first = unfitted[0].fit(bags)
        for other in unfitted[1:]:
            vars(other).update({name: value for name, value in vars(first).items() if name.endswith("_")})
            other._fit_kernel()
        kernels = [embedding.kernel_ for embedding in unfitted]
        means = means_of_features(lambda rows: kernel_matrices(kernels, first._in_units(rows), first.landmarks_), bags)
        for setting, embedding, mean in zip(settings, unfitted, means, strict=True):
            yield setting, embedding, mean @ embedding.whitening_

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        # Average before multiplying by W, so that there is one product per bag instead of one per instance.
        return mean_of_features(self._similarities, bags) @ self.whitening_

    def project(self, bags, coef: np.ndarray) -> np.ndarray:
        # Multiply W by coef first: W amplifies rounding errors, which depend on the number of bags.
        bags = check_bags(bags, fitted=self, allow_weights=True)
        return np.einsum("ij,j->i", mean_of_features(self._similarities, bags), self.whitening_ @ coef)

    @property
    def _kernel(self):
        return Gaussian() if self.kernel is None else self.kernel

    def _similarities(self, rows: np.ndarray) -> np.ndarray:
        return self.kernel_(self._in_units(rows), self.landmarks_)

    def _in_units(self, rows: np.ndarray) -> np.ndarray:
        return np.divide(rows, self.spread_, dtype=np.float64)


def mean_of_features(features: Callable[[np.ndarray], np.ndarray], bags: Bags) -> np.ndarray:
    """Compute 1/L_i Σ_l φ(x_il) per bag, in blocks; with weights Σ_l w_il φ(x_il) / Σ_l w_il."""
    return means_of_features(lambda rows: [features(rows)], bags)[0]


def means_of_features(features: Callable[[np.ndarray], Iterable[np.ndarray]], bags: Bags) -> list[np.ndarray]:
    """Compute `mean_of_features` for several maps at once: ``features`` returns the rows of each map."""
    sums: list[np.ndarray] = []
    share = None if bags.weights is None else bags.shares()[:, None]
    for rows, touched, offsets in row_blocks(bags.offsets, BLOCK_ROWS):
        for at, mapped in enumerate(features(bags.instances[rows])):
            values = np.asarray(mapped, dtype=np.float64)
            if rows.start == 0:
                sums.append(np.zeros((len(bags), values.shape[1])))
            sums[at][touched] += segment_sum(values if share is None else values * share[rows], offsets)
    return [total / bags.sizes[:, None] if share is None else total for total in sums]


class PhaseMean(Embedding):
    r"""Phase of the characteristic function of a bag at random frequencies, without its modulus.

    With c = mean cos(ω·x) and s = mean sin(ω·x) over the instances of a bag, the features of frequency ω are

        √(2/m) (c, s) / √(c² + s²).

    Independent symmetric noise (Gaussian, Laplace, Cauchy) multiplies c and s by the same positive number, so a bag of
    noisy instances has the features of one without noise, up to sampling error. That error matters where √(c² + s²) is
    small, so frequencies should be low (bandwidths of 1 and above) and bags large.

    Parameters
    ----------
    n_features : int, default 500
        m, even: two features per frequency.
    bandwidth, kernel, random_state
        As in `FourierFeatures`, whose frequencies are used.

    Attributes
    ----------
    fourier_ : FourierFeatures
        Fitted on the instances.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=(20, 2)) for _ in range(3)])
    >>> Z = PhaseMean(8).fit_transform(bags)
    >>> Z.shape, bool(np.allclose((Z**2).sum(axis=1), 1.0))
    ((3, 8), True)

    References
    ----------
    Law, Yau, Sejdinovic (2017), Testing and learning on distributions with symmetric noise invariance.
    """

    def __init__(
        self, n_features: int = 500, *, bandwidth: float = 1.0, kernel: str = "gaussian", random_state: int = 0
    ):
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.random_state = random_state

    def fit(self, bags, y=None) -> PhaseMean:
        bags = check_bags(bags, fitting=self, allow_weights=True)
        fourier = FourierFeatures(
            self.n_features, bandwidth=self.bandwidth, kernel=self.kernel, linear=False, random_state=self.random_state
        )
        self.fourier_ = fourier.fit(bags.instances)
        remember_columns(self, bags)
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        means = mean_of_features(self.fourier_.transform, bags)
        length = np.hypot(*np.hsplit(means, 2))
        # A modulus within rounding has no phase.
        length = np.where(length > 1e-12, length, np.inf)
        return means / np.hstack([length, length]) * np.sqrt(2.0 / means.shape[1])


class MinusDistance(Kernel):
    r"""Similarity s(a, b) = -‖a - b‖, the negative distance, without a bandwidth.

    Examples
    --------
    >>> MinusDistance()([[0.0, 0.0]], [[3.0, 4.0]]).tolist()
    [[-5.0]]
    """

    smooth = False

    def __init__(self):
        pass

    positive_definite = False

    def _check(self) -> None:
        pass

    def _of_squared_distance(self, d2):
        return -(d2**0.5)


class Similarity(Embedding):
    r"""Similarity of each bag to P prototypes c_k by its nearest instance, s(c_k, bag) = max_l k(x_l, c_k).

    A linear model on these columns can learn that the target is high if any instance is similar to c_k, which a model
    on means cannot. The maximum over more instances is larger by chance; ``pool="mean"`` has no such effect.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(0.5)
        MILES has exp(-r²/σ²), which is Gaussian with bandwidth σ/√2; `MinusDistance` uses distances.
    prototypes : int, default 500
        P, the largest number of prototypes.
    pick : {"random", "k-means"}, default "random"
        Whether prototypes are training instances, or centres of clusters of them.
    pool : {"max", "mean"}, default "max"
        Whether the similarity of a bag is the maximum or the mean over its instances.
    random_state : int, default 0

    Attributes
    ----------
    prototypes_, spread_ : array (prototypes, features), float
        Prototypes in units of ``spread_``, the root of the total variance of the instances.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([0.0, 5.0]), np.array([1.0])])
    >>> similarity = Similarity(MinusDistance())
    >>> Z = similarity.fit_transform(bags) * similarity.spread_
    >>> sorted(Z[1].round().tolist())  # to 5, 0 and 1
    [-4.0, -1.0, -0.0]

    References
    ----------
    Chen, Bi, Wang (2006), MILES: multiple-instance learning via embedded instance selection. MILESReg of El-Manzalawy
    (in Weka) is its regression, with smallest distances.
    """

    def __init__(self, kernel=None, *, prototypes: int = 500, pick="random", pool="max", random_state: int = 0):
        self.kernel = kernel
        self.prototypes = prototypes
        self.pick = pick
        self.pool = pool
        self.random_state = random_state

    @property
    def is_mean(self) -> bool:
        return self.pool == "mean"

    def fit(self, bags, y=None) -> Similarity:
        bags = check_bags(bags, fitting=self, allow_weights=self.pool == "mean")
        check_options(self, pool=("max", "mean"))
        self.spread_ = spread_of(bags.instances)
        self.prototypes_ = pick_prototypes(bags.instances, self.prototypes, self.pick, self.random_state) / self.spread_
        remember_columns(self, bags)
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=self.pool == "mean")
        if self.pool == "mean":
            return mean_of_features(self._similarities, bags)
        nearest = np.full((len(bags), len(self.prototypes_)), -np.inf)
        for rows, touched, offsets in row_blocks(bags.offsets, BLOCK_ROWS):
            values = segment_max(self._similarities(bags.instances[rows]), offsets)
            np.maximum(nearest[touched], values, out=nearest[touched])
        return nearest

    def _similarities(self, rows: np.ndarray) -> np.ndarray:
        kernel = Gaussian(0.5) if self.kernel is None else self.kernel
        return kernel(np.divide(rows, self.spread_, dtype=np.float64), self.prototypes_)


LANDMARK_BLOCK = 8192  # rows per block: 4 MB of similarities to 60 landmarks
DRAWN = 5000  # number of sampled instances from which landmarks are computed


class LandmarkMean(Embedding):
    r"""Bag means μ̂_i of φ(x) = [k(x, u_1) .. k(x, u_s)] over the instances x of bag i, for landmarks u.

    Before the kernel, features are standardised and divided by sqrt(median squared distance / 2), so that a bandwidth
    of 1 is the usual rule.

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
        How instances are sampled. "bags" gives each bag the same weight. "rows" takes distinct rows by a hash of their
        content, which is possible for a stream of rows; mean and deviation of the features are those of the sample.
    random_state : int, default 0

    Attributes
    ----------
    landmarks_, kernel_ : array (s, n_features), Kernel
        Landmarks in the units of the kernel; the kernel with a number as bandwidth.
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
        """Compute ``noise_`` from sums over bags, with the factors of `unbiasing`: of the mean of φφᵀ, and of μ̂μ̂ᵀ.

        ``n`` is the number of bags with a factor above zero.
        """
        self.noise_ = (second - outer) / max(n, 1)

    def transform(self, bags) -> np.ndarray:
        return self.means_and_products(check_bags(bags, fitted=self, allow_weights=True))[0]

    def _check(self, bags: Bags) -> None:
        check_options(self, placement=("kmeans", "random", "quantiles"), draw=("bags", "rows"))
        whole_number(self.landmarks, "landmarks")
        if self.placement == "quantiles" and bags.n_features != 1:
            raise ValueError(f"placement='quantiles' needs one feature, not {bags.n_features}; use placement='kmeans'")

    def _place(self, drawn: np.ndarray, scaling: np.ndarray | None = None) -> None:
        """Scale by the columns of ``scaling``, by default those sampled, and choose kernel and landmarks."""
        self.centre_, scale = mean_and_scale(drawn if scaling is None else scaling, constant=np.inf)
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
        """Return the bag means of φ, and the sum of φφᵀ over instances, weighted by share times weight of the bag."""
        s, share = len(self.landmarks_), bags.shares()
        means, second = np.zeros((len(bags), s)), np.zeros((s, s))
        for rows, touched, offsets in row_blocks(bags.offsets, LANDMARK_BLOCK):
            phi = self.similarities(bags.instances[rows])
            means[touched] += segment_sum(phi * share[rows, None], offsets)
            if weights is not None:
                second += (phi.T * (share[rows] * np.repeat(weights[touched], np.diff(offsets)))) @ phi
        return means, second


def unbiasing(sizes: np.ndarray) -> np.ndarray:
    """Return N / (N - 1) per bag of (effective) size N, the factor that makes Σ w φφᵀ - μ̂μ̂ᵀ unbiased; 0 if N is 1."""
    is_above_one = sizes > 1 + 1e-9
    return np.where(is_above_one, sizes / np.where(is_above_one, sizes - 1, 1.0), 0.0)
