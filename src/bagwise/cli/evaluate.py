"""Commands that score methods: `bagwise evaluate`, `learning-curve`, and `report` of an evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from bagwise.cli import options as o
from bagwise.metrics import METRICS


@o.reading_a_table
def evaluate(
    context: typer.Context,
    table: o.Tables,
    method: o.Methods = None,
    out: Annotated[Path | None, o.option("Folder that stores finished fits; default: runs/TABLE.")] = None,
    repeats: Annotated[
        int | None,
        o.option(
            "Repeats of the folds; default 10, 1 with fixed folds or without --method. Example: --repeats 3", min=1
        ),
    ] = None,
    folds: o.Folds = None,
    selection: Annotated[
        Literal["nested", "paper"],
        o.option("Choose settings inside the training bags, or on the scoring folds (optimistic)."),
    ] = "nested",
    tune: Annotated[bool, o.option("Search the settings on the card of a method; takes several times as long.")] = True,
    metric: Annotated[
        Literal[*METRICS], o.metric_option("Metric by which settings are chosen and methods ranked", METRICS)
    ] = "rmse",
    level: o.Level = 0.9,
    by: Annotated[
        o.Text, o.option("Column whose values are scored separately; not a feature. Example: --by site")
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
        method = [name for name, card in o.read_cards().items() if card["question"] == "Recommended"]
        repeats = repeats or 1
    with messages_of("evaluate", quiet=quiet) as messages, o.workers(scheduler):
        o.refuse_folder(out, resume=resume)
        if by is not None and by == bag:
            raise ValueError(f"--by {by} is the column of bag ids. Name a column whose values several bags share.")
        roles, how = o.split_roles(columns, labels=labels)
        bags, y, labels_by_column = load_labels(table, roles, **how)
        o.refuse_no_target(y)
        bags = o.declare_folds(bags, folds)
        messages.show_data(o.stem(table), bags)
        # The report loads the bags again and must ignore the same columns.
        ignored = list(dict.fromkeys([*columns.get("ignore", []), *labels.values()]))
        how = o.run_keywords(context, table, columns | {"groups": groups, "ignore": ignored})
        how |= {"repeats": repeats, "selection": selection, "tune": tune}
        runs, verdicts = {}, {}
        for name, (part, target, part_labels) in _by_target(bags, y, labels_by_column).items():
            folder, title, origin = out, o.stem(table), how["origin"]
            if name is not None:
                folder, title = out / name, f"{title}, {name}"
                origin = origin | {"options": origin["options"] | {"target": name}}
            scored_by = None if by is None else {by: part.groups if by == groups else part_labels["label"]}
            with interruptible(messages, folder), messages.evaluation_progress(metric) as progress:
                about = {"by": scored_by, "out": folder, "name": title, "origin": origin, "progress": progress}
                runs[folder] = run(part, target, method, **how | about)
            verdicts[folder] = best_verdict(runs[folder], part, target)
    if as_json:
        plain = {folder.name: _as_json(results, folder, verdicts[folder]) for folder, results in runs.items()}
        typer.echo(json.dumps(plain[out.name] if out in runs else plain, indent=1))
    else:
        console = Terminal()
        for folder, results in runs.items():
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
    failure = ("method", "repeat", "fold", "error")
    return {
        "data": results.record["data"]["name"],
        "selection": results.title(),
        "metric": results.metric,
        "summary": results.rows("summary"),
        "comparisons": results.rows("compare"),
        "scores_by": None if results.by is None else results.rows("scores_by"),
        "verdict": verdict,
        "notes": results.notes() + ([] if results.by is None else results.by_notes()),
        "failures": [dict(zip(failure, values, strict=True)) for values in results.failures],
        "out": str(out),
    }


def report(
    run: Annotated[Path, typer.Argument(help="Folder of an evaluation, finished or not. Example: runs/aod")],
    out: Annotated[Path | None, o.option("File to write. Default RUN/report.html. Example: aod.html")] = None,
    data: Annotated[Path | None, o.option("Where the table is now, if it moved. Example: aod.csv")] = None,
    explorer: Annotated[bool, o.option("Fit the best method on all bags, to show instances.")] = True,
    quiet: o.Quiet = False,
) -> None:
    """Write the results of an evaluation as one HTML file: tables, plots and a bag explorer.

    Example: bagwise report runs/aod --out aod.html
    """
    from bagwise.cli.console import file_size, messages_of

    with messages_of("report", quiet=quiet) as messages:
        from bagwise.reports import write_report

        o.refuse_outputs(out or (run / "report.html" if run.is_dir() else None), endings=(".html", ".htm"))
        with messages.spinner("Writing the report"):
            path = write_report(run, out or run / "report.html", data=data, explore=explorer, tell=messages.show)
    messages.show(f"Wrote {path} ({file_size(path)})")


def check_times(times: float) -> float:
    """Refuse a factor that is no growth."""
    if not times > 1:
        raise typer.BadParameter(f"{times:g} is no growth. Give a factor above 1, such as --times 2")
    return times


@o.reading_a_table
def learning_curve(
    context: typer.Context,
    table: o.Tables,
    method: o.Method = "aggregated",
    out: Annotated[Path | None, o.option("Folder that stores finished fits; default: runs/TABLE-curve.")] = None,
    over: Annotated[
        Literal["bags", "instances"], o.option("What grows: bags, or instances per bag. Example: --over instances")
    ] = "bags",
    size: Annotated[
        list[float] | None,
        o.option("Number of training bags, or share of instances; give at least four. Example: --size 50"),
    ] = None,
    times: Annotated[float, o.option("Factor of growth, above 1. Example: --times 3", callback=check_times)] = 2.0,
    repeats: Annotated[int, o.option("Repeats of the folds; more give a narrower interval.", min=1)] = 5,
    folds: o.Folds = None,
    metric: Annotated[Literal[*METRICS], o.metric_option("The metric of the curve", METRICS)] = "rmse",
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
        bags, y = bw.load(table, **columns)
        o.refuse_no_target(y)
        bags = o.declare_folds(bags, folds)
        messages.show_data(o.stem(table), bags)
        how = {"over": over, "sizes": size or None, "repeats": repeats, "out": out, "name": o.stem(table)}
        how |= o.run_keywords(context, table, columns)
        with interruptible(messages, out), messages.evaluation_progress(metric) as progress:
            curve = bw.learning_curve(bags, y, method, progress=progress, **how)
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
