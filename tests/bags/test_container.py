"""`Bags` itself: what it accepts, what it refuses, and how it behaves as scikit-learn's X."""

import copy
import pickle
from datetime import datetime
from decimal import Decimal

import awkward
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, train_test_split
from sklearn.utils import _safe_indexing

import bagwise as bw
from bagwise import Bags, from_arrays, from_awkward, from_padded
from bagwise.bags import frames


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, 3)) for size in (4, 1, 2, 7, 3, 5)]


@pytest.fixture
def bags(arrays):
    return from_arrays(arrays, ids=list("abcdef"), groups=[1, 1, 2, 2, 3, 3], feature_names=["x", "y", "z"])


def test_describes_itself(bags):
    assert repr(bags) == "Bags: 6 bags of 1 to 7 instances (22 in all), 3 features, 3 groups"
    assert (len(bags), bags.shape, bags.ndim, bags.n_instances, bags.n_features) == (6, (6, 3), 2, 22, 3)
    assert bags.sizes.tolist() == [4, 1, 2, 7, 3, 5]
    assert repr(bags[[]]) == "Bags: 0 bags of 0 instances (0 in all), 3 features, 0 groups"
    mixed = Bags(np.ones((2, 1)), [0, 1, 2], groups=np.array([1, "b"], dtype=object))
    assert repr(mixed) == "Bags: 2 bags of 1 instance (2 in all), 1 feature, 2 groups"


@pytest.mark.parametrize(
    "key", [slice(1, 4), slice(None, None, -2), [3, 0, 3], [-1, 2], np.array([True, False] * 3), np.array([], int)]
)
def test_selection_equals_a_list_of_arrays(bags, arrays, key):
    positions = np.arange(6)[key]
    chosen = bags[key]
    assert len(chosen) == len(positions)
    assert chosen.ids.tolist() == [list("abcdef")[i] for i in positions]
    assert chosen.groups.tolist() == [[1, 1, 2, 2, 3, 3][i] for i in positions]
    for mine, i in zip(chosen, positions, strict=True):
        np.testing.assert_array_equal(mine, arrays[i])
    rows = bags.rows(key)
    np.testing.assert_array_equal(chosen.instances, bags.instances[rows])


def test_one_bag_is_an_array_and_a_run_of_bags_is_a_view(bags, arrays):
    for i in (0, 3, -1, np.int64(2), np.uint8(5)):
        np.testing.assert_array_equal(bags[i], arrays[i])
    np.testing.assert_array_equal(bags[2, ...], arrays[2])
    assert np.shares_memory(bags[1:4].instances, bags.instances)
    assert not np.shares_memory(bags[[3, 1]].instances, bags.instances)
    many = Bags(np.arange(300.0), np.arange(301))
    for dtype in (np.int8, np.uint8, np.uint64):
        assert many[np.array([7, 100], dtype=dtype)].instances.ravel().tolist() == [7, 100]


@pytest.mark.parametrize("key", [True, np.True_, None, 1.0, [0.5], [[0, 1]], [None], np.ones((2, 6), bool)])
def test_other_keys_are_refused(bags, key):
    with pytest.raises(IndexError, match="selected by an integer or an id, a slice, a list of "):
        bags[key]


def test_positions_outside_are_named(bags):
    cases = ((6, "no bag at position 6; there are 6"), ([0, -7, 5], "position -7"), ([True, False], "mask of 2 for 6"))
    for key, match in cases:
        with pytest.raises(IndexError, match=match):
            bags[key]
    with pytest.raises(IndexError, match="selected by one index"):
        bags[0, 1]


def test_what_is_written_later_shows_in_instances_and_in_nothing_else():
    array, ids, groups = np.ones((4, 2)), np.array([1, 2]), np.array(["u", "v"], dtype=object)
    bags = Bags(array, [0, 2, 4], ids, groups=groups)
    array[0, 0], ids[1], groups[0] = 9.0, 1, "w"
    assert bags.instances[0, 0] == 9.0 and bags.ids.tolist() == [1, 2] and bags.groups.tolist() == ["u", "v"]


