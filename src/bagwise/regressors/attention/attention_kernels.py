"""Compiled networks over bags: prediction, gradient and training of one network on one core.

Importing this module imports numba; `network.attention_kernels` imports it when a network is first used. A network is a
flat vector of parameters and a table ``plan`` (`network.Network.plan`): a row per dense layer with its inputs, outputs
and position in the vector. The first ``n_read`` layers read an instance. The pooling layers follow, then the head.

Training uses single precision and prediction double precision, by the same code. Matrix products use `simd` in single
precision if the shape allows it, otherwise BLAS. Operations per bag are loops, because the sizes of bags differ.

numba links functions that are not inlined by name. The process that compiles a kernel therefore runs other copies of
them than a process that loads the kernel from disk, and results differ by a few units of 1e-9. Inlining all of them
would avoid this, but compiling would take minutes.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from bagwise.instances.networks.simd import (
    LANES,
    OPTIONS,
    add_column_sums,
    add_to,
    flushed,
    kernel,
    multiply,
    multiply_rows,
    part,
    store,
    transpose,
)

MEAN, GATED, SET = range(3)  # ways of pooling
ZERO, ONE = np.float32(0), np.float32(1)  # typed, so that products stay in float32

BLOCK = 512  # rows per matrix product, so that the result is still in the cache when it is used


def called(function):
    """Compile a function that kernels call; it is not inlined."""
    return njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)


# Scalar functions -----------------------------------------------------------------------------------------------------


@intrinsic
def from_bits(typing, bits):
    """Return the single precision number with these bits."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


def single_exponential(x):
    """Compute exp x = 2^n exp f, n whole and f within ± ln 2 / 2, by a series of seven terms; the error is 2e-7.

    Unlike `math.exp`, loops over it are vectorised.
    """
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


def exponential(x):
    """Compute exp x, in single precision by `single_exponential`."""


@overload(exponential, jit_options={"forceinline": True, **OPTIONS})
def _exponential(x):
    return single_exponential if x == types.float32 else lambda x: math.exp(x)


@part
def sigmoid(x):
    return ONE / (ONE + exponential(-x))


@part
def tanh(x):
    return np.float32(2) * sigmoid(np.float32(2) * x) - ONE


# Dense layers ---------------------------------------------------------------------------------------------------------


@part
def layer(vector, plan, l):
    """Return weights and biases of layer l, or their gradients, as views of the flat vector."""
    n, m, at = plan[l, 0], plan[l, 1], plan[l, 2]
    return vector[at : at + n * m].reshape(n, m), vector[at + n * m : at + n * m + m]


@part
def put(C, row, column, total):
    store(C, row, column, total)


@part
def finished_product(A, B, start, C, finish):
    """Call finish(C, A B + start), eight rows at a time and then the remaining ones."""
    whole = len(C) // 8 * 8
    multiply(A, B, start, C, whole, B.shape[0], B.shape[1], finish)
    multiply_rows(A, B, start, C, whole, len(C), finish)


@called
def affine_by_vectors(A, W, b, C):
    if W.shape[1] % LANES == 0:
        finished_product(A, W, b.reshape(1, b.size), C, put)
    else:
        affine_by_blas(A, W, b, C)


@called
def affine_by_blas(A, W, b, C):
    np.dot(A, W, C)
    C += b


def affine(A, W, b, C):
    """Write A W + b to C."""


@overload(affine, jit_options={"forceinline": True, **OPTIONS})
def _affine(A, W, b, C):
    if A.dtype == types.float32:
        return lambda A, W, b, C: affine_by_vectors(A, W, b, C)
    return lambda A, W, b, C: affine_by_blas(A, W, b, C)


@called
def add_gradient(A, D, dW, db):
    """Add A^T D to dW and the sums of the columns of D to db."""
    if db.size % LANES == 0:
        whole = len(D) // 8 * 8
        finished_product(A.T, D, np.zeros((1, db.size), D.dtype), dW, add_to)
        add_column_sums(D, db.reshape(1, db.size), whole)
    else:
        whole = 0
        dW += np.dot(A.T, D)
    for i in range(whole, len(D)):
        for k in range(db.size):
            db[k] += D[i, k]


