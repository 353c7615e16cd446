"""Partition a table by bag: every bag, and every group of bags, is whole in one partition.

Where the files are clustered by bag, neighbouring chunks are partitions as they are, apart from the few bags that lie
in several of them. Otherwise the rows of each chunk are sorted by a hash of their bag into one file, with a batch for
each partition. From then on a partition is an ordinary `Bags`, made by the code of `bagwise.load` and kept as arrays.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.folds import numbered
from bagwise.bags.frames import FrameColumns
from bagwise.bags.validation import ParameterError, name_bags, warn_user
from bagwise.io.columns import find_bags, first_rows, one_per_bag
from bagwise.io.load import load_labels
from bagwise.scale.chunks import BagsChunk, Chunk, Layout
from bagwise.scale.passes import Arrays, Passes
from bagwise.scale.table_scan import Scan

MOST_SPREAD = 0.25  # share of the rows that may be of bags in several chunks, before all rows are partitioned anew
ROW = "__row__"  # the position of a row in the table


@dataclass(frozen=True)
class Partition:
    """Some bags whose arrays are in a folder, or `Bags` in memory.

    Attributes
    ----------
    name : str
    n_rows, n_bags : int
    arrays : Arrays, or the bags
    about : dict
        Names of columns, and what else the bags of all partitions have in common.
    """

    name: str
    n_rows: int
    n_bags: int
    arrays: Arrays | Bags
    about: dict

    def load(self) -> Bags:
        """Return the bags; their instances are a memory map."""
        if isinstance(self.arrays, Bags):
            return self.arrays
        found = {name: self.arrays[name] for name in self.arrays if name in _PARTS}
        found["instances"] = np.asarray(found["instances"])
        found["offsets"] = np.array(found["offsets"])
        return Bags._trusted(**found, **self.about, has_missing=bool(self.arrays["has_missing"]), compared=True)


_PARTS = ("instances", "offsets", "ids", "groups", "weights", "covariates")


@dataclass(frozen=True)
class Derived:
    """The bags of a partition, changed by a function when they are loaded."""

    partition: Any
    change: Any
    n_bags: int

    @property
    def name(self) -> str:
        return self.partition.name

    @property
    def n_rows(self) -> int:
        return self.partition.n_rows

    def load(self) -> Bags:
        """Return the changed bags."""
        return self.change(self.partition.load())


@dataclass(frozen=True)
class BagArrays:
    """Arrays with an entry per bag, in the order of the partitions.

    Attributes
    ----------
    ids, sizes, first : the id, the number of instances, and the position of the first row in the table
    counted, totals : the number of instances of weight above zero, and the sum of the weights
    groups, y, covariates, weight : as of the scan, or None
    """

    ids: np.ndarray
    sizes: np.ndarray
    first: np.ndarray
    counted: np.ndarray
    totals: np.ndarray
    groups: np.ndarray | None
    y: np.ndarray | None
    covariates: np.ndarray | None
    weight: np.ndarray | None

    def __getitem__(self, chosen) -> BagArrays:
        changed: dict[str, Any] = {name: part if part is None else part[chosen] for name, part in vars(self).items()}
        return BagArrays(**changed)


def partition(scan: Scan, passes: Passes) -> tuple[list[Partition], BagArrays]:
    """Return the partitions of a scan, and the arrays with an entry per bag."""
    if not isinstance(scan, Scan):
        raise TypeError(f"Got {type(scan).__name__}. A scan is required: call bagwise.scan(...) first.")
    about: dict[str, Any] = {"feature_names": scan.feature_names, "covariate_names": scan.covariates or None}
    about |= {"categories": scan.categories, "id_name": scan.bag, "target_name": scan.target}
    about |= {"missing": "impute" if scan.missing == "impute" else "refuse"}
    if isinstance(scan.chunks[0], BagsChunk):
        return _of_bags(scan, about)
    runs = _runs(scan)
    starts = np.cumsum([0, *(run.n_rows for run in runs)]).tolist()
    layout, tasks = scan.layout, [(run, start) for run, start in zip(runs, starts, strict=False)]
    if len(runs) == 1:
        made = passes.each("load", _load_run, tasks, layout, np.empty(0, np.uint64))
    else:
        hashes = passes.each("bag-hashes", _hashes, tasks, layout)
        n_rows = sum(int(one["counts"].sum()) for one in hashes)
        spread = _spread_bags(hashes)
        if spread is None:
            n = max(1, -(-n_rows // scan.chunk_rows))
            split = passes.each("partition", _split, tasks, layout, n)
            made = passes.each("load", _load_split, [(_Numbered(k, n_rows // n),) for k in range(n)], layout, split)
        else:
            whole = passes.each("load", _load_run, tasks, layout, spread)
            rows = sum(int(one["n_rest"]) for one in whole)
            n = -(-rows // scan.chunk_rows)
            numbers = [(_Numbered(k, rows // n), n) for k in range(n)]
            made = [*whole, *passes.each("load-others", _load_rest, numbers, layout, whole)]
    made = [one for one in made if "ids" in one]
    if not made:
        raise ValueError("The scan has no rows. At least one is required. Check where, and the files.")
    _warn(made, scan)
    parts = [
        Partition(f"partition {k}", int(one["sizes"].sum()), len(one["sizes"]), one, about)
        for k, one in enumerate(made)
    ]
    known = _joined(made)
    if known.groups is not None:
        _refuse_two_groups(known.ids, scan)
    return parts, known


def _refuse_two_groups(ids: np.ndarray, scan: Scan) -> None:
    """Refuse a bag whose rows have two groups: it is in the partitions of both."""
    numbers = numbered(ids)
    twice = np.bincount(numbers)[numbers] > 1
    if twice.any():
        at = np.flatnonzero(twice)
        some = np.unique(numbers[at], return_index=True)[1]
        raise ParameterError(
            "groups",
            f"{name_bags(ids[at[some]], np.ones(len(some), dtype=bool))} rows of more than one group in column "
            f"{scan.groups!r}. A bag belongs to one group, the same on all its rows.",
        )


def _of_bags(scan: Scan, about: dict) -> tuple[list[Partition], BagArrays]:
    parts, known = [], []
    for chunk in scan.chunks:
        bags = chunk.bags._with(**about, compared=True)
        parts.append(Partition(chunk.name, chunk.n_rows, len(bags), bags, {}))
        known.append(_bag_arrays(bags, chunk.y, None, chunk.first))
    return parts, _joined(known)


def _joined(known: list) -> BagArrays:
    def joined(name):
        return np.concatenate([np.asarray(one[name]) for one in known]) if known[0].get(name) is not None else None

    return BagArrays(**{name: joined(name) for name in BagArrays.__annotations__})


def _bag_arrays(bags: Bags, y, weight, first) -> dict:
    counted = totals = bags.sizes
    if bags.weights is not None:
        counted = np.add.reduceat(bags.weights > 0, bags.offsets[:-1], dtype=np.int64)
        totals = np.add.reduceat(bags.weights, bags.offsets[:-1])
    arrays = {"ids": bags.ids, "sizes": bags.sizes, "first": first, "counted": counted, "totals": totals.astype(float)}
    return arrays | {"groups": bags.groups, "y": y, "covariates": bags.covariates, "weight": weight}


# Which rows are of which partition ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Neighbouring chunks that are read together."""

    chunks: tuple[Chunk, ...]

    @property
    def n_rows(self) -> int:
        return sum(chunk.n_rows for chunk in self.chunks)

    @property
    def name(self) -> str:
        more = len(self.chunks) - 1
        return self.chunks[0].name + (f" (and {more:,} further chunk{'s' * (more > 1)})" if more else "")

    def table(self, columns=None):
        """Read the chunks as one table."""
        import pyarrow as pa

        return pa.concat_tables(chunk.table(columns) for chunk in self.chunks)