def test_frozen_without_touching_the_callers_array():
    array, ids = np.ones((4, 2)), np.array(["a", "b"], dtype=object)
    bags = Bags(array, [0, 2, 4], ids)
    assert np.shares_memory(array, bags.instances)
    assert array.flags.writeable and ids.flags.writeable
    for part in (bags.instances, bags.offsets, bags.ids, bags[0], bags[:1].instances):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 5
    with pytest.raises(AttributeError, match="cannot be changed"):
        bags.instances = array
    with pytest.raises(AttributeError, match="cannot be changed"):
        del bags.instances


def test_pickle_and_copy_keep_everything(bags):
    for again in (pickle.loads(pickle.dumps(bags)), copy.copy(bags), copy.deepcopy(bags)):
        assert again == bags
        assert again.feature_names == ("x", "y", "z")
        assert not again.instances.flags.writeable
    assert len(pickle.dumps(bags[1])) < len(pickle.dumps(bags))
    assert joblib.hash(bags) == joblib.hash(pickle.loads(pickle.dumps(bags)))
    assert joblib.hash(bags) != joblib.hash(bags[::-1])


def test_equality(bags, arrays):
    assert bags != bags[::-1]
    assert bags != "bags"
    assert bags != bags.replace(bags.instances + 1, feature_names=bags.feature_names)
    assert from_arrays(arrays) != bags
    assert from_arrays(arrays, ids=pd.date_range("2020", periods=6)) != from_arrays(arrays)
    with pytest.raises(TypeError, match="unhashable"):
        hash(bags)


@pytest.mark.parametrize(
    ("given", "held"),
    [(np.float32, np.float32), (np.float16, np.float32), (np.int8, float), (bool, float), (">f8", float)],
)
def test_precision(given, held):
    assert Bags(np.ones((2, 1), dtype=given), [0, 2]).dtype == held
    assert Bags(np.ma.ones((2, 1), dtype=given), [0, 2]).dtype == held


def test_expand_and_singles_and_replace(bags):
    np.testing.assert_array_equal(bags.expand(np.arange(6)), np.repeat(np.arange(6), bags.sizes))
    singles = bags.singles()
    assert len(singles) == bags.n_instances and singles.groups.tolist() == bags.expand(bags.groups).tolist()
    np.testing.assert_array_equal(singles[5][0], bags.instances[5])
    column = bags.replace(bags.instances[:, 0])
    assert column.n_features == 1 and column.feature_names is None and column.ids.tolist() == list("abcdef")
    for instances, match in (
        (np.ones((3, 1)), "3 rows for 22 instances"),
        (np.where(np.arange(22) == 2, np.nan, 1.0), "bag 'a' has missing feature values"),
    ):
        with pytest.raises(ValueError, match=match):
            bags.replace(instances)
    with pytest.raises(ValueError, match=r"per_bag must have one entry per bag \(6\), not 2"):
        bags.expand([1, 2])


def test_missing_values_are_kept_only_on_request(arrays):
    arrays[3][2, 1] = np.nan
    with pytest.raises(ValueError, match=r"bag 3 has .* drop these instances, in load with .*'impute'"):
        from_arrays(arrays)
    bags = from_arrays(arrays, missing="keep")
    assert bags.has_missing and repr(bags).endswith("with missing values")
    assert bags[3:].has_missing and not bags[:3].has_missing  # a selection knows its own


