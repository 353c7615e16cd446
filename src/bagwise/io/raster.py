"""`from_raster`: one bag per polygon, one instance per pixel; bands are read in windows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.ndimage import binary_dilation

from bagwise.bags import Bags
from bagwise.bags.frames import FrameColumns, as_list
from bagwise.bags.validation import float_dtype, name_bags, one_of
from bagwise.io.columns import Roles
from bagwise.io.load import attributes, with_instances
from bagwise.io.table_files import reading

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
    """The selected bands of open datasets on the same grid; pixels where ``mask`` is zero or no-data are left out."""

    name, without = "raster", "all no-data or masked"
    label_of_step = (0,)

    def __init__(self, datasets: list, bands=None, mask=None):
        first = datasets[0]
        self.shape, self.transform, self.crs = first.shape, first.transform, first.crs
        for other in [*datasets[1:], *([] if mask is None or isinstance(mask, np.ndarray) else [mask])]:
            same = other.shape == first.shape and other.crs == first.crs
            if not (same and other.transform.almost_equals(first.transform, precision=1e-6 * abs(first.res[0]))):
                raise ValueError(
                    f"{other.name} lies on another grid than {first.name}: rows and columns {other.shape} and "
                    f"{first.shape}, coordinates {other.crs} and {first.crs}, pixels of {other.res} and {first.res}; "
                    "bring it to the same grid first, for example with rasterio.vrt.WarpedVRT"
                )
        if isinstance(mask, np.ndarray) and mask.shape != first.shape:
            raise ValueError(
                f"mask has the shape {mask.shape}, the raster {first.shape} (rows, columns); they must agree"
            )
        self._mask = mask
        every = [(dataset, index) for dataset in datasets for index in dataset.indexes]
        names = [dataset.descriptions[index - 1] or f"band_{k}" for k, (dataset, index) in enumerate(every, start=1)]
        names = [f"{name}_{k}" if names.count(name) > 1 else name for k, name in enumerate(names, start=1)]
        chosen = _choose(bands, names, [_is_alpha(*band) for band in every])
        self.names, self._bands = [names[k] for k in chosen], [every[k] for k in chosen]
        self.depth = len(chosen)
        kinds = [np.dtype(dataset.dtypes[index - 1]) for dataset, index in self._bands]
        for kind, name in zip(kinds, self.names, strict=True):
            if kind.kind not in "fiu":
                raise TypeError(
                    f"band {name!r} holds {kind} values; bands must be real numbers; select other bands with bands="
                )
        self.dtype = float_dtype(kinds)

    def read(self, window, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (1, pixels inside, bands), with NaN where not valid, and which pixels are not masked."""
        values = np.empty((1, np.count_nonzero(inside), len(self._bands)), dtype=self.dtype)
        for k, (dataset, index) in enumerate(self._bands):
            values[0, :, k] = _read_band(dataset, index, window, self.dtype)[inside]
        if self._mask is None:
            return values, np.ones(values.shape[1], dtype=bool)
        if isinstance(self._mask, np.ndarray):
            return values, self._mask[window.toslices()][inside] != 0
        shown = (self._mask.read(1, window=window) != 0) & (self._mask.read_masks(1, window=window) > 0)
        return values, shown[inside]


def _open(source, closing: ExitStack, parameter: str):
    """Open a path, which is closed at the end; a dataset is left open."""
    if isinstance(source, str | os.PathLike):
        return closing.enter_context(rasterio.open(source))
    if not hasattr(source, "read_masks"):
        also = ", or an array" if parameter == "mask" else ""
        raise TypeError(f"{parameter} must be a path or an open rasterio dataset{also}, not {type(source).__name__}")
    if source.closed:
        raise ValueError(f"the {parameter} {source.name} is closed; pass its path, or keep it open")
    return source


