"""Intervals from held-out residuals, and what is told of them."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from bagwise.reports.findings import size_fifths
from bagwise.reports.verdict import LEVELS, HeldOut


def held(n=60, *, folds=5, std=None, seed=0, unit=None):
    rng = np.random.default_rng(seed)
    target, size = rng.normal(size=n), rng.integers(1, 20, size=n)
    prediction = target + rng.normal(size=n)
    return HeldOut("toy", np.arange(n), size, target, prediction, np.arange(n) % folds, std, unit=unit)


@pytest.mark.parametrize("folds", [1, 5])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.95])
def test_half_widths_are_quantiles_of_the_residuals_of_others(folds, level):
    one = held(folds=folds)
    errors = np.abs(one.target - one.prediction)
    for i, found in enumerate(one.half_widths(level)):
        others = one.fold != one.fold[i] if folds > 1 else np.arange(60) != i
        rank = math.ceil((others.sum() + 1) * level - 1e-9)
        assert found == sorted(errors[others])[rank - 1]


@pytest.mark.parametrize("folds", [1, 5, 60])
@pytest.mark.parametrize("level", [0.5, 0.8])
def test_half_widths_of_grouped_bags_are_the_quantiles_of_intervals(folds, level):
    unit = np.arange(60) % 15 // np.array([1, 2])[np.arange(60) % 2]  # 15 groups of two to six bags
    one = held(folds=folds, unit=unit)
    errors, alone = np.abs(one.residual), held(folds=folds).half_widths(level)
    found = one.half_widths(level)
    for i in range(60):
        others = one.fold != one.fold[i] if folds > 1 else unit != unit[i]
        groups, which = np.unique(unit[others], return_inverse=True)
        mass = 1 / np.bincount(which)[which]
        enough = [
            e for e in sorted(errors[others]) if mass[errors[others] <= e].sum() >= level * (len(groups) + 1) - 1e-9
        ]
        assert found[i] == enough[0]
    assert (found != alone).any()


@pytest.mark.parametrize("folds", [1, 60])
def test_groups_of_one_bag_change_nothing(folds):
    np.testing.assert_array_equal(
        held(folds=folds, unit=np.arange(60)[::-1]).half_widths(), held(folds=folds).half_widths()
    )


def test_too_few_groups_have_no_interval():
    assert np.isinf(held(60, folds=1, unit=np.arange(60) % 9).half_widths(0.9)).all()
    assert np.isfinite(held(60, folds=1, unit=np.arange(60) % 10).half_widths(0.9)).all()


def test_too_few_bags_have_no_interval():
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
    total = sum(part["bags"] * part["error"] ** 2 for part in parts)
    assert total == pytest.approx((one.residual**2).sum())
    assert all(a["high"] < b["low"] for a, b in zip(parts, parts[1:], strict=False))
