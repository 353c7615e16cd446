"""`bagwise fit`: learn from a table of bags, and leave one model file.

Reading a table to learn from, and saying what looks wrong with it.

What `bagwise fit` builds, and what it says of the result.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bagwise.cli import options as o


def load(tables: list[str], columns: dict, voice):
    """Bags and targets. Doubts that `bagwise check` would have are voiced on the way, from one reading of the files."""
    import bagwise as bw
    from bagwise.io.columns import Roles
    from bagwise.io.tables import read_files

    named = {name: value for name, value in columns.items() if name not in ("missing", "fill_values", "decimal")}
    frame = read_files(o.sources(tables), Roles(**named), decimal=columns.get("decimal", "."))
    source = o.sources(tables) if frame is None else frame
    # what a frame is warned of stands among the doubts below
    with warnings.catch_warnings(action=None if frame is None else "ignore", category=UserWarning):
        bags, y = bw.load(source, **columns)
    if y is None:
        raise ValueError("there is no target to learn: name its column with --target")
    voice.say(f"{o.stem(tables)}: {bags}.")
    if frame is not None and not voice.quiet:
        _doubt(bw.inspect_table(frame, **columns), voice)
    return bags, y


def _doubt(found, voice) -> None:
    for finding in found.findings:
        if finding.level == "warning" or "not numeric" in finding.text:
            voice.say("Note: " + finding.text, style="yellow")


SMALL = 200_000  # numbers in a table
BUDGET = 480.0  # seconds: with what comes after, ten minutes


def build(name: str, *, level: float | None, time_budget: float | None, n_jobs: int | None, seed: int):
    """An unfitted method by its name (or name:preset), with intervals unless the level is None."""
    import bagwise as bw
    from bagwise.evaluation.plan import as_entries

    [entry] = as_entries([name], tune=False)
    model = entry.make(seed)
    model.set_params(**{key: n_jobs for key in model.get_params() if key == "n_jobs" or key.endswith("__n_jobs")})
    limited = "time_budget" in model.get_params()
    if time_budget is not None and not limited:
        raise ValueError(f"--time-budget is for the method auto; {name} takes the time it takes")
    if limited:
        model.set_params(time_budget=time_budget or BUDGET)
    return model if level is None else bw.Intervals(model, level=level, random_state=seed, n_jobs=n_jobs)


def jobs_for(bags, name: str) -> int:
    """All cores, or one where starting the others would take longer than the work."""
    return 1 if name != "auto" and bags.instances.size < SMALL else -1


def keep(model, out: Path, **header) -> None:
    """Save the model. If its place is gone or full after a long fit, it is saved for now among temporary files."""
    import bagwise as bw

    try:
        bw.save(model, out, **header)
    except OSError as error:
        place = Path(tempfile.mkdtemp(prefix="bagwise-")) / out.name
        try:
            bw.save(model, place, **header)
        except OSError:
            raise error from None
        raise OSError(f"{error}; the fitted model is in {place} instead: move it to where it can stay") from error
    except ValueError as error:
        raise ValueError(
            f"{error}. The fit is lost: fit another method (`bagwise methods`), or fit in Python, where bw.method(...) "
            "stays in memory and joblib.dump keeps it for your own use"
        ) from error


def held_out(model, y: np.ndarray) -> np.ndarray | None:
    """What each training bag is predicted by models that never saw it, where that is known."""
    if hasattr(model, "residuals_") and hasattr(model, "calibration_"):
        return y[model.calibration_] - model.residuals_
    return getattr(model, "held_out_", None)


def account(model, name: str, y: np.ndarray) -> dict:
    """The held-out scores, and a paragraph to paste into a paper."""
    known, inner = held_out(model, y), getattr(model, "method_", model)
    scores = None if known is None else _scores(known, y)
    if hasattr(inner, "scores_"):  # what auto compares with: the mean of the targets without those of the fold
        scores |= {"r2": inner.scores_["explained"], "rmse_of_mean": inner.scores_["mean_rmse"]}
    text = inner.paragraph() if hasattr(inner, "paragraph") else _paragraph(name, len(y), scores)
    if getattr(model, "lacking_", "no intervals at all") is None:
        text += (
            f" Prediction intervals at level {model.level:g} are conformal: {model.kind} (Barber et al. 2021) over "
            "folds of bags, scaled by bag size and spread."
        )
    told = {"method": name, "bags": len(y), "held_out": scores, "paragraph": text}
    return told | ({"summary": inner.summary()} if hasattr(inner, "summary") else {})


def tell(name: str, y: np.ndarray, known: np.ndarray | None) -> dict:
    """The same of a method without more to say: ``known`` are predictions of bags that were held out, if there are."""
    scores = None if known is None else _scores(known, y)
    return {"method": name, "bags": len(y), "held_out": scores, "paragraph": _paragraph(name, len(y), scores)}


def _paragraph(name: str, n_bags: int, scores: dict | None) -> str:
    from bagwise import __version__
    from bagwise.methods.catalogue import find

    found, _ = find(name)
    text = f"The method {name} ({found.cites}) was fitted to {n_bags:,} bags with bagwise {__version__}."
    if scores is None:
        return text
    return (
        f"{text} Bags held out in turn were predicted with a root mean squared error of {scores['rmse']:.4g} "
        f"(R² {scores['r2']:.2f}), where the mean of the targets has {scores['rmse_of_mean']:.4g}."
    )


def _scores(predicted: np.ndarray, y: np.ndarray) -> dict:
    errors, spread = np.mean((predicted - y) ** 2), np.var(y)
    return {
        "rmse": float(np.sqrt(errors)),
        "mae": float(np.mean(np.abs(predicted - y))),
        "r2": float(1 - errors / spread) if spread > 0 else 0.0,
        "rmse_of_mean": float(np.sqrt(spread)),
    }


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
    decimal: o.Decimal = None,
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
    from bagwise.cli import scans
    from bagwise.cli.console import as_typed, speaking, tell

    columns = o.columns(context)
    with speaking("fit", quiet=quiet) as voice, o.workers(scheduler if engine == "memory" else None):
        o.refuse_outputs(out, report, inputs=o.files(table))
        o.refuse_outputs(report, endings=(".html", ".htm"))
        if engine != "memory":
            scans.refuse_options(context, *scans.IN_MEMORY)
            method = scans.method_for(context, method, voice)
            with scans.executor(engine, scheduler, n_jobs) as who:
                bw.model_files.try_saving(bw.method(method))
                scan = scans.scanned(table, columns, where, voice)
                with voice.waiting(f"fitting {method}"):
                    model, training, told = scans.fit(method, scan, who, seed=seed)
                training |= {"where": where}
        else:
            scans.refuse_where(where)
            how = {"level": level if intervals else None, "time_budget": time_budget, "seed": seed}
            bw.model_files.try_saving(build(method, n_jobs=n_jobs, **how))
            bags, y = load(table, columns, voice)
            n_jobs = n_jobs or (jobs_for(bags, method) if scheduler is None else None)
            model = build(method, n_jobs=n_jobs, **how)
            with voice.fitting(model, method):
                model.fit(bags, y)
            if bags.covariate_names is not None:
                columns["bag_features"] = list(bags.covariate_names)  # by name, also where "auto" found them
            training, told = bw.model_files.describe_training(bags, y), account(model, method, y)
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
