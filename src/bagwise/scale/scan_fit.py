"""`fit_scan`: the ordinary model of a method, fitted to bags in partitions.

What comes before a head (scales, random features, predictions of instances out of fold) is a map over partitions and a
few sums. A head reads the rows of bags from disk, a block at a time, by its own code for rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.auto import AutoRegressor
from bagwise.auto.members import MeanTarget
from bagwise.bags import Bags
from bagwise.bags.checks import compared
from bagwise.bags.imputation import SHARE, Imputation, bag_medians
from bagwise.bags.segments import pooled, segment_mean
from bagwise.bags.validation import ParameterError, warn_user
from bagwise.embeddings import KernelMean, LandmarkMean, Pool
from bagwise.embeddings.feature_mean import FeatureMean, unbiasing
from bagwise.embeddings.summaries import Embedding, SlicedQuantiles, Statistics
from bagwise.instances import EachInstance, OutOfFold, OutOfFoldUnion
from bagwise.instances.networks.estimator import NetworkRegressor
from bagwise.instances.out_of_fold import PREDICTORS, WEIGHTINGS, fit_options, one_of, prepared
from bagwise.instances.random_feature_ridge import ColumnScaler, RandomFeatureRidge, design
from bagwise.intervals import Intervals
from bagwise.kernels.formulas import FourierFeatures, varies
from bagwise.methods import method
from bagwise.model_files.model_file import describe_counts
from bagwise.regressors import AggregateGP, EmbeddingRidge, EvidenceRidge, PredictionBlend, RidgePath
from bagwise.regressors.embedding_ridge import reads_covariates
from bagwise.regressors.pipeline import BagPipeline, first_step
from bagwise.regressors.row_blocks import RowBlocks
from bagwise.scale.passes import PassDisplay, Passes, open_work
from bagwise.scale.streamed_networks import fit_networks
from bagwise.scale.table_scan import Scan, need_scan
from bagwise.scale.training_data import MOST_VALUES, TrainingData, transformed

MOST_FOLDS = 64
CACHED_ROWS = 2048  # whose features stay in the core's cache
MOST_MEDIANS = 100_000  # bags, by which values are imputed that a whole bag lacks
HEADS = (EmbeddingRidge, EvidenceRidge, AggregateGP, PredictionBlend)


def fit_scan(scan: Scan, name="instance-kme:ridge", *, executor=None, random_state: int = 0, work=None, progress=False):
    """Fit a method to a table that need not fit into memory.

    The table is partitioned by bag once. Each pass is then a function of the partitions, mapped by the executor, whose
    results are arrays on disk; the last step of the method reads the rows of bags a block at a time.
    The model is an ordinary one: it predicts `Bags`, is saved and opened anywhere, and equals that of ``fit`` on the
    same data in memory to rounding (networks: in quality), however the rows are cut into files and chunks.

    Methods whose steps need all bags at once (a Gram matrix, trees, iterations over instances) are fitted on a sample
    of the bags, drawn by a hash of their ids, if the bags hold more than 67 million numbers; a warning is issued.

    Parameters
    ----------
    scan : Scan
        As `bagwise.scan` returns it, with a target.
    name : str or estimator
        A method, or "method:preset"; or an estimator with parameters of your own. "auto" compares methods on folds of
        bags and blends them (`AutoRegressor`). `Intervals` of a method, "auto" included, of kind "cv+" or "split".
    executor : object with ``run``, optional
        `Processes(n)` for several cores, `Dask(client)` for a cluster (see `bagwise.execution`). Default: this process,
        and inside `bagwise.cluster` its workers.
    random_state : int
        For a method by name; an estimator has its own.
    work : path of a folder, optional
        Where the partitions and the results of passes are kept; all workers must reach it. An interrupted fit continues
        from there when it is started again; a folder of other data, another method or another version is refused.
        When the model is saved, the folder can be removed. Default: a temporary folder, which is removed at the end.
    progress : bool, or a function of a `PassStep`
        Show the progress of each pass in the terminal, with rows per second and the time left; or call the function.

    Returns
    -------
    model : the fitted estimator

    Examples
    --------
    >>> import numpy as np, pandas as pd, bagwise as bw
    >>> site = np.repeat(np.arange(40), 5)
    >>> red = np.random.default_rng(0).normal(size=200) + site / 10
    >>> table = pd.DataFrame({"site": site, "red": red, "aod": site / 10})
    >>> model = bw.fit_scan(bw.scan(table, bag="site", target="aod", chunk_rows=30), "aggregated")
    >>> bags, y = bw.load(table, bag="site", target="aod")
    >>> bool(np.allclose(model.predict(bags), bw.method("aggregated").fit(bags, y).predict(bags)))
    True
    """
    with PassDisplay() if progress is True else nullcontext(progress or None) as report:
        model, passes = _prepare(scan, name, executor, random_state, work, report)
        with passes:
            return fit(model, TrainingData.of(scan, passes))


def fit_and_describe(scan: Scan, name, *, executor=None, random_state=0, work=None, progress=None) -> tuple:
    """Return the model of `fit_scan`, the description of its training data, and the errors of held-out bags."""
    model, passes = _prepare(scan, name, executor, random_state, work, progress)
    with passes:
        data = TrainingData.of(scan, passes)
        model = fit(model, data)
        return model, describe_counts(len(scan.feature_names), data.sizes, data.y), left_out_scores(model, data)


def _prepare(scan: Scan, name, executor, random_state: int, work, progress) -> tuple[Any, Passes]:
    """Check what can be checked before any pass; return the unfitted estimator, and the passes with their folder."""
    need_scan(scan)
    if scan.target is None:
        raise ParameterError("target", "The scan has no target to learn from. Scan the table with target= its column.")
    model = unfitted(name, random_state)
    if isinstance(model, Intervals):
        from bagwise.scale.held_out import check_intervals

        check_intervals(model)
    return model, Passes(executor, work=open_work(work, scan, model), progress=progress)


def unfitted(name, random_state: int):
    """Return an unfitted estimator, by its name or as a copy."""
    return method(name, random_state=random_state) if isinstance(name, str) else clone(name)


def left_out_scores(model, data: TrainingData) -> dict | None:
    """Return errors of bags, each predicted by a model that never saw it, where the model knows them."""
    residuals = getattr(_steps(model)[-1], "residuals_", None)
    if residuals is None or np.isnan(residuals).any():
        return None
    weight = data.weight if len(residuals) == len(data) else None
    error = float(np.sqrt(np.average(residuals**2, weights=weight)))
    absolute, spread = float(np.average(np.abs(residuals), weights=weight)), float(np.std(data.y))
    r2 = 1 - (error / spread) ** 2 if spread > 0 else 0.0
    return {"rmse": error, "mae": absolute, "r2": r2, "rmse_of_mean": spread}


# Methods --------------------------------------------------------------------------------------------------------------


def fit(model, data: TrainingData):
    """Fit an estimator to bags in partitions."""
    if len(data) < 2:
        raise ValueError("The scan has one bag. A fit needs at least two. Check where, and the column of bag ids.")
    if data.weight is not None and not (data.weight > 0).any():
        raise ValueError("The weight of every bag is zero. At least one must be above zero. Check the weights.")
    if isinstance(model, AutoRegressor | Intervals):
        from bagwise.scale.held_out import fit_auto, fit_intervals

        return fit_intervals(model, data) if isinstance(model, Intervals) else fit_auto(model, data)
    since = data.passes.count
    if is_streamed(model):
        model, current, fitted = _with_imputation(model, data), data, []
        *steps, last = _steps(model)
        while steps and not isinstance(steps[0], Embedding):
            stage, current = _fit_stage(steps.pop(0), current)
            fitted.append(stage)
        if steps:
            embedding, rows = fit_embedding(clone(steps[0]), current)
            fitted += [embedding, *_fit_rows([*steps[1:], last], rows, current)]
        else:
            fitted.append(fit_head(last, current))
        if isinstance(model, Pipeline):
            names = [name for name, _ in model.steps]
            model = clone(model)
            model.steps = list(zip(names, fitted, strict=True))
        else:
            (model,) = fitted
        data.remember_profile(model)
    else:
        model = _fit_sample(model, data)
    data.passes.forget(since)
    return model


def _with_imputation(model, data: TrainingData):
    """Return a method that imputes, if there are values to impute and the method does not do so itself."""
    if data.missing != "impute" or isinstance(first_step(model), Imputation):
        return model
    if isinstance(model, EvidenceRidge | AggregateGP):
        return model
    steps = model.steps if isinstance(model, Pipeline) else [("method", model)]
    return BagPipeline([("imputation", Imputation()), *steps])


def _steps(model) -> list:
    return [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]


def _fit_sample(model, data: TrainingData):
    """Fit a method that needs its bags at once: to all of them if they are few, otherwise to a sample."""
    chosen = data.by_hash()
    _warn_of_sample(chosen, model)
    order = np.argsort(data.first[chosen], kind="stable")  # as they come in the table
    bags, y = data.gather(chosen)._with(compared=False)[order], data.y[chosen][order]
    weight = None if data.weight is None else data.weight[chosen][order]
    return clone(model).fit(bags, y, **({} if weight is None else {"sample_weight": weight}))


def _fit_rows(regressors: list, rows: RowBlocks, data: TrainingData) -> list:
    """Fit the last steps of a pipeline, of scikit-learn, to the rows of bags: of a sample if they are many."""
    width = len(data.names or ()) + len(data.covariate_names)
    chosen = data.by_hash(int(data.sizes.mean() * width * max(2, MOST_VALUES // rows.width)))
    _warn_of_sample(chosen, regressors[-1])
    model = make_pipeline(*map(clone, regressors))
    weight = None if data.weight is None else data.weight[chosen]
    Z = np.vstack([block for _, block in rows[chosen].blocks()])
    model.fit(Z, data.y[chosen], **fit_options(model, sample_weight=weight))
    return _steps(model)


def _warn_of_sample(chosen: np.ndarray, model) -> None:
    if not chosen.all():
        warn_user(
            f"{type(model).__name__} reads all its bags at once, and was fitted to a sample of "
            f"{np.count_nonzero(chosen):,} of {len(chosen):,} bags, drawn by a hash of their ids. All bags would need "
            f"more than {MOST_VALUES:,} numbers in memory."
        )


def is_streamed(model) -> bool:
    """Return whether all steps of a method can be fitted partition by partition."""
    *stages, head = _steps(model)
    if stages and isinstance(stages[-1], Embedding):
        return _is_streamed_embedding(stages[-1]) and all(map(_is_streamed_stage, stages[:-1]))
    is_scalar = bool(stages) and isinstance(stages[-1], OutOfFold | OutOfFoldUnion)
    return all(map(_is_streamed_stage, stages)) and _is_streamed_head(head, is_scalar)


def _is_streamed_stage(stage) -> bool:
    if isinstance(stage, OutOfFoldUnion):
        return all(_is_streamed_stage(learner) for _, learner in stage.learners)
    if isinstance(stage, OutOfFold):
        if stage.judge is not None and not _is_streamed_head(stage.judge, True):
            return False
        if isinstance(stage.regressor, RandomFeatureRidge):
            return isinstance(stage.regressor.fresh_features(), FourierFeatures | ColumnScaler)
        return isinstance(stage.regressor, NetworkRegressor)
    if isinstance(stage, EachInstance) and isinstance(stage.estimator, Pipeline):  # `regressors.pipeline.standardised`
        return [type(step) for step in _steps(stage.estimator)] == [MinMaxScaler, StandardScaler]
    return isinstance(stage, Imputation)


def _is_streamed_head(head, is_scalar: bool) -> bool:
    if isinstance(head, MeanTarget):
        return True
    if isinstance(head, PredictionBlend):
        return all(isinstance(part, EmbeddingRidge) and _is_streamed_head(part, True) for _, part in head.readings)
    if isinstance(head, AggregateGP) and head.likelihood != "gaussian":
        return False
    if not isinstance(head, HEADS) or isinstance(head, EmbeddingRidge) and not isinstance(head.fresh_head(), RidgePath):
        return False
    return all(_is_streamed_embedding(head.embedding_for(part), is_scalar) for part in head.settings())


def _is_streamed_embedding(embedding, is_scalar: bool = False) -> bool:
    if isinstance(embedding, KernelMean):
        return is_scalar and embedding.columns == "features" and embedding.map != "exact"
    if isinstance(embedding, LandmarkMean):
        return embedding.draw == "rows"
    if isinstance(embedding, FeatureMean):
        return isinstance(embedding.fresh_features(), FourierFeatures)
    return isinstance(embedding, Pool | SlicedQuantiles)


# Stages: from the bags of each partition to others --------------------------------------------------------------------


def _fit_stage(stage, data: TrainingData) -> tuple[Any, TrainingData]:
    """Return a fitted stage, and the data as the next one sees them."""
    if isinstance(stage, OutOfFold):
        stage, carried, column = _cross_fit(stage, data)
        return stage, carried.with_predictions(column)
    fits = {Imputation: fit_imputation, EachInstance: _fit_scaling, OutOfFoldUnion: _fit_union}
    return fits[type(stage)](stage, data)


def _fit_scaling(stage: EachInstance, data: TrainingData) -> tuple[EachInstance, TrainingData]:
    """Fit scalers of scikit-learn to two rows with the extremes of all rows, then to two with their scaled moments."""
    stage, columns = clone(stage), data.columns
    stage.estimator_ = clone(stage.estimator)
    ranged, standardised = _steps(stage.estimator_)
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
    return stage, data.through(partial(_transform_bags, stage=stage), data.names, covariates=covariates)


def _transform_rows(bags: Bags, scaler) -> Bags:
    return bags._with(instances=scaler.transform(bags.instances))


def _transform_bags(bags: Bags, stage) -> Bags:
    return compared(stage.transform(bags))


def fit_imputation(stage: Imputation, data: TrainingData) -> tuple[Imputation, TrainingData]:
    """Fit an imputation from the medians of at most 100,000 bags, chosen by a hash of their ids."""
    stage = clone(stage)
    few = data.select(data.by_hash(MOST_MEDIANS * max(1, int(data.sizes.mean())) * len(data.names or (1,))))
    columns = Bags._trusted(instances=np.zeros((1, data.n_features)), offsets=[0, 1], feature_names=data.names)
    has_missing = bool(np.isnan(data.columns.mean).any())
    stage.fit_medians(few.row_per_bag("medians", bag_medians), columns, has_missing=has_missing)
    data.remember(stage)
    names = None if data.names is None else (*data.names, *[SHARE] * stage.has_share_)
    return stage, data.through(partial(_transform_bags, stage=stage), names, missing="imputed")


def _fit_union(stage: OutOfFoldUnion, data: TrainingData) -> tuple[OutOfFoldUnion, TrainingData]:
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
    weight = np.ones(len(data)) if stage.weighting == "instance" else 1 / data.totals
    weight = weight if data.weight is None else weight * data.weight
    weight *= data.sizes.sum() / (weight @ data.totals)  # of mean one over the instances
    regressor = prepared(stage.regressor, stage.scaler, stage.random_state)
    data = data.spread()
    fit_folds = _fit_fold_ridges if isinstance(regressor, RandomFeatureRidge) else partial(fit_networks, stage=stage)
    models, result = fit_folds(regressor, data, fold=stage.fold_, weight=weight)
    predicted = data.passes.each("predictions", _predictions, data.tasks(stage.fold_), models)
    means = np.concatenate([arrays["means"] for arrays in predicted])
    errors = np.average((means - data.y[:, None]) ** 2, axis=0, weights=data.weight)
    carried.remember(stage, apart=stage.keep_covariates)
    carried = carried if stage.keep_covariates else carried.without_covariates()
    if len(errors) > 1:
        if stage.judge is not None:
            columns = [carried.with_predictions((predicted, c)) for c in range(len(errors))]
            errors = np.array([fit_head(stage.judge, column).error_ for column in columns])
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
        for k, rows in _by_fold(fold):
            coef, intercept = self.models[k]
            out[rows] = self.features.transform(X[rows]).astype(np.float64) @ coef + intercept
        return out


def _fit_fold_ridges(regressor: RandomFeatureRidge, data: TrainingData, *, fold, weight) -> tuple[FoldRidges, Any]:
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
    for arrays in data.passes.each("fold-sums", _fold_sums, data.tasks(fold, weight, data.y), features, origin):
        for name in arrays:
            sums[int(name)] = sums[int(name)] + arrays[name] if int(name) in sums else np.array(arrays[name])
    without, result = regressor.solve_folds(features, {k: sums[k] for k in sorted(sums)}, origin)
    return FoldRidges(features, without), result


def _fold_sums(part, fold, weight, y, features, origin) -> dict[str, np.ndarray]:
    """Add up w d dᵀ over the rows of each fold."""
    bags, sums = part.load(), dict[int, np.ndarray]()
    fold, y, root = bags.expand(fold), bags.expand(y), bags.expand(weight)
    root = np.sqrt(root if bags.weights is None else root * bags.weights)
    for k, rows in _by_fold(fold):
        d = design(features.transform(bags.instances[rows]), y[rows], origin)
        d *= root[rows, None]
        sums[k] = sums[k] + d.T @ d if k in sums else d.T @ d
    return {str(k): total for k, total in sums.items()}


def _by_fold(fold: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each fold and some of its rows, so few that their features stay in the core's cache."""
    order = np.argsort(fold, kind="stable")
    folds, starts = np.unique(fold[order], return_index=True)
    for k, rows in zip(folds, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), CACHED_ROWS):
            yield int(k), rows[start : start + CACHED_ROWS]


