"""Rows of bags that a regressor reads a block at a time, and the sums that ridge regression needs of them.

An array in memory is one block; a memory map, or files with the rows of some bags each, are many.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import numpy as np

from bagwise.execution.resources import memory_map

BLOCK_ROWS = 8192  # 16 MB of 256 columns


@dataclass(frozen=True)
class RowBlocks:
    """Rows of bags in files or memory maps, read a block at a time.

    ``sources`` are ``.npy`` files or arrays (memory maps) with the rows of some bags each, and ``sizes`` their numbers
    of rows. If ``whole``, no block ends within a source, so the bags of a group stay in one block. For the bags
    ``chosen`` (a mask), the ``columns`` are read, multiplied by ``matrix``, and followed by the columns ``extra``.
    ``width`` is the resulting number of columns.
    """

    sources: tuple
    sizes: tuple[int, ...]
    width: int
    whole: bool = False
    columns: np.ndarray | None = None
    matrix: np.ndarray | None = None
    extra: np.ndarray | None = None
    chosen: np.ndarray | None = None
    _last: list = field(default_factory=list, compare=False)  # y, weights and `RowSums` of the last call of `sums`

    @classmethod
    def of(cls, *sources, whole: bool = False) -> RowBlocks:
        """Return the rows of files or arrays."""
        shapes = [_opened(source).shape for source in sources]
        return cls(tuple(sources), tuple(shape[0] for shape in shapes), shapes[0][1], whole)

    @property
    def shape(self) -> tuple[int, int]:
        """(bags, columns)."""
        return sum(self.sizes) if self.chosen is None else int(np.count_nonzero(self.chosen)), self.width

    def __len__(self) -> int:
        return self.shape[0]

    def through(self, matrix: np.ndarray) -> RowBlocks:
        """Return the product with a matrix; if it has fewer rows than there are columns, the first columns are used."""
        return replace(self, columns=np.arange(len(matrix)), matrix=matrix, width=matrix.shape[1])

    def chosen_columns(self, columns: np.ndarray) -> RowBlocks:
        """Return some columns of the same rows."""
        return replace(self, columns=columns, width=len(columns), _last=[])

    def with_columns(self, extra: np.ndarray) -> RowBlocks:
        """Return the same rows with further columns."""
        return replace(self, extra=extra, width=self.width + extra.shape[1], _last=[])

    def __getitem__(self, chosen: np.ndarray) -> RowBlocks:
        """Select bags by a mask."""
        mask = np.ones(sum(self.sizes), dtype=bool) if self.chosen is None else self.chosen.copy()
        mask[mask] = chosen
        return replace(self, chosen=mask, _last=[])

    def var(self, axis: int = 0) -> np.ndarray:
        """Compute the variance of each column."""
        n, mean, scatter = 0, np.zeros(self.width), np.zeros(self.width)
        for _, rows in self.blocks():
            step, total = rows.mean(axis=0) - mean, n + len(rows)
            scatter += ((rows - mean - step) ** 2).sum(axis=0) + step**2 * (n * len(rows) / total)
            mean, n = mean + step * (len(rows) / total), total
        return scatter / n

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the positions of some bags and their rows, in float64."""
        parts: list[np.ndarray] = []
        start = first = n = 0
        for source, size in zip(self.sources, self.sizes, strict=True):
            step = max(size, 1) if self.whole else BLOCK_ROWS
            for low in range(0, size, step):
                rows = _opened(source)
                parts.append(self._changed(rows[low : low + step], first + low))
                _release(rows)
                n += len(parts[-1])
                if n >= BLOCK_ROWS:
                    yield slice(start, start + n), parts[0] if len(parts) == 1 else np.vstack(parts)
                    parts, start, n = [], start + n, 0
            first += size
        if n:
            yield slice(start, start + n), parts[0] if len(parts) == 1 else np.vstack(parts)

    def _changed(self, rows: np.ndarray, first: int) -> np.ndarray:
        positions = slice(first, first + len(rows))
        chosen = slice(None) if self.chosen is None else self.chosen[positions]
        rows = np.array((rows if self.columns is None else rows[:, self.columns])[chosen], dtype=np.float64)
        rows = rows if self.matrix is None else rows @ self.matrix
        return rows if self.extra is None else np.hstack([rows, self.extra[positions][chosen]])

    def sums(self, y: np.ndarray, w: np.ndarray) -> RowSums:
        """Return the `RowSums` of the rows; rows that differ by a matrix alone share one pass over the files."""
        if self.matrix is not None and self.extra is None:
            return replace(self, columns=None, matrix=None).sums(y, w).through(self.matrix)
        if not self._last or not (np.array_equal(self._last[0], y) and np.array_equal(self._last[1], w)):
            parts = (RowSums.of(rows, y[block], w[block]) for block, rows in self.blocks())
            self._last[:] = y, w, reduce(RowSums.merge, parts)
        return self._last[2]


def row_blocks(Z) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (positions, rows): an array is one block."""
    if isinstance(Z, RowBlocks):
        yield from Z.blocks()
    else:
        yield slice(0, len(Z)), Z


def _opened(source) -> np.ndarray:
    return memory_map(source) if isinstance(source, str | Path) else source


def _release(rows: np.ndarray) -> None:
    """Return the pages of a memory map to the system, so that they no longer count as memory of the process."""
    mapped = getattr(rows, "_mmap", None)
    if mapped is not None and getattr(rows, "mode", None) in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class RowSums:
    """The factor R of the QR decomposition of √w [1, z - c, y - c'], which is all that ridge needs of rows z.

    Decomposing two stacked factors gives the factor of all their rows, without the rounding errors of sums of
    products (Golub and Van Loan, section 5.3). ``n`` counts the rows of weight above zero, ``centre`` is
    (c, c'), near the means, and ``triangle`` is R.
    """

    n: int
    centre: np.ndarray
    triangle: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, y: np.ndarray, w: np.ndarray) -> RowSums:
        """Decompose rows in memory."""
        both = np.column_stack([Z, y]).astype(np.float64, copy=False)
        centre = both[0] + (both - both[0]).mean(axis=0)
        rows, root = both - centre, np.sqrt(w)[:, None]
        triangle = np.linalg.qr(root * np.column_stack([np.ones(len(rows)), rows]), mode="r")
        return cls(int(np.count_nonzero(w)), centre, triangle)

    def merge(self, other: RowSums) -> RowSums:
        """Return the sums of the rows of both."""
        moved = other.triangle.copy()
        moved[:, 1:] += moved[:, [0]] * (other.centre - self.centre)
        triangle = np.linalg.qr(np.vstack([self.triangle, moved]), mode="r")
        return RowSums(self.n + other.n, self.centre, triangle)

    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means of columns and target, and R of the rows about them."""
        return self.centre + self.triangle[0, 1:] / self.triangle[0, 0], self.triangle[1:, 1:]

    def uncentred(self) -> np.ndarray:
        """Return R of the rows, not centred."""
        return self.triangle[:, 1:] + self.triangle[:, [0]] * self.centre

    def through(self, matrix: np.ndarray) -> RowSums:
        """Return the sums of the rows times a matrix; if it has fewer rows than columns, the first columns are used."""
        length = len(matrix)
        centre = np.append(self.centre[:length] @ matrix, self.centre[-1])
        first, rows, last = self.triangle[:, :1], self.triangle[:, 1 : length + 1], self.triangle[:, -1:]
        return replace(self, centre=centre, triangle=np.hstack([first, rows @ matrix, last]))
