"""One thread for the linear algebra: small problems are faster so, and rounding never varies with the cores at hand."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController


def one_thread():
    """A context in which BLAS and OpenMP use one thread.

    Examples
    --------
    >>> import numpy as np
    >>> with one_thread():
    ...     float(np.ones((2, 2)).sum())
    4.0
    """
    return _controller().limit(limits=1)


@cache
def _controller() -> ThreadpoolController:
    # Finding the thread pools takes milliseconds, longer than many a fit; they are loaded before the first use.
    import scipy.linalg  # noqa: F401
    import sklearn.utils._openmp_helpers  # noqa: F401

    return ThreadpoolController()
