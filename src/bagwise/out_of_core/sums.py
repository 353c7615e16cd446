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

from bagwise.bags import Bags
from bagwise.bags.checks import compared
from bagwise.bags.folds import count_folds
from bagwise.embeddings import KernelMean, LandmarkMean
from bagwise.embeddings.feature_mean import FeatureMean
from bagwise.embeddings.landmarks import unbiasing
from bagwise.embeddings.summaries import POWERS, CovariatesBeside, Statistics, shape
from bagwise.instances import OutOfFold
from bagwise.instances.out_of_fold import PREDICTORS, WEIGHTINGS, one_of, prepared
from bagwise.instances.random_feature_ridge import design
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.passes import BLOCK_ROWS, Left, Passes, add, added
from bagwise.out_of_core.shards import Deal, Shard
from bagwise.out_of_core.survey import ColumnSums, Survey, sum_rows

CACHED_ROWS = 2048
MOST_FOLDS = 64


@dataclass(frozen=True)
class FoldRidges:
    """(β, b) without each fold, for one or several penalties; picklable, and small whatever the number of rows."""

    features: Any  # fitted random features
    models: dict[int, tuple[np.ndarray, np.ndarray]]

    @property
    def n_candidates(self) -> int:
        return len(next(iter(self.models.values()))[1])

    def predict(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Every row by the model without its fold: (rows, penalties)."""
        out = np.empty((len(X), self.n_candidates))
        for k, rows in by_fold(fold):
            coef, intercept = self.models[k]
            out[rows] = self.features.transform(X[rows]).astype(np.float64) @ coef + intercept
        return out

    def only(self, candidate: int) -> FoldRidges:
        chosen = {k: (coef[:, [candidate]], b[[candidate]]) for k, (coef, b) in self.models.items()}
        return replace(self, models=chosen)


@dataclass(frozen=True)
class Predicted:
    """The out-of-fold predictions of all instances: whose they are, their range and spread, and that of bag means."""

    models: Any  # of one candidate: `FoldRidges`, or others that predict rows of every fold
    columns: ColumnSums
    means: ColumnSums


def deal_folds(passes: Passes, survey: Survey, folds, column: str = "fold") -> int:
    """Keep the fold of every bag, that of `bag_folds`, by the seed of the passes; how many there are."""
    n_folds = count_folds(folds, survey.n_units, "bags" if passes.scan.groups is None else "groups")
    if n_folds > MOST_FOLDS:
        raise ValueError(f"every fold needs sums of its own, and {n_folds:,} are too many; take at most {MOST_FOLDS}")
    passes.by_shard(Shard.deal, Deal(survey.units, n_folds), column)
    return n_folds


def fit_out_of_fold(stage: OutOfFold, passes: Passes, survey: Survey) -> tuple[OutOfFold, Predicted]:
    """The stage fitted as if on all instances, in two passes; and what a head needs to know of its predictions."""
    stage, regressor, _ = begin_out_of_fold(stage, passes, survey)
    features = regressor.fresh_features()
    sample = survey.samples[features.sampling()]
    features = features.fit_sums(survey.columns.mean, survey.columns.scale, sample)
    origin = np.concatenate([[0.0], features.transform(sample).mean(axis=0, dtype=np.float64), survey.y.mean])
    sums = passes.total(_fold_sums, features, origin, known=("fold", "weight", "y"))
    without, result = regressor.from_sums(features, sums, origin)
    return end_out_of_fold(stage, passes, survey, FoldRidges(features, without), result)


def begin_out_of_fold(stage: OutOfFold, passes: Passes, survey: Survey) -> tuple[OutOfFold, Any, int]:
    """The stage, its regressor and the number of folds; the shards keep fold and weight of an instance of every bag."""
    stage = clone(stage)
    one_of(stage.predictor, PREDICTORS, "predictor")
    one_of(stage.weighting, WEIGHTINGS, "weighting")
    n_folds = deal_folds(passes, survey, stage.folds)
    if survey.weight is not None and np.count_nonzero(passes.by_shard(_weighed_folds)) < 2:
        raise ValueError("all bags of weight above zero are in one fold, so nothing can be predicted out of fold")
    passes.by_shard(_weigh, survey.columns.n / survey.n_bags if stage.weighting == "bag" else None, survey.weight)
    return stage, prepared(stage.regressor, stage.scaler, stage.random_state), n_folds


def end_out_of_fold(
    stage: OutOfFold, passes: Passes, survey: Survey, models, result, judge: Callable[[Predicted], float] | None = None
) -> tuple[OutOfFold, Predicted]:
    """The stage with the best of the candidates that ``models`` predict, by a judge or by the errors of bag means.

    The shards then keep the mean out-of-fold prediction of every bag as "predicted".
    """
    found = added(passes.each(_chunk_predictions, models, known=("fold",)))
    *sums, total = passes.by_shard(_candidate_errors, survey.weight)
    errors = np.array(sums) / total

    def predicted(candidate: int) -> Predicted:
        means = passes.by_shard(_keep_chosen, candidate)
        return Predicted(models.only(candidate), found.some([candidate]), means)

    if len(errors) > 1:
        errors = errors if judge is None else np.array([judge(predicted(c)) for c in range(len(errors))])
        stage.candidate_errors_ = errors
    chosen = int(np.argmin(errors))
    stage.keep(result, chosen)
    survey.remember(stage, apart=True)
    best = predicted(chosen)
    passes.shards.remove("predictions")
    return stage, best


def _weigh(shard: Shard, average: float | None, importance: str | None) -> None:
    """The weight of the bags, over the total of their instances if bags weigh the same; about one on average."""
    weight = np.ones(len(shard)) if average is None else average / shard["totals"]
    shard.keep("weight", weight if importance is None else weight * shard[importance])


def _weighed_folds(shard: Shard) -> np.ndarray:
    """Which folds have bags of a weight above zero."""
    found = np.zeros(MOST_FOLDS + 1, dtype=bool)
    found[shard["fold"][np.asarray(shard["importance"]) > 0]] = True
    return found


def _candidate_errors(shard: Shard, importance: str | None) -> np.ndarray:
    """Σ w (mean prediction - y)² over bags, for every candidate, and Σ w."""
    means = shard.gather("predictions") / shard["totals"][:, None]
    shard.keep("predictions", means)
    weight = np.ones(len(means)) if importance is None else np.asarray(shard[importance])
    return np.append(weight @ (means - shard["y"][:, None]) ** 2, weight.sum())


def _keep_chosen(shard: Shard, chosen: int) -> ColumnSums:
    predicted = np.array(shard["predictions"][:, chosen])
    shard.keep("predicted", predicted)
    return ColumnSums.of(predicted[:, None])


def _fold_sums(chunk: Chunk, fold, weight, y, features, origin) -> dict[int, np.ndarray]:
    """Σ w d dᵀ of the rows of every fold that has some here."""
    sums: dict[int, np.ndarray] = {}
    for block in chunk.blocks(rows=BLOCK_ROWS):
        targets, root = y[block.bag], weight[block.bag]
        root = np.sqrt(root if block.weight is None else root * block.weight)
        for k, rows in by_fold(fold[block.bag]):
            d = design(features.transform(block.X[rows]), targets[rows], origin)
            d *= root[rows, None]
            sums = add(sums, {k: d.T @ d})
    return sums


def by_fold(fold: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of every fold, some at a time: their features stay in the core's cache."""
    order = np.argsort(fold, kind="stable")
    folds, starts = np.unique(fold[order], return_index=True)
    for k, rows in zip(folds, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), CACHED_ROWS):
            yield int(k), rows[start : start + CACHED_ROWS]


