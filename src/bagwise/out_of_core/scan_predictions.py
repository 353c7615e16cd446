"""`predict_scan`: the bags of a table that need not fit into memory, predicted by an ordinary model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags
from bagwise.bags.checks import FarValue, compare_columns, compared, find_far, say_far
from bagwise.embeddings.summaries import Statistics
from bagwise.explanations.contributions import by_rows, unwrapped
from bagwise.instances import EachInstance, Imputation
from bagwise.io.atomic_files import new_folder, refuse_place
from bagwise.out_of_core.chunks import BagValues, Chunk
from bagwise.out_of_core.passes import BLOCK_ROWS, AgreedValues, Passes, PerBag, Tally, refuse_unusable, sum_rows
from bagwise.out_of_core.scan_imputation import impute
from bagwise.out_of_core.sums import SUMMABLE, Prepare, statistics_rows
from bagwise.out_of_core.table_scan import Scan
from bagwise.regressors import AggregateGP

PART_BAGS = 1_000_000  # to a file
COLUMNS = ("prediction", "instances")


class Predictions(NamedTuple):
    """The bags of a scan, as they first appear, what is predicted for each, and how many instances it has."""

    ids: np.ndarray
    values: np.ndarray
    sizes: np.ndarray


def predict_scan(model, scan: Scan, *, out=None, executor=None) -> Predictions:
    """Predict every bag of a scan, wherever its rows lie.

    Where the prediction of a bag is the mean of what its instances would be predicted alone, it is a sum over rows: of
    `fit_scan`'s methods that is so for all but `statistics:moments`, which takes three passes.

    Parameters
    ----------
    model : fitted estimator
        Of `fit_scan`, or any fitted method whose predictions are sums over instances.
    scan : Scan
        With the features that the model was fitted on; a target is not needed.
    out : path, optional
        A new folder to which the predictions are written as a Parquet data set, ``part-00000.parquet`` and so on: the
        id of a bag, ``prediction`` and ``instances``. It appears whole or not at all.
    executor : object with ``run``, optional
        `Processes(n)` for several cores, `Dask(client)` for a cluster. By default this process, and inside
        `bagwise.cluster` its workers.

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
    passes, model = Passes(scan, executor), unwrapped(model)
    check_is_fitted(model[-1] if isinstance(model, Pipeline) else model)
    if out is not None:
        refuse_place(out)
        if scan.bag in COLUMNS:
            raise ValueError(f"the bag column is called {scan.bag!r}, as a column of the output is; rename it first")
    stages, model = _steps(model)
    if stages and isinstance(stages[0], Imputation):
        compare_columns(_columns(scan), stages[0])
        passes, stages = Passes(impute(stages[0], passes), executor), stages[1:]
    found = _predict(passes, stages, model)
    scan.warn_of_new_files()
    if out is not None:
        new_folder(out, lambda folder: _write(folder, scan.bag, found))
    return found


def _steps(model) -> tuple[list, Any]:
    """The stages of a fitted model, and the regressor at the end."""
    if not isinstance(model, Pipeline):
        return [], model
    return [step for _, step in model.steps[:-1]], unwrapped(model.steps[-1][1])


def _columns(scan: Scan) -> Bags:
    """A bag with the columns of the scan, to be compared with those of training."""
    names, beside = list(scan.feature_names), {}
    if scan.covariates:
        beside = {"covariates": np.zeros((1, len(scan.covariates))), "covariate_names": list(scan.covariates)}
    return Bags(np.zeros((1, len(names))), [0, 1], feature_names=names, **beside)


def _predict(passes: Passes, stages: list, last) -> Predictions:
    if all(by_rows(stage) for stage in stages) and (isinstance(last, AggregateGP) or getattr(last, "additive_", False)):
        return _sum(passes, stages, last)
    if len(stages) == 1 and isinstance(stages[0], EachInstance) and _has_moments(last):
        return _from_statistics(passes, stages[0], last)
    raise ValueError(
        "the predictions of this model are no sums over instances, so bags cannot be predicted piece by piece; "
        "load the table and use model.predict, or fit a model with bagwise.fit_scan"
    )


def _has_moments(head) -> bool:
    embedding = getattr(head, "embedding_", None)
    summable = isinstance(embedding, Statistics) and set(embedding.statistics) <= set(SUMMABLE)
    return summable and head.offset == "none"


def _write(folder: Path, bag: str, found: Predictions) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {bag: found.ids} | dict(zip(COLUMNS, (found.values, found.sizes), strict=True))
    for number, start in enumerate(range(0, len(found.ids), PART_BAGS)):
        part = {name: pa.array(column[start : start + PART_BAGS]) for name, column in columns.items()}
        pq.write_table(pa.table(part), folder / f"part-{number:05d}.parquet")


