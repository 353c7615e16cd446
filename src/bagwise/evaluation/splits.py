"""Splits of bags into training and test sets: repeated folds, fixed folds, or one train/test split."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from operator import index

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.folds import Folds, Validation, resolve, split_bags
from bagwise.bags.validation import absent, aligned, name_bags

REPEATS = 10  # default for random folds, as in the paper


@dataclass(frozen=True)
class Split:
    """Positions of the training and test bags of one fold, with the number of the repeat and the name of the fold."""

    repeat: int
    fold: int | str
    train: np.ndarray
    test: np.ndarray


def make_splits(
    bags: Bags, *, repeats: int | None = None, folds=5, fold=None, split=None, random_state: int = 0
) -> list[Split]:
    """Return the splits of an evaluation into training and test bags, by `bagwise.bags.folds.split_bags`.

    Parameters
    ----------
    repeats : int, optional
        Default: 10 for random folds. For other folds 1, because repeats have the same folds and differ only in the seed
        of the methods.
    folds : int, "each", "forward", "given", Validation, or list of (train, test) pairs
        A number sets the number of folds; the scheme is that declared by the bags, by default random. Repeat r of
        random folds has the seed ``random_state + r``, so folds depend neither on the order of the bags nor on the
        number of repeats. With "forward", each window of time is scored by a method trained on the bags before it.
    fold : one label per bag, optional
        Fixed folds. Each is scored by a method trained on the other folds.
    split : "train" or "test" for each bag, optional
        A single split: methods are trained on the bags "train" and scored on the bags "test".

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6)
    >>> [split.test.tolist() for split in make_splits(bags, fold=["a", "a", "b", "b", "c", "c"])]
    [[0, 1], [2, 3], [4, 5]]
    """
    if fold is not None and split is not None:
        raise ValueError(
            "Only one of fold and split can be used, not both. Pass fold for fixed folds, or split for train and test."
        )
    random_state = as_seed(random_state)
    if fold is not None or split is not None:
        folds = _declared(bags, fold, split)
    bags, declared = resolve(bags, folds)
    labels = None if declared.scheme != "given" or bags.fold is None else bags.fold
    if labels is not None:
        _warn_of_split_groups(bags, labels)
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
            raise ValueError(f"Every bag is in fold {labels[0]!s}. Fixed folds need at least two labels.")
        return Validation("given", given=labels)
    labels = np.array([str(label).strip().lower() for label in _one_per_bag(bags, split, "split").tolist()])
    values = sorted(set(labels.tolist()))
    if values != ["test", "train"]:
        raise ValueError(f"split must be 'train' or 'test' for each bag, and both must occur; got {values}")
    return Validation("given", given=labels)


def _names(labels: np.ndarray, folds: Folds) -> list:
    """Return the label of each fold, which is "test" for a train/test split."""
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
    """Return the name and the label per bag by which scores are grouped, as plain values; None if ``by`` is None."""
    if by is None:
        return None
    if isinstance(by, str):
        if by != "groups":
            raise ValueError(f"by must be one label per bag, {{name: labels}} or 'groups', not {by!r}")
        if bags.groups is None:
            raise ValueError("by='groups' needs bags with groups. Load the bags with groups=, or pass labels.")
        by = {"group": bags.groups}
    by = by if isinstance(by, dict) else {"label": by}
    if len(by) != 1:
        raise ValueError(
            f"by takes one set of labels, not {len(by)}. Pass one, and call results.scores_by for the others."
        )
    ((name, labels),) = by.items()
    return {"name": str(name), "labels": _plain(_one_per_bag(bags, labels, "by")).tolist()}


def _one_per_bag(bags: Bags, labels, name: str) -> np.ndarray:
    labels = np.asarray(aligned(labels, bags, name))
    if labels.shape != (len(bags),):
        raise ValueError(f"{name} must have one label per bag ({len(bags)}), not shape {labels.shape}")
    unknown = absent(labels)
    if unknown.any():
        raise ValueError(f"{name_bags(bags.ids, unknown)} no {name}. Give each bag a label, or leave these bags out.")
    return labels


def _plain(labels: np.ndarray) -> np.ndarray:
    """Convert labels to numbers or text for JSON files: dates to ISO text, bytes by decoding."""
    if labels.dtype.kind == "M":
        return np.datetime_as_string(labels, unit="auto")
    if labels.dtype.kind == "S":
        return np.strings.decode(labels, "utf-8", "backslashreplace")
    if labels.dtype.kind == "O":
        return np.array([x.decode(errors="backslashreplace") if isinstance(x, bytes) else str(x) for x in labels])
    return labels if labels.dtype.kind in "biufU" else np.array([str(label) for label in labels])


def _warn_of_split_groups(bags: Bags, labels: np.ndarray) -> None:
    if bags.groups is None:
        return
    pairs = set(zip(bags.groups.tolist(), labels.tolist(), strict=True))
    n_splits = len(pairs) - len(set(bags.groups.tolist()))
    if n_splits:
        warnings.warn(
            f"The given folds separate bags of one group ({n_splits} times), so scores may be too good. Use folds "
            "that keep groups together.",
            UserWarning,
            stacklevel=4,
        )