@dataclass(frozen=True)
class _Numbered:
    number: int
    n_rows: int

    @property
    def name(self) -> str:
        return f"partition {self.number}"


def _runs(scan: Scan) -> list[Run]:
    runs: list[list[Chunk]] = [[]]
    for chunk in scan.chunks:
        if runs[-1] and sum(one.n_rows for one in runs[-1]) + chunk.n_rows > scan.chunk_rows:
            runs.append([])
        runs[-1].append(chunk)
    return [Run(tuple(run)) for run in runs]


def _hashes(run: Run, start: int, layout: Layout) -> dict:
    hashes, counts = np.unique(unit_hashes(run.table([layout.unit])[layout.unit]), return_counts=True)
    return {"hashes": hashes, "counts": counts}


def _spread_bags(found: list[Arrays]) -> np.ndarray | None:
    """Return the hashes of the bags that lie in several runs; None if more than a quarter of the rows are of such bags.

    Runs are added in twos, fours and so on: in a table in random order the first few are enough to decide.
    """
    n, spread = 1, np.empty(0, dtype=np.uint64)
    while n < len(found):
        n = min(2 * n, len(found))
        hashes, counts = (np.concatenate([one[name] for one in found[:n]]) for name in ("hashes", "counts"))
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        twice = np.append(ordered[1:] == ordered[:-1], False)
        spread = np.unique(ordered[twice])
        marked = twice | np.append(False, twice[:-1])
        if counts[order][marked].sum() > MOST_SPREAD * counts.sum():
            return None
    return spread