# Embeddings: a row per bag --------------------------------------------------------------------------------------------


def _fit_embeddings(head, data: TrainingData) -> Iterable[tuple[dict, Any, RowBlocks]]:
    """Return each setting of a head, the embedding fitted with it, and the rows of all bags."""
    settings, fitted = head.settings(), []
    embeddings = [head.embedding_for(setting) for setting in settings]
    if data.covariates is not None and not reads_covariates(embeddings[0]):
        data = data.through(Bags.without_covariates, data.names).without_covariates()
    if not all(isinstance(embedding, KernelMean) for embedding in embeddings):
        # One at a time, so that the head reads the rows of a setting while the system still has them in memory.
        return ((setting, *fit_embedding(each, data)) for setting, each in zip(settings, embeddings, strict=True))
    # Kernel means of scalars: on one interval the polynomials of the longest series serve all.
    keys, longest, rows = _fit_ranges(embeddings, data), dict[tuple, KernelMean](), {}
    for key, embedding in zip(keys, embeddings, strict=True):
        longest[key] = max(embedding, longest.get(key, embedding), key=lambda each: each.length_)
    for key, embedding in longest.items():
        means = data.passes.each("polynomials", transformed, data.tasks(), embedding.polynomial_means)
        rows[key] = data.row_blocks(means)
    for setting, embedding, key in zip(settings, embeddings, keys, strict=True):
        fitted.append((setting, embedding, rows[key].through(embedding.to_features_)))
    return fitted


