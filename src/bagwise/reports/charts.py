"""The charts of a report as SVG elements, which take their colours from the page.

Figures that `plots` draws on axes of matplotlib are drawn by the same functions on an `SvgAxis`. matplotlib's own SVG
of them is eight times as large and takes ten times as long, and its colours do not follow the page's dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from bagwise.bags.segments import segment_mean
from bagwise.bags.validation import counted
from bagwise.io.table_output import NONE, aligned, percent, shown
from bagwise.metrics import get_metric
from bagwise.reports import plots
from bagwise.reports.findings import size_fifths
from bagwise.reports.plots import BLUE, INK, ORANGE
from bagwise.reports.verdict import LEVEL, HeldOut, Worth

WIDTH, HEIGHT = 340, 270
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 10, 40
MOST_DOTS = 800  # of one kind in a chart, so that a page stays small


def tag(name: str, *inside, **attributes) -> Markup:
    """Return an element with escaped attributes and texts; ``class_`` is class, ``stroke_width`` stroke-width.

    Examples
    --------
    >>> str(tag("text", "a < b", x=1.25, class_="label"))
    '<text x="1.2" class="label">a &lt; b</text>'
    """
    pairs = []
    for key, value in attributes.items():
        text = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
        pairs.append(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return Markup(f"<{name}{''.join(pairs)}>{Markup('').join(inside)}</{name}>")


@dataclass(frozen=True)
class Scale:
    """Numbers from ``low`` to ``high`` onto pixels from ``start`` to ``stop``, straight or by logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value):
        low, high, value = (np.log(v) if self.log else v for v in (self.low, self.high, np.asarray(value, float)))
        return self.start + (value - low) / ((high - low) or 1.0) * (self.stop - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        return log_ticks(self.low, self.high, most) if self.log else ticks(self.low, self.high, most)


def span(*values, margin: float = 0.04) -> tuple[float, float]:
    """Return the range of the finite numbers in arrays, with a margin on either side."""
    numbers = np.concatenate([np.ravel(np.asarray(array, float)) for array in values])
    numbers = numbers[np.isfinite(numbers)]
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
    extra = (high - low) * margin or abs(high) * margin or 1.0
    return low - extra, high + extra


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most ``most`` round numbers between two.

    Examples
    --------
    >>> ticks(0.03, 0.97), ticks(0, 1234, 4)
    ([0.2, 0.4, 0.6, 0.8], [0.0, 500.0, 1000.0])
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((n * power for n in (1, 2, 5) if n * power >= rough), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return 1, 2, 5, 10, ... between two numbers; powers of ten only if those are too many.

    Examples
    --------
    >>> log_ticks(1.5, 60), log_ticks(1, 20000)
    ([2.0, 5.0, 10.0, 20.0, 50.0], [1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [n * 10.0**p for p in powers for n in (1, 2, 5)]
    inside = [value for value in fine if low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9)]
    return inside if len(inside) <= most else [v for v in inside if math.log10(v) % 1 in (0.0, 1.0)] or inside[::2]


def tick_labels(values: list[float]) -> list[str]:
    """Return ticks as short text, all with the same decimals.

    Examples
    --------
    >>> tick_labels([0.0, 0.5, 1.0]), tick_labels([0.0, 2000.0]), tick_labels([0.0, 2e-7])
    (['0.0', '0.5', '1.0'], ['0', '2,000'], ['0', '2e-7'])
    """
    top = max((abs(v) for v in values), default=1.0)
    if top and not 1e-4 <= top < 1e7:
        return ["0" if v == 0 else aligned([v], 1)[0] for v in values]
    for decimals in range(9):
        if all(abs(round(v, decimals) - v) <= 1e-9 * top for v in values):
            break
    return [f"{v:,.{decimals}f}".replace("-", "−") for v in values]


def dots(x, y, *, radius: float = 2.2, class_: str = "dot") -> Markup:
    """Draw points as one path of zero-length strokes with round caps, a tenth of the size of circles."""
    d = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True))
    return tag("path", d=d, class_=class_, stroke_width=2.0 * radius)


def bars(x, low, high, *, class_: str = "bar") -> Markup:
    """Draw a vertical line for each x."""
    d = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(x.tolist(), low.tolist(), high.tolist(), strict=True))
    return tag("path", d=d, class_=class_)


