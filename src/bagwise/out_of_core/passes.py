"""Passes over the chunks of a scan: a function of every chunk, with a row for each bag, or added up over all chunks.

The first pass is the `survey`: sizes, targets and means of the bags, moments and extremes of the columns, a sample.
During a pass, memory that a block of rows frees is kept for the next block (`kept_memory`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array

from bagwise.bags import Bags
from bagwise.bags.checks import compared
from bagwise.bags.validation import FLOATS, LARGEST, Parameter, ParameterError, name_bags
from bagwise.execution import executor_for
from bagwise.execution.tasks import add_up, in_order
from bagwise.execution.threads import one_thread
from bagwise.io.columns import any_row
from bagwise.kernels.random_features import row_keys, scale_of
from bagwise.out_of_core.chunks import BagValues, Block, Chunk
from bagwise.out_of_core.table_scan import Scan

BLOCK_ROWS = 16_384  # rows at a time: 64 MB of 500 features
TOLD = "MALLOC_TRIM_THRESHOLD_"  # how a process is told, when it starts, to give back freed memory
KEPT, USUAL = 2**28, 2**17  # bytes
_TRIM, _MAP = -1, -3  # settings of mallopt(3): what may be kept, and what is taken from the system by itself
_LARGEST_MAP = 2**25


class Piece(NamedTuple):
    """A chunk, and what it is to know of its own bags: arrays with a row for each."""

    chunk: Chunk
    known: tuple[np.ndarray, ...] = ()

    def __str__(self) -> str:
        return self.chunk.name


class Passes:
    """Passes over a scan, run by an executor. The first is `meet`, which numbers the bags; then any of the others.

    Attributes
    ----------
    chunks : those that have rows, once they were met
    own : list of arrays
        For every chunk, which of all bags its own are, in the order of ``chunk.bags()``.
    """

    def __init__(self, scan: Scan, executor=None):
        if not isinstance(scan, Scan):
            raise TypeError(f"expected what bagwise.scan(...) gives, not {type(scan).__name__}")
        if executor is not None and not hasattr(executor, "run"):
            raise TypeError(f"an executor has a run method, such as bagwise.execution.Processes(2); not {executor!r}")
        self.scan, self.executor = scan, executor_for(None) if executor is None else executor
        self.chunks: list[Chunk] = []
        self.own: list[np.ndarray] = []
        self._numbers: dict[Any, int] = {}
        self._ids: list[np.ndarray] = []

    @property
    def n_bags(self) -> int:
        return len(self._numbers)

    @property
    def ids(self) -> np.ndarray:
        """Of all bags met, as they first appear."""
        return np.concatenate(self._ids)

    def meet(self, function: Callable, *shared) -> Iterator[tuple[np.ndarray, Any]]:
        """``function(chunk, *shared)`` of every chunk in order, its first part the ids, and which of all bags they are.

        Chunks without any row are left out from now on.
        """
        pieces = map(Piece, self.scan.chunks)
        results = in_order(self.executor, _visit, pieces, (function, *shared))
        for chunk, result in zip(self.scan.chunks, results, strict=True):
            if len(result[0]):
                self.chunks.append(chunk)
                self.own.append(self._number(result[0]))
                yield self.own[-1], result
        if not self.chunks:
            raise ValueError("the scan has no rows; look at `where`, or at the files")

    def leave_out(self, empty: list[bool]) -> None:
        """Forget chunks that were met, of which all rows are dropped."""
        self.chunks = [chunk for chunk, none in zip(self.chunks, empty, strict=True) if not none]
        self.own = [own for own, none in zip(self.own, empty, strict=True) if not none]

    def each(self, function: Callable, *shared, known=()) -> Iterator[Any]:
        """``function(chunk, *known, *shared)`` of every chunk, in order; ``known``: arrays with a row for every bag."""
        return in_order(self.executor, _visit, self._pieces(known), (function, *shared))

    def total(self, function: Callable, *shared, known=(), add: Callable) -> Any:
        """The same, added up over all chunks."""
        return add_up(self.executor, _visit, self._pieces(known), (function, *shared), add)

    def sum_by_bag(self, function: Callable, *shared, known=()) -> np.ndarray:
        """The sum over all chunks of arrays with a row for each of the chunk's bags: a row for every bag."""
        total: Any = None
        for own, rows in zip(self.own, self.each(function, *shared, known=known), strict=True):
            total = np.zeros((self.n_bags, *rows.shape[1:])) if total is None else total
            total[own] += rows
        return total

    def _number(self, ids: np.ndarray) -> np.ndarray:
        before = self.n_bags
        numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in ids.tolist()]
        own = np.array(numbers, dtype=np.int32)
        self._ids.append(ids[own >= before])
        return own

    def _pieces(self, known) -> Iterator[Piece]:
        for chunk, own in zip(self.chunks, self.own, strict=True):
            yield Piece(chunk, tuple(array[own] for array in known))


