"""What the page on rasters and the examples of maps show runs."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio
from tests.helpers.scenes import NORTH_UP, pixel_box, write, zones_of

ROOT = Path(__file__).resolve().parents[2]


def run(example, folder, **smaller):
    """Return the names of an example, and what it prints."""
    names, printed = runpy.run_path(str(ROOT / "examples" / example)), io.StringIO()
    names["main"].__globals__.update(smaller)
    with contextlib.redirect_stdout(printed):
        names["main"](folder)
    return names, printed.getvalue()


def test_the_example_of_rasters_puts_predictions_on_the_map(tmp_path):
    _, printed = run("raster_to_bags.py", tmp_path)
    rmse, spread = map(float, re.search(r"RMSE ([\d.]+), standard deviation ([\d.]+)", printed).groups())
    assert rmse < spread / 2
    fields = geopandas.read_file(tmp_path / "predicted.gpkg")
    assert np.sqrt(np.mean((fields["predicted"] - fields["harvest"]) ** 2)) == pytest.approx(rmse, abs=1e-3)


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    write("image.tif", rng.normal(size=(2, 30, 32)).astype(np.float32), names=("red", "infrared"))
    write("terrain.tif", rng.normal(size=(1, 30, 32)).astype(np.float32), names=("height",))
    write("clear.tif", (rng.random((1, 30, 32)) < 0.8).astype(np.uint8))
    fields = [pixel_box(NORTH_UP, k, k, k + 4.3, k + 5) for k in range(20)]
    zones = zones_of(fields, harvest=rng.normal(size=20), county=["a", "b"] * 10, slope=rng.random(20))
    zones.rename(columns={"zone": "field"}).to_file("fields.gpkg")
    names: dict = {}
    page = (ROOT / "docs/raster.md").read_text(encoding="utf-8")
    first, second, third = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(first, names)
    assert len(names["predictions"]) == 20
    plain = names["bags"]
    exec(second, names)
    assert names["bags"].feature_names == ("red", "infrared", "height") and names["bags"].weights.min() < 1
    exec(third, names)
    np.testing.assert_array_equal(names["bags"].instances, plain.instances)
    assert names["x_y"].shape == (plain.n_instances, 2)


def errors(printed: str) -> list[float]:
    """Return the errors of one rate per district, and of the map."""
    return [float(error) for error in re.findall(r"RMSE ([\d.]+) per thousand", printed)]


def test_the_map_of_counts_is_better_than_one_rate_per_district_and_adds_up(tmp_path):
    names, printed = run("counts_to_map.py", tmp_path, SIZE=48, DISTRICTS=40)
    same, ours = errors(printed)
    assert ours < same / 2 and float(re.search(r"difference .*: (\S+)", printed)[1]) < 1e-6
    bags, cases, cells = names["read"](tmp_path / "covariates.tif", tmp_path / "districts.gpkg")
    with rasterio.open(tmp_path / "rates.tif") as image, rasterio.open(tmp_path / "covariates.tif") as inputs:
        assert image.transform == inputs.transform and image.crs == inputs.crs
        assert image.descriptions == ("rate", "standard deviation")
        rate, std = image.read()
        land = inputs.read(1, masked=True).mask == np.False_
        population = inputs.read(3)
    assert (np.isfinite(rate) == land).all() and (std[land] > 0).all()
    np.testing.assert_array_equal(population[cells], bags.weights)
    totals = np.add.reduceat(bags.weights * rate[cells], bags.offsets[:-1])
    assert np.corrcoef(totals, cases)[0, 1] > 0.9


@pytest.mark.slow
def test_deviations_of_the_map_are_as_large_as_its_errors(tmp_path):
    _, printed = run("counts_to_map.py", tmp_path)
    same, ours = errors(printed)
    assert ours < same / 4 and 0.8 < float(re.search(r"deviations: ([\d.]+),", printed)[1]) < 0.98
