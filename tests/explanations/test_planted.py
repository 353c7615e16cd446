"""Instances that are known to matter, or to spoil their bag, must be found."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.datasets import make_problem
from bagwise.explanations import explain

PRIME = make_problem("prime", 250)
NEW, _ = make_problem("prime", 100, random_state=1)  # 5 to 55 instances in a bag


def largest(values, bags):
    """The position of the largest value of every bag."""
    return np.array([part.argmax() for part in np.split(values, bags.offsets[1:-1])])


KEY = largest(NEW.instances[:, 0], NEW)


def test_em_and_leaving_out_find_the_primary_instance():
    explanation = explain(bw.method("em").fit(*PRIME), NEW, kind="leave-one-out")
    assert np.mean(1 / NEW.sizes) < 0.05  # by chance
    assert np.mean(largest(explanation.weights, NEW) == KEY) > 0.6
    assert np.mean(largest(np.abs(explanation.effects), NEW) == KEY) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "instance-kme-attention"])
def test_attention_finds_the_primary_instance(name):
    explanation = explain(bw.method(name).fit(*PRIME), NEW, kind="leave-one-out")
    assert np.mean(largest(explanation.weights, NEW) == KEY) > 0.6
    assert np.mean(largest(np.abs(explanation.effects), NEW) == KEY) > 0.5


def around(n_bags, seed, *, outliers):
    """Bags around a hidden value that is the target; with outliers, the first instance of every bag lies far off."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-1, 1, n_bags)
    rows = y[:, None] + 0.2 * rng.normal(size=(n_bags, 10))
    rows[:, 0] += outliers * rng.choice([-4.0, 4.0], n_bags)
    return bw.from_arrays(list(rows[:, :, None])), y


@pytest.mark.parametrize("name", ["aggregated", "instance-mean", "instance-kme", "input-kme"])
def test_leaving_out_finds_outliers_in_new_bags(name):
    new, _ = around(100, 1, outliers=True)
    explanation = explain(bw.method(name).fit(*around(100, 0, outliers=False)), new, kind="leave-one-out")
    assert np.mean(largest(np.abs(explanation.effects), new) == 0) > 0.8  # 0.1 by chance


@pytest.mark.parametrize("name", ["em", "pruning", "instance-median"])
def test_outliers_get_little_weight(name):
    new, _ = around(100, 1, outliers=True)
    weights = explain(bw.method(name).fit(*around(100, 0, outliers=True)), new).weights.reshape(100, 10)
    assert weights[:, 0].mean() < 0.05 < 0.5 * weights[:, 1:].mean()
