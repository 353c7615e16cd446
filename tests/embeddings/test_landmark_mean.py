import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans

from bagwise.embeddings import LandmarkMean
from bagwise.embeddings.feature_mean import k_means_centres
from bagwise.testing import zoo

PLACEMENTS = ("kmeans", "random", "quantiles")


def rows_of(embedding, bag):
    return embedding.kernel_((bag - embedding.centre_) / embedding.scale_, embedding.landmarks_)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", zoo())
def test_means_and_noise_are_those_of_the_features(name, placement, monkeypatch):
    monkeypatch.setattr("bagwise.embeddings.feature_mean.LANDMARK_BLOCK", 5 if name != "one huge" else 4096)
    bags = zoo()[name]
    embedding = LandmarkMean(landmarks=4, placement=placement)
    means = embedding.fit_transform(bags)
    features = [rows_of(embedding, bag) for bag in bags]
    np.testing.assert_allclose(means, [phi.mean(axis=0) for phi in features], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(embedding.transform(bags), means, rtol=1e-12)
    inside = [np.cov(phi.T) for phi in features if len(phi) > 1]
    s = len(embedding.landmarks_)
    expected = np.mean(inside, axis=0).reshape(s, s) if inside else np.zeros((s, s))
    np.testing.assert_allclose(embedding.noise_, expected, atol=1e-12)


def test_units_do_not_matter():
    bags = zoo(n_features=3)["ragged"]
    plain = LandmarkMean(landmarks=6).fit_transform(bags)
    for scale in ([1e-12, 1.0, 1e12], [1e12, 1e12, 1e12]):
        other = bags.replace(bags.instances * scale + [0.0, 5.0, 0.0])
        np.testing.assert_allclose(LandmarkMean(landmarks=6).fit_transform(other), plain, rtol=1e-7)
    stuck = bags.replace(np.column_stack([bags.instances, np.full(bags.n_instances, 0.1)]))
    np.testing.assert_allclose(LandmarkMean(landmarks=6).fit_transform(stuck), plain, rtol=1e-9)


def test_bandwidth_one_is_the_median_rule():
    bags = zoo(n_features=2)["equal"]
    embedding = LandmarkMean().fit(bags)
    seen = (bags.instances - embedding.centre_) / embedding.scale_
    pairs = np.subtract.outer(np.arange(len(seen)), np.arange(len(seen))) > 0
    squares = ((seen[:, None] - seen[None]) ** 2).sum(axis=2)[pairs]
    assert np.median(squares) == pytest.approx(2.0)


def test_landmarks():
    bags = zoo()["few distinct values"]
    few = LandmarkMean(landmarks=60).fit(bags)
    assert len(few.landmarks_) == len(np.unique(bags.instances)) < 60
    at = LandmarkMean(landmarks=5, placement="quantiles").fit(zoo()["one huge"]).landmarks_
    assert (np.diff(at[:, 0]) > 0).all() and len(at) == 5
    bags = zoo(n_features=2)["one huge"]
    one, two = (LandmarkMean(landmarks=9, placement="random", random_state=seed).fit(bags) for seed in (0, 1))
    assert not np.allclose(one.landmarks_, two.landmarks_)
    np.testing.assert_array_equal(clone(one).fit(bags).landmarks_, one.landmarks_)


@pytest.mark.kernels
def test_rounding_does_not_choose_the_landmarks():
    """Rows that are nearest to one another are equally good to begin with, and the last digit chose between them."""
    X = np.random.default_rng(0).normal(size=(80, 5))
    plain = k_means_centres(X, 60, np.random.RandomState(0))
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = X * (1 + 2e-16 * rng.integers(-1, 2, size=X.shape))
        np.testing.assert_allclose(k_means_centres(other, 60, np.random.RandomState(0)), plain, atol=1e-12)


def test_centres_are_those_of_k_means_where_nothing_ties():
    X = np.random.default_rng(1).normal(size=(400, 4))
    plain = KMeans(10, n_init=1, random_state=3).fit(X).cluster_centers_
    np.testing.assert_allclose(k_means_centres(X, 10, np.random.RandomState(3)), plain, atol=1e-12)
