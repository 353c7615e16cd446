"""This machine: one task after another, or several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from joblib import Parallel, delayed

from bagwise.execution.outcome import Lost


class Serial:
    """One task after another, in this process.

    Examples
    --------
    >>> from bagwise.execution import Serial
    >>> list(Serial().run(pow, [2, 3], (2,)))
    [(2, 4), (3, 9)]
    """

    def run(self, function: Callable, tasks: Iterable, shared: tuple = ()) -> Iterator[tuple[Any, Any]]:
        """``(task, function(task, *shared))`` for every task. Tasks are taken one by one, when there is room."""
        for task in tasks:
            yield task, function(task, *shared)


class Processes:
    """Several processes of this machine, by joblib; large arrays in ``shared`` are memory-mapped, not copied.

    When a process dies (killed for its memory, a crash in compiled code) nobody can say which task it had: every
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
