"""A cluster for the commands that take --scheduler."""

import pytest


@pytest.fixture(scope="module")
def client():
    """The client of a scheduler with an address, whose worker is in this process and starts at once."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "protocol": "tcp", "host": "127.0.0.1"}
    local = distributed.LocalCluster(**options, dashboard_address="127.0.0.1:0", silence_logs=50)
    with local, distributed.Client(local, set_as_default=False) as client:
        yield client
