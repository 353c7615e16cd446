"""The few parts that our plots are made of, as SVG that takes its colours from the page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

try:
    from markupsafe import Markup, escape
except ImportError as error:
    raise ImportError("reports need jinja2: pip install 'bagwise[plot]'") from error

from bagwise.reports.numbers import aligned


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
    room = (high - low) * margin or abs(high) * margin or 1.0
    return low - room, high + room


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
