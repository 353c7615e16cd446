"""The verdict of a report: its figures are those of a naive calculation, its words follow from them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import mean_absolute_error, root_mean_squared_error
from tests.helpers.page_reading import Report

import bagwise as bw
from bagwise.bags.folds import Folds
from bagwise.io.table_output import percent, shown
from bagwise.reports import write_model_report
from bagwise.reports.figures import draw_predictions
from bagwise.reports.findings import coverage_table
from bagwise.reports.verdict import HeldOut, baseline_predictions, judgement, worth
from bagwise.testing.contract_checks import sample


def held(noise, n=60, *, folds=5, unit=None, std=None):
    rng = np.random.default_rng(0)
    target = rng.normal(size=n)
    prediction = target + noise * rng.normal(size=n)
    return HeldOut("toy", np.arange(n), np.full(n, 3), target, prediction, np.arange(n) % folds, std, unit=unit)


@pytest.mark.parametrize("metric", ["rmse", "mae"])
@pytest.mark.parametrize(("folds", "unit"), [(5, None), (1, None), (1, np.arange(60) % 20)])
def test_worth_is_that_of_a_naive_calculation(folds, unit, metric):
    error, loss = (root_mean_squared_error, np.square) if metric == "rmse" else (mean_absolute_error, np.abs)
    one = replace(held(0.5, folds=folds, unit=unit), metric=metric)
    part = one.fold if folds > 1 else np.arange(60) if unit is None else unit
    mean = [one.target[part != mine].mean() for mine in part]
    found = worth(one)
    assert found.error == pytest.approx(error(one.target, one.prediction))
    assert found.mean_error == pytest.approx(error(one.target, mean))
    units = np.arange(60) if unit is None else unit
    gained = loss(one.target - mean) - loss(one.residual)
    sums = np.array([gained[units == u].sum() for u in np.unique(units)])
    assert found.gains["the mean target"] == pytest.approx(sums.mean() / (sums.std() / np.sqrt(len(sums))))
    assert found.n_units == len(sums) and found.covered == (one.inside().mean() if folds > 1 else None)


@pytest.mark.parametrize("metric", ["rmse", "mae"])
def test_the_standard_error_of_the_error_is_that_of_resampled_bags(metric):
    one, rng = replace(held(0.5, n=400), metric=metric), np.random.default_rng(0)
    errors = [one.error(rng.integers(400, size=400)) for _ in range(2000)]
    assert worth(one).error_se == pytest.approx(np.std(errors), rel=0.1)


@pytest.mark.parametrize(
    ("one", "status"),
    [
        (held(0.2), "good"),
        (held(0.2, n=20), "fair"),  # few bags
        (held(0.2, std=np.full(60, 0.01)), "fair"),  # intervals far too narrow
        (held(0.2, unit=np.arange(60) % 12), "fair"),  # few groups
        (held(1.0), "poor"),
    ],
)
def test_the_verdict_follows_from_the_figures(one, status):
    assert judgement(worth(one))["status"] == status


def test_noise_is_never_called_worth_using():
    """Predictions that have nothing to do with the target, many times: chance may not pass for skill."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        target, guess = rng.normal(size=(2, 60))
        one = HeldOut("toy", np.arange(60), np.full(60, 3), target, 0.1 * guess, np.arange(60) % 5)
        assert judgement(worth(one))["status"] != "good"


def test_a_lead_within_chance_is_called_so():
    """The badge said "No better than the mean" of an error well below that of the mean, on few bags."""
    found = worth(held(0.85, n=16))
    assert found.gain > 0.05 and not found.better
    assert judgement(found)["badge"] == "Not clearly better than the mean"


def test_training_bags_are_not_judged():
    assert worth(HeldOut("toy", *[np.arange(5)] * 5, in_sample=True)) is None
    assert judgement(None)["badge"] == "Not judged"


def test_the_first_screen_says_it(tmp_path):
    bags, y = sample(40)
    guess = y + 0.1 * np.random.default_rng(0).normal(size=40)
    model = bw.method("aggregated").fit(bags, y)
    report = Report(write_model_report(tmp_path / "model.html", model, bags, y, held_out=guess, method="toy"))
    found = worth(HeldOut("toy", np.arange(40), bags.sizes, y, guess, np.zeros(40, int)).with_baselines(bags, y))
    assert "✓ Worth using" in report.text and set(found.baseline_errors) == {"the mean target", "bag means + forest"}
    gain = percent(found.gain).replace("\xa0", " ")
    assert f"toy predicts new bags with {gain} less error than {found.rival}" in report.text
    labels = [attributes.get("aria-label") for tag, attributes in report.tags if tag == "svg"]
    assert f"RMSE of the mean target: {shown(found.mean_error)}" in labels
    assert "Prediction" in report.text and "a bag, where this report was written" in report.text


def test_the_verdict_is_against_the_better_baseline():
    """A model that beats the mean and not a forest on bag means is not called worth using."""
    bags, y = bw.datasets.make_problem("mean", 80)
    fold = np.arange(80) % 5
    forest = baseline_predictions(bags, y, Folds(fold))["bag means + forest"]
    for k in range(5):  # a plain loop over folds
        means = np.array([bag.mean(axis=0) for bag in np.split(bags.instances, bags.offsets[1:-1])])
        model = ExtraTreesRegressor(100, max_features=1 / 3, random_state=0).fit(means[fold != k], y[fold != k])
        np.testing.assert_allclose(forest[fold == k], model.predict(means[fold == k]), rtol=1e-9)
    one = HeldOut("toy", np.arange(80), bags.sizes, y, forest, fold)
    assert judgement(worth(one))["status"] != "poor"
    found = worth(one.with_baselines(bags, y))
    assert judgement(found)["badge"] == "No better than bag means + forest" and found.gain == 0
    worse = worth(replace(one, prediction=-y).with_baselines(bags, y))
    assert judgement(worse)["badge"] == "Worse than the mean" and judgement(worse)["status"] == "poor"


def test_a_model_that_falls_back_to_the_mean_says_so(tmp_path):
    bags, y = sample(40)
    y = np.random.default_rng(0).permutation(y)
    model = bw.Intervals(bw.method("auto", members=["aggregated"])).fit(bags, y)
    report = Report(write_model_report(tmp_path / "model.html", model, bags, y, method="auto"))
    assert "No better than the mean, so it predicts the mean" in report.text
    assert "No feature matters" in report.text and "in the order of importance" not in report.text


def test_intervals_of_one_split_are_not_judged():
    """Residuals of the same bags would hold 90 % of them by construction."""
    one = held(0.5, folds=1)
    assert not one.has_intervals and worth(one).covered is None and coverage_table(one) == []
    assert "with one split" in draw_predictions(one, "")["plots"][0]["caption"]
    assert len(draw_predictions(one, "")["plots"]) == 1
    assert replace(one, std=np.full(60, 0.5)).has_intervals and held(0.5).has_intervals
