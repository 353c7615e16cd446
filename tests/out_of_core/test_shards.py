"""Bags are whole in shards, whatever the chunks; what is known of them does not pass through the driver."""

import errno
import pickle
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.helpers.cut_tables import cut, scanned, small

import bagwise as bw
from bagwise.bags import bag_folds
from bagwise.execution import Serial
from bagwise.out_of_core import fit_scan, passes, predict_scan, shards
from bagwise.out_of_core.shards import Deal, unit_sizes
from bagwise.out_of_core.survey import survey
from bagwise.regressors.ridge_path import RidgePath, RowSums


class Weighing(Serial):
    """Keeps how many bytes the largest task and the largest result of every pass have."""

    def __init__(self):
        self.bytes = Counter()

    def run(self, function, tasks, shared=()):
        name = shared[1].__name__
        for task, result in super().run(function, tasks, shared):
            found = len(pickle.dumps(task)) + len(pickle.dumps(result)) + len(pickle.dumps(shared))
            self.bytes[name] = max(self.bytes[name], found)
            yield task, result


@pytest.mark.parametrize("name", ["aggregated", "statistics:moments"])
def test_nothing_that_grows_with_the_bags_travels(name, tmp_path):
    travelled = []
    for n in (1000, 3000):
        bags, y = bw.datasets.make_gaussian(n, instances=2)
        executor = Weighing()
        model = fit_scan(bw.scan(written(bags, y, tmp_path / str(n)), bag="bag", target="y"), name, executor=executor)
        travelled.append(executor.bytes)
        assert model[-1].n_bags_in_ == n
    assert travelled[0].keys() == travelled[1].keys()
    for one, few in travelled[0].items():
        assert travelled[1][one] < few + 2000, one


def written(bags, y, folder):
    import pandas as pd

    folder.mkdir()
    code = np.repeat(np.arange(len(bags)), bags.sizes)
    table = pd.DataFrame(bags.instances, columns=[f"x{j}" for j in range(bags.n_features)])
    table.assign(bag=code, y=y[code]).to_parquet(folder / "rows.parquet")
    return folder


def test_a_task_that_ends_when_its_pass_is_over_changes_nothing(tmp_path):
    """Another worker has done it, and a later pass may have left something else under the same name."""
    ids = np.array(["a", "b"], dtype=object)
    first = shards.Shards(tmp_path, chunks=(0,), n=1).for_next_pass()
    first.enter(0, ids, None)
    first.put(0, {"rows": np.array([1.0, 2.0])})
    second = first.for_next_pass()
    second.put(0, {"rows": np.array([3.0, 4.0])})
    third = second.for_next_pass()
    first.put(0, {"rows": np.array([1.0, 2.0])})
    found = dict(zip(third._load("chunk-0-ids").tolist(), third._load("chunk-0-rows").tolist(), strict=True))
    assert found == {"a": 3.0, "b": 4.0}


def test_bags_of_many_shards_are_those_of_one(table, tmp_path, monkeypatch):
    source = scanned(cut(table, tmp_path, 1), chunk_rows=1000)
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    one = fit_scan(source, small("instance-kme:ridge"))
    expected = predict_scan(one, source)
    monkeypatch.setattr(shards, "SHARD_BAGS", 10)  # some are of one bag, some of none
    many = fit_scan(source, small("instance-kme:ridge"))
    assert_allclose(many.predict(bags), one.predict(bags), rtol=1e-9)
    found = predict_scan(one, source)
    assert found.ids.tolist() == expected.ids.tolist()
    assert (found.values == expected.values).all() and (found.sizes == expected.sizes).all()


@pytest.mark.parametrize("groups", [None, 4, 40])
def test_folds_dealt_from_counts_are_those_of_memory(groups):
    rng = np.random.default_rng(groups or 0)
    labels = None if groups is None else (rng.pareto(1.0, size=300) * 3).astype(int) % groups
    bags = bw.from_arrays([np.zeros((1, 1))] * 300, ids=[f"b{i}" for i in range(300)], groups=labels)
    keys = bags.ids if labels is None else labels
    hashes = np.array([shards.unit_hash(one, 7) for one in keys.tolist()], dtype="S8")
    border = np.sort(hashes)[170]
    parts = [np.flatnonzero(hashes < border), np.flatnonzero(hashes >= border)]
    units = [np.unique(hashes[own], return_inverse=True)[1] for own in parts]
    for folds in (2, 3, 4):
        deal = Deal({number: unit_sizes(one) for number, one in enumerate(units)}, folds)
        expected = bag_folds(bags, folds, random_state=7)
        for number, own in enumerate(parts):
            assert (deal.folds(number, units[number]) == expected[own]).all()


@pytest.mark.kernels
@pytest.mark.parametrize("options", [{}, {"rule": "one-se"}, {"fit_intercept": False}, {"scaling": "none"}])
@pytest.mark.parametrize("grouped", [False, True])
def test_ridge_from_sums_is_ridge_on_rows(options, grouped):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 12)) * 10.0 ** -np.arange(12) + 3
    y, groups = Z[:, :3].sum(axis=1) + rng.normal(size=200), np.arange(200) // 5
    expected = RidgePath(**options).fit(Z, y, groups=groups if grouped else None)
    head, parts = RidgePath(**options), [slice(0, 60), slice(60, 65), slice(65, 200)]
    first, *others = (RowSums.of(Z[part], y[part], block=50) for part in parts)
    sums = first
    for other in others:
        sums = sums.merge(other)
    path = head.path(sums)
    found = [path.left_out(Z[part], y[part], groups=groups[part] if grouped else None) for part in parts]
    head.fit_sums(path, found[0] + found[1] + found[2])
    assert head.penalty_ == expected.penalty_
    assert_allclose(head.errors_, expected.errors_, rtol=1e-7)
    assert_allclose(head.predict(Z), expected.predict(Z), rtol=1e-9)
    assert_allclose(head.absolute_errors_.min(), np.abs(expected.residuals_).mean(), rtol=0.5)


def test_a_gram_matrix_is_no_sum():
    sums = RowSums.of(np.eye(3), np.arange(3.0))
    with pytest.raises(ValueError, match="from sums, RidgePath takes kernel='linear'"):
        RidgePath(kernel="precomputed").path(sums)


def test_what_the_survey_says_of_sizes_and_targets_is_what_memory_says(table):
    from bagwise.model_files.model_file import describe_counts

    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    with passes.Passes(scanned(table, chunk_rows=400)) as one:
        found = survey(one).describe()
    expected = describe_counts(bags.n_features, bags.sizes, y)
    assert found.pop("target") == pytest.approx(expected.pop("target"))
    assert found == expected


def test_a_full_disk_is_named(table, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shards.np, "save", full)
    with pytest.raises(OSError, match="No space left on device: what is known of the bags cannot be written; give"):
        fit_scan(scanned(table), "aggregated", work=tmp_path)
    assert not list(tmp_path.rglob("*.npy"))  # nothing half-written


def test_a_folder_that_workers_do_not_reach_is_named(table, monkeypatch):
    monkeypatch.setattr(shards.Shards, "_save", lambda *_: None)  # they write somewhere else
    with pytest.raises(FileNotFoundError, match="is not there: the folder must be one that all workers reach"):
        fit_scan(scanned(table), "aggregated")
