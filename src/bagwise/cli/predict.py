"""`bagwise predict`: a model file and new bags in, a table of predictions out."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bagwise.cli import options as o

# Columns of an explanation, named for one instance.
ONE = {"instance_predictions": "prediction", "weights": "weight", "contributions": "contribution", "effects": "effect"}


def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A file written by `bagwise fit`. Example: aod.bagwise")],
    table: o.Tables,
    bag: Annotated[str | None, typer.Option(help="Column of bag ids, if called otherwise than at fit.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Predictions as .csv, .parquet or .gpkg, or a folder; default: csv on stdout.")
    ] = None,
    instances: Annotated[
        Path | None, typer.Option(help="Contributions, a row per instance, or as .tif. Example: --instances pixels.csv")
    ] = None,
    zones: Annotated[
        Path | None, typer.Option(help="Polygons of the bags, for --out with .gpkg. Example: --zones fields.gpkg")
    ] = None,
    raster: Annotated[
        Path | None, typer.Option(help="The image, for --instances with .tif. Example: --raster image.tif")
    ] = None,
    level: Annotated[
        float | None, typer.Option(min=0.01, max=0.999, help="Level of the intervals, if not that of fit.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of known targets, to score against.")] = None,
    missing: Annotated[o.Treatment | None, typer.Option(help="As for fit, if not the same.")] = None,
    fill_value: o.FillValues = None,
    keep: o.Keep = None,
    decimal: o.Decimal = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="In csv, an apostrophe before ids such as =1+1: no formulas.")
    ] = False,
    engine: o.Engine = "memory",
    scheduler: o.Scheduler = None,
    where: o.Where = None,
    n_jobs: o.Jobs = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Predict the bags of a table: their ids, predictions and intervals; with --instances, which instance mattered.

    Example: bagwise predict aod.bagwise new_pixels.csv --out predictions.csv
    """
    import bagwise as bw
    from bagwise.cli import maps, scans
    from bagwise.cli.console import messages_of, print_text
    from bagwise.io.atomic_files import refuse_place
    from bagwise.io.table_output import to_rows, without_formulas, write_table

    with messages_of("predict", quiet=quiet) as messages:
        parts = engine != "memory" and out is not None and not out.suffix
        outputs = [instances] if parts else [out, instances]
        mapped = maps.mapped(out, zones, instances, raster, engine)
        inputs = [model, *o.files(table), *(path for path in (zones, raster) if path is not None)]
        endings = ".csv", ".parquet", *(path.suffix.lower() for path in mapped)
        o.refuse_outputs(*outputs, inputs=inputs, endings=endings)
        if parts:
            refuse_place(out)
        keep = [*dict.fromkeys([*(keep or []), "x", "y"])] if instances in mapped else keep
        fitted, header = bw.load_model(model), bw.model_files.read_header(model)
        given = {"bag": bag, "missing": missing, "fill_values": list(fill_value) if fill_value else None}
        given |= {"keep": list(keep) if keep else None, "decimal": decimal}
        new = {name: value for name, value in given.items() if value is not None}
        how, rows, y = _columns(header, table) | new, None, None
        if engine != "memory":
            scans.refuse_options(context, "instances", "level", "target", "missing", "fill_value", "keep", "decimal")
            with scans.executor(engine, scheduler, n_jobs) as executor:
                columns = scans.predict(fitted, table, how, where, out, executor, messages)
        else:
            scans.refuse_where(where)
            with warnings.catch_warnings(), maps.placed(instances in mapped):  # predict names the bag that holds one
                warnings.filterwarnings("ignore", message=".* looks like a fill value")
                bags, y = bw.load(o.sources(table), **how, target=target)
            messages.show(f"{o.stem(table)}: {bags}.")
            with o.workers(scheduler), messages.spinner("predicting"):
                columns = predictions(fitted, bags, y, level=level)
            if why := no_intervals(fitted, level):
                messages.show(f"No intervals: {why}.")
            if instances is not None:
                with messages.spinner("explaining the predictions"):
                    found = bw.explain(fitted, bags).table()
                    rows = {ONE.get(name, name): list(map(_plain, column)) for name, column in found.items()}
        # Both tables are known before either is written.
        if out is not None and not parts:
            if out in mapped:
                bw.geo.to_zones(out, zones, columns, id=how.get("bag"))
            else:
                write_table(out, columns, spreadsheet_safe=spreadsheet_safe)
            messages.show(f"Wrote {out}")
        if rows is not None:
            if instances in mapped:
                maps.write_contributions(instances, raster, rows)
            else:
                write_table(instances, rows, spreadsheet_safe=spreadsheet_safe)
            messages.show(f"Wrote {instances}")
    found = None if y is None else scores(columns, y)
    if as_json:
        typer.echo(json.dumps({"predictions": to_rows(columns), "scores": found}, indent=1))
        return
    if out is None:
        _print(without_formulas(columns) if spreadsheet_safe else columns)
    if found is not None:  # a result, printed even when quiet; on stderr if the table is on stdout
        text = f"Against the known targets: RMSE {found['rmse']:.4g}, MAE {found['mae']:.4g}"
        inside = f"; {found['coverage']:.0%} of them inside their intervals" if "coverage" in found else ""
        print_text(text + inside, stderr=out is None)


