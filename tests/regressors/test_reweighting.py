"""The loop and its three weightings, against loops written out by hand."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import bagwise as bw
from bagwise.bags.segments import segment_mean, segment_median, segment_sum
from bagwise.datasets import make_outlier2
from bagwise.regressors import Gate, Mixture, Primary, Pruning, Reweighting

rng = np.random.default_rng(0)
SIZES = rng.integers(1, 9, size=30)
CENTRES = rng.normal(size=(30, 2))
BAGS = bw.from_arrays([c + 0.8 * rng.normal(size=(n, 2)) for c, n in zip(CENTRES, SIZES, strict=True)])
Y = 3.0 + CENTRES @ [2.0, -1.0] + 0.2 * rng.normal(size=30)
FOREVER = -np.inf  # a tolerance under which the loop runs for all its rounds
WEIGHTINGS = [Primary(restarts=2), Pruning(), Mixture(), Mixture("gated"), Mixture("gated", gate=Gate(0))]


def standardised(y, weights=None):
    centre = np.average(y, weights=weights)
    return (y - centre) / np.sqrt(np.average((y - centre) ** 2, weights=weights))


def plane(rows, targets, weights):
    """Weighted least squares by the normal equations; a function of rows."""
    Z = np.column_stack([np.ones(len(rows)), rows])
    b = np.linalg.solve(Z.T @ (Z * weights[:, None]), Z.T @ (weights * targets))
    return lambda X: np.column_stack([np.ones(len(X)), X]) @ b


def naive_em(bags, y, bag_weights, rounds):
    """EM for the uniform mixture of planes, bag by bag."""
    bags, y = list(bags), standardised(y, bag_weights)
    gammas = [np.full(len(bag), 1 / len(bag)) for bag in bags]
    path = []
    for _ in range(rounds):
        used = gammas
        weights = np.concatenate([w * g for w, g in zip(bag_weights, gammas, strict=True)])
        f = plane(np.concatenate(bags), np.repeat(y, [len(bag) for bag in bags]), weights)
        misses = [(t - f(bag)) ** 2 for bag, t in zip(bags, y, strict=True)]
        variance = sum(w * g @ m for w, g, m in zip(bag_weights, gammas, misses, strict=True)) / bag_weights.sum()
        joint = [np.exp(-m / (2 * variance)) / np.sqrt(2 * np.pi * variance) / len(m) for m in misses]
        path.append(-np.average([np.log(j.sum()) for j in joint], weights=bag_weights))
        gammas = [j / j.sum() for j in joint]
    return f, variance, np.concatenate(used), path


def test_mixture_is_em():
    bag_weights = rng.uniform(0.5, 2.0, size=30)
    f, variance, gammas, path = naive_em(BAGS, Y, bag_weights, rounds=8)
    model = Reweighting(rounds=8, tolerance=FOREVER).fit(BAGS, Y, sample_weight=bag_weights)
    np.testing.assert_allclose(model.objective_, path, rtol=1e-6)
    np.testing.assert_allclose(model.variance_, variance, rtol=1e-5)
    np.testing.assert_allclose(model.weights_, gammas, atol=1e-5)
    np.testing.assert_allclose(model.regressor_.predict(BAGS.instances), f(BAGS.instances), atol=1e-5)


def test_primary_is_the_loop_of_ray_and_page():
    bags, y = list(BAGS), standardised(Y)
    f = plane(BAGS.instances, np.repeat(y, SIZES), 1 / np.repeat(SIZES, SIZES))
    path = []
    while True:
        misses = [(t - f(bag)) ** 2 for bag, t in zip(bags, y, strict=True)]
        path.append(np.mean([m.min() for m in misses]))
        if len(path) > 1 and path[-1] >= path[-2] - 1e-12:
            break
        best = f
        f = plane(np.array([bag[m.argmin()] for bag, m in zip(bags, misses, strict=True)]), y, np.ones(len(y)))
    model = Reweighting(weighting=Primary(restarts=0), tolerance=1e-12).fit(BAGS, Y)
    np.testing.assert_allclose(model.objective_, path, rtol=1e-9)
    np.testing.assert_allclose(model.regressor_.predict(BAGS.instances), best(BAGS.instances), atol=1e-9)


def test_pruning_keeps_what_is_near_the_median():
    bags, y, kept = list(BAGS), standardised(Y), list(BAGS)
    path, left = [], SIZES.max()
    while True:
        weights = np.concatenate([np.full(len(k), 1 / len(k)) for k in kept])
        f = plane(np.concatenate(kept), np.repeat(y, [len(k) for k in kept]), weights)
        path.append(np.mean((y - [np.median(f(k)) for k in kept]) ** 2))
        if len(path) > 1 and path[-1] >= path[-2]:
            break
        best, left = f, int(0.7 * left)
        for i, k in enumerate(kept):
            distance = np.abs(f(k) - np.median(f(k)))
            count = min(len(k), max(1, len(bags[i]) * left // SIZES.max()))
            kept[i] = k[distance <= np.sort(distance)[count - 1] + 1e-12]
    assert len(path) > 2
    model = Reweighting(weighting=Pruning(rate=0.3), tolerance=0.0).fit(BAGS, Y)
    np.testing.assert_allclose(model.objective_, path, rtol=1e-9)
    np.testing.assert_allclose(model.regressor_.predict(BAGS.instances), best(BAGS.instances), atol=1e-9)
    counts = segment_sum((model.weights_ > 0).astype(int), BAGS.offsets)
    np.testing.assert_allclose(model.weights_[model.weights_ > 0], np.repeat(1 / counts, counts))


@pytest.mark.parametrize("weighting", WEIGHTINGS[:1] + WEIGHTINGS[2:], ids=repr)
def test_objective_never_rises(weighting):
    model = Reweighting(weighting=weighting, rounds=20, tolerance=FOREVER).fit(BAGS, Y)
    assert len(model.objective_) == 20
    assert np.diff(model.objective_).max() < 1e-6
    assert model.objective_[-1] < model.objective_[0] - 1e-3


def test_huge_variance_is_instance_mir():
    model = Reweighting(weighting=Mixture(variance=1e12), rule="mean").fit(BAGS, Y)
    plain = LinearRegression().fit(BAGS.instances, np.repeat(Y, SIZES), 1 / np.repeat(SIZES, SIZES))
    np.testing.assert_allclose(model.predict_instances(BAGS), plain.predict(BAGS.instances), rtol=1e-6)
    np.testing.assert_allclose(model.weights_, 1 / np.repeat(SIZES, SIZES), rtol=1e-6)


def test_no_variance_is_prime():
    em = Reweighting(weighting=Mixture(variance=1e-12)).fit(BAGS, Y)
    prime = Reweighting(weighting=Primary(restarts=0), tolerance=0.0).fit(BAGS, Y)
    np.testing.assert_allclose(em.predict_instances(BAGS), prime.predict_instances(BAGS), rtol=1e-6)
    np.testing.assert_allclose(em.weights_, prime.weights_, atol=1e-6)


def test_restarts_find_the_planted_instance():
    X = np.random.default_rng(3).normal(size=(60, 5, 3))
    bags, y = bw.from_arrays(list(X)), X[:, 2] @ [1.0, -2.0, 0.5]
    model = Reweighting(weighting=Primary(restarts=10)).fit(bags, y)
    assert model.objective_.min() < 1e-12
    np.testing.assert_array_equal(model.weights_.reshape(60, 5).argmax(axis=1), 2)
    np.testing.assert_allclose(model.scale_ * model.regressor_.coef_, [1.0, -2.0, 0.5], atol=1e-6)


def test_a_weight_is_a_repetition():
    twice = np.concatenate([np.arange(30), np.arange(10)])
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    for weighting in (Mixture(), Primary(restarts=1), Pruning()):
        model = Reweighting(weighting=weighting, rounds=10)
        repeated = clone(model).fit(BAGS[twice], Y[twice]).predict(BAGS)
        np.testing.assert_allclose(model.fit(BAGS, Y, sample_weight=weights).predict(BAGS), repeated, rtol=1e-4)
    without = clone(model).fit(BAGS[5:], Y[5:]).predict(BAGS)
    weights = (np.arange(30) >= 5).astype(float)
    np.testing.assert_allclose(clone(model).fit(BAGS, Y, sample_weight=weights).predict(BAGS), without, rtol=1e-6)


def test_any_regressor():
    square = make_pipeline(PolynomialFeatures(2), Ridge(1e-6))  # a pipeline passes weights to its last step
    assert np.isfinite(Reweighting(square, weighting=Mixture(), rounds=3).fit(BAGS, Y).predict(BAGS)).all()
    forest = Reweighting(RandomForestRegressor(5, min_samples_leaf=5), rounds=3)
    np.testing.assert_array_equal(clone(forest).fit(BAGS, Y).predict(BAGS), forest.fit(BAGS, Y).predict(BAGS))
    nearest = Reweighting(KNeighborsRegressor(3), weighting=Primary(restarts=1))
    assert np.isfinite(nearest.fit(BAGS, Y).predict(BAGS)).all()


def test_outliers_are_told_apart():
    """The order of the sets "Outlier2": instance-MIR is worst, pruning and em with the median are best."""
    errors = {}
    for seed in range(4):
        bags, y = make_outlier2(100, instances=20, random_state=seed)
        test, truth = make_outlier2(1000, instances=20, label_noise_bags=0, random_state=100 + seed)
        for name, weighting, rule in [
            ("instance", Mixture(variance=1e12), "mean"),
            ("prime", Primary(restarts=5), "median"),
            ("pruning", Pruning(), "median"),
            ("em mean", Mixture(), "mean"),
            ("em", Mixture(), "median"),
        ]:
            model = Reweighting(weighting=weighting, rule=rule, tolerance=1e-4).fit(bags, y)
            errors.setdefault(name, []).append(np.mean((model.predict(test) - truth) ** 2))
    mean = {name: 1000 * np.mean(values) for name, values in errors.items()}
    assert max(mean, key=mean.get) == "instance" and mean["instance"] > 20
    assert max(mean["pruning"], mean["em"]) < 5.5 < min(mean["em mean"], mean["prime"])


def test_rules():
    plain = Reweighting().fit(BAGS, Y)
    values = plain.predict_instances(BAGS)
    np.testing.assert_allclose(plain.predict(BAGS), segment_median(values, BAGS.offsets))
    middle = plain.instance_weights(BAGS)
    np.testing.assert_allclose(segment_sum(middle * values, BAGS.offsets), plain.predict(BAGS))
    np.testing.assert_allclose(plain.set_params(rule="mean").predict(BAGS), segment_mean(values, BAGS.offsets))
    np.testing.assert_allclose(plain.instance_weights(BAGS), 1.0 / BAGS.expand(BAGS.sizes))
    with pytest.raises(ValueError, match="rule='prime' needs a weighting that says which instance of a new bag"):
        plain.set_params(rule="prime").fit(BAGS, Y)
    with pytest.raises(ValueError, match="rule='prime' needs a weighting"):
        plain.predict(BAGS)