def test_infinite_values_and_those_that_cannot_be_squared_are_refused(arrays):
    with pytest.raises(ValueError, match=r"bag 1 has feature values beyond 1e\+100.*their squares are infinite"):
        from_arrays([[[1.0]], [[2.0], [1e200]]])
    assert from_arrays([[[1e100]], [[-1e100]]]).instances.max() == 1e100
    arrays[1][0, 0] = arrays[4][0, 0] = np.inf
    for missing in ("refuse", "keep"):
        with pytest.raises(ValueError, match=r"bag 'b' \(and 1 other\) has infinite feature values; clip"):
            from_arrays(arrays, ids=list("abcdef"), missing=missing)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"instances": np.ones((2, 2, 2))}, ValueError, "not an array of 3 dimensions.*from_padded"),
        ({"instances": np.array([["a"], ["b"]])}, TypeError, "must be numbers, not <U1"),
        ({"instances": np.ones((0, 2)), "offsets": [0, 0]}, ValueError, "at least one instance"),
        ({"instances": np.ones((2, 0))}, ValueError, "at least one instance and one feature"),
        ({"offsets": [0]}, ValueError, "at least two integers"),
        ({"offsets": [0.0, 2.0]}, ValueError, "at least two integers"),
        ({"offsets": [0, 1]}, ValueError, r"from 0 to the number of instances \(2\); these go from 0 to 1"),
        ({"offsets": [0, 2, 1, 2]}, ValueError, "these go from 2 to 1"),
        ({"offsets": [0, 0, 2], "ids": ["a", "b"]}, ValueError, "bag 'a' has no instances"),
        ({"ids": ["a"]}, ValueError, r"ids must have one entry per bag \(2\), not 1"),
        ({"ids": "ab"}, ValueError, "not one value"),
        ({"ids": ["a", "a"]}, ValueError, "bag id 'a' appears twice"),
        ({"ids": [5, 5]}, ValueError, "bag id 5 appears twice"),
        ({"ids": np.array(["2020", "2020"], "M8[ns]")}, ValueError, "bag id 2020-01-01T.* appears twice"),
        ({"ids": [("a", 1), ("b", 2)]}, ValueError, r"ids must be one value per bag, not an array of shape \(2, 2\)"),
        ({"ids": ["a", None]}, ValueError, "bag at position 1 has no id"),
        ({"ids": pd.array([1, None], dtype="Int64")}, ValueError, "bag at position 1 has no id"),
        ({"ids": np.ma.array(["u", "v"], mask=[0, 1])}, ValueError, "bag at position 1 has no id"),
        ({"groups": [1]}, ValueError, "groups must have one entry"),
        ({"groups": [1.0, np.nan]}, ValueError, "bag 1 has no group"),
        ({"groups": np.array(["g", pd.NA], dtype=object)}, ValueError, "bag 1 has no group"),
        ({"groups": np.array(["2020", "NaT"], "M8[D]")}, ValueError, "bag 1 has no group"),
        ({"feature_names": ["x", "y"]}, ValueError, "2 feature names for 1 columns"),
        ({"instances": np.ones((2, 2)), "feature_names": ["x", "x"]}, ValueError, "feature name 'x' appears twice"),
        ({"missing": "drop"}, ValueError, "must be 'refuse', 'impute' or 'keep', not 'drop'$"),
        ({"missing": "drop-instances"}, ValueError, "missing='drop-instances' is for tables, which load"),
    ],
)
def test_refusals(change, error, match):
    with pytest.raises(error, match=match):
        Bags(**({"instances": np.ones((2, 1)), "offsets": [0, 1, 2]} | change))


def test_ids_keep_their_types():
    for ids in ([1, "a"], [1, "1"], np.array(["a", "b"])):
        assert Bags(np.ones(2), [0, 1, 2], ids=ids).ids.tolist() == list(ids)
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")  # lists of these would be integers
    assert from_arrays([[[1.0]], [[2.0]]], ids=days).ids.tolist() == [datetime(2020, 1, 1), datetime(2020, 1, 2)]
    finer = days + np.timedelta64(1, "ns")
    assert (from_arrays([[[1.0]], [[2.0]]], ids=finer).ids == finer).all()


def test_hidden_values_of_a_masked_array_become_missing():
    masked = np.ma.array([[1.0], [2.0]], mask=[[False], [True]])
    with pytest.raises(ValueError, match="bag 0 has missing"):
        Bags(masked, [0, 2])
    assert np.isnan(Bags(masked, [0, 2], missing="keep").instances).sum() == 1
    some = np.ma.array([[1], [Decimal(2)], ["?"]], mask=[[False], [False], [True]], dtype=object)
    none = np.ma.array([[5], [6]], mask=True, dtype=object)  # a bag of which nothing is shown
    kept = from_arrays([some, none, np.ones((1, 1))], missing="keep").instances
    np.testing.assert_array_equal(kept[:, 0], [1, 2, np.nan, np.nan, np.nan, 1])
    with pytest.raises(ValueError, match=r"bag 0 \(and 1 other\) has missing"):
        from_arrays([some, none])
    with pytest.raises(TypeError, match="instances must be numbers, not object"):
        from_arrays([np.ma.array([["a"], [1]], mask=[[False], [True]], dtype=object)])


# From arrays, padded blocks, awkward arrays ---------------------------------------------------------------------


