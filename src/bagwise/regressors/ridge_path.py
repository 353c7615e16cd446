"""`RidgePath`: ridge regression for all penalties of a grid, of which leave-one-bag-out chooses one.

The rows are an array, or `RowBlocks`, which are read a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
from scipy.linalg import lapack
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.bags import weights_or_ones
from bagwise.bags.folds import row_units
from bagwise.bags.validation import check_options, numbered
from bagwise.regressors.row_blocks import RowBlocks, row_blocks

PENALTIES = tuple(float(10.0**e) for e in np.arange(1.0, -14.5, -0.5))
SMALLEST_GAP = 1e-10  # below it, 1 - leverage is rounding error, and so is the left-out residual
# With fewer groups, and at least as many rows and penalties, decomposing a Gram matrix once per group is faster.
FEW_GROUPS, MANY_ROWS, MANY_PENALTIES = 5, 200, 8
MOST_RESIDUALS = 2**25  # 256 MB for all penalties; beyond it, a second pass computes those of the best


class RidgePath(RegressorMixin, BaseEstimator):
    r"""Ridge regression on one row per bag, the penalty chosen by exact leave-one-bag-out.

    One decomposition Z = U S Vᵀ of the (centred) rows gives every penalty λ: the fit is U diag(s²/(s²+λ)) Uᵀ y, and the
    residual of bag i, had it been left out, is (y_i - ŷ_i) / (1 - h_i), h_i its leverage. With groups, the bags of a
    group are left out together: (I - H_GG)⁻¹ (y - ŷ)_G. Components within rounding error are dropped, so a penalty of
    1e-16 is as stable as one of 1e-1. A penalty that fits some bag exactly is never chosen, as the left-out residual of
    that bag is undefined.

    Parameters
    ----------
    penalties : sequence of float, default=10.0 to 1e-14, two per decade
        Values of λ to compare; a single value is used as it is.
    scaling : {"n", "none"}, default="n"
        ``"n"`` minimises (1/n) Σ (y - f)² + λ‖f‖² for n bags, as Szabó et al. (2015) and the notebook of Uriot (2019)
        do; ``"none"`` minimises Σ (y - f)² + λ‖f‖², as the paper prints.
    fit_intercept : bool, default=True
        Whether to fit an unpenalised intercept. The model in the paper has none.
    rule : {"best", "one-se"}, default="best"
        "best" takes the penalty with the smallest left-out error, "one-se" the largest whose error is at most one
        standard error of the paired differences larger.
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
        The linear function of the columns; ``coef_path_`` and ``intercept_path_`` have a row for each penalty.

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
            Weight of each bag; only ratios count, and n is the number of bags with a weight above zero. A weight of 2
            is the same as a bag that occurs twice: without groups, copies of a row and target are left out together.
        groups : array-like of shape (n_bags,), optional
            Bags with the same label are left out together.

        Returns
        -------
        self
        """
        Z, y, w, penalties = self._problem(Z, y, sample_weight)
        path = self._path(Z, y, w)
        self.errors_, best, residuals = self._compare(Z, y, w, groups, penalties, path)
        self.penalty_, self.error_ = self._penalty(best), float(self.errors_[best])
        coefficients, intercepts = zip(*map(path.coefficients, penalties), strict=True)
        self.coef_path_, self.intercept_path_ = np.array(coefficients), np.array(intercepts)
        self.coef_, self.intercept_ = coefficients[best], intercepts[best]
        if residuals is None:
            blocks = _blocks_left_out(path, Z, y, w, groups, penalties[[best]])
            residuals = np.concatenate([block[:, 0] for _, block in blocks])
        self.residuals_ = residuals
        if (w == 0).any():  # bags of weight zero do not enter the fit, so their residuals are left-out residuals
            for block, rows in row_blocks(Z):
                errors = y[block] - linear(rows, self.coef_, self.intercept_)
                residuals[block] = np.where(w[block] == 0, errors, residuals[block])
        return self

    def judge(self, Z, y, sample_weight=None, groups=None) -> tuple[float, float]:
        """Return the penalty that `fit` would choose and its mean squared left-out error, without fitting.

        For a Gram matrix with few large groups this is faster: only the matrices without each group are decomposed.
        """
        Z, y, w, penalties = self._problem(Z, y, sample_weight)
        errors, best, _ = self._compare(Z, y, w, groups, penalties)
        return self._penalty(best), float(errors[best])

    def _problem(self, Z, y, sample_weight) -> tuple[np.ndarray | RowBlocks, np.ndarray, np.ndarray, np.ndarray]:
        """Return checked rows, targets and weights, and the penalties of the sum of squares."""
        if isinstance(Z, np.memmap) and self.kernel == "linear":
            Z = RowBlocks.of(Z)
        if isinstance(Z, RowBlocks):
            self.n_features_in_, y = Z.shape[1], check_array(y, dtype=np.float64, ensure_2d=False)
            check_consistent_length(Z, y)
        else:
            Z, y = validate_data(self, Z, y, dtype=np.float64, y_numeric=True)
        check_options(self, scaling=("n", "none"), rule=("best", "one-se"), kernel=("linear", "precomputed"))
        penalties = checked_penalties(self.penalties)
        if self.kernel == "precomputed" and Z.shape[0] != Z.shape[1]:
            raise ValueError(f"a Gram matrix is square; got shape {Z.shape}")
        w = weights_or_ones(sample_weight, y)
        return Z, y.astype(np.float64, copy=False), w, penalties * (np.count_nonzero(w) if self.scaling == "n" else 1)

    def _penalty(self, position: int) -> float:
        return float(np.atleast_1d(self.penalties)[position])

    def _path(self, Z, y, w):
        return (_FeaturePath if self.kernel == "linear" else _GramPath)(Z, y, w, self.fit_intercept)

    def _compare(self, Z, y, w, groups, penalties, path=None) -> tuple[np.ndarray, int, np.ndarray | None]:
        """Return left-out errors per penalty, the index of the best, and its residuals (None for many blocks)."""
        is_large = self.kernel == "precomputed" and len(y) >= MANY_ROWS and len(penalties) >= MANY_PENALTIES
        if is_large and groups is not None and (unit := numbered(groups)).max() < FEW_GROUPS:
            blocks = iter([(slice(0, len(y)), _without_each(Z, y, w, self.fit_intercept, penalties, unit))])
        else:
            path = self._path(Z, y, w) if path is None else path
            blocks = _blocks_left_out(path, Z, y, w, groups, penalties)
        in_memory = not isinstance(Z, RowBlocks)
        keeps_all = in_memory or len(y) * len(penalties) <= MOST_RESIDUALS
        squares, products, parts = 0.0, 0.0, []
        for block, residuals in blocks:
            weighted = w[block, None] * residuals**2
            squares, products = squares + weighted.sum(axis=0), products + weighted.T @ weighted
            parts += [residuals] if keeps_all else []
        if in_memory and groups is None and len(penalties) > 1 and (unit := row_units(Z, y))[-1] < len(y) - 1:
            weighted = w[:, None] * _left_out(path, penalties, w, unit) ** 2  # leave copies of a bag out together
            squares, products = weighted.sum(axis=0), weighted.T @ weighted
        errors = squares / w.sum()
        errors = np.where(np.isnan(errors), np.inf, errors)
        best = self._choose(penalties, errors, squares, products, np.count_nonzero(w))
        return errors, best, np.concatenate([residuals[:, best] for residuals in parts]) if keeps_all else None

    def _choose(self, penalties, errors, squares, products, n: int) -> int:
        """Return the index of the penalty by the rule; ``products`` are Σ w² e² e'² for pairs of penalties."""
        best = int(np.argmin(errors))
        if not np.isfinite(errors[best]):
            return int(np.argmax(penalties))  # every fit interpolates: the largest penalty is the safest
        if self.rule == "best":
            return best
        gap = (squares - squares[best]) / n
        second = (np.diag(products) - 2 * products[best] + products[best, best]) / n
        standard_error = np.sqrt(np.maximum(second - gap**2, 0.0) / n)
        within = gap <= standard_error  # False for NaN, where a fit interpolates
        return int(np.argmax(np.where(within, penalties, 0.0)))

    def predict(self, Z) -> np.ndarray:
        """Return one prediction per row."""
        return linear(self._checked(Z), self.coef_, self.intercept_)

    def predict_path(self, Z) -> np.ndarray:
        """Return the predictions of the fit with each penalty, (rows, penalties)."""
        Z = self._checked(Z)
        return np.column_stack([linear(Z, *fit) for fit in zip(self.coef_path_, self.intercept_path_, strict=True)])

    def _checked(self, Z) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, Z, reset=False, dtype=np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def checked_penalties(penalties) -> np.ndarray:
    """Return penalties as an array; raise an error unless there are some, all above zero."""
    array = np.atleast_1d(np.asarray(penalties, dtype=np.float64))
    if array.size == 0 or not (array > 0).all():
        raise ValueError(f"penalties must be above zero, not {penalties!r}")
    return array


