"""`bagwise fit`: fit a method on a table of bags, and write one model file."""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from bagwise.cli import options as o
from bagwise.metrics import METRICS, POINT_METRICS

SMALL = 200_000  # numbers in a table, below which starting processes takes longer than the fit
IN_MEMORY = (
    "time_budget",
    "metric",
    "report",
    "decimal",
    "keep",
    "targets",
    "time",
    "fold_column",
    "folds",
)  # options that need the whole table
BUDGET = 480.0  # seconds of auto, so that the whole command takes ten minutes


@o.reading_a_table
def fit(
    context: typer.Context,
    table: o.Tables,
    out: Annotated[Path, typer.Option(help="The model file. Example: --out aod.bagwise")] = Path("model.bagwise"),
    method: o.Method = "auto",
    level: o.Level = 0.9,
    intervals: Annotated[
        bool, typer.Option(help="Whether predictions get intervals; they cost a fit per fold.")
    ] = True,
    scores: Annotated[
        Literal["absolute", "quantile"],
        typer.Option(help="quantile gives asymmetric intervals. Example: --scores quantile"),
    ] = "absolute",
    time_budget: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds that auto may take; default 480. Example: --time-budget 60")
    ] = None,
    metric: Annotated[
        Literal[*POINT_METRICS] | None, typer.Option(help="The metric by which auto decides; default rmse.")
    ] = None,
    folds: o.Folds = None,
    work: o.Work = None,
    report: Annotated[Path | None, typer.Option(help="A page about the model. Example: --report aod.html")] = None,
    aggregate: o.Aggregate = None,
    exposure: o.Exposure = None,
    likelihood: o.Likelihood = None,
    n_jobs: o.Jobs = None,
    engine: o.Engine = "memory",
    scheduler: o.Scheduler = None,
    where: o.Where = None,
    seed: o.Seed = 0,
    paper: Annotated[bool, typer.Option("--paper", help="Print a paragraph for the methods section, too.")] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Fit a model of the target of a bag; the default, auto, compares several methods and blends those that help.

    Example: bagwise fit pixels.csv --bag site --target aod --out aod.bagwise
    """
    from bagwise.cli.console import command_text, interruptible, messages_of, print_text

    workers = o.workers(scheduler if engine == "memory" else None)
    with messages_of("fit", quiet=quiet) as messages, interruptible(messages, work, noun="fit"), workers:
        o.refuse_outputs(out, report, inputs=o.files(table))
        o.refuse_outputs(report, endings=(".html", ".htm"))
        if work is not None:
            o.refuse_folder(work)
        if scores != "absolute" and not intervals:
            raise ValueError("--scores is for intervals, and --no-intervals leaves them out; give one of them")
        fit_table = fit_in_memory if engine == "memory" else fit_in_chunks
        found = fit_table(context, context.params, o.columns(context), messages)
        targets = ", ".join(o.as_names(found.training["columns"].get("target"))) or None
        save(found.model, out, method=method, target=targets, training=found.training | {"table": o.stem(table)})
        if report is not None:
            from bagwise.reports import write_model_report

            about: dict = {"name": o.stem(table), "method": method, "command": command_text(context)}
            about |= {"held_out": held_out(found.model, found.y)}
            with messages.spinner("writing the report"):
                write_model_report(report, found.model, found.bags, found.y, **about)
    if as_json:
        typer.echo(json.dumps(found.summary | {"out": str(out), "report": report and str(report)}, indent=1))
        return
    print_text(first_line(found.summary, out))
    if "summary" in found.summary:
        messages.show("\n" + found.summary["summary"])
    if paper:
        print_text("\n" + found.summary["paragraph"])
    if report is not None:
        messages.show(f"Wrote {report}")


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the summary of its training data for the file, that of the fit for users, and data in memory."""

    model: Any
    training: dict
    summary: dict
    bags: Any = None
    y: Any = None


