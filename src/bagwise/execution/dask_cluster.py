"""A Dask cluster."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from itertools import islice
from typing import Any

from bagwise.execution.connecting import NoWorkers, connected, need_distributed
from bagwise.execution.outcome import Failed, Lost
from bagwise.execution.tree import Tree

AHEAD = 2  # tasks per worker thread that wait on the cluster, so that none is idle
PATIENCE = 30  # seconds


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
        with connected(self.client) as client:
            yield from _run(client, function, iter(tasks), shared)

    def add_up(self, function: Callable, tasks: Iterable, shared: tuple, add: Callable) -> Any:
        """The results of all tasks added by pairs, in a `Tree`, where they are: only the sum comes back."""
        with connected(self.client) as client:
            data, room = send(client, shared), AHEAD * max(1, sum(client.nthreads().values()))
            waiting, held = deque(), Tree(partial(client.submit, add, pure=False, priority=1))
            for task in tasks:
                leaf = client.submit(_call, function, task, data, pure=False)
                waiting.append((task, client.submit(_if_wrong, leaf, pure=False, priority=1)))
                held.take(leaf)
                while len(waiting) > room:
                    first, wrong = waiting.popleft()
                    if (found := _awaited(client, wrong)) is not None:
                        return _named(found, first)
            return _awaited(client, held.total())


def _if_wrong(result):
    """What little comes back of a result that stays where it is."""
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
    room = AHEAD * max(1, sum(client.nthreads().values()))
    lost = []
    for task, result in _in_window(client, room, function, tasks, data):
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


def _in_window(client, room, function, tasks, data):
    """(task, result), with so many tasks on the cluster at a time."""
    flying = {}
    while True:
        for task in islice(tasks, room - len(flying)):
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
