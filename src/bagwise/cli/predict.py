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
from bagwise.cli.prediction_tables import (
    Predicted,
    column_names,
    explained,
    no_intervals,
    plain,
    predictions,
    scores,
)

ZONES, RASTERS = (".gpkg", ".geojson"), (".tif", ".tiff")
VALUES = ("contribution", "weight", "effect")  # columns of a table of instances, of which a map shows the first


@o.reading_a_table(options=o.LIKE_TRAINING | {"time": o.Time})
def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A file written by `bagwise fit`. Example: aod.bagwise")],
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
        typer.Option(help="Add a column with this quantile of the predictive distribution. Example: --quantile 0.1"),
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
    from bagwise.io.table_output import to_rows

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
                raise ValueError("--by-time goes with --novelty and needs the column of times; name it with --time")
        if engine == "memory":
            o.refuse_where(where)
            second, target = how.pop("targets", None), how.pop("target", None)
            with warnings.catch_warnings():  # predict names the bag that has one
                warnings.filterwarnings("ignore", message=".* looks like a fill value")
                bags, y = load_for_predictions(header, table, how, second, target)
            messages.show(f"{o.stem(table)}: {bags}.")
            with o.workers(scheduler):
                found = predict_in_memory(fitted, bags, y, messages, context.params)
        else:
            o.refuse_options(context, "instances", "novelty", "by_time", "quantile", *IN_MEMORY)
            with o.executor(engine, scheduler, n_jobs) as executor:
                scan = open_scan_like_training(fitted, header, table, how, where, messages)
                found = predict_in_chunks(fitted, scan, messages, executor, context.params)
        if reason := no_intervals(fitted, level):
            messages.show(f"No intervals: {reason}.")
        write(found, out, instances, maps, zones, raster, bag=how.get("bag"), messages=messages, safe=spreadsheet_safe)
    if as_json:
        typer.echo(json.dumps({"predictions": to_rows(found.columns), "scores": found.scores}, indent=1))
        return
    if out is None:
        print_csv(found.columns, spreadsheet_safe)
    print_scores(found.scores, several=hasattr(fitted, "target_names_"), stderr=out is None)


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
            raise ValueError(f"{path.name} is a map and needs the layer that it is drawn on; give it with {option}")
        if layer is not None and not is_map:
            raise ValueError(f"{option} is for a map; give {output} with a name that ends in {' or '.join(endings)}")
        maps += [path] if is_map else []
    if maps and engine != "memory":
        raise ValueError(f"{maps[0].name} is a map, which --engine {engine} does not write; use --engine memory")
    is_folder = engine != "memory" and out is not None and not out.suffix
    if is_folder:
        refuse_place(out)
    inputs = [*inputs, *(layer for layer in (zones, raster) if layer is not None)]
    endings = ".csv", ".parquet", *(path.suffix.lower() for path in maps)
    o.refuse_outputs(*([instances] if is_folder else [out, instances]), inputs=inputs, endings=endings)
    return maps


# Tables as at fit -----------------------------------------------------------------------------------------------------


def columns_at_fit(header: dict, tables: list[str], *, more: tuple[str, ...] = ()) -> dict:
    """Return how the table was read at fit, as keywords of `bagwise.load`; targets and groups only on request."""
    from bagwise.io.array_files import holds_bags

    columns = training_columns(header)
    if tables[0].lower().endswith(".npz") and Path(tables[0]).is_file() and holds_bags(Path(tables[0])):
        return {name: columns[name] for name in ("missing", "fill_values") if name in columns}
    names = header.get("feature_names")
    needed = ("bag", "missing", "fill_values", "weights", "bag_features", "decimal", *more)
    how = {name: columns[name] for name in needed if name in columns}
    return how | ({} if names is None else {"features": list(names)})


def training_columns(header: dict) -> dict:
    return dict((header.get("training") or {}).get("columns") or {})


def load_like_training(header: dict, tables: list[str], how: dict, second: str | None) -> tuple:
    """Return bags and targets, read by the keywords ``how`` of `bagwise.load`.

    The second table may have columns that the model does not need; they are left out without a note.
    """
    from bagwise.bags.validation import ParameterError
    from bagwise.io.load import load_to_score

    if second is not None:
        frame = read_second_table(second, how)
        return load_to_score(o.sources(tables), **how, **({"targets": frame} if frame.num_columns > 1 else {}))
    try:
        return load_to_score(o.sources(tables), **how)
    except ParameterError as error:
        if "targets" not in training_columns(header) or error.parameter not in ("bag_features", "target", "groups"):
            raise
        way_out = "; the model was fitted with a second table: give one with --targets"
        raise ParameterError("targets", error.args[-1], way_out) from None


def read_second_table(path: str, how: dict):
    """Return the columns of a second table that the keywords of `bagwise.load` name."""
    from bagwise.bags.validation import ParameterError
    from bagwise.io.columns import Roles, is_made_of
    from bagwise.io.tables import read_files

    frame = read_files(path, Roles(bag=how.get("bag")), decimal=how.get("decimal", "."))
    if frame is None:
        raise ParameterError("targets", f"{path} is not a table with named columns; give a .csv or .parquet")
    roles = Roles(**{name: how.get(name) for name in ("bag", "target", "groups", "weights", "bag_features")}).asked()
    return frame.select([name for name in frame.column_names if any(is_made_of(name, role) for role in roles)])


