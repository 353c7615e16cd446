"""What is read of a table: chunks of its files, and partitions of whole bags that are made of them.

All files must have the same columns, and row groups in which no row can satisfy the conditions are not read. Every bag,
and every group of bags, is whole in one partition. Where the files are clustered by bag, neighbouring chunks are
partitions as they are, apart from the few bags that lie in several of them. The rows of those bags, otherwise all rows,
are sorted by a hash of their bag: one file per chunk, with a batch for each partition. From then on a partition is an
ordinary `Bags`, made by the code of `bagwise.load` and kept as arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import blake2b
from itertools import pairwise
from operator import and_
from typing import Any, NamedTuple

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.folds import unit_hash, units_of
from bagwise.bags.validation import counted, name_bags
from bagwise.io.columns import Roles
from bagwise.io.conditions import Where
from bagwise.io.encodings import DATE_PARTS, OTHER
from bagwise.io.load import load_labels
from bagwise.io.table_files import Part, reading, stack, visible
from bagwise.scale.passes import Arrays

AT_ONCE = 16  # number of footers read in parallel
READ_ROWS = 1 << 18  # number of rows per read
ROW = "__row__"  # column with the position of a row in the table
MOST_SPREAD = 0.25  # share of the rows that may be of bags in several chunks, before all rows are partitioned anew


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


def read_bag_weights(bags: Bags, labels: dict[str, np.ndarray], roles: Roles) -> np.ndarray | None:
    """Return the weights of bags among the labels that `load_labels` gives, or None."""
    if "bag_weights" not in labels:
        return None
    weight = np.asarray(labels["bag_weights"], dtype=np.float64)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(
            f"{name_bags(bags.ids, wrong)} a bag weight in column {roles.labels['bag_weights']!r} that is negative, "
            "missing or infinite. Weights are numbers from zero up. Replace it."
        )
    return weight


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


# Partitions -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """Some bags whose arrays are in a folder, or `Bags` in memory; functions change them when they are loaded."""

    name: str
    n_rows: int
    n_bags: int
    arrays: Arrays | Bags
    about: dict  # names of columns, and what else the bags of all partitions have in common
    changes: tuple[Callable[[Bags], Bags], ...] = ()

    def load(self) -> Bags:
        """Return the bags; their instances are a memory map."""
        bags = self.arrays
        if isinstance(bags, Arrays):
            parts = {name: bags[name] for name in bags if name in _PARTS}
            parts |= {"instances": np.asarray(parts["instances"]), "offsets": np.array(parts["offsets"])}
            bags = Bags._trusted(**parts, **self.about, has_missing=bool(bags["has_missing"]), compared=True)
        for change in self.changes:
            bags = change(bags)
        return bags

    def then(self, change: Callable[[Bags], Bags], n_bags: int | None = None) -> Partition:
        """Return the partition with one more change, which leaves ``n_bags`` bags (default: all)."""
        return replace(self, changes=(*self.changes, change), n_bags=self.n_bags if n_bags is None else n_bags)


_PARTS = ("instances", "offsets", "ids", "groups", "weights", "covariates")


def bag_arrays(bags: Bags, y, weight, first) -> dict:
    """Return the arrays with an entry per bag: ``first`` is its first row, ``totals`` the sum of its weights."""
    totals = bags.sizes if bags.weights is None else np.add.reduceat(bags.weights, bags.offsets[:-1])
    arrays = {"ids": bags.ids, "sizes": bags.sizes, "first": first, "totals": totals.astype(float)}
    return arrays | {"groups": bags.groups, "y": y, "covariates": bags.covariates, "weight": weight}


NO_HASHES = np.empty(0, dtype=np.uint64)


class Run(NamedTuple):
    """Neighbouring chunks that are read together."""

    name: str
    n_rows: int
    chunks: list[Chunk]

    def table(self, columns=None):
        """Read the chunks as one table."""
        import pyarrow as pa

        return pa.concat_tables(chunk.table(columns) for chunk in self.chunks)


def join_chunks(scan) -> list[Run]:
    """Return runs of neighbouring chunks of a scan, of at most as many rows as a chunk may have."""
    runs: list[list[Chunk]] = [[]]
    for chunk in scan.chunks:
        if runs[-1] and sum(other.n_rows for other in runs[-1]) + chunk.n_rows > scan.chunk_rows:
            runs.append([])
        runs[-1].append(chunk)
    more = [f" (and {counted(len(run) - 1, 'further chunk')})" if run[1:] else "" for run in runs]
    return [Run(run[0].name + text, sum(c.n_rows for c in run), run) for run, text in zip(runs, more, strict=True)]


def count_hashes(run: Run, start: int, layout: Layout) -> dict:
    """Count the rows of each bag or group of a run, by hash."""
    hashes, counts = np.unique(unit_hashes(run.table([layout.unit])[layout.unit]), return_counts=True)
    return {"hashes": hashes, "counts": counts}


def find_spread_bags(counted_hashes: list[Arrays]) -> tuple[np.ndarray | None, int]:
    """Return the hashes of the bags that lie in several runs, and the number of their rows.

    The hashes are None if more than a quarter of the rows are of such bags: then all rows are counted. Runs are added
    in twos, fours and so on: in a table in random order the first few are enough to decide.
    """
    n, spread, n_rows = 1, NO_HASHES, 0
    while n < len(counted_hashes):
        n = min(2 * n, len(counted_hashes))
        hashes, counts = (
            np.concatenate([arrays[name] for arrays in counted_hashes[:n]]) for name in ("hashes", "counts")
        )
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        twice = np.append(ordered[1:] == ordered[:-1], False)
        spread = np.unique(ordered[twice])
        n_rows = int(counts[order][twice | np.append(False, twice[:-1])].sum())
        if n_rows > MOST_SPREAD * counts.sum():
            return None, sum(int(arrays["counts"].sum()) for arrays in counted_hashes)
    return spread, n_rows


def unit_hashes(column) -> np.ndarray:
    """Return a 64-bit hash of each value of a pyarrow column; equal values of one type have equal hashes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):  # mixed by the finaliser of SplitMix64
        values = pc.fill_null(column, 0).cast(pa.int64(), safe=False).to_numpy().view(np.uint64)
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    texts = encoded.dictionary.cast(pa.string()).to_pylist()
    hashes = np.array([unit_hash(text, 0) for text in texts] or [b""], dtype="S8").view(np.uint64)
    return hashes[pc.fill_null(encoded.indices, 0).to_numpy()]


