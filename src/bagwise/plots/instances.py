"""What is inside the bags: their distributions, the learned function of an instance, and who says what."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, check_bags
from bagwise.bags.naming import label
from bagwise.bags.segments import segment_quantiles
from bagwise.explaining.function import function_on_grid
from bagwise.plots.inputs import columns
from bagwise.plots.style import BLUE, INK, ORANGE, legend, quiet

# What the numbers of an explanation are called, and where an instance like all others would be.
STRIPS = {
    "contributions": ("what the instance adds to the prediction", lambda prediction, size: prediction / size),
    "weights": ("weight of the instance", lambda prediction, size: 1.0 / size),
    "leave-one-out": ("prediction, minus that without the instance", lambda prediction, size: 0.0),
}


def bag_distributions(axis, bags, y, *, feature: int | str = 0, values=None, most: int = 60):
    """A bar per bag from its 10 to its 90 percent quantile and a dot at its median, the bags ordered by target.

    Parameters
    ----------
    axis : matplotlib axis
    bags : Bags
    y : one target per bag
    feature : int or str
        The position or the name of the feature to show.
    values : array (instances,), optional
        Shown instead of a feature: the predictions of the instances, say. The targets are then drawn as well, since
        they are in the same unit.
    most : int
        Of more bags than this some are shown, evenly spaced over the order.
    """
    bags = check_bags(bags, allow_weights=True, apart=True)
    (y,) = columns(y=y)
    if len(y) != len(bags):
        raise ValueError(f"y has {len(y)} values for {len(bags)} bags; give one per bag")
    shown, name = (
        _column(bags, feature) if values is None else (_one_per_instance(values, bags), "value of an instance")
    )
    order = np.argsort(y, kind="stable")
    order = order[np.unique(np.linspace(0, len(y) - 1, min(most, len(y))).round().astype(int))]
    low, middle, high = segment_quantiles(shown, bags.offsets, [0.1, 0.5, 0.9])[order].T
    at = np.arange(len(order))
    axis.vlines(at, low, high, color=BLUE, alpha=0.5, linewidth=3)
    axis.scatter(at, middle, s=14, color=BLUE, linewidths=0, label="median of the bag")
    if values is not None:
        axis.scatter(at, y[order], s=18, marker="_", color=ORANGE, label="target")
        legend(axis, loc="upper left")
    axis.set_xticks([])
    return quiet(axis, xlabel="bags, by target", ylabel=name, title="What the bags hold (10 to 90 percent)")


def learned_function(axis, head, predictions):
    """The function h that turns an instance prediction into its say in the bag, over how many instances lie where.

    Parameters
    ----------
    axis : matplotlib axis
    head : fitted last step of a method such as instance-kme, ``model[-1]``
    predictions : Bags of one column, ``model[:-1].transform(bags)``
        If they carry covariates, h is that of a bag with the mean of each.
    """
    if not isinstance(predictions, Bags) or predictions.n_features != 1:
        raise ValueError(
            "predictions must be Bags of one column: model[:-1].transform(bags) of a method like instance-kme"
        )
    grid, h = function_on_grid(head, predictions, points=300)
    low, high = grid[[0, -1]]
    counts = axis.twinx()
    counts.hist(predictions.instances[:, 0], bins=80, range=(low, high), color=INK, alpha=0.3)
    counts.set_yticks([])
    quiet(counts)
    counts.spines[:].set_visible(False)
    axis.set_zorder(counts.get_zorder() + 1)  # the lines before the bars
    axis.plot([low, high], [low, high], color=INK, linewidth=1, label="identity: the plain mean")
    axis.plot(grid, h, color=BLUE, linewidth=2, label="h, learned")
    legend(axis, loc="upper left")
    title = "A bag's prediction is the mean of h over its instances"
    return quiet(axis, xlabel="prediction of an instance", ylabel="h: its vote on the bag's target", title=title)


def contributions(axis, explanation, bag: int = 0):
    """The instances of one bag by what they have to do with its prediction, the largest on top.

    Parameters
    ----------
    axis : matplotlib axis
    explanation : of `bagwise.explain`, of any kind
    bag : int
        Its position. A line shows where an instance would be if all were alike.
    """
    bags = explanation.bags
    rows, prediction = bags.rows([bag]), float(explanation.predictions[bag])
    values = np.sort(explanation.values[rows])
    name, alike = STRIPS[explanation.kind]
    at, line = np.arange(len(values)), alike(prediction, len(values))
    axis.axvline(line, color=INK, linewidth=1)
    axis.hlines(at, line, values, color=BLUE, alpha=0.5, linewidth=1)
    axis.scatter(values, at, s=18, color=BLUE, linewidths=0)
    axis.locator_params(axis="x", nbins=5)
    axis.set_yticks([])
    title = f"Bag {label(bags.ids[bag])}: prediction {prediction:.4g}"
    return quiet(axis, xlabel=name, ylabel=f"{len(values):,} instances", title=title)


def _column(bags: Bags, feature: int | str) -> tuple[np.ndarray, str]:
    names = list(bags.feature_names or [f"feature {j}" for j in range(bags.n_features)])
    known = feature in names if isinstance(feature, str) else 0 <= feature < bags.n_features
    if not known:
        raise ValueError(f"there is no feature {feature!r}; the features are {', '.join(names[:8])}")
    position = names.index(feature) if isinstance(feature, str) else feature
    return bags.instances[:, position], names[position]


def _one_per_instance(values, bags: Bags) -> np.ndarray:
    (values,) = columns(values=values)
    if len(values) != bags.n_instances:
        raise ValueError(f"values has {len(values)} entries for {bags.n_instances} instances; give one per instance")
    return values