def fit_in_memory(context: typer.Context, options: dict, columns: dict, messages) -> Fitted:
    """Fit a method on the loaded table."""
    import bagwise as bw

    o.refuse_where(options["where"])
    method, n_jobs, intervals = options["method"], options["n_jobs"], options["intervals"]
    how = {name: options[name] for name in ("scores", "metric", "work", "time_budget", "seed", *OPTIONS)}
    how |= {"level": options["level"] if intervals else None}
    bw.model_files.try_saving(build(method, n_jobs=n_jobs, **how))
    bags, y = load(options["table"], columns, messages)
    bags = o.declare_folds(bags, options["folds"])
    if n_jobs is None and options["scheduler"] is None:
        n_jobs = 1 if method != "auto" and bags.instances.size < SMALL else -1
    if y.ndim == 2 and is_auto(method):  # the budget is for all targets together
        how["time_budget"] = (how["time_budget"] or BUDGET) / y.shape[1]
    model = build(method, n_jobs=n_jobs, **how)
    model = model if y.ndim == 1 else bw.MultiTarget(model)
    with messages.fit_progress(model, method):
        model.fit(bags, y)
    if not intervals:
        for one in getattr(model, "estimators_", [model]):
            getattr(one, "forget_folds", lambda: None)()
    # By name, also where they were not given by name.
    columns = columns | {"target": list(bags.target_name) if y.ndim == 2 else bags.target_name}
    if bags.covariate_names is not None:
        columns["bag_features"] = list(bags.covariate_names)
    training = bw.model_files.describe_training(bags, y) | {"columns": columns}
    return Fitted(model, training, summarise(model, method, bags, y), bags, y)


def fit_in_chunks(context: typer.Context, options: dict, columns: dict, messages) -> Fitted:
    """Fit a method on a table that is read chunk by chunk."""
    import bagwise as bw

    o.refuse_options(context, *IN_MEMORY)
    method, seed, where = options["method"], options["seed"], options["where"]
    with o.executor(options["engine"], options["scheduler"], options["n_jobs"]) as executor:
        changes = {name: options[name] for name in OPTIONS}
        unfitted = with_options(bw.method(method, random_state=seed), method, changes)
        bw.model_files.try_saving(unfitted)
        unfitted = with_intervals(context, unfitted if any(changes.values()) else method, seed=seed)
        scan = o.open_scan(options["table"], columns, where, messages)
        with messages.pass_progress(f"fitting {method}") as progress:
            how = {"seed": seed, "work": options["work"], "progress": progress}
            model, training, summary = fit_scan(unfitted, method, scan, executor, **how)
    columns = columns | ({"bag_features": list(scan.covariates)} if scan.covariates else {})
    return Fitted(model, training | {"where": where, "columns": columns}, summary)


def is_auto(method) -> bool:
    return isinstance(method, str) and method.partition(":")[0] == "auto"


def with_intervals(context: typer.Context, method, *, seed: int):
    """Wrap the method in `Intervals` if an option of theirs was given; a scan fits them on fewer bags."""
    from bagwise.intervals import Intervals

    given = [name for name in ("level", "intervals", "scores") if o.given(context, name)]
    if not context.params["intervals"] or not given:
        return method
    # auto keeps models without each fold, so "cv+" costs nothing
    kind = "split" if context.params["scores"] == "absolute" and not is_auto(method) else "cv+"
    options = {name: context.params[name] for name in ("level", "scores")}
    return Intervals(method, kind=kind, **options, random_state=seed)


def fit_scan(unfitted, name: str, scan, executor, *, seed: int, work: Path | None, progress) -> tuple:
    """Return the model, the description of its training data, and the summary of the fit."""
    from bagwise.scale.scan_fit import fit_and_describe

    how = {"executor": executor, "random_state": seed, "work": work, "progress": progress}
    model, training, scores = fit_and_describe(scan, unfitted, **how)
    inner = getattr(model, "method_", model)
    if hasattr(inner, "leaderboard"):
        own = inner.scores_
        scores = {"rmse": own["rmse"], "r2": own["explained"], "rmse_of_mean": own["mean_rmse"]}
        summary = {"method": name, "bags": training["bags"], "held_out": scores, "paragraph": inner.paragraph()}
        return model, training, with_interval_text(summary, model) | {"summary": inner.summary()}
    summary = summarise_scores(name, training["bags"], scores)
    return model, training, with_interval_text(summary, model)


def load(tables: list[str], columns: dict, messages):
    """Return bags and targets, and show the warnings of `bagwise check`; files are read once, and bags built once."""
    import bagwise as bw
    from bagwise.bags.shared_rows import shares_rows
    from bagwise.io.columns import Roles
    from bagwise.io.table_report import examine
    from bagwise.io.tables import read_files

    apart = ("missing", "fill_values", "decimal", "targets", "time", "fold")
    labels = {name: columns[name] for name in ("time", "fold") if name in columns}
    named = {name: value for name, value in columns.items() if name not in apart}
    frame = read_files(o.sources(tables), Roles(**named, labels=labels), decimal=columns.get("decimal", "."))
    source = o.sources(tables) if frame is None else frame
    # The findings below include what `load` warns of in a frame.
    with warnings.catch_warnings(action=None if frame is None else "ignore", category=UserWarning):
        bags, y = bw.load(source, **columns)
    o.refuse_no_target(y)
    messages.show(f"{o.stem(tables)}: {bags}.")
    if frame is not None and not messages.quiet:
        for finding in examine(frame, files=o.sources(tables), **columns).findings:
            if finding.level == "warning" or any(text in finding.text for text in ("not numeric", " a feature")):
                messages.show("Note: " + finding.text, style="yellow")
        if shared := shares_rows(bags):
            messages.show("Note: " + shared.describe(), style="yellow")
    return bags, y


