"""`from_raster`: a bag per polygon, an instance per pixel.

Which pixels a polygon covers, and how much of each; always inside a window, never over the whole raster.

The pixels of one polygon: their values, how much of each is inside, and why there are none.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import shapely
from rasterio import Affine
from rasterio.features import geometry_mask
from rasterio.windows import Window
from scipy.ndimage import binary_dilation

from bagwise.bags import Bags
from bagwise.bags.validation import name_bags

STRIP = 1 << 22  # numbers read at a time


def strips(polygon, stack) -> Iterator[Window]:
    """The window of a polygon inside the raster, cut into strips of rows that hold about ``STRIP`` numbers.

    Of the stack this asks for its ``shape``, its ``transform`` and its ``depth``, the numbers that a pixel has.
    A pixel wider on all sides, so that what lies exactly on a pixel's edge is judged as over the whole raster.
    None at all when the polygon lies outside.
    """
    west, south, east, north = polygon.bounds
    x, y = np.array([west, west, east, east]), np.array([south, north, south, north])
    columns, rows = place(~stack.transform, x, y)  # four corners: the grid may be rotated
    height, width = stack.shape
    top, bottom = _clip(rows, height)
    left, right = _clip(columns, width)
    if left >= right:
        return
    step = max(1, STRIP // ((right - left) * stack.depth))
    for row in range(top, bottom, step):
        yield Window(left, row, right - left, min(step, bottom - row))


def covered(polygon, window: Window, transform, *, all_touched: bool) -> np.ndarray:
    """Which pixels of a window have their centre in the polygon, or (``all_touched``) any part of them."""
    x, y = place(transform, window.col_off, window.row_off)
    there = Affine(transform.a, transform.b, x, transform.d, transform.e, y)
    return geometry_mask([polygon], (window.height, window.width), there, all_touched=all_touched, invert=True)


def fractions(polygon, window: Window, transform) -> np.ndarray:
    """The share of every pixel's area that lies in the polygon; exact, and computed only along its boundary."""
    inside = covered(polygon, window, transform, all_touched=True)
    # An edge along the side of a pixel belongs to both its pixels, also when one lies in the next strip.
    around = Window(window.col_off - 1, window.row_off - 1, window.width + 2, window.height + 2)
    edge = covered(polygon.boundary, around, transform, all_touched=True)
    edge = binary_dilation(edge, np.ones((3, 3)))[1:-1, 1:-1]
    share = inside.astype(np.float64)
    rows, columns = np.nonzero(edge)
    share[edge] = _exact(polygon, _cells(columns + window.col_off, rows + window.row_off, transform), rows)
    return share


def centres(window: Window, pixels: np.ndarray, transform) -> np.ndarray:
    """x and y of the centres of the marked pixels, row by row."""
    rows, columns = np.nonzero(pixels)
    return np.column_stack(place(transform, columns + window.col_off + 0.5, rows + window.row_off + 0.5))


def place(transform, columns, rows) -> tuple[np.ndarray, np.ndarray]:
    """Where an affine transform puts the points (columns, rows)."""
    a, b, c, d, e, f = tuple(transform)[:6]
    return a * columns + b * rows + c, d * columns + e * rows + f


def _clip(positions: np.ndarray, size: int) -> tuple[int, int]:
    """First and one-past-last pixel, one wider on both sides, inside the raster."""
    low, high = np.floor(positions.min()) - 1, np.ceil(positions.max()) + 1
    return int(np.clip(low, 0, size)), int(np.clip(high, 0, size))


def _cells(columns: np.ndarray, rows: np.ndarray, transform) -> np.ndarray:
    corners = [place(transform, columns + right, rows + down) for right, down in ((0, 0), (1, 0), (1, 1), (0, 1))]
    return shapely.polygons(np.stack([np.column_stack(corner) for corner in corners], axis=1))


