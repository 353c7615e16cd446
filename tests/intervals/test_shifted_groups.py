"""Held-out residuals where groups shift the features: as in a plain loop that never sees the group."""

import numpy as np
import pytest

import bagwise as bw


@pytest.mark.parametrize("kind", ["cv+", "jackknife+"])
@pytest.mark.parametrize("name", ["aggregated", "statistics:linear"])
def test_residuals_are_those_of_a_plain_loop_over_groups(name, kind):
    rng = np.random.default_rng(0)
    group, shift, signal = np.repeat(np.arange(6), 10), 4 * rng.normal(size=(6, 4)), rng.normal(size=60)
    y = signal + 0.3 * shift[group, 0]
    arrays = [rng.normal(size=(20, 4)) + shift[k] + s for k, s in zip(group, signal, strict=True)]
    bags = bw.from_arrays(arrays, groups=group)
    model = bw.Intervals(name, kind=kind, level=0.8).fit(bags, y)
    for k in range(6):
        held_out = group == k
        expected = y[held_out] - bw.method(name).fit(bags[~held_out], y[~held_out]).predict(bags[held_out])
        np.testing.assert_allclose(model.residuals_[held_out], expected, rtol=1e-9, atol=1e-9)
