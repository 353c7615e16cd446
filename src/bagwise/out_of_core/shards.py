"""The bags of a scan in shards: every bag whole in one of them, however its rows lie in the chunks.

A task on a chunk leaves an array with a row for each of its bags in a folder, in the order of the bags' names. A task
on a shard takes from all chunks what is of its own bags and adds it up, and keeps what the chunks are to know of them.
So no process holds more than the bags of a chunk or of a shard, and no id leaves the workers.

A bag's name is a hash of its group (or itself), by which folds are dealt, and then one of its id. A shard is a range of
names: the bags of a group are in one.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path

import numpy as np

from bagwise.bags.folds import unit_hash
from bagwise.bags.validation import name_bags
from bagwise.out_of_core import checkpoints

SHARD_BAGS = 65_536  # at most, about: 100 MB of 192 columns
SMALLEST = 129  # bytes: a file of an array that holds something is not smaller
ONE_IN_ALL = "a bag has one, the same in all files"
NAME = np.dtype("S24")  # 8 bytes of the unit, 16 of the bag


@dataclass(frozen=True)
class Shards:
    """Where the arrays of chunks and shards are. It is small, and travels to every task.

    Attributes
    ----------
    folder : Path, which all workers reach
    seed : int, of the hash by which bags are dealt to folds
    chunks : numbers of the chunks that have rows
    n : number of shards
    number : of the pass
    written : by kind and name, such as ("shard", "y"), the last pass before this one that has left such arrays
    """

    folder: Path
    seed: int = 0
    chunks: tuple[int, ...] = ()
    n: int = 0
    number: int = 0
    written: dict[tuple[str, str], int] = field(default_factory=dict)

    def for_next_pass(self) -> Shards:
        """The same for tasks of the next pass. Arrays that the last one has left in place of older ones remain alone.

        Every pass writes to a folder of its own, and reads what others before it wrote: a task that ends late, when
        another worker has done it and the pass is over, changes nothing.
        """
        found = {_key(path.stem): self.number for path in self._place(self.number).glob("*.np?")}
        for (kind, name), number in self.written.items():
            if (kind, name) in found:
                self._remove(kind, name, number)
        number = self.number + 1
        self._place(number).mkdir(exist_ok=True)
        return replace(self, number=number, written=self.written | found)

    def __iter__(self) -> Iterator[Shard]:
        return (Shard(self, number) for number in range(self.n))

    # Chunks ---------------------------------------------------------------------------------------------------------

    def enter(self, chunk: int, ids: np.ndarray, groups: np.ndarray | None) -> None:
        """Note the names of the bags of a chunk."""
        units = ids if groups is None else groups
        own = [blake2b(str(one).encode(), digest_size=16).digest() for one in ids.tolist()]
        unit = [unit_hash(one, self.seed) for one in units.tolist()]
        names = np.array([first + second for first, second in zip(unit, own, strict=True)], dtype=NAME)
        order = np.argsort(names, kind="stable")
        self._save(f"chunk-{chunk}-order", order)
        self.put(chunk, {"names": names, "ids": _compact(ids)})
        if groups is not None:
            by_bag = np.array([second + first for first, second in zip(unit, own, strict=True)], dtype=NAME)
            again = np.argsort(by_bag, kind="stable")
            self._save(f"chunk-{chunk}-units", by_bag[again])
            self._save(f"chunk-{chunk}-unit_ids", _compact(ids)[again])

    def put(self, chunk: int, arrays: dict[str, np.ndarray]) -> None:
        """Leave arrays with a row for each bag of a chunk, in the order of ``chunk.bags()``, under their names."""
        order = self._load(f"chunk-{chunk}-order")
        for name, rows in arrays.items():
            self._save(f"chunk-{chunk}-{name}", rows[order])

    def known(self, chunk: int, name: str) -> np.ndarray:
        """What the shards keep under that name of the bags of a chunk, in the order of ``chunk.bags()``."""
        order, position = self._load(f"chunk-{chunk}-order"), self.chunks.index(chunk)
        out: np.ndarray | None = None
        for shard in self:
            low, start, stop = shard.place(position)
            if start < stop:
                rows = self._load(f"shard-{shard.number}-{name}")[shard.at[start:stop]]
                out = np.empty((len(order), *rows.shape[1:]), rows.dtype) if out is None else out
                out[order[low : low + stop - start]] = rows
        if out is None:
            raise ValueError(f"chunk {chunk} has no bags")
        return out

    # Files ----------------------------------------------------------------------------------------------------------

    def _place(self, number: int) -> Path:
        return self.folder / f"pass-{number:03d}"

    def _save(self, name: str, array: np.ndarray) -> None:
        path = self._place(self.number) / f"{name}.npy"
        if array.dtype.hasobject:
            self._write(path.with_suffix(".npz"), lambda file: checkpoints.save(file, array))
        else:
            self._write(path, lambda file: np.save(file, array))

    def _write(self, path: Path, write: Callable) -> None:
        temporary = path.with_suffix(f".{secrets.token_hex(4)}")  # a task that is made again replaces the whole
        try:
            path.parent.mkdir(exist_ok=True)
            with temporary.open("wb") as file:
                write(file)
            os.replace(temporary, path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise OSError(
                error.errno,
                f"{error.strerror}: what is known of the bags cannot be written; give a folder with more space, which "
                "all workers reach, as work",
                str(self.folder),
            ) from error

    def store(self, value) -> str:
        """Put what a task has found into a file of the folder; its name, to `fetch` it by."""
        name = f"sum-{secrets.token_hex(8)}.npz"
        self._write(self.folder / name, lambda file: checkpoints.save(file, value))
        return name

    def fetch(self, name: str):
        """What was stored under a name, once."""
        path = self.folder / name
        with self._found(path):
            value = checkpoints.read(path)
        path.unlink()
        return value

    def _load(self, name: str) -> np.ndarray:
        here = self._place(self.number) / f"{name}.npy"  # a task reads what it has written itself
        before = self._place(self.written.get(_key(name), self.number)) / f"{name}.npy"
        for path in (here, before):
            if path.exists():
                empty = path.stat().st_size < SMALLEST  # nothing at all cannot be mapped
                with checkpoints.HEADERS:
                    return np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
            if path.with_suffix(".npz").exists():
                return checkpoints.read(path.with_suffix(".npz"))
        with self._found(before):
            raise FileNotFoundError

    @contextmanager
    def _found(self, path: Path) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{path} is not there: the folder must be one that all workers reach; give it as work"
            ) from error

    def remove(self, *names: str) -> None:
        """Remove what chunks and shards have under these names."""
        for name in names:
            for kind in ("chunk", "shard"):
                self._remove(kind, name, self.number)
                self._remove(kind, name, self.written.get((kind, name), self.number))

    def _remove(self, kind: str, name: str, number: int) -> None:
        for path in self._place(number).glob(f"{kind}-*-{name}.np?"):
            path.unlink(missing_ok=True)


def _key(name: str) -> tuple[str, str]:
    """("chunk", "rows") of chunk-7-rows."""
    kind, _, name = name.split("-", 2)
    return kind, name


def _compact(ids: np.ndarray) -> np.ndarray:
    """Text in a form of which a part can be read; other ids as they are."""
    if ids.dtype == object and all(isinstance(one, str) and not one.endswith("\0") for one in ids.tolist()):
        return ids.astype(str)
    return ids


class Disagreement(ValueError):
    """A bag has another value in a chunk than before; the second argument is the number of the chunk."""

    def __str__(self) -> str:
        return str(self.args[0])


class Shard:
    """One shard: arrays with a row for each of its bags, in the order of their names. ``shard["y"]`` reads one."""

    def __init__(self, shards: Shards, number: int):
        self.shards, self.number = shards, number

    def __reduce__(self):
        return Shard, (self.shards, self.number)

    def __str__(self) -> str:
        return f"shard {self.number + 1} of {self.shards.n}"

    def __getitem__(self, name: str) -> np.ndarray:
        return self.shards._load(f"shard-{self.number}-{name}")

    def keep(self, name: str, rows: np.ndarray) -> None:
        self.shards._save(f"shard-{self.number}-{name}", rows)

    def __len__(self) -> int:
        return len(self["names"])

    def form(self) -> None:
        """Find the bags of the shard in all chunks. It comes before all else."""
        lows, parts = [], []
        for chunk in self.shards.chunks:
            names = self.shards._load(f"chunk-{chunk}-names")
            own = self._own(names)
            lows.append(own.start)
            parts.append(np.array(names[own]))
        names, at = np.unique(np.concatenate(parts), return_inverse=True)
        self.keep("names", names)
        self.keep("at", at)
        self.keep("index", np.array([[*lows, 0], np.append(0, np.cumsum([len(part) for part in parts]))]))

    def _own(self, names: np.ndarray) -> slice:
        """Where, of sorted names, those of this shard are."""
        low, high = ((self.number + k) * 2**64 // self.shards.n for k in (0, 1))
        stop = len(names) if high == 2**64 else int(np.searchsorted(names, high.to_bytes(8, "big")))
        return slice(int(np.searchsorted(names, low.to_bytes(8, "big"))), stop)

    @cached_property
    def at(self) -> np.ndarray:
        """Which bag of the shard every piece of a bag is of, chunk by chunk."""
        return self["at"]

    @cached_property
    def _index(self) -> np.ndarray:
        return self["index"]

    def place(self, position: int) -> tuple[int, int, int]:
        """Of the chunk at that position: where its pieces of this shard begin there, and in `at` begin and end."""
        low, (start, stop) = self._index[0, position], self._index[1, position : position + 2]
        return int(low), int(start), int(stop)

    def pieces(self, name: str) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """For every chunk that has some of the bags: its number, which they are, those met before, the rows it left."""
        met = np.zeros(len(self), dtype=bool)
        for position, chunk in enumerate(self.shards.chunks):
            _, start, stop = self.place(position)
            if start < stop:
                own = self.at[start:stop]
                yield chunk, own, met[own], self._of_chunk(chunk, name)
                met[own] = True

    def gather(self, name: str, add: np.ufunc = np.add) -> np.ndarray:
        """What the chunks left, added up for every bag."""
        total: np.ndarray | None = None
        for _, own, old, rows in self.pieces(name):
            total = np.empty((len(self), *rows.shape[1:]), rows.dtype) if total is None else total
            total[own[old]] = add(total[own[old]], rows[old])
            total[own[~old]] = rows[~old]
        return np.empty(0) if total is None else total

    def gather_ids(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the bags, and where each was met first: (chunk, place in it)."""
        positions, ids, firsts = [], [], []
        for chunk, own, old, rows in self.pieces("ids"):
            positions.append(own[~old])
            ids.append(rows[~old])
            codes = self._of_chunk(chunk, "order")[~old]
            firsts.append(np.column_stack([np.full(len(codes), chunk), codes]))
        order = np.argsort(np.concatenate(positions))
        found = np.concatenate(ids)[order]
        return found.astype(object) if found.dtype.kind == "U" else found, np.concatenate(firsts)[order]

    def _of_chunk(self, chunk: int, name: str) -> np.ndarray:
        low, start, stop = self.place(self.shards.chunks.index(chunk))
        return np.asarray(self.shards._load(f"chunk-{chunk}-{name}")[low : low + stop - start])

    def agree(self, name: str, what: str) -> np.ndarray:
        """The value of every bag, ``what`` in messages, on which all chunks agree."""
        values: np.ndarray | None = None
        for chunk, own, old, rows in self.pieces(name):
            values = np.empty((len(self), *rows.shape[1:]), rows.dtype) if values is None else values
            differs = old & np.reshape(values[own] != rows, (len(own), -1)).any(axis=1)
            if differs.any():
                bags = name_bags(self._of_chunk(chunk, "ids"), differs)
                raise Disagreement(f"{bags} more than one {what}; {ONE_IN_ALL}", chunk)
            values[own] = rows
        return np.empty(0) if values is None else values

    def agree_on_groups(self, column: str) -> None:
        """That no bag has two groups: another shard's bags, those whose ids have the hashes of this range."""
        parts, ids = [], []
        for chunk in self.shards.chunks:
            pairs = self.shards._load(f"chunk-{chunk}-units")
            own = self._own(pairs)
            parts.append(np.array(pairs[own]))
            ids.append(self.shards._load(f"chunk-{chunk}-unit_ids")[own])
        pairs, first = np.unique(np.concatenate(parts), return_index=True)
        bag = pairs.astype("S16")
        twice = np.append(bag[1:] == bag[:-1], False)
        if twice.any():
            bags = name_bags(np.concatenate(ids)[first], twice)
            raise ValueError(f"{bags} rows of more than one group in column {column!r}; {ONE_IN_ALL}")

    @property
    def hashes(self) -> np.ndarray:
        """Of every bag, as numbers: the hash of its group (or of itself), and the first part of that of its id."""
        return np.array(self["names"]).view(">u8").reshape(len(self), 3)[:, :2].astype(np.uint64)

    @property
    def units(self) -> np.ndarray:
        """The group of every bag, or the bag itself, by number within the shard."""
        return np.unique(self["names"].astype("S8"), return_inverse=True)[1]

    def deal(self, deal: Deal, column: str) -> None:
        """Keep the fold of every bag."""
        self.keep(column, deal.folds(self.number, self.units))


