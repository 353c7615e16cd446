"""Independent tasks on this machine, in one process or several; `Watch` measures the time and memory of one."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
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


class Watch:
    """Seconds passed and memory taken (the peak above what the process held at the start, in MB) inside ``with``."""

    seconds = memory_mb = 0.0

    def __enter__(self) -> Watch:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # reset the peak, which only Linux can
            self._held = _memory_mb("VmRSS:")
        except OSError:
            self._held = _memory_mb("VmHWM:")
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_) -> None:
        self.seconds = time.perf_counter() - self._start
        self.memory_mb = max(0.0, _memory_mb("VmHWM:") - self._held)


def _memory_mb(field: str) -> float:
    """Return a field of /proc/self/status; on other systems the peak of the process, or 0 where it is unknown."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        pass
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

    Workers of a killed parent would wait five minutes for more work; on Windows, where the parent id of a process never
    changes, they still do. A signal at the parent's death (Linux) is sent too early: when the thread that started the
    worker ends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PATIENCE)
        os._exit(1)  # immediately: no process is left to receive an error

    Thread(target=watch, name="bagwise-parent", daemon=True).start()


def executor_for(n_jobs: int | None):
    """Return the default executor: the workers inside `cluster`; otherwise this process, or several processes."""
    backend, _ = get_active_backend()
    if n_jobs != 1 and hasattr(backend, "executor"):
        return backend.executor()
    return Serial() if n_jobs in (None, 1) else Processes(n_jobs)
