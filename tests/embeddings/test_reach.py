"""Outliers and values far from zero do not lengthen the series or make it impossible."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.embeddings import KernelMean
from bagwise.kernels import Gaussian, InverseMultiquadric

rng = np.random.default_rng(0)
BAGS = bw.from_arrays([rng.normal(size=n) for n in (3, 1, 40, 7)])
OUTLIER = bw.from_arrays([*BAGS, np.array([500.0, 0.1])])


@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_a_value_out_of_reach_counts_as_the_farthest():
    embedding = KernelMean(Gaussian(0.5), reach=2.0)
    rows = embedding.fit_transform(OUTLIER)
    values = OUTLIER.instances[:, 0]
    low, high = values.mean() - 2 * values.std(), values.mean() + 2 * values.std()
    cut = OUTLIER.replace(np.clip(OUTLIER.instances, low, high))
    plain = KernelMean(Gaussian(0.5 * embedding.spread_), units="label").fit_transform(cut)
    np.testing.assert_allclose(rows @ rows.T, plain @ plain.T, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(embedding.transform(OUTLIER), rows, rtol=1e-9, atol=1e-12)
    far = bw.from_arrays([np.array([1e6])])
    nearest = bw.from_arrays([np.array([high])])
    np.testing.assert_allclose(embedding.transform(far), embedding.transform(nearest), rtol=1e-9, atol=1e-12)


def test_where_nothing_is_out_of_reach_nothing_changes():
    plain, reaching = (KernelMean(Gaussian(1.0), reach=reach).fit(BAGS) for reach in (None, 50.0))
    np.testing.assert_array_equal(plain.transform(BAGS), reaching.transform(BAGS))


@pytest.mark.parametrize("kernel", [Gaussian(0.5), InverseMultiquadric(0.5)], ids=str)
def test_far_from_zero_a_series_is_as_good_as_the_values(kernel):
    far = BAGS.replace(BAGS.instances + 1e4)
    embedding = KernelMean(kernel)
    rows = embedding.fit_transform(far)
    assert embedding.map_ == "chebyshev"
    near = KernelMean(kernel).fit_transform(BAGS)
    np.testing.assert_allclose(rows @ rows.T, near @ near.T, atol=1e-8)
