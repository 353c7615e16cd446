"""Memory that a block of rows frees is there for the next one, also in a worker that gives all of it back."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

TOLD = "MALLOC_TRIM_THRESHOLD_"  # how a process is told, when it starts, to give back freed memory
KEPT, USUAL = 2**28, 2**17  # bytes
_TRIM, _MAP = -1, -3  # settings of mallopt(3): what may be kept, and what is taken from the system by itself
_LARGEST_MAP = 2**25


@contextmanager
def kept_memory() -> Iterator[None]:
    """A context in which freed memory is kept, up to 256 MB; at its end all goes back to the system.

    Dask tells its workers to give it back at once, so that what they hold is what they use. Every array of the next
    block is then cleared by the system before it is written: 1.8 times the time of a fit. Nothing is changed in
    processes that were not told so, nor without the C library that understands it (glibc).

    Examples
    --------
    >>> with kept_memory():
    ...     sum(range(10))
    45
    """
    library = _library() if TOLD in os.environ else None
    if library is None:
        yield
        return
    _set(library, keep=KEPT, map_from=_LARGEST_MAP)
    try:
        yield
    finally:
        _set(library, keep=int(os.environ[TOLD]), map_from=USUAL)
        library.malloc_trim(0)


def _set(library, *, keep: int, map_from: int) -> None:
    library.mallopt(_TRIM, keep)
    library.mallopt(_MAP, map_from)


@cache
def _library():
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
