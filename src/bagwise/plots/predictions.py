"""How good the predictions are: against the targets, by bag size, fold by fold; and how honest the intervals."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from bagwise.plots.inputs import as_intervals, columns
from bagwise.plots.style import BLUE, INK, ORANGE, LogLocator, NullFormatter, ScalarFormatter, legend, quiet

FIFTHS = 5


def predicted_against_true(axis, y, predicted, *, intervals=None, unit: str = ""):
    """Predictions against targets, with the line on which they would be right, and intervals if given.

    Parameters
    ----------
    axis : matplotlib axis
    y, predicted : one number per bag
    intervals : array (bags, 2), optional
        As of ``predict_interval``; those that miss the target are drawn in another colour.
    unit : str
        What the target is measured in.

    Returns
    -------
    the axis
    """
    y, predicted = columns(y=y, predicted=predicted)
    ends = [min(y.min(), predicted.min()), max(y.max(), predicted.max())]
    axis.plot(ends, ends, color=INK, linewidth=1)
    missed = np.zeros(len(y), dtype=bool)
    if intervals is not None:
        low, high = as_intervals(intervals, len(y)).T
        missed = (y < low) | (y > high)
        for part, colour in ((~missed, BLUE), (missed, ORANGE)):
            axis.vlines(y[part], low[part], high[part], color=colour, alpha=0.4, linewidth=1)
    for part, colour in ((~missed, BLUE), (missed, ORANGE)):
        axis.scatter(y[part], predicted[part], s=14, color=colour, alpha=0.8, linewidths=0)
    unit = f" ({unit})" if unit else ""
    told = f"RMSE {np.sqrt(np.mean((predicted - y) ** 2)):.4g}"
    if intervals is not None:
        told += f", {np.mean(~missed):.0%} inside"
    return quiet(axis, xlabel=f"target{unit}", ylabel=f"prediction{unit}", title=f"Predicted against true ({told})")


def residuals_against_size(axis, y, predicted, sizes):
    """Residuals over bag sizes, and ± their root mean square in fifths of the sizes: do small bags err more?"""
    y, predicted, sizes = columns(y=y, predicted=predicted, sizes=sizes)
    residuals = y - predicted
    axis.axhline(0.0, color=INK, linewidth=1)
    axis.scatter(sizes, residuals, s=14, color=BLUE, alpha=0.8, linewidths=0)
    for part in np.array_split(np.argsort(sizes, kind="stable"), min(FIFTHS, len(sizes))):
        error = np.sqrt(np.mean(residuals[part] ** 2))
        axis.fill_between(sizes[part[[0, -1]]], -error, error, color=ORANGE, alpha=0.25, linewidth=0)
    if sizes.max() >= 10 * sizes.min():
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_formatter(NullFormatter())
    return quiet(axis, xlabel="instances in the bag", ylabel="target - prediction", title="Residuals by bag size")


def fold_scores(axis, scores, *, metric: str = "RMSE"):
    """The score of every method in every fold, and its mean; the method of the lowest mean is on top.

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
    """The share of targets inside their intervals against the level they were made for.

    Parameters
    ----------
    axis : matplotlib axis
    levels, coverage : between 0 and 1
    n : int, optional
        The number of bags: then a band shows where 95 percent of right intervals would be, by luck alone.
    """
    levels, coverage = columns(levels=levels, coverage=coverage)
    if min(levels.min(), coverage.min()) < 0 or max(levels.max(), coverage.max()) > 1:
        raise ValueError("levels and coverage are shares, between 0 and 1")
    if n is not None:
        at = np.linspace(0.0, 1.0, 201)
        low, high = binom.ppf([[0.025], [0.975]], n, at) / n
        axis.fill_between(at, np.maximum(low, 0.0), high, color=INK, alpha=0.25, linewidth=0, label="luck, 95 percent")
    order = np.argsort(levels)
    axis.plot([0, 1], [0, 1], color=INK, linewidth=1)
    axis.plot(levels[order], coverage[order], color=BLUE, marker="o", markersize=4, label="intervals")
    legend(axis, loc="upper left")
    return quiet(axis, xlabel="level", ylabel="share inside", title="Do intervals keep their promise?")