def build(
    name: str,
    *,
    level: float | None,
    time_budget: float | None,
    n_jobs: int | None,
    seed: int,
    scores: str = "absolute",
    metric: str | None = None,
    work: Path | None = None,
    **changes: str | None,
):
    """Return an unfitted method by its name (or name:preset), with intervals unless the level is None."""
    import bagwise as bw

    for given, text in (
        (time_budget, f"--time-budget is for the method auto, and {name} has no time limit; leave it out"),
        (metric, f"--metric is for the method auto, and {name} has a loss of its own; leave it out"),
        (work, f"--work keeps the finished fits of the method auto, and {name} is a single fit; leave it out"),
    ):
        if given is not None and not is_auto(name):
            raise ValueError(text)
    options = {"time_budget": time_budget or BUDGET, "metric": metric or "rmse"} if is_auto(name) else {}
    options |= {} if work is None else {"work": str(work)}
    model = with_options(bw.method(name, random_state=seed, n_jobs=n_jobs, **options), name, changes)
    if level is None:
        return model
    return bw.Intervals(model, level=level, scores=scores, random_state=seed, n_jobs=n_jobs)


# Options that change a parameter of some methods -> the methods.
OPTIONS = {"aggregate": "--method aggregate-gp or --method additive", "likelihood": "--method aggregate-gp"}


def with_options(model, name: str, changes: dict[str, str | None]):
    """Set the parameters that were given as options, wherever the model has a parameter of that name."""
    for option, value in changes.items():
        if value is not None:
            parameters = [key for key in model.get_params() if key.split("__")[-1] == option]
            if not parameters:
                raise ValueError(f"--{option} means nothing to {name}; use it with {OPTIONS[option]}")
            model.set_params(**dict.fromkeys(parameters, value))
    return model


def save(model, out: Path, **header) -> None:
    """Save the model; if its folder is gone or full after a long fit, save it in the temporary folder."""
    import bagwise as bw

    try:
        bw.save_model(model, out, **header)
    except OSError as error:
        place = Path(tempfile.mkdtemp(prefix="bagwise-")) / out.name
        try:
            bw.save_model(model, place, **header)
        except OSError:
            raise error from None
        raise OSError(f"{error}; the fitted model is in {place} instead: move it from there") from error
    except ValueError as error:
        raise ValueError(
            f"{error}. The fit is lost: fit another method (`bagwise methods`), or fit in Python, where the model "
            "stays in memory and joblib.dump stores it for your own use"
        ) from error


_SCORES = {
    "absolute": "scaled by bag size and spread",
    "quantile": "around quantiles of the error (Romano et al. 2019) given size, spread, prediction and feature means",
}


def held_out(model, y: np.ndarray) -> np.ndarray | None:
    """Return predictions of the training bags by models fitted without them, NaN for bags that no fold holds out.

    None if there are no such models.
    """
    if y.ndim == 2:
        predictions = np.full(y.shape, np.nan)
        for k, (one, column) in enumerate(zip(model.estimators_, y.T, strict=True)):
            values = held_out(one, column[~np.isnan(column)])
            if values is None:
                return None
            predictions[~np.isnan(column), k] = values
        return predictions
    if hasattr(model, "residuals_") and hasattr(model, "calibration_"):
        predictions = np.full(len(y), np.nan)
        predictions[model.calibration_] = y[model.calibration_] - model.residuals_
        return predictions
    return getattr(model, "held_out_", None)


