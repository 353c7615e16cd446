"""`bagwise reproduce`: Table 1 of the paper again, on the files a user brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o


def reproduce(
    folder: Annotated[Path, typer.Argument(help="Folder with MISR1.mat, MISR2.mat, MODIS.mat, WHEAT.csv, CORN.csv")],
    data: Annotated[list[str] | None, o.option("One data set only. Example: --data MISR1")] = None,
    out: Annotated[Path, o.option("Folder for the results, cell by cell. Example: --out runs/table1")] = Path(
        "runs/reproduce"
    ),
    row: Annotated[list[str] | None, o.option("One row only. Example: --row 'instance-MIR (mean)'")] = None,
    repeats: Annotated[int, o.option("Repeats of the folds. Example: --repeats 2", min=1)] = 10,
    folds: Annotated[int, o.option("Folds of bags. Example: --folds 5", min=2)] = 5,
    inner_folds: Annotated[int, o.option("Networks behind instance-kme (D). Example: --inner-folds 10", min=2)] = 50,
    bags_of_100: Annotated[bool, o.option("MISR2: only bags of exactly 100, as the notebook does.")] = False,
    invalid: Annotated[Literal["keep", "drop"], o.option("Crop pixels that hold 0 or -32767.")] = "keep",
    trust_pickle: Annotated[bool, o.option("Open WHEAT.p and CORN.p. A pickle can run any code.")] = False,
    n_jobs: o.Jobs = -1,
    scheduler: o.Scheduler = None,
    device: o.Device = None,
    retry_failed: o.RetryFailed = False,
    resume: o.Resume = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run the six rows of Table 1 (Uriot 2019), by the paper's protocol and by a nested one, beside its numbers.

    Example: bagwise reproduce ~/mir-data --data MISR1 --repeats 2
    """
    from bagwise.cli.console import exit_if_failed, interruptible, messages_of, print_text
    from bagwise.evaluation import table1
    from bagwise.io.table_output import from_rows, to_rows, write_table

    rows, runs = [], []
    with messages_of("reproduce", quiet=quiet) as messages, o.workers(scheduler):
        o.refuse_folder(out, resume=resume)
        chosen = table1.choose_rows(row or None)
        protocol = {"repeats": repeats, "folds": folds}
        how = {"n_jobs": n_jobs, "device": device, "retry_failed": retry_failed, "inner_folds": inner_folds}
        options = {"trust_pickle": trust_pickle, "invalid": invalid, "bags_of_100": bags_of_100}
        read, unread = _read_all(folder, data, messages, protocol, options)
        for name, (bags, y) in read.items():
            messages.show_data(name, bags)
            with interruptible(messages, out), messages.evaluation_progress("rmse") as progress:
                how |= {"out": out / name, "progress": progress}
                runs.append(table1.run_rows(name, bags, y, rows=chosen, **protocol, **how))
            rows += [table1.read_row(runs[-1], label, name) for label in chosen]
            write_table(out / "table1.csv", from_rows(rows))  # the next data set may take hours
    if as_json:
        typer.echo(json.dumps(to_rows(from_rows(rows)), indent=1))
    else:
        print_text(table1.table_text(rows))
        messages.show(f"Wrote {out / 'table1.csv'}")
    if unread:
        messages.error(f"not run: {', '.join(unread)}; the reason is given above")
    exit_if_failed(messages, *runs, files=f"{out}/*/results.csv")
    if unread:
        raise typer.Exit(1)


def _read_all(folder: Path, names: o.Texts, messages, protocol: dict, options: dict) -> tuple[dict, list[str]]:
    """Read all data sets before any cell runs; return them, and the names of those that cannot be read."""
    from bagwise.cli.console import EXPECTED
    from bagwise.evaluation.splits import make_splits
    from bagwise.evaluation.table1 import DATA_SETS, file_names, find_files, read_file

    names = list(dict.fromkeys(name.upper() for name in names or ()))
    unknown = [name for name in names if name not in DATA_SETS]
    if unknown:
        raise ValueError(f"there is no data set {unknown[0]!r} in Table 1. The data sets are {', '.join(DATA_SETS)}.")
    paths = find_files(folder)
    messages.show(f"Found {', '.join(path.name for path in paths.values()) or 'none of the files'} in {folder}.")
    read, unread = {}, []
    for name in names or paths:
        try:
            if name not in paths:
                raise FileNotFoundError(f"there is no {' or '.join(file_names(name))} in {folder}")
            only_misr2 = {"bags_of_100": options["bags_of_100"] and name == "MISR2"}
            bags, y, notes = read_file(name, paths[name], **options | only_misr2)
            try:
                make_splits(bags, **protocol)
            except ValueError as error:
                raise ValueError(f"{paths[name].name}: {error}") from error
        except EXPECTED as error:
            messages.error(str(error))
            unread.append(name)
        else:
            read[name] = bags, y
            for note in notes:
                messages.note(note)
    if not read:
        files = "MISR1.mat, MISR2.mat, MODIS.mat, WHEAT or CORN (.csv, .parquet)"
        raise ValueError(f"nothing to run in {folder}" + ("" if unread else f": put {files} there"))
    return read, unread


VERBS = (reproduce,)
