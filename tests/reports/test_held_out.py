"""Intervals from held-out residuals, and what is told of them."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from bagwise.reports.held_out import LEVELS, HeldOut, conformal_quantile, size_fifths


def held(n=60, *, folds=5, std=None, seed=0):
    rng = np.random.default_rng(seed)
    target, size = rng.normal(size=n), rng.integers(1, 20, size=n)
    prediction = target + rng.normal(size=n)
    return HeldOut("toy", np.arange(n), size, target, prediction, np.arange(n) % folds, std)


@pytest.mark.parametrize("folds", [1, 5])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.95])
def test_half_widths_are_quantiles_of_the_residuals_of_others(folds, level):
    one = held(folds=folds)
    errors = np.abs(one.target - one.prediction)
    for i, found in enumerate(one.half_widths(level)):
        others = one.fold != one.fold[i] if folds > 1 else np.arange(60) != i
        rank = math.ceil((others.sum() + 1) * level - 1e-9)
        assert found == sorted(errors[others])[rank - 1]


def test_too_few_bags_have_no_interval():
    assert conformal_quantile(np.arange(8.0), 0.9) == math.inf
    assert np.isinf(held(9, folds=1).half_widths(0.9)).all()
    assert np.isfinite(held(10, folds=1).half_widths(0.9)).all()
    assert [level for level, _ in held(9, folds=1).calibration()] == [one for one in LEVELS if one < 0.89]


def test_standard_deviations_make_normal_intervals():
    one = held(std=np.full(60, 2.0))
    assert np.allclose(one.half_widths(0.9), 2 * norm.ppf(0.95))
    assert np.array_equal(one.covered(0.9), np.abs(one.residual) <= 2 * norm.ppf(0.95))


def test_coverage_of_exchangeable_bags_is_near_nominal():
    one = held(2000)
    for level, share in one.calibration():
        assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / 2000) + 0.005


@pytest.mark.parametrize("sizes", [np.arange(1, 61), np.r_[np.ones(59), 7], np.full(60, 3)])
def test_fifths_of_the_sizes_hold_every_bag_once(sizes):
    one = held()
    one = HeldOut("toy", one.bag, sizes.astype(int), one.target, one.prediction, one.fold)
    parts = size_fifths(one)
    assert sum(part["bags"] for part in parts) == 60 and len(parts) <= 5
    total = sum(part["bags"] * part["rmse"] ** 2 for part in parts)
    assert total == pytest.approx((one.residual**2).sum())
    assert all(a["high"] < b["low"] for a, b in zip(parts, parts[1:], strict=False))
