"""When a target is constant: if float64 cannot tell its values apart, and not before."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.regressors.bayesian.evidence_ridge import TargetScale

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.0, 1e14, 1e-300])
def test_a_constant_is_constant_at_any_size(value):
    weight = RNG.uniform(0.1, 3.0, size=10_001)
    for weights in (None, weight):
        assert TargetScale.of(np.full(10_001, value), weights).scale == 0.0
    sums = np.array([0.1 + 0.2, 0.3, 0.7 - 0.4])
    assert np.ptp(sums) > 0 and TargetScale.of(sums).scale == 0.0


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e8, 1e12, 1e14])
def test_what_varies_is_not(mean):
    y = mean + RNG.normal(size=50)
    np.testing.assert_allclose(TargetScale.of(y).scale, y.std(), rtol=1e-12)


@pytest.mark.parametrize("name", ["blr", "shrinkage"])
def test_targets_far_from_zero_are_learned(name):
    """With 1e14 added to the targets, one constant was predicted, and with certainty."""
    bags, y = bw.datasets.make_problem("mean", 60, random_state=0)
    y = np.round(20 * y)  # whole numbers: the sum below is exact
    model = bw.method(name)
    near, near_std = model.fit(bags, y).predict(bags, return_std=True)
    far, far_std = model.fit(bags, y + 1e14).predict(bags, return_std=True)
    np.testing.assert_allclose(far - 1e14, near, atol=0.2 * near.std())
    np.testing.assert_allclose(far_std, near_std, rtol=0.2)