@called
def dense(vector, plan, l, values, positive):
    """Compute the outputs of layer l; ``positive`` applies max(0, x)."""
    W, b = layer(vector, plan, l)
    outputs = np.empty((len(values), b.size), W.dtype)
    for at in range(0, len(values), BLOCK):
        block = outputs[at : at + BLOCK]
        affine(values[at : at + BLOCK], W, b, block)
        if positive:
            for i in range(len(block)):
                for k in range(b.size):
                    block[i, k] = ZERO if block[i, k] <= 0 else block[i, k]  # keep NaN, which marks divergence
    return outputs


@called
def dense_backward(vector, gradient, plan, l, values, slope, onward):
    """Add the gradient of layer l and return the slope of its inputs, if ``onward``."""
    W, b = layer(vector, plan, l)
    dW, db = layer(gradient, plan, l)
    below = np.empty((len(slope) if onward else 0, len(W)), W.dtype)
    turned = np.empty((b.size, len(W)) if onward else (0, 0), W.dtype)
    if onward and len(W) % 8 == 0 and b.size % 8 == 0:
        transpose(W, turned)
    elif onward:
        turned[:] = W.T
    zeros = np.zeros(len(W), W.dtype)
    for at in range(0, len(slope), BLOCK):
        block = slope[at : at + BLOCK]
        add_gradient(values[at : at + BLOCK], block, dW, db)
        if onward:
            affine(block, turned, zeros, below[at : at + BLOCK])
    return below


@called
def positive_layers(vector, plan, first, last, values):
    """Return the inputs of layers ``first`` to ``last`` - 1, each with max(0, x), and the outputs of the last."""
    outputs = [values]
    for l in range(first, last):
        outputs.append(dense(vector, plan, l, outputs[-1], True))
    return outputs


@called
def positive_layers_backward(vector, gradient, plan, first, last, values, slope, onward):
    """Add the gradients of these layers and return the slope of their inputs, if ``onward``."""
    for l in range(last - 1, first - 1, -1):
        outputs = values[l + 1 - first]
        for i in range(len(slope)):
            for k in range(slope.shape[1]):
                slope[i, k] = slope[i, k] if outputs[i, k] > 0 else ZERO
        slope = dense_backward(vector, gradient, plan, l, values[l - first], slope, onward or l > first)
    return slope


# Attention over the instances of a bag --------------------------------------------------------------------------------


@called
def score(read, query, lo, hi, scores):
    """Write the inner products of rows ``lo`` to ``hi`` with a vector."""
    for l in range(lo, hi):
        total = ZERO * query[0]
        for k in range(query.size):
            total += read[l, k] * query[k]
        scores[l] = total


@called
def pool(read, lo, hi, attention, pooled):
    """Turn the scores in ``attention`` into weights that sum to one, and add up the instances by them."""
    top, total = attention[lo], ZERO * attention[lo]
    for l in range(lo, hi):
        top = max(top, attention[l])
    for l in range(lo, hi):
        attention[l] = exponential(attention[l] - top)
        total += attention[l]
    pooled[:] = 0
    for l in range(lo, hi):
        a = attention[l] / total
        attention[l] = a
        for k in range(pooled.size):
            pooled[k] += a * read[l, k]


@called
def pool_backward(read, lo, hi, attention, slope, scores):
    """Write the slopes of the scores, from the slope of the sum."""
    score(read, slope, lo, hi, scores)
    level = ZERO * slope[0]
    for l in range(lo, hi):
        level += attention[l] * scores[l]
    for l in range(lo, hi):
        scores[l] = attention[l] * (scores[l] - level)


@called
def open_gates(gate, before, cell, curve, query):
    """Apply the activations to the gates of a bag, and write its cell, tanh(cell) and query."""
    u = cell.size
    for k in range(3 * u):
        gate[k] = sigmoid(gate[k])
    for k in range(3 * u, 4 * u):
        gate[k] = tanh(gate[k])
    for k in range(u):
        cell[k] = gate[k] * gate[3 * u + k] + gate[u + k] * before[k]
        curve[k] = tanh(cell[k])
        query[k] = gate[2 * u + k] * curve[k]


@part
def copy(source, target):
    for k in range(source.size):
        target[k] = source[k]


