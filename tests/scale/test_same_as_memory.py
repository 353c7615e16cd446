"""One matrix: each method with each option, fitted to files that cut the bags, equals the fit in memory to 1e-9."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from tests.helpers.cut_tables import METHODS, cut, small, with_value

import bagwise as bw
from bagwise.methods import method
from bagwise.scale import fit_scan, predict_scan

X = ["x0", "x1", "x2", "x3"]
OPTIONS = {
    "random order": {"features": X},
    "sorted by bag": {"features": X, "order": "sorted"},
    "one partition": {"features": X, "chunk_rows": 10**6},
    "float32": {"features": ["f0", "f1", "x_constant"]},
    "on a grid": {"features": ["grid0", "grid1"]},
    "groups": {"features": X, "groups": "site"},
    "where": {"features": X, "where": "site < 7"},
    "weights": {"features": X, "weights": "w"},
    "bag weights": {"features": X, "weights": "w", "bag_weights": "importance"},
    "covariates": {"features": X, "bag_features": ["sun", "hour"]},
    "several": {"features": X, "weights": "w", "bag_features": ["sun"], "groups": "site"},
    "dropped": {"features": ["g0", "x1", "g3"], "missing": "drop-instances", "weights": "w"},
    "fill values": {"features": ["filled", "x1"], "missing": "drop-instances", "fill_values": -9999},
    "imputed": {"features": ["g0", "g1", "x2", "g3"], "missing": "impute", "bag_features": ["sun"], "weights": "w"},
    "categories": {"features": X, "categories": ["crop"], "dates": ["sown"]},
    "levels": {"features": X, "categories": {"crop": ["rye", "wheat"], "field": ["b", "c"]}},
    "levels of bags": {"features": X, "categories": ["field"], "bag_features": ["field", "sun"]},
}
# Each method and each option at least once; the slow run takes all pairs.
QUICK = {
    *(("aggregated", option) for option in OPTIONS),
    *((name, "random order") for name in METHODS),
    ("instance-kme:ridge", "several"),
    ("instance-kme:ridge", "on a grid"),
    ("statistics:moments", "categories"),
    ("blr:rows", "dropped"),
    ("blr:rows", "covariates"),
    ("aggregate-gp", "imputed"),
    ("input-kme:fourier", "sorted by bag"),
}


def load(rows, options):
    """Load the rows and the weights of the bags, if any."""
    known = {name: value for name, value in options.items() if name not in ("order", "chunk_rows", "where")}
    column = known.pop("bag_weights", None)
    bags, y = bw.load(rows, bag="bag", target="y", **known)
    weight = {} if column is None else {"sample_weight": bw.load(rows, bag="bag", target=column, features=["x0"])[1]}
    return bags, y, weight


@pytest.mark.filterwarnings("ignore:.*(were dropped|without a value|with other levels)")
@pytest.mark.parametrize(
    ("name", "option"),
    [
        pytest.param(name, option, marks=[] if (name, option) in QUICK else pytest.mark.slow)
        for name in METHODS
        for option in OPTIONS
    ],
)
def test_a_fit_to_files_equals_the_fit_in_memory(name, option, rows, tmp_path):
    options = dict(OPTIONS[option])
    few = rows.filter(pa.compute.less(rows["site"], 7)) if "where" in options else rows
    bags, y, weight = load(few, options)
    expected = small(name).fit(bags, y, **weight)
    folder = cut(rows, tmp_path, 2 if options.pop("order", None) else 1)
    source = bw.scan(folder, bag="bag", target="y", **{"chunk_rows": 300} | options)
    model = fit_scan(source, small(name))
    values = expected.predict(bags)
    close = {"rtol": 1e-9, "atol": 1e-9 * np.abs(values).max()}
    assert source.dtype == bags.dtype
    assert_allclose(model.predict(bags), values, **close)
    assert_allclose(model.profile_.range, expected.profile_.range, rtol=1e-9)
    bw.save_model(model, tmp_path / "model.bagwise", method=name)
    predicted = predict_scan(bw.load_model(tmp_path / "model.bagwise"), source)
    order = [predicted.ids.tolist().index(bag) for bag in bags.ids]
    assert_allclose(predicted.values[order], values, **close)
    assert predicted.sizes[order].tolist() == bags.sizes.tolist()


OTHERS = ["statistics", "statistics:forest", "phase", "miles", "input-kme", "additive", "blr"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "phase" else pytest.mark.slow) for n in OTHERS])
def test_methods_that_read_all_bags_at_once_equal_those_in_memory(name, table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    expected = method(name).fit(bags, y).predict(bags)
    source = bw.scan(table, bag="bag", target="y", ignore=["site"], chunk_rows=400)
    assert_allclose(fit_scan(source, name).predict(bags), expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("instance-kme:ridge", {"instances__predictor": "refit"}),
        ("instance-kme:ridge", {"instances__predictor": "last-fold"}),
        ("instance-kme:ridge", {"instances__weighting": "instance"}),
        ("aggregate-gp", {"aggregate": "sum"}),
    ],
)
def test_parameters_of_a_method_are_applied(name, options, rows):
    bags, y = bw.load(rows, bag="bag", target="y", features=X, weights="w")
    model = small(name).set_params(**options)
    source = bw.scan(rows, bag="bag", target="y", features=X, weights="w", chunk_rows=250)
    expected, streamed = model.fit(bags, y).predict(bags), fit_scan(source, model)
    assert_allclose(streamed.predict(bags), expected, rtol=1e-8)
    assert_allclose(predict_scan(streamed, source).values, expected, rtol=1e-8)


def test_the_fitted_parts_are_those_of_memory(table):
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    source = bw.scan(table, bag="bag", target="y", ignore=["site"], chunk_rows=500)
    streamed, ordinary = fit_scan(source, small("instance-kme:ridge")), small("instance-kme:ridge").fit(bags, y)
    assert streamed["instances"].candidate_ == ordinary["instances"].candidate_
    assert streamed["head"].setting_["kernel"].get_params() == ordinary["head"].setting_["kernel"].get_params()
    assert streamed["head"].head_.penalty_ == ordinary["head"].head_.penalty_
    assert_allclose(streamed["head"].head_.errors_, ordinary["head"].head_.errors_, rtol=1e-8)
    assert_allclose(np.sort(streamed["head"].residuals_), np.sort(ordinary["head"].residuals_), rtol=1e-7, atol=1e-9)
    assert streamed["instances"].feature_names_in_.tolist() == ordinary["instances"].feature_names_in_.tolist()
    streamed, ordinary = fit_scan(source, "blr:rows"), bw.method("blr:rows").fit(bags, y)
    assert_allclose(streamed.embedding_.noise_, ordinary.embedding_.noise_, rtol=1e-9, atol=1e-12)
    both = zip(streamed.predict(bags, return_std=True), ordinary.predict(bags, return_std=True), strict=True)
    for ours, theirs in both:
        assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_blocks_of_few_rows_give_the_same_model(name, table, monkeypatch):
    bags, _ = bw.load(table, bag="bag", target="y", ignore=["site"])
    source = bw.scan(table, bag="bag", target="y", ignore=["site"], chunk_rows=400)
    expected = fit_scan(source, small(name)).predict(bags)
    monkeypatch.setattr("bagwise.regressors.row_blocks.BLOCK_ROWS", 20)
    found = fit_scan(source, small(name)).predict(bags)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["targets far from zero", "an outlier"])
def test_extreme_values_do_not_change_the_model(kind, table, tmp_path):
    far = pa.array(table["y"].to_numpy() + 1e4)
    outlier = with_value(table, "x3", 500, table["x3"].to_numpy().max() * 1e4)
    table = outlier if kind == "an outlier" else table.set_column(table.column_names.index("y"), "y", far)
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    expected = small("instance-kme:ridge").fit(bags, y).predict(bags)
    source = bw.scan(cut(table, tmp_path, 1), bag="bag", target="y", ignore=["site"], chunk_rows=290)
    found = fit_scan(source, small("instance-kme:ridge")).predict(bags)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_bags_with_everything_can_be_scanned(rows):
    options = {"features": ["g0", "g1", "x2"], "missing": "impute", "weights": "w", "bag_features": ["sun"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bags, y = bw.load(rows, bag="bag", target="y", **options)
    source = bw.scan(bags, target=y, missing="impute", chunk_rows=250)
    assert source.covariates == ("sun",) and source.weights == "weight"
    model, expected = fit_scan(source, "aggregated"), small("aggregated").fit(bags, y).predict(bags)
    assert_allclose(model.predict(bags), expected, rtol=1e-9)
    assert_allclose(predict_scan(model, source).values, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["instance-kme", pytest.param("instance-kme:additive", marks=pytest.mark.slow)])
def test_blends_of_learners(name, table):
    """Only the networks differ: they are trained on rows that stream."""
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    settings = {"instances__network__regressor__epochs": (1, 2)}
    ordinary = method(name).set_params(**settings).fit(bags, y)
    source = bw.scan(table, bag="bag", target="y", ignore=["site"], chunk_rows=400)
    model = fit_scan(source, method(name).set_params(**settings))
    assert model["instances"].learners_.keys() == ordinary["instances"].learners_.keys()
    assert_allclose(model["head"].error_, ordinary["head"].error_, rtol=0.2)
    readings = ordinary["head"].readings_
    same = {key for key in model["head"].readings_ if not key.startswith("network") and key in readings}
    assert same
    for key in same:
        assert_allclose(model["head"].readings_[key].error_, readings[key].error_, rtol=1e-7)
