import numpy as np
import pytest
from numba import njit
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bagwise as bw
from bagwise.regressors import AttentionRegressor
from bagwise.regressors.attention.attention_regressor import bag_moments
from bagwise.regressors.attention.network import Split, attention_kernels, cuts
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(30)
NEW, _ = sample(9, random_state=1)
QUICK = {"read": (6,), "epochs": 8, "restarts": 2, "learning_rate": 0.01}
KINDS = [{}, {"looks": 3, "read": (5, 4)}, {"pooling": "gated"}, {"moments": 3, "head": (4,)}]


def key_instances(n_bags, seed):
    """The instance that is largest in feature 0 has the target in feature 1."""
    X = np.random.default_rng(seed).normal(size=(n_bags, 5, 3))
    key = X[:, :, 0].argmax(axis=1)
    return bw.from_arrays(list(X)), X[np.arange(n_bags), key, 1], key


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def by_hand(p, network, bag, moments):
    """The formulas of the docstring, one bag, one network."""

    def dense(name, x):
        inputs, outputs, start = network.plan[list(network.layers).index(name)]
        W, b = np.split(p[start : start + (inputs + 1) * outputs].astype(float), [inputs * outputs])
        return x @ W.reshape(inputs, outputs) + b

    m = bag
    for i in range(len(network.read)):
        m = np.maximum(dense(f"read{i}", m), 0.0)
    if network.pooling == "gated":
        score = dense("score", np.tanh(dense("tanh", m)) * sigmoid(dense("sigmoid", m)))[:, 0]
        a = np.exp(score) / np.exp(score).sum()
        state, attention = a @ m, a
    else:
        h = m.shape[1]
        cell, state, seen = np.zeros(h), np.zeros(2 * h), []
        for _ in range(network.looks):
            i, f, o, g = np.split(dense("lstm", state), 4)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            query = sigmoid(o) * np.tanh(cell)
            a = np.exp(m @ query) / np.exp(m @ query).sum()
            state = np.concatenate([query, a @ m])
            seen.append(a)
        attention = np.mean(seen, axis=0)
    state = np.concatenate([state, moments])
    for i in range(len(network.head)):
        state = np.maximum(dense(f"head{i}", state), 0.0)
    return dense(f"head{len(network.head)}", state)[0], attention


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_is_the_formula_bag_by_bag(options):
    model = AttentionRegressor(**{**QUICK, **options}, keep=0).fit(BAGS, Y)
    data = model.inputs_(NEW)
    rows, moments = data.rows, data.moments
    predictions, weights = np.zeros(len(NEW)), []
    for i, (low, high) in enumerate(zip(NEW.offsets[:-1], NEW.offsets[1:], strict=True)):
        pairs = [by_hand(one.parameters, model.network_, rows[low:high], moments[i]) for one in model.members_]
        predictions[i] = np.mean(
            [m.target.mean + m.target.scale * out for m, (out, _) in zip(model.members_, pairs, strict=True)]
        )
        weights.append(np.mean([a for _, a in pairs], axis=0))
    np.testing.assert_allclose(model.predict(NEW), predictions, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.instance_weights(NEW), np.concatenate(weights), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("options", KINDS[::2], ids=str)
def test_weights_sum_to_one_and_follow_their_instances(options):
    model = AttentionRegressor(**{**QUICK, **options}).fit(BAGS, Y)
    weights = model.instance_weights(NEW)
    np.testing.assert_allclose(np.add.reduceat(weights, NEW.offsets[:-1]), 1.0, rtol=1e-9)
    turned = model.instance_weights(bw.from_arrays([bag[::-1] for bag in NEW]))
    pairs = zip(np.split(weights, NEW.offsets[1:-1]), np.split(turned, NEW.offsets[1:-1]), strict=True)
    for straight, reverse in pairs:
        np.testing.assert_allclose(reverse[::-1], straight, rtol=1e-9)


def test_finds_the_key_instance():
    bags, y, _ = key_instances(120, 0)
    new, target, key = key_instances(200, 1)
    model = AttentionRegressor((32,), restarts=4, epochs=80, learning_rate=0.01).fit(bags, y)
    assert model.score(new, target) > 0.5
    weights = model.instance_weights(new).reshape(-1, 5)
    assert np.mean(weights.argmax(axis=1) == key) > 0.6  # 0.2 by chance


def test_the_best_weights_are_the_ones_kept():
    """Stopped at the best epoch, or patience epochs later: the same network."""
    settings = {**QUICK, "restarts": 1, "epochs": 100, "patience": 5}
    (late,) = AttentionRegressor(**settings).fit(BAGS, Y).members_
    assert 0 < late.epochs < 100
    (there,) = AttentionRegressor(**{**settings, "epochs": late.epochs}).fit(BAGS, Y).members_
    assert (there.epochs, there.error) == (late.epochs, late.error)
    np.testing.assert_array_equal(there.parameters, late.parameters)


def test_a_network_is_the_same_in_any_company():
    """Trained with others, beside which some stop early; with ten or more, every bag is in the batches."""
    few, many = (AttentionRegressor(**{**QUICK, "restarts": n}, keep=0).fit(BAGS, Y).members_ for n in (10, 13))
    for one, same in zip(few, many, strict=False):
        np.testing.assert_allclose(same.parameters, one.parameters, rtol=1e-3, atol=1e-4)


def test_functions_of_the_kernels_are_those_of_numpy():
    kernels = attention_kernels()
    exponential, tanh = kernels.exponential, kernels.tanh

    @njit
    def both(x, exp_x, tanh_x):
        for i in range(x.size):
            exp_x[i], tanh_x[i] = exponential(x[i]), tanh(x[i])

    x = np.linspace(-90, 90, 1001, dtype=np.float32)
    exp_x, tanh_x = np.empty_like(x), np.empty_like(x)
    both(x, exp_x, tanh_x)
    inside = np.clip(x, -87, 87).astype(np.float64)  # beyond, they stay at the edge of single precision
    np.testing.assert_allclose(exp_x, np.exp(inside), rtol=1e-6)
    np.testing.assert_allclose(tanh_x, np.tanh(x), atol=5e-7)


def test_each_kernel_is_compiled_once():
    """The offsets of bags are read-only: for read-only arguments numba would compile a second version."""
    AttentionRegressor(**QUICK).fit(BAGS, Y).predict(NEW)
    kernels = attention_kernels(True)
    assert len(kernels.train_epoch.signatures) == len(kernels.predict.signatures) == 1


def test_keep_goes_from_the_best_alone_to_all():
    errors = AttentionRegressor(**{**QUICK, "restarts": 4}).fit(BAGS, Y).validation_errors_
    (best,) = AttentionRegressor(**{**QUICK, "restarts": 4}, keep=1).fit(BAGS, Y).members_
    assert best.error == errors.min() and (errors <= 1 + 1e-6).all()


def test_cross_fitted_weights_never_see_their_own_target():
    fold = np.arange(30) % 5
    model = AttentionRegressor(**{**QUICK, "epochs": 3})
    straight = model.cross_fit_weights(BAGS, Y, fold)
    assert len(model.members_) >= 5 and model.predict(NEW).shape == (9,)
    strange = Y.copy()
    strange[7] += 50.0
    bent = clone(model).cross_fit_weights(BAGS, strange, fold)
    own = BAGS.rows(np.flatnonzero(fold == fold[7]))
    np.testing.assert_allclose(bent[own], straight[own], rtol=1e-5)
    assert np.abs(np.delete(bent, own) - np.delete(straight, own)).max() > 1e-3


def test_batches_are_limited_by_bags_and_by_instances():
    sizes = np.array([5, 40_000, 1, 20_000, 20_000, 2, 3])
    assert cuts(np.arange(7), sizes, 3).tolist() == [0, 1, 2, 4, 7]


def test_groups_are_held_out_together():
    fold = np.array([0, 0, 1, 1, 2, 2])
    split = Split.of(np.array([True, True, True, True, False, False]), fold, restart=1)
    assert split.held.tolist() == [False, False, True, True, False, False]
    assert split.learn.tolist() == [True, True, False, False, False, False]
    alone = Split.of(fold == 0, fold, restart=3)
    assert alone.learn.tolist() == alone.held.tolist() == (fold == 0).tolist()


def test_moments_are_those_of_scipy():
    rows = bag_moments(BAGS.instances, BAGS.offsets, 5)
    for row, bag in zip(rows, BAGS, strict=True):
        if len(bag) > 1:
            fifth = stats.moment(bag, 5) / bag.std(axis=0) ** 5
            expected = [bag.mean(axis=0), bag.var(axis=0), stats.skew(bag), stats.kurtosis(bag) + 3, fifth]
            np.testing.assert_allclose(row, np.concatenate(expected), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "mean"}, "pooling must be 'set' or 'gated', not 'mean'"),
        ({"read": ()}, "read must be a tuple of whole numbers above zero"),
        ({"head": (0,)}, r"head must be a tuple of whole numbers above zero, or \(\)"),
        ({"looks": 0}, "looks must be a whole number above zero, not 0"),
        ({"moments": -1}, "moments must be a whole number, 0 for none"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above zero"),
        ({"weight_decay": -1.0}, "weight_decay must be a number, 0 for none"),
        ({"validation_fraction": 0.9}, "validation_fraction must be above 0 and at most 0.5"),
        ({"keep": 2}, "keep must be from 0 to 1"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionRegressor(**options).fit(BAGS, Y)


def test_more_refusals():
    with pytest.raises(NotFittedError, match="this AttentionRegressor is not fitted yet"):
        AttentionRegressor().instance_weights(BAGS)
    with pytest.raises(ValueError, match=r"fold has 30 entries, 1 of them different. One entry per bag \(30\)"):
        AttentionRegressor().cross_fit_weights(BAGS, Y, np.zeros(30))
    with pytest.raises(ValueError, match="have weight zero"):
        AttentionRegressor().cross_fit_weights(BAGS, Y, np.arange(30) % 2, sample_weight=np.arange(30) % 2)
