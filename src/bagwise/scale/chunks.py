"""Chunks: parts of a table that can be sent to another process and are read there.

All files must have the same columns. Row groups in which no row can satisfy the conditions are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from hashlib import blake2b
from itertools import pairwise
from operator import and_
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.folds import units_of
from bagwise.bags.validation import counted, name_bags
from bagwise.io.columns import Roles
from bagwise.io.conditions import Where
from bagwise.io.encodings import DATE_PARTS, OTHER
from bagwise.io.load import load_labels
from bagwise.io.table_files import Part, reading, stack, visible

AT_ONCE = 16  # number of footers read in parallel
READ_ROWS = 1 << 18  # number of rows per read
ROW = "__row__"  # column with the position of a row in the table


@dataclass(frozen=True)
class Layout:
    """Columns, rows and types to read from each chunk of a scan."""

    roles: Roles  # with explicit features and levels; the label "bag_weights" is the column of bag weights
    features: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()
    dtype: np.dtype = np.dtype(np.float64)
    types: dict = field(default_factory=dict)  # type of each column, common to all files
    columns: tuple[str, ...] = ()  # to read from the files
    where: Where | None = None
    missing: str = "refuse"
    fill_values: tuple[float, ...] = ()

    @property
    def unit(self) -> str:
        """Column by which rows are partitioned: that of groups if there is one, otherwise that of bags."""
        return str(self.roles.bag if self.roles.groups is None else self.roles.groups)


def columns_read(names: list, levels: dict, dates: tuple) -> tuple[str, ...]:
    """Return the columns that must be read to make the named features and other columns."""
    derived = {f"{name}={level}": name for name, own_levels in levels.items() for level in (*own_levels, OTHER)}
    derived |= {f"{name}_{part}": name for name in dates for part in DATE_PARTS}
    return tuple(dict.fromkeys(str(derived.get(name, name)) for name in names if name is not None))


@dataclass(frozen=True, repr=False)
class Chunk:
    """Consecutive row groups of one Parquet file; only their location is sent to a worker."""

    part: Part
    groups: tuple[int, ...]
    n_rows: int  # before `where` is applied
    marks: tuple[bytes, ...]
    layout: Layout

    @property
    def name(self) -> str:
        first, last = self.groups[0], self.groups[-1]
        return f"{self.part.name}, " + (f"row group {first}" if first == last else f"row groups {first} to {last}")

    def __repr__(self) -> str:
        return f"Chunk: {self.name} ({self.n_rows:,} rows)"

    def table(self, columns=None):
        """Read the columns (default: all with a role) of the rows that satisfy `where`, as a pyarrow table."""
        import pyarrow as pa

        columns, where = list(columns or self.layout.columns), self.layout.where
        needed = columns if where is None else list(dict.fromkeys([*columns, *where.names]))
        return pa.concat_tables(
            self._typed((table if where is None else table.filter(where.expression())).select(columns))
            for table in self._tables(needed)
        )

    def _tables(self, columns: list[str]) -> Iterator:
        """Yield tables with at most `READ_ROWS` rows each, without holding a whole row group in memory."""
        import pyarrow as pa

        # Read buffered, without prefetching, because a row group may be larger than memory.
        with self.part.open(pre_buffer=False, buffer_size=1 << 18) as file:
            self._refuse_change(file.metadata)
            present = [name for name in columns if name in file.schema_arrow.names]
            options = {"row_groups": list(self.groups), "columns": present, "use_threads": False}
            with reading(self.name):
                for batch in file.iter_batches(READ_ROWS, **options):
                    yield self.part.add_values(pa.Table.from_batches([batch]), columns).select(columns)

    def _refuse_change(self, metadata) -> None:
        there = [metadata.row_group(k) for k in self.groups if k < metadata.num_row_groups]
        n_rows = sum(group.num_rows for group in there)
        if n_rows != self.n_rows:
            change = f"{n_rows:,} rows, and had {self.n_rows:,}"
        elif self.marks != tuple(map(_mark, there)):
            change = "other columns or values than"
        else:
            return
        raise ValueError(
            f"{self.name} has {change} when the table was scanned. The file must not change. Scan the table again."
        )

    def _typed(self, table):
        """Cast columns to the type common to all files, so that an id has the same type in each file."""
        import pyarrow as pa

        for place, name in enumerate(table.column_names):
            kind = self.layout.types.get(name)
            if kind is None or table.schema.types[place] == kind:
                continue
            try:
                table = table.set_column(place, name, table[name].cast(kind))
            except pa.ArrowException as error:
                raise ValueError(
                    f"Column {name!r} of {self.name} has values that do not fit {kind}, the type of all files. Each "
                    "column needs one type. Convert the column."
                ) from error
        return table


def load_bags(table, roles: Roles, missing: str, fill_values) -> tuple[Bags, np.ndarray | None, np.ndarray | None]:
    """Make bags as `bagwise.load` does, and return bags, targets and bag weights (None if there are none)."""
    bags, y, labels = load_labels(table, roles, missing=missing, fill_values=fill_values)
    if "bag_weights" not in labels:
        return bags, y, None
    weight = np.asarray(labels["bag_weights"], dtype=np.float64)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(
            f"{name_bags(bags.ids, wrong)} a bag weight in column {roles.labels['bag_weights']!r} that is negative, "
            "missing or infinite. Weights are numbers from zero up. Replace it."
        )
    return bags, y, weight


@dataclass(frozen=True)
class BagsChunk:
    """`Bags` in memory, with targets, weights, and the position of the first row of each bag."""

    bags: Bags
    y: np.ndarray | None
    weight: np.ndarray | None
    first: np.ndarray

    @property
    def name(self) -> str:
        return f"{counted(len(self.bags), 'bag')} in memory"

    @property
    def n_rows(self) -> int:
        return self.bags.n_instances

    def __repr__(self) -> str:
        return f"Chunk: {self.name} ({self.n_rows:,} rows)"


def cut_bags(bags: Bags, y, weight, chunk_rows: int) -> tuple[BagsChunk, ...]:
    """Split bags into chunks of at most ``chunk_rows`` instances; a larger bag (group) is a chunk of its own."""
    unit = units_of(bags)
    order = np.argsort(unit, kind="stable") if bags.groups is not None else np.arange(len(bags))
    borders = [0, *(np.flatnonzero(np.diff(unit[order])) + 1).tolist(), len(bags)]  # of groups
    rows = np.concatenate([[0], np.cumsum(bags.sizes[order])])[borders]
    cuts = [0]
    for low, high in pairwise(range(len(borders))):
        if low > cuts[-1] and rows[high] - rows[cuts[-1]] > chunk_rows:
            cuts.append(low)
    chosen = np.split(order, [borders[cut] for cut in cuts[1:]])
    y, weight = ([None if array is None else array[positions] for positions in chosen] for array in (y, weight))
    return tuple(
        BagsChunk(bags[positions], y[k], weight[k], bags.offsets[positions]) for k, positions in enumerate(chosen)
    )


# Footers of Parquet files -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Footer:
    """Footer of a Parquet file: the columns, and for each row group the number of rows and a hash."""

    part: Part
    schema: Any  # of pyarrow
    sizes: tuple[int, ...]
    marks: tuple[bytes, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns of the file, then of those given by its folders (``year=2020``)."""
        return [*self.schema.names, *(v.column for v in self.part.values if v.column not in self.schema.names)]

    def empty(self, columns: list, only: bool):
        """Return a table of the visible columns, without rows."""
        with reading(self.part.name):  # raises the error for column names that occur twice
            table = self.schema.empty_table().select(visible(self.schema.names, columns, only))
            return self.part.add_values(table, columns)

    def row_groups(self, where: Where | None, schema) -> list[int]:
        """Return the row groups that are not empty and may have a row that satisfies the conditions."""
        expression = None if where is None else where.by_statistics(schema)
        if expression is None:
            return [k for k, size in enumerate(self.sizes) if size]
        import pyarrow.compute as pc
        from pyarrow.dataset import ParquetFileFormat

        values = [v for v in self.part.values if v.column not in self.schema.names and v.value is not None]
        partition = [pc.field(v.column) == v.value for v in values if v.column in schema.names]
        with reading(self.part.name):
            path, system = self.part.place()
            expected = reduce(and_, partition) if partition else None
            fragment = ParquetFileFormat().make_fragment(path, system, partition_expression=expected)
            pieces = fragment.split_by_row_group(expression, schema=schema)
            return [piece.row_groups[0].id for piece in pieces if self.sizes[piece.row_groups[0].id]]


