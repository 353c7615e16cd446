"""`from_raster`: a bag per polygon, an instance per pixel.

Bands are read window by window, NaN where they have no value (no-data, masks, alpha). Polygons are checked and brought
to the raster's coordinates. The pixels of one polygon: their values, how much of each is inside, why there are none.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.ndimage import binary_dilation

from bagwise.bags import Bags
from bagwise.bags.checks import one_of
from bagwise.bags.frames import FrameColumns, as_list
from bagwise.bags.validation import float_dtype, name_bags
from bagwise.io.columns import Roles
from bagwise.io.load import attributes, with_instances

try:
    import geopandas
    import rasterio
    import shapely
    from rasterio import Affine
    from rasterio.enums import ColorInterp
    from rasterio.features import geometry_mask
    from rasterio.windows import Window
except ImportError as missing:
    raise ImportError("from_raster needs rasterio and geopandas: pip install 'bagwise[geo]'") from missing


class Stack:
    """Chosen bands on one grid, at one time. ``names`` are theirs.

    Bands are numbered from 1 through all rasters. Alpha bands are no features unless asked for.

    Parameters
    ----------
    datasets : list of open rasterio datasets on the same grid
    bands : numbers or names, optional
    mask : an open one-band dataset on the same grid, or an array of the grid's shape, optional
        Pixels where it is zero or no-data are hidden.
    """

    name, without = "raster", "all no-data or masked"
    label_of_step = (0,)

    def __init__(self, datasets: list, bands=None, mask=None):
        first = datasets[0]
        self.shape, self.transform, self.crs = first.shape, first.transform, first.crs
        for other in datasets[1:]:
            _refuse_other_grid(other, first)
        self._mask = _check_mask(mask, first)
        every = [(dataset, index) for dataset in datasets for index in dataset.indexes]
        names = _band_names(every)
        chosen = _choose(bands, names, [_is_alpha(*band) for band in every])
        self.names = [names[k] for k in chosen]
        self.depth = len(chosen)
        self._bands = [every[k] for k in chosen]
        self.dtype = _common_type([dataset.dtypes[index - 1] for dataset, index in self._bands], self.names)

    def read(self, window, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (1, pixels inside, bands), with NaN where not valid, and which pixels are not masked."""
        values = np.empty((1, np.count_nonzero(inside), len(self._bands)), dtype=self.dtype)
        for k, (dataset, index) in enumerate(self._bands):
            values[0, :, k] = _read_band(dataset, index, window, self.dtype)[inside]
        return values, _read_mask(self._mask, window)[inside]


@contextmanager
def open_stack(raster, bands=None, mask=None):
    """Open a `Stack` over paths (closed at the end) and open datasets (left open)."""
    rasters = list(raster) if isinstance(raster, list | tuple) else [raster]
    if not rasters:
        raise ValueError("the list of rasters is empty; give at least one path or open rasterio dataset")
    with ExitStack() as closing:
        datasets = [_open(path, closing, "raster") for path in rasters]
        if mask is not None and not isinstance(mask, np.ndarray):
            mask = _open(mask, closing, "mask")
        yield Stack(datasets, bands, mask)


def _open(source, closing: ExitStack, parameter: str):
    if isinstance(source, str | os.PathLike):
        return closing.enter_context(rasterio.open(source))
    if not hasattr(source, "read_masks"):
        also = ", or an array" if parameter == "mask" else ""
        raise TypeError(f"{parameter} must be a path or an open rasterio dataset{also}, not {type(source).__name__}")
    if source.closed:
        raise ValueError(
            f"the {parameter} {source.name} is closed; pass its path, or call from_raster while it is open"
        )
    return source


