"""Networks of one wide hidden layer, trained by one kernel: weights and moments in memory, passed block by block.

A step needs the errors of all rows before any gradient, so it walks the hidden units twice: once for the outputs, once,
with the activations made anew, for gradients and Adam. Making them anew costs half as much arithmetic again, and no
activation ever leaves the chip. Importing this module imports triton.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from bagwise.instances.networks.ensemble import BIAS_AT, COLUMNS, LEAST, ROWS, WEIGHT_AT
from bagwise.instances.networks.gpu import Group
from bagwise.instances.networks.triton_parts import adam, read, rectified, width, write

PRODUCTS = {"float32": "tf32x3", "tf32": "tf32"}  # three products of ten-bit parts are as good as one in full
WIDEST = 128  # inputs, padded to a power of two, that a program holds for a chunk of rows


@triton.jit
def inputs(X, order, x_shift, x_factor, c, stop, D: tl.constexpr, DP: tl.constexpr, CHUNK: tl.constexpr):
    """A chunk of rows of X, scaled; their numbers; and which of them are there."""
    od, at = tl.arange(0, DP), c + tl.arange(0, CHUNK)
    live, kd = at < stop, od < D
    r = tl.load(order + at, live, 0).to(tl.int64)
    x = tl.load(X + r[:, None] * D + od[None, :], live[:, None] & kd[None, :], 0.0)
    shift, factor = tl.load(x_shift + od, kd, 0.0), tl.load(x_factor + od, kd, 0.0)
    return ((x - shift[None, :]) * factor[None, :]).to(tl.float32), r, live


@triton.jit(do_not_specialize=["epoch"])  # or it would be compiled again for epoch 1
def train_epoch(
    X, T, weight, order, counts, batches, x_shift, x_factor, y_shift, y_factor, decays, done, sizes, losses, errors,
    P, M, V, longest, stride, largest, epoch,
    O_AT: tl.constexpr, B_AT: tl.constexpr, BO_AT: tl.constexpr, D: tl.constexpr, H: tl.constexpr, DP: tl.constexpr,
    WEIGHTED: tl.constexpr, LEAST: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """All steps of an epoch of network e: D inputs, H units, of which BLOCK are dealt with at a time."""
    e = tl.program_id(0).to(tl.int64)
    P += e * stride
    M += e * stride
    V += e * stride
    order += e * longest
    errors += e * largest
    x_shift += e * D
    x_factor += e * D
    od, ob, oc = tl.arange(0, DP), tl.arange(0, BLOCK), tl.arange(0, CHUNK)
    bo, mbo, vbo = tl.load(P + BO_AT), tl.load(M + BO_AT), tl.load(V + BO_AT)
    t_shift, t_factor, decay = tl.load(y_shift + e), tl.load(y_factor + e), tl.load(decays + e)
    n, batch = tl.load(counts + e), tl.load(batches + e)
    n_steps = (n + batch - 1) // batch
    before = tl.load(done + e) + epoch * n_steps
    loss = 0.0
    for s in range(n_steps):
        start = s * batch
        stop = tl.minimum(start + batch, n)
        gbo, heavy = 0.0, 0.0
        for c in range(start, stop, CHUNK):
            x, r, live = inputs(X, order, x_shift, x_factor, c, stop, D, DP, CHUNK)
            out = tl.zeros((CHUNK,), tl.float32)
            for h in range(0, H, BLOCK):
                oh = h + ob
                kh = oh < H
                w = tl.load(P + od[:, None] * H + oh[None, :], (od < D)[:, None] & kh[None, :], 0.0)
                a = rectified(tl.dot(x, w, input_precision=PRECISION) + tl.load(P + B_AT + oh, kh, 0.0)[None, :])
                out += tl.sum(a * tl.load(P + O_AT + oh, kh, 0.0)[None, :], 1)
            t = ((tl.load(T + r, live, 0.0) - t_shift) * t_factor).to(tl.float32)
            miss = tl.where(live, out + bo - t, 0.0)
            error = miss
            if WEIGHTED:
                w_rows = tl.load(weight + r, live, 0.0)
                error = w_rows * miss
                heavy += tl.sum(w_rows, 0)
            loss += tl.sum(error * miss, 0)
            gbo += tl.sum(error, 0)
            tl.store(errors + c - start + oc, error)
        rows = (stop - start).to(tl.float32)
        if not WEIGHTED:
            heavy = rows
        share, size = 1.0 / tl.maximum(heavy, LEAST * rows), tl.load(sizes + before + s)
        tl.debug_barrier()  # the errors are read by other threads than wrote them
        for h in range(0, H, BLOCK):
            oh = h + ob
            kh = oh < H
            at, k = od[:, None] * H + oh[None, :], (od < D)[:, None] & kh[None, :]
            w = tl.load(P + at, k, 0.0)
            b, o = tl.load(P + B_AT + oh, kh, 0.0), tl.load(P + O_AT + oh, kh, 0.0)
            g, gb, go = (
                tl.zeros((DP, BLOCK), tl.float32),
                tl.zeros((BLOCK,), tl.float32),
                tl.zeros((BLOCK,), tl.float32),
            )
            for c in range(start, stop, CHUNK):
                x, r, live = inputs(X, order, x_shift, x_factor, c, stop, D, DP, CHUNK)
                error = tl.load(errors + c - start + oc)
                a = rectified(tl.dot(x, w, input_precision=PRECISION) + b[None, :])
                go += tl.sum(a * error[:, None], 0)
                delta = tl.where(a > 0, error[:, None] * o[None, :], 0.0)
                gb += tl.sum(delta, 0)
                g += tl.dot(tl.trans(x), delta, input_precision=PRECISION)
            w, m, v = adam(w, tl.load(M + at, k, 0.0), tl.load(V + at, k, 0.0), g, decay, share, size)
            write(P, M, V, at, k, w, m, v)
            b, m, v = read(P, M, V, B_AT + oh, kh)
            b, m, v = adam(b, m, v, gb, 0.0, share, size)
            write(P, M, V, B_AT + oh, kh, b, m, v)
            o, m, v = read(P, M, V, O_AT + oh, kh)
            o, m, v = adam(o, m, v, go, decay, share, size)
            write(P, M, V, O_AT + oh, kh, o, m, v)
        bo, mbo, vbo = adam(bo, mbo, vbo, gbo, 0.0, share, size)
        tl.debug_barrier()  # and so are the weights
    tl.store(losses + e, loss)
    tl.store(P + BO_AT, bo)
    tl.store(M + BO_AT, mbo)
    tl.store(V + BO_AT, vbo)


def fits(plan) -> bool:
    """One hidden layer and not too many inputs; units as many as you like."""
    return len(plan) == 2 and width(plan[0, ROWS]) <= WIDEST


class Streamed:
    """A launch per epoch, all networks at once."""

    chunk, block, warps, stages = 32, 128, 8, 1  # the quickest of those tried on an H200

    def __init__(self, group: Group, precision: str = "float32"):
        self.group, self.precision = group, PRODUCTS[precision]
        plan = group.plan
        self.shape = {
            "O_AT": int(plan[1, WEIGHT_AT]), "B_AT": int(plan[0, BIAS_AT]), "BO_AT": int(plan[1, BIAS_AT]),
            "D": int(plan[0, ROWS]), "H": int(plan[0, COLUMNS]), "DP": width(plan[0, ROWS]),
            "WEIGHTED": group.data.weight is not None, "LEAST": LEAST,
        }  # fmt: skip
        chunks = -(-int(group.batches.max()) // self.chunk)
        self.errors = torch.empty((len(group), chunks * self.chunk), device=group.rows.device)

    def epoch(self, order: Tensor, sizes: Tensor, epoch: int) -> Tensor:
        """One pass over ``order``; ``sizes[s]`` is the length of Adam's step s. The summed loss of every network."""
        group, data = self.group, self.group.data
        losses = torch.empty(len(group), device=order.device)
        train_epoch[(len(group),)](
            data.X, data.targets, data.X if data.weight is None else data.weight, order, group.counts, group.batches,
            group.x_shift, group.x_factor, group.y_shift, group.y_factor, group.decay, group.done, sizes, losses,
            self.errors, group.parameters, group.first, group.second,
            order.shape[1], group.parameters.shape[1], self.errors.shape[1], epoch,
            **self.shape, CHUNK=self.chunk, BLOCK=self.block, PRECISION=self.precision,
            num_warps=self.warps, num_stages=self.stages,
        )  # fmt: skip
        return losses
