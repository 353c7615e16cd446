import tracemalloc
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import bagwise as bw
from bagwise.intervals import BagScale, Intervals
from bagwise.intervals.scales import Constant, Fitted, ModelStd
from bagwise.regressors import EvidenceRidge
from bagwise.testing.contract_checks import zoo

rng = np.random.default_rng(0)
SIZES = np.tile([1, 2, 5, 20, 80], 400)
BAGS = bw.from_arrays([rng.normal(size=(n, 2)) for n in SIZES])
NOISE = rng.normal(size=len(SIZES)) / np.sqrt(2 / np.pi)  # of mean absolute value one


def test_the_scale_of_a_mean_is_found():
    """E|residual| = b + (a - b) / √size."""
    scale = BagScale(spread=False).fit(BAGS, NOISE * (0.2 + 0.8 / np.sqrt(SIZES)))
    np.testing.assert_allclose(scale.coef_, [1.0, 0.2, 0.0, 0.0], atol=0.06)


def test_the_spread_of_a_bag_widens_it():
    width = rng.uniform(0.2, 3.0, 1000)
    bags = bw.from_arrays([w * rng.normal(size=(50, 2)) for w in width])
    got = BagScale().fit(bags, NOISE[:1000] * width).predict(bags)
    np.testing.assert_allclose(got, width, rtol=0.3, atol=0.15)
    assert np.corrcoef(got, width)[0, 1] > 0.98
    assert np.ptp(BagScale(spread=False).fit(bags, NOISE[:1000] * width).predict(bags)) == 0.0


def test_a_bag_of_one_has_the_usual_spread():
    """The expected spread is the same for every size when all bags are drawn alike."""
    scale = BagScale().fit(BAGS, NOISE)
    spread = scale._columns(BAGS)[:, 2:].sum(axis=1) ** 2
    means = [spread[size == SIZES].mean() for size in (1, 2, 5, 20, 80)]
    np.testing.assert_allclose(means, scale.usual_, rtol=0.05)


def test_the_scale_follows_the_units_of_the_target_and_not_those_of_the_features():
    plain = BagScale().fit(BAGS, NOISE).predict(BAGS)
    for factor in (1e-12, 1e12):
        np.testing.assert_allclose(BagScale().fit(BAGS, factor * NOISE).predict(BAGS), factor * plain, rtol=1e-6)
        other = BAGS.replace(factor * BAGS.instances)
        np.testing.assert_allclose(BagScale().fit(other, NOISE).predict(other), plain, rtol=1e-6)


@pytest.mark.parametrize("name, bags", zoo(2).items())
@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_the_scale_is_positive_and_finite_on_awkward_bags(name, bags):
    for residuals in (rng.normal(size=len(bags)), np.zeros(len(bags))):
        scale = BagScale().fit(bags, residuals).predict(bw.from_arrays([np.full((10**4, 2), 1e3), *bags]))
        assert np.isfinite(scale).all() and (scale > 0).all()


def test_missing_values_are_taken():
    rows = BAGS.instances.copy()
    rows[::7, 0], rows[:, 1] = np.nan, np.nan
    bags = bw.Bags(rows, BAGS.offsets, missing="keep")
    scale = BagScale().fit(bags, NOISE).predict(bags)
    assert np.isfinite(scale).all() and (scale > 0).all()


class HeldMemory(BaseEstimator):
    """A scale of one that notes how many bytes are held when it is fitted."""

    seen: ClassVar[list[int]] = []

    def fit(self, bags, residuals):
        self.seen.append(tracemalloc.get_traced_memory()[0])
        return self

    def predict(self, bags):
        return np.ones(len(bags))


