"""`RidgePath`: ridge regression on rows for every penalty of a grid at once, chosen by leave-one-bag-out.

`RowSums` is what it needs of rows that are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.bags import weights_or_ones
from bagwise.bags.checks import check_options
from bagwise.bags.folds import numbered, row_units

PENALTIES = tuple(float(10.0**e) for e in np.arange(1.0, -14.5, -0.5))
# Below this a leverage is one to within rounding: the left-out residual would be noise divided by noise.
SMALLEST_GAP = 1e-10
# Up to so many groups, from so many rows and penalties on, a Gram matrix is decomposed once more without each group.
FEW_GROUPS, MANY_ROWS, MANY_PENALTIES = 5, 200, 8


class RidgePath(RegressorMixin, BaseEstimator):
    r"""Ridge regression on one row per bag, the penalty chosen by exact leave-one-bag-out.

    One decomposition Z = U S Vᵀ of the (centred) rows gives every penalty λ: the fit is U diag(s²/(s²+λ)) Uᵀ y, and the
    residual of bag i had it been left out is (y_i - ŷ_i) / (1 - h_i), h_i its leverage. With groups, the bags of a
    group are left out together: (I - H_GG)⁻¹ (y - ŷ)_G. Components that rounding has swallowed are dropped, so a
    penalty of 1e-16 is as stable as one of 1e-1, and a penalty at which some bag is fitted exactly (its left-out
    residual is then noise divided by noise) is never chosen. Few large groups of a Gram matrix are left out by a
    decomposition without each, which is quicker and has no such noise.

    Parameters
    ----------
    penalties : sequence of float
        The grid of λ; one value fixes it.
    scaling : {"n", "none"}
        Whether λ is multiplied by the number of bags n: ``"n"`` minimises (1/n) Σ (y - f)² + λ‖f‖², as Szabó et al.
        (2015) and the notebook of Uriot (2019) do; ``"none"`` is Σ (y - f)² + λ‖f‖², as the paper prints.
    fit_intercept : bool
        Whether the mean of y is left unpenalised. The paper has none.
    rule : {"best", "one-se"}
        Take the penalty with the smallest left-out error; or the heaviest whose error is larger by no more than one
        standard error of the paired differences, so that a lighter one must earn its place on more than a few bags.
    kernel : {"linear", "precomputed"}
        Whether the columns are features or similarities to the training bags (a Gram matrix, which may be indefinite).

    Attributes
    ----------
    penalty_ : float, the one chosen
    errors_ : mean squared left-out residual for every penalty (infinite where it cannot be told)
    residuals_ : left-out residuals of the training bags at the chosen penalty
    coef_, intercept_ : of the linear function of the columns
    coef_path_, intercept_path_ : the same for every penalty, a row each

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
        """Fit; bags that share a label in ``groups`` are left out together when the penalty is chosen.

        Bag i counts w_i times in the squares and in the left-out error, w being ``sample_weight`` divided by its mean
        over the bags above zero; n is then the number of those. With ``scaling="n"`` a weight of 2 is a bag that came
        twice, and a weight of 0 one that never came: without groups, copies of a row that have the same target are left
        out together when the penalty is chosen.
        """
        Z, y, w = self._checked_rows(Z, y, sample_weight)
        penalties, scale = self._check(), self._scale(w)
        path = self._path(Z, y, w)
        errors, best, left_out = self._judged(Z, y, w, groups, path)
        self._keep(path, penalties, scale, errors, best)
        self.residuals_ = left_out
        out = w == 0  # the fit is the one without them
        self.residuals_[out] = y[out] - _linear(Z[out], self.coef_, self.intercept_)
        return self

    def judge(self, Z, y, sample_weight=None, groups=None) -> tuple[float, float]:
        """The penalty that `fit` would choose, and its mean squared left-out error, without the fit.

        Of a Gram matrix and few large groups that is sooner: only what is left without each group is decomposed.
        ``sample_weight`` has an entry per bag; bags that share a label in ``groups`` are left out together.
        """
        Z, y, w = self._checked_rows(Z, y, sample_weight)
        errors, best, _ = self._judged(Z, y, w, groups)
        return float(self._check()[best]), float(errors[best])

    def _checked_rows(self, Z, y, sample_weight) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        Z, y = validate_data(self, Z, y, dtype=np.float64, y_numeric=True)
        self._check()
        if self.kernel == "precomputed" and Z.shape[0] != Z.shape[1]:
            raise ValueError(f"a Gram matrix is square; got shape {Z.shape}")
        return Z, y.astype(np.float64, copy=False), weights_or_ones(sample_weight, y)

    def _scale(self, w: np.ndarray) -> float:
        return float(np.count_nonzero(w)) if self.scaling == "n" else 1.0

    def _path(self, Z, y, w):
        return (_FeaturePath if self.kernel == "linear" else _GramPath)(Z, y, w, self.fit_intercept)

    def _judged(self, Z, y, w, groups, path=None) -> tuple[np.ndarray, int, np.ndarray]:
        """Left-out errors for every penalty, the number of the best, and its left-out residuals."""
        penalties = self._check() * self._scale(w)
        if self.kernel == "precomputed" and _are_few_and_large(groups, penalties):
            alone = residuals = _without_each(Z, y, w, self.fit_intercept, penalties, numbered(groups)).T
        else:
            path = self._path(Z, y, w) if path is None else path
            alone = residuals = _left_out(path, penalties, w, groups).T
        if groups is None and len(penalties) > 1 and (unit := row_units(Z, y))[-1] < len(y) - 1:  # there are copies
            residuals = _left_out(path, penalties, w, unit).T
        errors = np.average(residuals**2, axis=1, weights=w)
        errors = np.where(np.isnan(errors), np.inf, errors)
        squares = (w * residuals**2)[:, w > 0]

        def gaps(best: int) -> tuple[np.ndarray, np.ndarray]:
            """By how much squares are larger than those of the best penalty, on average; the standard error of it."""
            gap = squares - squares[best]
            return gap.mean(axis=1), gap.std(axis=1) / np.sqrt(gap.shape[1])

        best = self._choose(self._check(), errors, gaps)
        return errors, best, alone[best]

    def path(self, sums: RowSums) -> SumPath:
        """What `SumPath.left_out` needs to judge every penalty on rows that are elsewhere; then `fit_sums`."""
        if self.kernel != "linear":
            raise ValueError("from sums, RidgePath takes kernel='linear': a Gram matrix has a row for every bag")
        scale = sums.n if self.scaling == "n" else 1.0
        return SumPath(sums, self._check() * scale, self.fit_intercept)

    def fit_sums(self, path: SumPath, left_out: LeftOut) -> RidgePath:
        """As `fit`, from the `path` and what its rows, wherever they are, have for left-out residuals.

        The residuals themselves are not known then, only their sums: in place of ``residuals_`` there is
        ``absolute_errors_``, the mean absolute residual for every penalty.
        """
        penalties = self._check()
        errors = left_out.squares / left_out.weight
        errors = np.where(np.isnan(errors), np.inf, errors)
        self.n_features_in_, self.absolute_errors_ = len(path.mean), left_out.absolute / left_out.weight
        best = self._choose(penalties, errors, left_out.gaps)
        self._keep(path, penalties, path.n if self.scaling == "n" else 1.0, errors, best)
        return self

    def _keep(self, path, penalties, scale, errors, best: int) -> None:
        self.penalty_ = float(penalties[best])
        self.errors_, self.error_ = errors, float(errors[best])
        coefficients, intercepts = zip(*map(path.coefficients, penalties * scale), strict=True)
        self.coef_path_, self.intercept_path_ = np.array(coefficients), np.array(intercepts)
        self.coef_, self.intercept_ = coefficients[best], intercepts[best]

    def predict(self, Z) -> np.ndarray:
        return _linear(self._checked(Z), self.coef_, self.intercept_)

    def predict_path(self, Z) -> np.ndarray:
        """What the fit with every penalty predicts, (rows, penalties)."""
        Z = self._checked(Z)
        return np.column_stack([_linear(Z, *one) for one in zip(self.coef_path_, self.intercept_path_, strict=True)])

    def _checked(self, Z) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, Z, reset=False, dtype=np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _choose(self, penalties, errors, gaps: Callable) -> int:
        best = int(np.argmin(errors))
        if not np.isfinite(errors[best]):
            return int(np.argmax(penalties))  # every fit interpolates: the heaviest penalty is the safest
        if self.rule == "best":
            return best
        mean, error = gaps(best)
        return int(np.argmax(np.where(mean <= error, penalties, 0.0)))  # NaN, where a fit interpolates, is not allowed

    def _check(self) -> np.ndarray:
        check_options(self, scaling=("n", "none"), rule=("best", "one-se"), kernel=("linear", "precomputed"))
        penalties = np.atleast_1d(np.asarray(self.penalties, dtype=np.float64))
        if penalties.size == 0 or not (penalties > 0).all():
            raise ValueError("penalties must be above zero")
        return penalties


