"""A worker process that is killed in the middle of a pass changes nothing, to the last bit.

Slow: every test needs processes of its own. That a job is done again is in tests/execution/test_joblib_backend.py.
"""

import os

import pytest
from tests.helpers.cut_tables import cut, scanned, small
from tests.helpers.dying import Deadly

import bagwise as bw
from bagwise.execution import Serial
from bagwise.out_of_core import fit_scan, predict_scan

PASSES = {
    "instance-kme:ridge": ["_look", "_fold_sums", "_chunk_predictions", "_sum_polynomials"],
    "statistics:moments": ["_look", "_first", "_second"],
    "blr:rows": ["_look", "_sum_landmarks"],
    "input-kme:fourier": ["_look", "sum_features"],
    "aggregated": ["_look"],
}
CASES = [(name, one) for name, passes in PASSES.items() for one in passes]  # sums of a worker go with it


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
@pytest.mark.parametrize(("name", "deadly"), CASES)
def test_the_fit_is_the_same(name, deadly, client, source, table, tmp_path):
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    expected = fit_scan(source, small(name), executor=Serial()).predict(bags)
    executor, processes = Deadly(client, deadly, tmp_path / "killed"), set(client.run(os.getpid).values())
    model = fit_scan(source, small(name), executor=executor)
    assert list(dict.fromkeys(executor.passes)) == PASSES[name]
    assert processes - set(client.run(os.getpid).values())  # one is gone
    assert (model.predict(bags) == expected).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "deadly"), [("instance-kme:ridge", "_alone"), ("statistics:moments", "_count"), ("aggregated", "_alone")]
)
def test_the_predictions_are_the_same(name, deadly, client, source, tmp_path):
    model = fit_scan(source, small(name), executor=Serial())
    expected = predict_scan(model, source, executor=Serial())
    found = predict_scan(model, source, executor=Deadly(client, deadly, tmp_path / "killed"))
    assert (tmp_path / "killed").exists()
    assert found.ids.tolist() == expected.ids.tolist() and (found.values == expected.values).all()
