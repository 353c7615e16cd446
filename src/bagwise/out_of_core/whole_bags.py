"""Whole bags out of chunks, for what is no sum over rows: medians, intervals, the bags of a calibration.

A bag that lies in one chunk is whole there. Of bags that lie in several, the rows come together in this process.
Missing values are filled in chunk by chunk as `Imputation` does in memory: by the median of the bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags
from bagwise.bags.imputation import SHARE, Imputation, bag_medians
from bagwise.bags.validation import label
from bagwise.io.columns import any_row
from bagwise.out_of_core.chunks import BagValues, Block, Chunk, DerivedChunk, as_objects
from bagwise.out_of_core.passes import Left, Met, Passes, Piece
from bagwise.out_of_core.shards import Shard, Shards
from bagwise.out_of_core.survey import Sample, refuse_unusable
from bagwise.out_of_core.table_scan import Scan, columns_of

MOST_MEDIANS = 100_000  # of bags, which decide what stands for a value that a whole bag lacks
MOST_VALUES = 2**26  # that come together in this process: 512 MB


class Pieces(NamedTuple):
    """Rows of some bags: each with the number of its bag among all bags; and of these bags ids, targets and groups."""

    rows: Block
    ids: dict[int, Any]
    values: dict[int, tuple]  # target and group of a bag, where they were asked for

    def bags(self, scan: Scan) -> tuple[np.ndarray, Bags, np.ndarray | None]:
        """The numbers of the bags in order, the bags, and their targets if they were asked for."""
        rows = self.rows.select(np.argsort(self.rows.bag, kind="stable"))
        numbers, starts = np.unique(rows.bag, return_index=True)
        more: dict[str, Any] = {} if rows.weight is None else {"weights": rows.weight}
        if rows.covariates is not None:
            more |= {"covariates": rows.covariates[starts], "covariate_names": list(scan.covariates)}
        known = [self.values.get(one, (None, None)) for one in numbers.tolist()]
        if known[0][1] is not None:
            more["groups"] = np.array([group for _, group in known])
        ids = as_objects([self.ids[one] for one in numbers.tolist()])
        more |= {"feature_names": list(scan.feature_names), "missing": "keep" if scan.missing == "impute" else "refuse"}
        bags = Bags(rows.X, np.append(starts, len(rows.X)), ids, **more)._with(categories=scan.categories)
        return numbers, bags, None if known[0][0] is None else np.array([y for y, _ in known], dtype=np.float64)


def _joined(blocks: Iterable[Block]) -> Block:
    columns = zip(*blocks, strict=True)
    return Block(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]


def _pieces(chunk: Chunk, numbers: np.ndarray, values: bool = False) -> Pieces | None:
    """The rows of the bags of a chunk that have a number (of the others it is negative)."""
    if (numbers < 0).all():
        return None
    ids, codes = chunk.bags()
    of_bags = chunk.of_bags(ids, codes) if values else BagValues()
    blocks = [block.select(numbers[block.bag] >= 0) for block in chunk.blocks(codes=codes, covariates=True)]
    if not sum(len(block.bag) for block in blocks):
        return None
    rows, some = _joined(blocks), np.flatnonzero(numbers >= 0).tolist()
    known = {}
    if of_bags.y is not None:
        groups = dict.fromkeys(some) if of_bags.groups is None else of_bags.groups
        known = {int(numbers[k]): (float(of_bags.y[k]), groups[k]) for k in some}
    return Pieces(rows._replace(bag=numbers[rows.bag]), {int(numbers[k]): ids[k] for k in some}, known)


def gather_pieces(passes: Passes, column: str, why: str, *, values: bool = False) -> Pieces | None:
    """The rows of all bags that the shards give a number under that name, in this process."""
    parts: list[Pieces] = []
    for part in filter(None, passes.each(_pieces, values, known=(column,))):
        parts.append(part)
        if sum(one.rows.X.size for one in parts) > MOST_VALUES:
            raise ValueError(
                f"bag {label(next(iter(part.ids.values())))} and others {why}, and more than {MOST_VALUES:,} of their "
                "values would be held at once; sort the table by bag, so that a bag lies in one chunk or two"
            )
    if not parts:
        return None
    rows, *known = zip(*parts, strict=True)
    ids, of_bags = ({number: one for part in some for number, one in part.items()} for some in known)
    return Pieces(_joined(rows), ids, of_bags)


def keep_by_bag(passes: Passes, name: str, width: int, function: Callable, *shared) -> None:
    """Keep under ``name`` what ``function(bags, *shared)`` gives of every bag: a row of so many numbers.

    The passes have met their chunks.
    """
    several = passes.by_shard(_number_several)
    passes.leave(_of_chunk, passes.scan, name, width, function, *shared, known=("several",))
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
    found = _pieces(chunk, np.where(several < 0, np.arange(len(several)), -1))
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
    """The rows of another chunk that are of some bags: those whose "part", which shards keep, is not that one."""

    def __init__(self, piece: Piece, shards: Shards, without: int):
        super().__init__(piece.chunk)
        self.number, self.shards, self.without = piece.number, shards, without

    def _kept(self) -> np.ndarray:
        return self.shards.known(self.number, "part") != self.without

    def bags(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of these bags, and the number of the bag of every row that is one's of theirs."""
        (ids, codes), kept = self.chunk.bags(), self._kept()
        return ids[kept], (np.cumsum(kept) - 1)[codes[kept[codes]]]

    def of_bags(self, ids: np.ndarray, codes: np.ndarray) -> BagValues:
        """The target, group, covariates and weight of these bags."""
        values, kept = self.chunk.of_bags(*self.chunk.bags()), self._kept()
        return BagValues(*(None if part is None else part[kept] for part in values))

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
    """The rows of another chunk, missing values filled in by a fitted stage, and the "medians" that shards keep."""

    def __init__(self, piece: Piece, shards: Shards, stage: Imputation):
        super().__init__(piece.chunk)
        self.number, self.shards, self.stage = piece.number, shards, stage

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


