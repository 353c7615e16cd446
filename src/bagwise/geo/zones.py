"""The polygons: read, checked, put in order, brought to the raster's coordinates; their ids, targets and groups."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import geopandas
import numpy as np

from bagwise.bags import Bags, from_table
from bagwise.bags.choosing import as_list, refuse_unknown
from bagwise.bags.naming import label, name_bags

_INDEX, _ROW = "the index of zones", "the position among zones"


@dataclass(frozen=True)
class Zones:
    """One polygon per bag in the raster's coordinates (None where there is none), and what its attributes say.

    ``known`` are bags of one instance, its position: they hold the ids, groups and covariates.
    """

    polygons: np.ndarray
    known: Bags
    y: np.ndarray | None


def read_zones(zones, crs, *, id=None, target=None, groups=None, bag_features=None) -> Zones:
    """Zones from a path or a GeoDataFrame, in its order."""
    frame = _as_frame(zones)
    known, y = _attributes(frame, id, target=target, groups=groups, bag_features=bag_features)
    _refuse_other_shapes(frame.geometry, known.ids)
    return Zones(_in_coordinates(frame.geometry, crs), known, y)


def _as_frame(zones) -> geopandas.GeoDataFrame:
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


def _in_coordinates(geometry, crs) -> np.ndarray:
    """The polygons in the raster's coordinates. Rings that cross are mended first: a pixel in two parts is inside."""
    geometry = geometry.make_valid(method="structure", keep_collapsed=False)
    if (crs is None) != (geometry.crs is None):
        lacking, how = ("raster", "rio edit-info --crs") if crs is None else ("zones", "zones.set_crs(...)")
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
