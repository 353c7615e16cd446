"""A fit to a scan is the fit in memory, however the rows are cut, in whatever order, whoever runs the passes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from tests.helpers.cut_tables import METHODS, SHARED, cut, scanned, small

import bagwise as bw
from bagwise.execution import Processes, Serial
from bagwise.methods import method
from bagwise.scale import fit_scan, predict_scan, stages, training_data
from bagwise.scale.partitions import partition
from bagwise.scale.passes import Passes


@pytest.mark.kernels
@pytest.mark.parametrize("name", METHODS)
def test_however_the_rows_are_cut_the_model_is_that_of_memory(name, table, tmp_path):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    expected = small(name).fit(bags, y).predict(bags)
    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        source = scanned(cut(table, folder, seed), chunk_rows=[10**6, 250][seed])
        model = fit_scan(source, small(name))
        assert_allclose(model.predict(bags), expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
        found = predict_scan(model, source)
        order = [found.ids.tolist().index(one) for one in bags.ids]
        assert_allclose(found.values[order], expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
        assert found.sizes[order].tolist() == bags.sizes.tolist()


@pytest.mark.kernels
@pytest.mark.parametrize("name", METHODS)
def test_single_precision_is_summed_in_double(name, table, tmp_path):
    single = table.cast(
        pa.schema([f.with_type(pa.float32()) if f.name[0] == "x" or f.name == "same" else f for f in table.schema])
    )
    bags, _ = bw.load(single, bag="bag", target="y", ignore=["site"])
    assert bags.dtype == np.float32
    whole = fit_scan(scanned(single), small(name)).predict(bags)
    cut(single, tmp_path, 1)
    source = scanned(tmp_path, chunk_rows=500)
    assert source.dtype == np.float32
    assert_allclose(fit_scan(source, small(name)).predict(bags), whole, rtol=1e-9, atol=1e-9 * np.abs(whole).max())


@pytest.mark.parametrize("name", SHARED)
def test_groups_are_kept_together_as_in_memory(name, table, tmp_path):
    bags, y = bw.load(table, bag="bag", target="y", groups="site")
    source = bw.scan(cut(table, tmp_path, 5), bag="bag", target="y", groups="site", chunk_rows=500)
    model, expected = fit_scan(source, small(name)), small(name).fit(bags, y)
    assert_allclose(model.predict(bags), expected.predict(bags), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", SHARED)
def test_whoever_adds_up_the_same_chunks_the_answer_is_the_same_to_the_last_bit(name, table, tmp_path):
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    source = scanned(cut(table, tmp_path, 1), chunk_rows=400)
    one, two = (fit_scan(source, small(name), executor=each) for each in (Serial(), Processes(2)))
    assert (one.predict(bags) == two.predict(bags)).all()
    assert (predict_scan(one, source).values == predict_scan(one, source, executor=Processes(2)).values).all()


def test_the_fitted_parts_are_those_of_memory(table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    mine, ordinary = fit_scan(scanned(table, chunk_rows=500), small("instance-kme:ridge")), small("instance-kme:ridge")
    ordinary.fit(bags, y)
    assert mine["instances"].candidate_ == ordinary["instances"].candidate_
    assert mine["head"].setting_["kernel"].get_params() == ordinary["head"].setting_["kernel"].get_params()
    assert mine["head"].head_.penalty_ == ordinary["head"].head_.penalty_
    assert_allclose(mine["head"].head_.errors_, ordinary["head"].head_.errors_, rtol=1e-8)
    assert_allclose(np.sort(mine["head"].residuals_), np.sort(ordinary["head"].residuals_), rtol=1e-7, atol=1e-9)
    assert mine["instances"].feature_names_in_.tolist() == ordinary["instances"].feature_names_in_.tolist()


def test_landmarks_leave_the_same_noise(table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    mine, ordinary = fit_scan(scanned(table, chunk_rows=500), "blr:rows"), small("blr:rows").fit(bags, y)
    assert_allclose(mine.embedding_.noise_, ordinary.embedding_.noise_, rtol=1e-9, atol=1e-12)
    for one, other in zip(mine.predict(bags, return_std=True), ordinary.predict(bags, return_std=True), strict=True):
        assert_allclose(one, other, rtol=1e-9)


def test_sums_of_instances_are_fitted_and_predicted_as_in_memory(table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    expected = small("aggregate-gp").set_params(aggregate="sum").fit(bags, y * bags.sizes)
    total = pa.array(
        np.asarray(table["y"]) * bags.sizes[[bags.ids.tolist().index(one) for one in table["bag"].to_pylist()]]
    )
    source = scanned(table.set_column(table.schema.get_field_index("y"), "y", total), chunk_rows=500)
    model = fit_scan(source, small("aggregate-gp").set_params(aggregate="sum"))
    for one, other in zip(model.predict(bags, return_std=True), expected.predict(bags, return_std=True), strict=True):
        assert_allclose(one, other, rtol=1e-8)
    found = predict_scan(model, source)
    order = [found.ids.tolist().index(one) for one in bags.ids]
    assert_allclose(found.values[order], expected.predict(bags), rtol=1e-8)


@pytest.mark.parametrize("options", [{"predictor": "refit"}, {"predictor": "last-fold"}, {"weighting": "instance"}])
def test_options_of_the_stage_are_honoured(options, table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    model = small("instance-kme:ridge").set_params(**{f"instances__{key}": value for key, value in options.items()})
    expected = clone(model).fit(bags, y).predict(bags)
    assert_allclose(fit_scan(scanned(table, chunk_rows=700), model).predict(bags), expected, rtol=1e-9)


def test_the_model_is_an_ordinary_one_that_is_saved_and_opened(table, tmp_path):
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    for name in METHODS:
        model = fit_scan(scanned(table, chunk_rows=900), small(name))
        bw.save_model(model, tmp_path / "model.bagwise", method=name)
        assert (bw.load_model(tmp_path / "model.bagwise").predict(bags) == model.predict(bags)).all()


def test_bags_already_in_memory_can_be_scanned():
    bags, y = bw.datasets.make_gaussian(40, instances=7)
    model = fit_scan(bw.scan(bags, bag=None, target=y, chunk_rows=33), "aggregated")
    assert_allclose(model.predict(bags), method("aggregated").fit(bags, y).predict(bags), rtol=1e-9)


# Refusals ---------------------------------------------------------------------------------------------------------


def test_without_a_target_there_is_nothing_to_learn(table):
    with pytest.raises(ValueError, match="no target to learn from. Scan the table with target="):
        fit_scan(bw.scan(table, bag="bag"), "aggregated")


def change(table, column, row, value):
    values = table[column].to_numpy().copy()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (np.nan, r"missing .*'x3'"),
        (np.inf, r"infinite .*'x3'"),
        (1e200, r".* beyond 1e\+100 .*'x3'"),
    ],
)
def test_values_that_cannot_be_summed_are_refused_by_name(table, tmp_path, value, what):
    odd = change(table, "x3", 500, value)
    pq.write_table(odd, tmp_path / "odd.parquet", row_group_size=300)
    bag = odd["bag"][500].as_py()
    with pytest.raises(ValueError, match=f"bag '{bag}' has {what}"):
        fit_scan(scanned(tmp_path / "odd.parquet", chunk_rows=300), "aggregated")
    model = fit_scan(scanned(table), "aggregated")
    for fitted in (model, fit_scan(scanned(table), "statistics:moments")):
        with pytest.raises(ValueError, match=f"bag '{bag}' has {what}"):
            predict_scan(fitted, scanned(odd))


def test_a_bag_has_one_target_in_all_files(table, tmp_path):
    odd = change(table, "y", 500, 77.0)
    with pytest.raises(ValueError, match=f"{odd['bag'][500].as_py()}' has more than one target in column 'y'"):
        fit_scan(scanned(odd, chunk_rows=10**6), "aggregated")
    with pytest.raises(ValueError, match=f"{odd['bag'][500].as_py()}' has more than one target in column 'y'"):
        fit_scan(scanned(odd.slice(480, 40), chunk_rows=1), "aggregated")


def test_a_bag_has_one_group_in_all_files(table):
    odd = change(table, "site", 500, 77)
    odd = odd.slice(480, 40)
    for rows in (1, 10**6):
        with pytest.raises(ValueError, match="has rows of more than one group in column 'site'"):
            fit_scan(bw.scan(odd, bag="bag", target="y", groups="site", chunk_rows=rows), "aggregated")


def test_one_bag_is_not_enough(table):
    with pytest.raises(ValueError, match="has one bag. A fit needs at least two"):
        fit_scan(scanned(table.filter(pa.compute.equal(table["bag"], "bag 3"))), "aggregated")


def test_nothing_left_by_where_is_said(table):
    with pytest.raises(ValueError, match="has no rows. At least one is required. Check where"):
        fit_scan(scanned(table, where="x0 > 1e9"), "aggregated")


def test_chunks_that_where_leaves_empty_do_no_harm(table):
    some = bw.load(table.filter(pa.compute.less(table["site"], 5)), bag="bag", target="y", ignore=["site"])
    source = scanned(table, where="site < 5", chunk_rows=60)
    expected = method("aggregated").fit(*some).predict(some[0])
    assert_allclose(fit_scan(source, "aggregated").predict(some[0]), expected, rtol=1e-9)


def test_other_features_than_those_of_the_fit_are_refused(table):
    model = fit_scan(scanned(table), "aggregated")
    with pytest.raises(ValueError, match="features differ from those at fit .missing: x0"):
        predict_scan(model, scanned(table.drop_columns(["x0"])))
    model = fit_scan(scanned(table), "statistics:moments")
    with pytest.raises(ValueError, match="features differ from those at fit .missing: x0"):
        predict_scan(model, scanned(table.drop_columns(["x0"])))


def test_a_kernel_too_narrow_for_the_predictions_is_refused(table):
    from bagwise.kernels import Gaussian

    model = small("instance-kme:ridge").set_params(head__grid={"kernel": [Gaussian(1e-4)]})
    with pytest.raises(ValueError, match="too narrow for predictions from .* look for outliers"):
        fit_scan(scanned(table), model)


def test_parts_say_what_they_need_of_sums(table):
    from bagwise.embeddings import KernelMean, LandmarkMean
    from bagwise.kernels import Gaussian, MedianDistance

    bags, _ = bw.datasets.make_gaussian(5, instances=3)
    with pytest.raises(ValueError, match="cannot be fitted on a scan .* a number as bandwidth"):
        KernelMean(Gaussian(MedianDistance())).fit_range(bags, 0.0, 1.0, 0.5, 1.0)
    with pytest.raises(ValueError, match="reach must be above zero or None, not 0"):
        KernelMean(reach=0).fit(bags)
    with pytest.raises(ValueError, match="draw must be 'bags' or 'rows', not 'lots'"):
        LandmarkMean(draw="lots").fit(bags)


def test_folds_that_each_need_sums_are_not_many(table):
    model = small("instance-kme:ridge").set_params(instances__folds="each")
    with pytest.raises(ValueError, match="Got 70 folds. A scan allows at most 64"):
        fit_scan(scanned(table), model)


def test_predictions_are_written_whole_or_not_at_all(table, tmp_path, monkeypatch):
    model, source = fit_scan(scanned(table), "aggregated"), scanned(table, chunk_rows=400)
    found = predict_scan(model, source, out=tmp_path / "parts")
    assert [path.name for path in sorted((tmp_path / "parts").iterdir())] == [f"part-0000{k}.parquet" for k in range(7)]
    written = pq.read_table(tmp_path / "parts")
    assert written.column_names == ["bag", "prediction", "instances"]
    assert written["bag"].to_pylist() == found.ids.tolist()
    assert (written["prediction"].to_numpy() == found.values).all()
    (tmp_path / "parts" / "README.txt").write_text("a note beside the parts")
    assert (written["prediction"].to_numpy() == found.values).all()
    with pytest.raises(FileExistsError, match="parts is there already; give the name of a new folder"):
        predict_scan(model, source, out=tmp_path / "parts")
    monkeypatch.setattr(pq, "write_table", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        predict_scan(model, source, out=tmp_path / "others")
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


# Awkward tables ---------------------------------------------------------------------------------------------------


def same_in_memory_and_in_pieces(table, name):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    expected = small(name).fit(bags, y).predict(bags)
    for rows in (290, 10**6):
        found = fit_scan(scanned(table, chunk_rows=rows), small(name)).predict(bags)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", SHARED)
def test_features_on_a_grid(name, table):
    """Ties, which clusters of landmarks would break by the last digit of a mean."""
    for column in [f"x{j}" for j in range(8)]:
        values = table[column].to_numpy()
        grid = np.round(4 * (values - values.mean()) / values.std())
        table = table.set_column(table.column_names.index(column), column, pa.array(grid))
    same_in_memory_and_in_pieces(table, name)


def test_targets_far_from_zero(table):
    far = table.set_column(table.column_names.index("y"), "y", pa.array(table["y"].to_numpy() + 1e4))
    same_in_memory_and_in_pieces(far, "instance-kme:ridge")


def test_an_outlier_does_not_make_the_kernels_too_narrow(table):
    odd = change(table, "x3", 500, table["x3"].to_numpy().max() * 1e4)
    same_in_memory_and_in_pieces(odd, "instance-kme:ridge")
    model = fit_scan(scanned(odd), small("instance-kme:ridge"))
    low, high = model["head"].embedding_.range_
    assert (high - low <= 16.0 + 1e-9).all()


@pytest.mark.parametrize("name", SHARED)
def test_a_column_that_varies_by_rounding_alone_is_constant(name, table):
    nearly = 0.1 * (1 + np.arange(table.num_rows) % 3 * 2.0**-52)
    table = table.set_column(table.column_names.index("same"), "same", pa.array(nearly))
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    one, other = (fit_scan(scanned(table, chunk_rows=rows), small(name)).predict(bags) for rows in (290, 10**6))
    assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max())


def test_a_missing_group_is_named(table):
    words = np.array([f"site {k}" for k in table["site"].to_pylist()], dtype=object)
    words[500] = None
    odd = table.set_column(table.column_names.index("site"), "site", pa.array(words))
    with pytest.raises(ValueError, match="has rows without a group in column 'site'"):
        fit_scan(bw.scan(odd, bag="bag", target="y", groups="site"), "aggregated")


# Any method -----------------------------------------------------------------------------------------------------------


EVERY = ["statistics", "statistics:forest", "instance-kme:additive", "phase", "miles", "input-kme", "additive", "blr"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name.startswith("stat") or name == "phase" else pytest.mark.slow)
        for name in EVERY
    ],
)
def test_any_method_is_fitted_as_in_memory(name, table, tmp_path):
    ordered = table.sort_by("bag")  # some methods read bags in their order
    bags, y = bw.load(ordered, bag="bag", target="y", ignore=["site"])
    expected = method(name).fit(bags, y).predict(bags)
    model = fit_scan(scanned(ordered, chunk_rows=400), name)
    assert_allclose(model.predict(bags), expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_the_default_blend_of_learners(table):
    """Its networks are trained on rows that stream: in one buffer, in the order of memory or not."""
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    settings = {"instances__network__regressor__epochs": (1, 2)}
    ordinary = method("instance-kme").set_params(**settings).fit(bags, y)
    model = fit_scan(scanned(table, chunk_rows=400), method("instance-kme").set_params(**settings))
    assert model["instances"].learners_.keys() == ordinary["instances"].learners_.keys()
    assert_allclose(model["head"].error_, ordinary["head"].error_, rtol=0.2)
    held = {key: reading for key, reading in model["head"].readings_.items() if not key.startswith("network")}
    for key, reading in held.items():
        if key in ordinary["head"].readings_:
            assert_allclose(reading.error_, ordinary["head"].readings_[key].error_, rtol=1e-7)


@pytest.mark.parametrize("name", ["em", "statistics:forest", "phase"])
def test_a_method_that_needs_all_bags_at_once_is_fitted_to_a_stated_sample(name, table, monkeypatch):
    monkeypatch.setattr(training_data.TrainingData.by_hash, "__defaults__", (3000,))
    monkeypatch.setattr(stages, "MOST_VALUES", 2000)
    with pytest.warns(UserWarning, match="was fitted to a sample of .* of 70 bags, drawn by a hash of their ids"):
        model = fit_scan(scanned(table, chunk_rows=400), name)
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    assert np.isfinite(model.predict(bags)).all()


# Partitions -----------------------------------------------------------------------------------------------------------


def passes_of(source, name="aggregated"):
    names = []
    fit_scan(source, name, progress=lambda step: names.append(step.name))
    return list(dict.fromkeys(names))


def test_a_table_is_partitioned_only_where_it_is_not_clustered_by_bag(table, tmp_path):
    ordered = table.sort_by("bag")
    assert passes_of(scanned(ordered, chunk_rows=400))[:3] == ["bag-hashes", "load", "load-others"]
    shuffled = ordered.take(np.random.default_rng(0).permutation(ordered.num_rows))
    assert passes_of(scanned(shuffled, chunk_rows=400))[:3] == ["bag-hashes", "partition", "load"]
    assert passes_of(scanned(shuffled))[0] == "load"  # all of it is one partition


@pytest.mark.parametrize("groups", [None, "site"])
@pytest.mark.parametrize("order", ["sorted", "random"])
def test_every_bag_and_group_is_whole_in_one_partition(table, order, groups):
    table = table.sort_by("bag")
    table = table.take(np.random.default_rng(0).permutation(table.num_rows)) if order == "random" else table
    source = bw.scan(table, bag="bag", target="y", groups=groups, features=["x0"], chunk_rows=300)
    with Passes() as passes:
        parts, known = partition(source, passes)
        loaded = [part.load() for part in parts]
        ids = np.concatenate([bags.ids for bags in loaded])
        assert len(set(ids.tolist())) == len(ids) == 70 and ids.tolist() == known.ids.tolist()
        if groups is not None:
            assert sum(len(set(bags.groups.tolist())) for bags in loaded) == 9
        first = {one: row for row, one in reversed(list(enumerate(table["bag"].to_pylist())))}
        assert known.first.tolist() == [first[one] for one in ids]


def test_a_method_in_blocks_of_few_rows_is_that_in_one(table, monkeypatch):
    from bagwise.regressors import row_blocks

    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    for name in METHODS:
        source = scanned(table, chunk_rows=400)
        expected = fit_scan(source, small(name)).predict(bags)
        with monkeypatch.context() as patch:
            patch.setattr(row_blocks, "BLOCK_ROWS", 20)
            found = fit_scan(source, small(name)).predict(bags)
        assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
