"""benchmarks/compare.py runs, and its table holds ours and others'."""

import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compare.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished cells of one method on one set."""
    place = tmp_path_factory.mktemp("compare")
    options = ["--data", "gaussian-linear", "--method", "aggregated", "--runs", place / "runs"]
    with pytest.MonkeyPatch.context() as patch:
        typed(patch, *options, "--out", place / "comparison.md")
    return place / "runs"


def typed(patch, *options):
    patch.setattr(sys, "argv", [str(SCRIPT), *map(str, options)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def cells(text, method):
    line = next(line for line in text.splitlines() if line.startswith(f"| **{method}**"))
    return [part.strip() for part in line.split("|")[2:-1]]


def test_one_method_on_one_set(runs):
    text = (runs.parent / "comparison.md").read_text()
    (value,) = cells(text, "aggregated")
    assert 2.5 < float(value.split("±")[0]) < 3.6  # 1000 x MSE; the noise alone is 2.5
    assert "1,100 bags, 22,000 instances" in text and "scikit-learn" in text and "Still to be run" not in text


def test_what_is_finished_is_shown_and_the_rest_named(runs, monkeypatch, tmp_path):
    """Nothing is run: the folder stays as it is, and the numbers are those of the run."""
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    options = ["--finished", "--runs", runs, "--out", tmp_path / "table.md"]
    sets = ["--data", "gaussian-linear", "--data", "gaussian-nonlinear"]
    typed(monkeypatch, *options, *sets, "--method", "aggregated", "--method", "em")
    text = (tmp_path / "table.md").read_text()
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before
    assert cells(text, "aggregated") == [*cells((runs.parent / "comparison.md").read_text(), "aggregated"), ""]
    assert cells(text, "em") == ["", ""]
    assert "\nStill to be run: gaussian-linear (em); gaussian-nonlinear.\n" in text
