"""Pictures. Every function draws on the axis it is given and returns it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("pictures need matplotlib: pip install 'bagwise[plot]'") from error

INK, ACCENT, PALE = "#30343b", "#2a6f97", "#a9b4c2"


def predicted_against_true(axis, y, predicted, *, unit: str = ""):
    """Held-out predictions against targets, with the line on which they would be right."""
    low, high = min(np.min(y), np.min(predicted)), max(np.max(y), np.max(predicted))
    axis.plot([low, high], [low, high], color=PALE, linewidth=1)
    axis.scatter(y, predicted, s=12, color=ACCENT, alpha=0.7, linewidths=0)
    rmse = np.sqrt(np.mean((np.asarray(predicted) - y) ** 2))
    axis.set(
        xlabel=f"true {unit}", ylabel=f"predicted, held out {unit}", title=f"Predicted against true (RMSE {rmse:.4f})"
    )
    return axis


def learned_function(axis, head, predictions):
    """The function h that turns an instance prediction into its say in the bag, over the predictions' density."""
    from bagwise.bags import from_arrays

    values = predictions.instances[:, 0]
    low, high = np.quantile(values, [0.002, 0.998])
    grid = np.linspace(low, high, 300)
    h = head.predict(from_arrays(list(grid[:, None])))
    axis.plot([low, high], [low, high], color=PALE, linewidth=1, label="identity: the plain mean")
    axis.plot(grid, h, color=ACCENT, linewidth=2, label="h, learned")
    density = axis.twinx()
    density.hist(values, bins=80, range=(low, high), color=PALE, alpha=0.35)
    density.set_yticks([])
    density.set_ylabel("instances", color=PALE)
    axis.set(xlabel="prediction of an instance", ylabel="h: its vote on the bag's target")
    axis.set_title("A bag's prediction is the mean of h over its instances")
    axis.legend(frameon=False, loc="upper left")
    return axis


def demo_picture(path: Path, bags, y, score, model) -> None:
    """Both pictures side by side, for `bagwise demo`."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    predicted_against_true(left, y, score.held_out)
    learned_function(right, model[-1], model[:1].transform(bags))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK)
    figure.savefig(path, dpi=130)