def _read_band(dataset, index: int, window, dtype) -> np.ndarray:
    """Return scale * stored + offset, with NaN where the mask, the alpha band or the no-data value marks it.

    GDAL's mask is not enough: an internal mask takes precedence over the no-data value, and that over the alpha band.
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


def _is_alpha(dataset, index: int) -> bool:
    return dataset.colorinterp[index - 1] == ColorInterp.alpha


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


def read_zones(
    zones, crs, *, id=None, target=None, groups=None, bag_features=None, remedy=("raster", "rio edit-info --crs")
) -> tuple[np.ndarray, Bags, np.ndarray | None]:
    """Return the polygons in the raster's coordinates (or None), `attributes` of the zones, and their targets."""
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
    geometry = frame.geometry
    has_shape = ~(geometry.isna() | geometry.is_empty).to_numpy()
    other = has_shape & ~geometry.geom_type.isin(["Polygon", "MultiPolygon"]).to_numpy()
    if other.any():
        raise ValueError(
            f"{name_bags(zone_attributes.ids, other)} a {geometry.geom_type.iloc[other.argmax()]} as geometry; zones "
            "must be polygons or multipolygons: widen points and lines with zones.buffer(...), or leave them out"
        )
    geometry = geometry.make_valid(method="structure", keep_collapsed=False)  # rings may cross
    if (crs is None) != (geometry.crs is None):
        lacking, how = remedy if crs is None else ("zones", "zones.set_crs(...)")
        raise ValueError(
            f"{lacking} has no coordinate reference system, so it cannot be compared with "
            f"coordinates in {crs or geometry.crs}; set it with {how}"
        )
    if crs is None:
        warnings.warn(
            "neither raster nor zones have a coordinate reference system; it is assumed to be the same",
            stacklevel=3,
        )
    else:
        geometry = geometry.to_crs(crs.to_wkt())
    return geometry.to_numpy(), zone_attributes, y


def as_zones(zones) -> geopandas.GeoDataFrame:
    """Return the polygons of a path or a GeoDataFrame."""
    if isinstance(zones, str | os.PathLike):
        path = Path(zones).expanduser()
        with reading(path):
            path.stat()
            zones = geopandas.read_file(path)
    if not isinstance(zones, geopandas.GeoDataFrame) or zones.active_geometry_name is None:
        raise TypeError(
            f"zones must be polygons, but this {type(zones).__name__} has no geometry; give the path of a GeoPackage, "
            "GeoJSON or shapefile, or a geopandas.GeoDataFrame"
        )
    if len(zones) == 0:
        raise ValueError("zones has no rows; there is nothing to make bags of")
    return zones


STRIP = 1 << 22  # numbers read at a time


