"""A task that its worker does not finish is given to another one, and the others go on meanwhile."""

import time

import pytest
from tests.helpers.cluster_jobs import WaitsAtFirst

from bagwise.execution import Dask, dask_cluster
from bagwise.execution.tasks import in_order


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(dask_cluster, "SOON", 0.1)


@pytest.fixture
def slow(processes, tmp_path):
    """The first worker that begins with the third task waits until the test is over."""
    yield WaitsAtFirst(2, tmp_path)
    (tmp_path / "over").touch()
    while any(keys for keys in processes.processing().values()):
        time.sleep(0.02)


def test_results_do_not_wait_for_a_slow_worker(slow, processes):
    assert list(in_order(Dask(processes), slow, range(9))) == list(map(str, range(9)))
    assert slow.has_begun and not slow.is_over


@pytest.mark.slow
def test_a_lone_worker_is_waited_for(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as local, distributed.Client(local, set_as_default=False) as client:
        waits = WaitsAtFirst(3, tmp_path, seconds=1)
        assert list(in_order(Dask(client), waits, range(4))) == list("0123")


@pytest.mark.slow
def test_tasks_that_are_not_alike_have_no_copies(processes, tmp_path):
    begun = dict(Dask(processes).run(WaitsAtFirst(2, tmp_path, seconds=1.5).counted, range(5)))
    assert begun == dict.fromkeys(range(5), 1)


def test_a_dashboard_shows_the_names_of_tasks(processes):
    submit, keys = processes.submit, []
    processes.submit = lambda *args, **options: (keys.append(options.get("key")), submit(*args, **options))[1]
    try:
        list(in_order(Dask(processes), str, range(3), name="survey"))
        list(in_order(Dask(processes), str, range(3), name="fold-sums"))
    finally:
        del processes.submit
    from dask.utils import key_split

    named = [key for key in keys if key]
    assert [key.rpartition("-")[0] for key in named] == [
        f"{name}-{number:04d}" for name in ("survey", "fold-sums") for number in range(3)
    ]
    assert {key_split(key) for key in named} == {"survey", "fold-sums"}  # how the dashboard puts them together
