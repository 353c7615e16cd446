"""Kernel mean embeddings of bags; for scalars in linear time, by a Chebyshev series of the kernel.

A smooth kernel on an interval is a short series, k(a, b) = Σ_uv l_u(a) k(t_u, t_v) l_v(b), exact to rounding, so the
mean of k(·, x) over a bag follows from the bag means of a few polynomials (`Interpolant`).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial.chebyshev import chebval
from sklearn.base import clone

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.segments import row_blocks, segment_mean, segment_sum
from bagwise.bags.validation import check_options, one_of
from bagwise.embeddings.summaries import Embedding
from bagwise.execution.resources import choose_device, log_device
from bagwise.first_use import lock
from bagwise.kernels import Gaussian, with_bandwidth

BLOCK = 2048  # rows per block on each side: 32 MB of kernel values
DEVICE_BLOCK = 8192  # rows per block on a GPU: 0.5 GB of kernel values in float64
WORTH = 1e9  # pairs of instances above which a GPU is used by default: about ten seconds of one core


def mean_gram(kernel, rows: Bags, columns: Bags | None = None, *, device="cpu", precision="float64") -> np.ndarray:
    r"""Compute K[i, j] = 1/(L_i L_j) Σ_l Σ_m k(x_il, x_jm), for bag i of ``rows`` and bag j of ``columns``.

    With instance weights, of either side, the means are weighted: Σ_l Σ_m w_il w_jm k(x_il, x_jm) / Σ_l w_il Σ_m w_jm.

    Parameters
    ----------
    kernel : Kernel
        Its bandwidth is a number.
    rows, columns : Bags
        By default ``columns`` are the rows, and the result is symmetric.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        "auto" takes a GPU if there is one and the pairs are many.
    precision : {"float64", "float32"}, default "float64"
        Precision of kernel values on a GPU; sums over blocks are in double precision.

    Returns
    -------
    array (bags of ``rows``, bags of ``columns``)
    """
    one_of(precision, ("float64", "float32"), "precision")
    symmetric, columns = columns is None, rows if columns is None else columns
    place = choose_device(device, is_large=float(rows.n_instances) * columns.n_instances >= WORTH)
    size, (A, B), sum_over_bags = BLOCK, (rows.instances, columns.instances), segment_sum
    shares = [None if bags.weights is None else bags.shares() for bags in (rows, columns)]
    sums = np.zeros((len(rows), len(columns)))
    if place != "cpu":
        log_device("kernel means", place)
        size = DEVICE_BLOCK
        A, B, shares, sum_over_bags, sums = _on_device(place, precision, kernel, rows, columns, shares)
    for at, bags, offsets in row_blocks(rows.offsets, size):
        for other_at, other_bags, other_offsets in row_blocks(columns.offsets, size):
            if symmetric and other_at.start < at.start:
                continue
            values = kernel(A[at], B[other_at])
            if shares[0] is not None:
                values = values * shares[0][at, None]
            if shares[1] is not None:
                values = values * shares[1][other_at]
            block = sum_over_bags(sum_over_bags(values, offsets).T, other_offsets).T
            sums[bags, other_bags] += block
            if symmetric and other_at.start > at.start:
                sums[other_bags, bags] += block.T
    sums = np.asarray(sums if place == "cpu" else sums.cpu())  # type: ignore[attr-defined]
    sums = sums if shares[0] is not None else sums / rows.sizes[:, None]
    return sums if shares[1] is not None else sums / columns.sizes


def _on_device(device: str, precision: str, kernel, rows: Bags, columns: Bags, shares: list) -> tuple:
    """Return instances and shares on a device, a function that sums over bags there, and zeros for the sums."""
    with lock:
        import torch

    def upload(values):
        return torch.from_numpy(np.asarray(values, dtype=np.float64)).to(device=device, dtype=getattr(torch, precision))

    def sum_over_bags(values, offsets):  # along the first axis, in a fixed order
        lengths = torch.from_numpy(np.diff(offsets)).to(values.device)
        return torch.segment_reduce(values.contiguous(), "sum", lengths=lengths, axis=0, unsafe=True)

    # Centred if the kernel depends on distances only, to limit the rounding of float32.
    middle = rows.instances.mean(axis=0, dtype=np.float64) if hasattr(kernel, "_of_squared_distance") else 0.0
    A, B = (upload(np.asarray(bags.instances, dtype=np.float64) - middle) for bags in (rows, columns))
    sums = torch.zeros((len(rows), len(columns)), dtype=torch.float64, device=device)
    return A, B, [None if share is None else upload(share) for share in shares], sum_over_bags, sums


LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
PADDING = 0.1  # share of the range added on both sides, so that most new values are inside
CHECKED = 129  # number of points at which kernel and series are compared
ROWS = 2048  # rows per block, so that the basis values stay in the cache
ROUNDING = 64 * np.finfo(float).eps
LARGEST_TOLERANCE = 1e-6


class KernelMean(Embedding):
    r"""Kernel mean embedding: the mean of k(·, x) over the instances x of a bag, as one row per bag.

    Rows z_i satisfy z_i · z_j = 1/(L_i L_j) Σ_l Σ_m k(x_il, x_jm), the inner product of the embeddings of bags i and j,
    so ridge regression on them is kernel ridge regression on the embeddings without a Gram matrix. With instance
    weights the embedding is Σ_l w_l k(·, x_l) / Σ_l w_l; the spread of the instances is unweighted.

    For scalars and a smooth kernel the rows are bag means of a short polynomial basis, exact to ``tolerance`` and
    linear in the number of instances; values beyond the padded training range are evaluated by the kernel itself.
    Otherwise (several features, a kernel with a kink or far narrower than the range) the sums over pairs are exact,
    computed in blocks, and the rows are coordinates in the span of the training bags.

    Parameters
    ----------
    kernel : Kernel, default Gaussian(1.0)
        Its bandwidth is a number or a rule, such as ``Gaussian(MedianDistance())``, fitted on the training instances.
    units : {"spread", "label"}, default "spread"
        "spread" divides the instances by the root of their total variance over the training instances, so that a
        bandwidth of 1 is one standard deviation. "label" leaves them in their units.
    map : {"auto", "chebyshev", "exact"}, default "auto"
        Whether rows are computed from a series or from sums over pairs. "auto" uses a series where one is short enough.
    columns : {"features", "gram"}, default "features"
        Whether the rows are features, or similarities to the training bags, the only form for an indefinite kernel.
    tolerance : float, default 1e-12
        Largest error of the series, relative to the kernel.
    beyond : {"kernel", "clip"}, default "kernel"
        Whether new values outside the training range are passed to the kernel or clipped to that range.
    reach : float, optional
        Values further than this many spreads from the mean of the training values are clipped, in training too, so that
        a few outliers do not stretch the range and lengthen the series.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        Where sums over pairs are computed; "auto" takes a GPU if torch sees one and the pairs are many.
    precision : {"float64", "float32"}, default "float64"
        Precision of kernel values on a GPU; sums over blocks are in double precision.

    Attributes
    ----------
    map_ : {"chebyshev", "exact"}
        The map that is used.
    length_, error_ : int, float
        Number of nodes of the series and its error.
    spread_, kernel_ : float, Kernel
        Divisor of the instances; the kernel with a number as bandwidth.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([0.0, 1.0]), np.array([2.0])])
    >>> Z = KernelMean(units="label").fit_transform(bags)
    >>> float(Z[0] @ Z[1]).__round__(6) == round(float(np.exp(-2.0) + np.exp(-0.5)) / 2, 6)
    True

    References
    ----------
    Szabó, Gretton, Póczos, Sriperumbudur (2015), Two-stage sampled learning theory on distributions.
    """

    is_mean = True

    def __init__(
        self,
        kernel=None,
        *,
        units="spread",
        map="auto",
        columns="features",
        tolerance: float = 1e-12,
        beyond: str = "kernel",
        reach: float | None = None,
        device: str = "cpu",
        precision: str = "float64",
    ):
        self.kernel = kernel
        self.units = units
        self.map = map
        self.columns = columns
        self.tolerance = tolerance
        self.beyond = beyond
        self.reach = reach
        self.device = device
        self.precision = precision

    def fit_transform(self, bags, y=None) -> np.ndarray:
        scaled = self._fit_interval(check_bags(bags, fitting=self, allow_weights=True))
        self._fit_kernel(scaled)
        return self._training_rows(scaled)

    def fit_grid(self, bags, y, settings) -> Iterator[tuple[dict, KernelMean, np.ndarray]]:
        """Fit a copy per setting, as `Embedding.fit_grid`.

        A short series is the beginning of a longer one on the same interval, so kernels share the means of the longest.
        """
        bags = check_bags(bags, allow_weights=True)
        intervals: dict[tuple, tuple[KernelMean, Bags]] = {}  # keyed by the parameters that determine the interval
        grid: list[tuple[tuple, dict, KernelMean]] = []
        longest: dict[tuple, Interpolant] = {}
        for setting in settings:
            key = setting.get("units", self.units), setting.get("reach", self.reach)
            if key not in intervals:
                first = copy(self).set_params(units=key[0], reach=key[1])
                intervals[key] = first, first._fit_interval(bags)
            fitted = copy(intervals[key][0])
            fitted.kernel = clone(self.kernel, safe=False)  # cloned, because a setting may change its bandwidth
            fitted.set_params(**setting)._fit_kernel(intervals[key][1])
            if fitted.map_ == "chebyshev" and (key not in longest or fitted.length_ > longest[key].length):
                longest[key] = fitted.interpolant_
            grid.append((key, setting, fitted))
        means = {key: interpolant.means(intervals[key][1]) for key, interpolant in longest.items()}
        for key, setting, fitted in grid:
            yield setting, fitted, fitted._training_rows(intervals[key][1], means.get(key))

    def transform(self, bags) -> np.ndarray:
        scaled = self._scale_new(bags)
        if self.map_ == "chebyshev":
            rows = self.rows_of(self.interpolant_.means(scaled))
            outside, direct = self._outside(scaled, self.outside_)
            if len(outside):
                bag = np.searchsorted(scaled.offsets, outside, side="right") - 1
                np.add.at(rows, bag, direct * scaled.shares()[outside, None])
            return rows
        gram = mean_gram(self.kernel_, scaled, self.training_, device=self.device, precision=self.precision)
        return gram if self.columns == "gram" else gram @ self.to_features_

    def _scale_new(self, bags) -> Bags:
        """Return new bags with the scaling that the kernel uses."""
        scaled = self._scaled(check_bags(bags, fitted=self, allow_weights=True))
        clip = self.beyond == "clip" or self.reach is not None
        return scaled.replace(np.clip(scaled.instances, *self.range_)) if clip else scaled

    def polynomial_means(self, bags) -> np.ndarray:
        """Return the mean of each Chebyshev polynomial of the series over each training bag."""
        return self.interpolant_.means(self._scale_new(bags))

    def project(self, bags, coef: np.ndarray) -> np.ndarray:
        """Compute ``transform(bags) @ coef``; with a series, the bag mean of one function of the values."""
        if getattr(self, "map_", None) != "chebyshev":
            return super().project(bags, coef)
        scaled = self._scale_new(bags)
        function = self.interpolant_.evaluate(self.to_features_ @ coef, scaled.instances[:, 0])
        outside, direct = self._outside(scaled, self.outside_ @ coef)
        function[outside] = direct
        return segment_mean(function, scaled.offsets, scaled.weights)

    def squared_norms(self, bags) -> np.ndarray:
        """Compute ‖μ_i‖² per bag; the row of a new bag has a smaller norm if it is a projection (``map_`` "exact")."""
        scaled = self._scaled(check_bags(bags, fitted=self, allow_weights=True))
        return np.array([mean_gram(self.kernel_, scaled[[i]])[0, 0] for i in range(len(scaled))])

    # Fitting --------------------------------------------------------------------------------------------------

    @property
    def _kernel(self):
        return Gaussian() if self.kernel is None else self.kernel

    def _fit_interval(self, bags: Bags) -> Bags:
        """Record columns, spread and range; return the scaled training bags."""
        remember_columns(self, bags)
        self.spread_ = spread_of(bags.instances) if self.units == "spread" else 1.0
        scaled = self._scaled(bags)
        X = scaled.instances
        self._set_range(X.min(axis=0), X.max(axis=0), X.mean(axis=0), X.std(axis=0))
        return scaled if self.reach is None else scaled.replace(np.clip(X, *self.range_))

    def _training_rows(self, scaled: Bags, means: np.ndarray | None = None) -> np.ndarray:
        """Complete the fit and return the rows of the training bags, reusing polynomial means if given."""
        if self.map_ == "exact":
            self.training_ = scaled
            gram = mean_gram(self.kernel_, scaled, device=self.device, precision=self.precision)
            if self.columns == "gram":
                return gram
            vectors, root = spectral_root(gram)
            self.to_features_ = vectors / root
            return vectors * root
        means = self.interpolant_.means(scaled) if means is None else means[:, : self.length_]
        if self.columns == "gram":
            nodes, to_lagrange = self.interpolant_.nodes, self.interpolant_.to_lagrange
            self.outside_ = (means @ to_lagrange).T
            self.to_features_ = to_lagrange @ self.kernel_(nodes, nodes) @ self.outside_
        return self.rows_of(means)  # the interval holds all training values

    def fit_range(self, bags, low: float, high: float, mean: float, spread: float) -> KernelMean:
        """Fit on scalars that are not in memory, from their range, mean and spread; ``bags`` only name the columns.

        The rows of training bags are then ``rows_of(polynomial_means(bags))``.
        """
        if self.columns != "features" or hasattr(getattr(self._kernel, "bandwidth", None), "fit"):
            raise ValueError(
                "KernelMean cannot be fitted on a scan with these parameters. Use columns='features' and a number as "
                "bandwidth of the kernel."
            )
        remember_columns(self, bags)
        self.spread_ = spread if self.units == "spread" else 1.0
        self._set_range(*(np.array([value]) / self.spread_ for value in (low, high, mean, spread)))
        self._fit_kernel(bags)
        if self.map_ == "exact":
            raise ValueError(
                f"{self.kernel_} is too narrow for predictions from {low:.4g} to {high:.4g} with spread {spread:.4g}. "
                "Widen the bandwidth, or look for outliers."
            )
        return self

    def _set_range(self, low, high, mean, deviation) -> None:
        if self.reach is not None:
            low, high = np.maximum(low, mean - self.reach * deviation), np.minimum(high, mean + self.reach * deviation)
        self.range_ = low, high

    def rows_of(self, polynomial_means: np.ndarray) -> np.ndarray:
        """Return the rows of bags from the means of at least ``length_`` Chebyshev polynomials."""
        # einsum instead of BLAS, so that a row does not depend on the number of rows.
        return np.einsum("ij,jk->ik", polynomial_means[:, : self.length_], self.to_features_)

    def _check(self) -> None:
        check_options(
            self,
            units=("spread", "label"),
            map=("auto", "chebyshev", "exact"),
            columns=("features", "gram"),
            beyond=("kernel", "clip"),
        )
        if self.reach is not None and not self.reach > 0:
            raise ValueError(f"reach must be above zero or None, not {self.reach!r}")
        if self.columns == "features" and not self._kernel.positive_definite:
            raise ValueError(
                f"{type(self._kernel).__name__} is not positive definite and has no feature map; use columns='gram'"
            )

    def _scaled(self, bags: Bags) -> Bags:
        if self.spread_ == 1.0 and bags.dtype == np.float64:
            return bags
        return bags.replace(np.divide(bags.instances, self.spread_, dtype=np.float64))

    def _fit_kernel(self, scaled: Bags) -> None:
        """Fit the bandwidth, choose the map, and fit the series if it is one."""
        self._check()
        self.kernel_ = with_bandwidth(self._kernel, scaled)
        self.map_, possible = "exact", scaled.n_features == 1 and self.kernel_.smooth
        if self.map == "chebyshev" and not possible:
            raise ValueError("map='chebyshev' needs one feature and a smooth kernel; use map='auto'")
        if self.map == "exact" or not possible:
            return
        (low,), (high,) = self.range_
        interpolant, error = fit_interpolant(self.kernel_, low, high, self.tolerance)
        if interpolant is None:
            if self.map == "chebyshev":
                raise ValueError(
                    f"the kernel is too narrow for the range of the values: the longest series has error {error:.1e}. "
                    "Widen the bandwidth or use map='auto'."
                )
            return
        self.map_, self.interpolant_, self.length_, self.error_ = "chebyshev", interpolant, interpolant.length, error
        if self.columns == "features":
            vectors, root = spectral_root(self.kernel_(interpolant.nodes, interpolant.nodes))
            self.to_features_ = interpolant.to_lagrange @ (vectors * root)
            self.outside_ = vectors / root

    def _outside(self, scaled: Bags, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values outside the interval, and the products of their similarities to the nodes with ``coef``."""
        values = scaled.instances[:, 0]
        outside = np.flatnonzero(~self.interpolant_.inside(values))
        if len(outside) == 0:
            return outside, np.empty((0, *coef.shape[1:]))
        return outside, np.einsum("ij,j...->i...", self.kernel_(values[outside], self.interpolant_.nodes), coef)


