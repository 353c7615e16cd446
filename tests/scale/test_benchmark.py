"""The benchmark of tables larger than memory, and five million instances by workers that may not hold them."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import r2_score

import bagwise as bw
from bagwise.execution import Dask, Processes
from bagwise.scale import fit_scan, predict_scan

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def scale_data(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("scale_data")


@pytest.mark.parametrize("order", ["random", "files", "sorted"])
def test_the_same_options_give_the_same_bytes(scale_data, order, tmp_path):
    first, second = (scale_data.write(tmp_path / name, 2000, order=order) for name in ("first", "second"))
    paths = sorted(path.relative_to(first) for path in first.rglob("*.parquet"))
    assert len(paths) == 4 and all((first / path).read_bytes() == (second / path).read_bytes() for path in paths)
    ids = [pq.read_table(first / path)["bag"].to_numpy() for path in paths]
    assert (np.diff(np.concatenate(ids)) >= 0).all() == (order == "sorted")
    shared = [len(set(one) & set(other)) for one, other in zip(ids, ids[1:], strict=False)]
    assert all(n > 5 for n in shared) if order == "random" else all(n == 1 for n in shared)
    written = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert scale_data.write(first, 2000, order=order) == first  # it is there
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == written


@pytest.mark.slow
def test_the_benchmark_runs(tmp_path):
    pytest.importorskip("distributed")
    command = [sys.executable, BENCHMARKS / "scale.py", "--millions", "0.02", "--engine", "one", "stream", "dask"]
    command += ["--method", "aggregated", "--data", tmp_path / "data", "--json", tmp_path / "scale.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "scale.json").read_text())
    assert len(rows) == 6 and all(row["fit, CPU s"] > 0 and row["driver, MB"] > 100 for row in rows)
    for order in ("random", "sorted"):
        assert np.ptp([row["R²"] for row in rows if row["order"] == order]) < 1e-9


@pytest.mark.slow
def test_five_million_instances(scale_data, tmp_path):
    distributed = pytest.importorskip("distributed")
    scan = bw.scan(scale_data.write(tmp_path, 5_000_000), bag="bag", target="y", chunk_rows=500_000)
    assert (scan.n_rows, len(scan.chunks), scan.dtype) == (5_000_000, 10, np.float32)
    streamed = fit_scan(scan, "instance-kme:ridge", executor=Processes(2))
    here = predict_scan(streamed, scan, executor=Processes(2))
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "900MB", "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        pids = client.run(lambda: __import__("os").getpid())
        on_cluster = fit_scan(scan, "instance-kme:ridge", executor=Dask(client))
        there = predict_scan(on_cluster, scan, executor=Dask(client))
        assert client.run(lambda: __import__("os").getpid()) == pids  # none had to be started again for its memory
    bags, y = scale_data.fresh(100_000)
    assert (on_cluster.predict(bags) == streamed.predict(bags)).all()
    assert r2_score(y, on_cluster.predict(bags)) > 0.8
    assert (here.values == there.values).all() and here.sizes.sum() == 5_000_000
