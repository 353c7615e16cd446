"""What `load` takes a scan takes: weights, covariates, missing values, categories, dates. The fit is that of memory."""

import pickle
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from tests.helpers.cut_tables import METHODS, SHARED, bags_read, cut, small

import bagwise as bw
from bagwise.instances import Imputation
from bagwise.scale import fit_scan, predict_scan
from bagwise.scale.scan_fit import fit_and_describe

FEATURES = [f"x{j}" for j in range(4)]
CROPS = np.array(["wheat", "rye", None, "barley", "oats"], dtype=object)


@pytest.fixture(scope="module")
def rows():
    """Bags of 1 to 30 rows with everything: weights, some zero; covariates; gaps; levels; dates; weights of bags."""
    bags, y = bw.datasets.make_problem("prime", 30, random_state=3)
    rng = np.random.default_rng(0)
    code = np.repeat(np.arange(30), bags.sizes)
    first = np.diff(code, prepend=-1) > 0
    columns = {f"x{j}": bags.instances[:, j] * 10.0 ** (j - 3) + 5 * j for j in range(4)}
    gaps = rng.uniform(size=(len(code), 4)) < 0.1
    gaps[code == 5, 1] = True  # a bag without any value
    columns |= {f"g{j}": np.where(gaps[:, j], np.nan, columns[f"x{j}"]) for j in range(4)}
    columns |= {"w": np.where(first, 1.0, rng.choice([0.0, 0.5, 1.0, 3.0], len(code)))}
    columns |= {"sun": rng.normal(size=30)[code], "hour": rng.integers(0, 24, 30)[code]}
    columns |= {"importance": rng.choice([0.0, 1.0, 2.0, 5.0], 30)[code], "site": code % 9}
    columns |= {"crop": CROPS[rng.integers(0, 5, len(code))], "field": np.array(["a", "b", "c"])[code % 3]}
    columns |= {"sown": (np.datetime64("2019-01-01") + rng.integers(0, 900, len(code))).astype("datetime64[D]")}
    columns |= {"bag": np.array([f"bag {i}" for i in range(30)])[code], "y": y[code] + 0.3 * columns["sun"]}
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def loaded(rows, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bw.load(rows, bag="bag", target="y", **options)


def same(name, rows, folder, options, *, seed=1, bag_weights=None, tolerance=1e-9):
    """The fit and the predictions of memory, from files and chunks that cut the bags."""
    bags, y = loaded(rows, **options)
    model = small(name)
    weight = None
    if bag_weights is not None:
        weight = bw.load(rows, bag="bag", target=bag_weights, features=["x0"])[1]
    expected = model.fit(bags, y, **({} if weight is None else {"sample_weight": weight})).predict(bags)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = bw.scan(
            cut(rows, folder, seed), bag="bag", target="y", **options, bag_weights=bag_weights, chunk_rows=300
        )
    mine = fit_scan(source, small(name))
    how = {"rtol": tolerance, "atol": tolerance * np.abs(expected).max()}
    assert_allclose(mine.predict(bags), expected, **how)
    found = predict_scan(mine, source)
    order = [found.ids.tolist().index(one) for one in bags.ids]
    assert_allclose(found.values[order], expected, **how)
    assert found.sizes[order].tolist() == bags.sizes.tolist()
    return mine, model, source


EACH = {
    "weights": {"features": FEATURES, "weights": "w"},
    "covariates": {"features": FEATURES, "bag_features": ["sun", "hour"]},
    "both": {"features": FEATURES, "weights": "w", "bag_features": ["sun"], "groups": "site"},
    "dropped": {"features": ["g0", "x1", "g3"], "missing": "drop-instances", "weights": "w"},
    "imputed": {"features": ["g0", "g1", "x2", "g3"], "missing": "impute", "bag_features": ["sun"], "weights": "w"},
    "categories": {"features": FEATURES, "categories": ["crop"], "dates": ["sown"]},
    "levels": {"features": FEATURES, "categories": {"crop": ["rye", "wheat"], "field": ["b", "c"]}},
    "levels of bags": {"features": FEATURES, "categories": ["field"], "bag_features": ["field", "sun"]},
}


# A few of the pairs of method and option; the slow run takes all of them.
DEFAULT = {
    ("instance-kme:ridge", "both"),
    ("aggregated", "imputed"),
    ("aggregated", "levels of bags"),
    ("aggregated", "levels"),
    ("statistics:moments", "categories"),
    ("blr:rows", "dropped"),
}
PAIRS = [
    pytest.param(name, option, marks=[] if (name, option) in DEFAULT else pytest.mark.slow)
    for name in METHODS
    for option in EACH
]


@pytest.mark.filterwarnings("ignore:.* were dropped")
@pytest.mark.parametrize(("name", "option"), PAIRS)
def test_the_fit_is_that_of_memory(name, option, rows, tmp_path):
    same(name, rows, tmp_path, EACH[option])


@pytest.mark.parametrize("name", SHARED)
def test_bags_count_by_their_weights(name, rows, tmp_path):
    mine, ordinary, _ = same(name, rows, tmp_path, {"features": FEATURES, "weights": "w"}, bag_weights="importance")
    assert_allclose(mine.profile_.range, ordinary.profile_.range)


def test_a_method_imputes_where_the_scan_declares_it(rows, tmp_path):
    options = {"features": ["g0", "g1"], "missing": "impute"}
    bags, y = loaded(rows, **options)
    source = bw.scan(rows, bag="bag", target="y", **options, chunk_rows=250)
    mine, expected = fit_scan(source, bw.method("aggregated")), bw.method("aggregated").fit(bags, y)
    assert isinstance(mine[0], Imputation) and [name for name, _ in mine.steps] == ["imputation", "scale", "head"]
    assert_allclose(mine[0].medians_, expected[0].imputation_.medians_, rtol=1e-12)
    assert_allclose(mine[0].feature_range_in_, expected[0].feature_range_in_)
    assert_allclose(mine.predict(bags), expected.predict(bags), rtol=1e-9)
    bw.save_model(mine, tmp_path / "m.bagwise")
    opened = bw.load_model(tmp_path / "m.bagwise")
    found = predict_scan(opened, pickle.loads(pickle.dumps(source)))
    assert_allclose(found.values, expected.predict(bags), rtol=1e-9)


def test_bags_with_everything_can_be_scanned(rows):
    bags, y = loaded(rows, features=["g0", "g1", "x2"], missing="impute", weights="w", bag_features=["sun"])
    source = bw.scan(bags, target=y, missing="impute", chunk_rows=250)
    assert source.covariates == ("sun",) and source.weights == "weight"
    expected = small("aggregated").fit(bags, y).predict(bags)
    assert_allclose(fit_scan(source, "aggregated").predict(bags), expected, rtol=1e-9)
    assert_allclose(predict_scan(fit_scan(source, "aggregated"), source).values, expected, rtol=1e-9)


def test_totals_follow_the_exposures(rows):
    options = {"features": FEATURES, "weights": "w"}
    bags, y = loaded(rows, **options)
    model = small("aggregate-gp").set_params(aggregate="sum")
    source = bw.scan(rows, bag="bag", target="y", **options, chunk_rows=250)
    expected, mine = model.fit(bags, y).predict(bags), fit_scan(source, model)
    assert_allclose(mine.predict(bags), expected, rtol=1e-8)
    assert_allclose(predict_scan(mine, source).values, expected, rtol=1e-8)


def test_features_of_a_model_are_read_again(rows):
    """From the names alone, without a look at the levels of the new table."""
    source = bw.scan(rows, bag="bag", target="y", features=["x0"], categories={"crop": ["rye"]}, dates="sown")
    assert source.feature_names == ("x0", "crop=rye", "crop=other", "sown_sine", "sown_cosine", "sown_year")
    again = bw.scan(rows, bag="bag", features=list(source.feature_names))
    bags, _ = loaded(rows, features=list(source.feature_names))
    assert bags_read(source)[0] == bags_read(again)[0] == bags


def test_levels_are_those_of_the_rows_that_are_read(rows):
    with pytest.warns(UserWarning, match="rows without a value in column 'crop' count as 'crop=other'"):
        source = bw.scan(rows, bag="bag", features=["x0"], categories="crop", where="site < 5", chunk_rows=60)
    some = rows.filter(pa.compute.less(rows["site"], 5))
    with pytest.warns(UserWarning, match="rows without a value in column 'crop' count as 'crop=other'"):
        bags, _ = bw.load(some, bag="bag", features=["x0"], categories="crop")
    assert source.feature_names == bags.feature_names and source.categories == bags.categories


@pytest.mark.filterwarnings("ignore:.* were dropped")  # told at the end of the fit
def test_fill_values_are_missing(rows):
    filled = rows.set_column(0, "x0", pa.array(np.where(np.isnan(rows["g0"]), -9999.0, rows["g0"])))
    options = {"features": ["x0", "x1"], "fill_values": -9999, "missing": "drop-instances"}
    bags, y = loaded(filled, **options)
    mine = fit_scan(bw.scan(filled, bag="bag", target="y", **options, chunk_rows=200), "aggregated")
    assert_allclose(mine.predict(bags), bw.method("aggregated").fit(bags, y).predict(bags), rtol=1e-9)


# Refusals ---------------------------------------------------------------------------------------------------------


def change(rows, column, row, value):
    values = rows[column].to_numpy(zero_copy_only=False).copy()
    values[row] = value
    return rows.set_column(rows.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize("chunk_rows", [1, 10**6])
@pytest.mark.parametrize(
    ("column", "options", "words"),
    [
        ("sun", {"bag_features": "sun"}, "has more than one value in"),
        ("importance", {"bag_weights": "importance"}, "has more than one (value|bag weight) in"),
    ],
)
def test_a_bag_has_one_of_it_in_all_files(rows, chunk_rows, column, options, words):
    odd = change(rows.slice(230, 40), column, 20, 77.0)
    with pytest.raises(ValueError, match=f"{odd['bag'][20].as_py()}' {words}.*{column}"):
        fit_scan(bw.scan(odd, bag="bag", target="y", features=["x0"], **options, chunk_rows=chunk_rows), "aggregated")


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_weights_that_are_none_are_named(rows, value):
    bag = rows["bag"][250].as_py()
    with pytest.raises(ValueError, match=f"bag '{bag}' has an? instance weight|bag '{bag}' has .*weight"):
        odd = change(rows, "w", 250, value)
        fit_scan(bw.scan(odd, bag="bag", target="y", features=["x0"], weights="w"), "aggregated")
    with pytest.raises(ValueError, match="has a bag weight in column 'w' that is negative, missing"):
        one = rows.set_column(rows.column_names.index("w"), "w", pa.array(np.full(rows.num_rows, value)))
        fit_scan(bw.scan(one, bag="bag", target="y", features=["x0"], bag_weights="w"), "aggregated")
    with pytest.raises(TypeError, match="weights must be numbers; column 'crop' is String"):
        bw.scan(rows, bag="bag", weights="crop")


def test_a_bag_without_a_row_that_counts_is_named(rows):
    own = np.array(rows["bag"].to_pylist()) == "bag 7"
    light = rows.set_column(0, "x0", rows["x0"]).set_column(
        rows.column_names.index("w"), "w", pa.array(np.where(own, 0.0, rows["w"].to_numpy()))
    )
    with pytest.raises(ValueError, match="bag 'bag 7' has no instance of weight above zero; every bag needs one"):
        fit_scan(bw.scan(light, bag="bag", target="y", features=["x0"], weights="w", chunk_rows=200), "aggregated")
    gone = rows.set_column(0, "x0", pa.array(np.where(own, np.nan, rows["x0"].to_numpy())))
    how = {"bag": "bag", "features": ["x0"], "missing": "drop-instances", "chunk_rows": 200}
    with pytest.raises(ValueError, match="bag 'bag 7' has no finite instance; every bag needs one"):
        fit_scan(bw.scan(gone, target="y", **how), "aggregated")
    model = fit_scan(bw.scan(rows, target="y", **how), "aggregated")
    with pytest.raises(ValueError, match="bag 'bag 7' has no finite instance; every bag needs one"):
        predict_scan(model, bw.scan(gone, **how))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"missing": "keep"}, "missing must be 'refuse', 'drop-instances' or 'impute', not 'keep'"),
        ({"categories": "auto"}, "categories='auto' looks at the whole table at once; name the columns"),
        ({"bag_features": "auto"}, "bag_features='auto' looks at the whole table at once; name the columns"),
        ({"categories": ["cropp"]}, "there is no column 'cropp' .did you mean 'crop'"),
        ({"weights": "ww"}, "there is no column 'ww' .did you mean 'w'"),
        ({"bag_weights": "ww"}, "there is no column 'ww' .did you mean 'w'"),
    ],
)
def test_options_that_mean_nothing_to_a_scan(rows, options, words):
    with pytest.raises(ValueError, match=words):
        bw.scan(rows, bag="bag", target="y", **options)


