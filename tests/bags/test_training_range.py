"""The range of training: values outside it are kept within by instance stages, and named by predict."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from tests.helpers.short_fits import brief

import bagwise as bw
from bagwise.bags.checks import within_range
from bagwise.instances import EachInstance, OutOfFold
from bagwise.model_files import load_model, save_model

rng = np.random.default_rng(0)
BAGS, Y = bw.datasets.make_problem("mean", 40, random_state=0)
NEW, _ = bw.datasets.make_problem("mean", 30, random_state=1)
KEPT_WITHIN = ("instance-kme", "instance-kme:ridge", "quantile", "instance-mean", "instance-median")


def made(name):
    method, _, preset = name.partition(":")
    return brief(bw.method(method, preset=preset or "default"))


def with_value(bags, value, row=3, column=0):
    instances = bags.instances.copy()
    instances[row, column] = value
    return bags.replace(instances)


def moved_to_the_end(bags):
    """The bags with every value outside the range of training at the nearest end of it, in plain loops."""
    instances, low, high = bags.instances.copy(), BAGS.instances.min(axis=0), BAGS.instances.max(axis=0)
    for row in instances:
        for j in range(len(row)):
            row[j] = min(max(row[j], low[j]), high[j])
    return bags.replace(instances)


def warnings_of(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("name", KEPT_WITHIN)
@pytest.mark.filterwarnings("ignore:bag 0 has values far outside")
def test_one_bad_value_does_not_carry_a_bag_away(name):
    model = made(name).fit(BAGS, Y)
    new = moved_to_the_end(NEW)
    for value in (-9999.0, 1e20):
        bad = with_value(new, value)
        predicted = model.predict(bad)
        np.testing.assert_array_equal(predicted, model.predict(moved_to_the_end(bad)))
        assert Y.min() - np.ptp(Y) < predicted[0] < Y.max() + np.ptp(Y)
        if name != "quantile":
            parts = bw.explain(model, bad)
            if parts.contributions is not None:
                sums = np.add.reduceat(parts.contributions, bad.offsets[:-1])
                np.testing.assert_allclose(sums, predicted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stage", [OutOfFold, EachInstance])
def test_beyond_says_what_becomes_of_values_outside(stage):
    bad = with_value(NEW, BAGS.instances.max() + 1.0)
    clipping, plain = (stage(LinearRegression(), beyond=beyond).fit(BAGS, Y) for beyond in ("clip", "regressor"))
    np.testing.assert_array_equal(clipping.transform(bad).instances, plain.transform(moved_to_the_end(bad)).instances)
    assert plain.transform(bad).instances[3] != clipping.transform(bad).instances[3]
    inside = moved_to_the_end(NEW)
    single = inside.replace(inside.instances.astype(np.float32))
    for bags, within in ((inside, inside), (single, within_range(single, clipping))):
        np.testing.assert_array_equal(clipping.transform(within).instances, plain.transform(bags).instances)
    with pytest.raises(ValueError, match="beyond must be 'clip' or 'regressor', not 'cut'"):
        clone(plain).set_params(beyond="cut").fit(BAGS, Y)


def test_the_presets_of_the_paper_are_as_printed():
    for name in ("instance-kme:paper", "instance-kme:notebook", "instance-mean:paper", "instance-median:paper"):
        assert made(name)[0].beyond == "regressor"
    for name in KEPT_WITHIN:
        stage = made(name)[0]
        stages = [one for _, one in stage.learners] if hasattr(stage, "learners") else [stage]
        assert {one.beyond for one in stages} == {"clip"}


def test_covariates_are_kept_within_their_range_too():
    beside = BAGS.with_covariates(np.linspace(0, 1, 40)[:, None], ["sza"])
    stage = OutOfFold(LinearRegression()).fit(beside, Y)
    far, end = (NEW.with_covariates(np.full((30, 1), value), ["sza"]) for value in (1.5, 1.0))
    np.testing.assert_array_equal(stage.transform(far).instances, stage.transform(end).instances)


def test_instances_of_weight_zero_do_not_widen_the_range():
    weights = np.ones(BAGS.n_instances)
    weights[3] = 0.0
    model, train = bw.method("aggregated"), with_value(BAGS, 1e6).with_weights(weights)
    assert warnings_of(model.fit, train, Y) == []
    [text] = warnings_of(model.predict, with_value(NEW, 1e6).with_weights(np.ones(NEW.n_instances)))
    assert "1000000 in column 0" in text


# The warning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["aggregated", "instance-mean", "instance-kme:ridge", "statistics", "em", "phase"])
def test_predict_names_the_bag_the_column_the_value_and_the_others(name):
    ids, columns = [f"S{i}" for i in range(40)], [f"x{j}" for j in range(BAGS.n_features)]
    train = bw.Bags(BAGS.instances, BAGS.offsets, ids, feature_names=columns)
    new = bw.Bags(NEW.instances, NEW.offsets, ids[:30], feature_names=columns)
    model = made(name).fit(train, Y)
    bad = with_value(with_value(new, -9999.0, row=int(new.offsets[2])), 1e7, row=int(new.offsets[7]), column=1)
    bad = bad.replace(bad.instances, feature_names=columns)
    low, high = train.instances[:, 0].min(), train.instances[:, 0].max()
    assert warnings_of(model.predict, bad) == [
        "bag 'S2' (and 1 other) has values far outside the range of training: -9999 in column 'x0', where training had "
        f"{low:.6g} to {high:.6g}; check its units, or, if it stands for a missing value, load with fill_values=[-9999]"
    ]
    assert warnings_of(model.predict, new) == []


@pytest.mark.parametrize("draw", ["normal", "uniform", "exponential", "lognormal", "poisson", "logistic"])
def test_new_bags_of_the_same_distribution_are_not_warned_of(draw):
    own = np.random.default_rng(0)
    for size in (3, 30, 300):
        for _ in range(20):
            train, new = (bw.Bags(getattr(own, draw)(size=(10 * size, 3)), size * np.arange(11)) for _ in range(2))
            model = EachInstance(LinearRegression()).fit(train, np.arange(10.0))
            assert warnings_of(model.transform, new) == []


def test_far_is_three_widths_beyond_the_range():
    train = bw.from_arrays([[[0.0, 7.0]], [[1.0, 7.0]]])
    model = EachInstance(LinearRegression()).fit(train, [0.0, 1.0])
    for value, warned in ((4.0, 0), (4.001, 1), (-3.0, 0), (-3.001, 1)):
        assert len(warnings_of(model.transform, bw.from_arrays([[[value, 7.0]]]))) == warned
    assert warnings_of(model.transform, bw.from_arrays([[[0.5, -9999.0]]])) == []  # constant in training, so ignored


@pytest.mark.parametrize("kind", ["cv+", "jackknife+", "split"])
def test_intervals_warn_once_and_stay_finite_and_near(kind):
    bad = with_value(NEW, -9999.0)
    folds = {"folds": 3} if kind == "cv+" else {}
    model = bw.Intervals("instance-kme:ridge" if kind == "cv+" else "aggregated", kind=kind, **folds)
    assert warnings_of(model.fit, BAGS, Y) == []
    assert len(warnings_of(model.predict, bad)) == len(warnings_of(model.predict_interval, bad)) == 1
    with warnings.catch_warnings(action="ignore"):
        low, high = model.predict_interval(bad)[0]
    assert Y.min() - 10 * np.ptp(Y) < low < high < Y.max() + 10 * np.ptp(Y)


def test_fitting_and_explaining_warn_at_most_once():
    assert warnings_of(bw.Intervals("aggregated").fit, with_value(BAGS, 1e6), Y) == []
    assert warnings_of(bw.evaluate, with_value(BAGS, 1e6), Y, ["aggregated"]) == []
    model = bw.method("instance-mean").fit(BAGS, Y)
    for kind in ("auto", "leave-one-out"):
        assert len(warnings_of(lambda kind=kind: bw.explain(model, with_value(NEW, -9999.0), kind=kind))) == 1


def test_a_model_file_carries_the_range(tmp_path):
    model = bw.method("instance-kme", preset="ridge").fit(BAGS, Y)
    bad = with_value(NEW, -9999.0)
    save_model(model, tmp_path / "m.bagwise")
    again = load_model(tmp_path / "m.bagwise")
    assert warnings_of(again.predict, bad) == warnings_of(model.predict, bad) != []


def test_missing_values_are_not_outside():
    gaps = BAGS.instances.copy()
    gaps[5, 0] = np.nan
    train = bw.Bags(gaps, BAGS.offsets, missing="keep")
    model = bw.method("statistics").fit(train, Y)
    assert warnings_of(model.predict, train) == [] and np.isfinite(model[0].feature_range_in_).all()


# Out of core -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["aggregated", "instance-kme:ridge"])
def test_scale_the_range_the_prediction_and_the_warning_are_the_same(name):
    columns = [f"x{j}" for j in range(BAGS.n_features)]
    frame = pd.DataFrame(BAGS.instances, columns=columns).assign(site=BAGS.expand(BAGS.ids), aod=BAGS.expand(Y))
    bad = with_value(with_value(NEW, -9999.0, row=3), 5e4, row=NEW.n_instances - 1, column=1)
    new = pd.DataFrame(bad.instances, columns=columns).assign(site=bad.expand(bad.ids))
    new = new.sample(frac=1.0, random_state=0)
    bags, y = bw.load(frame, bag="site", target="aod")
    in_memory = made(name).fit(bags, y)
    summed = bw.fit_scan(bw.scan(frame, bag="site", target="aod", chunk_rows=400), name)
    first = [model.steps[0][1] if hasattr(model, "steps") else model for model in (in_memory, summed)]
    np.testing.assert_array_equal(first[0].feature_range_in_, first[1].feature_range_in_)
    with pytest.warns(UserWarning, match="looks like a fill value"):
        new_bags, _ = bw.load(new, bag="site", features=columns)
    with warnings.catch_warnings(action="ignore"):
        scan = bw.scan(new, bag="site", features=columns, chunk_rows=70)
        found, expected = bw.predict_scan(in_memory, scan), in_memory.predict(new_bags)
    np.testing.assert_array_equal(found.ids, new_bags.ids)
    np.testing.assert_allclose(found.values, expected, rtol=1e-8, atol=1e-8)
    said = [text for text in warnings_of(bw.predict_scan, summed, scan) if "fill value" not in text]  # said by `load`
    assert said == warnings_of(summed.predict, new_bags) != []
