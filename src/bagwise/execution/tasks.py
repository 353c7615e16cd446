"""Executors that run independent tasks on this machine, and `Watch`, which measures the time and memory of a task."""

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

PARENT_CHECK = 1.0  # seconds between two checks that the parent process is alive


@dataclass(frozen=True)
class Lost:
    """Result of a task whose worker process died twice, at the first run and when the task was repeated."""

    reason: str


class Watch:
    """Context manager that measures seconds and the increase of the peak memory of the process, in MB."""

    seconds = memory_mb = 0.0

    def __enter__(self) -> Watch:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # reset the peak; only on Linux
            self._memory_at_start = _memory_mb("VmRSS:")
        except OSError:
            self._memory_at_start = _memory_mb("VmHWM:")
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_) -> None:
        self.seconds = time.perf_counter() - self._start
        self.memory_mb = max(0.0, _memory_mb("VmHWM:") - self._memory_at_start)


def _memory_mb(field: str) -> float:
    """Return a field of /proc/self/status in MB; on other systems the peak of the process, or 0 if it is unknown."""
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
    """Executor that runs one task after another in this process.

    Examples
    --------
    >>> from bagwise.execution import Serial
    >>> list(Serial().run(pow, [2, 3], (2,)))
    [(2, 4), (3, 9)]
    """

    def run(self, function: Callable, tasks: Iterable, shared: tuple = ()) -> Iterator[tuple[Any, Any]]:
        """Yield ``(task, function(task, *shared))`` for each task, and read the next task only afterwards."""
        for task in tasks:
            yield task, function(task, *shared)


class Processes:
    """Executor that runs tasks in worker processes of joblib; large arrays in ``shared`` are memory-mapped, not copied.

    If a process dies (out of memory, or a crash in compiled code), it is unknown which task it ran. Each unfinished
    task is then repeated alone. The result of a task whose process dies again is `Lost`; the other tasks continue.

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
            unfinished: dict[int, Any] = {}
            try:
                yield from self._run_all(function, tasks, shared, unfinished)
                return
            except BrokenProcessPool:
                for task in list(unfinished.values()):
                    yield task, _run_alone(function, task, shared)

    def _run_all(self, function, tasks, shared, unfinished):
        def jobs():  # joblib reads a job only when a process is free, so `unfinished` has only tasks that run
            for number, task in enumerate(tasks):
                unfinished[number] = task
                yield delayed(_numbered)(number, function, task, shared)

        pool = Parallel(self.n_jobs, "loky", return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
        for number, result in pool(jobs()):
            yield unfinished.pop(number), result


def _numbered(number, function, task, shared):
    return number, function(task, *shared)


def _run_alone(function, task, shared):
    try:
        # Two workers for one task: with one, joblib would run it in this process.
        return Parallel(2, "loky")([delayed(function)(task, *shared)])[0]
    except BrokenProcessPool as error:
        return Lost(f"its worker process died twice ({str(error).strip().splitlines()[0]})")


def starts_processes() -> bool:
    """Return whether joblib would run its jobs in worker processes of this machine."""
    return isinstance(get_active_backend()[0], LokyBackend)


def end_with(parent: int) -> None:
    """Stop this worker process soon after its parent process has ended.

    Otherwise the workers of a killed parent would wait five minutes for more work. This happens on Windows, where the
    parent id of a process never changes. Linux can signal the end of the parent, but sends the signal too early: when
    the thread that started the worker ends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK)
        os._exit(1)  # without cleanup: there is no parent to receive an error

    Thread(target=watch, name="bagwise-parent", daemon=True).start()


def executor_for(n_jobs: int | None):
    """Return the default executor: `Dask` inside a `cluster` context, otherwise `Serial` or `Processes`."""
    backend, _ = get_active_backend()
    if n_jobs != 1 and hasattr(backend, "executor"):
        return backend.executor()
    return Serial() if n_jobs in (None, 1) else Processes(n_jobs)
