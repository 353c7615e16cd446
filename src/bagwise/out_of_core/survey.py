"""The first pass over a scan: sizes, targets and means of the bags; moments and extremes of the columns; a sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.checks import compared
from bagwise.bags.frames import ArrayColumns, FrameColumns
from bagwise.bags.validation import LARGEST, Parameter, ParameterError, name_bags
from bagwise.io.columns import any_row, one_label, one_target
from bagwise.kernels.random_features import row_keys, scale_of
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.passes import Passes, PerBag, sum_rows


@dataclass(frozen=True)
class ColumnSums:
    """Mean and scatter of columns. Two of them merge into that of all rows, by the formula of Chan et al. (1979).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> both = ColumnSums.merged([ColumnSums.of(X[:1]), ColumnSums.of(X[1:])])
    >>> both.mean.tolist(), both.variance.round(6).tolist(), both.high.tolist()
    ([2.0, 3.0], [2.666667, 2.666667], [4.0, 5.0])
    """

    n: int
    mean: np.ndarray
    scatter: np.ndarray  # Σ (x - mean)²
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> ColumnSums:
        X = X.astype(np.float64)
        mean = X[0] + (X - X[0]).mean(axis=0)  # counted from a row: a constant column has no rounding
        return cls(len(X), mean, ((X - mean) ** 2).sum(axis=0), X.min(axis=0), X.max(axis=0))

    @classmethod
    def merged(cls, parts: Iterable[ColumnSums]) -> ColumnSums:
        return reduce(cls.merge, parts)

    def merge(self, other: ColumnSums) -> ColumnSums:
        n, gap = self.n + other.n, other.mean - self.mean
        return ColumnSums(
            n,
            self.mean + gap * (other.n / n),
            self.scatter + other.scatter + gap**2 * (self.n * other.n / n),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def variance(self) -> np.ndarray:
        return self.scatter / self.n

    @property
    def deviation(self) -> np.ndarray:
        return np.sqrt(self.variance)

    @property
    def largest(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def scale(self) -> np.ndarray:
        """The deviation, or 1 where nothing but rounding varies."""
        return scale_of(self.deviation, self.largest)


@dataclass(frozen=True)
class Sample:
    """The distinct rows of the smallest keys, in the order of the keys: the same whatever the order of all rows."""

    size: int
    keys: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, size: int, seed: int) -> Sample:
        return cls(size, row_keys(X, seed), X)._smallest() if size else cls(0, np.empty(0, np.uint64), X[:0])

    def merge(self, other: Sample) -> Sample:
        keys, rows = np.concatenate([self.keys, other.keys]), np.concatenate([self.rows, other.rows])
        return Sample(self.size, keys, rows)._smallest()

    def _smallest(self) -> Sample:
        if self.size < len(self.keys):  # a first cut without sorting them all; copies of a row may fill it
            cut = np.partition(self.keys, self.size)[self.size]
            near = self.keys <= cut
            if len(np.unique(self.keys[near])) >= self.size:
                return Sample(self.size, self.keys[near], self.rows[near])._distinct()
        return self._distinct()

    def _distinct(self) -> Sample:
        keys, first = np.unique(self.keys, return_index=True)
        return Sample(self.size, keys[: self.size], self.rows[first[: self.size]])


@dataclass(frozen=True)
class Survey:
    """What the first pass finds.

    Attributes
    ----------
    bags : Bags
        Every bag as one instance, its mean: they stand for the bags themselves where only ids, groups, names of
        columns or means are asked for.
    y : array, a target per bag
    sizes : array, the number of instances of every bag
    columns : `ColumnSums` of all instances
    sample : array
        Distinct rows, drawn by a hash of their content.
    """

    bags: Bags
    y: np.ndarray
    sizes: np.ndarray
    columns: ColumnSums
    sample: np.ndarray


class _Seen(NamedTuple):
    """What is found in one chunk."""

    ids: np.ndarray
    sizes: Any = None  # this and what follows: None in a chunk without rows
    sums: Any = None
    y: Any = None
    groups: Any = None
    columns: ColumnSums | None = None
    sample: Sample | None = None


def survey(passes: Passes, sampling: tuple[int, int] = (0, 0)) -> Survey:
    """Go over all chunks once; ``sampling`` is how many distinct rows to draw, and the seed."""
    scan = passes.scan
    if scan.target is None:
        raise ParameterError(
            "target",
            "there is no target to learn from; scan the table with ",
            Parameter("target"),
            " the name of its column",
        )
    counts, sums = PerBag(), PerBag()
    columns: Any = None
    sample: Any = None
    y, groups = _Agreed(f"more than one target in column {scan.target!r}"), None
    if scan.groups is not None:
        groups = _Agreed(f"rows of more than one group in column {scan.groups!r}")
    for own, seen in passes.meet(_look, scan.target, scan.groups, sampling):
        counts.rows(passes.n_bags, seen.sizes)[own] += seen.sizes
        sums.rows(passes.n_bags, seen.sums)[own] += seen.sums
        columns = seen.columns if columns is None else columns.merge(seen.columns)
        sample = seen.sample if sample is None else sample.merge(seen.sample)
        y.take(own, seen.y, seen.ids, passes.n_bags)
        if groups is not None:
            groups.take(own, seen.groups, seen.ids, passes.n_bags)
    n_bags = passes.n_bags
    if n_bags < 2:
        raise ValueError("one bag is not enough to learn from; fit needs at least two")
    sizes = counts.upto(n_bags)
    means = sums.upto(n_bags) / sizes[:, None]
    labels = None if groups is None else groups.upto(n_bags)
    bags = Bags(means, np.arange(n_bags + 1), passes.ids, groups=labels, feature_names=list(scan.feature_names))
    return Survey(compared(bags), y.upto(n_bags), sizes, columns, sample.rows)  # no model's profile is of means


def _look(chunk: Chunk, target, groups, sampling) -> _Seen:
    ids, bag = chunk.bags()
    targets: list[Any] = []
    labels: list[Any] = []
    sums: Any = 0.0
    columns: Any = None
    sample: Any = None
    for block in chunk.blocks(codes=bag, target=True, groups=groups is not None):
        refuse_unusable(block.X, block.bag, ids, chunk)
        targets.append(block.y)
        labels.append(block.groups)
        sums = sums + sum_rows(block.bag, block.X, len(ids))
        found, drawn = ColumnSums.of(block.X), Sample.of(block.X, *sampling)
        columns = found if columns is None else columns.merge(found)
        sample = drawn if sample is None else sample.merge(drawn)
    if not targets:
        return _Seen(ids)
    first = np.flatnonzero(np.diff(np.maximum.accumulate(bag), prepend=-1))
    y = one_target(ArrayColumns({target: np.concatenate(targets)}), target, bag, first, ids)
    group = None if groups is None else _one_group(groups, np.concatenate(labels), bag, first, ids)
    return _Seen(ids, np.bincount(bag, minlength=len(ids)), sums, y, group, columns, sample)


def _one_group(name, labels: np.ndarray, bag, first, ids) -> np.ndarray:
    import pyarrow as pa

    return one_label(FrameColumns(pa.table({name: pa.array(labels)})), name, bag, first, ids)


def refuse_unusable(X: np.ndarray, bag: np.ndarray, ids: np.ndarray, chunk: Chunk) -> None:
    """No NaN, nothing infinite, nothing whose square is."""
    with np.errstate(invalid="ignore"):
        usable = (np.abs(X) <= min(LARGEST, float(np.finfo(X.dtype).max))).all(axis=1)
    if not usable.all():
        raise ValueError(
            f"{name_bags(ids, any_row(~usable, bag, ids))} missing (NaN), infinite or huge (beyond {LARGEST:g}) "
            f"feature values in {chunk.name}; fill them in, or leave such rows out with where="
        )


class _Agreed(PerBag):
    """One value per bag, the same in every chunk that has rows of it."""

    def __init__(self, otherwise: str):
        super().__init__()
        self.otherwise, self._met = otherwise, 0

    def take(self, own: np.ndarray, values: np.ndarray, ids: np.ndarray, n_bags: int) -> None:
        rows, old = self.rows(n_bags, values), own < self._met
        differs = old & (rows[own] != values)
        if differs.any():
            raise ValueError(f"{name_bags(ids, differs)} {self.otherwise}; a bag has one, the same in all files")
        rows[own], self._met = values, n_bags