def test_columns_that_are_left_out_are_named_once_as_by_load(rows, tmp_path):
    some = rows.select(["bag", "y", "x0", "crop", "field", "sown"])
    pq.write_table(some, tmp_path / "some.parquet")
    for source in (some, tmp_path):
        with pytest.warns(UserWarning, match="was left out") as told:
            bw.scan(source, bag="bag", target="y", ignore="field")
        with pytest.warns(UserWarning, match="was left out") as known:
            bw.load(some, bag="bag", target="y", ignore="field")
        assert [str(one.message) for one in told] == [str(one.message) for one in known]
        assert "column 'crop' (String) is not numeric and was left out; categories=['crop']" in str(told[0].message)
        assert told[0].filename == __file__
        bw.scan(source, bag="bag", target="y", features=["x0"])
        bw.scan(source, bag="bag", target="y", ignore="field", dates="sown", where="crop == 'rye'")


@pytest.mark.parametrize("name", ["aggregated", "blr:rows"])
def test_the_left_out_error_is_that_of_the_head_also_behind_imputation(rows, name):
    source = bw.scan(rows, bag="bag", target="y", features=["g0", "g1"], missing="impute")
    model, _, scores = fit_and_describe(source, name)
    if name == "aggregated":
        assert_allclose(scores["rmse"], np.sqrt(model.steps[-1][1].head_.error_))
    else:  # its head leaves no bag out
        assert scores is None


