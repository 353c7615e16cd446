"""A chunk: part of a table that reads itself, block by block, in whichever process it is.

- `Chunk`: rows of a table; `BagsChunk`: instances of `Bags` that are in memory; `SpreadChunk`: the rows of another
  chunk, with the covariates of their bags as columns.
- `FileRows`, `TableRows`: where the rows of a chunk are, in row groups of a Parquet file or in a table in memory.
- `Layout`: which columns are read, in which types; they are chosen by the rules of `load`.
- `Footer`: the columns and row groups of a Parquet file. All files must agree on the columns; row groups in which no
  row can satisfy the conditions are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from hashlib import blake2b
from itertools import groupby
from operator import and_
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from bagwise.bags import Bags, check_bags, check_targets
from bagwise.bags.frames import FrameColumns
from bagwise.bags.validation import absent, name_bags
from bagwise.io.columns import Roles, one_label, one_per_bag, one_target
from bagwise.io.conditions import Where
from bagwise.io.encodings import DATE_PARTS, OTHER, encode
from bagwise.io.table_files import Part, reading, visible
from bagwise.io.tables import stack

AT_ONCE = 16  # footers of distant files are waited for together


def as_objects(values: list) -> np.ndarray:
    """An array of them as they are: numpy would look into lists, and make numbers of one type."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


class Block(NamedTuple):
    """A few rows: the number of each one's bag in the chunk, its features, its target and its group if asked for.

    ``weight`` is the weight of every row where the scan has weights, ``covariates`` those of its bag if asked for.
    """

    bag: np.ndarray
    X: np.ndarray
    y: np.ndarray | None = None
    groups: np.ndarray | None = None
    weight: np.ndarray | None = None
    covariates: np.ndarray | None = None

    def select(self, rows: np.ndarray) -> Block:
        """Some of the rows."""
        return Block(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]


class BagValues(NamedTuple):
    """What is the same on every row of a bag: a row for every bag of a chunk, or None for what the scan has not."""

    y: np.ndarray | None = None
    groups: np.ndarray | None = None
    covariates: np.ndarray | None = None
    weight: np.ndarray | None = None


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

    def column_text(self, column: int) -> str:
        """A column of the blocks, as messages name it; nothing of one that stands behind the features."""
        names = self.layout.features
        return f"column {names[column]!r} of " if column < len(names) else ""

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
        self,
        *,
        rows: int = 65_536,
        target: bool = False,
        groups: bool = False,
        covariates: bool = False,
        codes: np.ndarray | None = None,
    ) -> Iterator[Block]:
        """The rows in their order, ``rows`` at a time, with targets, groups and covariates if asked for.

        The last block may be shorter, and any block where rows with missing values are dropped. Who has called `bags`
        gives its second result as ``codes``, so that the column of ids is not read again.
        """
        layout = self.layout
        y = layout.column("target") if target else None
        label = layout.column("groups") if groups else None
        beside = layout.covariates if covariates else ()
        wanted = [*layout.features, *beside, *(name for name in (y, label, layout.weights) if name is not None)]
        codes, start = self.bags()[1] if codes is None else codes, 0
        for table in _rebatch(self._tables(layout.read_for(wanted), rows), rows):
            stop, columns = start + table.num_rows, self._columns(table)
            block = Block(
                codes[start:stop],
                _matrix(columns, layout.features, layout.dtype),
                None if y is None else columns.numbers(y).astype(np.float64),
                None if label is None else _labels(table, label),
                None if layout.weights is None else columns.numbers(layout.weights).astype(np.float64),
                _matrix(columns, beside, np.dtype(np.float64)) if beside else None,
            )
            start = stop
            block = block if layout.missing != "drop-instances" else block.select(np.isfinite(block.X).all(axis=1))
            if len(block.bag):
                yield block

    def of_bags(self, ids: np.ndarray, codes: np.ndarray) -> BagValues:
        """The target, group, covariates and weight of every bag of this chunk, which all its rows must agree on.

        ``ids`` and ``codes`` are what `bags` gave.
        """
        layout = self.layout
        single = (layout.target, layout.groups, layout.bag_weights)
        wanted = [*layout.covariates, *(name for name in single if name is not None)]
        if not wanted:
            return BagValues()
        import pyarrow as pa

        table = pa.concat_tables(self._tables(layout.read_for(wanted), 1 << 18))
        columns, first = self._columns(table), np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
        where = codes, first, ids
        beside = [one_per_bag(columns, name, *where) for name in layout.covariates]
        return BagValues(
            None if layout.target is None else one_target(columns, layout.target, *where),
            None if layout.groups is None else one_label(FrameColumns(table), layout.groups, *where),
            np.column_stack(beside) if beside else None,
            None if layout.bag_weights is None else _bag_weights(columns, layout.bag_weights, *where),
        )

    def spread(self) -> Chunk:
        """The same rows, with the covariates of their bags as further columns."""
        return SpreadChunk(self)

    def _columns(self, table):
        """The columns of a table as numbers: plain ones, levels of categories, and parts of dates."""
        layout, plain = self.layout, FrameColumns(table, self.layout.fill_values)
        levels = {name: own for name, own in layout.levels.items() if name in plain.names}
        dates = [name for name in layout.dates if name in plain.names]
        return encode(plain, Roles(bag=layout.bag, features=[], categories=levels, dates=dates))[0]

    def _tables(self, columns: list[str], rows: int) -> Iterator:
        """Tables of the columns, of about that many rows each, without the rows that `where` leaves out."""
        where = self.layout.where
        columns = list(dict.fromkeys(columns))
        needed = columns if where is None else list(dict.fromkeys([*columns, *where.names]))
        for table in self.rows.tables(needed, rows):
            yield self._typed((table if where is None else where.keep(table)).select(columns))

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

    held: list = []
    count = 0
    for table in tables:
        while count + table.num_rows >= rows:
            cut = rows - count
            yield pa.concat_tables([*held, table.slice(0, cut)])
            table, held, count = table.slice(cut), [], 0
        if table.num_rows:
            held, count = [*held, table], count + table.num_rows
    if held:
        yield pa.concat_tables(held)


