"""`from_cube`: a bag per polygon and year from gridded data over time (xarray, NetCDF, zarr)."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.frames import FrameColumns, as_list
from bagwise.bags.validation import ParameterError, and_others, float_dtype, label, name_bags
from bagwise.io.columns import Roles, refuse_unknown
from bagwise.io.load import gather
from bagwise.io.second_table import match_rows, read_second
from bagwise.io.table_files import reading

try:
    from rasterio import Affine
    from rasterio.crs import CRS

    from bagwise.io.raster import bags_of_pixels, read_zone, read_zones, refuse_options
except ImportError as missing:
    raise ImportError("from_cube needs rasterio, geopandas and xarray: pip install 'bagwise[cube]'") from missing

_ACROSS = ("x", "lon", "longitude", "easting")
_DOWN = ("y", "lat", "latitude", "northing")
_ROW, _KEY = "the position in targets", "polygon and time"


def from_cube(
    cube,
    zones,
    *,
    time=None,
    id=None,
    target=None,
    targets=None,
    variables=None,
    groups=None,
    bag_features=None,
    x=None,
    y=None,
    crs=None,
    all_touched=False,
    missing="drop-instances",
    empty="refuse",
    weights=None,
) -> tuple[Bags, np.ndarray | None]:
    """Build bags and targets from a data cube and polygons: a bag per polygon and year, an instance per pixel.

    The features of a pixel are the values of the variables there; a variable with a further dimension, such as
    ``band``, has a feature per level, and one without the time dimension is repeated. The pixels of a polygon are
    computed once for all times. Only the window of one polygon is read at a time, in strips of rows.

    Parameters
    ----------
    cube : xarray.Dataset or DataArray, or the path of a NetCDF file or a zarr store
        With equally spaced coordinates along two dimensions; other dimensions may have any coordinates.
    zones : path (GeoPackage, GeoJSON, shapefile) or GeoDataFrame of polygons and multipolygons
        Reprojected to the cube's coordinate reference system, vertex by vertex.
    time : str, optional
        The time dimension, such as "year": each step is a separate bag. Or a part of its dates, in the notation of
        xarray: with "time.year", all steps of a year are one bag, and each pixel at each step is an instance. Default:
        the cube has no time, and each polygon is a bag.
    id : column of zone ids, default the index of the frame (0, 1, 2, ... for a file)
    target : column of targets, in ``targets`` if there is a time, else in ``zones``
    targets : data frame or path of a table, optional
        A row per polygon and time: the columns ``id``, the time ("year" for "year" and for "time.year") and ``target``.
        Bags without a row, and rows without a bag, are left out, with a warning.
    variables : names, default all numeric variables on the grid, in the order of the dataset (by name in a zarr store)
    groups : column of ``zones``, or the name of the time, optional
        Bags of one group stay together in each inner split: "year" groups the bags of a year, ``id`` the bags of a
        polygon.
    bag_features : columns of numbers of the zone as a whole, optional
        They become the bags' covariates.
    x, y : dimensions of the grid, default those called x and y, lon and lat, longitude and latitude, ...
    crs : the cube's coordinate reference system, such as "EPSG:32633", default the one stored in the cube
        Degrees east and north (by their units or names) are EPSG:4326.
    all_touched : bool
        Whether all pixels that a polygon touches belong to it, not only those whose centre lies inside.
    missing : {"drop-instances", "refuse", "impute", "keep"}
        How to treat pixels where a variable has no value. "impute" and "keep" keep them, with NaN, if another variable
        has a value; with "impute", each method imputes them.
    empty : {"refuse", "drop"}
        How to treat bags without a valid pixel. "drop" leaves out these bags and their targets, with a warning.
    weights : None or "area-fraction"
        With "area-fraction", each pixel that overlaps the polygon is an instance, weighted by the share of its area
        inside the polygon.

    Returns
    -------
    bags : Bags
        Polygon by polygon, times in order; ids such as "F07 2019". ``bags.kept`` holds the pixel centres, ``x`` and
        ``y``, and the ``step`` in time, counted from 0.
    y : array of float64, one target per bag, or None without ``target``

    Examples
    --------
    >>> import geopandas, numpy as np, pandas as pd, shapely, xarray, bagwise as bw
    >>> grid = {"year": [2019, 2020], "y": [35.0, 25.0, 15.0, 5.0], "x": [5.0, 15.0, 25.0, 35.0]}
    >>> ndvi = xarray.DataArray(np.arange(32.0).reshape(2, 4, 4), coords=grid, dims=list(grid), name="ndvi")
    >>> boxes = [shapely.box(0, 20, 40, 40), shapely.box(0, 0, 20, 10)]
    >>> zones = geopandas.GeoDataFrame({"field": ["north", "south"]}, geometry=boxes, crs="EPSG:32633")
    >>> harvest = pd.DataFrame({"field": ["south", "south"], "year": [2019, 2020], "harvest": [2.0, 3.5]})
    >>> how = {"time": "year", "id": "field", "crs": "EPSG:32633", "groups": "year"}
    >>> bw.from_cube(ndvi, zones, **how)[0].ids.tolist()
    ['north 2019', 'north 2020', 'south 2019', 'south 2020']
    >>> bags, y = bw.from_cube(ndvi, zones[1:], target="harvest", targets=harvest, **how)
    >>> bags[1].ravel().tolist(), y.tolist(), bags.groups.tolist()
    ([28.0, 29.0], [2.0, 3.5], [2019, 2020])
    """
    refuse_options(missing, empty, weights)
    component = None if time is None else time.rpartition(".")[2]
    if time is None and targets is not None:
        raise ParameterError("targets", "targets is a table per polygon and time; name the time, or join it to zones")
    if time is not None and target is not None and targets is None:
        raise ParameterError(
            "targets", f"targets is needed with a time: a table with the columns {id}, {component} and {target}"
        )
    by_time = time is not None and groups in (time, component)
    options = {"all_touched": all_touched, "weighted": weights is not None, "missing": missing}
    with _opened(cube) as data:
        grid = Grid(data, variables, time=time, x=x, y=y, crs=crs)
        polygons, of_zones, targets_of_bags = read_zones(
            zones,
            grid.crs,
            id=id,
            target=target if time is None else None,
            groups=None if by_time else groups,
            bag_features=bag_features,
            remedy=("cube", "crs='EPSG:...'"),
        )
        _refuse_other_longitudes(grid, polygons)
        ids, chosen = of_zones.ids, np.ones((len(polygons), len(grid.labels)), dtype=bool)
        if time is not None:
            ids = np.array([f"{zone} {_text(label)}" for zone, label in product(ids, grid.labels)])
        if targets is not None:
            is_chosen, targets_of_bags = _targets(targets, ids, id, component, target)
            ids, chosen = ids[is_chosen], is_chosen.reshape(chosen.shape)
        read = [
            pixels
            for polygon, is_wanted in zip(polygons, chosen, strict=True)
            for pixels in read_zone(polygon, grid, np.flatnonzero(is_wanted).tolist(), coordinates=True, **options)
        ]
    zone, label = np.nonzero(chosen)
    of_bags = of_zones[zone]._with(ids=ids)
    if by_time:
        of_bags = of_bags._with(groups=grid.labels[label])
    bags, has_pixels = bags_of_pixels(read, of_bags, grid.names, empty=empty, **options)
    places = np.concatenate([read[k].places for k in has_pixels])
    bags = bags._with(kept={"x": places[:, 0], "y": places[:, 1], "step": places[:, 2].astype(np.int64)})
    return bags, None if targets_of_bags is None else targets_of_bags[has_pixels]


class Grid:
    """The selected variables of a dataset on one grid; ``labels`` are times, ``label_of_step`` maps steps to them."""

    name, without = "cube", "without a value"

    def __init__(self, data, variables=None, *, time=None, x=None, y=None, crs=None):
        self.x, self.y = _dimension(data, x, _ACROSS, "x"), _dimension(data, y, _DOWN, "y")
        (west, across), (top, down) = (_steps(data, name) for name in (self.x, self.y))
        self.transform = Affine(across, 0, west - across / 2, 0, down, top - down / 2)  # from columns and rows
        self.shape = data.sizes[self.y], data.sizes[self.x]
        self.time, self.labels, self.label_of_step = _times(data, time, {self.x, self.y})
        self.arrays = _choose(data, variables, self.x, self.y, self.time)
        self.names = [name for array in self.arrays for name in self._levels(array)]
        self.depth = len(self.names) * len(self.label_of_step)
        self.dtype = float_dtype(array.dtype for array in self.arrays)
        self.crs = _coordinates(data, self.arrays, self.x, crs)

    def read(self, window, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (steps, pixels inside, features), with NaN where missing, and which pixels are usable."""
        down, across = window.toslices()
        steps = len(self.label_of_step)
        read = np.empty((steps, np.count_nonzero(inside), len(self.names)), dtype=self.dtype)
        at = 0
        for array in self.arrays:
            timed = [self.time] if self.time in array.dims else []
            order = [*timed, self.y, self.x, *self._further(array)]
            values = array.isel({self.y: down, self.x: across}).transpose(*order).to_numpy()
            values = values.reshape(steps if timed else 1, *inside.shape, -1)[:, inside]
            read[:, :, at : at + values.shape[2]] = values
            at += values.shape[2]
        return read, np.ones(read.shape[1], dtype=bool)

    def _further(self, array) -> list:
        return [name for name in array.dims if name not in (self.time, self.y, self.x)]

    def _levels(self, array) -> list[str]:
        """Return a name per feature of a variable: its own, and the level of each further dimension."""
        levels = [[_text(level) for level in array[name].to_numpy()] for name in self._further(array)]
        return ["_".join([str(array.name or "value"), *level]) for level in product(*levels)]


