import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.base import clone

import bagwise as bw
from bagwise.embeddings import KernelMean
from bagwise.kernels import Gaussian, InverseMultiquadric, MarginalPseudolikelihood, MedianDistance, with_bandwidth
from bagwise.kernels.bandwidths import Features, draw_bags, draw_instances, smoothed
from bagwise.testing import zoo

RULES = [MedianDistance(), MarginalPseudolikelihood()]


def kind(rule):
    return type(rule).__name__


def naive_log_density(bags, z, bandwidth, noise):
    """Compute the normal density of the stacked features of each bag, and log sqrt det JᵀJ by differences."""
    kernel, m, total = Gaussian(bandwidth), len(z), 0.0
    for X in bags:
        n = len(X)
        covariance = np.kron(np.ones((n, n)), smoothed(z, bandwidth, 1.0)) + noise * np.eye(m * n)
        total += multivariate_normal.logpdf(kernel(X, z).ravel(), np.zeros(m * n), covariance)
        for x in X:
            J = np.array([approx_fprime(x, lambda a, u=u: kernel(a[None], u[None])[0, 0], 1e-7) for u in z])
            total += 0.5 * np.linalg.slogdet(J.T @ J)[1]
    return total


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("bandwidth", [0.8, 2.0])
def test_the_log_density_is_that_of_the_stacked_features(d, bandwidth):
    rng = np.random.default_rng(d)
    arrays = [rng.normal(size=(n, d)) for n in (1, 4, 3)]
    bags, z = bw.from_arrays(arrays), rng.normal(size=(d, d))
    volume = sum(np.linalg.slogdet(z - x)[1] for x in bags.instances)
    ours = Features(bags.instances, bags.offsets, z, bandwidth).log_density(0.07) + volume
    np.testing.assert_allclose(ours, naive_log_density(arrays, z, bandwidth, 0.07), rtol=1e-5)


def test_the_smoothed_kernel_is_an_integral():
    z, bandwidth, width = np.array([[-0.4], [1.1]]), 0.7, 1.3

    def integrand(t, a, b):
        density = np.exp(-(t**2) / (2 * width**2)) / np.sqrt(2 * np.pi * width**2)
        return np.exp(-((a - t) ** 2 + (t - b) ** 2) / (2 * bandwidth**2)) * density

    expected = [[quad(integrand, -12, 12, args=(a, b))[0] for b in z[:, 0]] for a in z[:, 0]]
    np.testing.assert_allclose(smoothed(z, bandwidth, width), expected, rtol=1e-9)


def test_the_rule_is_where_the_density_is_largest():
    X = np.random.default_rng(0).normal(size=(120, 1))
    rule = MarginalPseudolikelihood(sets=4)
    best = rule.fit(X)
    spread = np.sqrt(np.mean((X - X.mean()) ** 2))

    drawn = (draw_bags(X, 400, 20)[0] - X.mean()) / spread
    chosen = np.random.default_rng(0).permutation(len(X))[:4]

    def density(bandwidth, noise):
        others = [np.delete(drawn, i, axis=0) for i in chosen]
        pairs = zip(others, drawn[chosen], strict=True)
        return sum(Features(o, np.array([0, 119]), z[None], bandwidth).log_density(noise) for o, z in pairs)

    at = density(best / spread, rule.noise_)
    for factor in (0.97, 1.03):
        assert density(factor * best / spread, rule.noise_) < at
        assert density(best / spread, factor * rule.noise_) < at


@pytest.mark.parametrize("rule", RULES, ids=kind)
def test_laws(rule):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) @ [[1.0, 0.3], [0.0, 0.5]] for n in (1, 30, 4, 200, 2, 60)]
    bags = bw.from_arrays(arrays)
    found = clone(rule).fit(bags)
    assert found == pytest.approx(clone(rule).fit(bw.from_arrays([bag[::-1] for bag in arrays[::-1]])), rel=1e-9)
    for scale in (1e-12, 1e12):
        assert clone(rule).fit(bags.replace(scale * bags.instances)) == pytest.approx(scale * found, rel=1e-6)
    assert clone(rule).fit(bags.replace(bags.instances + 100.0)) == pytest.approx(found, rel=1e-6)
    wide = bags.replace(np.column_stack([bags.instances, np.full(bags.n_instances, 3.0)]))
    assert clone(rule).fit(wide) == pytest.approx(found, rel=1e-6)  # a constant column changes no distance


@pytest.mark.parametrize("name", zoo())
@pytest.mark.parametrize("rule", RULES, ids=kind)
def test_every_bag_of_the_zoo_has_a_bandwidth(rule, name):
    for bags in (zoo()[name], zoo(n_features=3)[name]):
        assert 0 < clone(rule).fit(bags) < np.inf
    assert clone(rule).fit(zoo()["constant"]) == 1.0


def test_a_kernel_takes_a_rule():
    bags = zoo()["ragged"]
    for kernel in (Gaussian, InverseMultiquadric):
        embedding = KernelMean(kernel(MedianDistance()), units="label").fit(bags)
        assert embedding.kernel_.bandwidth == MedianDistance().fit(bags)
        same = KernelMean(kernel(MedianDistance().fit(bags)), units="label")
        np.testing.assert_array_equal(embedding.transform(bags), same.fit_transform(bags))
    assert "bandwidth_" not in vars(embedding.kernel.bandwidth)  # the rule passed in is not fitted itself
    plain = Gaussian(2.0)
    assert with_bandwidth(plain, bags) is plain


def test_draws_weigh_bags_equally_and_forget_the_order():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 1)) + 100 * i for i, n in enumerate([10, 1000, 100])]
    rows = draw_instances(bw.from_arrays(arrays), 15, random_state=3)
    assert rows.shape == (15, 1) and len(np.unique(rows)) == 15
    counts = np.bincount(np.round(rows[:, 0] / 100).astype(int), minlength=3)
    assert counts.min() >= 2
    turned = bw.from_arrays([bag[::-1] for bag in arrays])
    np.testing.assert_array_equal(draw_instances(turned, 15, random_state=3), rows)
    rows, bag = draw_bags(bw.from_arrays(arrays), 40, 20)
    assert len(rows) == 40 and (np.diff(np.flatnonzero(np.diff(bag))) >= 1).all() and len(np.unique(bag)) >= 2
