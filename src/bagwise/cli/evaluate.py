"""`bagwise evaluate`: methods on the same splits of a table of bags; the same command again finishes what is left."""

from __future__ import annotations

import json
import warnings
from functools import reduce
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o
from bagwise.cli.resuming import Resume, refuse_unbegun, stoppable

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
    fill_value: o.FillValues = None,
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
    retry_failed: o.RetryFailed = False,
    resume: Resume = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare methods by held-out bags. Killed at any moment? the same command again finishes the rest.

    Example: bagwise evaluate aod.csv --bag site --target aod --method aggregated --method instance-kme --out runs/aod
    """
    from bagwise.cli.ending import tell_failures
    from bagwise.cli.speaking import as_typed, speaking
    from bagwise.protocol import evaluate as run

    fixed = "--fold-column" if fold_column else "--split-column" if split_column else None
    columns = {name: value for name, value in o.columns(context).items() if name not in ("groups", "ignore")}
    roles = [name for name in (groups, fold_column, split_column) if name is not None]
    ignore = list(dict.fromkeys([*(ignore or []), *roles]))
    options = _options(columns, groups, ignore)
    with speaking("evaluate", quiet=quiet) as voice, o.workers(scheduler):
        if fixed and context.get_parameter_source("folds").name == "COMMANDLINE":
            raise ValueError(f"--folds deals bags to folds by lot, and {fixed} says where each is; give one of them")
        o.refuse_folder(out)
        if resume:
            refuse_unbegun(out)
        bags, y, fold, split = _load(o.sources(table), columns, groups, ignore, fold_column, split_column)
        voice.say(f"{o.stem(table)}: {bags}.")
        with stoppable(voice, out), voice.progress(metric) as progress:
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
                origin={"path": o.places(table), "options": options, "command": as_typed(context, but=("resume",))},
                progress=progress,
                retry_failed=retry_failed,
            )
    if as_json:
        typer.echo(json.dumps(_plain(results, out), indent=1))
    else:
        _print(results, out, voice)
        voice.say(f"Wrote {out}/results.csv, summary.csv, comparisons.csv")
    tell_failures(voice, results)


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
    return bags, y, _labels(load, fold_column, "fold"), _labels(load, split_column, "split")


def _labels(load, column: str | None, what: str):
    """A label per bag, the same on all its rows: what `groups` means when loading, but called what it is."""
    if column is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the bags themselves were loaded
            return load(column)[0].groups
    except ValueError as error:
        said = {"a group in column": f"a {what} in column", "one group": f"one {what}"}
        said["or leave groups out"] = f"or leave --{what}-column out"
        raise ValueError(reduce(lambda text, pair: text.replace(*pair), said.items(), str(error))) from error


def _print(results, out: Path, voice) -> None:
    from bagwise.cli.scoreboard import scoreboard
    from bagwise.cli.speaking import stdout

    console = stdout()
    table, left_out = scoreboard(results, width=console.width)
    console.print(results.title(), soft_wrap=True, highlight=False, markup=False)
    console.print(table)
    for note in results.notes():
        console.print(f"Note: {note}", soft_wrap=True, highlight=False, markup=False)
    if left_out:
        voice.say(f"No room for {', '.join(left_out)}; all is in {out}/summary.csv")


def _plain(results, out: Path) -> dict:
    """Everything, for machines; NaN is null."""
    from bagwise.protocol.tables import to_rows

    return {
        "data": results.record["data"]["name"],
        "selection": results.title(),
        "metric": results.metric,
        "summary": to_rows(results.summary()),
        "comparisons": to_rows(results.compare()),
        "notes": results.notes(),
        "failures": [dict(zip(("method", "repeat", "fold", "error"), one, strict=True)) for one in results.failures],
        "out": str(out),
    }
