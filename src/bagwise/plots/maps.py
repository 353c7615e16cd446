"""Where the bags are."""

from __future__ import annotations

import numpy as np

from bagwise.plots.inputs import columns
from bagwise.plots.style import DIVERGING, INK, SEQUENTIAL, quiet

STEEPEST = 85.0  # degrees: nearer to a pole a degree of longitude is next to nothing


def map_of_bags(axis, longitude, latitude, values, *, centre: float | None = None, label: str = ""):
    """A point per bag where it lies, coloured by its prediction, its target, or its residual.

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

    Returns
    -------
    the axis
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
