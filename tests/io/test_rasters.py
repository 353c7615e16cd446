"""A bag per polygon: equal to asking every pixel centre, whatever the grid, the coordinates and the shape."""

import sys
import tracemalloc
from importlib import import_module

import numpy as np
import pytest
import rasterio
import shapely
from rasterio import Affine
from tests.helpers.scenes import NORTH_UP, ROTATED, UTM, pixel_box, place, random_polygons, write, zones_of

from bagwise.io import from_raster
from bagwise.io import raster as covering


def naive(data, transform, shape, valid=None):
    """Ask the centre of every pixel, one after the other."""
    rows = []
    for row in range(data.shape[1]):
        for column in range(data.shape[2]):
            centre = shapely.Point(place(transform, [(column + 0.5, row + 0.5)])[0])
            if shape.contains(centre) and (valid is None or valid[row, column]):
                rows.append(data[:, row, column])
    return np.array(rows)


@pytest.fixture
def data(rng):
    return rng.normal(size=(3, 30, 32)).astype(np.float32)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED], ids=["north-up", "rotated"])
def test_the_pixels_of_a_bag_are_those_whose_centre_is_inside(tmp_path, rng, data, transform):
    shapes = random_polygons(rng, transform)
    path = write(tmp_path / "a.tif", data, transform=transform)
    bags, y = from_raster(path, zones_of(shapes), id="zone")
    assert y is None and bags.ids.tolist() == [f"z{k}" for k in range(len(shapes))]
    assert bags.dtype == np.float32 and bags.feature_names == ("band_1", "band_2", "band_3")
    for bag, shape in zip(bags, shapes, strict=True):
        np.testing.assert_array_equal(bag, naive(data, transform, shape))


def test_a_polygon_with_a_hole_and_a_far_part(tmp_path, data):
    ring = pixel_box(NORTH_UP, 2, 2, 10, 10).difference(pixel_box(NORTH_UP, 4, 4, 8, 8))
    both = shapely.MultiPolygon([ring, pixel_box(NORTH_UP, 20, 20, 22, 21)])
    bags, _ = from_raster(write(tmp_path / "a.tif", data), zones_of([both]))
    expected = np.zeros((30, 32), dtype=bool)
    expected[2:10, 2:10] = True
    expected[4:8, 4:8] = False
    expected[20:21, 20:22] = True
    np.testing.assert_array_equal(bags[0], data[:, expected].T)


def test_rings_that_cross_and_parts_that_overlap_count_a_pixel_once(tmp_path, data):
    twice = shapely.MultiPolygon([pixel_box(NORTH_UP, 0, 0, 4, 4), pixel_box(NORTH_UP, 2, 0, 6, 4)])
    assert not twice.is_valid
    bags, _ = from_raster(write(tmp_path / "a.tif", data), zones_of([twice]))
    np.testing.assert_array_equal(bags[0], data[:, :4, :6].reshape(3, -1).T)


@pytest.mark.parametrize("weights", [None, "area-fraction"])
def test_a_polygon_around_the_raster_takes_all_of_it(tmp_path, data, weights):
    around = zones_of([pixel_box(NORTH_UP, -50, -50, 90, 90)])
    bags, _ = from_raster(write(tmp_path / "a.tif", data), around, weights=weights)
    np.testing.assert_array_equal(bags[0], data.reshape(3, -1).T)
    assert weights is None or (bags.weights == 1).all()


def test_all_touched_takes_every_pixel_that_overlaps(tmp_path, rng, data):
    small = [pixel_box(NORTH_UP, 5.6, 7.6, 5.9, 7.9), pixel_box(NORTH_UP, 5.9, 7, 6.2, 8)]
    shapes = [*random_polygons(rng, NORTH_UP), *small]
    bags, _ = from_raster(write(tmp_path / "a.tif", data), zones_of(shapes), all_touched=True)
    cells = [[pixel_box(NORTH_UP, i, j, i + 1, j + 1) for i in range(32)] for j in range(30)]
    for bag, shape in zip(bags, shapes, strict=True):
        touched = shapely.area(shapely.intersection(np.array(cells), shape)) > 0
        np.testing.assert_array_equal(bag, data[:, touched].T)


