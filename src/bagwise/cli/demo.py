"""`bagwise demo`: simulated satellite pixels, four methods on the same folds, a table and a picture.

Several methods on the same folds: held-out predictions, a table, a file.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import bagwise as bw
from bagwise.cli import options as o


@dataclass(frozen=True)
class Score:
    """Held-out predictions of one method, its error on every fold, and the seconds it took."""

    held_out: np.ndarray
    fold_rmse: np.ndarray
    seconds: float


def compare(bags, y, names, *, folds: int, seed: int, console: Console) -> dict[str, Score]:
    """Every method fitted and scored on the same folds of bags."""
    from bagwise.bags import BagKFold

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


METHODS = ("instance-mean", "instance-median", "aggregated", "instance-kme")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the picture. Example: --out demo")] = Path("demo"),
    bags: Annotated[int, typer.Option(min=1, help="Number of simulated bags. Example: --bags 200")] = 200,
    instances: Annotated[int, typer.Option(min=1, help="Pixels in a bag. Example: --instances 50")] = 50,
    folds: Annotated[int, typer.Option(min=2, help="Folds of bags to score on. Example: --folds 5")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation and the methods. Example: --seed 0")] = 0,
) -> None:
    """Simulate aerosol bags, compare four methods on the same folds, and leave a table and a picture."""
    import bagwise as bw
    from bagwise.cli.console import Terminal, speaking
    from bagwise.io.atomic_files import replace_file

    console = Terminal()
    with speaking("demo", quiet=False):
        o.refuse_folder(out)
        data, y = bw.datasets.make_aerosol(bags, instances=instances, ragged=True, random_state=seed)
        console.print(f"Simulated satellite pixels around ground stations: {data}.")
        console.print(f"Target: aerosol optical depth, {y.min():.2f} to {y.max():.2f}, deviation {y.std():.3f}.\n")
        scores = compare(data, y, METHODS, folds=folds, seed=seed, console=console)
        console.print(table(scores, reference="instance-mean"))
        out.mkdir(parents=True, exist_ok=True)
        replace_file(out / "predictions.csv", lambda path: write_predictions(path, data, y, scores))
        console.print(f"\nWrote {out / 'predictions.csv'}")
        _picture(out / "demo.png", data, y, scores, seed, console)


def _picture(path: Path, data, y, scores, seed: int, console) -> None:
    import bagwise as bw
    from bagwise.io.atomic_files import replace_file

    try:
        from bagwise.reports.plots import demo_picture
    except ImportError as error:
        console.print(f"No picture: {error}")
        return
    model = bw.method("instance-kme", random_state=seed, n_jobs=-1).fit(data, y)
    replace_file(path, lambda target: demo_picture(target, data, y, scores["instance-kme"], model))
    console.print(f"Wrote {path}")
