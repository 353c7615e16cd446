"""Stages and embeddings fitted from sums over chunks, where the rows of a bag may be in several of them.

- Out-of-fold predictions of random-feature ridge, from Σ w d dᵀ of every fold.
- Moments and extremes of every feature in every bag, in two passes: about the bag's own mean, so that nothing cancels.
- Rows of `FeatureMean`, `LandmarkMean` and `KernelMean`: Σ φ(x) over the instances of a bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags, bag_folds, check_weights, remember_columns
from bagwise.embeddings import KernelMean, LandmarkMean
from bagwise.embeddings.feature_mean import FeatureMean
from bagwise.embeddings.landmarks import unbiasing
from bagwise.embeddings.summaries import POWERS, shape
from bagwise.instances import OutOfFold
from bagwise.instances.out_of_fold import PREDICTORS, WEIGHTINGS, one_of, prepared
from bagwise.instances.random_feature_ridge import design
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.passes import BLOCK_ROWS, ColumnSums, Passes, Survey, Tally, sum_rows

CACHED_ROWS = 2048
MOST_FOLDS = 64


@dataclass(frozen=True)
class FoldRidges:
    """(β, b) without each fold, for one or several penalties; picklable, and small whatever the number of rows."""

    features: Any  # fitted random features
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

    def only(self, candidate: int) -> FoldRidges:
        chosen = {k: (coef[:, [candidate]], b[[candidate]]) for k, (coef, b) in self.models.items()}
        return replace(self, models=chosen)


@dataclass(frozen=True)
class Predicted:
    """The out-of-fold predictions of all instances: whose they are, their range and spread, and their bag means."""

    models: FoldRidges
    columns: ColumnSums
    bags: Bags
    fold: np.ndarray


def fit_out_of_fold(stage: OutOfFold, passes: Passes, survey: Survey) -> tuple[OutOfFold, Predicted]:
    """The stage fitted as if on all instances, in two passes; and what a head needs to know of its predictions."""
    stage = clone(stage)
    one_of(stage.predictor, PREDICTORS, "predictor")
    one_of(stage.weighting, WEIGHTINGS, "weighting")
    bags, y = survey.apart, survey.y
    stage.fold_ = bag_folds(bags, stage.folds, random_state=stage.random_state)
    if (n_folds := stage.fold_.max() + 1) > MOST_FOLDS:
        raise ValueError(f"every fold needs sums of its own, and {n_folds:,} are too many; take at most {MOST_FOLDS}")
    regressor = prepared(stage.regressor, stage.scaler, stage.random_state)
    features = regressor.fresh_features().fit_sums(survey.columns.mean, survey.columns.scale, survey.sample)
    origin = np.concatenate([[0.0], features.transform(survey.sample).mean(axis=0, dtype=np.float64), [y.mean()]])
    importance = check_weights(survey.weight, bags)
    if importance is not None and len(set(stage.fold_[importance > 0].tolist())) < 2:
        raise ValueError("all bags of weight above zero are in one fold, so nothing can be predicted out of fold")
    weights = 1.0 / survey.totals if stage.weighting == "bag" else np.ones(len(y))
    weights = weights if importance is None else weights * importance
    known = (stage.fold_, weights / np.average(weights, weights=survey.totals), y)
    sums = passes.total(_fold_sums, features, origin, known=known, add=_add_folds)
    without, result = regressor.from_sums(features, sums, origin)
    models = FoldRidges(features, without)
    means, found = _predictions(passes, survey, stage.fold_, models)
    predicted = stage.adopt(replace(result, predictions=means), bags, y, importance)
    chosen = result.candidates.index(stage.candidate_)
    one = ColumnSums(found.n, *(part[[chosen]] for part in (found.mean, found.scatter, found.low, found.high)))
    return stage, Predicted(models.only(chosen), one, predicted, stage.fold_)


def _fold_sums(chunk: Chunk, fold, weight, y, features, origin) -> dict[int, np.ndarray]:
    """Σ w d dᵀ of the rows of every fold that has some here."""
    sums: dict[int, np.ndarray] = {}
    for block in chunk.blocks(rows=BLOCK_ROWS):
        targets, root = y[block.bag], weight[block.bag]
        root = np.sqrt(root if block.weight is None else root * block.weight)
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


def _predictions(passes: Passes, survey: Survey, fold, models: FoldRidges) -> tuple[np.ndarray, ColumnSums]:
    """The mean prediction of every bag for every penalty, and the sums of all predictions."""
    total = np.zeros((passes.n_bags, models.n_penalties))
    columns: Any = None
    for own, (sums, found) in zip(passes.own, passes.each(_chunk_predictions, models, known=(fold,)), strict=True):
        total[own] += sums
        columns = found if columns is None else columns.merge(found)
    return total / survey.totals[:, None], columns


def _chunk_predictions(chunk: Chunk, fold, models: FoldRidges) -> tuple[np.ndarray, ColumnSums]:
    sums: Any = 0.0
    parts = []
    for block in chunk.blocks(rows=BLOCK_ROWS):
        predictions = models.predict(block.X, fold[block.bag])
        sums = sums + sum_rows(block.bag, predictions, len(fold), block.weight)
        parts.append(ColumnSums.of(predictions))
    return sums, ColumnSums.merged(parts)


SUMMABLE = ("mean", "variance", "deviation", "skewness", "kurtosis", "min", "max", "size")


class Extremes(NamedTuple):
    """The smallest and largest value of every feature in every bag."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def none(cls, n_bags: int, width: int) -> Extremes:
        return cls(np.full((n_bags, width), np.inf), np.full((n_bags, width), -np.inf))

    def take(self, bags: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Widen those of some bags, none named twice."""
        self.low[bags], self.high[bags] = np.minimum(self.low[bags], low), np.maximum(self.high[bags], high)


def statistics_rows(embedding, passes: Passes, tally: Tally, prepare) -> np.ndarray:
    """The columns of `Statistics` for every bag, of instances that ``prepare`` makes of the rows of a chunk."""
    width = len(passes.scan.feature_names)
    sums, extremes = np.zeros((passes.n_bags, 2 * width)), Extremes.none(passes.n_bags, width)
    for own, (part, low, high) in zip(passes.own, passes.each(_first, prepare), strict=True):
        sums[own] += part
        extremes.take(own, low, high)
    mean, size = np.hsplit(sums / tally.totals[:, None], 2)
    powers = passes.sum_by_bag(_second, prepare, known=(mean,)) / tally.totals[:, None]
    central = dict(zip((2, *POWERS.values()), np.hsplit(powers, 3), strict=True))
    deviation = np.sqrt(central[2])
    known = {"mean": mean, "min": extremes.low, "max": extremes.high, "size": np.log1p(tally.counted)}
    known |= {"variance": central[2], "deviation": deviation}
    known |= {name: shape(power, central[power], deviation, size) for name, power in POWERS.items()}
    plain = ~getattr(embedding, "levels_", np.zeros(width, dtype=bool))  # of a level, the mean is all there is to say
    parts = [known[name] if name in ("mean", "size") else known[name][:, plain] for name in embedding.statistics]
    return np.column_stack(parts if "mean" in embedding.statistics or plain.all() else [*parts, mean[:, ~plain]])


def _first(chunk: Chunk, prepare) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ x and Σ |x| side by side, and the extremes, of every bag of a chunk."""
    sums: Any = 0.0
    extremes: Any = None
    ids, codes = chunk.bags()
    n_bags = len(ids)
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=codes):
        X = prepare(block.X)
        sums = sums + sum_rows(block.bag, np.hstack([X, np.abs(X)]), n_bags, block.weight)
        extremes = Extremes.none(n_bags, X.shape[1]) if extremes is None else extremes
        order = np.argsort(block.bag, kind="stable")
        order = order if block.weight is None else order[block.weight[order] > 0]
        if not len(order):
            continue
        bags, starts = np.unique(block.bag[order], return_index=True)
        low, high = (extreme.reduceat(X[order], starts, axis=0) for extreme in (np.minimum, np.maximum))
        extremes.take(bags, low, high)
    return sums, *extremes