@called
def set_attention(vector, plan, at, read, starts, gates, cells, curves, states, attention):
    """Look at each bag several times; arrays have an axis of looks, ``states`` are [q_t, r_t]."""
    n_bags, u = states.shape[1], read.shape[1]
    initial_cell = np.zeros(u, read.dtype)
    for t in range(len(states)):
        if t > 0:
            gates[t] = dense(vector, plan, at, states[t - 1], False)
        else:
            copy(layer(vector, plan, at)[1], gates[0, 0])  # the first input and state are zero
        for i in range(n_bags):
            gate, cell, curve, query = gates[t, i], cells[t, i], curves[t, i], states[t, i, :u]
            if t == 0 and i > 0:  # the first query is the same for all bags
                copy(gates[0, 0], gate)
                copy(cells[0, 0], cell)
                copy(curves[0, 0], curve)
                copy(states[0, 0, :u], query)
            else:
                open_gates(gate, cells[t - 1, i] if t > 0 else initial_cell, cell, curve, query)
            score(read, query, starts[i], starts[i + 1], attention[t])
            pool(read, starts[i], starts[i + 1], attention[t], states[t, i, u:])


@called
def look_backward(read, lo, hi, attention, state, slope, read_slope, scores):
    """Add to the slopes of the query and of the instances, from the slope of a state."""
    u = read.shape[1]
    query_slope, pooled_slope = slope[:u], slope[u:]
    pool_backward(read, lo, hi, attention, pooled_slope, scores)
    for l in range(lo, hi):
        a, s = attention[l], scores[l]
        for k in range(u):
            query_slope[k] += s * read[l, k]
        for k in range(u):
            read_slope[l, k] += a * pooled_slope[k] + s * state[k]


@called
def gates_backward(gate, before, curve, query_slope, cell_slope):
    """Replace the gates by their slopes before activation, and the slope of the cell by that of the cell before."""
    u = curve.size
    for k in range(u):
        a, f, o, g = gate[k], gate[u + k], gate[2 * u + k], gate[3 * u + k]
        c = cell_slope[k] + query_slope[k] * o * (ONE - curve[k] * curve[k])
        gate[k] = c * g * a * (ONE - a)
        gate[u + k] = c * before[k] * f * (ONE - f)
        gate[2 * u + k] = query_slope[k] * curve[k] * o * (ONE - o)
        gate[3 * u + k] = c * a * (ONE - g * g)
        cell_slope[k] = c * f


@called
def set_attention_backward(
    vector, gradient, plan, at, read, starts, gates, cells, curves, states, attention, slope, read_slope
):
    """Add to the slopes of the instances, from the slope of the last state; ``gates`` are used up."""
    n_bags, u = states.shape[1], read.shape[1]
    initial_cell = np.zeros(u, read.dtype)
    cell_slopes, scores = np.zeros((n_bags, u), read.dtype), np.empty(len(read), read.dtype)
    for t in range(len(states) - 1, -1, -1):
        for i in range(n_bags):
            lo, hi = starts[i], starts[i + 1]
            look_backward(read, lo, hi, attention[t], states[t, i], slope[i], read_slope, scores)
            before = cells[t - 1, i] if t > 0 else initial_cell
            gates_backward(gates[t, i], before, curves[t, i], slope[i], cell_slopes[i])
        if t > 0:
            slope = dense_backward(vector, gradient, plan, at, states[t - 1], gates[t], True)
        else:
            db = layer(gradient, plan, at)[1]
            for i in range(n_bags):
                for k in range(4 * u):
                    db[k] += gates[0, i, k]


@called
def gated_attention(vector, plan, at, read, starts, gates, states, attention):
    """Look at each bag once; ``gates`` holds tanh(V m), σ(U m) and their product."""
    for j in range(2):
        gates[j] = dense(vector, plan, at + j, read, False)
    for l in range(len(read)):
        for k in range(read.shape[1]):
            gates[0, l, k], gates[1, l, k] = tanh(gates[0, l, k]), sigmoid(gates[1, l, k])
            gates[2, l, k] = gates[0, l, k] * gates[1, l, k]
    attention[0] = dense(vector, plan, at + 2, gates[2], False)[:, 0]
    for i in range(states.shape[1]):
        pool(read, starts[i], starts[i + 1], attention[0], states[0, i])


