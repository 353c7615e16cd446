"""One thread for the linear algebra: small problems are faster so, and rounding never varies with the cores at hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock

from threadpoolctl import ThreadpoolController

from bagwise.first_use import once


class Shared:
    """A setting of the whole process, as a context: the first thread to enter makes it, the last to leave undoes it.

    If every thread kept what it found and put it back, one that entered second would put back what the first had set.

    Parameters
    ----------
    setting : function without arguments that gives a context manager
    """

    def __init__(self, setting: Callable[[], AbstractContextManager]):
        self.setting = setting
        self._lock, self._users = Lock(), 0
        self._made: AbstractContextManager = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._made = self.setting()
                self._made.__enter__()
            self._users += 1

    def __exit__(self, *_) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._made.__exit__(None, None, None)


def one_thread() -> AbstractContextManager:
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
    return _one_thread


_one_thread = Shared(lambda: _controller().limit(limits=1))


@once
def _controller() -> ThreadpoolController:
    # Finding the thread pools takes milliseconds, longer than many a fit; they are loaded before the first use.
    import scipy.linalg  # noqa: F401
    import sklearn.utils._openmp_helpers  # noqa: F401

    return ThreadpoolController()
