"""Worker processes and jobs for them; light to import."""

import os
from contextlib import contextmanager
from pathlib import Path

from joblib import Parallel, delayed


@contextmanager
def two_processes():
    """Start two workers that can import this file, and yield the client."""
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        yield client


def where(*_) -> int:
    return os.getpid()


def where_inside(_) -> list[int]:
    """Return the process of a job and those of its nested jobs."""
    return [where(), *Parallel(n_jobs=2)(delayed(where)() for _ in range(3))]


def threads(_) -> set[int]:
    """Return the thread limits of the linear algebra libraries."""
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info()}


def fail(error: Exception):
    raise error


def total(X, k: int) -> float:
    return float(X.sum()) + k


def total_dying_once(X, k: int, mark: Path) -> float:
    """Return the sum; the first call kills its process and the data of its worker."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return total(X, k)
    os.kill(os.getpid(), 9)


def die(_):
    os.kill(os.getpid(), 9)


class Deadly:
    """Data whose unpickling kills the worker, for a given number of times."""

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
