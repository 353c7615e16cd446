import pytest
from tests.helpers.cluster_jobs import two_processes


@pytest.fixture(scope="session")
def processes():
    """One cluster for all tests of this folder: its processes take seconds to start."""
    pytest.importorskip("distributed")
    with two_processes() as client:
        yield client
