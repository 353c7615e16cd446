"""Blend of held-out predictions of several members: the weights, and the held-out error of the blend."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from bagwise.metrics import absolute, get_metric
from bagwise.regressors.embedding_ridge import least_absolute, least_squares, root_weights


@dataclass(frozen=True)
class Blend:
    """Weights of the members, not negative and summing to one, and held-out predictions of the bags.

    ``held_out`` has predictions of each bag by a blend chosen without its fold, ``single`` by the best member chosen
    without its fold. ``kind`` is "single" if no blend beats the best member, or no member beats the mean.
    """

    weights: np.ndarray
    held_out: np.ndarray
    kind: str
    single: np.ndarray


def sparse_weights(Z: np.ndarray, y: np.ndarray, fold: np.ndarray, sample_weight=None, metric="rmse") -> np.ndarray:
    """Return `blend_weights` of the members that lower the error of the blend.

    Members are dropped one at a time, the least useful first, as long as the blend without the member is no worse on
    the folds on which its weights were not fitted.
    """
    absolute_errors = get_metric(metric).bag_loss is absolute
    root = root_weights(sample_weight, len(y))[:, None]
    errors = (y[:, None] - Z) * (root**2 if absolute_errors else root)
    least = (lambda E: least_absolute(E, np.ones(len(E)))) if absolute_errors else least_squares
    # Squared errors of blends are those of R with RᵀR = EᵀE, which has a row per member.
    reduced = np.asarray if absolute_errors else partial(np.linalg.qr, mode="r")
    folds = [reduced(errors[fold == k]) for k in np.unique(fold)]
    without = [reduced(np.vstack(folds[:k] + folds[k + 1 :])) for k in range(len(folds))]

    def loss(members: list[int]) -> float:
        """Return the error of blends of these members, with the weights of each fold learned on the others."""
        misses = (E[:, members] @ least(others[:, members]) for E, others in zip(folds, without, strict=True))
        return sum(float((np.abs(miss) if absolute_errors else miss**2).sum()) for miss in misses)

    members = list(np.flatnonzero(least(errors)))
    best = loss(members)
    while len(members) > 1:
        shorter = [[member for member in members if member != dropped] for dropped in members]
        losses = [loss(candidates) for candidates in shorter]
        if min(losses) > best:
            break
        best, members = min(losses), shorter[int(np.argmin(losses))]
    weights = np.zeros(Z.shape[1])
    weights[members] = least(errors[:, members])
    return weights


def blend(
    Z, y, fold, sample_weight=None, metric: str = "rmse", shown: np.ndarray | None = None, mean: int | None = None
) -> Blend:
    """Return the blend, or the best member if it is as good on bags on which neither was chosen.

    The held-out predictions of a fold come from a blend whose members and weights were chosen on the other folds. It is
    compared with the best member chosen in the same way, because the best of many on all folds looks better than it is.
    Two folds are too few for this comparison; the best member is used then.

    Parameters
    ----------
    Z : array (bags, members), held-out predictions to decide on
    y, fold, sample_weight : target, fold and weight (optional) of each bag
    metric : str, default "rmse"
        Name of the metric that decides. Weights minimise its ``bag_loss``.
    shown : array (bags, members), optional
        Held-out predictions that the weights are applied to, if Z is a mean over several repeats.
    mean : int, optional
        The column of the member that predicts the mean of the targets. It is used alone if the blend is no better on
        held-out bags.
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
