import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import norm

import bagwise as bw
from bagwise.embeddings import LandmarkMean
from bagwise.kernels import Gaussian
from bagwise.regressors import EvidenceRidge, Shrinkage
from bagwise.regressors.bayesian.evidence_ridge import negative_log_likelihood
from bagwise.regressors.bayesian.shrinkage import (
    FLOOR,
    PRIORS,
    Coordinates,
    Loss,
    between_covariance,
    minimum,
    prior_covariance,
    shrink,
    unpacked,
)


def spreads(n_bags, sizes=(2, 5, 60), seed=0, noise=0.0):
    """The target is the logarithm of the spread of the bag: small bags say little of it."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-0.7, 0.7, size=n_bags)
    arrays = [np.exp(t) * rng.normal(size=(rng.choice(sizes), 1)) for t in y]
    return bw.from_arrays(arrays), y + noise * rng.normal(size=n_bags)


def fitted(prior="kernel", **options):
    bags, y = spreads(60)
    return Shrinkage(LandmarkMean(landmarks=8), prior=prior, penalties=(1.0,), **options).fit(bags, y), bags, y


@pytest.mark.parametrize("prior", PRIORS)
def test_the_posterior_is_that_of_a_solve_per_bag(prior):
    """M = R(R + Σ/N)⁻¹(μ̂ - m0) + m0 and C = R - R(R + Σ/N)⁻¹R, for every size, from one decomposition."""
    model, bags, y = fitted(prior)
    embedding, means = model.embedding_, model.embedding_.transform(bags)
    R = prior_covariance(prior, embedding, means, bags.sizes)
    axes = model.coordinates_.axes
    R = R / (axes.T @ R @ axes)[0, 0] * model.eta_  # its units are those in which the coordinates have mean square 1
    alpha = axes @ model.weights_
    mean, std = model.predict(bags, return_std=True)
    unsure = np.column_stack([model.embed(bags)[0], np.ones(len(bags))])
    unsure = np.einsum("ij,jk,ik->i", unsure, model.covariance_, unsure)
    for i, size in enumerate(bags.sizes):
        gain = R @ np.linalg.inv(R + embedding.noise_ / size)
        M = gain @ (means[i] - means.mean(axis=0))
        C = R - gain @ R
        m = model.intercept_ + alpha @ M
        v = alpha @ C @ alpha + model.variance_ + unsure[i]
        assert mean[i] == pytest.approx(y.mean() + y.std() * m, rel=1e-4)
        assert std[i] == pytest.approx(y.std() * np.sqrt(v), rel=1e-4)


def test_both_matrices_are_diagonal():
    rng = np.random.default_rng(0)
    R, noise = (a @ a.T for a in rng.normal(size=(2, 6, 6)))
    means, sizes = rng.normal(size=(30, 6)), rng.integers(1, 9, size=30)
    coordinates = Coordinates.of(R, noise, means, sizes)
    V = coordinates.axes
    unit = (V.T @ R @ V)[0, 0]
    np.testing.assert_allclose(V.T @ R @ V, unit * np.eye(6), atol=1e-9)
    np.testing.assert_allclose(V.T @ noise @ V, np.diag(coordinates.noise), atol=1e-9)
    assert np.average(coordinates(means) ** 2, axis=0, weights=sizes).mean() == pytest.approx(1.0)
    singular = Coordinates.of(np.ones((6, 6)), noise, means, sizes)  # a prior of rank one leaves one coordinate
    assert singular.axes.shape == (6, 1)


def test_the_signs_of_eigenvectors_do_not_matter(monkeypatch):
    """They are an accident of the library, and the draws of `bdr` start from these coordinates."""
    bags, _ = bw.datasets.make_gaussian(30, instances=6)
    embedding = LandmarkMean(landmarks=5)
    means, sizes = embedding.fit_transform(bags), bags.effective_sizes()
    given = prior_covariance("between", embedding, means, sizes), embedding.noise_, means, sizes
    expected, eigh, random = Coordinates.of(*given), np.linalg.eigh, np.random.default_rng(0)

    def elsewhere(A):
        values, vectors = eigh(A)
        return values, vectors * random.choice([-1.0, 1.0], size=len(A))

    monkeypatch.setattr(np.linalg, "eigh", elsewhere)
    np.testing.assert_allclose(
        Coordinates.of(*given).axes, expected.axes, rtol=1e-9, atol=1e-9 * np.abs(expected.axes).max()
    )


@pytest.mark.parametrize("penalty", [0.1, 100.0])
def test_the_gradient_is_that_of_differences(penalty):
    rng = np.random.default_rng(0)
    loss = Loss(rng.normal(size=(20, 4)), rng.uniform(0.1, 2.0, size=(20, 4)), rng.normal(size=20), penalty)
    for seed in range(3):
        at = np.random.default_rng(seed).normal(size=7)
        assert check_grad(lambda v: loss(v)[0], lambda v: loss(v)[1], at) < 1e-4 * np.linalg.norm(loss(at)[1])


def test_the_loss_is_the_negative_log_likelihood_and_the_penalty():
    rng = np.random.default_rng(0)
    z, noise, y = rng.normal(size=(20, 4)), rng.uniform(0.1, 2.0, size=(20, 4)), rng.normal(size=20)
    vector = rng.normal(size=7)
    w, b, sigma2, eta = unpacked(vector)
    assert sigma2 == pytest.approx(np.exp(vector[-2]) + FLOOR)
    mean, variance = shrink(z, noise, eta)
    expected = -norm.logpdf(y, mean @ w + b, np.sqrt(variance @ w**2 + sigma2)).sum() - 10 * np.log(2 * np.pi)
    expected += 0.5 * 3.0 * w @ w + 0.5 * ((vector[-2] + 1) ** 2 + vector[-1] ** 2) / 9
    assert Loss(z, noise, y, 3.0)(vector)[0] == pytest.approx(expected)


def test_the_information_is_the_mean_curvature():
    """At the truth; targets enter the curvature by two moments, which one deviation up and one down have exactly."""
    rng = np.random.default_rng(0)
    z, noise = rng.normal(size=(30, 2)), rng.uniform(0.5, 2.0, size=(30, 2))
    vector = np.array([1.0, -0.5, 0.3, -1.0, 0.0])  # log σ² and log η at the centres of their priors
    w, b, sigma2, eta = unpacked(vector)
    mean, variance = shrink(z, noise, eta)
    deviation = np.sqrt(variance @ w**2 + sigma2)
    losses = [Loss(z, noise, mean @ w + b + sign * deviation, 2.0) for sign in (-1, 1)]

    def gradient(at):
        return (losses[0](at)[1] + losses[1](at)[1]) / 2

    columns = [(gradient(vector + 1e-5 * e) - gradient(vector - 1e-5 * e)) / 2e-5 for e in np.eye(5)]
    np.testing.assert_allclose(losses[0].information(vector), columns, rtol=1e-5, atol=1e-5)


def test_the_minimum_is_one():
    rng = np.random.default_rng(0)
    z, noise = rng.normal(size=(80, 10)), rng.uniform(0.1, 2.0, size=(80, 10))
    loss = Loss(z, noise, z[:, 0] + 0.1 * rng.normal(size=80), 1.0)
    found = minimum(loss, loss.start(), 1e-10)
    assert np.abs(loss(found)[1]).max() < 1e-2
    again = minimum(loss, rng.normal(size=13), 1e-10)
    np.testing.assert_allclose(again, found, atol=1e-3)


def test_what_bags_differ_by_is_told_from_their_noise():
    """The covariance between bags is unbiased, whatever their sizes."""
    rng = np.random.default_rng(0)
    truth, noise = np.diag([4.0, 1.0, 0.0]), np.diag([1.0, 9.0, 2.0])
    sizes = rng.choice([1, 3, 50], size=4000)
    means = rng.normal(size=(4000, 3)) * [2.0, 1.0, 0.0]
    means += rng.normal(size=(4000, 3)) * [1, 3, 2**0.5] / sizes[:, None] ** 0.5
    np.testing.assert_allclose(between_covariance(means, sizes, noise), truth, atol=0.25)


@pytest.mark.parametrize("prior", PRIORS)
def test_it_beats_what_ignores_the_size_of_bags(prior):
    bags, y = spreads(500, noise=0.05)
    embedding = LandmarkMean(landmarks=12)
    scores = {}
    for name, model in (("flat", EvidenceRidge(embedding)), ("aware", Shrinkage(embedding, prior=prior))):
        mean, std = model.fit(bags[:200], y[:200]).predict(bags[200:], return_std=True)
        scores[name] = np.mean((mean - y[200:]) ** 2), negative_log_likelihood(y[200:], mean, std).mean()
    covered = np.mean(np.abs(mean - y[200:]) < 1.645 * std)
    assert scores["aware"][0] < 0.95 * scores["flat"][0] and scores["aware"][1] < scores["flat"][1] - 0.1
    assert 0.84 < covered < 0.96


def test_every_setting_is_tried_with_every_penalty():
    grid = {"kernel": [Gaussian(0.5), Gaussian(1.0)]}
    model = Shrinkage(LandmarkMean(landmarks=3), grid=grid, penalties=(1.0, 9.0)).fit(*spreads(10))
    assert len(model.search_) == 4
