"""Which bags are trained on and which are scored: repeated folds, folds fixed by a column, one train/test split."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from operator import index

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.folds import Folds, Validation, resolve, split_bags
from bagwise.bags.validation import absent, aligned, name_bags

REPEATS = 10  # of the paper


@dataclass(frozen=True)
class Split:
    """Positions of the bags to train on and of those to score, and which repeat and fold it is."""

    repeat: int
    fold: int | str
    train: np.ndarray
    test: np.ndarray


def make_splits(
    bags: Bags, *, repeats: int | None = None, folds=5, fold=None, split=None, random_state: int = 0
) -> list[Split]:
    """Make the splits of a protocol; all folds come from `bagwise.bags.folds.split_bags`.

    Parameters
    ----------
    repeats : int, optional
        Default: 10 for random folds; 1 for others, where a repeat changes only the seed of the methods.
    folds : int, "each", "forward", "given", Validation, or list of (train, test) pairs
        A number keeps the scheme that the bags declare, which is random folds by default. Repeat r of random folds has
        the seed ``random_state + r``; neither the order of the bags nor the number of repeats matters. With "forward",
        each window of time is scored by what was trained on the bags before it.
    fold : one label per bag, optional
        Fixed folds; each is scored once by what was trained on the others.
    split : "train" or "test" for every bag, optional

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6)
    >>> [split.test.tolist() for split in make_splits(bags, fold=["a", "a", "b", "b", "c", "c"])]
    [[0, 1], [2, 3], [4, 5]]
    """
    if fold is not None and split is not None:
        raise ValueError("give fold (fixed folds) or split (train and test), not both")
    random_state = as_seed(random_state)
    if fold is not None or split is not None:
        folds = _declared(bags, fold, split)
    bags, declared = resolve(bags, folds)
    labels = None if declared.scheme != "given" or bags.fold is None else bags.fold
    if labels is not None:
        _warn_of_torn_groups(bags, labels)
    repeats = (REPEATS if declared.scheme == "random" else 1) if repeats is None else _whole(repeats, "repeats")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    splits = []
    for r in range(repeats):
        parts = split_bags(bags, folds, random_state=random_state + r)
        names = range(len(parts)) if labels is None else _names(labels, parts)
        pairs = zip(names, parts.pairs(), strict=True)
        splits += [Split(r, name, train, test) for name, (train, test) in pairs]
    return splits


def _declared(bags: Bags, fold, split) -> Validation:
    """Return the declaration of fixed folds, or of one split into train and test."""
    if split is None:
        labels = _plain(_one_per_bag(bags, fold, "fold"))
        if len(set(labels.tolist())) < 2:
            raise ValueError(f"every bag is in fold {labels[0]!s}; fixed folds need at least two")
        return Validation("given", given=labels)
    labels = np.array([str(label).strip().lower() for label in _one_per_bag(bags, split, "split").tolist()])
    values = sorted(set(labels.tolist()))
    if values != ["test", "train"]:
        raise ValueError(f"split must be 'train' or 'test' for every bag, and both must occur; it has {values}")
    return Validation("given", given=labels)


def _names(labels: np.ndarray, folds: Folds) -> list:
    """Return the label of each fold; "test" for a split into train and test."""
    return [_plain(labels[folds.test == k][:1]).tolist()[0] for k in range(len(folds))]


def as_seed(random_state) -> int:
    """Return the seed of the first repeat as an int; each further repeat adds one.

    Examples
    --------
    >>> import numpy as np
    >>> as_seed(np.int64(3))
    3
    """
    seed = _whole(random_state, "random_state", "; repeat r has the seed random_state + r")
    if not 0 <= seed < 2**32:
        raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {seed}")
    return seed


def _whole(number, name: str, why: str = "") -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {number!r}{why}")
    return index(number)


def as_labels(bags: Bags, by) -> dict | None:
    """Return the labels that scores are split by, as plain values: a name, and a label per bag."""
    if by is None:
        return None
    if isinstance(by, str):
        if by != "groups":
            raise ValueError(f"by must be one label per bag, {{name: labels}} or 'groups', not {by!r}")
        if bags.groups is None:
            raise ValueError("by='groups' needs bags that carry groups; load them with groups=, or give labels")
        by = {"group": bags.groups}
    by = by if isinstance(by, dict) else {"label": by}
    if len(by) != 1:
        raise ValueError(
            f"by takes one set of labels, not {len(by)}; evaluate once and call results.scores_by for others"
        )
    ((name, labels),) = by.items()
    return {"name": str(name), "labels": _plain(_one_per_bag(bags, labels, "by")).tolist()}


def _one_per_bag(bags: Bags, labels, name: str) -> np.ndarray:
    labels = np.asarray(aligned(labels, bags, name))
    if labels.shape != (len(bags),):
        raise ValueError(f"{name} must have one label per bag ({len(bags)}), not shape {labels.shape}")
    unknown = absent(labels)
    if unknown.any():
        raise ValueError(f"{name_bags(bags.ids, unknown)} no {name}; give every bag a label, or leave those bags out")
    return labels


def _plain(labels: np.ndarray) -> np.ndarray:
    """Return labels as numbers or text, which a file can hold: dates as ISO text, bytes decoded."""
    if labels.dtype.kind == "M":
        return np.datetime_as_string(labels, unit="auto")
    if labels.dtype.kind == "S":
        return np.strings.decode(labels, "utf-8", "backslashreplace")
    if labels.dtype.kind == "O":
        return np.array([x.decode(errors="backslashreplace") if isinstance(x, bytes) else str(x) for x in labels])
    return labels if labels.dtype.kind in "biufU" else np.array([str(label) for label in labels])


def _warn_of_torn_groups(bags: Bags, labels: np.ndarray) -> None:
    if bags.groups is None:
        return
    pairs = set(zip(bags.groups.tolist(), labels.tolist(), strict=True))
    torn = len(pairs) - len(set(bags.groups.tolist()))
    if torn:
        warnings.warn(
            f"the given folds put bags of one group on both sides of a split ({torn} times); scores may be too good",
            UserWarning,
            stacklevel=4,
        )
