"""Options that several verbs share, each with its help in one place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Literal

import typer

ENDINGS = (".csv", ".tsv", ".parquet", ".feather", ".mat", ".npz")
CELLS = "cells/[!.]*.json"  # the finished cells of a run
Text, Texts = str | None, list[str] | None


def option(text: str, *names: str, **more):
    """Return an option with its help; ``more`` are the options of `typer.Option`."""
    return typer.Option(*names, help=text, **more)


def metric_option(text: str, metrics):
    """Return the option of a metric, with the names in its help: as a type they do not fit into a line."""
    return option(f"{text}: {', '.join(metrics)}.", metavar="<metric>")


run_option = partial(option, rich_help_panel="Run")

# Checks of values before any work -------------------------------------------------------------------------------------


def check_tables(tables: list[str]) -> list[str]:
    """Refuse the name of a method or a column where a table is expected."""
    for place, table in enumerate(tables):
        if "://" in table or any(sign in table for sign in "*?[") or Path(table).exists():
            continue
        if table.partition(":")[0] in read_cards():
            raise typer.BadParameter(f"{table!r} is a method, and a table is expected. Write --method {table}")
        if place > 0 and not table.endswith(ENDINGS):
            text = f"There is no file {table!r}. Columns are named by options: --bag {table} or --target {table}"
            raise typer.BadParameter(text)
    return tables


def check_model(path: Path) -> Path:
    """Refuse a table where a model file is expected."""
    if path.suffix in ENDINGS and path.is_file():
        text = f"{path} is a table, and a model is expected. The model comes first, then the table: MODEL TABLE"
        raise typer.BadParameter(text)
    return path


def check_shares(parameter: typer.CallbackParam, values):
    """Refuse a level or quantile that is not a share, and suggest the share that a percentage means."""
    for share in values if isinstance(values, list | tuple) else [values]:
        if share is not None and not 0 < share < 1:
            hint = f" {share:g} per cent is {parameter.opts[0]} {share / 100:g}." if 1 <= share < 100 else ""
            raise typer.BadParameter(f"{share:g} is not a share between 0 and 1.{hint}")
    return values


def check_jobs(number: int | None) -> int | None:
    """Refuse 0 processes."""
    if number == 0:
        raise typer.BadParameter("0 is no number of processes. Give 1 or more, or -1 for all cores")
    return number


def parse_folds(text: str | None) -> int | str | None:
    """Return a number of folds, or a scheme; refuse anything else."""
    if text is None or text in ("random", "forward", "given"):
        return text
    if text.isdecimal() and int(text) >= 2:
        return int(text)
    raise typer.BadParameter(f"{text!r} is neither a number of folds from 2, nor random, forward or given")


def parse_fill_values(values: list[str] | None) -> list[float | str] | None:
    """Return fill values as numbers where they are."""
    from bagwise.bags.frames import NUMBER

    return values and [float(value) if re.match(NUMBER, str(value)) else value for value in values]


def check_method(text: str | None) -> str | None:
    from bagwise.methods.catalogue import find

    try:
        return text and find(text) and text
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def split_methods(texts: list[str] | None) -> list[str]:
    """Return the methods of several options, each of which may name several with commas between them."""
    return [check_method(name.strip()) for text in texts or [] for name in text.split(",")]


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    """Return the methods whose name begins so, for the completion of a shell; after a comma, that of the last."""
    earlier, comma, last = incomplete.rpartition(",")
    cards = read_cards().items()
    return [(f"{earlier}{comma}{name}", card["idea"]) for name, card in cards if name.startswith(last)]


def read_cards() -> dict[str, dict]:
    """Return the cards of all methods by name, without importing the methods."""
    cards = json.loads((Path(__file__).parent / "cards.json").read_text(encoding="utf-8"))
    return {card["name"]: card for card in cards}


# How a table is read --------------------------------------------------------------------------------------------------

Tables = Annotated[
    list[str],
    typer.Argument(
        callback=check_tables,
        help="A long table, a row per instance: .csv .tsv .parquet .feather .mat .npz; several, or a 'part-*.csv'.",
    ),
]
Treatment = Literal["refuse", "drop-instances", "impute", "keep"]


def column(kind, text: str, *names: str, **more):
    """Return the annotation of an option in the section "Table" of --help."""
    return Annotated[kind, option(text, *names, rich_help_panel="Table", **more)]


# Parameters of `bagwise.load`; those that may be given several times are in the singular.
COLUMNS = {
    "bag": column(Text, "Column of bag ids. Example: --bag site"),
    "target": column(Texts, "Column of targets; several for several targets. Example: --target aod"),
    "groups": column(Text, "Column of groups, which folds keep together; or shared-rows. Example: --groups patient"),
    "feature": column(Texts, "Column to learn from; default: all numeric ones. Example: --feature red"),
    "ignore": column(Texts, "Column to leave out of the features. Example: --ignore year"),
    "missing": column(Treatment, "What to do with rows that have missing values."),
    "fill_value": column(
        Texts, "Number or text that means a missing value. Example: --fill-value -9999", callback=parse_fill_values
    ),
    "weights": column(Text, "Column of instance weights. Example: --weights area"),
    "bag_feature": column(
        Texts, "Column that describes the bag, not the instance; or auto. Example: --bag-feature sza"
    ),
    "decimal": column(Literal[".", ","] | None, "Decimal sign of numbers. Example: --decimal ,"),
    "keep": column(Texts, "Column to copy to --instances; not a feature. Example: --keep barcode"),
    "categories": column(Texts, "Categorical column, or auto. Example: --categories crop"),
    "dates": column(Texts, "Column of dates, used as season and year. Example: --dates sown"),
    "targets": column(
        Path | None, "A second table, a row per bag: targets, groups, bag features. Example: --targets yields.csv"
    ),
    "time": column(Text, "Column of dates or numbers that orders the bags, for --folds forward. Example: --time day"),
    "fold_column": column(
        Text,
        "Column of fixed folds, or of train and test. Example: --fold-column k",
        *("--fold-column", "--split-column"),
    ),
}
PLURAL = {"feature": "features", "bag_feature": "bag_features", "fill_value": "fill_values", "fold_column": "fold"}
# The options for a table that is read as the one of fit
LIKE_TRAINING = {name: COLUMNS[name] for name in ("targets", "fill_value", "keep", "decimal")} | {
    "bag": column(Text, "Column of bag ids, if its name differs from fit."),
    "target": column(Texts, "Column of known targets, to score against."),
    "missing": column(Treatment | None, "As in fit, if it differs."),
}


def reading_a_table(command=None, *, options=COLUMNS):
    """Add the options of how a table is read to a command; `columns` returns those that were given."""
    if command is None:
        return partial(reading_a_table, options=options)

    @wraps(command)
    def run(**values):
        return command(**{name: value for name, value in values.items() if name not in options})

    parameters = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in signature(command, eval_str=True).parameters.values()
    ]
    n_required = sum(parameter.default is Parameter.empty for parameter in parameters)
    parameters[n_required:n_required] = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, annotation=kind, default="refuse" if kind is COLUMNS["missing"] else None
        )
        for name, kind in options.items()
    ]
    run.__signature__ = Signature(parameters)
    return run


def columns(context: typer.Context) -> dict:
    """Return the given options for reading a table as keywords of `bagwise.load`."""
    values = {PLURAL.get(name, name): context.params.get(name) for name in COLUMNS}
    exposure = context.params.get("exposure")
    if exposure and values["weights"]:
        raise ValueError("--exposure and --weights are both weights of the instances. Give one of the two.")
    values["weights"] = values["weights"] or exposure
    # Of several values click makes a list or a tuple, empty where there are none.
    keywords = {
        keyword: list(value) if isinstance(value, list | tuple) else str(value)
        for keyword, value in values.items()
        if value
    }
    keywords |= {name: "auto" for name in ("bag_features", "categories") if keywords.get(name) == ["auto"]}
    if isinstance(target := keywords.get("target"), list) and len(target) == 1:
        keywords["target"] = target[0]
    return keywords


def split_roles(columns: dict, **more) -> tuple:
    """Return the roles of columns, and the options of `bagwise.load` that name none or are roles of bags."""
    from bagwise.io.columns import Roles

    how = {name: columns[name] for name in ("missing", "fill_values", "decimal", "time", "fold") if name in columns}
    return Roles(**{name: value for name, value in columns.items() if name not in how}, **more), how


def files(tables: list[str]) -> list[Path]:
    """Return the files that are read; none for a pattern without a match, for which `load` raises."""
    from bagwise.io.table_files import find_files

    try:
        return find_files(tables)
    except OSError:
        return []


def stem(tables: list[str]) -> str:
    """Return the name of a data set: that of its file."""
    return Path(tables[0]).name.split(".")[0].rstrip("*-_?") or "table"


def refuse_no_target(y) -> None:
    if y is None:
        raise ValueError("there is no target to learn: name its column with --target, or its table with --targets")
    from bagwise.io.load import refuse_constant_target

    refuse_constant_target(y)


# Other options of several commands ------------------------------------------------------------------------------------

ModelFile = Annotated[
    Path, typer.Argument(callback=check_model, help="A file written by `bagwise fit`. Example: aod.bagwise")
]
Folds = Annotated[
    Text,
    option("Number of folds, or random, forward (in time) or given. Example: --folds forward", callback=parse_folds),
]
Method = Annotated[
    str,
    option(
        "auto, or one of `bagwise methods`. Example: --method instance-kme",
        callback=check_method,
        autocompletion=complete_method,
    ),
]
Methods = Annotated[
    Texts,
    option(
        "Methods, each with a preset if wanted. Example: --methods aggregated,instance-kme:paper",
        *("--method", "--methods"),
        callback=split_methods,
        autocompletion=complete_method,
    ),
]
Level = Annotated[float, option("Level of the intervals. Example: --level 0.95", callback=check_shares)]
Jobs = Annotated[
    int | None, run_option("Number of processes; -1 for all cores. Example: --n-jobs 2", callback=check_jobs)
]
Scheduler = Annotated[
    Text, run_option("Address of a Dask cluster that does the work. Example: --scheduler tcp://host:8786")
]
Device = Annotated[Text, run_option("Where networks are trained: cpu, cuda or auto. Example: --device cuda")]
Engine = Annotated[
    Literal["memory", "stream", "dask"],
    run_option("Load the table, or read it chunk by chunk here or on a cluster. Example: --engine stream"),
]
Where = Annotated[Text, run_option("Condition on rows; not with --engine memory. Example: --where 'year >= 2019'")]
Work = Annotated[
    Path | None, run_option("Folder that stores finished work; the same command continues. Example: --work aod-fit")
]
Seed = Annotated[int, run_option("Seed of random numbers. Example: --seed 0", min=0)]
RetryFailed = Annotated[bool, run_option("Run failed cells again.", "--retry-failed")]
Resume = Annotated[bool, run_option("Fail if --out has no run to continue.", "--resume")]
Quiet = Annotated[bool, run_option("Print results and errors only.", "--quiet")]
Json = Annotated[bool, run_option("Print JSON instead of text.", "--json")]


def declare_folds(bags, folds: int | str | None):
    """Return the bags with the declaration that --folds makes: all folds follow it."""
    from bagwise.bags.folds import Validation, split_bags

    if folds is None:
        return bags
    declared = bags.validation or Validation()
    if folds == "given" and bags.fold is None:
        raise ValueError("--folds given needs a fold per bag, and the bags have none; name its column: --fold-column")
    if isinstance(folds, int) and declared.scheme == "given":
        raise ValueError(f"--folds {folds} asks for random folds, and --fold-column fixes them. Give one of the two.")
    bags = bags.with_validation(replace(declared, **{"folds" if isinstance(folds, int) else "scheme": folds}))
    split_bags(bags)  # the first error is that of the declaration
    return bags


def run_keywords(context: typer.Context, tables: list[str], columns: dict) -> dict:
    """Return the options that `bagwise.evaluate` and `bagwise.learning_curve` share, as their keywords.

    Among them is the origin of the data, for the report: the files, how they were read, and the command.
    """
    from bagwise.cli.console import command_text

    if "targets" in columns:
        columns = columns | {"targets": str(Path(columns["targets"]).resolve())}
    paths = [str(path.resolve()) for path in files(tables)]
    origin = {"path": paths, "options": columns, "command": command_text(context)}
    options = context.params
    shared = {name: options[name] for name in ("metric", "level", "n_jobs", "device", "retry_failed")}
    return shared | {"folds": options["folds"] or 5, "random_state": options["seed"], "origin": origin}


def workers(scheduler: str | None):
    """Return a context in which the workers of a cluster run tasks, if one was named."""
    if scheduler is None:
        return nullcontext()
    from bagwise.execution import cluster

    return cluster(scheduler)


# Outputs --------------------------------------------------------------------------------------------------------------


def refuse_outputs(*outputs: Path | None, inputs=(), endings: tuple[str, ...] = ()) -> None:
    """Refuse what could not be written, or would destroy something, before any work is done."""
    from bagwise.io.atomic_files import refuse_unwritable

    paths = [Path(path) for path in outputs if path is not None]
    inputs = {Path(path).resolve() for path in inputs}
    for k, path in enumerate(paths):
        place = path.resolve()
        if place in inputs:
            raise ValueError(f"{path} is an input as well. Give the output another name.")
        if place in [other.resolve() for other in paths[:k]]:
            raise ValueError(f"Two outputs have the name {path}. Give each its own.")
        if endings and path.suffix.lower() not in endings:
            raise ValueError(f"{path.name!r} should end in {' or '.join(endings)}")
        if path.is_dir():
            raise ValueError(f"{path} is a folder. Give the name of a file.")
        if not place.parent.is_dir():
            raise ValueError(f"{path.name} cannot be written: there is no folder {place.parent}. Make it first.")
        refuse_unwritable(path)


def refuse_folder(out: Path, *, resume: bool = False) -> None:
    """Refuse a folder of results that could not be made or written to, or has nothing to resume, before any work."""
    from bagwise.io.atomic_files import refuse_unwritable

    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file. Give the name of a folder.")
    refuse_unwritable(out)
    # in a folder of several data sets, each has a folder inside
    patterns = [f"{below}{name}" for below in ("", "*/") for name in (CELLS, "plan.json")]
    if resume and not any(any(out.glob(pattern)) for pattern in patterns):
        raise ValueError(f"There is no run in {out} to resume. Leave --resume out to start one.")


# Tables that are read chunk by chunk ----------------------------------------------------------------------------------

# What a scan takes of the columns.
SCANNED = ("bag", "target", "features", "ignore", "groups", "weights", "bag_features", "categories", "dates")
SCANNED += ("missing", "fill_values")


@contextmanager
def executor(engine: str, scheduler: str | None, n_jobs: int | None) -> Iterator:
    """Yield an executor: processes of this machine, or the workers of a cluster."""
    import bagwise as bw
    from bagwise.execution import Dask, Processes, Serial

    if engine == "dask":
        workers = n_jobs if scheduler is None and n_jobs is not None and n_jobs > 0 else None
        with bw.cluster(scheduler, n_workers=workers) as client:
            yield Dask(client)
    elif scheduler is not None:
        raise ValueError("--scheduler names a Dask cluster, and --engine stream has none. Use --engine dask.")
    else:
        yield Serial() if n_jobs == 1 else Processes(n_jobs or -1)


def refuse_options(context: typer.Context, *names: str) -> None:
    """Refuse options that were given and mean nothing to a table that is never in memory."""
    for name in names:  # --no-intervals is given, and is what happens anyway
        if is_typed(context, name) and context.params[name]:
            text = f"--{name.replace('_', '-')} is for tables in memory."
            raise ValueError(f"{text} Leave it out, or use --engine memory.")


def refuse_where(where: str | None) -> None:
    if where is not None:
        raise ValueError("--where is for tables that are read chunk by chunk. Use --engine stream or --engine dask.")


def is_typed(context: typer.Context, name: str) -> bool:
    return context.get_parameter_source(name).name == "COMMANDLINE"


def open_scan(tables: list[str], columns: dict, where: str | None, messages):
    """Open a scan of tables that are read chunk by chunk, and describe it."""
    import bagwise as bw

    if isinstance(columns.get("target"), list):
        raise ValueError("Several targets are fitted in memory only. Use --engine memory, or one --target at a time.")
    scan = bw.scan(tables, **{name: columns[name] for name in SCANNED if name in columns}, where=where)
    messages.show_data(stem(tables), scan)
    return scan
