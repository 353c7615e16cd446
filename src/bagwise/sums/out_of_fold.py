"""Out-of-fold predictions of random-feature ridge, from sums: Σ w d dᵀ of every fold, and no row twice in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags
from bagwise.instances import OutOfFold, bag_folds
from bagwise.instances.out_of_fold import PREDICTORS, WEIGHTINGS, one_of, prepared
from bagwise.instances.ridge_sums import design
from bagwise.lake import Chunk
from bagwise.sums.columns import ColumnSums
from bagwise.sums.survey import Survey
from bagwise.sums.walk import BLOCK_ROWS, Walk, sum_rows

CACHED_ROWS = 2048
MOST_FOLDS = 64


@dataclass(frozen=True)
class FoldModels:
    """(β, b) without each fold, for one or several penalties; picklable, and small whatever the number of rows."""

    features: object
    models: dict[int, tuple[np.ndarray, np.ndarray]]

    @property
    def n_penalties(self) -> int:
        return len(next(iter(self.models.values()))[1])

    def predict(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Every row by the model without its fold: (rows, penalties)."""
        out = np.empty((len(X), self.n_penalties))
        for k, rows in by_fold(fold):
            coef, intercept = self.models[k]
            out[rows] = self.features.transform(X[rows]).astype(np.float64) @ coef + intercept
        return out

    def only(self, candidate: int) -> FoldModels:
        chosen = {k: (coef[:, [candidate]], b[[candidate]]) for k, (coef, b) in self.models.items()}
        return replace(self, models=chosen)


@dataclass(frozen=True)
class Predicted:
    """The out-of-fold predictions of all instances: whose they are, their range and spread, and their bag means."""

    models: FoldModels
    columns: ColumnSums
    bags: Bags
    fold: np.ndarray


def fit_out_of_fold(stage: OutOfFold, walk: Walk, survey: Survey) -> tuple[OutOfFold, Predicted]:
    """The stage fitted as if on all instances, in two passes; and what a head needs to know of its predictions."""
    stage = clone(stage)
    one_of(stage.predictor, PREDICTORS, "predictor")
    one_of(stage.weighting, WEIGHTINGS, "weighting")
    bags, y = survey.bags, survey.y
    stage.fold_ = bag_folds(bags, stage.folds, random_state=stage.random_state)
    if (n_folds := stage.fold_.max() + 1) > MOST_FOLDS:
        raise ValueError(f"every fold needs sums of its own, and {n_folds:,} are too many; take at most {MOST_FOLDS}")
    regressor = prepared(stage.regressor, stage.scaler, stage.random_state)
    features = regressor.fresh_features().fit_sums(survey.columns.mean, survey.columns.scale, survey.sample)
    origin = np.concatenate([[0.0], features.transform(survey.sample).mean(axis=0, dtype=np.float64), [y.mean()]])
    weights = 1.0 / survey.sizes if stage.weighting == "bag" else np.ones(len(y))
    known = (stage.fold_, weights / np.average(weights, weights=survey.sizes), y)
    sums = walk.total(_fold_sums, features, origin, known=known, add=_add_folds)
    without, result = regressor.from_sums(features, sums, origin)
    models = FoldModels(features, without)
    means, found = _predictions(walk, survey, stage.fold_, models)
    predicted = stage.adopt(replace(result, predictions=means), bags, y)
    chosen = result.candidates.index(stage.candidate_)
    one = ColumnSums(found.n, *(part[[chosen]] for part in (found.mean, found.scatter, found.low, found.high)))
    return stage, Predicted(models.only(chosen), one, predicted, stage.fold_)


def _fold_sums(chunk: Chunk, fold, weight, y, features, origin) -> dict[int, np.ndarray]:
    """Σ w d dᵀ of the rows of every fold that has some here."""
    sums: dict[int, np.ndarray] = {}
    for block in chunk.blocks(rows=BLOCK_ROWS):
        targets, root = y[block.bag], np.sqrt(weight[block.bag])
        for k, rows in by_fold(fold[block.bag]):
            d = design(features.transform(block.X[rows]), targets[rows], origin)
            d *= root[rows, None]
            sums[k] = sums.get(k, 0.0) + d.T @ d
    return sums


def by_fold(fold: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of every fold, some at a time: their features stay in the core's cache."""
    order = np.argsort(fold, kind="stable")
    folds, starts = np.unique(fold[order], return_index=True)
    for k, rows in zip(folds, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), CACHED_ROWS):
            yield int(k), rows[start : start + CACHED_ROWS]


def _add_folds(left: dict, right: dict) -> dict:
    return {k: left.get(k, 0.0) + right.get(k, 0.0) for k in sorted(left.keys() | right.keys())}


def _predictions(walk: Walk, survey: Survey, fold, models: FoldModels) -> tuple[np.ndarray, ColumnSums]:
    """The mean prediction of every bag for every penalty, and the sums of all predictions."""
    total, columns = np.zeros((walk.n_bags, models.n_penalties)), None
    for own, (sums, found) in zip(walk.own, walk.each(_chunk_predictions, models, known=(fold,)), strict=True):
        total[own] += sums
        columns = found if columns is None else columns.merge(found)
    return total / survey.sizes[:, None], columns


def _chunk_predictions(chunk: Chunk, fold, models: FoldModels) -> tuple[np.ndarray, ColumnSums]:
    sums, parts = 0.0, []
    for block in chunk.blocks(rows=BLOCK_ROWS):
        predictions = models.predict(block.X, fold[block.bag])
        sums = sums + sum_rows(block.bag, predictions, len(fold))
        parts.append(ColumnSums.of(predictions))
    return sums, ColumnSums.merged(parts)