# Folds ------------------------------------------------------------------------------------------------------------


def unit_sizes(units: np.ndarray) -> Counter:
    """How many units there are of every number of bags."""
    sizes, counts = np.unique(np.bincount(units), return_counts=True)
    return Counter(dict(zip(sizes.tolist(), counts.tolist(), strict=True)))


class Deal:
    """The folds of `bag_folds`, dealt from the numbers of units of every size in every shard.

    Units are dealt by size, the largest first, then by hash, each to the emptiest fold. Where units are of one size the
    folds soon take turns, so that the fold of a unit follows from its rank.
    """

    def __init__(self, counts: dict[int, Counter], n_folds: int):
        filled = np.zeros(n_folds, dtype=np.int64)
        self.turns: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        totals = sum(counts.values(), Counter())
        for size in sorted(totals, reverse=True):
            self.turns[size] = _turns(filled, size, totals[size])
        before = [Counter(), *accumulate(counts[number] for number in sorted(counts))]
        self.before = dict(zip(sorted(counts), before, strict=False))

    def folds(self, number: int, units: np.ndarray) -> np.ndarray:
        """The fold of every bag of a shard."""
        sizes = np.bincount(units)
        fold = np.empty(len(sizes), dtype=np.int64)
        for size in np.unique(sizes).tolist():
            own = np.flatnonzero(sizes == size)
            rank = self.before[number][size] + np.arange(len(own))
            first, cycle = self.turns[size]
            later = cycle[(rank - len(first)) % len(cycle)]
            fold[own] = np.where(rank < len(first), np.append(first, 0)[np.minimum(rank, len(first))], later)
        return fold[units]


def _turns(filled: np.ndarray, size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Deal so many units of one size: the folds of the first, and those that take turns afterwards."""
    first: list[int] = []
    while len(first) < count and np.ptp(filled) >= size:
        first.append(int(filled.argmin()))
        filled[first[-1]] += size
    cycle = np.argsort(filled, kind="stable")
    rounds, rest = divmod(count - len(first), len(filled))
    filled += rounds * size
    filled[cycle[:rest]] += size
    return np.array(first, dtype=np.int64), cycle
