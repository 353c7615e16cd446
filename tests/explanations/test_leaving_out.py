import numpy as np
import pytest
from tests.helpers.short_fits import brief

import bagwise as bw
from bagwise.explanations import explain
from bagwise.explanations import explanation as leaving_out
from bagwise.testing import zoo
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(40)
METHODS = ["instance-kme", "input-kme", "quantile", "statistics", "miles", "shrinkage", "em", "salience"]


def naive_effects(model, bags):
    """One bag and one instance after the other; 0 for the only instance of a bag."""
    effects = []
    for bag in bags:
        whole = model.predict([bag])[0]
        for l in range(len(bag)):
            rest = np.delete(bag, l, axis=0)
            effects.append(whole - model.predict([rest])[0] if len(rest) else 0.0)
    return np.array(effects)


@pytest.mark.parametrize("name", METHODS)
def test_effects_are_those_of_the_loop(name):
    model = brief(bw.method(name)).fit(BAGS, Y)
    new, _ = sample(10, random_state=1)
    got = explain(model, new, kind="leave-one-out").effects
    np.testing.assert_allclose(got, naive_effects(model, new), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in zoo() if name != "one huge"])
def test_awkward_bags(name):
    bags = zoo(2)[name]
    model = bw.method("input-kme", preset="second-kernel").fit(bags, np.arange(float(len(bags))))
    explanation = explain(model, bags)
    np.testing.assert_allclose(explanation.effects, naive_effects(model, bags), rtol=1e-6, atol=1e-7)
    assert explanation.alone.tolist() == [size == 1 for size in bags.sizes for _ in range(size)]
    assert (explanation.effects[explanation.alone] == 0).all()


def test_blocks_change_nothing(monkeypatch):
    model = bw.method("statistics", preset="linear").fit(BAGS, Y)
    whole = explain(model, BAGS).effects
    monkeypatch.setattr(leaving_out, "BLOCK_VALUES", 3 * 11)
    monkeypatch.setattr(leaving_out, "BLOCK_BAGS", 5)
    np.testing.assert_allclose(explain(model, BAGS).effects, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_processes_change_nothing(monkeypatch):
    monkeypatch.setattr(leaving_out, "BLOCK_BAGS", 20)
    model = bw.method("statistics", preset="linear").fit(BAGS, Y)
    np.testing.assert_array_equal(explain(model, BAGS, n_jobs=2).effects, explain(model, BAGS).effects)


def test_rowwise_stages_see_every_instance_once(monkeypatch):
    model, seen = bw.method("instance-median").fit(BAGS, Y), []
    stage = type(model["instances"])
    transform = stage.transform
    monkeypatch.setattr(stage, "transform", lambda self, bags: seen.append(bags.n_instances) or transform(self, bags))
    explain(model, BAGS, kind="leave-one-out")
    assert max(seen) == BAGS.n_instances


@pytest.mark.parametrize("name", ["aggregated", "instance-kme", "quantile"])
def test_effects_of_weighted_instances_are_those_of_the_loop(name):
    rng = np.random.default_rng(0)
    bags = BAGS.with_weights(rng.uniform(0.1, 3.0, BAGS.n_instances)).with_covariates(rng.normal(size=40), ["sun"])
    model, new = brief(bw.method(name)).fit(bags, Y), bags[:8]
    expected, whole = [], model.predict(new)
    for row, i in enumerate(new.expand(np.arange(8))):
        kept = np.setdiff1d(new.rows([i]), row)
        carried = {"weights": new.weights[kept], "covariates": new.covariates[[i]], "covariate_names": ["sun"]}
        rest = bw.Bags(new.instances[kept], [0, len(kept)], **carried) if len(kept) else None
        expected.append(0.0 if rest is None else whole[i] - model.predict(rest)[0])
    np.testing.assert_allclose(explain(model, new, kind="leave-one-out").effects, expected, rtol=1e-6, atol=1e-9)


class WeightedMean:
    def predict(self, bags):
        return np.add.reduceat(bags.shares() * bags.instances[:, 0], bags.offsets[:-1])


def test_weights_and_an_instance_that_is_all_that_counts():
    bags = bw.from_arrays([np.array([1.0, 3.0, 9.0]), np.array([2.0, 5.0])]).with_weights([1, 2, 1, 1, 0])
    explanation = explain(WeightedMean(), bags)
    np.testing.assert_allclose(explanation.predictions, [4.0, 2.0])
    np.testing.assert_allclose(explanation.effects, [4 - 5, 4 - 5, 4 - 7 / 3, 0.0, 0.0])
    assert explanation.alone.tolist() == [False, False, False, True, False]


def test_large_bags_are_refused_by_name():
    bags = bw.from_arrays([np.zeros((2, 1)), np.zeros((12, 1)), np.ones((11, 1))], ids=["a", "b", "c"])
    model = bw.method("phase").fit(bags, [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"bag 'b' \(and 1 other\) has more than 10 instances .* max_instances=12"):
        explain(model, bags, max_instances=10)
    assert explain(model, bags, max_instances=12).effects.shape == (25,)
