"""Networks trained by one kernel: an epoch of a network is one program, its weights and moments in registers.

Importing this module imports triton.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from bagwise.instances.networks.ensemble import BIAS_AT, COLUMNS, LEAST, ROWS, WEIGHT_AT
from bagwise.instances.networks.gpu import Group
from bagwise.instances.networks.triton_parts import adam, halves, product, read, rectified, width, write

LARGEST = 8192  # weights of a network, padded to powers of two, that the registers of a program hold four times


@triton.jit(do_not_specialize=["epoch"])  # or it would be compiled again for epoch 1
def train_epoch(
    X, T, weight, order, counts, batches, x_shift, x_factor, y_shift, y_factor, decays, done, sizes, losses,
    P, M, V, longest, stride, epoch,
    W2_AT: tl.constexpr, O_AT: tl.constexpr, B1_AT: tl.constexpr, B2_AT: tl.constexpr, BO_AT: tl.constexpr,
    D: tl.constexpr, H: tl.constexpr, G: tl.constexpr, DP: tl.constexpr, HP: tl.constexpr, GP: tl.constexpr,
    WEIGHTED: tl.constexpr, CHUNK: tl.constexpr, LEAST: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """All steps of an epoch of network e: D inputs, H units and, if G > 0, G units more; DP, HP, GP powers of two."""
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
    before = tl.load(done + e) + epoch * n_steps
    loss = 0.0
    for s in range(n_steps):
        start = s * batch
        stop = tl.minimum(start + batch, n)
        # Of biases and output weights a term per row of a chunk: summing over rows, across threads, comes last.
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


def fits(plan) -> bool:
    """One or two hidden layers, small enough."""
    weights = sum(width(layer[ROWS]) * width(layer[COLUMNS]) for layer in plan[:-1])
    return len(plan) in (2, 3) and weights <= LARGEST


class Fused:
    """A launch per epoch, all networks at once."""

    chunk, warps = 16, 4  # the quickest of those tried on an H200

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
        """One pass over ``order``; ``sizes[s]`` is the length of Adam's step s. The summed loss of every network."""
        group, data = self.group, self.group.data
        losses = torch.empty(len(group), device=order.device)
        train_epoch[(len(group),)](
            data.X, data.targets, data.X if data.weight is None else data.weight, order, group.counts, group.batches,
            group.x_shift, group.x_factor, group.y_shift, group.y_factor, group.decay, group.done, sizes, losses,
            group.parameters, group.first, group.second, order.shape[1], group.parameters.shape[1], epoch,
            **self.shape, CHUNK=self.chunk, FULL=self.full, num_warps=self.warps,
        )  # fmt: skip
        return losses
