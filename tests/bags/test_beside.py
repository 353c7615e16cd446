"""Instance weights and covariates of bags: carried everywhere, checked on construction, read from tables."""

import pickle

import numpy as np
import pandas as pd
import pytest

import bagwise as bw
from bagwise import Bags, from_arrays
from bagwise.bags import check_bags, remember_columns

W = [[1.0, 2.0], [3.0], [0.0, 5.0, 1.0]]
C = [[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]]


@pytest.fixture
def bags() -> Bags:
    arrays = [np.array([[1.0], [2.0]]), np.array([[3.0]]), np.array([[4.0], [5.0], [6.0]])]
    return from_arrays(
        arrays, ids=list("abc"), feature_names=["x"], weights=W, covariates=C, covariate_names=["sza", "vza"]
    )


def test_they_are_carried_when_bags_are_selected_changed_and_saved(bags, tmp_path):
    assert repr(bags).endswith("1 feature, 2 covariates, with instance weights")
    assert bags[[2, 0]].weights.tolist() == [0, 5, 1, 1, 2] and bags[[2, 0]].covariates.tolist() == [C[2], C[0]]
    assert bags[1:].weights.tolist() == [3, 0, 5, 1] and bags[:1].covariate_names == ("sza", "vza")
    other = bags.replace(bags.instances + 1, feature_names=["z"])
    assert other.weights is not None and other.covariates.tolist() == C
    assert pickle.loads(pickle.dumps(bags)) == bags
    bw.save_npz(tmp_path / "b.npz", bags, [1.0, 2.0, 3.0])
    assert bw.load(tmp_path / "b.npz")[0] == bags
    for less in (bags.without_weights(), bags.without_covariates(), bags.with_weights(np.ones(6))):
        assert less != bags
    assert bags.without_weights().with_weights(np.concatenate(W)) == bags
    assert bags.without_covariates().with_covariates(C, ["sza", "vza"]) == bags
    with pytest.raises(ValueError, match="read-only"):
        bags.weights[0] = 1.0


def test_shares_sum_to_one_in_every_bag(bags):
    np.testing.assert_allclose(bags.shares(), [1 / 3, 2 / 3, 1, 0, 5 / 6, 1 / 6])
    np.testing.assert_allclose(bags.without_weights().shares(), [1 / 2, 1 / 2, 1, 1 / 3, 1 / 3, 1 / 3])
    huge = bags.with_weights([1e308, 1e308, 1e-300, 5e-324, 0, 0])
    np.testing.assert_allclose(huge.shares(), [1 / 2, 1 / 2, 1, 1, 0, 0])


def test_singles_and_spread(bags):
    alone = bags.singles()
    assert alone.weights is None and alone.covariates[:, 0].tolist() == [10, 10, 20, 30, 30, 30]
    wide = bags.spread()
    assert wide.covariates is None and wide.feature_names == ("x", "sza", "vza")
    assert wide[0].tolist() == [[1, 10, 1], [2, 10, 1]] and wide.weights is not None
    assert wide.spread() is wide


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"weights": [1.0]}, ValueError, r"one entry per instance \(3\), not shape \(1,\)"),
        ({"weights": ["a", "b", "c"]}, TypeError, "weights must be numbers"),
        ({"weights": [1.0, -1.0, np.nan]}, ValueError, r"bag 'p' \(and 1 other\) has an instance weight that is neg"),
        ({"weights": [0.0, 0.0, 1.0]}, ValueError, "bag 'p' has no instance of weight above zero"),
        ({"covariates": [1.0]}, ValueError, r"one entry per bag \(2\)"),
        ({"covariates": np.ones((2, 1, 1))}, ValueError, r"table of \(bags, covariates\)"),
        ({"covariates": ["a", "b"]}, TypeError, "covariates must be numbers"),
        ({"covariates": [1.0, np.inf]}, ValueError, "bag 'q' has a missing or infinite covariate; fill it in"),
        (
            {"covariates": [[1.0, np.inf], [1.0, 2.0]], "covariate_names": ["x", "z"]},
            ValueError,
            "bag 'p' has a missing or infinite covariate in column 'z'",
        ),
        (
            {"covariates": [1.0, 2.0], "covariate_names": ["x"], "feature_names": ["x"]},
            ValueError,
            "'x' is a feature of the instances and a covariate",
        ),
        ({"covariate_names": ["x"]}, ValueError, "covariate_names without covariates"),
    ],
)
def test_refused(options, error, match):
    with pytest.raises(error, match=match):
        Bags(np.ones((3, 1)), [0, 2, 3], ["p", "q"], **options)


