"""Passes over the chunks of a scan, and over the shards of its bags: a function of each, or its sum over all.

The first pass is the `survey`: sizes, targets and means of the bags, moments and extremes of the columns, a sample.
During a pass, memory that a block of rows frees is kept for the next block (`kept_memory`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array

from bagwise.bags import Bags, remember_columns
from bagwise.bags.checks import compared
from bagwise.bags.frames import ArrayColumns, FrameColumns
from bagwise.bags.training_profile import CALIBRATION, TrainingProfile
from bagwise.bags.validation import FLOATS, LARGEST, Parameter, ParameterError, name_bags
from bagwise.execution import executor_for
from bagwise.execution.threads import one_thread
from bagwise.io.columns import any_row, one_label, one_target
from bagwise.kernels.random_features import row_keys, scale_of
from bagwise.out_of_core import shards as bag_shards
from bagwise.out_of_core.checkpoints import PassRunner, Work
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.shards import Shard, Shards, unit_sizes
from bagwise.out_of_core.table_scan import Scan

ONE_IN_ALL = "a bag has one, the same in all files"
BLOCK_ROWS = 16_384  # rows at a time: 64 MB of 500 features
TOLD = "MALLOC_TRIM_THRESHOLD_"  # how a process is told, when it starts, to give back freed memory
KEPT, USUAL = 2**28, 2**17  # bytes
_TRIM, _MAP = -1, -3  # settings of mallopt(3): what may be kept, and what is taken from the system by itself
_LARGEST_MAP = 2**25


class Piece(NamedTuple):
    """A chunk and its number."""

    number: int
    chunk: Chunk

    def __str__(self) -> str:
        return self.chunk.name


class Left(NamedTuple):
    """What a task on a chunk leaves to the shards, by name: arrays with a row for each of its bags; and its result."""

    rows: dict[str, np.ndarray]
    rest: Any = None


class Met(NamedTuple):
    """The same, of a first pass: the ids of the bags, and their groups if there are some."""

    ids: np.ndarray
    groups: np.ndarray | None = None
    rows: dict[str, np.ndarray] = {}
    rest: Any = None


class Passes:
    """Passes over a scan, run by an executor. The first is `meet`, which names the bags; then any of the others.

    What is known of every bag lies in a folder, by `Shards`; this process holds nothing that grows with their number.

    Parameters
    ----------
    scan : Scan
    executor : object with ``run``, optional
    seed : int
        Of the folds to which bags are dealt.
    work : Work, or path, optional
        A work folder, in which what is known of the bags stays with the results of the passes. Or where a folder is
        made, and removed at the end; all workers must reach it. By default the system's folder for temporary files.
    progress : function of a `PassStep`, optional

    Attributes
    ----------
    chunks : those that have rows, once they were met
    shards : Shards
    """

    def __init__(self, scan: Scan, executor=None, *, seed: int = 0, work=None, progress: Callable | None = None):
        if not isinstance(scan, Scan):
            raise TypeError(f"expected what bagwise.scan(...) gives, not {type(scan).__name__}")
        if executor is not None and not hasattr(executor, "run"):
            raise TypeError(f"an executor has a run method, such as bagwise.execution.Processes(2); not {executor!r}")
        kept = work if isinstance(work, Work) else None
        self.scan = scan
        self.runner = PassRunner(executor_for(None) if executor is None else executor, kept, progress)
        self.chunks: list[Piece] = []
        self._temporary = None
        if kept is None:
            self._temporary = TemporaryDirectory(prefix="bagwise-", dir=work, ignore_cleanup_errors=True)
            folder = Path(self._temporary.name)
        else:
            folder = kept.new_shards()
        self.shards = Shards(folder, seed)

    def __enter__(self) -> Passes:
        return self

    def __exit__(self, *_) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def meet(self, function: Callable, *shared) -> Iterator[Any]:
        """What is left (``rest``) of ``function(chunk, *shared)``, a `Met`, for every chunk that has rows, in order.

        Chunks without any row are left out from now on. When all are met, the shards are formed.
        """
        pieces, n_pieces = [Piece(*one) for one in enumerate(self.scan.chunks)], 0
        results = self.runner.in_order(_meet, pieces, (function, self._begin(), *shared))
        for piece, (n_bags, rest) in zip(pieces, results, strict=True):
            if n_bags:
                self.chunks.append(piece)
                n_pieces += n_bags
                yield rest
        if not self.chunks:
            raise ValueError("the scan has no rows; look at `where`, or at the files")
        numbers = tuple(piece.number for piece in self.chunks)
        self.shards = replace(self.shards, chunks=numbers, n=-(-n_pieces // bag_shards.SHARD_BAGS))
        self.runner.add_up(_form, list(self._begin()), (Shard.form,), _Known(None))

    def each(self, function: Callable, *shared, known: tuple[str, ...] = ()) -> Iterator[Any]:
        """``function(chunk, *known, *shared)`` of every chunk, in order; ``known`` names what the shards keep.

        Of a `Left`, the rows are left to the shards.
        """
        return self.runner.in_order(_visit, self.chunks, (function, self._begin(), known, *shared))

    def total(self, function: Callable, *shared, known: tuple[str, ...] = (), add: Callable) -> Any:
        """The same, added up over all chunks.

        Sums that wait to be added are as many as the logarithm of the number of chunks. Where they are added in this
        process they wait on disk, unless a work folder has them anyway.
        """
        shared = (function, self._begin(), known, *shared)
        if hasattr(self.runner.executor, "add_up") or self.runner.work is not None:
            return self.runner.add_up(_visit, self.chunks, shared, add)
        put_away = _AddStored(add, self.shards)
        return self.shards.fetch(self.runner.add_up(_visit_and_store, self.chunks, shared, put_away))

    def each_shard(self, function: Callable, *shared) -> Iterator[Any]:
        """``function(shard, *shared)`` of every shard that has bags, in order; None for the others."""
        return self.runner.in_order(_visit_shard, list(self.shards), (function, *shared))

    def by_shard(self, function: Callable, *shared, add: Callable | None = None) -> Any:
        """``function(shard, *shared)`` of every shard that has bags, added up if there is something to add."""
        return self.runner.add_up(_visit_shard, list(self._begin()), (function, *shared), _Known(add))

    def _begin(self) -> Shards:
        """The shards as a new pass finds them."""
        self.shards = self.shards.for_next_pass()
        return self.shards


class _Known:
    """Adding of what may be None."""

    def __init__(self, add: Callable | None):
        self.add = add

    def __call__(self, left, right):
        if left is None or right is None or self.add is None:
            return right if left is None else left
        return self.add(left, right)


def _meet(piece: Piece, function, shards: Shards, *shared) -> tuple[int, Any]:
    with one_thread(), kept_memory():
        met = function(piece.chunk, *shared)
        if len(met.ids):
            shards.enter(piece.number, met.ids, met.groups)
            shards.put(piece.number, met.rows)
        return len(met.ids), met.rest


def _visit(piece: Piece, function, shards: Shards, known, *shared):
    with one_thread(), kept_memory():
        result = function(piece.chunk, *(shards.known(piece.number, name) for name in known), *shared)
        if not isinstance(result, Left):
            return result
        shards.put(piece.number, result.rows)
        return result.rest


def _visit_and_store(piece: Piece, function, shards: Shards, *others) -> str:
    return shards.store(_visit(piece, function, shards, *others))


class _AddStored:
    """Adding of what was stored, one pair at a time in memory."""

    def __init__(self, add: Callable, shards: Shards):
        self.add, self.shards = add, shards

    def __call__(self, left: str, right: str) -> str:
        return self.shards.store(self.add(self.shards.fetch(left), self.shards.fetch(right)))


def _form(shard: Shard, form):
    with kept_memory():
        form(shard)


def _visit_shard(shard: Shard, function, *shared):
    with one_thread(), kept_memory():
        return function(shard, *shared) if len(shard) else None


def sum_rows(bag: np.ndarray, values: np.ndarray, n_bags: int) -> np.ndarray:
    """Σ over the rows of every bag, the rows in any order: (n_bags, columns) in float64."""
    # A matrix with a one for every row, in the line of its bag: compiled code adds the rows up, one after another.
    cells = csc_array((np.ones(len(bag)), bag, np.arange(len(bag) + 1)), shape=(n_bags, len(bag)))
    return cells @ np.asarray(values, dtype=np.float64)


@contextmanager
def kept_memory() -> Iterator[None]:
    """A context in which freed memory is kept, up to 256 MB; at its end all goes back to the system.

    Dask tells its workers to give it back at once, so that what they hold is what they use. Every array of the next
    block is then cleared by the system before it is written: 1.8 times the time of a fit. Nothing is changed in
    processes that were not told so, nor without the C library that understands it (glibc).

    Examples
    --------
    >>> with kept_memory():
    ...     sum(range(10))
    45
    """
    library = _library() if TOLD in os.environ else None
    if library is None:
        yield
        return
    _set(library, keep=KEPT, map_from=_LARGEST_MAP)
    try:
        yield
    finally:
        _set(library, keep=int(os.environ[TOLD]), map_from=USUAL)
        library.malloc_trim(0)


def _set(library, *, keep: int, map_from: int) -> None:
    library.mallopt(_TRIM, keep)
    library.mallopt(_MAP, map_from)


@cache
def _library():
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


@dataclass(frozen=True)
class ColumnSums:
    """Mean and scatter of columns. Two of them merge into that of all rows, by the formula of Chan et al. (1979).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> both = ColumnSums.merged([ColumnSums.of(X[:1]), ColumnSums.of(X[1:])])
    >>> both.mean.tolist(), both.variance.round(6).tolist(), both.high.tolist()
    ([2.0, 3.0], [2.666667, 2.666667], [4.0, 5.0])
    """

    n: int
    mean: np.ndarray
    scatter: np.ndarray  # Σ (x - mean)²
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> ColumnSums:
        X = X.astype(np.float64)
        mean = X[0] + (X - X[0]).mean(axis=0)  # counted from a row: a constant column has no rounding
        return cls(len(X), mean, ((X - mean) ** 2).sum(axis=0), X.min(axis=0), X.max(axis=0))

    @classmethod
    def merged(cls, parts: Iterable[ColumnSums]) -> ColumnSums:
        return reduce(cls.merge, parts)

    def merge(self, other: ColumnSums) -> ColumnSums:
        n, gap = self.n + other.n, other.mean - self.mean
        return ColumnSums(
            n,
            self.mean + gap * (other.n / n),
            self.scatter + other.scatter + gap**2 * (self.n * other.n / n),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def variance(self) -> np.ndarray:
        return self.scatter / self.n

    @property
    def deviation(self) -> np.ndarray:
        return np.sqrt(self.variance)

    @property
    def largest(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def scale(self) -> np.ndarray:
        """The deviation, or 1 where nothing but rounding varies."""
        return scale_of(self.deviation, self.largest)


@dataclass(frozen=True)
class Sample:
    """The distinct rows of the smallest keys, in the order of the keys: the same whatever the order of all rows."""

    size: int
    keys: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, size: int, seed: int) -> Sample:
        return cls(size, row_keys(X, seed), X)._smallest() if size else cls(0, np.empty(0, np.uint64), X[:0])

    def merge(self, other: Sample) -> Sample:
        keys, rows = np.concatenate([self.keys, other.keys]), np.concatenate([self.rows, other.rows])
        return Sample(self.size, keys, rows)._smallest()

    def _smallest(self) -> Sample:
        if self.size < len(self.keys):  # a first cut without sorting them all; copies of a row may fill it
            cut = np.partition(self.keys, self.size)[self.size]
            near = self.keys <= cut
            if len(np.unique(self.keys[near])) >= self.size:
                return Sample(self.size, self.keys[near], self.rows[near])._distinct()
        return self._distinct()

    def _distinct(self) -> Sample:
        keys, first = np.unique(self.keys, return_index=True)
        return Sample(self.size, keys[: self.size], self.rows[first[: self.size]])


@dataclass(frozen=True)
class Survey:
    """What the first pass finds. Of the bags themselves the shards keep "sizes", "means" and "y".

    Attributes
    ----------
    names : list of the columns
    columns : `ColumnSums` of all instances
    samples : {sampling: array}
        Distinct rows, drawn by a hash of their content.
    means : `ColumnSums` of the means of bags
    y : `ColumnSums` of the targets of bags, one column
    sizes : how many bags there are of every number of instances
    units : for every shard that has bags, how many groups (or bags) there are of every number of bags
    some : Bags
        A few bags, drawn by a hash of their ids, each as one instance, its mean.
    """

    names: list[str]
    columns: ColumnSums
    samples: dict[tuple[int, int], np.ndarray]
    means: ColumnSums
    y: ColumnSums
    sizes: Counter
    units: dict[int, Counter]
    some: Bags

    @property
    def n_bags(self) -> int:
        return self.y.n

    @property
    def n_units(self) -> int:
        return sum(one.total() for one in self.units.values())

    def remember(self, estimator, columns: ColumnSums | None = None) -> None:
        """As `remember_columns`, of bags of which the range of the means is known; by default those of the scan."""
        found = self.means if columns is None else columns
        names = self.names if columns is None else None
        ends = Bags(np.vstack([found.low, found.high]), [0, 1, 2], feature_names=names)
        remember_columns(estimator, compared(ends))  # no model's profile is of means
        estimator.n_bags_in_ = self.n_bags

    def profile(self) -> TrainingProfile:
        """What `bagwise.novelty` compares new bags with."""
        profile = TrainingProfile(self.some, means_within=(self.columns.low, self.columns.high))
        profile.n_bags, profile.n_units = self.n_bags, self.n_units
        return profile

    def describe(self) -> dict:
        """As `model_files.describe_counts`."""
        sizes, counts = np.array(sorted(self.sizes.items())).T
        middle = np.searchsorted(np.cumsum(counts), [(self.n_bags - 1) // 2, self.n_bags // 2], side="right")
        median = float(sizes[middle].mean())
        return {
            "bags": self.n_bags,
            "instances": int(sizes @ counts),
            "features": len(self.names),
            "instances_per_bag": {"min": float(sizes[0]), "median": median, "max": float(sizes[-1])},
            "target": {"min": float(self.y.low[0]), "mean": float(self.y.mean[0]), "max": float(self.y.high[0])},
        }


def survey(passes: Passes, *samplings: tuple[int, int]) -> Survey:
    """Go over all chunks once; a sampling is how many distinct rows to draw, and the seed."""
    scan = passes.scan
    if scan.target is None:
        raise ParameterError(
            "target",
            "there is no target to learn from; scan the table with ",
            Parameter("target"),
            " the name of its column",
        )
    columns: Any = None
    samples: Any = None
    for found, drawn in passes.meet(_look, scan.target, scan.groups, samplings):
        columns = found if columns is None else columns.merge(found)
        samples = drawn if samples is None else _merge_samples(samples, drawn)
    if scan.groups is not None:
        passes.by_shard(_agree_on_groups, scan.groups)
    facts = passes.by_shard(_whole_bags, scan.target, add=_Facts.merge)
    if facts.y.n < 2:
        raise ValueError("one bag is not enough to learn from; fit needs at least two")
    passes.shards.remove("sums", "ids")
    names = list(scan.feature_names)
    some, groups = facts.some, facts.some.groups if scan.groups is not None else None
    some = compared(Bags(some.means, np.arange(len(some.means) + 1), groups=groups, feature_names=names))
    rows = {sampling: sample.rows for sampling, sample in zip(samplings, samples, strict=True)}
    return Survey(names, columns, rows, facts.means, facts.y, facts.sizes, facts.units, some)


def _merge_samples(left: list[Sample], right: list[Sample]) -> list[Sample]:
    return [one.merge(other) for one, other in zip(left, right, strict=True)]


def _look(chunk: Chunk, target, groups, samplings) -> Met:
    ids, bag = chunk.bags()
    targets: list[Any] = []
    labels: list[Any] = []
    sums: Any = 0.0
    columns: Any = None
    samples: Any = None
    for block in chunk.blocks(codes=bag, target=True, groups=groups is not None):
        refuse_unusable(block.X, block.bag, ids, chunk)
        targets.append(block.y)
        labels.append(block.groups)
        sums = sums + sum_rows(block.bag, block.X, len(ids))
        found, drawn = ColumnSums.of(block.X), [Sample.of(block.X, *sampling) for sampling in samplings]
        columns = found if columns is None else columns.merge(found)
        samples = drawn if samples is None else _merge_samples(samples, drawn)
    if not targets:
        return Met(ids)
    first = np.flatnonzero(np.diff(np.maximum.accumulate(bag), prepend=-1))
    y = one_target(ArrayColumns({target: np.concatenate(targets)}), target, bag, first, ids)
    group = None if groups is None else _one_group(groups, np.concatenate(labels), bag, first, ids)
    rows = {"sizes": np.bincount(bag, minlength=len(ids)), "sums": sums, "y": y}
    return Met(ids, group, rows, (columns, samples))


_look.title = "survey"  # type: ignore[attr-defined]  # as it is called on a dashboard and in a work folder


class _Facts(NamedTuple):
    """What is found in a shard."""

    means: ColumnSums
    y: ColumnSums
    sizes: Counter
    units: dict[int, Counter]
    some: _Some

    def merge(self, other: _Facts) -> _Facts:
        return _Facts(
            self.means.merge(other.means),
            self.y.merge(other.y),
            self.sizes + other.sizes,
            self.units | other.units,
            self.some.merge(other.some),
        )


class _Some(NamedTuple):
    """The bags whose ids have the smallest hashes: these, which group each is of, and its mean."""

    keys: np.ndarray
    groups: np.ndarray
    means: np.ndarray

    @classmethod
    def of(cls, names: np.ndarray, means: np.ndarray) -> _Some:
        hashes = names.view(np.uint8).reshape(len(names), -1)
        groups, keys = (hashes[:, part].copy().view(">u8")[:, 0] for part in (slice(0, 8), slice(8, 16)))
        return cls(keys, groups, means)._smallest()

    def merge(self, other: _Some) -> _Some:
        return _Some(*(np.concatenate(both) for both in zip(self, other, strict=True)))._smallest()

    def _smallest(self) -> _Some:
        order = np.argsort(self.keys, kind="stable")[:CALIBRATION]
        return _Some(*(part[order] for part in self))


def _whole_bags(shard: Shard, target: str) -> _Facts:
    def differ(ids, mask):
        raise ValueError(f"{name_bags(ids, mask)} more than one target in column {target!r}; {ONE_IN_ALL}")

    y, sizes = shard.agree("y", differ), shard.gather("sizes")
    means, units = shard.gather("sums") / sizes[:, None], shard.units
    for name, rows in {"y": y, "sizes": sizes, "means": means}.items():
        shard.keep(name, rows)
    distinct, counts = np.unique(sizes, return_counts=True)
    of_size = Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
    some = _Some.of(np.array(shard["names"]), means)
    return _Facts(ColumnSums.of(means), ColumnSums.of(y[:, None]), of_size, {shard.number: unit_sizes(units)}, some)


def _agree_on_groups(shard: Shard, groups: str) -> None:
    def differ(ids, mask):
        raise ValueError(f"{name_bags(ids, mask)} rows of more than one group in column {groups!r}; {ONE_IN_ALL}")

    shard.agree_on_units(differ)


def _one_group(name, labels: np.ndarray, bag, first, ids) -> np.ndarray:
    import pyarrow as pa

    return one_label(FrameColumns(pa.table({name: pa.array(labels)})), name, bag, first, ids)


def refuse_unusable(X: np.ndarray, bag: np.ndarray, ids: np.ndarray, chunk: Chunk) -> None:
    """No NaN, nothing infinite, nothing whose square is."""
    with np.errstate(invalid="ignore"):
        usable = (np.abs(X) <= FLOATS[X.dtype]).all(axis=1)
    if not usable.all():
        raise ValueError(
            f"{name_bags(ids, any_row(~usable, bag, ids))} missing (NaN), infinite or huge (beyond {LARGEST:g}) "
            f"feature values in {chunk.name}; fill them in, or leave such rows out with where="
        )
