"""`auto` and evaluations on a scan, against the same in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.helpers.cut_tables import SHARED, bags_read, scanned, small

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.bags import bag_folds
from bagwise.intervals import Intervals
from bagwise.scale import fit_scan, predict_scan

MEMBERS = [(name, small(name)) for name in ("aggregated", "statistics:moments", "instance-kme:ridge")]


def auto(**options):
    return AutoRegressor(MEMBERS, transforms=False, **options)


@pytest.fixture(scope="module")
def source(table):
    return scanned(table.drop_columns(["same"]), chunk_rows=900)


@pytest.fixture(scope="module")
def known(source):
    return bags_read(source)


@pytest.fixture(scope="module")
def model(source):
    return fit_scan(source, auto())


def test_auto_of_a_scan_is_auto_in_memory(model, known):
    bags, y = known
    expected = auto().fit(bags, y)
    assert model.weights_.keys() == expected.weights_.keys()
    for row, other in zip(model.trials_, expected.trials_, strict=True):
        assert_allclose(row["error"], other["error"], rtol=1e-7)
    assert_allclose(model.scores_["error"], expected.scores_["error"], rtol=1e-7)
    assert_allclose(np.sort(model.held_out_), np.sort(expected.held_out_), rtol=1e-6)
    assert_allclose(model.predict(bags), expected.predict(bags), rtol=1e-6)
    assert model.predict_folds(bags).shape == (5, 70)


def test_it_says_what_it_did_and_is_saved(model, source, known, tmp_path):
    assert "instance-kme:ridge" in model.summary() and "by 5-fold cross-validation over bags" in model.paragraph()
    assert len(model.leaderboard()["member"]) == 1 + 4
    bw.save_model(model, tmp_path / "m.bagwise", method="auto")
    opened = bw.load_model(tmp_path / "m.bagwise")
    assert_allclose(predict_scan(opened, source).values, model.predict(known[0]), rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{"missing": "impute"}, {"bag_features": "sun"}, {"bag_weights": "trust"}, {"groups": "site"}]
)
def test_auto_takes_what_a_scan_has_and_gives_intervals(options, table):
    rng = np.random.default_rng(0)
    code = np.unique(table["bag"].to_pylist(), return_inverse=True)[1]
    x0 = np.where(rng.uniform(size=table.num_rows) < 0.1, np.nan, table["x0"].to_numpy())
    rows = table.set_column(0, "x0", [x0 if "missing" in options else table["x0"].to_numpy()])
    rows = rows.append_column("sun", [rng.normal(size=70)[code]]).append_column("trust", [1.0 + code % 3])
    how = {"bag": "bag", "target": "y", "features": ["x0", "x1", "x2"], **options}
    scan = bw.scan(rows, **how, chunk_rows=900)
    few = AutoRegressor(["aggregated", "statistics:moments"], folds=3)
    model = fit_scan(scan, Intervals(few, level=0.8, folds=3))
    found = predict_scan(model, scan)
    assert (found.lower <= found.values).all() and (found.values <= found.upper).all()
    weighted = how.pop("bag_weights", None)
    bags, y = bw.load(rows, **how)
    weight = 1.0 + np.unique(bags.ids.astype(str), return_inverse=True)[1] % 3 if weighted else None
    expected = few.set_params(transforms=False).fit(bags, y, sample_weight=weight)
    assert_allclose(model.method_.scores_["mean_error"], expected.scores_["mean_error"], rtol=1e-7)
    assert_allclose(model.method_.scores_["error"], expected.scores_["error"], rtol=0.1)


def test_members_that_fail_are_told(table):
    from bagwise.kernels import Gaussian

    narrow = small("instance-kme:ridge").set_params(head__grid={"kernel": [Gaussian(1e-4)]})
    model = fit_scan(scanned(table), AutoRegressor([MEMBERS[0], ("narrow", narrow)]))
    row = {row["member"]: row for row in model.trials_}["narrow"]
    assert row["status"] == "failed" and "too narrow" in row["why"] and model.weights_["narrow"] == 0


# Evaluations ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHARED)
def test_the_folds_of_a_scan_are_scored_as_in_memory(name, source, known):
    bags, y = known
    results = bw.evaluate(source, methods=[(name, small(name))], folds=4)
    expected = bw.evaluate(bags, y, [(name, small(name))], fold=bag_folds(bags, 4))
    for metric in ("rmse", "mae", "r2", "kendall"):
        assert_allclose(results.values(name, metric), expected.values(name, metric), rtol=1e-7)


def test_results_of_a_scan_are_compared_and_summed_up(source):
    results = bw.evaluate(source, methods=["aggregated", ("plain", small("aggregated"))], folds=3, repeats=2)
    assert results.summary()["cells"].to_list() == [6, 6]
    assert results.compare()["splits"].to_list() == [6]
    again = bw.evaluate(source, methods=["aggregated"], folds=3)
    assert (again.values("aggregated") == results.values("aggregated")[:3]).all()
    with pytest.raises(ValueError, match="There are no stored predictions of 'aggregated'"):
        results.pooled("aggregated")


def test_what_is_not_known_of_a_scan_is_refused(source, known):
    with pytest.raises(ValueError, match="out= is for bags in memory; leave it out, or load the table"):
        bw.evaluate(source, methods=["aggregated"], out="here")
    with pytest.raises(ValueError, match="metric='crps' needs standard deviations"):
        bw.evaluate(source, methods=["aggregated"], metric="crps")
    with pytest.raises(TypeError, match="evaluate needs the methods to compare"):
        bw.evaluate(source)
    with pytest.raises(TypeError, match="evaluate needs bags, their targets and methods"):
        bw.evaluate(known[0])