def _matrix(columns, names, dtype: np.dtype) -> np.ndarray:
    values = np.empty((columns.n_rows, len(names)), dtype=dtype)
    for j, name in enumerate(names):
        values[:, j] = columns.numbers(name)
    return values


def _bag_weights(columns, name: str, codes, first, ids) -> np.ndarray:
    weights = one_per_bag(columns, name, codes, first, ids, what="bag weight", parameter="bag_weights")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(
            f"{name_bags(ids, wrong)} a bag weight in column {name!r} that is negative, missing or infinite; weights "
            "are numbers from zero up"
        )
    return weights


def _labels(table, name: str) -> np.ndarray:
    codes, labels = FrameColumns(table.select([name])).factorise(name)
    return labels[codes]


class DerivedChunk(Chunk):
    """The rows of another chunk, seen otherwise: as its `blocks` say."""

    def __init__(self, chunk: Chunk):
        self.chunk = chunk

    @property
    def name(self) -> str:
        return self.chunk.name

    @property
    def n_rows(self) -> int:
        return self.chunk.n_rows

    def column_text(self, column: int) -> str:
        return self.chunk.column_text(column)

    def bags(self) -> tuple[np.ndarray, np.ndarray]:
        """As of the other chunk."""
        return self.chunk.bags()

    def of_bags(self, ids: np.ndarray, codes: np.ndarray) -> BagValues:
        """As of the other chunk."""
        return self.chunk.of_bags(ids, codes)


class SpreadChunk(DerivedChunk):
    """The rows of another chunk, with the covariates of their bags as columns behind the features."""

    def blocks(self, *, covariates: bool = False, **asked) -> Iterator[Block]:
        """Those of the other chunk, wider."""
        for block in self.chunk.blocks(covariates=True, **asked):
            X = block.X if block.covariates is None else np.hstack([block.X, block.covariates.astype(block.X.dtype)])
            yield block._replace(X=X, covariates=block.covariates if covariates else None)


