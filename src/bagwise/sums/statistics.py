"""Moments and extremes of every feature in every bag, in two passes: about its own mean, so nothing cancels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bagwise.embeddings.pools import POWERS, shape
from bagwise.lake import Chunk
from bagwise.sums.walk import BLOCK_ROWS, Walk, sum_rows

SUMMABLE = ("mean", "variance", "deviation", "skewness", "kurtosis", "min", "max", "size")


class Extremes(NamedTuple):
    """The smallest and largest value of every feature in every bag."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def none(cls, n_bags: int, width: int) -> Extremes:
        return cls(np.full((n_bags, width), np.inf), np.full((n_bags, width), -np.inf))

    def take(self, bags: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Widen those of some bags, none named twice."""
        self.low[bags], self.high[bags] = np.minimum(self.low[bags], low), np.maximum(self.high[bags], high)


def statistics_rows(embedding, walk: Walk, sizes: np.ndarray, prepare) -> np.ndarray:
    """The columns of `Pool` for every bag, of instances that ``prepare`` makes of the rows of a chunk."""
    width = len(walk.scan.feature_names)
    sums, extremes = np.zeros((walk.n_bags, 2 * width)), Extremes.none(walk.n_bags, width)
    for own, (part, low, high) in zip(walk.own, walk.each(_first, prepare), strict=True):
        sums[own] += part
        extremes.take(own, low, high)
    mean, size = np.hsplit(sums / sizes[:, None], 2)
    powers = walk.sum_by_bag(_second, prepare, known=(mean,)) / sizes[:, None]
    central = dict(zip((2, *POWERS.values()), np.hsplit(powers, 3), strict=True))
    deviation = np.sqrt(central[2])
    known = {"mean": mean, "min": extremes.low, "max": extremes.high, "size": np.log1p(sizes)}
    known |= {"variance": central[2], "deviation": deviation}
    known |= {name: shape(power, central[power], deviation, size) for name, power in POWERS.items()}
    return np.column_stack([known[name] for name in embedding.statistics])


def _first(chunk: Chunk, prepare) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ x and Σ |x| side by side, and the extremes, of every bag of a chunk."""
    sums, (ids, codes), extremes = 0.0, chunk.bags(), None
    n_bags = len(ids)
    for block in chunk.blocks(rows=BLOCK_ROWS, codes=codes):
        X = prepare(block.X)
        sums = sums + sum_rows(block.bag, np.hstack([X, np.abs(X)]), n_bags)
        extremes = Extremes.none(n_bags, X.shape[1]) if extremes is None else extremes
        order = np.argsort(block.bag, kind="stable")
        bags, starts = np.unique(block.bag[order], return_index=True)
        low, high = (extreme.reduceat(X[order], starts, axis=0) for extreme in (np.minimum, np.maximum))
        extremes.take(bags, low, high)
    return sums, *extremes


def _second(chunk: Chunk, mean, prepare) -> np.ndarray:
    """Σ (x - mean of its bag)^p for p = 2, 3, 4, side by side."""
    sums = 0.0
    for block in chunk.blocks(rows=BLOCK_ROWS):
        centred = prepare(block.X) - mean[block.bag]
        square = centred * centred
        sums = sums + sum_rows(block.bag, np.hstack([square, square * centred, square * square]), len(mean))
    return sums


class Prepare:
    """Rows of a chunk as the embedding sees them: in double precision, through the stage before it; picklable."""

    def __init__(self, stage=None):
        self.transformer = None if stage is None else stage.estimator_

    def __call__(self, X: np.ndarray) -> np.ndarray:
        X = X.astype(np.float64)
        return X if self.transformer is None else self.transformer.transform(X)
