"""benchmarks/compare.py runs, and its table holds ours and others'."""

import runpy
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compare.py"


def test_one_method_on_one_set(tmp_path, monkeypatch):
    out = tmp_path / "comparison.md"
    options = ["--data", "gaussian-linear", "--method", "aggregated", "--out", out, "--runs", tmp_path / "runs"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, options)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    text = out.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| **aggregated**"))
    assert 2.5 < float(row.split("|")[2].split("±")[0]) < 3.6  # 1000 x MSE; the noise alone is 2.5
    assert "1,100 bags, 22,000 instances" in text and "scikit-learn" in text


def test_peers_stand_beside_ours():
    made = runpy.run_path(str(SCRIPT))
    assert made["peers"]("mhc2-H-2-IAb")["stack of six (measured)"] == 0.168
    assert made["peers"]("law-s5-25")["Bayes-optimal"] == 0.350
    assert all(len(row) == len(made["COLUMNS"]) for row in made["MEASURED"].values())
