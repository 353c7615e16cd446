"""Run tasks and joblib's jobs on the workers of a Dask cluster, after checking that their versions match."""

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

QUEUED_PER_THREAD = 2  # submitted tasks per worker thread, so that no thread is idle
TASK_TIMEOUT = 30  # seconds without a finished task after which workers are checked
LARGE_ARGUMENT = 2**16  # bytes; a larger argument is sent once, for all jobs that have it
CONNECT_TIMEOUT = 10  # seconds for the scheduler to answer and for the first worker to connect
MUST_MATCH = ("python", "bagwise")  # with other versions, a task fails or computes something else
SHOULD_MATCH = ("numpy", "scipy", "scikit-learn", "numba", "torch")  # other versions may change the last digits
ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[^\s/]+:\d{1,5}")


class NoWorkers(ConnectionError):
    """The cluster has no workers."""


@contextmanager
def connected(where=None, *, n_workers: int | None = None) -> Iterator:
    """Yield a client whose workers have the versions of this process; the parameters are those of `cluster`."""
    with _local_client(n_workers) if where is None else _remote_client(where, n_workers) as client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
        except TimeoutError:
            address = client.scheduler_info()["address"]
            raise NoWorkers(
                f"the scheduler at {address} has no workers. Start workers with `dask worker {address} --nthreads 1`."
            ) from None
        _compare(client.get_versions(packages=[*MUST_MATCH[1:], *SHOULD_MATCH]))
        yield client


def need_distributed():
    try:
        import distributed
    except ImportError as error:
        raise ImportError("A cluster needs Dask. Install it with: pip install 'bagwise[dask]'") from error
    return distributed


def _remote_client(where, n_workers: int | None):
    """Return a context manager that yields a client of a running cluster, and closes it if it was opened here."""
    distributed = need_distributed()
    if n_workers is not None:
        raise ValueError("n_workers applies only to a cluster started here. Leave it out for a running cluster.")
    if isinstance(where, distributed.Client):
        if where.asynchronous or where.status != "running":
            state = "asynchronous" if where.asynchronous else where.status
            raise ValueError(f"The client is {state}. Pass a running client that is not asynchronous.")
        return nullcontext(where)
    if not isinstance(where, str):
        raise TypeError(f"A cluster must be the address of a scheduler, a distributed.Client or None, not {where!r}")
    if not ADDRESS.fullmatch(where):  # Dask would wait for it or, if it is empty, start workers here
        raise ValueError(f"{where!r} is not the address of a Dask scheduler, such as tcp://10.0.0.1:8786")
    try:
        return closing(distributed.Client(where, timeout=CONNECT_TIMEOUT, set_as_default=False))
    except OSError as error:
        raise ConnectionError(
            f"No Dask scheduler answers at {where} ({error}). Pass the address that the scheduler prints, or start a "
            f"scheduler with `dask scheduler` and workers with `dask worker {where}`."
        ) from error


