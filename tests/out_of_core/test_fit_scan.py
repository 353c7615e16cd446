"""A fit from sums is the ordinary fit, however the rows are cut, in whatever order, whoever adds them up."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.helpers.cut_tables import METHODS, SHARED, cut, scanned, small

import bagwise as bw
from bagwise.execution import Processes, Serial
from bagwise.instances import OutOfFold
from bagwise.instances.random_feature_ridge import RandomFeatureRidge
from bagwise.kernels.formulas import NystroemFeatures
from bagwise.methods import method
from bagwise.out_of_core import fit_scan, predict_scan, shards, summable_methods


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
    assert not hasattr(mine["head"], "residuals_")  # there is a row for every bag nowhere
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
    with pytest.raises(ValueError, match="AggregateGP cannot be fitted from sums"):
        fit_scan(source, small("aggregate-gp").set_params(likelihood="poisson"))


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


def test_the_list_of_methods_is_what_the_docs_say():
    assert sorted(summable_methods()) == METHODS


def test_other_methods_are_refused_with_the_list(table):
    with pytest.raises(ValueError, match="instance-kme cannot be fitted from sums.*instance-kme:ridge, aggregated"):
        fit_scan(scanned(table), "instance-kme")
    judged = OutOfFold(RandomFeatureRidge(), judge=bw.method("aggregated"))
    with pytest.raises(ValueError, match="BagPipeline cannot be fitted from sums"):
        fit_scan(scanned(table), small("instance-kme:ridge").set_params(instances=judged))
    with pytest.raises(ValueError, match="not sums over instances.*model.predict"):
        bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
        predict_scan(bw.method("phase").fit(bags, y), scanned(table))


def test_without_a_target_there_is_nothing_to_learn(table):
    with pytest.raises(ValueError, match="no target to learn from; scan the table with target= the name"):
        fit_scan(bw.scan(table, bag="bag"), "aggregated")


def change(table, column, row, value):
    values = table[column].to_numpy().copy()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (np.nan, r"missing \(NaN\) feature values in column 'x3' of .*odd.parquet.*; fill missing ones in with"),
        (np.inf, "infinite feature values in column 'x3' of .*odd.parquet.*; leave such rows out with"),
        (1e200, r"huge \(beyond 1e\+100\) feature values in column 'x3' of .*odd.parquet.*; leave such rows out with"),
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
        with pytest.raises(ValueError, match=f"bag '{bag}' has {what.partition(' of ')[0]}"):
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
    with pytest.raises(ValueError, match="one bag is not enough to learn from"):
        fit_scan(scanned(table.filter(pa.compute.equal(table["bag"], "bag 3"))), "aggregated")


def test_nothing_left_by_where_is_said(table):
    with pytest.raises(ValueError, match="no rows; look at `where`"):
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
    with pytest.raises(ValueError, match="draw='rows'"):
        LandmarkMean().fit_sums(bags, np.zeros((2, 1)))
    with pytest.raises(ValueError, match="a kernel whose bandwidth is a number"):
        KernelMean(Gaussian(MedianDistance())).fit_sums(bags, 0.0, 1.0, 0.5, 1.0)
    with pytest.raises(ValueError, match="reach must be above zero, or None, not 0"):
        KernelMean(reach=0).fit(bags)
    with pytest.raises(ValueError, match="draw must be 'bags' or 'rows', not 'lots'"):
        LandmarkMean(draw="lots").fit(bags)


def test_folds_that_each_need_sums_are_not_many(table):
    model = small("instance-kme:ridge").set_params(instances__folds="each")
    with pytest.raises(ValueError, match="every fold needs sums of its own, and 70 are too many; take at most 64"):
        fit_scan(scanned(table), model)


def test_predictions_are_written_whole_or_not_at_all(table, tmp_path, monkeypatch):
    model, source = fit_scan(scanned(table), "aggregated"), scanned(table, chunk_rows=400)
    monkeypatch.setattr(shards, "SHARD_BAGS", 30)
    found = predict_scan(model, source, out=tmp_path / "parts")
    assert [path.name for path in sorted((tmp_path / "parts").iterdir())] == [f"part-0000{k}.parquet" for k in range(3)]
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


@pytest.mark.parametrize(
    "change",
    [
        {"grid": {"features__random_state": [0, 1]}},
        {"grid": {"features__n_features": [40, 2000]}},
        {"embedding__features": NystroemFeatures(20)},
    ],
)
def test_a_grid_that_needs_another_sample_is_refused(table, change):
    model = small("input-kme:fourier").set_params(**change)
    with pytest.raises(ValueError, match="EmbeddingRidge cannot be fitted from sums"):
        fit_scan(scanned(table), model)


def test_a_grid_of_pools_is_refused(table):
    model = small("statistics:moments").set_params(head__grid={"statistics": [("mean",), ("max",)]})
    with pytest.raises(ValueError, match="BagPipeline cannot be fitted from sums"):
        fit_scan(scanned(table), model)


def test_statistics_that_are_no_sums_are_not_predicted_from_sums(table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    with pytest.raises(ValueError, match="not sums over instances"):
        predict_scan(method("statistics", preset="linear").fit(bags, y), scanned(table))


def test_places_that_cannot_be_written_are_refused_before_the_work(table, tmp_path):
    model = fit_scan(scanned(table), "aggregated")
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere to write parts to; make it first"):
        predict_scan(model, scanned(table), out=tmp_path / "nowhere" / "parts")
    with pytest.raises(ValueError, match="memory://parts is a URL; a folder is written on this machine"):
        predict_scan(model, scanned(table), out="memory://parts")
    renamed = table.rename_columns([{"bag": "prediction"}.get(name, name) for name in table.column_names])
    with pytest.raises(ValueError, match="the bag column is called 'prediction', as a column of the output is"):
        predict_scan(model, bw.scan(renamed, bag="prediction", ignore=["site", "y"]), out=tmp_path / "parts")
    assert list(tmp_path.iterdir()) == []


def test_other_things_than_scans_executors_and_fitted_models_are_refused(table):
    with pytest.raises(TypeError, match=r"expected what bagwise.scan\(...\) gives, not Table"):
        fit_scan(table, "aggregated")
    with pytest.raises(TypeError, match="an executor has a run method, such as .*; not 'dask'"):
        fit_scan(scanned(table), "aggregated", executor="dask")
    with pytest.raises(NotFittedError):
        predict_scan(method("aggregated"), scanned(table))
    with pytest.raises(ValueError, match="weighting must be 'bag' or 'instance', not 'nonsense'"):
        fit_scan(scanned(table), small("instance-kme:ridge").set_params(instances__weighting="nonsense"))