def _fit_ranges(embeddings: list[KernelMean], data: TrainingData) -> list[tuple]:
    """Fit kernel means of scalars to the range of the values; return the scaling and the interval of each."""
    columns, keys = data.columns, []
    low, high, mean = (float(values[0]) for values in (columns.low, columns.high, columns.mean))
    for embedding in embeddings:
        embedding.fit_range(data.first_bag(), low, high, mean, float(columns.deviation[0]) or 1.0)
        data.remember(embedding)
        keys.append((embedding.spread_, *(float(end[0]) for end in embedding.range_)))
    return keys


def fit_embedding(embedding, data: TrainingData) -> tuple[Any, RowBlocks]:
    """Return a fitted embedding and the rows of all bags."""
    if isinstance(embedding, LandmarkMean):
        return _landmark_means(embedding, data)
    if isinstance(embedding, Statistics):
        return _statistics(embedding, data)
    if isinstance(embedding, FeatureMean):
        features, columns = embedding.fresh_features(), data.columns
        embedding.features_ = features.fit_moments(columns.mean, columns.scale, data.sample(*features.sampling()))
    else:  # it learns nothing from the values
        embedding.fit(data.first_bag())
    data.remember(embedding)
    return embedding, data.row_blocks(data.passes.each("rows", transformed, data.tasks(), embedding.transform))


