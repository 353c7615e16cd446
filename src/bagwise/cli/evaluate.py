"""Commands that score methods: `bagwise evaluate`, `learning-curve`, `report` of an evaluation, and `demo`.

`evaluate` compares methods on the same splits of a table of bags; repeating the command runs the missing cells.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from bagwise.cli import options as o
from bagwise.metrics import METRICS

HEADS = {
    "sd_folds": "±folds",
    "sd_repeats": "±repeats",
    "from_best": "vs best",
    "p_holm": "p Holm",
    "seconds": "s/cell",
    "memory_mb": "MB",
}
# The least important first. The method and its score are always shown.
LEFT_OUT_FIRST = ("memory_mb", "sd_repeats", "seconds", "rank", "p_holm", "sd_folds", "cells", "from_best")
MIN_WIDTH, GAP = 7, 1


def scoreboard(results, *, width: int):
    """Return the table of methods with scores, and the heads of the columns that do not fit.

    Returns
    -------
    table : of rich
    left_out : heads of the columns that do not fit
    """
    from rich.table import Table

    rows, metric = results.ranked(), results.metric
    names = {"method": "method", metric: metric, f"{metric}_sd_folds": "sd_folds", f"{metric}_sd_repeats": "sd_repeats"}
    names |= {name: name for name in ("from_best", "p_holm", "rank", "seconds", "memory_mb", "cells")}
    columns = {short: [row[name] for row in rows] for name, short in names.items()}
    if len(set(columns["cells"])) == 1:  # the number of cells where it is not the same for all
        del columns["cells"]
    texts = {name: list(map(_shown, values)) for name, values in columns.items() if any(v is not None for v in values)}
    widths = {name: max(MIN_WIDTH, *map(len, [HEADS.get(name, name), *some])) + GAP for name, some in texts.items()}
    shown = list(texts)
    for name in LEFT_OUT_FIRST:
        if name in shown and sum(widths[one] for one in shown) > width:
            shown.remove(name)
    fits = sum(widths[one] for one in shown) <= width
    table = Table(box=None, padding=(0, GAP, 0, 0))
    for name in shown:
        if name == "method":
            table.add_column(name, no_wrap=fits, overflow="fold")  # too long for a line, a name takes two
        else:
            table.add_column(HEADS.get(name, name), justify="right", no_wrap=True, min_width=MIN_WIDTH)
    for k, row in enumerate(rows):
        table.add_row(*[texts[name][k] for name in shown], style="bold green" if row["best"] else None)
    return table, [HEADS.get(name, name) for name in texts if name not in shown]


def _shown(value) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else str(value)


Selection = Literal["nested", "paper"]


@o.reading_a_table
def evaluate(
    context: typer.Context,
    table: o.Tables,
    method: o.Methods,
    out: Annotated[Path, typer.Option(help="Folder for the results, kept cell by cell. Example: --out runs/aod")],
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Default 10, or 1 with fixed folds. Example: --repeats 3")
    ] = None,
    folds: o.Folds = None,
    selection: Annotated[
        Selection, typer.Option(help="Chosen inside the training bags, or on the scoring folds.")
    ] = "nested",
    tune: Annotated[bool, typer.Option(help="Search the space on a method's card; costly. Example: --no-tune")] = True,
    metric: Annotated[Literal[*METRICS], typer.Option(help="What to choose and rank by.")] = "rmse",
    by: Annotated[
        str | None, typer.Option(help="Column to score separately by; not a feature. Example: --by site")
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
    """Compare methods by held-out bags. Killed at any moment? the same command again finishes the rest.

    Example: bagwise evaluate aod.csv --bag site --target aod --method aggregated --method instance-kme --out runs/aod
    """
    from bagwise.cli.console import exit_if_failed, interruptible, messages_of, result_console
    from bagwise.evaluation import evaluate as run

    columns = o.columns(context)
    bag, groups = columns.get("bag"), columns.get("groups")
    labels = {} if by is None or by == groups else {"label": by}
    with messages_of("evaluate", quiet=quiet) as messages, o.workers(scheduler):
        o.refuse_folder(out, resume=resume)
        if by is not None and by == bag:
            raise ValueError(f"--by {by} names the column of bag ids, and every bag is one label; name what bags share")
        bags, y, labelled = _load(o.sources(table), dict(columns), labels)
        bags = o.declare_folds(bags, folds)
        messages.show(f"{o.stem(table)}: {bags}.")
        # what a report needs to load the same bags again
        ignored = list(dict.fromkeys([*columns.get("ignore", []), *labels.values()]))
        origin = o.origin(context, table, columns | {"groups": groups, "ignore": ignored})
        found, verdicts = {}, {}
        for name, (some, known, own_labels) in _by_target(bags, y, labelled).items():
            place = out if name is None else out / name
            own = origin if name is None else origin | {"options": origin["options"] | {"target": name}}
            with interruptible(messages, place), messages.evaluation_progress(metric) as progress:
                found[place] = run(
                    some,
                    known,
                    method,
                    repeats=repeats,
                    folds=o.number_of_folds(folds),
                    selection=selection,
                    tune=tune,
                    metric=metric,
                    by=None if by is None else {by: some.groups if by == groups else own_labels["label"]},
                    out=place,
                    n_jobs=n_jobs,
                    device=device,
                    random_state=seed,
                    name=o.stem(table) if name is None else f"{o.stem(table)}, {name}",
                    origin=own,
                    progress=progress,
                    retry_failed=retry_failed,
                )
            verdicts[place] = best_verdict(found[place], some, known)
    if as_json:
        plain = {place.name: _plain(results, place, verdicts[place]) for place, results in found.items()}
        typer.echo(json.dumps(plain[out.name] if out in found else plain, indent=1))
    else:
        for place, results in found.items():
            left_out = print_scores(results, result_console(), verdicts[place])
            if left_out:
                messages.show(f"Too narrow for {', '.join(left_out)}; all is in {place}/summary.csv")
            if by is not None:
                _print_by(results)
            more = "" if by is None else ", scores_by.csv"
            messages.show(f"Wrote {place}/results.csv, summary.csv, comparisons.csv{more}")
    exit_if_failed(messages, *found.values())


def _by_target(bags, y, labelled: dict) -> dict:
    """Return bags, targets and labels by target (None for a single one), each with the bags that have a target."""
    if y.ndim == 1:
        return {None: (bags, y, labelled)}
    found = {}
    for name, column in zip(bags.target_name, y.T, strict=True):
        if "/" in name or name in (".", ".."):
            raise ValueError(f"the results of target {name!r} cannot have a folder of that name; rename the column")
        known = ~np.isnan(column)
        labels = {what: values[known] for what, values in labelled.items()}
        found[name] = (bags[known]._with(target_name=name), column[known], labels)
    return found


def _load(path, columns: dict, labels: dict):
    """Load bags, targets and further labels per bag: fixed fold or split, and what to score separately by."""
    from bagwise.io.columns import Roles
    from bagwise.io.load import load_labels

    apart = ("missing", "fill_values", "decimal", "time", "fold")
    how = {name: columns.pop(name) for name in apart if name in columns}
    bags, y, labels = load_labels(path, Roles(**columns, labels=labels), **how)
    o.refuse_no_target(y)
    return bags, y, labels


def best_verdict(results, bags, y) -> str | None:
    """Return the verdict on the best method, against the mean target and a forest on bag means in the same folds."""
    from bagwise.reports.findings import held_out
    from bagwise.reports.verdict import verdict_line, worth

    best = results.best_method()
    held = None if best is None else held_out(results, best)
    if held is None:
        return None
    return verdict_line(best, worth(held.with_baselines(bags, y)))


def print_scores(results, console, verdict: str | None = None) -> list[str]:
    """Print title, scores, verdict and notes; return the heads of the columns that the console is too narrow for."""
    from bagwise.cli.console import print_text

    table, left_out = scoreboard(results, width=console.width)
    print_text(results.title())
    console.print(table)
    if verdict is not None:
        print_text(verdict)
    for note in results.notes():
        print_text(f"Note: {note}")
    return left_out


BY = ("bags", "rmse", "mae", "bias", "r2", "spearman", "coverage90")
MOST_LABELS = 20


def _print_by(results) -> None:
    """Print the best method's scores by label, the largest RMSE first, and the notes on them."""
    from bagwise.cli.console import print_text
    from bagwise.io.table_output import as_text, from_rows

    best, name = results.best_method() or results.methods[0], results.by["name"]
    rows = [row for row in results.rows("scores_by") if row["method"] == best]
    rows.sort(key=lambda row: -row["rmse"])
    shown = [column for column in BY if any(row[column] is not None for row in rows)]
    table = from_rows([{name: row[name]} | {column: row[column] for column in shown} for row in rows[:MOST_LABELS]])
    if rows:
        many = f", the {MOST_LABELS} of {len(rows)} with the largest RMSE" if len(rows) > MOST_LABELS else ""
        print_text(f"\n{best} by {name}{many}:\n{as_text(table)}")
    for note in results.by_notes():
        print_text(f"Note: {note}")


