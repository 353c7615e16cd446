"""
From a raster and polygons to bags
==================================

A satellite image holds pixels, a map holds fields, and the harvest is known per field: every field is a bag, every
pixel in it an instance. We write such an image and such a map, read them back as bags, and predict the harvest of
fields that were left out. Run with ``python raster_to_bags.py [folder]``; it needs the extra ``geo``.
"""

import sys
import tempfile
from pathlib import Path

import geopandas
import numpy as np
import rasterio
import shapely
from sklearn.model_selection import cross_val_predict

import bagwise as bw
from bagwise.bags import BagKFold

SIZE, FIELD = 180, 15  # pixels along a side of the image, and of the square a field lies in
CORNER = rasterio.Affine(10, 0, 600_000, 0, -10, 5_400_000)  # pixels of 10 m, north up


# %%
# The image has two bands of integers with a scale, as satellite products have, and clouds are no-data. The yield of a
# pixel is infrared times the vegetation index (infrared - red) / (infrared + red); the harvest of a field is its mean.


def write_image(path: Path, rng: np.random.Generator) -> np.ndarray:
    """Write the GeoTIFF; return the yield of every pixel."""
    level = np.kron(rng.uniform(0.1, 0.4, (SIZE // FIELD, SIZE // FIELD)), np.ones((FIELD, FIELD)))
    red, infrared = level * rng.uniform(0.4, 1, (2, SIZE, SIZE)) * [[[0.3]], [[1.0]]]
    stored = np.round(np.stack([red, infrared]) * 10_000).astype(np.uint16)
    stored[:, rng.random((SIZE, SIZE)) < 0.1] = 0
    shape = {"width": SIZE, "height": SIZE, "count": 2, "dtype": "uint16", "nodata": 0}
    with rasterio.open(path, "w", driver="GTiff", crs="EPSG:32632", transform=CORNER, tiled=True, **shape) as image:
        image.write(stored)
        image.descriptions = ("red", "infrared")
        image.scales = (1e-4, 1e-4)
    return 10 * infrared * (infrared - red) / (infrared + red)


def write_fields(path: Path, per_pixel: np.ndarray, rng: np.random.Generator) -> None:
    """Write round fields of many sizes, in degrees; their harvest is measured with a little noise."""
    rows, columns = FIELD // 2 + FIELD * np.indices((SIZE // FIELD, SIZE // FIELD)).reshape(2, -1)
    x, y = rasterio.transform.xy(CORNER, rows, columns)
    radius = rng.uniform(3, 7, len(x))  # in pixels
    down, right = np.indices(per_pixel.shape)
    circles = zip(rows, columns, radius, strict=True)
    harvest = [per_pixel[np.hypot(down - row, right - column) < size].mean() for row, column, size in circles]
    geopandas.GeoDataFrame(
        {"field": [f"F{k:03d}" for k in range(len(x))], "harvest": harvest + rng.normal(0, 0.05, len(x))},
        geometry=shapely.buffer(shapely.points(x, y), 10 * radius),
        crs="EPSG:32632",
    ).to_crs("EPSG:4326").to_file(path)


# %%
# ``from_raster`` brings the fields to the coordinates of the image, reads the pixels whose centre lies in a field,
# applies the scale and leaves the clouds out. From there on it is like any other data.


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    per_pixel = write_image(folder / "image.tif", rng)
    write_fields(folder / "fields.gpkg", per_pixel, rng)

    bags, y = bw.from_raster(folder / "image.tif", folder / "fields.gpkg", id="field", target="harvest")
    print(bags, "named", ", ".join(bags.feature_names))
    predicted = cross_val_predict(bw.method("aggregated"), bags, y, cv=BagKFold(5))
    rmse = np.sqrt(np.mean((predicted - y) ** 2))
    print(f"harvest of held-out fields: RMSE {rmse:.3f}, standard deviation {y.std():.3f}")

    # One prediction per field, in the order of the bags: back onto the map by the id.
    fields = geopandas.read_file(folder / "fields.gpkg").set_index("field")
    fields.loc[bags.ids, "predicted"] = predicted
    fields.to_file(folder / "predicted.gpkg")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