def _chunk_predictions(chunk: Chunk, fold, models) -> Left:
    """Σ of the predictions of every bag for every penalty; and the sums of all predictions."""
    sums, columns = np.zeros((len(fold), models.n_candidates)), None
    for block in chunk.blocks(rows=BLOCK_ROWS):
        predictions = models.predict(block.X, fold[block.bag])
        sums += sum_rows(block.bag, predictions, len(fold), block.weight)
        columns = add(columns, ColumnSums.of(predictions))
    return Left({"predictions": sums}, columns)


SUMMABLE = ("mean", "variance", "deviation", "skewness", "kurtosis", "min", "max", "size")


def has_moments(embedding) -> bool:
    """Whether it is of statistics that follow from sums."""
    return isinstance(embedding, Statistics) and set(embedding.statistics) <= set(SUMMABLE)


def sum_statistics(embedding, passes: Passes, prepare) -> ColumnSums:
    """Keep the columns of `Pool` for every bag as "rows", of instances that ``prepare`` makes of those of a chunk."""
    width = len(passes.scan.feature_names)
    passes.leave(_first, width, prepare)
    passes.by_shard(_keep_first)
    passes.leave(_second, prepare, known=("inner",))
    plain = ~getattr(embedding, "levels_", np.zeros(width, dtype=bool))
    return passes.by_shard(_keep_statistics, embedding.statistics, plain)


def _keep_first(shard: Shard) -> None:
    mean, size = np.hsplit(shard.gather("first") / shard["totals"][:, None], 2)
    low, high = shard.gather("low", np.minimum), shard.gather("high", np.maximum)
    for name, rows in {"inner": mean, "size": size, "low": low, "high": high}.items():
        shard.keep(name, rows)


