"""Folds of bags: the one place that splits, for out-of-fold prediction, tuning, early stopping, stacking, intervals."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags.container import Bags
from bagwise.bags.shared_rows import numbered

AUTO_FOLDS = 10


def bag_folds(bags: Bags, folds: int | str = "auto", *, random_state: int = 0) -> np.ndarray:
    """The fold (0, 1, ...) of every bag.

    Bags are dealt in an order that is a hash of their id and the seed, so the folds do not depend on the order in
    which the bags come. Bags of one group (or that repeat an id) are dealt together, to the fold that has the fewest
    bags so far.

    Parameters
    ----------
    bags : Bags
    folds : int, "auto" or "each"
        "auto" is 10, or as many as there are bags (groups) if those are fewer; "each" leaves out one bag (group) at a
        time.
    random_state : int

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6, ids=list("abcdef"), groups=[1, 1, 2, 2, 3, 3])
    >>> fold = bag_folds(bags, 3)
    >>> bool((fold[::2] == fold[1::2]).all())
    True
    """
    keys = bags.ids if bags.groups is None else bags.groups
    hashed = [unit_hash(key, random_state) for key in keys.tolist()]
    _, unit, sizes = np.unique(np.array(hashed, dtype="S8"), return_inverse=True, return_counts=True)
    n_folds = count_folds(folds, len(sizes), "bags" if bags.groups is None else "groups")
    return _deal(sizes, n_folds)[unit]


def unit_hash(key, random_state: int) -> bytes:
    """The hash of a group, or of a bag's id, by whose order units are dealt."""
    seed = int(random_state).to_bytes(16, "little", signed=True)
    return blake2b(str(key).encode(), digest_size=8, key=seed).digest()


def units_of(bags: Bags) -> np.ndarray:
    """The unit (0, 1, ...) of every bag, which is dealt to folds as a whole: its group, or itself with all of its id.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> units_of(bw.from_arrays([np.zeros((2, 1))] * 3, groups=["x", "y", "x"])).tolist()
    [0, 1, 0]
    """
    return numbered(bags.ids if bags.groups is None else bags.groups)


def count_units(bags: Bags) -> int:
    """How many groups, or bags, there are to deal to folds."""
    return int(units_of(bags).max()) + 1


def some_of(chosen, X, y: np.ndarray, sample_weight: np.ndarray | None) -> tuple:
    """Some samples (bags or rows), their targets and their weights, if any: what a model without a fold learns from.

    Examples
    --------
    >>> some_of([0, 2], np.eye(3), np.array([1.0, 2.0, 3.0]), None)[1:]
    (array([1., 3.]), None)
    """
    return X[chosen], y[chosen], None if sample_weight is None else sample_weight[chosen]


def row_units(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The unit of every row, which is left out as one: rows that are the same, with the same target, are one unit.

    A copy that stays would tell the target of the one left out; so a row of weight two is a row that came twice.

    Examples
    --------
    >>> row_units(np.array([[1.0], [2.0], [1.0]]), np.array([0.5, 0.5, 0.5])).tolist()
    [0, 1, 0]
    """
    if len(np.unique(y)) == len(y):
        return np.arange(len(y))
    place: dict[bytes, int] = {}
    return np.array([place.setdefault(row.tobytes(), len(place)) for row in np.column_stack([X, y])])


def count_folds(folds: int | str, n_units: int, noun: str) -> int:
    if folds == "each":
        folds = n_units
    elif folds == "auto":
        folds = min(AUTO_FOLDS, n_units)
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer):
        raise TypeError(f"folds must be a whole number, 'auto' or 'each', not {folds!r}")
    if n_units < 2:
        raise ValueError(f"folds need at least two {noun}; there is {n_units}")
    if folds < 2:
        raise ValueError(f"folds must be at least 2, not {folds}")
    if folds > n_units:
        raise ValueError(f"{folds} folds need at least {folds} {noun}, and there are {n_units}; ask for fewer folds")
    return int(folds)


def _deal(sizes: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold of every unit: the largest first, each to the emptiest fold."""
    if sizes.max() == 1:
        return np.arange(len(sizes)) % n_folds
    fold, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(n_folds, dtype=np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        fold[i] = filled.argmin()
        filled[fold[i]] += sizes[i]
    return fold


class BagKFold(BaseEstimator):
    """Folds of bags as a scikit-learn splitter, for ``cv=``; groups carried by the bags stay together.

    Parameters
    ----------
    folds : int, "auto" or "each"
        "auto" is 10, or as many as there are bags (groups) if those are fewer; "each" leaves out one bag (group) at a
        time.
    random_state : int
        Decides, with the ids of the bags, which fold a bag is in.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6)
    >>> [len(test) for _, test in bw.BagKFold(3).split(bags)]
    [2, 2, 2]
    """

    def __init__(self, folds: int | str = 5, *, random_state: int = 0):
        self.folds = folds
        self.random_state = random_state

    def split(self, bags, y=None, groups=None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if not isinstance(bags, Bags):
            raise TypeError(f"BagKFold splits Bags, not {type(bags).__name__}; build them with bagwise.load")
        if groups is not None:
            bags = bags._with(groups=np.asarray(groups))
        fold = bag_folds(bags, self.folds, random_state=self.random_state)
        for k in range(fold.max() + 1):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def get_n_splits(self, bags=None, y=None, groups=None) -> int:
        if isinstance(self.folds, int):
            return self.folds
        return int(bag_folds(bags, self.folds, random_state=self.random_state).max()) + 1