def line(x, y, *, class_: str = "line") -> Markup:
    """Draw a line through points."""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True))
    return tag("polyline", points=points, class_=class_)


def staircase(edges, tops, floor: float, *, class_: str) -> Markup:
    """Draw the outline of a histogram."""
    steps = zip(np.asarray(tops).tolist(), np.asarray(edges)[1:].tolist(), strict=True)
    steps = "".join(f"V{top:.1f}H{right:.1f}" for top, right in steps)
    return tag("path", d=f"M{float(edges[0]):.1f} {floor}{steps}V{floor}Z", class_=class_)


def strip(values, names, *, low: float, high: float) -> Markup:
    """Draw a dot per split and the mean as a bar, at the edge if beyond it; the title of a dot names its split."""
    values = np.asarray(values, float)
    finite = np.flatnonzero(np.isfinite(values))
    marks = []
    for rank, i in enumerate(finite.tolist()):
        height = 15 + (-6, 0, 6, 3, -3)[rank % 5]  # so that equal scores do not overlap
        name = tag("title", f"{names[i]}: {shown(values[i])}")
        place = _at(np.clip(values[i], low, high), low, high)
        marks.append(tag("circle", name, cx=place, cy=height, r=3, class_="point"))
    if not len(finite):
        return _row(title="no score on any split")
    least, mean, most = (float(of(values[finite])) for of in (np.min, np.mean, np.max))
    place = _at(np.clip(mean, low, high), low, high)
    marks.append(tag("line", x1=place, x2=place, y1=2, y2=28, class_="mean"))
    text = f"{counted(len(finite), 'score')}, mean {shown(mean)}, from {shown(least)} to {shown(most)}"
    return _row(*marks, title=text)


def difference(mean, error, *, low: float, high: float, sure: bool) -> Markup:
    """Draw a paired difference with its 95 % interval, and zero."""
    zero = _at(0.0, low, high)
    marks = [tag("line", x1=zero, x2=zero, y1=0, y2=30, class_="reference")]
    kind = "sure" if sure else "unsure"
    if np.isfinite(error):
        ends = {"x1": _at(mean - error, low, high), "x2": _at(mean + error, low, high)}
        marks.append(tag("line", **ends, y1=15, y2=15, class_=f"whisker {kind}"))
    marks.append(tag("circle", cx=_at(mean, low, high), cy=15, r=4, class_=f"gap {kind}"))
    text = f"difference from the best {shown(mean, sign=True)}"
    return _row(*marks, title=text + (f" ± {shown(error, 2)}" if np.isfinite(error) else ""))


def row_axis(low: float, high: float) -> Markup:
    """Draw the axis below such rows."""
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


def draw_worth(label: str, worth: Worth) -> list[dict]:
    """Return the rows of the first chart: errors of the baselines and the model as bars, and the share covered."""
    top = max(*worth.baseline_errors.values(), worth.error + 2 * worth.error_se) or 1.0
    low, high = max(worth.error - 2 * worth.error_se, 0.0), worth.error + 2 * worth.error_se
    name = get_metric(worth.metric).label
    rows = []
    for baseline, error in worth.baseline_errors.items():
        text = f"{name} of {baseline}"
        rows.append((text, shown(error), bar(error / top, f"{text}: {shown(error)}", class_="plain")))
    text = f"{name} of {label}"
    title = f"{text}: {shown(worth.error)}, 95 % interval {shown(low)} to {shown(high)}"
    rows.append((text, shown(worth.error), bar(worth.error / top, title, whisker=(low / top, high / top))))
    if worth.covered is not None:
        text = f"Targets inside their {percent(LEVEL)} intervals"
        rows.append((text, percent(worth.covered), coverage_track(worth.covered, worth.expected)))
    return [{"label": text, "value": value, "svg": svg} for text, value, svg in rows]


