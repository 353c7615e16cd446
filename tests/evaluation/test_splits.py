"""Splits: the paper's folds, groups together, fixed folds, train and test."""

import json
from datetime import date

import numpy as np
import pandas as pd
import pytest

import bagwise as bw
from bagwise.evaluation import Results, evaluate, make_splits


def bags_of(n, **options):
    return bw.from_arrays([np.zeros((2, 1))] * n, **options)


def test_repeats_are_the_random_folds_of_the_library():
    assert len(make_splits(bags_of(12))) == 50
    bags = bags_of(23)
    splits = make_splits(bags, repeats=2)
    for r in range(2):
        fold = bw.bags.bag_folds(bags, 5, random_state=r)
        for split in splits[5 * r : 5 * r + 5]:
            np.testing.assert_array_equal(split.test, np.flatnonzero(fold == split.fold))
            np.testing.assert_array_equal(split.train, np.flatnonzero(fold != split.fold))
    assert [(s.repeat, s.fold) for s in splits] == [(r, k) for r in range(2) for k in range(5)]


def test_forward_folds_train_on_earlier_bags_only(tmp_path):
    """Also the baselines of the verdict; the first window is never scored."""
    bags, y = bw.datasets.make_problem("mean", 60)
    day = np.random.default_rng(0).permutation(60)
    bags = bags.with_validation(bw.Validation(time=day))
    splits = make_splits(bags, folds="forward")
    assert len(splits) == 5 and all(day[split.train].max() < day[split.test].min() for split in splits)
    results = evaluate(bags, y, ["aggregated"], folds="forward", out=tmp_path)
    table = Results.load(tmp_path).table()
    assert table["n_train"].tolist() == [len(split.train) for split in splits]
    for train, test in results.folds("aggregated", 0).pairs():
        assert day[train].max() < day[test].min()
    declared = make_splits(bags.with_validation(bw.Validation("forward", folds=3, time=day)))
    assert len(declared) == 5  # a number changes the number of windows


@pytest.mark.parametrize("ids", [list("abcdefghijkl"), list(range(20, 8, -1))], ids=["text", "numbers"])
def test_the_order_of_bags_does_not_matter(ids):
    bags = bags_of(12, ids=ids)
    order = np.random.default_rng(0).permutation(12)

    def tested(bags):
        return [set(bags.ids[split.test].tolist()) for split in make_splits(bags, repeats=2, folds=3)]

    assert tested(bags) == tested(bags[order])


def test_groups_and_repeated_bags_stay_on_one_side():
    groups = np.repeat(np.arange(8), 3)
    for split in make_splits(bags_of(24, groups=groups), repeats=3, folds=4):
        assert not set(groups[split.train]) & set(groups[split.test])
    bags = bags_of(8)[[0, 0, 1, 1, 2, 3, 4, 5, 6, 7]]
    for split in make_splits(bags, repeats=3):
        assert not set(bags.ids[split.train].tolist()) & set(bags.ids[split.test].tolist())


def test_fixed_folds_are_kept():
    splits = make_splits(bags_of(5), fold=["b", "a", "b", "c", "a"])
    assert [(s.fold, s.test.tolist()) for s in splits] == [("a", [1, 4]), ("b", [0, 2]), ("c", [3])]


def test_train_and_test_from_a_column():
    (split,) = make_splits(bags_of(4), split=["train", "TEST", "train", "test"])
    assert (split.train.tolist(), split.test.tolist(), split.fold) == ([0, 2], [1, 3], "test")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"folds": 7}, ValueError, "7 folds need at least 7 bags, and there are 6"),
        ({"folds": 1}, ValueError, "folds must be at least 2"),
        ({"folds": 2.0}, TypeError, "folds must be a whole number, 'auto' or 'each', not 2.0"),
        ({"repeats": 0}, ValueError, "repeats must be at least 1, not 0"),
        ({"repeats": 1.5}, TypeError, "repeats must be a whole number, not 1.5"),
        ({"random_state": None}, TypeError, "random_state must be a whole number, not None; repeat r has the seed"),
        ({"random_state": True}, TypeError, "random_state must be a whole number, not True"),
        ({"random_state": -1}, ValueError, r"random_state must be from 0 to 2\*\*32 - 1, not -1"),
        ({"random_state": 2**32}, ValueError, r"random_state must be from 0 to 2\*\*32 - 1"),
        ({"fold": [0] * 6}, ValueError, "All bags are in fold 0. Fixed folds need at least two"),
        ({"fold": [0, 1]}, ValueError, r"fold must have one label per bag \(6\), not shape \(2,\)"),
        ({"split": ["train"] * 6}, ValueError, r"with at least one of both; got \['train'\]"),
        ({"split": ["train"] * 5 + ["val"]}, ValueError, r"got \['train', 'val'\]"),
        ({"split": ["train"] * 6, "fold": [0] * 6}, ValueError, "not both"),
    ],
)
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        make_splits(bags_of(6), **options)


