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

# The environment variable by which Dask makes its workers return freed memory to the system at once.
TRIM_THRESHOLD = "MALLOC_TRIM_THRESHOLD_"
MAX_FREED, LARGEST_MMAP, DEFAULT_MMAP = 2**28, 2**25, 2**17  # bytes
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)
_header_lock = Lock()


class SharedSetting:
    """Context manager of a process-wide setting: the first thread to enter applies it, the last to leave restores it.

    If each thread saved and restored the setting, a second thread would restore the value that the first one applied.
    """

    def __init__(self, setting: Callable[[], AbstractContextManager]):
        self.setting = setting
        self._lock, self._users = Lock(), 0
        self._context: AbstractContextManager = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._context = self.setting()
                self._context.__enter__()
            self._users += 1

    def __exit__(self, *_) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._context.__exit__(None, None, None)


def one_thread() -> AbstractContextManager:
    """Limit BLAS and OpenMP to one thread inside the context.

    The number of threads changes the last digits of a sum. With one thread, a fit gives the same numbers in this
    process, in a worker and on a cluster. The limit applies to the whole process.
    """
    return _one_thread


_one_thread = SharedSetting(lambda: _controller().limit(limits=1))


@once
def _controller() -> ThreadpoolController:
    # Cached, because finding the thread pools takes longer than a small fit. The imports load these pools.
    import scipy.linalg  # noqa: F401
    import sklearn.utils._openmp_helpers  # noqa: F401

    return ThreadpoolController()


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep up to 256 MB of freed memory inside the context, and return it to the system at the end.

    Workers of Dask return freed memory at once. The system must then clear the memory of each new array, and a fit
    takes 1.8 times as long. Processes that are not Dask workers, and C libraries other than glibc, are not changed.
    """
    library = _library() if TRIM_THRESHOLD in os.environ else None
    if library is None:
        yield
        return
    library.mallopt(M_TRIM_THRESHOLD, MAX_FREED)
    library.mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP)
    try:
        yield
    finally:
        library.mallopt(M_TRIM_THRESHOLD, int(os.environ[TRIM_THRESHOLD]))
        library.mallopt(M_MMAP_THRESHOLD, DEFAULT_MMAP)
        library.malloc_trim(0)


@cache
def _library():
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


class DeviceError(ValueError):
    """A GPU was requested that is not there."""


def choose_device(device: str, *, is_large: bool) -> str:
    """Return ``"cpu"`` or the name of an available GPU; ``"auto"`` uses a GPU only if the work ``is_large``."""
    if device == "cpu":
        return device
    if device == "auto":
        return "cuda" if is_large and gpu() else "cpu"
    if not (isinstance(device, str) and device.partition(":")[0] == "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda', 'cuda:1' (or another number) or 'auto', not {device!r}")
    if not gpu():
        try:
            import torch  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"device={device!r} needs torch, which is not installed. Install it with: pip install 'bagwise[torch]' "
                "or use device='cpu' or 'auto'. All methods work on the CPU without torch."
            ) from error
        raise DeviceError(
            f"device={device!r} needs a GPU, but torch finds none on this machine. Use device='cpu', or 'auto' to use "
            "a GPU only if there is one. All methods work on the CPU."
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
def log_device(task: str, device: str) -> None:
    """Log, once per process, that a task runs on a GPU."""
    import torch

    name = torch.cuda.get_device_name(device)
    logging.getLogger("bagwise").info("bagwise: %s on %s, %s", task, device, name)


def memory_map(path: str | Path) -> np.ndarray:
    """Open a ``.npy`` file as a memory map, one thread at a time.

    numpy parses the header as Python code, which before Python 3.11.8 could raise SystemError in two threads at once.
    """
    with _header_lock:
        return np.load(path, mmap_mode="r", allow_pickle=False)
