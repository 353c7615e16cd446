"""`predict_scan`: the bags of a table that need not fit into memory, predicted by an ordinary model."""

from __future__ import annotations

import operator
from collections.abc import Callable
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
from bagwise.embeddings.summaries import Statistics
from bagwise.explanations.explanation import by_rows, unwrapped
from bagwise.instances import EachInstance
from bagwise.io.atomic_files import new_folder, refuse_place, replace_file
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.passes import BLOCK_ROWS, Met, Passes, refuse_unusable, sum_rows
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.sums import SUMMABLE, Prepare, View, sum_statistics
from bagwise.out_of_core.table_scan import Scan
from bagwise.regressors import AggregateGP

COLUMNS = ("prediction", "instances")


class Predictions(NamedTuple):
    """The bags of a scan, as they first appear, what is predicted for each, and how many instances it has."""

    ids: np.ndarray
    values: np.ndarray
    sizes: np.ndarray


class WrittenPredictions:
    """The same of predictions in a folder, part by part; they are read when they are asked for.

    Attributes
    ----------
    folder : Path
    ids, values, sizes : arrays, as in `Predictions`
    """

    def __init__(self, folder: Path | str, bag: str):
        self.folder, self._bag = Path(folder), bag

    def __repr__(self) -> str:
        return f"WrittenPredictions: {self.folder}"

    def _column(self, name: str) -> np.ndarray:
        import pyarrow.parquet as pq

        parts = [pq.read_table(path, columns=[name])[name] for path in sorted(self.folder.glob("part-*.parquet"))]
        return np.concatenate([part.to_numpy() for part in parts])

    @property
    def ids(self) -> np.ndarray:
        return self._column(self._bag)

    @property
    def values(self) -> np.ndarray:
        return self._column("prediction")

    @property
    def sizes(self) -> np.ndarray:
        return self._column("instances")


