"""The charts of a report as SVG: arrays in, one element out, which takes its colours from the page.

Written by hand because matplotlib's SVG of the same charts is eight times as large and takes ten times as long, and its
colours do not follow the page's dark mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from bagwise.bags.segments import segment_mean
from bagwise.reports.findings import LEVEL, HeldOut, size_fifths
from bagwise.reports.text import NONE, aligned, percent, shown

try:
    from markupsafe import Markup, escape
except ImportError as error:
    raise ImportError("reports need jinja2: pip install jinja2") from error


def tag(name: str, *inside, **attributes) -> Markup:
    """An element; every attribute and text is escaped. ``class_`` is class, ``stroke_width`` is stroke-width.

    Examples
    --------
    >>> str(tag("text", "a < b", x=1.25, class_="label"))
    '<text x="1.2" class="label">a &lt; b</text>'
    """
    pairs = (f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{''.join(pairs)}>{Markup('').join(inside)}</{name}>")


def _plain(value):
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


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
    """The range of the finite numbers among arrays, with a margin on either side."""
    known = np.concatenate([np.ravel(np.asarray(one, float)) for one in values])
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    extra = (high - low) * margin or abs(high) * margin or 1.0
    return low - extra, high + extra


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most so many round numbers between two.

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
    """1, 2, 5, 10, ... between two; powers of ten alone if those are too many.

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
    """Ticks as short text, all with the same decimals.

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
    """Points as one path of zero-length strokes with round caps: a tenth of the size of as many circles."""
    d = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True))
    return tag("path", d=d, class_=class_, stroke_width=2.0 * radius)


def bars(x, low, high, *, class_: str = "bar") -> Markup:
    """A vertical line for each x."""
    d = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(x.tolist(), low.tolist(), high.tolist(), strict=True))
    return tag("path", d=d, class_=class_)


def line(x, y, *, class_: str = "line") -> Markup:
    """A line through points."""
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True))
    return tag("polyline", points=points, class_=class_)


def strip(values, names, *, low: float, high: float) -> Markup:
    """A dot for every split, and the mean as a bar; the title of a dot names its split."""
    values = np.asarray(values, float)
    known = np.flatnonzero(np.isfinite(values))
    marks = []
    for rank, i in enumerate(known.tolist()):
        height = 15 + (-6, 0, 6, 3, -3)[rank % 5]  # so that equal scores can be told apart
        name = tag("title", f"{names[i]}: {shown(values[i])}")
        marks.append(tag("circle", name, cx=_at(values[i], low, high), cy=height, r=3, class_="point"))
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
    marks = {"dot": slice(None)} if held.in_sample else {"dot": inside, "dot odd": ~inside}
    parts += [dots(x(target[part]), y(prediction[part]), class_=name) for name, part in marks.items()]
    what = "prediction of training bags" if held.in_sample else "held-out prediction"
    title = f"{held.label}: {what} against {held.target_name} of {len(target)} bags"
    return _frame(x, y, held.target_name, what, *parts, title=title)


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
        x,
        y,
        "prediction of an instance",
        "h, its contribution",
        density,
        identity,
        line(x(grid), y(h)),
        title="learned h",
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


FAR = 4.0  # times the range of the better methods: a score further off is drawn at the edge


def draw_scores(results, ranked: list[dict], gaps: dict[str, dict]) -> dict:
    """A row of dots per method, and beside it the difference from the best with its interval."""
    methods = [row["method"] for row in ranked]
    values = {method: results.values(method) for method in methods}
    if not any(np.isfinite(one).any() for one in values.values()):
        return {"chart": [], "has_gaps": False, "beyond": ""}
    low, high, beyond = _window([one for one in values.values() if np.isfinite(one).any()])
    names = [f"repeat {repeat}, fold {fold}" for repeat, fold in results.splits]
    ends = [gap["mean"] + sign * np.nan_to_num(gap["error"]) for gap in gaps.values() for sign in (-1, 1)]
    edges = dict(zip(("low", "high"), span(ends, [0.0]), strict=True))
    chart = [
        {
            "method": method,
            "strip": strip(np.clip(values[method], low, high), names, low=low, high=high),
            "gap": difference(**gaps[method], **edges) if method in gaps else None,
            "why": "the best" if row["best"] else NONE,
        }
        for row, method in zip(ranked, methods, strict=True)
    ]
    axes = {"axis": row_axis(low, high), "gap_axis": row_axis(**edges)}
    return {"chart": chart, "has_gaps": bool(gaps), "beyond": beyond} | axes


def _window(values: list[np.ndarray]) -> tuple[float, float, str]:
    """The range to draw: around the better half of the methods, so that one astray does not squeeze the others."""
    better = np.concatenate(values[: (len(values) + 1) // 2])
    low, high = np.nanmin(better), np.nanmax(better)
    reach = FAR * max(high - low, abs(low + high) / 4)
    known = np.concatenate(values)
    known = known[np.isfinite(known)]
    kept = known[(known >= low - reach) & (known <= high + reach)]
    out = len(known) - len(kept)
    text = f"{out} of {len(known)} scores lie far beyond the others and are drawn at the edge."
    return *span(kept), text if out else ""


def draw_predictions(held: HeldOut, aside: str) -> dict:
    """Predicted against true, residuals by bag size, calibration of intervals."""
    plots = [{"svg": predicted_against_true(held), "caption": _interval_text(held)}]
    if held.size.min() < held.size.max():
        plots.append({"svg": residuals_against_size(held), "caption": _size_text(held)})
    if not held.in_sample and len(held.calibration()) > 1:
        text = "How often intervals of every level hold the target. Inside the band, luck alone explains the distance"
        text += "." if held.std is not None else "; intervals from residuals should be there."
        plots.append({"svg": calibration(held), "caption": text})
    return {"label": held.label, "aside": aside, "plots": plots}


def _interval_text(held: HeldOut) -> str:
    """What the intervals are and how well they do."""
    if held.in_sample:
        return "The model saw these bags when it was fitted: no measure of how it does on new ones."
    half = held.half_widths()
    if not np.isfinite(half).all():
        return f"Too few held-out bags ({len(half)}) for {percent(LEVEL)} intervals."
    kind = "by the method’s own standard deviations" if held.std is not None else "from the residuals of other folds"
    text = f"With {percent(LEVEL)} intervals {kind}: ±{shown(float(half.mean()), 2)} on average"
    return f"{text}; {percent(float(held.covered().mean()))} hold the target, the others are marked."


def _size_text(held: HeldOut) -> str:
    parts = size_fifths(held)
    if len(parts) < 2:
        return "Residuals of bags of every size."
    texts = []
    for part in (parts[0], parts[-1]):
        sizes = f"{part['low']:,}" if part["low"] == part["high"] else f"{part['low']:,} to {part['high']:,}"
        texts.append(f"{shown(part['rmse'], 2)} for bags of {sizes}")
    return f"Root mean squared residual, the shaded steps: {texts[0]}, {texts[1]}."


def draw_function(label: str, found: dict) -> dict:
    """The learned function h, and how far it is from the plain mean."""
    gap = float(np.max(np.abs(found["h"] - found["grid"])))
    reach = float(found["grid"][-1] - found["grid"][0])
    text = f"It is at most {shown(gap, 2)} away from the plain mean; predictions range over {shown(reach, 2)}."
    return {"svg": learned_function(**found), "label": label, "text": text}


MOST_PLACES = 4000  # on a map
FIFTHS = (0.12, 0.3, 0.5, 0.72, 1.0)  # how opaque the dots of the lowest to the highest fifth of the values are


def draw_values(label: str, values: np.ndarray, std, bags, rates: np.ndarray, places: np.ndarray | None) -> dict:
    """The mean value of every bag against its target with the spread of its instances, and a map of the values.

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
        for what, numbers in (("values", values), ("standard deviations of the values", std)):
            if numbers is not None:
                ends = [shown(float(end)) for end in (numbers.min(), numbers.max())]
                text = f"Where the {what} lie, from {ends[0]} to {ends[1]}: the fifth with the highest is the darkest."
                plots.append({"svg": map_of_values(places, numbers, f"{label}, {what}"), "caption": text})
    return {"label": label, "plots": plots}