@called
def gated_attention_backward(vector, gradient, plan, at, read, starts, gates, states, attention, slope, read_slope):
    """Add to the slopes of the instances, from the slope of their sum; ``gates`` are used up."""
    scores = np.empty(len(read), read.dtype)
    for i in range(states.shape[1]):
        pool_backward(read, starts[i], starts[i + 1], attention[0], slope[i], scores)
        for l in range(starts[i], starts[i + 1]):
            a = attention[0, l]
            for k in range(read.shape[1]):
                read_slope[l, k] += a * slope[i, k]
    slopes = dense_backward(vector, gradient, plan, at + 2, gates[2], scores.reshape(-1, 1), True)
    for l in range(len(read)):
        for k in range(read.shape[1]):
            s, a, b = slopes[l, k], gates[0, l, k], gates[1, l, k]
            gates[0, l, k] = s * b * (ONE - a * a)
            gates[1, l, k] = s * a * b * (ONE - b)
    for j in range(2):
        read_slope += dense_backward(vector, gradient, plan, at + j, read, gates[j], True)


# Networks -------------------------------------------------------------------------------------------------------------


@called
def forward(vector, plan, pooling, n_read, looks, rows, moments, share, starts):
    """Return all values of a batch: those of the reading layers, of attention and of the head.

    The last entry of the head holds a number per bag, or per instance with ``MEAN``; `predictions` gives bags.
    """
    n_rows, n_bags, u = len(rows), len(starts) - 1, plan[n_read, 0] if pooling != SET else plan[n_read, 0] // 2
    read = positive_layers(vector, plan, 0, n_read, rows)
    gates = np.empty((looks, n_bags, 4 * u) if pooling == SET else (3, n_rows, u), rows.dtype)
    cells = np.empty((looks, n_bags, u), rows.dtype)
    curves = np.empty((looks, n_bags, u), rows.dtype)
    states = np.empty((looks, n_bags, 2 * u if pooling == SET else u), rows.dtype)
    attention = np.empty((looks, n_rows), rows.dtype)
    first = n_read
    if pooling == SET:
        set_attention(vector, plan, n_read, read[-1], starts, gates, cells, curves, states, attention)
        first = n_read + 1
    elif pooling == GATED:
        gated_attention(vector, plan, n_read, read[-1], starts, gates, states, attention)
        first = n_read + 3
    pooled = read[-1] if pooling == MEAN else np.concatenate((states[-1], moments), axis=1)
    head = positive_layers(vector, plan, first, len(plan) - 1, pooled)
    outputs = dense(vector, plan, len(plan) - 1, head[-1], False)[:, 0].copy()
    predictions = outputs
    if pooling == MEAN:
        predictions = np.empty(n_bags, rows.dtype)
        for i in range(n_bags):
            total = ZERO  # not in the array: the order of the sum would depend on where the arrays lie in memory
            for l in range(starts[i], starts[i + 1]):
                total += share[l] * outputs[l]
            predictions[i] = total
        attention[0] = outputs
    return predictions, read, gates, cells, curves, states, attention, head


@called
def backward(vector, gradient, plan, pooling, n_read, values, starts, slope):
    """Add the gradient, given the slopes of the last layer's outputs, (bags or rows, 1); ``values`` are used up."""
    _, read, gates, cells, curves, states, attention, head = values
    last = len(plan) - 1
    first = last + 1 - len(head)
    slope = dense_backward(vector, gradient, plan, last, head[-1], slope, True)
    slope = positive_layers_backward(vector, gradient, plan, first, last, head, slope, True)
    if pooling == MEAN:
        read_slope = slope
    else:
        read_slope = np.zeros(read[-1].shape, slope.dtype)
        slope = slope[:, : states.shape[2]].copy()
        if pooling == SET:
            set_attention_backward(
                vector, gradient, plan, n_read, read[-1], starts, gates, cells, curves, states, attention, slope,
                read_slope,
            )  # fmt: skip
        else:
            gated_attention_backward(
                vector, gradient, plan, n_read, read[-1], starts, gates, states, attention, slope, read_slope
            )
    positive_layers_backward(vector, gradient, plan, 0, n_read, read, read_slope, False)


@called
def gather(rows, shares, offsets, positions):
    """Return the rows of some bags and their shares one after the other, and where each bag begins."""
    starts = np.zeros(positions.size + 1, np.int64)
    for i in range(positions.size):
        starts[i + 1] = starts[i] + offsets[positions[i] + 1] - offsets[positions[i]]
    gathered, share = np.empty((starts[-1], rows.shape[1]), rows.dtype), np.empty(starts[-1], rows.dtype)
    for i in range(positions.size):
        first = offsets[positions[i]]
        for l in range(starts[i], starts[i + 1]):
            share[l] = shares[first + l - starts[i]]
            copy(rows[first + l - starts[i]], gathered[l])
    return gathered, share, starts


