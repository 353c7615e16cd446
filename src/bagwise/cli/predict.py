"""`bagwise predict`: predict the bags of a table with a model file, as tables or as maps."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bagwise.cli import options as o

ZONES, RASTERS = (".gpkg", ".geojson"), (".tif", ".tiff")
VALUES = ("contribution", "weight", "effect")  # columns of a table of instances, of which a map shows the first


@o.reading_a_table(options=o.LIKE_TRAINING | {"time": o.COLUMNS["time"]})
def predict(
    context: typer.Context,
    model: o.ModelFile,
    table: o.Tables,
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
        float | None, typer.Option(callback=o.as_level, help="Level of the intervals, if not that of fit.")
    ] = None,
    novelty: Annotated[
        bool, typer.Option("--novelty", help="Add columns that compare bags with the training bags; --engine memory.")
    ] = False,
    by_time: Annotated[
        bool, typer.Option("--by-time", help="With --novelty: test whether the bags drift in order of --time.")
    ] = False,
    quantile: Annotated[
        list[float] | None,
        typer.Option(
            callback=o.check_quantiles,
            help="Add a column with this quantile of the predictive distribution. Example: --quantile 0.1",
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="In csv, put an apostrophe before ids such as =1+1.")
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
    from bagwise.cli.console import messages_of
    from bagwise.explanations.prediction_tables import no_intervals
    from bagwise.io.table_output import to_rows
    from bagwise.model_files.training_columns import columns_at_fit, training_columns

    with messages_of("predict", quiet=quiet) as messages:
        maps = refuse_outputs(out, instances, zones, raster, engine, inputs=[model, *o.files(table)])
        fitted, header = bw.load_model(model), bw.model_files.read_header(model)
        changes = o.columns(context)
        if instances in maps:
            changes["keep"] = [*dict.fromkeys([*changes.get("keep", []), "x", "y"])]
        how = columns_at_fit(header, table) | changes
        if by_time:
            how.setdefault("time", training_columns(header).get("time"))
            if not novelty or how["time"] is None:
                raise ValueError("--by-time needs --novelty and a column of times. Name the column with --time.")
        if engine == "memory":
            o.refuse_where(where)
            bags, y = load_new_bags(header, table, how)
            messages.show_data(o.stem(table), bags)
            with o.workers(scheduler):
                predicted = predict_in_memory(fitted, bags, y, messages, context.params)
        else:
            o.refuse_options(context, "instances", "novelty", "by_time", "quantile", *IN_MEMORY)
            with o.executor(engine, scheduler, n_jobs) as executor:
                scan = open_scan_like_training(fitted, header, table, how, where, messages)
                predicted = predict_in_chunks(fitted, scan, messages, executor, context.params)
        if reason := no_intervals(fitted, level):
            messages.show(f"No intervals: {reason}.")
        layers = {out: zones, instances: raster} if maps else {}
        write(predicted, context.params, layers, bag=how.get("bag"), messages=messages)
    if as_json:
        typer.echo(json.dumps({"predictions": to_rows(predicted.columns), "scores": predicted.scores}, indent=1))
        return
    if out is None:
        print_csv(predicted.columns, spreadsheet_safe)
    print_scores(predicted.scores, several=hasattr(fitted, "target_names_"), stderr=out is None)


# Before the work ------------------------------------------------------------------------------------------------------

IN_MEMORY = ("target", "targets", "keep", "decimal")  # options of the table that a scan does not have


def refuse_outputs(out, instances, zones, raster, engine: str, *, inputs: list) -> list[Path]:
    """Refuse outputs that could not be written, and return those that are maps.

    A map needs the layer that it is drawn on, and no other output may have one.
    """
    from bagwise.io.atomic_files import refuse_place

    maps = []
    pairs = (out, zones, "--out", "--zones", ZONES), (instances, raster, "--instances", "--raster", RASTERS)
    for path, layer, output, option, endings in pairs:
        is_map = path is not None and path.suffix.lower() in endings
        if is_map and layer is None:
            raise ValueError(f"{path.name} is a map and needs the layer that it is drawn on. Give it with {option}.")
        if layer is not None and not is_map:
            raise ValueError(f"{option} is for a map. Give {output} with a name that ends in {' or '.join(endings)}.")
        maps += [path] if is_map else []
    if maps and engine != "memory":
        raise ValueError(f"{maps[0].name} is a map, which --engine {engine} does not write. Use --engine memory.")
    is_folder = engine != "memory" and out is not None and not out.suffix
    if is_folder:
        refuse_place(out)
    inputs = [*inputs, *(layer for layer in (zones, raster) if layer is not None)]
    endings = ".csv", ".parquet", *(path.suffix.lower() for path in maps)
    o.refuse_outputs(*([instances] if is_folder else [out, instances]), inputs=inputs, endings=endings)
    return maps


# Tables as at fit -----------------------------------------------------------------------------------------------------


def load_new_bags(header: dict, tables: list[str], how: dict) -> tuple:
    """Return the bags to predict, and their targets if they are named."""
    from bagwise.model_files.training_columns import load_to_predict

    second, target = how.pop("targets", None), how.pop("target", None)
    try:
        with warnings.catch_warnings():  # predict names the bag with such a value
            warnings.filterwarnings("ignore", message=".* looks like a fill value")
            return load_to_predict(header, o.sources(tables), how, second, target)
    except ValueError as error:
        if "keep" in how and str(error).startswith(("there is no column 'x'", "there is no column 'y'")):
            text = "A GeoTIFF needs the columns x and y of the pixels. Write the table with `bagwise raster`."
            raise ValueError(text) from error
        raise


def open_scan_like_training(model, header: dict, tables: list[str], how: dict, where, messages):
    """Return the scan of the tables, read as at fit."""
    from bagwise.model_files.training_columns import training_columns

    if hasattr(model, "target_names_"):
        raise ValueError("The model has several targets, which are predicted in memory only. Use --engine memory.")
    if "targets" in training_columns(header):
        raise ValueError("The model was fitted with a second table, which is read in memory only. Use --engine memory.")
    return o.open_scan(tables, how, where, messages)


# Predictions ----------------------------------------------------------------------------------------------------------


def predict_in_memory(model, bags, y, messages, options: dict):
    """Return predictions, scores against known targets, and the table of instances, as the options say."""
    import bagwise as bw
    from bagwise.bags.frames import as_list
    from bagwise.explanations.novelty_verdicts import why_not_judged
    from bagwise.explanations.prediction_tables import (
        Predicted,
        instance_table,
        plain,
        prediction_scores,
        prediction_table,
    )

    quantiles, scores, rows, verdicts = options["quantile"] or (), None, None, None
    with messages.spinner("predicting"):
        columns = prediction_table(model, bags, y, level=options["level"], quantiles=quantiles)
        if y is not None:
            scores = prediction_scores(columns, y, model, as_list(bags.target_name or ()))
            if quantiles:
                scores["crps"] = float(np.nanmean(model.predict_distribution(bags).crps(y)))
    reason = why_not_judged(model)
    if reason is None:
        verdicts = bw.novelty(model, bags, by_time=options["by_time"])
        messages.show(verdicts.summary(), style=None if verdicts.counts()["outside"] == 0 else "yellow")
        if verdicts.drift is not None:
            messages.show(verdicts.drift.summary(), style=None if verdicts.drift.alarm is None else "yellow")
    elif options["novelty"]:
        messages.show(f"Note: --novelty was left out: {reason}.", style="yellow")
    if verdicts is not None and options["novelty"]:
        table = verdicts.as_dict()
        columns |= {name: list(map(plain, column)) for name, column in table.items() if name != "bag"}
    if options["instances"] is not None:
        parts = [instance_table(model, part) for part in messages.parts(bags, "explaining the predictions")]
        rows = {name: [plain(value) for part in parts for value in part[name]] for name in parts[0]}
    return Predicted(columns, scores, rows)


def predict_in_chunks(model, scan, messages, executor, options: dict):
    """Return the predictions of a scan; none of those in a folder of Parquet files, which may not fit in memory."""
    import bagwise as bw
    from bagwise.explanations.prediction_tables import Predicted
    from bagwise.io.table_output import own_name

    out = options["out"]
    folder = out if out is not None and not out.suffix else None
    with messages.spinner("predicting"):
        predicted = bw.predict_scan(model, scan, level=options["level"], out=folder, executor=executor)
    if folder is not None:
        messages.show(f"Wrote {folder}")
        if not options["as_json"]:
            return Predicted({})
    values = {"prediction": predicted.values, "lower": predicted.lower, "upper": predicted.upper}
    lists = {name: column.tolist() for name, column in values.items() if column is not None}
    return Predicted({own_name(scan.bag, "bag", list(lists)): predicted.ids.tolist()} | lists)


# Output ---------------------------------------------------------------------------------------------------------------


def write(predicted, options: dict, layers: dict, *, bag, messages) -> None:
    """Write the tables, or maps on their layers; both are complete before the first is written."""
    import bagwise as bw
    from bagwise.io.table_output import write_table

    out, instances, safe = options["out"], options["instances"], options["spreadsheet_safe"]
    if out is not None and predicted.columns and out.suffix:
        if layers.get(out) is not None:
            bw.geo.to_zones(out, layers[out], predicted.columns, id=bag)
        else:
            write_table(out, predicted.columns, spreadsheet_safe=safe)
        messages.show(f"Wrote {out}")
    rows = predicted.rows
    if rows is None:
        return
    if layers.get(instances) is not None:
        value = next((name for name in VALUES if name in rows), None)
        if value is None:
            text = "A GeoTIFF has the contributions to one target, and the model has several"
            raise ValueError(f"{text}. Write {instances.stem}.csv instead.")
        bw.geo.to_raster(instances, layers[instances], rows["x"], rows["y"], rows[value], name=value)
    else:
        write_table(instances, rows, spreadsheet_safe=safe)
    messages.show(f"Wrote {instances}")


def print_csv(columns: dict, safe: bool) -> None:
    """Print a table as csv, without control characters of ids if a terminal shows it."""
    from bagwise.io.table_output import without_controls, without_formulas, write_csv

    columns = without_formulas(columns) if safe else columns
    if sys.stdout.isatty() and columns:
        bag = next(iter(columns))
        columns = columns | {bag: [without_controls(str(bag_id)) for bag_id in columns[bag]]}
    write_csv(sys.stdout, columns)


def print_scores(scores: dict | None, *, several: bool, stderr: bool) -> None:
    """Print scores against known targets; they are results, so --quiet does not silence them."""
    from bagwise.cli.console import print_text

    by_target = {} if scores is None else scores if several else {"the known targets": scores}
    for target, values in by_target.items():
        text = f"Against {target}: RMSE {values['rmse']:.4g}, MAE {values['mae']:.4g}"
        text += f", CRPS {values['crps']:.4g}" if "crps" in values else ""
        text += f"; {values['coverage']:.0%} of them inside their intervals" if "coverage" in values else ""
        print_text(text, stderr=stderr)


VERBS = (predict,)
