"""The contract checks notice what they are for: an honest estimator passes, and one toy per promise fails."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from bagwise.bags import check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.segments import segment_mean
from bagwise.testing import bag_estimator_checks, check_bag_estimator, parametrize_with_checks
from bagwise.testing.contract_checks import CHECKS

REPEATS = "repeated_instances_change_nothing"


class Honest(RegressorMixin, BaseEstimator):
    """The weighted mean of the targets for every bag, and a little of the mean of its first feature."""

    def __init__(self, scale=1.0, n_jobs=None):
        self.scale = scale
        self.n_jobs = n_jobs

    def fit(self, bags, y, sample_weight=None):
        bags, y = check_fit(bags, y)
        remember_columns(self, bags)
        weights = check_weights(sample_weight, bags)
        self.mean_ = np.average(y, weights=weights)
        spread = np.average((y - self.mean_) ** 2, weights=weights) ** 0.5
        self.slope_ = 1e-3 * spread / (np.abs(bags.instances).max() + 1e-300)
        return self

    def predict(self, bags):
        return self._predict(check_bags(bags, fitted=self))

    def _predict(self, bags):
        return self.mean_ + self.slope_ * segment_mean(bags.instances[:, 0], bags.offsets)


class ChangesParameters(Honest):
    def fit(self, bags, y, sample_weight=None):
        self.scale = 2.0
        return super().fit(bags, y, sample_weight)


class ClonesBadly(Honest):
    def __init__(self, scale=1.0, n_jobs=None):
        super().__init__(scale, n_jobs)

    def set_params(self, **params):
        super().set_params(**params)
        self.scale = 3.0
        return self


class ReturnsNothing(Honest):
    def fit(self, bags, y, sample_weight=None):
        super().fit(bags, y, sample_weight)


class ReturnsAColumn(Honest):
    def _predict(self, bags):
        return super()._predict(bags)[:, None]


class Random(Honest):
    def fit(self, bags, y, sample_weight=None):
        super().fit(bags, y, sample_weight)
        self.mean_ += np.random.default_rng().normal()
        return self


class Remembers(Honest):
    def fit(self, bags, y, sample_weight=None):
        before = getattr(self, "mean_", 0.0)
        super().fit(bags, y, sample_weight)
        self.mean_ += before
        return self


class CountsProcesses(Honest):
    def _predict(self, bags):
        return super()._predict(bags) + (self.n_jobs or 0)


class WritesToTargets(Honest):
    def fit(self, bags, y, sample_weight=None):
        super().fit(bags, y, sample_weight)
        y -= self.mean_
        return self


class WritesToArrays(Honest):
    def predict(self, bags):
        if isinstance(bags, list):
            bags[0] *= 2.0
        return super().predict(bags)


class LooksAtThePlace(Honest):
    def _predict(self, bags):
        return super()._predict(bags) + np.arange(len(bags))


class LooksAtTheOthers(Honest):
    def _predict(self, bags):
        means = segment_mean(bags.instances[:, 0], bags.offsets)
        return means - means.mean() + self.mean_


class TakesTheFirstInstance(Honest):
    def _predict(self, bags):
        return bags.instances[bags.offsets[:-1], 0] + self.mean_


class AddsUp(Honest):
    def _predict(self, bags):
        return np.add.reduceat(bags.instances[:, 0], bags.offsets[:-1]) + self.mean_


class AnyWidth(Honest):
    def predict(self, bags):
        return self._predict(check_bags(bags))


class AnyTargets(Honest):
    def fit(self, bags, y, sample_weight=None):
        known = min(len(bags), len(y))
        return super().fit(check_bags(bags)[:known], np.asarray(y)[:known], sample_weight)


class DeafToWeights(Honest):
    def fit(self, bags, y, sample_weight=None):
        return super().fit(bags, y)


class CountsWeightless(Honest):
    def fit(self, bags, y, sample_weight=None):
        super().fit(bags, y, sample_weight)
        self.mean_ += 1e-3 * np.mean(y)
        return self


class GuessesUnfitted(Honest):
    def predict(self, bags):
        return super().predict(bags) if hasattr(self, "mean_") else np.zeros(len(bags))


class ForgetsInPickle(Honest):
    def __getstate__(self):
        return {name: 0.0 if name == "mean_" else value for name, value in super().__getstate__().items()}


class DividesBySpread(Honest):
    def fit(self, bags, y, sample_weight=None):
        super().fit(bags, y, sample_weight)
        spread = check_bags(bags).instances.std(axis=0).min()
        self.slope_ = 1e-12 / spread if spread else np.nan
        return self


class NeedsManyBags(Honest):
    def _predict(self, bags):
        return super()._predict(bags) * (np.nan if self.n_features_in_ == 2 else 1.0)


class FixedPenalty(Honest):
    """Explodes when the targets are small: its floor is in their unit."""

    def _predict(self, bags):
        return super()._predict(bags) + bags.instances[:, 0][bags.offsets[:-1]] * 1e-6


class SinglePrecision(Honest):
    def _predict(self, bags):
        sizes = segment_mean(bags.instances.astype(np.float32) ** 4, bags.offsets).max(axis=1)
        return np.where(np.isfinite(sizes), super()._predict(bags), np.nan)


class SmallBagsOnly(Honest):
    limit = 2_000

    def _predict(self, bags):
        return np.where(bags.sizes > self.limit, np.inf, super()._predict(bags))


class MiddlingBagsOnly(SmallBagsOnly):
    limit = 50_000


class DoubleOnly(Honest):
    def _predict(self, bags):
        return super()._predict(bags) * (1.0 if bags.instances.dtype == np.float64 else np.nan)


class TrustsTheLayout(Honest):
    def predict(self, bags):
        shift = float(isinstance(bags, list) and not bags[0].flags.c_contiguous)
        return super().predict(bags) + shift


def test_an_honest_one_passes():
    check_bag_estimator(Honest(), laws=[REPEATS])


BROKEN = {
    "parameters": [
        (ChangesParameters, "fit changed a parameter"),
        (ClonesBadly, "set_params of what get_params gave changes"),
    ],
    "one_finite_number_per_bag": [
        (ReturnsNothing, "fit must return self"),
        (ReturnsAColumn, "one number per bag"),
    ],
    "same_seed_same_answer": [
        (Random, "two fits with the same seed differ"),
        (Remembers, "a second fit remembers the first"),
    ],
    "n_jobs_changes_nothing": [(CountsProcesses, "n_jobs changes the answer")],
    "input_is_left_alone": [
        (WritesToTargets, "the targets were written to"),
        (WritesToArrays, "the bags were written to"),
    ],
    "wrong_features_are_refused": [(AnyWidth, "expected a ValueError with 'features'")],
    "wrong_targets_are_refused": [(AnyTargets, "expected a ValueError with 'y has 23 values")],
    "bag_weights": [
        (DeafToWeights, "the weights change nothing"),
        (CountsWeightless, "a bag of weight zero matters"),
    ],
    "unfitted_predict_is_refused": [(GuessesUnfitted, "must raise NotFittedError")],
    "pickles": [(ForgetsInPickle, "a pickled copy predicts otherwise")],
    "order_of_bags_permutes_the_output": [(LooksAtThePlace, "depends on the place of its bag")],
    "order_of_instances_never_matters": [(TakesTheFirstInstance, "the order of instances matters")],
    "company_never_matters": [(LooksAtTheOthers, "depends on the other bags in the call")],
    REPEATS: [(AddsUp, "repeating every instance changes the prediction")],
    "tiny_data": [(NeedsManyBags, "not finite for two bags of one instance")],
    "scales_of_the_target": [(FixedPenalty, "explode for targets of scale 1e-12")],
    "scales_of_the_features": [(SinglePrecision, "not finite for features of scale 1e[+]12")],
    "constant_features_and_targets": [(DividesBySpread, "not finite for a constant feature")],
    "one_large_bag_among_small": [(SmallBagsOnly, "a bag of 3000 instances")],
    "one_huge_bag_among_single_instances": [(MiddlingBagsOnly, "a bag of 100000 instances")],
    "number_types": [(DoubleOnly, "not finite for float32")],
    "layouts_of_arrays": [(TrustsTheLayout, "Fortran arrays change the answer")],
}
CASES = [pytest.param(check, *case, id=case[0].__name__) for check, cases in BROKEN.items() for case in cases]


@pytest.mark.parametrize(("check", "broken", "words"), CASES)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_broken_one_does_not(check, broken, words):
    with pytest.raises(AssertionError, match=words):
        CHECKS[check](broken())


def test_every_check_has_a_toy_that_fails_it():
    """That of saving is tried where models are saved."""
    assert {*CHECKS} - {*BROKEN} == {"saves"}


def test_the_error_says_which_check_it_was():
    with pytest.raises(AssertionError) as caught:
        check_bag_estimator(LooksAtTheOthers())
    assert caught.value.__notes__[0].startswith("in the contract check 'company_never_matters'")


def test_a_law_is_asked_for():
    check_bag_estimator(AddsUpFinely())
    with pytest.raises(AssertionError, match="repeating every instance"):
        check_bag_estimator(AddsUpFinely(), laws=[REPEATS])


class AddsUpFinely(Honest):
    def _predict(self, bags):
        return self.mean_ + 1e-3 * self.slope_ * np.add.reduceat(bags.instances[:, 0], bags.offsets[:-1])


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="'ordr' is unknown: give a list of checks, of parameters, "):
        check_bag_estimator(Honest(), skip=["ordr"])
    with pytest.raises(ValueError, match="give a list of optional laws, of repeated_instances_change_nothing"):
        bag_estimator_checks(laws=REPEATS)
    with pytest.raises(ValueError, match="'pickles' is unknown: give a list of optional laws"):
        bag_estimator_checks(laws=["pickles"])


@parametrize_with_checks(
    [Honest()], laws=[REPEATS], skip=["saves", "n_jobs_changes_nothing", "one_huge_bag_among_single_instances"]
)
def test_the_decorator(estimator, check):
    check(estimator)


def test_what_the_decorator_shows():
    cases = parametrize_with_checks({"ours": Honest()}, laws=[REPEATS]).args[1]
    assert [case.id for case in cases] == [f"ours-{name}" for name in CHECKS]
    assert len({id(case.values[0]) for case in cases}) == len(cases)  # a check fits what it is given
    ids = [case.id for case in parametrize_with_checks([Honest(scale=2), Honest(scale="x" * 99)]).args[1]]
    assert ids[0] == "Honest(scale=2)-parameters" and ids[-1].startswith("Honest-")
