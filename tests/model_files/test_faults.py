"""What goes wrong inside a model leaves the old file as it was; what goes wrong outside is tried in tests/faults."""

import numpy as np
import pytest
from tests.helpers.saved_files import small_model

import bagwise as bw
from bagwise.model_files import load_model, save_model
from bagwise.testing.contract_checks import sample


@pytest.fixture
def old(tmp_path):
    """A model file that is to survive, in a folder of its own."""
    path = tmp_path / "model.bagwise"
    save_model(small_model(), path)
    before = path.read_bytes()
    yield path
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.bagwise"]


def another_model():
    bags, y = sample(random_state=1)
    return bw.method("aggregated").fit(bags, y)


def test_a_model_that_cannot_be_saved(old):
    model = another_model()
    model.thing_ = lambda: None
    with pytest.raises(ValueError, match=r"it holds .*<lambda>"):
        save_model(model, old)


def test_a_new_model_takes_the_place_of_the_old(tmp_path):
    path, model = tmp_path / "model.bagwise", another_model()
    save_model(small_model(), path)
    save_model(model, path)
    bags, _ = sample()
    np.testing.assert_array_equal(load_model(path).predict(bags), model.predict(bags))
    assert [file.name for file in tmp_path.iterdir()] == ["model.bagwise"]
