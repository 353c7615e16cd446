"""Whole bags out of chunks, for what is no sum over rows: medians, intervals, the bags of a calibration.

A bag that lies in one chunk is whole there. Of bags that lie in several, the rows come together in this process.
Missing values are filled in chunk by chunk as `Imputation` does in memory: by the median of the bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags
from bagwise.bags.validation import FLOATS, LARGEST, label, name_bags
from bagwise.instances.imputation import SHARE, Imputation, bag_medians
from bagwise.io.columns import any_row
from bagwise.out_of_core.chunks import BagValues, Block, Chunk, DerivedChunk
from bagwise.out_of_core.passes import Left, Met, Passes
from bagwise.out_of_core.shards import Shard, Shards
from bagwise.out_of_core.table_scan import Scan

MOST_MEDIANS = 100_000  # of bags, which decide what stands for a value that a whole bag lacks
MOST_VALUES = 2**26  # that come together in this process: 512 MB


class Pieces(NamedTuple):
    """Rows of some bags of a chunk: the number of each one's bag among all bags, features, weights and covariates."""

    number: np.ndarray
    X: np.ndarray
    weight: np.ndarray | None
    covariates: np.ndarray | None
    ids: dict[int, Any]
    values: dict[int, tuple]  # target and group of a bag, where they were asked for

    @classmethod
    def join(cls, parts: list[Pieces]) -> Pieces:
        columns = zip(*(part[:4] for part in parts), strict=True)
        rows: list[Any] = [None if column[0] is None else np.concatenate(column) for column in columns]
        ids = {number: one for part in parts for number, one in part.ids.items()}
        values = {number: one for part in parts for number, one in part.values.items()}
        return cls(rows[0], rows[1], rows[2], rows[3], ids, values)

    def bags(self, scan: Scan) -> tuple[np.ndarray, Bags, np.ndarray | None]:
        """The numbers of the bags in order, the bags, and their targets if they were asked for."""
        order = np.argsort(self.number, kind="stable")
        numbers, starts = np.unique(self.number[order], return_index=True)
        more: dict[str, Any] = {}
        if self.covariates is not None:
            more = {"covariates": self.covariates[order][starts], "covariate_names": list(scan.covariates)}
        if self.weight is not None:
            more["weights"] = self.weight[order]
        known = [self.values.get(one, (None, None)) for one in numbers.tolist()]
        if known[0][1] is not None:
            more["groups"] = np.array([group for _, group in known])
        ids = np.empty(len(numbers), dtype=object)
        ids[:] = [self.ids[one] for one in numbers.tolist()]
        missing, names = "keep" if scan.missing == "impute" else "refuse", list(scan.feature_names)
        offsets = np.append(starts, len(order))
        bags = Bags(self.X[order], offsets, ids, feature_names=names, missing=missing, **more)
        bags = bags._with(categories=scan.categories)
        return numbers, bags, None if known[0][0] is None else np.array([y for y, _ in known], dtype=np.float64)


def pieces_of(chunk: Chunk, numbers: np.ndarray, *, values: bool = False) -> Pieces | None:
    """The rows of the bags of a chunk that have a number (of the others it is negative)."""
    ids, codes = chunk.bags()
    if not (numbers >= 0).any():
        return None
    of_bags = chunk.of_bags(ids, codes) if values else BagValues()
    blocks: list[Block] = []
    for block in chunk.blocks(codes=codes, covariates=True):
        rows = numbers[block.bag] >= 0
        blocks.append(block if rows.all() else block.select(rows))
    if not sum(len(block.bag) for block in blocks):
        return None

    def column(name: str):
        first = getattr(blocks[0], name)
        return None if first is None else np.concatenate([getattr(block, name) for block in blocks])

    some = np.flatnonzero(numbers >= 0).tolist()
    known = {}
    if of_bags.y is not None:
        known = {
            int(numbers[k]): (float(of_bags.y[k]), None if of_bags.groups is None else of_bags.groups[k]) for k in some
        }
    own = {int(numbers[k]): ids[k] for k in some}
    return Pieces(numbers[column("bag")], column("X"), column("weight"), column("covariates"), own, known)


