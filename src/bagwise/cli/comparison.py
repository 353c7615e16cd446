"""Several methods on the same folds: held-out predictions, a table, a file."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import bagwise as bw
from bagwise.instances import BagKFold


@dataclass(frozen=True)
class Score:
    """Held-out predictions of one method, its error on every fold, and the seconds it took."""

    held_out: np.ndarray
    fold_rmse: np.ndarray
    seconds: float


def compare(bags, y, names, *, folds: int, seed: int, console: Console) -> dict[str, Score]:
    """Every method fitted and scored on the same folds of bags."""
    splits = list(BagKFold(folds, random_state=seed).split(bags))
    columns = (TextColumn("{task.description:16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    scores = {}
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names) * len(splits))
        for name in names:
            progress.update(task, description=name)
            held_out, start = np.empty(len(y)), time.perf_counter()
            for train, test in splits:
                model = bw.method(name, random_state=seed, n_jobs=-1).fit(bags[train], y[train])
                held_out[test] = model.predict(bags[test])
                progress.advance(task)
            rmse = np.array([np.sqrt(np.mean((held_out[test] - y[test]) ** 2)) for _, test in splits])
            scores[name] = Score(held_out, rmse, time.perf_counter() - start)
    return scores


def table(scores: dict[str, Score], *, reference: str) -> Table:
    """RMSE (mean ± deviation over folds), the paired difference from a reference on the same folds, seconds."""
    out = Table(title="Root mean squared error on held-out bags, x 100", title_justify="left")
    for column in ("method", "RMSE", f"difference from {reference}", "seconds"):
        out.add_column(column, justify="left" if column == "method" else "right")
    base = scores[reference].fold_rmse
    best = min(scores, key=lambda name: scores[name].fold_rmse.mean())
    for name, score in scores.items():
        rmse, gap = 100 * score.fold_rmse, 100 * (score.fold_rmse - base)
        difference = "" if name == reference else f"{gap.mean():+.2f} ± {gap.std(ddof=1):.2f}"
        style = "bold green" if name == best else None
        out.add_row(
            name, f"{rmse.mean():.2f} ± {rmse.std(ddof=1):.2f}", difference, f"{score.seconds:.1f}", style=style
        )
    return out


def write_predictions(path: Path, bags, y, scores: dict[str, Score]) -> None:
    """One row per bag: its id, size, target, and the held-out prediction of every method."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["bag", "instances", "target", *scores])
        held_out = np.column_stack([score.held_out for score in scores.values()])
        for bag, size, target, row in zip(
            bags.ids.tolist(), bags.sizes.tolist(), y.tolist(), held_out.tolist(), strict=True
        ):
            writer.writerow([bag, size, target, *row])
