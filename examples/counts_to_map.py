"""
From counts per district to a map of rates
==========================================

A ministry counts cases per district. Rainfall, elevation and population are known for every cell of a raster. We write
such a raster and such districts, learn the rate of every cell from the counts alone, and write a GeoTIFF with the
rate and its standard deviation. Run with ``python counts_to_map.py [folder]``; it needs the extra ``geo``.
"""

import sys
import tempfile
from pathlib import Path

import geopandas
import numpy as np
import rasterio
import shapely
from rasterio.features import rasterize

import bagwise as bw
from bagwise.regressors import AggregateGP

SIZE, DISTRICTS = 120, 150  # cells along a side of the raster
CORNER = rasterio.Affine(1000, 0, 600_000, 0, -1000, 5_400_000)  # cells of 1 km, north up
LAKE = -9999.0


# %%
# The raster has three bands; a lake in it has no data. The rate per thousand people rises with rain and falls with
# elevation. Nobody measures it: it is returned here only to compare with.


def smooth(rng: np.random.Generator, waves: int) -> np.ndarray:
    """A smooth random surface of mean 0."""
    down, right = np.indices((SIZE, SIZE)) / SIZE
    surface = np.zeros((SIZE, SIZE))
    for a, b, phase, height in rng.uniform(-1, 1, (12, 4)):
        surface += height * np.cos(np.pi * waves * (a * down + b * right) + np.pi * phase)
    return (surface - surface.mean()) / surface.std()


def write_raster(path: Path, rng: np.random.Generator) -> np.ndarray:
    """Write rain, elevation and population; return the true rate of every cell."""
    rain, elevation = smooth(rng, 6), smooth(rng, 10)
    population = np.exp(3 + rng.normal(0, 1, (SIZE, SIZE)))
    rate = np.exp(-4 + 0.8 * rain - 0.5 * elevation**2)
    bands = np.stack([1200 + 300 * rain, 800 + 400 * elevation, population])
    bands[:, np.hypot(*(np.indices((SIZE, SIZE)) - 40)) < 5] = LAKE
    shape = {"width": SIZE, "height": SIZE, "count": 3, "dtype": "float64", "nodata": LAKE}
    with rasterio.open(path, "w", driver="GTiff", crs="EPSG:32632", transform=CORNER, tiled=True, **shape) as raster:
        raster.write(bands)
        raster.descriptions = ("rain", "elevation", "population")
    return np.where(bands[0] == LAKE, np.nan, rate)


def write_districts(path: Path, rate: np.ndarray, raster: Path, rng: np.random.Generator) -> None:
    """Write districts, the cells of a Voronoi diagram, with a Poisson count of cases each."""
    with rasterio.open(raster) as image:
        expected = np.nan_to_num(image.read(3, masked=True).filled(0) * rate)
        box = shapely.box(*image.bounds)
    west, south, east, north = box.bounds
    seeds = shapely.multipoints(rng.uniform([west, south], [east, north], (DISTRICTS, 2)))
    districts = shapely.intersection(shapely.get_parts(shapely.voronoi_polygons(seeds, extend_to=box)), box)
    cells = rasterize(zip(districts, range(1, DISTRICTS + 1), strict=True), rate.shape, transform=CORNER, dtype="int32")
    mean = np.bincount(cells.ravel(), weights=expected.ravel(), minlength=DISTRICTS + 1)[1:]
    names = [f"D{k:03d}" for k in range(DISTRICTS)]
    table = {"district": names, "cases": rng.poisson(mean)}
    geopandas.GeoDataFrame(table, geometry=list(districts), crs="EPSG:32632").to_file(path)


# %%
# Districts become bags, cells instances; the lake is left out. The population of a cell is no feature but its exposure:
# the count of a district is Poisson about the sum of population times rate.


def read(raster: Path, districts: Path):
    """Bags with rain and elevation as features and population as weights; counts; row and column of every cell."""
    placed, cases = bw.from_raster(raster, districts, id="district", target="cases", coordinates=True)
    rain_elevation, population, x_y = placed.instances[:, :2], placed.instances[:, 2], placed.instances[:, 3:]
    bags = placed.replace(rain_elevation, feature_names=placed.feature_names[:2]).with_weights(population)
    return bags, cases, tuple(np.asarray(rasterio.transform.rowcol(CORNER, *x_y.T), dtype=int))


def write_map(path: Path, cells, rate: np.ndarray, std: np.ndarray) -> None:
    """Write the map as a GeoTIFF of two bands; cells of no district have no data."""
    bands = np.full((2, SIZE, SIZE), np.nan)
    bands[:, cells[0], cells[1]] = rate, std
    shape = {"width": SIZE, "height": SIZE, "count": 2, "dtype": "float64", "nodata": np.nan}
    with rasterio.open(path, "w", driver="GTiff", crs="EPSG:32632", transform=CORNER, **shape) as image:
        image.write(bands)
        image.descriptions = ("rate", "standard deviation")


# %%
# The map adds up: population times rate, summed over a district, is the count that is predicted of it.


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    truth = write_raster(folder / "covariates.tif", rng)
    write_districts(folder / "districts.gpkg", truth, folder / "covariates.tif", rng)

    bags, cases, cells = read(folder / "covariates.tif", folder / "districts.gpkg")
    print(bags, f"and {cases.sum():.0f} cases")
    model = AggregateGP(aggregate="sum", likelihood="poisson").fit(bags, cases)
    rate, std = model.predict_instances(bags, return_std=True)
    write_map(folder / "rates.tif", cells, rate, std)

    totals = np.add.reduceat(bags.weights * rate, bags.offsets[:-1])
    print(f"largest difference of a district's cells and its prediction: {np.ptp(totals - model.predict(bags)):.1e}")
    true = truth[cells]
    same = np.repeat(cases / np.add.reduceat(bags.weights, bags.offsets[:-1]), bags.sizes)
    for name, guess in (("every cell has its district's rate", same), ("aggregate-gp", rate)):
        print(f"{name}: RMSE {1000 * np.sqrt(np.mean((guess - true) ** 2)):.1f} per thousand people")
    inside = np.mean(np.abs(rate - true) < 1.645 * std)
    print(f"true rates within 1.645 standard deviations: {inside:.2f}, and 0.90 were asked for")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
