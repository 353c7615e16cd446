"""`RidgePath`: ridge regression for all penalties of a grid, of which leave-one-bag-out chooses one.

The rows are an array, or `RowBlocks`, which are read a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.bags import weights_or_ones
from bagwise.bags.checks import check_options
from bagwise.bags.folds import numbered, row_units
from bagwise.regressors.row_blocks import RowBlocks, row_blocks

PENALTIES = tuple(float(10.0**e) for e in np.arange(1.0, -14.5, -0.5))
SMALLEST_GAP = 1e-10  # below it, 1 - leverage is rounding error, and so is the left-out residual
# With fewer groups than this, and at least so many rows and penalties, a Gram matrix is decomposed without each group.
FEW_GROUPS, MANY_ROWS, MANY_PENALTIES = 5, 200, 8
MOST_RESIDUALS = 2**25  # 256 MB for all penalties; beyond it, a second pass computes those of the best


class RidgePath(RegressorMixin, BaseEstimator):
    r"""Ridge regression on one row per bag, the penalty chosen by exact leave-one-bag-out.

    One decomposition Z = U S Vᵀ of the (centred) rows gives every penalty λ: the fit is U diag(s²/(s²+λ)) Uᵀ y, and the
    residual of bag i, had it been left out, is (y_i - ŷ_i) / (1 - h_i), h_i its leverage. With groups, the bags of a
    group are left out together: (I - H_GG)⁻¹ (y - ŷ)_G. Components within rounding error are dropped, so a penalty of
    1e-16 is as stable as one of 1e-1. If a penalty fits some bag exactly, the left-out residual of that bag is
    undefined, and the penalty is never chosen. For few large groups, a Gram matrix is decomposed without each group
    instead, which is faster and has no such undefined residuals.

    Parameters
    ----------
    penalties : sequence of float, default=10.0 to 1e-14, two per decade
        Values of λ to compare; a single value is used as it is.
    scaling : {"n", "none"}, default="n"
        Whether λ is multiplied by the number of bags n: ``"n"`` minimises (1/n) Σ (y - f)² + λ‖f‖², as Szabó et al.
        (2015) and the notebook of Uriot (2019) do; ``"none"`` is Σ (y - f)² + λ‖f‖², as the paper prints.
    fit_intercept : bool, default=True
        Whether to fit an unpenalised intercept. The model in the paper has none.
    rule : {"best", "one-se"}, default="best"
        "best" takes the penalty with the smallest left-out error. "one-se" takes the largest penalty whose error is at
        most one standard error of the paired differences larger, so that gains on a few bags do not lower the penalty.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether the columns are features or similarities to the training bags (a Gram matrix, which may be indefinite).

    Attributes
    ----------
    penalty_ : float
        The penalty chosen.
    errors_ : ndarray of shape (n_penalties,)
        Mean squared left-out residual for each penalty (infinite where it is undefined).
    residuals_ : ndarray of shape (n_bags,)
        Left-out residuals of the training bags at the chosen penalty.
    coef_, intercept_ : ndarray, float
        The linear function of the columns.
    coef_path_, intercept_path_ : ndarray
        The same for each penalty, a row each.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.regressors import RidgePath
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(50, 3))
    >>> head = RidgePath().fit(Z, Z @ [1.0, 2.0, 0.0] + rng.normal(size=50))
    >>> head.coef_.round(1).tolist()
    [1.2, 1.8, 0.1]
    """

    def __init__(
        self,
        penalties=PENALTIES,
        *,
        scaling: str = "n",
        fit_intercept: bool = True,
        rule: str = "best",
        kernel: str = "linear",
    ):
        self.penalties = penalties
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.rule = rule
        self.kernel = kernel

    def fit(self, Z, y, sample_weight=None, groups=None) -> RidgePath:
        """Fit the path and choose the penalty.

        Parameters
        ----------
        Z : ndarray of shape (n_bags, n_columns), or RowBlocks
            One row per bag.
        y : ndarray of shape (n_bags,)
            Targets.
        sample_weight : ndarray of shape (n_bags,), optional
            Weight of each bag; only ratios count, and n is the number of bags with a weight above zero. Without groups,
            copies of a row and target are left out together, so with ``scaling="n"`` a weight of 2 is the same as a bag
            that occurs twice.
        groups : array-like of shape (n_bags,), optional
            Bags with the same label are left out together.

        Returns
        -------
        self
        """
        Z, y, w = self._checked_rows(Z, y, sample_weight)
        penalties, scale = self._check(), self._scale(w)
        path = self._path(Z, y, w)
        errors, best, residuals = self._judged(Z, y, w, groups, path)
        self._keep(path, penalties, scale, errors, best)
        if residuals is None:
            blocks = self._left_out(path, Z, y, w, groups, penalties[[best]] * scale)
            residuals = np.concatenate([block[:, 0] for _, block in blocks])
        self.residuals_ = residuals
        if (w == 0).any():  # these bags did not enter the fit, so their residuals are left-out ones
            for block, rows in row_blocks(Z):
                fitted = y[block] - _linear(rows, self.coef_, self.intercept_)
                residuals[block] = np.where(w[block] == 0, fitted, residuals[block])
        return self

    def judge(self, Z, y, sample_weight=None, groups=None) -> tuple[float, float]:
        """Return the penalty that `fit` would choose and its mean squared left-out error, without fitting.

        For a Gram matrix with few large groups this is faster: only the matrices without each group are decomposed.
        ``sample_weight`` has an entry per bag; bags that share a label in ``groups`` are left out together.
        """
        Z, y, w = self._checked_rows(Z, y, sample_weight)
        errors, best, _ = self._judged(Z, y, w, groups)
        return float(self._check()[best]), float(errors[best])

    def _checked_rows(self, Z, y, sample_weight) -> tuple[np.ndarray | RowBlocks, np.ndarray, np.ndarray]:
        if isinstance(Z, np.memmap) and self.kernel == "linear":
            Z = RowBlocks.of(Z)
        if isinstance(Z, RowBlocks):
            self.n_features_in_, y = Z.shape[1], check_array(y, dtype=np.float64, ensure_2d=False)
            check_consistent_length(Z, y)
        else:
            Z, y = validate_data(self, Z, y, dtype=np.float64, y_numeric=True)
        self._check()
        if self.kernel == "precomputed" and Z.shape[0] != Z.shape[1]:
            raise ValueError(f"a Gram matrix is square; got shape {Z.shape}")
        return Z, y.astype(np.float64, copy=False), weights_or_ones(sample_weight, y)

    def _scale(self, w: np.ndarray) -> float:
        return float(np.count_nonzero(w)) if self.scaling == "n" else 1.0

    def _path(self, Z, y, w):
        if isinstance(Z, RowBlocks):
            return _BlockPath(Z, y, w, self.fit_intercept)
        return (_FeaturePath if self.kernel == "linear" else _GramPath)(Z, y, w, self.fit_intercept)

    def _left_out(self, path, Z, y, w, groups, penalties) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield positions and left-out residuals (bags, penalties) of each block; an array is one."""
        if not isinstance(Z, RowBlocks):
            yield slice(0, len(y)), _left_out(path, penalties, w, groups)
            return
        for block, rows in Z.blocks():
            labels = None if groups is None else groups[block]
            yield block, _left_out(path.block(rows, y[block], w[block]), penalties, w[block], labels)

    def _judged(self, Z, y, w, groups, path=None) -> tuple[np.ndarray, int, np.ndarray | None]:
        """Return left-out errors per penalty, the index of the best, and its residuals (None for many blocks)."""
        penalties, columns = self._check() * self._scale(w), None
        if self.kernel == "precomputed" and _are_few_and_large(groups, penalties):
            columns = _without_each(Z, y, w, self.fit_intercept, penalties, numbered(groups))
            total = LeftOut.of(columns, w)
        else:
            path = self._path(Z, y, w) if path is None else path
            total, parts = None, []
            is_small = not isinstance(Z, RowBlocks) or len(y) * len(penalties) <= MOST_RESIDUALS
            for block, residuals in self._left_out(path, Z, y, w, groups, penalties):
                sums = LeftOut.of(residuals, w[block])
                total = sums if total is None else total + sums
                parts += [residuals] if is_small else []
            columns = (parts[0] if len(parts) == 1 else np.vstack(parts)) if parts else None
        in_memory = not isinstance(Z, RowBlocks) and groups is None and len(penalties) > 1
        if in_memory and (unit := row_units(Z, y))[-1] < len(y) - 1:  # there are copies
            total = LeftOut.of(_left_out(path, penalties, w, unit), w)
        best = self._choose(self._check(), total)
        return total.errors, best, None if columns is None else columns[:, best].copy()

    def _keep(self, path, penalties, scale, errors, best: int) -> None:
        self.penalty_ = float(penalties[best])
        self.errors_, self.error_ = errors, float(errors[best])
        coefficients, intercepts = zip(*map(path.coefficients, penalties * scale), strict=True)
        self.coef_path_, self.intercept_path_ = np.array(coefficients), np.array(intercepts)
        self.coef_, self.intercept_ = coefficients[best], intercepts[best]

    def predict(self, Z) -> np.ndarray:
        """Return one prediction per row."""
        return _linear(self._checked(Z), self.coef_, self.intercept_)

    def predict_path(self, Z) -> np.ndarray:
        """Return the predictions of the fit with each penalty, (rows, penalties)."""
        Z = self._checked(Z)
        return np.column_stack([_linear(Z, *fit) for fit in zip(self.coef_path_, self.intercept_path_, strict=True)])

    def _checked(self, Z) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, Z, reset=False, dtype=np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _choose(self, penalties: np.ndarray, left_out: LeftOut) -> int:
        best = int(np.argmin(left_out.errors))
        if not np.isfinite(left_out.errors[best]):
            return int(np.argmax(penalties))  # every fit interpolates: the heaviest penalty is the safest
        if self.rule == "best":
            return best
        mean, error = left_out.gaps(best)
        return int(np.argmax(np.where(mean <= error, penalties, 0.0)))  # False for NaN, where a fit interpolates

    def _check(self) -> np.ndarray:
        check_options(self, scaling=("n", "none"), rule=("best", "one-se"), kernel=("linear", "precomputed"))
        penalties = np.atleast_1d(np.asarray(self.penalties, dtype=np.float64))
        if penalties.size == 0 or not (penalties > 0).all():
            raise ValueError("penalties must be above zero")
        return penalties


