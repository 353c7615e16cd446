import pytest

from bagwise.execution.resources import one_thread


@pytest.fixture
def calm():
    with one_thread():  # as cells run; many threads on small matrices are slow on a busy machine
        yield
