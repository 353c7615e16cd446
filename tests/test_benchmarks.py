"""Benchmarks run, and what they compare agrees. No seconds are asserted."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def league(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("league")


def test_a_cell_of_the_league_holds_the_errors_on_new_bags(league):
    cell = league.run_cell(None, "mean", 0, "forest on bag means")
    assert len(cell["errors"]) == 500 and cell["bags"] == 200 and cell["cpu"] > 0
    assert np.sqrt(np.mean(np.square(cell["errors"]))) < cell["spread"]
    assert "unknown" in league.run_cell(None, "mean", 0, "unknown")["error"]


def test_the_cells_of_the_league_are_in_complete_rows_and_slow_ones_last(league):
    cells = league.order(["a", "b"], ["auto", "AutoGluon best"], 3)
    assert cells[:4] == [(name, 0, method) for name in "ab" for method in ("auto", "AutoGluon best")]
    assert cells[-2:] == [("a", 2, "AutoGluon best"), ("b", 2, "AutoGluon best")] and len(cells) == 12


def test_the_page_of_the_league_says_where_auto_is_not_ahead(league, tmp_path, monkeypatch):
    monkeypatch.setattr(league, "PAGE", tmp_path / "league.md")
    monkeypatch.setattr(league, "PICTURE", tmp_path / "league.png")
    monkeypatch.setattr(league, "RESAMPLES", 100)
    scale = {"SMILES": {"auto": 1, "DeepSets": 2}, "mean": {"auto": 1, "DeepSets": 0.5}}
    errors, lines = np.random.default_rng(0).normal(size=40), ['{"cut']
    for name, row in scale.items():
        for method, factor in row.items():
            cell = {"problem": name, "method": method, "cpu": 1.0, "errors": [*(factor * errors)]}
            lines += [json.dumps(cell | {"split": split}) for split in range(2)]
    failed = {"problem": "mean", "method": "DeepSets", "split": 1, "error": "ValueError: too few bags"}
    beyond = {"problem": "mean", "method": "DeepSets", "split": 2, "errors": [9.0] * 40}
    lines += [json.dumps(failed), json.dumps(beyond)]
    (tmp_path / "cells.jsonl").write_text("\n".join(lines))
    league.write_page(tmp_path / "cells.jsonl", 2)
    page = (tmp_path / "league.md").read_text(encoding="utf-8")
    assert "| DeepSets | 1.00 (0.50 to 2.00) | 2.00 | 0.50 | 1.5 (1.0 to 2.0) | 1 | 1 | 1 |" in page
    assert "- mean: DeepSets -50.0 % (beyond noise)." in page and "- SMILES:" not in page
    assert "auto on split" not in page and "input-kme on split 1 of mean" in page
    assert (tmp_path / "league.png").exists()


def test_the_picture_of_methods_sorts_rows_by_their_typical_error(league):
    which = import_module("which_method")
    assert set(which.OUTSIDE) <= set(league.METHODS)
    errors = {
        "poor": dict.fromkeys(which.SIMULATIONS, [4.0, 2.0]),
        "good": dict.fromkeys(which.SIMULATIONS, [1.0, 1.0]),
    }
    methods, table = which.relative(errors)
    assert methods == ["good", "poor"] and (table == [[1.0] * 8, [3.0] * 8]).all()


@pytest.mark.slow
def test_the_quick_speed_table(tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / "speed.py", "--quick", "--json", tmp_path / "speed.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert len(rows) == 10 and all(row["agrees"] and row["ours"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.torch
def test_the_quick_table_of_instance_maps():
    command = [sys.executable, "-W", "ignore", ROOT / "benchmarks" / "instance_maps.py", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
    assert len({row[0] for row in rows}) == 5 and {len(row) for row in rows} == {8}
    fitted = {row[1]: float(row[3]) for row in rows if row[0] == "surface, 50 bags" and row[2] == "those fitted"}
    assert min(fitted, key=fitted.get) == "aggregate-gp"


@pytest.mark.slow
def test_folds_of_fields_are_too_good(tmp_path):
    """By more than the standard error of few simulations, in space and in time."""
    command = [sys.executable, ROOT / "benchmarks" / "groups.py", "--repeats", "6", "--json", tmp_path / "groups.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for columns in json.loads((tmp_path / "groups.json").read_text()).values():
        fields, groups, new = (sum(one) / len(one) for one in columns.values())
        assert fields - new > 0.1 and abs(groups - new) < fields - new
