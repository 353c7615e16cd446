"""A chunk: a few row groups of a file, or a slice of a table, that reads itself block by block, wherever it lands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bagwise.bags.columns import FrameColumns
from bagwise.bags.parts import absent
from bagwise.lake.layout import Layout
from bagwise.lake.rows import FileRows, TableRows


class Block(NamedTuple):
    """A few rows: the number of each one's bag in the chunk, its features, its target and its group if asked for."""

    bag: np.ndarray
    X: np.ndarray
    y: np.ndarray | None
    groups: np.ndarray | None


class Chunk:
    """Part of a table, small enough to be worked on at once. It can be pickled: of a file it holds only the place.

    Parameters
    ----------
    rows : FileRows or TableRows
        Where its rows lie. ``n_rows`` counts them before `where` leaves some out.
    layout : Layout
        What is read of them.
    """

    def __init__(self, rows: FileRows | TableRows, layout: Layout):
        self.rows, self.layout = rows, layout

    @property
    def name(self) -> str:
        return self.rows.name

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def __repr__(self) -> str:
        return f"Chunk: {self.name} ({self.n_rows:,} rows)"

    def bags(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the bags of this chunk in order of first appearance, and the number of the bag of every row."""
        import pyarrow as pa

        name = self.layout.bag
        tables = [table for table in self._tables([name], 1 << 18) if table.num_rows]
        if not tables:  # `where` may leave nothing
            return pa.array([], self.layout.labels[name]).to_numpy(zero_copy_only=False), np.empty(0, dtype=np.int64)
        codes, ids = FrameColumns(pa.concat_tables(tables)).factorise(name)
        unknown = absent(ids)[codes]
        if unknown.any():
            raise ValueError(
                f"{np.count_nonzero(unknown):,} of {len(codes):,} rows of {self.name} have no bag id; "
                f"fill in column {name!r}, or drop those rows"
            )
        return ids, codes

    def blocks(
        self, *, rows: int = 65_536, target: bool = False, groups: bool = False, codes: np.ndarray | None = None
    ) -> Iterator[Block]:
        """The rows in their order, ``rows`` at a time (the last may be fewer), with targets and groups if asked for.

        Who has called `bags` gives its second result as ``codes``, so that the column of ids is not read again.
        """
        y = self.layout.column("target") if target else None
        label = self.layout.column("groups") if groups else None
        columns = [*self.layout.features, *(name for name in (y, label) if name is not None)]
        codes, start = self.bags()[1] if codes is None else codes, 0
        for table in _rebatch(self._tables(columns, rows), rows):
            stop = start + table.num_rows
            yield Block(
                codes[start:stop],
                self._features(table),
                None if y is None else self._numbers(table, y).astype(np.float64),
                None if label is None else _labels(table, label),
            )
            start = stop

    def _features(self, table) -> np.ndarray:
        X = np.empty((table.num_rows, len(self.layout.features)), dtype=self.layout.dtype)
        for j, name in enumerate(self.layout.features):
            X[:, j] = self._numbers(table, name)
        return X

    def _numbers(self, table, name: str) -> np.ndarray:
        """A column as numbers, with NaN for null."""
        import pyarrow as pa

        column = table[name]
        plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        try:
            return (column if plain else column.cast(pa.float64())).to_numpy()
        except pa.ArrowException as error:
            raise ValueError(
                f"column {name!r} of {self.name} is {column.type} where numbers were; scan it again"
            ) from error

    def _tables(self, columns: list[str], rows: int) -> Iterator:
        """Tables of the columns, of about that many rows each, without the rows that `where` leaves out."""
        where = self.layout.where
        columns = list(dict.fromkeys(columns))
        needed = columns if where is None else list(dict.fromkeys([*columns, *where.names]))
        for table in self.rows.tables(needed, rows):
            yield self._typed((table if where is None else self._kept(table)).select(columns))

    def _kept(self, table):
        import pyarrow as pa

        try:
            return self.layout.where.keep(table)
        except pa.ArrowException as error:
            raise ValueError(
                f"{self.name} has other types than it had, and where fails; scan it again ({error})"
            ) from error

    def _typed(self, table):
        """Ids and groups in the type of all files, so that equal ones are equal."""
        import pyarrow as pa

        for name in self.layout.labels.keys() & set(table.column_names):
            kind, place = self.layout.labels[name], table.column_names.index(name)
            try:
                table = table.set_column(place, name, table[name].cast(kind))
            except pa.ArrowException as error:
                raise ValueError(
                    f"column {name!r} of {self.name} has values that {kind}, the type of all files, does not hold; "
                    "give the column one type"
                ) from error
        return table


def _rebatch(tables: Iterator, rows: int) -> Iterator:
    """The same rows in tables of exactly that many, so that blocks do not depend on how a library cuts a file."""
    import pyarrow as pa

    held, count = [], 0
    for table in tables:
        while count + table.num_rows >= rows:
            cut = rows - count
            yield pa.concat_tables([*held, table.slice(0, cut)])
            table, held, count = table.slice(cut), [], 0
        if table.num_rows:
            held, count = [*held, table], count + table.num_rows
    if held:
        yield pa.concat_tables(held)


def _labels(table, name: str) -> np.ndarray:
    codes, labels = FrameColumns(table.select([name])).factorise(name)
    return labels[codes]
