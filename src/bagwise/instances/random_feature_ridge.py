"""Ridge regression on random features: exact out-of-fold predictions for every penalty, from sums, without refits.

Ridge regression is computed from the sum over rows Σ w d dᵀ, d = [1, φ(x), y], and such sums can be added. Features and
targets are relative to an ``origin`` near their mean (an entry per column of d, the first zero), so that centring does
not subtract nearly equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.utils import check_consistent_length, check_X_y, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bagwise.bags.folds import row_units
from bagwise.bags.validation import one_of
from bagwise.execution.resources import one_thread
from bagwise.instances.out_of_fold import CrossFit, fit_options
from bagwise.kernels.formulas import FLOATS, FourierFeatures, row_keys


class RidgeModels(NamedTuple):
    """Ridge in the eigenbasis: [1, φ] @ basis has orthogonal columns, the intercept first."""

    basis: np.ndarray  # (1 + features, 1 + features)
    shrink: np.ndarray  # (1 + features, penalties): 1 / (eigenvalue + λ)
    coef: np.ndarray  # (1 + features, penalties)


def design(phi: np.ndarray, y: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Return d of some rows in float64; only the features are computed in the precision of the data."""
    d = np.empty((len(phi), phi.shape[1] + 2))
    d[:, 0], d[:, 1:-1], d[:, -1] = 1.0, phi, y
    d -= origin
    return d


def ridge_path(gram: np.ndarray, lam: np.ndarray) -> RidgeModels:
    """Compute ridge regression for each λ from Σ w d dᵀ; centring separates the unpenalised intercept."""
    weight, mean = gram[0, 0], gram[0, 1:-1] / gram[0, 0]
    values, vectors = np.linalg.eigh(gram[1:-1, 1:-1] - weight * np.outer(mean, mean))
    basis = np.eye(len(mean) + 1)
    basis[0, 1:], basis[1:, 1:] = -mean @ vectors, vectors
    shrink = np.full((len(basis), len(lam)), 1 / weight)
    shrink[1:] = 1 / (np.maximum(values, 0.0)[:, None] + lam)
    return RidgeModels(basis, shrink, basis @ (shrink * (basis.T @ gram[:-1, -1])[:, None]))


def trace(gram: np.ndarray, origin: np.ndarray) -> float:
    """Return the trace of the centred Σ w φφᵀ, at least its rounding error, and 1 if all features are zero."""
    diagonal = np.diag(gram)[1:-1] - gram[0, 1:-1] ** 2 / gram[0, 0]
    return max(diagonal.sum(), np.finfo(float).eps * gram[0, 0] * (origin[1:-1] ** 2).sum()) or 1.0


