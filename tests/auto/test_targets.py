import numpy as np
import pytest
from tests.helpers.toy_members import Column, five_folds

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.auto.members import Member
from bagwise.auto.target_transforms import MonotoneTarget, choose_transform, worth_trying
from bagwise.auto.time_budget import TimeBudget
from bagwise.regressors.pipeline import tail_limits


def problem(link, n=120, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n, 2))
    bags = bw.from_arrays([c + 0.1 * rng.normal(size=(3, 2)) for c in centres])
    return bags, link(centres[:, 0] + 0.2 * rng.normal(size=n))


MEMBERS = [("first", Column(0)), ("second", Column(1))]


def test_a_log_is_kept_for_log_normal_targets():
    bags, y = problem(lambda t: np.exp(t))
    model = AutoRegressor(MEMBERS, folds=5).fit(bags, y)
    plain = AutoRegressor(MEMBERS, folds=5, transforms=False).fit(bags, y)
    assert model.transform_ == "log" and plain.transform_ is None
    assert model.scores_["rmse"] < 0.9 * plain.scores_["rmse"]
    assert "log: used" in model.summary() and "fitted on the log" in model.paragraph()


def test_nothing_is_tried_on_normal_targets():
    model = AutoRegressor(MEMBERS, folds=5).fit(*problem(lambda t: t))
    assert model.transform_ is None and model.transforms_ == []


def test_what_is_tried_and_does_not_help_is_not_kept():
    """Skewed targets that are linear in a skewed feature: a log would bend the line."""
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(size=120))
    bags = bw.from_arrays([np.full((2, 2), v) + 0.01 * rng.normal(size=(2, 2)) for v in x])
    model = AutoRegressor(MEMBERS, folds=5).fit(bags, x + 0.1 + 0.05 * rng.uniform(size=120))
    assert model.transform_ is None and [row["transform"] for row in model.transforms_] == ["log"]
    assert "log: not used" in model.summary()


@pytest.mark.parametrize(("column", "fits"), [(0, 5), (1, 10)])
def test_a_transform_that_is_clearly_worse_for_the_first_member_is_not_tried_with_the_others(column, fits, monkeypatch):
    """A log bends the line of the first feature; of the second, which is noise, it makes nothing worse."""
    rng = np.random.default_rng(0)
    x, noise = np.exp(rng.normal(size=(2, 120)))
    bags = bw.from_arrays([np.full((2, 2), pair) for pair in np.column_stack([x, noise])])
    cv = five_folds(bags, x + 0.1)
    plain = [cv.try_member(Member(name, lambda seed, k=k: Column(k))) for name, k in (("a", column), ("b", 0))]
    count, fit = [], Column.fit
    monkeypatch.setattr(Column, "fit", lambda self, bags, y: count.append(1) or fit(self, bags, y))
    choice = choose_transform(cv, plain)
    assert len(count) == fits and choice.formula is None and choice.row["gain"] < 0


@pytest.mark.parametrize(("budget", "tried"), [(None, True), (500.0, True), (200.0, False), (60.0, False)])
def test_a_transform_takes_a_third_of_the_budget_that_is_left_at_most(budget, tried):
    """Two members that run always took 100 s; they ran again, where nothing of the budget was left."""
    bags, y = problem(lambda t: np.exp(t))
    cv = five_folds(bags, y, budget=TimeBudget(budget))
    plain = [cv.try_member(Member(name, lambda seed: Column(0), always=True)) for name in ("first", "second")]
    for trial in plain:
        trial.fit_seconds = 50.0
    cv.budget.advance(100.0)
    choice = choose_transform(cv, plain)
    assert choice.formula == ("log" if tried else None)
    if not tried:
        left = max(budget - 100.0, 0.0)
        assert choice.trials == plain and choice.row["why"] == f"would take about 125 s, with {left:.0f} s left"


def test_the_summary_tells_of_a_transform_for_which_there_was_no_time():
    bags, y = problem(lambda t: np.exp(t))
    model = AutoRegressor(time_budget=1e-3).fit(bags, y)
    assert model.transform_ is None
    assert "Transform of the targets, log: not tried: it would take about 0." in model.summary()


def test_weights_reach_a_member_behind_a_transform():
    bags, y = problem(lambda t: np.exp(t))
    weight = 1.0 + 0.1 * (np.arange(120) % 3)
    model = AutoRegressor(MEMBERS, folds=5).fit(bags, y, sample_weight=weight)
    assert model.transform_ == "log"
    expected = Column(0).fit(bags, np.log(y / np.median(y)), weight)
    inner = model.models_["first"][0].regressor_
    assert inner.slope_ == pytest.approx(expected.slope_)


@pytest.mark.parametrize("formula", ["log", "asinh", "logit"])
def test_there_and_back(formula):
    y = np.random.default_rng(0).uniform(0.05, 0.95, size=(50, 1))
    target = MonotoneTarget(formula).fit(y)
    seen = target.transform(y)
    np.testing.assert_allclose(target.inverse_transform(seen), y)
    assert (np.diff(seen[np.argsort(y[:, 0]), 0]) > 0).all()
    far = target.transform(target.inverse_transform(np.array([[-1e9], [1e9]])))
    np.testing.assert_allclose(far.ravel(), tail_limits(seen))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_unit_does_not_matter(scale):
    y = np.exp(np.random.default_rng(0).normal(size=(50, 1)))
    for formula in ("log", "asinh"):
        np.testing.assert_allclose(
            MonotoneTarget(formula).fit(scale * y).transform(scale * y), MonotoneTarget(formula).fit(y).transform(y)
        )


def test_what_is_worth_trying():
    rng = np.random.default_rng(0)
    skewed = np.exp(rng.normal(size=300))
    assert [worth_trying(y) for y in (skewed, skewed - 2, -skewed)] == ["log", "asinh", "asinh"]
    assert worth_trying(rng.uniform(size=300)) == "logit" and worth_trying(np.full(9, 3.0)) is None
    assert worth_trying(5 + 0.1 * rng.uniform(size=300)) is None
