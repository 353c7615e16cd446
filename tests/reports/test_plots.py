"""What is drawn is what was given: artists are asked for their data, no image is compared."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.stats import binom
from tests.helpers.toy_runs import instance_kme

import bagwise as bw
from bagwise.explanations import explain
from bagwise.intervals.order_statistics import fifths
from bagwise.regressors import PoolPredictions
from bagwise.reports import plots

rng = np.random.default_rng(0)
Y = rng.normal(size=40)
PREDICTED = Y + 0.3 * rng.normal(size=40)
BAGS = bw.from_arrays([y + rng.normal(size=(rng.integers(1, 9), 2)) for y in Y], feature_names=["a", "b"])


@pytest.fixture
def axis():
    return Figure().subplots()


def scattered(axis):
    return [np.asarray(c.get_offsets()) for c in axis.collections if type(c).__name__ == "PathCollection"]


def segments(axis):
    return [np.array(c.get_segments()) for c in axis.collections if type(c).__name__ == "LineCollection"]


def test_predicted_against_true(axis):
    assert plots.predicted_against_true(axis, Y, PREDICTED, unit="cm") is axis
    np.testing.assert_allclose(scattered(axis)[0], np.column_stack([Y, PREDICTED]))
    (diagonal,) = axis.lines
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert axis.get_facecolor() == (0.0, 0.0, 0.0, 0.0) and to_hex(axis.xaxis.label.get_color()) == plots.INK
    assert axis.get_xlabel() == "target (cm)" and not segments(axis)
    assert f"RMSE {np.sqrt(np.mean((PREDICTED - Y) ** 2)):.4g}" in axis.get_title()


@pytest.mark.parametrize("given", [{"target": "aod"}, {}])
def test_the_target_has_the_name_that_the_user_gives_it(axis, given):
    y = pd.Series(Y, name=None if given else "aod")
    assert plots.predicted_against_true(axis, y, PREDICTED, unit="cm", **given).get_xlabel() == "aod (cm)"
    assert axis.get_ylabel() == "predicted aod (cm)"
    assert plots.residuals_against_size(axis, y, PREDICTED, BAGS.sizes, **given).get_ylabel() == "aod - prediction"
    assert plots.bag_distributions(axis, BAGS, y, **given).get_xlabel() == "bags, by aod"


def test_intervals_that_miss_are_another_colour(axis):
    intervals = np.column_stack([PREDICTED - 0.3, PREDICTED + 0.3])
    plots.predicted_against_true(axis, Y, PREDICTED, intervals=intervals)
    missed = np.abs(Y - PREDICTED) > 0.3
    assert 0 < missed.sum() < 40
    for drawn, dots, part in zip(segments(axis), scattered(axis), (~missed, missed), strict=True):
        np.testing.assert_allclose(drawn[:, :, 0], np.column_stack([Y[part]] * 2))
        np.testing.assert_allclose(drawn[:, :, 1], intervals[part])
        np.testing.assert_allclose(dots, np.column_stack([Y[part], PREDICTED[part]]))
    colours = [to_hex(c.get_edgecolor()[0]) for c in axis.collections if type(c).__name__ == "LineCollection"]
    assert colours == [plots.BLUE, plots.ORANGE] and f"{np.mean(~missed):.0%} inside" in axis.get_title()


def test_residuals_against_size(axis):
    assert plots.residuals_against_size(axis, Y, PREDICTED, BAGS.sizes) is axis
    np.testing.assert_allclose(scattered(axis)[0], np.column_stack([BAGS.sizes, Y - PREDICTED]))
    bands = [c for c in axis.collections if isinstance(c, PolyCollection)]
    part = fifths(BAGS.sizes)
    errors = [np.sqrt(np.mean((Y - PREDICTED)[part == k] ** 2)) for k in np.unique(part)]
    np.testing.assert_allclose([band.get_paths()[0].vertices[:, 1].max() for band in bands], errors)
    assert axis.get_xscale() == "linear"
    plots.residuals_against_size(axis, Y, PREDICTED, np.geomspace(1, 100, 40))
    assert axis.get_xscale() == "log"


def test_fold_scores(axis):
    scores = {"good": [1.0, 2.0], "bad": [5.0, 7.0, 9.0]}
    assert plots.fold_scores(axis, scores, metric="MAE") is axis
    assert [text.get_text() for text in axis.get_yticklabels()] == ["bad", "good"]
    dots, means = scattered(axis)[::2], scattered(axis)[1::2]
    assert [part.tolist() for part in dots] == [[[5, 0], [7, 0], [9, 0]], [[1, 1], [2, 1]]]
    assert [part.tolist() for part in means] == [[[7, 0]], [[1.5, 1]]]
    with pytest.raises(ValueError, match="there are no scores to draw"):
        plots.fold_scores(axis, {})


def test_calibration(axis):
    assert plots.calibration(axis, [0.9, 0.5], [0.85, 0.55], n=80) is axis
    np.testing.assert_allclose(axis.lines[1].get_xydata(), [[0.5, 0.55], [0.9, 0.85]])
    (band,) = (c for c in axis.collections if isinstance(c, PolyCollection))
    corners = band.get_paths()[0].vertices
    at = corners[np.isclose(corners[:, 0], 0.5), 1]
    np.testing.assert_allclose([at.min(), at.max()], binom.ppf([0.025, 0.975], 80, 0.5) / 80)
    assert np.isfinite(corners).all()
    with pytest.raises(ValueError, match="levels and coverage are shares, between 0 and 1"):
        plots.calibration(axis, [90.0], [0.85])


def test_bag_distributions_of_a_feature(axis):
    assert plots.bag_distributions(axis, BAGS, Y, feature="b") is axis
    order = np.argsort(Y)
    expected = np.array([np.quantile(BAGS[int(i)][:, 1], [0.1, 0.5, 0.9]) for i in order])
    np.testing.assert_allclose(segments(axis)[0][:, :, 1], expected[:, [0, 2]])
    np.testing.assert_allclose(scattered(axis)[0], np.column_stack([np.arange(40), expected[:, 1]]))
    assert axis.get_ylabel() == "b" and len(scattered(axis)) == 1


def test_bag_distributions_of_predictions_show_the_targets(axis):
    plots.bag_distributions(axis, BAGS, Y, values=BAGS.instances[:, 0], most=7)
    medians, targets = scattered(axis)
    assert len(medians) == 7
    shown = np.sort(Y)[np.linspace(0, 39, 7).round().astype(int)]
    np.testing.assert_allclose(targets[:, 1], shown)


@pytest.mark.parametrize("n_covariates", [0, 1, 3])
def test_the_learned_function_is_at_the_mean_of_covariates(axis, n_covariates):
    bags = BAGS.with_covariates(rng.normal(size=(40, n_covariates))) if n_covariates else BAGS
    model = instance_kme().fit(bags, Y)
    predictions = model[:-1].transform(bags)
    assert plots.learned_function(axis, model[-1], predictions) is axis
    grid, h = (np.asarray(values) for values in axis.lines[1].get_data())
    alone = bw.from_arrays(list(grid[:, None]))
    if n_covariates:
        alone = alone.with_covariates(np.tile(bags.covariates.mean(axis=0), (len(grid), 1)))
    np.testing.assert_allclose(h, model[-1].predict(alone), rtol=1e-12)
    tops, edges, baseline = axis.patches[0].get_data()
    counts, _ = np.histogram(predictions.instances, bins=edges)
    np.testing.assert_allclose((tops - baseline) / (tops - baseline).max(), counts / counts.max())


@pytest.mark.parametrize(("kind", "line"), [("contributions", 1.0), ("weights", 1 / 3), ("leave-one-out", 0.0)])
def test_contributions(axis, kind, line):
    bags = bw.from_arrays([np.array([9.0]), np.array([2.0, 6.0, 1.0])], ids=["x", "<b>"])
    explanation = explain(PoolPredictions().fit(bags, [0.0, 1.0]), bags, kind=kind)
    assert plots.contributions(axis, explanation, 1) is axis
    np.testing.assert_allclose(scattered(axis)[0][:, 0], np.sort(explanation.values[1:]))
    np.testing.assert_allclose(axis.lines[0].get_xdata(), line)
    assert axis.get_title() == "Bag '<b>': prediction 3"


def test_map_of_bags(axis):
    longitude, latitude = rng.uniform(-10, 10, 40), rng.uniform(50, 70, 40)
    assert plots.map_of_bags(axis, longitude, latitude, PREDICTED, label="prediction") is axis
    (drawn,) = (c for c in axis.collections if type(c).__name__ == "PathCollection")
    np.testing.assert_allclose(drawn.get_offsets(), np.column_stack([longitude, latitude]))
    np.testing.assert_allclose(drawn.get_array(), PREDICTED)
    np.testing.assert_allclose(axis.get_aspect(), 1 / np.cos(np.radians(latitude.mean())))
    assert any(other.get_ylabel() == "prediction" for other in axis.figure.axes)


def test_residuals_on_a_map_are_centred(axis):
    residuals = np.array([-1.0, 0.5, 3.0])
    plots.map_of_bags(axis, [0, 1, 2], [0, 1, 2], residuals, centre=0.0)
    assert axis.collections[0].get_clim() == (-3.0, 3.0)
    with pytest.raises(ValueError, match="latitude must lie between -90 and 90 degrees, not 120"):
        plots.map_of_bags(axis, [0.0], [120.0], [1.0])


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda a: plots.predicted_against_true(a, Y, Y[1:]), "predicted has 39 values and y has 40; they must match"),
        (lambda a: plots.predicted_against_true(a, [], []), "y must hold finite numbers, at least one"),
        (lambda a: plots.residuals_against_size(a, Y, Y * np.nan, Y), "predicted must hold finite numbers"),
        (lambda a: plots.predicted_against_true(a, BAGS.instances, Y), "y should be a 1d array, got an array of shape"),
        (lambda a: plots.predicted_against_true(a, Y, Y, intervals=Y), r"for each of 40 bags, not shape \(40,\)"),
        (
            lambda a: plots.predicted_against_true(a, Y, Y, intervals=np.column_stack([Y + 1, Y])),
            "intervals must be finite, the lower bound first",
        ),
        (lambda a: plots.bag_distributions(a, BAGS, Y, feature="c"), "there is no feature 'c'; the features are a, b"),
        (lambda a: plots.bag_distributions(a, BAGS, Y, feature=2), "there is no feature 2"),
        (lambda a: plots.bag_distributions(a, BAGS, Y[1:]), "y has 39 values for 40 bags"),
        (lambda a: plots.bag_distributions(a, BAGS, Y, values=Y), "values has 40 entries for"),
        (lambda a: plots.learned_function(a, None, BAGS), "predictions must be Bags of one column"),
        (lambda a: plots.fold_scores(a, {"m": [np.nan]}), "m must hold finite numbers"),
    ],
)
def test_refusals(axis, draw, words):
    with pytest.raises(ValueError, match=words):
        draw(axis)


def luminance(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("background", ["#ffffff", "#14161a"])
def test_colours_are_read_on_light_and_dark(background):
    """The contrast ratio of WCAG; 3 is what it asks of graphics."""
    for colour in (plots.INK, *plots.SERIES):
        low, high = sorted([luminance(colour), luminance(background)])
        assert (high + 0.05) / (low + 0.05) > 3.5


def test_importance(axis):
    found = bw.importance(bw.method("aggregated").fit(BAGS, Y), BAGS, Y, repeats=1)
    plots.importance(axis, found, most=1)
    assert [label.get_text() for label in axis.get_yticklabels()] == [found.names[0]]
    drawn = [container.lines[0].get_xdata()[0] for container in axis.containers]
    assert drawn == [found.rise[part][0] for part in ("whole", "mean", "spread")]
    assert "the RMSE gets worse" in axis.get_xlabel()


def test_a_learning_curve_is_drawn_as_measured_and_beyond(axis):
    bags, y = bw.datasets.make_problem("mean", 40)
    curve = bw.learning_curve("aggregated", bags, y, repeats=1, folds=2, sizes=[8, 11, 15, 20])
    assert plots.learning_curve(axis, curve) is axis
    law, measured, now = axis.lines[0], axis.lines[1], axis.lines[-1]
    assert measured.get_ydata().tolist() == curve.errors.tolist() and now.get_xdata()[0] == 40
    assert law.get_xdata()[-1] == pytest.approx(80) and law.get_ydata()[-1] == pytest.approx(curve.predict(80)[0])
