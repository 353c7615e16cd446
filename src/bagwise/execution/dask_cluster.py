"""A Dask cluster: tasks and joblib's jobs on its workers, whose versions are compared before any work is sent."""

from __future__ import annotations

import logging
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any

from joblib import cpu_count, parallel_config
from joblib.parallel import ParallelBackendBase

from bagwise.execution.resources import one_thread
from bagwise.execution.tasks import Lost

AHEAD = 2  # tasks per worker thread that wait on the cluster, so that none is idle
PATIENCE = 30  # seconds
LARGE = 2**16  # bytes: a larger argument travels by itself, once for all jobs that have it
WAIT = 10  # seconds for a scheduler to answer, and for a first worker to come
SAME = ("python", "bagwise")  # a task fails, or computes something else, if these differ
ALIKE = ("numpy", "scipy", "scikit-learn", "numba", "torch")  # these decide the last digits
ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[^\s/]+:\d{1,5}")


class NoWorkers(ConnectionError):
    """All workers of a cluster are gone."""


@contextmanager
def connected(where=None, *, n_workers: int | None = None) -> Iterator:
    """Yield a client, as of `cluster`, whose workers match this process; close it at the end if it was opened here."""
    with _of_this_machine(n_workers) if where is None else _client(where, n_workers) as client:
        try:
            client.wait_for_workers(1, timeout=WAIT)
        except TimeoutError:
            address = client.scheduler_info()["address"]
            raise NoWorkers(
                f"the scheduler at {address} has no workers: start some with `dask worker {address} --nthreads 1`"
            ) from None
        _compare(client.get_versions(packages=[*SAME[1:], *ALIKE]))
        yield client


def need_distributed():
    try:
        import distributed
    except ImportError as error:
        raise ImportError("running on a cluster needs Dask: pip install 'bagwise[dask]'") from error
    return distributed


def _client(where, n_workers: int | None):
    """Return a context of the client of a running cluster, which closes the client if it is opened here."""
    distributed = need_distributed()
    if n_workers is not None:
        raise ValueError("n_workers is for a cluster of this machine; one that runs already has the workers it has")
    if isinstance(where, distributed.Client):
        if where.asynchronous or where.status != "running":
            state = "asynchronous" if where.asynchronous else where.status
            raise ValueError(f"the client is {state}; a cluster needs one that is running and not asynchronous")
        return nullcontext(where)
    if not isinstance(where, str):
        raise TypeError(f"a cluster is the address of a scheduler, a distributed.Client or None, not {where!r}")
    if not ADDRESS.fullmatch(where):  # Dask would wait for it, or with none start workers here
        raise ValueError(f"{where!r} is not the address of a Dask scheduler; one looks like tcp://10.0.0.1:8786")
    try:
        return closing(distributed.Client(where, timeout=WAIT, set_as_default=False))
    except OSError as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {where} ({error}): start one with `dask scheduler` and workers with "
            f"`dask worker {where}`, or give the address that the scheduler prints"
        ) from error


