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
    method: o.Method = "auto",
    level: o.Level = 0.9,
    intervals: Annotated[
        bool, typer.Option(help="Whether predictions get intervals; they cost a fit per fold.")
    ] = True,
    time_budget: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds that auto may take; default 480. Example: --time-budget 60")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="A page about the model. Example: --report aod.html")] = None,
    groups: o.Groups = None,
    feature: o.Features = None,
    ignore: o.Ignore = None,
    missing: o.Missing = "refuse",
    fill_value: o.FillValues = None,
    weights: o.Weights = None,
    bag_feature: o.BagFeatures = None,
    n_jobs: o.Jobs = None,
    engine: o.Engine = "memory",
    scheduler: o.Scheduler = None,
    where: o.Where = None,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Learn to predict the target of a bag; the default, auto, tries several methods and blends what helps.

    Example: bagwise fit pixels.csv --bag site --target aod --out aod.bagwise
    """
    import bagwise as bw
    from bagwise.cli import streaming
    from bagwise.cli.fitting import account, build, held_out, jobs_for, keep
    from bagwise.cli.loading import load
    from bagwise.cli.speaking import as_typed, speaking, tell

    columns = o.columns(context)
    with speaking("fit", quiet=quiet) as voice, o.workers(scheduler if engine == "memory" else None):
        o.refuse_outputs(out, report, inputs=o.files(table))
        o.refuse_outputs(report, endings=(".html", ".htm"))
        if engine != "memory":
            streaming.refuse_options(context, *streaming.IN_MEMORY)
            method = streaming.method_for(context, method, voice)
            with streaming.executor(engine, scheduler, n_jobs) as who:
                bw.saving.try_saving(bw.method(method))
                scan = streaming.scanned(table, columns, where, voice)
                with voice.waiting(f"fitting {method}"):
                    model, training, told = streaming.fit(method, scan, who, seed=seed)
                training |= {"where": where}
        else:
            streaming.refuse_where(where)
            how = {"level": level if intervals else None, "time_budget": time_budget, "seed": seed}
            bw.saving.try_saving(build(method, n_jobs=n_jobs, **how))
            bags, y = load(table, columns, voice)
            n_jobs = n_jobs or (jobs_for(bags, method) if scheduler is None else None)
            model = build(method, n_jobs=n_jobs, **how)
            with voice.fitting(model, method):
                model.fit(bags, y)
            if bags.covariate_names is not None:
                columns["bag_features"] = list(bags.covariate_names)  # by name, also where "auto" found them
            training, told = bw.saving.describe_training(bags, y), account(model, method, y)
        training |= {"columns": columns, "table": o.stem(table)}
        keep(model, out, method=method, target=target, training=training)
        if report is not None:
            from bagwise.reports import write_model_report

            about = {"name": o.stem(table), "method": method, "command": as_typed(context)}
            with voice.waiting("writing the report"):
                write_model_report(report, model, bags, y, held_out=held_out(model, y), **about)
    if as_json:
        typer.echo(json.dumps(told | {"out": str(out), "report": None if report is None else str(report)}, indent=1))
        return
    if "summary" in told:
        voice.say(told["summary"] + "\n")
    tell(told["paragraph"])
    voice.say(f"Wrote {out}" + ("" if report is None else f" and {report}"))
