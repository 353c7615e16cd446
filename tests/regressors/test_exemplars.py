"""cluster and salience against naive references."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge

import bagwise as bw
from bagwise.regressors import RidgePath
from bagwise.regressors.exemplars import ClusterRegressor, SalienceRegressor, project_simplex, simplex_weights

rng = np.random.default_rng(0)
BAGS = bw.from_arrays([rng.normal(size=(rng.integers(1, 9), 3)) for _ in range(30)])
Y = np.array([bag.mean(axis=0) @ [1.0, -1.0, 0.5] for bag in BAGS]) + 0.1 * rng.normal(size=30)


def planted(n=60, seed=0):
    """One instance near (·, 6, 6) carries the target in its first feature; the rest is noise."""
    draw = np.random.default_rng(seed)
    y = draw.normal(size=n)
    keys = [np.array([[v, 6.0, 6.0]]) + 0.05 * draw.normal(size=(1, 3)) for v in y]
    return bw.from_arrays([np.vstack([key, draw.normal(size=(draw.integers(2, 9), 3))]) for key in keys]), y


def test_cluster_is_the_published_loop():
    """Nearest instance to each k-means centre, one ridge per cluster, the one with the smallest training error."""
    model = ClusterRegressor(4, choice="training").fit(BAGS, Y)
    centres = KMeans(4, n_init=4, random_state=0).fit(BAGS.instances).cluster_centers_
    np.testing.assert_allclose(model.centres_, centres, rtol=1e-9)
    predictions = []
    for centre in centres:
        nearest = np.array([bag[np.argmin(((bag - centre) ** 2).sum(axis=1))] for bag in BAGS])
        head = RidgePath().fit(nearest, Y)
        theirs = Ridge(alpha=head.penalty_ * 30).fit(nearest, Y)
        predictions.append(theirs.predict(nearest))
    errors = [np.mean((Y - p) ** 2) for p in predictions]
    np.testing.assert_allclose(model.errors_, errors, rtol=1e-7)
    np.testing.assert_allclose(model.predict(BAGS), predictions[int(np.argmin(errors))], rtol=1e-7)


@pytest.mark.parametrize("relevance", ["nearest", "members", "mixture"])
def test_cluster_finds_the_planted_kind_of_instance(relevance):
    bags, y = planted()
    model = ClusterRegressor(6, relevance=relevance).fit(bags, y)
    weights = model.instance_weights(bags)
    np.testing.assert_allclose(np.add.reduceat(weights, bags.offsets[:-1]), 1.0)
    assert weights[bags.offsets[:-1]].mean() > 0.9
    new, truth = planted(seed=1)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.2


def test_members_fall_back_on_all_instances():
    bags, y = planted()
    model = ClusterRegressor(6, relevance="members").fit(bags, y)
    far = bw.from_arrays([np.zeros((4, 3)), bags[0]])
    np.testing.assert_allclose(model.instance_weights(far)[:4], 0.25)


def test_simplex_projection_is_the_nearest_point():
    values, offsets = rng.normal(size=40) * 2, np.array([0, 1, 4, 20, 40])
    projected = project_simplex(values, offsets)
    for a, b in zip(offsets[:-1], offsets[1:], strict=True):
        v, psi = values[a:b], projected[a:b]
        np.testing.assert_allclose(psi.sum(), 1.0, atol=1e-12)
        # optimality: on the support v - ψ is one number, off it v is not above that number
        on = psi > 0
        assert np.ptp((v - psi)[on]) < 1e-12 and (v[~on] <= (v - psi)[on].max() + 1e-12).all()


@pytest.mark.parametrize("smoothness", [0.05, 1.0])
def test_weights_solve_the_quadratic_programme(smoothness):
    offsets = np.array([0, 1, 4, 10])
    h, y = rng.normal(size=10), np.array([0.3, 2.0, -0.4])
    got = simplex_weights(h, y, offsets, smoothness)
    for i, (a, b) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):

        def loss(psi, a=a, b=b, i=i):
            return (y[i] - psi @ h[a:b]) ** 2 + smoothness * psi @ psi

        start, sums = np.full(b - a, 1 / (b - a)), {"type": "eq", "fun": lambda p: p.sum() - 1}
        options = {"ftol": 1e-14, "maxiter": 500}
        best = minimize(loss, start, bounds=[(0, 1)] * (b - a), constraints=sums, options=options)
        assert loss(got[a:b]) <= best.fun + 1e-9
        np.testing.assert_allclose(got[a:b], best.x, atol=1e-4)


def test_salience_falls_to_a_stop_and_beats_equal_weights_in_training():
    model = SalienceRegressor(smoothness=0.1).fit(BAGS, Y)
    assert (np.diff(model.objective_) <= 1e-9).all() and len(model.objective_) > 1
    np.testing.assert_allclose(np.add.reduceat(model.weights_, BAGS.offsets[:-1]), 1.0, atol=1e-9)


def test_very_smooth_salience_is_ridge_on_the_mean_instance():
    model = SalienceRegressor(smoothness=1e9, new_bags="uniform", penalty=1e-2).fit(BAGS, Y)
    means = np.array([bag.mean(axis=0) for bag in BAGS])
    expected = Ridge(alpha=1e-2 * 30).fit(means, Y).predict(means)
    np.testing.assert_allclose(model.predict(BAGS), expected, rtol=1e-5, atol=1e-7)


def test_salience_of_new_bags_points_to_the_planted_instance():
    bags, y = planted()
    new, truth = planted(seed=1)
    model = SalienceRegressor(smoothness=0.1).fit(bags, y)
    weights = model.instance_weights(new)
    np.testing.assert_allclose(np.add.reduceat(weights, new.offsets[:-1]), 1.0)
    assert np.mean(weights[new.offsets[:-1]] * new.sizes) > 1.15
    uniform = SalienceRegressor(smoothness=0.1, new_bags="uniform").fit(bags, y)
    assert model.score(new, truth) > uniform.score(new, truth)
