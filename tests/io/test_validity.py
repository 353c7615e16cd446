"""What counts as a value: no-data, masks, alpha, NaN, scale and offset; and what is refused."""

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from rasterio.enums import ColorInterp
from tests.helpers.scenes import NORTH_UP, ROTATED, UTM, pixel_box, write, zones_of

from bagwise.io import from_raster

WHOLE = zones_of([pixel_box(NORTH_UP, 0, 0, 4, 3)])


@pytest.fixture
def data():
    return np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1


def rows(data, hidden):
    """The pixels that are not hidden, row by row, as instances."""
    return data[:, ~hidden].T


def at(*places):
    hidden = np.zeros((3, 4), dtype=bool)
    hidden[tuple(np.transpose(places))] = True
    return hidden


def read(path, **options):
    return from_raster(path, WHOLE, **options)[0].instances


def test_a_pixel_needs_a_value_in_every_chosen_band(tmp_path, data):
    data[0, 0, 1] = data[1, 2, 3] = -9999
    path = write(tmp_path / "a.tif", data, nodata=-9999)
    np.testing.assert_array_equal(read(path), rows(data, at((0, 1), (2, 3))))
    np.testing.assert_array_equal(read(path, bands=1), rows(data[:1], at((0, 1))))


def test_keep_leaves_nan_where_another_band_has_a_value(tmp_path, data):
    data[0, 0, 1] = data[0, 1, 1] = data[1, 1, 1] = -9999
    bags, _ = from_raster(write(tmp_path / "a.tif", data, nodata=-9999), WHOLE, missing="keep")
    expected = np.where(data == -9999, np.nan, data)
    np.testing.assert_array_equal(bags.instances, rows(expected, at((1, 1))))
    assert bags.has_missing


def test_refuse_names_the_zone(tmp_path, data):
    data[0, 0, 1] = -9999
    path = write(tmp_path / "a.tif", data, nodata=-9999)
    with pytest.raises(ValueError, match="bag 'z0' has missing feature values.*missing='drop-instances'"):
        from_raster(path, WHOLE, id="zone", missing="refuse")
    assert len(read(write(tmp_path / "b.tif", data), missing="refuse")) == 12


def test_nan_and_infinity_are_no_values(tmp_path, data):
    data[0, 0, 0], data[1, 0, 1] = np.nan, np.inf
    path = write(tmp_path / "a.tif", data)
    np.testing.assert_array_equal(read(path), rows(data, at((0, 0), (0, 1))))
    with pytest.raises(ValueError, match="infinite feature values"):
        read(path, missing="keep")


@pytest.mark.parametrize("nodata", [np.nan, -3.4028234663852886e38])
def test_the_usual_fill_values_of_floats(tmp_path, data, nodata):
    data[0, 2, 2] = nodata
    np.testing.assert_array_equal(read(write(tmp_path / "a.tif", data, nodata=nodata)), rows(data, at((2, 2))))


@pytest.mark.parametrize("internal", [True, False])
def test_a_mask_of_the_dataset_hides_pixels_beside_no_data(tmp_path, data, internal):
    data[0, 0, 0] = -9999
    path = write(tmp_path / "a.tif", data, nodata=-9999)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=internal), rasterio.open(path, "r+") as dataset:
        dataset.write_mask(~at((1, 2)))
    assert (tmp_path / "a.tif.msk").exists() != internal
    np.testing.assert_array_equal(read(path), rows(data, at((0, 0), (1, 2))))


@pytest.mark.parametrize("nodata", [None, 7])
def test_alpha_hides_pixels_and_is_no_feature(tmp_path, nodata):
    data = np.arange(1, 37, dtype=np.uint8).reshape(3, 3, 4)
    data[2] = 255
    data[2, 1, 1], data[2, 1, 2] = 0, 1
    path = write(tmp_path / "a.tif", data, nodata=nodata)
    with rasterio.open(path, "r+") as dataset:
        dataset.colorinterp = (ColorInterp.gray, ColorInterp.undefined, ColorInterp.alpha)
    hidden = at((1, 1)) if nodata is None else at((1, 1), (1, 2))  # the value 7 lies in row 1, column 2
    bags, _ = from_raster(path, WHOLE)
    assert bags.feature_names == ("band_1", "band_2") and bags.dtype == np.float64
    np.testing.assert_array_equal(bags.instances, rows(data[:2], hidden))
    np.testing.assert_array_equal(read(path, bands=[3, 1]), rows(data[[2, 0]], hidden))