def predict_scan(model, scan: Scan, *, out=None, executor=None, work=None) -> Predictions | WrittenPredictions:
    """Predict every bag of a scan, wherever its rows lie.

    Where the prediction of a bag is the mean of what its instances would be predicted alone, it is a sum over rows: of
    `fit_scan`'s methods that is so for all but `statistics:moments`, which takes three passes. Members of `auto` are
    predicted together, and blended.

    Parameters
    ----------
    model : fitted estimator
        Of `fit_scan`, or any fitted method whose predictions are sums over instances.
    scan : Scan
        With the features that the model was fitted on; a target is not needed.
    out : path, optional
        A new folder to which the predictions are written as a Parquet data set, ``part-00000.parquet`` and so on: the
        id of a bag, ``prediction`` and ``instances``. It appears whole or not at all. The parts are written by whoever
        runs the passes, bags in the order of a hash of their ids; this process holds nothing that grows with their
        number.
    executor : object with ``run``, optional
        `Processes(n)` for several cores, `Dask(client)` for a cluster. By default this process, and inside
        `bagwise.cluster` its workers.
    work : path, optional
        A folder that all workers reach, in which the sums of bags are put meanwhile. By default the system's folder for
        temporary files.

    Returns
    -------
    Predictions
        ``ids``, ``values`` and ``sizes`` of all bags, as they first appear. With ``out``, `WrittenPredictions`, which
        reads them from the folder when they are asked for.

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
    model = unwrapped(model)
    with Passes(scan, executor, work=work) as passes:
        check_is_fitted(model[-1] if isinstance(model, Pipeline) else model)
        if out is not None:
            refuse_place(out)
            if scan.bag in COLUMNS:
                raise ValueError(
                    f"the bag column is called {scan.bag!r}, as a column of the output is; rename it first"
                )
        values, firsts = _predict(passes, model)
        _warn_of_far(passes, firsts)
        if out is None:
            return _collect(passes, values)
        new_folder(out, lambda folder: passes.by_shard(_write, values, scan.bag, folder))
        return WrittenPredictions(out, scan.bag)


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
        return "moments" if len(stages) == 1 and isinstance(stages[0], EachInstance) and _has_moments(last) else None


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
    terms, names = _terms(model), list(passes.scan.feature_names)
    kinds = [term.kind for term in terms]
    if None in kinds:
        raise ValueError(
            "the predictions of this model are not sums over instances, so bags cannot be predicted piece by piece; "
            "load the table and use model.predict, or fit a model with bagwise.fit_scan"
        )
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    compare_columns(Bags(np.zeros((1, len(names))), [0, 1], feature_names=names), first)
    alone = [term.model for term, kind in zip(terms, kinds, strict=True) if kind == "sum"]
    firsts = list(passes.meet(_alone, alone, first, names))
    passes.by_shard(_keep_sums)
    for number, (term, kind) in enumerate(zip(terms, kinds, strict=True)):
        if kind == "moments":
            sum_statistics(term.last.embedding_, passes, Prepare(term.stages[0]))
            passes.by_shard(_by_head, term.last.head_, np.flatnonzero(term.last.embedding_.varies_), f"term-{number}")
    return partial(_blended, parts=_parts(terms, kinds)), firsts


class Part(NamedTuple):
    """Where a shard finds a part of the prediction of a bag."""

    weight: float
    limits: tuple[float, float]
    column: str | None = None
    place: int | None = None  # among the sums over instances
    mean: bool = True
    constant: float = 0.0

    def __call__(self, shard: Shard) -> np.ndarray:
        if self.place is not None:
            values = shard["alone"][:, self.place] / (shard["sizes"] if self.mean else 1)
        else:
            values = np.full(len(shard), self.constant) if self.column is None else np.asarray(shard[self.column])
        return self.weight * np.clip(values, *self.limits)


def _parts(terms: list[Term], kinds: list[str | None]) -> list[Part]:
    parts = []
    for number, (term, kind) in enumerate(zip(terms, kinds, strict=True)):
        part = Part(term.weight, term.limits)
        if kind == "constant":
            part = part._replace(constant=term.last.mean_)
        elif kind == "moments":
            part = part._replace(column=f"term-{number}")
        else:
            mean = getattr(term.last, "aggregate", "mean") == "mean"
            part = part._replace(place=kinds[:number].count("sum"), mean=mean)
        parts.append(part)
    return parts


def _keep_sums(shard: Shard) -> None:
    for name in ("sizes", "alone"):
        shard.keep(name, shard.gather(name))


def _blended(shard: Shard, *, parts: list[Part]) -> tuple[np.ndarray, np.ndarray]:
    return np.sum([part(shard) for part in parts], axis=0), np.asarray(shard["sizes"])


def _by_head(shard: Shard, head, kept: np.ndarray, column: str) -> None:
    shard.keep(column, head.predict(View(kept=kept)(shard)))


def _has_moments(head) -> bool:
    embedding = getattr(head, "embedding_", None)
    summable = isinstance(embedding, Statistics) and set(embedding.statistics) <= set(SUMMABLE)
    return summable and head.beside_ is None and head.offset == "none"


def _collect(passes: Passes, values: Callable) -> Predictions:
    """The predictions of all bags in this process, in the order in which bags first appear."""
    parts = passes.runner.in_order(_of_shard, list(passes.shards), (values,))
    ids, first, predicted, sizes = (list(part) for part in zip(*(one for one in parts if one is not None), strict=True))
    order = np.lexsort(np.concatenate(first)[:, ::-1].T)
    return Predictions(*(np.concatenate(part)[order] for part in (ids, predicted, sizes)))


def _of_shard(shard: Shard, values: Callable) -> tuple | None:
    return (*shard.gather_ids(), *values(shard)) if len(shard) else None


def _write(shard: Shard, values: Callable, bag: str, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = dict(zip((bag, *COLUMNS), (shard.gather_ids()[0], *values(shard)), strict=True))
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    replace_file(folder / f"part-{shard.number:05d}.parquet", lambda path: pq.write_table(table, path))


class _FirstFar(NamedTuple):
    """The first bag of a chunk with values far outside the range of training, and the first such value."""

    bag: Any
    value: FarValue


def _warn_of_far(passes: Passes, firsts: list[_FirstFar | None]) -> None:
    first = next((one for one in firsts if one is not None), None)
    if first is not None:
        count = passes.by_shard(_count_far, add=operator.add)
        ids = np.empty(count, dtype=object)
        ids[:] = [first.bag] * count
        say_far(ids, np.ones(count, dtype=bool), first.value)


def _count_far(shard: Shard) -> int:
    return int(shard.gather("far", np.logical_or).sum())


def _far(X, bag, first, names, marked: np.ndarray, firsts: dict[int, FarValue]) -> None:
    """Mark the bags of a block with values far outside, and note the value of the first of them."""
    rows, value = find_far(X, first, names)
    if value is not None:
        marked[bag[rows]] = True
        lowest = bag[rows].min()
        found = find_far(X[rows & (bag == lowest)], first, names)[1]
        if found is not None:
            firsts.setdefault(int(lowest), found)


def _alone(chunk: Chunk, models: list, first, names) -> Met:
    """Of the bags of a chunk: numbers of rows, the sum of what every row is predicted alone, and far values."""
    ids, bag = chunk.bags()
    sums, marked = np.zeros((len(ids), len(models))), np.zeros(len(ids), dtype=bool)
    firsts: dict[int, FarValue] = {}
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=bag):
        refuse_unusable(block.X, block.bag, ids, chunk)
        singles = compared(Bags(block.X, np.arange(len(block.X) + 1), feature_names=names))
        _far(block.X, block.bag, first, names, marked, firsts)
        if models:
            sums += sum_rows(block.bag, np.column_stack([model.predict(singles) for model in models]), len(ids))
    far = _FirstFar(ids[min(firsts)], firsts[min(firsts)]) if firsts else None
    return Met(ids, None, {"alone": sums, "sizes": np.bincount(bag, minlength=len(ids)), "far": marked}, far)