def _opened(cube):
    """Open the dataset at a path, and close it at the end; a dataset is used as it is; an array becomes a dataset."""
    if isinstance(cube, str | os.PathLike):
        try:
            import xarray
        except ImportError as error:
            raise ImportError("reading a cube needs xarray: pip install 'bagwise[cube]'") from error
        path = Path(cube).expanduser()
        with reading(path):
            path.stat()
            if path.is_dir() or path.suffix == ".zarr":
                return xarray.open_zarr(path, chunks=None)  # decoded and indexed when it is read, without dask
            return xarray.open_dataset(path)
    if not hasattr(cube, "isel"):
        raise TypeError(
            f"cube must be an xarray Dataset or DataArray, or a path (.nc, .zarr), not {type(cube).__name__}"
        )
    return nullcontext(cube if hasattr(cube, "data_vars") else cube.to_dataset(name=cube.name or "value"))


def _dimension(data, name, usual, axis: str) -> str:
    candidates = [dim for dim in data.dims if (str(dim).lower() in usual if name is None else dim == name)]
    if len(candidates) != 1:
        unknown = f"the {axis} dimension is not recognised; name it with {axis}="
        problem = unknown if name is None else f"there is no dimension {name!r}"
        raise ParameterError(axis, f"{problem}; the dimensions are {_names(data.dims)}")
    return candidates[0]


