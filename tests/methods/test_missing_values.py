"""Missing values that are declared on loading (``missing="impute"``), over every preset of the catalogue."""

import importlib.util

import numpy as np
import pytest
from tests.helpers.short_fits import brief

import bagwise as bw

SLOW = {"auto:default", "auto:quick", "auto:best", "auto:additive", "bmir:paper"}  # seconds


def holed(n_bags: int, seed: int, missing: str = "impute") -> tuple[bw.Bags, np.ndarray]:
    """Ragged bags with gaps, now and then of a column in a whole bag."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(2, 6), 3)) for _ in range(n_bags)]
    y = np.array([array[:, 0].mean() for array in arrays])
    for array in arrays:
        array[rng.random(array.shape) < 0.15] = np.nan
        if rng.random() < 0.2:
            array[:, rng.integers(3)] = np.nan
    return bw.from_arrays(arrays, missing=missing, feature_names=["a", "b", "c"]), y


def presets():
    for name in bw.method_names():
        card = bw.method_card(name)
        absent = card.needs is not None and importlib.util.find_spec(card.needs) is None
        for preset in card.preset_names:
            text = f"{name}:{preset}"
            marks = [pytest.mark.skipif(absent, reason=f"{name} needs the extra {card.needs}")]
            yield pytest.param(text, marks=marks + [pytest.mark.slow] * (text in SLOW))


@pytest.mark.filterwarnings("ignore")  # of training cut short
@pytest.mark.parametrize("name", list(presets()))
def test_declared_gaps_are_imputed_in_training_and_in_new_bags(name):
    (train, y), (new, _) = holed(56, seed=0), holed(6, seed=1)
    model = brief(bw.method(name)).fit(train, y)
    predictions = model.predict(new)
    assert np.isfinite(predictions).all()
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    alone = np.concatenate([model.predict(new[[i]]) for i in range(3)])
    np.testing.assert_allclose(alone, predictions[:3], rtol=1e-6, atol=1e-6)
    filled = bw.Bags(np.nan_to_num(train.instances), train.offsets, feature_names=["a", "b", "c"], missing="impute")
    assert np.isfinite(brief(bw.method(name)).fit(filled, y).predict(new)).all()  # gaps in new bags alone