def unit_hashes(column) -> np.ndarray:
    """Return a 64-bit hash of each value of a pyarrow column; equal values of one type have equal hashes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> hashes = unit_hashes(pa.chunked_array([["a", "b"], ["a"]]))
    >>> bool(hashes[0] == hashes[2] != hashes[1])
    True
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        return _mixed(pc.fill_null(column, 0).cast(pa.int64(), safe=False).to_numpy().view(np.uint64))
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    texts = np.array(encoded.dictionary.cast(pa.string()).to_pylist() or [""], dtype=str)
    hashes = np.zeros(len(texts), dtype=np.uint64)
    for letters in texts.view(np.uint32).reshape(len(texts), -1).T:
        hashes = np.where(letters == 0, hashes, _mixed(hashes + letters.astype(np.uint64) + np.uint64(1)))
    return hashes[pc.fill_null(encoded.indices, 0).to_numpy()]


def _mixed(values: np.ndarray) -> np.ndarray:
    """Apply the finaliser of SplitMix64, which mixes the bits of 64-bit numbers."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _numbered(run: Run, start: int):
    """Read a run with the position of each row in the table."""
    import pyarrow as pa

    table = run.table()
    return table.append_column(ROW, pa.array(np.arange(start, start + table.num_rows)))


def _split(run: Run, start: int, layout: Layout, n: int) -> dict:
    """Sort the rows of a run by partition, into a file of Arrow with a batch for each."""
    table = _numbered(run, start)
    part = (unit_hashes(table[layout.unit]) % np.uint64(n)).astype(np.uint16 if n < 2**16 else np.uint32)
    ordered = table.combine_chunks().take(np.argsort(part, kind="stable"))
    ends = np.cumsum(np.bincount(part, minlength=n)).tolist()
    batches = [ordered.slice(low, high - low) for low, high in zip([0, *ends], ends, strict=False)]
    return {"batches": _as_stream(batches)}