def test_scale_and_offset_of_a_band_are_applied(tmp_path):
    data = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    path = write(tmp_path / "a.tif", data, nodata=5)
    with rasterio.open(path, "r+") as dataset:
        dataset.scales, dataset.offsets = (0.5, 1.0), (-3.0, 0.0)
    expected = data * np.array([0.5, 1.0])[:, None, None] + np.array([-3.0, 0.0])[:, None, None]
    np.testing.assert_array_equal(read(path), rows(expected, at((1, 1))))


def test_a_mask_of_ones_own(tmp_path, data):
    path = write(tmp_path / "a.tif", data)
    clear = (~at((0, 0), (2, 1))).astype(np.uint8)
    clear[1, 3] = 9
    np.testing.assert_array_equal(read(path, mask=clear), rows(data, at((0, 0), (2, 1))))
    mask = write(tmp_path / "mask.tif", clear[None], nodata=9)
    np.testing.assert_array_equal(read(path, mask=mask), rows(data, at((0, 0), (2, 1), (1, 3))))
    with rasterio.open(mask) as dataset:
        np.testing.assert_array_equal(read(path, mask=dataset), read(path, mask=mask))
    data[0, 0, 0] = np.nan  # what is hidden is not asked for a value
    write(path, data)
    assert len(read(path, mask=mask, missing="refuse")) == 9


def strays(data):
    """One good zone; one outside, one between pixel centres, one without a value, one without a polygon."""
    data[:, 0, 0] = np.nan
    boxes = [(0, 0, 4, 3), (50, 0, 60, 9), (1.6, 1.6, 2.4, 2.4), (0, 0, 1, 1)]
    shapes = [*(pixel_box(NORTH_UP, *box) for box in boxes), None]
    return zones_of(shapes, harvest=np.arange(5.0), county=list("abcde"), slope=np.arange(5.0))


def test_zones_without_a_pixel_are_refused_or_dropped(tmp_path, data):
    zones = strays(data)
    path = write(tmp_path / "a.tif", data)
    why = "1 outside the raster, 1 holding no pixel centre, 1 all no-data or masked, 1 without a polygon"
    with pytest.raises(ValueError, match=rf"bag 'z1' \(and 3 others\) has no valid pixel \({why}\); .*empty='drop'"):
        from_raster(path, zones, id="zone")
    roles = {"id": "zone", "target": "harvest", "groups": "county", "bag_features": ["slope"]}
    with pytest.warns(UserWarning, match="no valid pixel.*4 of 5 zones are dropped") as told:
        bags, y = from_raster(path, zones, empty="drop", **roles)
    assert bags == from_raster(path, zones[:1], **roles)[0] and y.tolist() == [0]
    assert __file__ in [warning.filename for warning in told]  # it points at the call
    with pytest.warns(UserWarning, match="3 of 5 zones"):
        assert from_raster(path, zones, empty="drop", all_touched=True, **roles)[1].tolist() == [0, 2]
    with pytest.raises(ValueError, match="all no-data"):  # nothing left
        from_raster(path, zones[3:4], empty="drop")


def test_zones_beyond_the_projection_are_told(tmp_path, data):
    mercator = write(tmp_path / "a.tif", data, crs="EPSG:3857")
    pole = zones_of([shapely.box(0, 89, 10, 91)], crs="EPSG:4326")
    with pytest.raises(ValueError, match="1 beyond the raster's map projection"):
        from_raster(mercator, pole)


def test_coordinate_reference_systems_that_are_missing(tmp_path, data):
    bare, full = write(tmp_path / "bare.tif", data, crs=None), write(tmp_path / "full.tif", data)
    nowhere = WHOLE.set_crs(None, allow_override=True)
    with pytest.raises(ValueError, match="zones has no coordinate.* EPSG:32633; set it with zones.set_crs"):
        from_raster(full, nowhere)
    with pytest.raises(ValueError, match="raster has no coordinate.* EPSG:32633; set it with rio edit-info"):
        from_raster(bare, WHOLE)
    with pytest.warns(UserWarning, match="neither raster nor zones have a coordinate reference system") as told:
        assert from_raster(bare, nowhere)[0] == from_raster(full, WHOLE)[0]
    assert __file__ in [warning.filename for warning in told]


