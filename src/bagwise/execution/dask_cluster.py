"""Tasks on the workers of a Dask cluster, whose versions are compared before any work is sent."""

from __future__ import annotations

import logging
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from itertools import islice
from typing import Any

from joblib import cpu_count

from bagwise.execution.local import Failed, Lost
from bagwise.execution.reduction import Tree

WAIT = 10  # seconds for a scheduler to answer, and for a first worker to come
SAME = ("python", "bagwise")  # without these a task is not understood, or is another one
ALIKE = ("numpy", "scipy", "scikit-learn", "numba", "torch")  # these decide the last digits
ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[^\s/]+:\d{1,5}")


class NoWorkers(ConnectionError):
    """All workers of a cluster are gone."""


@contextmanager
def connected(where=None, *, n_workers: int | None = None) -> Iterator:
    """A client whose cluster has workers like this process; closed at the end only if it was opened here.

    Parameters
    ----------
    where : str, distributed.Client or None
        The address of a scheduler, a client, or None for processes of this machine.
    n_workers : int, optional
        How many processes of this machine, one thread each; default one per core.
    """
    with _client(where, n_workers) as client:
        _wait_for_workers(client)
        _compare(client.get_versions(packages=[*SAME[1:], *ALIKE]))
        yield client


def need_distributed():
    try:
        import distributed
    except ImportError as error:
        raise ImportError("running on a cluster needs Dask: pip install 'bagwise[dask]'") from error
    return distributed


def _client(where, n_workers):
    distributed = need_distributed()
    if where is None:
        return _of_this_machine(distributed, n_workers)
    if n_workers is not None:
        raise ValueError("n_workers is for a cluster of this machine; one that runs already has the workers it has")
    if isinstance(where, str):
        return _opened(distributed, where)
    if not isinstance(where, distributed.Client):
        raise TypeError(f"a cluster is the address of a scheduler, a distributed.Client or None, not {where!r}")
    if where.asynchronous or where.status != "running":
        state = "asynchronous" if where.asynchronous else where.status
        raise ValueError(f"the client is {state}; a cluster needs one that is running and not asynchronous")
    return nullcontext(where)


@contextmanager
def _of_this_machine(distributed, n_workers):
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


def _opened(distributed, address: str):
    if not ADDRESS.fullmatch(address):  # Dask would wait for it, or with none start workers here
        raise ValueError(f"{address!r} is no address of a Dask scheduler; one looks like tcp://10.0.0.1:8786")
    try:
        return closing(distributed.Client(address, timeout=WAIT, set_as_default=False))
    except OSError as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address} ({error}): start one with `dask scheduler` and workers with "
            f"`dask worker {address}`, or give the address that the scheduler prints"
        ) from error


def _wait_for_workers(client) -> None:
    try:
        client.wait_for_workers(1, timeout=WAIT)
    except TimeoutError:
        address = client.scheduler_info()["address"]
        raise NoWorkers(
            f"the scheduler at {address} has no workers: start some with `dask worker {address} --nthreads 1`"
        ) from None


def _compare(versions: dict) -> None:
    """Refuse workers that would not understand a task, and warn of those that may round differently."""
    here = versions["client"]["packages"]
    workers = {address: found["packages"] for address, found in versions["workers"].items() if found}
    for package in (*SAME, *ALIKE):
        ours = _version(package, here)
        others = {address: _version(package, found) for address, found in workers.items()}
        different = [address for address in others if others[address] != ours]
        if not different:
            continue
        more = f" (and {len(different) - 1} others)" if different[1:] else ""
        text = f"{package} is {ours or 'missing'} here and {others[different[0]] or 'missing'} on worker {different[0]}"
        if package in SAME:
            raise ValueError(f"{text}{more}: install the same version there, and start the worker again")
        warnings.warn(f"{text}{more}: the last digits may differ from a fit on this machine", UserWarning, stacklevel=4)


def _version(package: str, found: dict) -> str | None:
    """Of Python, the first two parts: what a pickle depends on."""
    version = found.get(package)
    return ".".join(str(version).split(".")[:2]) if package == "python" else version


