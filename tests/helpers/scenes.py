"""Small rasters and polygons, positioned by column and row."""

import geopandas
import numpy as np
import rasterio
import shapely
from rasterio import Affine

UTM = "EPSG:32633"
NORTH_UP = Affine(10, 0, 500_000, 0, -10, 5_200_000)
ROTATED = Affine(8.66, -7.5, 500_000, -5, -12.99, 5_200_000)


def write(path, data, *, transform=NORTH_UP, crs=UTM, names=None, **profile):
    count, height, width = data.shape
    shape = {"count": count, "height": height, "width": width, "dtype": data.dtype}
    with rasterio.open(path, "w", driver="GTiff", transform=transform, crs=crs, **shape, **profile) as writer:
        writer.write(data)
        if names:
            writer.descriptions = names
    return path


def place(transform, points):
    a, b, c, d, e, f = tuple(transform)[:6]
    columns, rows = np.asarray(points, dtype=float).T
    return np.column_stack([a * columns + b * rows + c, d * columns + e * rows + f])


def pixel_box(transform, left, top, right, bottom):
    """Return a box given in columns and rows."""
    return shapely.Polygon(place(transform, [(left, top), (right, top), (right, bottom), (left, bottom)]))


def star(rng, transform, centre, radius):
    angles = np.sort(rng.uniform(0, 2 * np.pi, 12))
    far = radius * rng.uniform(0.3, 1, 12)
    return shapely.Polygon(place(transform, centre + np.column_stack([far * np.cos(angles), far * np.sin(angles)])))


def random_polygons(rng, transform, n=12):
    """Return stars that overlap and exceed the raster; each second has a hole, each third a second part."""
    shapes = []
    for k in range(n):
        centre = rng.uniform(2, 28, 2)
        shape = star(rng, transform, centre, rng.uniform(4, 12)).buffer(0)
        if k % 2:
            shape = shape.difference(star(rng, transform, centre, 3).buffer(0))
        if k % 3 == 0:
            shape = shape.union(star(rng, transform, rng.uniform(5, 25, 2), 5).buffer(0))
        shapes.append(shape)
    return shapes


def zones_of(shapes, crs=UTM, **columns):
    return geopandas.GeoDataFrame({"zone": [f"z{k}" for k in range(len(shapes))], **columns}, geometry=shapes, crs=crs)
