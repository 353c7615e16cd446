"""Instance weights in embeddings: weight 2 equals two copies, weight 0 none."""

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

import bagwise as bw
from bagwise.embeddings import (
    FeatureMean,
    KernelMean,
    LandmarkMean,
    NystroemMean,
    PhaseMean,
    Pool,
    SecondKernel,
    Similarity,
    SlicedQuantiles,
    Statistics,
)
from bagwise.kernels import Gaussian, Matern32

rng = np.random.default_rng(0)
SIZES = (1, 4, 7, 2, 12, 5)
BAGS = bw.from_arrays([rng.normal(size=(n, 2)) for n in SIZES])
LINE = bw.from_arrays([rng.normal(size=n) for n in SIZES])
COUNTS = rng.integers(0, 4, size=sum(SIZES))
COUNTS[BAGS.offsets[:-1]] += 1
OTHER = rng.uniform(0.1, 1.0, size=sum(SIZES))


def copied(bags):
    """Return the bags with each instance repeated by its weight."""
    parts = zip(bags, np.split(COUNTS, bags.offsets[1:-1]), strict=True)
    return bw.from_arrays([np.repeat(bag, counts, axis=0) for bag, counts in parts])


ROWS = [
    (FeatureMean(PolynomialFeatures(2)), BAGS),
    (NystroemMean(Gaussian(1.0), units="label"), BAGS),
    (PhaseMean(20), BAGS),
    (LandmarkMean(landmarks=5), BAGS),
    (KernelMean(Gaussian(0.8), units="label"), LINE),
    (KernelMean(Matern32(0.8), units="label"), BAGS),
    (KernelMean(Gaussian(0.8), units="label", columns="gram"), LINE),
    (SecondKernel(NystroemMean(units="label"), Gaussian(1.0), units="label"), BAGS),
    (Similarity(pool="mean"), BAGS),
    (SlicedQuantiles(quantiles=13), LINE),
    (SlicedQuantiles(7, 11), BAGS),
    (Pool(("mean", "variance", "deviation", "skewness", "kurtosis", "min", "max")), BAGS),
]


@pytest.mark.parametrize(("embedding", "bags"), ROWS, ids=lambda v: type(v).__name__)
def test_a_weight_is_a_number_of_copies(embedding, bags):
    weighted = bags.with_weights(0.25 * COUNTS)
    embedding.fit(bags.with_weights(OTHER))  # scales, landmarks and training bags are the same for both
    np.testing.assert_allclose(embedding.transform(weighted), embedding.transform(copied(bags)), atol=1e-8)
    assert not np.allclose(embedding.transform(weighted), embedding.transform(bags))
    np.testing.assert_allclose(embedding.fit_transform(weighted), embedding.transform(weighted), atol=1e-7)


@pytest.mark.parametrize(("embedding", "bags"), ROWS, ids=lambda v: type(v).__name__)
def test_equal_weights_are_none(embedding, bags):
    plain = embedding.fit_transform(bags)
    np.testing.assert_allclose(embedding.transform(bags.with_weights(np.full(31, 3.0))), plain, atol=1e-7)


@pytest.mark.parametrize(("embedding", "bags"), ROWS, ids=lambda v: type(v).__name__)
def test_scales_and_landmarks_do_not_see_weights(embedding, bags):
    new = bags[[1, 3]]
    if not isinstance(embedding, SecondKernel) and getattr(embedding, "columns", "") != "gram":
        plain, weighted = (embedding.fit(b).transform(new) for b in (bags, bags.with_weights(OTHER)))
        if getattr(embedding, "map_", None) != "exact":  # whose columns are the training bags
            np.testing.assert_array_equal(plain, weighted)


@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_statistics_weigh_quantiles_and_count_what_counts():
    bags = bw.from_arrays([np.array([0.0, 1.0, 9.0]), np.array([2.0])], weights=[[1.0, 1.0, 0.0], [2.0]])
    rows = Pool(("quantiles", "median", "size"), quantiles=(0.25,)).fit_transform(bags)
    np.testing.assert_allclose(rows, [[0.25, 0.5, np.log(3)], [2.0, 2.0, np.log(2)]])
    assert Statistics(("mean", "max")).fit_transform(bags).tolist() == [[0.5, 1.0], [2.0, 2.0]]


def test_who_cannot_honour_weights_refuses():
    with pytest.raises(ValueError, match=r"drop them with bags.without_weights\(\)"):
        Similarity().fit(BAGS.with_weights(OTHER))


def test_noise_of_a_weighted_mean_is_unbiased():
    """Over many bags of one distribution, Σ / (effective size) is the covariance of the weighted means."""
    draws = np.random.default_rng(1)
    bags = bw.from_arrays([draws.normal(size=(6, 1)) for _ in range(4000)])
    weighted = bags.with_weights(np.tile([5.0, 1.0, 1.0, 2.0, 0.0, 1.0], 4000))
    np.testing.assert_allclose(weighted.effective_sizes(), 100 / 32)
    embedding = LandmarkMean(landmarks=4)
    means = embedding.fit_transform(weighted)
    np.testing.assert_allclose(np.cov(means.T), embedding.noise_ * 32 / 100, rtol=0.1, atol=1e-4)
    plain = LandmarkMean(landmarks=4).fit(bags)
    np.testing.assert_allclose(embedding.noise_, plain.noise_, rtol=0.05, atol=1e-4)
    same = LandmarkMean(landmarks=4).fit(bags.with_weights(np.full(24000, 2.0)))
    np.testing.assert_allclose(same.noise_, plain.noise_, rtol=1e-9)


def test_weighted_quantiles_of_a_bag_are_the_same_in_any_company():
    """Running sums over all bags drifted: 2,240 of 5,000 bags with equal weights had wrong quantiles."""
    rng = np.random.default_rng(0)
    bags = bw.Bags(rng.normal(size=(50_000, 1)), np.arange(0, 50_001, 10))
    weighted = bags.with_weights(np.full(50_000, 0.3))
    np.testing.assert_array_equal(
        SlicedQuantiles(quantiles=5).fit_transform(weighted), SlicedQuantiles(quantiles=5).fit_transform(bags)
    )
    uneven = bags.with_weights(rng.choice([0.1, 0.2, 0.3], 50_000))
    whole, late = SlicedQuantiles(quantiles=5).fit_transform(uneven), np.arange(4_900, 5_000)
    np.testing.assert_array_equal(SlicedQuantiles(quantiles=5).fit_transform(uneven[late]), whole[late])
    some = rng.random(50_000) < 0.5
    some[::10] = True
    sizes = np.add.reduceat(some.astype(int), bags.offsets[:-1])
    kept = bw.Bags(bags.instances[some], np.concatenate([[0], np.cumsum(sizes)]))
    found = SlicedQuantiles(quantiles=5).fit_transform(bags.with_weights(some.astype(float)))
    np.testing.assert_array_equal(found, SlicedQuantiles(quantiles=5).fit_transform(kept))
