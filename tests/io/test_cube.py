"""A bag per polygon and year from a cube: equal to a raster of each year, whatever holds it."""

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from rasterio.crs import CRS
from tests.helpers.scenes import NORTH_UP, UTM, pixel_box, random_polygons, write, zones_of

import bagwise as bw
from bagwise.io import raster

xarray = pytest.importorskip("xarray", reason="needs xarray (the extra cube)")
cubes = pytest.importorskip("bagwise.io.cube", reason="needs rasterio and geopandas (the extra cube)")
YEARS = [2018, 2019, 2021]


@pytest.fixture
def values():
    made = np.random.default_rng(0).normal(size=(3, 2, 30, 32)).astype(np.float32)  # year, band, y, x
    made[1, 0, 8:12, 8:12] = np.nan
    return made


@pytest.fixture
def cube(values):
    """On the grid of NORTH_UP; the second variable has a band, the third no year."""
    x, y = NORTH_UP.c + 10 * (np.arange(32) + 0.5), NORTH_UP.f - 10 * (np.arange(30) + 0.5)
    data = xarray.Dataset(
        {
            "ndvi": (("year", "y", "x"), values[:, 0]),
            "flux": (("band", "x", "year", "y"), values[:, 1].transpose(2, 0, 1)[None].repeat(2, axis=0)),
            "height": (("y", "x"), values[0, 1]),
            "note": (("year",), ["a", "b", "c"]),
        },
        coords={"year": YEARS, "y": y, "x": x, "band": ["red", "blue"]},
    )
    return data.assign_coords(spatial_ref=((), 0, {"crs_wkt": CRS.from_user_input(UTM).to_wkt()}))


@pytest.fixture
def zones():
    return zones_of(random_polygons(np.random.default_rng(1), NORTH_UP, 6), slope=np.arange(6.0))


def by_year(tmp_path, values, zones, **options):
    """The reference: a raster per year, read by `from_raster`."""
    for k, year in enumerate(YEARS):
        bands = np.stack([values[k, 0], values[k, 1], values[k, 1], values[0, 1]])
        path = write(tmp_path / f"{year}.tif", bands, names=("ndvi", "flux_red", "flux_blue", "height"))
        yield bw.from_raster(path, zones, id="zone", bag_features=["slope"], **options)[0]


@pytest.mark.parametrize("options", [{}, {"weights": "area-fraction"}, {"all_touched": True, "missing": "keep"}])
def test_a_bag_is_the_bag_of_that_years_raster(tmp_path, cube, values, zones, options):
    bags, y = bw.from_cube(cube, zones, time="year", id="zone", groups="year", bag_features=["slope"], **options)
    assert y is None and bags.dtype == np.float32 and bags.groups.tolist() == YEARS * 6
    assert bags.ids.tolist() == [f"z{k} {year}" for k in range(6) for year in YEARS]
    for k, expected in enumerate(by_year(tmp_path, values, zones, **options)):
        own = bags[k::3]
        assert own.feature_names == expected.feature_names
        np.testing.assert_array_equal(own.instances, expected.instances)
        np.testing.assert_array_equal(own.offsets, expected.offsets)
        np.testing.assert_array_equal(own.covariates, expected.covariates)
        if options.get("weights"):
            np.testing.assert_array_equal(own.weights, expected.weights)


@pytest.mark.parametrize(("library", "name"), [("h5netcdf", "cube.nc"), ("zarr", "cube.zarr")])
def test_netcdf_and_zarr_give_the_same(tmp_path, cube, zones, library, name):
    pytest.importorskip(library, reason=f"needs {library} (the extra cube)")
    how = {"time": "year", "id": "zone", "variables": ["ndvi", "flux", "height"]}  # a zarr store sorts them by name
    expected, _ = bw.from_cube(cube, zones, **how)
    numbers = cube.drop_vars("note")
    if library == "zarr":
        numbers.to_zarr(tmp_path / name, zarr_format=2)  # 3 has no standard for texts, and warns
    else:
        numbers.to_netcdf(tmp_path / name, engine=library)
    assert bw.from_cube(tmp_path / name, zones, **how)[0] == expected


def test_coverage_is_computed_once_for_all_years_and_strips_change_nothing(cube, zones, monkeypatch):
    expected, _ = bw.from_cube(cube, zones, time="year", id="zone")
    calls, real = [], raster.covered
    monkeypatch.setattr(raster, "covered", lambda *given, **how: calls.append(0) or real(*given, **how))
    bw.from_cube(cube, zones, time="year", id="zone")
    assert len(calls) == len(zones)
    monkeypatch.setattr(raster, "STRIP", 400)
    strips, _ = bw.from_cube(cube, zones, time="year", id="zone")
    assert len(calls) > 3 * len(zones)
    for one, other in zip(strips, expected, strict=True):  # with several strips, rows come in the same order here
        np.testing.assert_array_equal(one, other)


