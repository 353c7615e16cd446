"""How far a pass is: rows read, rows per second, the time left; and a line in a terminal that shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bagwise.io.table_output import duration

AT_LEAST = 0.1  # seconds between two steps that are told, but for the last


class PassStep(NamedTuple):
    """How far a pass is: its number and name, rows done of all, rows per second and seconds left (None at first).

    A pass over the bags has shards in place of rows.

    Examples
    --------
    >>> print(PassStep(6, "fold-sums", 30_000_000, 50_000_000, 1_250_000.0, 16.0))
    pass 6, fold-sums: 30,000,000 of 50,000,000 rows, 1,250,000 rows/s, 16 s left
    """

    number: int
    name: str
    rows: int
    total: int
    rate: float | None = None
    seconds_left: float | None = None
    unit: str = "rows"

    def __str__(self) -> str:
        text = f"pass {self.number}, {self.name}: {self.rows:,} of {self.total:,} {self.unit}"
        if self.rate is None or self.seconds_left is None:
            return text
        return f"{text}, {self.rate:,.0f} {self.unit}/s, {duration(self.seconds_left)} left"


class PassClock:
    """Tells the steps of one pass as its tasks end, each with its rows; those of a checkpoint take no time."""

    def __init__(self, number: int, name: str, tasks: Sequence, tell: Callable[[PassStep], object]):
        chunks = [getattr(task, "chunk", None) for task in tasks]
        self.number, self.name, self.tell = number, name, tell
        self.rows, self.unit = [1 if chunk is None else chunk.n_rows for chunk in chunks], "rows"
        if None in chunks:
            self.unit = "shards" if hasattr(tasks[0], "shards") else "tasks"
        self.total, self.done, self.found = sum(self.rows), 0, 0
        self.started = self._told = time.perf_counter()

    def __call__(self, task: int, *, kept: bool = False) -> None:
        self.done += self.rows[task]
        self.found += self.rows[task] if kept else 0
        now = time.perf_counter()
        if now - self._told >= AT_LEAST or self.done == self.total:
            self._told = now
            self.tell(self._step(now - self.started))

    def _step(self, seconds: float) -> PassStep:
        read = self.done - self.found
        rate = read / seconds if read and seconds > 0 else None
        left = None if rate is None else (self.total - self.done) / rate
        return PassStep(self.number, self.name, self.done, self.total, rate, left, self.unit)


class PassDisplay:
    """A line in the terminal, on standard error: the last step, and the time since the fit began. A context.

    Where there is no terminal, nothing is written.
    """

    def __init__(self, activity: str = "fitting", *, console=None):
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        console = console or Console(stderr=True)
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.activity = activity
        self.task = self.progress.add_task(activity, total=None)

    def __enter__(self) -> PassDisplay:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        if not self.progress.disable:  # rich 14 and earlier end even a disabled line
            self.progress.stop()

    def __call__(self, step: PassStep) -> None:
        self.progress.update(self.task, description=f"{self.activity}, {step}")
