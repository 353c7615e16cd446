"""Weights of bags and instances in auto: none is overlooked, and what weighs nothing has no say."""

import numpy as np
import pytest
from sklearn.ensemble import VotingRegressor
from tests.helpers.toy_members import Column

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.auto.large_data import thin
from bagwise.instances import OutOfFold
from bagwise.regressors.pipeline import tail_limits


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n, 2))
    bags = bw.from_arrays([c + 0.1 * rng.normal(size=(rng.integers(2, 6), 2)) for c in centres])
    return bags, np.exp(centres[:, 0] + 0.2 * rng.normal(size=n))


MEMBERS = [("first", Column(0)), ("second", Column(1)), "aggregated"]


@pytest.mark.parametrize("odd", [-5.0, 1e6])
def test_the_target_of_a_bag_of_weight_zero_may_be_anything(odd):
    """It decided on the transform of the targets, and on the range that predictions are drawn back to."""
    bags, y = problem()
    weight = np.where(np.arange(60) == 7, 0.0, 1.0)
    found = []
    for value in (y[7], odd):
        targets = np.where(np.arange(60) == 7, value, y)
        found.append(AutoRegressor(MEMBERS, folds=4).fit(bags, targets, sample_weight=weight))
    assert found[0].transform_ == found[1].transform_ == "log" and found[0].weights_ == found[1].weights_
    np.testing.assert_array_equal(found[0].predict(bags), found[1].predict(bags))


def test_the_rows_of_trials_are_of_weighted_errors():
    """Errors were weighted in the choice, and not in the table beside it."""
    bags, y = problem()
    weight = np.random.default_rng(0).choice([0.1, 3.0], 60)
    model = AutoRegressor(MEMBERS, folds=4, transforms=False).fit(bags, y, sample_weight=weight)
    row = next(row for row in model.trials_ if row["member"] == model.scores_["best"])
    errors = []
    for k in range(4):
        seen = model.fold_ != k
        fold_weight = weight[~seen]
        single = {"first": Column(0), "second": Column(1)}.get(row["member"], bw.method("aggregated"))
        gap = single.fit(bags[seen], y[seen], sample_weight=weight[seen]).predict(bags[~seen])
        errors.append(((np.clip(gap, *tail_limits(y[seen])) - y[~seen]) ** 2 * fold_weight).sum())
    assert row["error"] == pytest.approx(np.sqrt(np.sum(errors) / weight.sum()), rel=1e-6)


def test_thinning_keeps_instances_that_count():
    rng = np.random.default_rng(0)
    bags = bw.from_arrays(list(rng.normal(size=(60, 2, 2)))).with_weights(np.tile([0.0, 1.0], 60))
    assert (thin(bags, 1).weights == 1).all()
    model = AutoRegressor(["aggregated", "statistics:linear"], folds=4).fit(bags, rng.normal(size=60))
    assert np.isfinite(model.predict(bags)).all()


def test_a_vote_takes_weights():
    bags, y = problem()
    vote = VotingRegressor([("a", bw.method("aggregated")), ("b", bw.method("statistics", preset="linear"))])
    model = AutoRegressor([("vote", vote)], folds=3).fit(bags, y, sample_weight=np.linspace(0.1, 1, 60))
    assert {row["member"]: row["status"] for row in model.trials_}["vote"] in ("blended", "tried")


def test_a_hint_that_cannot_be_had_costs_nothing():
    """Half of the bags were too few for the folds of a member, and its error ended a finished fit."""
    bags, y = problem(40)
    stage = bw.regressors.BagPipeline(
        [("instances", OutOfFold(folds=25)), ("head", bw.regressors.PoolPredictions("mean"))]
    )
    model = AutoRegressor([("many folds", stage)], folds=4, transforms=False).fit(bags, y)
    assert model.curve_ is None or "bags" in model.curve_.rise
    assert np.isfinite(model.predict(bags)).all()


def test_the_hint_does_not_depend_on_the_order_of_the_bags():
    rng = np.random.default_rng(0)
    bags, y = problem(80)
    order = rng.permutation(80)
    one = AutoRegressor(["aggregated"], folds=4).fit(bags, y).curve_
    two = AutoRegressor(["aggregated"], folds=4).fit(bags[order], y[order]).curve_
    assert one.rise == pytest.approx(two.rise, rel=1e-6)


def test_a_column_that_never_varies_at_all_changes_nothing():
    """The mean of equal numbers is rounded, and scaling blew the rounding up into a feature of bag size."""
    bags, y = problem()
    more = bags.replace(np.column_stack([bags.instances, np.full(bags.n_instances, 12345.678)]))
    plain = AutoRegressor(["aggregated"], folds=4).fit(bags, y).predict(bags)
    np.testing.assert_allclose(AutoRegressor(["aggregated"], folds=4).fit(more, y).predict(more), plain, rtol=1e-6)


def test_explaining_sees_the_bags_as_predicting_does():
    bags, y = problem()
    equal = bags.with_weights(np.full(bags.n_instances, 2.0))
    model = AutoRegressor(["em"], folds=3, transforms=False).fit(equal, y)
    assert len(bw.explain(model, equal[:3]).values) == equal[:3].n_instances


def test_bags_of_weight_zero_do_not_tell_how_long_a_member_takes():
    """With a time budget a member was fitted to a few bags first; if none of them weighed anything, it failed."""
    bags, y = problem()
    weight = np.ones(60)
    weight[np.argsort(bw.bags.bag_folds(bags, 4, random_state=0), kind="stable")[::3]] = 0.0
    model = AutoRegressor(["aggregated"], folds=4, transforms=False, time_budget=1000)
    rows = model.fit(bags, y, sample_weight=weight).trials_
    assert {row["member"]: row["why"] for row in rows} == {"mean": "", "aggregated": ""}