def linear(rows: np.ndarray, coef: np.ndarray, intercept: float) -> np.ndarray:
    """Return a dot product per row plus the intercept; BLAS may round a row differently if the other rows change."""
    return np.einsum("ij,j->i", rows, coef) + intercept


class _FeaturePath:
    """Z = U S Vᵀ of the weighted, centred rows; S and V of `RowBlocks` are those of the R of their QR decomposition."""

    def __init__(self, Z, y, w, intercept: bool):
        self.intercept, self.weight = intercept, w.sum()
        if isinstance(Z, RowBlocks):
            sums = Z.sums(y, w)
            means, R = sums.centred() if intercept else (np.zeros(Z.shape[1] + 1), sums.uncentred())
            self.mean, self.target_mean, rows, self.centred = means[:-1], means[-1], R[:, :-1], R[:, -1]
        else:
            self.mean = np.average(Z, axis=0, weights=w) if intercept else np.zeros(Z.shape[1])
            self.target_mean = np.average(y, weights=w) if intercept else 0.0
            root = np.sqrt(w)
            rows, self.centred = root[:, None] * (Z - self.mean), root * (y - self.target_mean)
            self.ones = root / np.sqrt(self.weight) if intercept else None
        U, s, Vt = np.linalg.svd(rows, full_matrices=False)
        # Centring leaves rounding errors of the size of the means.
        size = max(s.max(initial=0.0), np.sqrt(len(y)) * np.abs(self.mean).max(initial=0.0))
        keep = s > size * max(len(y), len(self.mean)) * np.finfo(float).eps
        self.U, self.s, self.Vt, self.spectrum = U[:, keep], s[keep], Vt[keep], s[keep] ** 2
        self.projected = self.U.T @ self.centred

    def block(self, Z, y, w) -> _FeaturePath:
        """Return the path with some of the rows of `RowBlocks`, in the basis of the decomposition."""
        block, root = copy(self), np.sqrt(w)
        block.U = (root[:, None] * (Z - self.mean)) @ (self.Vt.T / self.s)
        block.centred = root * (y - self.target_mean)
        block.ones = root / np.sqrt(self.weight) if self.intercept else None
        return block

    def coefficients(self, penalty):
        coef = self.Vt.T @ (self.s / (self.spectrum + penalty) * self.projected)
        return coef, float(self.target_mean - self.mean @ coef)


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


