"""Missing values of a scan, filled in chunk by chunk as `Imputation` does in memory: by the median of the bag.

A median is no sum, so that bags must be whole (`whole_bags`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags
from bagwise.bags.validation import FLOATS, LARGEST, name_bags
from bagwise.instances.imputation import SHARE, Imputation, bag_medians
from bagwise.io.columns import any_row
from bagwise.out_of_core.chunks import Block, Chunk, DerivedChunk
from bagwise.out_of_core.passes import Met, Passes
from bagwise.out_of_core.shards import Shard, Shards
from bagwise.out_of_core.table_scan import Scan
from bagwise.out_of_core.whole_bags import keep_by_bag

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