@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED], ids=["north-up", "rotated"])
def test_area_fractions_are_the_shares_of_the_pixels(tmp_path, rng, data, transform, monkeypatch):
    aligned = [pixel_box(transform, 2, 3, 6, 9), pixel_box(transform, 5.25, 7.5, 6.5, 8.5)]
    overlapping = shapely.MultiPolygon([pixel_box(transform, 0, 0, 4, 4), pixel_box(transform, 2, 0, 6, 4)])
    shapes = [*random_polygons(rng, transform, 6), *aligned, overlapping]
    path = write(tmp_path / "a.tif", data, transform=transform)
    bags, _ = from_raster(path, zones_of(shapes), weights="area-fraction")
    cells = np.array([[pixel_box(transform, i, j, i + 1, j + 1) for i in range(32)] for j in range(30)])
    for k, shape in enumerate(shapes):
        shares = shapely.area(shapely.intersection(cells, shape.buffer(0))) / shapely.area(cells)
        weights = bags.weights[bags.offsets[k] : bags.offsets[k + 1]]
        np.testing.assert_array_equal(bags[k], data[:, shares > 1e-9].T)
        np.testing.assert_allclose(weights, shares[shares > 1e-9], atol=1e-9)
    assert bags[6].shape == (24, 3) and bags[7].shape == (4, 3) and bags[8].shape == (24, 3)
    monkeypatch.setattr(covering, "STRIP", 1)  # row by row
    strips, _ = from_raster(path, zones_of(shapes), weights="area-fraction")
    assert strips.instances.tolist() == bags.instances.tolist()
    np.testing.assert_allclose(strips.weights, bags.weights, atol=1e-12)


def test_area_fractions_where_an_edge_runs_through_a_corner_of_pixels(tmp_path, data):
    skewed = Affine(0.0083, 0.002, 13.37, 0.002, -0.0083, 47.11)  # rounding: the burnt edge misses a pixel here
    corners = place(skewed, [(16, 11), (2.5, 12), (16.5, 16), (15.5, 2)])
    path = write(tmp_path / "a.tif", data, transform=skewed, crs="EPSG:4326")
    zones = zones_of([shapely.Polygon(corners)], crs="EPSG:4326").make_valid(method="structure").to_frame("geometry")
    bags, _ = from_raster(path, zones, weights="area-fraction")
    pixel = abs(skewed.determinant)
    assert bags.weights.sum() * pixel == pytest.approx(zones.geometry[0].area, rel=1e-9)


def test_targets_groups_and_order_follow_the_zones(tmp_path, data):
    shapes = [pixel_box(NORTH_UP, k, k, k + 2, k + 3) for k in (9, 2, 5)]
    zones = zones_of(shapes, harvest=[3, 1, 2], county=["b", "a", "b"], slope=[0.5, 0.1, 0.2])
    roles = {"id": "zone", "target": "harvest", "groups": "county", "bag_features": "slope"}
    bags, y = from_raster(write(tmp_path / "a.tif", data), zones, **roles)
    assert bags.covariates.tolist() == [[0.5], [0.1], [0.2]] and bags.covariate_names == ("slope",)
    assert y.dtype == np.float64 and y.tolist() == [3, 1, 2] and bags.groups.tolist() == ["b", "a", "b"]
    np.testing.assert_array_equal(bags[1], data[:, 2:5, 2:4].reshape(3, -1).T)
    back, y_back = from_raster(tmp_path / "a.tif", zones[::-1], **roles)
    assert back == bags[::-1] and y_back.tolist() == [2, 1, 3]


def test_ids_are_the_index_where_no_column_is_named(tmp_path, data):
    zones = zones_of([pixel_box(NORTH_UP, k, k, k + 2, k + 3) for k in (9, 2, 5)]).iloc[[2, 0]]
    assert from_raster(write(tmp_path / "a.tif", data), zones)[0].ids.tolist() == [2, 0]


@pytest.mark.parametrize("ending", ["gpkg", "geojson", "shp"])
def test_zones_in_a_file_and_in_other_coordinates(tmp_path, rng, data, ending):
    zones = zones_of(random_polygons(rng, NORTH_UP), harvest=np.arange(12.0))
    expected = from_raster(write(tmp_path / "a.tif", data), zones, id="zone", target="harvest")
    zones.to_crs("EPSG:4326").to_file(tmp_path / f"zones.{ending}")
    bags, y = from_raster(tmp_path / "a.tif", str(tmp_path / f"zones.{ending}"), id="zone", target="harvest")
    assert bags == expected[0] and y.tolist() == expected[1].tolist()


def test_an_open_dataset_stays_open_and_equals_its_path(tmp_path, data):
    zones = zones_of([pixel_box(NORTH_UP, 1, 1, 9, 9)])
    path = write(tmp_path / "a.tif", data)
    with rasterio.open(path) as dataset:
        assert from_raster(dataset, zones)[0] == from_raster(str(path), zones)[0]
        assert not dataset.closed
    for options in ({"raster": dataset}, {"raster": path, "mask": dataset}):
        with pytest.raises(ValueError, match="the (raster|mask) .*a.tif is closed; pass its path, or keep it open"):
            from_raster(zones=zones, **options)