def _as_stream(tables: list) -> np.ndarray:
    """Write tables as a file of Arrow with exactly one batch for each."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, tables[0].schema) as stream:
        for table in tables:
            columns = [column.combine_chunks() for column in table.columns]
            columns = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
            stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=table.schema))
    return np.frombuffer(sink.getvalue(), np.uint8)


def _batch(stream: np.ndarray, number: int):
    import pyarrow as pa

    return pa.Table.from_batches([pa.ipc.open_file(pa.py_buffer(stream)).get_batch(number)])


# Bags of the rows -----------------------------------------------------------------------------------------------------


def _load_run(run: Run, start: int, layout: Layout, spread: np.ndarray) -> dict:
    """Make the bags of a run, and put the rows of bags that lie in several runs aside."""
    table = _numbered(run, start)
    if not len(spread):
        return _arrays(table, layout) | {"n_rest": 0}
    hashes = unit_hashes(table[layout.unit])
    rest = np.isin(hashes, spread)
    arrays = _arrays(table.filter(~rest), layout) | {"n_rest": np.count_nonzero(rest)}
    return arrays | {"rest": _as_stream([table.filter(rest)])} if rest.any() else arrays


def _load_rest(numbered: _Numbered, n: int, layout: Layout, whole: list[Arrays]) -> dict:
    """Make bags of the rows that were put aside."""
    import pyarrow as pa

    tables = []
    for one in whole:
        if int(one["n_rest"]):
            table = _batch(one["rest"], 0)
            tables.append(table.filter(unit_hashes(table[layout.unit]) % np.uint64(n) == numbered.number))
    return _arrays(pa.concat_tables(tables), layout)


def _load_split(numbered: _Numbered, layout: Layout, split: list[Arrays]) -> dict:
    """Make bags of the rows of one partition in all runs."""
    import pyarrow as pa

    return _arrays(pa.concat_tables(_batch(one["batches"], numbered.number) for one in split), layout)


def _arrays(table, layout: Layout) -> dict:
    """Make bags by the code of `bagwise.load`, and return them as arrays."""
    if table.num_rows == 0:
        return {}
    rows = table[ROW].to_numpy()
    roles, table = replace(layout.roles, labels={}), table.drop_columns([ROW])
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        bags, y, _ = load_labels(table, roles, missing=layout.missing, fill_values=layout.fill_values)
    assert bags.feature_names == layout.features, "the features of a partition are those of the scan"
    name = layout.roles.labels.get("bag_weights")
    weight = None if name is None else _bag_weights(FrameColumns(table, layout.fill_values), str(roles.bag), name)
    kept = bags.kept or {}
    arrays = _bag_arrays(bags, y, weight, rows[kept["row"][bags.offsets[:-1]]])
    arrays |= {"instances": bags.instances, "offsets": bags.offsets, "weights": bags.weights}
    arrays |= {"has_missing": bags.has_missing, "lost": table.num_rows - bags.n_instances}
    texts = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
    return arrays | {"notes": np.array(texts, dtype=object) if texts else None}


def _bag_weights(columns: FrameColumns, bag: str, name: str) -> np.ndarray:
    codes, ids = find_bags(columns, bag)
    weight = one_per_bag(columns, name, codes, first_rows(codes), ids, noun="bag weight", parameter="bag_weights")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(
            f"{name_bags(ids, wrong)} a bag weight in column {name!r} that is negative, missing or infinite. Weights "
            "are numbers from zero up. Replace it."
        )
    return weight


def _warn(made: list[Arrays], scan: Scan) -> None:
    """Repeat the warnings of the partitions, each kind once, and count the rows that were dropped."""
    lost = sum(int(one["lost"]) for one in made)
    if lost and not scan.is_filtered:
        warn_user(f"{lost:,} of {scan.n_rows:,} rows have missing or infinite values and were dropped")
    texts = Counter(text for one in made if "notes" in one for text in one["notes"].tolist())
    told = ("were dropped", "with other levels")  # above, or as the levels of the scan say
    first = {text.split(" ")[0]: text for text in reversed(texts) if not any(one in text for one in told)}
    for text in first.values():
        warn_user(text)