def _linear(Z: np.ndarray, coef: np.ndarray, intercept: float) -> np.ndarray:
    # A dot product per row: BLAS may round a row differently if the other rows change.
    return np.einsum("ij,j->i", Z, coef) + intercept


class _Linear:
    """Coefficients of a fit from a decomposition of features."""

    def coefficients(self, penalty):
        coef = self.Vt.T @ (self.s / (self.spectrum + penalty) * self.projected)
        return coef, float(self.target_mean - self.mean @ coef)


class _FeaturePath(_Linear):
    """Z = U S Vᵀ of the weighted, centred features."""

    def __init__(self, Z, y, w, intercept):
        self.mean = np.average(Z, axis=0, weights=w) if intercept else np.zeros(Z.shape[1])
        self.target_mean = np.average(y, weights=w) if intercept else 0.0
        root = np.sqrt(w)
        U, s, Vt = np.linalg.svd(root[:, None] * (Z - self.mean), full_matrices=False)
        keep = _components(s, self.mean, len(Z))
        self.U, self.s, self.Vt = U[:, keep], s[keep], Vt[keep]
        self.centred = root * (y - self.target_mean)
        self.projected = self.U.T @ self.centred
        self.ones = root / np.sqrt(w.sum()) if intercept else None
        self.spectrum = self.s**2