def gather_pieces(passes: Passes, column: str, why: str, *, values: bool = False) -> Pieces | None:
    """The rows of all bags that the shards give a number under that name, in this process."""
    parts, held = [], 0
    for part in passes.each(_pieces, values, known=(column,)):
        if part is None:
            continue
        held += part.X.size
        if held > MOST_VALUES:
            raise ValueError(
                f"bag {label(next(iter(part.ids.values())))} and others {why}, and more than {MOST_VALUES:,} of their "
                "values would be held at once; sort the table by bag, so that a bag lies in one chunk or two"
            )
        parts.append(part)
    return Pieces.join(parts) if parts else None


def _pieces(chunk: Chunk, numbers: np.ndarray, values: bool) -> Pieces | None:
    return pieces_of(chunk, numbers, values=values)


def keep_by_bag(passes: Passes, name: str, width: int, function: Callable, *shared) -> None:
    """Keep under ``name`` what ``function(bags, *shared)`` gives of every bag: a row of so many numbers.

    The passes have met their chunks.
    """
    several = passes.by_shard(_number_several, add=np.add)
    for _ in passes.each(_of_chunk, passes.scan, name, width, function, *shared, known=("several",)):
        pass
    passes.by_shard(_gather, name)
    if several:
        found = gather_pieces(passes, "several", "lie in several chunks")
        if found is not None:
            numbers, bags, _ = found.bags(passes.scan)
            passes.by_shard(_take, name, numbers, function(bags, *shared))


def number_bags(shard: Shard, mask: np.ndarray) -> np.ndarray:
    """A number among all bags for those that are marked, -1 for the others."""
    return np.where(mask, shard.number * 2**40 + np.arange(len(mask)), -1)


def _number_several(shard: Shard) -> int:
    several = np.bincount(shard.at, minlength=len(shard)) > 1
    shard.keep("several", number_bags(shard, several))
    return int(np.count_nonzero(several))


def _of_chunk(chunk: Chunk, several: np.ndarray, scan: Scan, name: str, width: int, function, *shared) -> Left:
    rows = np.full((len(several), width), np.nan)
    found = pieces_of(chunk, np.where(several < 0, np.arange(len(several)), -1))
    if found is not None:
        numbers, bags, _ = found.bags(scan)
        rows[numbers] = function(bags, *shared)
    return Left({name: rows})


def _gather(shard: Shard, name: str) -> None:
    shard.keep(name, shard.gather(name, np.fmin))  # NaN of bags in several chunks, which come later


def _take(shard: Shard, name: str, numbers: np.ndarray, rows: np.ndarray) -> None:
    several, kept = np.asarray(shard["several"]), np.array(shard[name])
    own = np.flatnonzero(several >= 0)
    own = own[np.isin(several[own], numbers)]
    kept[own] = rows[np.searchsorted(numbers, several[own])]
    shard.keep(name, kept)


# Some of the bags ---------------------------------------------------------------------------------------------------


