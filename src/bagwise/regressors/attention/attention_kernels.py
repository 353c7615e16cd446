"""Compiled training of the attention network: one network, one core, in single precision.

The network is the usual one: one layer that reads, set attention, a linear head (`network.compiled`). All others, and
all on a GPU, are trained by torch with the same formulas. A step of torch on a few dozen small bags is a hundred
operations of some microseconds each, which is most of its time; here it is one call.

Importing this module imports numba; only `network.attention_kernels` does so. Parameters lie in one flat vector as
`network.Network.shapes` lists them. Names of what a batch is turned into: ``shown`` are its rows X, ``read`` is
relu(X W + b), ``states`` are [q_t, r_t] after each look t, ``gates`` those of the LSTM, made from the state before.
Before the first look there is none: its gates are the biases, for all bags the same, and are computed once.

numba's cache on disk watches this file alone: after a change of what is taken from `cpu`, touch it.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bagwise.instances.networks import cpu

cpu.load_compiler()

# --- functions of a number, written so that loops over them are vectorised


@intrinsic
def from_bits(typing, bits):
    """The single precision number of these bits."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@cpu.part
def exponential(x):
    """exp x = 2^n exp f with n whole and f within ± ln 2 / 2, by six terms of the series and a seventh; to 2e-7."""
    x = min(max(x, np.float32(-87)), np.float32(87))
    n = np.int32(x * np.float32(1.44269504) + np.float32(127.5))  # 127: how the exponent of a number is stored
    whole = np.float32(n - np.int32(127))
    f = x - whole * np.float32(0.693359375) + whole * np.float32(2.12194440e-4)  # ln 2 in two parts
    p = np.float32(1 / 5040)
    p = p * f + np.float32(1 / 720)
    p = p * f + np.float32(1 / 120)
    p = p * f + np.float32(1 / 24)
    p = p * f + np.float32(1 / 6)
    p = p * f + np.float32(0.5)
    p = p * f + np.float32(1)
    p = p * f + np.float32(1)
    return p * from_bits(n << np.int32(23))


@cpu.part
def sigmoid(x):
    return np.float32(1) / (np.float32(1) + exponential(-x))


@cpu.part
def tanh(x):
    return np.float32(2) * sigmoid(np.float32(2) * x) - np.float32(1)


@cpu.part
def inner(a, b):
    total = np.float32(0)
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@cpu.part
def put(C, row, column, total):
    cpu.store(C, row, column, total)


# --- where things lie


@cpu.part
def parts(flat, d, u):
    """Views of a vector of parameters, or of their gradient: read, LSTM and head, weights and biases."""
    a = d * u
    b = a + u
    c = b + 8 * u * u
    e = c + 4 * u
    return (
        flat[:a].reshape(d, u),
        flat[a:b].reshape(1, u),
        flat[b:c].reshape(2 * u, 4 * u),
        flat[c:e].reshape(1, 4 * u),
        flat[e : flat.size - 1],
        flat[flat.size - 1 :],
    )


@cpu.part
def gather(rows, offsets, positions, shown, starts):
    """The rows of some bags beneath each other, and where each bag begins; their number."""
    at = 0
    for i in range(positions.size):
        starts[i] = at
        for row in range(offsets[positions[i]], offsets[positions[i] + 1]):
            for a in range(rows.shape[1]):
                shown[at, a] = rows[row, a]
            at += 1
    starts[positions.size] = at
    return at


# --- forward


@cpu.part
def open_gates(gates, before, cell, curved, query):
    """Gates of one bag, activated in place; cell, tanh(cell) and query that come of the cell before."""
    u = cell.size
    for k in range(3 * u):
        gates[k] = sigmoid(gates[k])
    for k in range(3 * u, 4 * u):
        gates[k] = tanh(gates[k])
    for k in range(u):
        cell[k] = gates[k] * gates[3 * u + k] + gates[u + k] * before[k]
        curved[k] = tanh(cell[k])
        query[k] = gates[2 * u + k] * curved[k]


