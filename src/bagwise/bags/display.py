"""Bags in a notebook: what they are, how large, and what their features range over. No script, every string escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bagwise.bags.container import Bags

MOST_FEATURES, MOST_IDS, MOST_BARS = 12, 3, 20
WIDTH, HEIGHT = 240, 48


def html_of(bags: Bags) -> str:
    """A caption, the sizes as bars, and a table of the features.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([1.0, 2.0])], ids=["<b>"], feature_names=["x"])
    >>> "&lt;b&gt;" in html_of(bags) and "<b>" not in html_of(bags)
    True
    """
    parts = [f"<p><strong>{escape(repr(bags))}</strong></p>"]
    if len(bags):
        parts += [f"<p>{_named('ids', bags.ids)}{_groups(bags)}</p>", _sizes(bags.sizes), _features(bags)]
    return f'<div style="font-size: 90%">{"".join(parts)}</div>'


def _named(what: str, values) -> str:
    some = ", ".join(str(value) for value in values[:MOST_IDS])
    return escape(f"{what}: {some}{', ...' if len(values) > MOST_IDS else ''}")


def _groups(bags: Bags) -> str:
    if bags.groups is None:
        return ""
    found = list(dict.fromkeys(bags.groups.tolist()))
    return f"<br>{_named('groups', found)}"


def _sizes(sizes: np.ndarray) -> str:
    """How many bags have how many instances, as bars in the colour of the text."""
    bars = min(MOST_BARS, int(sizes.max() - sizes.min()) + 1)
    counts, edges = np.histogram(sizes, bins=bars)
    heights = np.ceil(counts / counts.max() * HEIGHT)
    step = WIDTH / bars
    drawn = "".join(
        f'<rect x="{i * step:.1f}" y="{HEIGHT - height:.0f}" width="{step - 1:.1f}" height="{height:.0f}">'
        f"<title>{_span(edges[i : i + 2], last=i == bars - 1)}: {count:,}</title></rect>"
        for i, (height, count) in enumerate(zip(heights, counts, strict=True))
    )
    label = f"bags by size, {sizes.min():,} to {sizes.max():,} instances"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}" '
        f'fill="currentColor" opacity="0.6">{drawn}</svg><p>{label}</p>'
    )


def _span(edges: np.ndarray, *, last: bool) -> str:
    """The sizes that a bar counts: whole numbers from one edge up to the other, which belongs to the last bar alone."""
    low, high = int(np.ceil(edges[0])), int(edges[1] if last else np.ceil(edges[1]) - 1)
    return f"{low:,}" if low >= high else f"{low:,} to {high:,}"


def _features(bags: Bags) -> str:
    names = bags.feature_names or tuple(f"feature {j}" for j in range(bags.n_features))
    rows = "".join(_row(name, bags.instances[:, j]) for j, name in enumerate(names[:MOST_FEATURES]))
    more = bags.n_features - MOST_FEATURES
    if more > 0:
        rows += f'<tr><td colspan="3">and {more:,} more</td></tr>'
    if bags.covariates is not None:
        own = bags.covariate_names or tuple(f"covariate {j}" for j in range(bags.covariates.shape[1]))
        shown = zip(own[:MOST_FEATURES], bags.covariates.T, strict=False)
        rows += "".join(_row(f"{name} (of the bag)", column) for name, column in shown)
    return f"<table><tr><th>feature</th><th>from</th><th>to</th></tr>{rows}</table>"


def _row(name: str, values: np.ndarray) -> str:
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    lost = len(values) - len(known)
    low, high = (f"{known.min():.4g}", f"{known.max():.4g}") if len(known) else ("", "")
    note = f" ({lost:,} missing)" if lost else ""
    return f"<tr><td>{escape(str(name))}</td><td>{low}</td><td>{high}{note}</td></tr>"
