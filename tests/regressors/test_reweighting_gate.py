"""The gate, the weighted median, and the methods built on the loop."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.bags.segments import segment_median, segment_sum, segment_weighted_median
from bagwise.datasets import make_problem
from bagwise.regressors import Gate, Mixture, Reweighting
from bagwise.testing import zoo

rng = np.random.default_rng(1)
BAGS = bw.from_arrays([rng.normal(size=(n, 2)) * [1.0, 30.0] for n in rng.integers(1, 7, size=20)])
GAMMA = rng.uniform(size=BAGS.n_instances)
GAMMA /= BAGS.expand(segment_sum(GAMMA, BAGS.offsets))


def naive_loss(gate, theta, share):
    """The penalised cross entropy, bag by bag."""
    X = (BAGS.instances - BAGS.instances.mean(axis=0)) / BAGS.instances.std(axis=0)
    if gate.hidden:
        h = gate.hidden
        g = np.tanh(X @ theta[: 2 * h].reshape(2, h) + theta[2 * h : 3 * h]) @ theta[3 * h :]
    else:
        g = X @ theta
    loss = gate.penalty / 2 * theta @ theta
    for i, (a, b) in enumerate(zip(BAGS.offsets[:-1], BAGS.offsets[1:], strict=True)):
        loss -= share[i] * GAMMA[a:b] @ np.log(np.exp(g[a:b]) / np.exp(g[a:b]).sum())
    return loss


@pytest.mark.parametrize("hidden", [0, 3])
def test_gate_is_at_a_minimum_of_its_loss(hidden):
    share = rng.uniform(size=20)
    share /= share.sum()
    gate = Gate(hidden, penalty=1e-3, iterations=3000).fit(BAGS, GAMMA, share=share)
    steps = 1e-4 * np.eye(len(gate.theta_))
    slopes = [
        (naive_loss(gate, gate.theta_ + s, share) - naive_loss(gate, gate.theta_ - s, share)) / 2e-4 for s in steps
    ]
    assert np.abs(slopes).max() < 1e-4
    assert naive_loss(gate, gate.theta_, share) < naive_loss(gate, np.zeros_like(gate.theta_), share) - 1e-3
    np.testing.assert_allclose(segment_sum(gate.probabilities(BAGS), BAGS.offsets), 1.0)


def test_gate_goes_on_from_where_it_was():
    first = Gate(3, iterations=300).fit(BAGS, GAMMA)
    again = Gate(3, iterations=1).fit(BAGS, GAMMA, start=first)
    np.testing.assert_allclose(again.probabilities(BAGS), first.probabilities(BAGS), atol=1e-3)
    np.testing.assert_allclose(Gate(3).begin(BAGS).probabilities(BAGS), 1 / BAGS.expand(BAGS.sizes))


def test_gate_finds_what_marks_the_primary_instance():
    """The instance largest in feature 0 carries the target."""
    bags, y = make_problem("prime", 100, random_state=0)
    test, truth = make_problem("prime", 200, random_state=1)
    model = Reweighting(weighting=Mixture("gated", gate=Gate(0, penalty=1e-3)), tolerance=1e-4).fit(bags, y)
    error = {
        rule: np.mean((model.set_params(rule=rule).predict(test) - truth) ** 2) for rule in ("mean", "median", "prime")
    }
    assert max(error.values()) < 0.2 * np.var(truth)
    blind = Reweighting(tolerance=1e-4).fit(bags, y)
    assert np.mean((blind.predict(test) - truth) ** 2) > 0.8 * np.var(truth)

    chances, values = model.instance_weights(test), model.predict_instances(test)
    np.testing.assert_allclose(model.set_params(rule="mean").predict(test), segment_sum(chances * values, test.offsets))
    primes = [a + chances[a:b].argmax() for a, b in zip(test.offsets[:-1], test.offsets[1:], strict=True)]
    np.testing.assert_allclose(model.set_params(rule="prime").predict(test), values[primes])


def test_weighted_median_by_its_definition():
    for bags in zoo(1).values():
        values = bags.instances[:, 0]
        equal = 1 / bags.expand(bags.sizes)
        np.testing.assert_allclose(
            segment_weighted_median(values, equal, bags.offsets), segment_median(values, bags.offsets)
        )
    values, offsets = rng.normal(size=12), np.array([0, 5, 6, 12])
    counts = rng.integers(0, 4, size=12) + (np.arange(12) == 5)
    repeated = [np.repeat(values[a:b], counts[a:b]) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    weights = counts / np.repeat([len(r) for r in repeated], np.diff(offsets))
    got = segment_weighted_median(values, weights, offsets)
    np.testing.assert_allclose(got, [np.median(r) for r in repeated])  # a whole weight is a repetition


@pytest.mark.kernels
def test_rounding_is_not_amplified_from_round_to_round():
    """Steps of L-BFGS that ended at a place of their own made of the last digit, as CPUs differ in it, the first."""
    bags, y = bw.datasets.make_aerosol(24, instances=8, ragged=True, random_state=2)
    nudge = 1 + 2.0**-52 * np.random.default_rng(0).integers(-1, 2, size=bags.instances.shape)
    one, other = (bw.method("em:gated-linear").fit(some, y) for some in (bags, bags.replace(bags.instances * nudge)))
    assert len(one[-1].objective_) > 10
    # The least squares have condition numbers of about 1e3, and 1e-16 comes in.
    np.testing.assert_allclose(one.predict(bags), other.predict(bags), rtol=1e-9)
