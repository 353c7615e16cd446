r"""A fresh permutation of every network's rows in every epoch, each place computed on its own: no sorting, no swaps.

The places 0, ..., n - 1 are written as pairs (l, r), place = l a + r with a about the root of n. A round adds a hash of
one half to the other, modulo its size (a Feistel network), which can be undone and so is a permutation of the a b >= n
pairs. A place that lands at n or beyond goes round again until it does not: a permutation of the n.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

ROUNDS = 6
_LOW = 0xFFFFFFFF  # unsigned 32-bit arithmetic in signed 64


def epoch_keys(rng: np.random.Generator, epochs: int) -> np.ndarray:
    """What a network's permutations are made of, (epochs, rounds): a longer run begins with those of a shorter one."""
    return rng.integers(2**32, size=(epochs, ROUNDS), dtype=np.uint32)


def side(n: Tensor) -> Tensor:
    """a, the size of the right half: the root of n, rounded up."""
    return n.double().sqrt().ceil().long()


def shuffled(rows: Tensor, counts: Tensor, keys: Tensor) -> Tensor:
    """The first ``counts[e]`` entries of every row of ``rows`` (networks, longest), permuted by ``keys[e]``.

    Examples
    --------
    >>> import torch
    >>> rows = torch.tensor([[10, 11, 12, 13, 14], [20, 21, 22, 0, 0]])
    >>> order = shuffled(rows, torch.tensor([5, 3]), torch.arange(12).reshape(2, 6))
    >>> [sorted(order[0].tolist()), sorted(order[1, :3].tolist())]
    [[10, 11, 12, 13, 14], [20, 21, 22]]
    """
    n, keys = counts.long()[:, None], keys.long()
    place = torch.arange(rows.shape[1], device=rows.device).expand(rows.shape)
    place = torch.where(place < n, place, 0)
    place = _round_trip(place, n, keys)
    while (away := place >= n).any():
        place = torch.where(away, _round_trip(place, n, keys), place)
    return rows.gather(1, place)


def _round_trip(place: Tensor, n: Tensor, keys: Tensor) -> Tensor:
    a = side(n)
    b = (n + a - 1) // a
    left, right = place // a, place % a
    for i in range(0, ROUNDS, 2):
        left = (left + _hash(right ^ keys[:, i, None], b)) % b
        right = (right + _hash(left ^ keys[:, i + 1, None], a)) % a
    return left * a + right


def _hash(x: Tensor, size: Tensor) -> Tensor:
    """A number below ``size``: the finish of MurmurHash3, which lets every bit of x change every bit, scaled."""
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _LOW
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _LOW
    return ((x ^ (x >> 16)) * size) >> 32
