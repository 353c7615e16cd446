"""A Dask cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from bagwise.execution.outcome import Lost

AHEAD = 2  # tasks per worker thread that wait on the cluster, so that none is idle
PATIENCE = 30  # seconds


class NoWorkers(RuntimeError):
    """All workers of a cluster are gone."""


class Dask:
    """The workers of a Dask cluster.

    The scheduler tries a task again when its worker dies, a few times. It cannot say which of the tasks on that worker
    was to blame, so one that it gives up is tried once more, alone, when all others are done; then it is `Lost`.

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
        distributed = _need_distributed()
        if not isinstance(self.client, str):
            yield from _run(distributed, self.client, function, iter(tasks), shared)
            return
        with distributed.Client(self.client, set_as_default=False) as client:
            yield from _run(distributed, client, function, iter(tasks), shared)


def _run(distributed, client, function, tasks, shared):
    data = _send(client, shared)
    room = AHEAD * max(1, sum(client.nthreads().values()))
    lost = []
    for task, result in _in_window(distributed, client, room, function, tasks, data):
        if isinstance(result, Lost):
            lost.append(task)
        else:
            yield task, result
    for task in lost:
        try:
            yield next(_in_window(distributed, client, 1, function, iter([task]), data))
        except NoWorkers as error:
            yield task, Lost(f"the cluster gave it up; then, tried alone: {error}")


def _in_window(distributed, client, room, function, tasks, data):
    """(task, result), with so many tasks on the cluster at a time."""
    flying = {}
    while True:
        for task in islice(tasks, room - len(flying)):
            flying[client.submit(_call, function, task, data, pure=False)] = task
        if not flying:
            return
        for future in _ended(distributed, client, flying):
            try:
                result = future.result(timeout=PATIENCE)
            except TimeoutError:
                continue  # its worker died before handing the result over: the scheduler makes it again
            except Exception as error:  # a cell never raises: the cluster did
                result = Lost(f"the cluster gave it up, twice ({error!r})")
            yield flying.pop(future), result


def _ended(distributed, client, flying) -> list:
    """Futures that have ended; none after a while of waiting, in which the cluster must have had a worker."""
    try:
        return list(distributed.wait(list(flying), timeout=PATIENCE, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        if not client.nthreads():
            raise NoWorkers(f"the cluster has had no worker for {PATIENCE} s; start some and run again") from None
        return []


def _send(client, shared):
    """The data as a task of its own: unlike scattered data, the scheduler can make it again when a worker dies."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        return client.submit(tuple, shared, pure=False)


def _call(function, task, shared):
    return function(task, *shared)


def _need_distributed():
    try:
        import distributed
    except ImportError as error:
        raise ImportError("running on a cluster needs Dask: pip install 'bagwise[dask]'") from error
    return distributed
