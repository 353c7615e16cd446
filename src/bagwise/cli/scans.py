"""`bagwise fit` and `predict` on tables that are read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from bagwise.cli import options as o

READ = ("bag", "target", "features", "ignore", "groups")  # what a scan knows of the columns
METHOD = "instance-kme:ridge"
IN_MEMORY = (
    "level",
    "intervals",
    "time_budget",
    "report",
    "missing",
    "weights",
    "bag_feature",
    "fill_value",
    "decimal",
)  # of fit


@contextmanager
def executor(engine: str, scheduler: str | None, n_jobs: int | None) -> Iterator:
    """Who goes over the pieces: processes of this machine, or the workers of a cluster."""
    import bagwise as bw
    from bagwise.execution import Dask, Processes, Serial

    if engine == "dask":
        workers = n_jobs if scheduler is None and n_jobs is not None and n_jobs > 0 else None
        with bw.cluster(scheduler, n_workers=workers) as client:
            yield Dask(client)
    elif scheduler is not None:
        raise ValueError("--scheduler names a Dask cluster; with --engine stream there is none: say --engine dask")
    else:
        yield Serial() if n_jobs == 1 else Processes(n_jobs or -1)


def refuse_options(context: typer.Context, *names: str) -> None:
    """Options that were given and mean nothing to a table that is never in memory."""
    typed = [name for name in names if context.get_parameter_source(name).name == "COMMANDLINE"]
    given = [name for name in typed if context.params[name]]  # --no-intervals is as it will be
    if given:
        option = "bag-feature" if given[0] == "bag_feature" else given[0].replace("_", "-")
        raise ValueError(f"--{option} is for tables in memory; leave it out, or say --engine memory")


def refuse_where(where: str | None) -> None:
    if where is not None:
        raise ValueError("--where is for tables that are read piece by piece: say --engine stream, or --engine dask")


def refuse_beside(columns: dict) -> None:
    """What a model was fitted with and a scan does not carry: without it the prediction would be another one."""
    beside = {"weights": "instance weights", "bag_features": "covariates of bags"}
    for name, what in (beside | {"fill_values": "numbers that stand for missing values"}).items():
        if columns.get(name):
            raise ValueError(f"the model was fitted with {what}, which are read in memory only: say --engine memory")


def scanned(tables: list[str], columns: dict, where: str | None, voice):
    import bagwise as bw

    scan = bw.scan(o.sources(tables), **{name: columns[name] for name in READ if name in columns}, where=where)
    voice.say(f"{o.stem(tables)}: {scan}.")
    return scan


def method_for(context: typer.Context, name: str, voice) -> str:
    """The method asked for; unasked, the one of the paper that is made of sums, for auto is not."""
    if context.get_parameter_source("method").name == "COMMANDLINE":
        return name
    voice.say(f"Fitting {METHOD}: auto needs the table in memory.")
    return METHOD


def fit(model_name: str, scan, who, *, seed: int) -> tuple:
    """The model, what it was trained on, and what is said of it."""
    from bagwise.cli.fit import tell
    from bagwise.model_files.header import describe_counts
    from bagwise.out_of_core.fit_scan import fit_and_survey

    model, found = fit_and_survey(scan, model_name, executor=who, random_state=seed)
    last = model[-1] if hasattr(model, "steps") else model
    left_out = found.y - last.residuals_ if hasattr(last, "residuals_") else None
    training = describe_counts(found.bags.n_features, found.sizes, found.y)
    return model, training, tell(model_name, found.y, left_out)


def predict(model, tables: list[str], columns: dict, where: str | None, out: Path | None, who, voice) -> dict:
    """A row per bag; to a folder of Parquet files if ``out`` has no ending."""
    import bagwise as bw

    refuse_beside(columns)
    scan = scanned(tables, columns, where, voice)
    folder = out if out is not None and not out.suffix else None
    with voice.waiting("predicting"):
        found = bw.predict_scan(model, scan, out=folder, executor=who)
    if folder is not None:
        voice.say(f"Wrote {folder}")
    return {"bag": found.ids.tolist(), "prediction": found.values.tolist()}