def test_coordinates_are_the_centres_of_the_pixels(tmp_path, rng, data):
    shapes = random_polygons(rng, ROTATED, 4)
    path = write(tmp_path / "a.tif", data, transform=ROTATED, names=("red", "green", "blue"))
    plain, _ = from_raster(path, zones_of(shapes))
    bags, _ = from_raster(path, zones_of(shapes), coordinates=True)
    assert bags.feature_names == ("red", "green", "blue", "x", "y") and bags.dtype == np.float64
    np.testing.assert_array_equal(bags.instances[:, :3], plain.instances)
    with rasterio.open(path) as dataset:
        for values, x, y in zip(plain.instances, *bags.instances[:, 3:].T, strict=True):
            np.testing.assert_array_equal(values, data[(slice(None), *map(int, dataset.index(x, y)))])


def test_bands_by_number_and_by_name(tmp_path, data):
    path = write(tmp_path / "a.tif", data, names=("red", None, "blue"))
    zones = zones_of([pixel_box(NORTH_UP, 1, 1, 9, 9)])
    every, _ = from_raster(path, zones)
    assert every.feature_names == ("red", "band_2", "blue")
    some, _ = from_raster(path, zones, bands=["blue", 1])
    assert some.feature_names == ("blue", "red")
    np.testing.assert_array_equal(some.instances, every.instances[:, [2, 0]])
    assert from_raster(path, zones, bands="red")[0] == from_raster(path, zones, bands=1)[0]


def test_several_rasters_on_one_grid_are_stacked(tmp_path, data):
    zones = zones_of([pixel_box(NORTH_UP, 1, 1, 9, 9)])
    first = write(tmp_path / "a.tif", data[:1], names=("red",))
    second = write(tmp_path / "b.tif", data[1:].astype(np.float64), names=("red", None))
    bags, _ = from_raster([first, second], zones)
    assert bags.feature_names == ("red_1", "red_2", "band_3") and bags.dtype == np.float64
    np.testing.assert_array_equal(bags.instances, data[:, 1:9, 1:9].reshape(3, -1).T)


def test_the_reads_stay_small_on_a_raster_larger_than_memory(tmp_path):
    size = 100_000  # 40 GB per band, were it ever read; on disk it is sparse
    profile = {"driver": "GTiff", "width": size, "height": size, "count": 2, "dtype": "float32", "crs": UTM}
    layout = {"tiled": True, "blockxsize": 256, "blockysize": 256, "sparse_ok": True, "bigtiff": "yes"}
    with rasterio.open(tmp_path / "big.tif", "w", transform=NORTH_UP, **profile, **layout) as writer:
        block = np.arange(2 * 40 * 40, dtype=np.float32).reshape(2, 40, 40)
        writer.write(block, window=rasterio.windows.Window(70_000, 80_000, 40, 40))
    zones = zones_of([pixel_box(NORTH_UP, 70_000, 80_000, 70_040, 80_040), pixel_box(NORTH_UP, 0, 0, 3, 3)])
    tracemalloc.start()
    bags, _ = from_raster(tmp_path / "big.tif", zones)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(bags[0], block.reshape(2, -1).T)
    assert peak < 5e6


def test_strips_of_rows_change_nothing(tmp_path, rng, data, monkeypatch):
    zones = zones_of(random_polygons(rng, NORTH_UP))
    path = write(tmp_path / "a.tif", data)
    whole, _ = from_raster(path, zones, coordinates=True)
    monkeypatch.setattr(covering, "STRIP", 200)
    seen = []
    with rasterio.open(path) as dataset:
        strips, _ = from_raster(Watched(dataset, seen), zones, coordinates=True)
    assert strips == whole and max(seen) <= 200 // 3


class Watched:
    """A dataset that notes how many pixels each read asks for."""

    def __init__(self, dataset, seen):
        self._dataset, self._seen = dataset, seen

    def __getattr__(self, name):
        return getattr(self._dataset, name)

    def read(self, index, window):
        self._seen.append(window.width * window.height)
        return self._dataset.read(index, window=window)


def test_a_light_install_is_told_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "bagwise.io.raster")
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(ImportError, match=r"needs rasterio and geopandas: pip install 'bagwise\[geo\]'"):
        import_module("bagwise.io.raster")
