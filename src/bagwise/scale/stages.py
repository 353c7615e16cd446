"""The stages and heads of a method, fitted to bags in partitions: a map over partitions, and a small reduction.

What comes before a head (scales, random features, predictions of instances out of fold) is a few sums. A head reads the
rows of bags from disk, a block at a time, by its own code for rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.auto.members import MeanTarget
from bagwise.bags import Bags
from bagwise.bags.checks import compared
from bagwise.bags.imputation import SHARE, Imputation, bag_medians
from bagwise.bags.segments import pooled, segment_mean
from bagwise.bags.validation import warn_user
from bagwise.embeddings import KernelMean, LandmarkMean, Pool
from bagwise.embeddings.feature_mean import FeatureMean
from bagwise.embeddings.landmarks import unbiasing
from bagwise.embeddings.summaries import Embedding, SlicedQuantiles, Statistics
from bagwise.instances import EachInstance, OutOfFold, OutOfFoldUnion
from bagwise.instances.networks.estimator import NetworkRegressor
from bagwise.instances.out_of_fold import PREDICTORS, WEIGHTINGS, fit_options, one_of, prepared
from bagwise.instances.random_feature_ridge import ColumnScaler, RandomFeatureRidge, design
from bagwise.kernels.formulas import FourierFeatures, varies
from bagwise.regressors import AggregateGP, EmbeddingRidge, EvidenceRidge, PredictionBlend, RidgePath
from bagwise.regressors.embedding_ridge import reads_covariates
from bagwise.regressors.row_blocks import RowBlocks
from bagwise.scale.streamed_networks import fit_networks
from bagwise.scale.training_data import MOST_VALUES, TrainingData

MOST_FOLDS = 64
CACHED_ROWS = 2048  # whose features stay in the core's cache
MOST_MEDIANS = 100_000  # bags, by which values are imputed that a whole bag lacks
HEADS = (EmbeddingRidge, EvidenceRidge, AggregateGP, PredictionBlend)


def is_streamed(model) -> bool:
    """Return whether all steps of a method can be fitted partition by partition."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    *stages, head = steps
    n_features = None if not stages else 1 if isinstance(stages[-1], OutOfFold | OutOfFoldUnion) else None
    if stages and isinstance(stages[-1], Embedding):
        return is_streamed_embedding(stages[-1]) and all(map(_is_streamed_stage, stages[:-1]))
    return all(map(_is_streamed_stage, stages)) and _is_streamed_head(head, n_features)


def _is_streamed_stage(stage) -> bool:
    if isinstance(stage, OutOfFoldUnion):
        return all(_is_streamed_stage(learner) for _, learner in stage.learners)
    if isinstance(stage, OutOfFold):
        if stage.judge is not None and not _is_streamed_head(stage.judge, 1):
            return False
        if isinstance(stage.regressor, RandomFeatureRidge):
            return isinstance(stage.regressor.fresh_features(), FourierFeatures | ColumnScaler)
        return isinstance(stage.regressor, NetworkRegressor)
    return isinstance(stage, Imputation) or is_standardised(stage)


def _is_streamed_head(head, n_features: int | None) -> bool:
    if isinstance(head, MeanTarget):
        return True
    if isinstance(head, PredictionBlend):
        return all(isinstance(part, EmbeddingRidge) and _is_streamed_head(part, 1) for _, part in head.readings)
    if isinstance(head, AggregateGP) and head.likelihood != "gaussian":
        return False
    if not isinstance(head, HEADS) or isinstance(head, EmbeddingRidge) and not isinstance(head.fresh_head(), RidgePath):
        return False
    return all(is_streamed_embedding(head.embedding_for(part), n_features) for part in head.settings())


