"""Weights of bags where they enter a likelihood."""

import numpy as np
from scipy.stats import multivariate_normal

from bagwise.regressors.bayesian.evidence_ridge import Evidence
from bagwise.regressors.bayesian.sampled_shrinkage import Posterior
from bagwise.regressors.bayesian.shrinkage import Loss

rng = np.random.default_rng(0)
Z = rng.normal(size=(20, 4))
Y = Z @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=20)
W = rng.uniform(0.2, 2.0, size=20)
W /= W.mean()


def test_weighted_evidence_is_that_of_noise_divided_by_the_weight():
    found = Evidence(Z, Y, W)
    # a flat intercept: a very wide one
    spread = found.noise * (found.ratio * Z @ Z.T + np.diag(1 / W) + 1e8)
    gain = spread - found.noise * np.diag(1 / W)
    expected = gain @ np.linalg.solve(spread, Y)
    np.testing.assert_allclose(found(Z)[0], expected, rtol=1e-5, atol=1e-6)

    def evidence(ratio):
        gamma = found._unit * np.exp(ratio)
        noise = found._noise(gamma)
        return multivariate_normal(np.zeros(20), noise * (gamma * Z @ Z.T + np.diag(1 / W)) + 1e7).logpdf(Y)

    ours, theirs = (np.diff([f(r) for r in (-1.0, 0.5, 2.0)]) for f in (found.log_evidence, evidence))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_evidence_without_weight_is_evidence_without_the_bag():
    kept = np.arange(20) % 4 > 0
    some, left = Evidence(Z, np.where(kept, Y, 1e6), np.where(kept, 1.0, 0.0)), Evidence(Z[kept], Y[kept])
    for ours, theirs in zip(some(Z), left(Z), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_loss_and_posterior_count_a_bag_as_often_as_it_weighs():
    counts = np.array([2.0, 0.0, 1.0, 3.0] * 5)
    copies = np.repeat(np.arange(20), counts.astype(int))
    noise = rng.uniform(0.1, 1.0, size=Z.shape)
    vector = 0.3 * rng.normal(size=7)
    weighted, copied = Loss(Z, noise, Y, 2.0, counts), Loss(Z[copies], noise[copies], Y[copies], 2.0)
    np.testing.assert_allclose(weighted(vector)[0], copied(vector)[0], rtol=1e-12)
    np.testing.assert_allclose(weighted(vector)[1], copied(vector)[1], rtol=1e-10)
    np.testing.assert_allclose(weighted.information(vector), copied.information(vector), rtol=1e-10)
    ours, theirs = Posterior(Z, noise, Y, counts), Posterior(Z[copies], noise[copies], Y[copies])
    for a, b in zip(ours(vector[None]), theirs(vector[None]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    np.testing.assert_allclose(ours.information(vector), theirs.information(vector), rtol=1e-10)
