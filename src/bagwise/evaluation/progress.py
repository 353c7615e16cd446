"""How far an evaluation is: steps to watch it by, and a live display of them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from bagwise.evaluation.metrics import best_of, get_metric
from bagwise.io.table_output import duration

WIDE, NARROW = 110, 70  # columns of a terminal that shows a long bar, and any bar


@dataclass(frozen=True)
class Step:
    """Cells done (found on disk included) of all, failed ones, seconds left (a guess), the best method so far."""

    done: int
    total: int
    failed: int
    seconds_left: float | None
    best: str | None
    best_score: float | None
    last: dict | None


class Tracker:
    """Turns results, as they come, into steps."""

    def __init__(self, total: int, metric: str):
        self.total, self.metric = total, get_metric(metric)
        self.done = self.failed = self.ran = 0
        self.sums: dict[str, list] = {}
        self.incomplete: set[str] = set()  # methods that failed somewhere: their means are of the easier folds
        self.started = time.perf_counter()

    def step(self, result: dict | None = None, *, ran: bool = False) -> Step:
        """Count a result (run now, or found); the step after it."""
        if result is not None:
            self.done += 1
            self.ran += ran
            self.failed += bool(result["error"])
            self._add(result)
        best, score = self._best()
        return Step(self.done, self.total, self.failed, self._left(), best, score, result)

    def _add(self, result: dict) -> None:
        if result["error"]:
            self.incomplete.add(result["method"])
        else:
            scores = np.array(result["scores"][self.metric.name])
            total, count = self.sums.get(result["method"], (0.0, 0))
            self.sums[result["method"]] = [total + scores, count + 1]

    def _best(self) -> tuple[str | None, float | None]:
        """The best mean so far; a method without a score somewhere is no candidate."""
        means = {method: self._mean(*sums) for method, sums in self.sums.items() if method not in self.incomplete}
        best = best_of([self.metric.loss(mean) for mean in means.values()])
        return (None, None) if best is None else list(means.items())[best]

    def _mean(self, total: np.ndarray, count: int) -> float:
        """The mean over cells; with several settings scored on the same folds, that of the best of them."""
        best = best_of(self.metric.loss(total / count))
        return float("nan") if best is None else float(total[best] / count)

    def _left(self) -> float | None:
        if self.ran == 0:
            return None
        return (time.perf_counter() - self.started) / self.ran * (self.total - self.done)


class Display:
    """A line in the terminal: a bar, cells done, failures, the time left, the best method so far.

    In a narrow terminal the bar goes first, then the line ends early: the cells done are always there.
    """

    def __init__(self, *, console=None, metric: str = "rmse"):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn
        from rich.text import Text

        class Line(ProgressColumn):
            def render(self, task):
                took = "" if task.elapsed is None else f", {duration(max(1, round(task.elapsed)))}"
                return Text(f"{task.fields['done']}{took}{task.fields['more']}", no_wrap=True, overflow="ellipsis")

        self.metric = metric
        console = console or Console()
        bar = [BarColumn(bar_width=40 if console.width >= WIDE else 10)] if console.width >= NARROW else []
        self.progress = Progress(*bar, Line(), console=console, transient=True)
        self.task = self.progress.add_task("cells", total=None, done="", more="")

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        self.progress.stop()

    def __call__(self, step: Step) -> None:
        failed = f", {step.failed} failed" if step.failed else ""
        left = "" if step.seconds_left is None else f", {duration(step.seconds_left)} left"
        best = "" if step.best is None else f"; best so far: {step.best}, {self.metric} {step.best_score:.4g}"
        done = f"{step.done}/{step.total} cells{failed}"
        self.progress.update(self.task, completed=step.done, total=step.total, done=done, more=left + best)
