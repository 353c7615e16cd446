"""Presets, options by name, the race, the metric, the leaderboard."""

import threading
from concurrent.futures import BrokenExecutor
from threading import Event, Thread
from types import SimpleNamespace

import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from tests.helpers.toy_members import TWO, Broken, Column, Wild, five_folds, problem

import bagwise as bw
from bagwise.auto import AutoRegressor, cross_validation
from bagwise.auto.cross_validation import BEGUN, CrossValidation, Trial
from bagwise.auto.members import Member, mean_member, plan
from bagwise.auto.time_budget import TimeBudget, seconds_to_compile
from bagwise.bags.folds import Folds
from bagwise.metrics import METRICS
from bagwise.regressors.pipeline import tail_limits


def test_presets_and_options_by_name():
    for preset in ("quick", "best", "additive"):
        assert bw.method(f"auto:{preset}").members == preset
    assert bw.method("auto", time_budget=60).time_budget == 60
    assert bw.method("auto:quick", metric="mae", folds=3).get_params()["metric"] == "mae"
    assert bw.method("aggregated", head__offset="none").get_params()["head__offset"] == "none"
    with pytest.raises(ValueError, match="Invalid parameter 'budget'"):
        bw.method("auto", budget=60)


def test_plans_hold_what_they_promise():
    bags, _ = problem()
    names = {name: [member.name for member in plan(bags, name)] for name in ("auto", "quick", "best", "additive")}
    assert set(names["quick"]) < set(names["auto"]) < set(names["best"])
    assert not {"attention", "em", "instance-kme"} & set(names["quick"])
    bags, y = bw.datasets.make_problem("mean", 40)
    for member in plan(bags, "additive")[1:]:
        model = member.make(0).fit(bags, y)
        parts = np.add.reduceat(bw.explain(model, bags).contributions, bags.offsets[:-1])
        np.testing.assert_allclose(parts, model.predict(bags), rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_the_additive_preset_is_an_exact_sum_far_from_the_targets_as_well():
    """Neither a transform of the targets nor a limit to their range is between the sum and the prediction."""
    rng = np.random.default_rng(0)
    bags = bw.from_arrays(list(rng.normal(size=(60, 4, 2))))
    y = np.exp(np.array([bag[:, 0].mean() for bag in bags]))
    model = bw.method("auto:additive").fit(bags, y)
    far = bw.from_arrays([np.full((3, 2), 50.0), np.full((2, 2), -50.0)])
    for some in (bags, far):
        parts = np.add.reduceat(bw.explain(model, some).contributions, some.offsets[:-1])
        np.testing.assert_allclose(parts, model.predict(some), rtol=1e-6)
    assert model.transform_ is None


def begun(name, predictions):
    return Trial(Member(name, None, costly=True), status=BEGUN, predictions=predictions[None])


def test_the_race_is_a_regression_through_zero():
    """y - b on z - b, b the blend of the rivals: the slope must be above zero."""
    bags, y = problem(100)
    rng = np.random.default_rng(0)
    fold = np.arange(100) % 5
    cv = five_folds(bags, y)
    seen = {True: 0, False: 0}
    for _ in range(40):
        rival = y + rng.normal(size=100)
        z = np.where(fold == 0, rival + rng.uniform(-0.5, 0.5) * (y - rival) + rng.normal(size=100), np.nan)
        (found,) = cv.useless([begun("z", z)], [Trial(Member("rival", None), "tried", predictions=rival[None])])
        x, r = (z - rival)[fold == 0], (y - rival)[fold == 0]
        line = LinearRegression(fit_intercept=False).fit(x[:, None], r)
        assert bool(found) == (line.coef_[0] <= 0)
        seen[bool(found)] += 1
    assert min(seen.values()) > 0


def test_best_races_nobody():
    bags, y = problem(100)
    fits = {}
    for members in ("auto", "best"):
        model = AutoRegressor(members, folds=5, transforms=False)
        cv = five_folds(bags, y, race_costly=members != "best")
        some = [Member("first", lambda seed: Column(0)), Member("wild", lambda seed: Wild(2), costly=True)]
        fits[members] = [
            (trial.status, trial.fits) for trial in model._try(cv, [mean_member(), *some], lambda *_: None)[1:]
        ]
    assert fits == {"auto": [("tried", 5), ("dropped", 1)], "best": [("tried", 5), ("tried", 5)]}


def test_a_cheaper_estimator_decides_on_the_first_fold_and_is_gone_then():
    bags, y = problem(100)
    cv = five_folds(bags, y)
    rival = cv.try_member(Member("first", lambda seed: Column(0)))
    good = Member("second", lambda seed: Column(1), costly=True, make_first=lambda seed: Column(1))
    bad = Member("second", lambda seed: Column(1), costly=True, make_first=lambda seed: Wild(2))
    (kept,), (gone,) = (cv.race([member], [rival]) for member in (good, bad))
    assert gone.status == "dropped" and gone.fits == 1
    assert kept.status == "tried" and kept.fits == 6 and len(kept.models) == 5
    plain = cv.try_member(Member("second", lambda seed: Column(1)))
    np.testing.assert_array_equal(kept.held_out, plain.held_out)


def test_held_out_errors_are_pooled_and_the_nested_single_best_is_told():
    bags, y = problem()
    model = AutoRegressor([*TWO, ("broken", Broken())], folds=5).fit(bags, y)
    assert model.scores_["error"] == pytest.approx(np.sqrt(np.mean((model.held_out_ - y) ** 2)))
    assert model.scores_["error"] <= model.scores_["single_error"]
    text = model.summary()
    errors = f"held-out RMSE {model.scores_['error']:.4g}, and {model.scores_['single_error']:.4g} for the best member"
    assert f"{errors}, both chosen without the held-out fold" in text
    errors = [float(line.split()[1]) for line in text.splitlines()[1:4]]
    assert errors == sorted(errors) and " -0" not in text


def test_absolute_errors_drive_everything():
    bags, y = problem(120)
    y = y + np.where(np.arange(120) % 10 == 3, 20.0, 0.0)  # a mean squared error knows nothing else
    model = AutoRegressor(TWO, folds=5, metric="mae", transforms=False).fit(bags, y)
    assert model.scores_["error"] == pytest.approx(np.mean(np.abs(model.held_out_ - y)))
    gap = np.abs(Column(0).fit(bags[model.fold_ != 0], y[model.fold_ != 0]).predict(bags) - y)[model.fold_ == 0]
    assert next(row for row in model.trials_ if row["member"] == "mean")["error"] < gap.mean()  # outliers tilt lines
    assert "MAE" in model.summary() and "RMSE" not in model.summary()
    assert "mean absolute error" in model.paragraph()


def test_any_metric_that_needs_no_deviations_decides():
    bags, y = problem(60)
    for name in ("medae", "r2", "spearman", "kendall"):
        model = AutoRegressor(TWO, folds=5, metric=name, transforms=False).fit(bags, y)
        metric = METRICS[name]
        assert model.scores_["error"] == pytest.approx(metric(y, model.held_out_))
        ranked = [row["error"] for row in sorted(model.trials_, key=lambda row: metric.loss(row["error"]))]
        assert model.leaderboard()["error"].dropna().tolist()[1:] == [value for value in ranked if value == value]
        assert metric.label in model.summary() and metric.label in model.paragraph()
    with pytest.raises(ValueError, match="the metric 'crps' needs standard deviations; use one of rmse, mae"):
        AutoRegressor(TWO, metric="crps").fit(bags, y)


def test_a_blend_worse_than_the_mean_gives_way_to_it():
    """On targets of pure noise a model predicts their mean, and the summary says so."""
    bags, rng = problem(60)[0], np.random.default_rng(3)
    y = rng.normal(size=60)
    model = AutoRegressor(TWO, folds=5, transforms=False).fit(bags, y)
    for k in range(5):
        np.testing.assert_allclose(model.held_out_[model.fold_ == k], y[model.fold_ != k].mean(), rtol=1e-9)
    np.testing.assert_allclose(model.predict(bags), y.mean(), rtol=1e-9)
    assert model.scores_["error"] == model.scores_["mean_error"] and model.weights_["mean"] == 1
    assert "beats the mean of the targets, so the model predicts the mean" in model.summary()


def test_repeats_average_the_predictions_that_weights_are_decided_on():
    bags, y = problem()
    deals = np.array([bw.bags.bag_folds(bags, 4, random_state=r) for r in range(3)])
    cv = CrossValidation(bags, y, [Folds(fold) for fold in deals])
    trial = cv.try_member(Member("first", lambda seed: Column(0)))
    out = np.empty((3, 60))
    for r, fold in enumerate(deals):
        for k in range(4):
            seen = fold != k
            found = Column(0).fit(bags[seen], y[seen]).predict(bags[~seen])
            out[r, ~seen] = np.clip(found, *tail_limits(y[seen]))
    np.testing.assert_allclose(trial.held_out, out[0])
    np.testing.assert_allclose(trial.averaged, out.mean(axis=0))
    model = AutoRegressor(TWO, folds=4, repeats=3, transforms=False).fit(bags, y)
    np.testing.assert_array_equal(model.fold_, deals[0])
    assert len(model.fold_models_["first"]) == 4 and model.predict_folds(bags).shape == (4, 60)
    with pytest.raises(ValueError, match="repeats must be a whole number above zero, not 0"):
        AutoRegressor(TWO, repeats=0).fit(bags, y)


def test_the_leaderboard_is_a_frame_of_the_members_and_the_blend():
    bags, y = problem()
    new, targets = problem(30, seed=1)
    model = AutoRegressor([*TWO, ("broken", Broken())], folds=5).fit(bags, y)
    frame = model.leaderboard(new, targets)
    assert type(frame).__module__.startswith(("pandas", "polars"))
    columns = {name: list(frame[name]) for name in frame.columns}
    assert columns["member"][0] == model.kind_ and columns["error"][0] == model.scores_["error"]
    assert columns["new_error"][0] == pytest.approx(np.sqrt(np.mean((model.predict(new) - targets) ** 2)))
    at = columns["member"].index("first")
    expected = np.sqrt(np.mean((Column(0).fit(bags, y).predict(new) - targets) ** 2))
    assert columns["new_error"][at] == pytest.approx(expected)
    shuffled = pd.Series(targets, index=new.ids)[::-1]
    assert list(model.leaderboard(new, shuffled)["new_error"])[at] == pytest.approx(expected)
    assert columns["member"][-1] == "broken" and columns["why"][-1] == "this member is broken"
    errors = [e for e in columns["error"][1:] if e == e]
    assert errors == sorted(errors) and min(d for d in columns["difference"][1:] if d == d) == 0
    assert columns["fit_seconds"][at] > 0 and "new_error" not in model.leaderboard().columns
    with pytest.raises(ValueError, match="leaderboard needs bags and their targets y together, or neither"):
        model.leaderboard(new)
    with pytest.raises(ValueError, match="29 values for 30 bags"):
        model.leaderboard(new, targets[1:])


def test_the_leaderboard_tells_what_a_member_takes_in_the_file(tmp_path):
    bags, y = bw.datasets.make_problem("mean", 40)
    model = AutoRegressor(["aggregated", "statistics:moments"], folds=3).fit(bags, y)
    table = model.leaderboard().set_index("member")["file_bytes"]
    bw.save_model(model, tmp_path / "m.bagwise")
    whole = (tmp_path / "m.bagwise").stat().st_size
    assert table.iloc[0] == table.iloc[1:].sum() and 0.3 * whole < table.iloc[0] < whole
    assert {name for name in table.index[1:] if table[name] > 0} == set(model.models_)
    opened = bw.load_model(tmp_path / "m.bagwise")
    np.testing.assert_array_equal(opened.predict(bags), model.predict(bags))
    with pytest.raises(ValueError, match="no models without each fold"):
        opened.predict_folds(bags)
    own = (
        AutoRegressor(TWO, folds=3, transforms=False).fit(*problem(60)).leaderboard().set_index("member")["file_bytes"]
    )
    assert own["first"] != own["first"]  # no model file can hold it


def test_networks_are_not_probed_where_a_quicker_member_takes_too_long(monkeypatch):
    """Their first fit in a process loads compiled code or torch, which took several times a small budget."""
    probed = []

    def seconds_by(self, member, some):
        probed.append(member.name)
        return 100.0

    monkeypatch.setattr(CrossValidation, "probe", seconds_by)
    bags, y = problem(60)
    model = AutoRegressor(time_budget=100.0).fit(bags, y)
    costly = {member.name for member in plan(bags) if member.costly}
    assert probed and not costly & set(probed)
    why = {row["member"]: row["why"] for row in model.trials_ if row["member"] in costly and row["status"] == "skipped"}
    assert {"em", "instance-kme"} <= set(why) and why["em"].startswith("a quicker member would take")


def test_a_budget_leaves_time_for_the_fit_to_all_bags():
    """A member is skipped if its folds would fit into the budget, and the fits of all that may be chosen would not."""
    bags, y = problem(100)
    budget = TimeBudget(100.0)
    cv = five_folds(bags, y, budget=budget)
    member = Member("first", lambda seed: Column(0), costly=True)
    assert cv.try_member(member).done
    skipped = cv.try_member(member, reserve=101.0)
    assert skipped.status == "skipped" and skipped.why == "no time was left"
    assert budget.shortage(12.0, 90.0) == "would take about 12 s, with 10 s left"
    assert cv.try_member(member, reserve=91.0).why == "no time was left to estimate how long it takes"
    budget.longest_probe = 50.0  # another such fit would take all that is left
    assert cv.try_member(member).why == "no time was left to estimate how long it takes"


def test_more_bags_are_probed_where_few_leave_a_doubt():
    """A forest takes a fifth of a second for 16 bags and for 1,000: 16 bags say that 20,000 take minutes."""
    probed = []

    def probe(positions):
        probed.append(len(positions))
        return 0.2

    budget = TimeBudget(60.0)
    seconds = budget.estimate(probe, np.arange(20_000), n_train=13_000, n_fits=4, reserve=0.0)
    assert probed == [16, 32, 64, 128, 256] and seconds == pytest.approx(0.2 * 13_000 / 256)
    assert budget.longest_probe == 0.2
    probed.clear()
    TimeBudget(3.0).estimate(probe, np.arange(20_000), n_train=13_000, n_fits=4, reserve=0.0)
    assert probed == [16]  # a fit to 32 bags may take four times as long, more than a quarter of 3 s


@pytest.mark.parametrize(("seconds", "status"), [(2.0, "tried"), (4.0, "skipped")])
def test_a_first_fold_that_is_quick_enough_is_fitted_whatever_a_few_bags_say(seconds, status, monkeypatch):
    """A fit to 16 of 100 bags overrates its fixed cost: five folds by that would take more than the budget."""
    bags, y = problem(100)
    monkeypatch.setattr(CrossValidation, "probe", lambda self, member, positions: seconds)
    cv = five_folds(bags, y, budget=TimeBudget(50.0))
    assert cv.try_member(Member("first", lambda seed: Column(0))).status == status


def test_networks_that_must_be_compiled_first_are_skipped_under_a_small_budget(monkeypatch):
    """Their kernels take up to a minute, once on a machine; they were compiled within a budget of 5 s."""
    bags, y = problem(100)
    fresh = SimpleNamespace(train_epoch=numba.njit(lambda x: x))
    monkeypatch.setattr("bagwise.auto.time_budget.import_module", lambda name: fresh)
    member = Member("attention", lambda seed: Column(0), costly=True)
    for seconds, status in ((80.0, "skipped"), (100.0, "tried")):
        cv = five_folds(bags, y, budget=TimeBudget(seconds))
        trial = cv.try_member(member)
        assert trial.status == status and ("would take about 45 s" in trial.why) == (status == "skipped")
    fresh.train_epoch(1.0)
    assert seconds_to_compile("attention") == seconds_to_compile("statistics") == 0.0


class Cubic(Column):
    """A column whose fit takes, by the clock it is given, the cube of the number of bags: a few bags tell little."""

    clock = None

    def fit(self, bags, y):
        Cubic.clock.started -= 30.0 * (len(bags) / 80) ** 3
        return super().fit(bags, y)


@pytest.mark.parametrize(("budget", "done"), [(1000.0, 5), (200.0, 5), (130.0, 1)])
def test_a_member_that_falls_behind_is_given_up(budget, done):
    """The seconds of a fold are those of the others; 4 more of 30 s and a fit to all bags are not left of 130."""
    bags, y = problem(100)
    Cubic.clock = TimeBudget(budget)
    cv = five_folds(bags, y, budget=Cubic.clock)
    trial = cv.try_member(Member("cubic", lambda seed: Cubic(0)))
    assert trial.fits == done and trial.done == (done == 5)
    if done < 5:
        assert trial.status == "skipped"
        assert trial.why == "would take about 120 s, with 100 s left; given up after 1 of 5 folds"


def test_compiling_is_not_taken_for_a_long_fit(monkeypatch):
    """It is once; a member of networks would be skipped for it in the first fit of all."""
    bags, y = problem(100)
    now = iter([0.0, 60.5])  # before and after a fit to a few bags
    monkeypatch.setattr(cross_validation.time, "perf_counter", lambda: 0.0)
    cv = five_folds(bags, y, budget=TimeBudget(100.0))

    class Compiled(Column):
        def fit(self, bags, y):
            cross_validation.spent["compiling"] += 60.0
            return super().fit(bags, y)

    monkeypatch.setitem(cross_validation.spent, "compiling", 5.0)
    monkeypatch.setattr(cross_validation.time, "perf_counter", lambda: next(now))
    assert cv.probe(Member("compiled", lambda seed: Compiled(0)), np.arange(0, 100, 5)) == 0.5


def test_workers_stopped_while_they_start_print_no_traceback(monkeypatch):
    """Ctrl-C stops them as well; only the message of the command line remains."""
    bags, y = problem()
    cv = five_folds(bags, y, n_jobs=2, budget=TimeBudget(1000.0))
    failures, called = [], Event()

    def stopped(calls):
        called.set()
        raise BrokenExecutor

    monkeypatch.setattr(threading, "excepthook", failures.append)
    monkeypatch.setattr(cross_validation, "Parallel", lambda n_jobs: stopped)
    cv.start_workers()
    cv.starting[0].join(60)
    assert called.is_set() and not failures


def test_until_workers_have_started_this_process_works():
    """With a budget nobody waits for them; the numbers are the same."""
    bags, y = problem()
    there, start = Event(), Thread(target=lambda: there.wait(60), daemon=True)
    options = {"n_jobs": 2, "budget": TimeBudget(1000.0), "starting": [start]}
    cv = five_folds(bags, y, **options)
    start.start()
    assert cv.workers == 1 and cv.try_member(Member("own", lambda seed: Column(0))).done
    there.set()
    start.join()
    assert cv.workers == 2
