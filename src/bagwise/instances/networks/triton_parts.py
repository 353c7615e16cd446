"""Parts of the kernels that train networks on a GPU, and the permutations of `gpu`, the same numbers, in one kernel.

Importing this module imports triton; only `gpu` does so, when a GPU is there. With ``TRITON_INTERPRET=1`` the kernels
run on the CPU, which is how they are tested.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from bagwise.instances.networks.gpu import ROUNDS, side


@triton.jit
def adam(w, m, v, g, decay, share, size):
    """One step along the mean gradient; share is one over the batch's weight."""
    g = (g + decay * w) * share
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return w - size * m / (tl.sqrt(v) + 1e-8), m, v


@triton.jit
def read(P, M, V, at, mask):
    return tl.load(P + at, mask, 0.0), tl.load(M + at, mask, 0.0), tl.load(V + at, mask, 0.0)


@triton.jit
def write(P, M, V, at, mask, w, m, v):
    tl.store(P + at, w, mask)
    tl.store(M + at, m, mask)
    tl.store(V + at, v, mask)


@triton.jit
def halves(x):
    """What ten bits of x say, and the rest."""
    high = (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return high, x - high


@triton.jit
def product(a, a_rest, b, b_rest, FULL: tl.constexpr):
    """A B on the tensor cores, which read ten bits of a number: by three products as good as single precision."""
    if FULL:
        small = tl.dot(a_rest, b, tl.dot(a, b_rest, input_precision="tf32"), input_precision="tf32")
        return tl.dot(a, b, small, input_precision="tf32")
    else:
        return tl.dot(a, b, input_precision="tf32")


@triton.jit
def rectified(z):
    return tl.where(z <= 0, 0.0, z)  # so, and not z > 0, NaN survives and divergence is seen


def width(units: int) -> int:
    """The power of two, at least 16, that holds so many."""
    return max(16, triton.next_power_of_2(int(units)))


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
