"""Tools for maps, public as ``bw.geo``: blocks for spatial folds; write predictions to polygons and rasters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bagwise.bags.validation import ParameterError, and_others, label, match_ids
from bagwise.io.atomic_files import replace_file

INDEX = "zone"  # the name of the ids of zones without a column of ids
MAPS = {".gpkg": "GPKG", ".geojson": "GeoJSON"}

__all__ = ["blocks", "to_raster", "to_zones"]


def blocks(zones, size) -> np.ndarray:
    """Return the block of a square grid that contains the middle of each zone: groups for spatial folds.

    Neighbouring zones are similar, so scores on random folds are too good for a new region. A block should be larger
    than the distance over which the errors of a method are correlated.

    Parameters
    ----------
    zones : path or GeoDataFrame of polygons, in a projected coordinate reference system
    size : float, the side of a block in the units of the zones' coordinates: metres for UTM

    Returns
    -------
    groups : array of str, one per zone
        Column and row of the block from the origin of the coordinates, such as "50:518".

    Examples
    --------
    >>> import geopandas, shapely, bagwise as bw
    >>> fields = [shapely.box(x, 0, x + 100, 100) for x in (0, 700, 1200)]
    >>> zones = geopandas.GeoDataFrame({"field": ["a", "b", "c"]}, geometry=fields, crs="EPSG:32633")
    >>> bw.geo.blocks(zones, 1000).tolist()
    ['0:0', '0:0', '1:0']
    >>> zones["block"] = bw.geo.blocks(zones, 1000)  # then from_raster(..., groups="block")
    """
    from bagwise.io.raster import as_zones

    if not (isinstance(size, int | float | np.number) and np.isfinite(size) and size > 0):
        raise ParameterError("size", f"size must be a length above zero, in the units of the zones, not {size!r}")
    frame = as_zones(zones)
    if frame.crs is not None and frame.crs.is_geographic:
        raise ValueError(
            "these zones are in degrees, which are not lengths; project them first: "
            "zones.to_crs(zones.estimate_utm_crs()), and give size in metres"
        )
    middles = np.column_stack([frame.geometry.centroid.x, frame.geometry.centroid.y])
    lacks = ~np.isfinite(middles).all(axis=1)
    if lacks.any():
        raise ValueError(
            f"zone {label(frame.index.to_numpy()[lacks.argmax()])}{and_others(int(lacks.sum()) - 1)} has no "
            "polygon, so it lies in no block; leave such zones out"
        )
    return np.array([f"{column}:{row}" for column, row in np.floor(middles / size).astype(np.int64)])


def to_zones(path, zones, columns: dict, *, id=None) -> Path:
    """Write zones with columns added, such as the predictions of their bags; zones without a bag get nulls.

    Parameters
    ----------
    path : path that ends in .gpkg or .geojson
    zones : path or GeoDataFrame of the polygons
    columns : dict of equally long columns
        The first holds the ids of the bags; the others are added.
    id : column of zone ids, default the index of the frame, which ``bagwise raster`` calls "zone"

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile, geopandas, shapely, bagwise as bw
    >>> fields = geopandas.GeoDataFrame({"field": ["a", "b"]}, geometry=[shapely.box(0, 0, 1, 1)] * 2, crs="EPSG:32633")
    >>> path = tempfile.mkdtemp() + "/predicted.gpkg"
    >>> written = bw.geo.to_zones(path, fields, {"bag": ["b"], "prediction": [2.5]}, id="field")
    >>> geopandas.read_file(written)["prediction"].tolist()
    [nan, 2.5]
    """
    from bagwise.io.raster import as_zones

    path = Path(path)
    if path.suffix.lower() not in MAPS:
        raise ValueError(f"zones are written as .gpkg or .geojson, not {path.name!r}")
    frame = as_zones(zones)
    if id == INDEX and id not in frame.columns:
        id = None
    if id is not None and id not in frame.columns:
        raise ParameterError(
            "id", f"there is no column {id!r} in zones; the columns are {', '.join(map(repr, frame.columns))}"
        )
    ids = frame.index if id is None else frame[id]
    (_, bags), *added_columns = columns.items()
    at = match_ids(np.asarray(ids), np.asarray(bags))
    if (at < 0).all():
        raise ValueError(
            f"no zone has an id of the bags (zones: {label(ids.iloc[0] if id else ids[0])}, bags: {label(bags[0])}); "
            "name the column of zones that holds them as id"
        )
    lost = np.setdiff1d(np.arange(len(bags)), at)
    if len(lost):
        raise ValueError(
            f"bag {label(bags[lost[0]])}{and_others(len(lost) - 1)} has no zone; give the zones of all bags"
        )
    added = {}
    for name, values in added_columns:
        values = np.asarray(values)
        values = values.astype(np.float64) if values.dtype.kind in "fiub" else values.astype(object)
        added[name] = np.where(at >= 0, values[at], np.nan if values.dtype.kind == "f" else None)

    def write(whole: Path) -> None:
        whole.unlink(missing_ok=True)  # GDAL takes an empty file for a damaged one
        frame.assign(**added).to_file(whole, driver=MAPS[path.suffix.lower()], layer="zones")

    replace_file(path, write)
    return path


def to_raster(path, like, x, y, values, *, name="contribution") -> Path:
    """Write one number per pixel, such as its contribution, as a GeoTIFF on the grid of another raster; NaN elsewhere.

    A pixel that lies in several bags gets the sum of its numbers.

    Parameters
    ----------
    path : path that ends in .tif
    like : path or open rasterio dataset with the grid to use
    x, y : arrays, the centre of every pixel in the coordinates of ``like``
        From `from_raster` with ``coordinates=True``, or the columns x and y that ``bagwise raster`` writes.
    values : array, a number for every pixel
    name : str, the description of the band

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile, numpy as np, rasterio, bagwise as bw
    >>> grid = {"driver": "GTiff", "width": 2, "height": 2, "count": 1, "dtype": "float32", "crs": "EPSG:32633"}
    >>> with rasterio.MemoryFile() as file:
    ...     with file.open(**grid, transform=rasterio.Affine(10, 0, 0, 0, -10, 20)) as image:
    ...         image.write(np.zeros((1, 2, 2), dtype="float32"))
    ...     with file.open() as image:
    ...         path = bw.geo.to_raster(tempfile.mkdtemp() + "/map.tif", image, [15.0], [5.0], [0.25])
    >>> with rasterio.open(path) as written:
    ...     print(written.read(1))
    [[ nan  nan]
     [ nan 0.25]]
    """
    import rasterio

    from bagwise.io.raster import place as placed

    path = Path(path)
    if path.suffix.lower() not in (".tif", ".tiff"):
        raise ValueError(f"a raster of contributions is written as .tif, not {path.name!r}")
    x, y, values = (np.asarray(coordinates, dtype=np.float64) for coordinates in (x, y, values))
    if hasattr(like, "transform"):
        grid = like.profile
    else:
        with rasterio.open(like) as image:
            grid = image.profile
    columns, rows = (np.floor(coordinates).astype(np.int64) for coordinates in placed(~grid["transform"], x, y))
    outside = (columns < 0) | (rows < 0) | (columns >= grid["width"]) | (rows >= grid["height"])
    if outside.any():
        first = outside.argmax()
        raise ValueError(
            f"pixel ({x[first]:g}, {y[first]:g}) and {np.count_nonzero(outside) - 1:,} others lie outside the raster; "
            "give the raster that the pixels were read from"
        )
    band = np.full((grid["height"], grid["width"]), np.nan, dtype=np.float32)
    sums = np.zeros(band.shape)
    np.add.at(sums, (rows, columns), values)
    band[rows, columns] = sums[rows, columns]
    shape = {key: grid[key] for key in ("width", "height", "crs", "transform")}

    def write(whole: Path) -> None:
        with rasterio.open(
            whole, "w", driver="GTiff", count=1, dtype="float32", nodata=np.nan, compress="deflate", **shape
        ) as image:
            image.write(band, 1)
            image.set_band_description(1, name)

    replace_file(path, write)
    return path