AHEAD = 2  # tasks per worker thread that wait on the cluster, so that none is idle
PATIENCE = 30  # seconds


class Dask:
    """The workers of a Dask cluster.

    The scheduler tries a task again when its worker dies, a few times. It does not know which of the tasks on that
    worker was the cause, so one that it gives up is tried once more, alone, when all others are done; then it
    is `Lost`.

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
        """As `Serial.run`, in the order in which the tasks end."""
        with connected(self.client) as client:
            yield from _run(client, function, iter(tasks), shared)

    def add_up(self, function: Callable, tasks: Iterable, shared: tuple, add: Callable) -> Any:
        """The results of all tasks added by pairs, in a `Tree`, where they are: only the sum comes back."""
        with connected(self.client) as client:
            data, most = send(client, shared), AHEAD * max(1, sum(client.nthreads().values()))
            waiting, held = deque(), Tree(partial(client.submit, add, pure=False, priority=1))
            for task in tasks:
                leaf = client.submit(_call, function, task, data, pure=False)
                waiting.append((task, client.submit(_if_wrong, leaf, pure=False, priority=1)))
                held.take(leaf)
                while len(waiting) > most:
                    first, wrong = waiting.popleft()
                    if (found := _awaited(client, wrong)) is not None:
                        return _named(found, first)
            return _awaited(client, held.total())


def _if_wrong(result):
    """An error or a loss; of a result, which stays on its worker, nothing."""
    return result if isinstance(result, Failed | Lost) else None


def _named(result, task):
    return Lost(f"{task[1]}: {result.reason}") if isinstance(result, Lost) else result


def _awaited(client, future):
    while True:
        if ended(client, {future: None}):
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError:
                continue  # its worker died before handing the result over: the scheduler makes it again
            except Exception as error:  # a task never raises: the cluster did
                return Lost(f"the cluster gave it up ({error!r})")


def _run(client, function, tasks, shared):
    data = send(client, shared)
    most = AHEAD * max(1, sum(client.nthreads().values()))
    lost = []
    for task, result in _in_window(client, most, function, tasks, data):
        if isinstance(result, Lost):
            lost.append(task)
        else:
            yield task, result
    for task in lost:
        try:
            # The data is sent anew: it may have been on its way when too many workers died.
            yield next(_in_window(client, 1, function, iter([task]), send(client, shared)))
        except NoWorkers as error:
            yield task, Lost(f"the cluster gave it up; then, tried alone: {error}")


def _in_window(client, most, function, tasks, data):
    """(task, result), with so many tasks on the cluster at a time."""
    flying = {}
    while True:
        for task in islice(tasks, most - len(flying)):
            flying[client.submit(_call, function, task, data, pure=False)] = task
        if not flying:
            return
        for future in ended(client, flying):
            try:
                result = future.result(timeout=PATIENCE)
            except TimeoutError:
                continue  # its worker died before handing the result over: the scheduler makes it again
            except Exception as error:  # a cell never raises: the cluster did
                result = Lost(f"the cluster gave it up, twice ({error!r})")
            yield flying.pop(future), result


def ended(client, flying) -> list:
    """Futures that have ended; none after a while of waiting, in which the cluster must have had a worker."""
    wait = need_distributed().wait
    try:
        with client.as_current():  # `wait` asks the current client, which need not be ours
            return list(wait(list(flying), timeout=PATIENCE, return_when="FIRST_COMPLETED").done)
    except CancelledError as error:
        raise ConnectionError("the cluster has dropped its tasks; is its scheduler still there?") from error
    except TimeoutError:
        if not client.nthreads():
            raise NoWorkers(f"the cluster has had no worker for {PATIENCE} s; start some and run again") from None
        return []


def send(client, data):
    """The data as a task of its own: unlike scattered data, the scheduler can make it again when a worker dies."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        return client.submit(_itself, data, pure=False)


def _itself(data):
    return data


def _call(function, task, shared):
    return function(task, *shared)
