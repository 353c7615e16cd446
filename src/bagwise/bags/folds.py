"""Split bags into folds, for out-of-fold prediction, tuning, early stopping, stacking and intervals.

`Validation` declares how bags are split, `split_bags` makes the `Folds` of a declaration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import numpy as np

from bagwise.bags.container import Bags
from bagwise.bags.validation import ParameterError, are_pairs, label, numbered, one_of

AUTO_FOLDS = 10
AUTO_STEPS = 5  # forward in time
SCHEMES = ("random", "forward", "given")
TRAIN_TEST = {"train", "test"}  # labels of a split


@dataclass(frozen=True)
class Validation:
    """Declaration of the question that held-out bags answer, from which all folds are derived.

    Pass it as ``folds=`` to `method`, `evaluate`, `Intervals`, `learning_curve` or `BagKFold`, or attach it to the bags
    with ``bags.with_validation``. Methods that cross-fit inside the training bags follow the same declaration.

    Parameters
    ----------
    scheme : {"random", "forward", "given"}, default "random"
        - "random": how good are predictions of further bags like these? Each bag is held out once, with one fit
          per fold.
        - "forward": how good are predictions of later bags? Bags are split into windows of equal numbers of bags in
          order of time; each window except the first is predicted by a model fitted on the bags before it. The first
          window has no held-out predictions, and early models are fitted on few bags.
        - "given": the folds of the table. A column of folds holds each fold out once; of the labels "train" and "test",
          only the test bags are held out. Inside the training bags the remaining labels are the folds, or random folds
          where one label remains.
    folds : int, "auto" or "each", default "auto"
        Number of folds ("random") or of predicted windows ("forward"). "auto" is 10 random folds, or 5 windows,
        and fewer for few bags; "each" holds out one bag (group) at a time.
    groups, blocks : column name or one label per bag, optional
        Bags of one group (patient, field) or of one block of space (`bw.geo.blocks`) stay together.
    time : column name or one value per bag, optional
        Dates or numbers, for "forward".
    given : column name, one label per bag, or list of (train, test) pairs of positions, optional
        The folds, for "given".
    gap : number or timedelta, default 0
        Time between the last training bag and the first predicted bag, in days for dates. Choose the delay after which
        targets become known.
    horizon : number or timedelta, optional
        Only the bags within this time of the begin of their window are predicted. Default: all bags of the window.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6)
    >>> declared = bw.Validation("forward", folds=2, time=[3, 1, 2, 6, 5, 4])
    >>> [(train.tolist(), test.tolist()) for train, test in bw.BagKFold(declared).split(bags)]
    [([1, 2], [0, 5]), ([0, 1, 2, 5], [3, 4])]
    """

    scheme: str = "random"
    folds: int | str = "auto"
    groups: Any = None
    time: Any = None
    blocks: Any = None
    given: Any = None
    gap: Any = 0
    horizon: Any = None

    def __post_init__(self):
        one_of(self.scheme, SCHEMES, "scheme")
        if isinstance(self.folds, str) and self.folds not in ("auto", "each"):
            raise ValueError(f"folds of a Validation must be a whole number, 'auto' or 'each', not {self.folds!r}")
        if self.groups is not None and self.blocks is not None:
            raise ValueError("Validation got groups and blocks; both keep bags together, so give one of them")


@dataclass(frozen=True)
class Folds:
    """The held-out bags and the training bags of each fold.

    Attributes
    ----------
    test : array of int
        The fold in which each bag is held out; -1 for a bag that no fold holds out.
    trains : tuple of boolean arrays, or None
        The training bags of each fold; None if they are all bags that the fold does not hold out.

    Examples
    --------
    >>> folds = Folds(np.array([0, 1, 0]))
    >>> len(folds), folds.train(0).tolist()
    (2, [False, True, False])
    """

    test: np.ndarray
    trains: tuple[np.ndarray, ...] | None = None

    def __len__(self) -> int:
        return int(self.test.max()) + 1

    def train(self, k: int) -> np.ndarray:
        """Return the mask of the training bags of fold k."""
        return self.test != k if self.trains is None else self.trains[k]

    @property
    def held_out(self) -> np.ndarray:
        """Mask of the bags that some fold holds out."""
        return self.test >= 0

    @property
    def is_partition(self) -> bool:
        """Whether each bag is held out once, by a fold that trains on all others."""
        return self.trains is None

    def pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield positions of the training bags and of the held-out bags of each fold."""
        for k in range(len(self)):
            yield np.flatnonzero(self.train(k)), np.flatnonzero(self.test == k)


