"""The benchmark of large fits runs on small ones, and its table on paper is plain arithmetic."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(seconds, **others):
    return {"seconds": seconds, "sent": 1e6, "received": 3e6} | others


def measured(n, **others):
    passes = {"look": run(10.0), "fold_sums": run(30.0, received=22e6), "alone": run(5.0)}
    found = {"instances": n, "bags": n // 100, "engine": "dask", "method": "instance-kme:ridge", "passes": passes}
    return found | {"fit": 42.0, "predict": 5.0, "workers_mb": [400.0, 390.0], "folder_mb": n * 68 / 1e6} | others


def test_larger_data_is_the_measured_rates_times_their_number(monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    paper = importlib.import_module("scale_paper")
    rows = [measured(10**6, driver_mb=320.0), measured(10**7, driver_mb=500.0)]
    paper.on_paper({"machine": {"workers": 2, "chunk_rows": 500_000}, "rows": rows})
    lines = capsys.readouterr().out.splitlines()
    told = {
        cells[1]: cells[2:-1] for cells in ([cell.strip() for cell in line.split("|")] for line in lines) if cells[2:]
    }
    # 2 cores x 40 s for 1e7 instances are 8 µs each; 1e9 on 2 cores: 4,000 s
    assert told["passes of a fit"] == ["N x 8.0 µs / (2 M)", "67 min", "40 s", "6.7 min"]
    # 2 s for 1e5 bags; 1e9 instances are 1e7 bags
    assert told["the driver, between passes"][1:] == ["3.3 min", "3.3 min", "33 min"]
    # 180 MB more for 90,000 bags more: 2,000 bytes a bag, on 300 MB
    assert told["memory of the driver"] == ["300 MB + B x 2,000 bytes", "20 GB", "20 GB", "200 GB"]
    # 22 MB for every doubling: 100 times the instances are 6.6, 1,000 times 10
    assert told["memory of a worker"] == ["400 MB + 22 MB x log2(N / 1e7)", "546 MB", "546 MB", "619 MB"]
    # 4 MB + 23 MB for 1e7
    assert told["network of the driver, a fit"] == ["N x 2.7 bytes", "2.7 GB", "2.7 GB", "27 GB"]
    assert told["files read in a pass, a machine"][1:] == ["68 GB", "680 MB", "6.8 GB"]


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path):
    pytest.importorskip("distributed")
    script, out = BENCHMARKS / "scale.py", tmp_path / "scale.json"
    for options in (["--sizes", "0.02", "0.04", "--data", tmp_path / "data", "--json", out], ["--paper", out]):
        done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "passes of a fit" in done.stdout
    found = json.loads(out.read_text())
    assert max(found["agreement"].values()) < 1e-9
    assert [row["instances"] for row in found["rows"]] == [20_000, 20_000, 40_000, 40_000, *[20_000] * 5]
    assert all(row["same"] for row in found["rows"] if row["engine"] == "dask")
    assert all(row["r2"] > 0.5 and 100 < row["workers_mb"][0] < 900 for row in found["rows"])
