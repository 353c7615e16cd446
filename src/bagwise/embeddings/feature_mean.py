"""Bag means of feature maps, and similarities of bags to prototypes, in time linear in the number of instances.

The map is any transformer (`FeatureMean`), similarities to landmarks (`NystroemMean`) or random frequencies
(`PhaseMean`). `Similarity` is the maximum or mean similarity to each prototype. Landmarks and prototypes are instances
that represent all instances (`pick_prototypes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.checks import check_options, one_of, whole_number
from bagwise.bags.segments import row_blocks, segment_max, segment_sum
from bagwise.embeddings.kernel_mean import spectral_root, spread_of
from bagwise.embeddings.landmarks import k_means_centres
from bagwise.embeddings.summaries import Embedding
from bagwise.kernels import Gaussian, Kernel, with_bandwidth
from bagwise.kernels.formulas import FourierFeatures, kernel_matrices, row_keys

ROWS_PER_CENTRE = 20  # maximum number of rows per centre that k-means uses


def pick_prototypes(rows: np.ndarray, n: int, pick: str = "random", *, random_state: int = 0) -> np.ndarray:
    """Return at most ``n`` distinct rows ("random"), or the centres of ``n`` clusters ("k-means").

    Rows are drawn by a hash of their content and the seed, so the order of the bags and of their instances does not
    matter. If there are at most ``n`` distinct rows, all are returned.

    Examples
    --------
    >>> import numpy as np
    >>> pick_prototypes(np.array([[1.0], [2.0], [1.0]]), 5).tolist() in ([[1.0], [2.0]], [[2.0], [1.0]])
    True
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


def whitening(gram: np.ndarray) -> np.ndarray:
    """Return W with W Wᵀ the pseudo-inverse of a Gram matrix, without directions lost to rounding."""
    vectors, root = spectral_root(gram)
    return vectors / root


BLOCK_ROWS = 2048  # instances per block; 500 features of a block fit into the cache
LANDMARKS = (100, 500)  # minimum and maximum of the default number
PAIRS = 10**8  # pairs of instance and landmark (a few seconds), above which the default number is reduced


