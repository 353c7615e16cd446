import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import halfnorm, norm

import bagwise as bw
from bagwise.embeddings import LandmarkMean
from bagwise.regressors import SampledShrinkage, Shrinkage
from bagwise.regressors.bayesian.sampled_shrinkage import Posterior, hamiltonian, split_rhat


def test_a_conjugate_posterior_is_drawn():
    """Linear regression with known noise: draws have the mean and the covariance of the closed form."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 5)) * [3.0, 1.0, 1.0, 0.3, 0.1]
    y = A @ rng.normal(size=5) + 0.5 * rng.normal(size=30)
    precision = A.T @ A / 0.25 + np.eye(5)
    mean, covariance = np.linalg.solve(precision, A.T @ y / 0.25), np.linalg.inv(precision)

    def log_density(w):
        error = y - w @ A.T
        return -0.5 * ((error**2).sum(axis=1) / 0.25 + (w**2).sum(axis=1)), error @ A / 0.25 - w

    draws, acceptance = hamiltonian(log_density, np.zeros(5), np.diag(np.diag(precision)), draws=1500)
    flat = draws.reshape(-1, 5)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(flat.mean(axis=0) / deviation, mean / deviation, atol=0.1)
    units = np.outer(deviation, deviation)
    np.testing.assert_allclose(np.cov(flat.T) / units, covariance / units, atol=0.12)
    assert split_rhat(draws).max() < 1.02 and 0.6 < acceptance < 1.0


def test_what_is_not_normal_is_drawn_too():
    """Independent logistic variables: known variance and tails."""

    def log_density(x):
        return -(x + 2 * np.log1p(np.exp(-x))).sum(axis=1), -1 + 2 / (1 + np.exp(x))

    draws, _ = hamiltonian(log_density, np.zeros(3), np.eye(3) / 3, draws=2000)
    assert draws.var() == pytest.approx(np.pi**2 / 3, rel=0.1)
    assert np.mean(draws > np.log(9)) == pytest.approx(0.1, abs=0.015)


def logistic_regression(turn):
    """Log density of five weights with a normal prior, in coordinates turned by ``turn``; start and precision."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 5)) * [2.0, 1.0, 1.0, 0.5, 0.1] @ turn.T
    s = np.sign(rng.normal(size=40))

    def log_density(w):
        margin = s * (w @ A.T)
        return -np.logaddexp(0, -margin).sum(axis=1) - 0.5 * (w**2).sum(axis=1), (s / (1 + np.exp(margin))) @ A - w

    return log_density, np.zeros(5), A.T @ A / 4 + np.eye(5)


@pytest.mark.kernels
def test_turned_coordinates_and_rounding_do_not_change_what_is_drawn():
    """The same draws where another CPU turns eigenvectors, and where every value is rounded to nine digits."""
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))[0]
    plain, _ = hamiltonian(*logistic_regression(np.eye(5)), frame=np.eye(5))
    turned, _ = hamiltonian(*logistic_regression(turn), frame=turn.T)
    density, *rest = logistic_regression(np.eye(5))

    def rounded(w):
        value, gradient = density(w)
        return value, gradient * (1.0 + 1e-9 * np.sin(1e9 * gradient))

    np.testing.assert_allclose(turned @ turn, plain, atol=1e-9)
    np.testing.assert_allclose(hamiltonian(rounded, *rest)[0], plain, atol=1e-6)


def test_split_rhat_sees_chains_that_disagree_or_drift():
    rng = np.random.default_rng(0)
    good = rng.normal(size=(4, 200, 1))
    assert split_rhat(good)[0] == pytest.approx(1.0, abs=0.02)
    assert split_rhat(good + np.arange(4)[:, None, None])[0] > 1.3
    assert split_rhat(good + np.linspace(0, 3, 200)[:, None])[0] > 1.2
    assert split_rhat(np.zeros((2, 10, 1)))[0] < 1.01  # a number that never moves


def model_of(seed=0, n=15, r=3):
    rng = np.random.default_rng(seed)
    posterior = Posterior(rng.normal(size=(n, r)), rng.uniform(0.1, 1.0, size=(n, r)), rng.normal(size=n))
    return posterior, rng.normal(size=r + 3)


def test_the_posterior_is_the_one_written_down():
    posterior, at = model_of()
    other = at + 0.3

    def written(vector):
        w, b, kappa, sigma2 = vector[:-3], vector[-3], *np.exp(vector[-2:])
        v = posterior.variance @ w**2 + sigma2
        likelihood = norm.logpdf(posterior.y, posterior.mean @ w + b, np.sqrt(v)).sum()
        priors = norm.logpdf(w, 0, kappa).sum() + norm.logpdf(b, 0, 2) + halfnorm.logpdf([kappa, sigma2], scale=2).sum()
        return likelihood + priors + vector[-2] + vector[-1]

    values, _ = posterior(np.stack([at, other]))
    assert values[1] - values[0] == pytest.approx(written(other) - written(at), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_differences(seed):
    posterior, at = model_of(seed)
    error = check_grad(lambda v: posterior(v[None])[0][0], lambda v: posterior(v[None])[1][0], at)
    assert error < 1e-4 * np.linalg.norm(posterior(at[None])[1])


def spreads(n_bags, sizes=(2, 5, 60), seed=0):
    rng = np.random.default_rng(seed)
    y = rng.uniform(-0.7, 0.7, size=n_bags)
    return bw.from_arrays([np.exp(t) * rng.normal(size=(rng.choice(sizes), 1)) for t in y]), y


@pytest.fixture(scope="module")
def sampled():
    bags, y = spreads(400)
    y = y + 0.05 * np.random.default_rng(1).normal(size=400)
    return SampledShrinkage(Shrinkage(LandmarkMean(landmarks=10))).fit(bags[:150], y[:150]), bags, y


def test_predictions_are_the_average_over_draws(sampled):
    model, bags, y = sampled
    m, v = model.shrinkage_.embed(bags[:20])
    draws = model.draws_.reshape(-1, model.draws_.shape[-1])
    w, b, sigma2 = draws[:, :-3], draws[:, -3], np.exp(draws[:, -1])
    means, variances = m @ w.T + b, v @ (w**2).T + sigma2
    mean, std = model.predict(bags[:20], return_std=True)
    scale = model.target_.scale
    np.testing.assert_allclose(mean, model.target_.mean + scale * means.mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(std, scale * np.sqrt(variances.mean(axis=1) + means.var(axis=1, ddof=1)), rtol=1e-6)


def test_chains_agree_and_intervals_cover(sampled):
    model, bags, y = sampled
    assert model.rhat_.max() < 1.1 and np.isfinite(model.rhat_).all() and 0.6 < model.acceptance_ < 1.0
    mean, std = model.predict(bags[150:], return_std=True)
    assert 0.84 < np.mean(np.abs(mean - y[150:]) < 1.645 * std) < 0.96
    assert std[bags[150:].sizes == 2].mean() > 1.3 * std[bags[150:].sizes == 60].mean()