def strips(polygon, stack) -> Iterator[Window]:
    """Return the window of a polygon inside the raster, cut into strips of rows that hold about ``STRIP`` numbers."""
    west, south, east, north = polygon.bounds
    x, y = np.array([west, west, east, east]), np.array([south, north, south, north])
    columns, rows = place(~stack.transform, x, y)  # use four corners, because the grid may be rotated
    # Add a pixel on all sides, so that polygon edges that lie on pixel edges are treated as in the whole raster.
    top, first = np.clip(np.floor([rows.min(), columns.min()]) - 1, 0, stack.shape).astype(int).tolist()
    bottom, right = np.clip(np.ceil([rows.max(), columns.max()]) + 1, 0, stack.shape).astype(int).tolist()
    if first >= right:
        return
    step = max(1, STRIP // ((right - first) * stack.depth))
    for row in range(top, bottom, step):
        yield Window(first, row, right - first, min(step, bottom - row))


def covered(polygon, window: Window, transform, *, all_touched: bool) -> np.ndarray:
    """Return which pixels of a window have their centre in the polygon, or with ``all_touched`` any part."""
    x, y = place(transform, window.col_off, window.row_off)
    there = Affine(transform.a, transform.b, x, transform.d, transform.e, y)
    return geometry_mask([polygon], (window.height, window.width), there, all_touched=all_touched, invert=True)


def fractions(polygon, window: Window, transform) -> np.ndarray:
    """Return the exact share of each pixel's area inside the polygon; only pixels at its boundary are intersected."""
    inside = covered(polygon, window, transform, all_touched=True)
    # An edge between two pixels belongs to both, even if one of them lies in the next strip.
    around = Window(window.col_off - 1, window.row_off - 1, window.width + 2, window.height + 2)
    edge = covered(polygon.boundary, around, transform, all_touched=True)
    edge = binary_dilation(edge, np.ones((3, 3)))[1:-1, 1:-1]
    share = inside.astype(np.float64)
    rows, columns = np.nonzero(edge)
    columns, rows = columns + window.col_off, rows + window.row_off
    corners = [place(transform, columns + right, rows + down) for right, down in ((0, 0), (1, 0), (1, 1), (0, 1))]
    cells = shapely.polygons(np.stack([np.column_stack(corner) for corner in corners], axis=1))
    shapely.prepare(polygon)
    exact = shapely.covers(polygon, cells).astype(np.float64)
    cut = np.flatnonzero(shapely.intersects(polygon, cells) & (exact == 0))
    for in_row in np.split(cut, np.flatnonzero(np.diff(rows[cut])) + 1) if len(cut) else ():
        # clip the polygon to this row first, so that its vertices are visited once, not once per cell
        part = shapely.intersection(polygon, shapely.box(*shapely.total_bounds(cells[in_row])))
        exact[in_row] = shapely.area(shapely.intersection(cells[in_row], part)) / shapely.area(cells[in_row])
    share[edge] = exact
    return np.where(share > 1e-9, share, 0.0)  # smaller shares are rounding errors


def place(transform, columns, rows) -> tuple[np.ndarray, np.ndarray]:
    """Apply an affine transform to the points (columns, rows)."""
    a, b, c, d, e, f = tuple(transform)[:6]
    return a * columns + b * rows + c, d * columns + e * rows + f


class Pixels(NamedTuple):
    """Instances, the share of each inside the polygon, and on request the x, y and time step of each."""

    values: np.ndarray
    shares: np.ndarray
    places: np.ndarray
    reason: str  # why there are no pixels; empty otherwise


def read_zone(polygon, grid, labels=(0,), *, all_touched, weighted, missing, coordinates) -> list[Pixels]:
    """Return the pixels under a polygon at each label of time; the grid is a `Stack` or a `Grid`."""
    reason = ""
    if polygon is None or polygon.is_empty:
        reason = "without a polygon"
    elif not np.isfinite(polygon.bounds).all():
        reason = "beyond the raster's map projection"
    none = np.empty((0, len(grid.names)), grid.dtype), np.empty(0, dtype=bool), np.empty((0, 3 if coordinates else 0))
    parts = {label: [none] for label in labels}
    for window in () if reason or not parts else strips(polygon, grid):
        if weighted:
            shares = fractions(polygon, window, grid.transform)
        else:
            shares = covered(polygon, window, grid.transform, all_touched=all_touched)
        inside = shares > 0
        if not inside.any():
            reason = reason or "holding no pixel centre"
            continue
        reason = grid.without
        values, shown = grid.read(window, inside)
        middles = np.empty((len(shown), 0))
        if coordinates:
            rows, columns = np.nonzero(inside)
            columns, rows = columns + window.col_off + 0.5, rows + window.row_off + 0.5
            middles = np.column_stack(place(grid.transform, columns, rows))
        for step, label in enumerate(grid.label_of_step):
            if label in parts:
                valid = shown
                if missing == "drop-instances":
                    valid = shown & np.isfinite(values[step]).all(axis=-1)
                elif missing != "refuse":  # with "refuse", `Bags` names the first incomplete bag
                    valid = shown & ~np.isnan(values[step]).all(axis=-1)
                places = middles[valid]
                if coordinates:
                    places = np.column_stack([places, np.full(len(places), step)])
                parts[label].append((values[step][valid], shares[inside][valid], places))
    read = []
    for windows in parts.values():
        values, shares, places = (np.concatenate(arrays) for arrays in zip(*windows, strict=True))
        read.append(Pixels(values, shares, places, reason or f"outside the {grid.name}"))
    return read


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

    with the scale and offset stored in the file (by default 1 and 0). A value is missing where the file marks it: by
    the band's no-data value, an internal or external mask, an alpha band of 0, or NaN. Bags are in the order of the
    zones, pixels row by row; polygons may overlap. Only the part of the raster under a polygon is read, in strips of
    rows.

    Parameters
    ----------
    raster : path, open rasterio dataset, or a list of them on one grid (their bands are stacked)
    zones : path (GeoPackage, GeoJSON, shapefile) or GeoDataFrame of polygons and multipolygons
        Reprojected to the raster's coordinate reference system, vertex by vertex.
    id : column of zone ids, default the index of the frame (0, 1, 2, ... for a file)
    target : column of targets, optional
    bands : numbers (from 1) or names of bands, default all but alpha bands
    groups : column of labels, optional
        Bags of one group stay together in every inner split.
    bag_features : columns of numbers of the zone as a whole, optional
        They become the bags' covariates.
    all_touched : bool
        Whether all pixels that a polygon touches belong to it, not only those whose centre lies inside.
    missing : {"drop-instances", "refuse", "impute", "keep"}
        How to treat pixels where a band has no value. "impute" and "keep" keep them, with NaN, if another band has a
        value; with "impute", each method imputes them.
    empty : {"refuse", "drop"}
        How to treat zones without a valid pixel: outside the raster, smaller than a pixel, or all no-data. "drop"
        leaves out these zones and their targets, with a warning.
    weights : None or "area-fraction"
        With "area-fraction", each pixel that overlaps the polygon is an instance, weighted by the share of its area
        inside the polygon.
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
    rasters = list(raster) if isinstance(raster, list | tuple) else [raster]
    if not rasters:
        raise ValueError("the list of rasters is empty; give at least one path or open rasterio dataset")
    with ExitStack() as closing:
        datasets = [_open(path, closing, "raster") for path in rasters]
        if mask is not None and not isinstance(mask, np.ndarray):
            mask = _open(mask, closing, "mask")
        stack = Stack(datasets, bands, mask)
        polygons, of_zones, y = read_zones(
            zones, stack.crs, id=id, target=target, groups=groups, bag_features=bag_features
        )
        read = []
        for polygon in polygons:
            (pixels,) = read_zone(polygon, stack, coordinates=coordinates, **options)
            if coordinates:
                pixels = pixels._replace(values=np.column_stack([pixels.values, pixels.places[:, :2]]))
            read.append(pixels)
        names = [*stack.names, "x", "y"] if coordinates else stack.names
    bags, has_pixels = bags_of_pixels(read, of_zones, names, empty=empty, **options)
    return bags, None if y is None else y[has_pixels]


def refuse_options(missing, empty, weights) -> None:
    """Refuse unknown values of the options that `from_raster` and `from_cube` have in common."""
    one_of(missing, ("drop-instances", "refuse", "impute", "keep"), "missing")
    one_of(empty, ("refuse", "drop"), "empty")
    one_of(weights, (None, "area-fraction"), "weights")


def bags_of_pixels(
    read: list[Pixels], attributes: Bags, names: list, *, missing: str, weighted: bool, empty: str, **_
) -> tuple[Bags, np.ndarray]:
    """Return bags of pixels and the positions of their zones; zones without pixels are refused or dropped."""
    lacks = np.array([len(pixels.values) == 0 for pixels in read])
    if lacks.any():
        zone_reasons = [read[k].reason for k in np.flatnonzero(lacks)]
        reasons = ", ".join(f"{zone_reasons.count(reason)} {reason}" for reason in dict.fromkeys(zone_reasons))
        fault = f"{name_bags(attributes.ids, lacks)} no valid pixel ({reasons})"
        if empty == "refuse" or lacks.all():
            raise ValueError(
                f"{fault}; leave such zones out with empty='drop', take every pixel they touch with all_touched=True, "
                "or see whether raster and zones name the right coordinate reference systems"
            )
        warnings.warn(f"{fault}; {lacks.sum():,} of {len(read):,} zones are dropped", stacklevel=3)
    has_pixels = np.flatnonzero(~lacks)
    read = [read[k] for k in has_pixels]
    bags = with_instances(
        attributes[has_pixels],
        np.concatenate([pixels.values for pixels in read]),
        [len(pixels.values) for pixels in read],
        feature_names=names,
        missing="refuse" if missing == "drop-instances" else missing,
        weights=np.concatenate([pixels.shares for pixels in read]) if weighted else None,
    )
    return bags, has_pixels
