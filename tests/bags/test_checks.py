"""The checks at the door."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from bagwise import Bags, from_arrays
from bagwise.bags import check_bags, check_fit, check_targets, check_weights, remember_columns, weights_or_ones


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
    with pytest.raises(ValueError, match=r"bag 'b' \(and 1 other\) has missing feature values .* does not take"):
        check_bags(bags)
    assert len(check_bags(bags[[0]])) == 1  # no longer any missing


def test_columns_must_be_those_of_fit(bags):
    estimator = SimpleNamespace()
    with pytest.raises(NotFittedError, match="this SimpleNamespace is not fitted yet"):
        check_bags(bags, fitted=estimator)
    remember_columns(estimator, bags)
    assert check_bags(bags, fitted=estimator) is bags
    unnamed = [bags.instances, bags.instances]
    assert len(check_bags(unnamed, fitted=estimator)) == 2
    with pytest.raises(ValueError, match="bags have 3 features, but SimpleNamespace was fitted on 2"):
        check_bags([np.ones((1, 3))], fitted=estimator)
    other = from_arrays([np.ones((1, 3))], feature_names=["x", "w", "v"])
    with pytest.raises(ValueError, match=r"missing: y; new: v, w\); load with features="):
        check_bags(other, fitted=estimator)
    with pytest.raises(ValueError, match=r"another order than at fit \(x, y"):
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
        (np.ones((3, 2)), ValueError, r"not an array of shape \(3, 2\)"),
        (["a", "b", "c"], TypeError, "must be numbers"),
        ([1.0, np.nan, np.inf], ValueError, r"bag 'b' \(and 1 other\) has a missing or infinite target"),
    ],
)
def test_targets_refused(bags, y, error, match):
    with pytest.raises(error, match=match):
        check_targets(y, bags)


def test_fit_needs_two_bags(bags):
    assert check_fit(bags, [1, 2, 3])[1].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="one bag is not enough"):
        check_fit(bags[:1], [1.0])


def test_weights(bags):
    assert check_weights(None, bags) is None
    assert check_weights([0, 10, 30], bags).tolist() == [0, 0.5, 1.5]
    assert check_weights([0, 1e308, 1e308], bags).tolist() == [0, 1, 1]
    assert check_weights([5, 5, 5], bags) is None and weights_or_ones([5, 5, 5], bags).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"one entry per bag \(3\)"):
        check_weights([1, 2], bags)
    for bad in ([0, 0, 0], [-1, 1, 1], [np.nan, 1, 1], [np.inf, 1, 1]):
        with pytest.raises(ValueError, match="finite and not negative, with at least one above zero"):
            check_weights(bad, bags)


def test_numbers_that_cannot_be_squared_are_refused(bags):
    """A target of 1e300 gave an infinite error for every penalty, and a feature of 1e200 an infinite deviation."""
    with pytest.raises(ValueError, match=r"bag 'b' has a target beyond 1e\+100, whose square is infinite"):
        check_targets([1.0, -1e300, 3.0], bags)
    with pytest.raises(ValueError, match=r"bag 1 has feature values beyond 1e\+100, whose squares are infinite"):
        from_arrays([[[1.0]], [[2.0], [1e200]]])
    assert from_arrays([[[1e100]], [[-1e100]]]).instances.max() == 1e100
