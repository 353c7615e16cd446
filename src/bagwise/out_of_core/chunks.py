"""A chunk: part of a table that reads itself, block by block, in whichever process it is.

- `Chunk`: rows of a table; `BagsChunk`: instances of `Bags` that are in memory.
- `FileRows`, `TableRows`: where the rows of a chunk are, in row groups of a Parquet file or in a table in memory.
- `Layout`: which columns are read, in which types; they are chosen by the rules of `load`.
- `Footer`: the columns and row groups of a Parquet file. All files must agree on the columns; row groups in which no
  row can satisfy the conditions are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import and_
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from bagwise.bags import Bags, check_bags, check_targets
from bagwise.bags.frames import FrameColumns, as_list
from bagwise.bags.validation import absent, as_feature_names
from bagwise.io.columns import Roles, choose_features, refuse_no_labels, refuse_no_target
from bagwise.io.conditions import Where
from bagwise.io.parquet import Part, visible
from bagwise.io.readers import reading
from bagwise.io.tables import stack

AT_ONCE = 16  # footers of distant files are waited for together


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


def _labels(table, name: str) -> np.ndarray:
    codes, labels = FrameColumns(table.select([name])).factorise(name)
    return labels[codes]


class BagsChunk(Chunk):
    """Some consecutive instances of `Bags`; a bag may be cut in two.

    Parameters
    ----------
    first : int
        The position of the first instance.
    instances : array of shape (rows, features)
    ids : ids of the bags these instances belong to
    codes : the number, among these, of the bag of every instance
    y, groups : one target and one label per bag, or None
    """

    def __init__(self, first: int, instances, ids, codes, y=None, groups=None):
        self.first, self.instances, self.ids, self.codes = first, instances, ids, codes
        self.y, self.groups = y, groups

    @property
    def name(self) -> str:
        return f"instances {self.first:,} to {self.first + self.n_rows - 1:,}"

    @property
    def n_rows(self) -> int:
        return len(self.instances)

    def bags(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the bags of this chunk, and the number of the bag of every row."""
        return self.ids, self.codes

    def blocks(self, *, rows: int = 65_536, target: bool = False, groups: bool = False, codes=None) -> Iterator[Block]:
        """The rows in their order, ``rows`` at a time (the last may be fewer), with targets and groups if asked for."""
        for asked, values, role in ((target, self.y, "target"), (groups, self.groups, "groups")):
            if asked and values is None:
                raise ValueError(f"the scan has no {role}; give the bags some")
        for start in range(0, self.n_rows, rows):
            own = self.codes[start : start + rows]
            y, labels = (self.y[own] if target else None), (self.groups[own] if groups else None)
            yield Block(own, self.instances[start : start + rows], y, labels)


def cut_bags(bags: Bags, y, chunk_rows: int) -> tuple[BagsChunk, ...]:
    """Chunks of at most that many instances."""
    if bags.covariates is not None:  # a model of their columns would not know them in the bags it is to predict
        raise ValueError(
            "bags with covariates are not read chunk by chunk; make these columns of the instances, here and for "
            "predict, with bags.spread(), or leave them out with bags.without_covariates()"
        )
    bags = check_bags(bags, allow_missing=True)
    y = None if y is None else check_targets(y, bags)
    return tuple(_chunk(bags, y, start, start + chunk_rows) for start in range(0, bags.n_instances, chunk_rows))


def _chunk(bags: Bags, y, start: int, stop: int) -> BagsChunk:
    instances = bags.instances[start:stop]
    low = int(np.searchsorted(bags.offsets, start, side="right")) - 1
    high = int(np.searchsorted(bags.offsets, start + len(instances)))
    ends = np.clip(bags.offsets[low : high + 1], start, start + len(instances))
    codes = np.repeat(np.arange(high - low), np.diff(ends))
    values = [None if one is None else one[low:high] for one in (y, bags.groups)]
    return BagsChunk(start, instances, bags.ids[low:high], codes, *values)


# Where the rows are -------------------------------------------------------------------------------------------------


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
    """What is read of every chunk of a scan: which columns, which rows, and in which types."""

    bag: str
    target: str | None
    groups: str | None
    features: tuple[str, ...]
    dtype: np.dtype
    labels: dict  # the types of bag and groups, in which all files agree
    where: Where | None = None

    @classmethod
    def of(cls, schema, roles: dict, features: list, where: Where | None) -> Layout:
        columns = FrameColumns(schema.empty_table())
        dtype = np.dtype(np.float32 if all(columns.single(name) for name in features) else np.float64)
        labels = {name: _plain(schema.field(name).type) for name in (roles["bag"], roles["groups"]) if name is not None}
        return cls(**roles, features=tuple(features), dtype=dtype, labels=labels, where=where)

    def column(self, role: str) -> str:
        """The column that has a role; refused if none has."""
        name = getattr(self, role)
        if name is None:
            raise ValueError(f"the scan has no {role}; name the column with scan(..., {role}=...)")
        return name


def asked_for(roles: dict, features, ignore, where: Where | None) -> list:
    """Every column that is named somewhere."""
    named = [name for name in roles.values() if name is not None]
    others = as_list([] if features is None else features) + as_list(ignore) + (where.names if where else [])
    return list(dict.fromkeys(named + others))


def choose(columns: FrameColumns, roles: dict, features, ignore) -> list:
    """The feature columns, by the rules of `load`, without columns of lists; every other role is fit for it."""
    names = choose_features(columns, Roles(**roles, features=features, ignore=ignore))
    lists = [name for name in names if columns.kind(name) in ("list", "vector")]
    if lists:
        raise TypeError(
            f"column {lists[0]!r} holds lists, which are not read chunk by chunk; write a row per instance and a "
            "column per feature, ignore it, or read the table whole with bagwise.load"
        )
    as_feature_names(names, len(names))  # no name twice
    refuse_no_labels(columns, roles["bag"], "bag ids")
    if roles["groups"] is not None:
        refuse_no_labels(columns, roles["groups"], "groups")
    if roles["target"] is not None:
        refuse_no_target(columns, roles["target"])
    return names


def _plain(kind):
    """The type of the labels themselves, where a file holds their numbers in a dictionary."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


# Footers of Parquet files -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Footer:
    """What is known of one file: its columns, and the number of rows of every row group."""

    part: Part
    schema: Any  # of pyarrow
    sizes: tuple[int, ...]

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
        groups = range(file.metadata.num_row_groups)
        return Footer(part, file.schema_arrow, tuple(file.metadata.row_group(k).num_rows for k in groups))


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
    return FileRows(footer.part, tuple(groups), sum(footer.sizes[k] for k in groups))