def split_bags(bags: Bags, folds: Any = "auto", *, random_state: int = 0, inner: bool = False) -> Folds:
    """Return the folds of a declaration.

    Parameters
    ----------
    bags : Bags
    folds : int, "auto", "each", "random", "forward", "given", Validation, or list of (train, test) pairs
        A number (or "auto", "each") keeps the scheme that the bags declare and changes the number of folds.
    random_state : int, default 0
    inner : bool, default False
        Whether a method cross-fits with these folds inside its training bags. If so, a split into "train" and "test",
        or given folds with a single label, become random folds; there is no horizon; and a group on both sides of a
        cut in time is left out of that training set instead of raising an error.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 6).with_validation(bw.Validation(time=range(6)))
    >>> split_bags(bags, "forward").test.tolist()
    [-1, 0, 1, 2, 3, 4]
    """
    bags, declared = resolve(bags, folds)
    if declared.scheme == "forward":
        return _forward(bags, declared, inner)
    if declared.scheme == "given":
        labels = set() if bags.fold is None else set(_label_texts(bags.fold).tolist())
        if not inner or (len(labels) > 1 and not labels <= TRAIN_TEST):
            return _given(bags, declared)
    return Folds(bag_folds(bags, declared.folds, random_state=random_state))


def following(bags: Bags, folds: Any) -> Bags:
    """Return the bags with the declaration passed as ``folds=``, which methods that cross-fit inside then follow."""
    bags, declared = resolve(bags, folds)
    return bags.with_validation(declared) if isinstance(folds, str) and folds in SCHEMES else bags


def bag_folds(bags: Bags, folds: int | str = "auto", *, random_state: int = 0) -> np.ndarray:
    """Return the random fold (0, 1, ...) of each bag, by a hash of its id and the seed.

    Bags of one group (or with one id) go together to the fold with the fewest bags so far.

    Parameters
    ----------
    bags : Bags
    folds : int, "auto" or "each"
        "auto" is at most 10; "each" leaves out one bag (group) at a time.
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
    fold, filled = np.arange(len(sizes)) % n_folds, np.zeros(n_folds, dtype=np.int64)
    if sizes.max() > 1:  # assign the largest unit first, each to the fold with the fewest bags
        for i in np.argsort(-sizes, kind="stable"):
            fold[i] = filled.argmin()
            filled[fold[i]] += sizes[i]
    return fold[unit]


def unit_hash(key, random_state: int) -> bytes:
    """Return the hash of a group or of a bag's id; units are split in the order of their hashes."""
    seed = int(random_state).to_bytes(16, "little", signed=True)
    return blake2b(str(key).encode(), digest_size=8, key=seed).digest()


def units_of(bags: Bags) -> np.ndarray:
    """Return the unit (0, 1, ...) of each bag, which folds do not divide: its group, or all bags of its id."""
    return numbered(bags.ids if bags.groups is None else bags.groups)


def count_units(bags: Bags) -> int:
    """Return the number of groups, or of bags, that are split into folds."""
    return int(units_of(bags).max()) + 1


def some_of(chosen, X, y: np.ndarray, sample_weight: np.ndarray | None) -> tuple:
    """Return the training samples of one fold: bags or rows, targets and optional weights."""
    return X[chosen], y[chosen], None if sample_weight is None else sample_weight[chosen]