class SelectedChunk(DerivedChunk):
    """The rows of another chunk that are of some bags.

    Parameters
    ----------
    chunk : Chunk
    number : int
        Of the chunk among those of the scan.
    shards : Shards
        Which keep the "part" of every bag.
    without : int
        The part that is left out.
    """

    def __init__(self, chunk: Chunk, number: int, shards: Shards, without: int):
        super().__init__(chunk)
        self.number, self.shards, self.without = number, shards, without

    def _kept(self) -> np.ndarray:
        return self.shards.known(self.number, "part") != self.without

    def bags(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of these bags, and the number of the bag of every row that is one's of theirs."""
        (ids, codes), kept = self.chunk.bags(), self._kept()
        return ids[kept], (np.cumsum(kept) - 1)[codes[kept[codes]]]

    def of_bags(self, ids: np.ndarray, codes: np.ndarray) -> BagValues:
        """The target, group, covariates and weight of these bags."""
        kept = self._kept()
        return BagValues(
            *(None if part is None else part[kept] for part in self.chunk.of_bags(*self.chunk.bags())),
        )

    def blocks(self, *, codes: np.ndarray | None = None, **asked) -> Iterator[Block]:
        """Those of the other chunk, without the rows of other bags."""
        kept = self._kept()
        number = np.cumsum(kept) - 1
        for block in self.chunk.blocks(**asked):
            some = block.select(kept[block.bag])
            if len(some.bag):
                yield some._replace(bag=number[some.bag])


# Missing values -----------------------------------------------------------------------------------------------------


class ImputedChunk(DerivedChunk):
    """The rows of another chunk, missing values filled in.

    Parameters
    ----------
    chunk : Chunk
    number : int
        Of the chunk among those of the scan.
    shards : Shards
        Which keep the "medians" of bags.
    stage : Imputation
        Fitted.
    """

    def __init__(self, chunk: Chunk, number: int, shards: Shards, stage: Imputation):
        super().__init__(chunk)
        self.number, self.shards, self.stage = number, shards, stage

    def blocks(self, *, codes: np.ndarray | None = None, **asked) -> Iterator[Block]:
        """Those of the other chunk, without missing values."""
        medians = self.shards.known(self.number, "medians")
        filling = np.where(np.isnan(medians), self.stage.medians_, medians)
        for block in self.chunk.blocks(codes=codes, **asked):
            missing, X = np.isnan(block.X), block.X
            if missing.any():
                X = np.where(missing, filling[block.bag], X).astype(X.dtype)
            if self.stage.has_share_:
                X = np.column_stack([X, missing.mean(axis=1)]).astype(X.dtype)
            yield block._replace(X=X)


class _Few(NamedTuple):
    """The medians of the bags whose names have the smallest hashes, and whether any bag has missing values."""

    keys: np.ndarray
    medians: np.ndarray
    any_missing: bool

    def merge(self, other: _Few) -> _Few:
        keys, medians = np.concatenate([self.keys, other.keys]), np.concatenate([self.medians, other.medians])
        order = np.argsort(keys, kind="stable")[:MOST_MEDIANS]
        return _Few(keys[order], medians[order], self.any_missing or other.any_missing)


def fit_imputation(stage: Imputation, passes: Passes) -> tuple[Imputation, Scan]:
    """The stage fitted as if on all instances, and the scan with missing values filled in.

    The scan is good as long as the passes are.
    """
    stage, found = clone(stage), _find_medians(passes)
    stage.fit_medians(found.medians, _columns(passes.scan), has_missing=found.any_missing)
    return stage, _imputed(stage, passes)


def impute(stage: Imputation, passes: Passes) -> Scan:
    """A scan of new bags, filled in by a fitted stage: by their own medians, else by those of training."""
    _find_medians(passes)
    return _imputed(stage, passes)


def _imputed(stage: Imputation, passes: Passes) -> Scan:
    chunks = tuple(ImputedChunk(piece.chunk, piece.number, passes.shards, stage) for piece in passes.chunks)
    names = (*passes.scan.feature_names, *[SHARE] * stage.has_share_)
    return replace(passes.scan, chunks=chunks, feature_names=names)


def _find_medians(passes: Passes) -> _Few:
    """Keep the median of every column in every bag; those of some bags come back."""
    for _ in passes.meet(_look):
        pass
    keep_by_bag(passes, "medians", len(passes.scan.feature_names), bag_medians)
    return passes.by_shard(_few, add=_Few.merge)


def _look(chunk: Chunk) -> Met:
    ids, codes = chunk.bags()
    missing = np.zeros(len(ids), dtype=bool)
    for block in chunk.blocks(codes=codes):
        with np.errstate(invalid="ignore"):
            wrong = (np.abs(block.X) > FLOATS[block.X.dtype]).any(axis=1)
        if wrong.any():
            raise ValueError(
                f"{name_bags(ids, any_row(wrong, block.bag, ids))} infinite or huge (beyond {LARGEST:g}) feature "
                f"values in {chunk.name}; replace them, or leave such rows out with missing='drop-instances' or where="
            )
        missing |= any_row(np.isnan(block.X).any(axis=1), block.bag, ids)
    return Met(ids, None, {"missing": missing})


def _few(shard: Shard) -> _Few:
    names = np.array(shard["names"]).view(np.uint8).reshape(len(shard), -1)
    keys = names[:, 8:16].copy().view(">u8")[:, 0]
    few = _Few(keys, np.asarray(shard["medians"]), bool(shard.gather("missing", np.logical_or).any()))
    return few.merge(_Few(keys[:0], few.medians[:0], False))


def _columns(scan: Scan) -> Bags:
    names = list(scan.feature_names)
    return Bags(np.zeros((1, len(names))), [0, 1], feature_names=names)
