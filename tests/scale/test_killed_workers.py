"""A worker process that is killed in the middle of a pass changes nothing.

Slow: every test needs processes of its own. That a job is done again is in tests/execution/test_joblib_backend.py.
"""

import os

import pytest
from numpy.testing import assert_array_equal
from tests.helpers.cut_tables import cut, scanned, small
from tests.helpers.dying import Deadly

import bagwise as bw
from bagwise.execution import Serial
from bagwise.scale import fit_scan, predict_scan

FOLDS = ["bag-hashes", "partition", "load", "columns", "sample", "fold-sums", "predictions", "offset", "polynomials"]
PASSES = {
    "instance-kme:ridge": FOLDS,
    "statistics:moments": ["statistics"],
    "blr:rows": ["landmarks"],
    "input-kme:fourier": ["rows"],
}


@pytest.fixture
def client():
    """Of two processes, new ones for every test."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def source(table, tmp_path_factory):
    found = scanned(cut(table, tmp_path_factory.mktemp("cut"), 1), chunk_rows=100)
    assert len(found.chunks) > 6  # the worker dies at the fourth
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "deadly"), [(name, one) for name, passes in PASSES.items() for one in passes])
def test_the_fit_is_the_same(name, deadly, client, source, table, tmp_path):
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    expected = fit_scan(source, small(name), executor=Serial()).predict(bags)
    executor, processes = Deadly(client, deadly, tmp_path / "killed"), set(client.run(os.getpid).values())
    model = fit_scan(source, small(name), executor=executor)
    assert processes - set(client.run(os.getpid).values())  # one is gone
    assert_array_equal(model.predict(bags), expected)


@pytest.mark.slow
@pytest.mark.parametrize("deadly", ["partition", "predict"])
def test_the_predictions_are_the_same(deadly, client, source, tmp_path):
    model = fit_scan(source, small("aggregated"), executor=Serial())
    expected = predict_scan(model, source, executor=Serial())
    found = predict_scan(model, source, executor=Deadly(client, deadly, tmp_path / "killed"))
    assert (tmp_path / "killed").exists()
    assert found.ids.tolist() == expected.ids.tolist() and (found.values == expected.values).all()
