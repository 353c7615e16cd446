"""Held-out predictions of folds of bags, by heads of sums without each fold.

With the `RowSums` of every fold, the head without fold k follows from those of the others. What is fitted before the
head (scales, bandwidths, landmarks, out-of-fold predictions of instances) is that of all bags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bagwise.out_of_core.passes import ColumnSums, Passes, Survey
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.sums import View, deal_folds
from bagwise.regressors.ridge_path import RowSums

FOLD = "held_out_fold"
BEYOND = 0.1  # predictions stay within the range of the other targets, widened by this share of it


class Folds:
    """Folds of bags, and the targets of each.

    Attributes
    ----------
    y : {fold: `ColumnSums` of its targets}
    limits : {fold: the range of the targets of the others, a little widened}, or infinite ones
    """

    def __init__(self, passes: Passes, survey: Survey, folds: int, *, clipped: bool = True):
        self.n = deal_folds(passes, survey, folds, FOLD)
        found = passes.by_shard(_fold_targets, add=merge_folds)
        self.y: dict[int, ColumnSums] = dict(sorted(found.items()))
        self.without = {k: merged(own for j, own in self.y.items() if j != k) for k in self.y}
        self.limits = {k: limits_of(own) if clipped else (-np.inf, np.inf) for k, own in self.without.items()}


def limits_of(y: ColumnSums) -> tuple[float, float]:
    """The range of targets, a little widened."""
    low, high = float(y.low[0]), float(y.high[0])
    return low - BEYOND * (high - low), high + BEYOND * (high - low)


def _fold_targets(shard: Shard) -> dict[int, ColumnSums]:
    y, fold = shard["y"], shard[FOLD]
    return {int(k): ColumnSums.of(y[fold == k][:, None]) for k in np.unique(fold)}


def merge_folds(left: dict, right: dict) -> dict:
    return left | right | {k: left[k].merge(right[k]) for k in left.keys() & right.keys()}


def merged(parts: Iterable) -> Any:
    """All of them in one, by their ``merge``."""
    total: Any = None
    for part in parts:
        total = part if total is None else total.merge(part)
    return total


class Linear(NamedTuple):
    """Candidates that are linear in a bag's row: coefficients (columns, candidates) and intercepts."""

    coef: np.ndarray
    intercept: np.ndarray