def values_against_targets(rates, mean, low, high, label: str) -> Markup:
    """A dot for the mean value of a bag, a line for its instances, and where means would be the targets."""
    kept = _thinned(len(rates))
    x, y = _x(*span(rates)), _y(*span(rates, low, high))
    ends = max(x.low, y.low), min(x.high, y.high)
    parts = [line(x(ends), y(ends), class_="reference"), bars(x(rates[kept]), y(low[kept]), y(high[kept]))]
    parts.append(dots(x(rates[kept]), y(mean[kept])))
    title = f"{label}: values of instances against targets"
    return _frame(x, y, "target", "value of an instance", *parts, title=title)


def map_of_values(places: np.ndarray, values: np.ndarray, label: str) -> Markup:
    """Instances where they are, the fifth with the highest values the darkest; a distance is the same both ways."""
    kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_PLACES)).round().astype(int))
    places, values = places[kept], values[kept]
    fifth = np.searchsorted(np.quantile(values, (0.2, 0.4, 0.6, 0.8)), values, side="right")
    (left, right), (low, high) = span(places[:, 0], margin=0.02), span(places[:, 1], margin=0.02)
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    unit = max((right - left) / wide, (high - low) / tall)
    x, y = _x(left, left + unit * wide), _y(low, low + unit * tall)
    parts = [
        tag("g", dots(x(places[fifth == k, 0]), y(places[fifth == k, 1]), radius=1.6), opacity=str(opacity))
        for k, opacity in enumerate(FIFTHS)
    ]
    return _frame(x, y, "x", "y", *parts, title=f"{label}: map of {len(values)} instances")
