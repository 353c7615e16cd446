"""How far an evaluation is: steps to watch it by, and a live display of them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from bagwise.protocol.metrics import get_metric


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
        self.started = time.perf_counter()

    def step(self, result: dict | None = None, *, ran: bool = False) -> Step:
        """Count a result (run now, or found) and say where we are."""
        if result is not None:
            self.done += 1
            self.ran += ran
            self.failed += bool(result["error"])
            self._add(result)
        best, score = self._best()
        return Step(self.done, self.total, self.failed, self._left(), best, score, result)

    def _add(self, result: dict) -> None:
        if not result["error"]:
            scores = np.array(result["scores"][self.metric.name])
            total, count = self.sums.get(result["method"], (0.0, 0))
            self.sums[result["method"]] = [total + scores, count + 1]

    def _best(self) -> tuple[str | None, float | None]:
        means = {method: total / count for method, (total, count) in self.sums.items()}
        # With several settings scored on the same folds, the best of them.
        means = {method: scores[np.argmin(self.metric.loss(scores))] for method, scores in means.items()}
        means = {method: score for method, score in means.items() if score == score}
        if not means:
            return None, None
        best = min(means, key=lambda method: self.metric.loss(means[method]))
        return best, float(means[best])

    def _left(self) -> float | None:
        if self.ran == 0:
            return None
        return (time.perf_counter() - self.started) / self.ran * (self.total - self.done)


class Display:
    """A line in the terminal: a bar, cells done, failures, the best method so far, the time left."""

    def __init__(self, *, console=None, metric: str = "rmse"):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.metric = metric
        texts = TextColumn("[bold]{task.description}"), TextColumn("{task.fields[best]}", markup=False)
        left = TextColumn("{task.fields[left]}")
        columns = (texts[0], BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), left, texts[1])
        self.progress = Progress(*columns, console=console, transient=True)
        self.task = self.progress.add_task("cells", total=None, left="", best="")

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_) -> None:
        self.progress.stop()

    def __call__(self, step: Step) -> None:
        best = "" if step.best is None else f"best so far: {step.best}, {self.metric} {step.best_score:.4g}"
        failed = f"; {step.failed} failed" if step.failed else ""
        left = "" if step.seconds_left is None else f"{duration(step.seconds_left)} left"
        self.progress.update(self.task, completed=step.done, total=step.total, best=best + failed, left=left)


def duration(seconds: float) -> str:
    """Seconds as a person would say them.

    Examples
    --------
    >>> duration(42), duration(150), duration(7300)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
