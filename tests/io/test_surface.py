"""What the page and the example show runs."""

import re
import runpy
from pathlib import Path

import geopandas
import numpy as np
import pytest
from tests.helpers.scenes import NORTH_UP, pixel_box, write, zones_of

import bagwise as bw
from bagwise.io import from_raster

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs_and_puts_predictions_on_the_map(tmp_path, capsys):
    runpy.run_path(str(ROOT / "examples/raster_to_bags.py"))["main"](tmp_path)
    rmse, spread = map(
        float, re.search(r"RMSE ([\d.]+), standard deviation ([\d.]+)", capsys.readouterr().out).groups()
    )
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


@pytest.fixture(autouse=True)
def at_the_top(monkeypatch):
    monkeypatch.setattr(bw, "from_raster", from_raster, raising=False)
