"""Bayesian prime-MIR: its conditionals against their formulas, and what it finds."""

import numpy as np
import pytest
from sklearn.base import clone

from bagwise.bags.segments import segment_sum
from bagwise.datasets import make_bmir
from bagwise.regressors import BayesianPrime
from bagwise.regressors.bayesian import prime_instances as bayesian_prime
from bagwise.regressors.bayesian.prime_instances import draw_coefficients, draw_primary, sample

BAGS, Y = make_bmir(100, random_state=0)
NEW, TRUTH = make_bmir(500, random_state=1)
MODEL = BayesianPrime(draws=400, burn_in=200).fit(BAGS, Y)


def test_primary_instance_given_its_chances():
    offsets, chances = np.array([0, 3, 4, 6]), np.array([0.7, 0.25, 0.05, 1.0, 0.5, 0.5])
    random = np.random.default_rng(0)
    drawn = np.stack([draw_primary(chances, offsets, random) for _ in range(4000)])
    assert (drawn >= offsets[:-1]).all() and (drawn < offsets[1:]).all()
    frequency = np.bincount(drawn.ravel(), minlength=6) / 4000
    assert np.abs(frequency - chances).max() < 5 * np.sqrt(0.25 / 4000)


def test_plane_given_the_primary_instances():
    random = np.random.default_rng(1)
    Z, y, w = random.normal(size=(12, 3)), random.normal(size=12), random.uniform(size=12)
    precision = np.eye(3) / 12 + sum(w[i] * np.outer(Z[i], Z[i]) for i in range(12)) / 0.4
    mean = np.linalg.inv(precision) @ sum(w[i] * y[i] * Z[i] for i in range(12)) / 0.4
    drawn = np.stack([draw_coefficients(Z, y, w, 0.4, random) for _ in range(4000)])
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * np.sqrt(np.linalg.inv(precision).max() / 4000))
    np.testing.assert_allclose(np.cov(drawn.T), np.linalg.inv(precision), atol=0.03)


def test_bags_of_one_instance_are_a_linear_regression():
    """The variance given all targets is inverse gamma with half a degree of freedom less per coefficient."""
    random = np.random.default_rng(2)
    Z, w = np.column_stack([np.ones(60), random.normal(size=60)]), random.uniform(0.5, 2.0, size=60)
    y = Z @ [1.0, 2.0] + random.normal(size=60) / np.sqrt(w)
    _, variances, inclusion = sample(Z, np.arange(61), y, w, (np.zeros(2), 1.0), 8000, 100, random)
    rest = np.sqrt(w) * y - (np.sqrt(w)[:, None] * Z) @ np.linalg.lstsq(np.sqrt(w)[:, None] * Z, np.sqrt(w) * y)[0]
    shape, rate = 0.1 + 58 / 2, 0.001 + rest @ rest / 2
    np.testing.assert_allclose(inclusion, 1.0)
    assert np.isclose(np.mean(variances), rate / (shape - 1), rtol=0.02)
    assert np.isclose(np.var(variances), rate**2 / ((shape - 1) ** 2 * (shape - 2)), rtol=0.15)


def test_toy_recovers_its_plane():
    assert abs(MODEL.intercept_ - 2) < 0.4
    np.testing.assert_allclose(MODEL.coef_, 2.0, atol=0.15)
    assert 0.5 < MODEL.variance_draws_.mean() < 2.0
    np.testing.assert_allclose(segment_sum(MODEL.inclusion_, BAGS.offsets), 1.0)
    np.testing.assert_allclose(MODEL.coef_draws_[:, 1:].mean(axis=0), MODEL.coef_)
    distance = np.abs(Y.repeat(5) - 2 - 2 * BAGS.instances.sum(axis=1))
    # Of the instances that the true plane nearly meets, one takes the chance; those far from it have none.
    assert MODEL.inclusion_[distance > 8].max() < 0.01
    assert segment_sum(MODEL.inclusion_ * (distance < 4), BAGS.offsets).min() > 0.9


def test_new_bags_need_a_selector():
    errors = {}
    for top in (1, 3, 5):
        model = clone(MODEL).set_params(top=top)
        model.__dict__.update({name: value for name, value in vars(MODEL).items() if name.endswith("_")})
        errors[top] = np.mean((model.predict(NEW) - TRUTH) ** 2) / np.var(TRUTH)
        weights = model.instance_weights(NEW)
        np.testing.assert_allclose(segment_sum(weights, NEW.offsets), 1.0)
        assert (segment_sum((weights > 0).astype(int), NEW.offsets) >= top).all()
    assert max(errors.values()) < 0.3
    blind = MODEL.predict_instances(NEW).reshape(-1, 5).mean(axis=1)
    assert np.mean((blind - TRUTH) ** 2) / np.var(TRUTH) > 0.8


def test_standard_deviations_are_not_too_small():
    predictions, deviations = MODEL.predict(NEW, return_std=True)
    np.testing.assert_array_equal(predictions, MODEL.predict(NEW))
    assert (deviations**2 > MODEL.variance_draws_.mean()).all()
    assert np.mean(np.abs(predictions - TRUTH) < 1.645 * deviations) > 0.9
    # Where it is less sure it misses by more.
    unsure = deviations > np.median(deviations)
    assert np.mean((predictions - TRUTH)[unsure] ** 2) > 2 * np.mean((predictions - TRUTH)[~unsure] ** 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.kernels
def test_rounding_does_not_decide_between_the_splits_of_the_selector(monkeypatch):
    """As another kernel of linear algebra would: the chances move by 1e-15, and so may the predictions."""
    bags, y = make_bmir(60)
    model = BayesianPrime(draws=50, burn_in=50, top=3)
    expected, random = clone(model).fit(bags, y).predict(bags), np.random.default_rng(0)

    def elsewhere(*given):
        *draws, inclusion = sample(*given)
        return *draws, inclusion * (1 + 4e-16 * random.normal(size=len(inclusion)))

    monkeypatch.setattr(bayesian_prime, "sample", elsewhere)
    np.testing.assert_allclose(clone(model).fit(bags, y).predict(bags), expected, rtol=1e-12, atol=1e-12)
