"""Methods that lack some values: they are not the best for it, they take nothing from others, and it is told."""

import numpy as np
import pytest
from tests.helpers.toy_estimators import Failing, Spread, TrainMean

from bagwise.evaluation import Results, evaluate
from bagwise.evaluation.evaluation import Tracker
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(40)


HARD, EASY = (int(BAGS.ids[np.argmax(loss)]) for loss in (np.abs(Y - Y.mean()), -np.abs(Y - Y.mean())))


class Dodger(TrainMean):
    """Fails on the fold with this bag."""

    def __init__(self, shift=0.0, dodged=HARD):
        self.shift, self.dodged, self.nap = shift, dodged, 0.0

    def predict(self, bags):
        if self.dodged in bags.ids.tolist():
            raise ArithmeticError("too hard")
        return super().predict(bags)


class FirstFeature(TrainMean):
    """The bag means of the first feature; a constant for the fold with bag 0, or without a shift."""

    def __init__(self, shift=0.0, sometimes=False):
        self.shift, self.sometimes, self.nap = shift, sometimes, 0.0

    def predict(self, bags):
        is_flat = 0 in bags.ids.tolist() if self.sometimes else self.shift == 0
        return np.zeros(len(bags)) if is_flat else np.array([part[:, 0].mean() for part in bags])


def run(methods, **options):
    return evaluate(BAGS, Y, methods, **{"repeats": 1} | options)


def row_of(results, method):
    return next(row for row in results.ranked() if row["method"] == method)


def test_who_fails_on_the_hard_folds_is_not_the_best():
    results = run([("honest", TrainMean(shift=0.01)), ("dodger", Dodger())])
    dodger, honest = row_of(results, "dodger"), row_of(results, "honest")
    assert dodger["rmse"] < honest["rmse"]  # its mean is of the easier folds
    assert (dodger["best"], dodger["rank"], dodger["cells"], dodger["failed"]) == (False, None, 4, 1)
    assert (honest["best"], honest["rank"], honest["cells"]) == (True, 1.0, 5)
    known = ~np.isnan(results.values("dodger"))
    assert dodger["from_best"] == pytest.approx((results.values("dodger") - results.values("honest"))[known].mean())
    (note,) = results.notes()
    assert note.startswith("dodger has rmse on only 4 of 5 splits. Its mean is over these") and note in str(results)


def test_a_fold_without_a_value_is_not_counted():
    results = run([("flat", FirstFeature(sometimes=True)), "aggregated"], metric="pearson")
    summary = results.summary().to_dict("list")
    assert summary["cells"] == [4, 5] and summary["failed"] == [0, 0] and summary["rmse_cells"] == [5, 5]
    assert np.isnan(summary["rank"][0]) and summary["rank"][1] == 1.0 and results.best_method() == "aggregated"
    assert results.notes()[0].startswith("flat has pearson on only 4 of 5 splits")


@pytest.mark.parametrize(
    ("lacking", "metric"), [(("fails", Failing(needs="none such")), "rmse"), (("mean", TrainMean()), "nll")]
)
def test_one_without_any_value_takes_no_rank_from_others(lacking, metric):
    others = [("good", Spread()), ("bad", Spread(shift=5.0))]
    runs = (run(methods, metric=metric) for methods in (others, [*others, lacking]))
    alone, together = (results.summary().to_dict("list") for results in runs)
    assert together["rank"][:2] == alone["rank"] == [1.0, 2.0]
    assert np.isnan(together["rank"][2]) and together["cells"] == [5, 5, 0]


def test_if_none_is_complete_the_common_folds_decide():
    results = run([("dodger", Dodger(shift=0.01)), ("better", Dodger(dodged=EASY))])
    dodger, better = (results.values(method) for method in results.methods)
    both = ~np.isnan(dodger + better)
    assert both.sum() == 3 and np.nanmean(dodger) < np.nanmean(better) and better[both].mean() < dodger[both].mean()
    assert results.best_method() == "better"
    places = np.where(better < dodger, 1, 2)[both]
    assert list(results.summary()["rank"]) == pytest.approx([3 - places.mean(), places.mean()])


