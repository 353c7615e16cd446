"""`fit_scan`: the ordinary model of a method, fitted to a table that need not fit into memory."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from bagwise.auto import AutoRegressor
from bagwise.bags.imputation import Imputation
from bagwise.bags.validation import Parameter, ParameterError
from bagwise.embeddings.summaries import Embedding
from bagwise.intervals import Intervals
from bagwise.methods import method
from bagwise.model_files.model_file import describe_counts
from bagwise.regressors import AggregateGP, EvidenceRidge
from bagwise.regressors.pipeline import BagPipeline, first_step
from bagwise.scale.passes import PassDisplay, Passes, open_work
from bagwise.scale.stages import fit_embedding, fit_head, fit_rows, fit_stage, is_streamed, warn_of_sample
from bagwise.scale.table_scan import Scan
from bagwise.scale.training_data import TrainingData


def fit_scan(scan: Scan, name="instance-kme:ridge", *, executor=None, random_state: int = 0, work=None, progress=False):
    """Fit a method to a table that need not fit into memory.

    The table is partitioned by bag once. Each pass is then a function of the partitions, mapped by the executor, whose
    results are arrays on disk; heads read the rows of bags a block at a time. The model is an ordinary one: it
    predicts `Bags`, is saved and opened anywhere, and equals that of ``fit`` on the same data in memory to rounding
    (networks: in quality). However the rows are cut into files, row groups and chunks, the answer is the same to
    rounding.

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
        Where the partitions and the results of passes are kept; all workers must reach it. A fit that was interrupted
        continues from there when it is started again. A folder of other data, another method or another version is
        refused. When the model is saved, the folder can be removed. Default: the system's folder for temporary files;
        the results are removed at the end.
    progress : bool, or a function of a `PassStep`
        Show the progress of each pass in the terminal, with rows per second and the time left; or call the function.

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
    with PassDisplay() if progress is True else nullcontext(progress or None) as report:
        return fit_and_describe(scan, name, **options, progress=report)[0]


def fit_and_describe(scan: Scan, name, *, executor=None, random_state=0, work=None, progress=None) -> tuple:
    """Return the model of `fit_scan`, the description of its training data, and the errors of held-out bags."""
    if not isinstance(scan, Scan):
        raise TypeError(f"Got {type(scan).__name__}. A scan is required: call bagwise.scan(...) first.")
    if scan.target is None:
        raise ParameterError(
            "target", "The scan has no target to learn from. Scan the table with ", Parameter("target"), " its column."
        )
    model = unfitted(name, random_state)
    if isinstance(model, Intervals):
        from bagwise.scale.held_out import check_intervals

        check_intervals(model)
    with Passes(executor, work=open_work(work, scan, model), progress=progress) as passes:
        data = TrainingData.of(scan, passes)
        if len(data) < 2:
            raise ValueError("The scan has one bag. A fit needs at least two. Check where, and the column of bag ids.")
        model = fit(model, data)
        scan.warn_of_new_files()
        training = describe_counts(len(scan.feature_names), data.bag_arrays.sizes, data.y)
        return model, training, left_out_scores(model, data)


def unfitted(name, random_state: int):
    """Return an unfitted estimator, by its name or as a copy."""
    return method(name, random_state=random_state) if isinstance(name, str) else clone(name)


def fit(model, data: TrainingData):
    """Fit an estimator to bags in partitions."""
    if isinstance(model, AutoRegressor | Intervals):
        from bagwise.scale.held_out import fit_auto, fit_intervals

        return fit_intervals(model, data) if isinstance(model, Intervals) else fit_auto(model, data)
    imputes = isinstance(first_step(model), Imputation) or isinstance(model, EvidenceRidge | AggregateGP)
    if data.missing == "impute" and is_streamed(model) and not imputes:
        steps = model.steps if isinstance(model, Pipeline) else [("method", model)]
        model = BagPipeline([("imputation", Imputation()), *steps])
    since = data.passes.count
    if is_streamed(model):
        fitted = _fit_steps(model, data) if isinstance(model, Pipeline) else fit_head(model, data)
        data.remember_profile(fitted)
    else:
        fitted = _fit_sample(model, data)
    data.passes.forget(since)
    return fitted


def _fit_steps(model: Pipeline, data: TrainingData) -> Pipeline:
    """Fit the steps of a pipeline one after another."""
    current, fitted, steps = data, [], [step for _, step in model.steps]
    while len(steps) > 1 and not isinstance(steps[0], Embedding):
        stage, current = fit_stage(steps.pop(0), current)
        fitted.append(stage)
    if isinstance(steps[0], Embedding):
        embedding, rows = fit_embedding(clone(steps[0]), current)
        fitted += [embedding, *fit_rows(steps[1:], rows, current)]
    else:
        fitted.append(fit_head(steps[0], current))
    names = [name for name, _ in model.steps]
    model = clone(model)
    model.steps = list(zip(names, fitted, strict=True))
    return model


def _fit_sample(model, data: TrainingData):
    """Fit a method that needs its bags at once: to all of them if they are few, otherwise to a sample."""
    chosen = data.by_hash()
    if not chosen.all():
        warn_of_sample(int(chosen.sum()), len(data), type(model).__name__)
    order = np.argsort(data.bag_arrays.first[chosen], kind="stable")  # as they come in the table
    bags, y = data.gather(chosen)._with(compared=False)[order], data.y[chosen][order]
    weight = None if data.weight is None else data.weight[chosen][order]
    return clone(model).fit(bags, y, **({} if weight is None else {"sample_weight": weight}))


def left_out_scores(model, data: TrainingData) -> dict | None:
    """Return errors of bags, each predicted by a model that never saw it, where the model knows them."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    residuals = getattr(last, "residuals_", None)
    if residuals is None or np.isnan(residuals).any():
        return None
    weight = data.weight if len(residuals) == len(data) else None
    error = float(np.sqrt(np.average(residuals**2, weights=weight)))
    absolute, spread = float(np.average(np.abs(residuals), weights=weight)), float(np.std(data.y))
    r2 = 1 - (error / spread) ** 2 if spread > 0 else 0.0
    return {"rmse": error, "mae": absolute, "r2": r2, "rmse_of_mean": spread}