def _plain(results, out: Path, verdict: str | None) -> dict:
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
        "failures": [dict(zip(("method", "repeat", "fold", "error"), one, strict=True)) for one in results.failures],
        "out": str(out),
    }


METHODS = ("instance-mean", "instance-median", "aggregated", "instance-kme")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the picture. Example: --out demo")] = Path("demo"),
    bags: Annotated[int, typer.Option(min=1, help="Number of simulated bags. Example: --bags 200")] = 200,
    instances: Annotated[int, typer.Option(min=1, help="Pixels in a bag. Example: --instances 50")] = 50,
    folds: Annotated[int, typer.Option(min=2, help="Folds of bags to score on. Example: --folds 5")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation and the methods. Example: --seed 0")] = 0,
) -> None:
    """Simulate aerosol bags, compare four methods on the same folds, and write a table and a picture."""
    import bagwise as bw
    from bagwise.cli.console import messages_of, result_console
    from bagwise.io.atomic_files import replace_file
    from bagwise.io.table_output import write_table

    console = result_console()
    with messages_of("demo") as messages:
        o.refuse_folder(out)
        data, y = bw.datasets.make_aerosol(bags, instances=instances, ragged=True, random_state=seed)
        console.print(f"Simulated satellite pixels around ground stations: {data}.")
        console.print(f"Target: aerosol optical depth, {y.min():.2f} to {y.max():.2f}, deviation {y.std():.3f}.\n")
        how = {"repeats": 1, "folds": folds, "random_state": seed, "tune": False, "n_jobs": -1, "name": "aerosol"}
        with messages.evaluation_progress("rmse") as progress:
            results = bw.evaluate(data, y, METHODS, **how, progress=progress)
        if results.failures:
            raise ValueError("{0}, fold {2}: {3}".format(*results.failures[0]))
        print_scores(results, console)
        held_out = {}
        for name in METHODS:
            found = {row["bag"]: row["prediction"] for row in results.rows("predictions", name)}
            held_out[name] = [found[bag] for bag in data.ids.tolist()]
        columns = {"bag": data.ids.tolist(), "instances": data.sizes.tolist(), "target": y.tolist()}
        write_table(out / "predictions.csv", columns | held_out)
        console.print(f"\nWrote {out / 'predictions.csv'}")
        from bagwise.reports.plots import demo_picture

        model = bw.method("instance-kme:single", random_state=seed, n_jobs=-1).fit(data, y)
        replace_file(out / "demo.png", lambda path: demo_picture(path, data, y, held_out["instance-kme"], model))
        console.print(f"Wrote {out / 'demo.png'}")


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
    out: Annotated[Path, typer.Option(help="Folder for the results, kept cell by cell. Example: --out runs/curve")],
    method: Annotated[
        str, typer.Option(callback=o.known_methods, help="A method, or method:preset. Example: --method instance-kme")
    ] = "aggregated",
    over: Annotated[
        Literal["bags", "instances"],
        typer.Option(help="More bags, or more instances per bag. Example: --over instances"),
    ] = "bags",
    size: Annotated[
        list[float] | None,
        typer.Option(help="A number of training bags, or a share of the instances of a bag. Example: --size 50"),
    ] = None,
    times: Annotated[float, typer.Option(min=0.1, help="How many times the data. Example: --times 3")] = 2.0,
    repeats: Annotated[int, typer.Option(min=1, help="More give a narrower interval. Example: --repeats 10")] = 5,
    folds: o.Folds = None,
    metric: Annotated[Literal[*METRICS], typer.Option(help="What is to improve.")] = "rmse",
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
    with messages_of("learning-curve", quiet=quiet) as messages, o.workers(scheduler):
        o.refuse_folder(out, resume=resume)
        bags, y = bw.load(o.sources(table), **columns)
        o.refuse_no_target(y)
        bags = o.declare_folds(bags, folds)
        messages.show(f"{o.stem(table)}: {bags}.")
        with interruptible(messages, out), messages.evaluation_progress(metric) as progress:
            curve = bw.learning_curve(
                bags,
                y,
                method,
                over=over,
                sizes=size or None,
                repeats=repeats,
                folds=o.number_of_folds(folds),
                metric=metric,
                level=level,
                out=out,
                n_jobs=n_jobs,
                device=device,
                random_state=seed,
                name=o.stem(table),
                origin=o.origin(context, table, columns),
                progress=progress,
                retry_failed=retry_failed,
            )
    if as_json:
        share, low, high = curve.gain(times)
        law = {name: float(getattr(curve.law, name)[0]) for name in ("floor", "slope", "exponent")}
        found = {"over": over, "metric": metric, "curve": to_rows(curve.as_dict()), "law": law, "times": times}
        found |= {"gain": share, "low": low, "high": high, "level": level, "sentence": curve.sentence(times)}
        typer.echo(json.dumps(found | {"notes": curve.notes(), "out": str(out)}, indent=1))
    else:
        print_text("\n".join([as_text(curve.as_dict()), curve.sentence(times), *curve.notes()]))
        messages.show(f"Wrote {out}/learning_curve.csv")
    exit_if_failed(messages, curve.results)


VERBS = (demo, evaluate, learning_curve, report)