class BagsChunk(Chunk):
    """Some consecutive instances of `Bags`; a bag may be cut in two.

    Parameters
    ----------
    first : int
        The position of the first instance.
    bags : Bags
        All of them.
    y : one target per bag, or None
    stop : int
        The position behind the last instance.
    """

    def __init__(self, first: int, stop: int, bags: Bags, y=None):
        low = int(np.searchsorted(bags.offsets, first, side="right")) - 1
        high = int(np.searchsorted(bags.offsets, stop))
        ends = np.clip(bags.offsets[low : high + 1], first, stop)
        self.first, self.instances, self.ids = first, bags.instances[first:stop], bags.ids[low:high]
        self.codes = np.repeat(np.arange(high - low), np.diff(ends))
        self.weight = None if bags.weights is None else bags.weights[first:stop]
        self.values = BagValues(*(None if one is None else one[low:high] for one in (y, bags.groups, bags.covariates)))

    @property
    def name(self) -> str:
        return f"instances {self.first:,} to {self.first + self.n_rows - 1:,}"

    def column_text(self, column: int) -> str:
        return f"feature {column}, counted from 0, of "

    @property
    def n_rows(self) -> int:
        return len(self.instances)

    def bags(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the bags of this chunk, and the number of the bag of every row."""
        return self.ids, self.codes

    def of_bags(self, ids: np.ndarray, codes: np.ndarray) -> BagValues:
        """The target, group and covariates of every bag of this chunk."""
        return self.values

    def blocks(
        self, *, rows: int = 65_536, target: bool = False, groups: bool = False, covariates: bool = False, codes=None
    ) -> Iterator[Block]:
        """The rows in their order, ``rows`` at a time (the last may be fewer), with targets and groups if asked for."""
        y, labels, beside = self.values.y, self.values.groups, self.values.covariates
        for asked, values, role in ((target, y, "target"), (groups, labels, "groups")):
            if asked and values is None:
                raise ValueError(f"the scan has no {role}; give the bags some")
        of_bag = y if target else None, labels if groups else None
        for start in range(0, self.n_rows, rows):
            some = slice(start, start + rows)
            own = self.codes[some]
            known = [None if values is None else values[own] for values in of_bag]
            weight = None if self.weight is None else self.weight[some]
            more = beside[own] if covariates and beside is not None else None
            yield Block(own, self.instances[some], known[0], known[1], weight, more)


def cut_bags(bags: Bags, y, chunk_rows: int) -> tuple[BagsChunk, ...]:
    """Chunks of at most that many instances."""
    bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
    y = None if y is None else check_targets(y, bags)
    n = bags.n_instances
    return tuple(BagsChunk(start, min(start + chunk_rows, n), bags, y) for start in range(0, n, chunk_rows))


# Where the rows are -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileRows:
    """Consecutive row groups of one Parquet file. Only its path, their numbers and their rows travel."""

    part: Part
    groups: tuple[int, ...]
    n_rows: int
    marks: tuple[bytes, ...] = ()

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
        if self.marks != tuple(_mark(metadata.row_group(k)) for k in self.groups):
            raise ValueError(
                f"{self.name}: columns or values are not what they were when the table was scanned; the file was "
                "written anew: scan it again"
            )


def _mark(group) -> bytes:
    """What a footer says of a row group: columns, types, sizes, places and ranges. Rows that differ have another."""
    columns = (group.column(j) for j in range(group.num_columns))
    said = [
        (one.path_in_schema, one.physical_type, one.total_compressed_size, one.data_page_offset, _range(one.statistics))
        for one in columns
    ]
    return blake2b(repr(said).encode(), digest_size=8).digest()


def _range(statistics) -> tuple | None:
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None


@dataclass(frozen=True)
class TableRows:
    """A slice of a pyarrow table in memory."""

    table: Any  # of pyarrow
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

    def packed(self) -> bytes:
        """A stream of the slice alone: pickled as it is, a slice takes the whole table with it."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return sink.getvalue().to_pybytes()

    def __reduce__(self):
        return _unpack, (self.packed(), self.first)


def _unpack(packed: bytes, first: int) -> TableRows:
    import pyarrow as pa

    return TableRows(pa.ipc.open_stream(packed).read_all(), first)


# What is read of them -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """What is read of every chunk of a scan: which columns, which rows, and in which types.

    ``levels`` are those of the columns of categories, ``dates`` the columns of dates: features and covariates named
    ``crop=wheat`` and ``sown_year`` are made of them.
    """

    bag: str
    target: str | None
    groups: str | None
    features: tuple[str, ...]
    dtype: np.dtype
    labels: dict  # the types of bag and groups, in which all files agree
    where: Where | None = None
    weights: str | None = None
    covariates: tuple[str, ...] = ()
    bag_weights: str | None = None
    levels: dict = field(default_factory=dict)
    dates: tuple[str, ...] = ()
    fill_values: tuple[float, ...] = ()
    missing: str = "refuse"

    def column(self, role: str) -> str:
        """The column that has a role; refused if none has."""
        name = getattr(self, role)
        if name is None:
            raise ValueError(f"the scan has no {role}; name the column with scan(..., {role}=...)")
        return name

    def read_for(self, wanted: list[str]) -> list[str]:
        """The columns of the file that these are made of; with dates also the bag, which names one that is none."""
        made = {f"{name}={level}": name for name, levels in self.levels.items() for level in (*levels, OTHER)}
        made |= {f"{name}_{part}": name for name in self.dates for part in DATE_PARTS}
        found = list(dict.fromkeys(made.get(name, name) for name in wanted))
        return found if self.bag in found or not set(found) & set(self.dates) else [*found, self.bag]


def label_types(schema, roles: Roles) -> dict:
    """The types of bag ids and groups, in which all files agree; where a file holds a dictionary, of what is in it."""
    import pyarrow as pa

    kinds = {name: schema.field(name).type for name in (roles.bag, roles.groups) if name is not None}
    return {name: kind.value_type if pa.types.is_dictionary(kind) else kind for name, kind in kinds.items()}


# Footers of Parquet files -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Footer:
    """What is known of one file: its columns, and the number of rows of every row group."""

    part: Part
    schema: Any  # of pyarrow
    sizes: tuple[int, ...]
    marks: tuple[bytes, ...]

    @property
    def names(self) -> list[str]:
        """The columns of the file, then those its folders name."""
        return [*self.schema.names, *(v.column for v in self.part.values if v.column not in self.schema.names)]

    def empty(self, asked: list, only: bool) -> nw.DataFrame:
        """A table of the columns that are seen, without rows."""
        with reading(self.part.name):  # names that appear twice show themselves here
            table = self.schema.empty_table().select(visible(self.schema.names, asked, only))
            return nw.from_native(self.part.add_values(table, asked), eager_only=True)

    def kept(self, where: Where | None, schema) -> list[int]:
        """The row groups that are not empty, and may have a row that satisfies the conditions."""
        expression = None if where is None else where.by_statistics(schema)
        groups = range(len(self.sizes)) if expression is None else self._possible(expression, schema)
        return [k for k in groups if self.sizes[k]]

    def _possible(self, expression, schema) -> list[int]:
        import pyarrow.compute as pc
        from pyarrow.dataset import ParquetFileFormat

        values = [v for v in self.part.values if v.column not in self.schema.names and v.value is not None]
        partition = [pc.field(v.column) == v.value for v in values if v.column in schema.names]
        with reading(self.part.name):
            path, system = self.part.place()
            known = reduce(and_, partition) if partition else None
            fragment = ParquetFileFormat().make_fragment(path, system, partition_expression=known)
            return [one.row_groups[0].id for one in fragment.split_by_row_group(expression, schema=schema)]


def read_footers(parts: tuple[Part, ...]) -> list[Footer]:
    first = _read(parts[0])  # in this thread: what reading imports is there for the others
    with ThreadPoolExecutor(min(AT_ONCE, len(parts))) as pool:
        return [first, *pool.map(_read, parts[1:])]


def _read(part: Part) -> Footer:
    with part.open() as file:
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        sizes, marks = tuple(group.num_rows for group in groups), tuple(map(_mark, groups))
        return Footer(part, file.schema_arrow, sizes, marks)


def agree(footers: list[Footer], asked: list, *, only: bool):
    """The schema of all files: every column that is seen, in a type that holds its values in all of them.

    The rules are those by which `load` stacks tables; here the tables have no rows.
    """
    kinds: dict = {}  # the first file of every kind: thousands may be of one
    for footer in footers:
        kinds.setdefault((*footer.names, *footer.schema.types, *(v.whole for v in footer.part.values)), footer)
    frames = [footer.empty(asked, only) for footer in kinds.values()]
    return stack(frames, [footer.part.name for footer in kinds.values()]).to_arrow().schema


def cut(footer: Footer, groups: list[int], most: int) -> Iterator[FileRows]:
    """Runs of consecutive row groups of at most that many rows in all; a larger row group is a run of its own."""
    for _, run in groupby(enumerate(groups), key=lambda pair: pair[1] - pair[0]):
        held: list[int] = []
        for _, k in run:
            if held and sum(footer.sizes[i] for i in [*held, k]) > most:
                yield _rows(footer, held)
                held = []
            held.append(k)
        yield _rows(footer, held)


def _rows(footer: Footer, groups: list[int]) -> FileRows:
    marks = tuple(footer.marks[k] for k in groups)
    return FileRows(footer.part, tuple(groups), sum(footer.sizes[k] for k in groups), marks)
