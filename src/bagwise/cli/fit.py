"""`bagwise fit`: fit a method on a table of bags, and write one model file."""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o
from bagwise.metrics import POINT_METRICS

SMALL = 200_000  # numbers in a table, below which starting processes takes longer than the fit
# Options that need the whole table in memory.
IN_MEMORY = ("time_budget", "metric", "report", "decimal", "keep", "targets", "time", "fold_column", "folds")
BUDGET = 480.0  # default seconds of auto; with loading and intervals the command then takes at most ten minutes
# Options only for auto, and the reason why they do not apply to other methods.
OF_AUTO = {
    "time_budget": "has no time limit",
    "metric": "minimises its own loss",
    "work": "is a single fit, so there are no finished fits to store",
}
# Options that set a parameter of some methods, and the names of these methods.
CHANGES = {"aggregate": "--method aggregate-gp or --method additive", "likelihood": "--method aggregate-gp"}
Likelihood = Literal["gaussian", "poisson", "binomial"] | None


@o.reading_a_table
def fit(
    context: typer.Context,
    table: o.Tables,
    out: Annotated[Path, o.option("The model file. Example: --out aod.bagwise")] = Path("model.bagwise"),
    method: o.Method = "auto",
    level: o.Level = 0.9,
    intervals: Annotated[bool, o.option("Whether predictions get intervals, which need a fit per fold.")] = True,
    scores: Annotated[
        Literal["absolute", "quantile"], o.option("quantile gives asymmetric intervals. Example: --scores quantile")
    ] = "absolute",
    time_budget: Annotated[
        float | None, o.option("Seconds that auto may take; default 480. Example: --time-budget 60", min=0.1)
    ] = None,
    metric: Annotated[
        Literal[*POINT_METRICS] | None, o.metric_option("Metric by which auto decides, rmse by default", POINT_METRICS)
    ] = None,
    folds: o.Folds = None,
    work: o.Work = None,
    report: Annotated[Path | None, o.option("HTML report of the model. Example: --report aod.html")] = None,
    aggregate: Annotated[
        Literal["mean", "sum"] | None,
        o.option("Whether targets are means or sums over instances, for aggregate-gp. Example: --aggregate sum"),
    ] = None,
    exposure: Annotated[
        o.Text, o.option("Column of exposures, such as people per pixel. Example: --exposure people")
    ] = None,
    likelihood: Annotated[
        Likelihood, o.option("Targets are numbers, counts or rates, for aggregate-gp. Example: --likelihood poisson")
    ] = None,
    n_jobs: o.Jobs = None,
    engine: o.Engine = "memory",
    scheduler: o.Scheduler = None,
    where: o.Where = None,
    seed: o.Seed = 0,
    paper: Annotated[bool, o.option("Also print a paragraph for the methods section of a paper.", "--paper")] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Fit a model of the target of a bag; the default, auto, compares several methods and blends those that help.

    Example: bagwise fit pixels.csv --bag site --target aod --out aod.bagwise
    """
    from bagwise.bags.frames import as_list
    from bagwise.cli.console import command_text, file_size, interruptible, messages_of, print_text

    workers = o.workers(scheduler if engine == "memory" else None)
    with messages_of("fit", quiet=quiet) as messages, interruptible(messages, work, noun="fit"), workers:
        o.refuse_outputs(out, report, inputs=o.files(table))
        o.refuse_outputs(report, endings=(".html", ".htm"))
        if work is not None:
            o.refuse_folder(work)
        if scores != "absolute" and not intervals:
            raise ValueError("--scores is for intervals, which --no-intervals leaves out. Give one of the two options.")
        fit_table = fit_in_memory if engine == "memory" else fit_in_chunks
        model, training, summary, data = fit_table(context, context.params, o.columns(context), messages)
        targets = ", ".join(as_list(training["columns"].get("target") or ())) or None
        save(model, out, method=method, target=targets, training=training | {"table": o.stem(table)})
        if report is not None:
            from bagwise.reports import write_model_report

            about: dict = {"name": o.stem(table), "method": method, "command": command_text(context)}
            with messages.spinner("writing the report"):
                write_model_report(report, model, *data, **about)
        from bagwise.reports.verdict import first_line

    if as_json:
        typer.echo(json.dumps(summary | {"out": str(out), "report": report and str(report)}, indent=1))
        return
    print_text(f"{first_line(summary)}\nWrote {out} ({file_size(out)})")
    if "summary" in summary:
        messages.show("\n" + summary["summary"])
    if paper:
        print_text("\n" + summary["paragraph"])
    if report is not None:
        messages.show(f"Wrote {report}")


def fit_in_memory(context: typer.Context, options: dict, columns: dict, messages) -> tuple:
    """Fit a method on the loaded table; return the model, the description of its data, a summary, and the data."""
    import bagwise as bw
    from bagwise.reports.verdict import summarise_fit

    o.refuse_where(options["where"])
    method, n_jobs = options["method"], options["n_jobs"]
    bw.model_files.try_saving(build(options))
    bags, y = load(options["table"], columns, messages)
    bags = o.declare_folds(bags, options["folds"])
    if n_jobs is None and options["scheduler"] is None:
        n_jobs = 1 if method != "auto" and bags.instances.size < SMALL else -1
    model = build(options | {"n_jobs": n_jobs}, n_targets=1 if y.ndim == 1 else y.shape[1])
    model = model if y.ndim == 1 else bw.MultiTarget(model)
    with messages.fit_progress(model, method):
        model.fit(bags, y)
    # `load` chooses these columns if the user does not name them.
    columns = columns | {"target": list(bags.target_name) if y.ndim == 2 else bags.target_name}
    if bags.covariate_names is not None:
        columns["bag_features"] = list(bags.covariate_names)
    training = bw.model_files.describe_training(bags, y) | {"columns": columns}
    return model, training, summarise_fit(model, method, bags, y), (bags, y)


def fit_in_chunks(context: typer.Context, options: dict, columns: dict, messages) -> tuple:
    """Fit a method on a table that is read chunk by chunk; return as `fit_in_memory` does, without the data."""
    import bagwise as bw
    from bagwise.reports.verdict import summarise_scores
    from bagwise.scale.scan_fit import fit_and_describe

    o.refuse_options(context, *IN_MEMORY)
    name, seed, where = options["method"], options["seed"], options["where"]
    with o.executor(options["engine"], options["scheduler"], options["n_jobs"]) as executor:
        method = with_options(bw.method(name, random_state=seed), options)
        bw.model_files.try_saving(method)
        method = method if any(options[option] for option in CHANGES) else name
        if options["intervals"] and any(o.is_typed(context, option) for option in ("level", "intervals", "scores")):
            # auto has fitted a model without each fold anyway, so "cv+" needs no further fits
            kind = "split" if options["scores"] == "absolute" and not is_auto(name) else "cv+"
            how = {"level": options["level"], "scores": options["scores"], "random_state": seed}
            method = bw.Intervals(method, kind=kind, **how)
        scan = o.open_scan(options["table"], columns, where, messages)
        with messages.pass_progress(f"fitting {name}") as progress:
            how = {"random_state": seed, "work": options["work"], "progress": progress}
            model, training, scores = fit_and_describe(scan, method, executor=executor, **how)
    inner = getattr(model, "method_", model)
    if hasattr(inner, "leaderboard"):
        errors = inner.scores_
        scores = {"rmse": errors["rmse"], "r2": errors["explained"], "rmse_of_mean": errors["mean_rmse"]}
    summary = summarise_scores(model, name, training["bags"], scores)
    columns = columns | ({"bag_features": list(scan.covariates)} if scan.covariates else {})
    return model, training | {"where": where, "columns": columns}, summary, None


def load(tables: list[str], columns: dict, messages):
    """Load bags and targets, and show the warnings of `bagwise check`."""
    import bagwise as bw
    from bagwise.bags.shared_rows import shares_rows
    from bagwise.io.table_files import read_files
    from bagwise.io.table_report import examine

    roles, how = o.split_roles({name: value for name, value in columns.items() if name != "targets"})
    labels = {name: how[name] for name in ("time", "fold") if name in how}
    frame = read_files(tables, replace(roles, labels=labels), decimal=how.get("decimal", "."))
    # Warnings of `load` are repeated by the findings below.
    with warnings.catch_warnings(action=None if frame is None else "ignore", category=UserWarning):
        bags, y = bw.load(tables if frame is None else frame, **columns)
    o.refuse_no_target(y)
    messages.show_data(o.stem(tables), bags)
    if frame is not None and not messages.quiet:
        notes = ("was left out", "were left out", " a feature")
        for finding in examine(frame, files=tables, **columns).findings:
            if finding.level == "warning" or any(text in finding.text for text in notes):
                messages.note(finding.text)
        if shared := shares_rows(bags):
            messages.note(shared.describe())
    return bags, y


def is_auto(name: str) -> bool:
    return name.partition(":")[0] == "auto"


def build(options: dict, *, n_targets: int = 1):
    """Return the unfitted method for the options, wrapped in `Intervals` unless --no-intervals is given."""
    import bagwise as bw

    name, how, more = options["method"], {"random_state": options["seed"], "n_jobs": options["n_jobs"]}, {}
    if is_auto(name):
        # --time-budget is for all targets together.
        budget = (options["time_budget"] or BUDGET) / n_targets
        more = {"time_budget": budget, "metric": options["metric"] or "rmse"}
        more |= {"work": str(options["work"])} if options["work"] is not None else {}
    for option, reason in OF_AUTO.items():
        if not is_auto(name) and options[option] is not None:
            text = f"--{option.replace('_', '-')} is only for the method auto: {name} {reason}. Leave it out."
            raise ValueError(text)
    method = with_options(bw.method(name, **how, **more), options)
    return (
        bw.Intervals(method, level=options["level"], scores=options["scores"], **how)
        if options["intervals"]
        else method
    )


def with_options(model, options: dict):
    """Set parameters of the model, and of its steps, from the options in `CHANGES`."""
    for option, methods in CHANGES.items():
        if options[option] is not None:
            parameters = [key for key in model.get_params() if key.split("__")[-1] == option]
            if not parameters:
                raise ValueError(f"--{option} has no effect on {options['method']}. Use it with {methods}.")
            model.set_params(**dict.fromkeys(parameters, options[option]))
    return model


def save(model, out: Path, **header) -> None:
    """Save the model; if its folder is missing or full after the fit, save it in a temporary folder."""
    import bagwise as bw

    try:
        bw.save_model(model, out, **header)
    except OSError as error:
        place = Path(tempfile.mkdtemp(prefix="bagwise-")) / out.name
        try:
            bw.save_model(model, place, **header)
        except OSError:
            raise error from None
        raise OSError(f"{error}. The fitted model was saved as {place} instead; move it from there.") from error
    except ValueError as error:
        raise ValueError(
            f"{error}. The fitted model is lost. Fit another method (`bagwise methods`), or fit in Python, where "
            "the model stays in memory and joblib.dump can store it."
        ) from error


VERBS = (fit,)
