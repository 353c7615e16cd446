"""Splits: the paper's folds, groups together, fixed folds, train and test."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

import bagwise as bw
from bagwise.protocol import make_splits


def bags_of(n, **options):
    return bw.from_arrays([np.zeros((2, 1))] * n, **options)


def test_repeats_are_the_folds_of_the_paper():
    splits = make_splits(bags_of(23), repeats=2)
    for r in range(2):
        expected = list(KFold(5, shuffle=True, random_state=r).split(np.arange(23)))
        for split, (train, test) in zip(splits[5 * r : 5 * r + 5], expected, strict=True):
            np.testing.assert_array_equal(split.train, train)
            np.testing.assert_array_equal(split.test, test)
    assert [(s.repeat, s.fold) for s in splits] == [(r, k) for r in range(2) for k in range(5)]


def test_ten_repeats_by_default():
    assert len(make_splits(bags_of(12))) == 50


@pytest.mark.parametrize("ids", [list("abcdefghijkl"), list(range(20, 8, -1))], ids=["text", "numbers"])
def test_the_order_of_bags_does_not_matter(ids):
    bags = bags_of(12, ids=ids)
    order = np.random.default_rng(0).permutation(12)

    def tested(bags):
        return [set(bags.ids[split.test].tolist()) for split in make_splits(bags, repeats=2, folds=3)]

    assert tested(bags) == tested(bags[order])


def test_groups_stay_together():
    groups = np.repeat(np.arange(8), 3)
    for split in make_splits(bags_of(24, groups=groups), repeats=3, folds=4):
        assert not set(groups[split.train]) & set(groups[split.test])


def test_a_repeated_bag_stays_on_one_side():
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
    ("options", "message"),
    [
        ({"folds": 7}, "7 folds need at least 7 bags, and there are 6"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"repeats": 0}, "repeats must be at least 1, not 0"),
        ({"fold": [0] * 6}, "every bag is in fold 0; fixed folds need at least two"),
        ({"fold": [0, 1]}, r"fold must have one label per bag \(6\), not shape \(2,\)"),
        ({"split": ["train"] * 6}, r"and both must occur; it says \['train'\]"),
        ({"split": ["train"] * 5 + ["val"]}, r"it says \['train', 'val'\]"),
        ({"split": ["train"] * 6, "fold": [0] * 6}, "not both"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        make_splits(bags_of(6), **options)


def test_a_torn_group_is_told():
    with pytest.warns(UserWarning, match="bags of one group on both sides"):
        make_splits(bags_of(4, groups=[1, 1, 2, 2]), fold=[0, 1, 1, 1])
