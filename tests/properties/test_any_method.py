"""Generated bags never give a silent NaN, a wrong length or a prediction for the wrong bag."""

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.helpers.generating import effort, finite, numbers, ragged, told, try_all

import bagwise as bw

QUICK = [("aggregated", None), ("statistics", "linear"), ("input-kme", "linear"), ("miles", None), ("blr", None)]


def estimator(name, preset):
    return bw.method(name, preset=preset)


@pytest.mark.parametrize(("name", "preset"), QUICK, ids=[name for name, _ in QUICK])
@effort
def test_predictions_are_finite_and_belong_to_their_bags(effort, name, preset):
    targets = st.lists(st.one_of(*[finite] * 20, numbers), min_size=8, max_size=8)

    def check(arrays, y, seed):
        y = np.array(y[: len(arrays)])
        model = told(estimator(name, preset).fit, arrays, y)
        if model is None:
            return
        bags = bw.from_arrays(arrays)
        predicted = model.predict(bags)
        assert predicted.shape == (len(arrays),) and np.isfinite(predicted).all()
        order = np.random.default_rng(seed).permutation(len(arrays))
        size = max(np.ptp(y), np.abs(predicted).max(), 1e-300)
        np.testing.assert_allclose(model.predict(bags[order]) / size, predicted[order] / size, atol=1e-6)
        alone = [model.predict(bags[[i]])[0] for i in range(len(arrays))]
        np.testing.assert_allclose(np.array(alone) / size, predicted / size, atol=1e-6)

    try_all(effort, check, ragged(finite, least=2, smallest=1), targets, st.integers(0, 99), few=25, many=600)
