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
VALUES = ("contribution", "weight", "effect")  # a map shows the first of these columns of the table of instances
MEMORY_OPTIONS = ("instances", "novelty", "by_time", "quantile", "target", "targets", "keep", "decimal")


@o.reading_a_table(options=o.LIKE_TRAINING | {"time": o.COLUMNS["time"]})
def predict(
    context: typer.Context,
    model: o.ModelFile,
    table: o.Tables,
    out: Annotated[Path | None, o.option("Predictions: .csv, .parquet, .gpkg or a folder; default: stdout.")] = None,
    instances: Annotated[
        Path | None, o.option("Contributions, a row per instance, or as .tif. Example: --instances pixels.csv")
    ] = None,
    zones: Annotated[Path | None, o.option("Polygons of the bags, for a .gpkg. Example: --zones fields.gpkg")] = None,
    raster: Annotated[Path | None, o.option("The image, for a .tif. Example: --raster image.tif")] = None,
    level: Annotated[float | None, o.option("Level of intervals; default as in fit.", callback=o.check_shares)] = None,
    novelty: Annotated[bool, o.option("Add columns that compare the bags with training.", "--novelty")] = False,
    by_time: Annotated[bool, o.option("With --novelty: test for a drift in order of --time.", "--by-time")] = False,
    quantile: Annotated[
        list[float] | None,
        o.option("Quantile of the predictive distribution to add. Example: --quantile 0.1", callback=o.check_shares),
    ] = None,
    spreadsheet_safe: Annotated[
        bool, o.option("In csv, put an apostrophe before ids such as =1+1.", "--spreadsheet-safe")
    ] = False,
    engine: o.Engine = "memory",
    scheduler: o.Scheduler = None,
    where: o.Where = None,
    n_jobs: o.Jobs = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Predict the bags of a table, with intervals; --instances also writes the contribution of each instance.

    Example: bagwise predict aod.bagwise new_pixels.csv --out predictions.csv
    """
    import bagwise as bw
    from bagwise.cli.console import messages_of
    from bagwise.explanations.prediction_tables import no_intervals
    from bagwise.io.table_output import to_rows
    from bagwise.model_files.training_columns import columns_at_fit, training_columns

    with messages_of("predict", quiet=quiet) as messages:
        maps = check_outputs(out, instances, zones, raster, engine, inputs=[model, *o.files(table)])
        fitted, header = bw.load_model(model), bw.model_files.read_header(model)
        given_columns = o.columns(context)
        if instances in maps:
            given_columns["keep"] = [*dict.fromkeys([*given_columns.get("keep", []), "x", "y"])]
        columns = columns_at_fit(header, table) | given_columns
        if by_time:
            columns.setdefault("time", training_columns(header).get("time"))
            if not novelty or columns["time"] is None:
                raise ValueError("--by-time needs --novelty and a column of times. Name the column with --time.")
        if engine == "memory":
            o.refuse_where(where)
            bags, y = load_new_bags(header, table, columns)
            messages.show_data(o.stem(table), bags)
            with o.workers(scheduler):
                predicted = predict_in_memory(fitted, bags, y, messages, context.params)
        else:
            o.refuse_options(context, *MEMORY_OPTIONS)
            if hasattr(fitted, "target_names_"):
                raise ValueError("The model has several targets, so it predicts in memory only. Use --engine memory.")
            if "targets" in training_columns(header):
                raise ValueError("The model needs a second table, so it predicts in memory only. Use --engine memory.")
            with o.executor(engine, scheduler, n_jobs) as executor:
                scan = o.open_scan(table, columns, where, messages)
                predicted = predict_in_chunks(fitted, scan, messages, executor, context.params)
        if reason := no_intervals(fitted, level):
            messages.show(f"No intervals: {reason}.")
        write(predicted, context.params, maps, bag=columns.get("bag"), messages=messages)
    if as_json:
        typer.echo(json.dumps({"predictions": to_rows(predicted.columns), "scores": predicted.scores}, indent=1))
        return
    if out is None:
        print_csv(predicted.columns, spreadsheet_safe)
    print_scores(predicted.scores, by_target=hasattr(fitted, "target_names_"), stderr=out is None)


def check_outputs(out, instances, zones, raster, engine: str, *, inputs: list) -> dict[Path, Path]:
    """Check that the outputs can be written, and return the layer (zones or raster) of each output that is a map.

    A map needs a layer, and other outputs must not have one.
    """
    from bagwise.io.atomic_files import refuse_place

    maps = {}
    pairs = (out, zones, "--out", "--zones", ZONES), (instances, raster, "--instances", "--raster", RASTERS)
    for path, layer, output, option, endings in pairs:
        is_map = path is not None and path.suffix.lower() in endings
        if is_map and layer is None:
            raise ValueError(f"{path.name} is a map and needs a layer to draw on. Pass it with {option}.")
        if layer is not None and not is_map:
            raise ValueError(f"{option} needs a map. Pass {output} with a name that ends in {' or '.join(endings)}.")
        if is_map and engine != "memory":
            raise ValueError(f"{path.name} is a map, which --engine {engine} cannot write. Use --engine memory.")
        maps |= {path: layer} if is_map else {}
    is_folder = engine != "memory" and out is not None and not out.suffix
    if is_folder:
        refuse_place(out)
    endings = ".csv", ".parquet", *(path.suffix.lower() for path in maps)
    outputs = [instances] if is_folder else [out, instances]
    o.refuse_outputs(*outputs, inputs=[*inputs, *maps.values()], endings=endings)
    return maps


def load_new_bags(header: dict, tables: list[str], columns: dict) -> tuple:
    """Load the bags to predict, and their targets if a target column is given."""
    from bagwise.model_files.training_columns import load_to_predict

    second_table, target = columns.pop("targets", None), columns.pop("target", None)
    try:
        with warnings.catch_warnings():  # `predict` itself warns of such values, and names the bag
            warnings.filterwarnings("ignore", message=".* looks like a fill value")
            return load_to_predict(header, tables, columns, second_table, target)
    except ValueError as error:
        if "keep" in columns and str(error).startswith(("there is no column 'x'", "there is no column 'y'")):
            text = "A GeoTIFF needs the columns x and y of the pixels. Write the table with `bagwise raster`."
            raise ValueError(text) from error
        raise


def predict_in_memory(model, bags, y, messages, options: dict):
    """Return a `Predicted`: predictions, scores if targets are given, and contributions of instances if requested."""
    import bagwise as bw
    from bagwise.bags.frames import as_list
    from bagwise.explanations import prediction_tables as tables
    from bagwise.explanations.novelty_verdicts import why_not_judged

    quantiles, scores, rows = options["quantile"] or (), None, None
    with messages.spinner("predicting"):
        columns = tables.prediction_table(model, bags, y, level=options["level"], quantiles=quantiles)
        if y is not None:
            scores = tables.prediction_scores(columns, y, model, as_list(bags.target_name or ()))
            if quantiles:
                scores["crps"] = float(np.nanmean(model.predict_distribution(bags).crps(y)))
    reason = why_not_judged(model)
    if reason is None:
        verdicts = bw.novelty(model, bags, by_time=options["by_time"])
        messages.show(verdicts.summary(), style=None if verdicts.counts()["outside"] == 0 else "yellow")
        if verdicts.drift is not None:
            messages.show(verdicts.drift.summary(), style=None if verdicts.drift.alarm is None else "yellow")
        if options["novelty"]:
            novelty = verdicts.as_dict()
            columns |= {name: list(map(tables.plain, novelty[name])) for name in novelty if name != "bag"}
    elif options["novelty"]:
        messages.note(f"--novelty was ignored: {reason}.")
    if options["instances"] is not None:
        parts = messages.parts(bags, "explaining the predictions")
        parts = [tables.instance_table(model, part) for part in parts]
        rows = {name: [tables.plain(value) for part in parts for value in part[name]] for name in parts[0]}
    return tables.Predicted(columns, scores, rows)


def predict_in_chunks(model, scan, messages, executor, options: dict):
    """Predict a scan. Predictions written to a folder are not returned, because they may not fit in memory."""
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


def write(predicted, options: dict, maps: dict, *, bag, messages) -> None:
    """Write the predictions and the contributions of instances, each as a table or as a map."""
    import bagwise as bw
    from bagwise.io.table_output import write_table

    out, instances, rows, safe = options["out"], options["instances"], predicted.rows, options["spreadsheet_safe"]
    if out is not None and predicted.columns and out.suffix:
        if out in maps:
            bw.geo.to_zones(out, maps[out], predicted.columns, id=bag)
        else:
            write_table(out, predicted.columns, spreadsheet_safe=safe)
        messages.show(f"Wrote {out}")
    if rows is None:
        return
    if instances in maps:
        value = next((name for name in VALUES if name in rows), None)
        if value is None:
            text = "A GeoTIFF can show the contributions to one target, but the model has several"
            raise ValueError(f"{text}. Write {instances.stem}.csv instead.")
        bw.geo.to_raster(instances, maps[instances], rows["x"], rows["y"], rows[value], name=value)
    else:
        write_table(instances, rows, spreadsheet_safe=safe)
    messages.show(f"Wrote {instances}")


def print_csv(columns: dict, safe: bool) -> None:
    """Print a table as csv; on a terminal, escape control characters in the ids."""
    from bagwise.io.table_output import without_controls, write_csv

    if sys.stdout.isatty() and columns:
        bag = next(iter(columns))
        columns = columns | {bag: [without_controls(str(bag_id)) for bag_id in columns[bag]]}
    write_csv(sys.stdout, columns, spreadsheet_safe=safe)


def print_scores(scores: dict | None, *, by_target: bool, stderr: bool) -> None:
    """Print scores against known targets, also with --quiet, because they are results."""
    from bagwise.cli.console import print_text

    if scores is None:
        return
    for target, values in (scores if by_target else {"the known targets": scores}).items():
        text = f"Against {target}: RMSE {values['rmse']:.4g}, MAE {values['mae']:.4g}"
        text += f", CRPS {values['crps']:.4g}" if "crps" in values else ""
        text += f"; {values['coverage']:.0%} of the targets are inside their intervals" if "coverage" in values else ""
        print_text(text, stderr=stderr)


VERBS = (predict,)
