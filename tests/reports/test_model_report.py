"""The report of one fitted model, and of data too large to show whole."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import root_mean_squared_error
from tests.helpers.page_reading import Report
from tests.helpers.toy_runs import IMAGE, Automatic, MeanOfFirst, instance_kme

import bagwise as bw
from bagwise.bags.shared_rows import find_shared_rows
from bagwise.explanations import explain
from bagwise.intervals import Intervals
from bagwise.io.table_output import shown
from bagwise.regressors import AggregateGP
from bagwise.reports import figures, write_model_report
from bagwise.reports.explorer import explain_bags, values_section
from bagwise.reports.verdict import baseline_predictions
from bagwise.testing.contract_checks import sample


def write(tmp_path, *arguments, **options):
    return Report(write_model_report(tmp_path / "model.html", *arguments, **options))


def test_without_held_out_predictions_nothing_is_called_a_score(tmp_path):
    bags, y = sample(30)
    report = write(tmp_path, bw.method("aggregated").fit(bags, y), bags, y, method="aggregated", command="bagwise fit")
    assert "scored on no bag that it had not seen" in report.text and "RMSE" not in report.text
    assert "bagwise fit" in report.text and report.explorer["what"] == "fitted"
    assert "`" not in report.text and "<code>bagwise evaluate</code>" in report.html
    assert "Unusual bags" in report.text
    for section in ("Which features matter", "Values of the instances", "The learned function"):
        assert section not in report.text


def test_held_out_predictions_are_scored(tmp_path):
    bags, y = sample(30)
    guess = y + np.random.default_rng(0).normal(size=30)
    report = write(tmp_path, instance_kme().fit(bags, y), bags, y, held_out=guess, fold=np.arange(30) % 5, name="toy")
    assert f"RMSE {shown(root_mean_squared_error(y, guess))} on bags it never saw" in report.text
    assert "The learned function" in report.text and "each of the 30 bags was predicted by a model" in report.text
    assert report.values("bag-table", "error") == sorted(np.abs(y - guess), reverse=True)


def test_targets_and_held_out_predictions_are_aligned_by_bag_id(tmp_path):
    bags, y = sample(30, ids=[f"bag {i}" for i in range(30)])
    model, guess = bw.method("aggregated").fit(bags, y), np.round(y, 1)
    turned = [pd.Series(values, index=bags.ids)[::-1] for values in (y, guess)]
    report = write(tmp_path, model, bags, turned[0], held_out=turned[1])
    assert report.values("bag-table", "error") == sorted(np.abs(y - guess), reverse=True)
    several = bw.MultiTarget("aggregated").fit(bags, pd.DataFrame({"a": y, "b": guess}))
    frame = pd.DataFrame({"a": y, "b": guess}, index=bags.ids)
    texts = [write(tmp_path, several, bags, y).text.partition("Prediction")[0] for y in (frame.to_numpy(), frame[::-1])]
    assert texts[0] == texts[1]


def test_the_residuals_of_intervals_are_held_out(tmp_path):
    bags, y = sample(40)
    model = Intervals("aggregated", folds=4).fit(bags, y)
    report = write(tmp_path, model, bags, y)
    assert (
        "Not judged" not in report.text and report.values("bag-table", "error") == sorted(abs(model.residuals_))[::-1]
    )


def test_held_out_of_another_length_is_refused(tmp_path):
    bags, y = sample(30)
    with pytest.raises(ValueError, match=r"held_out has shape \(29,\) for 30 bags; give one prediction per bag"):
        write(tmp_path, bw.method("aggregated").fit(bags, y), bags, y, held_out=y[1:])
    with pytest.raises(ValueError, match=r"fold has shape \(29,\) for 30 bags; give the fold of every bag"):
        write(tmp_path, bw.method("aggregated").fit(bags, y), bags, y, held_out=y, fold=np.zeros(29))


def test_the_trials_of_an_automatic_method(tmp_path):
    bags, y = sample(30)
    report = write(tmp_path, Automatic().fit(bags, y), bags, y)
    assert report.words("members", "member") == [f"{IMAGE} ★ best", "slow", "prime", "attention"]  # by error
    assert report.values("members", "typical error (RMSE)") == [0.5, 0.75, None, None]
    assert "Tried <two> members." in report.text
    assert report.words("members", "weight") == ["100\xa0%", "–", "–", "–"]
    chosen, tried, dropped, skipped = report.words("members", "outcome")
    assert (chosen, tried, skipped) == ("chosen: this model", "compared", "not tried: needs torch")
    assert report.words("members", "time to fit") == ["1 s", "2 s", "1 s", "–"]
    assert dropped.startswith("given up early: <of> no use on the first fold")
    assert "_" not in " ".join(cell[0] for cell in report.tables["members"][0])
    assert "RMSE 0.500 on bags it never saw" in report.text


@pytest.mark.parametrize(("metric", "name", "other"), [("mae", "MAE", "RMSE"), ("rmse", "RMSE", "MAE")])
def test_all_errors_of_a_page_on_auto_are_those_of_its_metric(tmp_path, metric, name, other):
    bags, y = bw.datasets.make_problem("mean", 40)
    model = bw.auto.AutoRegressor(["aggregated"], folds=3, metric=metric, transforms=False).fit(bags, y)
    report = write(tmp_path, model, bags, y, method="auto")
    found = report.values("members", f"typical error ({name})")
    np.testing.assert_allclose(min(found), model.scores_["error"], rtol=0.01)
    error, of_mean = (shown(model.scores_[one]) for one in ("error", "mean_error"))
    for text in (
        f"{name} {error} on bags it never saw",
        f"Always predicting the mean target has {name} {of_mean}",
        f"{name} of the mean target {of_mean}",
        f"{name} of auto {error}",
        f"Typical error ({name}) {error}",
        f"The increase of the {name} on held-out bags",
        f"{'Mean absolute' if metric == 'mae' else 'Root mean squared'} residual, the shaded steps",
    ):
        assert text in report.text
    assert len(report.values("verdicts", name)) == 3
    assert other not in report.text


def test_a_metric_that_is_no_error_of_a_page_leaves_the_rmse(tmp_path):
    bags, y = sample(30)
    model = Automatic().fit(bags, y)
    model.metric = "euclidean"  # of an estimator of one's own
    assert "RMSE 0.500 on bags it never saw" in write(tmp_path, model, bags, y).text


@pytest.mark.parametrize("kind", ["cv+", "split"])
def test_the_trials_inside_intervals(tmp_path, kind):
    bags, y = sample(40)
    report = write(tmp_path, Intervals(Automatic(), kind=kind, scale="none").fit(bags, y), bags, y)
    assert report.words("members", "member")[0] == f"{IMAGE} ★ best" and "Tried <two> members." in report.text
    assert ("RMSE 0.500 on bags it never saw" in report.text) == (kind == "cv+")  # split: fitted on some of the bags


def test_a_page_without_a_learned_function_is_better_than_none(tmp_path, monkeypatch):
    def fault(*_, **options):
        raise RuntimeError("no function today")

    bags, y = sample(30)
    monkeypatch.setattr("bagwise.reports.figures.function_on_grid", fault)
    report = write(tmp_path, instance_kme().fit(bags, y), bags, y)
    assert "The learned function" not in report.text and "was fitted on 30 bags" in report.text


def test_as_many_bags_are_explained_by_leaving_out_as_time_allows(tmp_path, monkeypatch):
    bags = bw.from_arrays(list(np.random.default_rng(0).normal(size=(200, 10, 1))))
    y = np.random.default_rng(1).normal(size=200)
    monkeypatch.setattr("bagwise.reports.explorer.MOST_ROWS_LEFT_OUT", 10_000)
    report = write(tmp_path, MeanOfFirst().fit(bags, y), bags, y)
    assert [bag is not None for bag in report.explorer["bags"]] == [True] * 100 + [False] * 100  # the worst first
    assert "so 100 of 200 bags are explained: those of at most 400 instances, from the largest error" in report.text


@pytest.mark.parametrize("additive", [True, False])
def test_a_page_stays_small(tmp_path, additive):
    rng = np.random.default_rng(0)
    sizes = np.r_[5000, rng.integers(1, 400 if additive else 60, size=499)]
    bags = bw.from_arrays(
        [rng.normal(size=(size, 5)) for size in sizes], ids=[f"a rather long name {i}" for i in range(500)]
    )
    y = rng.normal(size=500)
    model = (bw.method("aggregated") if additive else MeanOfFirst()).fit(bags, y)
    report = write(tmp_path, model, bags, y, held_out=y + rng.normal(size=500))
    assert len(report.html.encode()) < 3e6
    assert len(report.words("bag-table", "bag")) == 300
    told, sizes = report.explorer["bags"], report.values("bag-table", "size")
    for bag, size in zip(told, sizes, strict=True):
        assert bag is None or len(bag["instances"]) == min(size, report.explorer["most"])
    assert report.explorer["most"] <= 200
    assert told.count(None) <= (0 if additive else 1)  # the one of 5000 cannot be left out one by one
    assert report.explorer["kind"] == ("contributions" if additive else "leave-one-out")


def test_of_a_large_bag_the_largest_numbers_are_kept():
    bags = bw.from_arrays([np.arange(-300.0, 300.0), np.ones(3)])
    model = bw.method("aggregated").fit(bags, [0.0, 1.0])
    told = explain_bags(model, bags)
    kept, values = told["bags"][0]["instances"], explain(model, bags).values[:600]
    assert len(kept) == told["most"] < 600
    assert sorted(np.abs(values))[-len(kept) :] == sorted(np.abs(values[kept]))


def test_bags_too_large_to_leave_out_are_refused_in_words():
    bags = bw.from_arrays([np.zeros(401), np.ones(500)])
    with pytest.raises(ValueError, match="every bag has more than 400 instances"):
        explain_bags(MeanOfFirst().fit(bags, np.array([0.0, 1.0])), bags)


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_methods_that_aggregate_values_show_them(tmp_path, aggregate):
    rng = np.random.default_rng(0)
    bags, y = sample(30, feature_names=["x", "y", "rain"])
    bags = bags.with_weights(rng.uniform(1.0, 3.0, bags.n_instances))
    model = AggregateGP(aggregate=aggregate, grid={}).fit(bags, y)
    report = write(tmp_path, model, bags, y, method="aggregate-gp")
    assert f"predicts a bag by the {aggregate} of the values of its instances" in report.text
    section = values_section("aggregate-gp", model, bags, y)
    against, *maps = (str(plot["svg"]) for plot in section["plots"])
    assert [one.count("h0") for one in (against, *maps)] == [30, bags.n_instances, bags.n_instances]
    for numbers, plot in zip(model.predict_instances(bags, return_std=True), section["plots"][1:], strict=True):
        ends = f"from {shown(numbers.min())} to {shown(numbers.max())}"
        assert ends in plot["caption"] and ends in report.text


def test_the_chart_of_values_has_means_over_targets(monkeypatch):
    bags, y = sample(30)
    model, drawn = AggregateGP(aggregate="sum", grid={}).fit(bags, y), {}
    monkeypatch.setattr(figures, "values_against_targets", lambda axis, *numbers: drawn.update(numbers=numbers))
    assert len(values_section("aggregate-gp", model, bags, y)["plots"]) == 1  # no places, no map
    rates, mean, low, high = drawn["numbers"]
    np.testing.assert_allclose(rates, y / bags.sizes)
    np.testing.assert_allclose(mean, model.predict(bags) / bags.sizes)
    parts = np.split(model.predict_instances(bags), bags.offsets[1:-1])
    np.testing.assert_allclose(low, [np.quantile(part, 0.1) for part in parts])
    np.testing.assert_allclose(high, [np.quantile(part, 0.9) for part in parts])


def test_features_and_unusual_bags_of_a_model_that_kept_folds(tmp_path):
    bags, y = sample(40)
    model = Intervals("aggregated", folds=4).fit(bags, y)
    report = write(tmp_path, model, bags, y, held_out=y - model.residuals_, fold=model.fold_)
    found = bw.importance(model, bags, y, repeats=3)
    assert report.values("features", "whole") == found.as_dict()["whole"]
    judged = [bw.novelty(bags[model.fold_ != k], bags[model.fold_ == k]) for k in range(4)]
    counts = [sum(one.counts()[verdict] for one in judged) for verdict in ("inside", "edge", "outside")]
    assert report.values("verdicts", "bags") == counts
    inside = np.concatenate([one.ids[one.verdict == "inside"] for one in judged])
    assert report.values("verdicts", "RMSE")[0] == pytest.approx(np.sqrt(np.mean(model.residuals_[inside] ** 2)))


def test_shared_rows_are_on_the_page(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    bags = bw.from_arrays([rows[[*rng.integers(30, size=1), *range(60 + 5 * i, 65 + 5 * i)]] for i in range(40)])
    y = rng.normal(size=40)
    with pytest.warns(UserWarning, match="share rows"):
        model = bw.Intervals("aggregated", folds=4).fit(bags, y)
    report = write(tmp_path, model, bags, y)
    shared = find_shared_rows(bags)
    assert (
        f"({shared.n_shared} of {shared.n_instances}) have the same features as an instance of another" in report.text
    )
    assert f"connected by shared rows has {shared.largest} of 40 bags" in report.text
    assert "<code>groups=&#39;shared-rows&#39;</code> (<code>--groups shared-rows</code>)." in report.html


def test_features_are_in_the_order_of_their_importance(tmp_path):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(60, 3))
    bags = bw.from_arrays(
        [c + 0.1 * rng.normal(size=(4, 3)) for c in centres], feature_names=["noise", "little", "much"]
    )
    model = bw.Intervals("aggregated", folds=4).fit(bags, centres @ [0.0, 0.3, 2.0])
    report = write(tmp_path, model, bags, centres @ [0.0, 0.3, 2.0])
    assert (
        report.words("features", "feature") == report.words("profile-table", "feature") == ["much", "little", "noise"]
    )
    assert report.explorer["features"][0] == "much"


def test_bags_without_a_held_out_prediction_are_not_scored(tmp_path):
    """As with forward folds, where the first window is never held out."""
    bags, y = sample(50)
    model = bw.method("aggregated").fit(bags, y)
    model.folds_ = bw.bags.folds.split_bags(bags.with_validation(bw.Validation("forward", folds=4, time=range(50))))
    held = np.where(model.folds_.test < 0, np.nan, y + 0.1)
    report = write(tmp_path, model, bags, y, held_out=held, fold=model.folds_.test)
    late = np.flatnonzero(model.folds_.test >= 0)
    assert f"each of the {len(late)} bags was predicted by a model fitted without it" in report.text
    assert f"The other {50 - len(late)} bags served for training alone." in report.text
    assert sorted(map(int, report.words("bag-table", "bag"))) == late.tolist()
    found = baseline_predictions(bags, y, model.folds_)["bag means + forest"]
    error = shown(root_mean_squared_error(y[late], found[late]))
    assert f"bag means + forest in the same folds {error}" in report.text
