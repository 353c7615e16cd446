"""joblib's jobs on the workers of a Dask cluster: the backend, and `cluster`, the context that sets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from joblib import parallel_config
from joblib.parallel import ParallelBackendBase, get_active_backend

from bagwise.execution.dask_cluster import PATIENCE, Dask, connected, ended, need_distributed, send
from bagwise.execution.local import Processes, Serial
from bagwise.execution.threads import one_thread

LARGE = 2**16  # bytes: a larger argument travels by itself, once for all jobs that have it


class Workers(ParallelBackendBase):
    """A backend for ``joblib.parallel_config``: every job is a task on a worker, alone and on one thread.

    joblib has a Dask backend of its own. It scatters the data, so that jobs are cancelled when the workers that hold it
    die; here the data is a task, which the scheduler does again. And jobs that have jobs run them themselves, where
    there every worker would send them on and take up more work, and more memory, while it waits.

    Parameters
    ----------
    client : distributed.Client
    """

    default_n_jobs = -1

    def __init__(self, client, nesting_level: int | None = None):
        super().__init__(nesting_level=nesting_level)
        self.client = client
        self._sent: dict[int, tuple] = {}  # id -> the argument, kept so that no other gets its id, and its future

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """One job at a time is done here; any other number means all workers."""
        # At least two: with one, joblib would do the work of a lone worker in this process.
        return 1 if n_jobs == 1 else max(2, sum(self.client.nthreads().values()))

    def configure(self, n_jobs: int = 1, parallel=None, **_) -> int:
        if parallel is not None:
            parallel.pre_dispatch = "all"  # Dask has the queue: nobody here needs to feed it
        return self.effective_n_jobs(n_jobs)

    def submit(self, func, callback=None) -> _Job:
        return _Job(self, func.items, callback)

    apply_async = submit  # its name before joblib 1.5

    def stop_call(self) -> None:
        self._sent.clear()

    def get_nested_backend(self):
        return None, None  # not asked: `_call` decides

    def start(self, calls: list[tuple]):
        """A task that makes the calls (function, arguments, keywords); what is large goes ahead."""
        calls = [
            (function, [self._light(a) for a in args], {name: self._light(a) for name, a in keywords.items()})
            for function, args, keywords in calls
        ]
        return self.client.submit(_call, calls, pure=False)

    def _light(self, argument):
        """The argument, or where it will be if it is large."""
        if id(argument) not in self._sent or self._sent[id(argument)][1].status == "error":
            if _nbytes(argument) < LARGE:
                return argument
            self._sent[id(argument)] = argument, send(self.client, argument)
        return self._sent[id(argument)][1]


class _Job:
    """Calls that are on their way; joblib fetches their results by `get`."""

    def __init__(self, workers: Workers, calls: list[tuple], done: Callable):
        self.workers, self.calls, self.done = workers, calls, done
        self.future = workers.start(calls)

    def get(self, timeout=None) -> list:
        killed, client = need_distributed().KilledWorker, self.workers.client
        try:
            results = _fetched(client, self.future)
        except killed:  # perhaps for what others did on the same workers, or while the data was on its way
            try:
                results = _fetched(client, self.workers.start(self.calls))
            except killed as error:
                text = f"every worker that ran a job died, most often for want of memory: {error}"
                raise ChildProcessError(text) from error
        self.done(results)
        return results


def _nbytes(argument) -> int:
    """Bytes that would travel; large arrays, also those inside of Bags or a model, are not copied to be counted."""
    import cloudpickle  # as Dask does

    arrays: list = []
    rest = cloudpickle.dumps(argument, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


def _fetched(client, future):
    """The result of a task, or its error; as long as there are workers, it may take its time."""
    while True:
        if ended(client, [future]):
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError:
                if future.status == "error":  # of the task itself; else its worker died, and it is done again
                    raise


def _call(calls: list[tuple]) -> list:
    with one_thread(), parallel_config(backend="sequential"):
        return [function(*args, **keywords) for function, args, keywords in calls]


@contextmanager
def cluster(where=None, *, n_workers: int | None = None) -> Iterator:
    """A context in which the workers of a Dask cluster run everything that can run in parallel.

    These are the networks behind a method, the members and folds of auto, the folds of intervals, the cells of
    `evaluate`, and all else that runs through joblib, such as scikit-learn's searches. The same seed gives the same
    numbers as without, and a worker that dies changes nothing: what it did is done again by another.

    Of jobs within jobs the outer ones are spread. ``n_jobs=1`` keeps the work of an estimator in this process; any
    other number, and None, means all workers.

    Parameters
    ----------
    where : str, distributed.Client or None
        The address of a scheduler, to which a client is opened and closed at the end; a client, which stays open; or
        None for processes of this machine, which end with the context.
    n_workers : int, optional
        With None: how many processes, of one thread each. Default one per core.

    Yields
    ------
    distributed.Client

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(40, instances=10)
    >>> with cluster("tcp://10.0.0.1:8786"):  # doctest: +SKIP
    ...     model = bw.method("auto").fit(bags, y)
    """
    with connected(where, n_workers=n_workers) as client, parallel_config(backend=Workers(client), n_jobs=-1):
        yield client


def executor_for(n_jobs: int | None):
    """Who runs tasks when nobody was named: inside `cluster` its workers; else this process, or several.

    Examples
    --------
    >>> type(executor_for(None)).__name__
    'Serial'
    """
    backend, _ = get_active_backend()
    if n_jobs != 1 and isinstance(backend, Workers):
        return Dask(backend.client)
    return Serial() if n_jobs in (None, 1) else Processes(n_jobs)
