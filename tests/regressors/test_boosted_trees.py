"""Boosted trees of few bags, and of many: those of scikit-learn with the leaf that the number of bags allows."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import bagwise as bw
from bagwise.regressors import BoostedTrees

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(130, 6))
Y = np.sin(Z[:, 0]) + Z[:, 1]
OPTIONS = {"max_iter": 20, "random_state": 3}


def plain(leaf: int) -> HistGradientBoostingRegressor:
    columns = {"learning_rate": 0.05, "max_features": 0.2, "max_leaf_nodes": 15, "early_stopping": False}
    return HistGradientBoostingRegressor(min_samples_leaf=leaf, **columns, **OPTIONS)


@pytest.mark.parametrize("n, leaf", [(4, 2), (10, 2), (15, 3), (39, 7), (99, 19), (100, 20), (130, 20)])
def test_the_smallest_leaf_follows_the_number_of_bags(n, leaf):
    found = BoostedTrees(**OPTIONS).fit(Z[:n], Y[:n])
    np.testing.assert_array_equal(found.predict(Z), plain(leaf).fit(Z[:n], Y[:n]).predict(Z))


def test_a_leaf_that_was_asked_for_stays():
    found = BoostedTrees(min_samples_leaf=9, **OPTIONS).fit(Z[:30], Y[:30])
    np.testing.assert_array_equal(found.predict(Z), plain(9).fit(Z[:30], Y[:30]).predict(Z))
    with pytest.raises(ValueError, match="'min_samples_leaf' parameter .* must be an int"):
        BoostedTrees(min_samples_leaf="few").fit(Z, Y)


def test_bags_of_weight_zero_do_not_count():
    weights = np.r_[np.ones(15), np.zeros(115)]
    found = BoostedTrees(**OPTIONS).fit(Z, Y, sample_weight=weights)
    np.testing.assert_array_equal(found.predict(Z), plain(3).fit(Z, Y, sample_weight=weights).predict(Z))


@pytest.mark.parametrize("n", [20, 27, 39])
def test_statistics_of_few_bags_beat_the_mean(n):
    """One constant was predicted below 40 bags."""
    bags, y = bw.datasets.make_problem("mean", n + 200, random_state=0)
    model = bw.method("statistics").fit(bags[:n], y[:n])
    errors = np.mean((model.predict(bags[n:]) - y[n:]) ** 2)
    assert errors < 0.7 * np.mean((y[:n].mean() - y[n:]) ** 2)
