"""Which bags are trained on and which are scored: repeated folds, folds fixed by a column, one train/test split."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from operator import index

import numpy as np
from sklearn.model_selection import KFold

from bagwise.bags import Bags, bag_folds
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
    bags: Bags, *, repeats: int | None = None, folds: int = 5, fold=None, split=None, random_state: int = 0
) -> list[Split]:
    """Make the splits of a protocol.

    Parameters
    ----------
    repeats : int, optional
        Default 10 as in the paper; 1 when the folds are fixed, where a repeat changes nothing but the seed of the
        methods.
    folds : int
        Repeat r splits the bags, in the order of their ids, by
        ``KFold(folds, shuffle=True, random_state=seed + r)``, as the notebook of Uriot (2019) does: neither the order
        of the bags nor the number of repeats matters. Bags that carry groups are split by group.
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
    repeats = (REPEATS if fold is None and split is None else 1) if repeats is None else _whole(repeats, "repeats")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    folds, random_state = _whole(folds, "folds", "; len(bags) leaves out one at a time"), as_seed(random_state)
    if split is not None:
        train, test = _train_test(bags, split)
        return [Split(r, "test", train, test) for r in range(repeats)]
    if fold is not None:
        labels, fold = _fixed_folds(bags, fold)
        return [_one(r, labels[k], fold == k) for r in range(repeats) for k in range(len(labels))]
    dealt = [_deal(bags, folds, random_state + r) for r in range(repeats)]
    return [_one(r, k, dealt[r] == k) for r in range(repeats) for k in range(folds)]


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


def _whole(number, what: str, why: str = "") -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {number!r}{why}")
    return index(number)


def _one(repeat: int, label, tested: np.ndarray) -> Split:
    return Split(repeat, label, np.flatnonzero(~tested), np.flatnonzero(tested))


def _deal(bags: Bags, folds: int, seed: int) -> np.ndarray:
    order = _by_id(bags.ids)
    if bags.groups is not None or order is None or not 2 <= folds <= len(bags):
        return bag_folds(bags, folds, random_state=seed)  # it also refuses wrong `folds`
    fold = np.empty(len(bags), dtype=np.int64)
    for k, (_, test) in enumerate(KFold(folds, shuffle=True, random_state=seed).split(order)):
        fold[order[test]] = k
    return fold


def _by_id(ids: np.ndarray) -> np.ndarray | None:
    """Return positions in the order of the ids; None when ids repeat (a bootstrap), as such bags stay together."""
    keys = ids.astype(str) if ids.dtype == object else ids
    distinct, order = np.unique(keys, return_index=True)
    return order if len(distinct) == len(ids) else None


def _fixed_folds(bags: Bags, fold) -> tuple[list, np.ndarray]:
    labels, codes = np.unique(_plain(_one_per_bag(bags, fold, "fold")), return_inverse=True)
    if len(labels) < 2:
        raise ValueError(f"every bag is in fold {labels[0]!s}; fixed folds need at least two")
    _warn_of_torn_groups(bags, codes, "fold")
    return labels.tolist(), codes


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


def _train_test(bags: Bags, split) -> tuple[np.ndarray, np.ndarray]:
    split = np.array([str(label).strip().lower() for label in _one_per_bag(bags, split, "split").tolist()])
    found = sorted(set(split.tolist()))
    if found != ["test", "train"]:
        raise ValueError(f"split must be 'train' or 'test' for every bag, and both must occur; it has {found}")
    _warn_of_torn_groups(bags, split == "test", "split")
    return np.flatnonzero(split == "train"), np.flatnonzero(split == "test")


def _one_per_bag(bags: Bags, labels, what: str) -> np.ndarray:
    labels = np.asarray(aligned(labels, bags, what))
    if labels.shape != (len(bags),):
        raise ValueError(f"{what} must have one label per bag ({len(bags)}), not shape {labels.shape}")
    unknown = absent(labels)
    if unknown.any():
        raise ValueError(f"{name_bags(bags.ids, unknown)} no {what}; give every bag a label, or leave those bags out")
    return labels


def _plain(labels: np.ndarray) -> np.ndarray:
    """Return labels as numbers or text, which a file can hold: dates as ISO text, bytes decoded."""
    if labels.dtype.kind == "M":
        return np.datetime_as_string(labels, unit="auto")
    if labels.dtype.kind == "S":
        return np.strings.decode(labels, "utf-8", "backslashreplace")
    if labels.dtype.kind == "O":
        texts = [one.decode(errors="backslashreplace") if isinstance(one, bytes) else str(one) for one in labels]
        return np.array(texts)
    return labels if labels.dtype.kind in "biufU" else np.array([str(one) for one in labels])


def _warn_of_torn_groups(bags: Bags, codes: np.ndarray, what: str) -> None:
    if bags.groups is None:
        return
    pairs = {(group, code) for group, code in zip(bags.groups.tolist(), codes.tolist(), strict=True)}
    torn = len(pairs) - len(set(bags.groups.tolist()))
    if torn:
        warnings.warn(
            f"the {what} column puts bags of one group on both sides of a split ({torn} times); scores may be too good",
            UserWarning,
            stacklevel=4,
        )