def is_streamed_embedding(embedding, n_features: int | None = None) -> bool:
    """Return whether an embedding can be fitted on bags in partitions; ``n_features`` may be None if unknown."""
    if isinstance(embedding, KernelMean):
        return n_features == 1 and embedding.columns == "features" and embedding.map != "exact"
    if isinstance(embedding, LandmarkMean):
        return embedding.draw == "rows"
    if isinstance(embedding, FeatureMean):
        return isinstance(embedding.fresh_features(), FourierFeatures)
    return isinstance(embedding, Pool | SlicedQuantiles)


# Stages ---------------------------------------------------------------------------------------------------------------


def fit_stage(stage, data: TrainingData) -> tuple[Any, TrainingData]:
    """Return a fitted stage, and the data as the next one sees them."""
    if isinstance(stage, OutOfFold):
        stage, carried, column = _cross_fit(stage, data)
        return stage, carried.with_predictions(column)
    fits = {Imputation: fit_imputation, EachInstance: fit_scaling, OutOfFoldUnion: fit_union}
    return fits[type(stage)](stage, data)


def is_standardised(stage) -> bool:
    """Return whether a stage clips to the training range and standardises, as `regressors.pipeline.standardised`."""
    if not isinstance(stage, EachInstance) or not isinstance(stage.estimator, Pipeline):
        return False
    return [type(step) for _, step in stage.estimator.steps] == [MinMaxScaler, StandardScaler]


def fit_scaling(stage: EachInstance, data: TrainingData) -> tuple[EachInstance, TrainingData]:
    """Fit scalers of scikit-learn to two rows with the extremes of all rows, then to two with their scaled moments."""
    stage, columns = clone(stage), data.columns
    stage.estimator_ = clone(stage.estimator)
    (_, ranged), (_, standardised) = stage.estimator_.steps
    # A column that varies by rounding alone is constant: the order of adding must not decide how it is scaled.
    varying = varies(columns.deviation, np.maximum(np.abs(columns.low), np.abs(columns.high)))
    ends = np.vstack([columns.low, np.where(varying, columns.high, columns.low)])
    ranged.fit(ends.astype(data.parts[0].load().dtype))
    scaled = data.through(partial(_transform_rows, scaler=ranged)).columns
    mean, deviation = np.where(varying, scaled.mean, 0.0), np.where(varying, scaled.deviation, 0.0)
    standardised.fit(np.vstack([mean - deviation, mean + deviation]))
    ranged.n_samples_seen_ = standardised.n_samples_seen_ = columns.n
    data.remember(stage)
    covariates = data.covariates
    if covariates is not None:
        stage.covariate_scaler_ = make_pipeline(MinMaxScaler(clip=True), StandardScaler()).fit(covariates)
        covariates = stage.covariate_scaler_.transform(covariates)
    bag_arrays = replace(data.bag_arrays, covariates=covariates)
    return stage, replace(data.through(partial(_transform_bags, stage=stage), data.names), bag_arrays=bag_arrays)


def _transform_rows(bags: Bags, scaler) -> Bags:
    return bags._with(instances=scaler.transform(bags.instances))


def _transform_bags(bags: Bags, stage) -> Bags:
    return compared(stage.transform(bags))


def fit_imputation(stage: Imputation, data: TrainingData) -> tuple[Imputation, TrainingData]:
    """Fit an imputation from the medians of at most 100,000 bags, chosen by a hash of their ids."""
    stage = clone(stage)
    few = data.select(data.by_hash(MOST_MEDIANS * max(1, int(data.bag_arrays.sizes.mean())) * len(data.names or (1,))))
    columns = Bags._trusted(instances=np.zeros((1, data.n_features)), offsets=[0, 1], feature_names=data.names)
    has_missing = bool(np.isnan(data.columns.mean).any())
    stage.fit_medians(few.row_per_bag("medians", bag_medians), columns, has_missing=has_missing)
    data.remember(stage)
    names = None if data.names is None else (*data.names, *[SHARE] * stage.has_share_)
    return stage, replace(data.through(partial(_transform_bags, stage=stage), names), missing="imputed")