def _components(s: np.ndarray, mean: np.ndarray, n: int) -> np.ndarray:
    """Return which singular values are larger than the rounding error of centring the rows."""
    size = max(s.max(initial=0.0), np.sqrt(n) * np.abs(mean).max(initial=0.0))
    return s > size * max(n, len(mean)) * np.finfo(float).eps


class _BlockPath(_Linear):
    """Z = U S Vᵀ of rows that are read a block at a time, from the R of their QR decomposition."""

    def __init__(self, Z: RowBlocks, y, w, intercept):
        sums = Z.sums(y, w)
        if intercept:
            (*mean, self.target_mean), R = sums.centred()
            self.mean = np.array(mean)
        else:
            self.mean, self.target_mean, R = np.zeros(Z.shape[1]), 0.0, sums.uncentred()
        U, s, Vt = np.linalg.svd(R[:, :-1], full_matrices=False)
        keep = _components(s, self.mean, sums.n)
        self.s, self.Vt, self.spectrum = s[keep], Vt[keep], s[keep] ** 2
        self.projected = U[:, keep].T @ R[:, -1]
        self.weight, self.intercept = sums.weight, intercept
        self.axes = self.Vt.T / self.s

    def block(self, Z, y, w) -> _Block:
        """Return some of the rows in the basis of the decomposition."""
        root = np.sqrt(w)
        ones = root / np.sqrt(self.weight) if self.intercept else None
        U = (root[:, None] * (Z - self.mean)) @ self.axes
        return _Block(U, root * (y - self.target_mean), self.projected, self.spectrum, ones)


