"""Intervals of a scan are those of memory where the same bags calibrate them; a sample of bags keeps their promise."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from tests.helpers.cut_tables import METHODS, cut, scanned, small

import bagwise as bw
from bagwise.execution import Serial
from bagwise.instances import Imputation
from bagwise.intervals import Intervals
from bagwise.scale import fit_scan, held_out, predict_scan

SPLIT = {"kind": "split", "folds": 3}
KINDS = [{"kind": "cv+", "folds": 3}, SPLIT, SPLIT | {"scale": "none"}, SPLIT | {"scores": "quantile"}]


@pytest.mark.parametrize("options", KINDS, ids=["cv+", "split", "none", "quantile"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "aggregated" else pytest.mark.slow) for name in METHODS]
)
def test_with_all_bags_they_are_those_of_memory(name, options, table, tmp_path):
    bags, y = bw.load(table, bag="bag", target="y", groups="site", ignore=["site"], features=["x0", "x1", "x2"])
    intervals = Intervals(small(name), level=0.6, **options)
    how = {"bag": "bag", "target": "y", "groups": "site", "features": ["x0", "x1", "x2"]}
    source = bw.scan(cut(table, tmp_path, 1), **how, chunk_rows=500)
    mine, expected = fit_scan(source, intervals), intervals.fit(bags, y)
    for level in (None, 0.5):
        wanted = expected.predict_interval(bags, level)
        assert_allclose(mine.predict_interval(bags, level), wanted, rtol=1e-7, atol=1e-8 * np.abs(wanted).max())
    assert_allclose(mine.predict(bags), expected.predict(bags), rtol=1e-8)
    assert mine.n_bags_in_ == 70 and mine.unit_ == "groups"


def test_predictions_of_a_scan_have_the_intervals_of_memory(table, tmp_path):
    """Bags in one chunk and bags in several, written and not, with the level of the fit and with another."""
    bags, y = bw.load(table, bag="bag", target="y", ignore=["site"])
    model = fit_scan(scanned(table), Intervals("aggregated", level=0.8, kind="split"))
    bw.save_model(model, tmp_path / "m.bagwise")
    model = bw.load_model(tmp_path / "m.bagwise")
    source = scanned(table, chunk_rows=500)
    for level in (None, 0.5):
        found, expected = predict_scan(model, source, level=level), model.predict_interval(bags, level)
        assert found.ids.tolist() == bags.ids.tolist() and found.sizes.tolist() == bags.sizes.tolist()
        assert_allclose(np.column_stack([found.lower, found.upper]), expected, rtol=1e-9)
        assert_allclose(found.values, model.predict(bags), rtol=1e-9)
    written = predict_scan(model, source, out=tmp_path / "parts")
    whole = dict(zip(found.ids, model.predict_interval(bags), strict=True))
    assert_allclose(np.column_stack([written.lower, written.upper]), [whole[one] for one in written.ids], rtol=1e-9)


def test_missing_values_weights_and_covariates(table):
    rng = np.random.default_rng(0)
    x0 = np.where(rng.uniform(size=table.num_rows) < 0.1, np.nan, table["x0"].to_numpy())
    code = np.unique(table["bag"].to_pylist(), return_inverse=True)[1]
    table = table.set_column(0, "x0", pa.array(x0)).append_column("w", pa.array(rng.uniform(0.5, 2.0, len(x0))))
    table = table.append_column("sun", pa.array(rng.normal(size=70)[code]))
    how = {"bag": "bag", "target": "y", "features": ["x0", "x1"], "weights": "w", "bag_features": ["sun"]}
    bags, y = bw.load(table, **how, missing="impute")
    source = bw.scan(table, **how, missing="impute", chunk_rows=500)
    mine = fit_scan(source, Intervals("aggregated", folds=3, level=0.8))
    expected = Intervals(bw.method("aggregated"), folds=3, level=0.8).fit(bags, y)
    wanted = expected.predict_interval(bags)
    assert isinstance(mine.method_[0], Imputation)
    assert_allclose(mine.predict_interval(bags), wanted, rtol=1e-7)
    found = predict_scan(mine, source)
    assert_allclose(np.column_stack([found.lower, found.upper]), wanted, rtol=1e-7)


def test_a_sample_of_bags_is_bounded_and_covers(monkeypatch):
    """600 bags, of which 100 may have a score: new bags are covered, and nothing of the others is held."""
    monkeypatch.setattr(held_out, "MOST_BAGS", 100)
    monkeypatch.setattr(held_out, "FEW_BAGS", 100)
    bags, y = bw.datasets.make_gaussian(900, instances=4, random_state=1)
    source = bw.scan(bags[:600], target=y[:600], chunk_rows=500)
    for options in ({"kind": "cv+", "folds": 3}, {"kind": "split", "scale": "none"}, {"kind": "split"}):
        model = fit_scan(source, Intervals("aggregated", level=0.8, **options))
        assert len(model.scores_) == 100
        inside = bw.intervals.coverage(y[600:], model.predict_interval(bags[600:]))
        assert 0.66 < inside < 0.92  # four standard errors of 100 scores and 300 new bags


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "jackknife+"}, "kind='jackknife.' leaves out every bag by itself, .*take 'cv.' or 'split'"),
        ({"level": 1.5}, "level is the share of bags to be covered"),
    ],
)
def test_what_a_scan_cannot_give_is_refused_before_any_pass(options, words, table):
    class Idle(Serial):
        def run(self, *_):
            raise AssertionError("a pass was made")

    with pytest.raises(ValueError, match=words):
        fit_scan(scanned(table), Intervals(**{"method": "aggregated"} | options), executor=Idle())


def test_levels_that_are_not_there_are_refused(table):
    few = table.filter(pa.compute.is_in(table["bag"], pa.array([f"bag {k}" for k in range(8)])))
    model = fit_scan(scanned(few), Intervals("aggregated", folds=3, level=0.5))
    with pytest.raises(ValueError, match="level 0.95 needs at least 19 calibration bags, and there are 8"):
        predict_scan(model, scanned(table), level=0.95)
    with pytest.raises(ValueError, match="The model was fitted without intervals. Fit bagwise.Intervals"):
        predict_scan(fit_scan(scanned(few), "aggregated"), scanned(table), level=0.5)
    lacking = fit_scan(scanned(few), Intervals("aggregated", folds=3, level=0.95))
    assert "needs at least 19" in lacking.lacking_ and predict_scan(lacking, scanned(table)).lower is None
    with pytest.raises(ValueError, match="kind='cv.' needs at least 3 bags, not 2"):
        two = table.filter(pa.compute.is_in(table["bag"], pa.array(["bag 1", "bag 2"])))
        fit_scan(scanned(two), Intervals("aggregated"))
