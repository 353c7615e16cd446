"""`cluster`: everything inside it that can be done side by side is done by the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from joblib import parallel_config
from joblib.parallel import get_active_backend

from bagwise.execution.connecting import connected
from bagwise.execution.dask_cluster import Dask
from bagwise.execution.local import Processes, Serial
from bagwise.execution.spreading import Workers


@contextmanager
def cluster(where=None, *, n_workers: int | None = None) -> Iterator:
    """A context in which the workers of a Dask cluster do what can be done side by side.

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