def test_weights_are_refused_unless_the_caller_allows_them(bags):
    with pytest.raises(ValueError, match=r"does not take instance weights; drop them with bags.without_weights\(\)"):
        check_bags(bags)
    assert check_bags(bags.without_weights()) == bags.without_weights().spread()
    assert check_bags(bags, allow_weights=True, apart=True) is bags


def test_the_same_covariates_at_predict(bags):
    class Estimator:
        pass

    estimator, options = Estimator(), {"allow_weights": True, "apart": True}
    remember_columns(estimator, bags)
    assert check_bags(bags, fitted=estimator, **options) == bags
    with pytest.raises(ValueError, match=r"have 0 covariates, but Estimator was fitted on 2 \(sza, vza\)"):
        check_bags(bags.without_covariates(), fitted=estimator, **options)
    with pytest.raises(ValueError, match="covariates differ from those at fit .the order is: vza, sza; expected: sza"):
        check_bags(bags.with_covariates(C, ["vza", "sza"]), fitted=estimator, **options)
    remember_columns(estimator, bags.without_covariates())
    with pytest.raises(ValueError, match="have 2 covariates, but Estimator was fitted on 0"):
        check_bags(bags, fitted=estimator, **options)


FRAME = pd.DataFrame({"site": list("babc"), "y": [1.0, 2.0, 1.0, 3.0], "w": [0.5, 1.0, 1.5, 2.0]})
FRAME = FRAME.assign(sza=[30.0, 40.0, 30.0, 50.0], x=[1.0, 2.0, 3.0, 4.0])
ROLES = {"bag": "site", "target": "y", "weights": "w"}


def test_loading():
    for bag_features in (["sza"], "sza", "auto"):
        bags, y = bw.load(FRAME, **ROLES, bag_features=bag_features)
        assert bags.feature_names == ("x",) and bags.covariate_names == ("sza",) and y.tolist() == [1, 2, 3]
        assert bags.weights.tolist() == [0.5, 1.5, 1, 2] and bags.covariates.tolist() == [[30], [40], [50]]
    bags, _ = bw.load(FRAME, features=["x"], **ROLES, bag_features=["sza"])
    assert bags.feature_names == ("x",) and bags.covariates.tolist() == [[30], [40], [50]]
    lists = pd.DataFrame({"site": ["p", "q"], "x": [[1.0, 2.0], [3.0]], "w": [[1.0, 3.0], [2.0]], "sza": [30.0, 40.0]})
    bags, _ = bw.load(lists, bag="site", weights="w", bag_features="auto")
    assert bags.weights.tolist() == [1, 3, 2] and bags.covariates.tolist() == [[30], [40]]


@pytest.mark.filterwarnings("ignore:.*and were dropped")
def test_dropping_rows_keeps_weights_in_step(tmp_path):
    holed = FRAME.assign(x=[np.nan, 2.0, 3.0, 4.0])
    bw.save_npz(tmp_path / "h.npz", bw.load(holed, **ROLES, missing="keep", bag_features=["sza"])[0])
    for source, roles in ((holed, ROLES | {"bag_features": ["sza"]}), (tmp_path / "h.npz", {})):
        bags, _ = bw.load(source, **roles, missing="drop-instances")
        assert bags.weights.tolist() == [1.5, 1, 2] and bags.covariates.tolist() == [[30], [40], [50]]


def test_auto_finds_what_never_varies():
    assert bw.load(FRAME.drop(columns="w"), bag="site", target="y", bag_features="auto")[0].covariate_names == ("sza",)
    assert bw.load(FRAME.drop_duplicates("site"), **ROLES, bag_features="auto")[0].covariates is None
    assert bw.load(FRAME.assign(x=FRAME.sza), **ROLES, bag_features="auto")[0].feature_names == ("sza",)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"bag_features": ["x"]}, ValueError, "bag 'b' has more than one value in column 'x'"),
        ({"bag_features": ["szz"]}, ValueError, r"no column 'szz' \(did you mean 'sza'\?\)"),
        ({"bag_features": ["y"]}, ValueError, "column 'y' has another role"),
        ({"bag_features": ["sza"], "features": ["sza"]}, ValueError, "every feature column is a bag feature"),
        ({"features": ["w"]}, ValueError, "column 'w' is the instance weight"),
        ({"bag_features": ["name"]}, TypeError, "must be numbers; column 'name' is"),
    ],
)
def test_loading_refused(options, error, match):
    with pytest.raises(error, match=match):
        bw.load(FRAME.assign(name="n"), **ROLES, **options)
