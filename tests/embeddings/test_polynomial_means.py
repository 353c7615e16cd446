"""Kernels of a grid share the polynomial means of the longest series."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.embeddings import KernelMean
from bagwise.embeddings.kernel_mean import Interpolant
from bagwise.kernels import Exponential, Gaussian, InverseMultiquadric, MedianDistance

VALUES = np.random.default_rng(0).normal(size=3000)
SIZES = (1, 2, 2500, 97, 400)
WEIGHTS = [None, np.arange(1.0, 3001.0)]
KERNELS = [Gaussian(4.0), Gaussian(0.5), InverseMultiquadric(1.0), Exponential(1.0), Gaussian(MedianDistance())]


def bags(weights=None):
    return bw.Bags(VALUES[:, None], np.concatenate([[0], np.cumsum(SIZES)]), weights=weights)


@pytest.mark.parametrize("weights", WEIGHTS, ids=["equal", "weighted"])
def test_a_short_series_is_the_beginning_of_a_longer_one(weights):
    some = bags(weights)
    longest = Interpolant(-3.0, 2.0, 64).means(some)
    for length in (8, 24, 64):
        np.testing.assert_array_equal(Interpolant(-3.0, 2.0, length).means(some), longest[:, :length])


@pytest.mark.parametrize("weights", WEIGHTS, ids=["equal", "weighted"])
@pytest.mark.parametrize("columns", ["features", "gram"])
def test_a_grid_is_fitted_as_its_settings_one_by_one(columns, weights):
    some, new = bags(weights), bw.from_arrays([np.array([0.3, -0.2]), np.array([1.0])])
    grid = [{"kernel": kernel, **more} for kernel in KERNELS for more in ({}, {"units": "label"}, {"reach": 1.0})]
    found = list(KernelMean(columns=columns).fit_grid(some, None, grid))
    assert [setting for setting, *_ in found] == grid
    assert {embedding.map_ for _, embedding, _ in found} == {"chebyshev", "exact"}
    for setting, embedding, rows in found:
        alone = KernelMean(columns=columns, **setting)
        np.testing.assert_array_equal(rows, alone.fit_transform(some))
        np.testing.assert_array_equal(embedding.transform(new), alone.transform(new))


def test_bandwidths_of_a_grid_are_each_their_own():
    found = KernelMean(Gaussian(1.0)).fit_grid(bags(), None, [{"kernel__bandwidth": b} for b in (0.5, 2.0, 8.0)])
    for setting, _, rows in found:
        alone = KernelMean(Gaussian(setting["kernel__bandwidth"]))
        np.testing.assert_array_equal(rows, alone.fit_transform(bags()))


def test_the_means_of_a_grid_are_made_once(monkeypatch):
    made, means = [], Interpolant.means
    monkeypatch.setattr(Interpolant, "means", lambda self, some: made.append(self.length) or means(self, some))
    lengths = [one.length_ for _, one, _ in KernelMean().fit_grid(bags(), None, [{"kernel": k} for k in KERNELS[:3]])]
    assert made == [max(lengths)]
    assert len(set(lengths)) > 1
