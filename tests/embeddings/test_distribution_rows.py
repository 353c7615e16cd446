"""Phases, quantiles and similarities: one row per bag."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

import bagwise as bw
from bagwise import kernels as k
from bagwise.embeddings import MinusDistance, PhaseMean, Similarity, SlicedQuantiles
from bagwise.embeddings.summaries import step_quantiles
from bagwise.testing import zoo

ZOO = zoo(n_features=2)
SCALARS = zoo()


def label(embedding):
    return type(embedding).__name__


# Phases -------------------------------------------------------------------------------------------------------


def test_phases_are_directions_of_the_characteristic_function():
    bags = ZOO["ragged"]
    embedding = PhaseMean(6).fit(bags)
    fourier = embedding.fourier_
    for row, bag in zip(embedding.transform(bags), bags, strict=True):
        angles = (bag - fourier.mean_) / fourier.scale_ @ fourier.frequencies_
        value = np.exp(1j * angles).mean(axis=0)
        value /= np.abs(value)
        np.testing.assert_allclose(row, np.concatenate([value.real, value.imag]) * np.sqrt(2 / 6), rtol=1e-8)


def test_symmetric_noise_leaves_the_phases_alone():
    """Convolve with a symmetric set of offsets, whose characteristic function is real."""
    rng = np.random.default_rng(1)
    bag, offsets = rng.normal(size=(30, 2)), rng.normal(scale=0.1, size=(20, 2))
    noise = np.vstack([offsets, -offsets])
    blurred = (bag[:, None, :] + noise[None, :, :]).reshape(-1, 2)
    embedding = PhaseMean(30, bandwidth=2.0).fit(ZOO["equal"])
    Z = embedding.transform(bw.from_arrays([bag, blurred]))
    np.testing.assert_allclose(Z[0], Z[1], atol=1e-9)


def test_no_direction_is_zero():
    bags = bw.from_arrays([np.array([[0.0], [np.pi]]), np.array([[1.0]])])
    embedding = PhaseMean(2).fit(bags)
    embedding.fourier_.mean_, embedding.fourier_.scale_ = np.zeros(1), np.ones(1)
    embedding.fourier_.frequencies_ = np.ones((1, 1))  # cos 0 + cos π = 0, sin 0 + sin π = 0
    np.testing.assert_array_equal(embedding.transform(bags)[0], [0.0, 0.0])


# Quantiles ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCALARS)
def test_quantiles_are_those_of_numpy(name):
    bags = SCALARS[name]
    at = (np.arange(13) + 0.5) / 13
    got = step_quantiles(bags.instances.T, bags, 13)[:, 0]
    for row, bag in zip(got, bags, strict=True):
        np.testing.assert_array_equal(row, np.quantile(bag[:, 0], at, method="inverted_cdf"))


def test_distances_are_wasserstein_distances():
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(loc=m, size=20) for m in range(4)])
    for n in (20, 60):  # exact whenever the sizes divide n
        Z = SlicedQuantiles(quantiles=n).fit_transform(bags)
        for i in range(4):
            for j in range(4):
                squares = np.mean((np.sort(bags[i][:, 0]) - np.sort(bags[j][:, 0])) ** 2)
                np.testing.assert_allclose(((Z[i] - Z[j]) ** 2).sum(), squares, rtol=1e-10, atol=1e-14)
                first = wasserstein_distance(bags[i][:, 0], bags[j][:, 0])
                np.testing.assert_allclose(np.abs(Z[i] - Z[j]).sum() / np.sqrt(n), first, rtol=1e-10, atol=1e-14)


def test_slices_against_a_loop_over_directions(monkeypatch):
    monkeypatch.setattr("bagwise.embeddings.summaries.BLOCK_VALUES", 200)  # a few directions at a time
    bags = ZOO["equal"]
    embedding = SlicedQuantiles(9, 6, random_state=3)
    Z = embedding.fit_transform(bags)
    np.testing.assert_allclose((embedding.directions_**2).sum(axis=0), 1.0)
    squares = np.mean(
        [(np.sort(bags[0] @ t) - np.sort(bags[1] @ t)) ** 2 for t in embedding.directions_.T]  # sizes 6, quantiles 6
    )
    np.testing.assert_allclose(((Z[0] - Z[1]) ** 2).sum(), squares, rtol=1e-10)


# Similarities -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ragged", "few distinct values", "one huge"])
@pytest.mark.parametrize("kernel", [k.Gaussian(0.5), MinusDistance()], ids=label)
@pytest.mark.parametrize("pool", ["max", "mean"])
def test_similarities_against_a_double_loop(name, kernel, pool, monkeypatch):
    monkeypatch.setattr("bagwise.embeddings.feature_mean.BLOCK_ROWS", 7)
    bags = ZOO[name]
    embedding = Similarity(kernel, prototypes=5, pool=pool)
    Z = embedding.fit_transform(bags)
    for i in (0, len(bags) - 1):
        similar = np.array([kernel(x[None] / embedding.spread_, embedding.prototypes_)[0] for x in bags[i]])
        np.testing.assert_allclose(Z[i], getattr(similar, pool)(axis=0), rtol=1e-7, atol=1e-7)