def _exact(polygon, cells: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The share of each cell in the polygon; ``rows`` says which cells lie in one row, and rises."""
    shapely.prepare(polygon)
    share = shapely.covers(polygon, cells).astype(np.float64)
    cut = np.flatnonzero(shapely.intersects(polygon, cells) & (share == 0))
    for one in np.split(cut, np.flatnonzero(np.diff(rows[cut])) + 1) if len(cut) else ():
        # first the polygon's part in this row, so that its many vertices are walked once, not once per cell
        part = shapely.intersection(polygon, shapely.box(*shapely.total_bounds(cells[one])))
        share[one] = shapely.area(shapely.intersection(cells[one], part)) / shapely.area(cells[one])
    return share


@dataclass(frozen=True)
class Pixels:
    """Instances, the share of each inside the polygon, and how many pixels were inside before the values were seen."""

    values: np.ndarray
    shares: np.ndarray
    n_inside: int = 0
    reason: str = ""  # why there are none


def read_zone(polygon, stack, *, all_touched: bool, weighted: bool, missing: str, coordinates: bool) -> Pixels:
    """The instances under a polygon: pixels inside, not hidden by the mask, with values as ``missing`` wants them."""
    width = len(stack.names) + (2 if coordinates else 0)
    nothing = Pixels(np.empty((0, width), dtype=np.float64 if coordinates else stack.dtype), np.empty(0, dtype=bool))
    reason, parts = no_shape(polygon), [nothing]
    for window in () if reason else strips(polygon, stack):
        shares = shares_of(polygon, window, stack.transform, all_touched, weighted)
        if shares.any():
            parts.append(_read_strip(stack, window, shares, missing, coordinates))
        reason = "holding no pixel centre"
    n_inside = sum(part.n_inside for part in parts)
    values, shares = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "shares"))
    return Pixels(values, shares, n_inside, "all no-data or masked" if n_inside else reason or "outside the raster")


def no_shape(polygon) -> str:
    if polygon is None or polygon.is_empty:
        return "without a polygon"
    return "" if np.isfinite(polygon.bounds).all() else "beyond the raster's map projection"


def shares_of(polygon, window, transform, all_touched: bool, weighted: bool) -> np.ndarray:
    if not weighted:
        return covered(polygon, window, transform, all_touched=all_touched)
    shares = fractions(polygon, window, transform)
    return np.where(shares > 1e-9, shares, 0.0)  # less than a billionth of a pixel is rounding


def _read_strip(stack, window, shares: np.ndarray, missing: str, coordinates: bool) -> Pixels:
    values, shown = stack.read(window)
    inside = shares > 0
    kept = inside & shown & complete(values, missing)
    instances = values[kept]
    if coordinates:
        instances = np.column_stack([instances, centres(window, kept, stack.transform)])
    return Pixels(instances, shares[kept], np.count_nonzero(inside))


def complete(values: np.ndarray, missing: str) -> np.ndarray:
    """Which pixels have the values they need; with "refuse", `Bags` is left to name the first that has not."""
    if missing == "drop-instances":
        return np.isfinite(values).all(axis=-1)
    return ~np.isnan(values).all(axis=-1) if missing == "keep" else np.ones(values.shape[:-1], dtype=bool)


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
    >>> from bagwise.io import from_raster
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
        refuse_option(name, value)
    open_stack, read_zones, read_zone = _parts()
    with open_stack(raster, bands, mask) as stack:
        zones = read_zones(zones, stack.crs, id=id, target=target, groups=groups, bag_features=bag_features)
        options = {"all_touched": all_touched, "weighted": weights is not None, "missing": missing}
        read = [read_zone(polygon, stack, coordinates=coordinates, **options) for polygon in zones.polygons]
        names = [*stack.names, "x", "y"] if coordinates else stack.names
    kept = settle_empty(read, zones.known.ids, empty)
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
    """The modules that need the extra, loaded when used: `import bagwise.io` works without it."""
    try:
        from bagwise.io.raster_inputs import open_stack, read_zones
    except ImportError as error:
        raise ImportError("from_raster needs rasterio and geopandas: pip install 'bagwise[geo]'") from error
    return open_stack, read_zones, read_zone


def refuse_option(name: str, value) -> None:
    if value not in _OPTIONS[name]:
        *others, last = map(repr, _OPTIONS[name])
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, not {value!r}")


def settle_empty(read: list, ids: np.ndarray, empty: str) -> np.ndarray:
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
