"""Plots of predictions and bags in one style; each function draws on an axis of matplotlib and returns it.

Backgrounds are transparent, so all colours must be legible on white and on near black: each has a contrast of at least
3 to both. The three colours of the series are distinguishable for the colour-blind.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom
from sklearn.utils import column_or_1d

from bagwise.bags import Bags, check_bags
from bagwise.bags.segments import segment_quantiles
from bagwise.bags.validation import aligned, label
from bagwise.explanations.explanation import function_on_grid
from bagwise.intervals.order_statistics import fifths
from bagwise.metrics import get_metric

__all__ = [
    "bag_distributions",
    "calibration",
    "contributions",
    "fold_scores",
    "importance",
    "learned_function",
    "learning_curve",
    "map_of_bags",
    "predicted_against_true",
    "residuals_against_size",
]

INK = "#7a808a"  # text, ticks, lines to compare with
BLUE, ORANGE, TEAL = SERIES = ("#2f84c8", "#d9660b", "#12927a")
SEQUENTIAL, DIVERGING = "cividis", "PuOr"  # distinguishable for the colour-blind


def quiet(axis, *, xlabel: str = "", ylabel: str = "", title: str = ""):
    """Set labels, and remove box and background."""
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    for text in (axis.xaxis.label, axis.yaxis.label, axis.title):
        text.set_color(INK)
    axis.set_facecolor("none")
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(INK)
    axis.tick_params(which="both", colors=INK)
    return axis


def legend(axis, **options) -> None:
    """Add a legend without a frame, its text in the colour of the axis."""
    axis.legend(frameon=False, labelcolor=INK, **options)


def log_scale(axis) -> None:
    """Use a logarithmic x axis with 1, 2, 5, 10, ... (powers of ten alone if those are many) as plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set(xscale="log")
    low, high = axis.get_xlim()
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def columns(**named) -> list[np.ndarray]:
    """Return the arrays as columns of numbers; raise an error for unequal lengths or non-finite values."""
    (first, length), arrays = next((name, len(values)) for name, values in named.items()), []
    for name, values in named.items():
        array = np.asarray(values, dtype=np.float64)
        if not (array.size and np.isfinite(array).all()):
            raise ValueError(f"{name} must hold finite numbers, at least one; drop what is missing before drawing")
        if len(array) != length:
            raise ValueError(f"{name} has {len(array)} values and {first} has {length}; they must match")
        arrays.append(column_or_1d(array))
    return arrays


MARGIN = 0.08  # beside the outermost dots, as a share of their range


def predicted_against_true(axis, y, predicted, *, intervals=None, target: str | None = None, unit: str = ""):
    """Draw predictions against targets, with the identity line, and intervals if given.

    Parameters
    ----------
    axis : matplotlib axis
    y, predicted : one number per bag
    intervals : array (bags, 2), optional
        As of ``predict_interval``; those that miss the target are drawn in another colour.
    target : str, optional
        What the target is called on the axis; default: the name of ``y``, if it is a column of a data frame.
    unit : str
        Unit of the target.
    """
    name = _target_name(y, target)
    y, predicted = columns(y=y, predicted=predicted)
    ends = np.array([min(y.min(), predicted.min()), max(y.max(), predicted.max())])
    margin = MARGIN * (np.ptp(ends) or abs(ends[0]) or 1.0)
    limits = ends[0] - margin, ends[1] + margin
    axis.set(xlim=limits, ylim=limits)  # a few very wide intervals must not squeeze the dots
    axis.plot(ends, ends, color=INK, linewidth=1)
    missed = np.zeros(len(y), dtype=bool)
    text = f"RMSE {np.sqrt(np.mean((predicted - y) ** 2)):.4g}"
    if intervals is not None:
        bounds = np.asarray(intervals, dtype=np.float64)
        if bounds.shape != (len(y), 2):
            raise ValueError(f"intervals must have two bounds for each of {len(y)} bags, not shape {bounds.shape}")
        if not np.isfinite(bounds).all() or (bounds[:, 0] > bounds[:, 1]).any():
            raise ValueError("intervals must be finite, the lower bound first")
        missed = (y < bounds[:, 0]) | (y > bounds[:, 1])
        text += f", {np.mean(~missed):.0%} inside"
        for part, colour in ((~missed, BLUE), (missed, ORANGE)):
            axis.vlines(y[part], *bounds[part].T, color=colour, alpha=0.4, linewidth=1)
    for part, colour in ((~missed, BLUE), (missed, ORANGE)):
        axis.scatter(y[part], predicted[part], s=14, color=colour, alpha=0.8, linewidths=0)
    labels = [name, "prediction" if name == "target" else f"predicted {name}"]
    labels = [f"{label} ({unit})" if unit else label for label in labels]
    return quiet(axis, xlabel=labels[0], ylabel=labels[1], title=f"Predicted against true ({text})")


