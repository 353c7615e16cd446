"""One model per target: by name, with missing targets, scored and compared with its training bags."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.helpers.page_reading import Report

import bagwise as bw
from bagwise.reports import write_model_report

BAGS, Y = bw.datasets.make_problem("mean", 60, random_state=0)
BOTH = np.column_stack([Y, 2.0 - Y])
BOTH[3, 1] = np.nan


def test_a_method_by_name_is_one_model_per_target():
    model = clone(bw.MultiTarget("aggregated")).fit(BAGS, BOTH)
    alone = bw.method("aggregated").fit(BAGS[~np.isnan(BOTH[:, 1])], BOTH[~np.isnan(BOTH[:, 1]), 1])
    np.testing.assert_array_equal(model.predict(BAGS)[:, 1], alone.predict(BAGS))
    known = ~np.isnan(BOTH[:, 1])
    r2 = [model.estimators_[0].score(BAGS, Y), alone.score(BAGS[known], BOTH[known, 1])]
    np.testing.assert_allclose(model.score(BAGS, BOTH), np.mean(r2))


def test_new_bags_are_compared_with_those_of_training():
    model = bw.MultiTarget("aggregated").fit(BAGS, BOTH)
    assert (bw.novelty(model, BAGS).verdict == bw.novelty(BAGS, BAGS).verdict).all()


def test_intervals_and_files_of_several_targets(tmp_path):
    model = bw.MultiTarget(bw.Intervals("aggregated", level=0.5)).fit(BAGS, BOTH)
    known = ~np.isnan(BOTH[:, 1])
    alone = bw.Intervals("aggregated", level=0.5).fit(BAGS[known], BOTH[known, 1])
    np.testing.assert_array_equal(model.predict_interval(BAGS)[:, 1], alone.predict_interval(BAGS))
    bw.save_model(model, tmp_path / "m.bagwise")
    np.testing.assert_array_equal(bw.load_model(tmp_path / "m.bagwise").predict(BAGS), model.predict(BAGS))
    page = Report(write_model_report(tmp_path / "r.html", model, BAGS, BOTH)).text
    assert "target 1: worth using. RMSE" in page and "target 2: worth using. RMSE" in page
    assert "Intervals of 50 % of target 1" in page and "The target is target 1." in page and "deviation" in page
    assert "targets from" not in page and "target 1: Every bag compared" in page
    with pytest.raises(ValueError, match=r"y has shape \(60, 1\); give a row per bag and a column for each of"):
        write_model_report(tmp_path / "r.html", model, BAGS, BOTH[:, :1])


def test_the_columns_of_a_frame_name_the_targets_and_its_index_the_bags():
    frame = pd.DataFrame(BOTH, columns=["a", "b"], index=BAGS.ids).sample(frac=1.0, random_state=0)
    model = bw.MultiTarget("aggregated").fit(BAGS, frame)
    np.testing.assert_array_equal(model.predict(BAGS), bw.MultiTarget("aggregated").fit(BAGS, BOTH).predict(BAGS))
    assert model.target_names_ == ["a", "b"] and not hasattr(model, "predict_interval")
    for function, arguments in (("explain", [BAGS]), ("importance", [BAGS, BOTH]), ("predict_subset", [BAGS, "a > 0"])):
        with pytest.raises(ValueError, match=rf"this model has 2 targets \(a, b\), and {function} takes a model"):
            getattr(bw, function)(model, *arguments)
    assert len(bw.explain(model.estimators_[0], BAGS).values) == BAGS.n_instances


def test_targets_that_do_not_fit_are_refused():
    none = BOTH.copy()
    none[3] = np.nan
    for y in (BOTH, pd.DataFrame(BOTH, columns=["a", "b"])):
        with pytest.raises(ValueError, match=r"y has 2 targets per bag, and a method learns one; .*bw.MultiTarget\("):
            bw.method("aggregated").fit(BAGS, y)
    for y, weight, match in (
        (Y, None, r"y must be numbers of shape \(bags, targets\)"),
        (none, None, "bag 3 has no target at all; drop such bags"),
        (np.column_stack([Y, np.full(60, np.nan)]), None, "no bag has a target in column 'target 2'; leave it out"),
        (BOTH, np.ones(5), r"sample_weight must have one entry per bag \(60\), not shape \(5,\)"),
    ):
        with pytest.raises(ValueError, match=match):
            bw.MultiTarget("aggregated").fit(BAGS, y, sample_weight=weight)