def bar(share: float, title: str, *, class_: str = "", whisker: tuple[float, float] | None = None) -> Markup:
    """Draw a bar over a share of the width, with an interval on its end."""
    parts = [
        tag("rect", x="0", y="7", height="16", rx="2", width=f"{100 * share:.2f}%", class_=f"amount {class_}".strip())
    ]
    if whisker is not None:
        low, high = (f"{100 * end:.2f}%" for end in whisker)
        parts.append(tag("line", x1=low, x2=high, y1=15, y2=15, class_="mean thin"))
    return _row(*parts, title=title)


def coverage_track(share: float, expected: tuple[float, float]) -> Markup:
    """Draw a share between 0 and 1, the nominal level, and the range of chance."""
    low, high = expected
    inside = "inside" if low <= share <= high else "outside"
    parts = [
        tag("rect", x="0", y="13", height="4", rx="2", width="100%", class_="track"),
        tag("rect", x=f"{100 * low:.2f}%", y="6", height="18", width=f"{100 * (high - low):.2f}%", class_="band"),
        tag("line", x1=f"{100 * LEVEL:.1f}%", x2=f"{100 * LEVEL:.1f}%", y1=4, y2=26, class_="reference"),
        tag("circle", cx=f"{100 * share:.2f}%", cy=15, r=6, class_="amount" if low <= share else "amount odd"),
    ]
    title = f"{percent(share)} of the targets lie inside their {percent(LEVEL)} intervals, {inside} the range of chance"
    return _row(*parts, title=f"{title}, {percent(low)} to {percent(high)}")


def spark(counts, title: str) -> Markup:
    """Draw a small histogram without axes, for a cell of a table."""
    counts = np.asarray(counts, float)
    heights = 26 * counts / max(counts.max(), 1.0)
    steps = "".join(f"V{28 - h:.1f}h{100 / len(counts):.3g}" for h in heights.tolist())
    shape = tag("path", d=f"M0 28{steps}V28Z", class_="amount")
    return tag(
        "svg", shape, viewBox="0 0 100 28", preserveAspectRatio="none", role="img", aria_label=title, class_="spark"
    )


def share_bar(share: float) -> Markup:
    """Draw a share as a bar in a cell, whose text is the number."""
    inside = tag("rect", x="0", y="0", height="10", rx="2", width=f"{100 * share:.1f}%", class_="amount")
    ground = tag("rect", x="0", y="0", height="10", rx="2", width="100%", class_="track")
    return tag("svg", ground, inside, class_="share", aria_hidden="true")


SHORT = 170  # height of a histogram


def histogram(values, xlabel: str, ylabel: str = "bags", *, log: bool = False) -> Markup:
    """Draw a histogram of at most 30 bins."""
    values = np.asarray(values, float)
    low, high = float(values.min()), float(values.max())
    counts, edges = counted_bins(values, log=log)
    axis = SvgAxis(SHORT)
    axis.set(xlabel=xlabel, ylabel=ylabel, xscale="log" if log else "linear", ylim=(0, counts.max() * 1.05))
    axis.stairs(counts, edges, baseline=0.0, class_="amount")
    return axis.svg(f"{xlabel}: from {shown(low)} to {shown(high)}, median {shown(float(np.median(values)))}")


