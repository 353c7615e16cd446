"""Mixed precision in training of attention: nearly the same network, from rounded products."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.regressors import AttentionRegressor

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_mixed_precision_learns_the_same_to_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5, 2))
    bags, y = bw.from_arrays(list(X)), X[:, :, 0].mean(axis=1)
    settings = {"read": (16,), "epochs": 10, "learning_rate": 0.01, "restarts": 2, "device": "cpu"}
    full, mixed, again = (
        AttentionRegressor(**settings, precision=p).fit(bags, y).predict(bags)
        for p in ("float32", "bfloat16", "bfloat16")
    )
    np.testing.assert_array_equal(mixed, again)
    assert 0 < np.abs(full - mixed).max() < 0.1 * y.std() and np.corrcoef(full, y)[0, 1] > 0.9


def test_wrong_precision():
    with pytest.raises(ValueError, match="precision must be 'float32' or 'bfloat16', not 'half'"):
        AttentionRegressor(precision="half").fit(bw.from_arrays([np.ones((1, 1)), np.zeros((1, 1))]), [0.0, 1.0])