def fit_imputation(stage: Imputation, passes: Passes) -> tuple[Imputation, Scan]:
    """The stage fitted as if on all instances, and the scan with missing values filled in.

    The scan is good as long as the passes are.
    """
    stage, (sample, any_missing) = clone(stage), _find_medians(passes)
    stage.fit_medians(sample.rows, columns_of(passes.scan), has_missing=bool(any_missing))
    return stage, _imputed(stage, passes)


def impute(stage: Imputation, passes: Passes) -> Scan:
    """A scan of new bags, filled in by a fitted stage: by their own medians, else by those of training."""
    _find_medians(passes)
    return _imputed(stage, passes)


def _imputed(stage: Imputation, passes: Passes) -> Scan:
    chunks = tuple(ImputedChunk(piece, passes.shards, stage) for piece in passes.chunks)
    names = (*passes.scan.feature_names, *[SHARE] * stage.has_share_)
    return replace(passes.scan, chunks=chunks, feature_names=names)


def _find_medians(passes: Passes) -> tuple[Sample, int]:
    """Keep the median of every column in every bag; those of some bags come back, and whether any value is missing."""
    for _ in passes.meet(_look):
        pass
    keep_by_bag(passes, "medians", len(passes.scan.feature_names), bag_medians)
    return passes.by_shard(_few)


def _look(chunk: Chunk) -> Met:
    ids, codes = chunk.bags()
    missing = np.zeros(len(ids), dtype=bool)
    for block in chunk.blocks(codes=codes):
        refuse_unusable(block, ids, chunk, allow_missing=True)
        missing |= any_row(np.isnan(block.X).any(axis=1), block.bag, ids)
    return Met(ids, None, {"missing": missing})


def _few(shard: Shard) -> tuple[Sample, int]:
    sample = Sample(MOST_MEDIANS, shard.hashes[:, 1], np.asarray(shard["medians"])).smallest()
    return sample, int(shard.gather("missing", np.logical_or).any())