def uncentred(coef: np.ndarray, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return β and the intercept relative to zero instead of the origin."""
    return coef[1:], coef[0] + origin[-1] - origin[1:-1] @ coef[1:]


SPARSE = 0.9  # the share of zeros from which on a column is sparse


class ColumnScaler(TransformerMixin, BaseEstimator):
    """Scale columns to mean 0 and variance 1, and sparse columns by a common factor.

    Scaling to variance 1 would magnify columns with more than 90 % zeros (a term of a tf-idf table, a rare level), most
    of all those with the rarest nonzero values. All such columns are divided by the root of their mean variance.

    Parameters
    ----------
    most : int, optional
        If there are more columns than this, they are projected onto as many random directions, so that sums of their
        products stay small.
    random_state : int, default 0
        Seed of the directions.

    Attributes
    ----------
    mean_, scale_ : arrays (columns,)
        The scale of a constant column is 1.
    sparse_ : mask (columns,)
        Which columns are sparse.
    directions_ : array (columns, most) or None

    Examples
    --------
    >>> import numpy as np
    >>> X = np.column_stack([np.arange(20.0), np.eye(20)[0], 3 * np.eye(20)[1]])
    >>> ColumnScaler().fit(X).sparse_.tolist()
    [False, True, True]
    """

    def __init__(self, most: int | None = None, *, random_state: int = 0):
        self.most = most
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None) -> ColumnScaler:
        """Compute mean and scale; a weight of 2 counts a row twice, and ``y`` is ignored."""
        X = validate_data(self, X, dtype=FLOATS)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        share = weight / weight.sum()
        mean = share @ X
        return self.fit_moments(mean, np.sqrt(share @ (X - mean) ** 2), share @ (X == 0))

    def fit_moments(self, mean: np.ndarray, deviation: np.ndarray, zeros: np.ndarray) -> ColumnScaler:
        """Fit from the mean, deviation and share of zeros of each column, for rows that are not in memory."""
        self.mean_, scale = mean, deviation.copy()
        scale[scale <= 32 * np.finfo(np.float64).eps * np.abs(mean)] = 0.0
        self.sparse_ = (zeros > SPARSE) & (scale > 0)
        scale[self.sparse_] = np.sqrt((scale[self.sparse_] ** 2).mean()) if self.sparse_.any() else 0.0
        self.scale_ = np.where(scale > 0, scale, 1.0)
        self.directions_ = None
        if self.most is not None and len(mean) > self.most:
            rng = np.random.default_rng(self.random_state)
            self.directions_ = rng.normal(size=(len(mean), self.most)) / np.sqrt(self.most)
        return self

    def transform(self, X) -> np.ndarray:
        check_is_fitted(self)
        Z = (validate_data(self, X, reset=False, dtype=FLOATS) - self.mean_) / self.scale_
        if self.directions_ is None:
            return Z
        # For a single row BLAS uses another routine, which rounds differently.
        return Z @ self.directions_ if len(Z) > 1 else (np.repeat(Z, 2, axis=0) @ self.directions_)[:1]


PENALTIES = tuple(float(f"1e{e}") for e in range(-9, 1))
BLOCK_ROWS = 2048  # rows whose features are in memory at once, per thread
SMALLEST_PENALTY = 1e-10  # below, rounding (1e-16 of the trace) would decide the fit
WORST_ROUNDING = 1e-6  # maximum rounding error of held-out residuals; penalties with larger errors are no candidates
FEW_FOLDS = 20  # at most this many folds are all subtracted from the sums, which avoids division by almost 0
MANY_ROWS = 20_000  # without groups, more rows than this are split into ten folds instead of left out one by one
LONG_FOLD = 128  # folds with more rows than this, and than half the number of features, are subtracted from the sums
STORED_FOLDS, STORED_NUMBERS = 64, 2**26  # maximum number of folds whose sums are stored, and of numbers: 512 MB


class RandomFeatureRidge(RegressorMixin, BaseEstimator):
    r"""Ridge regression on random features, with exact out-of-fold predictions in closed form.

    The model f(x) = b + β·φ(x) minimises Σ w (y - f(x))² + λ‖β‖² with an unpenalised intercept b. It is computed from
    the sum over rows G = Σ w d dᵀ, d = [1, φ(x), y], in blocks, so the features of all rows are never in memory at
    once. No fold is trained again. For a long fold, one eigendecomposition of G - G_k serves all penalties. For folds
    with fewer rows than features, the eigendecomposition of G serves all folds too: the held-out predictions are

        y_k - (I - H_k)⁻¹ (y_k - ŷ_k),   H_k = Z_k diag(1 / (s + λ)) Z_kᵀ W_k,

    with Z_k the rows of the fold in the eigenbasis and s the eigenvalues (the intercept is an additional column without
    λ). Leaving out each bag in turn costs little more than one fit.

    Parameters
    ----------
    features : feature map with ``fit`` and ``transform``, default `FourierFeatures`
        Fitted on all rows, held-out rows included, but never on targets, so one map serves all folds.
    penalties : sequence of float, default 1e-9, 1e-8, ..., 1
        The grid, each at least 1e-10; a single value is used as it is. A penalty is relative: λ = penalty · trace of
        the centred Σ w φφᵀ over all rows, the same λ for all folds. So it does not depend on the number of rows, their
        weights or the number of features; 1 shrinks even the strongest direction to half or less.
    random_state : int or None, default 0
        Seed of the default features, and of the folds in ``fit`` for many rows without groups.
    n_jobs : int, optional
        Number of threads for blocks and folds, each with one thread of BLAS. Results are equal to the last bit.

    Attributes
    ----------
    penalty_ : float
        The chosen penalty.
    penalties_, errors_ : arrays
        The penalties compared and their mean squared held-out errors; only of several penalties.
    features_ : feature map
        Fitted.
    coef_, intercept_ : array, float
        β and b.

    Notes
    -----
    If a short fold is fitted almost exactly, I - H_k is almost singular, and its inverse magnifies rounding. A penalty
    at which that error may exceed 1e-6 is left out of ``candidates`` and ``penalties_``; if none remains, an error is
    raised. This needs a penalty near 1e-10, or a fold with nearly all the weight. With 20 folds or fewer it cannot
    happen, because each fold is subtracted from the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.instances.random_feature_ridge import RandomFeatureRidge
    >>> rng = np.random.default_rng(0)
    >>> X, bag = rng.uniform(-2, 2, size=(300, 2)), np.repeat(np.arange(60), 5)
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> model = RandomFeatureRidge().fit(X, y, groups=bag)
    >>> bool(np.abs(model.predict(X) - y).max() < 0.05)
    True
    >>> result = RandomFeatureRidge(penalties=(1e-4, 1e-2)).cross_fit(X, y, fold=bag)
    >>> result.predictions.shape, result.candidates
    ((300, 2), ({'penalty': 0.0001}, {'penalty': 0.01}))

    References
    ----------
    Rahimi & Recht (2007), Random features for large-scale kernel machines.
    Pahikkala, Boberg & Salakoski (2006), Fast n-fold cross-validation for regularized least-squares.
    """

    def __init__(
        self,
        features=None,
        *,
        penalties=PENALTIES,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ):
        self.features = features
        self.penalties = penalties
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y, sample_weight=None, groups=None) -> RandomFeatureRidge:
        """Fit with the penalty of smallest squared error, each group (the bag of each row) left out in turn.

        Without groups, each row is left out alone (with its copies), or a tenth of the rows at a time if there are
        many. This is right for independent rows, and too optimistic for the rows of bags.
        """
        X, y = validate_data(self, X, y, dtype=FLOATS, y_numeric=True, ensure_min_samples=2)
        features = self.fresh_features()
        features.fit(X, **fit_options(features, sample_weight=sample_weight))
        if (penalties := self._penalties()).size == 1:
            stream = self._stream(features, X, y, sample_weight, np.arange(len(X)), self.n_jobs)
            with one_thread():
                gram = stream.gram(0, len(X))
                coef = ridge_path(gram, penalties * trace(gram, stream.origin)).coef
            return self._set(stream.features, float(penalties[0]), *uncentred(coef[:, 0].copy(), stream.origin))
        fold = self._row_folds(X, y) if groups is None else groups
        result = self._cross_fit(features, X, y, fold, sample_weight, None)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        self.penalties_ = np.array([candidate["penalty"] for candidate in result.candidates])
        self.errors_ = np.array([np.average((y - column) ** 2, weights=weight) for column in result.predictions.T])
        best = result.predictor(int(np.argmin(self.errors_)), "refit")
        return self._set(best.features_, best.penalty_, best.coef_, best.intercept_)

    def predict(self, X) -> np.ndarray:
        """Return the prediction of each row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        out = np.empty(len(X))
        for rows in _blocks(0, len(X)):
            # One dot product per row, because BLAS may round a row differently if the other rows change.
            out[rows] = np.einsum("ij,j->i", self.features_.transform(X[rows]), self.coef_)
        return out + self.intercept_

    def cross_fit(self, X, y, fold, *, sample_weight=None, n_jobs=None) -> CrossFit:
        """Compute exact held-out predictions of each row for each penalty, and the models for new rows.

        ``fold`` is the fold of each row, in any order; the last fold is that of the largest label. ``n_jobs`` overrides
        the regressor's own. The feature map is fitted on the rows without weights, which reflect sizes of bags.
        """
        X, y = check_X_y(X, y, dtype=FLOATS, y_numeric=True)
        return self._cross_fit(self.fresh_features().fit(X), X, y, fold, sample_weight, n_jobs)

    def _cross_fit(self, features, X, y, fold, sample_weight, n_jobs) -> CrossFit:
        fold = column_or_1d(fold)
        check_consistent_length(X, fold)
        penalties = self._penalties()
        _, code, sizes = np.unique(fold, return_inverse=True, return_counts=True)
        # Folds of one size side by side, the longest at the end.
        order = np.lexsort((code, sizes[code]))
        stream = self._stream(features, X, y, sample_weight, order, self.n_jobs if n_jobs is None else n_jobs)
        if (n_folds := np.unique(code[stream.weight > 0]).size) < 2:
            raise ValueError(
                f"held-out predictions need at least two folds with rows of positive weight; got {n_folds}"
            )
        last = np.searchsorted(np.sort(sizes), sizes[-1], side="right") - 1
        with one_thread():
            left_out = _LeaveOut(stream, np.sort(sizes), last, penalties)
        usable = np.flatnonzero(np.finfo(float).eps * left_out.blow_up <= WORST_ROUNDING)
        if usable.size == 0:
            raise ValueError(
                f"at every penalty up to {penalties.max():g} some fold is fitted exactly, so rounding would decide its "
                "held-out predictions. Raise the penalties, even out the weights, or use fewer folds."
            )
        models = {kind: uncentred(coef[:, usable], stream.origin) for kind, coef in left_out.coefficients().items()}
        predictor = partial(_predictor, clone(self), stream.features, penalties[usable], models)
        candidates = tuple({"penalty": float(penalty)} for penalty in penalties[usable])
        return CrossFit(left_out.predictions[:, usable], candidates, predictor)

    def solve_folds(
        self, features, sums: dict[int, np.ndarray], origin: np.ndarray
    ) -> tuple[dict[int, tuple], CrossFit]:
        """Cross-fit from Σ w d dᵀ of each fold, for rows that are not in memory.

        Return the model without each fold, as (β, b) for all penalties, and a `CrossFit` without predictions.
        """
        penalties, total = self._penalties(), sum(sums.values())
        lam = penalties * trace(total, origin)
        with one_thread():
            whole = ridge_path(total, lam).coef
            without = {k: ridge_path(sum(sums[j] for j in sums if j != k), lam).coef for k in sums}
        mean = sum(without.values()) / len(without)
        kinds = {"fold-mean": mean, "refit": whole, "last-fold": without[max(without)]}
        models = {kind: uncentred(coef, origin) for kind, coef in kinds.items()}
        predictor = partial(_predictor, clone(self), features, penalties, models)
        candidates = tuple({"penalty": float(penalty)} for penalty in penalties)
        return {k: uncentred(coef, origin) for k, coef in without.items()}, CrossFit(None, candidates, predictor)

    def _penalties(self) -> np.ndarray:
        penalties = np.atleast_1d(np.asarray(self.penalties, dtype=float))
        if penalties.ndim != 1 or penalties.size == 0 or not (penalties >= SMALLEST_PENALTY).all():
            raise ValueError(f"penalties must be numbers of at least {SMALLEST_PENALTY:g}; got {penalties.tolist()}")
        return penalties

    def _stream(self, features, X, y, sample_weight, order, n_jobs) -> _Stream:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return _Stream(features, X, y, weight, order, n_jobs)

    def fresh_features(self):
        """Return the unfitted feature map."""
        return FourierFeatures(random_state=self.random_state) if self.features is None else clone(self.features)

    def _row_folds(self, X, y) -> np.ndarray:
        if len(X) <= MANY_ROWS:
            return row_units(X, y)
        fold = np.empty(len(X), dtype=np.int64)
        seed = np.random.default_rng(self.random_state).integers(2**63)
        fold[np.argsort(row_keys(X, seed), kind="stable")] = np.arange(len(X)) % 10
        return fold

    def _set(self, features, penalty, coef, intercept) -> RandomFeatureRidge:
        self.features_, self.penalty_, self.coef_, self.intercept_ = features, penalty, coef, intercept
        return self


def _predictor(template, features, penalties, models, candidate: int, kind: str) -> RandomFeatureRidge:
    """Return a fitted model for new rows, by the index of its candidate and its kind."""
    one_of(kind, models, "kind")
    coef, intercept = (array[..., candidate].copy() for array in models[kind])
    model = clone(template)._set(features, float(penalties[candidate]), coef, float(intercept))
    model.n_features_in_ = features.n_features_in_
    return model


class _Stream:
    """Rows d = [1, φ(x), y] in a given order, in blocks; φ and y are relative to an origin close to their mean."""

    def __init__(self, features, X, y, weight, order, n_jobs):
        self.features, self.X, self.y, self.weight, self.order = features, X, y, weight, order
        self.root, self.n_jobs = np.sqrt(weight[order]), n_jobs
        phi = features.transform(X[order[:BLOCK_ROWS]])
        self.width = phi.shape[1]
        self.origin = np.concatenate([[0.0], phi.mean(axis=0, dtype=np.float64), [np.average(y, weights=weight)]])

    def rows(self, block: slice) -> np.ndarray:
        rows = self.order[block]
        return design(self.features.transform(self.X[rows]), self.y[rows], self.origin)

    def gram(self, start: int, stop: int) -> np.ndarray:
        """Compute Σ w d dᵀ over the rows from start to stop."""

        def product(block):
            scaled = self.rows(block) * self.root[block, None]
            return scaled.T @ scaled  # numpy uses the symmetry, which halves the work

        total = np.zeros((self.width + 2, self.width + 2))
        for part in self.each(product, _blocks(start, stop)):
            total += part
        return total

    def each(self, function: Callable, items: Iterable) -> Iterator:
        """Apply the function to each item, in order, several at a time."""
        jobs = (delayed(function)(item) for item in items)
        return Parallel(n_jobs=self.n_jobs, require="sharedmem", return_as="generator")(jobs)


class _LeaveOut:
    """Held-out predictions of all folds and the sum of their models; the folds are sorted by size."""

    def __init__(self, stream: _Stream, sizes: np.ndarray, last: int, penalties: np.ndarray):
        self.stream, self.sizes, self.last = stream, sizes, last
        self.bounds = bounds = np.concatenate([[0], np.cumsum(sizes)])
        short = max(LONG_FOLD, stream.width // 2)
        first_long = 0 if len(sizes) <= FEW_FOLDS else int(np.searchsorted(sizes, short, side="right"))
        n_stored = min(STORED_FOLDS, max(2, STORED_NUMBERS // stream.width**2))
        first_stored = max(first_long, len(sizes) - n_stored)  # the G_k of the longest folds are stored
        self.short_gram = stream.gram(0, bounds[first_stored])
        self.fold_grams = {k: stream.gram(bounds[k], bounds[k + 1]) for k in range(first_stored, len(sizes))}
        self.gram = self.short_gram + sum(self.fold_grams.values())
        self.lam = penalties * trace(self.gram, stream.origin)
        self.ridge = ridge_path(self.gram, self.lam)
        self.predictions = np.empty((len(stream.X), len(penalties)))
        self.blow_up = np.ones(len(penalties))
        self.coef_sum, self.coef_last = np.zeros_like(self.ridge.coef), self.ridge.coef.copy()
        self._short_folds(first_long)
        self._long_folds(range(first_long, len(sizes)))
        self.predictions += stream.origin[-1]

    def coefficients(self) -> dict[str, np.ndarray]:
        mean = self.coef_sum / len(self.sizes)
        return {"fold-mean": mean, "refit": self.ridge.coef, "last-fold": self.coef_last}

    def _long_folds(self, folds: range) -> None:
        """Fit the long folds from the sums over the other folds."""
        coefs = dict(zip(folds, self.stream.each(self._without, folds), strict=True))
        self.coef_sum += sum(coefs.values())
        self.coef_last = coefs.get(self.last, self.coef_last)

        def predict(fold_and_block):
            k, block = fold_and_block
            self.predictions[self.stream.order[block]] = self.stream.rows(block)[:, :-1] @ coefs[k]

        ends = self.bounds
        list(self.stream.each(predict, ((k, block) for k in folds for block in _blocks(ends[k], ends[k + 1]))))

    def _without(self, k: int) -> np.ndarray:
        if k in self.fold_grams:
            gram = self.short_gram + sum(self.fold_grams[other] for other in self.fold_grams if other != k)
        else:  # at least two folds are longer, so the difference is not of nearly equal numbers
            gram = self.gram - self.stream.gram(self.bounds[k], self.bounds[k + 1])
        return ridge_path(gram, self.lam).coef

    def _short_folds(self, count: int) -> None:
        """Fit the first folds by the block formula, those of equal size together."""
        runs = []
        for size in np.unique(self.sizes[:count]):
            low, high = np.searchsorted(self.sizes[:count], [size, size + 1])
            runs += _blocks(low, high, max(1, BLOCK_ROWS // size))
        moved = np.zeros_like(self.coef_sum)
        for blow_up, t in self.stream.each(self._run, runs):
            self.blow_up = np.maximum(self.blow_up, blow_up)
            moved += t
        self.coef_sum += count * self.ridge.coef - self.ridge.basis @ moved

    def _run(self, folds: slice) -> tuple[np.ndarray, np.ndarray]:
        """Compute held-out predictions of some folds of equal size.

        By the normal equations, the model without a fold is β_k = β - basis t with t = (s + λ)⁻¹ Zᵀ W (y - ŷ_k), so
        ŷ_k = ŷ - Z t. The system to solve is √W (y - ŷ_k) = (I - S (s + λ)⁻¹ Sᵀ)⁻¹ √W (y - ŷ) with S = √W Z.
        """
        count, size = folds.stop - folds.start, self.sizes[folds.start]
        rows = slice(self.bounds[folds.start], self.bounds[folds.stop])
        rows_d = self.stream.rows(rows)
        root, y = self.stream.root[rows].reshape(count, size, 1), rows_d[:, -1].reshape(count, size, 1)
        Z = (rows_d[:, :-1] @ self.ridge.basis).reshape(count, size, -1)
        fitted = (rows_d[:, :-1] @ self.ridge.coef).reshape(count, size, -1)
        S, residual = root * Z, root * (y - fitted)
        probe = np.random.default_rng(0).standard_normal((size, 1))
        probe = np.broadcast_to(probe * np.sqrt(size) / np.linalg.norm(probe), (count, size, 1))
        blow_up, moved = np.full(len(self.lam), np.inf), np.zeros_like(self.ridge.coef)
        for p, shrink in enumerate(self.ridge.shrink.T):
            right = np.concatenate([residual[:, :, p : p + 1], probe], axis=2)
            try:
                solved = np.linalg.solve(np.eye(size) - (S * shrink) @ S.mT, right)
            except np.linalg.LinAlgError:
                continue
            # Estimate ‖M⁻¹‖, which magnifies rounding: ‖M⁻¹ g‖² has the mean ‖M⁻¹‖² over random g of length √size.
            blow_up[p] = np.linalg.norm(solved[:, :, 1], axis=1).max()
            t = (S.mT @ solved[:, :, :1])[:, :, 0] * shrink
            fitted[:, :, p] -= (Z @ t[:, :, None])[:, :, 0]
            moved[:, p] = t.sum(axis=0)
            if folds.start <= self.last < folds.stop:
                self.coef_last[:, p] -= self.ridge.basis @ t[self.last - folds.start]
        self.predictions[self.stream.order[rows]] = fitted.reshape(count * size, -1)
        return blow_up, moved


def _blocks(start: int, stop: int, size: int | None = None) -> Iterator[slice]:
    size = BLOCK_ROWS if size is None else size
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))
