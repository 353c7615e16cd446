"""`--scheduler`: the workers of a cluster do the work of a verb, and it says the same."""

import json

import numpy as np
import pytest
from tests.helpers.typed import refused, run, sample_frame

import bagwise as bw

distributed = pytest.importorskip("distributed")
COLUMNS = ("--bag", "site", "--target", "aod", "--quiet", "--json")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    sample_frame(30).to_csv(path := tmp_path_factory.mktemp("table") / "aod.csv", index=False)
    return path


def said(client, *arguments) -> list[dict]:
    """What a verb prints without and with the scheduler; with it, workers have done something."""
    here, there = (arguments[1].parent / f"{arguments[0]} {place}" for place in ("here", "there"))
    before = run(*arguments, "--out", here, "--n-jobs", 1)
    with distributed.get_task_stream(client) as stream:
        after = run(*arguments, "--out", there, "--scheduler", client.scheduler_info()["address"])
    assert before.exit_code == after.exit_code == 0, (before.output, after.output)
    # the cells of an evaluation, or the tasks of joblib
    assert any(task["key"].startswith(("run_cell", "_run_calls")) for task in stream.data)
    return [json.loads(result.stdout) for result in (before, after)]


def test_fit(client, table):
    here, there = said(client, "fit", table, *COLUMNS, "--method", "aggregated")
    assert here["held_out"] == there["held_out"] and here["paragraph"] == there["paragraph"]
    bags, _ = bw.load(table, bag="site", target="aod")
    predicted = [bw.load_model(table.parent / f"fit {place}").predict_interval(bags) for place in ("here", "there")]
    np.testing.assert_array_equal(*predicted)


def test_evaluate(client, table):
    here, there = said(client, "evaluate", table, *COLUMNS, "--method", "aggregated", "--repeats", 1)
    assert here["summary"][0]["rmse"] == there["summary"][0]["rmse"] and here["failures"] == there["failures"] == []


@pytest.mark.parametrize("verb", [("fit",), ("evaluate", "--out", "runs")])
def test_a_scheduler_that_is_not_there_is_told_in_one_line_before_any_work(table, tmp_path, monkeypatch, verb):
    monkeypatch.setattr("bagwise.execution.dask_cluster.CONNECT_TIMEOUT", 0.5)
    monkeypatch.chdir(tmp_path)
    command = [*verb, table, "--bag", "site", "--target", "aod", "--method", "aggregated"]
    result = run(*command, "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1 and not list(tmp_path.iterdir())
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in " ".join(result.stderr.split())
    refused(*command, "--scheduler", "here", words="'here' is not the address of a Dask scheduler")
