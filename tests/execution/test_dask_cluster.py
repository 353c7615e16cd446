"""What may be wrong with a cluster is said before any work is sent, and nothing waits for long."""

import sys

import pytest

from bagwise.execution import cluster, dask_cluster
from bagwise.execution.dask_cluster import NoWorkers, _compare, connected

distributed = pytest.importorskip("distributed")
LOCAL = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}


def enter(*arguments, **options):
    with cluster(*arguments, **options):
        pass


@pytest.mark.parametrize("address", ["nonsense", "", "http://here:1", "tcp://here", "tcp://a b:1"])
def test_no_address(address):
    with pytest.raises(ValueError, match=r"is not the address of a Dask scheduler"):
        enter(address)


def test_nobody_answers_or_works(monkeypatch):
    monkeypatch.setattr(dask_cluster, "CONNECT_TIMEOUT", 0.5)
    with pytest.raises(ConnectionError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1 .* `dask scheduler`"):
        enter("tcp://127.0.0.1:1")
    with (
        distributed.LocalCluster(n_workers=0, **LOCAL) as local,
        distributed.Client(local, set_as_default=False) as client,
        pytest.raises(NoWorkers, match=r"the scheduler at \S+ has no workers. Start workers with `dask worker"),
    ):
        enter(client)


def test_what_is_no_cluster():
    with pytest.raises(TypeError, match="the address of a scheduler, a distributed.Client or None, not 8786"):
        enter(8786)
    with pytest.raises(ValueError, match="n_workers applies only to a cluster"):
        enter("tcp://127.0.0.1:1", n_workers=2)
    with pytest.raises(ValueError, match="n_workers must be at least 1, not 0"):
        enter(n_workers=0)


@pytest.mark.parametrize("state", ["closed", "asynchronous"])
def test_a_client_that_cannot_be_used(state, monkeypatch):
    with distributed.Client(n_workers=1, set_as_default=False, **LOCAL) as client:
        pass
    if state == "asynchronous":
        monkeypatch.setattr(distributed.Client, "asynchronous", True)
    with pytest.raises(ValueError, match=f"The client is {state}"):
        enter(client)


def test_dask_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"needs Dask. Install it with: pip install 'bagwise\[dask\]'"):
        enter()


# versions -------------------------------------------------------------------------------------------------------

HERE = {"python": "3.11.7.final.0", "bagwise": "0.1.0", "numpy": "2.1.0"}


def versions(*workers: dict) -> dict:
    """As Dask tells them, of workers that differ from this process in so much."""
    found = {f"tcp://w{i}:1": {"packages": HERE | worker} for i, worker in enumerate(workers)}
    return {"client": {"packages": HERE}, "workers": found}


@pytest.mark.parametrize(
    ("worker", "message"),
    [
        ({"python": "3.12.1.final.0"}, r"python is 3\.11 here and 3\.12 on worker tcp://w1:1. Install the same"),
        ({"bagwise": "0.2.0"}, r"bagwise is 0\.1\.0 here and 0\.2\.0 on worker tcp://w1:1. Install the same"),
        ({"bagwise": None}, r"bagwise is 0\.1\.0 here and missing on worker tcp://w1:1"),
    ],
)
def test_workers_that_would_not_understand(worker, message):
    with pytest.raises(ValueError, match=message):
        _compare(versions({}, worker))


def test_workers_that_may_round_differently():
    with pytest.warns(UserWarning, match=r"numpy is 2\.1\.0 here and 2\.2\.0 on worker tcp://w0:1 \(and 1 others\)"):
        _compare(versions({"numpy": "2.2.0"}, {"numpy": None}))


@pytest.mark.filterwarnings("error")
def test_workers_that_are_alike():
    _compare(versions({}, {"python": "3.11.2.final.0"}))  # pickles of 3.11 are the same
    _compare({"client": {"packages": HERE}, "workers": {"tcp://w0:1": None}})  # one that did not answer


def test_workers_that_are_slow_to_end_do_not_undo_what_they_did(monkeypatch):
    """On a busy machine, `bagwise fit --engine dask` ended with an empty message after the fit."""

    class Slow(distributed.LocalCluster):
        def close(self, timeout=None):
            super().close(timeout)
            raise TimeoutError

    monkeypatch.setattr(distributed, "LocalCluster", lambda **options: Slow(**options | LOCAL))
    with connected(n_workers=1) as client:
        assert client.submit(pow, 2, 3).result() == 8
    with pytest.raises(TimeoutError, match="the work itself"), connected(n_workers=1):
        raise TimeoutError("the work itself")