@cpu.part
def attend(read, query, attention, pooled):
    """Attention of the rows of a bag under a query, and their sum by it."""
    top = np.float32(-np.inf)
    for l in range(attention.size):
        attention[l] = inner(read[l], query)
        top = max(top, attention[l])
    total = np.float32(0)
    for l in range(attention.size):
        attention[l] = exponential(attention[l] - top)
        total += attention[l]
    pooled[:] = 0
    for l in range(attention.size):
        attention[l] /= total
        for k in range(pooled.size):
            pooled[k] += attention[l] * read[l, k]


@cpu.part
def forward(vector, d, u, shown, starts, n_bags, read, gates, cells, curves, states, attention):
    """All that is computed of a batch before the head; gates, cells, curves and states have an axis of looks."""
    n_rows, bags = starts[n_bags], cpu.padded(n_bags)
    W, b, lstm, bias, _, _ = parts(vector, d, u)
    cpu.multiply(shown, W, b, read, cpu.padded(n_rows), d, u, cpu.keep_positive)
    none = np.zeros(u, np.float32)
    for t in range(len(states)):
        if t == 0:
            gates[0, 0] = bias[0]
            open_gates(gates[0, 0], none, cells[0, 0], curves[0, 0], states[0, 0, :u])
            for i in range(1, n_bags):
                states[0, i, :u] = states[0, 0, :u]
        else:
            cpu.multiply(states[t - 1], lstm, bias, gates[t], bags, 2 * u, 4 * u, put)
            for i in range(n_bags):
                before = cells[0, 0] if t == 1 else cells[t - 1, i]
                open_gates(gates[t, i], before, cells[t, i], curves[t, i], states[t, i, :u])
        for i in range(n_bags):
            lo, hi = starts[i], starts[i + 1]
            attend(read[lo:hi], states[t, i, :u], attention[t, lo:hi], states[t, i, u:])


@cpu.part
def predicted(vector, d, u, state, moments):
    head, constant = parts(vector, d, u)[4:]
    return inner(state, head[: 2 * u]) + inner(moments, head[2 * u :]) + constant[0]


# --- backward


@cpu.part
def attend_backward(read, query, attention, slope, query_slope, read_slope, scores, new):
    """From the slope of the sum to those of query (added to) and rows (written if ``new``, else added to)."""
    level = np.float32(0)
    for l in range(attention.size):
        scores[l] = inner(slope, read[l])
        level += attention[l] * scores[l]
    for l in range(attention.size):
        a = attention[l]
        s = a * (scores[l] - level)
        for k in range(query.size):
            query_slope[k] += s * read[l, k]
        if new:
            for k in range(query.size):
                read_slope[l, k] = a * slope[k] + s * query[k]
        else:
            for k in range(query.size):
                read_slope[l, k] += a * slope[k] + s * query[k]


@cpu.part
def gates_backward(gates, curved, before, query_slope, cell_slope):
    """The gates are overwritten by their slopes before activation; the slope of the cell by that of the cell before."""
    u = curved.size
    one = np.float32(1)
    for k in range(u):
        i, f, o, g = gates[k], gates[u + k], gates[2 * u + k], gates[3 * u + k]
        c = cell_slope[k] + query_slope[k] * o * (one - curved[k] * curved[k])
        gates[k] = c * g * i * (one - i)
        gates[u + k] = c * before[k] * f * (one - f)
        gates[2 * u + k] = query_slope[k] * curved[k] * o * (one - o)
        gates[3 * u + k] = c * i * (one - g * g)
        cell_slope[k] = c * f


