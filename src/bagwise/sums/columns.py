"""What adds up over rows for every column: count, mean, squared deviations, extremes; and a sample of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from bagwise.instances.random_features import row_keys, scale_of


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