def split_rows(run: Run, start: int, layout: Layout, spread: np.ndarray | None, n: int) -> dict:
    """Make the bags of a run; sort the rows of bags in ``spread`` (None: all bags) by partition."""
    import pyarrow as pa

    table = run.table()
    table = table.append_column(ROW, pa.array(np.arange(start, start + table.num_rows)))
    if n == 0:
        return _arrays(table, layout)
    hashes, arrays = unit_hashes(table[layout.unit]), {}
    if spread is not None:
        apart = np.isin(hashes, spread)
        arrays = _arrays(table.filter(~apart), layout)
        table, hashes = table.filter(apart), hashes[apart]
    part = (hashes % np.uint64(n)).astype(np.uint16 if n < 2**16 else np.uint32)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks().take(np.argsort(part, kind="stable")))
    ends = np.cumsum(np.bincount(part, minlength=n))
    return arrays | {"rows": np.frombuffer(sink.getvalue(), np.uint8), "ends": ends}


def join_rows(run: Run, k: int, layout: Layout, split: list[Arrays]) -> dict:
    """Make bags of the rows of partition ``k`` from all runs."""
    import pyarrow as pa

    tables = []
    for arrays in split:
        low, high = [0, *arrays["ends"].tolist()][k : k + 2]
        tables.append(pa.ipc.open_file(pa.py_buffer(arrays["rows"])).read_all().slice(low, high - low))
    return _arrays(pa.concat_tables(tables), layout)


def _arrays(table, layout: Layout) -> dict:
    """Make bags by the code of `bagwise.load`, and return them as arrays."""
    if table.num_rows == 0:
        return {}
    rows, table = table[ROW].to_numpy(), table.drop_columns([ROW])
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        options = {"missing": layout.missing, "fill_values": layout.fill_values}
        bags, y, labels = load_labels(table, layout.roles, **options)
        weight = read_bag_weights(bags, labels, layout.roles)
    assert bags.feature_names == layout.features, "the features of a partition are those of the scan"
    arrays = bag_arrays(bags, y, weight, rows[(bags.kept or {})["row"][bags.offsets[:-1]]])
    arrays |= {"instances": bags.instances, "offsets": bags.offsets, "weights": bags.weights}
    arrays |= {"has_missing": bags.has_missing, "lost": table.num_rows - bags.n_instances}
    texts = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
    return arrays | {"notes": np.array(texts, dtype=object) if texts else None}
