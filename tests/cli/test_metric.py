"""Each verb takes each metric by its name: the median absolute error is one entry of `METRICS` and no branch."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import bagwise as bw
from bagwise.cli import app


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("metric")
    rng = np.random.default_rng(0)
    lines = []
    for bag in range(48):
        centre = rng.normal(size=2)
        target = centre[0] + 0.1 * rng.normal()
        lines += [f"{bag},{x:.4f},{z:.4f},{target:.4f}" for x, z in centre + 0.1 * rng.normal(size=(3, 2))]
    (place / "table.csv").write_text("\n".join(["bag,x,z,target", *lines]))
    return place


def run(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments), "--metric", "medae"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_verb_takes_it(place):
    table = (place / "table.csv", "--bag", "bag", "--target", "target")
    model, page = place / "m.bagwise", place / "m.html"
    fitted = run("fit", *table, "--time-budget", 2, "--n-jobs", 1, "--out", model, "--report", page)
    assert "(median absolute error of held-out bags; " in fitted
    assert "Typical error (median absolute error)" in page.read_text()
    assert "median absolute error 0." in run("importance", model, place / "table.csv", "--repeats", 1)
    one = ("--method", "aggregated", "--out")
    told = json.loads(run("evaluate", *table, *one, place / "run", "--repeats", 1, "--json"))
    assert told["metric"] == "medae" and "median absolute error" in told["verdict"]
    assert bw.Results.load(place / "run").ranked()[0]["medae"] == told["summary"][0]["medae"]
    sizes = [part for size in (8, 12, 20, 30) for part in ("--size", size)]
    assert "the median absolute error" in run("learning-curve", *table, *one, place / "curve", "--repeats", 1, *sizes)
