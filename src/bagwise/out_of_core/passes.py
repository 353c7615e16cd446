"""Passes over the chunks of a scan, and over the shards of its bags: a function of each, or its sum over all.

A pass has a number and a name. What it finds is kept in a work folder, if there is one, and how far it is can be told:
rows read, rows per second, the time left; a line in a terminal shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from bagwise.execution import executor_for
from bagwise.execution.resources import kept_memory, one_thread
from bagwise.execution.tasks import Tree, add_up, in_order, name_of
from bagwise.io.table_output import duration
from bagwise.out_of_core import checkpoints
from bagwise.out_of_core import shards as bag_shards
from bagwise.out_of_core.checkpoints import PassFiles, Work
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.shards import Disagreement, Shard, Shards
from bagwise.out_of_core.table_scan import Scan

BLOCK_ROWS = 16_384  # rows at a time: 64 MB of 500 features
AT_LEAST = 0.1  # seconds between two steps that are told, but for the last


class Piece(NamedTuple):
    """A chunk and its number."""

    number: int
    chunk: Chunk

    def __str__(self) -> str:
        return self.chunk.name


class Left(NamedTuple):
    """What a task on a chunk leaves to the shards, by name: arrays with a row for each of its bags; and its result."""

    rows: dict[str, np.ndarray]
    rest: Any = None


class Met(NamedTuple):
    """The same, of a first pass: the ids of the bags, and their groups if there are some."""

    ids: np.ndarray
    groups: np.ndarray | None = None
    rows: dict[str, np.ndarray] = {}
    rest: Any = None


class Passes:
    """Passes over a scan, run by an executor. The first is `meet`, which names the bags; then any of the others.

    What is known of every bag lies in a folder, by `Shards`; this process holds nothing that grows with their number.

    Parameters
    ----------
    scan : Scan
    executor : object with ``run``, optional
    seed : int
        Of the folds to which bags are dealt.
    work : Work, or path, optional
        A work folder, in which what is known of the bags stays with the results of the passes. Or where a folder is
        made, and removed at the end; all workers must reach it. By default the system's folder for temporary files.
    progress : function of a `PassStep`, optional

    Attributes
    ----------
    chunks : those that have rows, once they were met
    shards : Shards
    """

    def __init__(self, scan: Scan, executor=None, *, seed: int = 0, work=None, progress: Callable | None = None):
        if not isinstance(scan, Scan):
            raise TypeError(f"expected what bagwise.scan(...) gives, not {type(scan).__name__}")
        if executor is not None and not hasattr(executor, "run"):
            raise TypeError(f"an executor has a run method, such as bagwise.execution.Processes(2); not {executor!r}")
        kept = work if isinstance(work, Work) else None
        self.scan = scan
        self.runner = PassRunner(executor_for(None) if executor is None else executor, kept, progress)
        self.chunks: list[Piece] = []
        self._temporary = None
        if kept is None:
            self._temporary = TemporaryDirectory(prefix="bagwise-", dir=work, ignore_cleanup_errors=True)
            folder = Path(self._temporary.name)
        else:
            folder = kept.new_shards()
        self.shards = Shards(folder.absolute(), seed)  # a worker may have been started in another folder

    def __enter__(self) -> Passes:
        return self

    def __exit__(self, *_) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def meet(self, function: Callable, *shared) -> Iterator[Any]:
        """What is left (``rest``) of ``function(chunk, *shared)``, a `Met`, for every chunk that has rows, in order.

        Chunks without any row are left out from now on. When all are met, the shards are formed.
        """
        pieces, n_pieces = [Piece(*one) for one in enumerate(self.scan.chunks)], 0
        results = self.runner.in_order(_meet, pieces, (function, self._begin(), *shared))
        for piece, (n_bags, rest) in zip(pieces, results, strict=True):
            if n_bags:
                self.chunks.append(piece)
                n_pieces += n_bags
                yield rest
        if not self.chunks:
            raise ValueError("the scan has no rows; look at `where`, or at the files")
        numbers = tuple(piece.number for piece in self.chunks)
        self.shards = replace(self.shards, chunks=numbers, n=-(-n_pieces // bag_shards.SHARD_BAGS))
        self.runner.add_up(_form, list(self._begin()), (Shard.form,), add)

    def each(self, function: Callable, *shared, known: tuple[str, ...] = ()) -> Iterator[Any]:
        """``function(chunk, *known, *shared)`` of every chunk, in order; ``known`` names what the shards keep.

        Of a `Left`, the rows are left to the shards.
        """
        return self.runner.in_order(_visit, self.chunks, (function, self._begin(), known, *shared))

    def leave(self, function: Callable, *shared, known: tuple[str, ...] = ()) -> None:
        """The same, where all that is found is left to the shards."""
        for _ in self.each(function, *shared, known=known):
            pass

    def total(self, function: Callable, *shared, known: tuple[str, ...] = ()) -> Any:
        """What `each` gives, added up (see `add`) over all chunks.

        Sums that wait to be added are as many as the logarithm of the number of chunks. Where they are added in this
        process they wait on disk, unless a work folder has them anyway.
        """
        shared = (function, self._begin(), known, *shared)
        if hasattr(self.runner.executor, "add_up") or self.runner.work is not None:
            return self.runner.add_up(_visit, self.chunks, shared, add)
        add_stored = partial(_add_stored, self.shards)
        return self.shards.fetch(self.runner.add_up(_visit_and_store, self.chunks, shared, add_stored))

    def each_shard(self, function: Callable, *shared) -> Iterator[Any]:
        """``function(shard, *shared)`` of every shard that has bags, in order; None for the others."""
        return self.runner.in_order(_visit_shard, list(self.shards), (function, *shared))

    def by_shard(self, function: Callable, *shared) -> Any:
        """``function(shard, *shared)`` of every shard that has bags, added up (see `add`)."""
        try:
            return self.runner.add_up(_visit_shard, list(self._begin()), (function, *shared), add)
        except Disagreement as error:  # workers know a chunk by its number alone
            text, chunk = error.args
            raise ValueError(f"{text}. Another one is in {self.scan.chunks[chunk].name}") from None

    def _begin(self) -> Shards:
        """The shards as a new pass finds them."""
        self.shards = self.shards.for_next_pass()
        return self.shards


def add(left, right) -> Any:
    """What is found in two parts of the data, as that of both; None adds nothing.

    What has a method ``merge`` says itself how. Dicts are joined, in the order of their keys, and what both have is
    added; tuples and lists are added one by one; all else (numbers, arrays, counters) by ``+``.

    Examples
    --------
    >>> add({"a": (1, [2.0])}, {"a": (3, [0.5]), "b": None})
    {'a': (4, [2.5]), 'b': None}
    """
    if left is None or right is None:
        return right if left is None else left
    if hasattr(left, "merge"):
        return left.merge(right)
    if type(left) is dict:
        return {key: add(left.get(key), right.get(key)) for key in sorted(left.keys() | right.keys())}
    if isinstance(left, list | tuple):
        both = [add(*pair) for pair in zip(left, right, strict=True)]
        return type(left)(*both) if hasattr(left, "_fields") else type(left)(both)
    return left + right


def added(parts: Iterable) -> Any:
    """All of them in one, added one after another."""
    return reduce(add, parts, None)


def _meet(piece: Piece, function, shards: Shards, *shared) -> tuple[int, Any]:
    with one_thread(), kept_memory():
        met = function(piece.chunk, *shared)
        if len(met.ids):
            shards.enter(piece.number, met.ids, met.groups)
            shards.put(piece.number, met.rows)
        return len(met.ids), met.rest


def _visit(piece: Piece, function, shards: Shards, known, *shared):
    with one_thread(), kept_memory():
        result = function(piece.chunk, *(shards.known(piece.number, name) for name in known), *shared)
        if not isinstance(result, Left):
            return result
        shards.put(piece.number, result.rows)
        return result.rest


def _visit_and_store(piece: Piece, function, shards: Shards, *others) -> str:
    return shards.store(_visit(piece, function, shards, *others))


def _add_stored(shards: Shards, left: str, right: str) -> str:
    """Of what was stored, one pair at a time is in memory."""
    return shards.store(add(shards.fetch(left), shards.fetch(right)))


def _form(shard: Shard, form):
    with kept_memory():
        form(shard)


def _visit_shard(shard: Shard, function, *shared):
    with one_thread(), kept_memory():
        return function(shard, *shared) if len(shard) else None


# How passes are run --------------------------------------------------------------------------------------------------


class PassRunner:
    """Runs passes by an executor, as `in_order` and `add_up` do; what they find is kept, and how far they are told.

    Parameters
    ----------
    executor : object with ``run``
    work : Work, optional
    progress : function of a `PassStep`, optional
    """

    def __init__(self, executor, work: Work | None = None, progress: Callable[[PassStep], object] | None = None):
        self.executor, self.work, self.progress = executor, work, progress
        self._passes = 0

    def in_order(self, function: Callable, tasks: Sequence, shared: tuple) -> Iterator[Any]:
        """The results for all tasks, in their order; ``shared`` begins with the function that names the pass."""
        name, files, tell = self._begin(shared[0], tasks)
        start = 0
        for result in () if files is None else files.results():
            tell(start, kept=True)
            start += 1
            yield result
        if start < len(tasks):
            how: dict[str, Any] = {"name": name, "report": lambda number: tell(start + number)}
            others = in_order(self.executor, function, tasks[start:], shared, **how)
            yield from others if files is None else files.keep(start, others)

    def add_up(self, function: Callable, tasks: Sequence, shared: tuple, add: Callable) -> Any:
        """The sum of the results for all tasks."""
        name, files, tell = self._begin(shared[0], tasks)
        total = None if files is None else files.read("total")
        kept = {} if files is None else files.read("nodes") or {}
        held, since = Tree(add, kept), time.monotonic()
        for number in range(len(tasks)):
            if total is not None or held.holds(number):
                tell(number, kept=True)
        if total is not None:
            return total[0]

        def report(number: int, nodes: Callable[[], dict]) -> None:
            nonlocal since
            tell(number)
            if files is not None and time.monotonic() - since >= checkpoints.EVERY:
                files.write("nodes", nodes())
                since = time.monotonic()

        found = add_up(self.executor, function, tasks, shared, add, name=name, nodes=kept, report=report)
        if files is not None:
            files.write("total", [found])
            files.remove("nodes")
        return found

    def _begin(self, function: Callable, tasks: Sequence) -> tuple[str, PassFiles | None, Callable[..., None]]:
        self._passes += 1
        name = name_of(function)
        files = None if self.work is None else self.work.next_pass(name)
        if self.progress is None:
            return name, files, lambda number, kept=False: None
        return name, files, PassClock(self._passes, name, tasks, self.progress)


class PassStep(NamedTuple):
    """How far a pass is: its number and name, rows done of all, rows per second and seconds left (None at first).

    A pass over the bags has shards in place of rows.

    Examples
    --------
    >>> print(PassStep(6, "fold-sums", 30_000_000, 50_000_000, 1_250_000.0, 16.0))
    pass 6, fold-sums: 30,000,000 of 50,000,000 rows, 1,250,000 rows/s, 16 s left
    """

    number: int
    name: str
    rows: int
    total: int
    rate: float | None = None
    seconds_left: float | None = None
    unit: str = "rows"

    def __str__(self) -> str:
        text = f"pass {self.number}, {self.name}: {self.rows:,} of {self.total:,} {self.unit}"
        if self.rate is None or self.seconds_left is None:
            return text
        return f"{text}, {self.rate:,.0f} {self.unit}/s, {duration(self.seconds_left)} left"


class PassClock:
    """Tells the steps of one pass as its tasks end, each with its rows; those of a checkpoint take no time."""

    def __init__(self, number: int, name: str, tasks: Sequence, tell: Callable[[PassStep], object]):
        chunks = [getattr(task, "chunk", None) for task in tasks]
        self.number, self.name, self.tell = number, name, tell
        self.rows, self.unit = [1 if chunk is None else chunk.n_rows for chunk in chunks], "rows"
        if None in chunks:
            self.unit = "shards" if hasattr(tasks[0], "shards") else "tasks"
        self.total, self.done, self.found = sum(self.rows), 0, 0
        self.started = self._told = time.perf_counter()

    def __call__(self, task: int, *, kept: bool = False) -> None:
        self.done += self.rows[task]
        self.found += self.rows[task] if kept else 0
        now = time.perf_counter()
        if now - self._told >= AT_LEAST or self.done == self.total:
            self._told = now
            read, seconds = self.done - self.found, now - self.started
            rate = read / seconds if read and seconds > 0 else None
            left = None if rate is None else (self.total - self.done) / rate
            self.tell(PassStep(self.number, self.name, self.done, self.total, rate, left, self.unit))


class PassDisplay:
    """A line in the terminal, on standard error: the last step, and the time since the fit began. A context.

    Where there is no terminal, nothing is written.
    """

    def __init__(self, activity: str = "fitting", *, console=None):
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        console = console or Console(stderr=True)
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.activity = activity
        self.task = self.progress.add_task(activity, total=None)

    def __enter__(self) -> PassDisplay:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        if not self.progress.disable:  # rich 14 and earlier end even a disabled line
            self.progress.stop()

    def __call__(self, step: PassStep) -> None:
        self.progress.update(self.task, description=f"{self.activity}, {step}")
