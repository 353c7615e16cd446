"""`fit_scan`: the ordinary model of a method, fitted from sums over the chunks of a scan."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.auto import AutoRegressor
from bagwise.auto.blend import SumBlend, blend_sums
from bagwise.auto.members import MEAN, MeanTarget
from bagwise.auto.preparation import Routing
from bagwise.auto.summary import error_columns
from bagwise.bags import Bags
from bagwise.bags.checks import compared, remember_range
from bagwise.bags.imputation import Imputation
from bagwise.bags.validation import Parameter, ParameterError
from bagwise.embeddings import KernelMean, LandmarkMean, Pool
from bagwise.embeddings.feature_mean import FeatureMean
from bagwise.embeddings.kernel_mean import NarrowKernelError
from bagwise.embeddings.summaries import Statistics
from bagwise.instances import EachInstance, OutOfFold
from bagwise.instances.networks.estimator import NetworkRegressor
from bagwise.instances.random_feature_ridge import RandomFeatureRidge
from bagwise.intervals import Intervals
from bagwise.kernels.formulas import FourierFeatures, varies
from bagwise.methods import CATALOGUE, method
from bagwise.out_of_core.checkpoints import open_work
from bagwise.out_of_core.passes import PassDisplay, Passes, added
from bagwise.out_of_core.scan_heads import (
    FOLD,
    ErrorSums,
    Folds,
    HeldOut,
    error_sums,
    fit_aggregate,
    fit_evidence,
    fit_ridge,
    limits_of,
)
from bagwise.out_of_core.scan_intervals import fit_intervals
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.streamed_networks import fit_networks
from bagwise.out_of_core.sums import (
    Embedded,
    Prepare,
    View,
    embed_features,
    embed_landmarks,
    embed_predictions,
    fit_out_of_fold,
    has_moments,
    sum_statistics,
)
from bagwise.out_of_core.survey import ColumnSums, Survey, survey
from bagwise.out_of_core.table_scan import Scan
from bagwise.out_of_core.whole_bags import fit_imputation
from bagwise.regressors import AggregateGP, BagPipeline, EmbeddingRidge, EvidenceRidge

# In order of cost. Together they take less than four times as long as the last one alone.
MEMBERS = ("aggregated", "statistics:moments", "input-kme:fourier", "blr:rows", "instance-kme:ridge")
FOLDS, FEW_FOLDS, MANY_BAGS = 5, 3, 10_000  # as in memory


def is_standardised(stage) -> bool:
    """Whether a stage is that of `regressors.pipeline.standardised`: within the training range, then standardised."""
    if not isinstance(stage, EachInstance) or not isinstance(stage.estimator, Pipeline):
        return False
    return [type(step) for _, step in stage.estimator.steps] == [MinMaxScaler, StandardScaler]


def fit_scaling(stage: EachInstance, survey: Survey) -> EachInstance:
    """The stage, fitted as if on all instances; covariates of the bags have a scaler of their own."""
    stage, columns = clone(stage), survey.columns
    # What varies by rounding alone is constant: the order of adding must not decide how it is blown up.
    live = varies(columns.deviation, columns.largest)
    stage.estimator_ = _scaled(clone(stage.estimator), columns, live)
    if survey.beside is not None:
        stage.covariate_scaler_ = _scaled(make_pipeline(MinMaxScaler(clip=True), StandardScaler()), survey.beside)
    survey.remember(stage, apart=True)
    return stage


def _scaled(scaler: Pipeline, columns: ColumnSums, live: Any = True) -> Pipeline:
    """Fitted as if on all rows; columns that are not ``live`` are constant.

    scikit-learn learns from rows: two of them have the extremes of all, and two others their mean and deviation.
    """
    (_, ranged), (_, standardised) = scaler.steps
    ranged.fit(np.vstack([columns.low, np.where(live, columns.high, columns.low)]))
    mean = np.where(live, columns.mean * ranged.scale_ + ranged.min_, 0.0)
    deviation = np.where(live, columns.deviation * ranged.scale_, 0.0)
    standardised.fit(np.vstack([mean - deviation, mean + deviation]))
    ranged.n_samples_seen_ = standardised.n_samples_seen_ = columns.n
    return scaler


def fit_scan(scan: Scan, name="instance-kme:ridge", *, executor=None, random_state: int = 0, work=None, progress=False):
    """Fit a method to a table that need not fit into memory, in a few passes of sums over its chunks.

    The model is an ordinary one: it predicts `Bags`, is saved and opened anywhere, and equals that of ``fit`` on the
    same data in memory to rounding. However the rows are cut into files, row groups and chunks, in whatever order,
    bags cut in two included, the answer is the same to rounding; for the same chunks, on CPUs of one kind, it is the
    same to the last bit whoever runs the passes. (Sums are in double precision; of float32 data `aggregated` and
    `statistics` in memory are not.)

    What is held at once: by whoever runs a pass, a block of rows and the sums of the bags of one chunk, or of a shard
    of bags; in this process, nothing that grows with the number of bags or rows. The sums of all bags lie in a folder,
    and the ids stay with the workers. So the model does not have the left-out residuals and folds of the single bags.

    Parameters
    ----------
    scan : Scan
        By `bagwise.scan`, with a target.
    name : str or estimator
        A method, or "method:preset", of `summable_methods`; or such an estimator with parameters of your own. Of
        `streamed_methods` the networks are trained in minibatches as the rows stream, a few readings of the data an
        epoch: they are not those of memory, and about as good. "auto" compares the summable methods on folds of
        bags, all in passes of one fit, and blends those that lower the held-out error; what it returns is an
        `AutoRegressor`, with ``summary()`` and ``leaderboard()``. Or `Intervals` of a method, of kind "cv+" (a fit per
        fold, and one of all bags; with ``refit=False`` one fit, for ridge heads) or "split" (one fit). Scores are of at
        most 10,000 bags, drawn by a hash of their ids; where there are no more, the intervals are those of a fit in
        memory (for "split" with ``scale="none"``: the scale "bag" is fitted on half of the bags that were held out).
    executor : object with ``run``, optional
        `Processes(n)` for several cores, `Dask(client)` for a cluster (see `bagwise.execution`). By default this
        process, and inside `bagwise.cluster` its workers.
    random_state : int
        For a method by name; an estimator has its own.
    work : path of a folder, optional
        Where the fit keeps what its passes have found, after every pass and twice a minute within one; all workers must
        reach it. A fit that was ended goes on from there when it is started again, and gives the same model, on the
        same kind of CPU to the last bit. A folder of other data, another method or another version is refused. When the
        model is saved, the folder can be removed. It holds at most 8 bytes for every column of a bag's row, 192 of them
        for `instance-kme:ridge`, twice. By default they are put in the system's folder for temporary files, and removed
        at the end.
    progress : bool, or a function of a `PassStep`
        Show in the terminal how far a pass is, with rows per second and the time left; or call the function.

    Returns
    -------
    model : the fitted estimator

    Examples
    --------
    >>> import numpy as np, pandas as pd, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(np.arange(40), 5)
    >>> red = rng.normal(size=200) + site / 10
    >>> table = pd.DataFrame({"site": site, "red": red, "aod": site / 10})
    >>> model = bw.fit_scan(bw.scan(table, bag="site", target="aod", chunk_rows=30), "aggregated")
    >>> bags, y = bw.load(table, bag="site", target="aod")
    >>> bool(np.allclose(model.predict(bags), bw.method("aggregated").fit(bags, y).predict(bags)))
    True
    """
    options = {"executor": executor, "random_state": random_state, "work": work}
    with PassDisplay() if progress is True else nullcontext(progress or None) as tell:
        return fit_and_survey(scan, name, **options, progress=tell)[0]


def fit_and_survey(scan: Scan, name, **options) -> tuple[object, Survey]:
    """The model of `fit_scan`, and what was found of the bags on the way; a warning counts rows that were dropped."""
    model, found = _fit_and_survey(scan, name, **options)
    is_whole = not isinstance(name, Intervals) or name.kind != "split"  # else some bags are not in the survey
    if scan.missing == "drop-instances" and is_whole and not scan.is_filtered:
        lost = scan.n_rows - found.describe()["instances"]
        if lost:
            what = f"{lost:,} of {scan.n_rows:,} rows have missing or infinite values and were dropped"
            warnings.warn(what, stacklevel=3)
    return model, found


def _fit_and_survey(
    scan: Scan, name, *, executor=None, random_state: int = 0, work=None, progress=None, after: Callable | None = None
) -> tuple[object, Survey]:
    """The same.

    ``after`` is for `Intervals` from sums of folds: ``after(passes, survey)`` gives a `HeldOut`, which is told the
    heads without each fold.
    """
    if isinstance(name, Intervals):
        if not isinstance(scan, Scan):
            raise TypeError(f"expected what bagwise.scan(...) gives, not {type(scan).__name__}")
        if isinstance(name.method, str) and name.method.partition(":")[0] == "auto":
            raise ValueError(
                "auto has no intervals with a scan: give 'auto' itself, without Intervals, name a method such as "
                "'instance-kme:ridge', or read the table whole with bagwise.load"
            )
        passed = {"executor": executor, "work": open_work(work, scan, name), "progress": progress}
        fit = partial(_fit_and_survey, random_state=random_state, **passed)
        return fit_intervals(scan, name, made(name.method, name.random_state, scan), fit, **passed)
    if isinstance(name, str) and name == "auto":
        return fit_auto(scan, executor=executor, random_state=random_state, work=work, progress=progress)
    whole: Any = made(name, random_state, scan)
    imputation, model = without_imputation(whole)
    how: dict[str, Any] = {"work": open_work(work, scan, whole), "progress": progress}
    with ExitStack() as stack:
        seen = scan
        if imputation is not None:
            imputation, seen = fit_imputation(imputation, stack.enter_context(Passes(scan, executor, **how)))
        seen = seen.spread() if sees_spread(model) else seen
        passes = stack.enter_context(Passes(seen, executor, seed=fold_seed(model), **how))
        found = survey(passes, *samplings(model))
        model = fit_surveyed(model, passes, found, None if after is None else after(passes, found))
    if imputation is not None:
        model = _with_steps(whole, imputation, *(step for _, step in getattr(model, "steps", [("method", model)])))
        n = len(imputation.medians_)  # without the share of missing values
        bare = replace(found, names=found.names[:n], means=found.means.some(slice(n)))
        bare.remember(imputation, apart=True)
        remember_range(imputation, found.counted.low[:n], found.counted.high[:n])
        model.profile_ = found.profile(n)
    scan.warn_of_new_files()
    return model, found


def fit_surveyed(model, passes: Passes, found: Survey, held_out: HeldOut | None = None):
    """The model, fitted in the passes after the survey; ``held_out`` is told the heads without each fold."""
    stages, head = _parts(model)
    if not stages:
        model = _fit_features(head, passes, found, held_out)
    else:
        fit = _fit_pooled if _kind(stages[0]) == "scaling" else _fit_predictions
        model = _with_steps(model, *fit(stages[0], head, passes, found, held_out))
    # of the instances: the bags of a survey are their means
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    n = first.n_features_in_
    remember_range(first, found.counted.low[:n], found.counted.high[:n])
    model.profile_ = found.profile()
    if held_out is not None:
        held_out.finish()
    return model


def sees_spread(model) -> bool:
    """Whether covariates of the bags are columns of the instances to a model (its first step)."""
    stages, head = _parts(model)
    return (bool(stages) and _kind(stages[0]) in ("ridge", "networks")) or isinstance(head, EvidenceRidge | AggregateGP)


def samplings(*models) -> list[tuple[int, int]]:
    """The samples of rows that models need."""
    found: list[tuple[int, int]] = []
    for stages, head in map(_parts, models):
        if not stages:
            found.append(_sampling(head.embedding_for(head.settings()[0])) or (0, 0))
        elif _kind(stages[0]) == "ridge":
            found.append(stages[0].regressor.fresh_features().sampling())
    return list(dict.fromkeys(found))


def fold_seed(model) -> int:
    """By which bags are dealt to folds, where some are."""
    stages, head = _parts(model)
    return int(getattr(stages[0] if stages and _kind(stages[0]) != "scaling" else head, "random_state", 0) or 0)


def left_out_scores(model, found: Survey) -> dict | None:
    """Errors of bags, each left out in turn, where the head knows them; of intervals, those of calibration."""
    if isinstance(model, Intervals):
        error, absolute = np.sqrt(np.mean(model.residuals_**2)), np.mean(np.abs(model.residuals_))
    else:
        head: Any = getattr(_parts(model)[1], "head_", None)
        if not hasattr(head, "absolute_errors_"):
            return None
        chosen = np.argmin(np.abs(np.atleast_1d(head.penalties) - head.penalty_))
        error, absolute = np.sqrt(head.error_), head.absolute_errors_[chosen]
    error, spread = float(error), float(found.y.deviation[0])
    r2 = 1 - (error / spread) ** 2 if spread > 0 else 0.0
    return {"rmse": error, "mae": float(absolute), "r2": r2, "rmse_of_mean": spread}


def summable_methods() -> list[str]:
    """The methods, with their presets, that `fit_scan` fits from sums: a few passes over the data."""
    return _known(_summable)


def streamed_methods() -> list[str]:
    """Those whose networks `fit_scan` trains on rows that stream from the scan, epoch by epoch."""
    return _known(_streamed)


def _known(condition: Callable[[Any], bool]) -> list[str]:
    found = []
    for name, card in CATALOGUE.items():
        for preset in card.presets:
            if name != "auto" and condition(method(name, preset=preset)):
                found.append(name if preset == card.preset_names[0] else f"{name}:{preset}")
    return found


# What can be summed -----------------------------------------------------------------------------------------------


def made(name, random_state: int, scan: Scan | None = None):
    """Return the unfitted model, behind an imputation if the scan declares one."""
    model = method(name, random_state=random_state) if isinstance(name, str) else clone(name)
    if getattr(scan, "missing", "") == "impute" and without_imputation(model)[0] is None:
        model = imputed(model)
    if not _summable(model) and not _streamed(model):
        what = name if isinstance(name, str) else type(name).__name__
        raise ValueError(
            f"{what} cannot be fitted from sums over rows; methods that can are {', '.join(summable_methods())}, "
            f"auto, and with networks trained on rows that stream {', '.join(streamed_methods())}"
        )
    return model


def imputed(model) -> BagPipeline:
    """Return a pipeline that imputes missing values and then applies the model."""
    steps = model.steps if isinstance(model, Pipeline) else [("method", model)]
    return BagPipeline([("imputation", Imputation()), *steps])


def without_imputation(model) -> tuple[Imputation | None, Any]:
    """The step that fills in missing values, if there is one; and the rest."""
    if not isinstance(model, Pipeline) or not isinstance(model.steps[0][1], Imputation):
        return None, model
    rest = clone(model)
    rest.steps = rest.steps[1:]
    return model.steps[0][1], rest.steps[0][1] if len(rest.steps) == 1 else rest


def _parts(model) -> tuple[list, Any]:
    """Stages and head."""
    if not isinstance(model, Pipeline):
        return [], model
    return [stage for _, stage in model.steps[:-1]], model.steps[-1][1]


def _kind(stage) -> str | None:
    if is_standardised(stage):
        return "scaling"
    if not isinstance(stage, OutOfFold):
        return None
    if isinstance(stage.regressor, NetworkRegressor) and (stage.judge is None or _reads_predictions(stage.judge)):
        return "networks"
    if stage.judge is not None:
        return None
    is_ridge = isinstance(stage.regressor, RandomFeatureRidge)
    return "ridge" if is_ridge and isinstance(stage.regressor.fresh_features(), FourierFeatures) else None


def _summable(model) -> bool:
    stages, head = _parts(without_imputation(model)[1])
    kinds, embedding = [_kind(stage) for stage in stages], getattr(head, "embedding", None)
    if not isinstance(head, EmbeddingRidge | EvidenceRidge | AggregateGP):
        return False
    if isinstance(head, AggregateGP) and head.likelihood != "gaussian":
        return False
    if kinds == ["ridge"]:
        return _reads_predictions(head)
    if kinds == []:
        # One sample of rows serves all settings.
        samplings = {_sampling(head.embedding_for(setting)) for setting in head.settings()}
        return len(samplings) == 1 and samplings != {None}
    is_mean = isinstance(embedding, Pool) and embedding.is_mean
    summable = kinds == ["scaling"] and isinstance(head, EmbeddingRidge) and not head.grid
    return summable and (is_mean or has_moments(embedding))


def _reads_predictions(head) -> bool:
    """Whether it is ridge on kernel means, from sums of the polynomials of predictions."""
    by_sums = isinstance(head, EmbeddingRidge) and isinstance(head.embedding, KernelMean)
    return by_sums and head.offset != "median" and head.embedding.columns == "features"


def _streamed(model) -> bool:
    """Whether its networks can be trained on rows that stream from a scan."""
    stages, head = _parts(model)
    return [_kind(stage) for stage in stages] == ["networks"] and _reads_predictions(head)


def _sampling(embedding) -> tuple[int, int] | None:
    """The rows that an embedding of instances is fitted on, if it can be fitted from sums."""
    if isinstance(embedding, LandmarkMean):
        return embedding.sampling() if embedding.draw == "rows" else None
    features = embedding.fresh_features() if isinstance(embedding, FeatureMean) else None
    return features.sampling() if isinstance(features, FourierFeatures) else None


# Fitting ----------------------------------------------------------------------------------------------------------


def _fit_predictions(stage: OutOfFold, head: EmbeddingRidge, passes: Passes, found: Survey, held_out):
    """Random-feature ridge out of fold, or networks trained as the rows stream; then the kernel mean of predictions."""
    fit = fit_networks if _kind(stage) == "networks" else fit_out_of_fold
    stage, predicted = fit(stage, passes, found)
    embedded = embed_predictions(head, passes, found, predicted)
    fitted = fit_ridge(head, passes, found, embedded, shared=True, held_out=held_out)
    found.remember(fitted, predicted.means, apart=True)
    remember_range(fitted, predicted.columns.low, predicted.columns.high)  # of the predictions, not of their means
    return stage, fitted


def _fit_features(head, passes: Passes, found: Survey, held_out):
    """The mean of features of the instances: random ones, or similarities to landmarks."""
    embedding = head.embedding_for(head.settings()[0])
    embedded = (embed_features if isinstance(embedding, FeatureMean) else embed_landmarks)(head, passes, found)
    fits: dict[type, Any] = {EmbeddingRidge: fit_ridge, EvidenceRidge: fit_evidence, AggregateGP: fit_aggregate}
    fit_head = next(fit for kind, fit in fits.items() if isinstance(head, kind))
    fitted = fit_head(head, passes, found, embedded, held_out=held_out)
    found.remember(fitted, apart=isinstance(head, EmbeddingRidge))
    return fitted


def _fit_pooled(stage, head: EmbeddingRidge, passes: Passes, found: Survey, held_out):
    """The mean of standardised instances, or other moments of them."""
    stage, embedding = fit_scaling(stage, found), clone(head.embedding)
    prepare, view = Prepare(stage), View()
    scaled = ColumnSums.of(prepare(np.vstack([found.means.low, found.means.high])))
    if isinstance(embedding, Statistics):
        levels = passes.scan.categories or {}
        ends = Bags(np.vstack([scaled.low, scaled.high]), [0, 1, 2], feature_names=found.names)
        embedding.remember_levels(compared(ends._with(categories=levels)))
        columns = sum_statistics(embedding, passes, prepare)
        embedding.keep_varying(np.vstack([columns.low, columns.high]))
        view = View(kept=np.flatnonzero(embedding.varies_))
    else:  # scaling is affine: the mean of scaled instances
        passes.by_shard(_scale_means, prepare)
    found.remember(embedding, scaled)
    beside = None
    if found.beside is not None:
        beside = passes.by_shard(_scale_covariates, stage.covariate_scaler_)
    fitted = fit_ridge(head, passes, found, [Embedded({}, embedding, view)], beside=beside, held_out=held_out)
    found.remember(fitted, scaled, apart=True, beside=beside)
    return stage, fitted


def _scale_means(shard: Shard, prepare: Prepare) -> None:
    shard.keep("rows", prepare(shard["means"]))


def _scale_covariates(shard: Shard, scaler: Pipeline) -> ColumnSums:
    scaled = scaler.transform(np.asarray(shard["covariates"]))
    shard.keep("beside", scaled)
    return ColumnSums.of(scaled)


def _with_steps(model: Pipeline, *fitted):
    names = [name for name, _ in model.steps]
    model = clone(model)
    model.steps = list(zip(names, fitted, strict=True))
    return model


# Auto -------------------------------------------------------------------------------------------------------------


def fit_auto(
    scan: Scan, *, executor=None, random_state: int = 0, work=None, progress=None
) -> tuple[AutoRegressor, Survey]:
    """`AutoRegressor` fitted to a scan, and what was found of the bags.

    The members are those of the catalogue that are sums, `MEMBERS`, and the mean of the targets. There is one survey
    for all. Every member is fitted once, to all bags, and its heads without each fold give the held-out predictions by
    which members are compared and blended (`HeldOut`).
    """
    if scan.covariates:
        raise ParameterError(
            "bag_features",
            "auto takes no covariates of bags on a scan; make them columns of the instances, or name a method such as "
            "'instance-kme:ridge'",
        )
    if scan.bag_weights is not None:
        raise ParameterError(
            "bag_weights",
            "auto takes no weights of bags on a scan, where every bag counts the same in its errors; leave them out, "
            "or name a method such as 'instance-kme:ridge'",
        )
    if scan.missing == "impute":
        drop = Parameter("missing", "drop-instances")
        other = ", or name a method such as 'instance-kme:ridge'"
        raise ParameterError("missing", "auto cannot impute on a scan; drop such rows with ", drop, other)
    started = time.perf_counter()
    unfitted = {name: method(name, random_state=random_state) for name in MEMBERS}
    kept = open_work(work, scan, {"auto": unfitted})
    with Passes(scan, executor, seed=random_state, work=kept, progress=progress) as passes:
        found = survey(passes, *samplings(*unfitted.values()))
        fewer = FEW_FOLDS if found.n_bags >= MANY_BAGS else FOLDS
        folds = Folds(passes, found, max(2, min(fewer, found.n_units)))
        models, rows = {MEAN: _mean(passes, found, folds)}, {MEAN: _row(MEAN)}
        for name, one in unfitted.items():
            begun = time.perf_counter()
            try:
                models[name] = fit_surveyed(one, passes, found, HeldOut(passes, folds, _column(name)))
                rows[name] = _row(name)
            except NarrowKernelError as error:  # the others go on
                rows[name] = _row(name) | {"status": "failed", "why": str(error)[:120]}
            rows[name] |= {key: time.perf_counter() - begun for key in ("seconds", "fit_seconds")}
        errors = error_sums(passes, [_column(name) for name in models])
    model = _assembled(models, rows, errors, found, folds, random_state)
    model.training_["groups"] = None if scan.groups is None else found.n_units
    model.seconds_ = time.perf_counter() - started
    return model, found


def _column(name: str) -> str:
    return f"held-{name.replace(':', '-')}"


def _mean(passes: Passes, found: Survey, folds: Folds) -> MeanTarget:
    passes.by_shard(_keep_means, _column(MEAN), {k: float(own.mean[0]) for k, own in folds.without.items()})
    model = MeanTarget()
    model.mean_ = float(found.y.mean[0])
    found.remember(model)
    return model


def _keep_means(shard: Shard, column: str, means: dict[int, float]) -> None:
    shard.keep(column, np.array([means[k] for k in range(max(means) + 1)])[shard[FOLD]])


def _row(name: str) -> dict[str, Any]:
    blank = dict.fromkeys(("error", "error_se", "difference", "difference_se"), float("nan"))
    seconds = dict.fromkeys(("seconds", "fit_seconds", "predict_seconds"), 0.0)
    return {"member": name, "status": "tried", "why": "", "weight": 0.0} | blank | seconds


def _assembled(models: dict, rows: dict, errors: dict[int, ErrorSums], found: Survey, folds: Folds, seed: int):
    names, total = list(models), added(errors.values())
    blended = blend_sums([one.products for one in errors.values()], mean=names.index(MEAN))
    weights = dict(zip(names, blended.weights.tolist(), strict=True))
    model = AutoRegressor(list(MEMBERS), transforms=False, random_state=seed)
    model.weights_ = dict.fromkeys(rows, 0.0) | weights
    model.kind_, model.n_folds_, model.predictor_ = blended.kind, folds.n, "refit"
    model.models_ = {name: [models[name]] for name in names if weights[name] > 0}
    model.fold_models_ = {}
    model.range_, model.routing_, model.imputation_ = limits_of(found.y), Routing(np.empty(0, dtype=np.int64)), None
    model.transform_, model.transforms_, model.curve_ = None, [], None
    features = len(found.names)
    model.training_ = {"bags": found.n_bags, "instances": found.columns.n, "features": features, "groups": None}
    squares, n = np.diag(total.products) / total.n, total.n
    best = int(np.argmin(squares))
    for i, name in enumerate(names):
        rows[name] |= _compared(total, squares, i, best)
        rows[name]["weight"] = weights[name]
        rows[name]["status"] = "blended" if weights[name] > 0 else rows[name]["status"]
    model.trials_ = list(rows.values())
    model.scores_ = _scores(blended, list(errors.values()), squares, names, n)
    found.remember(model)
    remember_range(model, found.counted.low, found.counted.high)
    model.profile_ = found.profile()
    return model


def _compared(total: ErrorSums, squares: np.ndarray, i: int, best: int) -> dict[str, float]:
    """The columns of errors of a member."""
    second = total.squares / total.n
    own = second[i, i] - squares[i] ** 2
    gap = second[i, i] - 2 * second[i, best] + second[best, best] - (squares[i] - squares[best]) ** 2
    se, gap_se = (float(np.sqrt(max(value, 0.0) / total.n)) for value in (own, gap if i != best else 0.0))
    return error_columns(float(squares[i]), se, float(squares[best]), gap_se)


def _scores(blended: SumBlend, errors: list[ErrorSums], squares: np.ndarray, names: list[str], n: int) -> dict:
    """As `auto.summary.scores_of`."""

    def rmse(weights: np.ndarray) -> float:
        loss = sum(w @ one.products @ w for w, one in zip(weights, errors, strict=True))
        return float(np.sqrt(max(loss, 0.0) / n))

    best, error = int(np.argmin(squares)), rmse(blended.without)
    worst = float(np.sqrt(squares[names.index(MEAN)]))
    return {
        "metric": "rmse",
        "error": error,
        "single_error": rmse(blended.single),
        "mean_error": worst,
        "best": names[best],
        "rmse": error,
        "best_rmse": float(np.sqrt(squares[best])),
        "mean_rmse": worst,
        "explained": 1.0 - (error / worst) ** 2 if worst > 0 else 0.0,
    }
