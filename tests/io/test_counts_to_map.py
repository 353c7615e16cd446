"""The example from counts of districts to a map runs, and the map is what the model knows."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import rasterio

ROOT = Path(__file__).resolve().parents[2]


def run(folder, **smaller):
    """The names of the example, and what it printed."""
    names, printed = runpy.run_path(str(ROOT / "examples/counts_to_map.py")), io.StringIO()
    names["main"].__globals__.update(smaller)
    with contextlib.redirect_stdout(printed):
        names["main"](folder)
    return names, printed.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("map")
    return *run(folder, SIZE=48, DISTRICTS=40), folder


def errors(printed: str) -> list[float]:
    """Of one rate per district, and of the map."""
    return [float(found) for found in re.findall(r"RMSE ([\d.]+) per thousand", printed)]


def test_the_map_is_better_than_one_rate_per_district_and_adds_up(made):
    _, printed, _ = made
    same, ours = errors(printed)
    assert ours < same / 2
    assert float(re.search(r"difference .*: (\S+)", printed)[1]) < 1e-6


@pytest.mark.slow
def test_deviations_are_as_large_as_errors(tmp_path):
    _, printed = run(tmp_path)
    same, ours = errors(printed)
    assert ours < same / 4 and 0.8 < float(re.search(r"deviations: ([\d.]+),", printed)[1]) < 0.98


def test_the_raster_holds_the_predictions_where_there_is_land(made):
    names, _, folder = made
    bags, cases, cells = names["read"](folder / "covariates.tif", folder / "districts.gpkg")
    with rasterio.open(folder / "rates.tif") as image, rasterio.open(folder / "covariates.tif") as inputs:
        assert image.transform == inputs.transform and image.crs == inputs.crs
        assert image.descriptions == ("rate", "standard deviation")
        rate, std = image.read()
        land = inputs.read(1, masked=True).mask == np.False_
        population = inputs.read(3)
    assert (np.isfinite(rate) == land).all() and (std[land] > 0).all()
    np.testing.assert_array_equal(population[cells], bags.weights)
    totals = np.add.reduceat(bags.weights * rate[cells], bags.offsets[:-1])
    assert np.corrcoef(totals, cases)[0, 1] > 0.9
