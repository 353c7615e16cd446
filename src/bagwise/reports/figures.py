"""The figures of a report: the plots of `plots`, drawn by matplotlib as compact SVG in the colours of the page."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean, segment_quantiles
from bagwise.bags.validation import counted
from bagwise.explanations.explanation import function_on_grid
from bagwise.intervals.order_statistics import fifths
from bagwise.io.table_output import percent, shown
from bagwise.metrics import get_metric
from bagwise.reports import plots
from bagwise.reports.plots import BLUE, INK, ORANGE
from bagwise.reports.verdict import HeldOut

WIDTH, HEIGHT, SHORT = 340, 270, 170  # pixels
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 10, 40  # beside the axis
MOST_MARKS = 800  # of one kind in a figure, so that a page stays small
VARIABLES = {INK: "var(--soft)", BLUE: "var(--accent)", ORANGE: "var(--odd)"}  # of the style sheet
# Do not read names as formulas, and write coordinates in full.
SETTINGS = {"text.parse_math": False, "axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 7)}
SETTINGS |= {"axes.labelpad": 7.0}


class PageRenderer(RendererBase):
    """A renderer of matplotlib that writes SVG.

    Shapes of one style become one path, and a dot becomes a stroke of zero length with round ends. The result has a
    tenth of the size of matplotlib's SVG and no ids, which would have to differ between the figures of a page.
    """

    def __init__(self, height: int):
        super().__init__()
        self.height, self.texts = height, []
        self.shapes: dict[str, list[str]] = {}  # by style
        self.down = Affine2D().scale(1, -1).translate(0, height)

    def get_canvas_width_height(self):
        return WIDTH, self.height

    def get_text_width_height_descent(self, s, prop, ismath):
        size = prop.get_size_in_points()
        return 0.6 * size * len(s), size, 0.2 * size  # in a font of the page

    def draw_path(self, gc, path, transform, rgbFace=None):
        bounds, style = gc.get_clip_rectangle(), {}
        if rgbFace is not None:
            style = self._ink("fill", rgbFace, gc.get_alpha() if gc.get_forced_alpha() else None)
        if gc.get_linewidth() > 0:
            style |= self._ink("stroke", gc.get_rgb()) | {"stroke-width": f"{gc.get_linewidth():.3g}"}
            style |= {} if rgbFace is not None else {"fill": "none"}
        clip = None if bounds is None or rgbFace is not None else bounds.extents
        if style:
            segments = path.iter_segments(transform, clip=clip, curves=False)
            self._add(style, "".join(self._step(code, points) for points, code in segments))

    def draw_markers(self, gc, marker_path, marker_trans, path, trans, rgbFace=None):
        if marker_path.codes is None or Path.CURVE4 not in marker_path.codes:  # a tick
            return super().draw_markers(gc, marker_path, marker_trans, path, trans, rgbFace)
        points = (trans + self.down).transform(path.vertices[thinned(len(path.vertices))])
        width = marker_path.get_extents(marker_trans).width
        style = self._ink("stroke", rgbFace) | {"stroke-width": f"{width:.3g}", "stroke-linecap": "round"}
        self._add(style, "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points.tolist()))

    def draw_path_collection(self, gc, transform, paths, *arguments, **options):
        super().draw_path_collection(gc, transform, [paths[i] for i in thinned(len(paths))], *arguments, **options)

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        x, y = (mtext.get_transform() + self.down).transform(mtext.get_unitless_position())
        y += {"top": 9, "center_baseline": 4}.get(mtext.get_va(), 0)
        anchor = {"left": "start", "center": "middle", "right": "end"}[mtext.get_ha()]
        text = Markup('<text transform="translate({:.0f} {:.0f}) rotate({:.0f})" text-anchor="{}">{}</text>')
        self.texts.append(text.format(x, y, -angle, anchor, s))

    def svg(self, title: str, *marks: Markup) -> Markup:
        """Return the element, with its text alternative."""
        path = Markup('<path style="{}" d="{}"/>')
        inside = [*(path.format(style, "".join(d)) for style, d in self.shapes.items()), *self.texts, *marks]
        whole = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="plot">{}</svg>')
        return whole.format(WIDTH, self.height, title, Markup("").join(inside))

    def _ink(self, kind: str, colour, alpha: float | None = None) -> dict[str, str]:
        alpha = alpha if alpha is not None else colour[3] if len(colour) > 3 else 1.0
        return {kind: VARIABLES.get(to_hex(colour), to_hex(colour)), f"{kind}-opacity": f"{alpha:.2g}"}

    def _add(self, style: dict[str, str], d: str) -> None:
        self.shapes.setdefault(";".join(f"{name}:{value}" for name, value in style.items()), []).append(d)

    def _step(self, code, points) -> str:
        if code == Path.CLOSEPOLY:
            return "Z"
        return f"{'M' if code == Path.MOVETO else 'L'}{points[0]:.1f} {self.height - points[1]:.1f}"


def thinned(n: int) -> np.ndarray:
    """Return the positions of at most `MOST_MARKS` of n marks, spread evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_MARKS)).round().astype(int))