@cpu.part
def backward(
    vector, gradient, d, u, shown, starts, n_bags, read, gates, cells, curves, states, attention, moments, errors, space
):
    """Add the gradient of the sum of errors times predictions, the errors being fixed; gates are used up."""
    slopes, cell_slopes, read_slopes, scores, turned, first, zeros = space
    n_rows, bags, looks = starts[n_bags], cpu.padded(n_bags), len(states)
    _, _, lstm, _, head, _ = parts(vector, d, u)
    dW, db, dlstm, dbias, dhead, dconstant = parts(gradient, d, u)
    for i in range(n_bags):
        e = errors[i]
        dconstant[0] += e
        for k in range(2 * u):
            dhead[k] += e * states[looks - 1, i, k]
            slopes[i, k] = e * head[k]
        for k in range(moments.shape[1]):
            dhead[2 * u + k] += e * moments[i, k]
        cell_slopes[i] = 0
    if looks > 1:
        cpu.transpose(lstm, turned)
    none = np.zeros(u, np.float32)
    for t in range(looks - 1, -1, -1):
        for i in range(n_bags):
            lo, hi = starts[i], starts[i + 1]
            attend_backward(
                read[lo:hi], states[t, i, :u], attention[t, lo:hi], slopes[i, u:], slopes[i, :u], read_slopes[lo:hi],
                scores, t == looks - 1,
            )  # fmt: skip
        if t > 0:
            for i in range(n_bags):
                before = cells[0, 0] if t == 1 else cells[t - 1, i]
                gates_backward(gates[t, i], curves[t, i], before, slopes[i, :u], cell_slopes[i])
                for k in range(4 * u):
                    dbias[0, k] += gates[t, i, k]
            cpu.multiply(states[t - 1].T, gates[t], zeros, dlstm, 2 * u, n_bags, 4 * u, cpu.add_to)
            cpu.multiply(gates[t], turned, zeros, slopes, bags, 4 * u, 2 * u, put)
    for i in range(1, n_bags):  # the first gates are those of no bag
        for k in range(u):
            slopes[0, k] += slopes[i, k]
            cell_slopes[0, k] += cell_slopes[i, k]
    gates_backward(gates[0, 0], curves[0, 0], none, slopes[0, :u], cell_slopes[0])
    for k in range(4 * u):
        dbias[0, k] += gates[0, 0, k]
    for l in range(n_rows):
        for k in range(u):
            read_slopes[l, k] = read_slopes[l, k] if read[l, k] > 0 else np.float32(0)
    read_slopes[n_rows : cpu.padded(n_rows)] = 0
    first[:] = 0
    cpu.multiply(shown.T, read_slopes, zeros, first, cpu.padded(d), n_rows, u, cpu.add_to)
    for a in range(d):
        for k in range(u):
            dW[a, k] += first[a, k]
    cpu.add_column_sums(read_slopes, db, cpu.padded(n_rows))


@cpu.part
def adam(w, g, m, v, rate, decay, steps):
    """A step of Adam with decoupled weight decay along the gradient, which is then set to zero."""
    kept = np.float32(1 - rate * decay)
    step, share = np.float32(rate / (1 - 0.9**steps)), np.float32(1 / (1 - 0.999**steps))
    for i in range(w.size):
        m[i] = cpu.flushed(np.float32(0.9) * m[i] + np.float32(0.1) * g[i])
        v[i] = cpu.flushed(np.float32(0.999) * v[i] + np.float32(0.001) * g[i] * g[i])
        w[i] = kept * w[i] - step * m[i] / (np.sqrt(v[i] * share) + np.float32(1e-8))
        g[i] = 0


# --- what Python calls


@cpu.part
def made(d, u, looks, most_bags, most_rows):
    """Memory for a forward pass over so many bags and rows."""
    bags, rows = cpu.padded(most_bags), cpu.padded(most_rows)
    single = np.float32
    return (
        np.zeros((rows, cpu.padded(d)), single),
        np.zeros(most_bags + 1, np.int64),
        np.zeros((rows, u), single),
        np.zeros((looks, bags, 4 * u), single),
        np.zeros((looks, bags, u), single),
        np.zeros((looks, bags, u), single),
        np.zeros((looks, bags, 2 * u), single),
        np.zeros((looks, rows), single),
    )