class _Block(NamedTuple):
    """Some rows of a `_BlockPath`, as `_left_out` reads them."""

    U: np.ndarray
    centred: np.ndarray
    projected: np.ndarray
    spectrum: np.ndarray
    ones: np.ndarray | None


@dataclass(frozen=True)
class LeftOut:
    """Sums of left-out residuals e over bags of weight w, for every penalty: Σ w e² and Σ w² e² e'²."""

    n: int
    weight: float
    squares: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, residuals: np.ndarray, w: np.ndarray) -> LeftOut:
        """Return the sums of some bags."""
        squares = w[:, None] * residuals**2
        return cls(int(np.count_nonzero(w)), float(w.sum()), squares.sum(axis=0), squares.T @ squares)

    def __add__(self, other: LeftOut) -> LeftOut:
        squares, products = self.squares + other.squares, self.products + other.products
        return LeftOut(self.n + other.n, self.weight + other.weight, squares, products)

    @property
    def errors(self) -> np.ndarray:
        """The mean squared residual for every penalty; infinite where a fit interpolates a bag."""
        errors = self.squares / self.weight
        return np.where(np.isnan(errors), np.inf, errors)

    def gaps(self, best: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean difference of squares to those of the best penalty, and its standard error."""
        mean = (self.squares - self.squares[best]) / self.n
        fourth = np.diag(self.products)
        second = (fourth - 2 * self.products[best] + fourth[best]) / self.n
        return mean, np.sqrt(np.maximum(second - mean**2, 0.0) / self.n)


class _GramPath:
    """K = U diag(v) Uᵀ of the weighted, centred Gram matrix; v may be negative."""

    def __init__(self, K, y, w, intercept):
        n = len(K)
        self.root = np.sqrt(w)
        share = w / w.sum() if intercept else np.zeros(n)
        self.share, self.column_mean = share, share @ K
        self.target_mean = float(share @ y)
        centred = K - self.column_mean[None, :] - (K @ share)[:, None] + share @ K @ share
        v, U = np.linalg.eigh(self.root[:, None] * (centred + centred.T) / 2 * self.root[None, :])
        # Centring leaves rounding errors of the size of the uncentred entries, also along the vector of ones.
        size = max(np.abs(v).max(initial=0.0), n * np.abs(K).max(initial=0.0))
        keep = np.abs(v) > size * n * np.finfo(float).eps
        self.U, self.spectrum = U[:, keep], v[keep]
        self.centred = self.root * (y - self.target_mean)
        self.projected = self.U.T @ self.centred
        self.ones = self.root / np.sqrt(w.sum()) if intercept else None

    def coefficients(self, penalty):
        dual = self.root * (self.U @ (self.projected / (self.spectrum + penalty)))
        # f(new) = (k_new - mean column) (dual - share·Σ dual) + mean of y: centring, folded into the coefficients.
        coef = dual - self.share * dual.sum()
        return coef, float(self.target_mean - self.column_mean @ coef)


def _left_out(path, penalties: np.ndarray, w: np.ndarray, groups) -> np.ndarray:
    """Return left-out residuals (bags, penalties) of each bag or its group; NaN where the fit interpolates it."""
    shrunk = penalties / (path.spectrum[:, None] + penalties)
    # y - ŷ without subtracting near-equal numbers: the shrunk part, and what no component explains.
    outside = path.centred - path.U @ path.projected
    residual = path.U @ (shrunk * path.projected[:, None]) + outside[:, None]
    unit = np.arange(len(w)) if groups is None else numbered(groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        if unit.max() == len(unit) - 1:  # each bag is its own group
            gap = (1.0 - np.einsum("ij,ij->i", path.U, path.U))[:, None] + path.U**2 @ shrunk
            if path.ones is not None:
                gap -= path.ones[:, None] ** 2
            left_out = np.where(gap > SMALLEST_GAP, residual / gap, np.nan)
        else:
            left_out = _groups_left_out(path, residual, 1.0 - shrunk, unit)
        return np.where(w[:, None] > 0, left_out / np.sqrt(w)[:, None], 0.0)


def _are_few_and_large(groups, penalties: np.ndarray) -> bool:
    if groups is None or len(groups) < MANY_ROWS or len(penalties) < MANY_PENALTIES:
        return False
    return int(numbered(groups).max()) < FEW_GROUPS


def _without_each(K, y, w, intercept: bool, penalties: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return the residuals of `_left_out` by a fit without each group; NaN if the other groups have no weight."""
    left_out = np.full((len(y), len(penalties)), np.nan)
    for g in range(unit.max() + 1):
        test, train = unit == g, (unit != g) & (w > 0)
        if train.any():
            path = _GramPath(K[np.ix_(train, train)], y[train], w[train], intercept)
            coefficients, intercepts = zip(*map(path.coefficients, penalties), strict=True)
            left_out[test] = y[test, None] - K[np.ix_(test, train)] @ np.column_stack(coefficients) - intercepts
    return np.where(w[:, None] > 0, left_out, 0.0)


def _groups_left_out(path, residual: np.ndarray, factors: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return (I - H_g)⁻¹ r_g for each group g and penalty.

    H_g = V diag(factors) Vᵀ, where V holds the rows of the group in U and in the column of ones.
    """
    left_out = np.empty_like(residual)
    order = np.argsort(unit, kind="stable")
    V, factors = path.U, factors.T
    if path.ones is not None:
        V, factors = np.column_stack([V, path.ones]), np.column_stack([factors, np.ones(len(factors))])
    for rows in np.split(order, np.cumsum(np.bincount(unit))[:-1]):
        # Take the solver with fewer operations. The one by columns needs square roots, so no negative eigenvalues.
        n, columns = len(rows), V.shape[1]
        few = n**2 * columns + n**3 / 3 <= columns**3 / 3 or (factors < 0).any()
        left_out[rows] = (_solve_rows if few else _solve_columns)(V[rows], factors, residual[rows])
    return left_out


def _solve_rows(V: np.ndarray, factors: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Solve one system of the size of the group for each penalty."""
    out, negative, apart = np.full_like(residual, np.nan), (factors < 0).any(), False
    for p in _lightest_first(factors):
        # numpy sees that a product with its own transpose is symmetric: half the work
        half = V * np.sqrt(np.abs(factors[p]))
        signed = half * np.sign(factors[p]) if negative else half
        solved = _solve_apart(signed @ half.T, residual[:, p], apart)
        if solved is not None:
            out[:, p], apart = solved, not negative
    return out


def _solve_columns(V: np.ndarray, factors: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Solve one system of the size of the columns for each penalty.

    (I - S Sᵀ)⁻¹ r = r + S (I - Sᵀ S)⁻¹ Sᵀ r, S = V diag(√factors).
    """
    out, inner, along, apart = np.full_like(residual, np.nan), V.T @ V, V.T @ residual, False
    for p in _lightest_first(factors):
        root = np.sqrt(factors[p])
        solved = _solve_apart(root[:, None] * inner * root, root * along[:, p], apart)
        if solved is not None:
            out[:, p], apart = residual[:, p] + V @ (root * solved), True
    return out


def _lightest_first(factors: np.ndarray) -> np.ndarray:
    """Return the positions of the penalties, from the lightest to the heaviest.

    If a fit does not interpolate a group, neither does a fit with a heavier penalty.
    """
    return np.argsort(-factors.sum(axis=1), kind="stable")


def _solve_apart(H: np.ndarray, right: np.ndarray, apart: bool) -> np.ndarray | None:
    """Return (I - H)⁻¹ r, or None where the fit interpolates the group: an eigenvalue of I - H is almost zero.

    If ``apart`` is true, no eigenvalue is almost zero, and this is not checked.
    """
    gap = np.negative(H)
    gap.flat[:: len(H) + 1] += 1.0
    if not apart:
        smaller = gap.copy()
        smaller.flat[:: len(H) + 1] -= SMALLEST_GAP
        if lapack.dpotrf(smaller.T, lower=1, overwrite_a=1)[1]:
            return None
    return lapack.dposv(gap.T, right, lower=1, overwrite_a=1)[1]
