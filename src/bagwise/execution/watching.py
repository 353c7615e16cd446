"""What a task takes: seconds and memory; and one thread per task, so that a sum is rounded the same everywhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from threadpoolctl import threadpool_limits

_lock, _users, _limits = Lock(), 0, None


@contextmanager
def one_thread():
    """Limit the thread pools of numerical libraries to one thread while anyone is inside.

    How a library cuts a sum into threads changes its last digits; with one thread, a task gives the same number in
    this process and on a cluster. The limit holds for the whole process, so the first to enter sets it and the last
    to leave lifts it.
    """
    global _users, _limits
    with _lock:
        if _users == 0:
            _limits = threadpool_limits(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()


class Watch:
    """Seconds passed and memory taken (the peak above what the process held at the start, in MB) inside ``with``.

    Examples
    --------
    >>> from bagwise.execution.watching import Watch
    >>> with Watch() as watch:
    ...     total = sum(range(1000))
    >>> watch.seconds < 1 and watch.memory_mb >= 0
    True
    """

    seconds = memory_mb = 0.0

    def __enter__(self) -> Watch:
        self._resettable = _reset_peak()
        self._held = _resident_mb() if self._resettable else _peak_mb()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_) -> None:
        self.seconds = time.perf_counter() - self._start
        self.memory_mb = max(0.0, _peak_mb() - self._held)


def _reset_peak() -> bool:
    """Linux can forget the peak so far; elsewhere it is that of the whole life, and only its growth is seen."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return True
    except OSError:
        return False


def _status_mb(field: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return None


def _resident_mb() -> float:
    return _status_mb("VmRSS:") or 0.0


def _peak_mb() -> float:
    peak = _status_mb("VmHWM:")
    if peak is not None:
        return peak
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return 0.0
    return getrusage(RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
