"""What the bag explorer shows: bags by their error, and what a fitted model says of their instances."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from bagwise.bags import Bags
from bagwise.explaining import explain
from bagwise.explaining.function import function_on_grid
from bagwise.explaining.verbs import unwrapped
from bagwise.regressors import EmbeddingRidge
from bagwise.reports.held_out import HeldOut
from bagwise.reports.numbers import shortened

# A page must stay below 3 MB: so much is in it at most.
MOST_BAGS, MOST_INSTANCES = 300, 200
MOST_NUMBERS = 150_000  # of all instances together, about 7 bytes each
MOST_FEATURES = 20
MOST_LEFT_OUT = 400  # the largest bag that is explained by leaving out its instances one by one
MOST_SECONDS = 15.0  # for all of those bags, as far as the first of them, some SOME_SECONDS, can tell
SOME_SECONDS = 0.5

NAMES = {
    "instance_predictions": "prediction",
    "contributions": "contribution",
    "weights": "weight",
    "effects": "effect",
}


def choose_bags(held: HeldOut, most: int = MOST_BAGS) -> np.ndarray:
    """Places in ``held`` of the bags that are shown, largest error first: all, or the worst and some drawn by lot."""
    order = np.argsort(-np.abs(held.residual), kind="stable")
    if len(order) <= most:
        return order
    worst, rest = order[: 2 * most // 3], order[2 * most // 3 :]
    drawn = np.random.default_rng(0).choice(len(rest), most - len(worst), replace=False)
    return np.concatenate([worst, rest[np.sort(drawn)]])


def explain_bags(model, bags: Bags) -> dict:
    """Columns of numbers for the instances of every bag, as plain lists, cut to what a page can hold.

    Of a large bag those instances are kept whose numbers are the largest. ``bags`` has an entry for each bag, None for
    one that cannot be told of in reasonable time: of slow methods the first bags are. ``words`` tells if some are not.
    """
    kept, explanation = _explained(model, bags)
    columns = {name: np.asarray(values) for name, values in explanation.table().items() if name in NAMES}
    features = bags.n_features if bags.n_features <= MOST_FEATURES else 0
    features = features if _fits(explanation.bags.sizes, 1 + len(columns) + features) == MOST_INSTANCES else 0
    most = _fits(explanation.bags.sizes, 1 + len(columns) + features)
    shown: list[dict | None] = [None] * len(bags)
    for place, bag in enumerate(kept.tolist()):
        rows = slice(*explanation.bags.offsets[place : place + 2].tolist())
        at = _largest(explanation.values[rows], most)
        shown[bag] = {
            "instances": at.tolist(),
            "columns": [rounded(values[rows][at]) for values in columns.values()],
            "features": [rounded(bags[bag][at, j]) for j in range(features)],
            "prediction": rounded(explanation.predictions[[place]])[0],
        }
    names = bags.feature_names or [f"x{j + 1}" for j in range(bags.n_features)]
    return {
        "kind": explanation.kind,
        "columns": [NAMES[name] for name in columns],
        "features": [shortened(name, 100) for name in names[:features]],
        "most": most,
        "bags": shown,
        "words": _left_words(len(kept), len(bags)),
    }


def _explained(model, bags: Bags):
    """The bags that can be explained, and how: leaving out instances one by one is for bags that are not too large."""
    if explain(model, bags[[int(np.argmin(bags.sizes))]]).kind != "leave-one-out":
        return np.arange(len(bags)), explain(model, bags)
    kept = np.flatnonzero(bags.sizes <= MOST_LEFT_OUT)
    if not len(kept):
        raise ValueError(f"every bag has more than {MOST_LEFT_OUT} instances, too many to leave each out in turn")
    kept = kept[: _in_time(model, bags[kept])]
    return kept, explain(model, bags[kept])


def _in_time(model, bags: Bags) -> int:
    """How many bags, from the first on, can be explained in `MOST_SECONDS`, at least one."""
    count, seconds = 0, 0.0
    while seconds < SOME_SECONDS and count < len(bags):
        count = min(max(1, 4 * count), len(bags))
        start = perf_counter()
        explain(model, bags[:count])
        seconds = perf_counter() - start
    work = np.cumsum(bags.sizes**2)  # a bag of L instances is predicted L times, with all but one
    return max(1, int(np.searchsorted(work, work[count - 1] * MOST_SECONDS / seconds, side="right")))


def _left_words(told: int, n_bags: int) -> str:
    if told == n_bags:
        return ""
    return (
        f" Leaving out instances one by one takes time, so {told:,} of {n_bags:,} bags are explained: those of at most "
        f"{MOST_LEFT_OUT} instances and, from the largest error on, as many as {MOST_SECONDS:g} seconds allow."
    )


def _fits(sizes: np.ndarray, width: int) -> int:
    """How many instances of every bag can be shown at most, with so many numbers each."""
    counts = range(MOST_INSTANCES, 10, -1)
    return next((most for most in counts if np.minimum(sizes, most).sum() * width <= MOST_NUMBERS), 10)


def _largest(values: np.ndarray, most: int) -> np.ndarray:
    """Positions of the largest numbers by size, in their own order."""
    if len(values) <= most:
        return np.arange(len(values))
    return np.sort(np.argsort(-np.abs(values), kind="stable")[:most])


def rounded(values) -> list:
    """Numbers of four digits, which is what a plot can show; None where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> rounded(np.array([0.123456, 12345.6, np.nan]))
    [0.1235, 12350.0, None]
    """
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in np.asarray(values).tolist()]


def has_learned_function(model) -> bool:
    """Whether a bag's prediction is the mean of one learned function h of its instances' predictions."""
    steps = getattr(unwrapped(model), "steps", [])
    return bool(steps) and steps[0][0] == "instances" and isinstance(steps[-1][1], EmbeddingRidge)


def learned_function(model, bags: Bags) -> dict | None:
    """h on a grid over the instance predictions, and how many of those lie where; None if the model has no h."""
    model = unwrapped(model)
    if not has_learned_function(model):
        return None
    predictions = model[:-1].transform(bags)
    if predictions.n_features != 1:
        return None
    grid, h = function_on_grid(model[-1], predictions, points=160)
    if not grid[-1] > grid[0]:
        return None
    counts, _ = np.histogram(predictions.instances[:, 0], bins=40, range=(grid[0], grid[-1]))
    return {"grid": grid, "h": h, "counts": counts}
