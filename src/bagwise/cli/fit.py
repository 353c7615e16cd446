"""`bagwise fit`: learn from a table of bags, and leave one model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli import options as o


def fit(
    context: typer.Context,
    table: o.Tables,
    bag: o.Bag = None,
    target: o.Target = None,
    out: Annotated[Path, typer.Option(help="The model file. Example: --out aod.bagwise")] = Path("model.bagwise"),
    method: Annotated[str, typer.Option(help="auto, or one of `bagwise methods`, as name or name:preset.")] = "auto",
    level: Annotated[float, typer.Option(help="Level of the intervals. Example: --level 0.95")] = 0.9,
    intervals: Annotated[
        bool, typer.Option(help="Whether predictions get intervals; they cost a fit per fold.")
    ] = True,
    time_budget: Annotated[
        float | None, typer.Option(help="Seconds that auto may take. Example: --time-budget 300")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="A page about the model. Example: --report aod.html")] = None,
    groups: o.Groups = None,
    feature: o.Features = None,
    ignore: o.Ignore = None,
    missing: o.Missing = "refuse",
    weights: o.Weights = None,
    bag_feature: o.BagFeatures = None,
    n_jobs: o.Jobs = -1,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Learn to predict the target of a bag; the default, auto, tries several methods and blends what helps.

    Example: bagwise fit pixels.csv --bag site --target aod --out aod.bagwise
    """
    import bagwise as bw
    from bagwise.cli.fitting import account, build, held_out
    from bagwise.cli.speaking import as_typed, speaking

    columns = o.columns(
        bag=bag,
        target=target,
        groups=groups,
        features=feature,
        ignore=ignore,
        missing=missing,
        weights=weights,
        bag_features=bag_feature,
    )
    with speaking("fit", quiet=quiet) as voice:
        _refuse_no_folder(out, report)
        bags, y = bw.load(o.sources(table), **columns)
        if y is None:
            raise ValueError("there is no target to learn: name its column with --target")
        voice.say(f"{o.stem(table)}: {bags}.")
        model = build(method, level=level if intervals else None, time_budget=time_budget, n_jobs=n_jobs, seed=seed)
        with voice.fitting(model, method):
            model.fit(bags, y)
        if bags.covariate_names is not None:
            columns["bag_features"] = list(bags.covariate_names)  # by name, also where "auto" found them
        training = bw.saving.describe_training(bags, y) | {"columns": columns, "table": o.stem(table)}
        bw.save(model, out, method=method, target=target, training=training)
        told = account(model, method, y)
        if report is not None:
            from bagwise.reports import write_model_report

            about = {"name": o.stem(table), "method": method, "command": as_typed(context)}
            with voice.waiting("writing the report"):
                write_model_report(report, model, bags, y, held_out=held_out(model, y), **about)
    if as_json:
        typer.echo(json.dumps(told | {"out": str(out), "report": None if report is None else str(report)}, indent=1))
        return
    typer.echo(told["paragraph"])
    voice.say(f"Wrote {out}" + ("" if report is None else f" and {report}"))


def _refuse_no_folder(*paths: Path | None) -> None:
    """Better before an hour of fitting than after it."""
    for path in paths:
        if path is not None and not path.resolve().parent.is_dir():
            raise ValueError(f"there is no folder {path.resolve().parent} to write {path.name} to; make it first")
