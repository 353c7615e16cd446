from fractions import Fraction
from math import ceil

import numpy as np
import pytest

import bagwise as bw
from bagwise.bags.folds import units_of
from bagwise.intervals import units_needed
from bagwise.intervals.order_statistics import (
    ROUNDING,
    SortedScores,
    conformal_quantile,
    plus_interval,
    unit_shares,
)

rng = np.random.default_rng(0)


@pytest.mark.parametrize("level", ["0.5", "0.7", "0.8", "0.9", "0.95"])
def test_one_bag_a_unit_gives_the_order_statistic_of_exact_arithmetic(level):
    for n in range(units_needed(float(level)), 60):
        values = rng.normal(size=(3, n))
        rank = ceil(Fraction(level) * (n + 1))
        expected = np.sort(values, axis=1)[:, rank - 1]
        np.testing.assert_array_equal(conformal_quantile(values, np.ones(n), float(level)), expected)


def test_units_needed_is_the_first_number_whose_rank_exists():
    for level in ("0.5", "0.8", "0.9", "0.95", "0.99", "0.999"):
        n = units_needed(float(level))
        assert ceil(Fraction(level) * (n + 1)) <= n and ceil(Fraction(level) * n) > n - 1


@pytest.mark.parametrize("level", [0, 1, -0.5, 90])
def test_a_level_is_between_nought_and_one(level):
    with pytest.raises(ValueError, match="level is the share of bags to be covered, a number between 0 and 1"):
        units_needed(level)


def test_groups_weigh_the_same_whatever_their_size():
    """The quantile of a distribution with mass 1 / ((K + 1) N) on every score and 1 / (K + 1) at infinity."""
    unit = np.repeat(np.arange(7), [1, 5, 2, 9, 1, 3, 4])
    values = rng.normal(size=len(unit))
    mass = np.array([Fraction(1, 8 * int((unit == u).sum())) for u in unit])
    for level in ("0.5", "0.6", "0.75", "0.85"):
        expected = min(v for v in values if mass[values <= v].sum() >= Fraction(level))
        assert conformal_quantile(values[None], unit_shares(unit), float(level))[0] == expected


def test_the_unit_is_the_group_or_else_the_id():
    arrays = [np.zeros((1, 1))] * 4
    assert units_of(bw.from_arrays(arrays, groups=["b", "a", "b", "a"])).tolist() == [1, 0, 1, 0]
    twice = bw.from_arrays(arrays, ids=list("wxyz"))[[0, 0, 1, 3]]
    assert units_of(twice).tolist() == [0, 0, 1, 2]


def naive_quantile(values, shares, level):
    """All values of a new bag in order, and the first at which the shares suffice."""
    wanted = level * (shares.sum() + 1.0) - ROUNDING
    order = np.argsort(values, axis=1, kind="stable")
    place = (np.cumsum(shares[order], axis=1) >= wanted).argmax(axis=1)
    return values[np.arange(len(values)), order[np.arange(len(values)), place]]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("values", ["distinct", "ties", "far"])
@pytest.mark.parametrize("bisected", [0, 100, 10**9])
def test_the_bounds_are_those_of_sorting_every_new_bag(monkeypatch, bisected, values, grouped):
    """Bisection in the sorted folds, and the comparison of all values, against a full sort for every new bag."""
    monkeypatch.setattr("bagwise.intervals.order_statistics.BISECTED", bisected)
    own = np.random.default_rng(1)
    for n, n_folds, n_scales in ((9, 1, 1), (40, 3, 3), (41, 40, 10), (260, 2, 1), (333, 13, 10)):
        fold = own.permutation(np.arange(n) % n_folds)
        scores, centre = own.exponential(size=n), own.normal(size=(n_folds, 17))
        scale = own.uniform(0.5, 2.0, size=(n_scales, 17))
        if values == "ties":
            scores, centre, scale = np.round(scores, 1), np.round(centre), np.round(scale)
        if values == "far":  # most half widths vanish beside the centre, and tie
            centre = centre * 1e15
        unit = np.unique(own.integers(0, max(9, n // 3), n), return_inverse=True)[1] if grouped else np.arange(n)
        shares = unit_shares(unit)
        half = (scale[fold % n_scales] * scores[:, None]).T
        for level in (0.01, 0.5, 0.8):
            low = -naive_quantile(half - centre[fold].T, shares, level)
            high = naive_quantile(half + centre[fold].T, shares, level)
            got = plus_interval(centre, centre, scale, SortedScores(scores, fold, shares), level)
            np.testing.assert_allclose(got, np.column_stack([low, high]), rtol=1e-9, atol=1e-10 * np.ptp(centre))