class PerBag:
    """A row for every bag, in an array that grows with their number."""

    def __init__(self):
        self._rows = None

    def rows(self, n_bags: int, like: np.ndarray) -> np.ndarray:
        """At least so many rows, those of bags not met before zero (or None)."""
        if self._rows is None or len(self._rows) < n_bags:
            grown = np.zeros((n_bags + n_bags // 2, *like.shape[1:]), dtype=like.dtype)
            if self._rows is not None:
                grown[: len(self._rows)] = self._rows
            self._rows = grown
        return self._rows

    def upto(self, n_bags: int) -> Any:
        return None if self._rows is None else self._rows[:n_bags]


def _visit(piece: Piece, function, *shared):
    with one_thread(), kept_memory():
        return function(piece.chunk, *piece.known, *shared)


def sum_rows(bag: np.ndarray, values: np.ndarray, n_bags: int, weight: np.ndarray | None = None) -> np.ndarray:
    """Σ over the rows of every bag, by their weights if any, the rows in any order: (n_bags, columns) in float64."""
    # A matrix with a one (or the weight) for every row, in the line of its bag: compiled code adds the rows up, one
    # after another.
    ones = np.ones(len(bag)) if weight is None else weight
    cells = csc_array((ones, bag, np.arange(len(bag) + 1)), shape=(n_bags, len(bag)))
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
class Tally:
    """How much there is of every bag: a row for each, or one for the sum over bags.

    ``sizes`` counts its rows, ``counted`` those of a weight above zero; ``totals`` and ``squares`` are Σ w and Σ w².
    """

    rows: np.ndarray

    @classmethod
    def of(cls, bag: np.ndarray, weight: np.ndarray | None, n_bags: int) -> Tally:
        sizes = np.bincount(bag, minlength=n_bags).astype(np.float64)
        if weight is None:
            return cls(np.column_stack([sizes] * 4))
        parts = (np.bincount(bag, of, n_bags) for of in ((weight > 0).astype(np.float64), weight, weight**2))
        return cls(np.column_stack([sizes, *parts]))

    @property
    def sizes(self) -> np.ndarray:
        return self.rows[:, 0].astype(np.int64)

    @property
    def counted(self) -> np.ndarray:
        return self.rows[:, 1].astype(np.int64)

    @property
    def totals(self) -> np.ndarray:
        return self.rows[:, 2]

    @property
    def effective(self) -> np.ndarray:
        """(Σ w)² / Σ w², as `Bags.effective_sizes`."""
        return self.rows[:, 2] ** 2 / self.rows[:, 3]

    def refuse_empty(self, ids: np.ndarray, chunk: str = "") -> None:
        """Every bag needs an instance that is not dropped, and one of a weight above zero."""
        for empty, what in ((self.sizes == 0, "finite instance"), (self.counted == 0, "instance of weight above zero")):
            if empty.any():
                raise ValueError(f"{name_bags(ids, empty)} no {what}; every bag needs one: leave such bags out")


@dataclass(frozen=True)
class Survey:
    """What the first pass finds.

    Attributes
    ----------
    bags : Bags
        Every bag as one instance, its mean: they stand for the bags themselves where only ids, groups, names of
        columns, covariates or means are asked for. Of a scan that is `Scan.spread`, without covariates.
    apart : Bags
        The same of the scan that was spread, with its covariates; ``bags`` where none was.
    y : array, a target per bag
    weight : array, a weight per bag, or None
    tally : Tally
    columns : `ColumnSums` of all instances
    low, high : the range of every column over the instances of a weight above zero
    sample : array
        Distinct rows, drawn by a hash of their content.
    """

    bags: Bags
    apart: Bags
    y: np.ndarray
    weight: np.ndarray | None
    tally: Tally
    columns: ColumnSums
    low: np.ndarray
    high: np.ndarray
    sample: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """The number of instances of every bag."""
        return self.tally.sizes

    @property
    def totals(self) -> np.ndarray:
        """The total weight of the instances of every bag: their number without weights."""
        return self.tally.totals


class _Seen(NamedTuple):
    """What is found in one chunk."""

    ids: np.ndarray
    tally: Any = None  # this and what follows: None in a chunk without rows
    sums: Any = None
    values: BagValues | None = None
    columns: ColumnSums | None = None
    low: Any = None
    high: Any = None
    sample: Sample | None = None


def survey(passes: Passes, sampling: tuple[int, int] = (0, 0)) -> Survey:
    """Go over all chunks once; ``sampling`` is how many distinct rows to draw, and the seed."""
    scan = passes.scan
    if scan.target is None:
        raise ParameterError(
            "target",
            "there is no target to learn from; scan the table with ",
            Parameter("target"),
            " the name of its column",
        )
    tally, sums, agreed = PerBag(), PerBag(), AgreedValues(scan)
    columns: Any = None
    sample: Any = None
    low: Any = np.inf
    high: Any = -np.inf
    empty = []
    for own, seen in passes.meet(_look, sampling):
        agreed.take(own, seen.values, seen.ids, passes.n_bags)
        tally.rows(passes.n_bags, seen.tally)[own] += seen.tally
        empty.append(seen.columns is None)  # all its rows are dropped
        if empty[-1]:
            continue
        sums.rows(passes.n_bags, seen.sums)[own] += seen.sums
        columns = seen.columns if columns is None else columns.merge(seen.columns)
        low, high = np.fmin(low, seen.low), np.fmax(high, seen.high)
        sample = seen.sample if sample is None else sample.merge(seen.sample)
    passes.leave_out(empty)
    n_bags = passes.n_bags
    found = Tally(tally.upto(n_bags))
    found.refuse_empty(passes.ids)
    if n_bags < 2:
        raise ValueError("one bag is not enough to learn from; fit needs at least two")
    means, known = sums.upto(n_bags) / found.totals[:, None], agreed.upto(n_bags)
    names, q = list(scan.feature_names), len(scan.covariates)
    own, beside = {"groups": known.groups}, {"covariates": known.covariates, "covariate_names": scan.covariates or None}
    offsets, ids = np.arange(n_bags + 1), passes.ids
    if q and tuple(names[-q:]) == scan.covariates:
        bags = Bags(means, offsets, ids, feature_names=names, **own)
        apart = Bags(means[:, :-q], offsets, ids, feature_names=names[:-q], **own, **beside)
    else:
        bags = apart = Bags(means, offsets, ids, feature_names=names, **own, **beside)
    bags, apart = (compared(one._with(categories=scan.categories)) for one in (bags, apart))  # no profile is of means
    return Survey(bags, apart, known.y, known.weight, found, columns, low, high, sample.rows)


def _look(chunk: Chunk, sampling) -> _Seen:
    ids, bag = chunk.bags()
    if not len(ids):
        return _Seen(ids)
    values = chunk.of_bags(ids, bag)
    tally, sums = np.zeros((len(ids), 4)), np.zeros(0)
    columns: Any = None
    sample: Any = None
    low: Any = np.inf
    high: Any = -np.inf
    for block in chunk.blocks(codes=bag):
        refuse_unusable(block, ids, chunk)
        counted = block.X if block.weight is None else block.X[block.weight > 0]
        if len(counted):
            low, high = np.fmin(low, counted.min(axis=0)), np.fmax(high, counted.max(axis=0))
        tally = tally + Tally.of(block.bag, block.weight, len(ids)).rows
        part = sum_rows(block.bag, block.X, len(ids), block.weight)
        found, drawn = ColumnSums.of(block.X), Sample.of(block.X, *sampling)
        sums, columns, sample = (
            (part, found, drawn) if columns is None else (sums + part, columns.merge(found), sample.merge(drawn))
        )
    return _Seen(ids, tally, sums, values, columns, low, high, sample)


def refuse_unusable(block: Block, ids: np.ndarray, chunk: Chunk) -> None:
    """No NaN, nothing infinite, nothing whose square is; no weight that is none."""
    with np.errstate(invalid="ignore"):
        usable = (np.abs(block.X) <= FLOATS[block.X.dtype]).all(axis=1)
    if not usable.all():
        raise ParameterError(
            "missing",
            f"{name_bags(ids, any_row(~usable, block.bag, ids))} missing (NaN), infinite or huge (beyond {LARGEST:g}) "
            f"feature values in {chunk.name}; fill missing ones in with ",
            Parameter("missing", "impute"),
            ", or leave such rows out with ",
            Parameter("missing", "drop-instances"),
            " or ",
            Parameter("where"),
        )
    if block.weight is not None and not (wrong := np.isfinite(block.weight) & (block.weight >= 0)).all():
        raise ValueError(
            f"{name_bags(ids, any_row(~wrong, block.bag, ids))} an instance weight that is negative, missing or "
            f"infinite in {chunk.name}; weights are numbers from zero up"
        )


class _Agreed(PerBag):
    """One value per bag, the same in every chunk that has rows of it."""

    def __init__(self, otherwise: str):
        super().__init__()
        self.otherwise, self._met = otherwise, 0

    def take(self, own: np.ndarray, values: np.ndarray, ids: np.ndarray, n_bags: int) -> None:
        rows, old = self.rows(n_bags, values), own < self._met
        differs = old & np.reshape(rows[own] != values, (len(own), -1)).any(axis=1)
        if differs.any():
            raise ValueError(f"{name_bags(ids, differs)} {self.otherwise}; a bag has one, the same in all files")
        rows[own], self._met = values, n_bags


class AgreedValues:
    """The `BagValues` of all bags, which all chunks must agree on."""

    def __init__(self, scan: Scan):
        named = {
            "y": f"more than one target in column {scan.target!r}",
            "groups": f"rows of more than one group in column {scan.groups!r}",
            "covariates": f"more than one value in a column of bag features ({', '.join(scan.covariates)})",
            "weight": f"more than one bag weight in column {scan.bag_weights!r}",
        }
        self.parts = {name: _Agreed(otherwise) for name, otherwise in named.items()}

    def take(self, own: np.ndarray, values: BagValues, ids: np.ndarray, n_bags: int) -> None:
        for name, part in self.parts.items():
            if (found := getattr(values, name)) is not None:
                part.take(own, found, ids, n_bags)

    def upto(self, n_bags: int) -> BagValues:
        return BagValues(**{name: part.upto(n_bags) for name, part in self.parts.items()})