def draw(plot: Callable, title: str, *, height: int = HEIGHT, marks: Callable | None = None, **labels) -> Markup:
    """Return what ``plot(axis)`` draws; captions of the page take the place of titles and legends.

    ``marks``, a function of the transformation of data to pixels, returns elements to lie on top.
    """
    with matplotlib.rc_context(matplotlib.rcParamsDefault | SETTINGS):
        figure = Figure((WIDTH / 72, height / 72), dpi=72, frameon=False)
        box = LEFT / WIDTH, BOTTOM / height, 1 - (LEFT + RIGHT) / WIDTH, 1 - (TOP + BOTTOM) / height
        axis = figure.add_axes(box)
        plot(axis)
        plots.quiet(axis, **{"xlabel": axis.get_xlabel(), "ylabel": axis.get_ylabel()} | labels)
        axis.grid(color=INK, alpha=0.2, linewidth=1)
        axis.locator_params("y", nbins=3 if height == SHORT else 5, integer=height == SHORT)  # counts, where short
        if axis.get_xscale() == "linear":
            axis.locator_params("x", nbins=5)
        if axis.get_legend() is not None:
            axis.get_legend().remove()
        renderer = PageRenderer(height)
        figure.draw(renderer)
    return renderer.svg(title, *(marks(axis.transData + renderer.down) if marks else ()))


