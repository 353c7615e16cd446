"""Commands that score methods: `bagwise evaluate`, `learning-curve`, and `report` of an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from bagwise.cli import options as o
from bagwise.metrics import METRICS

Selection = Literal["nested", "paper"]


@o.reading_a_table
def evaluate(
    context: typer.Context,
    table: o.Tables,
    method: o.Methods = None,
    out: Annotated[Path | None, typer.Option(help="Folder that stores finished fits; default: runs/TABLE.")] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Repetitions of the folds; default 10, 1 with fixed folds or without --method. Example: --repeats 3",
        ),
    ] = None,
    folds: o.Folds = None,
    selection: Annotated[
        Selection, typer.Option(help="Choose settings inside the training bags, or on the scoring folds (optimistic).")
    ] = "nested",
    tune: Annotated[
        bool, typer.Option(help="Search the settings that the card of a method lists; takes several times as long.")
    ] = True,
    metric: Annotated[
        Literal[*METRICS], typer.Option(help="The metric by which settings are chosen and methods ranked.")
    ] = "rmse",
    by: Annotated[
        str | None, typer.Option(help="Column whose values are scored separately; not a feature. Example: --by site")
    ] = None,
    n_jobs: o.Jobs = None,
    scheduler: o.Scheduler = None,
    device: o.Device = None,
    seed: o.Seed = 0,
    retry_failed: o.RetryFailed = False,
    resume: o.Resume = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare methods on held-out bags; by default auto, instance-kme and input-kme.

    Finished fits are stored, so the same command continues an interrupted one.

    Example: bagwise evaluate aod.csv --bag site --target aod --methods aggregated,instance-kme --out runs/aod
    """
    from bagwise.cli.console import Terminal, exit_if_failed, interruptible, messages_of, print_text
    from bagwise.evaluation import evaluate as run
    from bagwise.io.load import load_labels
    from bagwise.reports.findings import best_verdict

    columns = o.columns(context)
    bag, groups = columns.get("bag"), columns.get("groups")
    labels = {} if by is None or by == groups else {"label": by}
    out = out or Path("runs") / o.stem(table)
    if not method:
        method, repeats = (
            [name for name, card in o.read_cards().items() if card["question"] == "Recommended"],
            repeats or 1,
        )
    with messages_of("evaluate", quiet=quiet) as messages, o.workers(scheduler):
        o.refuse_folder(out, resume=resume)
        if by is not None and by == bag:
            raise ValueError(f"--by {by} is the column of bag ids. Name a column whose values several bags share.")
        roles, how = o.split_roles(columns, labels=labels)
        bags, y, labels_by_column = load_labels(o.sources(table), roles, **how)
        o.refuse_no_target(y)
        bags = o.declare_folds(bags, folds)
        messages.show_data(o.stem(table), bags)
        # The report loads the bags again and must ignore the same columns.
        ignored = list(dict.fromkeys([*columns.get("ignore", []), *labels.values()]))
        origin = o.origin(context, table, columns | {"groups": groups, "ignore": ignored})
        runs, verdicts = {}, {}
        for name, (part, target, part_labels) in _by_target(bags, y, labels_by_column).items():
            folder = out if name is None else out / name
            options = origin["options"] | ({} if name is None else {"target": name})
            with interruptible(messages, folder), messages.evaluation_progress(metric) as progress:
                runs[folder] = run(
                    part,
                    target,
                    method,
                    repeats=repeats,
                    selection=selection,
                    tune=tune,
                    by=None if by is None else {by: part.groups if by == groups else part_labels["label"]},
                    out=folder,
                    name=o.stem(table) if name is None else f"{o.stem(table)}, {name}",
                    origin=origin | {"options": options},
                    progress=progress,
                    **o.run_keywords(context),
                )
            verdicts[folder] = best_verdict(runs[folder], part, target)
    if as_json:
        plain = {folder.name: _as_json(results, folder, verdicts[folder]) for folder, results in runs.items()}
        typer.echo(json.dumps(plain[out.name] if out in runs else plain, indent=1))
    else:
        for folder, results in runs.items():
            console = Terminal()
            print_text(results.to_text(console.width if console.is_terminal else None))
            if verdicts[folder] is not None:
                print_text(verdicts[folder])
            if by is not None:
                print_text("\n" + results.by_to_text())
            more = "" if by is None else ", scores_by.csv"
            messages.show(f"Wrote {folder}/results.csv, summary.csv (all metrics), comparisons.csv{more}")
    exit_if_failed(messages, *runs.values())


def _by_target(bags, y, labels: dict) -> dict:
    """Return the bags, targets and labels of each target, without bags whose target is missing; its key is its name."""
    if y.ndim == 1:
        return {None: (bags, y, labels)}
    parts = {}
    for name, column in zip(bags.target_name, y.T, strict=True):
        if "/" in name or name in (".", ".."):
            raise ValueError(f"Target {name!r} cannot be the name of a folder for its results. Rename the column.")
        has_target = ~np.isnan(column)
        part_labels = {label: values[has_target] for label, values in labels.items()}
        parts[name] = (bags[has_target]._with(target_name=name), column[has_target], part_labels)
    return parts


