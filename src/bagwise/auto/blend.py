"""Blend of held-out predictions of several members: the weights, and the held-out error of the blend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.metrics import absolute, get_metric
from bagwise.regressors.embedding_ridge import least_absolute, least_squares, root_weights


@dataclass(frozen=True)
class Blend:
    """Weights of the members, not negative and summing to one, and held-out predictions.

    Attributes
    ----------
    weights : array (members,)
    held_out : array (bags,)
        The prediction of each bag by a blend that was decided without its fold.
    kind : {"blend", "single"}
        "single" if no blend beats the best member, or nothing beats the mean.
    single : array (bags,)
        The prediction of each bag by the single best member, chosen without its fold.
    """

    weights: np.ndarray
    held_out: np.ndarray
    kind: str
    single: np.ndarray


def sparse_weights(Z: np.ndarray, y: np.ndarray, fold: np.ndarray, sample_weight=None, metric="rmse") -> np.ndarray:
    """Return `blend_weights` of the members that lower the error of the blend.

    Members are dropped one at a time, the least useful first, as long as the blend without it is no worse on folds that
    its weights were not fitted on.
    """
    ladder = _AbsoluteLadder if get_metric(metric).bag_loss is absolute else _Ladder
    return ladder(Z, y, fold, sample_weight).weights()


def blend(
    Z, y, fold, sample_weight=None, metric: str = "rmse", shown: np.ndarray | None = None, mean: int | None = None
) -> Blend:
    """Return the blend, or the single best member if it is as good on bags that neither was chosen on.

    The held-out predictions of a fold come from a blend whose members and weights were decided on the other folds. It
    is compared with the single member chosen in the same way, fold by fold: the best of many on all folds looks better
    than it is. Two folds are too few for this, and the best member is taken.

    Parameters
    ----------
    Z : array (bags, members), held-out predictions to decide on
    y : the targets
    fold : the fold of every bag
    sample_weight : one weight per bag, optional
    metric : str
        Name of the metric that decides. Weights minimise its ``bag_loss``.
    shown : array (bags, members), optional
        Held-out predictions that the weights are applied to, if Z is a mean over several repeats.
    mean : int, optional
        The column that predicts the mean of the targets. It is used alone if the held-out predictions of the blend are
        no better.
    """
    shown = Z if shown is None else shown
    best = best_member(Z, y, sample_weight, metric)
    alone = np.eye(Z.shape[1])[best]
    if fold.max() < 2 or Z.shape[1] == 1:
        return Blend(alone, shown[:, best].copy(), "single", shown[:, best].copy())

    def held_out(rule) -> np.ndarray:
        out = np.empty(len(y))
        for k in range(fold.max() + 1):
            train, weight = fold != k, None if sample_weight is None else sample_weight[fold != k]
            out[~train] = shown[~train] @ rule(Z[train], y[train], fold[train], weight, metric)
        return out

    def loss(predictions) -> float:
        return _loss(predictions, y, sample_weight, metric)

    blended, single = held_out(sparse_weights), held_out(_single_weights)
    if mean is not None and min(loss(blended), loss(single)) >= loss(shown[:, mean]):
        return Blend(np.eye(Z.shape[1])[mean], shown[:, mean].copy(), "single", single)
    if loss(blended) >= loss(single):
        return Blend(alone, single, "single", single)
    weights = sparse_weights(Z, y, fold, sample_weight, metric)
    several = np.count_nonzero(weights) > 1
    return Blend(weights if several else alone, blended, "blend" if several else "single", single)


def _single_weights(Z, y, fold, sample_weight, metric) -> np.ndarray:
    return np.eye(Z.shape[1])[best_member(Z, y, sample_weight, metric)]


def best_member(Z: np.ndarray, y: np.ndarray, sample_weight=None, metric: str = "rmse") -> int:
    """Return the position of the best member, the first of equal ones."""
    return int(np.argmin([_loss(column, y, sample_weight, metric) for column in Z.T]))


def _loss(predictions: np.ndarray, y: np.ndarray, sample_weight, metric: str) -> float:
    """Return the loss of the metric; infinity where the metric is not defined."""
    chosen = get_metric(metric)
    loss = chosen.loss(chosen(y, predictions, weight=sample_weight))
    return np.inf if np.isnan(loss) else float(loss)


class _Ladder:
    """Blends of fewer and fewer members. A fold is summarised by R with RᵀR = EᵀE, whatever its number of bags."""

    def __init__(self, Z, y, fold, sample_weight):
        errors = (y[:, None] - Z) * root_weights(sample_weight, len(y))[:, None]
        grams = [errors[fold == k].T @ errors[fold == k] for k in np.unique(fold)]
        total = np.sum(grams, axis=0)
        self.folds = [_triangle(gram) for gram in grams]
        self.without = [_triangle(total - gram) for gram in grams]
        self.whole = _triangle(total)

    def weights(self) -> np.ndarray:
        members = self._useful(list(np.flatnonzero(self.least(self.whole))))
        weights = np.zeros(self.whole.shape[1])
        weights[members] = self.least(self.whole[:, members])
        return weights

    def _useful(self, members: list[int]) -> list[int]:
        best = self._loss(members)
        while len(members) > 1:
            shorter = [[m for m in members if m != dropped] for dropped in members]
            losses = [self._loss(candidates) for candidates in shorter]
            if min(losses) > best:
                break
            best, members = min(losses), shorter[int(np.argmin(losses))]
        return members

    def _loss(self, members: list[int]) -> float:
        """Return the error of blends of these members, with the weights of each fold learned on the others."""
        weights = (self.least(without[:, members]) for without in self.without)
        return sum(self.total(errors[:, members] @ w) for errors, w in zip(self.folds, weights, strict=True))

    least = staticmethod(least_squares)
    total = staticmethod(lambda errors: float((errors**2).sum()))


class _AbsoluteLadder(_Ladder):
    """The same for absolute errors, which no Gram matrix summarises: errors of all bags, times their weights."""

    def __init__(self, Z, y, fold, sample_weight):
        self.whole = (y[:, None] - Z) * root_weights(sample_weight, len(y))[:, None] ** 2
        self.folds = [self.whole[fold == k] for k in np.unique(fold)]
        self.without = [self.whole[fold != k] for k in np.unique(fold)]

    least = staticmethod(lambda errors: least_absolute(errors, np.ones(len(errors))))
    total = staticmethod(lambda errors: float(np.abs(errors).sum()))


def _triangle(gram: np.ndarray) -> np.ndarray:
    """Return R with RᵀR = gram, one row per member; eigenvalues lost to rounding are zero."""
    values, vectors = np.linalg.eigh(gram)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
