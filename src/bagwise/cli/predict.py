"""What a model file does with a table: `bagwise predict` and `importance`.

Predictions are written as tables, or as maps: on polygons, contributions on the grid of an image.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bagwise.cli import options as o

ZONES, RASTERS = (".gpkg", ".geojson"), (".tif", ".tiff")
VALUES = ("contribution", "weight", "effect")  # columns of a table of instances, the first there is


def mapped(
    out: Path | None, zones: Path | None, instances: Path | None, raster: Path | None, engine: str
) -> list[Path]:
    """The outputs that are maps; what they are laid over must be given for them, and for nothing else."""
    places = (out, zones, "--out", "--zones", ZONES), (instances, raster, "--instances", "--raster", RASTERS)
    found = []
    for path, given, output, option, endings in places:
        is_map = path is not None and path.suffix.lower() in endings
        if is_map and given is None:
            raise ValueError(f"{path.name} is a map: give what it is laid over with {option}")
        if given is not None and not is_map:
            raise ValueError(f"{option} is for a map: give {output} with a name that ends in {' or '.join(endings)}")
        found += [path] if is_map else []
    if found and engine != "memory":
        raise ValueError(f"{found[0].name} is a map, which --engine {engine} does not write; use --engine memory")
    return found


@contextmanager
def placed(needed: bool) -> Iterator[None]:
    """Inside, a table without the places of its pixels is refused with where they come from, if they are needed."""
    try:
        yield
    except ValueError as error:
        if needed and str(error).startswith(("there is no column 'x'", "there is no column 'y'")):
            raise ValueError(
                "a GeoTIFF needs the columns x and y of the pixels, which `bagwise raster` writes"
            ) from error
        raise


def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A file written by `bagwise fit`. Example: aod.bagwise")],
    table: o.Tables,
    bag: Annotated[str | None, typer.Option(help="Column of bag ids, if its name differs from fit.")] = None,
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
        bool, typer.Option("--novelty", help="Columns that compare bags with those of training; --engine memory.")
    ] = False,
    quantile: Annotated[
        list[float] | None,
        typer.Option(help="Column of this quantile of the target's distribution. Example: --quantile 0.1"),
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Column of known targets, to score against.")] = None,
    targets: o.Targets = None,
    missing: Annotated[o.Treatment | None, typer.Option(help="As in fit, if it differs.")] = None,
    fill_value: o.FillValues = None,
    keep: o.Keep = None,
    decimal: o.Decimal = None,
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
    from bagwise.cli.console import messages_of, print_text
    from bagwise.explanations.novelty_verdicts import why_not_judged
    from bagwise.io.atomic_files import refuse_place
    from bagwise.io.table_output import to_rows, without_formulas, write_table

    with messages_of("predict", quiet=quiet) as messages:
        parts = engine != "memory" and out is not None and not out.suffix
        outputs = [instances] if parts else [out, instances]
        maps = mapped(out, zones, instances, raster, engine)
        inputs = [model, *o.files(table), *(path for path in (zones, raster) if path is not None)]
        endings = ".csv", ".parquet", *(path.suffix.lower() for path in maps)
        o.refuse_outputs(*outputs, inputs=inputs, endings=endings)
        if parts:
            refuse_place(out)
        keep = [*dict.fromkeys([*(keep or []), "x", "y"])] if instances in maps else keep
        fitted, header = bw.load_model(model), bw.model_files.read_header(model)
        given = {"bag": bag, "missing": missing, "fill_values": list(fill_value) if fill_value else None}
        given |= {"keep": list(keep) if keep else None, "decimal": decimal}
        new = {name: value for name, value in given.items() if value is not None}
        how, rows, scored = columns_at_fit(header, table) | new, None, None
        if engine != "memory":
            in_memory = ("instances", "novelty", "quantile", "target", "targets", "keep", "decimal")
            o.refuse_options(context, *in_memory)
            with o.executor(engine, scheduler, n_jobs) as executor:
                asked = how | {"target": None, "targets": _known(header).get("targets")}
                more = {"level": level, "shown": as_json}
                columns = predict_scan(fitted, table, asked, where, out, executor, messages, **more)
        else:
            o.refuse_where(where)
            with warnings.catch_warnings(), placed(instances in maps):  # predict names the bag that holds one
                warnings.filterwarnings("ignore", message=".* looks like a fill value")
                bags, y = load_for_predictions(header, table, how, targets, o.one_or_several(target))
            messages.show(f"{o.stem(table)}: {bags}.")
            with o.workers(scheduler), messages.spinner("predicting"):
                columns = predictions(fitted, bags, y, level=level, quantiles=quantile or ())
                scored = None if y is None else scores(columns, y, fitted, o.as_names(bags.target_name))
                if scored is not None and quantile:
                    scored["crps"] = float(np.nanmean(fitted.predict_distribution(bags).crps(y)))  # of known targets
            not_judged = why_not_judged(fitted)
            if novelty and not_judged:
                messages.show(f"Note: --novelty was left out: {not_judged}.", style="yellow")
            if not_judged is None:
                found = bw.novelty(fitted, bags)
                messages.show(found.summary(), style=None if found.counts()["outside"] == 0 else "yellow")
                judged = {name: list(map(_plain, column)) for name, column in found.as_dict().items() if name != "bag"}
                columns |= judged if novelty else {}
            if instances is not None:
                with messages.spinner("explaining the predictions"):
                    rows = {name: list(map(_plain, column)) for name, column in explained(fitted, bags).items()}
        if why := no_intervals(fitted, level):
            messages.show(f"No intervals: {why}.")
        # Both tables are known before either is written.
        if out is not None and not parts:
            if out in maps:
                bw.geo.to_zones(out, zones, columns, id=how.get("bag"))
            else:
                write_table(out, columns, spreadsheet_safe=spreadsheet_safe)
            messages.show(f"Wrote {out}")
        if rows is not None:
            if instances in maps:
                shown = next((name for name in VALUES if name in rows), None)
                if shown is None:
                    what = "a GeoTIFF holds the contributions to one target"
                    raise ValueError(f"{what}; write {instances.stem}.csv for several")
                bw.geo.to_raster(instances, raster, rows["x"], rows["y"], rows[shown], name=shown)
            else:
                write_table(instances, rows, spreadsheet_safe=spreadsheet_safe)
            messages.show(f"Wrote {instances}")
    if as_json:
        typer.echo(json.dumps({"predictions": to_rows(columns), "scores": scored}, indent=1))
        return
    if out is None:
        _print(without_formulas(columns) if spreadsheet_safe else columns)
    several = scored if hasattr(fitted, "target_names_") else {"the known targets": scored}
    for what, one in several.items() if scored is not None else ():  # a result, printed even when quiet
        text = f"Against {what}: RMSE {one['rmse']:.4g}, MAE {one['mae']:.4g}"
        text += f", CRPS {one['crps']:.4g}" if "crps" in one else ""
        inside = f"; {one['coverage']:.0%} of them inside their intervals" if "coverage" in one else ""
        print_text(text + inside, stderr=out is None)  # where the table is on stdout


def predict_scan(
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
    scan = o.open_scan(tables, columns, where, messages)
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


def predictions(model, bags, y=None, *, level: float | None = None, quantiles=()) -> dict[str, list]:
    """A row per bag: its id, prediction, interval where the model gives one, quantiles, and the known target.

    The id and the target are called as in the user's table; of several targets, each has its own ``yield_prediction``.
    """
    from bagwise.io.table_output import own_name

    if len(quantiles) and hasattr(model, "target_names_"):
        raise ValueError("--quantile is for a model of one target; this one has several: fit one for the target alone")
    if len(quantiles) and not hasattr(model, "predict_distribution"):
        raise ValueError(
            "this model was fitted without intervals, so it has no quantiles; fit it without --no-intervals"
        )
    models = by_target(model)
    lists = {f"{prefix}prediction": one.predict(bags).tolist() for prefix, one in models.items()}
    heads = [f"{prefix}{kind}" for prefix in models for kind in ("prediction", "lower", "upper")]
    for prefix, one in models.items():
        if no_intervals(one, level) is None:
            lower, upper = one.predict_interval(bags, level=level).T
            lists |= {f"{prefix}lower": lower.tolist(), f"{prefix}upper": upper.tolist()}
        elif level is not None:
            raise ValueError("this model was fitted without intervals; fit it again, without --no-intervals")
    if len(quantiles):
        found = model.predict_distribution(bags).quantile(list(quantiles))
        lists |= {f"q{p:g}": column.tolist() for p, column in zip(quantiles, found.T, strict=True)}
    bag = own_name(bags.id_name, "bag", [*lists, *heads])
    known: dict[str, list] = {}
    names = [] if y is None else o.as_names(bags.target_name) or ["target"]
    for name, column in zip(names, [] if y is None else np.reshape(y, (len(bags), -1)).T, strict=True):
        known[own_name(name, "target", [bag, *lists, *known])] = [
            None if np.isnan(one) else one for one in column.tolist()
        ]
    return {bag: list(map(_plain, bags.ids))} | lists | known


def by_target(model) -> dict:
    """The model of every target, by how the names of its columns begin."""
    if not hasattr(model, "target_names_"):
        return {"": model}
    return dict(zip((f"{name}_" for name in model.target_names_), model.estimators_, strict=True))


def explained(model, bags) -> dict[str, np.ndarray]:
    """A row per instance, with what each has to do with the prediction; of several targets, with each in turn."""
    from bagwise.explanations.explanation import SINGULAR, explain

    if bags.id_name in SINGULAR.values():  # a column of this table is called so
        bags = bags._with(id_name=None)
    rows: dict[str, np.ndarray] = {}
    for prefix, one in by_target(model).items():
        found = explain(one, bags).as_dict()
        rows |= {prefix + SINGULAR[name] if name in SINGULAR else name: column for name, column in found.items()}
    return rows


def no_intervals(model, level: float | None) -> str | None:
    """Why the predictions have none; None if they have, or if the level that was asked for decides."""
    if hasattr(model, "target_names_"):
        return next(filter(None, (no_intervals(one, level) for one in model.estimators_)), None)
    if not hasattr(model, "predict_interval"):
        return "the model was fitted without them"
    return model.lacking_ if level is None else None


def scores(columns: dict, y: np.ndarray, model, names: list[str]) -> dict:
    """The predictions against known targets; ``coverage`` is the share of targets inside their intervals.

    Of a model of several targets, those of ``names`` have scores, in any order.
    """
    from bagwise.intervals import coverage
    from bagwise.metrics import mae, rmse

    own = getattr(model, "target_names_", None)
    if own is None and y.ndim == 2:
        raise ValueError(f"the model has one target, not {y.shape[1]}; name the one to compare it with: --target")
    unknown = [name for name in names if own is not None and name not in own]
    if unknown:
        raise ValueError(f"the model has no target {unknown[0]!r}; --target takes those it has: {', '.join(own)}")
    found, prefixes = {}, [""] if own is None else [f"{name}_" for name in names or own]
    for prefix, column in zip(prefixes, np.reshape(y, (len(y), -1)).T, strict=True):
        known = ~np.isnan(column)
        target, predicted = column[known], np.asarray(columns[f"{prefix}prediction"])[known]
        one = {"rmse": rmse(target, predicted), "mae": mae(target, predicted)}
        if f"{prefix}lower" in columns:
            bounds = np.column_stack([columns[f"{prefix}lower"], columns[f"{prefix}upper"]])
            one["coverage"] = coverage(target, bounds[known])
        found[prefix.removesuffix("_")] = one
    return found.get("", found)


def _plain(value):
    """A label or number as plain Python; dates as text."""
    if isinstance(value, np.datetime64):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def _known(header: dict) -> dict:
    return dict((header.get("training") or {}).get("columns") or {})


def columns_at_fit(header: dict, tables: list[str], *, more: tuple[str, ...] = ()) -> dict:
    """How the table was read at fit: the same columns are needed again, targets and groups only if asked for."""
    from bagwise.io.array_files import holds_bags

    known = _known(header)
    if tables[0].lower().endswith(".npz") and Path(tables[0]).is_file() and holds_bags(Path(tables[0])):
        return {name: known[name] for name in ("missing", "fill_values") if name in known}
    names = header.get("feature_names")
    remembered = ("bag", "missing", "fill_values", "weights", "bag_features", "decimal", *more)
    kept = {name: known[name] for name in remembered if name in known}
    return kept | ({} if names is None else {"features": list(names)})


def load_like_training(header: dict, tables: list[str], how: dict, second: Path | None) -> tuple:
    """Return bags and targets, read by the keywords ``how`` of `bagwise.load`.

    The second table may hold columns that the model does not need; they are left out without a note.
    """
    from bagwise.bags.validation import ParameterError
    from bagwise.io.load import load_to_score

    if second is not None:
        frame = read_second_table(second, how)
        return load_to_score(o.sources(tables), **how, **({"targets": frame} if len(frame.columns) > 1 else {}))
    try:
        return load_to_score(o.sources(tables), **how)
    except ParameterError as error:
        if "targets" not in _known(header) or error.parameter not in ("bag_features", "target", "groups"):
            raise
        way_out = "; the model was fitted with a second table: give one with --targets"
        raise ParameterError("targets", error.args[-1], way_out) from None


def read_second_table(path: Path, how: dict):
    """Return the columns of a second table that the keywords of `bagwise.load` name."""
    from bagwise.bags.validation import ParameterError
    from bagwise.io.columns import Roles, is_made_of
    from bagwise.io.tables import read_files

    frame = read_files(path, Roles(bag=how.get("bag")), decimal=how.get("decimal", "."))
    if frame is None:
        raise ParameterError("targets", f"{path.name} is not a table with named columns; give a .csv or .parquet")
    roles = Roles(**{name: how.get(name) for name in ("bag", "target", "groups", "weights", "bag_features")}).asked()
    return frame.select([name for name in frame.columns if any(is_made_of(name, role) for role in roles)])


def load_for_predictions(header: dict, tables: list[str], how: dict, second: Path | None, target) -> tuple:
    """Return bags, and known targets if asked for; bags of a second table may have none."""
    from bagwise.io.columns import Roles
    from bagwise.io.tables import known_targets

    if second is None or target is None:
        return load_like_training(header, tables, how | ({"target": target} if second is None else {}), second)
    bags, _ = load_like_training(header, tables, how, second)
    roles = Roles(bag=how.get("bag"), target=o.as_names(target))
    frame = read_second_table(second, how | {"target": target})
    y = known_targets(frame, roles, bags.ids, how.get("fill_values", ()))
    return (
        (bags._with(target_name=target), y[:, 0])
        if isinstance(target, str)
        else (bags._with(target_name=tuple(target)), y)
    )


def _print(columns: dict) -> None:
    from bagwise.io.table_output import without_controls, write_csv

    if sys.stdout.isatty():  # elsewhere a program reads the ids again
        bag = next(iter(columns))
        columns = columns | {bag: [without_controls(str(one)) for one in columns[bag]]}
    write_csv(sys.stdout, columns)


def importance(
    model: Annotated[Path, typer.Argument(help="A file written by `bagwise fit`. Example: aod.bagwise")],
    table: o.Tables,
    target: Annotated[str | None, typer.Option(help="Column of targets, if its name differs from fit.")] = None,
    bag: Annotated[str | None, typer.Option(help="Column of bag ids, if its name differs from fit.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Columns that are exchanged together. Example: --group angles=sza,vza"),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="What is exchanged: whole, mean or spread; default all three. Example: --part whole"),
    ] = None,
    metric: Annotated[o.PointMetric, typer.Option(help="The error metric.")] = "rmse",
    repeats: Annotated[int, typer.Option(min=1, help="How often every column is exchanged.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="The table as .csv or .parquet. Example: --out importance.csv")
    ] = None,
    groups: Annotated[str | None, typer.Option(help="Column of groups, if not that of fit.")] = None,
    targets: o.Targets = None,
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
    from bagwise.io.table_output import to_rows, write_table

    with messages_of("importance", quiet=quiet) as messages:
        o.refuse_outputs(out, inputs=[model, *o.files(table)], endings=(".csv", ".parquet"))
        fitted, header = bw.load_model(model), bw.model_files.read_header(model)
        given = {"bag": bag, "groups": groups, "decimal": decimal, "target": target}
        given = {name: value for name, value in given.items() if value is not None}
        how = columns_at_fit(header, table, more=("target", "groups")) | given
        bags, y = load_like_training(header, table, how, targets)
        o.refuse_no_target(y)
        messages.show(f"{o.stem(table)}: {bags}.")
        options = {"metric": metric, "repeats": repeats, "random_state": seed, "n_jobs": n_jobs}
        options |= {"parts": list(part)} if part else {}
        options |= {"progress": None if messages.is_live else False}
        found = bw.importance(fitted, bags, y, groups=groups_of(group), **options)
        if not found.held_out:
            messages.show("The model kept no folds of these bags: they are predicted by the model itself.")
        if out is not None:
            write_table(out, found.as_dict())
            messages.show(f"Wrote {out}")
    if as_json:
        about = {"metric": found.metric, "baseline": found.baseline, "held_out": found.held_out}
        typer.echo(json.dumps(about | {"importance": to_rows(found.as_dict())}, indent=1))
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