def _as_json(results, out: Path, verdict: str | None) -> dict:
    """Return all tables and notes as plain values for JSON; NaN is null."""
    return {
        "data": results.record["data"]["name"],
        "selection": results.title(),
        "metric": results.metric,
        "summary": results.rows("summary"),
        "comparisons": results.rows("compare"),
        "scores_by": None if results.by is None else results.rows("scores_by"),
        "verdict": verdict,
        "notes": results.notes() + ([] if results.by is None else results.by_notes()),
        "failures": [
            dict(zip(("method", "repeat", "fold", "error"), failure, strict=True)) for failure in results.failures
        ],
        "out": str(out),
    }


def report(
    run: Annotated[Path, typer.Argument(help="Folder of an evaluation, finished or not. Example: runs/aod")],
    out: Annotated[Path | None, typer.Option(help="File to write. Default RUN/report.html. Example: aod.html")] = None,
    data: Annotated[Path | None, typer.Option(help="Where the table is now, if it moved. Example: aod.csv")] = None,
    explorer: Annotated[
        bool, typer.Option(help="Fit the best method on all bags, to show instances. Example: --no-explorer")
    ] = True,
    quiet: Annotated[bool, typer.Option(help="No progress and no messages.")] = False,
) -> None:
    """Write the results of an evaluation as one HTML file: tables, plots and a bag explorer.

    Example: bagwise report runs/aod --out aod.html
    """
    from bagwise.cli.console import messages_of

    with messages_of("report", quiet=quiet) as messages:
        from bagwise.reports import write_report

        o.refuse_outputs(out or (run / "report.html" if run.is_dir() else None), endings=(".html", ".htm"))
        with messages.spinner("Writing the report"):
            path = write_report(run, out or run / "report.html", data=data, explore=explorer, tell=messages.show)
    messages.show(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")


@o.reading_a_table
def learning_curve(
    context: typer.Context,
    table: o.Tables,
    method: o.Method = "aggregated",
    out: Annotated[
        Path | None, typer.Option(help="Folder that stores finished fits; default: runs/TABLE-curve.")
    ] = None,
    over: Annotated[
        Literal["bags", "instances"],
        typer.Option(help="Whether the number of bags or of instances per bag increases. Example: --over instances"),
    ] = "bags",
    size: Annotated[
        list[float] | None,
        typer.Option(help="Number of training bags, or share of instances; give at least four. Example: --size 50"),
    ] = None,
    times: Annotated[
        float, typer.Option(min=0.1, help="Factor by which the data would grow, for the conclusion. Example: --times 3")
    ] = 2.0,
    repeats: Annotated[
        int, typer.Option(min=1, help="Repetitions of the folds; more give a narrower interval. Example: --repeats 10")
    ] = 5,
    folds: o.Folds = None,
    metric: Annotated[Literal[*METRICS], typer.Option(help="The metric of the curve.")] = "rmse",
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
    """Estimate how far the error would fall with twice as many bags, or twice as many instances per bag.

    Example: bagwise learning-curve aod.csv --bag site --target aod --method instance-kme --out runs/curve
    """
    import bagwise as bw
    from bagwise.cli.console import exit_if_failed, interruptible, messages_of, print_text
    from bagwise.io.table_output import as_text, to_rows

    columns = o.columns(context)
    out = out or Path("runs") / f"{o.stem(table)}-curve"
    with messages_of("learning-curve", quiet=quiet) as messages, o.workers(scheduler):
        o.refuse_folder(out, resume=resume)
        bags, y = bw.load(o.sources(table), **columns)
        o.refuse_no_target(y)
        bags = o.declare_folds(bags, folds)
        messages.show_data(o.stem(table), bags)
        with interruptible(messages, out), messages.evaluation_progress(metric) as progress:
            curve = bw.learning_curve(
                bags,
                y,
                method,
                over=over,
                sizes=size or None,
                repeats=repeats,
                level=level,
                out=out,
                name=o.stem(table),
                origin=o.origin(context, table, columns),
                progress=progress,
                **o.run_keywords(context),
            )
    if as_json:
        share, low, high = curve.gain(times)
        law = {name: float(getattr(curve.law, name)[0]) for name in ("floor", "slope", "exponent")}
        plain = {"over": over, "metric": metric, "curve": to_rows(curve.as_dict()), "law": law, "times": times}
        plain |= {"gain": share, "low": low, "high": high, "level": level, "sentence": curve.sentence(times)}
        typer.echo(json.dumps(plain | {"notes": curve.notes(), "out": str(out)}, indent=1))
    else:
        print_text("\n".join([as_text(curve.as_dict()), curve.sentence(times), *curve.notes()]))
        messages.show(f"Wrote {out}/learning_curve.csv")
    exit_if_failed(messages, curve.results)


VERBS = (evaluate, learning_curve, report)