class TestOfFolds:
    bags, y = bw.datasets.make_problem("mean", 40, random_state=3)

    def test_a_scale_is_fitted_without_its_fold(self):
        model = Intervals("aggregated", folds=4).fit(self.bags, self.y)
        assert isinstance(model.scale_, Fitted) and len(model.scale_.scales) == 4
        for k, scale in enumerate(model.scale_.scales):
            outside = model.fold_ != k
            again = BagScale().fit(self.bags[outside], model.residuals_[outside])
            np.testing.assert_array_equal(scale.coef_, again.coef_)
            own = model.fold_ == k
            expected = np.abs(model.residuals_[own]) / scale.predict(self.bags[own])
            np.testing.assert_allclose(model.scores_[own], expected, rtol=1e-12)

    def test_many_folds_share_ten_scales(self):
        model = Intervals("aggregated", kind="jackknife+").fit(self.bags, self.y)
        assert len(model.scale_.scales) == 10
        seen_by_third = model.fold_ % 10 != 3
        again = BagScale().fit(self.bags[seen_by_third], model.residuals_[seen_by_third])
        np.testing.assert_array_equal(model.scale_.scales[3].coef_, again.coef_)

    def test_parts_of_the_bags_are_in_memory_one_at_a_time(self):
        bags = bw.Bags(np.random.default_rng(0).normal(size=(5000, 40)), np.arange(0, 5001, 50))
        HeldMemory.seen.clear()
        tracemalloc.start()
        try:
            Intervals("aggregated", folds=10, scale=HeldMemory()).fit(bags, np.arange(100.0))
        finally:
            tracemalloc.stop()
        assert len(HeldMemory.seen) == 10 and max(HeldMemory.seen) < 4 * bags.instances.nbytes

    def test_the_scale_of_a_split_does_not_know_the_held_out_targets(self):
        model = Intervals("aggregated", kind="split").fit(self.bags, self.y)
        other = self.y.copy()
        other[model.calibration_] += 100.0
        again = Intervals("aggregated", kind="split").fit(self.bags, other)
        np.testing.assert_array_equal(again.scale_.scales[0].coef_, model.scale_.scales[0].coef_)
        np.testing.assert_array_equal(again.predict(self.bags), model.predict(self.bags))

    def test_an_object_may_be_the_scale(self):
        named = Intervals("aggregated").fit(self.bags, self.y)
        given = Intervals("aggregated", scale=BagScale()).fit(self.bags, self.y)
        np.testing.assert_array_equal(named.predict_interval(self.bags), given.predict_interval(self.bags))
        assert isinstance(Intervals(scale="none").fit(self.bags, self.y).scale_, Constant)

    def test_the_standard_deviations_of_a_method_are_its_scale(self):
        model = Intervals(EvidenceRidge(), scale="std", folds=3).fit(self.bags, self.y)
        assert isinstance(model.scale_, ModelStd)
        for k, fitted in enumerate(model.left_out_.models):
            mean, std = fitted.predict(self.bags, return_std=True)
            own = model.fold_ == k
            np.testing.assert_allclose(model.residuals_[own], (self.y - mean)[own], rtol=1e-12)
            np.testing.assert_allclose(model.scores_[own], np.abs(self.y - mean)[own] / std[own], rtol=1e-12)

    def test_a_method_without_doubt_has_scale_one(self):
        model = Intervals(EvidenceRidge(), scale="std", folds=3).fit(self.bags, np.full(40, 5.0))
        np.testing.assert_array_equal(model.scale_.predict_folds(self.bags), 1.0)
        np.testing.assert_allclose(model.predict_interval(self.bags), 5.0)

    def test_a_method_without_standard_deviations_is_refused(self):
        with pytest.raises(ValueError, match="scale='std' needs a method whose predict takes return_std.*aggregated"):
            Intervals("aggregated", scale="std").fit(self.bags, self.y)


@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_instances_of_no_weight_are_not_seen():
    """The scale said that it took instance weights, and did not look at them."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) for n in rng.integers(2, 20, 40)]
    errors = rng.normal(size=40)
    plain = bw.from_arrays(arrays)
    crowd = [np.concatenate([array, 50 * rng.normal(size=(20, 2))]) for array in arrays]
    weights = [np.repeat([1.0, 0.0], [len(array), 20]) for array in arrays]
    weighted = bw.from_arrays(crowd).with_weights(np.concatenate(weights))
    expected = BagScale().fit(plain, errors).predict(plain)
    np.testing.assert_allclose(BagScale().fit(weighted, errors).predict(weighted), expected, rtol=1e-9)