def fit_union(stage: OutOfFoldUnion, data: TrainingData) -> tuple[OutOfFoldUnion, TrainingData]:
    """Fit each learner; one that fails is left out with a warning, as in memory."""
    stage, predicted, failed = clone(stage), [], None
    stage.learners_, carried = {}, data
    for name, learner in stage.learners:
        try:
            fitted, carried, column = _cross_fit(learner, data)
        except (ValueError, np.linalg.LinAlgError) as error:
            failed = error
            warn_user(f"the learner {name!r} is left out: {error}")
            continue
        stage.learners_[name], stage.fold_ = fitted, fitted.fold_
        predicted.append(column)
    if failed is not None and not predicted:
        raise failed
    data.remember(stage)
    return stage, carried.with_predictions(*predicted, names=tuple(map(str, stage.learners_)))


def _cross_fit(stage: OutOfFold, data: TrainingData) -> tuple[OutOfFold, TrainingData, tuple[list, int]]:
    """Predict all instances out of fold, by ridge on random features or by networks trained on rows that stream.

    Return the fitted stage, the data that it carries on, and its predictions with the column of the best ones.
    """
    stage, carried = clone(stage), data
    one_of(stage.predictor, PREDICTORS, "predictor")
    one_of(stage.weighting, WEIGHTINGS, "weighting")
    stage.fold_ = data.folds(stage.folds, stage.random_state)
    n_folds = int(stage.fold_.max()) + 1
    if n_folds > MOST_FOLDS:
        raise ValueError(f"Got {n_folds:,} folds. A scan allows at most {MOST_FOLDS}. Set folds to fewer.")
    if data.weight is not None and len(set(stage.fold_[data.weight > 0].tolist())) < 2:
        raise ValueError("all bags of weight above zero are in one fold, so nothing can be predicted out of fold")
    weight = np.ones(len(data)) if stage.weighting == "instance" else 1 / data.bag_arrays.totals
    weight = weight if data.weight is None else weight * data.weight
    weight *= data.bag_arrays.sizes.sum() / (weight @ data.bag_arrays.totals)  # of mean one over the instances
    regressor = prepared(stage.regressor, stage.scaler, stage.random_state)
    if data.covariates is not None:
        names = None if data.names is None else (*data.names, *data.covariate_names)
        data = data.through(Bags.spread, names, ())
    fit = fit_fold_ridges if isinstance(regressor, RandomFeatureRidge) else partial(fit_networks, stage=stage)
    models, result = fit(regressor, data, fold=stage.fold_, weight=weight)
    predicted = data.each("predictions", _predictions, models, per_bag=(stage.fold_,))
    means = np.concatenate([arrays["means"] for arrays in predicted])
    errors = np.average((means - data.y[:, None]) ** 2, axis=0, weights=data.weight)
    carried.remember(stage, apart=stage.keep_covariates)
    carried = carried if stage.keep_covariates else replace(carried, covariate_names=())
    if len(errors) > 1:
        if stage.judge is not None:
            columns = [carried.with_predictions((predicted, c)) for c in range(len(errors))]
            errors = np.array([fit_head(clone(stage.judge), column).error_ for column in columns])
        stage.candidate_errors_ = errors
    chosen = int(np.argmin(errors))
    stage.keep(result, chosen)
    return stage, carried, (predicted, chosen)


def _predictions(part, fold: np.ndarray, models) -> dict:
    """Predict every instance by the model without its fold, for each candidate."""
    bags = part.load()
    predictions = models.predict(bags.instances, bags.expand(fold))
    return {"predictions": predictions, "means": segment_mean(predictions, bags.offsets, bags.weights)}


