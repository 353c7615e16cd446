"""Blocks of zones, predictions on polygons, contributions on pixels."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely
from tests.helpers.scenes import NORTH_UP, ROTATED, UTM, random_polygons, write, zones_of

import bagwise as bw
from bagwise.bags import BagKFold


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_block_holds_the_zones_whose_middle_lies_in_its_square(rng):
    zones = zones_of(random_polygons(rng, NORTH_UP, 20))
    groups = bw.geo.blocks(zones, 70.0)
    for k, shape in enumerate(zones.geometry):
        column, row = map(int, groups[k].split(":"))
        square = shapely.box(70 * column, 70 * row, 70 * (column + 1), 70 * (row + 1))
        assert square.covers(shape.centroid)
    assert 1 < len(set(groups)) < 20


def test_zones_of_a_block_stay_in_one_fold(tmp_path, rng):
    zones = zones_of([shapely.box(x, 0, x + 5, 5) for x in rng.uniform(0, 300, 40)])
    zones["block"] = bw.geo.blocks(zones, 50)
    bags = bw.from_arrays([np.ones((1, 1))] * 40, groups=zones["block"].to_numpy())
    folds = [set(bags.groups[test]) for _, test in BagKFold(3).split(bags)]
    assert not set.intersection(*folds[:2]) and not folds[2] & (folds[0] | folds[1])


def test_the_blocks_and_years_of_the_page_on_splits_run(tmp_path, rng, monkeypatch):
    xarray = pytest.importorskip("xarray", reason="needs xarray (the extra cube)")
    monkeypatch.chdir(tmp_path)
    write("image.tif", rng.normal(size=(2, 30, 32)).astype(np.float32), names=("red", "infrared"))
    zones = zones_of(random_polygons(rng, NORTH_UP, 6), harvest=rng.normal(size=6)).rename(columns={"zone": "field"})
    grid = {"y": NORTH_UP.f - 5 - 10.0 * np.arange(30), "x": NORTH_UP.c + 5 + 10.0 * np.arange(32), "year": [1, 2]}
    cube = xarray.DataArray(rng.normal(size=(30, 32, 2)), grid, list(grid)).to_dataset(name="ndvi")
    table = pd.DataFrame({"field": [f"z{k}" for k in range(6)] * 2, "year": [1] * 6 + [2] * 6, "harvest": range(12)})
    table.assign(red=rng.normal(size=12), field=range(12)).to_parquet("pixels.parquet")
    page = (Path(__file__).resolve().parents[2] / "docs" / "which_split.md").read_text(encoding="utf-8")
    names = {"bw": bw, "zones": zones, "cube": cube.assign_attrs(crs=UTM), "table": table}
    [code] = re.findall(r"```python\n(zones.*?)```", page, re.DOTALL)
    exec(code, names)
    assert names["bags"].groups.tolist() == table["year"].tolist()


def test_misuse_of_blocks_names_the_way_out(rng):
    zones = zones_of(random_polygons(rng, NORTH_UP, 3))
    for size in (0, -5.0, np.nan, "10 km", None):
        with pytest.raises(ValueError, match="size must be a length above zero, in the units of the zones, not"):
            bw.geo.blocks(zones, size)
    with pytest.raises(ValueError, match=r"in degrees, which are not lengths; project them first: zones\.to_crs\("):
        bw.geo.blocks(zones.to_crs("EPSG:4326"), 0.1)
    zones.loc[1, "geometry"] = None
    with pytest.raises(ValueError, match=r"zone 1 has no polygon, so it lies in no block"):
        bw.geo.blocks(zones, 10)
    with pytest.raises(TypeError, match="zones must be polygons"):
        bw.geo.blocks(zones.drop(columns="geometry"), 10)


@pytest.mark.parametrize("ending", [".gpkg", ".geojson"])
def test_predictions_come_back_to_their_zones_by_id(tmp_path, rng, ending):
    import geopandas

    zones = zones_of(random_polygons(rng, NORTH_UP, 4), soil=[1, 2, 3, 4])
    predicted = {"zone": ["z3", "z0"], "prediction": [0.5, 2.0], "note": ["a", "b"]}
    for path in 2 * [tmp_path / f"out{ending}"]:  # a second time over the first
        bw.geo.to_zones(path, zones, predicted, id="zone")
    read = geopandas.read_file(tmp_path / f"out{ending}")
    np.testing.assert_array_equal(read["prediction"], [2.0, np.nan, np.nan, 0.5])
    assert read["soil"].tolist() == [1, 2, 3, 4] and read["note"][3] == "a" and read["note"].isna()[1]
    assert (read.geometry.to_crs(zones.crs).symmetric_difference(zones.geometry).area < 1).all()  # of thousands


def test_misuse_of_zones_names_the_way_out(tmp_path, rng):
    zones, columns = zones_of(random_polygons(rng, NORTH_UP, 2)), {"bag": ["z0", "z7", "z8"], "p": [1.0, 2.0, 3.0]}
    for name, id_, match in (
        ("a.shp", "zone", r"written as \.gpkg or \.geojson, not 'a\.shp'"),
        ("a.gpkg", "field", "there is no column 'field' in zones; the columns are 'zone', 'geometry'"),
        ("a.gpkg", None, r"no zone has an id of the bags \(zones: 0, bags: 'z0'\); name the column"),
        ("a.gpkg", "zone", r"bag 'z7' \(and 1 other\) has no zone; give the zones of all bags"),
    ):
        with pytest.raises(ValueError, match=match):
            bw.geo.to_zones(tmp_path / name, zones, columns, id=id_)


@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED], ids=["north-up", "rotated"])
def test_numbers_of_pixels_come_back_to_their_pixels(tmp_path, rng, transform):
    data = rng.normal(size=(1, 30, 32)).astype(np.float32)
    path = write(tmp_path / "a.tif", data, transform=transform)
    bags, _ = bw.from_raster(path, zones_of(random_polygons(rng, transform, 3)), coordinates=True)
    values, x, y = bags.instances.T
    bw.geo.to_raster(tmp_path / "out.tif", path, x, y, values, name="value")
    counts = bw.geo.to_raster(tmp_path / "n.tif", path, x, y, np.ones(len(x)))
    with rasterio.open(tmp_path / "out.tif") as written, rasterio.open(counts) as n:
        assert written.descriptions == ("value",) and written.transform == transform and written.crs == n.crs
        band, times = written.read(1), n.read(1)
    seen = ~np.isnan(times)
    assert np.isnan(band[~seen]).all() and np.nansum(times) == len(x) and times[seen].max() > 1  # zones overlap
    np.testing.assert_allclose(band[seen], (times * data[0])[seen], rtol=1e-6)


def test_misuse_of_rasters_names_the_way_out(tmp_path, rng):
    path = write(tmp_path / "a.tif", np.zeros((1, 3, 3), dtype=np.float32))
    with pytest.raises(ValueError, match=r"contributions is written as \.tif, not 'a\.png'"):
        bw.geo.to_raster(tmp_path / "a.png", path, [0], [0], [0])
    with pytest.raises(ValueError, match=r"pixel \(0, 1\) and 1 others lie outside the raster; give the raster that"):
        bw.geo.to_raster(tmp_path / "b.tif", path, [0, 0], [1, 0], [0, 0])