def predictions(model, bags, y=None, *, level: float | None = None) -> dict[str, list]:
    """A row per bag: its id, prediction, interval where the model gives one, and the known target."""
    columns = {"bag": list(map(_plain, bags.ids)), "prediction": model.predict(bags).tolist()}
    if no_intervals(model, level) is None:
        lower, upper = model.predict_interval(bags, level=level).T
        columns |= {"lower": lower.tolist(), "upper": upper.tolist()}
    elif level is not None:
        raise ValueError("this model was fitted without intervals; fit it again, without --no-intervals")
    return columns if y is None else columns | {"target": y.tolist()}


def no_intervals(model, level: float | None) -> str | None:
    """Why the predictions have none; None if they have, or if the level that was asked for decides."""
    if not hasattr(model, "predict_interval"):
        return "the model was fitted without them"
    return model.lacking_ if level is None else None


def scores(columns: dict, y: np.ndarray) -> dict[str, float]:
    """The predictions against known targets; ``coverage`` is the share of targets inside their intervals."""
    from bagwise.evaluation.metrics import mae, rmse

    predicted = np.asarray(columns["prediction"])
    found = {"rmse": rmse(y, predicted), "mae": mae(y, predicted)}
    if "lower" not in columns:
        return found
    inside = (np.asarray(columns["lower"]) <= y) & (y <= np.asarray(columns["upper"]))
    return found | {"coverage": float(inside.mean())}


def _plain(value):
    """A label or number as plain Python; dates as text."""
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def _columns(header: dict, tables: list[str]) -> dict:
    """How the table was read at fit: the same columns are needed again, without targets and groups."""
    from bagwise.io.array_files import holds_bags

    known = dict((header.get("training") or {}).get("columns") or {})
    if tables[0].lower().endswith(".npz") and Path(tables[0]).is_file() and holds_bags(Path(tables[0])):
        return {name: known[name] for name in ("missing", "fill_values") if name in known}
    names = header.get("feature_names")
    remembered = ("bag", "missing", "fill_values", "weights", "bag_features", "decimal")
    kept = {name: known[name] for name in remembered if name in known}
    return kept | ({} if names is None else {"features": list(names)})


def _print(columns: dict) -> None:
    from bagwise.cli.console import without_controls
    from bagwise.io.table_output import write_csv

    if sys.stdout.isatty():  # elsewhere a program reads the ids again
        columns = columns | {"bag": [without_controls(str(one)) for one in columns["bag"]]}
    write_csv(sys.stdout, columns)
