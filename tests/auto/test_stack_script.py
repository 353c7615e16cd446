"""The stack that auto is timed against learns what its members can learn, and its row holds what it says."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import bagwise as bw

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "stack.py"


@pytest.mark.slow
@pytest.mark.torch
def test_the_row_of_a_problem(monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmark_stack", PATH)
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "TREES", 20)
    monkeypatch.setattr(script.bw, "method", lambda name, metric: bw.auto.AutoRegressor(["aggregated"], metric=metric))
    bags, y = bw.datasets.make_problem("mean", 120)
    split = np.where(np.arange(120) < 80, "train", "test")
    problem = script.compare.Problem("toy", "RMSE", lambda draw: (bags, y, {"split": split}), None)
    row = script.row(problem, ["stack", "auto"], Console(quiet=True))
    assert set(row) == set(script.COLUMNS) and row["bags"] == "80"
    test = split == "test"
    spread = np.sqrt(np.mean((y[test] - y[~test].mean()) ** 2))
    assert float(row["stack"]) < 0.5 * spread and float(row["auto"]) < 0.5 * spread
    difference = float(row["auto"]) - float(row["stack"])
    assert float(row["auto - stack"].split()[0]) == pytest.approx(difference, abs=0.05 * abs(difference) + 0.001)
