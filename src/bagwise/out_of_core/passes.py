"""Passes over the chunks of a scan: a function of every chunk, with a row for each bag, or added up over all chunks.

During a pass, memory that a block of rows frees is kept for the next block (`kept_memory`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array

from bagwise.execution import executor_for
from bagwise.execution.tasks import add_up, in_order
from bagwise.execution.threads import one_thread
from bagwise.out_of_core.chunks import Chunk
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

    def upto(self, n_bags: int) -> np.ndarray:
        return self._rows[:n_bags]


def _visit(piece: Piece, function, *shared):
    with one_thread(), kept_memory():
        return function(piece.chunk, *piece.known, *shared)


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
