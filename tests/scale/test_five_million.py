"""Five million instances, streamed and by workers that may not hold them: one model, one answer."""

import importlib
from pathlib import Path

import numpy as np
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


def test_the_same_size_gives_the_same_bytes_and_bags_are_cut_between_files(scale_data, tmp_path):
    one, two = (scale_data.write(tmp_path / name, 2000) for name in ("one", "two"))
    paths = sorted(path.relative_to(one) for path in one.rglob("*.parquet"))
    assert len(paths) == 4 and all((one / path).read_bytes() == (two / path).read_bytes() for path in paths)
    ids = [set(chunk.table(["bag"])["bag"].to_pylist()) for chunk in bw.scan(one, bag="bag", target="y").chunks]
    assert all(left & right for left, right in zip(ids, ids[1:], strict=False))
    written = {path: path.stat().st_mtime_ns for path in one.rglob("*")}
    assert scale_data.write(one, 2000) == one  # it is there
    assert {path: path.stat().st_mtime_ns for path in one.rglob("*")} == written


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
        spread = fit_scan(scan, "instance-kme:ridge", executor=Dask(client))
        there = predict_scan(spread, scan, executor=Dask(client))
        assert client.run(lambda: __import__("os").getpid()) == pids  # none had to be started again for its memory
    bags, y = scale_data.fresh(100_000)
    assert (spread.predict(bags) == streamed.predict(bags)).all() and r2_score(y, spread.predict(bags)) > 0.8
    assert (here.values == there.values).all() and here.sizes.sum() == 5_000_000