@dataclass(frozen=True)
class FoldRidges:
    """(β, b) without each fold, for several penalties."""

    features: Any
    models: dict[int, tuple[np.ndarray, np.ndarray]]

    def predict(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Predict each row by the model without its fold: (rows, penalties)."""
        out = np.empty((len(X), len(next(iter(self.models.values()))[1])))
        for k, rows in by_fold(fold):
            coef, intercept = self.models[k]
            out[rows] = self.features.transform(X[rows]).astype(np.float64) @ coef + intercept
        return out


def fit_fold_ridges(regressor: RandomFeatureRidge, data: TrainingData, *, fold, weight) -> tuple[FoldRidges, Any]:
    """Fit ridge on random features without each fold, from Σ w d dᵀ of every fold."""
    features, columns = regressor.fresh_features(), data.columns
    if isinstance(features, ColumnScaler):
        features.fit_moments(columns.mean, columns.deviation, columns.zeros / columns.n)
        features.n_features_in_, first = data.n_features, data.parts[0].load().instances[:CACHED_ROWS]
    else:
        first = data.sample(*features.sampling())
        features = features.fit_moments(columns.mean, columns.scale, first)
    origin = np.concatenate([[0.0], features.transform(first).mean(axis=0, dtype=np.float64), [data.y.mean()]])
    sums: dict[int, np.ndarray] = {}
    for arrays in data.each("fold-sums", _fold_sums, features, origin, per_bag=(fold, weight, data.y)):
        for name in arrays:
            sums[int(name)] = sums[int(name)] + arrays[name] if int(name) in sums else np.array(arrays[name])
    without, result = regressor.solve_folds(features, {k: sums[k] for k in sorted(sums)}, origin)
    return FoldRidges(features, without), result


def _fold_sums(part, fold, weight, y, features, origin) -> dict[str, np.ndarray]:
    """Add up w d dᵀ over the rows of each fold."""
    bags, sums = part.load(), dict[int, np.ndarray]()
    fold, y, root = bags.expand(fold), bags.expand(y), bags.expand(weight)
    root = np.sqrt(root if bags.weights is None else root * bags.weights)
    for k, rows in by_fold(fold):
        d = design(features.transform(bags.instances[rows]), y[rows], origin)
        d *= root[rows, None]
        sums[k] = sums[k] + d.T @ d if k in sums else d.T @ d
    return {str(k): total for k, total in sums.items()}


def by_fold(fold: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each fold and some of its rows, so few that their features stay in the core's cache."""
    order = np.argsort(fold, kind="stable")
    folds, starts = np.unique(fold[order], return_index=True)
    for k, rows in zip(folds, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), CACHED_ROWS):
            yield int(k), rows[start : start + CACHED_ROWS]


# Embeddings: a row per bag --------------------------------------------------------------------------------------------


def fit_embeddings(head, data: TrainingData) -> Iterator[tuple[dict, Any, RowBlocks]]:
    """Yield each setting of a head, the embedding fitted with it, and the rows of all bags."""
    settings = head.settings()
    unfitted = [head.embedding_for(setting) for setting in settings]
    if data.covariates is not None and not reads_covariates(unfitted[0]):
        data = data.through(Bags.without_covariates, data.names, ())
    if all(isinstance(embedding, KernelMean) for embedding in unfitted):
        yield from zip(settings, *_kernel_means(unfitted, data), strict=True)
        return
    for setting, embedding in zip(settings, unfitted, strict=True):
        yield setting, *fit_embedding(embedding, data)


def fit_embedding(embedding, data: TrainingData) -> tuple[Any, RowBlocks]:
    """Return a fitted embedding and the rows of all bags."""
    if isinstance(embedding, FeatureMean):
        features = embedding.fresh_features()
        columns = data.columns
        embedding.features_ = features.fit_moments(columns.mean, columns.scale, data.sample(*features.sampling()))
    elif isinstance(embedding, LandmarkMean):
        return _landmark_means(embedding, data)
    elif isinstance(embedding, Statistics):
        return _statistics(embedding, data)
    else:  # it learns nothing from the values
        embedding.fit(data.gather(np.arange(len(data)) == 0))
    data.remember(embedding)
    return embedding, data.row_blocks(data.rows("rows", embedding.transform))