def _read_band(dataset, index: int, window, dtype) -> np.ndarray:
    """Return scale * stored + offset, with NaN where the mask, the alpha band or the no-data value marks it.

    GDAL's own mask is only one of the three: an internal mask hides the no-data value, that one hides alpha.
    """
    stored = dataset.read(index, window=window)
    valid = dataset.read_masks(index, window=window) > 0
    nodata = dataset.nodatavals[index - 1]
    if nodata is not None:
        valid &= stored != nodata
    for alpha in (other for other in dataset.indexes if _is_alpha(dataset, other)):
        valid &= dataset.read(alpha, window=window) > 0
    values = np.full(stored.shape, np.nan, dtype=dtype)
    values[valid] = stored[valid].astype(dtype) * dataset.scales[index - 1] + dataset.offsets[index - 1]
    return values


def _read_mask(mask, window) -> np.ndarray:
    if mask is None:
        return np.ones((window.height, window.width), dtype=bool)
    if isinstance(mask, np.ndarray):
        return mask[window.toslices()] != 0
    return (mask.read(1, window=window) != 0) & (mask.read_masks(1, window=window) > 0)


def _is_alpha(dataset, index: int) -> bool:
    return dataset.colorinterp[index - 1] == ColorInterp.alpha


def _band_names(bands: list) -> list[str]:
    """Return band names: descriptions, or band_1, band_2, ...; a repeated description gets the number of its band."""
    described = [dataset.descriptions[index - 1] or f"band_{k}" for k, (dataset, index) in enumerate(bands, start=1)]
    return [f"{name}_{k}" if described.count(name) > 1 else name for k, name in enumerate(described, start=1)]


def _choose(bands, names: list[str], alpha: list[bool]) -> list[int]:
    """Return the positions of the requested bands; all but alpha by default."""
    if bands is None:
        return [k for k, hidden in enumerate(alpha) if not hidden] or list(range(len(names)))
    bands = as_list(bands)
    if not bands:
        raise ValueError("bands is empty; name at least one band, or leave it out to take all")
    positions: dict = {**{name: k for k, name in enumerate(names)}, **{k + 1: k for k in range(len(names))}}
    for band in bands:
        if band not in positions:
            raise ValueError(f"there is no band {band!r}; the bands are {', '.join(names)}, or 1 to {len(names)}")
    return [positions[band] for band in bands]


def _common_type(types: list[str], names: list[str]) -> np.dtype:
    """Return float32 if all bands are (or narrower floats), else float64."""
    kinds = [np.dtype(dtype) for dtype in types]
    for kind, name in zip(kinds, names, strict=True):
        if kind.kind not in "fiu":
            raise TypeError(f"band {name!r} holds {kind} values; bands must be real numbers, so leave it out of bands")
    return float_dtype(kinds)


def _check_mask(mask, first):
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray):
        _refuse_other_grid(mask, first)
    elif mask.shape != first.shape:
        raise ValueError(f"mask has the shape {mask.shape}, the raster {first.shape} (rows, columns); they must agree")
    return mask


def _refuse_other_grid(other, first) -> None:
    same = other.shape == first.shape and other.crs == first.crs
    if not (same and other.transform.almost_equals(first.transform, precision=1e-6 * abs(first.res[0]))):
        raise ValueError(
            f"{other.name} lies on another grid than {first.name}: rows and columns {other.shape} and {first.shape}, "
            f"coordinates {other.crs} and {first.crs}, pixels of {other.res} and {first.res}; "
            "bring it to the same grid first, for example with rasterio.vrt.WarpedVRT"
        )


@dataclass(frozen=True)
class Zones:
    """One polygon per bag in the raster's coordinates (None where there is none), and what its attributes say.

    ``attributes`` are bags of one instance, its position: they hold the ids, groups and covariates.
    """

    polygons: np.ndarray
    attributes: Bags
    y: np.ndarray | None