def load_for_predictions(header: dict, tables: list[str], how: dict, second: str | None, target) -> tuple:
    """Return bags, and known targets if asked for; bags of a second table may have none."""
    from bagwise.io.columns import Roles
    from bagwise.io.tables import known_targets

    try:
        if second is None or target is None:
            return load_like_training(header, tables, how | ({"target": target} if second is None else {}), second)
        bags, _ = load_like_training(header, tables, how, second)
    except ValueError as error:
        if "keep" in how and str(error).startswith(("there is no column 'x'", "there is no column 'y'")):
            text = "a GeoTIFF needs the columns x and y of the pixels; write the table with `bagwise raster`"
            raise ValueError(text) from error
        raise
    frame, names = read_second_table(second, how | {"target": target}), column_names(target)
    y = known_targets(frame, Roles(bag=how.get("bag"), target=names), bags.ids, how.get("fill_values", ()))
    is_single = isinstance(target, str)
    return bags._with(target_name=target if is_single else tuple(target)), y[:, 0] if is_single else y


def open_scan_like_training(model, header: dict, tables: list[str], how: dict, where, messages):
    """Return the scan of the tables, read as at fit."""
    if hasattr(model, "target_names_"):
        raise ValueError("the model has several targets, which are predicted in memory only: use --engine memory")
    if "targets" in training_columns(header):
        raise ValueError("the model was fitted with a second table, which is read in memory only: use --engine memory")
    return o.open_scan(tables, how, where, messages)


# Predictions ----------------------------------------------------------------------------------------------------------


def predict_in_memory(model, bags, y, messages, options: dict) -> Predicted:
    """Return predictions, scores against known targets, and the table of instances, as the options say."""
    import bagwise as bw
    from bagwise.explanations.novelty_verdicts import why_not_judged

    quantiles, rows, judged = options["quantile"] or (), None, None
    with messages.spinner("predicting"):
        columns = predictions(model, bags, y, level=options["level"], quantiles=quantiles)
        scored = None if y is None else scores(columns, y, model, column_names(bags.target_name))
        if scored is not None and quantiles:
            scored["crps"] = float(np.nanmean(model.predict_distribution(bags).crps(y)))
    reason = why_not_judged(model)
    if reason is None:
        judged = bw.novelty(model, bags, by_time=options["by_time"])
        messages.show(judged.summary(), style=None if judged.counts()["outside"] == 0 else "yellow")
        if judged.drift is not None:
            messages.show(judged.drift.summary(), style=None if judged.drift.alarm is None else "yellow")
    elif options["novelty"]:
        messages.show(f"Note: --novelty was left out: {reason}.", style="yellow")
    if judged is not None and options["novelty"]:
        verdicts = {name: list(map(plain, column)) for name, column in judged.as_dict().items()}
        columns |= {name: column for name, column in verdicts.items() if name != "bag"}
    if options["instances"] is not None:
        with messages.spinner("explaining the predictions"):
            rows = {name: list(map(plain, column)) for name, column in explained(model, bags).items()}
    return Predicted(columns, scored, rows)


def predict_in_chunks(model, scan, messages, executor, options: dict) -> Predicted:
    """Return the predictions of a scan; none of those in a folder of Parquet files, which may not fit in memory."""
    import bagwise as bw
    from bagwise.io.table_output import own_name

    out = options["out"]
    folder = out if out is not None and not out.suffix else None
    with messages.spinner("predicting"):
        found = bw.predict_scan(model, scan, level=options["level"], out=folder, executor=executor)
    if folder is not None:
        messages.show(f"Wrote {folder}")
        if not options["as_json"]:
            return Predicted({})
    values = {"prediction": found.values, "lower": found.lower, "upper": found.upper}
    lists = {name: column.tolist() for name, column in values.items() if column is not None}
    return Predicted({own_name(scan.bag, "bag", list(lists)): found.ids.tolist()} | lists)


# Output ---------------------------------------------------------------------------------------------------------------


def write(found: Predicted, out, instances, maps: list, zones, raster, *, bag, messages, safe: bool) -> None:
    """Write the tables and maps; both are complete before the first is written."""
    import bagwise as bw
    from bagwise.io.table_output import write_table

    if out is not None and found.columns and out.suffix:
        if out in maps:
            bw.geo.to_zones(out, zones, found.columns, id=bag)
        else:
            write_table(out, found.columns, spreadsheet_safe=safe)
        messages.show(f"Wrote {out}")
    if found.rows is None:
        return
    if instances in maps:
        shown = next((name for name in VALUES if name in found.rows), None)
        if shown is None:
            text = "a GeoTIFF has the contributions to one target, and the model has several"
            raise ValueError(f"{text}; write {instances.stem}.csv instead")
        bw.geo.to_raster(instances, raster, found.rows["x"], found.rows["y"], found.rows[shown], name=shown)
    else:
        write_table(instances, found.rows, spreadsheet_safe=safe)
    messages.show(f"Wrote {instances}")


def print_csv(columns: dict, safe: bool) -> None:
    """Print a table as csv, without control characters of ids if a terminal shows it."""
    from bagwise.io.table_output import without_controls, without_formulas, write_csv

    columns = without_formulas(columns) if safe else columns
    if sys.stdout.isatty() and columns:
        bag = next(iter(columns))
        columns = columns | {bag: [without_controls(str(one)) for one in columns[bag]]}
    write_csv(sys.stdout, columns)


def print_scores(scored: dict | None, *, several: bool, stderr: bool) -> None:
    """Print scores against known targets; they are results, so --quiet does not silence them."""
    from bagwise.cli.console import print_text

    by_target = {} if scored is None else scored if several else {"the known targets": scored}
    for target, values in by_target.items():
        text = f"Against {target}: RMSE {values['rmse']:.4g}, MAE {values['mae']:.4g}"
        text += f", CRPS {values['crps']:.4g}" if "crps" in values else ""
        text += f"; {values['coverage']:.0%} of them inside their intervals" if "coverage" in values else ""
        print_text(text, stderr=stderr)


VERBS = (predict,)