@pytest.mark.parametrize("method", ["aggregated", bw.Intervals("aggregated", kind="cv+", folds=3)])
def test_rows_that_were_dropped_are_counted_once(rows, method):
    with pytest.warns(UserWarning, match="rows, in .* were dropped") as known:
        bw.load(rows, bag="bag", target="y", features=["g0", "x1"], weights="w", missing="drop-instances")
    count = str(known[0].message).partition(" rows")[0]
    how = {"bag": "bag", "target": "y", "features": ["g0", "x1"], "missing": "drop-instances", "chunk_rows": 70}
    how["weights"] = "w"
    with pytest.warns(UserWarning, match=f"^{count} rows have missing or infinite values and were dropped") as told:
        fit_scan(bw.scan(rows, **how), method)
    assert len(told) == 1 and told[0].filename == __file__
    fit_scan(bw.scan(rows, **how, where="g0 > -1e9"), "aggregated")  # how many rows it leaves is not counted


def test_bags_drop_nothing(rows):
    bags, _ = loaded(rows, features=["x0"])
    with pytest.raises(ValueError, match="missing='drop-instances' is for tables; load the bags with it"):
        bw.scan(bags, missing="drop-instances")


def test_a_column_of_ids_is_no_category(rows, monkeypatch):
    monkeypatch.setattr("bagwise.scale.table_scan.MOST_LABELS", 3)
    with pytest.raises(ValueError, match="column 'crop' holds more than 3 distinct values, such as .*no category"):
        bw.scan(rows, bag="bag", categories="crop")


def test_dates_that_are_none_are_named(rows):
    odd = rows.set_column(
        rows.column_names.index("sown"),
        "sown",
        pa.array(["2019-04-23", "soon"] * (rows.num_rows // 2 + 1))[: rows.num_rows],
    )
    with pytest.raises(ValueError, match="'soon' in column 'sown', which cannot be read as a date"):
        fit_scan(bw.scan(odd, bag="bag", target="y", features=["x0"], dates="sown"), "aggregated")


def test_covariates_of_training_are_needed(rows):
    source = bw.scan(rows, bag="bag", target="y", features=["x0", "x1"], bag_features=["sun"])
    for name in ("aggregated", "statistics:moments"):
        model = fit_scan(source, small(name))
        with pytest.raises(
            ValueError, match="bags have 0 covariates, but .* was fitted on 1 .sun.; load with bag_feat"
        ):
            predict_scan(model, bw.scan(rows, bag="bag", features=["x0", "x1"]))