def read_zones(
    zones, crs, *, id=None, target=None, groups=None, bag_features=None, remedy=("raster", "rio edit-info --crs")
) -> Zones:
    """Read zones from a path or a GeoDataFrame, in its order.

    ``remedy`` completes the error about a missing coordinate system.
    """
    frame = as_zones(zones)
    table = frame.drop(columns=frame.active_geometry_name)
    if id is None:
        id = "the index of zones"
        table = table.assign(**{id: frame.index})
    repeated = (
        "zone id {id} appears twice in {column!r}; every bag needs an id of its own: join its polygons with "
        "zones.dissolve(...), or name another column as id"
    )
    roles = Roles(bag=id, target=target, groups=groups, bag_features=bag_features)
    zone_attributes, y = attributes(FrameColumns(table), roles, repeated=repeated)
    _refuse_other_shapes(frame.geometry, zone_attributes.ids)
    return Zones(_in_coordinates(frame.geometry, crs, remedy), zone_attributes, y)


def as_zones(zones) -> geopandas.GeoDataFrame:
    if isinstance(zones, str | os.PathLike):
        zones = _read_file(Path(zones).expanduser())
    if not isinstance(zones, geopandas.GeoDataFrame) or zones.active_geometry_name is None:
        raise TypeError(
            f"zones must be polygons, but this {type(zones).__name__} has no geometry; give the path of a GeoPackage, "
            "GeoJSON or shapefile, or a geopandas.GeoDataFrame"
        )
    if len(zones) == 0:
        raise ValueError("zones has no rows; there is nothing to make bags of")
    return zones


def _read_file(path: Path):
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return geopandas.read_file(path)
    except RuntimeError as error:  # what GDAL's refusals arrive as
        raise ValueError(f"{path} cannot be read as polygons: {error}") from error


def _refuse_other_shapes(geometry, ids: np.ndarray) -> None:
    has_shape = ~(geometry.isna() | geometry.is_empty).to_numpy()
    other = has_shape & ~geometry.geom_type.isin(["Polygon", "MultiPolygon"]).to_numpy()
    if other.any():
        kind = geometry.iloc[other.argmax()].geom_type
        raise ValueError(
            f"{name_bags(ids, other)} a {kind} for its shape; zones must be polygons or multipolygons: "
            "widen points and lines with zones.buffer(...), or leave them out"
        )


def _in_coordinates(geometry, crs, remedy) -> np.ndarray:
    """Transform the polygons to the raster's coordinates. Crossing rings are repaired first."""
    geometry = geometry.make_valid(method="structure", keep_collapsed=False)
    if (crs is None) != (geometry.crs is None):
        lacking, how = remedy if crs is None else ("zones", "zones.set_crs(...)")
        raise ValueError(
            f"{lacking} without a coordinate reference system cannot be laid over "
            f"coordinates in {crs or geometry.crs}; name it, with {how}"
        )
    if crs is None:
        warnings.warn(
            "neither raster nor zones name a coordinate reference system; their coordinates are taken as the same",
            stacklevel=4,
        )
        return geometry.to_numpy()
    return geometry.to_crs(crs.to_wkt()).to_numpy()


STRIP = 1 << 22  # numbers read at a time