def _statistics(embedding: Statistics, data: TrainingData) -> tuple[Statistics, RowBlocks]:
    data.remember(embedding)
    categories = data.parts[0].load().categories or {}
    levels = [level for levels in categories.values() for level in levels]
    names, middle = {name: j for j, name in enumerate(data.names or ())}, embedding.feature_range_in_.mean(axis=0)
    embedding.remember_levels(data.first_bag())
    embedding.levels_ = np.isin(list(names), levels) if names else embedding.levels_
    embedding.by_ = [(j, float(middle[j])) for j, _ in embedding.by_]
    data.remember(embedding)
    statistics = data.passes.each("statistics", _all_statistics, data.tasks(), embedding)
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
    embedding.fit_sample(data.first_bag(), data.sample(*embedding.sampling()))
    data.remember(embedding)
    sums = data.passes.each("landmarks", _landmark_sums, data.tasks(), embedding)
    second, outer = (np.sum([arrays[name] for arrays in sums], axis=0) for name in ("second", "outer"))
    embedding.keep_noise_sums(second, outer, sum(int(arrays["n_several"]) for arrays in sums))
    return embedding, data.row_blocks(sums)


def _landmark_sums(part, embedding: LandmarkMean) -> dict:
    bags = part.load()
    unbias = unbiasing(bags.effective_sizes())
    means, second = embedding.means_and_products(bags, unbias)
    return {"rows": means, "second": second, "outer": (means.T * unbias) @ means, "n_several": np.count_nonzero(unbias)}


