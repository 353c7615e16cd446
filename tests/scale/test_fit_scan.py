"""Partitions, refused values, samples of bags, and predictions in a folder."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.helpers.cut_tables import cut, scanned, small, with_value

import bagwise as bw
from bagwise.scale import fit_scan, predict_scan, scan_fit, training_data
from bagwise.scale.passes import Passes
from bagwise.scale.training_data import TrainingData

# Partitions -----------------------------------------------------------------------------------------------------------


def write(table, folder, order):
    """Write files that are sorted by bag or in random order."""
    table = table.sort_by("bag")
    table = table.take(np.random.default_rng(0).permutation(table.num_rows)) if order == "random" else table
    pq.write_table(table, folder / "rows.parquet", row_group_size=100)
    return table


def passes_of(source, name="aggregated"):
    names = []
    fit_scan(source, name, progress=lambda step: names.append(step.name))
    return list(dict.fromkeys(names))


def test_few_rows_are_joined_where_the_table_is_clustered_by_bag(table, tmp_path):
    for order, expected in (("sorted", range(1, table.num_rows // 4)), ("random", [table.num_rows])):
        write(table, tmp_path, order)
        rows = []
        fit_scan(scanned(tmp_path, chunk_rows=400), "aggregated", progress=rows.append)
        joined = [step.total for step in rows if step.name == "load"]
        assert joined and joined[0] - joined[0] % 10 <= max(expected)
        assert (joined[0] >= table.num_rows // 2) == (order == "random")
    assert passes_of(scanned(tmp_path))[:2] == ["partition", "columns"]  # all of it is one partition


@pytest.mark.parametrize("groups", [None, "site"])
@pytest.mark.parametrize("order", ["sorted", "random"])
def test_every_bag_and_group_is_whole_in_one_partition(table, order, groups, tmp_path):
    table = write(table, tmp_path, order)
    for origin in (tmp_path, table):
        source = bw.scan(origin, bag="bag", target="y", groups=groups, features=["x0"], chunk_rows=300)
        with Passes() as passes:
            data = TrainingData.of(source, passes)
            loaded = [part.load() for part in data.parts]
            ids = np.concatenate([bags.ids for bags in loaded])
        assert len(data.parts) > 3
        assert len(set(ids.tolist())) == len(ids) == 70 and ids.tolist() == data.ids.tolist()
        if groups is not None:
            assert sum(len(set(bags.groups.tolist())) for bags in loaded) == 9
        first = {bag: row for row, bag in reversed(list(enumerate(table["bag"].to_pylist())))}
        order_of_first = np.argsort([first[bag] for bag in ids])
        assert np.argsort(data.first).tolist() == order_of_first.tolist()


@pytest.mark.parametrize("name", ["em", "statistics:forest", "phase"])
def test_a_method_that_needs_all_bags_at_once_is_fitted_to_a_stated_sample(name, table, monkeypatch):
    monkeypatch.setattr(training_data.TrainingData.by_hash, "__defaults__", (3000,))
    monkeypatch.setattr(scan_fit, "MOST_VALUES", 2000)
    with pytest.warns(UserWarning, match="was fitted to a sample of .* of 70 bags, drawn by a hash of their ids"):
        model = fit_scan(scanned(table, chunk_rows=400), name)
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    assert np.isfinite(model.predict(bags)).all()


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["aggregated", bw.Intervals("aggregated")])
def test_a_target_is_needed(model, table):
    with pytest.raises(ValueError, match="no target to learn from. Scan the table with target="):
        fit_scan(bw.scan(table, bag="bag"), model)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_values_that_cannot_be_summed_are_refused_by_name(table, tmp_path, value):
    odd = with_value(table, "x3", 500, value)
    pq.write_table(odd, tmp_path / "odd.parquet", row_group_size=300)
    words = f"bag '{odd['bag'][500].as_py()}' has .* 'x3'"
    with pytest.raises(ValueError, match=words):
        fit_scan(scanned(tmp_path / "odd.parquet", chunk_rows=300), "aggregated")
    for name in ("aggregated", "statistics:moments"):
        model = fit_scan(scanned(table), name)
        with pytest.raises(ValueError, match=words):
            predict_scan(model, scanned(tmp_path / "odd.parquet"))


def test_one_bag_is_not_enough(table):
    with pytest.raises(ValueError, match="has one bag. A fit needs at least two"):
        fit_scan(scanned(table.filter(pa.compute.equal(table["bag"], "bag 3"))), "aggregated")


def test_conditions_that_no_row_satisfies_are_refused(table, tmp_path):
    with pytest.raises(ValueError, match="No row satisfies where: it leaves out all"):
        scanned(table, where="x0 > 1e9")
    nothing = table.set_column(0, "x0", pa.array(np.full(table.num_rows, 1.0)))
    pq.write_table(nothing, tmp_path / "a.parquet", write_statistics=False)
    with pytest.raises(ValueError, match="has no rows. At least one is required. Check where"):
        fit_scan(scanned(tmp_path, where="x0 > 1e9"), "aggregated")


def test_a_missing_group_is_named(table, tmp_path):
    words = np.array([f"site {k}" for k in table["site"].to_pylist()], dtype=object)
    words[500] = None
    odd = cut(table.set_column(table.column_names.index("site"), "site", pa.array(words)), tmp_path, 1)
    with pytest.raises(ValueError, match="has rows without a group in column 'site'"):
        fit_scan(bw.scan(odd, bag="bag", target="y", groups="site"), "aggregated")


def test_a_kernel_too_narrow_for_the_predictions_is_refused(table):
    from bagwise.kernels import Gaussian

    model = small("instance-kme:ridge").set_params(head__grid={"kernel": [Gaussian(1e-4)]})
    with pytest.raises(ValueError, match="too narrow for predictions from .* look for outliers"):
        fit_scan(scanned(table), model)


def test_embeddings_state_what_a_scan_needs():
    from bagwise.embeddings import KernelMean, LandmarkMean
    from bagwise.kernels import Gaussian, MedianDistance

    bags, _ = bw.datasets.make_gaussian(5, instances=3)
    with pytest.raises(ValueError, match="cannot be fitted on a scan .* a number as bandwidth"):
        KernelMean(Gaussian(MedianDistance())).fit_range(bags, 0.0, 1.0, 0.5, 1.0)
    with pytest.raises(ValueError, match="reach must be above zero or None, not 0"):
        KernelMean(reach=0).fit(bags)
    with pytest.raises(ValueError, match="draw must be 'bags' or 'rows', not 'lots'"):
        LandmarkMean(draw="lots").fit(bags)


# Predictions ----------------------------------------------------------------------------------------------------------


def test_predictions_are_written_whole_or_not_at_all(table, tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    model, source = fit_scan(scanned(table), "aggregated"), scanned(cut(table, tmp_path / "files", 1), chunk_rows=400)
    found = predict_scan(model, source)
    assert predict_scan(model, source, out=tmp_path / "parts").values.tolist() == found.values.tolist()
    assert [path.name for path in sorted((tmp_path / "parts").iterdir())] == [f"part-0000{k}.parquet" for k in range(6)]
    written = pq.read_table(tmp_path / "parts")
    assert written.column_names == ["bag", "prediction", "instances"]
    values = dict(zip(found.ids, found.values, strict=True))
    assert [values[bag] for bag in written["bag"].to_pylist()] == written["prediction"].to_pylist()
    with pytest.raises(FileExistsError, match="parts already exists; give the name of a new folder"):
        predict_scan(model, source, out=tmp_path / "parts")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space left on device; nothing was written: '.*others'"):
        predict_scan(model, source, out=tmp_path / "others")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "parts"]