def test_in_an_unfinished_run_the_next_cell_is_no_failure():
    results = run([("good", TrainMean()), ("bad", TrainMean(shift=-9.0))])
    cells = [results.outcome(method, split) for split in results.splits for method in ("bad", "good")]
    unfinished = Results(results.record, cells[:5])  # the bad one has run a fold more
    assert unfinished.best_method() == "good" and list(unfinished.summary()["rank"]) == [1.0, 2.0]
    assert unfinished.notes() == [] and list(unfinished.summary()["cells"]) == [2, 3]


def test_no_split_in_common_no_best():
    results = run([("good", TrainMean()), ("bad", TrainMean(shift=-9.0))])
    apart = Results(
        results.record,
        [results.outcome("good", results.splits[0]), results.outcome("bad", results.splits[1])],
    )
    assert apart.best_method() is None and np.isnan(apart.summary()["rank"]).all()
    assert all(row["from_best"] is None for row in apart.ranked())


# A score that is not there is never the best ------------------------------------------------------------------------


def test_a_setting_without_a_score_is_not_chosen():
    space = {"shift": [0.0, 1.0]}
    results = evaluate(BAGS, Y, [("m", FirstFeature(), space)], repeats=1, selection="paper", metric="pearson")
    assert np.isnan(results.scores("m")[:, 0]).all() and results.setting("m") == 1
    assert [row["setting"] for row in results.rows("table")] == ["shift=1.0"] * 5


@pytest.mark.parametrize(("metric", "way_out"), [("nll", "standard deviations"), ("pearson", "constant")])
def test_where_no_setting_has_a_score_none_is_the_best(tmp_path, metric, way_out):
    methods = [("m", TrainMean(), {"shift": [0.0, 1.0]}), ("spread", Spread())]
    results = run(methods, selection="paper", metric=metric, out=tmp_path)
    assert results.setting("m") is None and np.isnan(results.values("m", "rmse")).all()
    rows = results.rows("table")[:5]
    assert all(row["setting"] is None and row["rmse"] is None for row in rows)
    assert results.summary()["cells"][0] == 0 and results.best_method() in (None, "spread")
    assert f"m: no setting has {metric} on all splits, so none was chosen" in results.notes()[0]
    assert way_out in results.notes()[0]


def result(method, scores, error=None):
    return {"method": method, "scores": {"rmse": scores}, "error": error, "seconds": 1.0}


def test_the_best_so_far_has_a_score_everywhere():
    tracker, nan = Tracker({"nan": 1, "grid": 1, "plain": 2, "dodger": 2}, "rmse"), float("nan")
    assert tracker.step(result("nan", [nan])).best is None
    assert tracker.step(result("grid", [nan, 3.0])).best_score == 3.0
    step = tracker.step(result("plain", [2.0]))
    assert (step.best, step.best_score) == ("plain", 2.0)
    tracker.step(result("dodger", [1.0]))
    assert tracker.step(result("dodger", [], error="too hard")).best == "plain"
    assert tracker.step(result("plain", [nan])).best == "grid"


def test_the_time_left_is_known_from_the_first_fold_on(monkeypatch):
    """Slow and quick methods count by their own times, and two processes halve the time."""
    clock = iter([0.0, 5.5, 5.5])
    monkeypatch.setattr("bagwise.evaluation.evaluation.time.perf_counter", lambda: next(clock))
    tracker = Tracker({"slow": 3, "quick": 3}, "rmse")
    assert tracker.step(result("slow", [1.0]) | {"seconds": 10.0}, ran=True).seconds_left is None
    assert tracker.step(result("quick", [1.0]) | {"seconds": 1.0}, ran=True).seconds_left == 22.0 * 5.5 / 11.0
    assert tracker.step(result("slow", [1.0]) | {"seconds": 10.0}).seconds_left == 12.0 * 5.5 / 11.0