def strips(polygon, stack) -> Iterator[Window]:
    """Return the window of a polygon inside the raster, cut into strips of rows that hold about ``STRIP`` numbers.

    The window is a pixel wider on all sides, so that an edge of the polygon on the edge of a pixel is treated as in the
    whole raster. Nothing is returned for a polygon outside. ``stack.depth`` is the number of values of a pixel.
    """
    west, south, east, north = polygon.bounds
    x, y = np.array([west, west, east, east]), np.array([south, north, south, north])
    columns, rows = place(~stack.transform, x, y)  # four corners: the grid may be rotated
    height, width = stack.shape
    top, bottom = _clip(rows, height)
    first, right = _clip(columns, width)
    if first >= right:
        return
    step = max(1, STRIP // ((right - first) * stack.depth))
    for row in range(top, bottom, step):
        yield Window(first, row, right - first, min(step, bottom - row))


def covered(polygon, window: Window, transform, *, all_touched: bool) -> np.ndarray:
    """Return which pixels of a window have their centre in the polygon, or (``all_touched``) any part of them."""
    x, y = place(transform, window.col_off, window.row_off)
    there = Affine(transform.a, transform.b, x, transform.d, transform.e, y)
    return geometry_mask([polygon], (window.height, window.width), there, all_touched=all_touched, invert=True)


def fractions(polygon, window: Window, transform) -> np.ndarray:
    """Return the share of each pixel's area that lies in the polygon; exact, and computed only along its boundary."""
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
    """Return x and y of the centres of the marked pixels, row by row."""
    rows, columns = np.nonzero(pixels)
    return np.column_stack(place(transform, columns + window.col_off + 0.5, rows + window.row_off + 0.5))


def place(transform, columns, rows) -> tuple[np.ndarray, np.ndarray]:
    """Apply an affine transform to the points (columns, rows)."""
    a, b, c, d, e, f = tuple(transform)[:6]
    return a * columns + b * rows + c, d * columns + e * rows + f


def _clip(positions: np.ndarray, size: int) -> tuple[int, int]:
    """Return the first and one-past-last pixel, one wider on both sides, inside the raster."""
    low, high = np.floor(positions.min()) - 1, np.ceil(positions.max()) + 1
    return int(np.clip(low, 0, size)), int(np.clip(high, 0, size))


def _cells(columns: np.ndarray, rows: np.ndarray, transform) -> np.ndarray:
    corners = [place(transform, columns + right, rows + down) for right, down in ((0, 0), (1, 0), (1, 1), (0, 1))]
    return shapely.polygons(np.stack([np.column_stack(corner) for corner in corners], axis=1))


def _exact(polygon, cells: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the share of each cell in the polygon; ``rows`` is the row of each cell, in rising order."""
    shapely.prepare(polygon)
    share = shapely.covers(polygon, cells).astype(np.float64)
    cut = np.flatnonzero(shapely.intersects(polygon, cells) & (share == 0))
    for in_row in np.split(cut, np.flatnonzero(np.diff(rows[cut])) + 1) if len(cut) else ():
        # first the polygon's part in this row, so that its many vertices are walked once, not once per cell
        part = shapely.intersection(polygon, shapely.box(*shapely.total_bounds(cells[in_row])))
        share[in_row] = shapely.area(shapely.intersection(cells[in_row], part)) / shapely.area(cells[in_row])
    return share


@dataclass(frozen=True)
class Pixels:
    """Instances, the share of each inside the polygon, and x, y and the step in time of each, if asked for."""

    values: np.ndarray
    shares: np.ndarray
    places: np.ndarray
    reason: str  # why there are none, if so


def read_zone(polygon, grid, labels=(0,), *, all_touched, weighted, missing, coordinates) -> list[Pixels]:
    """Return the instances under a polygon at each label of time; its coverage is computed once.

    Masked pixels are left out, and pixels without values as ``missing`` says. The grid is a `Stack` or a `Grid`.
    """
    reason = no_shape(polygon)
    none = np.empty((0, len(grid.names)), grid.dtype), np.empty(0, dtype=bool), np.empty((0, 3 if coordinates else 0))
    parts = {label: [none] for label in labels}
    for window in () if reason or not parts else strips(polygon, grid):
        shares = shares_of(polygon, window, grid.transform, all_touched, weighted)
        inside = shares > 0
        if not inside.any():
            reason = reason or "holding no pixel centre"
            continue
        reason = grid.without
        values, shown = grid.read(window, inside)
        middles = centres(window, inside, grid.transform) if coordinates else np.empty((len(shown), 0))
        for step, label in enumerate(grid.label_of_step):
            if label in parts:
                valid = shown & complete(values[step], missing)
                places = middles[valid]
                if coordinates:
                    places = np.column_stack([places, np.full(len(places), step)])
                parts[label].append((values[step][valid], shares[inside][valid], places))
    read = []
    for windows in parts.values():
        values, shares, places = (np.concatenate(arrays) for arrays in zip(*windows, strict=True))
        read.append(Pixels(values, shares, places, reason or f"outside the {grid.name}"))
    return read


def no_shape(polygon) -> str:
    if polygon is None or polygon.is_empty:
        return "without a polygon"
    return "" if np.isfinite(polygon.bounds).all() else "beyond the raster's map projection"


def shares_of(polygon, window, transform, all_touched: bool, weighted: bool) -> np.ndarray:
    if not weighted:
        return covered(polygon, window, transform, all_touched=all_touched)
    shares = fractions(polygon, window, transform)
    return np.where(shares > 1e-9, shares, 0.0)  # less than a billionth of a pixel is rounding


def complete(values: np.ndarray, missing: str) -> np.ndarray:
    """Return which pixels have all values; with "refuse" all are kept, and `Bags` names the first incomplete bag."""
    if missing == "drop-instances":
        return np.isfinite(values).all(axis=-1)
    return np.ones(values.shape[:-1], dtype=bool) if missing == "refuse" else ~np.isnan(values).all(axis=-1)


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
    """Build bags and targets from a multiband raster and polygons: a bag per polygon, an instance per pixel.

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
    missing : {"drop-instances", "refuse", "impute", "keep"}
        What happens to pixels where a band has no value. "impute" and "keep" keep them, with NaN, if another band has
        one; "impute" declares that methods fill them in.
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
    refuse_options(missing, empty, weights)
    options = {"all_touched": all_touched, "weighted": weights is not None, "missing": missing}
    with open_stack(raster, bands, mask) as stack:
        zones = read_zones(zones, stack.crs, id=id, target=target, groups=groups, bag_features=bag_features)
        read = []
        for polygon in zones.polygons:
            (pixels,) = read_zone(polygon, stack, coordinates=coordinates, **options)
            if coordinates:
                values = np.column_stack([pixels.values, pixels.places[:, :2]])
                pixels = replace(pixels, values=values, places=np.empty(0))
            read.append(pixels)
        names = [*stack.names, "x", "y"] if coordinates else stack.names
    has_pixels = settle_empty(read, zones.attributes.ids, empty)
    read, attributes = [read[k] for k in has_pixels], zones.attributes[has_pixels]
    bags = bags_of_pixels(read, attributes, names, missing=missing, weighted=weights is not None)
    return bags, None if zones.y is None else zones.y[has_pixels]


def refuse_options(missing, empty, weights) -> None:
    """Refuse what `from_raster` and `from_cube` do not know."""
    one_of(missing, ("drop-instances", "refuse", "impute", "keep"), "missing")
    one_of(empty, ("refuse", "drop"), "empty")
    one_of(weights, (None, "area-fraction"), "weights")


def bags_of_pixels(read: list, attributes: Bags, names: list, *, missing: str, weighted: bool) -> Bags:
    """Return the pixels of each zone as the instances of its bag, weighted by their shares on request."""
    return with_instances(
        attributes,
        np.concatenate([pixels.values for pixels in read]),
        [len(pixels.values) for pixels in read],
        feature_names=names,
        missing="refuse" if missing == "drop-instances" else missing,
        weights=np.concatenate([pixels.shares for pixels in read]) if weighted else None,
    )


def settle_empty(read: list, ids: np.ndarray, empty: str) -> np.ndarray:
    """Return the positions of the zones that have pixels; others are refused, or dropped with a warning."""
    lacks = np.array([len(pixels.values) == 0 for pixels in read])
    if not lacks.any():
        return np.arange(len(read))
    zone_reasons = [read[k].reason for k in np.flatnonzero(lacks)]
    reasons = ", ".join(f"{zone_reasons.count(reason)} {reason}" for reason in dict.fromkeys(zone_reasons))
    fault = f"{name_bags(ids, lacks)} no valid pixel ({reasons})"
    if empty == "refuse" or lacks.all():
        raise ValueError(
            f"{fault}; leave such zones out with empty='drop', take every pixel they touch with all_touched=True, or "
            "see whether raster and zones name the right coordinate reference systems"
        )
    warnings.warn(f"{fault}; {lacks.sum():,} of {len(read):,} zones are dropped", stacklevel=3)
    return np.flatnonzero(~lacks)