@cpu.part
def largest(offsets, order, cuts):
    """The most bags and the most rows of a batch."""
    bags = rows = np.int64(0)
    for c in range(cuts.size - 1):
        here = np.int64(0)
        for i in order[cuts[c] : cuts[c + 1]]:
            here += offsets[i + 1] - offsets[i]
        bags, rows = max(bags, cuts[c + 1] - cuts[c]), max(rows, here)
    return bags, rows


@cpu.kernel
def train_epoch(rows, moments, offsets, order, cuts, targets, learn, looks, u, vector, memory, rate, decay, steps):
    """One pass over the bags in ``order``, in batches between ``cuts``; bags of no weight are passed over.

    ``memory`` (3, parameters) is the gradient, zero between calls, and Adam's moments; ``steps`` were made before.
    """
    d, n_moments, g = rows.shape[1], moments.shape[1], memory[0]
    most_bags, most_rows = largest(offsets, order, cuts)
    memories = made(d, u, looks, most_bags, most_rows)
    shown, starts, read, gates, cells, curves, states, attention = memories
    single = np.float32
    space = (
        np.zeros((cpu.padded(most_bags), 2 * u), single),
        np.zeros((cpu.padded(most_bags), u), single),
        np.zeros((cpu.padded(most_rows), u), single),
        np.zeros(most_rows, single),
        np.zeros((4 * u, 2 * u), single),
        np.zeros((cpu.padded(d), u), single),
        np.zeros((1, 4 * u), single),
    )
    positions, errors = np.zeros(most_bags, np.int64), np.zeros(most_bags, single)
    about = np.zeros((most_bags, n_moments), single)
    for c in range(cuts.size - 1):
        n = 0
        for i in order[cuts[c] : cuts[c + 1]]:
            if learn[i] != 0:
                positions[n] = i
                about[n] = moments[i]
                n += 1
        if n > 0:
            gather(rows, offsets, positions[:n], shown, starts)
            forward(vector, d, u, shown, starts, n, read, gates, cells, curves, states, attention)
            share = single(2) / single(cuts[c + 1] - cuts[c])
            for i in range(n):
                miss = predicted(vector, d, u, states[looks - 1, i], about[i]) - targets[positions[i]]
                errors[i] = share * learn[positions[i]] * miss
            backward(
                vector, g, d, u, shown, starts, n, read, gates, cells, curves, states, attention, about, errors, space
            )
        steps += 1
        adam(vector, g, memory[1], memory[2], rate, decay, steps)


@cpu.kernel
def predict(rows, moments, offsets, order, cuts, looks, u, vector, predictions):
    """What the network says of the bags in ``order``."""
    d = rows.shape[1]
    most_bags, most_rows = largest(offsets, order, cuts)
    shown, starts, read, gates, cells, curves, states, attention = made(d, u, looks, most_bags, most_rows)
    for c in range(cuts.size - 1):
        positions = order[cuts[c] : cuts[c + 1]]
        gather(rows, offsets, positions, shown, starts)
        forward(vector, d, u, shown, starts, positions.size, read, gates, cells, curves, states, attention)
        for i in range(positions.size):
            predictions[cuts[c] + i] = predicted(vector, d, u, states[looks - 1, i], moments[positions[i]])


def compile_all() -> None:
    """Compile the kernels, or load them from numba's cache on disk."""
    whole, real, single = types.int64, types.float64, types.float32
    data = (single[:, ::1], single[:, ::1], whole[::1], whole[::1], whole[::1])
    train_epoch.compile((*data, single[::1], single[::1], whole, whole, single[::1], single[:, ::1], real, real, whole))
    predict.compile((*data, whole, whole, single[::1], single[::1]))
