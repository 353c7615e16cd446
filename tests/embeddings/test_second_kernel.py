import numpy as np
import pytest
from scipy.spatial.distance import cdist

import bagwise as bw
from bagwise import kernels as k
from bagwise import testing
from bagwise.embeddings import KernelMean, NystroemMean, Pool, SecondKernel, SlicedQuantiles
from bagwise.regressors import EmbeddingRidge, RidgePath
from bagwise.testing import zoo

ZOO = zoo(n_features=2)
TRAIN = ZOO["ragged"]


def second_gram(first, second, left, right):
    """κ(‖μ_i - μ_j‖) with ‖μ_i - μ_j‖² = K̄_ii + K̄_jj - 2 K̄_ij, by double loops."""
    own = np.diag(testing.mean_gram(first, left))[:, None]
    other = np.diag(testing.mean_gram(first, right))[None, :]
    squares = np.maximum(own + other - 2 * testing.mean_gram(first, left, right), 0.0)
    return np.array([[second([[0.0]], [[np.sqrt(d)]])[0, 0] for d in row] for row in squares])


@pytest.mark.parametrize("second", [k.Gaussian(0.5), k.InverseMultiquadric(0.3), k.Matern32(0.5)])
@pytest.mark.parametrize("inner", ["auto", "exact"])
@pytest.mark.parametrize("n_features", [1, 2])
def test_equals_the_formula_of_szabo_on_training_and_new_bags(n_features, inner, second):
    rng = np.random.default_rng(0)
    train, new = (bw.from_arrays([rng.normal(size=(n, n_features)) for n in sizes]) for sizes in ((1, 2, 5, 7), (3, 1)))
    first = k.Gaussian(1.0)
    embedding = SecondKernel(KernelMean(first, units="label", map=inner), second, units="label")
    # A distance is the root of a difference: half the digits.
    np.testing.assert_allclose(embedding.fit_transform(train), second_gram(first, second, train, train), atol=1e-6)
    outside = n_features == 1 and inner == "auto"  # new scalars beyond the range of the series are projected
    if not outside:
        np.testing.assert_allclose(embedding.transform(new), second_gram(first, second, new, train), atol=1e-6)


def test_a_linear_second_kernel_changes_nothing():
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(scale=s, size=(9, 2)) for s in np.linspace(1, 3, 30)])
    y = np.linspace(1, 3, 30)
    plain = EmbeddingRidge(NystroemMean()).fit(bags[:20], y[:20])
    second = EmbeddingRidge(SecondKernel(NystroemMean(), k.Linear(), units="label")).fit(bags[:20], y[:20])
    assert second.embedding_.columns == "gram" and second.head_.kernel == "precomputed"
    assert second.head_.penalty_ == plain.head_.penalty_
    np.testing.assert_allclose(second.predict(bags[20:]), plain.predict(bags[20:]), rtol=1e-6)
    Z = NystroemMean().fit_transform(bags)
    K = SecondKernel(NystroemMean(), k.Linear(), units="label").fit_transform(bags)
    np.testing.assert_allclose(K, Z @ Z.T, rtol=1e-10)


@pytest.mark.parametrize("embedding", [NystroemMean(), Pool(("mean", "deviation")), KernelMean()])
def test_units_of_spread_are_free_of_the_scale(embedding):
    small, large = zoo(n_features=2, scale=1e-3)["equal"], zoo(n_features=2, scale=1e3)["equal"]
    K = SecondKernel(embedding).fit_transform(small)
    np.testing.assert_allclose(K, SecondKernel(embedding).fit_transform(large), atol=1e-6)
    assert 0.1 < K[~np.eye(len(K), dtype=bool)].mean() < 0.7  # a bandwidth of 1 is of the size of the distances


def test_l1_is_the_distance_not_squared():
    bags = zoo()["equal"]
    rows = SlicedQuantiles(quantiles=6).fit_transform(bags)
    K = SecondKernel(SlicedQuantiles(quantiles=6), k.Gaussian(0.7), distance="l1", units="label").fit_transform(bags)
    np.testing.assert_allclose(K, np.exp(-cdist(rows, rows, "cityblock") / (2 * 0.7**2)), rtol=1e-10)
    assert np.linalg.eigvalsh(K)[0] > -1e-12  # still a kernel


@pytest.mark.parametrize("distance", ["l1", "l2"])
def test_landmark_bags_give_features_with_the_same_inner_products(distance):
    """With all bags but one as landmarks the Gram matrix is reproduced, and the head uses features."""
    bags = ZOO["equal"]
    full = SecondKernel(NystroemMean(), k.Gaussian(1.0), distance=distance)
    K = full.fit_transform(bags)
    few = SecondKernel(NystroemMean(), k.Gaussian(1.0), distance=distance, landmarks=len(bags) - 1)
    F = few.fit_transform(bags)
    assert (full.columns, few.columns) == ("gram", "features")
    close = np.isclose(F @ F.T, K, atol=1e-8)
    assert close.sum() >= len(bags) ** 2 - 1  # all but the left-out bag with itself
    np.testing.assert_allclose(few.transform(bags[:3]), F[:3], atol=1e-8)
    few.set_params(landmarks=100).fit(bags)
    assert few.columns == "gram"  # nothing is left from the first fit


@pytest.mark.parametrize("name", ["two bags", "constant", "repeated values", "far outlier"])
@pytest.mark.parametrize("distance", ["l1", "l2"])
def test_awkward_bags(name, distance):
    bags = ZOO[name]
    model = EmbeddingRidge(SecondKernel(distance=distance), RidgePath()).fit(bags, np.arange(len(bags)))
    assert np.isfinite(model.predict(bags)).all()