def counted_bins(values: np.ndarray, most: int = 30, *, log: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and edges of a histogram with about √n bins.

    Examples
    --------
    >>> import numpy as np
    >>> counted_bins(np.array([0.0, 1.0, 1.0, 4.0]))[0].tolist()
    [1, 2, 0, 0, 1]
    """
    low, high = float(values.min()), float(values.max())
    n = int(np.clip(2 * math.sqrt(len(values)), 5, most))
    if not high > low:
        return np.array([len(values)]), np.array(span([low]))
    edges = np.geomspace(low, high, n + 1) if log else np.linspace(low, high, n + 1)
    edges[0], edges[-1] = low, high
    return np.histogram(values, bins=edges)


def map_of_bags(x, y, residual, ids, names: tuple[str, str]) -> Markup:
    """Draw a circle per bag at its place, its size the error; positive and negative errors differ in style."""
    reach = max(float(np.abs(residual).max()), 1e-300)
    across, up = equal_scales(x, y)
    marks = []
    for place in np.argsort(-np.abs(residual), kind="stable").tolist():  # the small ones on top
        gap = float(residual[place])
        text = tag("title", f"{ids[place]}: target − prediction {shown(gap, 2, sign=True)}")
        at = {"cx": float(across(x[place])), "cy": float(up(y[place])), "r": 3.0 + 6.0 * abs(gap) / reach}
        marks.append(tag("circle", text, **at, class_="place above" if gap > 0 else "place below", data_place=place))
    title = f"map of {counted(len(marks), 'bag')} by {names[0]} and {names[1]}; the size of a circle is the error"
    return _frame(across, up, *names, *marks, title=title)


def equal_scales(x, y, margin: float = 0.06) -> tuple[Scale, Scale]:
    """Return the scales of a map with equal units in both directions, without correction for latitude."""
    (west, east), (south, north) = span(x, margin=margin), span(y, margin=margin)
    unit = max((east - west) / (WIDTH - RIGHT - LEFT), (north - south) / (HEIGHT - BOTTOM - TOP))
    wide, tall = unit * (WIDTH - RIGHT - LEFT) / 2, unit * (HEIGHT - BOTTOM - TOP) / 2
    middle, centre = (west + east) / 2, (south + north) / 2
    return _x(middle - wide, middle + wide), _y(centre - tall, centre + tall)


class SvgAxis:
    """An axis that takes the calls which `plots` makes to one of matplotlib, and draws them as SVG for a page."""

    def __init__(self, height: int = HEIGHT):
        self.height = height
        self.marks: list[Callable[[Scale, Scale], Markup]] = []
        self.values: dict[str, list] = {"x": [], "y": []}  # that set the limits
        self.options: dict = {}

    def set(self, **options) -> None:
        """Set labels, limits and the scale, by the names of matplotlib; a page has captions in place of titles."""
        self.options |= options

    def legend(self, **_) -> None:
        """Draw no legend: a caption names the marks."""

    def plot(self, x, y, *, color: str, marker: str = "", **_) -> None:
        kind = "reference" if color == INK else "line"
        self._add(x, y, lambda across, up: line(across(x), up(y), class_=kind))
        if marker:
            self.scatter(x, y, color=color)

    def scatter(self, x, y, *, color: str, **_) -> None:
        at, kind = _thinned(len(x)), "dot odd" if color == ORANGE else "dot"
        self._add(x, y, lambda across, up: dots(across(x[at]), up(y[at]), class_=kind))

    def vlines(self, x, low, high, **_) -> None:
        def lines(across, up) -> Markup:
            ends = (np.clip(up(end[at]), TOP, self.height - BOTTOM) for end in (low, high))
            return bars(across(x[at]), *ends)

        at = _thinned(len(x))
        self._add(x, [low, high], lines)

    def fill_between(self, x, low, high, **_) -> None:
        def band(across, up) -> Markup:
            place = across(x) + np.r_[-1.5, np.zeros(len(x) - 2), 1.5]  # a band of no width is still seen
            below, above = (np.broadcast_to(up(end), len(x)) for end in (low, high))
            points = zip(np.r_[place, place[::-1]].tolist(), np.r_[below, above[::-1]].tolist(), strict=True)
            return tag("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in points), class_="band")

        self._add(x, [low, high], band)

    def stairs(self, values, edges, *, baseline: float, class_: str = "band", **_) -> None:
        def outline(across, up) -> Markup:
            return staircase(across(edges), up(values), float(up(baseline)), class_=class_)

        self._add(edges, [*values, baseline], outline)

    def axhline(self, y: float, **_) -> None:
        self._add([], [y], lambda across, up: line([LEFT, WIDTH - RIGHT], up([y, y]), class_="reference"))

    def svg(self, title: str) -> Markup:
        """Return the element, with a text alternative."""
        log = self.options.get("xscale") == "log"
        limits = {name: self.options.get(f"{name}lim") or span(*values) for name, values in self.values.items()}
        if log:
            values = np.concatenate(self.values["x"])
            limits["x"] = values.min() / 1.1, values.max() * 1.1
        x, y = _x(*limits["x"], log=log), _y(*limits["y"], self.height)
        labels = self.options["xlabel"] + (" (log)" if log else ""), self.options["ylabel"]
        marks = [mark(x, y) for mark in self.marks]
        return _frame(x, y, *labels, *marks, title=title, height=self.height)

    def _add(self, x, y, mark: Callable[[Scale, Scale], Markup]) -> None:
        if np.size(x) or np.size(y):
            self.marks.append(mark)
            self.values["x"].append(np.ravel(x))
            self.values["y"].append(np.ravel(y))


def predicted_against_true(held: HeldOut) -> Markup:
    """Draw each bag at (target, prediction) with its interval, and the identity line."""
    axis, intervals = SvgAxis(), held.ends() if held.has_intervals else None
    plots.predicted_against_true(axis, held.target, held.prediction, intervals=intervals, target=held.target_name)
    ylabel = "prediction of training bags" if held.in_sample else "held-out prediction"
    axis.set(ylabel=ylabel)
    of = f"{held.target_name} of {counted(len(held.target), 'bag')}"
    return axis.svg(f"{held.label}: {ylabel} against {of}. {_interval_text(held)}")


def residuals_against_size(held: HeldOut) -> Markup:
    """Draw residuals over bag sizes, and ± the error in fifths of the sizes."""
    axis, names = SvgAxis(), {"target": held.target_name, "metric": held.metric}
    plots.residuals_against_size(axis, held.target, held.prediction, held.size, **names)
    return axis.svg(f"{held.label}: residual by bag size. {_size_text(held)}")


def calibration(held: HeldOut) -> Markup:
    """Draw the share of targets inside intervals against the nominal level, with the range of chance."""
    points = np.array(held.calibration())
    shares = ", ".join(f"{percent(share)} at {percent(level)}" for level, share in points[:: max(len(points) // 4, 1)])
    axis = plots.calibration(SvgAxis(), *points.T, n=len(held.target))
    return axis.svg(f"{held.label}: share of targets inside intervals against their nominal level: {shares}")


def _x(low: float, high: float, *, log: bool = False) -> Scale:
    return Scale(low, high, LEFT, WIDTH - RIGHT, log)


def _y(low: float, high: float, height: int = HEIGHT) -> Scale:
    return Scale(low, high, height - BOTTOM, TOP)


def _frame(x: Scale, y: Scale, xlabel: str, ylabel: str, *inside, title: str, height: int = HEIGHT) -> Markup:
    parts, few = [], 3 if height == SHORT else 5
    for value, label in zip(x.ticks(), tick_labels(x.ticks()), strict=True):
        at = float(x(value))
        parts.append(tag("line", x1=at, x2=at, y1=TOP, y2=height - BOTTOM, class_="grid"))
        parts.append(tag("text", label, x=at, y=height - BOTTOM + 15, class_="middle"))
    for value, label in zip(y.ticks(few), tick_labels(y.ticks(few)), strict=True):
        at = float(y(value))
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        parts.append(tag("text", label, x=LEFT - 6, y=at + 3.5, class_="end"))
    parts.append(tag("text", xlabel, x=(LEFT + WIDTH - RIGHT) / 2, y=height - 6, class_="middle name"))
    middle = (TOP + height - BOTTOM) / 2
    parts.append(tag("text", ylabel, transform=f"translate(11 {middle:.0f}) rotate(-90)", class_="middle name"))
    box = f"0 0 {WIDTH} {height}"
    return tag("svg", *parts, *inside, viewBox=box, role="img", aria_label=title, class_="plot")


def _thinned(n: int, most: int = MOST_DOTS) -> np.ndarray:
    """Return the positions of at most ``most`` points, spread evenly, so that a page stays small."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


FAR = 4.0  # times the range of the better methods: a score further off is drawn at the edge


def draw_scores(results, ranked: list[dict], gaps: dict[str, dict]) -> dict:
    """Draw a row of dots per method, and the difference from the best with its interval."""
    methods = [row["method"] for row in ranked]
    values = {method: results.values(method) for method in methods}
    if not any(np.isfinite(scores).any() for scores in values.values()):
        return {"chart": [], "has_gaps": False, "beyond": ""}
    low, high, beyond = _window([scores for scores in values.values() if np.isfinite(scores).any()])
    names = [f"repeat {repeat}, fold {fold}" for repeat, fold in results.splits]
    ends = [gap["mean"] + sign * np.nan_to_num(gap["error"]) for gap in gaps.values() for sign in (-1, 1)]
    edges = dict(zip(("low", "high"), span(ends, [0.0]), strict=True))
    chart = [
        {
            "method": method,
            "strip": strip(values[method], names, low=low, high=high),
            "gap": difference(**gaps[method], **edges) if method in gaps else None,
            "why": "the best" if row["best"] else NONE,
        }
        for row, method in zip(ranked, methods, strict=True)
    ]
    axes = {"axis": row_axis(low, high), "gap_axis": row_axis(**edges)}
    tested = any(np.isfinite(gap["error"]) for gap in gaps.values())
    return {"chart": chart, "has_gaps": bool(gaps), "tested": tested, "beyond": beyond} | axes


def _window(values: list[np.ndarray]) -> tuple[float, float, str]:
    """Return the range to draw, around the better half of the methods, so that outliers do not squeeze it."""
    better = np.concatenate(values[: (len(values) + 1) // 2])
    low, high = np.nanmin(better), np.nanmax(better)
    reach = FAR * max(high - low, abs(low + high) / 4)
    scores = np.concatenate(values)
    scores = scores[np.isfinite(scores)]
    inside = scores[(scores >= low - reach) & (scores <= high + reach)]
    out = len(scores) - len(inside)
    text = f"{out} of {len(scores)} scores lie far beyond the others and are drawn at the edge."
    return *span(inside), text if out else ""


def draw_predictions(held: HeldOut, aside: str) -> dict:
    """Draw predicted against true, residuals by bag size, and calibration of intervals."""
    plots = [{"svg": predicted_against_true(held), "caption": _interval_text(held)}]
    if held.size.min() < held.size.max():
        plots.append({"svg": residuals_against_size(held), "caption": _size_text(held)})
    if held.has_intervals and len(held.calibration()) > 1:
        text = "How often intervals of each level hold the target. Inside the band, chance explains the distance"
        text += "." if held.std is not None else "; intervals from residuals should be there."
        plots.append({"svg": calibration(held), "caption": text})
    return {"label": held.label, "aside": aside, "plots": plots}


def _interval_text(held: HeldOut) -> str:
    """Return what the intervals are, and the share of targets inside."""
    if held.in_sample:
        return "The model saw these bags when it was fitted: no measure of how it does on new ones."
    if not held.has_intervals:
        if len(np.unique(held.fold)) == 1 and held.std is None and held.bounds is None:
            return "No intervals: with one split, there are no residuals of other folds to make them from."
        return f"Too few held-out bags ({len(held.target)}) for {percent(LEVEL)} intervals."
    low, high = held.ends().T
    kind = "by the method’s own standard deviations" if held.std is not None else "from the residuals of other folds"
    kind = kind if held.bounds is None else "of the method itself"
    text = f"With {percent(LEVEL)} intervals {kind}: ±{shown(float((high - low).mean() / 2), 2)} on average"
    return f"{text}; {percent(float(held.inside().mean()))} hold the target, the others are marked."


def _size_text(held: HeldOut) -> str:
    parts = size_fifths(held)
    if len(parts) < 2:
        return "Residuals of bags of every size."
    texts = []
    for part in (parts[0], parts[-1]):
        sizes = f"{part['low']:,}" if part["low"] == part["high"] else f"{part['low']:,} to {part['high']:,}"
        texts.append(f"{shown(part['error'], 2)} for bags of {sizes}")
    kind = get_metric(held.metric).in_full.removesuffix(" error")
    return f"{kind.capitalize()} residual, the shaded steps: {texts[0]}, {texts[1]}."


def draw_function(label: str, grid: np.ndarray, h: np.ndarray, counts: np.ndarray) -> dict:
    """Draw the learned function h, with a sentence on its distance from the plain mean."""
    text = _function_text(grid, h)
    axis = plots.draw_function(SvgAxis(), grid, h, counts)
    return {"svg": axis.svg(f"the learned function h: {text}"), "label": label, "text": f"{text[0].upper()}{text[1:]}."}


def _function_text(grid, h) -> str:
    gap, reach = float(np.max(np.abs(h - grid))), float(grid[-1] - grid[0])
    return f"it is at most {shown(gap, 2)} away from the plain mean; predictions range over {shown(reach, 2)}"


MOST_PLACES = 4000  # on a map
FIFTHS = (0.12, 0.3, 0.5, 0.72, 1.0)  # how opaque the dots of the lowest to the highest fifth of the values are


def draw_values(label: str, values: np.ndarray, std, bags, rates: np.ndarray, places: np.ndarray | None) -> dict:
    """Draw the mean value per bag against its target with the spread of its instances, and a map.

    ``rates`` are targets in the unit of the values; ``std`` the deviations of the values and ``places`` x and y of the
    instances, if they are known.
    """
    parts = [values[start:stop] for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True)]
    low, high = np.array([np.quantile(part, (0.1, 0.9)) for part in parts]).T
    mean = segment_mean(values, bags.offsets, bags.weights)
    text = (
        f"The mean value of every bag against its target, per unit of weight where targets are sums, and the middle "
        f"80 % of its instances. Half of all bags spread over {shown(float(np.median(high - low)), 2)} or more."
    )
    plots = [{"svg": values_against_targets(rates, mean, low, high, label), "caption": text}]
    if places is not None:
        for kind, numbers in (("values", values), ("standard deviations of the values", std)):
            if numbers is not None:
                ends = [shown(float(end)) for end in (numbers.min(), numbers.max())]
                text = f"Where the {kind} lie, from {ends[0]} to {ends[1]}: the fifth with the highest is the darkest."
                plots.append({"svg": map_of_values(places, numbers, f"{label}, {kind}"), "caption": text})
    return {"label": label, "plots": plots}


def values_against_targets(rates, mean, low, high, label: str) -> Markup:
    """Draw a dot for the mean value of a bag, a line for its instances, and the identity line."""
    axis = SvgAxis()
    ends = np.array([max(rates.min(), low.min()), min(rates.max(), high.max())])
    axis.plot(ends, ends, color=INK)
    axis.vlines(rates, low, high)
    axis.scatter(rates, mean, color=BLUE)
    axis.set(xlabel="target", ylabel="value of an instance")
    return axis.svg(f"{label}: values of instances against targets")


def map_of_values(places: np.ndarray, values: np.ndarray, label: str) -> Markup:
    """Draw instances on a map with equal units, the fifth with the highest values the darkest."""
    drawn = _thinned(len(values), MOST_PLACES)
    places, values = places[drawn], values[drawn]
    fifth = np.searchsorted(np.quantile(values, (0.2, 0.4, 0.6, 0.8)), values, side="right")
    x, y = equal_scales(*places.T, margin=0.02)
    parts = [
        tag("g", dots(x(places[fifth == k, 0]), y(places[fifth == k, 1]), radius=1.6), opacity=str(opacity))
        for k, opacity in enumerate(FIFTHS)
    ]
    return _frame(x, y, "x", "y", *parts, title=f"{label}: map of {len(values)} instances")
