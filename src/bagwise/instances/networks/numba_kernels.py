"""Compiled training and prediction of small networks: one network, one core, everything in its cache.

Importing this module imports numba; only `ensemble.kernels` does so, when first needed.

A layer is a matrix of weights (inputs, units) and a row of biases, cut out of one flat vector by the table
``plan`` of `ensemble.layout`. Sizes are padded with zeros to whole vectors, and such zeros stay zero under
every step, so the loops have no tails. Nearly all of the work is one product of matrices, `multiply`, used in
three directions:

- forward   A' = relu(A W + b)
- gradient  dW += A^T D, with D = d loss / d (A W + b)
- backward  D' = (D W^T) where A > 0, written over A

Vectors of numbers are a type of compiled code, held in one register of the processor: plain loops are vectorised well,
but a tile of sums is not kept in registers while a loop runs along a matrix. Written with these operations it is, and a
product of matrices comes close to the peak of the core.

numba's cache on disk watches this file alone: after a change of a constant imported here, touch it.
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import from_dtype, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from bagwise.instances.networks.ensemble import BIAS_AT, COLUMNS, INPUTS, LEAST, ROWS, SPACE_AT, UNITS, WEIGHT_AT

LANES = 16 if binding.get_host_cpu_features().get("avx512f", False) else 8  # divides the padding


class _VectorType(types.Type):
    def __init__(self):
        super().__init__(name=f"float32x{LANES}")


_vector = _VectorType()
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_ZERO = ir.Constant(_FLOATS, [0.0] * LANES)


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _FLOATS)


def _address(context, builder, kind, array, row, column):
    array = context.make_array(kind)(context, builder, array)
    item = cgutils.get_item_pointer(context, builder, kind, array, [row, column], wraparound=False)
    return builder.bitcast(item, _FLOATS.as_pointer())


def _everywhere(builder, number):
    first = builder.insert_element(_ZERO, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def load(typing, array, row, column):
    """The vector array[row, column : column + LANES]."""

    def generate(context, builder, signature, args):
        vector = builder.load(_address(context, builder, signature.args[0], *args))
        vector.align = 4
        return vector

    return _vector(array, types.intp, types.intp), generate


@intrinsic
def store(typing, array, row, column, vector):
    """array[row, column : column + LANES] = vector."""

    def generate(context, builder, signature, args):
        builder.store(args[3], _address(context, builder, signature.args[0], *args[:3])).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, _vector), generate


@intrinsic
def spread(typing, number):
    """A vector with the number in every lane."""

    def generate(context, builder, signature, args):
        return _everywhere(builder, args[0])

    return _vector(types.float32), generate


@intrinsic
def spread_from(typing, array, row, column):
    """A vector with array[row, column] in every lane. Indices are not negative, which spares the loop a test each."""

    def generate(context, builder, signature, args):
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, args[0])
        item = cgutils.get_item_pointer(context, builder, kind, array, args[1:], wraparound=False)
        return _everywhere(builder, builder.load(item))

    return _vector(array, types.intp, types.intp), generate


@intrinsic
def multiply_add(typing, a, b, c):
    """a * b + c, fused where the processor can."""

    def generate(context, builder, signature, args):
        product = builder.fmul(args[0], args[1], flags=("contract",))
        return builder.fadd(product, args[2], flags=("contract",))

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def where_positive(typing, gate, vector):
    """The vector where the gate is above zero (or NaN, which must not disappear), else zero."""

    def generate(context, builder, signature, args):
        return builder.select(builder.fcmp_unordered(">", args[0], _ZERO), args[1], _ZERO)

    return _vector(_vector, _vector), generate


CHUNK = 256  # rows whose activations are held at once: batches and predictions of any length need no more memory

# NaN and infinity must survive (divergence is detected by them), so not the whole of fastmath.
_OPTIONS = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy"}
_part = njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)


def _kernel(function):
    """Compile without the interpreter lock, and keep the result on disk where anything on disk can be written."""
    try:
        return njit(nogil=True, cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no folder for its cache
        return njit(nogil=True, **_OPTIONS)(function)


# --- one product of matrices, three ways to finish it


@_part
def keep_positive(C, row, column, total):
    store(C, row, column, where_positive(total, total))


@_part
def add_to(C, row, column, total):
    store(C, row, column, multiply_add(spread(np.float32(1)), total, load(C, row, column)))


@_part
def pass_back(C, row, column, total):
    store(C, row, column, where_positive(load(C, row, column), total))


@_part
def multiply(A, B, start, C, rows, inner, columns, finish):
    """finish(C, A B + start), eight rows by one vector of columns at a time, the sums in registers."""
    for i in range(0, rows, 8):
        for k in range(0, columns, LANES):
            c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = load(start, 0, k)
            for j in range(inner):
                b = load(B, j, k)
                c0 = multiply_add(spread_from(A, i, j), b, c0)
                c1 = multiply_add(spread_from(A, i + 1, j), b, c1)
                c2 = multiply_add(spread_from(A, i + 2, j), b, c2)
                c3 = multiply_add(spread_from(A, i + 3, j), b, c3)
                c4 = multiply_add(spread_from(A, i + 4, j), b, c4)
                c5 = multiply_add(spread_from(A, i + 5, j), b, c5)
                c6 = multiply_add(spread_from(A, i + 6, j), b, c6)
                c7 = multiply_add(spread_from(A, i + 7, j), b, c7)
            finish(C, i, k, c0)
            finish(C, i + 1, k, c1)
            finish(C, i + 2, k, c2)
            finish(C, i + 3, k, c3)
            finish(C, i + 4, k, c4)
            finish(C, i + 5, k, c5)
            finish(C, i + 6, k, c6)
            finish(C, i + 7, k, c7)


# --- where things lie


@_part
def layer(flat, plan, l):
    """Weights and biases of layer l, or their gradients: views of a flat vector."""
    n, m, w, b = plan[l, ROWS], plan[l, COLUMNS], plan[l, WEIGHT_AT], plan[l, BIAS_AT]
    return flat[w : w + n * m].reshape(n, m), flat[b : b + m].reshape(1, m)


@_part
def inputs(space, plan, l):
    """What layer l is given: the rows themselves for the first, activations for the others."""
    n, at = plan[l, ROWS], plan[l, SPACE_AT] * CHUNK
    return space[at : at + n * CHUNK].reshape(CHUNK, n)


@_part
def all_widths(plan):
    """Padded features and hidden units together."""
    last = len(plan) - 1
    return plan[last, SPACE_AT] + plan[last, ROWS]


@_part
def padded(rows):
    return (rows + 7) // 8 * 8


# --- forward


@_part
def load_rows(X, rows, shift, factor, A):
    """A = (X[rows] - shift) * factor: every network standardises in its own way, and X is never copied."""
    for r in range(rows.size):
        x = X[rows[r]]
        for a in range(x.size):
            A[r, a] = np.float32((x[a] - shift[a]) * factor[a])


@_part
def forward(parameters, plan, space, n_rows, outputs):
    """Activations of all layers, and the outputs of the rows that `load_rows` put there."""
    last = len(plan) - 1
    for l in range(last):
        W, b = layer(parameters, plan, l)
        C = inputs(space, plan, l + 1)
        multiply(inputs(space, plan, l), W, b, C, padded(n_rows), plan[l, INPUTS], plan[l, COLUMNS], keep_positive)
    A = inputs(space, plan, last)
    W, b = layer(parameters, plan, last)
    V = W.reshape(1, W.size)  # as a row: only along rows does the compiler know that memory is contiguous
    for r in range(n_rows):
        total = np.float32(0)
        for k in range(A.shape[1]):
            total += A[r, k] * V[0, k]
        outputs[r] = total + b[0, 0]


# --- backward


@_part
def output_backward(A, V, errors, gradient, rows):
    """Of the single output: gradient += errors^T A, then A is overwritten by (errors V) where A > 0."""
    zero = spread(np.float32(0))
    for i in range(0, rows, 8):
        for k in range(0, A.shape[1], LANES):
            v, g = load(V, 0, k), load(gradient, 0, k)
            for r in range(i, i + 8):
                a, e = load(A, r, k), spread(errors[r])
                g = multiply_add(e, a, g)
                store(A, r, k, where_positive(a, multiply_add(e, v, zero)))
            store(gradient, 0, k, g)


@_part
def add_column_sums(D, sums, rows):
    one = spread(np.float32(1))
    for i in range(0, rows, 8):
        for k in range(0, D.shape[1], LANES):
            s = load(sums, 0, k)
            for r in range(i, i + 8):
                s = multiply_add(one, load(D, r, k), s)
            store(sums, 0, k, s)


@_part
def transpose(W, T):
    for i in range(0, W.shape[0], 8):  # in blocks, or every number would be a cache line of its own
        for k in range(0, W.shape[1], 8):
            for q in range(k, k + 8):
                for p in range(i, i + 8):
                    T[q, p] = W[p, q]


@_part
def backward(parameters, plan, space, n_rows, errors, gradient, scratch, zeros):
    """Add the gradient of sum(errors^2) / 2; the activations are used up."""
    last, rows = len(plan) - 1, padded(n_rows)
    W, b = layer(parameters, plan, last)
    dW, db = layer(gradient, plan, last)
    for r in range(n_rows):
        db[0, 0] += errors[r]
    for r in range(n_rows, rows):  # what fills up the last eight rows teaches nothing
        errors[r] = 0
    output_backward(inputs(space, plan, last), W.reshape(1, W.size), errors, dW.reshape(1, W.size), rows)
    for l in range(last - 1, -1, -1):
        A, D = inputs(space, plan, l), inputs(space, plan, l + 1)
        W, b = layer(parameters, plan, l)
        dW, db = layer(gradient, plan, l)
        multiply(A.T, D, zeros, dW, plan[l, INPUTS], n_rows, plan[l, COLUMNS], add_to)
        add_column_sums(D, db, rows)
        if l > 0:
            T = scratch[: W.size].reshape(W.shape[1], W.shape[0])
            transpose(W, T)
            multiply(D, T, zeros, A, rows, plan[l, UNITS], plan[l, ROWS], pass_back)


@_part
def flushed(x):
    """Zero for what is next to it: weights of idle units shrink for ever, and some processors are slow below 1e-38."""
    return np.float32(0) if abs(x) < np.float32(1e-30) else x


@_part
def adam(w, g, m, v, decay, share, step):
    """One step along the mean gradient (share is one over the batch's weight), which is then set to zero."""
    keep_m, keep_v, small = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
    new_m, new_v = np.float32(0.1), np.float32(0.001)
    for i in range(w.size):
        mean = (g[i] + decay * w[i]) * share
        m[i] = flushed(keep_m * m[i] + new_m * mean)
        v[i] = flushed(keep_v * v[i] + new_v * mean * mean)
        w[i] = flushed(w[i] - step * m[i] / (np.sqrt(v[i]) + small))
        g[i] = 0


# --- what Python calls


@_kernel
def shuffle(order, state):
    """Fisher-Yates on a SplitMix64 stream: a fresh permutation that depends on the network's own state only."""
    for i in range(order.size - 1, 0, -1):
        state[0] += np.uint64(0x9E3779B97F4A7C15)
        z = state[0]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
        j = np.int64((z * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@_kernel
def train_epoch(X, y, weight, order, scaling, plan, parameters, memory, batch, rate, decay, steps):
    """One pass over the rows in ``order``, in batches; returns the weighted sum of squared errors.

    ``scaling`` is what to take off and to multiply by, for X and for y; ``memory`` (3, parameters) the gradient, zero
    between calls, and the first and second moments; ``steps`` have been made before.
    """
    x_shift, x_factor, y_shift, y_factor = scaling
    g, m, v = memory[0], memory[1], memory[2]
    p = plan[0, BIAS_AT]  # weights come before biases, which are not penalised
    width = all_widths(plan)
    space, zeros = np.zeros(CHUNK * width, np.float32), np.zeros((1, width), np.float32)
    scratch, errors = np.empty(parameters.size, np.float32), np.empty(CHUNK, np.float32)
    loss = 0.0
    for start in range(0, order.size, batch):
        stop, weights = min(start + batch, order.size), 0.0
        for at in range(start, stop, CHUNK):
            rows = order[at : min(at + CHUNK, stop)]
            load_rows(X, rows, x_shift, x_factor, inputs(space, plan, 0))
            forward(parameters, plan, space, rows.size, errors)
            for r in range(rows.size):
                miss = errors[r] - np.float32((y[rows[r]] - y_shift) * y_factor)
                errors[r] = weight[rows[r]] * miss
                loss += errors[r] * miss
                weights += weight[rows[r]]
            backward(parameters, plan, space, rows.size, errors, g, scratch, zeros)
        steps += 1
        step = np.float32(rate * np.sqrt(1 - 0.999**steps) / (1 - 0.9**steps))
        share = np.float32(1 / max(weights, LEAST * (stop - start)))
        adam(parameters[:p], g[:p], m[:p], v[:p], np.float32(decay), share, step)
        adam(parameters[p:], g[p:], m[p:], v[p:], np.float32(0), share, step)
    return loss


@_kernel
def predict_rows(X, rows, x_shift, x_factor, y_shift, y_scale, plan, parameters, predictions):
    """predictions[i, s] = what network s says of row rows[i]."""
    space = np.zeros(CHUNK * all_widths(plan), np.float32)
    outputs = np.empty(CHUNK, np.float32)
    for start in range(0, rows.size, CHUNK):
        block = rows[start : start + CHUNK]
        for s in range(len(parameters)):
            load_rows(X, block, x_shift[s], x_factor[s], inputs(space, plan, 0))
            forward(parameters[s], plan, space, block.size, outputs)
            for r in range(block.size):
                predictions[start + r, s] = y_shift[s] + y_scale[s] * outputs[r]


def compile_for(dtype: np.dtype) -> None:
    """Compile the kernels for X of this dtype, or load them from numba's cache. What is only read is read-only."""

    def fixed(number, n_axes):
        return types.Array(number, n_axes, "C", readonly=True)

    whole, real, single = types.int64, types.float64, types.float32
    X, rows, plan = fixed(from_dtype(dtype), 2), fixed(whole, 1), fixed(whole, 2)
    vector, table = fixed(real, 1), fixed(real, 2)
    scaling = types.Tuple((vector, vector, real, real))
    shuffle.compile((whole[::1], types.uint64[::1]))
    train_epoch.compile(
        (X, vector, fixed(single, 1), rows, scaling, plan, single[::1], single[:, ::1], whole, real, real, whole)
    )
    predict_rows.compile((X, rows, table, table, vector, vector, plan, fixed(single, 2), real[:, ::1]))
