"""aggregate-gp is the exact process with aggregated covariance, and Laplace's posterior as scipy finds it."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import poisson

import bagwise as bw
from bagwise.kernels import Gaussian, Matern32
from bagwise.kernels.formulas import NystroemFeatures
from bagwise.regressors import AggregateGP
from bagwise.regressors.bayesian import aggregate_gp
from bagwise.testing import bag_estimator_checks

FORMULAS = {"gaussian": Gaussian, "matern32": Matern32}
KINDS = [("gaussian", "mean"), ("gaussian", "sum"), ("poisson", "mean"), ("poisson", "sum")]
KINDS += [("binomial", "mean"), ("binomial", "sum")]


def simulated(n_bags=40, *, weights=True, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, size=n_bags)
    rows = np.repeat(rng.normal(size=(n_bags, 2)), sizes, axis=0) + 0.5 * rng.normal(size=(sizes.sum(), 2))
    exposure = rng.uniform(1.0, 20.0, size=len(rows)) if weights else None
    return bw.Bags(rows, np.r_[0, np.cumsum(sizes)], weights=exposure)


def targets(bags, likelihood, aggregate, seed=0):
    """Drawn from the model of the docstring, with f(x) = sin(x_1) + x_2 / 2."""
    rng, own = np.random.default_rng(seed), np.ones(bags.n_instances) if bags.weights is None else bags.weights
    f, total = np.sin(bags.instances[:, 0]) + bags.instances[:, 1] / 2, np.add.reduceat(own, bags.offsets[:-1])
    value = {"gaussian": lambda f: f, "poisson": np.exp, "binomial": expit}[likelihood](f)
    sums = np.add.reduceat(own * value, bags.offsets[:-1])
    if likelihood == "gaussian":
        y = sums + 0.1 * np.sqrt(total) * rng.normal(size=len(bags))
    elif likelihood == "poisson":
        y = rng.poisson(sums)
    else:
        y = rng.binomial(np.floor(total).astype(int), sums / total)
    return y if aggregate == "sum" else y / total


def small(likelihood="gaussian", aggregate="mean", **options):
    options = {"grid": {"bandwidth": [0.5, 1.0]}} | options
    return AggregateGP(NystroemFeatures(30, linear=False), likelihood=likelihood, aggregate=aggregate, **options)


@pytest.fixture(scope="module")
def fitted():
    """(model, bags, y) for every likelihood and aggregate."""
    bags, found = simulated(), {}
    for kind in KINDS:
        y = targets(bags, *kind)
        found[kind] = small(*kind).fit(bags, y), bags, y
    return found


def weights_matrix(bags, aggregate):
    own = np.ones(bags.n_instances) if bags.weights is None else bags.weights
    own = bags.shares() if aggregate == "mean" else own
    return block_diag(*(row[None] for row in np.split(own, bags.offsets[1:-1])))


# The exact Gaussian process ---------------------------------------------------------------------------------------


class ExactProcess:
    """The posterior of f at training and new instances, f = b + g, Cov g = ρ² K, with a flat prior on b."""

    def __init__(self, model, bags, y, new, kernel):
        features = model.features_
        z, t = ((one.instances - features.mean_) / features.scale_ for one in (bags, new))
        A, self.A = weights_matrix(bags, model.aggregate), weights_matrix(new, model.aggregate)
        self.variance = model.noise_std_**2 * model.posterior_.ratio / model.noise_exposure_**2  # ρ²
        formula = FORMULAS[kernel](features.bandwidth_)
        total = aggregate_gp.exposures(bags) / model.noise_exposure_ if model.aggregate == "sum" else np.ones(len(bags))
        V = self.variance * A @ formula(z, z) @ A.T + np.diag(model.noise_std_**2 * total)
        e, inverse = A.sum(axis=1), np.linalg.inv(V)
        precision = e @ inverse @ e
        b = e @ inverse @ y / precision
        cross = self.variance * formula(t, z) @ A.T @ inverse  # of a new instance with the bags
        self.mean = b + cross @ (y - b * e)
        gap = 1 - cross @ e
        self.cov = self.variance * (formula(t, t) - cross @ A @ formula(z, t)) + np.outer(gap, gap) / precision
        P = inverse - np.outer(inverse @ e, e @ inverse) / precision
        self.log_evidence = -0.5 * (np.linalg.slogdet(V)[1] + np.log(precision) + y @ P @ y)


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_instances_as_landmarks_it_is_the_exact_process(aggregate, weighted):
    bags = simulated(weights=weighted)
    new = bw.Bags(bags.instances[:30], [0, 1, 10, 30], weights=None if bags.weights is None else bags.weights[:30])
    y = targets(bags, "gaussian", aggregate)
    scores = []
    for kernel in FORMULAS:
        phi = NystroemFeatures(500, kernel=kernel, linear=False)
        model = AggregateGP(phi, grid={}, aggregate=aggregate).fit(bags, y)
        exact = ExactProcess(model, bags, y, new, kernel)
        mean, std = model.predict_instances(new, return_std=True)
        assert_allclose(mean, exact.mean, rtol=1e-6, atol=1e-6 * y.std())
        assert_allclose(std, np.sqrt(np.diag(exact.cov)), rtol=1e-5)
        mean, cov = model.predict(new, return_cov=True, noise=False)
        assert_allclose(mean, exact.A @ exact.mean, rtol=1e-6, atol=1e-6 * y.std())
        assert_allclose(cov, exact.A @ exact.cov @ exact.A.T, rtol=1e-4, atol=1e-6 * np.abs(cov).max())
        share = aggregate_gp.exposures(new) / model.noise_exposure_ if aggregate == "sum" else 1.0
        expected = np.sqrt(np.diag(cov) + model.noise_std_**2 * share)
        assert_allclose(model.predict(new, return_std=True)[1], expected, rtol=1e-9)
        scores.append((model.search_[0][1], exact.log_evidence))
    (one, one_exact), (other, other_exact) = scores  # up to a constant, which no kernel changes
    assert_allclose(one - other, one_exact - other_exact, rtol=1e-5)


def test_the_evidence_chooses_the_setting():
    bags = simulated()
    y = targets(bags, "gaussian", "mean")
    model = AggregateGP(random_state=3).fit(bags, y)
    alone = [AggregateGP(grid={k: [v] for k, v in s.items()}, random_state=3).fit(bags, y) for s, _ in model.search_]
    assert_allclose([one.search_[0][1] for one in alone], [score for _, score in model.search_], rtol=1e-9)
    best = max(alone, key=lambda one: one.search_[0][1])
    assert model.setting_ == best.setting_ and len(model.search_) == 10
    assert_allclose(model.predict(bags), best.predict(bags), rtol=1e-9)


# Counts and rates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["poisson", "binomial"])
def test_the_posterior_of_counts_is_the_one_scipy_finds(likelihood, fitted):
    model, bags, y = fitted[likelihood, "sum"]
    phi, A = model.features_.transform(bags.instances), weights_matrix(bags, "sum")
    width, ratio = phi.shape[1], model.posterior_.ratio

    def level(point):
        return A @ {"poisson": np.exp, "binomial": expit}[likelihood](phi @ point[:-1] + point[-1])

    def cost(point):
        mean, total = level(point), A.sum(axis=1)
        if likelihood == "poisson":
            log_density = poisson.logpmf(y, mean)
        else:  # binom.logpmf up to a constant, for totals that need not be whole
            log_density = y * np.log(mean / total) + (total - y) * np.log1p(-mean / total)
        return -log_density.sum() + point[:-1] @ point[:-1] / (2 * ratio)

    found = minimize(cost, np.zeros(width + 1), method="BFGS", options={"gtol": 1e-5}).x
    mine = np.append(model.posterior_.coef, model.posterior_.target_mean)
    mine[-1] -= model.posterior_.row_mean @ model.posterior_.coef
    assert cost(mine) <= cost(found) + 1e-6
    assert_allclose(phi @ mine[:-1] + mine[-1], phi @ found[:-1] + found[-1], atol=2e-3)
    # the covariance, from the Fisher information by numerical derivatives of the bags' means
    step = 1e-5
    jacobian = np.array([(level(mine + e) - level(mine - e)) / (2 * step) for e in step * np.eye(width + 1)]).T
    mean, total = level(mine), A.sum(axis=1)
    spread = mean if likelihood == "poisson" else mean * (1 - mean / total)
    information = jacobian.T @ (jacobian / spread[:, None]) + np.diag(np.append(np.full(width, 1 / ratio), 0.0))
    rows = np.column_stack([phi, np.ones(len(phi))])
    root = model.posterior_.covariance_root(phi)
    assert_allclose(root @ root.T, rows @ np.linalg.solve(information, rows.T), rtol=1e-4, atol=1e-6)


def test_every_setting_of_counts_has_the_evidence_of_laplace(fitted):
    model, bags, y = fitted["poisson", "sum"]
    phi, A, fit = model.features_.transform(bags.instances), weights_matrix(bags, "sum"), model.posterior_
    mean = A @ np.exp(fit.target_mean + (phi - fit.row_mean) @ fit.coef)
    J = np.column_stack([A * np.exp(fit.target_mean + (phi - fit.row_mean) @ fit.coef) @ phi, mean])
    prior = np.append(np.full(phi.shape[1], 1 / fit.ratio), 0.0)
    determinant = np.linalg.slogdet(J.T @ (J / mean[:, None]) + np.diag(prior))[1] + phi.shape[1] * np.log(fit.ratio)
    total = A.sum(axis=1)
    expected = y @ np.log(mean / total) - mean.sum() - fit.coef @ fit.coef / (2 * fit.ratio) - determinant / 2
    assert_allclose(max(score for _, score in model.search_), expected, atol=0.01)  # the search is rough


def test_features_made_again_and_a_setting_from_some_of_the_bags_change_nothing(monkeypatch, fitted):
    model, bags, y = fitted["poisson", "sum"]
    monkeypatch.setattr(aggregate_gp, "CACHED", 0)
    monkeypatch.setattr(aggregate_gp, "BLOCK_ROWS", 7)
    again = small("poisson", "sum").fit(bags, y)
    assert_allclose(again.predict(bags), model.predict(bags), rtol=1e-9)
    monkeypatch.setattr(aggregate_gp, "SEARCHED", 60)
    some = small("poisson", "sum").fit(bags, y)
    whole = small("poisson", "sum", grid={k: [v] for k, v in some.setting_.items()}).fit(bags, y)
    assert some.search_ != whole.search_
    assert_allclose(some.predict(bags), whole.predict(bags), rtol=1e-4)


# What holds for all -----------------------------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_aggregated_instances_are_the_bag(kind, fitted):
    model, bags, _ = fitted[kind]
    for some in (bags, bags[::-1]):
        values = model.predict_instances(some)
        assert_allclose(weights_matrix(some, kind[1]) @ values, model.predict(some), rtol=1e-11)
        assert_allclose(np.add.reduceat(model.contributions(some), some.offsets[:-1]), model.predict(some), rtol=1e-11)
    explained = bw.explain(model, bags)
    assert explained.kind == "contributions"
    assert_allclose(explained.instance_predictions, model.predict_instances(bags), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_bag_have_the_covariance_of_the_whole(kind, fitted):
    model, bags, _ = fitted[kind]
    whole = bags[[int(np.argmax(bags.sizes))]]
    half = whole.n_instances // 2
    parts = bw.Bags(whole.instances, [0, half, whole.n_instances], weights=whole.weights)
    mean, cov = model.predict(parts, return_cov=True, noise=False)
    total = aggregate_gp.exposures(parts)
    share = total / total.sum() if kind[1] == "mean" else np.ones(2)
    expected, std = model.predict(whole, return_std=True, noise=False)
    assert_allclose(share @ mean, expected[0], rtol=1e-11)
    assert_allclose(np.sqrt(share @ cov @ share), std[0], rtol=1e-9)
    assert not np.isclose(np.sqrt(share**2 @ np.diag(cov)), std[0], rtol=1e-3)  # they are not independent
    _, alone = model.predict_instances(whole, return_std=True)
    singles = bw.Bags(whole.instances, np.arange(whole.n_instances + 1), weights=np.ones(whole.n_instances))
    assert_allclose(model.predict(singles, return_std=True, noise=False)[1], alone, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS[2:])
def test_targets_of_counts_scatter_as_their_likelihood_says(kind, fitted):
    model, bags, _ = fitted[kind]
    mean, inner = model.predict(bags, return_std=True, noise=False)
    _, outer = model.predict(bags, return_std=True)
    total = aggregate_gp.exposures(bags)
    count, scale = (mean, 1.0) if kind[1] == "sum" else (mean * total, total)
    p, spread = count / total, (inner * scale) ** 2
    # The variance of a count is its mean variance given the rate, and the variance of its mean.
    own = count if kind[0] == "poisson" else total * (p * (1 - p) - spread / total**2)
    assert_allclose((outer * scale) ** 2, own + spread, rtol=1e-9)


@pytest.mark.parametrize("likelihood", ["poisson", "binomial"])
def test_counts_and_their_rates_are_one_fit(likelihood, fitted):
    (sums, bags, _), (means, _, _) = fitted[likelihood, "sum"], fitted[likelihood, "mean"]
    rates = np.array(means.predict(bags, return_std=True))
    assert_allclose(sums.predict(bags, return_std=True), aggregate_gp.exposures(bags) * rates, rtol=1e-6)


@pytest.mark.parametrize("likelihood", ["poisson", "binomial"])
def test_a_weight_of_a_bag_of_counts_is_a_number_of_copies(likelihood, fitted):
    model, bags, y = fitted[likelihood, "mean"]
    copies = np.where(np.arange(len(bags)) % 2, 3, 1)
    chosen, total = np.repeat(np.arange(len(bags)), copies), aggregate_gp.exposures(bags)
    problem = model.features_, likelihood
    weighed, _ = aggregate_gp.laplace(*problem, bags, y, total, copies)
    copied, _ = aggregate_gp.laplace(*problem, bags[chosen], y[chosen], total[chosen], np.ones(len(chosen)))
    plain, _ = aggregate_gp.laplace(*problem, bags, y, total, np.ones(len(bags)))
    phi = model.features_.transform(bags.instances)
    # The wide prior on the ratio counts bags, so that they are not quite the same.
    assert_allclose(weighed(phi)[0], copied(phi)[0], atol=1e-3)
    assert np.abs(weighed(phi)[0] - plain(phi)[0]).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["poisson", "binomial"])
def test_counts_keep_the_contract(likelihood):
    class Rates(AggregateGP):
        """Targets as rates that the likelihood knows."""

        def fit(self, bags, y, sample_weight=None):
            y = np.asarray(y, dtype=float)
            return super().fit(bags, np.abs(y) if likelihood == "poisson" else expit(y), sample_weight)

    for name, check in bag_estimator_checks(laws=("repeated_instances_change_nothing",)):
        constant = name == "constant_features_and_targets" and likelihood == "binomial"
        if not constant and "saves" not in name and "pickles" not in name and "huge" not in name:
            check(Rates(likelihood=likelihood, grid={}))


def test_the_map_and_its_spread_are_right_on_average():
    """About 95 of 100 true rates lie within two standard deviations, and the map is closer than a constant."""
    inside, error, constant = [], [], []
    for seed in range(3):
        bags = simulated(60, seed=seed)
        truth = np.exp(np.sin(bags.instances[:, 0]) + bags.instances[:, 1] / 2)
        model = small("poisson", "sum").fit(bags, targets(bags, "poisson", "sum", seed))
        rates, std = model.predict_instances(bags, return_std=True)
        inside.append(np.mean(np.abs(rates - truth) < 2 * std))
        error.append(np.mean((rates - truth) ** 2))
        constant.append(np.var(truth))
    assert 0.85 < np.mean(inside) <= 1.0 and np.mean(error) < 0.1 * np.mean(constant)


# Bad input --------------------------------------------------------------------------------------------------------

BAGS = simulated(6)
Y = np.array([3.0, 0.0, 2.0, 1.0, 4.0, 2.0])


COUNTS, POISSON = {"likelihood": "poisson", "aggregate": "sum"}, {"likelihood": "poisson"}
BINOMIAL = {"likelihood": "binomial"}
REFUSED = [
    (COUNTS, Y - 1.5, r"bag 1 .* has a count below zero \(-1.5\).*fill value"),
    (POISSON, np.where(Y < 2, -9999, Y), r"bag 1 \(and 1 other\) has a rate below zero \(-9999\)"),
    (BINOMIAL, Y / 3, r"bag 4 has a rate above one \(1.33333\).*divide percentages by 100"),
    (BINOMIAL | {"aggregate": "sum"}, 1e4 * Y, r"has a count \(30000\) above its total exposure"),
    (POISSON, 0 * Y, "every count is zero"),
    (BINOMIAL, 0 * Y + 1, "every rate is one"),
    (POISSON, np.where(Y == 4, np.nan, Y), "bag 4 has a missing or infinite target"),
]


@pytest.mark.parametrize("options, y, message", REFUSED)
def test_what_cannot_be_is_refused(options, y, message):
    with pytest.raises(ValueError, match=message):
        small(**options).fit(BAGS, y)


def test_an_instance_of_exposure_zero_counts_nothing():
    bags = simulated()
    y, last = targets(bags, "poisson", "sum"), int(np.flatnonzero(bags.sizes > 1)[0])
    weights = bags.weights.copy()
    weights[bags.offsets[last]] = 0.0
    bags = bags.with_weights(weights)
    model = small("poisson", "sum").fit(bags, y)
    values = model.predict_instances(bags)
    assert np.isfinite(values).all() and values[bags.offsets[last]] > 0
    assert model.contributions(bags)[bags.offsets[last]] == 0


def test_counts_that_are_not_whole_are_estimates_and_said_so(fitted):
    _, bags, y = fitted["poisson", "sum"]
    with pytest.warns(UserWarning, match=r"bag 0 \(and 39 others\) has a count that is not whole .* aggregate='mean'"):
        model = small("poisson", "sum").fit(bags, y + 0.25)
    assert_allclose(model.predict(bags).sum(), y.sum() + 10, rtol=1e-3)


def test_bags_of_another_size_are_predicted_in_proportion_and_large_ones_warned_of(fitted):
    model, bags, _ = fitted["poisson", "sum"]
    large = bags.with_weights(1000.0 * bags.weights)
    with pytest.warns(
        UserWarning, match=r"bag 0 \(and .* others\) has a total exposure of .* between .* in proportion"
    ):
        predictions = model.predict(large)
    assert_allclose(predictions, 1000.0 * model.predict(bags), rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # parts of bags, down to single instances, are what the map is for
        model.predict(bags.with_weights(bags.weights / 1e4))
        means = fitted["gaussian", "mean"][0]
        assert_allclose(means.predict(large), means.predict(bags), rtol=1e-12)  # only ratios count in a mean


def test_exposures_are_those_of_training_or_refused(fitted):
    model, bags, y = fitted["poisson", "sum"]
    with pytest.raises(ValueError, match="fitted with exposures.*these bags have none"):
        model.predict(bags.without_weights())
    plain = small("gaussian", "sum").fit(bags.without_weights(), y)
    with pytest.raises(ValueError, match=r"without exposures.*bags.without_weights\(\)"):
        plain.predict(bags)
