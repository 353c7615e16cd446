"""Rows of a chart that is as wide as the page: places in per cent, so that text and dots keep their size."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from bagwise.reports.numbers import shown
from bagwise.reports.svg import tag, tick_labels, ticks


def strip(values, names, *, low: float, high: float) -> Markup:
    """A dot for every split, and the mean as a bar; hovering a dot tells which split it is."""
    values = np.asarray(values, float)
    known = np.flatnonzero(np.isfinite(values))
    marks = []
    for rank, i in enumerate(known.tolist()):
        height = 15 + (-6, 0, 6, 3, -3)[rank % 5]  # so that equal scores can be told apart
        told = tag("title", f"{names[i]}: {shown(values[i])}")
        marks.append(tag("circle", told, cx=_at(values[i], low, high), cy=height, r=3, class_="point"))
    if len(known):
        place = _at(values[known].mean(), low, high)
        marks.append(tag("line", x1=place, x2=place, y1=2, y2=28, class_="mean"))
    return _row(*marks, title=f"{len(known)} scores")


def difference(mean, error, *, low: float, high: float, sure: bool) -> Markup:
    """A paired difference with its 95 % interval, and zero."""
    zero = _at(0.0, low, high)
    marks = [tag("line", x1=zero, x2=zero, y1=0, y2=30, class_="reference")]
    kind = "sure" if sure else "unsure"
    if np.isfinite(error):
        ends = {"x1": _at(mean - error, low, high), "x2": _at(mean + error, low, high)}
        marks.append(tag("line", **ends, y1=15, y2=15, class_=f"whisker {kind}"))
    marks.append(tag("circle", cx=_at(mean, low, high), cy=15, r=4, class_=f"gap {kind}"))
    return _row(*marks, title=f"difference {shown(mean, sign=True)}")


def row_axis(low: float, high: float) -> Markup:
    """The axis below such rows."""
    values = ticks(low, high, 4)
    texts = []
    for value, label in zip(values, tick_labels(values), strict=True):
        texts.append(tag("line", x1=_at(value, low, high), x2=_at(value, low, high), y1=0, y2=4, class_="tick"))
        texts.append(tag("text", label, x=_at(value, low, high), y=18, class_="middle"))
    return tag("svg", *texts, class_="row axis", aria_hidden="true")


def _row(*marks, title: str) -> Markup:
    return tag("svg", *marks, class_="row", role="img", aria_label=title)


def _at(value: float, low: float, high: float) -> str:
    return f"{3 + 94 * (value - low) / ((high - low) or 1.0):.2f}%"
