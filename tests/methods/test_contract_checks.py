"""The contract checks notice what they are for: an honest estimator passes, and one toy per promise fails."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns
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


class ClonesBadly(Honest):
    def __init__(self, scale=1.0, n_jobs=None):
        super().__init__(scale, n_jobs)

    def set_params(self, **params):
        super().set_params(**params)
        self.scale = 3.0
        return self


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


class ForgetsInPickle(Honest):
    def __getstate__(self):
        return {name: 0.0 if name == "mean_" else value for name, value in super().__getstate__().items()}


class DividesBySpread(Honest):
    def fit(self, bags, y, sample_weight=None):
        super().fit(bags, y, sample_weight)
        spread = check_bags(bags).instances.std(axis=0).min()
        self.slope_ = 1e-12 / spread if spread else np.nan
        return self


def fitting(fit):
    return type("Toy", (Honest,), {"fit": fit})


def asked(predict):
    return type("Toy", (Honest,), {"predict": predict})


def predicting(formula):
    """The toy whose predictions are ``formula(toy, bags, honest predictions)``."""
    return type("Toy", (Honest,), {"_predict": lambda self, bags: formula(self, bags, Honest._predict(self, bags))})


def shifted(shift):
    """The toy whose mean is off by ``shift(toy before fit, targets)``."""

    def fit(self, bags, y, sample_weight=None):
        off = shift(self, y)
        Honest.fit(self, bags, y, sample_weight)
        self.mean_ += off
        return self

    return fitting(fit)


def changing_parameters(self, bags, y, sample_weight=None):
    self.scale = 2.0
    return Honest.fit(self, bags, y, sample_weight)


def fitting_any_targets(self, bags, y, sample_weight=None):
    known = min(len(bags), len(y))
    return Honest.fit(self, check_bags(bags)[:known], np.asarray(y)[:known], sample_weight)


def relative_to_others(self, bags, predictions):
    means = segment_mean(bags.instances[:, 0], bags.offsets)
    return means - means.mean() + self.mean_


def in_single_precision(self, bags, predictions):
    sizes = segment_mean(bags.instances.astype(np.float32) ** 4, bags.offsets).max(axis=1)
    return np.where(np.isfinite(sizes), predictions, np.nan)


def first_instance(bags):
    return bags.instances[bags.offsets[:-1], 0]


def total(bags):
    return np.add.reduceat(bags.instances[:, 0], bags.offsets[:-1])


def test_an_honest_one_passes():
    check_bag_estimator(Honest(), laws=[REPEATS])


BROKEN = {
    "parameters": [
        (fitting(changing_parameters), "fit changed a parameter"),
        (ClonesBadly, "get_params.* changes a parameter"),
    ],
    "one_finite_number_per_bag": [
        (fitting(lambda self, *data: None), "fit must return self"),
        (predicting(lambda self, bags, p: p[:, None]), "one number per bag"),
    ],
    "same_seed_same_answer": [
        (shifted(lambda *_: np.random.default_rng().normal()), "two fits with the same seed differ"),
        (shifted(lambda self, y: getattr(self, "mean_", 0.0)), "a second fit remembers the first"),
    ],
    "n_jobs_changes_nothing": [
        (predicting(lambda self, bags, p: p + (self.n_jobs or 0)), "n_jobs changes the predictions")
    ],
    "input_is_left_alone": [
        (WritesToTargets, "the targets were written to"),
        (WritesToArrays, "the bags were written to"),
    ],
    "wrong_features_are_refused": [
        (asked(lambda self, bags: self._predict(check_bags(bags))), "expected a ValueError with 'features'")
    ],
    "wrong_targets_are_refused": [(fitting(fitting_any_targets), "expected a ValueError with 'y has 23 values")],
    "bag_weights": [
        (fitting(lambda self, bags, y, sample_weight=None: Honest.fit(self, bags, y)), "the weights have no effect"),
        (shifted(lambda self, y: 1e-3 * np.mean(y)), "the target of a bag of weight zero"),
    ],
    "unfitted_predict_is_refused": [
        (
            asked(lambda self, bags: Honest.predict(self, bags) if hasattr(self, "mean_") else np.zeros(len(bags))),
            "must raise NotFittedError",
        )
    ],
    "pickles": [(ForgetsInPickle, "a pickled copy predicts otherwise")],
    "order_of_bags_permutes_the_output": [
        (predicting(lambda self, bags, p: p + np.arange(len(bags))), "depends on the place of its bag")
    ],
    "order_of_instances_never_matters": [
        (predicting(lambda self, bags, p: first_instance(bags) + self.mean_), "the order of instances matters")
    ],
    "company_never_matters": [(predicting(relative_to_others), "depends on the other bags in the call")],
    REPEATS: [
        (predicting(lambda self, bags, p: total(bags) + self.mean_), "repeating each instance changes the prediction")
    ],
    "tiny_data": [
        (
            predicting(lambda self, bags, p: p * (np.nan if self.n_features_in_ == 2 else 1.0)),
            "not finite for two bags of one instance",
        )
    ],
    "scales_of_the_target": [
        (predicting(lambda self, bags, p: p + 1e-6 * first_instance(bags)), "explode for targets of scale 1e-12")
    ],
    "scales_of_the_features": [(predicting(in_single_precision), "not finite for features of scale 1e[+]12")],
    "constant_features_and_targets": [(DividesBySpread, "not finite for a constant feature")],
    "one_large_bag_among_small": [
        (predicting(lambda self, bags, p: np.where(bags.sizes > 2_000, np.inf, p)), "a bag of 3000 instances")
    ],
    "one_huge_bag_among_single_instances": [
        (predicting(lambda self, bags, p: np.where(bags.sizes > 50_000, np.inf, p)), "a bag of 100000 instances")
    ],
    "number_types": [
        (
            predicting(lambda self, bags, p: p * (1.0 if bags.instances.dtype == np.float64 else np.nan)),
            "not finite for float32",
        )
    ],
    "layouts_of_arrays": [
        (
            asked(lambda self, bags: Honest.predict(self, bags) * (type(bags) is Bags or bags[0].flags.c_contiguous)),
            "Fortran arrays change the answer",
        )
    ],
}
CASES = [pytest.param(check, *case, id=case[1]) for check, cases in BROKEN.items() for case in cases]


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
        check_bag_estimator(predicting(relative_to_others)(), skip=["pickles", "saves"])
    assert caught.value.__notes__[0].startswith("in the contract check 'company_never_matters'")


def test_a_law_is_asked_for():
    adds_up = predicting(lambda self, bags, p: self.mean_ + 1e-3 * self.slope_ * total(bags))
    check_bag_estimator(adds_up(), skip=["pickles", "saves"])
    with pytest.raises(AssertionError, match="repeating each instance"):
        check_bag_estimator(adds_up(), laws=[REPEATS], skip=["pickles", "saves"])


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="skip must be a list of names from parameters, .* got 'ordr'"):
        check_bag_estimator(Honest(), skip=["ordr"])
    with pytest.raises(ValueError, match="laws must be a list of names from repeated_instances_change_nothing"):
        bag_estimator_checks(laws=REPEATS)
    with pytest.raises(ValueError, match="laws must be a list of names from .* got 'pickles'"):
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
