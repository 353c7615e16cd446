"""Learning curves: the law recovered, the parts nested, the same cells again, the truth within the interval."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import nnls

import bagwise as bw
from bagwise.auto.large_data import thin
from bagwise.bags.folds import units_of
from bagwise.evaluation import evaluate, make_splits
from bagwise.evaluation.learning_curves import EXPONENTS, _parts_of_bags, fit_power_law, mean_errors, thinned

BAGS, Y = bw.datasets.make_problem("mean", 60, random_state=3)
SIZES = [10, 16, 25, 48]


@pytest.fixture(scope="module")
def curve():
    return bw.learning_curve("aggregated", BAGS, Y, sizes=SIZES, repeats=2)


def test_the_law_is_non_negative_least_squares_of_relative_errors():
    rng = np.random.default_rng(0)
    sizes = np.array([10.0, 20, 50, 100, 200])
    errors = (0.3 + 4 * sizes**-0.8) * rng.uniform(0.7, 1.3, size=(30, 5))
    errors[0] = errors[0][::-1]  # rising: no part that falls
    law = fit_power_law(sizes, errors)
    for i, row in enumerate(errors):
        found = [(nnls(np.stack([1 / row, sizes**-c / row], axis=1), np.ones(5)), c) for c in EXPONENTS]
        ((floor, slope), rest), c = min(found, key=lambda one: one[0][1])
        gap = (law.floor[i] + law.slope[i] * sizes ** -law.exponent[i]) / row - 1
        assert np.linalg.norm(gap) == pytest.approx(rest, rel=1e-6)
        assert law(400)[i] == pytest.approx(floor + slope * 400**-c, rel=1e-5)
    assert law.slope[0] == 0


def test_parts_are_nested_and_of_whole_groups():
    groups = np.arange(60) // 3
    bags = bw.Bags(BAGS.instances, BAGS.offsets, groups=groups)
    splits = make_splits(bags, repeats=2)
    parts = _parts_of_bags(splits, SIZES, units_of(bags), 0)
    assert len(parts) == 4 * len(splits)
    for number, split in enumerate(splits):
        own = parts[4 * number : 4 * number + 4]
        for part, size in zip(own, SIZES, strict=True):
            assert size <= len(part.train) < size + 3 and set(part.train) <= set(split.train)
            assert np.isin(np.flatnonzero(np.isin(groups, groups[part.train])), part.train).all()
            assert np.array_equal(part.test, split.test)
        assert all(set(a.train) <= set(b.train) for a, b in zip(own, own[1:], strict=False))


def test_the_whole_is_the_evaluation(curve):
    whole = evaluate(BAGS, Y, ["aggregated"], repeats=2)
    assert curve.sizes.tolist() == SIZES
    rows = whole.predictions("aggregated")
    assert curve.errors[-1] == pytest.approx(np.sqrt(np.mean((rows["target"] - rows["prediction"]) ** 2)))


def test_what_the_curve_tells(curve):
    share, low, high = curve.gain()
    assert low <= share <= high and curve.gain(1.0)[0] == 0
    now, then = curve.predict(60)[0], curve.predict(120)[0]
    assert share == pytest.approx(1 - then / now)
    numbers = f"{100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
    text = f"Twice as many bags would lower the RMSE by about {numbers}."
    assert curve.sentence() == text and text in repr(curve)
    assert curve.sentence(1.5).startswith("1.5 times as many bags")
    table = curve.table()
    assert list(table["bags"]) == SIZES and table["rmse"].between(table["low"], table["high"]).all()


def test_a_curve_that_does_not_fall():
    flat = bw.learning_curve(("mean", bw.auto.members.MeanTarget()), BAGS, Y, sizes=SIZES, repeats=1)
    assert flat.gain()[0] < 0.03 and "(0 to " in flat.sentence() or "has stopped falling" in flat.sentence()
    for factor, call in ((0, flat.gain), (1.0, flat.sentence)):
        with pytest.raises(ValueError, match=f"factor must be above {factor:g}"):
            call(factor)


def test_the_bootstrap_draws_units_and_splits():
    rng = np.random.default_rng(1)
    at, unit, split = np.repeat([0, 1], 20), np.tile(np.arange(20) // 2, 2), np.tile(np.arange(20) % 4, 2)
    error = rng.random(40)
    means = mean_errors(at, unit, split, error)
    np.testing.assert_allclose(means[0], [error[:20].mean(), error[20:].mean()])
    again = np.random.default_rng(7)
    a, b = (again.multinomial(n, np.full(n, 1 / n)) for n in (10, 4))
    w = a[unit] * b[split]
    expected = [np.average(error[at == k], weights=w[at == k]) for k in (0, 1)]
    np.testing.assert_allclose(means[8], expected)


def test_thinned_bags_are_nested_and_carry_all_that_bags_carry():
    rng = np.random.default_rng(0)
    bags = bw.Bags(
        rng.normal(size=(30, 2)),
        [0, 1, 9, 30],
        groups=["x", "y", "y"],
        weights=rng.uniform(1, 2, 30),
        covariates=rng.normal(size=(3, 1)),
    ).with_validation(bw.Validation(time=[3.0, 1.0, 2.0], given=["a", "b", "a"]))
    both = thinned(bags, [0.25, 0.5, 1.0], 0)
    turned = thinned(bw.from_arrays([bag[::-1] for bag in bags]), [0.25], 0)
    assert {tuple(row) for row in turned.instances} == {tuple(row) for row in both[:3].instances}
    assert both.time.tolist() == [3.0, 1.0, 2.0] * 3 and both.fold.tolist() == ["a", "b", "a"] * 3
    assert both.sizes.tolist() == [1, 2, 6, 1, 4, 11, 1, 8, 21]
    assert both[6:] == bags
    for i in range(3):
        small, large = ({tuple(row) for row in both[k + i]} for k in (0, 3))
        assert small <= large <= {tuple(row) for row in bags[i]}
    assert both.groups.tolist() == ["x", "y", "y"] * 3 and np.array_equal(both[:3].covariates, bags.covariates)
    place = {tuple(row): w for row, w in zip(bags.instances, bags.weights, strict=True)}
    assert all(place[tuple(row)] == w for row, w in zip(both.instances, both.weights, strict=True))


def test_over_instances_the_error_falls(tmp_path):
    found = bw.learning_curve("aggregated", BAGS, Y, over="instances", repeats=1, folds=3, out=tmp_path)
    assert found.sizes[-1] == BAGS.sizes.mean() and found.errors[0] > 1.3 * found.errors[-1]
    assert "Twice as many instances per bag would lower the RMSE" in found.sentence()
    assert (tmp_path / "learning_curve.csv").read_text().startswith("instances,rmse,low,high,law")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    some = sorted(before)[:4]
    for path in some:
        path.unlink()
    again = bw.learning_curve("aggregated", BAGS, Y, over="instances", repeats=1, folds=3, out=tmp_path)
    assert np.array_equal(again.errors, found.errors) and again.gain() == found.gain()
    kept = [path for path in before if path not in some]
    assert all(path.stat().st_mtime_ns == before[path] for path in kept)


def test_groups_weights_covariates_missing_values_and_crps():
    rng = np.random.default_rng(5)
    rows = BAGS.instances.copy()
    rows[rng.random(rows.shape) < 0.05] = np.nan
    bags = bw.Bags(rows, BAGS.offsets, groups=np.arange(60) // 5, covariates=rng.normal(size=(60, 1)), missing="impute")
    for over in ("bags", "instances"):  # groups of five: some of the sizes are the same training bags
        found = bw.learning_curve("blr", bags, Y, over=over, repeats=1, folds=2, metric="crps")
        assert np.isfinite(found.errors).all() and (found.errors > 0).all() and np.isfinite(found.gain()).all()


def test_it_has_no_report_of_methods(curve, tmp_path):
    with pytest.raises(ValueError, match="fits of a learning curve, not an evaluation"):
        bw.reports.write_report(curve.results, tmp_path / "report.html")


def test_what_is_refused():
    def refused(match, *, method="aggregated", bags=BAGS, error=ValueError, **options):
        with pytest.raises(error, match=match):
            bw.learning_curve(bags, Y[: len(bags)], method, **options)

    refused("over must be 'bags' or 'instances', not 'rows'", over="rows")
    refused("nll does not have", metric="nll")
    refused("level must be a number between 0 and 1, not 90", level=90)
    refused("different whole numbers from 2 to 48, .* got \\[10, 500\\]", sizes=[10, 500])
    refused("different shares .* above 0 and up to 1; got \\[0.5, 20.0\\]", sizes=[0.5, 20], over="instances")
    refused("needs at least 4 sizes, but 48 training bags per fold give only 2", sizes=[10, 20])
    refused("needs at least 4 sizes, but 8 training bags per fold give only 1", bags=BAGS[:10])
    short = bw.from_arrays(list(BAGS.instances[:30, None]))
    refused("needs at least 4 sizes, but bags of 1 instances .median. give only 1", bags=short, over="instances")
    refused("Got 2 methods", method=["aggregated", "blr"])
    refused("crps needs a method that predicts standard deviations", metric="crps")
    refused("no result at one or more sizes, .* First error: ValueError: never", method=("broken", Broken()), repeats=1)


class Broken(bw.EmbeddingRidge):
    def fit(self, bags, y, sample_weight=None):
        raise ValueError("never")


@pytest.mark.slow
def test_the_interval_holds_the_truth_in_most_draws():
    """The gain of twice as many bags, known from 2,000 new bags and thirty draws: the table of the guide in small."""
    held, now, twice = [], [], []
    for draw in range(30):
        bags, y = bw.datasets.make_problem("mean", 120, random_state=draw)
        new, truth = bw.datasets.make_problem("mean", 2000, random_state=1000 + draw)
        for n, errors in ((60, now), (120, twice)):
            model = bw.method("aggregated").fit(bags[:n], y[:n])
            errors.append(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
        held.append(bw.learning_curve("aggregated", bags[:60], y[:60], repeats=3, random_state=draw).gain()[1:])
    gain = 1 - np.mean(twice) / np.mean(now)
    low, high = np.array(held).T
    assert np.mean((low <= gain) & (gain <= high)) >= 0.75


def test_thinned_bags_of_a_table_keep_their_rows_beside_the_instances():
    """Kept columns had their old length, so a curve over instances of loaded bags ended in an IndexError."""
    bags, y = bw.datasets.make_gaussian(24, instances=8)
    bags, y = bw.load(bags.to_frame(y), bag="bag", target="target")
    some = thinned(bags, [0.5], 0)
    assert (some.kept["row"] // 8 == some.expand(np.arange(24))).all()
    sizes = bw.learning_curve("aggregated", bags, y, over="instances", repeats=1, folds=2).sizes
    assert (np.diff(sizes) > 0).all()  # several shares of few instances give the same numbers
    assert len(thin(bags, 3).kept["row"]) == 72


def test_either_order_of_the_arguments():
    """Both functions take (bags, y, methods) and (methods, bags, y), and name each argument of another order."""
    frame, options = pd.Series(Y), {"repeats": 1, "folds": 5}
    for one in (bw.evaluate, partial(bw.learning_curve, sizes=SIZES)):
        first, second = one(BAGS, frame, "aggregated", **options), one("aggregated", BAGS, frame, **options)
        assert list(first.table()["rmse"]) == list(second.table()["rmse"])
        with pytest.raises(TypeError, match="got targets as argument 1, bags as argument 2, methods as argument 3"):
            one(frame, BAGS, ["aggregated"], **options)
        assert list(one(("aggregated",), BAGS, frame, **options).table()["rmse"]) == list(first.table()["rmse"])
        with pytest.raises(TypeError, match="got methods as argument 1, targets as argument 2, bags as argument 3"):
            one([("mine", bw.method("aggregated"))], Y, BAGS, **options)


@pytest.mark.parametrize(("metric", "falls"), [("medae", "median absolute error"), ("r2", "distance of the R² from 1")])
def test_a_curve_of_any_metric(metric, falls):
    found = bw.learning_curve(BAGS, Y, "aggregated", sizes=SIZES, repeats=2, metric=metric)
    of_splits = [found.results.values("aggregated", metric)[k :: len(SIZES)].mean() for k in range(len(SIZES))]
    np.testing.assert_allclose(found.errors, of_splits)
    table = found.table()
    assert (table["low"] <= table["high"]).all() and f"would lower the {falls} by" in found.sentence()