def _blocks_left_out(path, Z, y, w, groups, penalties) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield positions and left-out residuals (bags, penalties) of each block; an array is one."""
    if not isinstance(Z, RowBlocks):
        yield slice(0, len(y)), _left_out(path, penalties, w, groups)
        return
    for block, rows in Z.blocks():
        labels = None if groups is None else groups[block]
        yield block, _left_out(path.block(rows, y[block], w[block]), penalties, w[block], labels)


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
            V, factors = path.U, 1.0 - shrunk.T
            if path.ones is not None:
                V, factors = np.column_stack([V, path.ones]), np.column_stack([factors, np.ones(len(factors))])
            left_out = np.empty_like(residual)
            order = np.argsort(unit, kind="stable")
            for rows in np.split(order, np.cumsum(np.bincount(unit))[:-1]):
                left_out[rows] = _group_left_out(V[rows], factors, residual[rows])
        return np.where(w[:, None] > 0, left_out / np.sqrt(w)[:, None], 0.0)


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


def _group_left_out(V: np.ndarray, factors: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Return (I - V F Vᵀ)⁻¹ r for the rows V of a group and the diagonal F of each penalty (rows of ``factors``).

    With S = V √F the same is r + S (I - SᵀS)⁻¹ Sᵀ r, a system of the size of the columns; the smaller one is solved.
    """
    n, columns = V.shape
    negative = (factors < 0).any()
    by_rows = n**2 * columns + n**3 / 3 <= columns**3 / 3 or negative
    inner, along = (None, None) if by_rows else (V.T @ V, V.T @ residual)
    out, apart = np.full_like(residual, np.nan), False
    # From the smallest penalty on: if a fit does not interpolate the group, neither does one with a larger penalty.
    for p in np.argsort(-factors.sum(axis=1), kind="stable"):
        root = np.sqrt(np.abs(factors[p]))
        if by_rows:
            half = V * root
            # numpy sees that a product with its own transpose is symmetric: half the work
            H, right = (half * np.sign(factors[p]) if negative else half) @ half.T, residual[:, p]
        else:
            H, right = root[:, None] * inner * root, root * along[:, p]
        gap = np.negative(H)
        gap.flat[:: len(H) + 1] += 1.0
        if not apart:
            smaller = gap.copy()
            smaller.flat[:: len(H) + 1] -= SMALLEST_GAP
            if lapack.dpotrf(smaller.T, lower=1, overwrite_a=1)[1]:
                continue  # an eigenvalue of I - H is almost zero: the fit interpolates the group
            apart = not negative
        solved = lapack.dposv(gap.T, right, lower=1, overwrite_a=1)[1]
        out[:, p] = solved if by_rows else residual[:, p] + V @ (root * solved)
    return out