def test_only_the_window_of_a_polygon_is_read(cube, monkeypatch):
    seen, real = [], cubes.Grid.read
    monkeypatch.setattr(
        cubes.Grid, "read", lambda self, window, inside: seen.append(window) or real(self, window, inside)
    )
    boxes = [pixel_box(NORTH_UP, 4, 6, 9, 8), pixel_box(NORTH_UP, 20, 10, 23, 19)]
    bags, _ = bw.from_cube(cube, zones_of(boxes), time="year", id="zone", groups="zone", variables="flux")
    assert [(one.width, one.height) for one in seen] == [(7, 4), (5, 11)]  # a pixel wider on all sides
    assert bags.sizes.tolist() == [10] * 3 + [27] * 3 and bags.groups.tolist() == ["z0"] * 3 + ["z1"] * 3


@pytest.mark.parametrize("flip", [("y",), ("x",), ("x", "y")])
def test_a_grid_that_runs_the_other_way_has_the_same_pixels(cube, zones, flip):
    how = {"time": "year", "id": "zone", "variables": "ndvi"}
    expected, _ = bw.from_cube(cube, zones, **how)
    bags, _ = bw.from_cube(cube.isel({name: slice(None, None, -1) for name in flip}), zones, **how)
    for one, other in zip(bags, expected, strict=True):
        np.testing.assert_array_equal(np.sort(one[:, 0]), np.sort(other[:, 0]))


def test_the_place_of_every_instance_travels_with_it(cube, zones):
    bags, _ = bw.from_cube(cube, zones, time="year", id="zone", variables=["ndvi"])
    at = bags.kept
    there = cube["ndvi"].isel(year=xarray.DataArray(at["step"])).sel(
        x=xarray.DataArray(at["x"]), y=xarray.DataArray(at["y"]), method="nearest"
    )  # fmt: skip
    np.testing.assert_array_equal(there.to_numpy(), bags.instances[:, 0])


def test_the_dates_of_a_year_are_one_bag(cube, zones):
    dates = pd.to_datetime(["2018-05-01", "2019-04-01", "2018-07-01"])
    dated = cube[["ndvi"]].rename(year="time").assign_coords(time=dates)
    bags, _ = bw.from_cube(dated, zones, time="time.year", id="zone", groups="year")
    single, _ = bw.from_cube(dated, zones, time="time", id="zone")
    assert single.ids[:3].tolist() == ["z0 2018-05-01", "z0 2019-04-01", "z0 2018-07-01"]
    assert bags.ids[:2].tolist() == ["z0 2018", "z0 2019"] and bags.groups[:2].tolist() == [2018, 2019]
    np.testing.assert_array_equal(np.sort(bags[0], axis=0), np.sort(np.vstack([single[0], single[2]]), axis=0))
    assert set(bags.kept["step"][: len(bags[0])]) == {0, 2}


def test_targets_are_joined_by_polygon_and_year(tmp_path, cube, zones):
    rows = [("z3", 2021, 7.5), ("z0", 2018, 1.0), ("z9", 2018, 2.0), ("z0", 2021, 3.0)]
    table = pd.DataFrame(rows, columns=["zone", "year", "yield"])
    table.to_csv(tmp_path / "yields.csv", index=False)
    everything, _ = bw.from_cube(cube, zones, time="year", id="zone")
    for source in (table, tmp_path / "yields.csv"):
        with pytest.warns(UserWarning, match=r"bag 'z0 2019' \(and 14 others\) has no row in .*; row 'z9 2018' has"):
            bags, y = bw.from_cube(cube, zones, time="year", id="zone", target="yield", targets=source)
        assert bags.ids.tolist() == ["z0 2018", "z0 2021", "z3 2021"] and y.tolist() == [1.0, 3.0, 7.5]
        assert bags == everything[[0, 2, 11]]


def test_a_cube_without_time_is_a_raster(tmp_path, values, cube, zones):
    bags, y = bw.from_cube(cube[["height"]], zones, id="zone", target="slope")
    path = write(tmp_path / "a.tif", values[0, 1][None], names=("height",))
    expected, slope = bw.from_raster(path, zones, id="zone", target="slope")
    assert bags == expected and y.tolist() == slope.tolist()


def test_degrees_are_known_by_their_name_and_zones_are_reprojected(values, zones):
    frame = zones.to_crs("EPSG:4326")
    west, south, east, north = frame.total_bounds
    lon, lat = np.linspace(west, east, 32), np.linspace(south, north, 30)
    data = xarray.DataArray(values[0, 1], coords={"lat": lat, "lon": lon}, dims=["lat", "lon"])
    bags, _ = bw.from_cube(data, zones, id="zone")  # zones in metres
    grid = shapely.points(*np.meshgrid(lon, lat))
    for bag, shape in zip(bags, frame.geometry, strict=True):
        np.testing.assert_array_equal(bag[:, 0], values[0, 1][shapely.contains(shape, grid)])
    assert bags.feature_names == ("value",)