def _keep_statistics(shard: Shard, statistics, plain: np.ndarray) -> ColumnSums:
    powers = shard.gather("second") / shard["totals"][:, None]
    central = dict(zip((2, *POWERS.values()), np.hsplit(powers, 3), strict=True))
    deviation = np.sqrt(central[2])
    known = {"mean": shard["inner"], "min": shard["low"], "max": shard["high"], "size": np.log1p(shard["counted"])}
    known |= {"variance": central[2], "deviation": deviation}
    known |= {name: shape(power, central[power], deviation, shard["size"]) for name, power in POWERS.items()}
    # of a level of a category, the mean is all there is to say
    parts = [known[name] if name in ("mean", "size") else known[name][:, plain] for name in statistics]
    rows = np.column_stack(parts if "mean" in statistics else [*parts, known["mean"][:, ~plain]])
    shard.keep("rows", rows)
    return ColumnSums.of(rows)


def _first(chunk: Chunk, width: int, prepare) -> Left:
    """Σ x and Σ |x| side by side, and the extremes, of every bag of a chunk."""
    ids, codes = chunk.bags()
    n_bags = len(ids)
    sums, low = np.zeros((n_bags, 2 * width)), np.full((n_bags, width), np.inf)
    high = -low
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=codes):
        X = prepare(block.X)
        sums += sum_rows(block.bag, np.hstack([X, np.abs(X)]), n_bags, block.weight)
        order = np.argsort(block.bag, kind="stable")
        order = order if block.weight is None else order[block.weight[order] > 0]
        if len(order):
            bags, starts = np.unique(block.bag[order], return_index=True)
            for ends, extreme in ((low, np.minimum), (high, np.maximum)):
                ends[bags] = extreme(ends[bags], extreme.reduceat(X[order], starts, axis=0))
    return Left({"first": sums, "low": low, "high": high})


def _second(chunk: Chunk, mean, prepare) -> Left:
    """Σ (x - mean of its bag)^p for p = 2, 3, 4, side by side."""
    sums = np.zeros((len(mean), 3 * mean.shape[1]))
    for block in chunk.blocks(rows=BLOCK_ROWS):
        centred = prepare(block.X) - mean[block.bag]
        square = centred * centred
        powers = np.hstack([square, square * centred, square * square])
        sums += sum_rows(block.bag, powers, len(mean), block.weight)
    return Left({"second": sums})


class Prepare:
    """Rows of a chunk as the embedding sees them: in double precision, through the stage before it; picklable."""

    def __init__(self, stage=None):
        self.transformer = None if stage is None else stage.estimator_

    def __call__(self, X: np.ndarray) -> np.ndarray:
        X = X.astype(np.float64)
        return X if self.transformer is None else self.transformer.transform(X)


# Rows of embeddings ------------------------------------------------------------------------------------------------


class View(NamedTuple):
    """Rows of bags that the shards keep: which columns of which array, times a matrix if there is one.

    ``beside`` joins the covariates of the bags, which the shards keep under the name ``covariates``.
    """

    column: str = "rows"
    kept: Any = slice(None)
    matrix: np.ndarray | None = None
    beside: CovariatesBeside | None = None
    covariates: str = "covariates"

    def __call__(self, shard: Shard, bags: slice | np.ndarray = slice(None)) -> np.ndarray:
        rows = np.asarray(shard[self.column][bags])[:, self.kept]
        rows = rows if self.matrix is None else rows @ self.matrix
        return rows if self.beside is None else self.beside.join(rows, np.asarray(shard[self.covariates][bags]))


class Embedded(NamedTuple):
    """A setting of a head, the embedding fitted with it, and where the rows of the bags are."""

    setting: dict
    embedding: Any
    view: View


def _gather_means(shard: Shard) -> None:
    """Keep as "rows" what the chunks left under that name, divided by the totals of the bags."""
    shard.keep("rows", shard.gather("rows") / shard["totals"][:, None])


def embed_features(head, passes: Passes, survey: Survey) -> Iterator[Embedded]:
    """`FeatureMean` for every setting of the head: a pass each."""
    columns = survey.columns
    for setting in head.settings():
        embedding: FeatureMean = head.embedding_for(setting)
        features = embedding.fresh_features()
        sample = survey.samples[features.sampling()]
        embedding.features_ = features.fit_sums(columns.mean, columns.scale, sample)
        survey.remember(embedding)
        transform = embedding.features_.transform
        passes.leave(_sum_features, transform(sample[:1]).shape[1], transform)
        passes.by_shard(_gather_means)
        yield Embedded(setting, embedding, View())


def _sum_features(chunk: Chunk, width: int, features: Callable[[np.ndarray], np.ndarray]) -> Left:
    """Σ φ(x) over the rows of every bag of a chunk."""
    ids, codes = chunk.bags()
    sums = np.zeros((len(ids), width))
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=codes):
        sums += sum_rows(block.bag, features(block.X), len(ids), block.weight)
    return Left({"rows": sums})