def _statistics(embedding: Statistics, data: TrainingData) -> tuple[Statistics, RowBlocks]:
    data.remember(embedding)
    categories = data.parts[0].load().categories or {}
    levels = [level for levels in categories.values() for level in levels]
    names, middle = {name: j for j, name in enumerate(data.names or ())}, embedding.feature_range_in_.mean(axis=0)
    embedding.remember_levels(data.gather(np.arange(len(data)) == 0))
    embedding.levels_ = np.isin(list(names), levels) if names else embedding.levels_
    embedding.by_ = [(j, float(middle[j])) for j, _ in embedding.by_]
    data.remember(embedding)
    statistics = data.each("statistics", _all_statistics, embedding)
    ends = [arrays["ends"] for arrays in statistics]
    low, high = np.fmin.reduce([low for low, _ in ends]), np.fmax.reduce([high for _, high in ends])
    missing, is_known = (
        np.logical_or.reduce([arrays[name] for arrays in statistics], axis=0) for name in ("missing", "is_known")
    )
    embedding.keep_columns((high > low) | (missing & is_known))
    return embedding, data.row_blocks(statistics).chosen_columns(np.flatnonzero(embedding.varies_))


def _all_statistics(part, embedding: Statistics) -> dict:
    rows = embedding.all_columns(part.load())
    unknown = np.isnan(rows)
    ends = np.array([np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)])
    return {"rows": rows, "ends": ends, "missing": unknown.any(axis=0), "is_known": ~unknown.all(axis=0)}


def _landmark_means(embedding: LandmarkMean, data: TrainingData) -> tuple[LandmarkMean, RowBlocks]:
    few = data.gather(np.arange(len(data)) == 0)
    embedding.fit_sample(few, data.sample(*embedding.sampling()))
    data.remember(embedding)
    sums = data.each("landmarks", _landmark_sums, embedding)
    second, outer = (np.sum([arrays[name] for arrays in sums], axis=0) for name in ("second", "outer"))
    embedding.keep_noise_sums(second, outer, sum(int(arrays["n_several"]) for arrays in sums))
    return embedding, data.row_blocks(sums)


def _landmark_sums(part, embedding: LandmarkMean) -> dict:
    bags = part.load()
    unbias = unbiasing(bags.effective_sizes())
    means, second = embedding.means_and_products(bags, unbias)
    return {"rows": means, "second": second, "outer": (means.T * unbias) @ means, "n_several": np.count_nonzero(unbias)}


def _kernel_means(unfitted: list[KernelMean], data: TrainingData) -> tuple[list[KernelMean], list[RowBlocks]]:
    """Fit kernel means of scalars; the means of the polynomials of the longest series serve all on one interval."""
    columns, fitted = data.columns, []
    spread = float(columns.deviation[0]) or 1.0
    ends = data.gather(np.arange(len(data)) == 0)
    for embedding in unfitted:
        low, high, mean = (float(values[0]) for values in (columns.low, columns.high, columns.mean))
        fitted.append(embedding.fit_range(ends, low, high, mean, spread))
        data.remember(embedding)
    keys = [(embedding.spread_, *(float(end[0]) for end in embedding.range_)) for embedding in fitted]
    longest: dict[tuple, KernelMean] = {}
    for key, embedding in zip(keys, fitted, strict=True):
        longest[key] = max(embedding, longest.get(key, embedding), key=lambda each: each.length_)
    means = {key: data.rows("polynomials", embedding.polynomial_means) for key, embedding in longest.items()}
    rows = {key: data.row_blocks(results) for key, results in means.items()}
    return fitted, [rows[key].through(embedding.to_features_) for key, embedding in zip(keys, fitted, strict=True)]


# Heads ----------------------------------------------------------------------------------------------------------------


