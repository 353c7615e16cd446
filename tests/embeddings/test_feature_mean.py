import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bagwise as bw
from bagwise import kernels as k
from bagwise import testing
from bagwise.bags.segments import segment_mean
from bagwise.embeddings import FeatureMean, KernelMean, NystroemMean, Pool, Statistics
from bagwise.embeddings.feature_mean import pick_prototypes, whitening
from bagwise.kernels.formulas import FourierFeatures, NystroemFeatures
from bagwise.testing import zoo

ZOO = zoo(n_features=3)
SMALL = {name: bags for name, bags in ZOO.items() if bags.n_instances < 200}
KERNELS = [k.Gaussian(0.7), k.InverseMultiquadric(1.0), k.Cauchy(1.0), k.Exponential(1.0), k.Matern52(1.0), k.Linear()]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_every_instance_a_landmark_is_the_double_loop(kernel, name):
    """Agreement is to the square root of rounding where the kernel matrix of the landmarks is singular."""
    bags = SMALL[name]
    Z = NystroemMean(kernel, units="label").fit_transform(bags)
    exact = testing.mean_gram(kernel, bags)
    np.testing.assert_allclose(Z @ Z.T, exact, rtol=1e-8, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("bandwidth", [0.3, 30.0], ids=["full-rank", "rank-lost-to-rounding"])
def test_whitening_is_a_root_of_the_pseudo_inverse(bandwidth):
    points = np.random.default_rng(0).normal(size=(60, 2))
    gram = k.Gaussian(bandwidth)(points, points)
    root = whitening(gram)
    assert (root.shape[1] == 60) == (bandwidth == 0.3)
    np.testing.assert_allclose(gram @ root @ (root.T @ gram), gram, atol=1e-9)


@pytest.mark.parametrize("pick", ["random", "k-means"])
def test_few_landmarks_come_close(pick):
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(rng.integers(1, 60), 2)) for _ in range(40)])
    embedding = NystroemMean(k.Gaussian(1.0), landmarks=60, pick=pick)
    Z, E = embedding.fit_transform(bags), KernelMean(k.Gaussian(1.0)).fit_transform(bags)
    assert embedding.landmarks_.shape == (60, 2)
    assert np.abs(Z @ Z.T - E @ E.T).max() < 1e-3


def test_many_instances_get_fewer_landmarks_unasked(monkeypatch):
    monkeypatch.setattr("bagwise.embeddings.feature_mean.LANDMARKS", (3, 50))
    assert len(NystroemMean().fit(ZOO["equal"]).landmarks_) == 48
    monkeypatch.setattr("bagwise.embeddings.feature_mean.PAIRS", 48 * 10)
    assert len(NystroemMean().fit(ZOO["equal"]).landmarks_) == 10
    monkeypatch.setattr("bagwise.embeddings.feature_mean.PAIRS", 1)
    assert len(NystroemMean().fit(ZOO["equal"]).landmarks_) == 3


@pytest.mark.parametrize("features", [FourierFeatures(64), NystroemFeatures(30), PolynomialFeatures(2)])
def test_the_mean_of_features_is_the_mean_of_features(features, monkeypatch):
    monkeypatch.setattr("bagwise.embeddings.feature_mean.BLOCK_ROWS", 5)  # bags cut in two by block borders
    bags = ZOO["ragged"]
    embedding = FeatureMean(features).fit(bags)
    expected = segment_mean(embedding.features_.transform(bags.instances), bags.offsets)
    np.testing.assert_allclose(embedding.transform(bags), expected, rtol=1e-9, atol=1e-10)


def test_fourier_features_approximate_the_kernel_mean():
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(30, 2)) + rng.normal(size=2) for _ in range(20)])
    embedding = FeatureMean(FourierFeatures(4000, linear=False))
    Z = embedding.fit_transform(bags)
    standard = bags.replace(StandardScaler().fit_transform(bags.instances))
    exact = testing.mean_gram(k.Gaussian(embedding.features_.bandwidth_), standard[:6])
    np.testing.assert_allclose(Z[:6] @ Z[:6].T, exact, atol=0.05)


def test_landmarks_do_not_depend_on_the_order_of_the_bags():
    bags = ZOO["ragged"]
    order = np.random.default_rng(1).permutation(len(bags))
    np.testing.assert_array_equal(
        NystroemMean(landmarks=9).fit(bags).landmarks_, NystroemMean(landmarks=9).fit(bags[order]).landmarks_
    )
    rows = bags.instances
    assert (pick_prototypes(rows, 9, random_state=1) != pick_prototypes(rows, 9)).any()


def test_statistics_drop_what_never_varies_and_check_the_targets():
    bags = ZOO["ragged"].replace(np.column_stack([ZOO["ragged"].instances[:, :1], np.zeros(ZOO["ragged"].n_instances)]))
    embedding = Statistics(("mean", "max", "size"))
    whole = Pool(("mean", "max", "size")).fit_transform(bags)
    np.testing.assert_array_equal(embedding.fit_transform(bags), whole[:, [0, 2, 4]])
    np.testing.assert_array_equal(embedding.transform(bags), whole[:, [0, 2, 4]])
    assert Statistics(("mean",)).fit_transform(bags.replace(np.ones((bags.n_instances, 1)))).shape == (len(bags), 1)
    with pytest.raises(ValueError, match="y has 1 values for 7 bags"):
        Statistics().fit(bags, [1.0])