def spectral_root(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvectors and roots of eigenvalues of a Gram matrix, without directions lost to rounding."""
    values, vectors = np.linalg.eigh(gram)
    keep = values > values[-1] * len(gram) * np.finfo(float).eps
    return vectors[:, keep], np.sqrt(values[keep])


def spread_of(instances: np.ndarray) -> float:
    """Return the root of the total variance, or 1 if all values are equal."""
    spread = float(np.sqrt(instances.var(axis=0, dtype=np.float64).sum()))
    return spread if np.isfinite(spread) and spread > 0 else 1.0


@dataclass(frozen=True)
class Interpolant:
    """Chebyshev nodes t on [low, high] with Lagrange basis l: k(a, b) = Σ_uv l_u(a) k(t_u, t_v) l_v(b)."""

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
        """Return the matrix from Chebyshev polynomials T_j to the Lagrange basis l_u."""
        matrix = (2.0 / self.length) * np.cos(np.outer(np.arange(self.length), self.angles))
        matrix[0] /= 2
        return matrix

    def inside(self, values: np.ndarray) -> np.ndarray:
        return (values >= self.low) & (values <= self.high)

    def means(self, bags: Bags) -> np.ndarray:
        """Return the (weighted) mean of T_0 .. T_{r-1} per bag of scalars, (bags, r); values outside count as zeros."""
        values, share = bags.instances[:, 0], None if bags.weights is None else bags.shares()
        sums = np.zeros((len(bags), self.length))
        for rows, touched, offsets in row_blocks(bags.offsets, ROWS):
            basis = self.polynomials(values[rows])
            if share is not None:
                basis *= share[rows]
            sums[touched] += np.add.reduceat(basis, offsets[:-1], axis=1).T  # along memory, unlike `segment_sum`
        return sums / bags.sizes[:, None] if share is None else sums

    def evaluate(self, series: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Evaluate Σ_j series_j T_j for values inside by Clenshaw's recurrence; return zero outside."""
        out, live = np.empty(len(values)), self.inside(values)
        for start in range(0, len(values), ROWS):
            block = slice(start, start + ROWS)
            out[block] = chebval(np.clip(self._to_unit(values[block]), -1.0, 1.0), series)
        return np.where(live, out, 0.0)

    def polynomials(self, values: np.ndarray) -> np.ndarray:
        """Evaluate T_j(x) for each value, (r, values), by the three-term recurrence."""
        live = self.inside(values)
        # clipped, because the ends of the interval may round to above one
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


def fit_interpolant(kernel, low: float, high: float, tolerance: float) -> tuple[Interpolant | None, float]:
    """Return the shortest series within the tolerance, relative to the largest value of the kernel, and its error.

    The series is None if the kernel is too narrow for the range. Values far from zero have fewer digits, so the
    tolerance is larger there.
    """
    tolerance = max(tolerance, min(ROUNDING * max(abs(low), abs(high)), LARGEST_TOLERANCE))
    pad = PADDING * (high - low)
    if pad <= 1e-9 * max(abs(low), abs(high)):  # all values equal, or nearly
        pad = max(1e-3 * max(abs(low), abs(high)), 1e-3)
    points = Interpolant(low - pad, high + pad, CHECKED)._from_unit(np.cos(np.linspace(0.0, np.pi, CHECKED)))
    exact, error = kernel(points, points), np.inf
    for length in LENGTHS:
        interpolant = Interpolant(low - pad, high + pad, length)
        basis, nodes = _checked_basis(length), interpolant.nodes
        error = float(np.abs(basis @ kernel(nodes, nodes) @ basis.T - exact).max() / np.abs(exact).max())
        if error <= tolerance:
            return interpolant, error
    return None, error


@cache
def _checked_basis(length: int) -> np.ndarray:
    """Return the Lagrange basis at the points where kernel and series are compared, the same for each interval."""
    unit = Interpolant(-1.0, 1.0, length)
    return unit.polynomials(np.cos(np.linspace(0.0, np.pi, CHECKED))).T @ unit.to_lagrange