@pytest.mark.parametrize(
    "options, match",
    [
        ({"missing": "drop"}, "missing must be 'drop-instances', 'refuse', 'impute' or 'keep', not 'drop'"),
        ({"empty": "keep"}, "empty must be 'refuse' or 'drop', not 'keep'"),
        ({"weights": "area"}, "weights must be None or 'area-fraction', not 'area'"),
        ({"bands": []}, "bands is empty"),
        ({"bands": [0]}, "there is no band 0; the bands are band_1, band_2, or 1 to 2"),
        ({"bands": "red"}, "there is no band 'red'; the bands are band_1, band_2"),
        ({"mask": np.ones((2, 2))}, r"mask has the shape \(2, 2\), the raster \(3, 4\)"),
        ({"id": "zones"}, r"there is no column 'zones' \(did you mean 'zone'\?\)"),
        ({"target": "aod"}, "there is no column 'aod'"),
        ({"bag_features": "auto"}, "there is no column 'auto'"),
    ],
)
def test_wrong_options_are_refused(tmp_path, data, options, match):
    with pytest.raises(ValueError, match=match):
        from_raster(write(tmp_path / "a.tif", data), WHOLE, **options)


def test_wrong_rasters_are_refused(tmp_path, data):
    path = write(tmp_path / "a.tif", data)
    with pytest.raises(ValueError, match="the list of rasters is empty"):
        from_raster([], WHOLE)
    with pytest.raises(TypeError, match="raster must be a path or an open rasterio dataset, not ndarray"):
        from_raster(data, WHOLE)
    with pytest.raises(TypeError, match="mask must be a path or an open rasterio dataset, or an array, not int"):
        from_raster(path, WHOLE, mask=1)
    for k, other in enumerate([{"transform": ROTATED}, {"crs": "EPSG:32634"}]):
        with pytest.raises(ValueError, match=r"b\d.tif lies on another grid than .*a.tif.*WarpedVRT"):
            from_raster([path, write(tmp_path / f"b{k}.tif", data, **other)], WHOLE)
    with pytest.raises(ValueError, match="c.tif lies on another grid"):
        from_raster(path, WHOLE, mask=write(tmp_path / "c.tif", data[:, :2]))
    with pytest.raises(TypeError, match="band 'band_1' holds complex64 values"):
        from_raster(write(tmp_path / "d.tif", data.astype(np.complex64)), WHOLE)


def test_wrong_zones_are_refused(tmp_path, data):
    path = write(tmp_path / "a.tif", data)
    two = zones_of([WHOLE.geometry[0]] * 2, field=["a", "a"], site=["a", None], aod=[1.0, np.nan])
    for options, match in (
        ({"id": "field"}, "zone id 'a' appears twice in 'field'.*dissolve"),
        ({"id": "site"}, "1 of 2 rows have no bag id"),
        ({"id": "zone", "target": "aod"}, "bag 'z1' has a missing or infinite target in column 'aod'"),
        ({"id": "zone", "groups": "site"}, "bag 'z1' has rows without a group in column 'site'"),
    ):
        with pytest.raises(ValueError, match=match):
            from_raster(path, two, **options)
    points = zones_of([WHOLE.geometry[0], shapely.Point(0, 0)])
    with pytest.raises(ValueError, match="bag 'z1' has a Point as geometry; zones must be polygons"):
        from_raster(path, points, id="zone")
    with pytest.raises(ValueError, match="zones has no rows"):
        from_raster(path, WHOLE[:0])
    for table in (WHOLE.drop(columns="geometry"), [WHOLE.geometry[0]], geopandas.GeoDataFrame({"zone": [1]})):
        with pytest.raises(TypeError, match="zones must be polygons, but this .* has no geometry"):
            from_raster(path, table)


def test_files_that_hold_no_zones(tmp_path, data):
    path = write(tmp_path / "a.tif", data, crs=UTM)
    with pytest.raises(FileNotFoundError, match="there is no file .*none.gpkg"):
        from_raster(path, tmp_path / "none.gpkg")
    (tmp_path / "broken.gpkg").write_text("nothing")
    with pytest.raises(ValueError, match="broken.gpkg cannot be read; it may be cut short, damaged"):
        from_raster(path, tmp_path / "broken.gpkg")