class Candidates(NamedTuple):
    """Heads on the rows of a view, without each fold; their predictions plus or times what the shards keep."""

    view: View
    without: dict[int, Linear]
    plus: str | None = None
    times: str | None = None
    kept: str | None = None  # under which name their predictions are kept, where the rows are not
    embedding: Any = None  # fitted, whose rows the heads are of; it stays in this process
    heads: dict[int, Linear] | None = None  # for those rows, where the view has the rows before a product

    def predict(self, shard: Shard, k: int, bags: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
        """Of some bags of fold k: (bags, candidates)."""
        coef, intercept = self.without[k]
        out = self.view(shard, bags) @ coef + intercept
        out = out if self.plus is None else out + shard[self.plus][bags][:, None]
        out = out if self.times is None else out * shard[self.times][bags][:, None]
        return np.clip(out, *limits)

    @property
    def n(self) -> int:
        return len(next(iter(self.without.values())).intercept)

    @property
    def bare(self) -> Candidates:
        """What travels to the shards."""
        return self._replace(embedding=None, heads=None)


class HeldOut:
    """Held-out predictions of one method; in fold k by the setting and penalty that do best on the other folds.

    Heads hand in their candidates with `take`; `finish` keeps one number for every bag.

    Parameters
    ----------
    passes : Passes
    folds : Folds
    column : str, under which the shards keep the predictions
    """

    def __init__(self, passes: Passes, folds: Folds, column: str):
        self.passes, self.folds, self.column = passes, folds, column
        self.candidates: list[Candidates] = []
        self.errors: list[np.ndarray] = []

    def row_sums(self, view: View, target: str = "y", plus: str | None = None, weight: str | None = None) -> tuple:
        """The sums of all rows, and those without each fold."""
        found = self.passes.by_shard(fold_row_sums, view, FOLD, target, plus, weight, add=merge_folds)
        found = dict(sorted(found.items()))
        return merged(found.values()), {k: merged(own for j, own in found.items() if j != k) for k in found}

    def take(self, some: list[Candidates], *, keep: bool) -> None:
        """Judge candidates; ``keep`` their predictions if their rows will be gone."""
        start = len(self.candidates)
        some = [one._replace(kept=f"{self.column}-{start + k}" if keep else None) for k, one in enumerate(some)]
        found = self.passes.by_shard(_judge, [one.bare for one in some], self.folds.limits, add=np.add)
        self.candidates += some
        self.errors.append(found)

    def finish(self) -> None:
        """Keep the prediction of every bag by the candidate that did best on the other folds."""
        errors = np.hstack(self.errors)  # (folds, candidates)
        errors = np.where(np.isfinite(errors), errors, np.inf)
        keys = sorted(self.folds.y)
        chosen = {k: int(np.argmin(np.delete(errors, i, axis=0).sum(axis=0))) for i, k in enumerate(keys)}
        bare = [one.bare for one in self.candidates]
        self.passes.by_shard(_choose, bare, chosen, self.folds.limits, self.column)
        self.chosen = chosen
        self.passes.shards.remove(*(one.kept for one in self.candidates if one.kept is not None))

    def head_of(self, k: int) -> tuple[Candidates, np.ndarray, float]:
        """The candidates of which one predicted fold k, and its coefficients and intercept for their embedding."""
        starts = np.cumsum([0, *(one.n for one in self.candidates)])
        at = int(np.searchsorted(starts, self.chosen[k], side="right")) - 1
        one, own = self.candidates[at], self.chosen[k] - int(starts[at])
        head = (one.without if one.heads is None else one.heads)[k]
        return one, head.coef[:, own], float(head.intercept[own])


def fold_row_sums(shard: Shard, view: View, column: str, target: str, plus, weight) -> dict[int, RowSums]:
    rows, y, fold = view(shard), np.asarray(shard[target]), np.asarray(shard[column])
    y = y if plus is None else y - shard[plus]
    w = None if weight is None else np.asarray(shard[weight])
    return {
        int(k): RowSums.of(rows[fold == k], y[fold == k], None if w is None else w[fold == k]) for k in np.unique(fold)
    }


def _judge(shard: Shard, some: list[Candidates], limits: dict[int, tuple[float, float]]) -> np.ndarray:
    """Σ of squared errors of the bags of every fold, for all candidates."""
    y, fold = shard["y"], np.asarray(shard[FOLD])
    numbers = sorted(limits)
    errors = []
    for one in some:
        found, kept = np.zeros((len(numbers), one.n)), np.empty((len(y), one.n if one.kept else 0))
        for i, k in enumerate(numbers):
            for bags in _blocks(np.flatnonzero(fold == k)):
                predictions = one.predict(shard, k, bags, limits[k])
                found[i] += ((predictions - y[bags][:, None]) ** 2).sum(axis=0)
                if one.kept:
                    kept[bags] = predictions
        if one.kept:
            shard.keep(one.kept, kept)
        errors.append(found)
    return np.hstack(errors)


def _blocks(bags: np.ndarray, most: int = 8192) -> Iterable[np.ndarray]:
    return (bags[start : start + most] for start in range(0, len(bags), most))


def _choose(shard: Shard, some: list[Candidates], chosen: dict[int, int], limits: dict, column: str) -> None:
    fold, starts = np.asarray(shard[FOLD]), np.cumsum([0, *(one.n for one in some)])
    out = np.empty(len(fold))
    for k, candidate in chosen.items():
        at = int(np.searchsorted(starts, candidate, side="right")) - 1
        one, own = some[at], candidate - int(starts[at])
        only = {k: Linear(one.without[k].coef[:, [own]], one.without[k].intercept[[own]])}
        for bags in _blocks(np.flatnonzero(fold == k)):
            if one.kept is not None:
                out[bags] = shard[one.kept][bags, own]
            else:
                out[bags] = one._replace(without=only).predict(shard, k, bags, limits[k])[:, 0]
    shard.keep(column, out)


# Errors -----------------------------------------------------------------------------------------------------------


class ErrorSums(NamedTuple):
    """Of the held-out errors e of several methods: n, Σ e eᵀ, Σ |e|, and Σ s sᵀ of their squares s."""

    n: int
    products: np.ndarray
    absolute: np.ndarray
    squares: np.ndarray

    def merge(self, other: ErrorSums) -> ErrorSums:
        arrays = (a + b for a, b in zip(self[1:], other[1:], strict=True))
        return ErrorSums(self.n + other.n, *arrays)


def error_sums(passes: Passes, columns: list[str]) -> dict[int, ErrorSums]:
    """The sums of every fold."""
    return dict(sorted(passes.by_shard(_error_sums, columns, add=merge_folds).items()))


def _error_sums(shard: Shard, columns: list[str]) -> dict[int, ErrorSums]:
    errors = shard["y"][:, None] - np.column_stack([shard[column] for column in columns])
    fold, found = np.asarray(shard[FOLD]), {}
    for k in np.unique(fold).tolist():
        own = errors[fold == k]
        found[k] = ErrorSums(len(own), own.T @ own, np.abs(own).sum(axis=0), (own**2).T @ own**2)
    return found
