"""Partition a table by bag: every bag, and every group of bags, is whole in one partition.

Where the files are clustered by bag, neighbouring chunks are partitions as they are, apart from the few bags that lie
in several of them. The rows of those bags, otherwise all rows, are sorted by a hash of their bag: one file per chunk,
with a batch for each partition. From then on a partition is an ordinary `Bags`, made by the code of `bagwise.load` and
kept as arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.folds import unit_hash
from bagwise.bags.validation import ParameterError, counted, name_bags, numbered, warn_user
from bagwise.scale.chunks import ROW, BagsChunk, Chunk, Layout, load_bags
from bagwise.scale.passes import Arrays, Passes
from bagwise.scale.table_scan import Scan

MOST_SPREAD = 0.25  # share of the rows that may be of bags in several chunks, before all rows are partitioned anew


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
# `first` is the position of the first row in the table, `totals` are the sums of the weights of the instances.
PER_BAG = ("ids", "sizes", "first", "totals", "groups", "y", "covariates", "weight")


def partition(scan: Scan, passes: Passes) -> tuple[list[Partition], dict[str, Any]]:
    """Return the partitions of a scan, and arrays with an entry per bag in their order, by the names `PER_BAG`."""
    if not isinstance(scan, Scan):
        raise TypeError(f"Got {type(scan).__name__}. A scan is required: call bagwise.scan(...) first.")
    about: dict[str, Any] = {"feature_names": scan.feature_names, "covariate_names": scan.covariates or None}
    about |= {"categories": scan.categories, "id_name": scan.bag, "target_name": scan.target}
    about |= {"missing": "impute" if scan.layout.missing == "impute" else "refuse"}
    if isinstance(scan.chunks[0], BagsChunk):
        parts, in_memory = [], []
        for chunk in scan.chunks:
            bags = chunk.bags._with(**about, compared=True)
            parts.append(Partition(chunk.name, chunk.n_rows, len(bags), bags, {}))
            in_memory.append(_bag_arrays(bags, chunk.y, chunk.weight, chunk.first))
        return parts, _joined(in_memory)
    runs, layout = _runs(scan), scan.layout
    tasks = list(zip(runs, np.cumsum([0, *(run.n_rows for run in runs)]).tolist(), strict=False))
    spread, n_rows = _spread_bags(passes.each("bag-hashes", _hashes, tasks, layout)) if runs[1:] else (_no_hashes, 0)
    n = -(-n_rows // scan.chunk_rows)
    split = passes.each("partition", _partition, tasks, layout, spread, n)
    joined = [(Run(f"partition {k}", n_rows // n, []), k) for k in range(n)]
    loaded = [*split, *(passes.each("load", _load, joined, layout, split) if n else [])]
    loaded = [arrays for arrays in loaded if "ids" in arrays]
    if not loaded:
        raise ValueError("The scan has no rows. At least one is required. Check where, and the files.")
    _warn(loaded, scan)
    parts = []
    for k, arrays in enumerate(loaded):
        sizes = arrays["sizes"]
        parts.append(Partition(f"partition {k}", int(sizes.sum()), len(sizes), arrays, about))
    per_bag = _joined(loaded)
    if per_bag["groups"] is not None:
        _refuse_two_groups(per_bag["ids"], scan)
    return parts, per_bag


def _refuse_two_groups(ids: np.ndarray, scan: Scan) -> None:
    """Refuse a bag whose rows have two groups: it is in the partitions of both."""
    numbers = numbered(ids)
    at = np.flatnonzero(np.bincount(numbers)[numbers] > 1)
    if len(at):
        first = at[np.unique(numbers[at], return_index=True)[1]]
        raise ParameterError(
            "groups",
            f"{name_bags(ids[first], np.ones(len(first), dtype=bool))} more than one group in column "
            f"{scan.groups!r}; a bag has one group, the same on all its rows",
        )


def _joined(per_bag: list) -> dict[str, Any]:
    parts = {name: [arrays.get(name) for arrays in per_bag] for name in PER_BAG}
    return {name: None if arrays[0] is None else np.concatenate(arrays) for name, arrays in parts.items()}


def _bag_arrays(bags: Bags, y, weight, first) -> dict:
    totals = bags.sizes if bags.weights is None else np.add.reduceat(bags.weights, bags.offsets[:-1])
    arrays = {"ids": bags.ids, "sizes": bags.sizes, "first": first, "totals": totals.astype(float)}
    return arrays | {"groups": bags.groups, "y": y, "covariates": bags.covariates, "weight": weight}


# Which rows are of which partition ------------------------------------------------------------------------------------


class Run(NamedTuple):
    """Neighbouring chunks that are read together."""

    name: str
    n_rows: int
    chunks: list[Chunk]

    def table(self, columns=None):
        """Read the chunks as one table."""
        import pyarrow as pa

        return pa.concat_tables(chunk.table(columns) for chunk in self.chunks)


def _runs(scan: Scan) -> list[Run]:
    runs: list[list[Chunk]] = [[]]
    for chunk in scan.chunks:
        if runs[-1] and sum(other.n_rows for other in runs[-1]) + chunk.n_rows > scan.chunk_rows:
            runs.append([])
        runs[-1].append(chunk)
    more = [f" (and {counted(len(run) - 1, 'further chunk')})" if run[1:] else "" for run in runs]
    return [Run(run[0].name + text, sum(c.n_rows for c in run), run) for run, text in zip(runs, more, strict=True)]


def _hashes(run: Run, start: int, layout: Layout) -> dict:
    hashes, counts = np.unique(unit_hashes(run.table([layout.unit])[layout.unit]), return_counts=True)
    return {"hashes": hashes, "counts": counts}


def _spread_bags(counted_hashes: list[Arrays]) -> tuple[np.ndarray | None, int]:
    """Return the hashes of the bags that lie in several runs, and the number of their rows.

    The hashes are None if more than a quarter of the rows are of such bags: then all rows are counted. Runs are added
    in twos, fours and so on: in a table in random order the first few are enough to decide.
    """
    n, spread, n_rows = 1, _no_hashes, 0
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


_no_hashes = np.empty(0, dtype=np.uint64)


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


def _partition(run: Run, start: int, layout: Layout, spread: np.ndarray | None, n: int) -> dict:
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


# Bags of the rows -----------------------------------------------------------------------------------------------------


def _load(run: Run, k: int, layout: Layout, split: list[Arrays]) -> dict:
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
        bags, y, weight = load_bags(table, layout.roles, layout.missing, layout.fill_values)
    assert bags.feature_names == layout.features, "the features of a partition are those of the scan"
    arrays = _bag_arrays(bags, y, weight, rows[(bags.kept or {})["row"][bags.offsets[:-1]]])
    arrays |= {"instances": bags.instances, "offsets": bags.offsets, "weights": bags.weights}
    arrays |= {"has_missing": bags.has_missing, "lost": table.num_rows - bags.n_instances}
    texts = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
    return arrays | {"notes": np.array(texts, dtype=object) if texts else None}


def _warn(loaded: list[Arrays], scan: Scan) -> None:
    """Repeat the warnings of the partitions, each kind once, and count the rows that were dropped."""
    lost = sum(int(arrays["lost"]) for arrays in loaded)
    if lost and scan.layout.where is None:
        warn_user(f"{lost:,} of {scan.n_rows:,} rows have missing or infinite values and were dropped")
    texts = [text for arrays in loaded if "notes" in arrays for text in arrays["notes"].tolist()]
    repeated = ("were dropped", "with other levels")  # counted above, or named when the table was scanned
    texts = [text for text in texts if not any(words in text for words in repeated)]
    for text in {text.split(" ")[0]: text for text in reversed(texts)}.values():
        warn_user(text)