def read_footers(parts: tuple[Part, ...]) -> list[Footer]:
    first = _read(parts[0])  # here, so that the threads do not import modules concurrently
    with ThreadPoolExecutor(min(AT_ONCE, len(parts))) as pool:
        return [first, *pool.map(_read, parts[1:])]


def _read(part: Part) -> Footer:
    with part.open() as file:
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        sizes, marks = tuple(group.num_rows for group in groups), tuple(map(_mark, groups))
        return Footer(part, file.schema_arrow, sizes, marks)


def agree(footers: list[Footer], columns: list, *, only: bool):
    """Return the common schema of all files: each visible column, with a type that can hold the values of all files.

    The types are those that `load` would choose: tables without rows are stacked by the same function.
    """
    kinds: dict = {}  # the first file of each schema, because thousands of files may share one
    for footer in footers:
        kinds.setdefault((*footer.names, *footer.schema.types, *(v.whole for v in footer.part.values)), footer)
    frames = [footer.empty(columns, only) for footer in kinds.values()]
    return stack(frames, [footer.part.name for footer in kinds.values()]).schema


def cut(footer: Footer, chunk_rows: int, layout: Layout, schema) -> list[Chunk]:
    """Return chunks of consecutive row groups of at most ``chunk_rows`` rows; a larger row group is its own chunk."""
    runs: list[list[int]] = []
    for k in footer.row_groups(layout.where, schema):
        if not runs or k != runs[-1][-1] + 1 or sum(footer.sizes[i] for i in [*runs[-1], k]) > chunk_rows:
            runs.append([])
        runs[-1].append(k)
    sizes, marks = np.array(footer.sizes), np.array(footer.marks, dtype=object)
    return [Chunk(footer.part, tuple(run), int(sizes[run].sum()), tuple(marks[run]), layout) for run in runs]


def _mark(group) -> bytes:
    """Return a hash of columns, types, sizes, positions and ranges of a row group, which differs after a change."""
    columns = [group.column(j) for j in range(group.num_columns)]
    names = ("path_in_schema", "physical_type", "total_compressed_size", "data_page_offset")
    ranges = [(s.min, s.max) for s in (column.statistics for column in columns) if s is not None and s.has_min_max]
    facts = [[getattr(column, name) for name in names] for column in columns]
    return blake2b(repr((facts, ranges)).encode(), digest_size=8).digest()
