import numpy as np
import pytest

import bagwise as bw
from bagwise.bags import BagKFold, bag_folds


def bags_of(n, **options):
    return bw.from_arrays([np.full((1 + i % 3, 2), float(i)) for i in range(n)], **options)


def test_folds_are_balanced_and_seeded():
    bags = bags_of(23, ids=[f"s{i}" for i in range(23)])
    fold = bag_folds(bags, 5)
    assert sorted(np.bincount(fold)) == [4, 4, 5, 5, 5]
    np.testing.assert_array_equal(fold, bag_folds(bags, 5))
    assert (fold != bag_folds(bags, 5, random_state=1)).any()


def test_folds_do_not_depend_on_the_order_of_the_bags():
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
    ("folds", "error", "message"),
    [
        (13, ValueError, "13 folds need at least 13 bags, and there are 12; ask for fewer folds"),
        (1, ValueError, "folds must be at least 2"),
        ("many", TypeError, "folds must be a whole number, 'auto' or 'each'"),
        (True, TypeError, "folds must be a whole number"),
    ],
)
def test_refusals(folds, error, message):
    with pytest.raises(error, match=message):
        bag_folds(bags_of(12), folds)


def test_more_folds_than_groups():
    with pytest.raises(ValueError, match="5 folds need at least 5 groups, and there are 2"):
        bag_folds(bags_of(12, groups=[0, 1] * 6), 5)


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