def row_units(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the unit of each row, which is left out as a whole: equal rows with equal targets are one unit.

    A copy in the training rows would reveal the target of the row left out. So a row of weight two equals two copies.
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


def resolve(bags: Bags, folds: Any) -> tuple[Bags, Validation]:
    """Return the bags with the columns of a declaration, and the declaration."""
    if isinstance(folds, Validation):
        if not are_pairs(folds.given):
            bags = bags.with_validation(folds)
        return bags, folds
    declared = bags.validation or Validation()
    if isinstance(folds, str) and folds in SCHEMES:
        number = declared.folds if declared.scheme == folds else "auto"
        return bags, replace(declared, scheme=folds, folds=number)
    if are_pairs(folds):
        return bags, Validation("given", given=folds)
    if isinstance(folds, str) and folds not in ("auto", "each"):
        raise ValueError(
            f"folds must be a whole number, 'auto', 'each', 'random', 'forward', 'given', a bw.Validation or a list of "
            f"(train, test) pairs, not {folds!r}"
        )
    return bags, declared if folds == "auto" else replace(declared, folds=folds)


def _forward(bags: Bags, declared: Validation, inner: bool) -> Folds:
    """Return windows of equal numbers of bags in order of time, each predicted from the bags before it."""
    if bags.time is None:
        raise ParameterError(
            "time", "folds='forward' needs a time per bag, and the bags have none; load them with time="
        )
    time, distinct = bags.time, np.unique(bags.time)
    if len(distinct) < 2 and inner:
        return Folds(bag_folds(bags, min(AUTO_STEPS, count_units(bags))))
    most = max(1, len(distinct) - 1)
    if isinstance(declared.folds, str):
        number = most if declared.folds == "each" else min(AUTO_STEPS, most)
    else:
        number = min(declared.folds, most) if inner else declared.folds
        if number < 1:
            raise ValueError(f"forward folds must be at least 1, not {number}")
    if len(distinct) < number + 1:
        raise ParameterError(
            "time",
            f"{number} forward folds need at least {number + 1} distinct times, and the bags have {len(distinct)}; "
            "take fewer folds, name another column as time, or take folds='random'",
        )
    starts = _window_starts(time, distinct, number)
    test = np.searchsorted(starts, time, side="right") - 1
    if declared.horizon is not None and not inner:
        late = time >= starts[test] + _span(declared.horizon, time)
        test[late & (test >= 0)] = -1
    trains = []
    for k, start in enumerate(starts):
        train = (time < start) & (time <= start - _span(declared.gap, time))
        if bags.groups is not None:
            spans = np.isin(bags.groups, np.unique(bags.groups[test == k])) & train
            if spans.any() and not inner:
                group = bags.groups[spans][0]
                raise ParameterError(
                    "groups",
                    f"group {label(group)} has bags before and after the cut at {start}; bags of one group must lie on "
                    "one side of each cut. Leave groups= out, choose another number of folds, or take folds='random'",
                )
            train &= ~spans
        if not train.any():
            raise ValueError(
                f"no training bag lies before {start} less the gap of {declared.gap}; take a smaller gap or fewer folds"
            )
        trains.append(train)
    return Folds(test, tuple(trains))


def _window_starts(time: np.ndarray, distinct: np.ndarray, number: int) -> np.ndarray:
    """Return the times at which the predicted windows begin, so that windows have equal numbers of bags."""
    before = np.searchsorted(np.sort(time), distinct)
    chosen: list[int] = []
    for k in range(number):
        n_before = (k + 1) * len(time) / (number + 1)
        options = np.arange(chosen[-1] + 1 if chosen else 1, len(distinct) - (number - 1 - k))
        chosen.append(int(options[np.abs(before[options] - n_before).argmin()]))
    return distinct[chosen]


def _span(span, time: np.ndarray):
    """Return a gap or horizon in the unit of the times; a number is days for dates."""
    if isinstance(span, timedelta | np.timedelta64):
        if time.dtype.kind != "M":
            raise TypeError(f"gap and horizon must be numbers for times that are numbers, not {span!r}")
        return np.timedelta64(span).astype("timedelta64[us]")
    if isinstance(span, bool) or not isinstance(span, int | float | np.number) or not span >= 0:
        raise ValueError(f"gap and horizon must be a number of at least 0 or a timedelta, not {span!r}")
    return np.timedelta64(round(span * 86_400_000_000), "us") if time.dtype.kind == "M" else span


def _given(bags: Bags, declared: Validation) -> Folds:
    """Return the folds of a column or of pairs of positions."""
    if are_pairs(declared.given):
        return _given_pairs(len(bags), declared.given)
    if bags.fold is None:
        raise ValueError("folds='given' needs a fold per bag, and the bags have none; load them with fold=")
    texts = _label_texts(bags.fold)
    labels = set(texts.tolist())
    if labels <= TRAIN_TEST:
        if len(labels) < 2:
            lacking = (TRAIN_TEST - labels).pop()
            raise ValueError(f"the split column has no {lacking!r} bag; both 'train' and 'test' are needed")
        return Folds(np.where(texts == "test", 0, -1), (texts == "train",))
    if labels & TRAIN_TEST:
        raise ValueError(
            f"the split column has the labels {', '.join(map(repr, sorted(labels)))}; a split has 'train' and 'test' "
            "alone, and folds have other labels. Replace the third label by 'train', or leave those bags out"
        )
    if len(labels) < 2:
        raise ValueError(f"each bag is in fold {label(bags.fold[0])}; given folds need at least two labels")
    return Folds(numbered(bags.fold))


def _label_texts(labels: np.ndarray) -> np.ndarray:
    return np.array([str(value).strip().lower() for value in labels.tolist()])


def _given_pairs(n_bags: int, pairs: Sequence) -> Folds:
    test, trains = np.full(n_bags, -1), []
    for k, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"folds: entry {k} must be a pair (train, test) of positions, not {len(pair)} parts")
        train, held_out = (np.asarray(part, dtype=np.int64) for part in pair)
        if not len(train) or not len(held_out):
            raise ValueError(f"folds: pair {k} has no {'test' if len(train) else 'training'} bag")
        outside = [i for i in (*train.tolist(), *held_out.tolist()) if not 0 <= i < n_bags]
        if outside:
            raise ValueError(f"folds: pair {k} names position {outside[0]}, and there are {n_bags} bags")
        if len(np.intersect1d(train, held_out)) or (test[held_out] >= 0).any():
            raise ValueError(f"folds: pair {k} tests a bag that it trains on or that another pair tests")
        test[held_out] = k
        trains.append(np.isin(np.arange(n_bags), train))
    return Folds(test, tuple(trains))
