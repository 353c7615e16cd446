"""Missing values of a scan, filled in chunk by chunk as `Imputation` does in memory: by the median of the bag.

A median is no sum. A bag that lies in one chunk has its median there; of bags that lie in several, the rows come
together in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags
from bagwise.bags.validation import FLOATS, LARGEST, label, name_bags
from bagwise.instances.imputation import SHARE, Imputation, bag_medians
from bagwise.io.columns import any_row
from bagwise.out_of_core.chunks import Block, Chunk, DerivedChunk
from bagwise.out_of_core.passes import Met, Passes
from bagwise.out_of_core.shards import Shard, Shards
from bagwise.out_of_core.table_scan import Scan

MOST_VALUES = 2**26  # of bags that lie in several chunks: 512 MB
MOST_BAGS = 100_000  # whose medians decide what stands for a value that a whole bag lacks


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
        order = np.argsort(keys, kind="stable")[:MOST_BAGS]
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
    for _ in passes.meet(_chunk_medians):
        pass
    if passes.by_shard(_keep_medians, add=np.add):
        passes.by_shard(_take_medians, *_gathered(passes))
    return passes.by_shard(_few, add=_Few.merge)


def _chunk_medians(chunk: Chunk) -> Met:
    ids, codes = chunk.bags()
    if not len(ids):
        return Met(ids)
    parts = [(block.bag, block.X) for block in chunk.blocks(codes=codes)]
    bag, X = (np.concatenate(part) for part in zip(*parts, strict=True))
    with np.errstate(invalid="ignore"):
        wrong = (np.abs(X) > FLOATS[X.dtype]).any(axis=1)
    if wrong.any():
        raise ValueError(
            f"{name_bags(ids, any_row(wrong, bag, ids))} infinite or huge (beyond {LARGEST:g}) feature values in "
            f"{chunk.name}; replace them, or leave such rows out with missing='drop-instances' or where="
        )
    missing = any_row(np.isnan(X).any(axis=1), bag, ids)
    rows = {"medians": _medians(bag, X), "missing": missing, "pieces": np.ones(len(ids), dtype=np.int32)}
    return Met(ids, None, rows)


def _keep_medians(shard: Shard) -> int:
    """Keep what chunks found, and the numbers of the bags that lie in several of them; how many these are."""
    several = shard.gather("pieces") > 1
    shard.keep("missing", shard.gather("missing", np.logical_or))
    shard.keep("medians", shard.gather("medians", np.fmin))  # of one chunk; those of several come later
    shard.keep("several", np.where(several, shard.number * 2**40 + np.arange(len(shard)), -1))
    return int(np.count_nonzero(several))


def _gathered(passes: Passes) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the bags that lie in several chunks, and their medians, from their rows."""
    numbers, rows, values = [], [], 0
    for own, X, first in passes.each(_rows_of_several, known=("several",)):
        values += X.size
        if values > MOST_VALUES:
            raise ValueError(
                f"bag {label(first)} and others lie in several chunks, and the medians by which missing values are "
                f"filled in need more than {MOST_VALUES:,} of their values at once; sort the table by bag, or leave "
                "such rows out with missing='drop-instances'"
            )
        numbers.append(own)
        rows.append(X)
    found, bag = np.unique(np.concatenate(numbers), return_inverse=True)
    return found, _medians(bag, np.concatenate(rows))


def _rows_of_several(chunk: Chunk, several: np.ndarray) -> tuple:
    ids, codes = chunk.bags()
    parts = []
    for block in chunk.blocks(codes=codes):
        rows = several[block.bag] >= 0
        parts.append((several[block.bag[rows]], block.X[rows]))
    own, X = (np.concatenate(part) for part in zip(*parts, strict=True))
    return own, X, ids[int(np.argmax(several >= 0))]


def _take_medians(shard: Shard, numbers: np.ndarray, medians: np.ndarray) -> None:
    several, kept = np.asarray(shard["several"]), np.array(shard["medians"])
    own = several >= 0
    kept[own] = medians[np.searchsorted(numbers, several[own])]
    shard.keep("medians", kept)


def _few(shard: Shard) -> _Few:
    names = np.array(shard["names"]).view(np.uint8).reshape(len(shard), -1)
    keys = names[:, 8:16].copy().view(">u8")[:, 0]
    few = _Few(keys, np.asarray(shard["medians"]), bool(np.any(shard["missing"])))
    return few.merge(_Few(keys[:0], few.medians[:0], False))


def _columns(scan: Scan) -> Bags:
    names = list(scan.feature_names)
    return Bags(np.zeros((1, len(names))), [0, 1], feature_names=names)


def _medians(bag: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Of every bag, whose numbers go from 0 without a gap."""
    order = np.argsort(bag, kind="stable")
    return bag_medians(Bags(X[order], np.append(0, np.cumsum(np.bincount(bag))), missing="keep"))