def _linear(Z: np.ndarray, coef: np.ndarray, intercept: float) -> np.ndarray:
    # A dot product per row: BLAS may round a row differently in different company.
    return np.einsum("ij,j->i", Z, coef) + intercept


class _Linear:
    """What decompositions of features share."""

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
    """Which singular values are components: centring leaves the rounding of the uncentred rows behind."""
    size = max(s.max(initial=0.0), np.sqrt(n) * np.abs(mean).max(initial=0.0))
    return s > size * max(n, len(mean)) * np.finfo(float).eps


@dataclass(frozen=True)
class RowSums:
    """What ridge needs of rows z and targets y that are elsewhere: R of the QR decomposition of √w [1, z - c, y - c'].

    Two of them merge into that of all rows by a QR decomposition of both, one below the other, which keeps the digits
    that sums of products would lose (Golub and Van Loan, section 5.3).

    Attributes
    ----------
    n : number of rows of weight above zero
    centre : array, c and c', near the means
    triangle : array (at most columns + 2, columns + 2)

    Examples
    --------
    >>> import numpy as np
    >>> Z, y = np.arange(12.0).reshape(6, 2) ** 2, np.arange(6.0)
    >>> both = RowSums.of(Z[:2], y[:2]).merge(RowSums.of(Z[2:], y[2:]))
    >>> mean, R = both.centred()
    >>> bool(np.allclose(mean, [*Z.mean(axis=0), y.mean()])), bool(np.allclose(R.T @ R, 6 * np.cov(Z.T, y, ddof=0)))
    (True, True)
    """

    n: int
    centre: np.ndarray
    triangle: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, *, block: int = 4096) -> RowSums:
        both = np.column_stack([Z, y]).astype(np.float64, copy=False)
        w = np.ones(len(both)) if w is None else w
        centre = both[0] + (both - both[0]).mean(axis=0)
        triangle = np.empty((0, both.shape[1] + 1))
        for start in range(0, len(both), block):
            rows, root = both[start : start + block] - centre, np.sqrt(w[start : start + block])
            rows = root[:, None] * np.column_stack([np.ones(len(rows)), rows])
            triangle = np.linalg.qr(np.vstack([triangle, rows]), mode="r")
        return cls(int(np.count_nonzero(w)), centre, triangle)

    def merge(self, other: RowSums) -> RowSums:
        moved = other.triangle.copy()
        moved[:, 1:] += moved[:, [0]] * (other.centre - self.centre)
        triangle = np.linalg.qr(np.vstack([self.triangle, moved]), mode="r")
        return RowSums(self.n + other.n, self.centre, triangle)

    @property
    def weight(self) -> float:
        return float((self.triangle[:, 0] ** 2).sum())

    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """The means of columns and target, and R of the rows about them."""
        return self.centre + self.triangle[0, 1:] / self.triangle[0, 0], self.triangle[1:, 1:]

    def uncentred(self) -> np.ndarray:
        """R of the rows themselves."""
        return self.triangle[:, 1:] + self.triangle[:, [0]] * self.centre

    def through(self, matrix: np.ndarray) -> RowSums:
        """That of rows times a matrix, which may have fewer lines than rows have columns: those of the first."""
        length = len(matrix)
        centre = np.append(self.centre[:length] @ matrix, self.centre[-1])
        first, inner, last = self.triangle[:, :1], self.triangle[:, 1 : length + 1], self.triangle[:, -1:]
        return replace(self, centre=centre, triangle=np.hstack([first, inner @ matrix, last]))

    def columns(self, kept: np.ndarray) -> RowSums:
        """That of some of the columns."""
        both, every = np.append(kept, True), np.concatenate([[True], kept, [True]])
        return replace(self, centre=self.centre[both], triangle=self.triangle[:, every])

    def standardised(self, mean: float, scale: float) -> RowSums:
        """That of targets counted from ``mean`` in units of ``scale``; zeros, if it is zero."""
        centre, triangle = self.centre.copy(), self.triangle.copy()
        centre[-1] = (centre[-1] - mean) / scale if scale else 0.0
        triangle[:, -1] = triangle[:, -1] / scale if scale else 0.0
        return replace(self, centre=centre, triangle=triangle)


