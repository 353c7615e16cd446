"""One thread for the linear algebra: small problems are faster so, and rounding never varies with the cores at hand."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

_lock, _users, _limits = Lock(), 0, None


@contextmanager
def one_thread():
    """A context in which BLAS and OpenMP use one thread.

    How a library cuts a sum into threads changes its last digits; with one thread a fit gives the same number in this
    process, in a worker and on a cluster. The limit holds for the whole process, so the first to enter sets it and the
    last to leave lifts it.

    Examples
    --------
    >>> import numpy as np
    >>> with one_thread():
    ...     float(np.ones((2, 2)).sum())
    4.0
    """
    global _users, _limits
    with _lock:
        if _users == 0:
            _limits = _controller().limit(limits=1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    # Finding the thread pools takes milliseconds, longer than many a fit; they are loaded before the first use.
    import scipy.linalg  # noqa: F401
    import sklearn.utils._openmp_helpers  # noqa: F401

    return ThreadpoolController()
