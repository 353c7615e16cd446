"""The picture of `bagwise demo`."""

from __future__ import annotations

from pathlib import Path

from bagwise.plots import learned_function, predicted_against_true


def demo_picture(path: Path, bags, y, score, model) -> None:
    """Held-out predictions against targets, and the learned function, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    predicted_against_true(left, y, score.held_out)
    learned_function(right, model[-1], model[:1].transform(bags))
    figure.savefig(path, dpi=130)
