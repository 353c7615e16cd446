"""Worker processes, and jobs for them; light to import."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

from joblib import Parallel, delayed


@contextmanager
def two_processes():
    """The client of two workers, which find this file as the test did."""
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        yield client


def where(*_) -> int:
    return os.getpid()


def where_inside(_) -> list[int]:
    """The process of a job, and those of the jobs that it has itself."""
    return [where(), *Parallel(n_jobs=2)(delayed(where)() for _ in range(3))]


def threads(_) -> set[int]:
    """How many threads the libraries of linear algebra may use."""
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info()}


def fail(error: Exception):
    raise error


def total(X, k: int) -> float:
    return float(X.sum()) + k


def total_dying_once(X, k: int, mark: Path) -> float:
    """The sum; the first to come kills its process, and with it the data that its worker held."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return total(X, k)
    os.kill(os.getpid(), 9)


def die(_):
    os.kill(os.getpid(), 9)


class Deadly:
    """Data that kills the worker that unpacks it, until so many have died."""

    def __init__(self, folder: Path, deaths: int):
        self.folder, self.deaths, self.rows = folder, deaths, bytes(2**17)

    def __setstate__(self, state):
        self.__dict__.update(state)
        so_far = len(list(self.folder.iterdir()))
        if os.getpid() != int(self.folder.name) and so_far < self.deaths:
            (self.folder / str(so_far)).touch()
            os.kill(os.getpid(), 9)


def survive(data: Deadly) -> int:
    return len(data.rows)


def survive_task(_, data: Deadly) -> int:
    return survive(data)


def joined(left, right):
    return f"({left} {right})"


class WaitsAtFirst:
    """A function of tasks that does not come back from one of them, the first time, until the test is over."""

    def __init__(self, task, folder, seconds: float = 60):
        self.task, self.folder, self.seconds = task, folder, seconds

    @property
    def has_begun(self) -> bool:
        return (self.folder / "begun").exists()

    @property
    def is_over(self) -> bool:
        return (self.folder / "over").exists()

    def __call__(self, task) -> str:
        if task == self.task and not self.has_begun:
            (self.folder / "begun").touch()
            end = time.monotonic() + self.seconds
            while not self.is_over and time.monotonic() < end:
                time.sleep(0.02)
        return str(task)

    def counted(self, task) -> int:
        """How often a task has begun."""
        (self.folder / f"{task}-{time.monotonic_ns()}").touch()
        self(task)
        return len(list(self.folder.glob(f"{task}-*")))
