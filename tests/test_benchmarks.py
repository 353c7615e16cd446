"""The speed table runs, and what it compares agrees. No seconds are asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