def residuals_against_size(axis, y, predicted, sizes, *, target: str | None = None, metric: str = "rmse"):
    """Draw residuals over bag sizes, and ± the error in fifths of the sizes.

    Parameters
    ----------
    axis : matplotlib axis
    y, predicted : one number per bag
    sizes : number of instances of every bag
    target : str, optional
        What the target is called on the axis; default: the name of ``y``, if it is a column of a data frame.
    metric : str, default "rmse"
        Name of the error of the fifths.
    """
    name = _target_name(y, target)
    y, predicted, sizes = columns(y=y, predicted=predicted, sizes=sizes)
    residuals = y - predicted
    axis.axhline(0.0, color=INK, linewidth=1)
    axis.scatter(sizes, residuals, s=14, color=BLUE, alpha=0.8, linewidths=0)
    part = fifths(sizes)
    for k in np.unique(part):
        error = get_metric(metric)(y[part == k], predicted[part == k])
        ends = np.array([sizes[part == k].min(), sizes[part == k].max()])
        axis.fill_between(ends, -error, error, color=ORANGE, alpha=0.25, linewidth=0)
    if sizes.max() >= 10 * sizes.min():
        log_scale(axis)
    return quiet(axis, xlabel="instances in the bag", ylabel=f"{name} - prediction", title="Residuals by bag size")


def fold_scores(axis, scores, *, metric: str = "RMSE"):
    """Draw the score of each method in each fold, and its mean; the method of the lowest mean is on top.

    Parameters
    ----------
    axis : matplotlib axis
    scores : dict of method name -> scores, one per fold, lower being better
    metric : str
        What they are.
    """
    if not scores:
        raise ValueError("there are no scores to draw; give a dict of method name -> scores of its folds")
    folds = dict(zip(scores, (columns(**{str(name): values})[0] for name, values in scores.items()), strict=True))
    order = sorted(folds, key=lambda name: folds[name].mean(), reverse=True)
    for place, name in enumerate(order):
        axis.scatter(folds[name], np.full(len(folds[name]), place), s=16, color=BLUE, alpha=0.6, linewidths=0)
        axis.scatter([folds[name].mean()], [place], s=90, marker="|", color=ORANGE, linewidths=2.5)
    axis.set_yticks(range(len(order)), [str(name) for name in order])
    return quiet(axis, xlabel=f"{metric} of a fold, and the mean", title=f"{metric} by fold")


def calibration(axis, levels, coverage, *, n: int | None = None):
    """Draw the share of targets inside their intervals against the nominal level.

    Parameters
    ----------
    axis : matplotlib axis
    levels, coverage : between 0 and 1
    n : int, optional
        The number of bags: then a band shows where 95 percent of correct intervals would be by chance.
    """
    levels, coverage = columns(levels=levels, coverage=coverage)
    if min(levels.min(), coverage.min()) < 0 or max(levels.max(), coverage.max()) > 1:
        raise ValueError("levels and coverage are shares, between 0 and 1")
    if n is not None:
        at = np.linspace(0.0, 1.0, 201)
        low, high = binom.ppf([[0.025], [0.975]], n, at) / n
        band = {"color": INK, "alpha": 0.25, "linewidth": 0, "label": "chance, 95 percent"}
        axis.fill_between(at, np.maximum(low, 0.0), high, **band)
    order = np.argsort(levels)
    axis.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    axis.plot([0.0, 1.0], [0.0, 1.0], color=INK, linewidth=1)
    axis.plot(levels[order], coverage[order], color=BLUE, marker="o", markersize=4, label="intervals")
    legend(axis, loc="upper left")
    return quiet(axis, xlabel="nominal level", ylabel="share inside", title="Coverage of intervals")


def learning_curve(axis, curve, *, upto: float = 2.0):
    """Draw the error at each size with its interval, and the fitted law up to ``upto`` times the data.

    Parameters
    ----------
    axis : matplotlib axis
    curve : LearningCurve
        What `bagwise.learning_curve` gives.
    upto : float
        How far beyond the data the law is drawn.
    """
    table, noun = curve.as_dict(), "bags" if curve.over == "bags" else "instances per bag"
    at = np.geomspace(curve.sizes[0], max(curve.now * upto, curve.sizes[-1]), 60)
    law, low, high = np.array([curve.predict(size) for size in at]).T
    axis.fill_between(at, low, high, color=INK, alpha=0.25, linewidth=0, label=f"law, {curve.level:.0%} interval")
    axis.plot(at, law, color=INK, linewidth=1)
    errors = [curve.errors - table["low"], np.asarray(table["high"]) - curve.errors]
    how = {"fmt": "o", "color": BLUE, "markersize": 4, "elinewidth": 1, "label": "measured"}
    axis.errorbar(curve.sizes, curve.errors, yerr=np.maximum(errors, 0), **how)
    axis.axvline(curve.now, color=ORANGE, linewidth=1, label="now")
    log_scale(axis)
    legend(axis, loc="upper right")
    return quiet(axis, xlabel=noun, ylabel=get_metric(curve.metric).label, title=f"Learning curve over {noun}")


