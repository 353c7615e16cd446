"""Checks of conduct: parameters, seeds, refusals, weights, copies by pickle and in a file."""

from __future__ import annotations

import pickle
import tempfile

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import has_fit_parameter

from bagwise.testing.trying import expect_finite, expect_refusal, expect_same, sample


def check_parameters(estimator):
    """Clone copies every parameter, set_params takes what get_params gave and no other name; fit changes none."""
    before = _shown(estimator)
    assert _shown(clone(estimator)) == before, "clone differs"
    same = clone(estimator).set_params(**estimator.get_params(deep=False))
    assert _shown(same) == before, "set_params of what get_params gave changes a parameter"
    expect_refusal(lambda: clone(estimator).set_params(no_such_parameter=1), "no_such_parameter")
    estimator.fit(*sample())
    assert _shown(estimator) == before, "fit changed a parameter"


def _shown(estimator) -> dict[str, str]:
    return {name: repr(value) for name, value in estimator.get_params().items()}


def check_one_finite_number_per_bag(estimator):
    """``fit`` returns the estimator, ``predict`` an array with a finite number per bag."""
    bags, y = sample()
    assert estimator.fit(bags, y) is estimator, "fit must return self"
    got = estimator.predict(bags)
    assert isinstance(got, np.ndarray) and got.shape == (len(bags),), "predict must give one number per bag"
    expect_finite(got)


def check_same_seed_same_answer(estimator):
    """Two fits agree to the last bit, and so does a refit: what a first fit left behind does not matter."""
    bags, y = sample()
    first, again = clone(estimator).fit(bags, y).predict(bags), clone(estimator).fit(bags, y).predict(bags)
    expect_same(again, first, "two fits with the same seed differ")
    estimator.fit(*sample(20, random_state=1)).fit(bags, y)
    expect_same(estimator.predict(bags), first, "a second fit remembers the first")


def check_n_jobs_changes_nothing(estimator):
    """One process or two: the same numbers to the last bit."""
    names = [name for name in estimator.get_params() if name == "n_jobs" or name.endswith("__n_jobs")]
    bags, y = sample()
    one, two = (clone(estimator).set_params(**dict.fromkeys(names, n)).fit(bags, y).predict(bags) for n in (1, 2))
    expect_same(two, one, "n_jobs changes the answer")


def check_input_is_left_alone(estimator):
    """Neither ``fit`` nor ``predict`` writes to the bags, the targets or arrays of the caller."""
    bags, y = sample()
    arrays = [np.array(bag) for bag in bags]
    before, targets = pickle.dumps((bags, arrays)), y.copy()
    estimator.fit(bags, y).predict(bags)
    estimator.fit(arrays, y).predict(arrays)
    assert pickle.dumps((bags, arrays)) == before, "the bags were written to"
    expect_same(y, targets, "the targets were written to")


def check_wrong_features_are_refused(estimator):
    """Another number of features than in ``fit``, other names, or another order of them."""
    bags, y = sample()
    estimator.fit(bags, y)
    for n_features in (2, 4):
        expect_refusal(lambda n=n_features: estimator.predict(sample(n_features=n)[0]), "features")
    named, y = sample(feature_names=["a", "b", "c"])
    estimator.fit(named, y)
    expect_refusal(lambda: estimator.predict(sample(feature_names=["a", "c", "b"])[0]), "another order")
    expect_refusal(lambda: estimator.predict(sample(feature_names=["a", "b", "z"])[0]), "features differ")


def check_wrong_targets_are_refused(estimator):
    """Too few targets, a missing one, a single bag."""
    bags, y = sample()
    expect_refusal(lambda: estimator.fit(bags, y[1:]), "y has 23 values for 24 bags")
    unknown = np.where(np.arange(24) == 3, np.nan, y)
    expect_refusal(lambda: estimator.fit(bags, unknown), "missing or infinite target")
    expect_refusal(lambda: estimator.fit(bags[[0]], y[:1]), "one bag is not enough")


def check_bag_weights(estimator):
    """Only ratios of weights count; a bag of weight zero has no say, whatever its target; wrong weights are refused.

    An estimator whose ``fit`` takes no ``sample_weight`` promises nothing.
    """
    if not has_fit_parameter(estimator, "sample_weight"):
        return
    bags, y = sample()
    plain = clone(estimator).fit(bags, y).predict(bags)
    same = clone(estimator).fit(bags, y, sample_weight=np.full(24, 7.0)).predict(bags)
    expect_same(same, plain, "equal weights change the answer")
    weights = np.where(np.arange(24) % 4 == 0, 0.0, 1.0 + np.arange(24) % 3)
    some = clone(estimator).fit(bags, y, sample_weight=weights).predict(bags)
    assert not np.array_equal(some, plain), "the weights change nothing"
    spoilt = clone(estimator).fit(bags, np.where(weights > 0, y, 1e6), sample_weight=8.0 * weights).predict(bags)
    said = "the target of a bag of weight zero matters, or the unit of weights"
    np.testing.assert_allclose(spoilt, some, rtol=1e-9, atol=1e-9 * np.std(y), err_msg=said)
    expect_refusal(lambda: estimator.fit(bags, y, sample_weight=np.ones(23)), "one entry per bag (24)")
    for bad in (-1.0, np.nan):
        wrong = np.where(np.arange(24) == 3, bad, 1.0)
        expect_refusal(lambda w=wrong: estimator.fit(bags, y, sample_weight=w), "bag 3 has a sample_weight")


def check_unfitted_predict_is_refused(estimator):
    """``predict`` before ``fit`` raises NotFittedError."""
    try:
        estimator.predict(sample()[0])
    except NotFittedError:
        return
    raise AssertionError("predict before fit must raise NotFittedError")


def check_pickles(estimator):
    """A pickled copy predicts the same, to the last bit."""
    bags, y = sample()
    expected = estimator.fit(bags, y).predict(bags)
    expect_same(pickle.loads(pickle.dumps(estimator)).predict(bags), expected, "a pickled copy predicts otherwise")


def check_saves(estimator):
    """A saved model predicts the same; one with parts that a model file cannot hold is refused when it is saved."""
    from bagwise.saving import open_model, save

    bags, y = sample()
    expected = estimator.fit(bags, y).predict(bags)
    with tempfile.TemporaryDirectory() as folder:
        try:
            save(estimator, f"{folder}/model.bagwise")
        except ValueError as error:
            assert not type(estimator).__module__.startswith("bagwise."), f"{error}"
            return
        got = open_model(f"{folder}/model.bagwise").predict(bags)
    expect_same(got, expected, "a saved model predicts otherwise")
