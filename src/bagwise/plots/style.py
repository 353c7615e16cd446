"""How pictures look, in one place: a few colours, and an axis that is quiet.

Backgrounds are transparent, so every colour has to be read on white and on near black: each has a contrast of at least
3 to both, and the three of the series stay apart for the colour-blind.
"""

from __future__ import annotations

try:
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter  # noqa: F401
except ImportError as error:
    raise ImportError("pictures need matplotlib: pip install 'bagwise[plot]'") from error

INK = "#7a808a"  # text, ticks, lines to compare with
BLUE, ORANGE, TEAL = SERIES = ("#2f84c8", "#d9660b", "#12927a")
SEQUENTIAL, DIVERGING = "cividis", "PuOr"  # both told apart by the colour-blind


def quiet(axis, *, xlabel: str = "", ylabel: str = "", title: str = ""):
    """Labels, no box, no background: what is left is the data."""
    axis.set_facecolor("none")
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(INK)
    axis.tick_params(which="both", colors=INK)
    axis.set_xlabel(xlabel, color=INK)
    axis.set_ylabel(ylabel, color=INK)
    axis.set_title(title, color=INK)
    return axis


def legend(axis, **options) -> None:
    """A legend without a frame, its text in the colour of the axis."""
    axis.legend(frameon=False, labelcolor=INK, **options)