def _second(chunk: Chunk, mean, prepare) -> np.ndarray:
    """Σ (x - mean of its bag)^p for p = 2, 3, 4, side by side."""
    sums: Any = 0.0
    for block in chunk.blocks(rows=BLOCK_ROWS):
        centred = prepare(block.X) - mean[block.bag]
        square = centred * centred
        powers = np.hstack([square, square * centred, square * square])
        sums = sums + sum_rows(block.bag, powers, len(mean), block.weight)
    return sums


class Prepare:
    """Rows of a chunk as the embedding sees them: in double precision, through the stage before it; picklable."""

    def __init__(self, stage=None):
        self.transformer = None if stage is None else stage.estimator_

    def __call__(self, X: np.ndarray) -> np.ndarray:
        X = X.astype(np.float64)
        return X if self.transformer is None else self.transformer.transform(X)


Embedded = Iterator[tuple[dict, object, np.ndarray]]  # (setting, fitted embedding, rows)


def embed_features(head, passes: Passes, survey: Survey) -> Embedded:
    """`FeatureMean` for every setting of the head: a pass each."""
    columns = survey.columns
    for setting in head.settings():
        embedding: FeatureMean = head.embedding_for(setting)
        embedding.features_ = embedding.fresh_features().fit_sums(columns.mean, columns.scale, survey.sample)
        remember_columns(embedding, survey.bags.without_covariates())
        sums = passes.sum_by_bag(sum_features, embedding.features_.transform)
        yield setting, embedding, sums / survey.totals[:, None]


