"""The contract checks themselves notice what they are for."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from bagwise.bags import check_bags, check_fit, remember_columns
from bagwise.bags.segments import segment_mean
from bagwise.testing import check_bag_estimator


class Honest(RegressorMixin, BaseEstimator):
    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, bags, y):
        bags, y = check_fit(bags, y)
        remember_columns(self, bags)
        self.mean_ = y.mean()
        return self

    def predict(self, bags):
        bags = check_bags(bags, fitted=self)
        return np.full(len(bags), self.mean_)


class ChangesParameters(Honest):
    def fit(self, bags, y):
        self.scale = 2.0
        return super().fit(bags, y)


class LooksAtTheOthers(Honest):
    def predict(self, bags):
        bags = check_bags(bags, fitted=self)
        means = segment_mean(bags.instances[:, 0], bags.offsets)
        return means - means.mean() + self.mean_


class TakesTheFirstInstance(Honest):
    def predict(self, bags):
        bags = check_bags(bags, fitted=self)
        return bags.instances[bags.offsets[:-1], 0] * 0.0001 + self.mean_


class Random(Honest):
    def predict(self, bags):
        return super().predict(bags) + np.random.default_rng().normal(size=len(bags))


class Careless(Honest):
    def predict(self, bags):
        return np.full(len(bags), np.nan)


class AnyWidth(Honest):
    def predict(self, bags):
        bags = check_bags(bags)
        return np.full(len(bags), self.mean_)


def test_an_honest_one_passes():
    check_bag_estimator(Honest())


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (ChangesParameters, "changed a parameter"),
        (LooksAtTheOthers, "Not equal to tolerance"),
        (TakesTheFirstInstance, "Not equal to tolerance"),
        (Random, "Arrays are not equal"),
        (Careless, "not finite"),
        (AnyWidth, "expected a ValueError"),
    ],
)
def test_a_broken_one_does_not(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_bag_estimator(broken())