def test_three_layouts_of_the_same_bags_agree(arrays):
    expected = from_arrays(arrays)
    padded = np.full((6, 7, 3), np.nan)
    for i, array in enumerate(arrays):
        padded[i, : len(array)] = array
    ragged = awkward.Array([array.tolist() for array in arrays])
    records = awkward.zip({"x": ragged[..., 0], "y": ragged[..., 1], "z": ragged[..., 2]})
    assert from_padded(padded, expected.sizes.astype(np.int8)) == expected
    assert from_awkward(ragged) == expected
    assert from_awkward(records) == from_arrays(arrays, feature_names=["x", "y", "z"])
    assert from_awkward(ragged[..., 0]) == from_arrays([array[:, 0] for array in arrays])
    assert from_arrays(arrays, ids=iter("abcdef")).ids.tolist() == list("abcdef")


@pytest.mark.parametrize(
    ("arrays", "options", "match"),
    [
        ([], {}, "the list of bags is empty"),
        ([np.ones((1, 2))], {"ids": ["a", "b"]}, r"one entry per bag \(1\), not 2"),
        ([np.ones((1, 2)), np.ones((1, 2, 2))], {"ids": ["a", "b"]}, "bag 'b' is an array of 3 dimensions"),
        ([np.ones((1, 2)), np.ones((1, 3))], {}, "bag 1 has 3 features, but bag 0 has 2"),
        ([np.ones((1, 2)), []], {}, "bag 1 has no instances"),
        ([[[1.0]]], {"weights": [[1.0], [2.0]]}, r"one list per bag \(1\), not 2"),
        ([[[1.0]]], {"weights": [[1.0, 2.0]]}, r"bag 0 has 1 instances, but weights of shape \(2,\)"),
    ],
)
def test_from_arrays_refuses(arrays, options, match):
    with pytest.raises(ValueError, match=match):
        from_arrays(arrays, **options)


@pytest.mark.parametrize(
    ("shape", "sizes", "match"),
    [
        ((2, 5), [1, 2], "3 dimensions .* not 2"),
        ((0, 5, 2), [], "holds no bags"),
        ((2, 5, 2), None, "needs sizes"),
        ((2, 5, 2), [1], r"one integer per bag \(2\)"),
        ((2, 5, 2), [1.0, 2.0], "one integer per bag"),
        ((2, 5, 2), [1, 6], "between 1 and the padded length 5"),
        ((2, 5, 2), [1, 0], "bag 1 has no instances"),
    ],
)
def test_from_padded_refuses(shape, sizes, match):
    with pytest.raises(ValueError, match=match):
        from_padded(np.ones(shape), sizes)


@pytest.mark.parametrize(
    ("ragged", "match"),
    [
        ([1.0, 2.0], "every bag must be a list of instances"),
        ([[[1.0]], None], "every bag must be a list of instances"),
        ([[[1.0, 2.0], [3.0]]], "the same number of features"),
        ([[[1.0]], []], "bag 1 has no instances"),
        ([[[1.0]], [[None]]], "bag 1 has missing feature values"),
    ],
)
def test_from_awkward_refuses(ragged, match):
    with pytest.raises(ValueError, match=match):
        from_awkward(awkward.Array(ragged))


# As scikit-learn's X --------------------------------------------------------------------------------------------


