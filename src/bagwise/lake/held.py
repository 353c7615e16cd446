"""`Bags` that are in memory already, as chunks: what streams also runs on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bagwise.bags import Bags, check_bags, check_targets
from bagwise.lake.chunks import Block, Chunk


class BagsChunk(Chunk):
    """Some consecutive instances of `Bags`; a bag may be cut in two.

    Parameters
    ----------
    first : int
        The position of the first instance.
    instances : array of shape (rows, features)
    ids : ids of the bags these instances belong to
    codes : the number, among these, of the bag of every instance
    y, groups : one target and one label per bag, or None
    """

    def __init__(self, first: int, instances, ids, codes, y=None, groups=None):
        self.first, self.instances, self.ids, self.codes = first, instances, ids, codes
        self.y, self.groups = y, groups

    @property
    def name(self) -> str:
        return f"instances {self.first:,} to {self.first + self.n_rows - 1:,}"

    @property
    def n_rows(self) -> int:
        return len(self.instances)

    def bags(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the bags of this chunk, and the number of the bag of every row."""
        return self.ids, self.codes

    def blocks(self, *, rows: int = 65_536, target: bool = False, groups: bool = False, codes=None) -> Iterator[Block]:
        """The rows in their order, ``rows`` at a time (the last may be fewer), with targets and groups if asked for."""
        for asked, values, role in ((target, self.y, "target"), (groups, self.groups, "groups")):
            if asked and values is None:
                raise ValueError(f"the scan has no {role}; give the bags some")
        for start in range(0, self.n_rows, rows):
            own = self.codes[start : start + rows]
            y, labels = (self.y[own] if target else None), (self.groups[own] if groups else None)
            yield Block(own, self.instances[start : start + rows], y, labels)


def cut_bags(bags: Bags, y, chunk_rows: int) -> tuple[BagsChunk, ...]:
    """Chunks of at most that many instances."""
    if bags.covariates is not None:  # a model of their columns would not know them in the bags it is to predict
        raise ValueError(
            "bags with covariates are not read chunk by chunk; make these columns of the instances, here and for "
            "predict, with bags.spread(), or leave them out with bags.without_covariates()"
        )
    bags = check_bags(bags, allow_missing=True)
    y = None if y is None else check_targets(y, bags)
    return tuple(_chunk(bags, y, start, start + chunk_rows) for start in range(0, bags.n_instances, chunk_rows))


def _chunk(bags: Bags, y, start: int, stop: int) -> BagsChunk:
    instances = bags.instances[start:stop]
    low = int(np.searchsorted(bags.offsets, start, side="right")) - 1
    high = int(np.searchsorted(bags.offsets, start + len(instances)))
    ends = np.clip(bags.offsets[low : high + 1], start, start + len(instances))
    codes = np.repeat(np.arange(high - low), np.diff(ends))
    values = [None if one is None else one[low:high] for one in (y, bags.groups)]
    return BagsChunk(start, instances, bags.ids[low:high], codes, *values)