DAYS = ["2020-01-02", "2020-01-01"] * 3
LABELS = {
    "days": (np.array(DAYS, dtype="M8[D]"), sorted(set(DAYS))),
    "nanoseconds": (np.array(DAYS, dtype="M8[ns]"), sorted(set(DAYS))),
    "dates": ([date.fromisoformat(day) for day in DAYS], sorted(set(DAYS))),
    "spans": (np.array([2, 1] * 3, dtype="m8[us]"), ["1 microseconds", "2 microseconds"]),
    "bytes": (np.array([b"b", b"a"] * 3), ["a", "b"]),
    "bytes as objects": (np.array([b"b", b"a"] * 3, dtype=object), ["a", "b"]),
    "whole numbers": (np.array([2, 10] * 3, dtype=np.int32), [2, 10]),
    "truths": (np.array([True, False] * 3), [False, True]),
    "a category": (pd.Series(["b", "a"] * 3, dtype="category"), ["a", "b"]),
}


@pytest.mark.parametrize(("labels", "names"), LABELS.values(), ids=LABELS)
def test_fold_labels_are_what_a_file_can_hold(labels, names):
    splits = make_splits(bags_of(6), fold=labels)
    assert [split.fold for split in splits] == json.loads(json.dumps(names))
    order = [0, 1] if list(map(str, labels))[0] == str(names[0]) else [1, 0]
    assert [split.test.tolist() for split in splits] == [list(range(start, 6, 2)) for start in order]


@pytest.mark.parametrize(
    "labels",
    [
        [0.0, np.nan, 1.0, np.nan, 0.0, 1.0],
        ["a", None, "b", None, "a", "b"],
        np.array(["2020", "NaT", "2021", "NaT", "2020", "2021"], dtype="M8[Y]"),
        pd.Series([0, None, 1, None, 0, 1], dtype="Int64"),
        ["a", "", "b", "", "a", "b"],
    ],
    ids=["NaN", "None", "NaT", "NA", "empty"],
)
@pytest.mark.parametrize("what", ["fold", "split"])
def test_a_bag_without_a_label_is_refused_by_name(labels, what):
    with pytest.raises(ValueError, match=rf"bag 'b1' \(and 1 other\) has no {what}\. Give each bag a label"):
        make_splits(bags_of(6, ids=[f"b{i}" for i in range(6)]), **{what: labels})


def test_labels_and_seeds_of_numpy_can_be_written_and_read_again(tmp_path):
    bags, y = bw.testing.contract_checks.sample(12)
    days = ["2020-01-01", "2020-01-02", "2020-01-03"]
    fold = np.array(days * 4, dtype="M8[D]")
    written = evaluate(bags, y, ["aggregated"], fold=fold, random_state=np.int64(3), out=tmp_path)
    read = Results.load(tmp_path)
    assert [row["fold"] for row in read.rows("table")] == days and read.record["random_state"] == 3
    assert read.rows("table") == written.rows("table")


@pytest.mark.parametrize("options", [{"fold": [0, 1, 1, 1]}, {"folds": [([0, 2], [1]), ([0, 1], [2])]}])
def test_a_divided_group_is_warned_of(options):
    with pytest.warns(UserWarning, match="folds separate bags of one group, such as 1,"):
        make_splits(bags_of(4, groups=[1, 1, 2, 2]), **options)


def test_pairs_are_numbered_whatever_folds_the_bags_declare():
    """Both were named after the declared fold of their first test bag, so one of the two results was lost."""
    bags = bags_of(8).with_validation(bw.Validation("given", given=list("xxxxyyyy")))
    splits = make_splits(bags, folds=[([4, 5, 6], [0, 1]), ([4, 5], [2, 3])])
    assert [split.fold for split in splits] == [0, 1] and make_splits(bags)[1].fold == "y"