class MeanOfFirst(RegressorMixin, BaseEstimator):
    """Predicts the mean of the first feature; bags in, one number per bag out."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, bags, y):
        assert isinstance(bags, Bags) and len(bags) == len(y)
        return self

    def predict(self, bags):
        return np.array([bag[:, 0].mean() for bag in bags]) + self.shift


def test_scikit_learn_splits_bags(bags, arrays):
    y = np.array([array[:, 0].mean() for array in arrays])
    assert cross_val_score(MeanOfFirst(), bags, y, cv=3, scoring="neg_mean_squared_error").tolist() == [0, 0, 0]
    np.testing.assert_array_equal(cross_val_predict(MeanOfFirst(), bags, y, cv=KFold(2, shuffle=True)), y)
    assert GridSearchCV(MeanOfFirst(), {"shift": [0.0, 1.0]}, cv=2).fit(bags, y).best_params_ == {"shift": 0.0}
    train, test, *_ = train_test_split(bags, y, test_size=2, random_state=0)
    assert sorted([*train.ids, *test.ids]) == list("abcdef") and len(test) == 2


@pytest.mark.parametrize("indices", [[2, 0], np.array([2, 0]), (2, 0), slice(1, 3), [True, False] * 3])
def test_safe_indexing(bags, indices):
    key = list(indices) if isinstance(indices, tuple) else indices
    assert _safe_indexing(bags, indices) == bags[key]


def test_bags_by_id():
    """An id that is text selects as its position would; an integer is always a position."""
    bags = bw.from_arrays([np.full((i + 1, 2), i) for i in range(4)], ids=["00003", "00001", "a", "00002"])
    for position, one in enumerate(bags.ids):
        np.testing.assert_array_equal(bags[one], bags[position])
    assert bags[["00002", "00003"]] == bags[np.array(["00002", "00003"])] == bags[[3, 0]]
    assert bags[bags.ids] == bags
    repeated = bags[["a", "00001", "a"]]
    np.testing.assert_array_equal(repeated["a"], bags["a"])
    with pytest.raises(IndexError, match="no bag with the id '0003'; the nearest is '00003'"):
        bags["0003"]
    with pytest.raises(IndexError, match=r"no bag with the id 'zz' \(and 1 more ids have none\); ids are '00003'"):
        bags[["a", "zz", "yy"]]
    with pytest.raises(IndexError, match="no bag with the id '1'; the ids here are int, not text: select by a mask"):
        bw.from_arrays([[[1.0]], [[2.0]]])["1"]


@pytest.fixture
def everything():
    """Bags with all that they can carry, and targets."""
    frame = pd.DataFrame({"site": list("abba"), "red": [1.0, 2, 3, 4], "nir": [0.5, 0.25, 0.125, 1.0]})
    frame = frame.assign(sun=[30.0, 40, 40, 30], patient=list("xyyx"), w=[1.0, 2, 1, 3], lon=[7.0, 8, 9, 10])
    roles = {"groups": "patient", "weights": "w", "bag_features": ["sun"], "features": ["red", "nir", "sun"]}
    bags, y = bw.load(frame.assign(aod=[0.1, 0.3, 0.3, 0.1]), bag="site", target="aod", keep=["lon"], **roles)
    return bags, y


@pytest.mark.parametrize("hidden", [(), ("pandas",)])
def test_bags_become_a_long_table_and_come_back(everything, monkeypatch, hidden):
    bags, y = everything
    monkeypatch.setattr(frames, "find_spec", lambda name: None if name in hidden else name)
    frame = bags.to_frame(y, groups="patient")  # the id and the target are called as in the table
    assert type(frame).__module__.split(".")[0] == ("polars" if hidden else "pandas")
    assert list(frame.columns) == ["site", "aod", "red", "nir", "sun", "patient", "weight", "row", "lon"]
    roles = {"groups": "patient", "weights": "weight", "bag_features": ["sun"], "features": ["red", "nir", "sun"]}
    again, targets = bw.load(frame, bag="site", target="aod", **roles)
    assert again == bags and targets.tolist() == y.tolist()
    assert list(frame["lon"]) == bags.kept["lon"].tolist() == [7.0, 10.0, 8.0, 9.0]
    both = np.column_stack([y, -y])
    for given, names in ((None, ["target_1", "target_2"]), (["aod", "angstrom"], ["aod", "angstrom"])):
        frame = bags.to_frame(both, target=given)
        assert list(frame.columns)[1:3] == names and np.array_equal(frame[names].to_numpy(), bags.expand(both))


def test_names_of_a_long_table(everything, monkeypatch):
    bags, y = everything
    with pytest.raises(ValueError, match=r"two columns would be called 'red'; rename them with to_frame\(bag="):
        bags.to_frame(bag="red")
    with pytest.raises(ValueError, match=r"y must have one entry per bag \(2\), not 1"):
        bags.to_frame(y[:1])
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    plain = bw.from_arrays(list(bags)).with_covariates([[1.0], [2.0]]).to_frame()
    assert {name: values.tolist() for name, values in plain.items()} == {
        "bag": [0, 0, 1, 1],
        "x1": [1.0, 4.0, 2.0, 3.0],
        "x2": [0.5, 1.0, 0.25, 0.125],
        "c1": [1.0, 1.0, 2.0, 2.0],
    }
