"""Jobs of joblib on the workers of a cluster: where they run, what they may not do, and what happens when one dies."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from joblib import Parallel, delayed
from tests.helpers import cluster_jobs as jobs

from bagwise.auto.cross_validation import CrossValidation
from bagwise.auto.members import Member
from bagwise.bags.folds import Folds
from bagwise.execution import Dask, cluster, dask_cluster
from bagwise.execution.dask_cluster import NoWorkers
from bagwise.testing.contract_checks import sample

distributed = pytest.importorskip("distributed")
LOCAL = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}


@pytest.fixture
def client(processes):
    with cluster(processes):
        yield processes


@pytest.fixture
def threads_only():
    """A worker in this process: quick to start."""
    with (
        distributed.LocalCluster(n_workers=1, processes=False, **LOCAL) as local,
        distributed.Client(local, set_as_default=False) as client,
        cluster(client),
    ):
        yield local


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(dask_cluster, "TASK_TIMEOUT", 0.5)


def test_workers_do_the_jobs_unless_they_stay_here(client):
    def places(n_jobs, **options):
        return set(Parallel(n_jobs=n_jobs, **options)(delayed(jobs.where)(k) for k in range(8)))

    there = set(client.run(os.getpid).values())
    assert places(None) | places(-1) | places(3) <= there
    assert places(1) == places(2, require="sharedmem") == {os.getpid()}


def test_jobs_of_jobs_stay_with_them(client):
    for found in Parallel()(delayed(jobs.where_inside)(k) for k in range(4)):
        assert len(found) == 4 and len(set(found)) == 1 and found[0] != os.getpid()


def test_linear_algebra_has_one_thread(client):
    assert set.union(*Parallel()(delayed(jobs.threads)(k) for k in range(4))) == {1}


@pytest.mark.parametrize("error", [ValueError("bag 7"), TimeoutError("of its own")])
def test_the_error_of_a_job_is_raised_as_it_is(client, error):
    with pytest.raises(type(error), match=str(error)):
        Parallel()(delayed(jobs.fail)(error) for _ in range(3))
    assert Parallel()(delayed(jobs.total)(np.ones(3), k) for k in range(3)) == [3, 4, 5]  # and nothing is left over


def test_a_job_whose_worker_dies_is_done_again(client, tmp_path):
    """Its data too, which was there alone."""
    X = np.arange(20_000.0)
    found = Parallel()(delayed(jobs.total_dying_once)(X, k, tmp_path / "mark") for k in range(6))
    assert found == [jobs.total(X, k) for k in range(6)] and (tmp_path / "mark").exists()


@pytest.fixture
def strict():
    """A worker whose first death ends the patience of the scheduler."""
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, **LOCAL) as local,
        distributed.Client(local, set_as_default=False) as client,
        cluster(client),
    ):
        yield client


@pytest.mark.slow
def test_a_job_that_kills_every_worker_is_named(strict):
    with pytest.raises(ChildProcessError, match="worker that ran a job died, most often because it ran out of memory"):
        Parallel()(delayed(jobs.die)(k) for k in range(2))


@pytest.mark.slow
@pytest.mark.parametrize("run", ["joblib", "Dask"])
def test_data_that_was_given_up_is_sent_again(strict, tmp_path, run):
    (place := tmp_path / str(os.getpid())).mkdir()
    data = jobs.Deadly(place, deaths=1)
    if run == "joblib":
        assert Parallel()(delayed(jobs.survive)(data) for _ in range(2)) == [2**17] * 2
    else:
        assert [found for _, found in Dask(strict).run(jobs.survive_task, [1, 2], (data,))] == [2**17] * 2
    assert len(list(place.iterdir())) == 1


def test_no_worker_is_left(threads_only, impatient):
    threads_only.scale(0)
    with pytest.raises(NoWorkers, match="the cluster has had no worker for 0.5 s"):
        Parallel()(delayed(jobs.where)(k) for k in range(3))


@pytest.mark.slow
def test_the_scheduler_is_gone():
    dask = [sys.executable, "-m", "dask"]
    with contextlib.ExitStack() as stack:
        scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        scheduler = stack.enter_context(subprocess.Popen(scheduler, stderr=subprocess.PIPE, text=True))
        address = next(found[0] for line in scheduler.stderr if (found := re.search(r"tcp://\S+:\d+", line)))
        worker = [*dask, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        worker = stack.enter_context(subprocess.Popen(worker, stderr=subprocess.DEVNULL))
        stack.callback(worker.kill)
        stack.callback(scheduler.kill)
        with cluster(address):
            threading.Timer(1.0, scheduler.kill).start()
            with pytest.raises(ConnectionError, match="The cluster has cancelled its tasks"):
                Parallel()(delayed(time.sleep)(5) for _ in range(3))


def test_no_member_of_auto_is_blamed_for_a_cluster_that_is_gone():
    bags, y = sample(24)

    def make(_):
        raise NoWorkers("the cluster has had no worker")

    cv = CrossValidation(bags, y, [Folds(np.arange(24) % 3)], n_jobs=1)
    with pytest.raises(NoWorkers, match="no worker"):
        cv.try_member(Member("gone", make, always=True))
