"""A chunk: part of a table that reads itself, in whichever process it is.

- `Chunk`: row groups of a Parquet file, whose place is a `FileRows`; `BagsChunk`: some `Bags` that are in memory.
- `Layout`: which columns are read, and by which roles `bagwise.load` makes bags of them.
- `Footer`: the columns and row groups of a Parquet file. All files must agree on the columns; row groups in which no
  row can satisfy the conditions are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from hashlib import blake2b
from itertools import groupby, pairwise
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
from bagwise.io.table_files import Part, reading, visible
from bagwise.io.tables import stack

AT_ONCE = 16  # footers of distant files that are read at the same time
READ_ROWS = 1 << 18  # rows that are read at a time
ROW = "__row__"  # the position of a row in the table


@dataclass(frozen=True)
class Layout:
    """What is read of each chunk of a scan: which columns, which rows, and in which types.

    Attributes
    ----------
    roles : Roles
        Those of `bagwise.load`, with all features named and the levels of categories given. The column of weights of
        the bags is the label "bag_weights".
    features, covariates : tuple of str
        The names of the features of the bags, and of their covariates.
    types : dict
        The types of the columns, in which all files agree.
    columns : tuple of str
        The columns of the files that are read.
    """

    roles: Roles
    features: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()
    dtype: np.dtype = np.dtype(np.float64)
    types: dict = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    where: Where | None = None
    missing: str = "refuse"
    fill_values: tuple[float, ...] = ()

    @property
    def unit(self) -> str:
        """The column by which rows are partitioned: the groups, otherwise the bags."""
        return str(self.roles.bag if self.roles.groups is None else self.roles.groups)


def columns_read(names: list, levels: dict, dates: tuple) -> tuple[str, ...]:
    """Return the columns of a table of which features and other roles are made."""
    derived = {f"{name}={level}": name for name, own_levels in levels.items() for level in (*own_levels, OTHER)}
    derived |= {f"{name}_{part}": name for name in dates for part in DATE_PARTS}
    return tuple(dict.fromkeys(str(derived.get(name, name)) for name in names if name is not None))


class Chunk:
    """Part of a table in a file. It can be pickled: it holds only the place.

    Parameters
    ----------
    rows : FileRows
        Where its rows are. ``n_rows`` counts them before `where` leaves some out.
    layout : Layout
        What is read of them.
    """

    def __init__(self, rows: FileRows, layout: Layout):
        self.rows, self.layout = rows, layout

    @property
    def name(self) -> str:
        return self.rows.name

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def __repr__(self) -> str:
        return f"Chunk: {self.name} ({self.n_rows:,} rows)"

    def table(self, columns=None):
        """Read the columns (default: all with a role) of the rows that satisfy `where`, as a pyarrow table."""
        import pyarrow as pa

        columns, where = list(columns or self.layout.columns), self.layout.where
        needed = columns if where is None else list(dict.fromkeys([*columns, *where.names]))
        tables = self.rows.tables(needed, READ_ROWS)
        return pa.concat_tables(
            self._typed((table if where is None else where.keep(table)).select(columns)) for table in tables
        )

    def _typed(self, table):
        """Cast columns to the type of all files, so that equal ids are equal."""
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
    """Make bags by the code of `bagwise.load`; return them with their targets and their weights, if any."""
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
    """Some `Bags` that are in memory, their targets and weights, and the position of the first row of each."""

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
        """Yield tables of these columns with about ``rows`` rows each, with little more than their pages in memory."""
        import pyarrow as pa

        # buffered, without prefetching: a row group may be larger than the memory for it
        with self.part.open(pre_buffer=False, buffer_size=1 << 18) as file:
            self._refuse_change(file.metadata)
            present = [name for name in columns if name in file.schema_arrow.names]
            with reading(self.name):
                for batch in file.iter_batches(rows, row_groups=list(self.groups), columns=present, use_threads=False):
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
    """Return a hash of the footer of a row group: columns, types, sizes, positions and ranges.

    A different hash shows that the rows have changed.
    """
    columns = (group.column(j) for j in range(group.num_columns))
    facts = [
        (
            column.path_in_schema,
            column.physical_type,
            column.total_compressed_size,
            column.data_page_offset,
            _range(column.statistics),
        )
        for column in columns
    ]
    return blake2b(repr(facts).encode(), digest_size=8).digest()


def _range(statistics) -> tuple | None:
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None


def plain_types(schema) -> dict:
    """Return the type of each column; of a dictionary, that of its values."""
    import pyarrow as pa

    kinds = {field.name: field.type for field in schema}
    return {name: kind.value_type if pa.types.is_dictionary(kind) else kind for name, kind in kinds.items()}


# Footers of Parquet files -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Footer:
    """The footer of one file: its columns, and the number of rows of each row group."""

    part: Part
    schema: Any  # of pyarrow
    sizes: tuple[int, ...]
    marks: tuple[bytes, ...]

    @property
    def names(self) -> list[str]:
        """The columns of the file, then those its folders name."""
        return [*self.schema.names, *(v.column for v in self.part.values if v.column not in self.schema.names)]

    def empty(self, columns: list, only: bool):
        """Return a table of the visible columns, without rows."""
        with reading(self.part.name):  # names that appear twice show themselves here
            table = self.schema.empty_table().select(visible(self.schema.names, columns, only))
            return self.part.add_values(table, columns)

    def kept(self, where: Where | None, schema) -> list[int]:
        """Return the row groups that are not empty and may have a row that satisfies the conditions."""
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
            expected = reduce(and_, partition) if partition else None
            fragment = ParquetFileFormat().make_fragment(path, system, partition_expression=expected)
            return [piece.row_groups[0].id for piece in fragment.split_by_row_group(expression, schema=schema)]


def read_footers(parts: tuple[Part, ...]) -> list[Footer]:
    first = _read(parts[0])  # in this thread, so that the others find the modules imported
    with ThreadPoolExecutor(min(AT_ONCE, len(parts))) as pool:
        return [first, *pool.map(_read, parts[1:])]


def _read(part: Part) -> Footer:
    with part.open() as file:
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        sizes, marks = tuple(group.num_rows for group in groups), tuple(map(_mark, groups))
        return Footer(part, file.schema_arrow, sizes, marks)


def agree(footers: list[Footer], columns: list, *, only: bool):
    """Return the schema of all files: each visible column, in a type that holds its values in all of them.

    The rules are those by which `load` stacks tables; here the tables have no rows.
    """
    kinds: dict = {}  # the first file of each kind: thousands may have the same
    for footer in footers:
        kinds.setdefault((*footer.names, *footer.schema.types, *(v.whole for v in footer.part.values)), footer)
    frames = [footer.empty(columns, only) for footer in kinds.values()]
    return stack(frames, [footer.part.name for footer in kinds.values()]).schema


def cut(footer: Footer, groups: list[int], most: int) -> Iterator[FileRows]:
    """Yield runs of consecutive row groups of at most ``most`` rows; a larger row group is a run of its own."""
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
