"""Draw a few instances for rules and landmarks, whatever the order of bags and instances and the units of features."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags


def draw_instances(X, n: int, *, random_state: int = 0) -> np.ndarray:
    """At most ``n`` rows of `Bags` or of an array, drawn without replacement; every bag weighs the same.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.kernels.drawing import draw_instances
    >>> X = np.arange(10.0)
    >>> bool((draw_instances(X, 4) == draw_instances(X[::-1], 4)).all())
    True
    """
    X, _, order, lot = _lots(X, random_state)
    if n < len(lot):
        first = np.argpartition(lot, n)[:n]
        order, lot = order[first], lot[first]
    return X[order[np.argsort(lot)]].astype(np.float64)


def draw_bags(X, n: int, per_bag: int, *, random_state: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """At most ``n`` rows, at most ``per_bag`` from a bag, bag after bag, and a number for the bag of each.

    An array is one bag, drawn from without the second limit.
    """
    per_bag = per_bag if isinstance(X, Bags) else n
    X, bag, order, lot = _lots(X, random_state)
    order = order[np.argsort(lot)]
    _, first, which = np.unique(bag[order], return_index=True, return_inverse=True)
    turn = first[which]  # bags come in the order of their first lot
    grouped = np.argsort(turn, kind="stable")
    order, turn = order[grouped], turn[grouped]
    starts = np.flatnonzero(np.diff(turn, prepend=-1))
    place = np.arange(len(turn)) - np.repeat(starts, np.diff(starts, append=len(turn)))
    kept = np.flatnonzero(place < per_bag)[:n]
    return X[order[kept]].astype(np.float64), turn[kept]


def _lots(X, random_state: int):
    """Rows, the bag of each, the rows in order of value, and a lot for each of those.

    Ordering by value first makes the draw independent of the order of bags and instances; and multiplying or shifting
    a feature leaves that order as it is. Exponential lots times the size of the bag, the smallest first, are a draw
    without replacement with weights 1 / size.
    """
    X, sizes = (X.instances, X.sizes) if isinstance(X, Bags) else (np.asarray(X), None)
    X = X[:, None] if X.ndim == 1 else X
    sizes = np.array([len(X)]) if sizes is None else sizes
    bag = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(X[:, 0], kind="stable")
    if not np.diff(X[order, 0]).all():  # ties: let the other columns, then the size of the bag, decide
        order = np.lexsort((sizes[bag], *X.T[::-1]))
    lot = np.random.default_rng(random_state).exponential(size=len(X)) * sizes[bag[order]]
    return X, bag, order, lot
