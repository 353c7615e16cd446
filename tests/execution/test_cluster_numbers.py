"""Inside `cluster` the workers do the work, and every number is the one found without."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

import bagwise as bw
from bagwise.auto import AutoRegressor, cross_validation
from bagwise.auto.cross_validation import CrossValidation
from bagwise.auto.members import members_of
from bagwise.auto.time_budget import TimeBudget
from bagwise.bags.folds import Folds
from bagwise.execution import Dask, Processes, Serial, cluster, executor_for
from bagwise.instances import NetworkRegressor
from bagwise.testing.contract_checks import sample

distributed = pytest.importorskip("distributed")
BAGS, Y = bw.datasets.make_gaussian(90, instances=120)  # large enough to travel by themselves


@pytest.fixture
def client(processes):
    return processes


def kme():
    network = NetworkRegressor((8,), epochs=(2, 4))
    return bw.method("instance-kme:single").set_params(instances__regressor=network, instances__folds=6)


def auto():
    return AutoRegressor(["aggregated", "statistics:linear"], folds=3, time_budget=None)


def on_the_cluster(client, function):
    """What the function gives inside `cluster`, and how many tasks of which name the workers did."""
    with cluster(client), distributed.get_task_stream(client) as stream:
        found = function()
    return found, Counter(task["key"].split("-")[0] for task in stream.data)


def test_networks(client):
    """Each is a task, and the data travels once."""
    found, tasks = on_the_cluster(client, lambda: kme().fit(BAGS, Y).predict(BAGS))
    np.testing.assert_array_equal(found, kme().fit(BAGS, Y).predict(BAGS))
    assert tasks == {"_shared_data": 1, "_run_calls": 6}


def test_the_members_of_auto(client):
    """The training bags of each of three folds travel for each of two members."""
    here = auto().fit(BAGS, Y)
    there, tasks = on_the_cluster(client, lambda: auto().fit(BAGS, Y))
    assert there.weights_ == here.weights_ and there.scores_ == here.scores_ and len(here.models_) == 1
    np.testing.assert_array_equal(there.held_out_, here.held_out_)
    np.testing.assert_array_equal(there.predict_folds(BAGS), here.predict_folds(BAGS))
    np.testing.assert_array_equal(there.predict(BAGS), here.predict(BAGS))
    assert tasks == {"_shared_data": 3 * 2, "_run_calls": 14}


@pytest.mark.parametrize(("kind", "jobs"), [("cv+", 6 + 3), ("split", 6 + 5)])
def test_intervals(client, kind, jobs):
    """The networks of the whole fit, and a fit per fold."""

    def bounds():
        return bw.Intervals(kme(), kind=kind, folds=3).fit(BAGS, Y).predict_interval(BAGS)

    found, tasks = on_the_cluster(client, bounds)
    np.testing.assert_array_equal(found, bounds())
    assert tasks["_run_calls"] == jobs and tasks["_shared_data"] <= 2


def test_auto_knows_how_many_work_when_it_guesses_how_long_a_member_takes(client, monkeypatch):
    seconds = count()
    monkeypatch.setattr(cross_validation, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    [_, member] = members_of(["input-kme"])  # one that is not always tried

    def guess(n_jobs):  # a fit to some bags takes a second, from one look at the clock to the next
        splits = [Folds(np.arange(90) % 6)]
        return CrossValidation(BAGS, Y, splits, n_jobs=n_jobs, budget=TimeBudget(10)).too_long(member, 0.0)

    # 75/16 s for a fit: six without a fold, one after another or by two at a time, and one to all bags, 5/4 of that
    assert "about 34 s" in guess(None)
    with cluster(client):
        assert "about 20 s" in guess(None) and "about 34 s" in guess(1)


def test_cells_of_an_evaluation(client):
    bags, y = sample(40)
    there, tasks = on_the_cluster(client, lambda: bw.evaluate(bags, y, ["aggregated"], repeats=2))
    here = bw.evaluate(bags, y, ["aggregated"], repeats=2)
    np.testing.assert_array_equal(there.values("aggregated"), here.values("aggregated"))
    assert tasks == {"_shared_data": 1, "run_cell": 10}
    by_address = Dask(client.scheduler_info()["address"])
    again = bw.evaluate(bags, y, ["aggregated"], repeats=2, executor=by_address)
    np.testing.assert_array_equal(again.values("aggregated"), here.values("aggregated"))


def test_who_runs_cells_when_nobody_is_named(client):
    with cluster(client):
        assert executor_for(None).client is executor_for(-1).client is client
        assert isinstance(executor_for(None), Dask) and isinstance(executor_for(1), Serial)
    assert isinstance(executor_for(None), Serial) and isinstance(executor_for(2), Processes)


def test_a_search_of_scikit_learn(client):
    from sklearn.model_selection import GridSearchCV

    def search():
        found = GridSearchCV(bw.method("aggregated"), {"head__head__penalties": [(0.1,), (1.0,)]}, cv=3).fit(BAGS, Y)
        return found.cv_results_["mean_test_score"]

    found, tasks = on_the_cluster(client, search)
    np.testing.assert_array_equal(found, search())
    assert tasks["_run_calls"] == 6


def test_a_client_that_was_opened_is_closed(client):
    with cluster(client.scheduler_info()["address"]) as opened, cluster(client) as same:
        assert same is client and opened is not client and opened.status == "running"
    assert opened.status == "closed" and client.status == "running"


def test_processes_of_this_machine_end_with_the_context():
    with cluster(n_workers=1) as opened:
        ((worker, threads),) = opened.nthreads().items()
        (pid,) = opened.run(os.getpid).values()
        assert threads == 1 and pid != os.getpid()
    assert opened.status == "closed"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(client):
    """Processes are killed again and again while networks, auto and an evaluation are at it."""
    stop = threading.Event()

    def kill():
        while not stop.wait(4):  # a worker takes about as long to start
            for pid in list(client.run(os.getpid, on_error="ignore").values())[:1]:
                with suppress(ProcessLookupError):  # gone before we came
                    os.kill(pid, 9)

    big, targets = bw.datasets.make_gaussian(150, instances=300)
    fits = {
        "networks": lambda: bw.method("instance-kme").fit(big, targets).predict(big),
        "auto": lambda: auto().fit(big, targets).predict(big),
        "evaluate": lambda: bw.evaluate(big, targets, [("kme", kme())], repeats=3).values("kme"),
    }
    killer = threading.Thread(target=kill)
    with cluster(client):
        killer.start()
        try:
            found = {name: fit() for name, fit in fits.items()}
        finally:
            stop.set()
            killer.join()
    for name, fit in fits.items():
        np.testing.assert_array_equal(found[name], fit(), err_msg=name)


@pytest.mark.slow
def test_a_script_without_a_door_is_told(tmp_path):
    """Workers import the script; where starting them is not behind ``__main__`` they would start workers."""
    (tmp_path / "script.py").write_text("import bagwise as bw\nwith bw.cluster(n_workers=1):\n    pass\n")
    started = time.perf_counter()
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "must start them below `if __name__ == '__main__':`" in done.stderr
    assert time.perf_counter() - started < 60