def fit_head(head, data: TrainingData):
    """Return a head fitted to the rows of all bags."""
    head = clone(head)
    if isinstance(head, MeanTarget):
        head.mean_ = float(np.average(data.y, weights=data.weight))
        data.remember(head)
        return head
    if isinstance(head, PredictionBlend):
        return _fit_blend(head, data)
    if isinstance(head, EmbeddingRidge):
        head.check_offset(data.n_features)
        head.remember_targets(data.y, data.weight)
        offset = 0.0 if head.offset == "none" else data.row_per_bag("offset", partial(pooled, statistic=head.offset))
        head.fit_embedded(
            fit_embeddings(head, data), data.y - offset, data.weight, data.bag_arrays.groups, data.covariates
        )
        data.remember(head)
        return head
    if data.covariates is not None:
        names = None if data.names is None else (*data.names, *data.covariate_names)
        data = data.through(Bags.spread, names, ())
    raw = data
    if data.missing == "impute":  # after the covariates are columns, as in memory
        head.imputation_, data = fit_imputation(Imputation(), data)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    if isinstance(head, EvidenceRidge):
        n_folds = min(head.folds, max(data.n_units, 2))
        fold = data.folds(n_folds, head.random_state) if len(head.settings()) > 1 else None
        head.fit_embedded(fit_embeddings(head, data), data.y, weight, fold)
    else:
        head.fit_embedded(fit_embeddings(head, data), data.y, weight, data.bag_arrays.totals)
        ends = [arrays["ends"] for arrays in data.each("exposures", _exposures)]
        exposures = None if ends[0].size == 0 else (min(low for low, _ in ends), max(high for _, high in ends))
        head.remember_exposures(exposures, data.bag_arrays.totals)
    raw.remember(head, apart=False)
    return head


def _exposures(part) -> dict:
    weights = part.load().weights
    counted = np.empty(0) if weights is None else weights[weights > 0]
    return {"ends": np.array([counted.min(), counted.max()]) if len(counted) else counted}


def _fit_blend(head: PredictionBlend, data: TrainingData) -> PredictionBlend:
    """Fit each reading of each column of predictions, and blend them."""
    head.remember_targets(data.y, data.weight)
    head.learners_ = list(data.names or map(str, range(data.n_features)))
    head.range_ = data.columns.low, data.columns.high
    fitted, failed = {}, None
    for j, learner in enumerate(head.learners_):
        column = data.through(partial(_select_column, column=j))
        for name, reading in head.readings:
            try:
                fitted[f"{learner}:{name}"] = fit_head(reading, column)
            except (ValueError, np.linalg.LinAlgError) as error:
                failed = error
                warn_user(f"the reading {name!r} of {learner!r} is left out: {error}")
    if not fitted:
        raise ValueError(f"no reading of any learner can be fitted: {failed}") from failed
    head.keep_readings(fitted, data.y, data.weight, data.folds("auto", head.random_state))
    data.remember(head)
    return head


def _select_column(bags: Bags, column: int) -> Bags:
    return bags._with(instances=bags.instances[:, [column]], feature_names=None)


def fit_rows(regressors: list, rows: RowBlocks, data: TrainingData):
    """Fit the last steps of a pipeline, of scikit-learn, to the rows of bags: of a sample if they are many."""
    most = max(2, MOST_VALUES // rows.width)
    width = len(data.names or ()) + len(data.covariate_names)
    chosen = data.by_hash(int(data.bag_arrays.sizes.mean() * width * most))
    if not chosen.all():
        warn_of_sample(int(chosen.sum()), len(data), type(regressors[-1]).__name__)
    Z = np.vstack([block for _, block in rows[chosen].blocks()])
    model = make_pipeline(*map(clone, regressors))
    weight = None if data.weight is None else data.weight[chosen]
    model.fit(Z, data.y[chosen], **fit_options(model, sample_weight=weight))
    return [step for _, step in model.steps]


def warn_of_sample(n: int, n_bags: int, name: str) -> None:
    """Warn that a method was fitted to some of the bags."""
    warn_user(
        f"{name} reads all its bags at once, and was fitted to a sample of {n:,} of {n_bags:,} bags, drawn by a hash "
        f"of their ids. All bags would need more than {MOST_VALUES:,} numbers in memory."
    )