def _steps(data, name) -> tuple[float, float]:
    """Return the first centre along a dimension and the constant step between centres."""
    if name not in data.coords:
        raise ValueError(f"dimension {name!r} has no coordinates; add them by cube.assign_coords({name}=...)")
    values = data[name].to_numpy().astype(np.float64)
    if len(values) < 2:
        raise ValueError(f"dimension {name!r} has one step; a grid needs two at least in each direction")
    step = (values[-1] - values[0]) / (len(values) - 1)
    if step == 0 or not np.allclose(np.diff(values), step, rtol=1e-2):
        raise ValueError(
            f"the coordinates of {name!r} are not in equal steps; bring the cube to a regular grid first, for example "
            f"by cube.interp({name}=...)"
        )
    return values[0], step


def _times(data, time, grid) -> tuple:
    """Return the time dimension, its distinct labels in order, and the label of each step."""
    if time is None:
        return None, np.zeros(1), np.zeros(1, dtype=np.int64)
    name, _, part = time.partition(".")
    if name not in data.dims or name in grid:
        dated = [dimension for dimension in data.dims if dimension in data.coords and data[dimension].dtype.kind == "M"]
        hint = f"; time='{dated[0]}.{time}' takes it from the dates of {dated[0]!r}" if dated else ""
        raise ParameterError("time", f"there is no dimension {name!r} of time; there are {_names(data.dims)}{hint}")
    if not part:
        values = data[name].to_numpy()
        return name, values, np.arange(len(values))
    try:
        values = getattr(data[name].dt, part).to_numpy()
    except (AttributeError, TypeError) as error:
        raise ParameterError("time", f"{name!r} has no {part!r}: it needs dates, and a part such as 'year'") from error
    labels, codes = np.unique(values, return_inverse=True)
    return name, labels, codes


