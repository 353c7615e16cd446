"""Who runs the cells does not matter: the same numbers in this process, in others and on a cluster."""

import subprocess
import sys

import numpy as np
import pytest
from tests.helpers.toy_estimators import Failing
from threadpoolctl import threadpool_info

from bagwise.evaluation import evaluate
from bagwise.execution import Dask, Processes, Serial
from bagwise.execution.resources import one_thread
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(40)
METHODS = ["aggregated", ("fails", Failing(needs=7))]


@pytest.fixture(scope="module")
def serial():
    return evaluate(BAGS, Y, METHODS, repeats=2)


def same(results, serial):
    np.testing.assert_array_equal(results.values("aggregated"), serial.values("aggregated"))
    np.testing.assert_array_equal(results.values("fails"), serial.values("fails"))
    assert sorted(results.failures) == sorted(serial.failures) and len(results.failures) == 2


def test_processes_give_the_same_numbers(serial):
    same(evaluate(BAGS, Y, METHODS, repeats=2, n_jobs=2), serial)


@pytest.mark.slow
def test_a_method_that_dies_is_recorded(serial):
    methods = [*METHODS, ("dies", Failing(needs=7, how="die"))]
    results = evaluate(BAGS, Y, methods, repeats=2, n_jobs=2)
    died = [failure for failure in results.failures if failure[0] == "dies"]
    results.failures = [failure for failure in results.failures if failure[0] != "dies"]
    same(results, serial)
    assert [failure[1] for failure in sorted(died)] == [0, 1]  # the one fold of each repeat that has no bag 7
    assert all(error.startswith("its worker process died twice") for *_, error in died)
    assert list(results.summary()["cells"]) == [10, 8, 8]


def test_a_dask_cluster_gives_the_same_numbers(serial):
    distributed = pytest.importorskip("distributed")
    local = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with distributed.Client(**local) as client:
        same(evaluate(BAGS, Y, METHODS, repeats=2, executor=Dask(client)), serial)
        address = client.scheduler.address
        if address.startswith("tcp"):
            same(evaluate(BAGS, Y, METHODS, repeats=2, executor=Dask(address)), serial)


@pytest.mark.slow
def test_a_cluster_of_processes_survives_a_death(serial):
    distributed = pytest.importorskip("distributed")
    methods = ["aggregated", ("dies", Failing(needs=7, how="die"))]
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.Client(**options) as client:
        client.run(sys.path.extend, sys.path)  # where the toys live
        results = evaluate(BAGS, Y, methods, repeats=1, executor=Dask(client))
    ((method, *_, error),) = results.failures
    assert method == "dies" and "the cluster gave the task up" in error
    np.testing.assert_array_equal(results.values("aggregated"), serial.values("aggregated")[:5])


def test_dask_is_named_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"cluster needs Dask.*pip install 'bagwise\[dask\]'"):
        evaluate(BAGS, Y, "aggregated", repeats=1, executor=Dask("tcp://nowhere:1"))


@pytest.mark.parametrize("executor", [Serial(), Processes(1)])
def test_tasks_are_taken_only_when_there_is_room(executor):
    taken = []

    def tasks():
        for task in range(6):
            taken.append(task)
            yield task

    for task, result in executor.run(pow, tasks(), (2,)):
        assert result == task**2 and len(taken) <= task + 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can reset the peak memory")
def test_memory_and_seconds_are_those_of_the_block():
    """In a process of its own, because memory that an earlier test freed would be taken again."""
    code = """
import numpy as np
from bagwise.execution.tasks import Watch
with Watch() as watch:
    np.ones(100_000_000 // 8).sum()
with Watch() as idle:
    pass
print(watch.memory_mb, idle.memory_mb, watch.seconds >= idle.seconds)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    taken, nothing, longer = done.stdout.split()
    assert 80 < float(taken) < 130 and float(nothing) < 20 and longer == "True"


def test_the_limit_of_threads_ends_with_the_outermost_context():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info()]

    before = threads()
    with one_thread():
        with one_thread():
            pass
        assert set(threads()) == {1}
    assert threads() == before