def sum_features(chunk: Chunk, features: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Σ φ(x) over the rows of every bag of a chunk."""
    sums: Any = 0.0
    ids, codes = chunk.bags()
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=codes):
        sums = sums + sum_rows(block.bag, features(block.X), len(ids), block.weight)
    return sums


def embed_landmarks(head, passes: Passes, survey: Survey) -> Embedded:
    """`LandmarkMean` for every setting of the head, all in one pass."""
    settings = head.settings()
    fitted: list[LandmarkMean] = [
        head.embedding_for(setting).fit_sums(survey.bags, survey.sample) for setting in settings
    ]
    effective = survey.tally.effective
    weight = unbiasing(effective) / survey.totals
    seconds: Any = None
    sums = np.zeros((passes.n_bags, sum(len(one.landmarks_) for one in fitted)))
    for own, (rows, second) in zip(passes.own, passes.each(_sum_landmarks, fitted, known=(weight,)), strict=True):
        sums[own] += rows
        seconds = second if seconds is None else [a + b for a, b in zip(seconds, second, strict=True)]
    ends = np.cumsum([len(one.landmarks_) for one in fitted])[:-1]
    for setting, embedding, own, second in zip(settings, fitted, np.split(sums, ends, axis=1), seconds, strict=True):
        means = own / survey.totals[:, None]
        embedding.keep_noise(means, second, effective)
        yield setting, embedding, means


def _sum_landmarks(chunk: Chunk, weight, fitted) -> tuple[np.ndarray, list[np.ndarray]]:
    sums: Any = 0.0
    seconds: list[Any] = [0.0] * len(fitted)
    for block in chunk.blocks(rows=BLOCK_ROWS):
        phis = [one.similarities(block.X) for one in fitted]
        sums = sums + sum_rows(block.bag, np.hstack(phis), len(weight), block.weight)
        w = weight[block.bag] if block.weight is None else weight[block.bag] * block.weight
        seconds = [second + (phi.T * w) @ phi for second, phi in zip(seconds, phis, strict=True)]
    return sums, seconds


def embed_predictions(head, passes: Passes, survey: Survey, predicted: Predicted) -> Embedded:
    """`KernelMean` of out-of-fold predictions for every setting of the head, all in one pass.

    The polynomials of a short series are the first of a longer one on the same interval, so the means of the longest
    serve all.
    """
    columns, settings = predicted.columns, head.settings()
    spread = float(columns.deviation[0]) or 1.0
    found = float(columns.low[0]), float(columns.high[0]), float(columns.mean[0]), spread
    bags = predicted.bags.without_covariates()
    fitted: list[KernelMean] = [head.embedding_for(setting).fit_sums(bags, *found) for setting in settings]
    longest = max(fitted, key=lambda one: one.length_)
    known = (predicted.fold,)
    scale = longest.spread_, *longest.range_
    means = passes.sum_by_bag(_sum_polynomials, predicted.models, longest.interpolant_, scale, known=known)
    means /= survey.totals[:, None]  # in place: of all that this process holds, it is the largest
    for setting, embedding in zip(settings, fitted, strict=True):
        # `rows_of` keeps rows apart, which training rows need not be: a product of matrices is ten times as fast.
        yield setting, embedding, means[:, : embedding.length_] @ embedding.to_features_


def _sum_polynomials(chunk: Chunk, fold, models, interpolant, scale) -> np.ndarray:
    # Numbers per row can be held for a whole chunk; its bags are then in one piece, however mixed the rows are.
    found = [
        (block.bag, models.predict(block.X, fold[block.bag])[:, 0], block.weight)
        for block in chunk.blocks(rows=BLOCK_ROWS)
    ]
    sums = np.zeros((len(fold), interpolant.length))
    bag, values = (np.concatenate(part) for part in list(zip(*found, strict=True))[:2])
    weight = np.ones(len(bag)) if found[0][2] is None else np.concatenate([one[2] for one in found])
    order = np.argsort(bag, kind="stable")
    order = order[weight[order] > 0]
    sizes, total = np.bincount(bag[order], minlength=len(fold)), np.bincount(bag, weight, len(fold))
    there = sizes > 0
    if there.any():
        spread, low, high = scale
        values = np.clip(values / spread, low, high)[order]
        offsets = np.append(0, np.cumsum(sizes[there]))
        own = Bags(values, offsets, weights=None if found[0][2] is None else weight[order])
        sums[there] = interpolant.means(own) * total[there, None]
    return sums
