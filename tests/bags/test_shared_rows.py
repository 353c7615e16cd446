"""Instances that occur in several bags: counted, connected, kept together as groups, and warned of when folds split."""

import warnings

import numpy as np
import pytest

import bagwise as bw
from bagwise.bags import bag_folds
from bagwise.bags.shared_rows import ROW_SAMPLE, find_shared_rows, row_hashes, shares_rows


@pytest.fixture
def chained():
    """40 bags in ten sets of four: neighbours share one row of three."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 9, 3))
    arrays = [rows[k, 2 * i : 2 * i + 3] for k in range(10) for i in range(4)]
    return bw.from_arrays(arrays), rng.normal(size=40)


@pytest.fixture
def table(chained):
    bags, y = chained
    return bags.to_frame(y)


def naive(bags):
    """Pairs of bags that share a row, by comparing texts."""
    texts = [{row.tobytes() for row in bag} for bag in bags]
    return {(i, j) for i in range(len(bags)) for j in range(len(bags)) if i != j and texts[i] & texts[j]}


def test_counts_and_sets_agree_with_a_comparison_of_all_pairs(chained):
    bags, _ = chained
    found = find_shared_rows(bags)
    assert (found.n_shared, found.n_linked, found.largest, found.n_copies) == (60, 40, 4, 0)
    assert len(set(found.sets)) == 10
    assert all(found.sets[i] == found.sets[j] for i, j in naive(bags))


def test_rows_that_repeat_only_within_a_bag_are_not_shared():
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([np.repeat(rng.normal(size=(2, 3)), 2, axis=0) for _ in range(10)])
    assert find_shared_rows(bags).n_shared == 0


def test_zeros_of_either_sign_are_equal_and_precision_does_not_matter():
    rows = np.array([[0.0, 1.5], [-0.0, 1.5], [0.0, 2.5]])
    hashes = row_hashes(rows)
    assert hashes[0] == hashes[1] != hashes[2] and (row_hashes(rows.astype(np.float32)) == hashes).all()


def test_copies_of_whole_bags_are_found_in_any_order_of_their_rows():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 3)) for _ in range(20)]
    arrays += [array[::-1] for array in arrays[:5]]
    found = find_shared_rows(bw.from_arrays(arrays))
    assert found.n_copies == 10 and found.notable and "exact copies" in found.describe()


@pytest.mark.parametrize("values", [2, 5])
def test_features_of_few_values_repeat_by_chance_and_raise_no_warning(values):
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.integers(0, values, size=(8, 3)).astype(float) for _ in range(50)])
    assert find_shared_rows(bags).by_chance and shares_rows(bags) is None


def test_a_large_table_is_judged_by_a_sample_that_keeps_copies_together():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3 * ROW_SAMPLE, 3))
    offsets = np.arange(0, len(rows) + 1, 4)
    assert shares_rows(bw.Bags(rows, offsets)) is None
    rows[: len(rows) // 5] = rows[-(len(rows) // 5) :]
    assert shares_rows(bw.Bags(rows, offsets)).share == pytest.approx(0.4, abs=0.01)


def test_load_warns_and_groups_of_shared_rows_end_it(table):
    with pytest.warns(UserWarning, match=r"50 %.*groups='shared-rows'"):
        bw.load(table, bag="bag", target="target")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bags, _ = bw.load(table, bag="bag", target="target", groups="shared-rows")
        again = bags.with_groups("shared-rows")
    assert len(set(bags.groups)) == 10 and (again.groups == bags.groups).all()
    fold = bag_folds(bags, 5)
    assert all(fold[i] == fold[j] for i, j in naive(bags))


def test_groups_of_shared_rows_do_not_depend_on_the_order_of_the_bags(chained):
    bags, _ = chained
    order = np.random.default_rng(1).permutation(len(bags))
    assert (bags[order].with_groups("shared-rows").groups == bags.with_groups("shared-rows").groups[order]).all()


def test_one_set_of_most_bags_is_said_with_another_way_out():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(2, 3))
    arrays = [np.vstack([common[i % 2], rng.normal(size=(2, 3))]) for i in range(9)]
    arrays += [common]
    with pytest.warns(UserWarning, match="10 of 10 bags.*column of folds"):
        bags = bw.Bags(np.vstack(arrays), np.cumsum([0, *map(len, arrays)]), groups="shared-rows")
    assert len(set(bags.groups)) == 1
    assert "do not help" in find_shared_rows(bags._with(groups=None)).advice()


@pytest.mark.parametrize(
    "use",
    [
        lambda bags, y: bw.evaluate(bags, y, ["aggregated", "auto"], folds=2, repeats=2, tune=False),
        lambda bags, y: bw.Intervals("aggregated").fit(bags, y),
        lambda bags, y: bw.method("auto", members=["aggregated"]).fit(bags, y),
    ],
    ids=["evaluate", "intervals", "auto"],
)
def test_folds_that_separate_shared_rows_are_warned_of_once(chained, use):
    bags, y = chained
    with pytest.warns(UserWarning) as caught:
        use(bags, y)
    assert sum("folds separate bags that share rows" in str(one.message) for one in caught) == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(bags.with_groups("shared-rows"), y)
    assert not any("share rows" in str(one.message) for one in caught)


def test_check_counts_shared_rows(table):
    found = bw.check_table(table, bag="bag", target="target")
    assert found.shared_rows == {"instances": 60, "share": 0.5, "bags": 40, "largest_set": 4, "copies": 0}
    assert any(one.level == "warning" and "shared-rows" in one.text for one in found.findings)
    assert bw.check_table(table, bag="bag", target="target", groups="shared-rows").shared_rows is None


def test_archives_are_grouped_by_rows_and_scans_refuse_it(tmp_path, chained, table):
    bw.save_npz(tmp_path / "bags.npz", *chained)
    assert len(set(bw.load(tmp_path / "bags.npz", groups="shared-rows")[0].groups)) == 10
    table.to_parquet(tmp_path / "table.parquet")
    with pytest.raises(ValueError, match="shared-rows"):
        bw.scan(tmp_path / "table.parquet", bag="bag", target="target", groups="shared-rows")
