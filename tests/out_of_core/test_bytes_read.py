"""Files, row groups and columns that are not asked for are not read."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_bytes_read_follow_what_is_asked_for(tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = importlib.import_module("bytes_read")
    benchmark.write(tmp_path, 200_000)
    read = {name: fit for name, (_, _, fit) in benchmark.measure(tmp_path).items()}
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    whole, year, month, quarter, few, both = read.values()
    assert 0.9 * size < whole < 1.2 * size
    assert abs(year / whole - 1 / 2) < 0.01 and abs(month / whole - 1 / 8) < 0.01  # nothing of other folders
    assert quarter < 0.4 * whole  # two row groups of eight, and footers
    assert few < 0.5 * whole and abs(both / few - 1 / 8) < 0.01
