"""`bagwise reproduce`: Table 1 of the paper again, on the files a user brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli import options as o


def reproduce(
    folder: Annotated[Path, typer.Argument(help="Folder with MISR1.mat, MISR2.mat, MODIS.mat, WHEAT.csv, CORN.csv")],
    data: Annotated[list[str] | None, typer.Option(help="One data set only. Example: --data MISR1")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results, cell by cell. Example: --out runs/table1")] = Path(
        "runs/reproduce"
    ),
    row: Annotated[list[str] | None, typer.Option(help="One row only. Example: --row 'instance-MIR (mean)'")] = None,
    repeats: Annotated[int, typer.Option(help="Repeats of the folds. Example: --repeats 2")] = 10,
    folds: Annotated[int, typer.Option(help="Folds of bags. Example: --folds 5")] = 5,
    inner_folds: Annotated[int, typer.Option(help="Networks behind instance-kme (D). Example: --inner-folds 10")] = 50,
    bags_of_100: Annotated[bool, typer.Option(help="MISR2: only bags of exactly 100, as the notebook does.")] = False,
    invalid: Annotated[str, typer.Option(help="Crop pixels that hold 0 or -32767: keep or drop.")] = "keep",
    trust_pickle: Annotated[bool, typer.Option(help="Open WHEAT.p and CORN.p. A pickle can run any code.")] = False,
    n_jobs: Annotated[int, typer.Option(help="Processes; -1 for one per core. Example: --n-jobs 2")] = -1,
    scheduler: o.Scheduler = None,
    device: o.Device = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option(help="No progress, no messages; the tables only.")] = False,
) -> None:
    """Run the six rows of Table 1 (Uriot 2019), by the paper's protocol and by a nested one, beside its numbers.

    Example: bagwise reproduce ~/mir-data --data MISR1 --repeats 2
    """
    from bagwise.cli.speaking import speaking
    from bagwise.protocol import table1
    from bagwise.protocol.table1_files import DATA_SETS, find_files, read_file
    from bagwise.protocol.tables import from_rows, to_rows, write_table

    rows = []
    with speaking("reproduce", quiet=quiet) as voice, o.workers(scheduler):
        wanted = _wanted(data, DATA_SETS)
        found = find_files(folder)
        voice.say(f"Found {', '.join(path.name for path in found.values()) or 'none of the files'} in {folder}.")
        for name in [name for name in wanted if name in found]:
            options = {"trust_pickle": trust_pickle, "invalid": invalid, "bags_of_100": bags_of_100 and name == "MISR2"}
            try:
                bags, y, notes = read_file(name, found[name], **options)
            except PermissionError as error:  # an untrusted pickle; the other files can be run all the same
                voice.say(f"Note: {error}", style="yellow")
                continue
            for note in notes:
                voice.say(f"Note: {note}", style="yellow")
            voice.say(f"{name}: {bags}.")
            with voice.progress("rmse") as progress:
                rows += table1.reproduce(
                    name,
                    bags,
                    y,
                    repeats=repeats,
                    folds=folds,
                    inner_folds=inner_folds,
                    rows=row or None,
                    out=out / name,
                    n_jobs=n_jobs,
                    device=device,
                    progress=progress,
                )
        if not rows:
            raise ValueError(
                f"nothing to run in {folder}: put MISR1.mat, MISR2.mat, MODIS.mat, WHEAT or CORN (.csv, .parquet) there"
            )
        write_table(out / "table1.csv", from_rows(rows))
    if as_json:
        typer.echo(json.dumps(to_rows(from_rows(rows)), indent=1))
        return
    _print(rows)
    voice.say(f"Wrote {out / 'table1.csv'}")


def _wanted(names: list[str] | None, known) -> list[str]:
    wanted = [name.upper() for name in names or known]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"there is no data set {unknown[0]!r} in Table 1; there are {', '.join(known)}")
    return wanted


NOTE = """paper: the best setting on the scoring folds, as published; optimistic.
nested: chosen by leave-one-bag-out inside the training bags.
± is the standard error over repeats; in brackets, how many of them ours is above the published number.
EM-MIR and attention-MIR were copied by the paper from other papers, with other folds."""


def _print(rows: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for name in dict.fromkeys(row["data"] for row in rows):
        unit = "RMSE" if name in ("WHEAT", "CORN") else "100 x RMSE"
        table = Table(title=f"{name}, {unit}", title_justify="left", box=None, padding=(0, 2, 0, 0))
        for column in ("row", "published", "paper (optimistic)", "nested"):
            table.add_column(column, justify="left" if column == "row" else "right", no_wrap=True)
        for row in rows:
            if row["data"] == name:
                table.add_row(row["row"], f"{row['published']:.2f}", _ours(row, "paper"), _ours(row, "nested"))
        console.print(table, end="\n\n")
    console.print(NOTE)


def _ours(row: dict, protocol: str) -> str:
    value, error, gap = (row[f"{protocol}{end}"] for end in ("", "_se", "_gap_in_se"))
    failed = f" [{row['failed']} cells failed]" if row["failed"] else ""
    if value != value:
        return failed.strip()
    return (f"{value:.2f}" if error != error else f"{value:.2f} ± {error:.2f} ({gap:+.1f})") + failed
