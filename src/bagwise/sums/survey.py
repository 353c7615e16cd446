"""The first pass: which bags there are, their sizes, targets and mean instances; the spread of every column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.columns import ArrayColumns
from bagwise.bags.naming import name_bags
from bagwise.bags.parts import LARGEST
from bagwise.bags.roles import any_row, one_group, one_target
from bagwise.lake import Chunk
from bagwise.sums.columns import ColumnSums, Sample
from bagwise.sums.walk import Walk, sum_rows


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
    sizes: np.ndarray
    sums: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None
    columns: ColumnSums
    sample: Sample


def survey(walk: Walk, sampling: tuple[int, int] = (0, 0)) -> Survey:
    """Go over all chunks once; ``sampling`` is how many distinct rows to draw, and the seed."""
    scan = walk.scan
    if scan.target is None:
        raise ValueError("there is no target to learn from; name its column with scan(..., target=...)")
    found = list(walk.each(_look, scan.target, scan.groups, sampling))
    ids = walk.name_bags([seen.ids for seen in found])
    found = [seen for seen in found if len(seen.ids)]
    if len(ids) < 2:
        raise ValueError("one bag is not enough to learn from; fit needs at least two")
    sizes, sums = np.zeros(len(ids), dtype=np.int64), np.zeros((len(ids), len(scan.feature_names)))
    for own, seen in zip(walk.own, found, strict=True):
        sizes[own] += seen.sizes
        sums[own] += seen.sums
    y = _agreed(walk.own, [seen.y for seen in found], ids, f"more than one target in column {scan.target!r}")
    groups = None
    if scan.groups is not None:
        what = f"rows of more than one group in column {scan.groups!r}"
        groups = _agreed(walk.own, [seen.groups for seen in found], ids, what)
    names = list(scan.feature_names)
    bags = Bags(sums / sizes[:, None], np.arange(len(ids) + 1), ids, groups=groups, feature_names=names)
    columns = ColumnSums.merged(seen.columns for seen in found)
    return Survey(bags, y, sizes, columns, Sample.merged(seen.sample for seen in found).rows)


def _look(chunk: Chunk, target, groups, sampling) -> _Seen:
    ids, bag = chunk.bags()
    targets, labels, sums, columns, sample = [], [], 0.0, [], []
    for block in chunk.blocks(target=True, groups=groups is not None):
        refuse_unusable(block.X, block.bag, ids, chunk)
        targets.append(block.y)
        labels.append(block.groups)
        sums = sums + sum_rows(block.bag, block.X, len(ids))
        columns.append(ColumnSums.of(block.X))
        sample.append(Sample.of(block.X, *sampling))
    if not targets:
        return _Seen(ids, np.empty(0), np.empty((0, 0)), np.empty(0), None, None, None)
    first = np.flatnonzero(np.diff(np.maximum.accumulate(bag), prepend=-1))
    y = one_target(ArrayColumns({target: np.concatenate(targets)}), target, bag, first, ids)
    found = None
    if groups is not None:
        found = one_group(ArrayColumns({groups: np.concatenate(labels)}), groups, bag, first, ids)
    sizes = np.bincount(bag, minlength=len(ids))
    return _Seen(ids, sizes, sums, y, found, ColumnSums.merged(columns), Sample.merged(sample))


def refuse_unusable(X: np.ndarray, bag: np.ndarray, ids: np.ndarray, chunk: Chunk) -> None:
    """No NaN, nothing infinite, nothing whose square is."""
    with np.errstate(invalid="ignore"):
        usable = (np.abs(X) <= min(LARGEST, float(np.finfo(X.dtype).max))).all(axis=1)
    if not usable.all():
        raise ValueError(
            f"{name_bags(ids, any_row(~usable, bag, ids))} missing (NaN), infinite or huge (beyond {LARGEST:g}) "
            f"feature values in {chunk.name}; fill them in, or leave such rows out with where="
        )


def _agreed(own: list[np.ndarray], values: list[np.ndarray], ids: np.ndarray, what: str) -> np.ndarray:
    """One value per bag, the same in every chunk that has rows of it."""
    agreed = np.empty(len(ids), dtype=values[0].dtype)
    for bags, one in zip(own, values, strict=True):
        agreed[bags] = one
    differs = np.zeros(len(ids), dtype=bool)
    for bags, one in zip(own, values, strict=True):
        differs[bags] |= agreed[bags] != one
    if differs.any():
        raise ValueError(f"{name_bags(ids, differs)} {what}; a bag has one, the same on all its rows in all files")
    return agreed
