"""The checks at the door."""

from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from bagwise import Bags, from_arrays, method
from bagwise.bags import check_bags, check_fit, check_targets, check_weights, remember_columns, weights_or_ones
from bagwise.methods import method_names


@pytest.fixture
def bags():
    return from_arrays([np.ones((2, 2)), np.zeros((1, 2)), np.ones((3, 2))], ids=list("abc"), feature_names=["x", "y"])


def test_bags_and_lists_pass(bags):
    assert check_bags(bags) is bags
    assert check_bags([np.ones((2, 2)), np.zeros((1, 2))]).sizes.tolist() == [2, 1]
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.ones((2, 2)), np.zeros((1, 2))]
    assert check_bags(ragged).sizes.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("came", "error", "match"),
    [
        (np.ones((2, 3, 4)), ValueError, "from_padded"),
        (np.ones((2, 3)), TypeError, "2-D array does not say which rows belong together"),
        (pd.DataFrame({"x": [1.0]}), TypeError, "expected Bags, not DataFrame; build them with bagwise.load"),
        (None, TypeError, "expected Bags, not NoneType"),
    ],
)
def test_others_are_told_the_way(came, error, match):
    with pytest.raises(error, match=match):
        check_bags(came)


def test_missing_values_need_a_learner_that_takes_them():
    bags = Bags([1.0, np.nan, 2.0, np.nan], [0, 1, 2, 4], ids=["a", "b", "c"], missing="keep")
    assert check_bags(bags, allow_missing=True) is bags
    with pytest.raises(
        ValueError, match=r"bag 'b' \(and 1 other\) has missing feature values \(NaN\) in column 0.*missing='impute'"
    ):
        check_bags(bags)
    assert len(check_bags(bags[[0]])) == 1  # no longer any missing


def test_columns_must_be_those_of_fit(bags):
    estimator = SimpleNamespace()
    with pytest.raises(NotFittedError, match="this SimpleNamespace is not fitted yet"):
        check_bags(bags, fitted=estimator)
    remember_columns(estimator, bags)
    assert check_bags(bags, fitted=estimator) == bags
    unnamed = [bags.instances, bags.instances]
    assert len(check_bags(unnamed, fitted=estimator)) == 2
    with pytest.raises(ValueError, match="bags have 3 features, but SimpleNamespace was fitted on 2"):
        check_bags([np.ones((1, 3))], fitted=estimator)
    other = from_arrays([np.ones((1, 3))], feature_names=["x", "w", "v"])
    with pytest.raises(ValueError, match=r"missing: y; new: v, w\); load with features="):
        check_bags(other, fitted=estimator)
    with pytest.raises(ValueError, match="differ from those at fit .the order is: y, x; expected: x, y"):
        check_bags(from_arrays([np.ones((1, 2))], feature_names=["y", "x"]), fitted=estimator)
    remember_columns(estimator, check_bags(unnamed))
    assert not hasattr(estimator, "feature_names_in_")


def test_targets_become_float64(bags):
    for y in ([1, 2, 3], np.array([[1.0], [2.0], [3.0]], np.float32), pd.Series([1, 2, 3])):
        checked = check_targets(y, bags)
        assert checked.dtype == np.float64 and checked.tolist() == [1, 2, 3]
    y = np.array([1.0, 2.0, 3.0])
    assert not np.shares_memory(check_targets(y, bags), y)


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        (None, ValueError, "targets are missing"),
        ([1, 2], ValueError, "y has 2 values for 3 bags$"),
        (np.ones(6), ValueError, "6 values for 3 bags, one per instance; give one per bag"),
        (np.ones((3, 2)), ValueError, "y has 2 targets per bag, and a method learns one"),
        (["a", "b", "c"], TypeError, "must be numbers"),
        ([1.0, np.nan, np.inf], ValueError, r"bag 'b' \(and 1 other\) has a missing or infinite target"),
        ([1.0, -1e300, 3.0], ValueError, r"bag 'b' has a target beyond 1e\+100, whose square is infinite"),
    ],
)
def test_targets_refused(bags, y, error, match):
    with pytest.raises(error, match=match):
        check_targets(y, bags)


def test_fit_needs_two_bags(bags):
    assert check_fit(bags, [1, 2, 3])[1].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="one bag is not enough"):
        check_fit(bags[:1], [1.0])
    with pytest.raises(ValueError, match="Got 0 bags"):
        check_fit(bags[:0], [])


def test_weights(bags):
    assert check_weights(None, bags) is None
    assert check_weights([0, 10, 30], bags).tolist() == [0, 0.5, 1.5]
    assert check_weights([0, 1e308, 1e308], bags).tolist() == [0, 1, 1]
    assert check_weights([5, 5, 5], bags) is None and weights_or_ones([5, 5, 5], bags).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"one entry per bag \(3\)"):
        check_weights([1, 2], bags)
    with pytest.raises(ValueError, match="sample_weight is zero for every bag; at least one must be above zero"):
        check_weights([0, 0, 0], bags)
    for bad in ([1, -1, 1], [1, np.nan, 1], [1, np.inf, 1], np.ma.array([1, 2, 3], mask=[0, 1, 0])):
        with pytest.raises(ValueError, match="bag 'b' has a sample_weight that is negative, missing or infinite"):
            check_weights(bad, bags)
    with pytest.raises(ValueError, match=r"bag 0 \(and 1 other\) has a sample_weight"):  # rows of a head
        check_weights([-1, 1, -1], np.zeros(3))
    with pytest.raises(ValueError, match=r"sample_weight must have one entry per bag \(3\), not shape \(\)"):
        check_weights(2.0, bags)
    for bad, text in (("balanced", "<U8 such as 'balanced'"), ([1, "n/a", 3], "<U21 such as 'n/a'")):
        with pytest.raises(TypeError, match=f"sample_weight must be numbers, not {text}"):
            check_weights(bad, bags)


def test_numbers_that_come_as_objects(bags):
    boxed = np.array([0, 10, 30], dtype=object)
    for numbers in (boxed, [Decimal(0), Decimal(10), Decimal(30)], pd.Series(boxed), np.ma.array(boxed)):
        assert check_weights(numbers, bags).tolist() == [0, 0.5, 1.5]
        assert check_targets(numbers, bags).tolist() == [0, 10, 30]
    for holed in ([1, None, 3], pd.Series([1, pd.NA, 3], dtype="Int64"), np.ma.array(boxed, mask=[0, 1, 0])):
        with pytest.raises(ValueError, match="bag 'b' has a sample_weight that is negative, missing or infinite"):
            check_weights(holed, bags)
        with pytest.raises(ValueError, match="bag 'b' has a missing or infinite target"):
            check_targets(holed, bags)
    for odd in (np.array([1, "2", 3], dtype=object), ["1", "2", "3"]):
        with pytest.raises(TypeError, match="sample_weight must be numbers, not"):
            check_weights(odd, bags)
        with pytest.raises(TypeError, match="y must be numbers, not"):
            check_targets(odd, bags)


SLOW = ("auto", "additive", "attention", "instance-kme", "instance-kme-attention", "bdr", "bmir", "shrinkage")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in method_names()])
def test_no_bags_are_refused_in_the_same_words(name):
    """Some methods gave an empty array, others an error from inside."""
    rng = np.random.default_rng(0)
    many, y = from_arrays(list(rng.normal(size=(24, 3, 2)))), rng.normal(size=24)
    model = method(name).fit(many, y)
    for none in (many[:0], many[np.zeros(24, dtype=bool)]):
        with pytest.raises(ValueError, match="Got 0 bags; at least one is required"):
            model.predict(none)
