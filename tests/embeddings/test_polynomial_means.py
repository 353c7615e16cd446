"""Means that are remembered are the means."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.embeddings import chebyshev
from bagwise.embeddings.chebyshev import Interpolant

VALUES = np.random.default_rng(0).normal(size=3000)
SIZES = (1, 2, 2500, 97, 400)


def bags(values=VALUES, **more):
    return bw.Bags(values[:, None], np.concatenate([[0], np.cumsum(SIZES)]), **more)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(chebyshev, "_remembered", {})


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 3001.0)], ids=["equal", "weighted"])
@pytest.mark.parametrize("lengths", [(64, 8, 24), (8, 64, 24, 64)], ids=["longest first", "shortest first"])
def test_a_short_series_is_the_beginning_of_a_longer_one(lengths, weights):
    some = bags(weights=weights)
    for length in lengths:
        series = Interpolant(-3.0, 2.0, length)
        np.testing.assert_array_equal(series.polynomial_means(some), series.means(some))
    assert len(chebyshev._remembered) == 1


def test_only_what_is_the_same_is_taken_for_the_same():
    values = VALUES.copy()
    some, others = bags(values), [bags(), bags(weights=np.arange(1.0, 3001.0)), bags()[np.arange(5)[::-1]]]
    series = Interpolant(-3.0, 2.0, 16)
    means = series.polynomial_means(some)
    means[:] = np.nan  # the caller's to change
    for other in others:
        np.testing.assert_array_equal(series.polynomial_means(other), series.means(other))
    wider = Interpolant(-4.0, 4.0, 16)
    np.testing.assert_array_equal(wider.polynomial_means(some), wider.means(some))
    values[0] += 0.5  # behind the back of the bags
    np.testing.assert_array_equal(series.polynomial_means(some), series.means(some))


def test_little_is_remembered(monkeypatch):
    series = Interpolant(-3.0, 2.0, 16)
    for shift in range(7):
        series.polynomial_means(bags(VALUES + shift))
    assert len(chebyshev._remembered) == chebyshev.REMEMBERED
    monkeypatch.setattr(chebyshev, "LARGEST", 10)
    before = set(chebyshev._remembered)
    series.polynomial_means(bags(VALUES - 1.0))
    assert set(chebyshev._remembered) == before
