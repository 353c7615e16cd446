"""The benchmark's row for a data set holds what it says: errors, standard errors over bags, paired differences."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import bagwise as bw
from bagwise.evaluation import evaluate

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "auto.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmark_auto", PATH)
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_a_row(script):
    bags, y = bw.datasets.make_problem("mean", 60)
    pairs = [("auto", bw.method("aggregated")), ("instance-kme", bw.method("statistics", preset="linear"))]
    found = [evaluate(bags, y, pairs, repeats=1, folds=3)]
    peers = {script.STACK: 0.5, script.SINGLE[0]: 2.0, script.SINGLE[1]: 0.6, "something published": 0.1}
    problem = script.compare.Problem("toy", "RMSE", None, script.compare.pooled, peers=peers)
    row = script.as_row(problem, found, ["auto", "instance-kme"])
    ours, theirs = (found[0].predictions(label) for label in ("auto", "instance-kme"))
    loss, other = (np.subtract(rows["prediction"], rows["target"]) ** 2 for rows in (ours, theirs))
    assert float(row["auto"]) == pytest.approx(np.sqrt(loss.mean()), rel=1e-3)
    assert float(row["auto / stack"]) == pytest.approx(np.sqrt(loss.mean()) / 0.5, abs=1e-3)
    assert row["best single"] == "0.6" and set(row) == set(script.COLUMNS)
    more = np.sqrt(loss.mean()) - np.sqrt(other.mean())
    assert float(row["auto - instance-kme"].split()[0]) == pytest.approx(more, abs=1e-4)


def test_a_row_of_costs(script, monkeypatch):
    """Both are timed on the same bags, and scored on others."""
    monkeypatch.setattr(script.bw, "method", lambda name: bw.auto.AutoRegressor(["aggregated"], folds=3))
    monkeypatch.setattr(script, "TREES", 20)
    train, test = (bw.datasets.make_problem("mean", n, random_state=n) for n in (40, 60))
    row = script.cost_row(train, test)
    model = bw.auto.AutoRegressor(["aggregated"], folds=3).fit(*train)
    assert row["auto"] == pytest.approx(np.sqrt(np.mean((model.predict(test[0]) - test[1]) ** 2)))
    assert row["ratio"] == pytest.approx(row["auto, CPU s"] / row["forest, CPU s"])
