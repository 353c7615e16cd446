"""Splits of bags into training and test sets: repeated folds, fixed folds, or one train/test split."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.folds import Validation, resolve, split_bags
from bagwise.bags.validation import absent, aligned, are_pairs, label, name_bags, warn_user

REPEATS = 10  # default for random folds, as in the paper


@dataclass(frozen=True)
class Split:
    """Training and test bags of one fold, as positions, with the number of the repeat and the name of the fold."""

    repeat: int
    fold: int | str
    train: np.ndarray
    test: np.ndarray


def make_splits(
    bags: Bags, *, repeats: int | None = None, folds=5, fold=None, split=None, random_state: int = 0
) -> list[Split]:
    """Split the bags of an evaluation into training and test bags, for each repeat and fold.

    Parameters
    ----------
    repeats : int, optional
        Default: 10 for random folds, and 1 for others, whose repeats differ only in the seed of the methods.
    folds : int, "each", "forward", "given", Validation, or list of (train, test) pairs
        A number keeps the scheme that the bags declare, which is random by default. With "forward", each window of
        time is scored by a method trained on the bags before it.
    fold : one label per bag, optional
        Fixed folds. Each is scored by a method trained on the other folds.
    split : "train" or "test" for each bag, optional
        A single split: methods are trained on the bags "train" and scored on the bags "test".
    random_state : int, default 0
        Repeat r of random folds has the seed ``random_state + r``.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6)
    >>> [split.test.tolist() for split in make_splits(bags, fold=["a", "a", "b", "b", "c", "c"])]
    [[0, 1], [2, 3], [4, 5]]
    """
    if fold is not None and split is not None:
        raise ValueError("Pass fold (for fixed folds) or split (for train and test), not both.")
    random_state = as_seed(random_state)
    if fold is not None or split is not None:
        folds = Validation("given", given=_fixed_folds(bags, fold, split))
    bags, declared = resolve(bags, folds)
    fold_labels = None if declared.scheme != "given" or are_pairs(declared.given) else bags.fold
    splits = []
    for r in range(as_repeats(repeats, REPEATS if declared.scheme == "random" else 1)):
        parts = split_bags(bags, folds, random_state=random_state + r)
        for k, (train, test) in enumerate(parts.pairs()):
            name = k if fold_labels is None else _plain(fold_labels[test][:1]).tolist()[0]
            splits.append(Split(r, name, train, test))
    if declared.scheme == "given" and bags.groups is not None:
        divided = [np.intersect1d(bags.groups[split.train], bags.groups[split.test]) for split in splits]
        if any(map(len, divided)):
            example = label(np.concatenate(divided)[0])
            text = f"The given folds separate bags of one group, such as {example}, so scores may be too optimistic."
            warn_user(f"{text} Use folds that keep groups together.")
    return splits


def _fixed_folds(bags: Bags, fold, split) -> np.ndarray:
    """Return the label of the fold of each bag, or "train" and "test"."""
    if split is None:
        labels = _plain(_one_per_bag(bags, fold, "fold"))
        if len(set(labels.tolist())) < 2:
            raise ValueError(f"All bags are in fold {labels[0]!s}. Fixed folds need at least two labels.")
        return labels
    labels = np.array([str(label).strip().lower() for label in _one_per_bag(bags, split, "split").tolist()])
    values = sorted(set(labels.tolist()))
    if values != ["test", "train"]:
        raise ValueError(f"split must have 'train' or 'test' for each bag, with at least one of both; got {values}")
    return labels


def as_repeats(repeats, default: int) -> int:
    repeats = default if repeats is None else _whole(repeats, "repeats")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    return repeats


def as_seed(random_state) -> int:
    """Return the seed of the first repeat as an int; each further repeat adds one."""
    seed = _whole(random_state, "random_state", "; repeat r has the seed random_state + r")
    if not 0 <= seed < 2**32:
        raise ValueError(f"random_state must be from 0 to 2**32 - 1, not {seed}")
    return seed


def _whole(number, name: str, why: str = "") -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {number!r}{why}")
    return index(number)


def as_labels(bags: Bags, by) -> dict | None:
    """Return the name and the labels per bag by which scores are grouped, or None if ``by`` is None."""
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
        raise ValueError(f"by takes one set of labels, not {len(by)}. Call results.scores_by for the others.")
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
    if labels.dtype.kind in "biufU":
        return labels
    return np.array([x.decode(errors="backslashreplace") if isinstance(x, bytes) else str(x) for x in labels])
