"""Independent tasks on this machine, in one process or several, and the results of tasks in order.

A task that fails returns its error as a value; `Watch` measures the time and memory of one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from threading import Thread
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import LokyBackend, get_active_backend

PATIENCE = 1.0  # seconds between two checks that the parent is alive


@dataclass(frozen=True)
class Lost:
    """A task whose worker died, was given one more try, and died again."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """A task that raised an error."""

    error: Exception


class Watch:
    """Seconds passed and memory taken (the peak above what the process held at the start, in MB) inside ``with``."""

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
    """Reset the peak memory of this process, and return whether that was possible: only on Linux it is."""
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
        """Yield ``(task, function(task, *shared))`` for each task; read each task when the previous one ends."""
        for task in tasks:
            yield task, function(task, *shared)


class Processes:
    """Several processes of this machine, by joblib; large arrays in ``shared`` are memory-mapped, not copied.

    When a process dies (killed for its memory, a crash in compiled code), the task that it ran is unknown, so each
    task in flight is tried once more, alone. A task that kills its process again becomes `Lost`; others continue.

    Parameters
    ----------
    n_jobs : int
        Number of processes; -1 for one per core.
    """

    def __init__(self, n_jobs: int = -1):
        self.n_jobs = n_jobs

    def run(self, function: Callable, tasks: Iterable, shared: tuple = ()) -> Iterator[tuple[Any, Any]]:
        """Yield (task, result) as `Serial.run` does, in the order in which the tasks finish."""
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
        def jobs():  # joblib reads a job only when a process is free, so `flying` holds what a crash would lose
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


def starts_processes() -> bool:
    """Return whether joblib would start worker processes on this machine for its jobs, and not use a cluster."""
    return isinstance(get_active_backend()[0], LokyBackend)


def end_with(parent: int) -> None:
    """Stop this worker process when its parent has ended for any reason.

    A parent that is killed cannot stop its workers, which then wait five minutes for more work. On Windows, where the
    parent id of a process never changes, they still do. A signal at the parent's death (Linux) may come too early: it
    is sent when the thread that started the worker ends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PATIENCE)
        os._exit(1)  # immediately: no process is left to receive an error

    Thread(target=watch, name="bagwise-parent", daemon=True).start()


@dataclass(frozen=True)
class Numbered:
    """A function of numbered tasks that returns an error as a value: a cluster takes an exception for a dead worker.

    The dashboard of a cluster shows the tasks by ``name``.
    """

    name: str

    def __call__(self, numbered, function, *shared):
        try:
            return function(numbered[1], *shared)
        except Exception as error:
            return Failed(error)


def in_order(
    executor,
    function: Callable,
    tasks: Iterable,
    shared: tuple = (),
    *,
    name: str = "tasks",
    report: Callable[[int], object] = bool,
) -> Iterator[Any]:
    """Yield ``function(task, *shared)`` for each task, in the order of the tasks, run by an executor.

    An error in a task is raised here unchanged, once the tasks that have started are finished; no other task is
    started. A dashboard shows the tasks by ``name``; ``report`` is called with the number of each finished task.
    """
    early: dict[int, Any] = {}
    wrong: dict[int, tuple] = {}
    turn = 0
    until_wrong = takewhile(lambda _: not wrong, enumerate(tasks))
    for (number, task), result in executor.run(Numbered(name), until_wrong, (function, *shared)):
        if isinstance(result, Failed | Lost):
            wrong[number] = result, task
        elif not wrong:
            early[number] = result
            report(number)
            while turn in early:
                yield early.pop(turn)
                turn += 1
    if wrong:
        result, task = wrong[min(wrong)]
        raise result.error if isinstance(result, Failed) else RuntimeError(f"{task}: {result.reason}")