@contextmanager
def _of_this_machine(n_workers: int | None):
    distributed = need_distributed()
    if n_workers is not None and n_workers < 1:
        raise ValueError(f"n_workers must be at least 1, not {n_workers}")
    options = {"n_workers": n_workers or cpu_count(), "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    options["silence_logs"] = logging.CRITICAL  # workers log every error, also those that are expected or raised here
    try:
        local = distributed.LocalCluster(**options)
    except RuntimeError as error:
        raise ConnectionError(
            f"the workers did not start ({error}); a script must start them below `if __name__ == '__main__':`, for "
            "every worker imports it"
        ) from error
    try:
        with distributed.Client(local, set_as_default=False) as client:
            yield client
    finally:
        with suppress(TimeoutError):  # a worker of a busy machine may take longer to end; what it did is done
            local.close()


def _compare(versions: dict) -> None:
    """Refuse workers that would not understand a task, and warn of those that may round differently."""

    def version(packages: dict) -> str | None:
        number = packages.get(package)
        return ".".join(str(number).split(".")[:2]) if package == "python" else number  # pickles depend on the minor

    ours = versions["client"]["packages"]
    workers = {address: worker["packages"] for address, worker in versions["workers"].items() if worker}
    for package in (*SAME, *ALIKE):
        different = [address for address, packages in workers.items() if version(packages) != version(ours)]
        if not different:
            continue
        first, *further = different
        text = f"{package} is {version(ours) or 'missing'} here and {version(workers[first]) or 'missing'} on worker "
        text += f"{first} (and {len(further)} others)" if further else first
        if package in SAME:
            raise ValueError(f"{text}: install the same version there, and start the worker again")
        warnings.warn(f"{text}: the last digits may differ from a fit on this machine", UserWarning, stacklevel=4)


class Dask:
    """The workers of a Dask cluster.

    The scheduler tries a task again when its worker dies, a few times. A task that it gives up is tried once more,
    alone, when all others are done; then it is `Lost`.

    Parameters
    ----------
    client : distributed.Client, or the address of a scheduler such as "tcp://10.0.0.1:8786"

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> with Client(n_workers=4) as client:  # doctest: +SKIP
    ...     bagwise.evaluate(bags, y, ["aggregated"], executor=Dask(client))
    """

    def __init__(self, client):
        self.client = client

    def run(self, function: Callable, tasks: Iterable, shared: tuple = ()) -> Iterator[tuple[Any, Any]]:
        """Yield (task, result) as `Serial.run` does, in the order in which the tasks finish."""
        with connected(self.client) as client:
            lost = []
            for task, result in _in_window(client, function, tasks, send(client, shared)):
                if isinstance(result, Lost):
                    lost.append(task)
                else:
                    yield task, result
            for task in lost:
                try:  # the data is sent anew: it may have been on its way when too many workers died
                    yield next(_in_window(client, function, [task], send(client, shared)))
                except NoWorkers as error:
                    yield task, Lost(f"the cluster gave it up; then, tried alone: {error}")


def _in_window(client, function, tasks: Iterable, data) -> Iterator[tuple[Any, Any]]:
    """Yield (task, result), with a few tasks per thread of a worker on the cluster at a time."""
    name = getattr(function, "name", None) or getattr(function, "__name__", "task")
    most, numbered = AHEAD * max(1, sum(client.nthreads().values())), enumerate(tasks)
    flying: dict[Any, Any] = {}
    while True:
        for number, task in islice(numbered, most - len(flying)):
            key = f"{name}-{number:04d}-{secrets.token_hex(4)}"  # the dashboard shows the name
            flying[client.submit(_call, function, task, data, key=key)] = task
        if not flying:
            return
        for future in ended(client, flying):
            try:
                result = future.result(timeout=PATIENCE)
            except TimeoutError:
                continue  # its worker died before returning the result: the scheduler computes it again
            except Exception as error:  # a task never raises: the cluster did
                result = Lost(f"the cluster gave it up, twice ({error!r})")
            yield flying.pop(future), result


def ended(client, flying) -> list:
    """Return the finished futures, or an empty list after a while; raise `NoWorkers` if the cluster has none then."""
    wait = need_distributed().wait
    try:
        with client.as_current():  # `wait` uses the current client, which may be another one
            return list(wait(list(flying), timeout=PATIENCE, return_when="FIRST_COMPLETED").done)
    except CancelledError as error:
        raise ConnectionError("the cluster has dropped its tasks; is its scheduler still there?") from error
    except TimeoutError:
        if not client.nthreads():
            raise NoWorkers(f"the cluster has had no worker for {PATIENCE} s; start some and run again") from None
        return []


def send(client, data):
    """Send the data as a task, which the scheduler, unlike scattered data, can recompute when a worker dies."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        return client.submit(_shared_data, data, pure=False)


def _shared_data(data):
    return data


def _call(function, task, shared):
    return function(task, *shared)


class Workers(ParallelBackendBase):
    """A backend for ``joblib.parallel_config``: each job is a task on a worker, alone and on one thread.

    With joblib's own Dask backend jobs are cancelled when the workers that hold their data die, and a worker takes up
    more work, and more memory, while it waits for nested jobs. Here the data is a task, which the scheduler can run
    again, and nested jobs run on the worker of the outer job.
    """

    default_n_jobs = -1

    def __init__(self, client, nesting_level: int | None = None):
        super().__init__(nesting_level=nesting_level)
        self.client = client
        self._sent: dict[int, tuple] = {}  # id -> the argument, kept so that no other gets its id, and its future

    def executor(self) -> Dask:
        return Dask(self.client)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        # Otherwise at least two: with one, joblib would do the work of a lone worker in this process.
        return 1 if n_jobs == 1 else max(2, sum(self.client.nthreads().values()))

    def configure(self, n_jobs: int = 1, parallel=None, **_) -> int:
        if parallel is not None:
            parallel.pre_dispatch = "all"  # Dask queues the jobs, so all are dispatched at once
        return self.effective_n_jobs(n_jobs)

    def submit(self, func, callback=None) -> _Job:
        return _Job(self, func.items, callback)

    apply_async = submit  # its name before joblib 1.5

    def stop_call(self) -> None:
        self._sent.clear()

    def get_nested_backend(self):
        return None, None  # unused: `_jobs` sets the nested backend

    def start(self, calls: list[tuple]):
        """Send a task that makes the calls (function, arguments, keywords), and large arguments before it."""
        calls = [
            (function, [self._light(a) for a in args], {name: self._light(a) for name, a in keywords.items()})
            for function, args, keywords in calls
        ]
        return self.client.submit(_jobs, calls, pure=False)

    def _light(self, argument):
        """Return the argument, or a future of it if it is large; arrays are counted without a copy."""
        import cloudpickle  # as Dask does

        if id(argument) not in self._sent or self._sent[id(argument)][1].status == "error":
            arrays: list = []
            pickled = cloudpickle.dumps(argument, protocol=5, buffer_callback=arrays.append)
            if len(pickled) + sum(array.raw().nbytes for array in arrays) < LARGE:
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
        except killed:  # perhaps because of other jobs on the same workers, or while the data was in transit
            try:
                results = _fetched(client, self.workers.start(self.calls))
            except killed as error:
                text = f"every worker that ran a job died, most often because memory ran out: {error}"
                raise ChildProcessError(text) from error
        self.done(results)
        return results


def _fetched(client, future):
    """Return the result of a task or raise its error; wait without limit while the cluster has workers."""
    while True:
        if ended(client, [future]):
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError:
                if future.status == "error":  # raised by the task itself; otherwise its worker died, and it runs again
                    raise


def _jobs(calls: list[tuple]) -> list:
    with one_thread(), parallel_config(backend="sequential"):
        return [function(*args, **keywords) for function, args, keywords in calls]


@contextmanager
def cluster(where=None, *, n_workers: int | None = None) -> Iterator:
    """Run everything that can run in parallel on the workers of a Dask cluster, inside the context.

    This includes the networks of a method, members and folds of auto, folds of intervals, cells of `evaluate`, and all
    else that runs through joblib. The same seed gives the same numbers as without a cluster if the CPUs are of the same
    kind. If a worker dies, another one repeats its work.

    Of nested jobs, only the outer ones are distributed. ``n_jobs=1`` keeps the work of an estimator in this process;
    any other number, and None, means all workers.

    Parameters
    ----------
    where : str, distributed.Client or None
        The address of a scheduler, to which a client is opened and closed at the end; a client, which stays open; or
        None for processes of this machine, which end with the context.
    n_workers : int, optional
        If ``where`` is None, the number of processes, one thread each. Default one per core.

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
