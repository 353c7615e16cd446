"""Intervals from held-out residuals."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from bagwise.reports.verdict import LEVELS, HeldOut


def held(n=60, *, folds=5, std=None, unit=None):
    rng = np.random.default_rng(0)
    target, size = rng.normal(size=n), rng.integers(1, 20, size=n)
    prediction = target + rng.normal(size=n)
    return HeldOut("toy", np.arange(n), size, target, prediction, np.arange(n) % folds, std, unit=unit)


@pytest.mark.parametrize("folds", [5, 60])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.95])
def test_half_widths_are_quantiles_of_the_residuals_of_other_folds(folds, level):
    one = held(folds=folds)
    errors = np.abs(one.target - one.prediction)
    for i, found in enumerate(one.half_widths(level)):
        others = one.fold != one.fold[i]
        rank = math.ceil((others.sum() + 1) * level - 1e-9)
        assert found == sorted(errors[others])[rank - 1]


@pytest.mark.parametrize("folds", [5, 60])
@pytest.mark.parametrize("level", [0.5, 0.8])
def test_half_widths_of_grouped_bags_are_the_quantiles_of_intervals(folds, level):
    unit = np.arange(60) % 15 // np.array([1, 2])[np.arange(60) % 2]  # 15 groups of two to six bags
    one = held(folds=folds, unit=unit)
    errors, found = np.abs(one.residual), one.half_widths(level)
    for i in range(60):
        others = one.fold != one.fold[i]
        groups, which = np.unique(unit[others], return_inverse=True)
        mass = 1 / np.bincount(which)[which]
        enough = [
            e for e in sorted(errors[others]) if mass[errors[others] <= e].sum() >= level * (len(groups) + 1) - 1e-9
        ]
        assert found[i] == enough[0]
    assert (found != held(folds=folds).half_widths(level)).any()


@pytest.mark.parametrize(("n", "unit"), [(10, None), (60, np.arange(60) % 10)])
def test_too_few_bags_or_groups_have_no_interval(n, unit):
    folds = np.arange(n) if unit is None else unit
    one = HeldOut("toy", *[np.arange(n)] * 4, folds, unit=unit)  # 9 in the other folds
    assert np.isfinite(one.half_widths(0.9)).all() and np.isinf(one.half_widths(0.91)).all()
    assert one.calibration()[:, 0].tolist() == [level for level in LEVELS if level < 0.91]


def test_standard_deviations_make_normal_intervals():
    one = held(std=np.full(60, 2.0))
    assert np.allclose(one.half_widths(0.9), 2 * norm.ppf(0.95))
    assert np.array_equal(one.inside(), np.abs(one.residual) <= 2 * norm.ppf(0.95))


def test_coverage_of_exchangeable_bags_is_near_nominal():
    for level, share in held(2000).calibration():
        assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / 2000) + 0.005
