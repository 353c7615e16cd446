"""`from_raster`: a bag per polygon, an instance per pixel."""

from __future__ import annotations

import warnings

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.naming import name_bags

_OPTIONS = {
    "missing": ("drop-instances", "refuse", "keep"),
    "empty": ("refuse", "drop"),
    "weights": (None, "area-fraction"),
}


def from_raster(
    raster,
    zones,
    *,
    id=None,
    target=None,
    bands=None,
    groups=None,
    bag_features=None,
    all_touched=False,
    missing="drop-instances",
    empty="refuse",
    weights=None,
    mask=None,
    coordinates=False,
) -> tuple[Bags, np.ndarray | None]:
    """Bags and targets from a multiband raster and polygons: every polygon is a bag, every pixel in it an instance.

    A pixel belongs to a polygon if its centre lies in it. The features of pixel p are the bands' values

        x_b(p) = scale_b * stored_b(p) + offset_b,

    with the scale and offset that the file names (1 and 0 if it names none). A band has no value where the file says
    so: by the band's no-data value, by a mask in or beside the file, by an alpha band of 0, or by NaN. Bags come in the
    order of the zones, pixels row by row; polygons may overlap. Only the part of the raster under a polygon is read,
    a strip of rows at a time, so the raster may be much larger than memory.

    Parameters
    ----------
    raster : path, open rasterio dataset, or a list of them on one grid (their bands are stacked)
    zones : path (GeoPackage, GeoJSON, shapefile) or GeoDataFrame of polygons and multipolygons
        Reprojected, vertex by vertex, to the raster's coordinate reference system where theirs is another.
    id : column of zone ids, default the index of the frame (0, 1, 2, ... for a file)
    target : column of targets, optional
    bands : numbers (from 1) or names of bands, default all but alpha bands
    groups : column of labels, optional
        Bags of one group stay together in every inner split.
    bag_features : columns of numbers of the zone as a whole, optional
        They become the bags' covariates.
    all_touched : bool
        Whether every pixel that a polygon touches belongs to it, not only those whose centre it holds.
    missing : {"drop-instances", "refuse", "keep"}
        What happens to pixels where a band has no value. "keep" keeps them, with NaN, if another band has one.
    empty : {"refuse", "drop"}
        What happens to zones without any such pixel: outside the raster, smaller than a pixel, or all no-data. "drop"
        leaves them and their targets out, with a warning.
    weights : None or "area-fraction"
        With "area-fraction" every pixel the polygon overlaps is an instance, weighted by the share of its area inside.
    mask : path, open dataset or array on the raster's grid, optional
        Pixels where it is 0 (or no-data) are never instances: clouds, water, other land cover.
    coordinates : bool
        Whether the pixel centre, in the raster's coordinates, is added as the features ``x`` and ``y`` (as float64).

    Returns
    -------
    bags : Bags
        Features are named by the bands' descriptions, else ``band_1``, ``band_2``, ...; float32 if every band is, else
        float64.
    y : array of float64, one target per bag, or None without ``target``

    Examples
    --------
    >>> import geopandas, numpy as np, rasterio, shapely
    >>> from bagwise.geo import from_raster
    >>> square = {"driver": "GTiff", "width": 4, "height": 4, "count": 2, "dtype": "float32", "crs": "EPSG:32633"}
    >>> with rasterio.MemoryFile() as file:
    ...     with file.open(**square, transform=rasterio.Affine(10, 0, 0, 0, -10, 40)) as writer:
    ...         writer.write(np.arange(32, dtype="float32").reshape(2, 4, 4))
    ...         writer.descriptions = ("red", "infrared")
    ...     zones = geopandas.GeoDataFrame(
    ...         {"field": ["north", "south"], "harvest": [3.5, 2.0]},
    ...         geometry=[shapely.box(0, 20, 40, 40), shapely.box(0, 0, 20, 10)],
    ...         crs="EPSG:32633",
    ...     )
    ...     with file.open() as raster:
    ...         bags, y = from_raster(raster, zones, id="field", target="harvest")
    >>> bags
    Bags: 2 bags of 2 to 8 instances (10 in all), 2 features
    >>> bags.ids.tolist(), bags.feature_names, y.tolist(), bags[1].tolist()
    (['north', 'south'], ('red', 'infrared'), [3.5, 2.0], [[12.0, 28.0], [13.0, 29.0]])
    """
    for name, value in (("missing", missing), ("empty", empty), ("weights", weights)):
        _refuse_option(name, value)
    open_stack, read_zones, read_zone = _parts()
    with open_stack(raster, bands, mask) as stack:
        zones = read_zones(zones, stack.crs, id=id, target=target, groups=groups, bag_features=bag_features)
        options = {"all_touched": all_touched, "weighted": weights is not None, "missing": missing}
        read = [read_zone(polygon, stack, coordinates=coordinates, **options) for polygon in zones.polygons]
        names = [*stack.names, "x", "y"] if coordinates else stack.names
    kept = _settle_empty(read, zones.known.ids, empty)
    read, known = [read[k] for k in kept], zones.known[kept]
    bags = Bags(
        np.concatenate([pixels.values for pixels in read]),
        np.concatenate([[0], np.cumsum([len(pixels.values) for pixels in read])]),
        known.ids,
        groups=known.groups,
        feature_names=names,
        missing="keep" if missing == "keep" else "refuse",
        weights=None if weights is None else np.concatenate([pixels.shares for pixels in read]),
        covariates=known.covariates,
        covariate_names=known.covariate_names,
    )
    return bags, None if zones.y is None else zones.y[kept]


def _parts():
    """The modules that need the extra, loaded when used: `import bagwise.geo` works without it."""
    try:
        from bagwise.geo.pixels import read_zone
        from bagwise.geo.stacks import open_stack
        from bagwise.geo.zones import read_zones
    except ImportError as error:
        raise ImportError("from_raster needs rasterio and geopandas: pip install 'bagwise[geo]'") from error
    return open_stack, read_zones, read_zone


def _refuse_option(name: str, value) -> None:
    if value not in _OPTIONS[name]:
        *others, last = map(repr, _OPTIONS[name])
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, not {value!r}")


def _settle_empty(read: list, ids: np.ndarray, empty: str) -> np.ndarray:
    """Positions of the zones that have pixels; the others are refused, or dropped with a warning."""
    lacks = np.array([len(pixels.values) == 0 for pixels in read])
    if not lacks.any():
        return np.arange(len(read))
    found = [read[k].reason for k in np.flatnonzero(lacks)]
    reasons = ", ".join(f"{found.count(one)} {one}" for one in dict.fromkeys(found))
    told = f"{name_bags(ids, lacks)} no valid pixel ({reasons})"
    if empty == "refuse" or lacks.all():
        raise ValueError(
            f"{told}; leave such zones out with empty='drop', take every pixel they touch with all_touched=True, or "
            "see whether raster and zones name the right coordinate reference systems"
        )
    warnings.warn(f"{told}; {lacks.sum():,} of {len(read):,} zones are dropped", stacklevel=3)
    return np.flatnonzero(~lacks)