# What the numbers of an explanation are called, and where an instance like all others would be.
STRIPS = {
    "contributions": ("what the instance adds to the prediction", lambda prediction, size: prediction / size),
    "weights": ("weight of the instance", lambda prediction, size: 1.0 / size),
    "leave-one-out": ("prediction, minus that without the instance", lambda prediction, size: 0.0),
}


def bag_distributions(axis, bags, y, *, feature: int | str = 0, values=None, most: int = 60, target: str | None = None):
    """Draw a bar per bag from its 10 to its 90 percent quantile and a dot at its median, ordered by target.

    Parameters
    ----------
    axis : matplotlib axis
    bags : Bags
    y : one target per bag
    feature : int or str
        The position or the name of the feature to show.
    values : array (instances,), optional
        Shown instead of a feature: the predictions of the instances, for example. The targets are then drawn as
        well, since they are in the same unit.
    most : int
        Largest number of bags shown; if there are more, evenly spaced ones.
    target : str, optional
        What the target is called on the axis; default: the name of ``y``, if it is a column of a data frame.
    """
    bags = check_bags(bags, allow_weights=True, apart=True)
    target = _target_name(y, target or (bags.target_name if isinstance(bags.target_name, str) else None))
    (y,) = columns(y=aligned(y, bags))
    if len(y) != len(bags):
        raise ValueError(f"y has {len(y)} values for {len(bags)} bags; give one per bag")
    if values is None:
        names = list(bags.feature_names or [f"feature {j}" for j in range(bags.n_features)])
        exists = feature in names if isinstance(feature, str) else 0 <= feature < bags.n_features
        if not exists:
            raise ValueError(f"there is no feature {feature!r}; the features are {', '.join(names[:8])}")
        position = names.index(feature) if isinstance(feature, str) else feature
        shown, name = bags.instances[:, position], names[position]
    else:
        (shown,), name = columns(values=values), "value of an instance"
        if len(shown) != bags.n_instances:
            raise ValueError(f"values has {len(shown)} entries for {bags.n_instances} instances; give one per instance")
    order = np.argsort(y, kind="stable")
    order = order[np.unique(np.linspace(0, len(y) - 1, min(most, len(y))).round().astype(int))]
    low, middle, high = segment_quantiles(shown, bags.offsets, [0.1, 0.5, 0.9])[order].T
    at = np.arange(len(order))
    axis.vlines(at, low, high, color=BLUE, alpha=0.5, linewidth=3)
    axis.scatter(at, middle, s=14, color=BLUE, linewidths=0, label="median of the bag")
    if values is not None:
        axis.scatter(at, y[order], s=18, marker="_", color=ORANGE, label=target)
        legend(axis, loc="upper left")
    axis.set_xticks([])
    return quiet(axis, xlabel=f"bags, by {target}", ylabel=name, title="Distribution in each bag (10 to 90 percent)")


def learned_function(axis, head, predictions):
    """Draw the function h from instance prediction to contribution, over the histogram of the instances.

    Parameters
    ----------
    axis : matplotlib axis
    head : fitted last step of a method such as instance-kme:single, ``model[-1]``
    predictions : Bags of one column, ``model[:-1].transform(bags)``
        If they carry covariates, h is that of a bag with the mean of each.
    """
    if not isinstance(predictions, Bags) or predictions.n_features != 1:
        raise ValueError(
            "predictions must be Bags of one column: model[:-1].transform(bags) of a method like instance-kme:single"
        )
    grid, h = function_on_grid(head, predictions)
    counts, edges = np.histogram(predictions.instances[:, 0], bins=40, range=(grid[0], grid[-1]))
    bottom, top = min(h.min(), grid[0]), max(h.max(), grid[-1])
    tops = bottom + (top - bottom) / 4 * counts / max(counts.max(), 1)  # the lower quarter
    axis.stairs(tops, edges, baseline=bottom, fill=True, color=INK, alpha=0.3)
    axis.plot(grid, grid, color=INK, linewidth=1, label="identity: the plain mean")
    axis.plot(grid, h, color=BLUE, linewidth=2, label="h, learned")
    legend(axis, loc="upper left")
    title = "A bag's prediction is the mean of h over its instances"
    return quiet(axis, xlabel="prediction of an instance", ylabel="h, its contribution to the target", title=title)


