"""Missing values of a scan, filled in chunk by chunk as `Imputation` does in memory: by the median of the bag.

A median is no sum. A bag that lies in one chunk has its median there; of bags that lie in several, the rows come
together in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bagwise.bags import Bags
from bagwise.bags.validation import FLOATS, LARGEST, label, name_bags
from bagwise.instances.imputation import SHARE, Imputation, bag_medians
from bagwise.io.columns import any_row
from bagwise.out_of_core.chunks import Block, Chunk, DerivedChunk
from bagwise.out_of_core.passes import Passes, PerBag
from bagwise.out_of_core.table_scan import Scan

MOST_VALUES = 2**26  # of bags that lie in several chunks: 512 MB


class ImputedChunk(DerivedChunk):
    """The rows of another chunk, missing values filled in.

    Parameters
    ----------
    chunk : Chunk
    filling : array (bags with missing values, features)
        What stands for a missing value.
    place : array
        For every bag of the chunk, its row in ``filling``; -1 without one.
    share : bool
        Whether the share of missing values of a row is a last column.
    """

    def __init__(self, chunk: Chunk, filling: np.ndarray, place: np.ndarray, share: bool):
        super().__init__(chunk)
        self.filling, self.place, self.share = filling, place, share

    def blocks(self, *, codes: np.ndarray | None = None, **asked) -> Iterator[Block]:
        """Those of the other chunk, without missing values."""
        for block in self.chunk.blocks(codes=codes, **asked):
            missing, X = np.isnan(block.X), block.X
            rows = np.flatnonzero(missing.any(axis=1))
            if len(rows):
                X = X.copy()
                X[rows] = np.where(missing[rows], self.filling[self.place[block.bag[rows]]], X[rows])
            if self.share:
                X = np.column_stack([X, missing.mean(axis=1)]).astype(X.dtype)
            yield block._replace(X=X)


class _Found(NamedTuple):
    """What a chunk has of its bags."""

    ids: np.ndarray
    medians: np.ndarray
    missing: np.ndarray  # which bags have missing values


class Medians:
    """The median of every column in every bag of a scan, and which bags have missing values."""

    def __init__(self, passes: Passes):
        medians, missing, chunks = PerBag(), PerBag(), PerBag()
        for own, found in passes.meet(_chunk_medians):
            medians.rows(passes.n_bags, found.medians)[own] = found.medians
            missing.rows(passes.n_bags, found.missing)[own] |= found.missing
            chunks.rows(passes.n_bags, np.zeros(1, dtype=np.int32))[own] += 1
        self.passes, self.values = passes, medians.upto(passes.n_bags)
        self.missing, self.shared = missing.upto(passes.n_bags), chunks.upto(passes.n_bags) > 1
        if self.shared.any():
            self._gather()

    def _gather(self) -> None:
        """Medians of the bags that lie in several chunks, from their rows."""
        passes, parts, values = self.passes, [], 0
        for own, (bag, X) in zip(passes.own, passes.each(_shared_rows, known=(self.shared,)), strict=True):
            values += X.size
            if values > MOST_VALUES:
                raise ValueError(
                    f"bag {label(passes.ids[self.shared.argmax()])} (and {np.count_nonzero(self.shared) - 1:,} others) "
                    "lie in several chunks, and the medians by which missing values are filled in need more than "
                    f"{MOST_VALUES:,} of their values at once; sort the table by bag, or leave such rows out with "
                    "missing='drop-instances'"
                )
            parts.append((own[bag], X))
        bag, X = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.values[self.shared] = _medians(np.unique(bag, return_inverse=True)[1], X)

    def imputed(self, stage: Imputation) -> Scan:
        """The scan with missing values filled in by a fitted stage."""
        passes = self.passes
        filling = np.where(np.isnan(self.values), stage.medians_, self.values)
        chunks = []
        for chunk, own in zip(passes.chunks, passes.own, strict=True):
            rows = np.flatnonzero(self.missing[own])
            place = np.full(len(own), -1, dtype=np.int32)
            place[rows] = np.arange(len(rows))
            chunks.append(ImputedChunk(chunk, filling[own[rows]], place, stage.has_share_))
        names = (*passes.scan.feature_names, *[SHARE] * stage.has_share_)
        return replace(passes.scan, chunks=tuple(chunks), feature_names=names)


def fit_imputation(stage: Imputation, passes: Passes) -> tuple[Imputation, Scan]:
    """The stage fitted as if on all instances, and the scan with missing values filled in."""
    stage, found = clone(stage), Medians(passes)
    stage.fit_medians(found.values, _columns(passes.scan), has_missing=bool(found.missing.any()))
    return stage, found.imputed(stage)


def impute(stage: Imputation, passes: Passes) -> Scan:
    """A scan of new bags, filled in by a fitted stage: by their own medians, else by those of training."""
    return Medians(passes).imputed(stage)


def _columns(scan: Scan) -> Bags:
    names = list(scan.feature_names)
    return Bags(np.zeros((1, len(names))), [0, 1], feature_names=names)


def _chunk_medians(chunk: Chunk) -> Any:
    ids, codes = chunk.bags()
    if not len(ids):
        return _Found(ids, np.empty((0, 0)), np.empty(0, dtype=bool))
    bag, X = _rows(chunk, codes)
    with np.errstate(invalid="ignore"):
        wrong = (np.abs(X) > FLOATS[X.dtype]).any(axis=1)
    if wrong.any():
        raise ValueError(
            f"{name_bags(ids, any_row(wrong, bag, ids))} infinite or huge (beyond {LARGEST:g}) feature values in "
            f"{chunk.name}; replace them, or leave such rows out with missing='drop-instances' or where="
        )
    return _Found(ids, _medians(bag, X), any_row(np.isnan(X).any(axis=1), bag, ids))


def _shared_rows(chunk: Chunk, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = []
    for block in chunk.blocks():
        rows = shared[block.bag]
        parts.append((block.bag[rows], block.X[rows]))
    bag, X = (np.concatenate(part) for part in zip(*parts, strict=True))
    return bag, X


def _rows(chunk: Chunk, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [(block.bag, block.X) for block in chunk.blocks(codes=codes)]
    bag, X = (np.concatenate(part) for part in zip(*parts, strict=True))
    return bag, X


def _medians(bag: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Of every bag, whose numbers go from 0 without a gap."""
    order = np.argsort(bag, kind="stable")
    return bag_medians(Bags(X[order], np.append(0, np.cumsum(np.bincount(bag))), missing="keep"))
