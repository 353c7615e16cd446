"""`bagwise learning-curve`: what more bags, or more instances per bag, would do for the error of a method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o
from bagwise.cli.console import interruptible, refuse_unbegun


def learning_curve(
    context: typer.Context,
    table: o.Tables,
    out: Annotated[Path, typer.Option(help="Folder for the results, kept cell by cell. Example: --out runs/curve")],
    bag: o.Bag = None,
    target: o.Target = None,
    method: Annotated[
        str, typer.Option(callback=o.known_methods, help="A method, or method:preset. Example: --method instance-kme")
    ] = "aggregated",
    over: Annotated[
        Literal["bags", "instances"], typer.Option(help="What there would be more of. Example: --over instances")
    ] = "bags",
    size: Annotated[
        list[float] | None,
        typer.Option(help="A number of training bags, or a share of the instances of a bag. Example: --size 50"),
    ] = None,
    times: Annotated[float, typer.Option(min=0.1, help="How many times the data. Example: --times 3")] = 2.0,
    groups: o.Groups = None,
    feature: o.Features = None,
    ignore: o.Ignore = None,
    missing: o.Missing = "refuse",
    fill_value: o.FillValues = None,
    weights: o.Weights = None,
    bag_feature: o.BagFeatures = None,
    decimal: o.Decimal = None,
    repeats: Annotated[int, typer.Option(min=1, help="More narrow the interval. Example: --repeats 10")] = 5,
    folds: Annotated[int, typer.Option(min=2, help="Folds of bags in a repeat. Example: --folds 5")] = 5,
    metric: Annotated[Literal["rmse", "mae", "crps"], typer.Option(help="The error that falls.")] = "rmse",
    level: o.Level = 0.9,
    n_jobs: o.Jobs = None,
    scheduler: o.Scheduler = None,
    device: o.Device = None,
    seed: o.Seed = 0,
    retry_failed: o.RetryFailed = False,
    resume: o.Resume = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Say how far the error would fall with twice as many bags, or twice as many instances per bag.

    Example: bagwise learning-curve aod.csv --bag site --target aod --method instance-kme --out runs/curve
    """
    import bagwise as bw
    from bagwise.cli.console import command_text, exit_if_failed, messages_of, print_text
    from bagwise.io.table_output import as_text, to_rows

    columns = o.columns(context)
    with messages_of("learning-curve", quiet=quiet) as messages, o.workers(scheduler):
        o.refuse_folder(out)
        if resume:
            refuse_unbegun(out)
        bags, y = bw.load(o.sources(table), **columns)
        o.refuse_no_target(y)
        messages.show(f"{o.stem(table)}: {bags}.")
        origin = {"path": [str(path.resolve()) for path in o.files(table)], "options": columns}
        origin |= {"command": command_text(context, but=("resume",))}
        with interruptible(messages, out), messages.evaluation_progress(metric) as progress:
            curve = bw.learning_curve(
                method,
                bags,
                y,
                over=over,
                sizes=size or None,
                repeats=repeats,
                folds=folds,
                metric=metric,
                level=level,
                out=out,
                n_jobs=n_jobs,
                device=device,
                random_state=seed,
                name=o.stem(table),
                origin=origin,
                progress=progress,
                retry_failed=retry_failed,
            )
    if as_json:
        share, low, high = curve.gain(times)
        law = {name: float(getattr(curve.law, name)[0]) for name in ("floor", "slope", "exponent")}
        found = {"over": over, "metric": metric, "curve": to_rows(curve.table()), "law": law, "times": times}
        found |= {"gain": share, "low": low, "high": high, "level": level, "sentence": curve.sentence(times)}
        typer.echo(json.dumps(found | {"notes": curve.notes(), "out": str(out)}, indent=1))
    else:
        print_text("\n".join([as_text(curve.table()), curve.sentence(times), *curve.notes()]))
        messages.show(f"Wrote {out}/learning_curve.csv")
    exit_if_failed(messages, curve.results)
