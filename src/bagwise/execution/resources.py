"""Resources of this machine that a task may use: linear algebra threads, freed memory, and a GPU.

torch is imported only when a GPU is requested, or when the work is large enough for one.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np
from threadpoolctl import ThreadpoolController

from bagwise.first_use import once

TOLD = "MALLOC_TRIM_THRESHOLD_"  # set when a process starts, so that it returns freed memory at once
KEPT, USUAL = 2**28, 2**17  # bytes
_TRIM, _MAP = -1, -3  # of mallopt(3): M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_LARGEST_MAP = 2**25
_header_lock = Lock()


class Shared:
    """A process-wide setting as a context: the first thread to enter applies it, the last to leave undoes it.

    If each thread saved and restored the value itself, a second thread would restore the value that the first set.
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
    """Limit BLAS and OpenMP to one thread inside the context.

    The way a sum is split among threads changes its last digits; with one thread a fit gives the same number in this
    process, in a worker and on a cluster. The limit holds for the whole process.
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
    """Keep up to 256 MB of freed memory inside the context, and return it to the system at the end.

    Dask sets its workers to return freed memory at once. The system then clears each array of the next block before it
    is written, and a fit needs 1.8 times as long. Other processes, and C libraries other than glibc, are not changed.
    """
    library = _library() if TOLD in os.environ else None
    if library is None:
        yield
        return
    library.mallopt(_TRIM, KEPT)
    library.mallopt(_MAP, _LARGEST_MAP)
    try:
        yield
    finally:
        library.mallopt(_TRIM, int(os.environ[TOLD]))
        library.mallopt(_MAP, USUAL)
        library.malloc_trim(0)


@cache
def _library():
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def settled(device: str, *, worth: bool) -> str:
    """Return ``"cpu"`` or the name of an available GPU; ``"auto"`` uses a GPU only if ``worth`` is true."""
    if device == "cpu":
        return device
    if device == "auto":
        return "cuda" if worth and gpu() else "cpu"
    if not (isinstance(device, str) and device.partition(":")[0] == "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda' (or 'cuda:1' and so on) or 'auto', not {device!r}")
    if not gpu():
        try:
            import torch  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"device={device!r} needs torch, which is not installed. Everything works on the CPU without it: use "
                "device='cpu', or 'auto'. For a GPU install torch with: pip install 'bagwise[torch]'"
            ) from error
        raise ValueError(
            f"device={device!r} needs a GPU, but torch finds none on this machine. Everything works on the CPU without "
            "one: use device='cpu', or 'auto' to take a GPU where there is one."
        )
    return device


@once
def gpu() -> bool:
    """Return whether torch is installed and finds a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


@once
def announce(what: str, place: str) -> None:
    """Log, once per process, that this runs on a GPU."""
    import torch

    name = torch.cuda.get_device_name(place)
    logging.getLogger("bagwise").info("bagwise: %s on %s, %s", what, place, name)


def memory_map(path: str | Path) -> np.ndarray:
    """Open a ``.npy`` file as a memory map, one thread at a time.

    numpy parses its header as Python, and two threads that parse at once can end in SystemError before Python 3.11.8.
    """
    with _header_lock:
        return np.load(path, mmap_mode="r", allow_pickle=False)
