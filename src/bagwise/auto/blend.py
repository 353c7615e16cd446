"""From held-out predictions of several members to one prediction: the weights, and an honest error of the blend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class Blend:
    """Weights over the members (not negative, summing to one) and the prediction of every bag by a blend that never
    saw its fold."""

    weights: np.ndarray
    held_out: np.ndarray
    kind: str  # "blend", or "single" where no blend beats the best member


def blend_weights(Z: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
    r"""Weights of least squared error, min ‖y - Z w‖² over w ≥ 0 with Σ w = 1.

    As Σ w = 1, y - Z w = E w with the errors E = y 1ᵀ - Z. Let v minimise ‖E v‖² + (1ᵀv - 1)² over v ≥ 0, a problem
    of non-negative least squares. Along a direction u with Σ u = 1 its least value is a / (a + 1), a = ‖E u‖², which
    grows with a: so v points where w does, and w = v / Σ v exactly.

    Parameters
    ----------
    Z : array (bags, members), held-out predictions
    y : the targets
    sample_weight : one weight per bag, optional

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0.0, 1.0, 2.0, 3.0])
    >>> Z = np.column_stack([y + [1, -1, 1, -1], y - [1, -1, 1, -1], 9 - y])
    >>> blend_weights(Z, y).round(6).tolist()  # two errors that cancel, and a member that is wrong
    [0.5, 0.5, 0.0]

    References
    ----------
    Breiman (1996), Stacked regressions. Lawson, Hanson (1974), Solving least squares problems.
    """
    errors = (y[:, None] - Z) * _root(sample_weight, len(y))[:, None]
    return _least(np.linalg.qr(errors, mode="r") if len(errors) > errors.shape[1] else errors)


def _least(errors: np.ndarray) -> np.ndarray:
    """The direction of the simplex in which the errors are smallest."""
    scale = np.sqrt((errors**2).sum(axis=0).min()) or 1.0
    rows = np.vstack([errors / scale, np.ones(errors.shape[1])])
    found = nnls(rows, np.append(np.zeros(len(errors)), 1.0))[0]
    return found / found.sum()


def sparse_weights(Z: np.ndarray, y: np.ndarray, fold: np.ndarray, sample_weight=None) -> np.ndarray:
    """`blend_weights` of the members that earn their place.

    Members leave one at a time, always the one that is missed least, as long as the blend without it is no worse on
    folds that had no say in its weights.
    """
    return _Ladder(Z, y, fold, sample_weight).weights()


def blend(Z: np.ndarray, y: np.ndarray, fold: np.ndarray, sample_weight=None) -> Blend:
    """The blend, or the single best member where a blend does no better on bags that had no say in either.

    The held-out predictions of a fold come from a blend for which everything (which members, how much of each) was
    decided on the other folds. It is compared with the single member chosen in the same way, fold by fold: the best of
    many on all folds looks better than it is. With two folds there is nothing to decide on, and the best is taken.
    """
    best = best_member(Z, y, sample_weight)
    alone = np.eye(Z.shape[1])[best]
    if fold.max() < 2 or Z.shape[1] == 1:
        return Blend(alone, Z[:, best].copy(), "single")
    blended = _held_out(sparse_weights, Z, y, fold, sample_weight)
    single = _held_out(_single_weights, Z, y, fold, sample_weight)
    if _loss(blended, y, sample_weight) >= _loss(single, y, sample_weight):
        return Blend(alone, single, "single")
    weights = sparse_weights(Z, y, fold, sample_weight)
    return Blend(weights, blended, "blend") if np.count_nonzero(weights) > 1 else Blend(alone, blended, "single")


def _held_out(rule, Z, y, fold, sample_weight) -> np.ndarray:
    """Predictions of every fold by weights that the rule gives for the others."""
    out = np.empty(len(y))
    for k in range(fold.max() + 1):
        seen, weight = fold != k, None if sample_weight is None else sample_weight[fold != k]
        out[~seen] = Z[~seen] @ rule(Z[seen], y[seen], fold[seen], weight)
    return out


def _single_weights(Z, y, fold, sample_weight) -> np.ndarray:
    return np.eye(Z.shape[1])[best_member(Z, y, sample_weight)]


def best_member(Z: np.ndarray, y: np.ndarray, sample_weight=None) -> int:
    """The member of least squared error; the first of those that are equal."""
    return int(np.argmin(np.average((Z - y[:, None]) ** 2, axis=0, weights=sample_weight)))


class _Ladder:
    """Blends of fewer and fewer members. A fold is known by R with RᵀR = EᵀE: a few numbers, however many bags."""

    def __init__(self, Z, y, fold, sample_weight):
        errors = (y[:, None] - Z) * _root(sample_weight, len(y))[:, None]
        grams = [errors[fold == k].T @ errors[fold == k] for k in np.unique(fold)]
        total = np.sum(grams, axis=0)
        self.folds = [_triangle(gram) for gram in grams]
        self.without = [_triangle(total - gram) for gram in grams]
        self.whole = _triangle(total)

    def weights(self) -> np.ndarray:
        members = self._earned(list(np.flatnonzero(_least(self.whole))))
        weights = np.zeros(self.whole.shape[1])
        weights[members] = _least(self.whole[:, members])
        return weights

    def _earned(self, members: list[int]) -> list[int]:
        best = self._loss(members)
        while len(members) > 1:
            shorter = [[m for m in members if m != gone] for gone in members]
            losses = [self._loss(some) for some in shorter]
            if min(losses) > best:
                break
            best, members = min(losses), shorter[int(np.argmin(losses))]
        return members

    def _loss(self, members: list[int]) -> float:
        """Squared error of blends of these members, each fold by weights learned on the others."""
        weights = (_least(without[:, members]) for without in self.without)
        return sum(((own[:, members] @ w) ** 2).sum() for own, w in zip(self.folds, weights, strict=True))


def _triangle(gram: np.ndarray) -> np.ndarray:
    """R with RᵀR = gram, of as many rows as there are members; eigenvalues lost to rounding are zero."""
    values, vectors = np.linalg.eigh(gram)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def _root(sample_weight, n: int) -> np.ndarray:
    return np.ones(n) if sample_weight is None else np.sqrt(sample_weight / np.mean(sample_weight))


def _loss(predictions, y, sample_weight) -> float:
    return float(np.average((predictions - y) ** 2, weights=sample_weight))