class SumPath(_Linear):
    """Ridge for every penalty from `RowSums`; it is small, and judges rows wherever they are."""

    def __init__(self, sums: RowSums, penalties: np.ndarray, intercept: bool):
        if intercept:
            (*mean, self.target_mean), R = sums.centred()
            self.mean = np.array(mean)
        else:
            self.mean, self.target_mean, R = np.zeros(len(sums.centre) - 1), 0.0, sums.uncentred()
        U, s, Vt = np.linalg.svd(R[:, :-1], full_matrices=False)
        keep = _components(s, self.mean, sums.n)
        self.s, self.Vt, self.spectrum = s[keep], Vt[keep], s[keep] ** 2
        self.projected = U[:, keep].T @ R[:, -1]
        self.n, self.weight, self.penalties, self.intercept = sums.n, sums.weight, penalties, intercept
        self.seen_mean, self.axes = self.mean, self.Vt.T / self.s  # of the rows that `left_out` is given

    def before(self, sums: RowSums, matrix: np.ndarray) -> SumPath:
        """The same, for `left_out` to be given the rows of other sums, of which those here are the product."""
        self.seen_mean, self.axes = sums.centred()[0][: len(matrix)] * self.intercept, matrix @ self.axes
        return self

    def coefficient_path(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (columns, penalties) and intercepts for every penalty."""
        coefficients, intercepts = zip(*map(self.coefficients, self.penalties), strict=True)
        return np.column_stack(coefficients), np.array(intercepts)

    def left_out(self, Z, y, w=None, groups=None) -> LeftOut:
        """The left-out residuals of some of the rows, added up; of a group all or none."""
        w = np.ones(len(y)) if w is None else w
        residuals = _left_out(_Rows(self, Z, y, w), self.penalties, w, groups)
        return LeftOut.of(residuals, w)


class _Rows:
    """Some rows in the terms of a `SumPath`, as `_left_out` sees them."""

    def __init__(self, path: SumPath, Z, y, w):
        root = np.sqrt(w)
        self.U = (root[:, None] * (Z - path.seen_mean)) @ path.axes
        self.centred = root * (y - path.target_mean)
        self.projected, self.spectrum = path.projected, path.spectrum
        self.ones = root / np.sqrt(path.weight) if path.intercept else None


@dataclass(frozen=True)
class LeftOut:
    """Sums of left-out residuals e over bags of weight w, for every penalty: Σ w e², Σ w |e|, Σ w² e² e'²."""

    n: int
    weight: float
    squares: np.ndarray
    absolute: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, residuals: np.ndarray, w: np.ndarray) -> LeftOut:
        squares = w[:, None] * residuals**2
        n, total = int(np.count_nonzero(w)), float(w.sum())
        return cls(n, total, squares.sum(axis=0), w @ np.abs(residuals), squares.T @ squares)

    def __add__(self, other: LeftOut) -> LeftOut:
        n, weight, squares = self.n + other.n, self.weight + other.weight, self.squares + other.squares
        return LeftOut(n, weight, squares, self.absolute + other.absolute, self.products + other.products)

    def gaps(self, best: int) -> tuple[np.ndarray, np.ndarray]:
        """By how much squares are larger than those of the best penalty, on average, and the standard error of it."""
        mean = (self.squares - self.squares[best]) / self.n
        own = np.diag(self.products)
        second = (own - 2 * self.products[best] + own[best]) / self.n
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
        # Centring leaves the rounding of the uncentred entries behind, the direction of all ones among it.
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
    """Residuals (bags, penalties) of every bag had it (its group) been left out; NaN where the fit interpolates it."""
    shrunk = penalties / (path.spectrum[:, None] + penalties)
    # y - ŷ without subtracting near-equal numbers: the shrunk part, and what no component explains.
    outside = path.centred - path.U @ path.projected
    residual = path.U @ (shrunk * path.projected[:, None]) + outside[:, None]
    unit = np.arange(len(w)) if groups is None else numbered(groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        if unit.max() == len(unit) - 1:  # each alone
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
    """As `_left_out`, each group by a fit to the others; NaN if these weigh nothing."""
    left_out = np.full((len(y), len(penalties)), np.nan)
    for g in range(unit.max() + 1):
        own, rest = unit == g, (unit != g) & (w > 0)
        if rest.any():
            path = _GramPath(K[np.ix_(rest, rest)], y[rest], w[rest], intercept)
            coefficients, intercepts = zip(*map(path.coefficients, penalties), strict=True)
            left_out[own] = y[own, None] - K[np.ix_(own, rest)] @ np.column_stack(coefficients) - intercepts
    return np.where(w[:, None] > 0, left_out, 0.0)


def _groups_left_out(path, residual: np.ndarray, kept: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """(I - H_g)⁻¹ r_g for every group g and penalty; H_g = V diag(kept) Vᵀ, V its rows of U and of the ones."""
    left_out = np.empty_like(residual)
    order = np.argsort(unit, kind="stable")
    V, kept = path.U, kept.T
    if path.ones is not None:
        V, kept = np.column_stack([V, path.ones]), np.column_stack([kept, np.ones(len(kept))])
    for rows in np.split(order, np.cumsum(np.bincount(unit))[:-1]):
        # By the number of operations for a penalty. A negative eigenvalue, of an indefinite kernel, has no root.
        n, columns = len(rows), V.shape[1]
        few = n**2 * columns + n**3 / 3 <= columns**3 / 3 or (kept < 0).any()
        left_out[rows] = (_solve_rows if few else _solve_columns)(V[rows], kept, residual[rows])
    return left_out


def _solve_rows(V: np.ndarray, kept: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """One system of the size of the group for every penalty."""
    out, negative, apart = np.full_like(residual, np.nan), (kept < 0).any(), False
    for p in _lightest_first(kept):
        # numpy sees that a product with its own transpose is symmetric: half the work
        half = V * np.sqrt(np.abs(kept[p]))
        signed = half * np.sign(kept[p]) if negative else half
        solved = _solve_apart(signed @ half.T, residual[:, p], apart)
        if solved is not None:
            out[:, p], apart = solved, not negative
    return out


def _solve_columns(V: np.ndarray, kept: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """The same by systems of the number of columns: (I - S Sᵀ)⁻¹ r = r + S (I - Sᵀ S)⁻¹ Sᵀ r, S = V diag(√kept)."""
    out, inner, along, apart = np.full_like(residual, np.nan), V.T @ V, V.T @ residual, False
    for p in _lightest_first(kept):
        root = np.sqrt(kept[p])
        solved = _solve_apart(root[:, None] * inner * root, root * along[:, p], apart)
        if solved is not None:
            out[:, p], apart = residual[:, p] + V @ (root * solved), True
    return out


def _lightest_first(kept: np.ndarray) -> np.ndarray:
    """The penalties, from the lightest on: if its fit does not interpolate a group, that of a heavier one does not."""
    return np.argsort(-kept.sum(axis=1), kind="stable")


def _solve_apart(H: np.ndarray, right: np.ndarray, apart: bool) -> np.ndarray | None:
    """(I - H)⁻¹ r; None where the fit interpolates the group: an eigenvalue of I - H is almost zero.

    ``apart`` says that none is.
    """
    gap = np.negative(H)
    gap.flat[:: len(H) + 1] += 1.0
    if not apart:
        smaller = gap.copy()
        smaller.flat[:: len(H) + 1] -= SMALLEST_GAP
        if lapack.dpotrf(smaller.T, lower=1, overwrite_a=1)[1]:
            return None
    return lapack.dposv(gap.T, right, lower=1, overwrite_a=1)[1]
