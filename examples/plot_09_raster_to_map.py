"""
From a raster to a map
======================

A satellite image holds pixels, a map holds fields, and the harvest is known per field. Every field is a bag and every
pixel in it an instance. Predictions per field go back onto the map.
"""

# %%
# An image of two bands and round fields are simulated and written to files, as one would have them. The yield of a
# pixel is infrared times the vegetation index; the harvest of a field is the mean over its pixels.

import tempfile
from pathlib import Path

import geopandas
import matplotlib.pyplot as plt
import numpy as np
import rasterio
import shapely
from sklearn.model_selection import cross_val_predict

import bagwise as bw

SIZE, FIELD = 120, 12  # pixels along a side of the image, and of the square a field lies in
CORNER = rasterio.Affine(10, 0, 600_000, 0, -10, 5_400_000)  # pixels of 10 m, north up
folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)

level = np.kron(rng.uniform(0.1, 0.4, (SIZE // FIELD, SIZE // FIELD)), np.ones((FIELD, FIELD)))
red, infrared = level * rng.uniform(0.4, 1, (2, SIZE, SIZE)) * [[[0.3]], [[1.0]]]
shape = {"width": SIZE, "height": SIZE, "count": 2, "dtype": "float64"}
with rasterio.open(folder / "image.tif", "w", driver="GTiff", crs="EPSG:32632", transform=CORNER, **shape) as image:
    image.write(np.stack([red, infrared]))
    image.descriptions = ("red", "infrared")

rows, columns = FIELD // 2 + FIELD * np.indices((SIZE // FIELD, SIZE // FIELD)).reshape(2, -1)
x, north = rasterio.transform.xy(CORNER, rows, columns)
radius = rng.uniform(3, 5.5, len(x))
down, right = np.indices((SIZE, SIZE))
grown = 10 * infrared * (infrared - red) / (infrared + red)
inside = [np.hypot(down - a, right - b) < size for a, b, size in zip(rows, columns, radius, strict=True)]
harvest = [grown[pixels].mean() for pixels in inside] + rng.normal(0, 0.05, len(x))
fields = geopandas.GeoDataFrame(
    {"field": [f"F{k:03d}" for k in range(len(x))], "harvest": harvest},
    geometry=shapely.buffer(shapely.points(x, north), 10 * radius),
    crs="EPSG:32632",
)
fields.to_file(folder / "fields.gpkg")

# %%
# From files to bags in one line. Every field is predicted by a model that had not seen it.

bags, y = bw.from_raster(folder / "image.tif", folder / "fields.gpkg", id="field", target="harvest")
print(bags)
predicted = cross_val_predict(bw.method("aggregated"), bags, y, cv=bw.BagKFold(5))
fields = fields.set_index("field")
fields.loc[bags.ids, "predicted"] = predicted
print(f"RMSE {np.sqrt(np.mean((predicted - y) ** 2)):.3f}, standard deviation of the harvest {y.std():.3f}")

# %%
# The image, and the predicted harvest of every field.

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 4), layout="constrained")
extent = (600_000, 600_000 + 10 * SIZE, 5_400_000 - 10 * SIZE, 5_400_000)
left.imshow(infrared, extent=extent, cmap="Greys_r")
fields.boundary.plot(ax=left, color="#e09f3e", linewidth=1)
left.set_title("infrared, and fields")
fields.plot("predicted", ax=right, cmap="viridis", legend=True, legend_kwds={"shrink": 0.75})
right.set_title("predicted harvest")
for axis in (left, right):
    axis.set(xlabel="", ylabel="", xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:])
plt.show()