def test_longitudes_to_360_degrees_are_refused_and_the_way_out_works():
    data = np.arange(36 * 18, dtype=float).reshape(18, 36)
    grid = {"lat": 85 - 10.0 * np.arange(18), "lon": 5 + 10.0 * np.arange(36)}
    cube = xarray.DataArray(data, grid, ["lat", "lon"])
    zones = zones_of([shapely.box(-20, 40, 20, 60)], crs="EPSG:4326")
    with pytest.raises(ValueError, match=r"lon runs beyond 180 degrees.*cube\.assign_coords\(lon=.*sortby\('lon'\)"):
        bw.from_cube(cube, zones, id="zone")
    cube = cube.assign_coords(lon=(cube.lon + 180) % 360 - 180).sortby("lon")
    bags, _ = bw.from_cube(cube, zones, id="zone")
    assert bags[0][:, 0].tolist() == [row * 36 + column for row in (3, 4) for column in (34, 35, 0, 1)]


def test_every_misuse_names_the_way_out(tmp_path, cube, zones):
    how = {"time": "year", "id": "zone"}
    yields = pd.DataFrame({"zone": ["z0"], "year": [2018], "yield": [1.0]})
    dated = cube[["ndvi"]].rename(year="time").assign_coords(time=pd.to_datetime(["2018", "2019", "2020"]))
    odd = cube.assign_coords(x=cube["x"].to_numpy() + np.arange(32) ** 2)
    for match, data, options in (
        (r"no dimension 'year' of time; .*; time='time\.year' takes it from the dates of 'time'", dated, how),
        (r"'year' has no 'month': it needs dates, and a part such as 'year'", cube, how | {"time": "year.month"}),
        ("no variable has the dimension 'year'; leave time out", cube, how | {"variables": "height"}),
        ("there is no variable 'evi' on the grid; there are ndvi, flux, height", cube, how | {"variables": ["evi"]}),
        ("the coordinates of 'x' are not in equal steps; bring the cube to a regular grid", odd, how),
        ("there is no dimension 'easting'; the dimensions are ", cube, how | {"x": "easting"}),
        ("the y dimension is not recognised; name it with y=", cube.rename(y="row"), how),
        (r"dimension 'x' has no coordinates; add them by cube\.assign_coords\(x=", cube.drop_vars("x"), how),
        ("cube has no coordinate reference system.*; set it with crs='EPSG", cube.drop_vars("spatial_ref"), how),
        ("dimension 'y' has one step; a grid needs two", cube.isel(y=[0]), how),
        ("no variable of numbers with the dimensions y and x", cube[["note"]].assign_coords(cube.coords), how),
        ("targets is needed with a time: .* the columns zone, year and yield", cube, how | {"target": "yield"}),
        ("targets is a table per polygon and time; name the time", cube, {"id": "zone", "targets": yields}),
        ("there is no column 'year'", cube, how | {"targets": yields.rename(columns={"year": "season"})}),
        ("id is needed with targets", cube, {"time": "year", "targets": yields}),
        ("bag 'z0 2018' has several rows in targets", cube, how | {"targets": pd.concat([yields, yields])}),
        ("no bag id is in both tables: the first has 'z0 2018'", cube, how | {"targets": yields.assign(year=1)}),
        ("missing must be 'drop-instances', 'refuse', 'impute' or 'keep', not 'drop'", cube, how | {"missing": "drop"}),
    ):
        with pytest.raises(ValueError, match=match):
            bw.from_cube(data, zones, **options)
    with pytest.raises(TypeError, match="cube must be an xarray Dataset or DataArray, or a path"):
        bw.from_cube(np.ones((3, 3)), zones)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        bw.from_cube("none.nc", zones)
    (tmp_path / "cut.nc").write_bytes(b"CDF")
    with pytest.raises(ValueError, match="cut.nc cannot be read; it may be cut short, damaged"):
        bw.from_cube(tmp_path / "cut.nc", zones)


def test_an_archive_is_no_table_of_targets(tmp_path, cube, zones):
    np.savez(tmp_path / "yields.npz", yields=np.ones(3))
    with pytest.raises(ValueError, match="yields.npz is not a table with named columns; give a .csv or .parquet"):
        bw.from_cube(cube, zones, time="year", id="zone", target="yield", targets=tmp_path / "yields.npz")


def test_a_bag_without_a_value_is_refused_or_dropped(cube, zones):
    cube["ndvi"][1] = np.nan
    how = {"time": "year", "id": "zone", "variables": "ndvi"}
    with pytest.raises(ValueError, match=r"bag 'z0 2019' \(and 5 others\) has no valid pixel \(6 without a value\)"):
        bw.from_cube(cube, zones, **how)
    with pytest.warns(UserWarning, match="6 of 18 zones are dropped"):
        bags, _ = bw.from_cube(cube, zones, **how, empty="drop")
    assert len(bags) == 12 and "z0 2019" not in bags.ids
    away = geopandas.GeoDataFrame({"zone": ["far"]}, geometry=[shapely.box(0, 0, 10, 10)], crs=UTM)
    with pytest.raises(ValueError, match=r"no valid pixel \(3 outside the cube\)"):
        bw.from_cube(cube, away, **how)
