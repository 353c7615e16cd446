"""Options of `scan`: what they read, what they warn of, and what is refused."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from tests.helpers.cut_tables import bags_read, cut, small, with_value

import bagwise as bw
from bagwise.instances import Imputation
from bagwise.scale import fit_scan, predict_scan
from bagwise.scale.scan_fit import fit_and_describe


@pytest.fixture
def files(rows, tmp_path):
    return cut(rows, tmp_path, 1)


@pytest.mark.filterwarnings("ignore:.*a value in column 'g")
def test_a_method_imputes_where_the_scan_declares_it(rows, files, tmp_path):
    options = {"bag": "bag", "target": "y", "features": ["g0", "g1"], "missing": "impute"}
    bags, y = bw.load(rows, **options)
    source = bw.scan(files, **options, chunk_rows=250)
    model, _, scores = fit_and_describe(source, bw.method("aggregated"))
    expected = bw.method("aggregated").fit(bags, y)
    assert isinstance(model[0], Imputation) and [name for name, _ in model.steps] == ["imputation", "scale", "head"]
    assert_allclose(model[0].medians_, expected[0].imputation_.medians_, rtol=1e-12)
    assert_allclose(model[0].feature_range_in_, expected[0].feature_range_in_)
    assert_allclose(scores["rmse"], np.sqrt(model[-1].head_.error_))
    assert fit_and_describe(source, "blr:rows")[2] is None  # its head leaves no bag out
    bw.save_model(model, tmp_path / "m.bagwise")
    opened = bw.load_model(tmp_path / "m.bagwise")
    found = predict_scan(opened, pickle.loads(pickle.dumps(source)))
    order = [found.ids.tolist().index(bag) for bag in bags.ids]
    assert_allclose(found.values[order], expected.predict(bags), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*(with other levels|without a value)")
def test_features_of_a_model_are_read_again(rows, files):
    """From the names alone, without reading the levels of the new table."""
    names = ["x0", "crop=rye", "crop=other", "sown_sine", "sown_cosine", "sown_year"]
    for source in (rows, files):
        first = bw.scan(source, bag="bag", target="y", features=["x0"], categories={"crop": ["rye"]}, dates="sown")
        again = bw.scan(source, bag="bag", features=names)
        assert first.feature_names == again.feature_names == tuple(names)
        assert bags_read(first)[0] == bags_read(again)[0] == bw.load(source, bag="bag", features=names)[0]


def test_levels_are_those_of_the_rows_that_are_read(rows, files):
    few = rows.filter(pa.compute.less(rows["site"], 5))
    with pytest.warns(UserWarning, match="rows without a value in column 'crop' count as 'crop=other'"):
        bags, _ = bw.load(few, bag="bag", features=["x0"], categories="crop")
    for table in (rows, files):
        with pytest.warns(UserWarning, match="rows without a value in column 'crop' count as 'crop=other'"):
            source = bw.scan(table, bag="bag", features=["x0"], categories="crop", where="site < 5", chunk_rows=60)
        assert source.feature_names == bags.feature_names and source.categories == bags.categories


def test_columns_that_are_left_out_are_named_once_as_by_load(rows, tmp_path):
    few = rows.select(["bag", "y", "x0", "crop", "field", "sown"])
    pq.write_table(few, tmp_path / "few.parquet")
    with pytest.warns(UserWarning, match="was left out") as loaded:
        bw.load(few, bag="bag", target="y", ignore="field")
    for source in (few, tmp_path):
        with pytest.warns(UserWarning, match="was left out") as scanned:
            bw.scan(source, bag="bag", target="y", ignore="field")
        assert [str(note.message) for note in scanned] == [str(note.message) for note in loaded]
        assert "column 'crop' (String) is not numeric" in str(scanned[0].message)
        assert scanned[0].filename == __file__
        bw.scan(source, bag="bag", target="y", features=["x0"])
    bw.scan(tmp_path, bag="bag", target="y", ignore="field", dates="sown", where="crop == 'rye'")


def test_rows_that_were_dropped_are_counted_once(rows, files):
    options = {"bag": "bag", "target": "y", "features": ["g0", "x1"], "weights": "w", "missing": "drop-instances"}
    with pytest.warns(UserWarning, match="rows, in .* were dropped") as loaded:
        bw.load(rows, **options)
    count = str(loaded[0].message).partition(" rows")[0]
    with pytest.warns(UserWarning, match=f"^{count} rows have missing or infinite values and were dropped") as scanned:
        fit_scan(bw.scan(files, **options, chunk_rows=70), bw.Intervals("aggregated", kind="cv+", folds=3))
    assert len(scanned) == 1 and scanned[0].filename == __file__
    fit_scan(bw.scan(files, **options, chunk_rows=70, where="g0 > -1e9"), "aggregated")  # not counted behind where


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_rows", [1, 10**6])
@pytest.mark.parametrize(
    ("column", "options", "words"),
    [
        ("y", {}, "has more than one target in"),
        ("site", {"groups": "site"}, "has more than one group in"),
        ("sun", {"bag_features": "sun"}, "has more than one value in"),
        ("importance", {"bag_weights": "importance"}, "has more than one bag_weights in"),
    ],
)
def test_a_bag_has_one_value_in_all_files(rows, chunk_rows, column, options, words, tmp_path):
    odd = with_value(rows.slice(230, 40), column, 20, 77)
    cut(odd, tmp_path, 2)
    options = {"bag": "bag", "target": "y", "features": ["x0"], **options, "chunk_rows": chunk_rows}
    for source in (odd, tmp_path):
        with pytest.raises(ValueError, match=f"{odd['bag'][20].as_py()}' {words}.*{column}"):
            fit_scan(bw.scan(source, **options), "aggregated")


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_weights_that_are_none_are_named(rows, value, tmp_path):
    options = {"bag": "bag", "target": "y", "features": ["x0"]}
    odd = cut(with_value(rows, "w", 250, value), tmp_path, 2)
    bag = rows["bag"][250].as_py()
    with pytest.raises(ValueError, match=f"bag '{bag}' has an? instance weight|bag '{bag}' has .*weight"):
        fit_scan(bw.scan(odd, **options, weights="w"), "aggregated")
    all_rows = rows.set_column(rows.column_names.index("w"), "w", pa.array(np.full(rows.num_rows, value)))
    with pytest.raises(ValueError, match="(a bag weight|rows without a bag_weights) in column 'w'"):
        fit_scan(bw.scan(all_rows, **options, bag_weights="w"), "aggregated")
    with pytest.raises(TypeError, match="weights must be numbers; column 'crop' is String"):
        bw.scan(odd, bag="bag", weights="crop")


def test_a_bag_without_a_row_that_counts_is_named(rows, files, tmp_path):
    in_bag = np.array(rows["bag"].to_pylist()) == "bag 7"
    folders = tmp_path / "light", tmp_path / "gone"
    for folder, column, value in zip(folders, ("w", "x0"), (0.0, np.nan), strict=True):
        folder.mkdir()
        values = pa.array(np.where(in_bag, value, rows[column].to_numpy()))
        cut(rows.set_column(rows.column_names.index(column), column, values), folder, 1)
    options = {"bag": "bag", "features": ["x0"], "chunk_rows": 200}
    with pytest.raises(ValueError, match="bag 'bag 7' has no instance of weight above zero; every bag needs one"):
        fit_scan(bw.scan(folders[0], target="y", weights="w", **options), "aggregated")
    options["missing"] = "drop-instances"
    with pytest.raises(ValueError, match="bag 'bag 7' has no finite instance; every bag needs one"):
        fit_scan(bw.scan(folders[1], target="y", **options), "aggregated")
    model = fit_scan(bw.scan(f"{files}/*.parquet", target="y", **options), "aggregated")
    with pytest.raises(ValueError, match="bag 'bag 7' has no finite instance; every bag needs one"):
        predict_scan(model, bw.scan(folders[1], **options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"missing": "keep"}, "missing must be 'refuse', 'drop-instances' or 'impute', not 'keep'"),
        ({"categories": "auto"}, "categories='auto' looks at the whole table at once"),
        ({"bag_features": "auto"}, "bag_features='auto' looks at the whole table at once"),
        ({"groups": "shared-rows"}, "groups='shared-rows' compares all rows"),
        ({"fill_values": "n/a"}, "the text 'n/a' as a fill value needs a table in memory"),
        ({"categories": ["cropp"]}, "there is no column 'cropp' .did you mean 'crop'"),
        ({"weights": "ww"}, "there is no column 'ww' .did you mean 'w'"),
        ({"bag_weights": "ww"}, "there is no column 'ww' .did you mean 'w'"),
    ],
)
def test_options_that_mean_nothing_to_a_scan(files, options, words):
    with pytest.raises(ValueError, match=words):
        bw.scan(files, bag="bag", target="y", **options)


def test_bags_drop_nothing_and_have_no_columns_to_choose(rows):
    bags, _ = bw.load(rows, bag="bag", features=["x0"])
    with pytest.raises(ValueError, match="missing='drop-instances' is for tables; load the bags with it"):
        bw.scan(bags, missing="drop-instances")
    with pytest.raises(ValueError, match="features= chooses columns of a table, which Bags have done already"):
        bw.scan(bags, features=["x0"])


def test_a_column_of_ids_is_no_category(files, monkeypatch):
    monkeypatch.setattr("bagwise.scale.table_scan.MOST_LABELS", 3)
    with pytest.raises(ValueError, match="column 'crop' holds more than 3 distinct values, such as .*no category"):
        bw.scan(files, bag="bag", categories="crop")


def test_dates_that_are_none_are_named(rows, tmp_path):
    dates = pa.array(["2019-04-23", "soon"] * rows.num_rows)[: rows.num_rows]
    odd = cut(rows.set_column(rows.column_names.index("sown"), "sown", dates), tmp_path, 1)
    with pytest.raises(ValueError, match="'soon' in column 'sown', which cannot be read as a date"):
        fit_scan(bw.scan(odd, bag="bag", target="y", features=["x0"], dates="sown"), "aggregated")


@pytest.mark.parametrize("name", ["aggregated", "statistics:moments"])
def test_covariates_and_features_of_training_are_needed(name, rows):
    options = {"bag": "bag", "target": "y"}
    model = fit_scan(bw.scan(rows, **options, features=["x0", "x1"], bag_features=["sun"]), small(name))
    with pytest.raises(ValueError, match="bags have 0 covariates, but .* was fitted on 1 .sun.; load with bag_feat"):
        predict_scan(model, bw.scan(rows, bag="bag", features=["x0", "x1"]))
    with pytest.raises(ValueError, match="features differ from those at fit .missing: x0"):
        predict_scan(model, bw.scan(rows, bag="bag", features=["x1"], bag_features=["sun"]))
