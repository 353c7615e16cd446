import numpy as np
import pytest
from scipy.stats import multivariate_normal

import bagwise as bw
from bagwise.embeddings import KernelMean, LandmarkMean, Pool
from bagwise.kernels import Gaussian
from bagwise.regressors import EvidenceRidge, Shrinkage
from bagwise.regressors.bayesian.evidence_ridge import (
    LOG_RATIOS,
    Evidence,
    TargetScale,
    few_folds,
    negative_log_likelihood,
)


def problem(n_bags, n_columns, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n_bags, n_columns)) * np.logspace(0, -2, n_columns)
    return Z, Z @ rng.normal(size=n_columns) + noise * rng.normal(size=n_bags)


def without_mean(n):
    """An orthonormal basis of what is left of n numbers when their mean is taken out."""
    return np.linalg.svd(np.eye(n) - 1.0 / n)[0][:, : n - 1]


@pytest.mark.parametrize("shape", [(40, 5), (6, 20)])
def test_the_evidence_is_a_normal_density(shape):
    Z, y = problem(*shape)
    evidence, basis = Evidence(Z, y), without_mean(len(y))
    for log_ratio in (-3.0, 0.0, 4.0):
        gamma = evidence._unit * np.exp(log_ratio)
        noise = evidence._noise(gamma)
        covariance = noise * basis.T @ (np.eye(len(y)) + gamma * Z @ Z.T) @ basis
        expected = multivariate_normal.logpdf(basis.T @ y, np.zeros(len(y) - 1), covariance)
        assert evidence.log_evidence(log_ratio) == pytest.approx(expected, rel=1e-8)
        for factor in (0.9, 1.1):  # the closed form of the noise is where the density is largest
            other = multivariate_normal.logpdf(basis.T @ y, np.zeros(len(y) - 1), factor * covariance)
            assert other < expected


def test_the_ratio_is_where_the_evidence_is_largest():
    Z, y = problem(60, 6)
    evidence = Evidence(Z, y)
    best = np.log(evidence.ratio / evidence._unit)
    largest = max(evidence.log_evidence(at) for at in np.linspace(LOG_RATIOS[0], LOG_RATIOS[-1], 2001))
    assert evidence.log_evidence(best) == pytest.approx(largest, abs=1e-2)


@pytest.mark.parametrize("shape", [(30, 4), (5, 12)])
def test_prediction_is_the_posterior_by_dense_solves(shape):
    """With a flat prior on the intercept: a column of ones of enormous prior variance."""
    Z, y = problem(*shape)
    new = np.random.default_rng(1).normal(size=(7, shape[1]))
    evidence = Evidence(Z, y)
    rho2 = evidence.noise * evidence.ratio
    A, B = np.column_stack([Z, np.ones(len(Z))]), np.column_stack([new, np.ones(7)])
    precision = A.T @ A / evidence.noise + np.diag([1 / rho2] * shape[1] + [0.0])
    mean, variance = evidence(new)
    np.testing.assert_allclose(mean, B @ np.linalg.solve(precision, A.T @ y) / evidence.noise, rtol=1e-7)
    spread = np.einsum("ij,ji->i", B, np.linalg.solve(precision, B.T))
    np.testing.assert_allclose(variance, spread + evidence.noise, rtol=1e-7)


def scales(n_bags, sizes=(5, 60), seed=0):
    """The target is the logarithm of the spread of the bag."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-0.7, 0.7, size=n_bags)
    return bw.from_arrays([np.exp(t) * rng.normal(size=(rng.choice(sizes), 2)) for t in y]), y


def test_the_setting_of_highest_held_out_likelihood_is_taken():
    bags, y = scales(80)
    grid = {"kernel": [Gaussian(1e-3), Gaussian(1.0), Gaussian(1e3)], "landmarks": [5, 15]}
    model = EvidenceRidge(grid=grid).fit(bags, y)
    assert model.setting_["kernel"].bandwidth == 1.0 and len(model.search_) == 6
    assert min(model.search_, key=lambda tried: tried[1])[0] == model.setting_


def test_any_embedding_of_features_will_do():
    bags, y = scales(60)
    for embedding in (KernelMean(), Pool(("deviation", "mean"))):
        mean, std = EvidenceRidge(embedding).fit(bags, y).predict(bags, return_std=True)
        assert np.corrcoef(mean, y)[0, 1] > 0.7 and (std > 0).all()


@pytest.mark.parametrize("model", [EvidenceRidge(), Shrinkage()], ids=lambda m: type(m).__name__)
def test_groups_stay_together_in_every_choice(model):
    bags, y = scales(24)
    grouped = bw.from_arrays(list(bags), groups=np.arange(24) // 2)
    fold = few_folds(grouped, 5, 0)
    assert (fold[::2] == fold[1::2]).all() and fold.max() == 4
    assert few_folds(grouped[:4], 5, 0).max() == 1
    model.set_params(embedding=LandmarkMean(landmarks=4), grid={"kernel": [Gaussian(0.5), Gaussian(2.0)]})
    apart = [row[-1] for row in model.fit(bags, y).search_]
    assert not np.allclose([row[-1] for row in model.fit(grouped, y).search_], apart)


def test_the_scale_of_targets():
    y = np.array([1.0, 4.0, 7.0])
    weighted = TargetScale.of(np.array([1.0, 3.0, 1e9]), np.array([3.0, 1.0, 0.0]))
    assert weighted == TargetScale(1.5, np.sqrt(0.75))
    target = TargetScale.of(1e-12 * y)
    np.testing.assert_allclose(target.standardised(1e-12 * y), (y - 4) / np.std(y))
    mean, std = target.restored(np.array([1.0]), np.array([4.0]))
    np.testing.assert_allclose([mean[0], std[0]], [1e-12 * (4 + np.std(y)), 2e-12 * np.std(y)])
    expected = -multivariate_normal.logpdf(2.0, 1.0, 0.25)
    np.testing.assert_allclose(negative_log_likelihood([2.0], [1.0], [0.5]), expected)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.0, 1e14, 1e-300])
def test_a_constant_is_constant_at_any_size(value):
    weight = np.random.default_rng(0).uniform(0.1, 3.0, size=10_001)
    for weights in (None, weight):
        assert TargetScale.of(np.full(10_001, value), weights).scale == 0.0
    sums = np.array([0.1 + 0.2, 0.3, 0.7 - 0.4])
    assert np.ptp(sums) > 0 and TargetScale.of(sums).scale == 0.0


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e8, 1e12, 1e14])
def test_what_varies_is_not(mean):
    y = mean + np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(TargetScale.of(y).scale, y.std(), rtol=1e-12)


@pytest.mark.parametrize("name", ["blr", "shrinkage"])
def test_targets_far_from_zero_are_learned(name):
    """With 1e14 added to the targets, one constant was predicted, and with certainty."""
    bags, y = bw.datasets.make_problem("mean", 60, random_state=0)
    y = np.round(20 * y)  # whole numbers: the sum below is exact
    model = bw.method(name)
    near, near_std = model.fit(bags, y).predict(bags, return_std=True)
    far, far_std = model.fit(bags, y + 1e14).predict(bags, return_std=True)
    np.testing.assert_allclose(far - 1e14, near, atol=0.2 * near.std())
    np.testing.assert_allclose(far_std, near_std, rtol=0.2)
