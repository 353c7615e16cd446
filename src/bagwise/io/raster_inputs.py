"""What `from_raster` reads: polygons, checked and in the raster's coordinates, and bands, window by window.

What is not valid in a band (no-data, masks, alpha) is NaN.
"""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import geopandas
import numpy as np
import rasterio
from rasterio.enums import ColorInterp

from bagwise.bags import Bags
from bagwise.bags.frames import as_list
from bagwise.bags.validation import label, name_bags
from bagwise.io.columns import refuse_unknown
from bagwise.io.load import from_table


class Stack:
    """Chosen bands on one grid. ``names`` are theirs; ``read(window)`` gives values and which pixels may count.

    Bands are numbered from 1 through all rasters. Alpha bands are no features unless asked for.

    Parameters
    ----------
    datasets : list of open rasterio datasets on the same grid
    bands : numbers or names, optional
    mask : an open one-band dataset on the same grid, or an array of the grid's shape, optional
        Pixels where it is zero or no-data are hidden.
    """

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

    def read(self, window) -> tuple[np.ndarray, np.ndarray]:
        """Values (rows, columns, bands), NaN where a band is not valid, and a pixel mask (False: hidden by mask=)."""
        values = np.empty((window.height, window.width, len(self._bands)), dtype=self.dtype)
        for k, (dataset, index) in enumerate(self._bands):
            values[:, :, k] = _read_band(dataset, index, window, self.dtype)
        return values, _read_mask(self._mask, window)


@contextmanager
def open_stack(raster, bands=None, mask=None):
    """A `Stack` over paths (closed in the end) and open datasets (left open)."""
    rasters = list(raster) if isinstance(raster, list | tuple) else [raster]
    if not rasters:
        raise ValueError("the list of rasters is empty; give at least one path or open rasterio dataset")
    with ExitStack() as closing:
        datasets = [_open(one, closing, "raster") for one in rasters]
        if mask is not None and not isinstance(mask, np.ndarray):
            mask = _open(mask, closing, "mask")
        yield Stack(datasets, bands, mask)


def _open(source, closing: ExitStack, what: str):
    if isinstance(source, str | os.PathLike):
        return closing.enter_context(rasterio.open(source))
    if not hasattr(source, "read_masks"):
        also = ", or an array" if what == "mask" else ""
        raise TypeError(f"{what} must be a path or an open rasterio dataset{also}, not {type(source).__name__}")
    if source.closed:
        raise ValueError(f"the {what} {source.name} is closed; pass its path, or call from_raster while it is open")
    return source


def _read_band(dataset, index: int, window, dtype) -> np.ndarray:
    """scale * stored + offset, NaN where any of the mask, the alpha band and the no-data value says there is none.

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
    """Descriptions, or band_1, band_2, ...; a description used twice gets the number of its band."""
    told = [dataset.descriptions[index - 1] or f"band_{k}" for k, (dataset, index) in enumerate(bands, start=1)]
    return [f"{name}_{k}" if told.count(name) > 1 else name for k, name in enumerate(told, start=1)]


def _choose(bands, names: list[str], alpha: list[bool]) -> list[int]:
    """Positions of the bands asked for; without a wish, all but alpha."""
    if bands is None:
        return [k for k, hidden in enumerate(alpha) if not hidden] or list(range(len(names)))
    bands = as_list(bands)
    if not bands:
        raise ValueError("bands is empty; name at least one band, or leave it out to take all")
    known = {**{name: k for k, name in enumerate(names)}, **{k + 1: k for k in range(len(names))}}
    for band in bands:
        if band not in known:
            raise ValueError(f"there is no band {band!r}; the bands are {', '.join(names)}, or 1 to {len(names)}")
    return [known[band] for band in bands]


def _common_type(types: list[str], names: list[str]) -> np.dtype:
    """float32 if every band is (or narrower floats), else float64."""
    kinds = [np.dtype(one) for one in types]
    for kind, name in zip(kinds, names, strict=True):
        if kind.kind not in "fiu":
            raise TypeError(f"band {name!r} holds {kind} values; bands must be real numbers, so leave it out of bands")
    single = all(kind.kind == "f" and kind.itemsize <= 4 for kind in kinds)
    return np.dtype(np.float32 if single else np.float64)


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


_INDEX, _ROW = "the index of zones", "the position among zones"


@dataclass(frozen=True)
class Zones:
    """One polygon per bag in the raster's coordinates (None where there is none), and what its attributes say.

    ``known`` are bags of one instance, its position: they hold the ids, groups and covariates.
    """

    polygons: np.ndarray
    known: Bags
    y: np.ndarray | None


def read_zones(
    zones, crs, *, id=None, target=None, groups=None, bag_features=None, remedy=("raster", "rio edit-info --crs")
) -> Zones:
    """Zones from a path or a GeoDataFrame, in its order; ``remedy``: what has no system, and how it gets one."""
    frame = as_zones(zones)
    known, y = _attributes(frame, id, target=target, groups=groups, bag_features=bag_features)
    _refuse_other_shapes(frame.geometry, known.ids)
    return Zones(_in_coordinates(frame.geometry, crs, remedy), known, y)


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


def _attributes(frame, id, *, bag_features, **roles) -> tuple[Bags, np.ndarray | None]:
    """One row is one bag here, so the checks of `from_table` are the checks."""
    table = frame.drop(columns=frame.active_geometry_name)
    bag_features = None if bag_features is None else as_list(bag_features)  # "auto" cannot tell them by one row
    named = [name for name in (id, *roles.values(), *(bag_features or ())) if name is not None]
    refuse_unknown(list(table.columns), named)
    table = table.assign(**{_INDEX: frame.index, _ROW: np.arange(len(table))})
    id = _INDEX if id is None else id
    _refuse_repeated(table[id])
    return from_table(table, bag=id, features=[_ROW], bag_features=bag_features, **roles)


def _refuse_repeated(ids) -> None:
    twice = (ids.duplicated() & ids.notna()).to_numpy()
    if twice.any():
        raise ValueError(
            f"zone id {label(ids.to_numpy()[twice.argmax()])} appears twice in {ids.name!r}; every bag needs an id of "
            "its own: join its polygons with zones.dissolve(...), or name another column as id"
        )


def _refuse_other_shapes(geometry, ids: np.ndarray) -> None:
    given = ~(geometry.isna() | geometry.is_empty).to_numpy()
    other = given & ~geometry.geom_type.isin(["Polygon", "MultiPolygon"]).to_numpy()
    if other.any():
        kind = geometry.iloc[other.argmax()].geom_type
        raise ValueError(
            f"{name_bags(ids, other)} a {kind} for its shape; zones must be polygons or multipolygons: "
            "widen points and lines with zones.buffer(...), or leave them out"
        )


def _in_coordinates(geometry, crs, remedy) -> np.ndarray:
    """The polygons in the raster's coordinates. Rings that cross are mended first: a pixel in two parts is inside."""
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
