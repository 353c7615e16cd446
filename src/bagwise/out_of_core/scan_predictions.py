"""`predict_scan`: the bags of a table that need not fit into memory, predicted by an ordinary model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bagwise.auto import AutoRegressor
from bagwise.auto.members import MeanTarget
from bagwise.bags import Bags
from bagwise.bags.checks import FarValue, compare_columns, compared, find_far, say_far
from bagwise.bags.imputation import Imputation
from bagwise.explanations.explanation import by_rows, unwrapped
from bagwise.instances import EachInstance
from bagwise.intervals import Intervals
from bagwise.intervals.order_statistics import check_level
from bagwise.io.atomic_files import new_folder, refuse_place, replace_file
from bagwise.out_of_core.chunks import Chunk, as_objects
from bagwise.out_of_core.passes import BLOCK_ROWS, Met, Passes
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.sums import Prepare, View, has_moments, sum_statistics
from bagwise.out_of_core.survey import keep_tally, refuse_unusable, sum_rows, tally_of
from bagwise.out_of_core.table_scan import Scan, columns_of
from bagwise.out_of_core.whole_bags import impute, keep_by_bag
from bagwise.regressors import AggregateGP

COLUMNS = ("prediction", "instances", "lower", "upper")


class Predictions(NamedTuple):
    """The bags of a scan, as they first appear, what is predicted for each, and how many instances it has.

    ``lower`` and ``upper`` are the bounds of the intervals, None where the model has none.
    """

    ids: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None


class WrittenPredictions:
    """The same of predictions in a folder, part by part; they are read when they are asked for.

    Attributes
    ----------
    folder : Path
    ids, values, sizes, lower, upper : arrays, as in `Predictions`
    """

    def __init__(self, folder: Path | str, bag: str, *, bounded: bool = False):
        self.folder, self._bag, self._bounded = Path(folder), bag, bounded

    def __repr__(self) -> str:
        return f"WrittenPredictions: {self.folder}"

    def _column(self, name: str) -> np.ndarray:
        import pyarrow.parquet as pq

        parts = sorted(self.folder.glob("part-*.parquet"))  # a note beside them is none
        read = [pq.read_table(path, columns=[name], partitioning=None)[name].to_numpy() for path in parts]
        return np.concatenate(read)

    @property
    def ids(self) -> np.ndarray:
        return self._column(self._bag)

    @property
    def values(self) -> np.ndarray:
        return self._column("prediction")

    @property
    def sizes(self) -> np.ndarray:
        return self._column("instances")

    @property
    def lower(self) -> np.ndarray | None:
        return self._column("lower") if self._bounded else None

    @property
    def upper(self) -> np.ndarray | None:
        return self._column("upper") if self._bounded else None


def predict_scan(
    model, scan: Scan, *, level: float | None = None, out=None, executor=None, work=None
) -> Predictions | WrittenPredictions:
    """Predict every bag of a scan, wherever its rows lie.

    Where the prediction of a bag is the mean of what its instances would be predicted alone, it is a sum over rows: of
    `fit_scan`'s methods that is so for all but `statistics:moments`, which takes three passes. Members of `auto` are
    predicted together, and blended. An interval is no sum: it is made of whole bags, for which a chunk is held at once,
    and the rows of bags that lie in more than one chunk.

    Parameters
    ----------
    model : fitted estimator
        Of `fit_scan`, or any fitted method whose predictions are sums over instances.
    scan : Scan
        With the features that the model was fitted on; a target is not needed.
    level : float, optional
        Of the intervals, for a model of `Intervals`; by default that of its fit.
    out : path, optional
        A new folder to which the predictions are written as a Parquet data set, ``part-00000.parquet`` and so on: the
        id of a bag, ``prediction``, ``instances``, and ``lower`` and ``upper`` of its interval if the model has any. It
        appears whole or not at all. The parts are written by whoever runs the passes, bags in the order of a hash of
        their ids; this process holds nothing that grows with their number.
    executor : object with ``run``, optional
        `Processes(n)` for several cores, `Dask(client)` for a cluster. By default this process, and inside
        `bagwise.cluster` its workers.
    work : path, optional
        A folder that all workers reach, in which the sums of bags are put meanwhile. By default the system's folder for
        temporary files.

    Returns
    -------
    Predictions
        ``ids``, ``values``, ``sizes``, ``lower`` and ``upper`` of all bags, as they first appear. With ``out``,
        `WrittenPredictions`, which reads them from the folder when they are asked for.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bagwise as bw
    >>> table = pd.DataFrame({"site": [1, 2, 1, 2], "red": [0.0, 1.0, 2.0, 3.0], "aod": [0.1, 0.3, 0.1, 0.3]})
    >>> bags, y = bw.load(table, bag="site", target="aod")
    >>> model = bw.method("aggregated").fit(bags, y)
    >>> found = bw.predict_scan(model, bw.scan(table, bag="site", features=["red"], chunk_rows=2))
    >>> found.ids.tolist(), bool(np.allclose(found.values, model.predict(bags)))
    ([1, 2], True)
    """
    intervals, model = _with_intervals(model, level), unwrapped(model)
    with ExitStack() as stack:
        passes = stack.enter_context(Passes(scan, executor, work=work))
        check_is_fitted(model[-1] if isinstance(model, Pipeline) else model)
        if out is not None:
            refuse_place(out)
            if scan.bag in COLUMNS:
                raise ValueError(
                    f"the bag column is called {scan.bag!r}, as a column of the output is; rename it first"
                )
        if intervals is not None:
            values, firsts = _predict_whole(passes, intervals, level)
        else:
            if isinstance(model, Pipeline) and isinstance(model.steps[0][1], Imputation):
                compare_columns(columns_of(scan), model.steps[0][1])
                passes = stack.enter_context(Passes(impute(model.steps[0][1], passes), executor, work=work))
                model = model[1:]
            values, firsts = _predict(passes, model)
        _warn_of_far(passes, firsts)
        scan.warn_of_new_files()
        if out is None:
            return _collect(passes, values)
        new_folder(out, lambda folder: passes.by_shard(_write, values, scan.bag, folder))
        return WrittenPredictions(out, scan.bag, bounded=intervals is not None)


def _with_intervals(model, level: float | None) -> Intervals | None:
    """The model, if it gives intervals; a level that it does not give is refused."""
    if not isinstance(model, Intervals):
        if level is not None:
            raise ValueError("the model was fitted without intervals; fit bagwise.Intervals(method) with fit_scan")
        return None
    check_is_fitted(model)
    why = model.refusal(check_level(model.level if level is None else level))
    if why is not None and level is not None:
        raise ValueError(why)
    return model if why is None else None


def _predict_whole(passes: Passes, model: Intervals, level: float | None) -> tuple[Callable, list]:
    """Predictions and intervals, bag by bag."""
    compare_columns(columns_of(passes.scan), model)
    firsts = list(passes.meet(_look, model, list(passes.scan.feature_names), passes.scan.missing == "impute"))
    passes.by_shard(keep_tally)
    keep_by_bag(passes, "bounds", 3, _bounds, model, level)
    return _of_bounds, firsts


def _look(chunk: Chunk, model, names, allow_missing: bool) -> Met:
    ids, bag = chunk.bags()
    tally, far = np.zeros((len(ids), 4)), _FarBags(ids, model)
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=bag):
        refuse_unusable(block, ids, chunk, allow_missing=allow_missing)
        tally += tally_of(block, len(ids))
        far.look(block.X, block.bag, names)
    return far.met({"tally": tally})


def _bounds(bags: Bags, model: Intervals, level: float | None) -> np.ndarray:
    bags = compared(bags)
    return np.column_stack([model.predict(bags), model.predict_interval(bags, level)])


def _of_bounds(shard: Shard) -> tuple[np.ndarray, ...]:
    values, lower, upper = np.asarray(shard["bounds"]).T
    return values, np.asarray(shard["sizes"]), lower, upper


class Term(NamedTuple):
    """A part of a prediction: that of one model, kept within limits, times a weight."""

    weight: float
    model: Any
    limits: tuple[float, float] = (-np.inf, np.inf)

    @property
    def stages(self) -> list:
        return list(self.model[:-1]) if isinstance(self.model, Pipeline) else []

    @property
    def last(self):
        return unwrapped(self.model[-1]) if isinstance(self.model, Pipeline) else self.model

    @property
    def kind(self) -> str | None:
        """How it is known of a scan."""
        stages, last = self.stages, self.last
        if isinstance(last, MeanTarget):
            return "constant"
        linear = isinstance(last, AggregateGP) or getattr(last, "additive_", False)
        if all(by_rows(stage) for stage in stages) and linear:
            return "sum"
        has = has_moments(getattr(last, "embedding_", None)) and last.offset == "none"
        return "moments" if len(stages) == 1 and isinstance(stages[0], EachInstance) and has else None

    @property
    def known(self) -> float | str | None:
        """What a shard is told of it: its value; whether it is a mean or a sum over instances; or nothing."""
        if self.kind == "constant":
            return self.last.mean_
        return getattr(self.last, "aggregate", "mean") if self.kind == "sum" else None


def _terms(model) -> list[Term]:
    """The models of a blend by auto, or the model itself."""
    if not isinstance(model, AutoRegressor):
        return [Term(1.0, model)]
    if getattr(model, "imputation_", None) is not None or len(model.routing_.columns):
        raise ValueError(
            "this model of auto fills in missing values, or takes columns as covariates, which is not done piece by "
            "piece; load the table and use model.predict"
        )
    models = [(model.weights_[name] / len(some), one) for name, some in model.models_.items() for one in some]
    return [Term(weight, unwrapped(one), model.range_) for weight, one in models]


def _predict(passes: Passes, model) -> tuple[Callable, list]:
    """How a shard makes predictions of what it keeps; and the far values of every chunk."""
    terms, scan = _terms(model), passes.scan
    if any(term.kind is None for term in terms):
        raise ValueError(
            "the predictions of this model are not sums over instances, so bags cannot be predicted piece by piece; "
            "load the table and use model.predict, or fit a model with bagwise.fit_scan"
        )
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    columns = columns_of(scan)
    compare_columns(columns.spread() if _sees_spread(first) else columns, first)
    alone = [term.model for term in terms if term.kind == "sum"]
    names = list(scan.feature_names), list(scan.covariates)
    firsts = list(passes.meet(_alone, alone, first, names))
    passes.by_shard(_keep_terms, [term.known for term in terms])
    for number, term in enumerate(terms):
        if term.kind == "moments":
            (stage,), head = term.stages, term.last
            sum_statistics(head.embedding_, passes, Prepare(stage))
            view = View(kept=np.flatnonzero(head.embedding_.varies_))
            if head.beside_ is not None:
                passes.by_shard(_keep_covariates, stage.covariate_scaler_, scan.covariates)
                view = view._replace(beside=head.beside_, covariates="scaled")
            passes.by_shard(_by_head, head.head_, view, f"term-{number}")
    return partial(_blended, terms=[term._replace(model=None) for term in terms]), firsts


def _sees_spread(first) -> bool:
    """Whether covariates of the bags were columns of the instances to what new bags are given to first."""
    return not first.n_covariates_in_


def _keep_terms(shard: Shard, terms: list[float | str | None]) -> None:
    """Keep the terms of the prediction of every bag, but for those that need more passes."""
    keep_tally(shard)
    sums = iter(shard.gather("alone").T)
    for number, term in enumerate(terms):
        if isinstance(term, str):
            shard.keep(f"term-{number}", next(sums) / (shard["totals"] if term == "mean" else 1))
        elif term is not None:
            shard.keep(f"term-{number}", np.full(len(shard), term))


def _blended(shard: Shard, *, terms: list[Term]) -> tuple[np.ndarray, np.ndarray]:
    parts = [term.weight * np.clip(shard[f"term-{number}"], *term.limits) for number, term in enumerate(terms)]
    return np.sum(parts, axis=0), np.asarray(shard["sizes"])


def _by_head(shard: Shard, head, view: View, column: str) -> None:
    shard.keep(column, head.predict(view(shard)))


def _keep_covariates(shard: Shard, scaler, names) -> None:
    what = f"value in a column of bag features ({', '.join(names)})"
    shard.keep("scaled", scaler.transform(shard.agree("covariates", what)))


def _collect(passes: Passes, values: Callable) -> Predictions:
    """The predictions of all bags in this process, in the order in which bags first appear."""
    parts = passes.each_shard(_of_shard, values)
    ids, first, *others = (list(part) for part in zip(*(one for one in parts if one is not None), strict=True))
    order = np.lexsort(np.concatenate(first)[:, ::-1].T)
    return Predictions(*(np.concatenate(part)[order] for part in (ids, *others)))


def _of_shard(shard: Shard, values: Callable) -> tuple:
    return *shard.gather_ids(), *values(shard)


def _write(shard: Shard, values: Callable, bag: str, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = shard.gather_ids()[0], *values(shard)
    columns = dict(zip((bag, *COLUMNS[: len(found) - 1]), found, strict=True))
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    replace_file(folder / f"part-{shard.number:05d}.parquet", lambda path: pq.write_table(table, path))


class _FarBags:
    """The bags of a chunk with values far outside the range of training, and the first such value of the first."""

    def __init__(self, ids: np.ndarray, model):
        self.ids, self.model, self.marked = ids, model, np.zeros(len(ids), dtype=bool)
        self.firsts: dict[int, FarValue] = {}

    def look(self, X: np.ndarray, bag: np.ndarray, names) -> None:
        """Look at the rows of a block."""
        rows, value = find_far(X, self.model, names)
        if value is not None:
            self.marked[bag[rows]] = True
            lowest = bag[rows].min()
            found = find_far(X[rows & (bag == lowest)], self.model, names)[1]
            if found is not None:
                self.firsts.setdefault(int(lowest), found)

    def met(self, rows: dict) -> Met:
        """With what else was found of the bags."""
        first = min(self.firsts, default=None)
        far = None if first is None else (self.ids[first], self.firsts[first])
        return Met(self.ids, None, rows | {"far": self.marked}, far)


def _warn_of_far(passes: Passes, firsts: list[tuple[Any, FarValue] | None]) -> None:
    for bag, value in [one for one in firsts if one is not None][:1]:
        count = passes.by_shard(_count_far)
        say_far(as_objects([bag] * count), np.ones(count, dtype=bool), value)


def _count_far(shard: Shard) -> int:
    return int(shard.gather("far", np.logical_or).sum())


def _alone(chunk: Chunk, models: list, first, names) -> Met:
    """Of the bags of a chunk: how much there is of each, Σ of what every row is predicted alone, and far values.

    The predictions are summed by the weights of the rows.
    """
    ids, bag = chunk.bags()
    tally, sums, far = np.zeros((len(ids), 4)), np.zeros((len(ids), len(models))), _FarBags(ids, first)
    features, covariates = names
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=bag, covariates=True):
        refuse_unusable(block, ids, chunk)
        tally += tally_of(block, len(ids))
        block = block if block.weight is None else block.select(block.weight > 0)
        if not len(block.bag):
            continue
        beside = {} if block.covariates is None else {"covariates": block.covariates, "covariate_names": covariates}
        singles = compared(Bags(block.X, np.arange(len(block.X) + 1), feature_names=features, **beside))
        seen = singles.spread() if _sees_spread(first) else singles
        far.look(seen.instances, block.bag, list(seen.feature_names or ()))
        if models:
            values = np.column_stack([_weighted(model, singles, block.weight) for model in models])
            sums += sum_rows(block.bag, values, len(ids))
    rows: dict[str, Any] = {"alone": sums, "tally": tally}
    if covariates and len(ids):
        rows["covariates"] = chunk.of_bags(ids, bag).covariates
    return far.met(rows)


def _weighted(model, singles: Bags, weight: np.ndarray | None) -> np.ndarray:
    """What instances are predicted alone, times their weights."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if weight is None:
        return model.predict(singles)
    if getattr(last, "with_exposure_", False) and last.counts_exposure:  # what it predicts is proportional to them
        return model.predict(singles.with_weights(weight))
    return model.predict(singles) * weight