@called
def loss_slope(values, share, starts, scale, targets, blend, pooling):
    """Return the slopes of the last layer's outputs, of the loss of bags (or its blend with that of instances)."""
    predictions, outputs = values[0], values[6]
    n = len(predictions)
    slope = np.empty((starts[-1] if pooling == MEAN else n, 1), predictions.dtype)
    for i in range(n):
        miss = predictions[i] - targets[i]
        if pooling == MEAN:
            for l in range(starts[i], starts[i + 1]):
                within = (ONE - blend) * (outputs[0, l] - predictions[i])
                slope[l, 0] = scale[i] * share[l] * (miss + within)
        else:
            slope[i, 0] = scale[i] * miss
    return slope


@called
def adam(w, g, m, v, rate, decay, steps):
    """Make a step of Adam with decoupled weight decay along the gradient, then set the gradient to zero."""
    remaining = np.float32(1 - rate * decay)
    step, share = np.float32(rate / (1 - 0.9**steps)), np.float32(1 / (1 - 0.999**steps))
    for i in range(w.size):
        m[i] = flushed(np.float32(0.9) * m[i] + np.float32(0.1) * g[i])
        v[i] = flushed(np.float32(0.999) * v[i] + np.float32(0.001) * g[i] * g[i])
        w[i] = remaining * w[i] - step * m[i] / (np.sqrt(v[i] * share) + np.float32(1e-8))
        g[i] = 0


@kernel
def train_epoch(data, shape, plan, order, cuts, targets, learn, blend, vector, memory, rate, decay, steps, held_out):
    """Make one pass over the bags in ``order``, in batches between ``cuts``; bags without weight are left out.

    The last bags, as many as ``held_out`` has entries, are predicted at the end instead, into ``held_out``. ``memory``
    (3, parameters) is the gradient, zero between calls, and Adam's moments; ``steps`` were made before.
    """
    rows, moments, shares, offsets = data
    pooling, n_read, looks = shape
    n_learn = order.size - held_out.size
    for c in range(cuts.size - 1):
        positions = order[cuts[c] : cuts[c + 1]]
        size, learning = positions.size, cuts[c] < n_learn
        if learning:
            positions = positions[learn[positions] > 0]
        if positions.size > 0:
            shown, share, starts = gather(rows, shares, offsets, positions)
            values = forward(vector, plan, pooling, n_read, looks, shown, moments[positions], share, starts)
            if learning:
                scale = learn[positions] * (np.float32(2) / np.float32(size))
                slope = loss_slope(values, share, starts, scale, targets[positions], blend, pooling)
                backward(vector, memory[0], plan, pooling, n_read, values, starts, slope)
            else:
                held_out[cuts[c] - n_learn : cuts[c + 1] - n_learn] = values[0]
        if learning:
            steps += 1
            adam(vector, memory[0], memory[1], memory[2], rate, decay, steps)


@kernel
def predict(data, shape, plan, order, cuts, vector, predictions, weights):
    """Write the predictions of the bags in ``order`` and the attention of their instances, averaged over looks."""
    rows, moments, shares, offsets = data
    pooling, n_read, looks = shape
    for c in range(cuts.size - 1):
        positions = order[cuts[c] : cuts[c + 1]]
        shown, share, starts = gather(rows, shares, offsets, positions)
        values = forward(vector, plan, pooling, n_read, looks, shown, moments[positions], share, starts)
        predictions[cuts[c] : cuts[c + 1]] = values[0]
        for i in range(positions.size):
            for l in range(starts[i + 1] - starts[i]):
                weights[offsets[positions[i]] + l] = values[6][:, starts[i] + l].mean()


def compile_kernels(training: bool) -> None:
    """Compile the kernel of prediction, and that of training if needed, or load them from numba's cache on disk."""
    whole, real, single = types.int64, types.float64, types.float32
    shape, table, lists = types.UniTuple(whole, 3), whole[:, ::1], (whole[::1], whole[::1])

    def data(number):
        return types.Tuple((number[:, ::1], number[:, ::1], number[::1], whole[::1]))

    state = (single, single[::1], single[:, ::1], real, real, whole, single[::1])
    if training:
        train_epoch.compile((data(single), shape, table, *lists, single[::1], single[::1], *state))
    predict.compile((data(real), shape, table, *lists, real[::1], real[::1], real[::1]))
