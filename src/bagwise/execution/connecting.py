"""The client of a Dask cluster: opened, and its workers looked at, before any work is sent."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

from joblib import cpu_count

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
    with _started(distributed, options) as local, distributed.Client(local, set_as_default=False) as client:
        yield client


def _started(distributed, options: dict):
    try:
        return distributed.LocalCluster(**options)
    except RuntimeError as error:
        raise ConnectionError(
            f"the workers did not start ({error}); a script must start them below `if __name__ == '__main__':`, for "
            "every worker imports it"
        ) from error


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
    """Refuse workers that would not understand a task, and tell of those that may round differently."""
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
