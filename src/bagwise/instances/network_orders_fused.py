"""The permutations of `network_orders`, the same numbers, in one kernel. This module imports triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from bagwise.instances.network_orders import ROUNDS, side

BLOCK = 1024


@triton.jit
def scaled_hash(x, size):
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    x = x ^ (x >> 16)
    return ((x.to(tl.uint64) * size.to(tl.uint64)) >> 32).to(tl.uint32)


@triton.jit
def round_trip(place, a, b, keys, ROUNDS: tl.constexpr):
    left, right = place // a, place % a
    for i in tl.static_range(0, ROUNDS, 2):
        left = (left + scaled_hash(right ^ tl.load(keys + i).to(tl.uint32), b)) % b
        right = (right + scaled_hash(left ^ tl.load(keys + i + 1).to(tl.uint32), a)) % a
    return left * a + right


@triton.jit
def shuffle(rows, counts, sides, keys, order, longest, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n, a = tl.load(counts + e).to(tl.uint32), tl.load(sides + e).to(tl.uint32)
    b = (n + a - 1) // a
    keys += e * ROUNDS
    place = tl.where(at < n.to(tl.int32), at, 0).to(tl.uint32)
    place = round_trip(place, a, b, keys, ROUNDS)
    while tl.max((place >= n).to(tl.int32), 0) > 0:
        place = tl.where(place >= n, round_trip(place, a, b, keys, ROUNDS), place)
    inside = at < longest
    tl.store(order + e * longest + at, tl.load(rows + e * longest + place.to(tl.int64), inside, 0), inside)


def shuffled(rows: Tensor, counts: Tensor, keys: Tensor) -> Tensor:
    """What `network_orders.shuffled` gives."""
    order = torch.empty_like(rows)
    grid = (len(rows), triton.cdiv(rows.shape[1], BLOCK))
    shuffle[grid](rows, counts, side(counts), keys, order, rows.shape[1], ROUNDS=ROUNDS, BLOCK=BLOCK)
    return order