def embed_landmarks(head, passes: Passes, survey: Survey) -> Iterator[Embedded]:
    """`LandmarkMean` for every setting of the head, all in one pass."""
    settings = head.settings()
    unfitted: list[LandmarkMean] = [head.embedding_for(one) for one in settings]
    fitted = [one.fit_sums(survey.some, survey.samples[one.sampling()]) for one in unfitted]
    passes.by_shard(_weigh_landmarks)
    seconds = passes.total(_sum_landmarks, fitted, known=("unbiasing",))
    ends = np.cumsum([0, *(len(one.landmarks_) for one in fitted)])
    places = [slice(*ends[k : k + 2]) for k in range(len(fitted))]
    outer = passes.by_shard(_gather_landmarks, places)
    for setting, embedding, place, second, own in zip(settings, fitted, places, seconds, outer, strict=True):
        survey.remember(embedding)
        embedding.keep_noise_sums(second, own, survey.n_several)
        yield Embedded(setting, embedding, View(kept=place))


def _weigh_landmarks(shard: Shard) -> None:
    shard.keep("unbiasing", unbiasing(shard["effective"]) / shard["totals"])


def _sum_landmarks(chunk: Chunk, weight, fitted) -> Left:
    widths = [len(one.landmarks_) for one in fitted]
    sums, seconds = np.zeros((len(weight), sum(widths))), [np.zeros((width, width)) for width in widths]
    for block in chunk.blocks(rows=BLOCK_ROWS):
        phis = [one.similarities(block.X) for one in fitted]
        sums += sum_rows(block.bag, np.hstack(phis), len(weight), block.weight)
        w = weight[block.bag] if block.weight is None else weight[block.bag] * block.weight
        seconds = [second + (phi.T * w) @ phi for second, phi in zip(seconds, phis, strict=True)]
    return Left({"rows": sums}, seconds)


def _gather_landmarks(shard: Shard, places: list[slice]) -> list[np.ndarray]:
    """Σ of `unbiasing` times the product of a bag's mean with itself, for every setting."""
    _gather_means(shard)
    rows, unbias = np.asarray(shard["rows"]), unbiasing(shard["effective"])
    return [(rows[:, place].T * unbias) @ rows[:, place] for place in places]


def embed_predictions(head, passes: Passes, survey: Survey, predicted: Predicted) -> Iterator[Embedded]:
    """`KernelMean` of out-of-fold predictions for every setting of the head, all in one pass.

    The polynomials of a short series are the first of a longer one on the same interval, so the means of the longest
    serve all.
    """
    columns, settings = predicted.columns, head.settings()
    spread = float(columns.deviation[0]) or 1.0
    found = float(columns.low[0]), float(columns.high[0]), float(columns.mean[0]), spread
    ends = compared(Bags(np.vstack([predicted.means.low, predicted.means.high]), [0, 1, 2]))
    fitted: list[KernelMean] = [head.embedding_for(setting).fit_sums(ends, *found) for setting in settings]
    longest = max(fitted, key=lambda one: one.length_)
    scale = longest.spread_, *longest.range_
    passes.leave(_sum_polynomials, predicted.models, longest.interpolant_, scale, known=("fold",))
    passes.by_shard(_gather_means)
    for setting, embedding in zip(settings, fitted, strict=True):
        survey.remember(embedding, predicted.means)
        yield Embedded(setting, embedding, View("rows", slice(0, embedding.length_), embedding.to_features_))


def _sum_polynomials(chunk: Chunk, fold, models, interpolant, scale) -> Left:
    # Numbers per row can be held for a whole chunk; its bags are then in one piece, however mixed the rows are.
    found = [
        (block.bag, models.predict(block.X, fold[block.bag])[:, 0], block.weight)
        for block in chunk.blocks(rows=BLOCK_ROWS)
    ]
    sums = np.zeros((len(fold), interpolant.length))
    if not found:
        return Left({"rows": sums})
    bag, values = (np.concatenate([one[k] for one in found]) for k in (0, 1))
    weight = None if found[0][2] is None else np.concatenate([one[2] for one in found])
    order = np.argsort(bag, kind="stable")
    order = order if weight is None else order[weight[order] > 0]
    sizes = np.bincount(bag[order], minlength=len(fold))
    total, there = sizes if weight is None else np.bincount(bag, weight, len(fold)), sizes > 0
    if there.any():
        spread, low, high = scale
        values = np.clip(values / spread, low, high)[order]
        offsets = np.append(0, np.cumsum(sizes[there]))
        own = Bags(values, offsets, weights=None if weight is None else weight[order])
        sums[there] = interpolant.means(own) * total[there, None]
    return Left({"rows": sums})
