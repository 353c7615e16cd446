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
    assert len(rows) == 9 and all(row["agrees"] and row["ours"] > 0 for row in rows)


@pytest.mark.slow
def test_folds_of_fields_are_too_good(tmp_path):
    """By more than the standard error of few simulations, in space and in time."""
    command = [sys.executable, ROOT / "benchmarks" / "groups.py", "--repeats", "6", "--json", tmp_path / "groups.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for columns in json.loads((tmp_path / "groups.json").read_text()).values():
        fields, groups, new = (sum(one) / len(one) for one in columns.values())
        assert fields - new > 0.1 and abs(groups - new) < fields - new
