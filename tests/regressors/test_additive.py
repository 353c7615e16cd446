import numpy as np
import pytest

import bagwise as bw
from bagwise.regressors import AdditiveRegressor
from bagwise.regressors.attention.network import Data, Network, attention_kernels
from bagwise.regressors.bayesian.evidence_ridge import few_folds
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(30)
NEW, _ = sample(9, random_state=1)
WEIGHED = BAGS.with_weights(np.random.default_rng(0).uniform(0.2, 3.0, BAGS.n_instances))
QUICK = {"hidden": (6,), "epochs": 8, "learning_rate": 0.01, "folds": 3, "blends": (1.0, 0.5)}


def parts_of(bags, values):
    return np.split(values, bags.offsets[1:-1])


def blended_loss(vector, hidden, bags, y, blend):
    """λ (ŷ - y)² + (1 - λ) Σ_l s_l (h_l - y)², bag by bag, h a network of one hidden layer."""
    d = bags.n_features
    sizes = [(d, hidden), (hidden,), (hidden, 1), (1,)]
    W, b, v, c = (
        part.reshape(size)
        for part, size in zip(np.split(vector, np.cumsum([np.prod(s) for s in sizes])[:-1]), sizes, strict=True)
    )
    total = 0.0
    for rows, share, target in zip(bags, parts_of(bags, bags.shares()), y, strict=True):
        h = (np.maximum(rows @ W + b, 0.0) @ v + c)[:, 0]
        total += blend * (share @ h - target) ** 2 + (1 - blend) * share @ (h - target) ** 2
    return total / len(y)


@pytest.mark.parametrize("bags", [BAGS, WEIGHED], ids=["equal", "weighed"])
def test_gradient_is_that_of_the_blended_loss(bags):
    network = Network(bags.n_features, 0, (4,), pooling="mean", looks=1, head=())
    vector = np.random.default_rng(1).normal(size=len(network.initial(np.random.default_rng(0))))
    for blend in (0.0, 0.3, 1.0):
        moments = train_on_all_bags(network, bags, Y, blend, vector.astype(np.float32), steps=1, rate=0.0)
        for at in range(0, len(vector), 3):
            step = 1e-6 * np.eye(len(vector))[at]
            up, down = (blended_loss(vector + sign * step, 4, bags, Y, blend) for sign in (1, -1))
            # After a first step the moment is a tenth of the gradient.
            assert 10 * moments[at] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-5)


def train_on_all_bags(network, bags, y, blend, vector, *, steps, rate):
    """Change the vector in place by steps that see all bags each; return the first moments of Adam."""
    arrays = Data(bags.instances, np.empty((len(bags), 0)), bags.shares(), bags.offsets).arrays(np.float32)
    memory, order, cuts = np.zeros((3, len(vector)), np.float32), np.arange(len(bags)), np.array([0, len(bags)])
    targets, learn = y.astype(np.float32), np.ones(len(bags), np.float32)
    for step in range(steps):
        state = np.float32(blend), vector, memory, rate, 0.0, step
        attention_kernels().train_epoch(
            arrays, network.shape, network.plan, order, cuts, targets, learn, *state, np.empty(0, np.float32)
        )
    return memory[1]


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("bags", [BAGS, WEIGHED], ids=["equal", "weighed"])
def test_aggregated_instance_predictions_are_the_prediction(aggregate, bags):
    model = AdditiveRegressor(**QUICK, aggregate=aggregate).fit(bags, Y)
    values = parts_of(bags, model.predict_instances(bags))
    weights = parts_of(bags, bags.shares() if aggregate == "mean" else exposure(bags))
    expected = [w @ v for w, v in zip(weights, values, strict=True)]
    np.testing.assert_allclose(model.predict(bags), expected, rtol=1e-12)
    contributions = bw.explain(model, bags).contributions
    np.testing.assert_allclose([part.sum() for part in parts_of(bags, contributions)], expected, rtol=1e-12)


@pytest.mark.parametrize("hidden", [(), (6,), (5, 4)])
def test_networks_predict_their_held_out_bags_as_in_training(hidden):
    model = AdditiveRegressor(**{**QUICK, "hidden": hidden, "blends": (1.0,)}).fit(BAGS, Y)
    fold = few_folds(BAGS, QUICK["folds"], 0)
    errors = []
    for k in range(QUICK["folds"]):
        values = parts_of(BAGS, model.networks_[k].predict(BAGS.instances))
        held = np.flatnonzero(fold == k)
        predictions = np.array([values[i].mean() for i in held])
        errors.append(np.sum((Y[held] - predictions) ** 2) / np.sum((Y[held] - Y.mean()) ** 2))
    assert np.mean(errors) == pytest.approx(model.errors_[0], rel=1e-4)


def exposure(bags):
    return np.ones(bags.n_instances) if bags.weights is None else bags.weights


def test_a_sum_is_the_mean_of_rates_weighed_by_exposure():
    total = np.array([part.sum() for part in parts_of(WEIGHED, WEIGHED.weights)])
    summed = AdditiveRegressor(**QUICK, aggregate="sum").fit(WEIGHED, Y)
    rates = AdditiveRegressor(**QUICK).fit(WEIGHED, Y / total, sample_weight=total)
    new = NEW.with_weights(np.ones(NEW.n_instances))
    np.testing.assert_allclose(summed.predict_instances(new), rates.predict_instances(new), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(summed.predict(new.with_weights(2 * new.weights)), 2 * summed.predict(new), rtol=1e-12)


def test_the_blend_of_the_smallest_held_out_error_is_kept():
    model = AdditiveRegressor(**{**QUICK, "blends": (0.0, 0.5, 1.0)}).fit(BAGS, Y)
    alone = [AdditiveRegressor(**{**QUICK, "blends": (blend,)}).fit(BAGS, Y) for blend in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(model.errors_, [one.errors_[0] for one in alone], rtol=1e-4)
    best = int(np.argmin(model.errors_))
    assert model.blend_ == (0.0, 0.5, 1.0)[best]
    np.testing.assert_allclose(model.predict(NEW), alone[best].predict(NEW), rtol=1e-3, atol=1e-4)


def test_finds_values_that_only_vary_within_bags():
    rng = np.random.default_rng(3)
    bags = bw.from_arrays(list(rng.normal(size=(60, 6, 2))))
    value = np.abs(bags.instances[:, 0])
    model = AdditiveRegressor((16,), blends=(1.0, 0.0), folds=2, epochs=60, learning_rate=0.02)
    model.fit(bags, value.reshape(60, 6).mean(axis=1))
    assert model.blend_ == 1.0
    assert np.corrcoef(model.predict_instances(bags), value)[0, 1] > 0.9
