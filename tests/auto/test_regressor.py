import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.helpers.toy_members import TWO, Broken, Column, Counting, Memory, Unsound, Wild, problem

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.auto.members import FEW_BAGS, count_folds, plan
from bagwise.regressors.pipeline import tail_limits


def test_the_prediction_is_the_weighted_sum_of_its_members():
    bags, y = problem()
    model = AutoRegressor([*TWO, ("wild", Wild(2))], folds=5).fit(bags, y)
    assert model.kind_ == "blend" and sum(model.weights_.values()) == pytest.approx(1)
    expected = sum(model.weights_[name] * estimator.fit(bags, y).predict(bags) for name, estimator in TWO)
    expected += model.weights_["mean"] * y.mean()
    np.testing.assert_allclose(model.predict(bags), expected)


def test_a_failed_member_has_no_weight_and_a_reason():
    bags, y = problem()
    members = [("broken", Broken()), ("unsound", Unsound()), ("wild", Wild(2)), *TWO]
    model = AutoRegressor(members, folds=5).fit(bags, y)
    rows = {row["member"]: row for row in model.trials_}
    assert rows["broken"]["status"] == "failed" and rows["broken"]["why"] == "this member is broken"
    assert rows["unsound"]["why"] == "a prediction is not finite"
    assert rows["wild"]["weight"] == 0 and rows["wild"]["status"] == "tried"
    assert rows["first"]["status"] == "blended" and model.weights_["broken"] == 0


def test_a_useless_member_is_fitted_once_and_one_that_complements_the_others_is_not():
    bags, y = problem(200, noise=0.1)
    Counting.fits = 0
    model = AutoRegressor([*TWO, ("wild", Counting(2))], folds=5).fit(bags, y)
    assert Counting.fits == 1 and model.weights_["wild"] == 0
    assert "dropped: did not improve the blend on the first fold: RMSE" in model.summary()
    # The second column alone is clearly worse than the first if the target is mostly that; it still has its say.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    both = AutoRegressor(TWO, folds=5).fit(bw.from_arrays(list(x[:, None])), 3 * x[:, 0] + x[:, 1])
    assert both.weights_["second"] > 0


def test_noise_has_no_skill():
    """Honest errors are not below that of the mean by more than luck, and new bags are predicted close to it."""
    bags, _ = problem(100)
    y = np.random.default_rng(1).normal(size=100)
    model = AutoRegressor([("memory", Memory(0)), *TWO, ("wild", Wild(2))], folds=5).fit(bags, y)
    assert model.scores_["rmse"] > 0.97 * model.scores_["mean_rmse"]
    assert model.weights_["mean"] > 0.5


def test_groups_reach_the_folds():
    """Bags of a group look alike and share a target: a memory must not profit from its relatives.

    Targets have the other sign in the next group, so that there is nothing else to profit from.
    """
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 3)
    y = (np.abs(rng.normal(size=60)) * (-1.0) ** np.arange(60))[group]
    arrays = [np.array([[g + 0.01 * rng.normal()], [g]]) for g in group]
    apart = AutoRegressor([("memory", Memory(0))], folds=5).fit(bw.from_arrays(arrays), y)
    together = AutoRegressor([("memory", Memory(0))], folds=5).fit(bw.from_arrays(arrays, groups=group), y)
    assert apart.weights_["memory"] > 0.9 and apart.scores_["explained"] > 0.8
    assert together.weights_["memory"] < 0.1 and together.scores_["explained"] < 0.05
    assert all(len(set(together.fold_[group == g])) == 1 for g in range(60))


def test_fold_models_are_those_without_the_fold():
    bags, y = problem()
    for predictor in ("fold-mean", "refit"):
        model = AutoRegressor([("first", Column(0))], folds=4, predictor=predictor).fit(bags, y)
        each = model.predict_folds(bags)
        for k in range(4):
            seen = model.fold_ != k
            expected = Column(0).fit(bags[seen], y[seen]).predict(bags) * model.weights_["first"]
            expected += y[seen].mean() * model.weights_["mean"]
            np.testing.assert_allclose(each[k], expected)
        if predictor == "fold-mean":
            np.testing.assert_allclose(model.predict(bags), each.mean(axis=0))


def test_a_budget_skips_what_would_take_too_long_and_says_so():
    bags, y = bw.datasets.make_problem("mean", 60)
    model = AutoRegressor(time_budget=1e-3).fit(bags, y)
    rows = {row["member"]: row for row in model.trials_}
    assert rows["instance-kme"]["status"] == "skipped" and rows["instance-kme"]["why"] == "no time was left"
    assert rows["aggregated"]["weight"] > 0.5  # it always runs
    assert model.predictor_ == "fold-mean" and model.curve_ is None
    assert "skipped: no time was left" in model.summary() and "inf" not in model.summary()


def test_a_budget_that_does_not_bind_changes_nothing():
    bags, y = problem()
    plain = AutoRegressor(TWO, folds=5).fit(bags, y).predict(bags)
    np.testing.assert_array_equal(AutoRegressor(TWO, folds=5, time_budget=1e6).fit(bags, y).predict(bags), plain)


