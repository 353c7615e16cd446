"""The plots of a report: arrays in, one piece of SVG out."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from scipy.stats import binom

from bagwise.reports.held_out import HeldOut, size_fifths
from bagwise.reports.svg import Scale, bars, dots, line, span, tag, tick_labels

WIDTH, HEIGHT = 340, 270
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 10, 40
MOST_DOTS = 800


def predicted_against_true(held: HeldOut) -> Markup:
    """Every bag at (target, prediction) with its interval; the line on which predictions would be right."""
    kept = _thinned(len(held.target))
    target, prediction = held.target[kept], held.prediction[kept]
    half = np.where(np.isfinite(held.half_widths()), held.half_widths(), 0.0)[kept]
    inside = held.covered()[kept]
    # A few very wide intervals must not squeeze the rest.
    low, high = span(held.target, held.prediction, margin=0.08)
    x, y = _x(low, high), _y(low, high)
    ends = np.clip(y(prediction - half), TOP, HEIGHT - BOTTOM), np.clip(y(prediction + half), TOP, HEIGHT - BOTTOM)
    parts = [line(x([low, high]), y([low, high]), class_="reference")]
    parts += [] if held.in_sample else [bars(x(target), *ends)]
    parts += [dots(x(target[part]), y(prediction[part]), class_=name) for part, name in _marks(inside, held)]
    what = "prediction of training bags" if held.in_sample else "held-out prediction"
    return _frame(x, y, "target", what, *parts, title=f"{held.label}: {what} against target of {len(target)} bags")


def _marks(inside: np.ndarray, held: HeldOut):
    return [(slice(None), "dot")] if held.in_sample else [(inside, "dot"), (~inside, "dot odd")]


def residuals_against_size(held: HeldOut) -> Markup:
    """Residuals over bag sizes, and ± their root mean square in fifths of the sizes."""
    kept = _thinned(len(held.target))
    low, high = int(held.size.min()), int(held.size.max())
    log = high >= 10 * low
    x = _x(low / 1.1, high * 1.1, log=True) if log else _x(*span([low, high]))
    top = max(abs(end) for end in span(held.residual, margin=0.05))
    y = _y(-top, top)
    boxes = []
    for part in size_fifths(held):
        left, right = float(x(part["low"])), float(x(part["high"]))
        box = {"x": left - 1.5, "width": right - left + 3, "y": float(y(part["rmse"])), "class_": "band"}
        boxes.append(tag("rect", **box, height=float(y(-part["rmse"]) - y(part["rmse"]))))
    zero = line(x([x.low, x.high]), y([0, 0]), class_="reference")
    points = dots(x(held.size[kept]), y(held.residual[kept]))
    label = "instances in the bag" + (" (log)" if log else "")
    return _frame(x, y, label, "target − prediction", *boxes, zero, points, title=f"{held.label}: residual by bag size")


def calibration(held: HeldOut) -> Markup:
    """Share of targets inside their intervals against the nominal level; the band is what luck alone would do."""
    points = np.array(held.calibration())
    n = len(held.target)
    x, y = _x(0, 1), _y(0, 1)
    levels = np.linspace(0.01, 0.99, 50)
    low, high = binom.ppf(0.025, n, levels) / n, binom.ppf(0.975, n, levels) / n
    outline = zip(np.r_[x(levels), x(levels[::-1])].tolist(), np.r_[y(low), y(high[::-1])].tolist(), strict=True)
    band = tag("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in outline), class_="band")
    parts = [band, line(x([0, 1]), y([0, 1]), class_="reference"), line(x(points[:, 0]), y(points[:, 1]))]
    parts.append(dots(x(points[:, 0]), y(points[:, 1])))
    title = f"{held.label}: share of targets inside intervals against their nominal level"
    return _frame(x, y, "nominal level", "share inside", *parts, title=title)


def learned_function(grid, h, counts) -> Markup:
    """h over instance predictions, the identity beside it, and how many instances lie where."""
    x, y = _x(float(grid[0]), float(grid[-1])), _y(*span(h, grid, margin=0.05))
    counts = np.asarray(counts, float)
    edges = np.linspace(x.start, x.stop, len(counts) + 1)
    tops = (HEIGHT - BOTTOM) - 60 * counts / max(counts.max(), 1.0)
    steps = "".join(f"V{top:.1f}H{right:.1f}" for top, right in zip(tops.tolist(), edges[1:].tolist(), strict=True))
    density = tag("path", d=f"M{edges[0]:.1f} {HEIGHT - BOTTOM}{steps}V{HEIGHT - BOTTOM}Z", class_="band")
    identity = line(x(grid), y(grid), class_="reference")
    return _frame(
        x, y, "prediction of an instance", "h, its say", density, identity, line(x(grid), y(h)), title="learned h"
    )


def _x(low: float, high: float, *, log: bool = False) -> Scale:
    return Scale(low, high, LEFT, WIDTH - RIGHT, log)


def _y(low: float, high: float) -> Scale:
    return Scale(low, high, HEIGHT - BOTTOM, TOP)


def _frame(x: Scale, y: Scale, xlabel: str, ylabel: str, *inside, title: str) -> Markup:
    parts = []
    for value, label in zip(x.ticks(), tick_labels(x.ticks()), strict=True):
        at = float(x(value))
        parts.append(tag("line", x1=at, x2=at, y1=TOP, y2=HEIGHT - BOTTOM, class_="grid"))
        parts.append(tag("text", label, x=at, y=HEIGHT - BOTTOM + 15, class_="middle"))
    for value, label in zip(y.ticks(), tick_labels(y.ticks()), strict=True):
        at = float(y(value))
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        parts.append(tag("text", label, x=LEFT - 6, y=at + 3.5, class_="end"))
    parts.append(tag("text", xlabel, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="middle name"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(tag("text", ylabel, transform=f"translate(11 {middle:.0f}) rotate(-90)", class_="middle name"))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", *parts, *inside, viewBox=box, role="img", aria_label=title, class_="plot")


def _thinned(n: int) -> np.ndarray:
    """Positions of at most so many points, spread evenly: a page must stay small."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_DOTS)).round().astype(int))
