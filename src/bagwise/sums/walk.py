"""Passes over the chunks of a scan: what a function makes of each chunk, bag by bag, or added up over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array

from bagwise.execution.folding import add_up, in_order
from bagwise.lake import Chunk, Scan
from bagwise.threads import one_thread

BLOCK_ROWS = 16_384  # rows at a time: 64 MB of 500 features


class Piece(NamedTuple):
    """A chunk, and what it is to know of its own bags: arrays with a row for each."""

    chunk: Chunk
    known: tuple[np.ndarray, ...] = ()

    def __str__(self) -> str:
        return self.chunk.name


class Walk:
    """A scan and who goes over it.

    Attributes
    ----------
    own : list of arrays, once `name_bags` was called
        For every chunk, which of all bags its own are, in the order of ``chunk.bags()``.
    """

    def __init__(self, scan: Scan, executor):
        self.scan, self.executor, self.chunks, self.own = scan, executor, scan.chunks, None

    def each(self, function: Callable, *shared, known=()) -> Iterator[Any]:
        """``function(chunk, *known, *shared)`` of every chunk, in order; ``known``: arrays with a row for every bag."""
        return in_order(self.executor, _visit, self._pieces(known), (function, *shared))

    def total(self, function: Callable, *shared, known=(), add: Callable) -> Any:
        """The same, added up over all chunks."""
        return add_up(self.executor, _visit, self._pieces(known), (function, *shared), add)

    def sum_by_bag(self, function: Callable, *shared, known=()) -> np.ndarray:
        """The sum over all chunks of arrays with a row for each of the chunk's bags: a row for every bag."""
        total = None
        for own, rows in zip(self.own, self.each(function, *shared, known=known), strict=True):
            total = np.zeros((self.n_bags, *rows.shape[1:])) if total is None else total
            total[own] += rows
        return total

    def name_bags(self, ids: list[np.ndarray]) -> np.ndarray:
        """Number the bags of all chunks as they first appear, by the ids in every chunk; the ids of all.

        Chunks without any row are left out from now on.
        """
        lengths = [len(one) for one in ids]
        self.chunks = [chunk for chunk, length in zip(self.chunks, lengths, strict=True) if length]
        ids, lengths = [one for one in ids if len(one)], [length for length in lengths if length]
        if not ids:
            raise ValueError("the scan has no rows; look at `where`, or at the files")
        found, first, number = np.unique(np.concatenate(ids), return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.own = np.split(rank[number], np.cumsum(lengths)[:-1])
        self.n_bags = len(found)
        return found[order]

    def _pieces(self, known) -> Iterator[Piece]:
        for number, chunk in enumerate(self.chunks):
            yield Piece(chunk, tuple(array[self.own[number]] for array in known))


def _visit(piece: Piece, function, *shared):
    with one_thread():
        return function(piece.chunk, *piece.known, *shared)


def sum_rows(bag: np.ndarray, values: np.ndarray, n_bags: int) -> np.ndarray:
    """Σ over the rows of every bag, the rows in any order: (n_bags, columns) in float64."""
    # A matrix with a one for every row, in the line of its bag: compiled code adds the rows up, one after another.
    cells = csc_array((np.ones(len(bag)), bag, np.arange(len(bag) + 1)), shape=(n_bags, len(bag)))
    return cells @ np.asarray(values, dtype=np.float64)