def contributions(axis, explanation, bag: int = 0):
    """Draw the instances of one bag by their part in its prediction, the largest on top.

    Parameters
    ----------
    axis : matplotlib axis
    explanation : of `bagwise.explain`, of any kind
    bag : int
        Its position. A line shows where an instance would be if all were alike.
    """
    bags = explanation.bags
    rows, prediction = bags.rows([bag]), float(explanation.predictions[bag])
    values = np.sort(explanation.values[rows])
    name, alike = STRIPS[explanation.kind]
    at, line = np.arange(len(values)), alike(prediction, len(values))
    axis.axvline(line, color=INK, linewidth=1)
    axis.hlines(at, line, values, color=BLUE, alpha=0.5, linewidth=1)
    axis.scatter(values, at, s=18, color=BLUE, linewidths=0)
    axis.locator_params(axis="x", nbins=5)
    axis.set_yticks([])
    title = f"Bag {label(bags.ids[bag])}: prediction {prediction:.4g}"
    return quiet(axis, xlabel=name, ylabel=f"{len(values):,} instances", title=title)


def importance(axis, measured, *, most: int = 15):
    """Draw how much worse the metric gets when features are exchanged between bags, with standard errors.

    Parameters
    ----------
    axis : matplotlib axis
    measured : `bagwise.Importance`
    most : int
        How many features or groups are drawn, the most important ones.
    """
    names = list(measured.names[:most])[::-1]
    marks, n_parts = dict(zip(("whole", "mean", "spread"), "osD", strict=True)), len(measured.rises)
    for k, part in enumerate(measured.rises):
        rise, error = measured.rise[part][:most][::-1], measured.error[part][:most][::-1]
        place = np.arange(len(names)) + 0.2 * ((n_parts - 1) / 2 - k)
        colour = SERIES[list(marks).index(part)]
        axis.errorbar(rise, place, xerr=error, fmt=marks[part], color=colour, markersize=5, linewidth=1, label=part)
    axis.axvline(0.0, color=INK, linewidth=1)
    axis.set_yticks(np.arange(len(names)), names)
    if n_parts > 1:
        legend(axis, loc="lower right")
    title = "Importance (Held-out bags)" if measured.held_out else "Importance (Bags given)"
    label = f"how much the {get_metric(measured.metric).label} gets worse, ± standard error"
    return quiet(axis, xlabel=label, title=title)


def _target_name(y, target: str | None) -> str:
    """Return the name of the target: the argument, else the name of a pandas or polars column."""
    name = getattr(y, "name", None)
    return target or (name if isinstance(name, str) and name else "target")


STEEPEST = 85.0  # degrees: nearer to a pole a degree of longitude is next to nothing


def map_of_bags(axis, longitude, latitude, values, *, centre: float | None = None, label: str = ""):
    """Draw a point per bag at its place, coloured by its prediction, its target, or its residual.

    Parameters
    ----------
    axis : matplotlib axis
        Its figure gets a colour bar as well.
    longitude, latitude : degrees, one per bag
        For bags made of a table, the means of the two columns over the instances of each bag, or bag-level columns.
    values : one number per bag
    centre : float, optional
        For residuals 0: two colours part there, and equal distances from it look equally strong.
    label : str
        What the values are.
    """
    longitude, latitude, values = columns(longitude=longitude, latitude=latitude, values=values)
    if np.abs(latitude).max() > 90.0:
        raise ValueError(f"latitude must lie between -90 and 90 degrees, not {latitude[np.abs(latitude).argmax()]:g}")
    reach = None if centre is None else float(np.abs(values - centre).max()) or 1.0
    limits = {} if centre is None else {"vmin": centre - reach, "vmax": centre + reach}
    # The thin rim keeps the palest and the darkest visible on any background.
    colours = SEQUENTIAL if centre is None else DIVERGING
    points = axis.scatter(longitude, latitude, c=values, cmap=colours, s=32, edgecolors=INK, linewidths=0.6, **limits)
    bar = axis.figure.colorbar(points, ax=axis)
    bar.set_label(label, color=INK)
    bar.ax.tick_params(colors=INK)
    bar.outline.set_edgecolor(INK)
    middle = np.clip(latitude.mean(), -STEEPEST, STEEPEST)
    axis.set_aspect(1.0 / np.cos(np.radians(middle)))
    return quiet(axis, xlabel="longitude", ylabel="latitude", title="Where the bags are")