def draw_predictions(held: HeldOut, aside: str) -> dict:
    """Draw predicted against true, residuals by bag size, and calibration of intervals."""
    name, unseen = held.target_name, "prediction of training bags" if held.in_sample else "held-out prediction"
    intervals = held.ends() if held.has_intervals else None

    def against_true(axis):
        plots.predicted_against_true(axis, held.target, held.prediction, intervals=intervals, target=name)

    def against_size(axis):
        names = {"target": name, "metric": held.metric}
        plots.residuals_against_size(axis, held.target, held.prediction, held.size, **names)

    text = _interval_text(held)
    title = f"{held.label}: {unseen} against {name} of {counted(len(held.target), 'bag')}. {text}"
    drawn = [{"svg": draw(against_true, title, ylabel=unseen), "caption": text}]
    if held.size.min() < held.size.max():
        text = _size_text(held)
        drawn.append({"svg": draw(against_size, f"{held.label}: residual by bag size. {text}"), "caption": text})
    points = held.calibration() if intervals is not None else []
    if len(points) > 1:
        text = f"How often intervals of each level {_origin(held)} hold the target. Inside the band, chance explains "
        shares = [f"{percent(share)} at {percent(level)}" for level, share in points[:: max(len(points) // 4, 1)]]
        title = f"{held.label}: share of targets inside intervals against their nominal level: {', '.join(shares)}"
        svg = draw(lambda axis: plots.calibration(axis, *points.T, n=int(held.units.max()) + 1), title)
        drawn.append({"svg": svg, "caption": text + "the distance from the line."})
    return {"label": held.label, "aside": aside, "plots": drawn}


def _origin(held: HeldOut) -> str:
    return "by the method’s own standard deviations" if held.std is not None else "from the residuals of other folds"


def _interval_text(held: HeldOut) -> str:
    """Return what the intervals are, and the share of targets inside."""
    if held.in_sample:
        return "The model saw these bags when it was fitted: no measure of how it does on new ones."
    if not held.has_intervals:
        if len(np.unique(held.fold)) == 1 and held.std is None:
            return "No intervals: with one split, there are no residuals of other folds to make them from."
        return f"Too few held-out bags ({len(held.target)}) for {percent(held.level)} intervals."
    kind = _origin(held) if held.bounds is None else "of the method itself"
    width = shown(np.ptp(held.ends(), axis=1).mean() / 2, 2)
    text = f"With {percent(held.level)} intervals {kind}: ±{width} on average"
    return f"{text}; {percent(held.inside().mean())} hold the target, the others are marked."


def _size_text(held: HeldOut) -> str:
    part = fifths(held.size)
    if part.max() == 0:
        return "Residuals of bags of every size."
    texts = []
    for k in (0, part.max()):
        sizes = held.size[part == k]
        span = f"{sizes.min():,}" if sizes.min() == sizes.max() else f"{sizes.min():,} to {sizes.max():,}"
        texts.append(f"{shown(held.error(part == k), 2)} for bags of {span}")
    kind = get_metric(held.metric).in_full.removesuffix(" error")
    return f"{kind.capitalize()} residual, the shaded steps: {', '.join(texts)}."


def histogram(values, xlabel: str, *, log: bool = False) -> Markup:
    """Draw a histogram with about 2 √n bins, at most 30."""
    low, high, bins = np.min(values), np.max(values), int(np.clip(2 * np.sqrt(len(values)), 5, 30))

    def plot(axis):
        edges = np.geomspace(low, high, bins + 1) if log else bins
        axis.hist(values, edges, histtype="stepfilled", color=BLUE)
        axis.set(xlabel=xlabel, ylabel="bags")
        if log:
            plots.log_scale(axis)

    return draw(plot, f"{xlabel}: from {shown(low)} to {shown(high)}, median {shown(np.median(values))}", height=SHORT)


def spark(counts, title: str) -> Markup:
    """Draw a small histogram without axes, for a cell of a table."""
    heights = 26 * np.asarray(counts, dtype=np.float64) / max(np.max(counts), 1)
    steps = "".join(f"V{28 - height:.1f}h{100 / len(heights):.3g}" for height in heights.tolist())
    box = 'class="spark" viewBox="0 0 100 28" preserveAspectRatio="none" role="img"'
    path = '<path class="amount" d="M0 28{}V28Z"/>'
    return Markup(f'<svg {box} aria-label="{{}}">{path}</svg>').format(title, steps)


def share_bar(share: float) -> Markup:
    """Draw a share as a bar in a cell, whose text is the number."""
    bar = '<rect class="{}" height="10" rx="2" width="{:.1f}%"/>'
    return Markup(f'<svg class="share" aria-hidden="true">{bar}{bar}</svg>').format("track", 100, "amount", 100 * share)


def map_of_bags(x, y, residual, ids, names: tuple[str, str]) -> Markup:
    """Draw a circle per bag at its place, its size the error; positive and negative errors differ in style."""
    radius = 3 + 6 * np.abs(residual) / max(np.abs(residual).max(), 1e-300)
    circle = '<circle class="place {}" data-place="{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>'

    def plot(axis):
        axis.scatter(x, y, alpha=0.0)
        axis.set_aspect("equal", adjustable="datalim")

    def circles(to_pixels):
        points = to_pixels.transform(np.column_stack([x, y]))
        for i in np.argsort(-radius, kind="stable").tolist():  # the small ones on top
            text = f"{ids[i]}: target − prediction {shown(residual[i], 2, sign=True)}"
            side = "above" if residual[i] > 0 else "below"
            yield Markup(circle).format(side, i, *points[i], radius[i], text)

    title = f"map of {counted(len(x), 'bag')} by {names[0]} and {names[1]}; the size of a circle is the error"
    return draw(plot, title, marks=circles, xlabel=names[0], ylabel=names[1])


def learned_function(label: str, head, predictions: Bags) -> dict | None:
    """Draw the learned function h, with a sentence on its distance from the plain mean; None if all are equal."""
    grid, h = function_on_grid(head, predictions)
    if grid[0] == grid[-1]:
        return None
    gap, reach = shown(np.abs(h - grid).max(), 2), shown(grid[-1] - grid[0], 2)
    text = f"It is at most {gap} away from the plain mean; predictions range over {reach}."
    svg = draw(lambda axis: plots.learned_function(axis, head, predictions), f"the learned function h. {text}")
    return {"svg": svg, "label": label, "text": text}


FIFTHS = (0.12, 0.3, 0.5, 0.72, 1.0)  # opacity of the dots, from the lowest to the highest fifth of the values


def draw_values(label: str, values: np.ndarray, std, bags, rates: np.ndarray, places: np.ndarray | None) -> dict:
    """Draw the mean value per bag against its target with the spread of its instances, and a map.

    ``rates`` are targets in the unit of the values; ``std`` the deviations of the values and ``places`` x and y of the
    instances, if they are known.
    """
    low, high = segment_quantiles(values, bags.offsets, [0.1, 0.9]).T
    text = (
        f"The mean value of every bag against its target, per unit of weight where targets are sums, and the middle "
        f"80 % of its instances. Half of all bags spread over {shown(float(np.median(high - low)), 2)} or more."
    )
    mean, title = segment_mean(values, bags.offsets, bags.weights), f"{label}: values of instances against targets"
    drawn = [{"svg": draw(lambda axis: values_against_targets(axis, rates, mean, low, high), title), "caption": text}]
    maps = {"values": values, "standard deviations of the values": std}
    for kind, numbers in maps.items() if places is not None else ():
        if numbers is not None:
            ends = " to ".join(shown(float(end)) for end in (numbers.min(), numbers.max()))
            text = f"Where the {kind} lie, from {ends}: the fifth with the highest is the darkest."
            title = f"{label}: map of the {kind}, from {ends}"
            drawn.append({"svg": draw(lambda axis, n=numbers: map_of_values(axis, places, n), title), "caption": text})
    return {"label": label, "plots": drawn}


def values_against_targets(axis, rates, mean, low, high) -> None:
    """Draw a dot for the mean value of a bag, a line for its instances, and the identity line."""
    ends = [max(rates.min(), low.min()), min(rates.max(), high.max())]
    axis.plot(ends, ends, color=INK, linewidth=1)
    axis.vlines(rates, low, high, color=BLUE, alpha=0.4, linewidth=1)
    axis.scatter(rates, mean, s=14, color=BLUE, alpha=0.8, linewidths=0)
    axis.set(xlabel="target", ylabel="value of an instance")


def map_of_values(axis, places: np.ndarray, values: np.ndarray) -> None:
    """Draw instances on a map with equal units, the fifth with the highest values the darkest."""
    fifth = np.searchsorted(np.quantile(values, (0.2, 0.4, 0.6, 0.8)), values, side="right")
    for k, opacity in enumerate(FIFTHS):
        axis.scatter(*places[fifth == k].T, s=10, color=BLUE, alpha=opacity, linewidths=0)
    axis.set_aspect("equal", adjustable="datalim")
    axis.set(xlabel="x", ylabel="y")
