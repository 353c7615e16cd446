"""Kernels, named by their formulas, and maps φ with φ(a)·φ(b) ≈ k(a, b), which make kernel machines linear."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bagwise.bags.validation import check_options

FEW_COLUMNS = 4  # up to so many columns, differences take no longer than products by BLAS
ZERO = 16  # squared distances below this many ε of the squared norms are treated as rounding


class Kernel(BaseEstimator):
    """Base class of kernels, ``kernel(A, B)[i, j] = k(A[i], B[j])``.

    A kernel that depends only on the distance defines ``_of_squared_distance``; any other defines ``__call__``. Two
    attributes declare where it can be used: ``smooth`` (it has a short Chebyshev series on an interval, so that the
    mean embedding of scalars takes linear time) and ``positive_definite`` (it has a feature map).

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ in the formulas, above zero.

    Examples
    --------
    >>> class Triangle(Kernel):
    ...     smooth = False
    ...
    ...     def _of_squared_distance(self, d2):
    ...         return np.maximum(0.0, 1.0 - np.sqrt(d2) / self.bandwidth)
    >>> Triangle(4.0)([[0.0]], [[1.0], [5.0]]).tolist()
    [[0.75, 0.0]]
    """

    smooth: Any = True
    positive_definite: Any = True

    def __init__(self, bandwidth: float = 1.0):
        self.bandwidth = bandwidth

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        self._check()
        return self._of_squared_distance(squared_distances(A, B, exact_zero=not self.smooth))

    def _check(self) -> None:
        if not np.isfinite(self.bandwidth) or self.bandwidth <= 0:
            raise ValueError(f"{type(self).__name__}: bandwidth must be above zero, not {self.bandwidth!r}")


class Gaussian(Kernel):
    r"""k(a, b) = exp(-r² / (2 θ²)), r the distance and θ the bandwidth.

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, a length.

    Examples
    --------
    >>> Gaussian(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.6065]]
    """

    def _of_squared_distance(self, d2):
        return _exp(d2 * (-0.5 / self.bandwidth**2))


class InverseMultiquadric(Kernel):
    r"""k(a, b) = 1 / sqrt(r² + θ²): what the notebook of Uriot (2019) computes under the name "inverse".

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, a length.

    Examples
    --------
    >>> InverseMultiquadric(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.3536]]
    """

    def _of_squared_distance(self, d2):
        return 1.0 / (d2 + self.bandwidth**2) ** 0.5


class RationalQuadratic(Kernel):
    r"""k(a, b) = 1 - r² / (r² + θ) = θ / (r² + θ), as in Szabó et al. (2015).

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, a squared length.

    Examples
    --------
    >>> RationalQuadratic(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.3333]]
    """

    def _of_squared_distance(self, d2):
        return self.bandwidth / (d2 + self.bandwidth)


class Cauchy(Kernel):
    r"""k(a, b) = 1 / (1 + r² / θ²).

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, a length.

    Examples
    --------
    >>> Cauchy(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.5]]
    """

    def _of_squared_distance(self, d2):
        return 1.0 / (1.0 + d2 / self.bandwidth**2)


class Student(Kernel):
    r"""k(a, b) = 1 / (1 + r^θ), the generalised t-Student kernel.

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, an exponent, at most 2 for a positive definite kernel.

    Examples
    --------
    >>> Student(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.2]]
    """

    @property
    def smooth(self) -> bool:
        return self.bandwidth == 2

    @property
    def positive_definite(self) -> bool:
        return self.bandwidth <= 2

    def _of_squared_distance(self, d2):
        return 1.0 / (1.0 + d2 ** (self.bandwidth / 2))


class Exponential(Kernel):
    r"""k(a, b) = exp(-r / (2 θ²)), as in Szabó et al. (2015). It has a kink at zero.

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ; 2 θ² is a length.

    Examples
    --------
    >>> Exponential(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.7788]]
    """

    smooth = False

    def _of_squared_distance(self, d2):
        return _exp(d2**0.5 * (-0.5 / self.bandwidth**2))


class Matern32(Kernel):
    r"""k(a, b) = (1 + s) exp(-s), s = √3 r / θ.

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, a length.

    Examples
    --------
    >>> Matern32(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.4834]]
    """

    smooth = False

    def _of_squared_distance(self, d2):
        s = (3.0 * d2) ** 0.5 / self.bandwidth
        return (1.0 + s) * _exp(-s)


class Matern52(Kernel):
    r"""k(a, b) = (1 + s + s²/3) exp(-s), s = √5 r / θ.

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, a length.

    Examples
    --------
    >>> Matern52(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.524]]
    """

    smooth = False

    def _of_squared_distance(self, d2):
        s = (5.0 * d2) ** 0.5 / self.bandwidth
        return (1.0 + s + s * s / 3.0) * _exp(-s)


class Polynomial(Kernel):
    r"""k(a, b) = (<a, b> + θ)^p. Unbounded, so a mean embedding need not exist: Szabó et al. (2015) saw it fail.

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, the constant added to the inner product.
    degree : int, default 2
        The exponent p.

    Examples
    --------
    >>> Polynomial(1.0, degree=2)([[1.0, 2.0]], [[3.0, 0.5]]).tolist()
    [[25.0]]
    """

    def __init__(self, bandwidth: float = 1.0, degree: int = 2):
        self.bandwidth = bandwidth
        self.degree = degree

    def __call__(self, A, B):
        self._check()
        return (_columns(A) @ _columns(B).T + self.bandwidth) ** self.degree


class Linear(Kernel):
    r"""k(a, b) = <a, b>: the mean embedding is the mean of the instances.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 0.5]]).tolist()
    [[4.0]]
    """

    def __init__(self):
        pass

    def __call__(self, A, B):
        return _columns(A) @ _columns(B).T


class PrintedInverse(Kernel):
    r"""k(a, b) = (1 - r²) / (r² + θ): the formula as printed in Uriot (2019), for comparison only.

    It equals (1 + θ) / (r² + θ) - 1 and is NOT positive definite: it has no feature map, and is usable as a Gram matrix
    only (``KernelMean(columns="gram")``). Its use raises a warning. The paper computed `InverseMultiquadric`.

    Parameters
    ----------
    bandwidth : float, default 1.0
        θ, a squared length.

    Examples
    --------
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     PrintedInverse(2.0)([[0.0]], [[2.0]]).tolist()
    [[-0.5]]
    """

    positive_definite = False

    def __call__(self, A, B):
        warnings.warn(
            "the kernel (1 - r²)/(r² + θ), as printed in the paper, is not positive definite; "
            "use InverseMultiquadric or RationalQuadratic unless you want the printed formula",
            UserWarning,
            stacklevel=2,
        )
        return super().__call__(A, B)

    def _of_squared_distance(self, d2):
        return (1.0 - d2) / (d2 + self.bandwidth)


def with_bandwidth(kernel: Kernel, X) -> Kernel:
    """Return the kernel, or a copy whose bandwidth rule is replaced by the bandwidth computed from ``X``."""
    rule = getattr(kernel, "bandwidth", None)
    return clone(kernel).set_params(bandwidth=clone(rule).fit(X)) if hasattr(rule, "fit") else kernel


def kernel_matrices(kernels: Iterable[Kernel], A: np.ndarray, B: np.ndarray) -> Iterator[np.ndarray]:
    """Yield k(a_i, b_j) for each kernel; distances are computed once for all kernels of the distance."""
    distances = cache(lambda exact_zero: squared_distances(A, B, exact_zero=exact_zero))
    for kernel in kernels:
        if type(kernel).__call__ is Kernel.__call__:
            kernel._check()
            yield kernel._of_squared_distance(distances(not kernel.smooth))
        else:
            yield kernel(A, B)


def squared_distances(A: np.ndarray, B: np.ndarray, *, exact_zero: bool = False) -> np.ndarray:
    """Compute ‖a_i - b_j‖² for all pairs, by differences for few columns, otherwise by the binomial formula.

    The rounding error of the formula, about ε (‖a_i‖² + ‖b_j‖²), matters only to kernels with a kink at zero. Then
    ``exact_zero`` replaces distances up to that error by zero.
    """
    A, B = _columns(A), _columns(B)
    if A.shape[1] == 1:
        return (A[:, 0, None] - B[None, :, 0]) ** 2
    if A.shape[1] <= FEW_COLUMNS and not _is_tensor(A):
        return cdist(A, B, "sqeuclidean")  # a row does not depend on the other rows
    if _is_tensor(A):
        a, b = (A * A).sum(dim=1)[:, None], (B * B).sum(dim=1)
        d2 = (a + b - 2.0 * A @ B.T).clamp_(min=0.0)
    else:
        a, b = np.einsum("ij,ij->i", A, A)[:, None], np.einsum("ij,ij->i", B, B)[None, :]
        d2 = A @ (-2.0 * B.T)
        d2 += a
        d2 += b
        np.maximum(d2, 0.0, out=d2)
    if exact_zero:
        epsilon = float(np.finfo(str(A.dtype).removeprefix("torch.")).eps)
        d2[d2 <= ZERO * epsilon * (a + b)] = 0.0
    return d2


def _is_tensor(A) -> bool:
    """Return whether formulas are evaluated by torch, on the device of A."""
    return type(A).__module__ == "torch"


def _exp(a):
    return a.exp() if _is_tensor(a) else np.exp(a)


def _columns(A) -> np.ndarray:
    if _is_tensor(A):
        return A
    # In float64: the rounding of a product depends on its shape, and a row must not depend on the other rows.
    A = np.asarray(A, dtype=np.float64)
    return A[:, None] if A.ndim == 1 else A


# Kernels, and the degrees of freedom of the Student distribution of their frequencies (infinite for Gaussian).
KERNELS = {"gaussian": (Gaussian, np.inf), "matern32": (Matern32, 3), "matern52": (Matern52, 5)}
FLOATS = (np.float64, np.float32)
MEDIAN_ROWS = 1_000
BLOCK_ROWS = 65_536
FILLED_ROWS = 1_024  # rows per block of features, so that a block stays in the cache


class _KernelFeatures(TransformerMixin, BaseEstimator):
    """Base class of the feature maps: standardised inputs, a bandwidth by the median rule, optional linear columns."""

    def __init__(
        self,
        n_features: int = 512,
        *,
        bandwidth: float = 1.0,
        kernel: str = "gaussian",
        linear: bool | int = True,
        random_state: int | None = 0,
    ):
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.linear = linear
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None):
        """Fit the (weighted) mean and scale of the columns and the bandwidth, and draw the map; ``y`` is ignored."""
        self._check()
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            X, sample_weight = X[sample_weight > 0], sample_weight[sample_weight > 0]
        return self._fit(*mean_and_scale(X, sample_weight), X[sample_rows(X, *self.sampling())])

    def fit_moments(self, mean, scale, rows) -> _KernelFeatures:
        """Fit data that are not in memory from the mean and scale of the columns and the rows of the `sampling`."""
        self._check()
        validate_data(self, rows, dtype=FLOATS)
        return self._fit(mean, scale, rows)

    def sampling(self) -> tuple[int, int]:
        """Return the number of distinct rows that the fit uses, and the seed of `row_keys`."""
        return max(MEDIAN_ROWS, self.n_features), int(np.random.default_rng(self.random_state).integers(2**63))

    def _fit(self, mean, scale, rows):
        self.mean_, self.scale_ = mean, scale
        rng = np.random.default_rng(self.random_state)
        rng.integers(2**63)  # the sampling has used this number
        sample = self._standardise(rows.astype(np.float64))
        squares = pdist(sample[:MEDIAN_ROWS], "sqeuclidean")
        self.bandwidth_ = self.bandwidth * (float(np.sqrt(np.median(squares) / 2)) if len(squares) else 1.0)
        self._draw(sample, rng)
        return self

    def transform(self, X) -> np.ndarray:
        """Return the features of each row, with the dtype of ``X`` (float32 or float64)."""
        check_is_fitted(self)
        Z = self._standardise(validate_data(self, X, dtype=FLOATS, reset=False))
        width = self._width()
        linear = self.linear if isinstance(self.linear, bool) else Z.shape[1] <= self.linear
        phi = np.empty((len(Z), width + Z.shape[1] * linear), dtype=Z.dtype)
        self._fill(phi[:, :width], Z)
        if linear:
            # Divided by √d, so that inputs and kernel each contribute one to the mean of ‖φ(x)‖².
            np.multiply(Z, Z.shape[1] ** -0.5, out=phi[:, width:])
        return phi

    def _standardise(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean_.astype(X.dtype)) / self.scale_.astype(X.dtype)

    def _check(self) -> None:
        check_options(self, kernel=KERNELS)
        if not np.isfinite(self.bandwidth) or self.bandwidth <= 0:
            raise ValueError(f"bandwidth must be above zero, not {self.bandwidth!r}; it is a factor of the median rule")
        if self.n_features < 2:
            raise ValueError(f"n_features must be at least 2, not {self.n_features!r}")


class FourierFeatures(_KernelFeatures):
    r"""Random Fourier features, whose inner product φ(x)·φ(x') has the expectation k(x, x').

    A shift-invariant kernel is the mean of cos(ω·(x - x')) over frequencies ω drawn from its spectrum, so that

        φ(x) = √(2/m) [cos(ω_1·z), ..., cos(ω_{m/2}·z), sin(ω_1·z), ..., sin(ω_{m/2}·z)],   z = (x - mean) / scale.

    Parameters
    ----------
    n_features : int, default 512
        m, the even number of random features; the error of the kernel decreases as 1/√m.
    bandwidth : float, default 1.0
        Factor of the median rule √(median ‖z - z'‖² / 2) over at most 1,000 distinct rows.
    kernel : {"gaussian", "matern32", "matern52"}, default "gaussian"
        See the formulas of `bagwise.kernels`.
    linear : bool or int, default True
        Whether z/√d (d columns) is appended to the random features. The kernel is then k(x, x') + z·z'/d, which fits a
        linear trend at a small penalty. With a number, z/√d is appended only if there are at most so many columns.
    random_state : int or None, default 0

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth in units of the standardised inputs.
    mean_, scale_, frequencies_ : arrays (columns,), (columns,), (columns, n_features / 2)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> phi = FourierFeatures(2000, linear=False).fit_transform(X)
    >>> phi.shape, np.allclose((phi**2).sum(axis=1), 1.0)
    ((50, 2000), True)

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines.
    """

    def _check(self) -> None:
        super()._check()
        if self.n_features % 2:
            raise ValueError(f"n_features must be even (a cosine and a sine per frequency), not {self.n_features!r}")

    def _draw(self, sample, rng) -> None:
        _, freedom = KERNELS[self.kernel]
        n_frequencies = self.n_features // 2
        frequencies = rng.standard_normal((sample.shape[1], n_frequencies)) / self.bandwidth_
        if np.isfinite(freedom):  # a Gaussian divided by the root of a mean square is multivariate Student
            frequencies /= np.sqrt(rng.chisquare(freedom, n_frequencies) / freedom)
        self.frequencies_ = frequencies

    def _width(self) -> int:
        return 2 * self.frequencies_.shape[1]

    def _fill(self, phi: np.ndarray, Z: np.ndarray) -> None:
        if len(Z) == 1:  # for one row BLAS uses a routine that rounds differently
            two = np.repeat(phi, 2, axis=0)
            self._fill(two, np.repeat(Z, 2, axis=0))
            phi[:] = two[:1]
            return
        amplitude, half = float(np.sqrt(2 / phi.shape[1])), self.frequencies_ / 2
        parts = -(-len(Z) // FILLED_ROWS)
        for out, rows in zip(np.array_split(phi, parts), np.array_split(Z, parts), strict=True):
            cosine, sine = np.hsplit(out, 2)
            # In float64, then rounded to float32 if requested: the rounding of a product depends on its shape, and a
            # row must not depend on the other rows.
            np.tan(np.matmul(rows, half, out=sine, casting="same_kind"), out=sine)
            # With t = tan(a/2): sin a = 2t/(1 + t²), cos a = 2/(1 + t²) - 1; faster than np.sin and np.cos.
            np.multiply(sine, sine, out=cosine)
            cosine += 1.0
            np.divide(2 * amplitude, cosine, out=cosine)
            sine *= cosine
            cosine -= amplitude


class NystroemFeatures(_KernelFeatures):
    r"""Nyström features, whose inner product φ(x)·φ(x') equals k(x, x') if x or x' is a landmark.

    With landmarks l_1, ..., l_m (distinct rows, picked by a hash of their content) and their kernel matrix K = U S Uᵀ,

        φ(x) = [k(x, l_1), ..., k(x, l_m)] U S^{-1/2}.

    Kernels whose spectrum decays fast need fewer of these features than of `FourierFeatures`, but each takes more time.
    Directions lost to rounding are left out.

    Parameters
    ----------
    n_features, bandwidth, kernel, linear, random_state
        As in `FourierFeatures`; n_features may be odd.

    Attributes
    ----------
    landmarks_, whitening_ : arrays (at most n_features, columns), (landmarks, features)
        Standardised rows, and U S^{-1/2}.
    bandwidth_, mean_, scale_
        As in `FourierFeatures`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> NystroemFeatures(20).fit_transform(X).shape
    (50, 23)

    References
    ----------
    Williams & Seeger (2001), Using the Nyström method to speed up kernel machines.
    """

    def _draw(self, sample, rng) -> None:
        self.landmarks_ = sample[: self.n_features]
        values, vectors = np.linalg.eigh(self._kernel(self.landmarks_))
        keep = values > 1e-12 * values[-1]
        self.whitening_ = vectors[:, keep] / np.sqrt(values[keep])

    def _width(self) -> int:
        return self.whitening_.shape[1]

    def _fill(self, phi: np.ndarray, Z: np.ndarray) -> None:
        phi[:] = self._kernel(Z.astype(np.float64)) @ self.whitening_  # in float64: whitening magnifies rounding

    def _kernel(self, Z: np.ndarray) -> np.ndarray:
        return KERNELS[self.kernel][0](self.bandwidth_)(Z, self.landmarks_)


def row_keys(X: np.ndarray, seed: int) -> np.ndarray:
    """Return a 64-bit hash of each row, so that a choice by hash does not depend on the order of the rows."""
    keys = np.full(len(X), seed, dtype=np.uint64)
    for column in X.T:
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
        keys = (keys ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys


def sample_rows(X: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Return indices of ``size`` distinct rows, or all if there are fewer: those with the smallest `row_keys`."""
    return np.unique(row_keys(X, seed), return_index=True)[1][:size]


def mean_and_scale(X: np.ndarray, weight: np.ndarray | None = None, *, constant: float = 1.0):
    """Return mean and standard deviation per column, computed in blocks; ``constant`` for columns that do not vary."""
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(X), BLOCK_ROWS)]
    origin = X[0].astype(np.float64)  # subtracted first, so that a constant column has no rounding
    if weight is None:
        mean = origin + sum((X[rows] - origin).sum(axis=0) for rows in blocks) / len(X)
        variance = sum(((X[rows] - mean) ** 2).sum(axis=0) for rows in blocks) / len(X)
    else:
        share = weight / weight.sum()
        mean = origin + sum(share[rows] @ (X[rows] - origin) for rows in blocks)
        variance = sum(share[rows] @ (X[rows] - mean) ** 2 for rows in blocks)
    largest = np.maximum(np.abs(X.min(axis=0)), np.abs(X.max(axis=0)))
    return mean, scale_of(np.sqrt(variance), largest, constant)


def scale_of(deviation: np.ndarray, largest: np.ndarray, constant: float = 1.0) -> np.ndarray:
    """Return the deviations of columns, or ``constant`` for columns that do not vary."""
    return np.where(varies(deviation, largest), deviation, constant)


def varies(deviation: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return whether each column varies by more than the rounding of its largest value."""
    return deviation > 1e-12 * largest