def _sum(passes: Passes, stages: list, last) -> Predictions:
    tallies, totals, far = PerBag(), PerBag(), _Far()
    names = list(passes.scan.feature_names), list(passes.scan.covariates)
    for own, (_, tally, total, marked, firsts) in passes.meet(_alone, stages, last, names):
        tallies.rows(passes.n_bags, tally)[own] += tally
        totals.rows(passes.n_bags, total)[own] += total
        far.take(own, marked, firsts, passes.n_bags)
    tally = Tally(tallies.upto(passes.n_bags))
    tally.refuse_empty(passes.ids)
    far.warn(passes.ids)
    is_mean = getattr(last, "aggregate", "mean") == "mean"
    return Predictions(passes.ids, totals.upto(passes.n_bags) / (tally.totals if is_mean else 1), tally.sizes)


class _Far(PerBag):
    """Which bags hold values far outside the range of training, and the first such value of the bag met first."""

    def __init__(self):
        super().__init__()
        self.firsts: dict[int, FarValue] = {}

    def take(self, own: np.ndarray, marked: np.ndarray, firsts: dict[int, FarValue], n_bags: int) -> None:
        self.rows(n_bags, marked)[own] |= marked
        for code, first in firsts.items():
            self.firsts.setdefault(int(own[code]), first)

    def warn(self, ids: np.ndarray) -> None:
        if self.firsts:
            say_far(ids, self.upto(len(ids)), self.firsts[min(self.firsts)])


def _far(X, bag, first, names, marked: np.ndarray, firsts: dict[int, FarValue]) -> None:
    """Mark the bags of a block with values far outside, and note the value of the first of them."""
    rows, value = find_far(X, first, names)
    if value is not None:
        marked[bag[rows]] = True
        lowest = bag[rows].min()
        found = find_far(X[rows & (bag == lowest)], first, names)[1]
        if found is not None:
            firsts.setdefault(int(lowest), found)


def _alone(chunk: Chunk, stages: list, last, names) -> tuple:
    """Of the bags of a chunk: ids, how much there is of each, Σ of what every row is predicted alone, and far values.

    The predictions are summed by the weights of the rows.
    """
    ids, bag = chunk.bags()
    tally, sums, marked = np.zeros((len(ids), 4)), np.zeros(len(ids)), np.zeros(len(ids), dtype=bool)
    firsts: dict[int, FarValue] = {}
    first, (features, covariates) = [*stages, last][0], names
    exposed = getattr(last, "with_exposure_", False) and last.counts_exposure
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=bag, covariates=True):
        refuse_unusable(block, ids, chunk)
        tally += Tally.of(block.bag, block.weight, len(ids)).rows
        block = block if block.weight is None else block.select(block.weight > 0)
        if not len(block.bag):
            continue
        beside = {} if block.covariates is None else {"covariates": block.covariates, "covariate_names": covariates}
        alone = Bags(block.X, np.arange(len(block.X) + 1), feature_names=features, **beside)
        if exposed:  # what is predicted is proportional to the weight, and is no more to be multiplied by it
            alone = alone if block.weight is None else alone.with_weights(block.weight)
        found: Any = compared(alone)
        for stage in stages:
            found = stage.transform(found)
        values = last.predict(found)
        seen = alone if first.n_covariates_in_ else alone.spread()  # after predict, which has compared the columns
        _far(seen.instances, block.bag, first, list(seen.feature_names), marked, firsts)
        sums += sum_rows(block.bag, values[:, None], len(ids), None if exposed else block.weight)[:, 0]
    return ids, tally, sums, marked, firsts


def _from_statistics(passes: Passes, stage, head) -> Predictions:
    names = list(passes.scan.feature_names)
    compare_columns(_columns(passes.scan), stage)
    tallies, far, agreed, empty = PerBag(), _Far(), AgreedValues(passes.scan), []
    for own, (ids, tally, values, marked, firsts) in passes.meet(_count, stage, names):
        tallies.rows(passes.n_bags, tally)[own] += tally
        agreed.take(own, values, ids, passes.n_bags)
        far.take(own, marked, firsts, passes.n_bags)
        empty.append(not tally[:, 0].any())
    passes.leave_out(empty)
    tally = Tally(tallies.upto(passes.n_bags))
    tally.refuse_empty(passes.ids)
    far.warn(passes.ids)
    rows = statistics_rows(head.embedding_, passes, tally, Prepare(stage))[:, head.embedding_.varies_]
    if head.beside_ is not None:
        covariates = agreed.upto(passes.n_bags).covariates
        rows = head.beside_.join(rows, stage.covariate_scaler_.transform(covariates))
    return Predictions(passes.ids, head.head_.predict(rows), tally.sizes)


def _count(chunk: Chunk, stage, names) -> tuple:
    ids, bag = chunk.bags()
    tally, marked = np.zeros((len(ids), 4)), np.zeros(len(ids), dtype=bool)
    firsts: dict[int, FarValue] = {}
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=bag):
        refuse_unusable(block, ids, chunk)
        tally += Tally.of(block.bag, block.weight, len(ids)).rows
        _far(block.X, block.bag, stage, names, marked, firsts)
    values = chunk.of_bags(ids, bag) if len(ids) else BagValues()
    return ids, tally, values._replace(y=None, groups=None, weight=None), marked, firsts
