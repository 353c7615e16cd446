"""What a task takes: seconds and memory."""

from __future__ import annotations

import sys
import time
from pathlib import Path


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
