"""`bagwise fit` and `predict` on tables that are read chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from bagwise.cli import options as o

# What a scan takes of the columns.
COLUMNS = ("bag", "target", "features", "ignore", "groups", "weights", "bag_features", "categories", "dates")
COLUMNS += ("missing", "fill_values")
# Options of fit that need the whole table in memory.
IN_MEMORY = ("time_budget", "metric", "report", "decimal", "keep", "targets")


@contextmanager
def executor(engine: str, scheduler: str | None, n_jobs: int | None) -> Iterator:
    """Processes of this machine, or the workers of a cluster."""
    import bagwise as bw
    from bagwise.execution import Dask, Processes, Serial

    if engine == "dask":
        workers = n_jobs if scheduler is None and n_jobs is not None and n_jobs > 0 else None
        with bw.cluster(scheduler, n_workers=workers) as client:
            yield Dask(client)
    elif scheduler is not None:
        raise ValueError("--scheduler names a Dask cluster; with --engine stream there is none: use --engine dask")
    else:
        yield Serial() if n_jobs == 1 else Processes(n_jobs or -1)


def refuse_options(context: typer.Context, *names: str) -> None:
    """Refuse options that were given and mean nothing to a table that is never in memory."""
    for name in names:  # --no-intervals is given, and is what happens anyway
        if _given(context, name) and context.params[name]:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for tables in memory; leave it out, or use --engine memory")


def refuse_where(where: str | None) -> None:
    if where is not None:
        raise ValueError("--where is for tables that are read chunk by chunk: use --engine stream, or --engine dask")


def open_scan(tables: list[str], columns: dict, where: str | None, messages):
    import bagwise as bw

    if isinstance(columns.get("target"), list):
        raise ValueError("several targets are fitted in memory only: use --engine memory, or one --target at a time")
    scan = bw.scan(o.sources(tables), **{name: columns[name] for name in COLUMNS if name in columns}, where=where)
    messages.show(f"{o.stem(tables)}: {scan}.")
    return scan


def with_intervals(context: typer.Context, method, *, seed: int):
    """The method within `Intervals`, if they were asked for; unasked there are none, for they take bags from it."""
    from bagwise.intervals import Intervals

    given = [name for name in ("level", "intervals", "scores") if _given(context, name)]
    if not context.params["intervals"] or not given:
        return method
    if isinstance(method, str) and method.partition(":")[0] == "auto":
        asked = " and ".join(f"--{one}" for one in given)
        raise ValueError(
            f"auto has no intervals with a scan (--engine stream): leave out {asked}, "
            "name a method such as instance-kme:ridge, or use --engine memory"
        )
    kind = "split" if context.params["scores"] == "absolute" else "cv+"
    options = {name: context.params[name] for name in ("level", "scores")}
    return Intervals(method, kind=kind, **options, random_state=seed)


def _given(context: typer.Context, name: str) -> bool:
    return context.get_parameter_source(name).name == "COMMANDLINE"


def fit(unfitted, name: str, scan, executor, *, seed: int, work: Path | None, progress) -> tuple:
    """The model, the description of its training data, and the summary of the fit."""
    from bagwise.cli.fit import summarise_fit, with_interval_text
    from bagwise.out_of_core.scan_fit import fit_and_survey, left_out_scores

    model, found = fit_and_survey(scan, unfitted, executor=executor, random_state=seed, work=work, progress=progress)
    if hasattr(model, "leaderboard"):
        scores = {"rmse": model.scores_["rmse"], "r2": model.scores_["explained"]}
        scores |= {"rmse_of_mean": model.scores_["mean_rmse"]}
        texts = {"paragraph": model.paragraph(), "summary": model.summary()}
        return model, found.describe(), {"method": name, "bags": found.n_bags, "held_out": scores} | texts
    summary = summarise_fit(name, found.n_bags, left_out_scores(model, found))
    return model, found.describe(), with_interval_text(summary, model)


def predict(
    model,
    tables: list[str],
    columns: dict,
    where: str | None,
    out: Path | None,
    executor,
    messages,
    *,
    level: float | None,
    shown: bool,
) -> dict:
    """A row per bag, with its interval if the model has any.

    To a folder of Parquet files if ``out`` has no ending, and then nothing here unless ``shown``.
    """
    import bagwise as bw
    from bagwise.io.table_output import own_name

    if hasattr(model, "target_names_"):
        raise ValueError("the model has several targets, which are predicted in memory only: use --engine memory")
    if columns.get("targets"):  # without it the prediction would be another one
        raise ValueError("the model was fitted with a second table, which is read in memory only: use --engine memory")
    scan = open_scan(tables, columns, where, messages)
    folder = out if out is not None and not out.suffix else None
    with messages.spinner("predicting"):
        found = bw.predict_scan(model, scan, level=level, out=folder, executor=executor)
    if folder is not None:
        messages.show(f"Wrote {folder}")
        if not shown:  # they need not fit into memory
            return {}
    known = {"prediction": found.values, "lower": found.lower, "upper": found.upper}
    lists = {name: values.tolist() for name, values in known.items() if values is not None}
    return {own_name(columns.get("bag"), "bag", list(lists)): found.ids.tolist()} | lists