def summarise(model, name: str, bags, y: np.ndarray) -> dict:
    """Return held-out scores and the verdict, a paragraph for a paper, and the method's own summary if it has one."""
    from bagwise.metrics import mae, rmse

    if y.ndim == 2:  # a summary per target, and their texts below each other
        known = ~np.isnan(y)
        parts = zip(model.target_names_, model.estimators_, y.T, known.T, strict=True)
        targets = {target: summarise(one, name, bags[here], column[here]) for target, one, column, here in parts}
        texts = {}
        for text in ("paragraph", "summary"):
            titled = [f"{target}: {summary[text]}" for target, summary in targets.items() if text in summary]
            texts |= {text: "\n\n".join(titled)} if titled else {}
        return {"method": name, "bags": len(y), "targets": targets} | texts
    from bagwise.reports.verdict import FOREST, MEAN, held_out_of, judgement, worth

    inner = getattr(model, "method_", model)
    held = held_out_of(name, model, bags, y, held_out=held_out(model, y)).with_baselines(bags, y)
    if held.in_sample:
        found = summarise_scores(name, len(y), None)
    else:
        error, of_mean = (rmse(held.target, column) for column in (held.prediction, held.baselines[MEAN]))
        r2 = 1 - (error / of_mean) ** 2 if of_mean > 0 else 0.0
        scores = {"rmse": error, "mae": mae(held.target, held.prediction), "r2": r2, "rmse_of_mean": of_mean}
        judged, metric = worth(held), held.metric
        errors = {f"{metric}_of_mean": judged.mean_error, f"{metric}_of_forest": judged.baseline_errors[FOREST]}
        found = summarise_scores(name, len(y), scores | {"metric": metric, metric: judged.error} | errors)
        found["verdict"] = judgement(judged)["badge"]
    if hasattr(inner, "paragraph"):
        found["paragraph"] = inner.paragraph()
    found = with_interval_text(found, model)
    return found | ({"summary": inner.summary()} if hasattr(inner, "summary") else {})


def first_line(summary: dict, out: Path) -> str:
    """Return the typical error, the verdict, the errors of the baselines, the level of intervals, and the file.

    Examples
    --------
    >>> scores = {"rmse": 2.084, "rmse_of_mean": 1.93, "rmse_of_forest": 1.87}
    >>> line = first_line({"held_out": scores, "verdict": "Worse than the mean", "level": None}, Path("a.bagwise"))
    >>> line.partition("; ")[0], line.partition("; ")[2][-20:]
    ('Typical error 2.084, worse than the mean (RMSE of held-out bags', 'intervals: a.bagwise')
    """
    if "targets" in summary:
        errors = [f"{target}: {_typical(one)}" for target, one in summary["targets"].items()]
        return "\n".join([*errors, f"All in {out}"])
    return f"{_typical(summary)}: {out}"


def _typical(summary: dict) -> str:
    level = summary.get("level")
    intervals = "no intervals" if level is None else f"intervals at level {level:g}"
    if summary["held_out"] is None:
        return f"Error not known, as no bag was held out, {intervals}"
    scores = summary["held_out"]
    metric = scores.get("metric", "rmse")
    error, mean = scores[metric], scores[f"{metric}_of_mean"]
    held_out = f"{METRICS[metric].label} of held-out bags; {mean:.4g} for the mean of the targets"
    if f"{metric}_of_forest" in scores:
        held_out += f", {scores[f'{metric}_of_forest']:.4g} for bag means + forest"
    verdict = f", {summary['verdict'][0].lower()}{summary['verdict'][1:]}" if "verdict" in summary else ""
    return f"Typical error {error:.4g}{verdict} ({held_out}), {intervals}"


def with_interval_text(summary: dict, model) -> dict:
    """Add the level of the intervals (None without intervals) and a sentence on them to a summary."""
    if getattr(model, "lacking_", "no intervals at all") is not None:
        return summary | {"level": None}
    text = (
        f" Prediction intervals at level {model.level:g} are conformal: {model.kind} (Barber et al. 2021) over folds "
        f"of bags, {_SCORES[model.scores]}."
    )
    return summary | {"level": model.level, "paragraph": summary["paragraph"] + text}


def summarise_scores(name: str, n_bags: int, scores: dict | None) -> dict:
    """Return a summary made of the errors on held-out bags alone."""
    from bagwise import __version__
    from bagwise.methods.catalogue import find

    text = f"The method {name} ({find(name)[0].cites}) was fitted on {n_bags:,} bags with bagwise {__version__}."
    if scores is not None:
        text += (
            f" Bags held out in turn were predicted with a root mean squared error of {scores['rmse']:.4g} "
            f"(R² {scores['r2']:.2f}), where the mean of the targets has {scores['rmse_of_mean']:.4g}."
        )
    return {"method": name, "bags": n_bags, "held_out": scores, "paragraph": text}


VERBS = (fit,)
