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


def test_the_standard_error_of_a_root_and_of_a_mean(script):
    loss = np.random.default_rng(0).exponential(size=10_000)
    root = script.compare.Problem("toy", "RMSE", None, None)
    plain = script.compare.Problem("toy", "MSE", None, None)
    parts = loss.reshape(100, 100).mean(axis=1)
    assert script.standard_error(plain, loss, 1.0) == pytest.approx(parts.std() / 10, rel=0.3)
    assert script.standard_error(root, loss, loss.mean()) == pytest.approx(np.sqrt(parts).std() / 10, rel=0.3)


def test_the_four_kinds_come_first_and_the_largest_table_last(script):
    names = list(script.problems(1))
    assert names[:4] == ["noisy", "mean", "shape", "prime"] and "gaussian-linear" not in names
    assert names[-1].startswith(("law", "mhc2-D"))


def test_the_statistics_of_the_forest(script):
    bags = bw.from_arrays([np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])])
    deviation = np.sqrt(np.mean((np.array([1.0, 3.0, 8.0]) - 4.0) ** 2))
    np.testing.assert_allclose(script.statistics(bags), [[4.0, 5.0, deviation, 0.0, 1.0, 5.0, 8.0, 5.0, 3.0, 5.0]])


def test_a_row_of_costs(script, monkeypatch):
    """Both are timed on the same bags, and scored on others."""
    monkeypatch.setattr(script.bw, "method", lambda name: bw.auto.AutoRegressor(["aggregated"], folds=3))
    monkeypatch.setattr(script, "TREES", 20)
    train, test = (bw.datasets.make_problem("mean", n, random_state=n) for n in (40, 60))
    row = script.cost_row(train, test)
    model = bw.auto.AutoRegressor(["aggregated"], folds=3).fit(*train)
    assert row["auto"] == pytest.approx(np.sqrt(np.mean((model.predict(test[0]) - test[1]) ** 2)))
    assert row["ratio"] == pytest.approx(row["auto, CPU s"] / row["forest, CPU s"])


def test_the_bags_of_a_cost(script, monkeypatch):
    train, test = script.bags_of("mean", 1)
    assert len(train[0]) == len(train[1]) == 200 and len(test[0]) == 1000
    bags, y = bw.datasets.make_problem("mean", 30)
    split = np.where(np.arange(30) % 3 == 0, "test", "train")
    known = {"own": script.compare.Problem("own", "RMSE", lambda draw: (bags, y, {"split": split}), None)}
    known["folded"] = script.compare.Problem("folded", "RMSE", lambda draw: (bags, y, {"fold": split}), None)
    monkeypatch.setattr(script.compare, "problems", lambda: known)
    (some, targets), (others, _) = script.bags_of("own", 0)
    assert some.ids.tolist() == bags.ids[split == "train"].tolist() and len(others) == 10
    np.testing.assert_array_equal(targets, y[split == "train"])
    with pytest.raises(SystemExit, match="folded has folds and no split"):
        script.bags_of("folded", 0)