class FeatureMean(Embedding):
    r"""Bag mean of a feature map of the instances, z_i = 1/L_i Σ_l φ(x_il).

    With random Fourier features, φ(x)·φ(x') ≈ k(x, x') and z_i·z_j ≈ 1/(L_i L_j) ΣΣ k(x_il, x_jm): the kernel mean in
    linear time. Features are computed in blocks of instances, so memory does not grow with their number.

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

    With landmarks U and their kernel matrix C, z_i = 1/L_i Σ_l k(x_il, U) C^{-1/2}. The inner product z_i·z_j is that
    of the embeddings projected onto the span of k(·, u). It *equals* the double sum of `KernelMean` if every training
    instance is a landmark: small data are treated exactly, large data in linear time.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(1.0)
        Its bandwidth is a number or a rule, such as ``Gaussian(MedianDistance())``, fitted on the landmarks.
    landmarks : int or "auto", default "auto"
        m, the largest number of landmarks. "auto" is 500, and less for more than 200,000 instances, but at least 100.
    pick : {"random", "k-means"}, default "random"
        Whether landmarks are training instances, drawn by a hash of their content, or centres of clusters of them,
        which cover the data better and cost more.
    units : {"spread", "label"}, default "spread"
        Whether instances are first divided by the root of their total variance, as in `KernelMean`.
    random_state : int, default 0

    Attributes
    ----------
    landmarks_ : array (landmarks, features)
        In the units of the kernel.
    whitening_ : array (landmarks, columns)
        C^{-1/2}, without eigenvalues lost to rounding.
    spread_ : float
        Divisor of the instances.
    kernel_ : Kernel
        The kernel, with a number as bandwidth.

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
        if not self._kernel.positive_definite:
            raise ValueError(f"{type(self._kernel).__name__} is not positive definite and has no feature map")
        self.spread_ = spread_of(bags.instances) if self.units == "spread" else 1.0
        most: Any = int(np.clip(PAIRS // bags.n_instances, *LANDMARKS)) if self.landmarks == "auto" else self.landmarks
        chosen = pick_prototypes(bags.instances, most, self.pick, random_state=self.random_state)
        self.landmarks_ = chosen / self.spread_
        self._fit_kernel()
        remember_columns(self, bags)
        return self

    def _fit_kernel(self) -> None:
        self.kernel_ = with_bandwidth(self._kernel, self.landmarks_)
        self.whitening_ = whitening(self.kernel_(self.landmarks_, self.landmarks_))

    def fit_grid(self, bags, y, settings: Iterable[dict]) -> Iterator[tuple[dict, Embedding, np.ndarray]]:
        """Fit a copy per setting, as `Embedding.fit_grid`; settings of the kernel share landmarks and distances."""
        settings = list(settings)
        unfitted = [clone(self).set_params(**setting) for setting in settings]
        if any(setting.keys() != {"kernel"} for setting in settings) or not all(
            embedding._kernel.positive_definite for embedding in unfitted
        ):
            yield from super().fit_grid(bags, y, settings)
            return
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
        # The mean before C^{-1/2}, so that the product is per bag and not per instance.
        return mean_of_features(self._similarities, bags) @ self.whitening_

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

    Independent noise multiplies the characteristic function of a bag by that of the noise, which is real for a
    symmetric distribution and positive for the usual ones (Gaussian, Laplace, Cauchy). It multiplies c and s by the
    same number and does not change their ratio, so a bag of noisy instances has the features of one without noise, up
    to sampling error. That error matters where √(c² + s²) is small, so frequencies should be low (bandwidths of 1 and
    above) and bags large.

    Parameters
    ----------
    n_features : int, default 500
        m, even: two features per frequency.
    bandwidth : float, default 1.0
        Factor of the median rule of `FourierFeatures`.
    kernel : {"gaussian", "matern32", "matern52"}, default "gaussian"
        Kernel from whose spectrum frequencies are drawn.
    random_state : int, default 0

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

    @property
    def positive_definite(self) -> bool:
        return False

    def _check(self) -> None:
        pass

    def _of_squared_distance(self, d2):
        return -(d2**0.5)


class Similarity(Embedding):
    r"""Similarity of each bag to P prototypes c_k by its nearest instance, s(c_k, bag) = max_l k(x_l, c_k).

    A linear model on these columns can learn that the target is high if any instance is similar to c_k, which a model
    on means cannot. The maximum over more instances is larger by chance, so large bags are more similar to everything;
    ``pool="mean"`` has no such effect.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(0.5)
        MILES has exp(-r²/σ²), which is Gaussian with bandwidth σ/√2; `MinusDistance` uses distances.
    prototypes : int, default 500
        P, the largest number of prototypes.
    pick : {"random", "k-means"}, default "random"
        Whether prototypes are training instances, drawn by a hash of their content, or centres of clusters of them.
    pool : {"max", "mean"}, default "max"
        Whether the similarity of a bag is the maximum or the mean over its instances.
    random_state : int, default 0

    Attributes
    ----------
    prototypes_ : array (prototypes, features)
        In units of ``spread_``.
    spread_ : float
        Root of the total variance of the instances, which divides them.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([0.0, 5.0]), np.array([1.0])])
    >>> similarity = Similarity(MinusDistance())
    >>> Z = similarity.fit_transform(bags) * similarity.spread_
    >>> prototypes = (similarity.prototypes_[:, 0] * similarity.spread_).round()
    >>> dict(zip(prototypes.tolist(), Z[1].round().tolist()))[5.0]
    -4.0

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
        """Return whether the row of a bag is the mean of the rows of its instances."""
        return self.pool == "mean"

    def fit(self, bags, y=None) -> Similarity:
        bags = check_bags(bags, fitting=self, allow_weights=self.pool == "mean")
        check_options(self, pool=("max", "mean"))
        self.spread_ = spread_of(bags.instances)
        chosen = pick_prototypes(bags.instances, self.prototypes, self.pick, random_state=self.random_state)
        self.prototypes_ = chosen / self.spread_
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
