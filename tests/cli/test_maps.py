"""`bagwise raster`, and maps from `bagwise predict`: the bags and numbers of the library, on polygons and pixels."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.typed import done, refused

import bagwise as bw

geopandas = pytest.importorskip("geopandas", reason="needs geopandas (the extra geo)")
rasterio = pytest.importorskip("rasterio", reason="needs rasterio (the extra geo)")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "raster_to_bags.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The image and the fields of the example, their pixels, and a model of them."""
    folder = tmp_path_factory.mktemp("raster")
    example, rng = runpy.run_path(str(EXAMPLE)), np.random.default_rng(0)
    example["write_fields"](folder / "fields.gpkg", example["write_image"](folder / "image.tif", rng), rng)
    said = done(
        *("raster", folder / "image.tif", folder / "fields.gpkg", "--id", "field", "--target", "harvest"),
        *("--out", folder / "pixels.parquet"),
    ).output
    assert "pixels of 144 zones" in said
    following = said.split("Next: bagwise ")[1].split()
    done(*following, "--method", "aggregated", "--no-intervals", "--out", folder / "model.bagwise")
    return folder


def test_the_pixels_are_those_of_from_raster(place):
    columns = {"bag": "field", "target": "harvest"}
    bags, y = bw.load(place / "pixels.parquet", **columns, keep=["x", "y"])
    expected, harvest = bw.from_raster(
        place / "image.tif", place / "fields.gpkg", id="field", target="harvest", coordinates=True
    )
    assert bags == expected.replace(expected.instances[:, :-2], feature_names=["red", "infrared"])
    np.testing.assert_array_equal(y, harvest)
    np.testing.assert_array_equal(np.column_stack([bags.kept["x"], bags.kept["y"]]), expected.instances[:, -2:])


def test_predictions_and_contributions_become_maps(place, tmp_path):
    maps = ("--out", tmp_path / "predicted.gpkg", "--zones", place / "fields.gpkg")
    maps += ("--instances", tmp_path / "parts.tif", "--raster", place / "image.tif")
    done("predict", place / "model.bagwise", place / "pixels.parquet", *maps)
    bags, _ = bw.load(place / "pixels.parquet", bag="field", features=["red", "infrared"], keep=["x", "y"])
    model = bw.load_model(place / "model.bagwise")
    fields = geopandas.read_file(tmp_path / "predicted.gpkg").set_index("field")
    np.testing.assert_allclose(fields.loc[bags.ids, "prediction"], model.predict(bags), rtol=1e-12)
    assert {"harvest", "geometry"} <= set(fields.columns)
    explanation = bw.explain(model, bags)
    with rasterio.open(tmp_path / "parts.tif") as image, rasterio.open(place / "image.tif") as like:
        assert (image.transform, image.crs, image.shape) == (like.transform, like.crs, like.shape)
        band = image.read(1)
        rows, columns = np.asarray(
            rasterio.transform.rowcol(image.transform, bags.kept["x"], bags.kept["y"]), dtype=int
        )
    np.testing.assert_allclose(
        band[np.array(rows, dtype=int), np.array(columns, dtype=int)], explanation.contributions, rtol=1e-5, atol=1e-7
    )
    assert np.isfinite(band).sum() == bags.n_instances


def test_blocks_weights_and_zones_by_number(place, tmp_path):
    fields = geopandas.read_file(place / "fields.gpkg").to_crs("EPSG:32632")[::14]
    fields.assign(slope=np.arange(len(fields)) / 7).to_file(tmp_path / "metres.gpkg")
    zones = geopandas.read_file(tmp_path / "metres.gpkg")
    options = ("--blocks", 450, "--weights", "area-fraction", "--bag-feature", "slope", "--band", "infrared")
    said = done("raster", place / "image.tif", tmp_path / "metres.gpkg", *options, "--out", tmp_path / "p.csv").output
    assert "--bag zone --groups block --bag-feature slope --weights area_fraction --ignore x --ignore y" in said
    roles = {"bag": "zone", "groups": "block", "weights": "area_fraction", "bag_features": "slope"}
    bags, _ = bw.load(tmp_path / "p.csv", **roles, ignore=["x", "y"])
    zones["block"] = bw.geo.blocks(zones, 450)
    how = {"groups": "block", "bag_features": ["slope"], "weights": "area-fraction", "bands": ["infrared"]}
    assert bags == bw.from_raster(place / "image.tif", zones, **how)[0]


def test_every_misuse_is_one_line_with_the_way_out(place, tmp_path):
    model, pixels, out = place / "model.bagwise", place / "pixels.parquet", tmp_path / "p.gpkg"
    fields, image = place / "fields.gpkg", place / "image.tif"
    placeless = tmp_path / "placeless.parquet"
    pd.read_parquet(pixels).drop(columns=["x", "y"]).to_parquet(placeless)
    for match, arguments in (
        ("p.gpkg is a map and needs a layer to draw on. Pass it with --zones", ("--out", out)),
        (
            "c.tif is a map and needs a layer to draw on. Pass it with --raster",
            ("--instances", tmp_path / "c.tif"),
        ),
        ("--zones needs a map. Pass --out with a name that ends in .gpkg or .geojson", ("--zones", fields)),
        (
            "--raster needs a map. Pass --instances with a name that ends in .tif or .tiff",
            ("--raster", image, "--instances", tmp_path / "c.csv"),
        ),
        ("GeoTIFF needs the columns x and y", ("--instances", tmp_path / "c.tif", "--raster", image)),
        ("p.gpkg is a map, which --engine stream", ("--zones", fields, "--out", out, "--engine", "stream")),
        ("fields.gpkg is an input as well. Give the output another name", ("--zones", fields, "--out", fields)),
    ):
        refused("predict", model, placeless if "GeoTIFF" in match else pixels, *arguments, words=match)
    for match, arguments in (
        ("both set the groups. Pass only one", ("--groups", "county", "--blocks", "10", "--out", tmp_path / "a.csv")),
        ("in degrees, which are not lengths; project them first", ("--blocks", "10", "--out", tmp_path / "a.csv")),
        ("'a.tif' should end in .parquet or .csv", ("--out", tmp_path / "a.tif")),
        ("two columns would be called 'red'", ("--id", "red", "--out", tmp_path / "a.csv")),
    ):
        zones = fields
        if "red" in arguments:
            zones = tmp_path / "red.gpkg"
            geopandas.read_file(fields).rename(columns={"field": "red"}).to_file(zones)
        refused("raster", image, zones, *arguments, words=match)
