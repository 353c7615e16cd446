"""`bagwise importance`: which features a model relies on, from a table with known targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o


def importance(
    model: Annotated[Path, typer.Argument(help="A file written by `bagwise fit`. Example: aod.bagwise")],
    table: o.Tables,
    target: Annotated[str | None, typer.Option(help="Column of targets, if called otherwise than at fit.")] = None,
    bag: Annotated[str | None, typer.Option(help="Column of bag ids, if called otherwise than at fit.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Columns that are exchanged together. Example: --group angles=sza,vza"),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="What is exchanged: whole, mean or spread; default all three. Example: --part whole"),
    ] = None,
    metric: Annotated[Literal["rmse", "mae"], typer.Option(help="The error that rises.")] = "rmse",
    repeats: Annotated[int, typer.Option(min=1, help="Exchanges of every column.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="The table as .csv or .parquet. Example: --out importance.csv")
    ] = None,
    groups: Annotated[str | None, typer.Option(help="Column of what bags share, if not that of fit.")] = None,
    decimal: o.Decimal = None,
    n_jobs: o.Jobs = None,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure how much the error rises when a column of a bag is exchanged for that of other bags.

    Give the table that the model was fitted on: with intervals, which are the default of `bagwise fit`, every bag is
    predicted by a model that never saw it. Or give bags that are new to the model.

    Example: bagwise importance aod.bagwise pixels.csv --group angles=sza,vza
    """
    import bagwise as bw
    from bagwise.cli.console import messages_of, print_text
    from bagwise.cli.predict import columns_at_fit
    from bagwise.io.table_output import to_rows, write_table

    with messages_of("importance", quiet=quiet) as messages:
        o.refuse_outputs(out, inputs=[model, *o.files(table)], endings=(".csv", ".parquet"))
        fitted, header = bw.load_model(model), bw.model_files.read_header(model)
        given = {"bag": bag, "groups": groups, "decimal": decimal, "target": target}
        given = {name: value for name, value in given.items() if value is not None}
        bags, y = bw.load(o.sources(table), **columns_at_fit(header, table, more=("target", "groups")) | given)
        o.refuse_no_target(y)
        messages.show(f"{o.stem(table)}: {bags}.")
        options = {"metric": metric, "repeats": repeats, "random_state": seed, "n_jobs": n_jobs}
        options |= {"parts": list(part)} if part else {}
        options |= {"progress": None if messages.is_live else False}
        found = bw.importance(fitted, bags, y, groups=groups_of(group), **options)
        if not found.held_out:
            messages.show("The model kept no folds of these bags: they are predicted by the model itself.")
        if out is not None:
            write_table(out, found.table())
            messages.show(f"Wrote {out}")
    if as_json:
        about = {"metric": found.metric, "baseline": found.baseline, "held_out": found.held_out}
        typer.echo(json.dumps(about | {"importance": to_rows(found.table())}, indent=1))
    elif out is None:
        print_text(found.summary())


def groups_of(texts: list[str] | None) -> dict[str, list[str]] | None:
    """Groups of columns from texts such as angles=sza,vza."""
    found = {}
    for text in texts or []:
        name, sign, columns = text.partition("=")
        if not sign or not name or not columns:
            raise ValueError(f"--group {text} is not understood; write a name and its columns, as in angles=sza,vza")
        found[name] = [column.strip() for column in columns.split(",")]
    return found or None
