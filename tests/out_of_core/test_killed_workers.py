"""A worker process that is killed in the middle of a pass changes nothing, to the last bit.

Slow: every test needs processes of its own. That a job is done again is in tests/execution/test_joblib_backend.py.
"""

import os

import pytest
from tests.helpers.cut_tables import cut, scanned, small
from tests.helpers.dying import Deadly

import bagwise as bw
from bagwise.execution import Serial
from bagwise.out_of_core import fit_scan, predict_scan, shards

BAGS = ["_survey", "form", "_whole_bags"]
RIDGE = ["_row_sums", "_left_out"]
SCORES = ["_fold_row_sums", "_held_out_score"]
FOLDS = ["deal", "_weigh", "_fold_sums", "_chunk_predictions", "_candidate_errors", "_keep_chosen"]
PASSES = {
    "instance-kme:ridge": [*BAGS, *FOLDS, "_sum_polynomials", "_gather_means", *RIDGE],
    "statistics:moments": [*BAGS, "_first", "_keep_first", "_second", "_keep_statistics", *RIDGE],
    "blr:rows": [*BAGS, "_target_sums", "deal", "_weigh_landmarks", "_sum_landmarks", "_gather_landmarks", *SCORES],
    "input-kme:fourier": [*BAGS, "_sum_features", "_gather_means", *RIDGE],
    "aggregated": [*BAGS, "_scale_means", *RIDGE],
}
CASES = [(name, one) for name, passes in PASSES.items() for one in passes]  # sums of a worker go with it


@pytest.fixture(autouse=True)
def many_shards(monkeypatch):
    monkeypatch.setattr(shards, "SHARD_BAGS", 30)


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
    ("name", "deadly"), [("instance-kme:ridge", "_alone"), ("statistics:moments", "_second"), ("aggregated", "_alone")]
)
def test_the_predictions_are_the_same(name, deadly, client, source, tmp_path):
    model = fit_scan(source, small(name), executor=Serial())
    expected = predict_scan(model, source, executor=Serial())
    found = predict_scan(model, source, executor=Deadly(client, deadly, tmp_path / "killed"))
    assert (tmp_path / "killed").exists()
    assert found.ids.tolist() == expected.ids.tolist() and (found.values == expected.values).all()
