"""Kernels by their formula. Every kernel is a small object with a bandwidth; calling it gives the matrix k(a_i, b_j).

Two attributes say where a kernel may be used: ``smooth`` (it has a short Chebyshev series on an interval, so that the
mean embedding of scalars takes linear time) and ``positive_definite`` (its Gram matrices have no negative
eigenvalue, so that it has a feature map).
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator, clone

ZERO = 16  # a squared distance below so many ε of the squared norms is rounding


class Kernel(BaseEstimator):
    """A similarity of two instances, ``kernel(A, B)[i, j] = k(A[i], B[j])``.

    A kernel of the distance defines ``_of_squared_distance``; any other defines ``__call__``.

    Parameters
    ----------
    bandwidth : float
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

    smooth = True

    def __init__(self, bandwidth: float = 1.0):
        self.bandwidth = bandwidth

    @property
    def positive_definite(self) -> bool:
        return True

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        self._check()
        return self._of_squared_distance(squared_distances(A, B, exact_zero=not self.smooth))

    def _check(self) -> None:
        if not np.isfinite(self.bandwidth) or self.bandwidth <= 0:
            raise ValueError(f"{type(self).__name__}: the bandwidth must be above zero, not {self.bandwidth!r}")


class Gaussian(Kernel):
    r"""k(a, b) = exp(-r² / (2 θ²)), r the distance and θ the bandwidth.

    Parameters
    ----------
    bandwidth : float
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
    bandwidth : float
        θ, a length.

    Examples
    --------
    >>> InverseMultiquadric(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.3536]]
    """

    def _of_squared_distance(self, d2):
        return 1.0 / _sqrt(d2 + self.bandwidth**2)


class RationalQuadratic(Kernel):
    r"""k(a, b) = 1 - r² / (r² + θ) = θ / (r² + θ), as in Szabó et al. (2015). Here θ is a squared length.

    Parameters
    ----------
    bandwidth : float
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
    bandwidth : float
        θ, a length.

    Examples
    --------
    >>> Cauchy(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.5]]
    """

    def _of_squared_distance(self, d2):
        return 1.0 / (1.0 + d2 / self.bandwidth**2)


class Student(Kernel):
    r"""k(a, b) = 1 / (1 + r^θ), the generalised t-Student kernel. Here θ is an exponent; above 2 it is no kernel.

    Parameters
    ----------
    bandwidth : float
        θ, an exponent, at most 2 for a positive definite kernel.

    Examples
    --------
    >>> Student(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.2]]
    """

    @property
    def smooth(self) -> bool:  # type: ignore[override]
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
    bandwidth : float
        θ; 2 θ² is a length.

    Examples
    --------
    >>> Exponential(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.7788]]
    """

    smooth = False

    def _of_squared_distance(self, d2):
        return _exp(_sqrt(d2) * (-0.5 / self.bandwidth**2))


class Matern32(Kernel):
    r"""k(a, b) = (1 + s) exp(-s), s = √3 r / θ.

    Parameters
    ----------
    bandwidth : float
        θ, a length.

    Examples
    --------
    >>> Matern32(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.4834]]
    """

    smooth = False

    def _of_squared_distance(self, d2):
        s = _sqrt(3.0 * d2) / self.bandwidth
        return (1.0 + s) * _exp(-s)


class Matern52(Kernel):
    r"""k(a, b) = (1 + s + s²/3) exp(-s), s = √5 r / θ.

    Parameters
    ----------
    bandwidth : float
        θ, a length.

    Examples
    --------
    >>> Matern52(2.0)([[0.0]], [[2.0]]).round(4).tolist()
    [[0.524]]
    """

    smooth = False

    def _of_squared_distance(self, d2):
        s = _sqrt(5.0 * d2) / self.bandwidth
        return (1.0 + s + s * s / 3.0) * _exp(-s)


class Polynomial(Kernel):
    r"""k(a, b) = (<a, b> + θ)^p. Unbounded, so a mean embedding need not exist: Szabó et al. (2015) saw it fail.

    Parameters
    ----------
    bandwidth : float
        θ, what is added to the inner product.
    degree : int
        p.

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
    r"""k(a, b) = (1 - r²) / (r² + θ): the formula as printed in Uriot (2019), kept for fidelity only.

    It equals (1 + θ) / (r² + θ) - 1, a scaled rational quadratic minus a constant, and is NOT positive definite: it
    has no feature map, and is usable as a Gram matrix only (``KernelMean(columns="gram")``). A warning says so. What
    was computed for the paper is `InverseMultiquadric`.

    Parameters
    ----------
    bandwidth : float
        θ, a squared length.

    Examples
    --------
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     PrintedInverse(2.0)([[0.0]], [[2.0]]).tolist()
    [[-0.5]]
    """

    @property
    def positive_definite(self) -> bool:
        return False

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
    """The kernel itself, or a copy whose bandwidth is a number where it was a rule, fitted on ``X``."""
    rule = getattr(kernel, "bandwidth", None)
    return clone(kernel).set_params(bandwidth=clone(rule).fit(X)) if hasattr(rule, "fit") else kernel


def squared_distances(A: np.ndarray, B: np.ndarray, *, exact_zero: bool = False) -> np.ndarray:
    """‖a_i - b_j‖² for all pairs: by differences for scalars, else by the binomial formula, clipped at 0.

    That formula leaves a rounding error of about ε (‖a_i‖² + ‖b_j‖²) between equal rows. A smooth kernel does not see
    it; one with a kink at zero does, so ``exact_zero`` makes what is no larger than that error a zero.
    """
    A, B = _columns(A), _columns(B)
    if A.shape[1] == 1:
        return (A[:, 0, None] - B[None, :, 0]) ** 2
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
    """Of torch, which need not be there: every formula is evaluated where its array lies."""
    return type(A).__module__ == "torch"


def _exp(a):
    return a.exp() if _is_tensor(a) else np.exp(a)


def _sqrt(a):
    return a.sqrt() if _is_tensor(a) else np.sqrt(a)


def _columns(A) -> np.ndarray:
    if _is_tensor(A):
        return A
    # In double, also of float32: the rounding of a product depends on its shape, and a row must not on its company.
    A = np.asarray(A, dtype=np.float64)
    return A[:, None] if A.ndim == 1 else A
