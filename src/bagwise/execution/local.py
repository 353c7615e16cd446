"""Tasks on this machine, one after another or in several processes; what comes back of those that fail; their costs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed


@dataclass(frozen=True)
class Lost:
    """A task whose worker died, was given one more try, and died again."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """A task that raised an error."""

    error: Exception


class Watch:
    """Seconds passed and memory taken (the peak above what the process held at the start, in MB) inside ``with``.

    Examples
    --------
    >>> from bagwise.execution.local import Watch
    >>> with Watch() as watch:
    ...     total = sum(range(1000))
    >>> watch.seconds < 1 and watch.memory_mb >= 0
    True
    """

    seconds = memory_mb = 0.0

    def __enter__(self) -> Watch:
        self._resettable = _reset_peak()
        self._held = (_status_mb("VmRSS:") or 0.0) if self._resettable else _peak_mb()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_) -> None:
        self.seconds = time.perf_counter() - self._start
        self.memory_mb = max(0.0, _peak_mb() - self._held)


def _reset_peak() -> bool:
    """Linux can forget the peak so far; elsewhere it is that of the whole life, and only its growth is seen."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return True
    except OSError:
        return False


def _status_mb(field: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return None


def _peak_mb() -> float:
    peak = _status_mb("VmHWM:")
    if peak is not None:
        return peak
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return 0.0
    return getrusage(RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


class Serial:
    """One task after another, in this process.

    Examples
    --------
    >>> from bagwise.execution import Serial
    >>> list(Serial().run(pow, [2, 3], (2,)))
    [(2, 4), (3, 9)]
    """

    def run(self, function: Callable, tasks: Iterable, shared: tuple = ()) -> Iterator[tuple[Any, Any]]:
        """``(task, function(task, *shared))`` for every task. A task is taken when the one before has ended."""
        for task in tasks:
            yield task, function(task, *shared)


class Processes:
    """Several processes of this machine, by joblib; large arrays in ``shared`` are memory-mapped, not copied.

    When a process dies (killed for its memory, a crash in compiled code) nobody knows which task it had: every
    task in flight is tried once more, alone. One that kills its process again comes back as `Lost`; the others go on.

    Parameters
    ----------
    n_jobs : int
        How many; -1 for one per core.
    """

    def __init__(self, n_jobs: int = -1):
        self.n_jobs = n_jobs

    def run(self, function: Callable, tasks: Iterable, shared: tuple = ()) -> Iterator[tuple[Any, Any]]:
        """As `Serial.run`, in the order in which the tasks end."""
        tasks = iter(tasks)
        while True:
            flying: dict[int, Any] = {}
            try:
                yield from self._together(function, tasks, shared, flying)
                return
            except BrokenProcessPool:
                for task in list(flying.values()):
                    yield task, _alone(function, task, shared)

    def _together(self, function, tasks, shared, flying):
        def jobs():  # joblib takes from here only when a process is free, so `flying` is what a crash would lose
            for number, task in enumerate(tasks):
                flying[number] = task
                yield delayed(_numbered)(number, function, task, shared)

        pool = Parallel(self.n_jobs, "loky", return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
        for number, result in pool(jobs()):
            yield flying.pop(number), result


def _numbered(number, function, task, shared):
    return number, function(task, *shared)


def _alone(function, task, shared):
    try:
        # Two workers for one task: with one, joblib would run it in this process.
        return Parallel(2, "loky")([delayed(function)(task, *shared)])[0]
    except BrokenProcessPool as error:
        return Lost(f"the process running it died, twice ({str(error).strip().splitlines()[0]})")