def test_the_rows_of_trials_are_complete():
    bags, y = problem()
    model = AutoRegressor([*TWO, ("broken", Broken())], folds=5).fit(bags, y)
    assert [row["member"] for row in model.trials_] == ["mean", "first", "second", "broken"]
    first = next(row for row in model.trials_ if row["member"] == "first")
    errors = []
    for k in range(5):
        at = model.fold_ == k
        errors.extend((Column(0).fit(bags[~at], y[~at]).predict(bags[at]) - y[at]) ** 2)
    assert first["error"] == pytest.approx(np.sqrt(np.mean(errors)))
    assert first["error_se"] == pytest.approx(np.std(errors) / np.sqrt(60) / 2 / np.sqrt(np.mean(errors)))
    assert min(row["difference"] for row in model.trials_ if row["error"] == row["error"]) == 0
    for word in ("first", "second", "broken", "RMSE", "Blend: "):
        assert word in model.summary()


def test_the_paragraph_says_what_was_done():
    bags, y = problem(groups=np.arange(60) // 2)
    text = AutoRegressor(["aggregated", "statistics:linear"], folds=3, random_state=7).fit(bags, y).paragraph()
    for words in (
        "60 training bags",
        "3-fold",
        "30 groups",
        "seed 7",
        "Wang, Radosavljevic",
        "root mean squared error",
    ):
        assert words in text
    assert "\n" not in text


@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_predictions_stay_near_the_range_of_the_targets():
    bags, y = problem()
    model = AutoRegressor(TWO, folds=5).fit(bags, y)
    far = model.predict(bw.from_arrays([np.full((2, 3), 1e6), np.full((2, 3), -1e6)]))
    low, high = tail_limits(y)
    assert (np.abs(far - [high, low]) < 0.2 * np.ptp(y)).all()  # the blend has the mean in it, too


def test_the_curve_sees_what_more_bags_bring():
    """With half the bags a memory finds its neighbours farther away; with half the instances nothing changes here."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=400)
    bags = bw.from_arrays([np.full((4, 1), v) + 1e-9 * rng.normal(size=(4, 1)) for v in x])
    model = AutoRegressor([("memory", Memory(0))], folds=5).fit(bags, np.sin(60 * x))
    assert model.curve_.rise["bags"] > 2 * model.curve_.se["bags"]
    assert abs(model.curve_.rise["instances"]) < 0.05
    assert "More bags would probably help" in model.summary() and "hardly help" in model.curve_.sentences()
    wild = AutoRegressor([("wild", Wild(0)), ("memory", Memory(0))], folds=5).fit(bags, np.sin(60 * x))
    assert wild.curve_.member == "memory"  # not of the mean, although that is better than the worst


def test_progress_is_shown_on_demand(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setenv("COLUMNS", "200")
    AutoRegressor(TWO, folds=3, progress=True, time_budget=1000).fit(*problem(50))
    shown = capsys.readouterr()
    later = ("now: fit to all bags, ", "now: learning curve of ")
    for words in ("members", "now: second", "best so far: ", "RMSE", " of at most 1000 s", *later):
        assert words in shown.err
    assert shown.out == ""


def test_plans_follow_the_size():
    names = [[member.name for member in plan(problem(n)[0])] for n in (FEW_BAGS - 1, FEW_BAGS)]
    assert "instance-kme" not in names[0] and {"mean", "aggregated", "statistics:forest"} <= set(names[0])
    assert {"instance-kme", "em", "statistics", "input-kme"} <= set(names[1]) and names[1][0] == "mean"
    assert [count_folds(problem(n)[0]) for n in (2, 12, 60, 400)] == [2, 5, 5, 5]
    assert count_folds(problem(12, groups=np.arange(12) // 4)[0]) == 3


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"predictor": "best"}, ValueError, "predictor must be 'refit' or 'fold-mean', not 'best'"),
        ({"time_budget": 0}, ValueError, "time_budget must be seconds above zero, or None, not 0"),
        ({"time_budget": "60"}, ValueError, "time_budget must be seconds above zero, or None, not '60'"),
        ({"members": "ridge"}, ValueError, "members must be 'auto', 'quick', 'best', 'additive', or a list"),
        ({"members": []}, ValueError, "members must be 'auto', 'quick', 'best', 'additive', or a list"),
        ({"members": None}, ValueError, "members must be 'auto', 'quick', 'best', 'additive', or a list"),
        ({"members": [3]}, TypeError, r"a member is a name or a pair \(name, estimator\), not 3"),
        ({"members": ["agregated"]}, ValueError, "did you mean 'aggregated'"),
        ({"members": ["aggregated:none"]}, ValueError, "no preset 'none'"),
        ({"members": ["aggregated", "aggregated"]}, ValueError, "two members are called 'aggregated'"),
    ],
)
def test_wrong_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        AutoRegressor(**options).fit(*problem(20))


def test_nothing_to_say_before_fit():
    for verb in ("summary", "paragraph"):
        with pytest.raises(NotFittedError):
            getattr(AutoRegressor(), verb)()


def test_no_member_at_all(monkeypatch):
    monkeypatch.setattr("bagwise.auto.members.MeanTarget", Broken)
    with pytest.raises(ValueError, match="no member could be fitted; mean failed: this member is broken"):
        AutoRegressor([("broken", Broken())], folds=3).fit(*problem(20))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "limit"), [("noisy", 0.36), ("mean", 0.44), ("shape", 0.24), ("prime", 1.7)])
def test_each_kind_of_problem_is_solved(kind, limit):
    """Predicting the mean has 0.89, 1.96, 0.73 and 2.3."""
    model = bw.method("auto").fit(*bw.datasets.make_problem(kind, 200))
    bags, y = bw.datasets.make_problem(kind, 500, random_state=1)
    assert np.sqrt(np.mean((model.predict(bags) - y) ** 2)) < limit
