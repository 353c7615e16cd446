"""Where the rows of a chunk lie: row groups of a Parquet file, or a table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bagwise.bags.parquet import Part
from bagwise.bags.reading import reading


@dataclass(frozen=True)
class FileRows:
    """Consecutive row groups of one Parquet file. Only its path, their numbers and their rows travel."""

    part: Part
    groups: tuple[int, ...]
    n_rows: int

    @property
    def name(self) -> str:
        first, last = self.groups[0], self.groups[-1]
        return f"{self.part.name}, " + (f"row group {first}" if first == last else f"row groups {first} to {last}")

    def tables(self, columns: list[str], rows: int) -> Iterator:
        """Tables of these columns and about that many rows; of the file little more than their pages is held."""
        import pyarrow as pa

        # buffered, and not fetched ahead: a row group may be larger than what we may hold of it
        with self.part.open(pre_buffer=False, buffer_size=1 << 18) as file:
            self._refuse_change(file.metadata)
            own = [name for name in columns if name in file.schema_arrow.names]
            with reading(self.name):
                for batch in file.iter_batches(rows, row_groups=list(self.groups), columns=own, use_threads=False):
                    yield self.part.add_values(pa.Table.from_batches([batch]), columns).select(columns)

    def _refuse_change(self, metadata) -> None:
        there = [metadata.row_group(k).num_rows for k in self.groups if k < metadata.num_row_groups]
        if sum(there) != self.n_rows:
            raise ValueError(f"{self.name}: there are {sum(there):,} rows where {self.n_rows:,} were; scan it again")


@dataclass(frozen=True)
class TableRows:
    """A slice of a pyarrow table in memory."""

    table: object
    first: int

    @property
    def n_rows(self) -> int:
        return self.table.num_rows

    @property
    def name(self) -> str:
        return f"rows {self.first:,} to {self.first + self.n_rows - 1:,} of the table"

    def tables(self, columns: list[str], rows: int) -> Iterator:
        for start in range(0, self.n_rows, rows):
            yield self.table.select(columns).slice(start, rows)

    def __reduce__(self):
        return _unpack, (_pack(self.table), self.first)


def _pack(table) -> bytes:
    """A stream of the slice alone: pickled as it is, a slice takes the whole table with it."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _unpack(packed: bytes, first: int) -> TableRows:
    import pyarrow as pa

    return TableRows(pa.ipc.open_stream(packed).read_all(), first)