@contextmanager
def _local_client(n_workers: int | None):
    distributed = need_distributed()
    if n_workers is not None and n_workers < 1:
        raise ValueError(f"n_workers must be at least 1, not {n_workers}")
    options = {"n_workers": n_workers or cpu_count(), "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    options["silence_logs"] = logging.CRITICAL  # workers also log errors that are expected or raised here
    try:
        local = distributed.LocalCluster(**options)
    except RuntimeError as error:
        raise ConnectionError(
            f"The workers did not start ({error}). In a script, start them below `if __name__ == '__main__':`, because "
            "each worker imports the script."
        ) from error
    try:
        with distributed.Client(local, set_as_default=False) as client:
            yield client
    finally:
        with suppress(TimeoutError):  # on a busy machine a worker may end later; its results are complete
            local.close()


def _compare(versions: dict) -> None:
    """Raise an error for workers with another version of Python or bagwise, and warn of other versions of libraries."""

    def version(packages: dict) -> str | None:
        number = packages.get(package)
        return ".".join(str(number).split(".")[:2]) if package == "python" else number  # pickles depend on major.minor

    ours = versions["client"]["packages"]
    workers = {address: worker["packages"] for address, worker in versions["workers"].items() if worker}
    for package in (*MUST_MATCH, *SHOULD_MATCH):
        different = [address for address, packages in workers.items() if version(packages) != version(ours)]
        if not different:
            continue
        first, *further = different
        text = f"{package} is {version(ours) or 'missing'} here and {version(workers[first]) or 'missing'} on worker "
        text += f"{first} (and {len(further)} others)" if further else first
        if package in MUST_MATCH:
            raise ValueError(f"{text}. Install the same version there, and start the worker again.")
        warnings.warn(f"{text}. The last digits may differ from a fit on this machine.", UserWarning, stacklevel=4)


class Dask:
    """Executor that runs tasks on the workers of a Dask cluster.

    If a worker dies, the scheduler repeats its task, up to a few times. If it gives the task up, the task is repeated
    alone after all others; if that fails too, its result is `Lost`.

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
            for task, result in _run_tasks(client, function, tasks, send(client, shared)):
                if isinstance(result, Lost):
                    lost.append(task)
                else:
                    yield task, result
            for task in lost:
                try:  # send the data again, in case it was lost with the workers
                    yield next(_run_tasks(client, function, [task], send(client, shared)))
                except NoWorkers as error:
                    yield task, Lost(f"the cluster gave the task up, and when it was repeated alone, {error}")


def _run_tasks(client, function, tasks: Iterable, data) -> Iterator[tuple[Any, Any]]:
    """Yield (task, result), with at most `QUEUED_PER_THREAD` tasks per worker thread on the cluster at a time."""
    name = getattr(function, "name", None) or getattr(function, "__name__", "task")
    limit, numbered = QUEUED_PER_THREAD * max(1, sum(client.nthreads().values())), enumerate(tasks)
    submitted: dict[Any, Any] = {}
    while True:
        for number, task in islice(numbered, limit - len(submitted)):
            key = f"{name}-{number:04d}-{secrets.token_hex(4)}"  # the dashboard shows the name
            submitted[client.submit(_call, function, task, data, key=key)] = task
        if not submitted:
            return
        for future in wait_for_any(client, submitted):
            try:
                result = future.result(timeout=TASK_TIMEOUT)
            except TimeoutError:
                continue  # its worker died before it returned the result, so the scheduler repeats the task
            except Exception as error:  # an error of the cluster: tasks return their errors
                result = Lost(f"the cluster gave the task up twice ({error!r})")
            yield submitted.pop(future), result


def wait_for_any(client, submitted) -> list:
    """Return finished futures, or an empty list after `TASK_TIMEOUT`; raise `NoWorkers` if no worker is left then."""
    wait = need_distributed().wait
    try:
        with client.as_current():  # `wait` uses the current client, which may be another one
            return list(wait(list(submitted), timeout=TASK_TIMEOUT, return_when="FIRST_COMPLETED").done)
    except CancelledError as error:
        raise ConnectionError("The cluster has cancelled its tasks. Check that its scheduler still runs.") from error
    except TimeoutError:
        if not client.nthreads():
            raise NoWorkers(f"the cluster has had no worker for {TASK_TIMEOUT} s. Start some and run again.") from None
        return []


def send(client, data):
    """Send the data as a task: unlike scattered data, the scheduler can recompute it if a worker dies."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        return client.submit(_shared_data, data, pure=False)


def _shared_data(data):
    return data


def _call(function, task, shared):
    return function(task, *shared)


class Workers(ParallelBackendBase):
    """Backend for ``joblib.parallel_config`` that runs each job as a single-threaded task on a worker.

    joblib's own Dask backend cancels jobs if the workers that hold their data die, and a worker that waits for nested
    jobs starts further jobs, which need memory. Here the data is a task, which the scheduler can repeat, and nested
    jobs run on the worker of the outer job.
    """

    default_n_jobs = -1

    def __init__(self, client, nesting_level: int | None = None):
        super().__init__(nesting_level=nesting_level)
        self.client = client
        self._sent: dict[int, tuple] = {}  # id: (argument, future); the argument is stored so that its id stays unique

    def executor(self) -> Dask:
        return Dask(self.client)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        # At least two: given one job, joblib would run everything in this process.
        return 1 if n_jobs == 1 else max(2, sum(self.client.nthreads().values()))

    def configure(self, n_jobs: int = 1, parallel=None, **_) -> int:
        if parallel is not None:
            parallel.pre_dispatch = "all"  # Dask queues the jobs, so all are dispatched at once
        return self.effective_n_jobs(n_jobs)

    def submit(self, func, callback=None) -> _Job:
        return _Job(self, func.items, callback)

    apply_async = submit  # the name before joblib 1.5

    def stop_call(self) -> None:
        self._sent.clear()

    def get_nested_backend(self):
        return None, None  # unused: `_run_calls` sets the nested backend

    def start(self, calls: list[tuple]):
        """Send large arguments, then a task that makes the calls (function, arguments, keywords)."""
        calls = [
            (function, list(map(self._send_large, args)), {name: self._send_large(a) for name, a in keywords.items()})
            for function, args, keywords in calls
        ]
        return self.client.submit(_run_calls, calls, pure=False)

    def _send_large(self, argument):
        """Return a small argument, or the future of a large one; the size of arrays is measured without a copy."""
        import cloudpickle  # used by Dask, too

        if id(argument) not in self._sent or self._sent[id(argument)][1].status == "error":
            arrays: list = []
            pickled = cloudpickle.dumps(argument, protocol=5, buffer_callback=arrays.append)
            if len(pickled) + sum(array.raw().nbytes for array in arrays) < LARGE_ARGUMENT:
                return argument
            self._sent[id(argument)] = argument, send(self.client, argument)
        return self._sent[id(argument)][1]


class _Job:
    """Job on the cluster; joblib calls `get` for its results."""

    def __init__(self, workers: Workers, calls: list[tuple], done: Callable):
        self.workers, self.calls, self.done = workers, calls, done
        self.future = workers.start(calls)

    def get(self, timeout=None) -> list:
        killed, client = need_distributed().KilledWorker, self.workers.client
        try:
            results = _wait_for_result(client, self.future)
        except killed:  # try again: other jobs on the same workers may have caused it
            try:
                results = _wait_for_result(client, self.workers.start(self.calls))
            except killed as error:
                text = f"Each worker that ran a job died, most often because it ran out of memory: {error}"
                raise ChildProcessError(text) from error
        self.done(results)
        return results


def _wait_for_result(client, future):
    """Return the result of a task or raise its error; wait as long as the cluster has workers."""
    while True:
        if wait_for_any(client, [future]):
            try:
                return future.result(timeout=TASK_TIMEOUT)
            except TimeoutError:
                if future.status == "error":  # raised by the task; otherwise its worker died, and the task is repeated
                    raise


def _run_calls(calls: list[tuple]) -> list:
    with one_thread(), parallel_config(backend="sequential"):
        return [function(*args, **keywords) for function, args, keywords in calls]


@contextmanager
def cluster(where=None, *, n_workers: int | None = None) -> Iterator:
    """Run everything that can run in parallel on the workers of a Dask cluster, inside the context.

    This includes the networks of a method, members and folds of auto, folds of intervals, cells of `evaluate`, and all
    other jobs of joblib. The same seed gives the same numbers as without a cluster if the CPUs are of the same kind. If
    a worker dies, another one repeats its work.

    If jobs are nested, only the outer jobs are distributed. ``n_jobs=1`` runs an estimator in this process; any other
    number, and None, uses all workers.

    Parameters
    ----------
    where : str, distributed.Client or None
        The address of a scheduler; a client, which stays open; or None, to start workers on this machine
        until the end of the context.
    n_workers : int, optional
        Number of workers to start if ``where`` is None, with one thread each. Default: one per core.

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
