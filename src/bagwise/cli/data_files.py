"""Commands for data: `bagwise check` describes a table; `datasets`, `raster` and `arrays` write bags to a file.

`datasets` writes simulations. `raster` writes a table of the pixels of an image that are in polygons. `arrays` combines
a folder of arrays, one file per bag, with a table of the bags.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from bagwise.cli import options as o

STYLES = {"error": "bold red", "warning": "yellow", "note": None}


@o.reading_a_table
def check(context: typer.Context, table: o.Tables, folds: o.Folds = None, as_json: o.Json = False) -> None:
    """Describe a table, how it would be loaded, and its problems; the exit code is 1 if it cannot be loaded.

    Example: bagwise check pixels.csv --bag site --target aod
    """
    import bagwise as bw
    from bagwise.cli.console import Terminal, as_options, messages_of

    with messages_of("check"):
        inspection = bw.check_table(table, **o.columns(context), folds=folds)
    inspection.findings = [replace(finding, text=as_options(finding.text)) for finding in inspection.findings]
    if as_json:
        typer.echo(json.dumps(inspection.to_dict(), indent=1))
    else:
        console = Terminal(highlight=False, soft_wrap=True)
        for line in inspection.describe():
            console.print(line, markup=False)
        for finding in inspection.findings:
            console.print(f"{finding.level}: {finding.text}", style=STYLES[finding.level], markup=False)
        console.print(inspection.verdict, style="bold")
    raise typer.Exit(0 if inspection.ok else 1)


def datasets(
    name: Annotated[o.Text, typer.Argument(help="A data set. Default: list all. Example: aerosol")] = None,
    out: Annotated[Path | None, o.option("The table as .csv, .parquet or .npz. Example: --out aod.csv")] = None,
    bags: Annotated[int, o.option("Number of bags. Example: --bags 200", min=1)] = 200,
    seed: o.Seed = 0,
) -> None:
    """List the simulated data sets, or write one as a table with the columns bag, target and the features.

    Example: bagwise datasets aerosol --bags 300 --out aod.csv
    """
    from rich.table import Table

    from bagwise.cli.console import Terminal, messages_of
    from bagwise.datasets.simulations import SIMULATIONS, simulate

    if name is None:
        listing = Table("data set", "description", box=None, padding=(0, 2, 0, 0))
        for simulation, (_, description) in SIMULATIONS.items():
            listing.add_row(simulation, description)
        Terminal().print(listing)
        return
    with messages_of("datasets") as messages:
        o.refuse_outputs(out, endings=(".csv", ".parquet", ".npz"))
        data, y = simulate(name, bags, random_state=seed)
        if out is None:
            messages.show_data(name, data)
            messages.show(f"Targets: {y.min():.3g} to {y.max():.3g}. Write the table with --out FILE.csv")
            return
        write_bags(out, data, y)
        messages.show_data(f"Wrote {out}", data)


def write_bags(out: Path, data, y) -> None:
    import bagwise as bw
    from bagwise.io.table_output import write_table

    if out.suffix == ".npz":
        bw.save_npz(out, data, y)
        return
    names = data.feature_names or [f"x{j + 1}" for j in range(data.n_features)]
    columns = {"bag": data.expand(data.ids).tolist(), "target": data.expand(y).tolist()}
    write_table(out, columns | {n: c.tolist() for n, c in zip(names, data.instances.T, strict=True)})


def raster(
    image: Annotated[Path, typer.Argument(help="A GeoTIFF, or another raster that GDAL reads. Example: image.tif")],
    zones: Annotated[Path, typer.Argument(help="Polygons: .gpkg, .geojson or .shp. Example: fields.gpkg")],
    out: Annotated[Path, o.option("The pixels as .parquet or .csv. Example: --out pixels.parquet")],
    id: Annotated[o.Text, o.option("Column of zone ids, if any. Example: --id field")] = None,
    target: Annotated[o.Text, o.option("Column of targets. Example: --target harvest")] = None,
    groups: Annotated[o.Text, o.option("Column of groups of zones. Example: --groups county")] = None,
    blocks: Annotated[float | None, o.option("Side of square blocks, used as groups. Example: --blocks 10000")] = None,
    bag_feature: Annotated[o.Texts, o.option("Column that describes the zone. Example: --bag-feature slope")] = None,
    stack: Annotated[list[Path] | None, o.option("A raster on the same grid. Example: --stack terrain.tif")] = None,
    band: Annotated[o.Texts, o.option("Band, by name or number. Example: --band red")] = None,
    mask: Annotated[Path | None, o.option("A raster that is 0 at pixels to drop. Example: --mask clear.tif")] = None,
    weights: Annotated[Literal["area-fraction"] | None, o.option("Add each pixel's share inside its zone.")] = None,
    all_touched: Annotated[bool, o.option("Take every pixel that a zone touches.", "--all-touched")] = False,
    missing: Annotated[
        Literal["drop-instances", "refuse", "keep"], o.option("What happens to pixels without a value.")
    ] = "drop-instances",
    empty: Annotated[Literal["refuse", "drop"], o.option("What happens to zones without a pixel.")] = "refuse",
    quiet: o.Quiet = False,
) -> None:
    """Make a long table of the pixels in polygons: a row per pixel, with the zone, its target, the bands, and x and y.

    Example: bagwise raster image.tif fields.gpkg --id field --target harvest --out pixels.parquet
    """
    import bagwise as bw
    from bagwise.bags.frames import as_list
    from bagwise.cli.console import messages_of
    from bagwise.io.table_output import write_table

    with messages_of("raster", quiet=quiet) as messages:
        rasters, polygons = [image, *(stack or [])], zones
        o.refuse_outputs(out, inputs=[*rasters, zones], endings=(".parquet", ".csv"))
        if groups is not None and blocks is not None:
            raise ValueError("--groups and --blocks both set the groups. Pass only one of them.")
        bands = [int(name) if name.isdigit() else name for name in band or []] or None
        options = {"all_touched": all_touched, "missing": missing, "empty": empty, "weights": weights, "mask": mask}
        with messages.spinner("reading pixels"):
            if blocks is not None:
                from bagwise.io.raster import as_zones

                polygons, groups = as_zones(zones), "block"
                polygons = polygons.assign(block=bw.geo.blocks(polygons, blocks))
            roles = {"id": id, "target": target, "groups": groups, "bag_features": list(bag_feature or []) or None}
            bags, y = bw.from_raster(rasters, polygons, coordinates=True, bands=bands, **roles, **options)
            bag = id or bw.geo.INDEX
            try:
                frame = bags.to_frame(y, bag=bag, target=target, groups=groups or "group", weights="area_fraction")
            except ValueError as error:
                text = str(error).partition(";")[0]
                raise ValueError(f"{text}. Rename the band, or the column of the zones.") from error
            write_table(out, {name: frame[name].to_list() for name in frame.columns})
        messages.show(f"Wrote {out}: {bags.n_instances:,} pixels of {len(bags):,} zones.")
        columns = {"bag": bag, "target": target, "groups": groups, "bag-feature": bag_feature}
        columns |= {"weights": None if bags.weights is None else "area_fraction", "ignore": ["x", "y"]}
        arguments = [
            part for name, value in columns.items() for column in as_list(value or ()) for part in (f"--{name}", column)
        ]
        messages.show("Next: " + shlex.join(["bagwise", "fit", str(out), *arguments]))


def arrays(
    folder: Annotated[Path, typer.Argument(help="A folder with a .npy, .npz or .h5 file per bag. Example: slides")],
    out: Annotated[Path, o.option("The bags as .npz. Example: --out slides.npz")],
    table: Annotated[
        Path | None, o.option("A table, a row per bag: ids and targets. Example: --table clinical.csv")
    ] = None,
    bag: Annotated[o.Text, o.option("Column of bag ids. Example: --bag slide")] = None,
    target: Annotated[o.Text, o.option("Column of targets. Example: --target survival")] = None,
    groups: Annotated[o.Text, o.option("Column of groups. Example: --groups patient")] = None,
    bag_feature: Annotated[o.Texts, o.option("Column that describes the bag. Example: --bag-feature age")] = None,
    array: Annotated[o.Text, o.option("The array of a file that holds several. Example: --array features")] = None,
    unmatched: Annotated[
        Literal["refuse", "drop"], o.option("What happens to rows without a file, and files without a row.")
    ] = "refuse",
    missing: Annotated[Literal["refuse", "impute", "keep"], o.option("What happens to missing values.")] = "refuse",
    quiet: o.Quiet = False,
) -> None:
    """Write the arrays of a folder and the targets of a table to one file for fit, evaluate and predict.

    Example: bagwise arrays slides --table clinical.csv --bag slide --target survival --out slides.npz
    """
    import bagwise as bw
    from bagwise.cli.console import messages_of

    with messages_of("arrays", quiet=quiet) as messages:
        o.refuse_outputs(out, inputs=[table] if table else [], endings=(".npz",))
        if out.resolve().parent == folder.resolve():
            raise ValueError(f"{out.name} would be read as a bag of {folder}. Write it to another folder.")
        roles = {"bag": bag, "target": target, "groups": groups, "bag_features": list(bag_feature or []) or None}
        with messages.spinner("reading arrays"):
            bags, y = bw.from_folder(folder, table, **roles, array=array, unmatched=unmatched, missing=missing)
            bw.save_npz(out, bags, y)
        messages.show_data(f"Wrote {out}", f"{bags}{'' if y is None else ', with targets'}")


VERBS = (arrays, check, datasets, raster)
