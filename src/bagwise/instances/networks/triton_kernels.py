"""Kernels that train networks on a GPU: permutations of the rows, and whole epochs of networks (`Fused`).

Importing this module imports triton; only `gpu` does so, when a GPU is there. With ``TRITON_INTERPRET=1`` the kernels
run on the CPU, which is how they are tested.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from bagwise.instances.networks.cpu import BIAS_AT, COLUMNS, LEAST, ROWS, WEIGHT_AT
from bagwise.instances.networks.gpu import ROUNDS, Group, side

# Permutations ---------------------------------------------------------------------------------------------------------

BLOCK = 1024


@triton.jit
def scaled_hash(x, size):
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    x = x ^ (x >> 16)
    return ((x.to(tl.uint64) * size.to(tl.uint64)) >> 32).to(tl.uint32)


@triton.jit
def round_trip(place, a, b, keys, ROUNDS: tl.constexpr):
    high, low = place // a, place % a
    for i in tl.static_range(0, ROUNDS, 2):
        high = (high + scaled_hash(low ^ tl.load(keys + i).to(tl.uint32), b)) % b
        low = (low + scaled_hash(high ^ tl.load(keys + i + 1).to(tl.uint32), a)) % a
    return high * a + low


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
    """Permute rows as `gpu.shuffled` does."""
    order = torch.empty_like(rows)
    grid = (len(rows), triton.cdiv(rows.shape[1], BLOCK))
    shuffle[grid](rows, counts, side(counts), keys, order, rows.shape[1], ROUNDS=ROUNDS, BLOCK=BLOCK)
    return order


# Parts of the kernel --------------------------------------------------------------------------------------------------


@triton.jit
def adam(w, m, v, g, decay, share, size):
    """Take one step of Adam along the mean gradient; ``share`` is 1 over the total weight of the batch."""
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
    """Split x into its value truncated to ten bits of mantissa, and the remainder."""
    high = (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return high, x - high


@triton.jit
def product(a, a_rest, b, b_rest, FULL: tl.constexpr):
    """Compute A B on tensor cores, which read ten bits of mantissa; if FULL, by three products, as good as float32."""
    if FULL:
        small = tl.dot(a_rest, b, tl.dot(a, b_rest, input_precision="tf32"), input_precision="tf32")
        return tl.dot(a, b, small, input_precision="tf32")
    else:
        return tl.dot(a, b, input_precision="tf32")


@triton.jit
def rectified(z):
    return tl.where(z <= 0, 0.0, z)  # not z > 0, so that NaN survives and divergence is detected


def width(units: int) -> int:
    """Return the least power of two that is at least 16 and ``units``."""
    return max(16, triton.next_power_of_2(int(units)))


# Training ------------------------------------------------------------------------------------------------------------

LARGEST = 8192  # weights of a network, padded to powers of two, that the registers of a program hold four times


@triton.jit(do_not_specialize=["epoch"])  # otherwise it would be compiled again for epoch 1
def fused_epoch(
    X, T, weight, order, counts, batches, x_shift, x_factor, y_shift, y_factor, decays, sizes, losses,
    P, M, V, longest, stride, epoch,
    W2_AT: tl.constexpr, O_AT: tl.constexpr, B1_AT: tl.constexpr, B2_AT: tl.constexpr, BO_AT: tl.constexpr,
    D: tl.constexpr, H: tl.constexpr, G: tl.constexpr, DP: tl.constexpr, HP: tl.constexpr, GP: tl.constexpr,
    WEIGHTED: tl.constexpr, CHUNK: tl.constexpr, LEAST: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """Run all steps of an epoch of network e: D inputs, H units and, if G > 0, a second layer of G units.

    DP, HP and GP are D, H and G padded to powers of two.
    """
    e = tl.program_id(0).to(tl.int64)
    P += e * stride
    M += e * stride
    V += e * stride
    order += e * longest
    od, oh, og, oc = tl.arange(0, DP), tl.arange(0, HP), tl.arange(0, GP), tl.arange(0, CHUNK)
    kd, kh, kg = od < D, oh < H, og < G
    at1, k1 = od[:, None] * H + oh[None, :], kd[:, None] & kh[None, :]
    w1, m1, v1 = read(P, M, V, at1, k1)
    b1, mb1, vb1 = read(P, M, V, B1_AT + oh, kh)
    if G > 0:
        at2, k2 = W2_AT + oh[:, None] * G + og[None, :], kh[:, None] & kg[None, :]
        w2, m2, v2 = read(P, M, V, at2, k2)
        b2, mb2, vb2 = read(P, M, V, B2_AT + og, kg)
        ato, ko = O_AT + og, kg
    else:
        ato, ko = O_AT + oh, kh
    wo, mo, vo = read(P, M, V, ato, ko)
    bo, mbo, vbo = tl.load(P + BO_AT), tl.load(M + BO_AT), tl.load(V + BO_AT)
    shift, factor = tl.load(x_shift + e * D + od, kd, 0.0), tl.load(x_factor + e * D + od, kd, 0.0)
    t_shift, t_factor, decay = tl.load(y_shift + e), tl.load(y_factor + e), tl.load(decays + e)
    n, batch = tl.load(counts + e), tl.load(batches + e)
    n_steps = (n + batch - 1) // batch
    before = epoch * n_steps
    loss = 0.0
    for s in range(n_steps):
        start = s * batch
        stop = tl.minimum(start + batch, n)
        # Biases and output weights have a term per row of a chunk; the sum over rows, across threads, is taken last.
        g1, gb1 = tl.zeros((DP, HP), tl.float32), tl.zeros((CHUNK, HP), tl.float32)
        if G > 0:
            g2, gb2 = tl.zeros((HP, GP), tl.float32), tl.zeros((CHUNK, GP), tl.float32)
            go = tl.zeros((CHUNK, GP), tl.float32)
        else:
            go = tl.zeros((CHUNK, HP), tl.float32)
        gbo, heavy = 0.0, 0.0
        w1h, w1l = halves(w1)
        if G > 0:
            w2h, w2l = halves(w2)
        for c in range(start, stop, CHUNK):
            live = c + oc < stop
            r = tl.load(order + c + oc, live, 0).to(tl.int64)
            x = tl.load(X + r[:, None] * D + od[None, :], live[:, None] & kd[None, :], 0.0)
            x = ((x - shift[None, :]) * factor[None, :]).to(tl.float32)
            t = ((tl.load(T + r, live, 0.0) - t_shift) * t_factor).to(tl.float32)
            xh, xl = halves(x)
            a1 = rectified(product(xh, xl, w1h, w1l, FULL) + b1[None, :])
            if G > 0:
                ah, al = halves(a1)
                a = rectified(product(ah, al, w2h, w2l, FULL) + b2[None, :])
            else:
                a = a1
            miss = tl.where(live, tl.sum(a * wo[None, :], 1) + bo - t, 0.0)
            if WEIGHTED:
                w = tl.load(weight + r, live, 0.0)
                error = w * miss
                heavy += tl.sum(w, 0)
            else:
                error = miss
            loss += tl.sum(error * miss, 0)
            gbo += tl.sum(error, 0)
            go += a * error[:, None]
            delta = tl.where(a > 0, error[:, None] * wo[None, :], 0.0)
            if G > 0:
                gb2 += delta
                dh, dl = halves(delta)
                g2 += product(tl.trans(ah), tl.trans(al), dh, dl, FULL)
                delta = tl.where(a1 > 0, product(dh, dl, tl.trans(w2h), tl.trans(w2l), FULL), 0.0)
            gb1 += delta
            dh, dl = halves(delta)
            g1 += product(tl.trans(xh), tl.trans(xl), dh, dl, FULL)
        rows = (stop - start).to(tl.float32)
        if not WEIGHTED:
            heavy = rows
        share, size = 1.0 / tl.maximum(heavy, LEAST * rows), tl.load(sizes + before + s)
        w1, m1, v1 = adam(w1, m1, v1, g1, decay, share, size)
        b1, mb1, vb1 = adam(b1, mb1, vb1, tl.sum(gb1, 0), 0.0, share, size)
        if G > 0:
            w2, m2, v2 = adam(w2, m2, v2, g2, decay, share, size)
            b2, mb2, vb2 = adam(b2, mb2, vb2, tl.sum(gb2, 0), 0.0, share, size)
        wo, mo, vo = adam(wo, mo, vo, tl.sum(go, 0), decay, share, size)
        bo, mbo, vbo = adam(bo, mbo, vbo, gbo, 0.0, share, size)
    tl.store(losses + e, loss)
    write(P, M, V, at1, k1, w1, m1, v1)
    write(P, M, V, B1_AT + oh, kh, b1, mb1, vb1)
    if G > 0:
        write(P, M, V, at2, k2, w2, m2, v2)
        write(P, M, V, B2_AT + og, kg, b2, mb2, vb2)
    write(P, M, V, ato, ko, wo, mo, vo)
    tl.store(P + BO_AT, bo)
    tl.store(M + BO_AT, mbo)
    tl.store(V + BO_AT, vbo)


class Fused:
    """A launch per epoch, all networks at once: each is one program, its weights and moments in registers."""

    chunk, warps = 16, 4  # the quickest of those tried on an H200

    @staticmethod
    def fits(plan) -> bool:
        """Return whether the network has one or two hidden layers and its weights fit into registers."""
        weights = sum(width(layer[ROWS]) * width(layer[COLUMNS]) for layer in plan[:-1])
        return len(plan) in (2, 3) and weights <= LARGEST

    def __init__(self, group: Group, precision: str = "float32"):
        self.group, self.full = group, precision == "float32"
        plan, last = group.plan, group.plan[-1]
        two = len(plan) == 3
        D, H, G = int(plan[0, ROWS]), int(plan[0, COLUMNS]), int(plan[1, COLUMNS]) if two else 0
        self.shape = {
            "W2_AT": int(plan[1, WEIGHT_AT]), "O_AT": int(last[WEIGHT_AT]), "B1_AT": int(plan[0, BIAS_AT]),
            "B2_AT": int(plan[1, BIAS_AT]), "BO_AT": int(last[BIAS_AT]), "D": D, "H": H, "G": G,
            "DP": width(D), "HP": width(H), "GP": width(G), "WEIGHTED": group.data.weight is not None, "LEAST": LEAST,
        }  # fmt: skip

    def epoch(self, order: Tensor, sizes: Tensor, epoch: int) -> Tensor:
        """Train on one pass over ``order`` and return the summed loss of each network.

        ``sizes[s]`` is the size of step s of Adam.
        """
        group, data = self.group, self.group.data
        losses = torch.empty(len(group), device=order.device)
        fused_epoch[(len(group),)](
            data.X, data.targets, data.X if data.weight is None else data.weight, order, group.counts, group.batches,
            group.x_shift, group.x_factor, group.y_shift, group.y_factor, group.decay, sizes, losses,
            group.parameters, group.first, group.second, order.shape[1], group.parameters.shape[1], epoch,
            **self.shape, CHUNK=self.chunk, FULL=self.full, num_warps=self.warps,
        )  # fmt: skip
        return losses