# Heads: from the rows of all bags to a model --------------------------------------------------------------------------


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
        rows, y = _fit_embeddings(head, data), data.y - offset
        head.fit_embedded(rows, y, data.weight, data.groups, data.covariates)
        data.remember(head)
        return head
    data = raw = data.spread()
    if data.missing == "impute":  # after the covariates are columns, as in memory
        head.imputation_, data = fit_imputation(Imputation(), data)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    if isinstance(head, EvidenceRidge):
        n_folds = min(head.folds, max(data.n_units, 2))
        fold = data.folds(n_folds, head.random_state) if len(head.settings()) > 1 else None
        head.fit_embedded(_fit_embeddings(head, data), data.y, weight, fold)
    else:
        head.fit_embedded(_fit_embeddings(head, data), data.y, weight, data.totals)
        head.remember_exposures(data.totals, weighted=data.parts[0].load().weights is not None)
    raw.remember(head, apart=False)
    return head


def _fit_blend(head: PredictionBlend, data: TrainingData) -> PredictionBlend:
    """Fit each reading of each column of predictions, and blend them."""
    head.remember_targets(data.y, data.weight)
    head.learners_ = list(data.names or map(str, range(data.n_features)))
    head.range_ = data.columns.low, data.columns.high
    columns = (data.through(partial(_select_column, column=j)) for j in range(len(head.learners_)))
    fitted = head.fit_readings(zip(head.learners_, columns, strict=True), fit_head)
    head.keep_readings(fitted, data.y, data.weight, data.folds("auto", head.random_state))
    data.remember(head)
    return head


def _select_column(bags: Bags, column: int) -> Bags:
    return bags._with(instances=bags.instances[:, [column]], feature_names=None)
