"""A smooth kernel of scalars as a short Chebyshev series: bag means in linear time, exact to rounding."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1

import numpy as np
from numpy.polynomial.chebyshev import chebval

from bagwise.bags import Bags
from bagwise.bags.segments import row_blocks, segment_sum

LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
PADDING = 0.1  # of the range, on both sides, so that most new values still fall inside
CHECKED = 129  # points at which kernel and series are compared
ROWS = 2048  # rows at a time: the block of basis values stays in the core's cache
ROUNDING = 64 * np.finfo(float).eps
LEAST_TOLERANCE = 1e-6
REMEMBERED = 4  # sets of bags
LARGEST = 2**22  # numbers in the means of a set that is remembered

_remembered: dict[tuple, np.ndarray] = {}


@dataclass(frozen=True)
class Interpolant:
    """r Chebyshev nodes on [low, high], with Lagrange basis l: k(a, b) = Σ_uv l_u(a) k(t_u, t_v) l_v(b)."""

    low: float
    high: float
    length: int

    @property
    def angles(self) -> np.ndarray:
        return np.pi * (np.arange(self.length) + 0.5) / self.length

    @property
    def nodes(self) -> np.ndarray:
        return self._from_unit(np.cos(self.angles))

    @property
    def to_lagrange(self) -> np.ndarray:
        """Matrix from Chebyshev polynomials T_j to the Lagrange basis l_u."""
        j = np.arange(self.length)
        matrix = (2.0 / self.length) * np.cos(np.outer(j, self.angles))
        matrix[0] /= 2
        return matrix

    def inside(self, values: np.ndarray) -> np.ndarray:
        return (values >= self.low) & (values <= self.high)

    def polynomial_means(self, bags: Bags) -> np.ndarray:
        """(Weighted) mean of T_0 .. T_{r-1} over every bag of scalars, (bags, r); values outside count as zeros.

        Kernels are tried one after the other on the same bags, and a short series is the beginning of a longer one, so
        the means over the last few sets of bags, known by their content, are remembered.
        """
        key = (self.low, self.high, _fingerprint(bags))
        means = _remembered.pop(key, None)
        if means is None or means.shape[1] < self.length:
            means = self.means(bags)
        if means.size <= LARGEST:
            _remembered[key] = means
            for oldest in list(_remembered)[:-REMEMBERED]:
                _remembered.pop(oldest, None)
        return means[:, : self.length].copy()

    def means(self, bags: Bags) -> np.ndarray:
        """`polynomial_means`, computed."""
        values, share = bags.instances[:, 0], None if bags.weights is None else bags.shares()
        sums = np.zeros((len(bags), self.length))
        for rows, touched, own in row_blocks(bags.offsets, ROWS):
            basis = self.polynomials(values[rows])
            if share is not None:
                basis *= share[rows]
            sums[touched] += segment_sum(basis.T, own)
        return sums / bags.sizes[:, None] if share is None else sums

    def evaluate(self, series: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Σ_j series_j T_j of every value inside, by Clenshaw's recurrence; zero outside."""
        out, live = np.empty(len(values)), self.inside(values)
        for start in range(0, len(values), ROWS):
            block = slice(start, start + ROWS)
            out[block] = chebval(np.clip(self._to_unit(values[block]), -1.0, 1.0), series)
        return np.where(live, out, 0.0)

    def polynomials(self, values: np.ndarray) -> np.ndarray:
        """T_j(x) for every value, (r, values), by the three-term recurrence."""
        live = self.inside(values)
        # the ends of the interval may round to just beyond one
        x = np.where(live, np.clip(self._to_unit(values), -1.0, 1.0), 0.0)
        T = np.empty((self.length, len(x)))
        T[0] = live
        T[1] = x
        twice = 2.0 * x
        for j in range(2, self.length):
            np.multiply(twice, T[j - 1], out=T[j])
            T[j] -= T[j - 2]
        return T

    def _to_unit(self, values: np.ndarray) -> np.ndarray:
        return (2.0 * values - (self.low + self.high)) / (self.high - self.low)

    def _from_unit(self, x: np.ndarray) -> np.ndarray:
        return 0.5 * (x * (self.high - self.low) + self.low + self.high)


def _fingerprint(bags: Bags) -> bytes:
    total = sha1(np.ascontiguousarray(bags.instances), usedforsecurity=False)
    for part in (bags.offsets, bags.weights):
        total.update(b"" if part is None else np.ascontiguousarray(part))
    return total.digest()


def fit_interpolant(kernel, low: float, high: float, tolerance: float) -> tuple[Interpolant | None, float]:
    """The shortest series that agrees with the kernel to the tolerance (relative to its largest value), and its error.

    None when even the longest does not: the kernel is too narrow for the range. Far from zero, values are known to
    fewer digits than the tolerance asks for, and so is the kernel.
    """
    tolerance = max(tolerance, min(ROUNDING * max(abs(low), abs(high)), LEAST_TOLERANCE))
    pad = PADDING * (high - low)
    if pad <= 1e-9 * max(abs(low), abs(high)):  # all values equal, or nearly
        pad = max(1e-3 * max(abs(low), abs(high)), 1e-3)
    error = np.inf
    for length in LENGTHS:
        interpolant = Interpolant(low - pad, high + pad, length)
        error = interpolation_error(kernel, interpolant)
        if error <= tolerance:
            return interpolant, error
    return None, error


def interpolation_error(kernel, interpolant: Interpolant) -> float:
    """Largest difference of kernel and series, between the nodes and at the ends, relative to the kernel."""
    points = interpolant._from_unit(np.cos(np.linspace(0.0, np.pi, CHECKED)))
    basis = interpolant.polynomials(np.clip(points, interpolant.low, interpolant.high)).T @ interpolant.to_lagrange
    exact = kernel(points, points)
    nodes = interpolant.nodes
    return float(np.abs(basis @ kernel(nodes, nodes) @ basis.T - exact).max() / np.abs(exact).max())
