"""What a task may use of this machine: threads of the linear algebra, memory that it has freed, and a GPU.

Nothing here imports torch before a GPU was asked for, or the work is such that one would be worth having.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

from bagwise.first_use import once

TOLD = "MALLOC_TRIM_THRESHOLD_"  # how a process is told, when it starts, to give back freed memory
KEPT, USUAL = 2**28, 2**17  # bytes
_TRIM, _MAP = -1, -3  # settings of mallopt(3): what may be kept, and what is taken from the system by itself
_LARGEST_MAP = 2**25


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


def settled(device: str, *, worth: bool) -> str:
    """``"cpu"``, or the name of a GPU that is there; ``"auto"`` takes one only if it is ``worth`` it.

    Examples
    --------
    >>> settled("cpu", worth=True), settled("auto", worth=False)
    ('cpu', 'cpu')
    """
    if device == "cpu":
        return device
    if device == "auto":
        return "cuda" if worth and gpu() else "cpu"
    if not (isinstance(device, str) and device.partition(":")[0] == "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda' (or 'cuda:1' and so on) or 'auto', not {device!r}")
    if not _has_torch():
        raise ImportError(
            f"device={device!r} needs torch, which is not installed. Everything works on the CPU without it: use "
            "device='cpu', or 'auto'. For a GPU install torch with: pip install 'bagwise[torch]'"
        )
    if not gpu():
        raise ValueError(
            f"device={device!r} needs a GPU, but torch finds none on this machine. Everything works on the CPU without "
            "one: use device='cpu', or 'auto' to take a GPU where there is one."
        )
    return device


@once
def gpu() -> bool:
    """Whether torch is installed and sees a GPU."""
    if not _has_torch():
        return False
    import torch

    return torch.cuda.is_available()


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


@once
def announce(what: str, place: str) -> None:
    """Say, once in a process, that this is done on a GPU."""
    import torch

    name = torch.cuda.get_device_name(place)
    print(f"bagwise: {what} on {place}, {name}", file=sys.stderr, flush=True)
