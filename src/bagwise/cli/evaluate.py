"""`bagwise evaluate`: methods on the same splits of a table of bags; the same command again finishes what is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o

Selection = Literal["nested", "paper"]
Metric = Literal["rmse", "mae", "r2", "pearson", "nll", "crps", "coverage90"]


def evaluate(
    context: typer.Context,
    table: o.Tables,
    method: o.Methods,
    out: Annotated[Path, typer.Option(help="Folder for the results, kept cell by cell. Example: --out runs/aod")],
    bag: o.Bag = None,
    target: o.Target = None,
    groups: o.Groups = None,
    feature: o.Features = None,
    ignore: o.Ignore = None,
    missing: o.Missing = "refuse",
    weights: o.Weights = None,
    bag_feature: o.BagFeatures = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Default 10, or 1 with fixed folds. Example: --repeats 3")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of bags in a repeat. Example: --folds 5")] = 5,
    fold_column: Annotated[str | None, typer.Option(help="Column of fixed folds. Example: --fold-column fold")] = None,
    split_column: Annotated[str | None, typer.Option(help="Column that says train or test. Example: split")] = None,
    selection: Annotated[
        Selection, typer.Option(help="Chosen inside the training bags, or on the scoring folds.")
    ] = "nested",
    tune: Annotated[bool, typer.Option(help="Search the space on a method's card; costly. Example: --no-tune")] = True,
    metric: Annotated[Metric, typer.Option(help="What to choose and rank by.")] = "rmse",
    n_jobs: o.Jobs = None,
    scheduler: o.Scheduler = None,
    device: o.Device = None,
    seed: o.Seed = 0,
    retry_failed: Annotated[bool, typer.Option(help="Run cells that failed before once more.")] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare methods by held-out bags. Killed at any moment? the same command again finishes the rest.

    Example: bagwise evaluate aod.csv --bag site --target aod --method aggregated --method instance-kme --out runs/aod
    """
    from bagwise.cli.speaking import as_typed, speaking
    from bagwise.protocol import evaluate as run

    columns = {name: value for name, value in o.columns(context).items() if name not in ("groups", "ignore")}
    roles = [name for name in (groups, fold_column, split_column) if name is not None]
    ignore = list(dict.fromkeys([*(ignore or []), *roles]))
    options = _options(columns, groups, ignore)
    with speaking("evaluate", quiet=quiet) as voice, o.workers(scheduler):
        bags, y, fold, split = _load(o.sources(table), columns, groups, ignore, fold_column, split_column)
        voice.say(f"{o.stem(table)}: {bags}.")
        with voice.progress(metric) as progress:
            results = run(
                bags,
                y,
                method,
                repeats=repeats,
                folds=folds,
                fold=fold,
                split=split,
                selection=selection,
                tune=tune,
                metric=metric,
                out=out,
                n_jobs=n_jobs,
                device=device,
                random_state=seed,
                name=o.stem(table),
                origin={"path": o.places(table), "options": options, "command": as_typed(context)},
                progress=progress,
                retry_failed=retry_failed,
            )
    if as_json:
        typer.echo(json.dumps(_plain(results, out), indent=1))
    else:
        from rich.console import Console

        Console().print(results.title(), soft_wrap=True, highlight=False)
        Console().print(_table(results))
        voice.say(f"Wrote {out}/results.csv, summary.csv, comparisons.csv")
    _end(results, voice)


def _options(columns: dict, groups: str | None, ignore: list[str]) -> dict:
    """What `load` is told; the column that makes the groups is not ignored."""
    return columns | {"groups": groups, "ignore": [name for name in ignore if name != groups]}


def _load(path, columns, groups, ignore, fold_column, split_column):
    """Bags and targets, and the fixed fold or split of every bag."""
    import bagwise as bw

    def load(column):
        return bw.load(path, **_options(columns, column, ignore))

    bags, y = load(groups)
    if y is None:
        raise ValueError("there is no target to learn: name its column with --target")
    # A label per bag, the same on all its rows: what `groups` means when loading.
    labels = [None if column is None else load(column)[0].groups for column in (fold_column, split_column)]
    return bags, y, *labels


HEADS = {
    "from_best": "vs best",
    "p_holm": "p Holm",
    "seconds": "s/cell",
    "memory_mb": "MB",
}


def _table(results):
    """Methods, their scores (± over folds, ± over repeats), and how far each is from the best."""
    from rich.table import Table

    from bagwise.protocol.summaries import against_best

    rows = against_best(results)
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    names.remove("failed")  # told in words below
    heads = HEADS | {f"{results.metric}_sd_folds": "±folds", f"{results.metric}_sd_repeats": "±repeats"}
    out = Table(box=None, padding=(0, 1, 0, 0))
    for name in names:
        if name == "method":
            out.add_column(name, overflow="fold")  # a long name takes two lines, so that no number is cut
        else:
            out.add_column(heads.get(name, name), justify="right", no_wrap=True, min_width=7)
    for row in rows:
        best = row["from_best"] is None and row[results.metric] is not None
        out.add_row(*[_shown(row[name]) for name in names], style="bold green" if best else None)
    return out


def _shown(value) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else str(value)


def _plain(results, out: Path) -> dict:
    """Everything, for machines; NaN is null."""
    from bagwise.protocol.tables import to_rows

    return {
        "data": results.record["data"]["name"],
        "selection": results.title(),
        "metric": results.metric,
        "summary": to_rows(results.summary()),
        "comparisons": to_rows(results.compare()),
        "failures": [dict(zip(("method", "repeat", "fold", "error"), one, strict=True)) for one in results.failures],
        "out": str(out),
    }


def _end(results, voice) -> None:
    """Name the first failure, and let the exit code tell."""
    if results.failures:
        method, repeat, fold, error = results.failures[0]
        voice.complain(
            f"{len(results.failures)} of {len(results.record['cells'])} cells failed. The first is {method}, repeat "
            f"{repeat}, fold {fold}: {error}\nAll are in results.csv; --retry-failed runs them again."
        )
        raise typer.Exit(1)
