"""Maps that `bagwise predict` writes: predictions on polygons, contributions on the grid of an image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def write_contributions(path: Path, raster: Path, rows: dict) -> None:
    """A table of instances as a GeoTIFF on the grid of the image."""
    import bagwise as bw

    name = next((name for name in VALUES if name in rows), None)
    if name is None:
        raise ValueError(f"a GeoTIFF holds the contributions to one target; write {path.stem}.csv for several")
    bw.geo.to_raster(path, raster, rows["x"], rows["y"], rows[name], name=name)