def _choose(data, variables, x, y, time) -> list:
    """Return the numeric variables on the grid, or the requested ones."""
    usable = [
        name
        for name, variable in data.data_vars.items()
        if {x, y} <= set(variable.dims) and variable.dtype.kind in "fiu"
    ]
    chosen = usable if variables is None else as_list(variables)
    if not usable:
        raise ValueError(f"the cube has no variable of numbers with the dimensions {y} and {x}")
    if not chosen or (odd := [name for name in chosen if name not in usable]):
        name = odd[0] if chosen else ""
        raise ParameterError("variables", f"there is no variable {name!r} on the grid; there are {_names(usable)}")
    if time is not None and not any(time in data[name].dims for name in chosen):
        raise ParameterError("time", f"no variable has the dimension {time!r}; leave time out: polygons are the bags")
    return [data[name] for name in chosen]


def _coordinates(data, arrays, x, crs):
    """Return the coordinate reference system: the parameter, the one stored as CF or GDAL define, or degrees."""
    if crs is None:
        mappings = [array.attrs.get("grid_mapping", array.encoding.get("grid_mapping")) for array in arrays]
        for name in [*mappings, "spatial_ref", "crs"]:
            if name in data.variables:
                crs = data[name].attrs.get("crs_wkt") or data[name].attrs.get("spatial_ref")
        crs = crs or data.attrs.get("crs")
    if crs is None:
        degrees = str(data[x].attrs.get("units", "")).startswith("degree") or str(x).lower() in ("lon", "longitude")
        crs = "EPSG:4326" if degrees else None
    return None if crs is None else CRS.from_user_input(crs)


def _refuse_other_longitudes(grid: Grid, polygons) -> None:
    """Refuse a grid from 0 to 360 degrees if polygons lie west of Greenwich, because the grid would not cover them."""
    last = grid.transform.c + grid.transform.a * grid.shape[1]
    if grid.crs is None or not grid.crs.is_geographic or max(last, grid.transform.c) <= 181:
        return
    if any(polygon is not None and not polygon.is_empty and polygon.bounds[0] < 0 for polygon in polygons):
        x = grid.x
        raise ValueError(
            f"{x} runs beyond 180 degrees, and some zones lie west of 0; bring the cube to -180 to 180 first: "
            f"cube.assign_coords({x}=(cube.{x} + 180) % 360 - 180).sortby('{x}')"
        )


def _targets(targets, ids: np.ndarray, id, component, target) -> tuple[np.ndarray, np.ndarray | None]:
    """Return which bags have a row in the table, and their targets in the order of the bags."""
    if id is None:
        raise ParameterError("id", "id is needed with targets: the column of polygon ids, in zones and in targets")
    columns, title = read_second(targets, Roles(id, target))
    refuse_unknown(columns.names, [name for name in (id, component, target) if name is not None], parameter="targets")
    keys = [f"{a} {_text(b)}" for a, b in zip(columns.values(id), columns.values(component), strict=True)]
    row_of_bag, lost = match_rows(ids, FrameColumns({_KEY: np.array(keys, dtype=object)}), _KEY, title)
    chosen = row_of_bag >= 0
    faults = [f"{name_bags(ids, ~chosen)} no row in {title}"] if not chosen.all() else []
    faults += [f"row {label(lost[0])}{and_others(len(lost) - 1)} has no bag in the cube"] if len(lost) else []
    if faults:
        warnings.warn(f"{'; '.join(faults)}; left out", stacklevel=3)
    if target is None:
        return chosen, None
    rows = row_of_bag[chosen]
    arrays = {_KEY: ids[chosen], _ROW: rows, target: columns.numbers(target)[rows]}
    return chosen, gather(FrameColumns(arrays), Roles(_KEY, target, [_ROW]))[1]


def _text(value) -> str:
    """Format a level or a time: dates without a zero time, whole numbers without decimals."""
    if isinstance(value, np.datetime64) or hasattr(value, "isoformat"):
        return str(np.datetime64(value, "s")).removesuffix("T00:00:00")
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def _names(names, most: int = 8) -> str:
    names = list(map(str, names))
    return (", ".join(names[:most]) or "none") + (", ..." if len(names) > most else "")
