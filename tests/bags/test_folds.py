"""Folds of bags: random, forward in time, given, with groups."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

import bagwise as bw
from bagwise.bags import BagKFold, bag_folds, split_bags
from bagwise.bags.validation import ParameterError
from bagwise.instances import OutOfFold


def make_bags(n_bags=24, **declared):
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(3, 2)) for _ in range(n_bags)])
    return bags.with_validation(bw.Validation(**declared)) if declared else bags


def bags_of(n, **options):
    return bw.from_arrays([np.full((1 + i % 3, 2), float(i)) for i in range(n)], **options)


def test_folds_are_balanced_and_seeded():
    bags = bags_of(23, ids=[f"s{i}" for i in range(23)])
    fold = bag_folds(bags, 5)
    assert sorted(np.bincount(fold)) == [4, 4, 5, 5, 5]
    np.testing.assert_array_equal(fold, bag_folds(bags, 5))
    assert (fold != bag_folds(bags, 5, random_state=1)).any()


def test_random_folds_do_not_depend_on_the_order_of_the_bags():
    bags = bags_of(30, ids=[f"s{i}" for i in range(30)])
    order = np.random.default_rng(0).permutation(30)
    np.testing.assert_array_equal(bag_folds(bags[order], 7), bag_folds(bags, 7)[order])


def test_groups_stay_together_and_folds_stay_balanced():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 12, size=60)
    fold = bag_folds(bags_of(60, groups=groups), 4)
    assert all(len(set(fold[groups == g])) == 1 for g in set(groups))
    assert np.bincount(fold).max() - np.bincount(fold).min() <= np.bincount(groups).max()


def test_a_bag_drawn_twice_stays_in_one_fold():
    bags = bags_of(10)[[0, 0, 0, 1, 2, 3, 4, 5, 5]]
    fold = bag_folds(bags, 3)
    assert len(set(fold[:3])) == 1 and fold[7] == fold[8]


def test_auto_and_each():
    assert bag_folds(bags_of(4)).max() == 3
    assert bag_folds(bags_of(40)).max() == 9
    assert sorted(bag_folds(bags_of(12), "each")) == list(range(12))
    assert bag_folds(bags_of(12, groups=[0, 1, 2] * 4), "each").max() == 2


@pytest.mark.parametrize(
    ("folds", "groups", "error", "message"),
    [
        (13, None, ValueError, "13 folds need at least 13 bags, and there are 12; ask for fewer folds"),
        (5, [0, 1] * 6, ValueError, "5 folds need at least 5 groups, and there are 2"),
        (1, None, ValueError, "folds must be at least 2"),
        ("many", None, TypeError, "folds must be a whole number, 'auto' or 'each'"),
        (True, None, TypeError, "folds must be a whole number"),
    ],
)
def test_numbers_of_folds_that_are_refused(folds, groups, error, message):
    with pytest.raises(error, match=message):
        bag_folds(bags_of(12, groups=groups), folds)


def test_splitter_covers_every_bag_once():
    bags = bags_of(17)
    splits = list(BagKFold(4).split(bags))
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(17))
    assert all(not set(train) & set(test) for train, test in splits)
    assert BagKFold(4).get_n_splits() == 4 and BagKFold("auto").get_n_splits(bags) == 10
    groups = np.arange(17) // 2
    for train, test in BagKFold(3).split(bags, groups=groups):
        assert not set(groups[train]) & set(groups[test])
    with pytest.raises(TypeError, match="BagKFold splits Bags"):
        next(BagKFold(3).split(np.zeros((5, 2))))


def test_forward_folds_train_on_the_bags_before_each_window():
    time = np.random.default_rng(1).permutation(24).astype(float)
    folds = split_bags(make_bags(time=time), "forward")
    assert len(folds) == 5 and not folds.is_partition
    assert np.bincount(folds.test + 1).tolist() == [4] * 6
    for train, test in folds.pairs():
        assert time[train].max() < time[test].min()
        assert len(train) == (time < time[test].min()).sum()


def test_bags_of_one_time_are_not_separated():
    time = np.repeat([1, 2, 3, 4], [9, 1, 1, 13])
    folds = split_bags(make_bags(time=time), bw.Validation("forward", folds=2, time=time))
    assert all(len(set(folds.test[time == t])) == 1 for t in (1, 2, 3, 4))


@pytest.mark.parametrize("gap, unit", [(3, "days"), (timedelta(days=3), "days"), (3, "numbers")])
def test_gap_and_horizon(gap, unit):
    days = np.datetime64("2020-01-01") + np.arange(24) if unit == "days" else np.arange(24)
    folds = split_bags(make_bags(), bw.Validation("forward", folds=2, time=days, gap=gap, horizon=gap))
    for k in range(2):
        start = np.flatnonzero(folds.test == k)[0]
        assert np.flatnonzero(folds.train(k)).tolist() == list(range(start - 2))
        assert np.flatnonzero(folds.test == k).tolist() == [start, start + 1, start + 2]


def test_folds_do_not_depend_on_the_order_of_the_bags():
    time = np.arange(24) // 2
    bags = make_bags(time=time)
    order = np.random.default_rng(0).permutation(24)
    assert np.array_equal(split_bags(bags[order], "forward").test, split_bags(bags, "forward").test[order])


def test_a_column_of_folds_and_a_split_column():
    bags = make_bags(scheme="given", given=np.arange(24) % 3)
    assert split_bags(bags).test.tolist() == [0, 1, 2] * 8
    inner = split_bags(bags[bags.fold != 0], inner=True)
    assert len(inner) == 2 and inner.is_partition
    split = make_bags(scheme="given", given=["train"] * 20 + ["test"] * 4)
    ((train, test),) = split_bags(split).pairs()
    assert train.tolist() == list(range(20)) and test.tolist() == [20, 21, 22, 23]
    assert split_bags(split, inner=True).is_partition


def test_pairs_of_positions():
    folds = split_bags(make_bags(6), [([0, 1], [2, 3]), ([0, 1, 2, 3], [4])])
    assert folds.test.tolist() == [-1, -1, 0, 0, 1, -1]
    assert [train.tolist() for train, _ in folds.pairs()] == [[0, 1], [0, 1, 2, 3]]


def test_columns_of_a_table(tmp_path):
    frame = pd.DataFrame({"id": np.repeat(np.arange(8), 2), "x": np.arange(16.0), "y": np.repeat(np.arange(8.0), 2)})
    frame["day"] = np.repeat([f"2020-01-{day:02}" for day in range(1, 9)], 2)
    frame["part"] = np.repeat(np.arange(8) % 2, 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    bags, _ = bw.load(tmp_path / "t.csv", bag="id", target="y", time="day", fold="part")
    assert bags.feature_names == ("x",)
    assert np.array_equal(bags.time, np.datetime64("2020-01-01") + np.arange(8))
    assert split_bags(bags).test.tolist() == [0, 1] * 4
    assert split_bags(bags, "forward").test.tolist()[0] == -1
    kept, _ = bw.load(tmp_path / "t.csv", bag="id", target="y", keep=["day"], ignore=["part"])
    declared = kept.with_validation(bw.Validation("forward", time="day"))
    assert np.array_equal(declared.time, bags.time) and np.array_equal(declared[[2, 5]].time, bags.time[[2, 5]])
    texts = make_bags(3, time=["1.5", " 2", "0"])
    assert texts.time.tolist() == [1.5, 2.0, 0.0]


def test_out_of_fold_forward_never_sees_the_future():
    time = np.arange(24.0)
    bags, y = make_bags(time=time), np.random.default_rng(2).normal(size=24)
    stage = OutOfFold(LinearRegression(), folds="forward", predictor="refit", scaler=None)
    column = stage.fit_transform(bags, y)
    folds = split_bags(bags, "forward", inner=True)
    for train, test in [*folds.pairs(), (np.flatnonzero(folds.test == 0), np.flatnonzero(folds.test == -1))]:
        model = LinearRegression().fit(bags[train].instances, bags[train].expand(y[train]))
        assert np.allclose(column[test].instances[:, 0], model.predict(bags[test].instances), atol=1e-12)


@pytest.mark.parametrize("method", ["instance-kme:ridge", "instance-kme:single"])
def test_methods_that_cross_fit_follow_the_declaration(method):
    bags, y = bw.datasets.make_gaussian(40, instances=5)
    model = bw.method(method).fit(bags.with_validation(bw.Validation("forward", time=np.arange(40))), y)
    assert model[0].fold_.min() == -1
    assert np.isfinite(model.predict(bags)).all()


def test_a_search_of_scikit_learn_takes_the_declaration():
    bags = make_bags(time=np.arange(24))
    y = np.arange(24.0)
    search = GridSearchCV(bw.method("aggregated"), {}, cv=bw.BagKFold("forward"))
    assert search.fit(bags, y).n_splits_ == 5


def declare(**declared):
    return make_bags(), bw.Validation(**declared)


@pytest.mark.parametrize(
    "bags, folds, error, what",
    [
        (make_bags(), "forward", ValueError, "time"),
        (*declare(scheme="forward", time=np.zeros(24)), ValueError, "distinct times"),
        (*declare(scheme="forward", folds=5, time=np.arange(24) % 4), ValueError, "distinct times"),
        (*declare(scheme="forward", time=[None] + list(range(23))), ValueError, "bag 0"),
        (*declare(scheme="forward", time=[*range(23), "2020-01-01"]), TypeError, "not both: bag 23 has '2020-01-01'"),
        (*declare(scheme="forward", time=[*"12" * 11, "2020-01-01", "3"]), TypeError, "not both: bag 22"),
        (*declare(scheme="forward", time=["soon"] * 24), ValueError, "bag 0.*'soon'"),
        (*declare(scheme="forward", time=np.arange(24), groups=["a", "b"] * 12), ValueError, "group 'b'|group 'a'"),
        (*declare(scheme="forward", time=np.arange(24), gap=100), ValueError, "gap"),
        (*declare(scheme="forward", time=np.arange(24), gap=-1), ValueError, "gap"),
        (*declare(scheme="forward", time=np.arange(24), gap=timedelta(days=1)), TypeError, "gap"),
        (*declare(scheme="forward", time="when"), ValueError, "'when'"),
        (*declare(scheme="given", given=["train"] * 24), ValueError, "'test'"),
        (*declare(scheme="given", given=["train", "test", "valid"] * 8), ValueError, "'valid'"),
        (*declare(scheme="given", given=[3] * 24), ValueError, "fold 3"),
        (make_bags(), "given", ValueError, "fold="),
        (make_bags(), "later", ValueError, "'later'"),
        (make_bags(), [([0], [1]), ([0], [1])], ValueError, "pair 1"),
        (make_bags(), [([0], [99])], ValueError, "position 99"),
        (make_bags(), [([0], [])], ValueError, "pair 0"),
    ],
)
def test_a_declaration_that_cannot_be_followed_is_named(bags, folds, error, what):
    with pytest.raises(error, match=what):
        split_bags(bags, folds)


@pytest.mark.parametrize("times", [[*range(23), None], [*range(23), "2020-01-01"], ["soon"] * 24, [1.0] * 24])
def test_errors_about_times_name_the_parameter(times):
    with pytest.raises(ParameterError) as caught:
        split_bags(make_bags(), bw.Validation("forward", time=times))
    assert caught.value.parameter == "time"


def test_wrong_declarations_are_named():
    with pytest.raises(ValueError, match="'backward'"):
        bw.Validation("backward")
    with pytest.raises(ValueError, match="blocks"):
        bw.Validation(groups="a", blocks="b")
    with pytest.raises(ValueError, match="'many'"):
        bw.Validation("forward", folds="many")
    with pytest.raises(ValueError, match="pairs.*folds="):
        make_bags().with_validation(bw.Validation("given", given=[([0], [1])]))
    with pytest.raises(ValueError, match="pass them"):
        bw.BagKFold("forward").get_n_splits()
