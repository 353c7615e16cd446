"""Compiled kernels of the networks: vectors of the processor, products of matrices, training and prediction.

Importing this module imports numba; `cpu.kernels` imports it when a kernel is first needed. Nearly all of the work is
one product of matrices, `multiply`, used in three directions:

- forward   A' = relu(A W + b)
- gradient  dW += A^T D, with D = d loss / d (A W + b)
- backward  D' = (D W^T) where A > 0, written over A
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import from_dtype, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from bagwise.instances.networks.cpu import BIAS_AT, COLUMNS, INPUTS, LEAST, LINE, ROWS, SPACE_AT, UNITS, WEIGHT_AT

CHUNK = 256  # rows whose activations are held at once: batches and predictions of any length need no more memory

# NaN and infinity must survive (divergence is detected by them), so not all of fastmath is allowed.
OPTIONS = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy"}


def part(function):
    """Compile a function that becomes part of the code of the kernels that call it."""
    return njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)


def kernel(function):
    """Compile without the interpreter lock, and cache the result on disk where a folder can be written."""
    try:
        return njit(nogil=True, cache=True, **OPTIONS)(function)
    except RuntimeError:  # numba found no folder for its cache
        return njit(nogil=True, **OPTIONS)(function)


# Vectors of the processor ---------------------------------------------------------------------------------------------
#
# A vector of numbers is a type of compiled code and is held in one register. In a plain loop along a matrix, a tile of
# sums does not stay in registers. With these operations it does, and a product of matrices comes close to the peak of
# the core.

LANES, REGISTERS = (16, 32) if binding.get_host_cpu_features().get("avx512f", False) else (8, 16)
floats = ir.VectorType(ir.FloatType(), LANES)
zero = ir.Constant(floats, [0.0] * LANES)


class VectorType(types.Type):
    """Type of a vector of numbers in compiled code."""


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    """Representation of a `VectorType` in LLVM: one register."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, floats)


vector = VectorType(name=f"float32x{LANES}")


def item(context, builder, kind, array, row, column):
    """Return the address of an item; negative indices are not supported, which saves a test."""
    array = context.make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, array, [row, column], wraparound=False)


def address(context, builder, *where):
    return builder.bitcast(item(context, builder, *where), floats.as_pointer())


def everywhere(builder, number):
    first = builder.insert_element(zero, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def load(typing, array, row, column):
    """Load the vector array[row, column : column + LANES]."""

    def generate(context, builder, signature, args):
        values = builder.load(address(context, builder, array, *args))
        values.align = 4
        return values

    return vector(array, types.intp, types.intp), generate


@intrinsic
def store(typing, array, row, column, values):
    """Assign values to array[row, column : column + LANES]."""

    def generate(context, builder, signature, args):
        builder.store(args[3], address(context, builder, array, *args[:3])).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, vector), generate


@intrinsic
def spread(typing, number):
    """Return a vector with the number in each lane."""

    def generate(context, builder, signature, args):
        return everywhere(builder, args[0])

    return vector(types.float32), generate


@intrinsic
def spread_from(typing, array, row, column):
    """Return a vector with array[row, column] in each lane."""

    def generate(context, builder, signature, args):
        return everywhere(builder, builder.load(item(context, builder, array, *args)))

    return vector(array, types.intp, types.intp), generate


@intrinsic
def multiply_add(typing, a, b, c):
    """Compute a * b + c, fused where the processor supports it."""

    def generate(context, builder, signature, args):
        product = builder.fmul(args[0], args[1], flags=("contract",))
        return builder.fadd(product, args[2], flags=("contract",))

    return vector(vector, vector, vector), generate


@intrinsic
def where_positive(typing, gate, values):
    """Return the values where the gate is above zero or NaN (which must not be hidden), and zero elsewhere."""

    def generate(context, builder, signature, args):
        return builder.select(builder.fcmp_unordered(">", args[0], zero), args[1], zero)

    return vector(vector, vector), generate


@intrinsic
def prefetch(typing, array, row, column):
    """Load array[row, column] into the cache before it is read."""

    def generate(context, builder, signature, args):
        whole, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        where = builder.bitcast(item(context, builder, array, *args), byte)
        builder.call(call, [where, whole(0), whole(2), whole(1)])  # to read; into the second cache; data
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


# Kernels --------------------------------------------------------------------------------------------------------------


@part
def keep_positive(C, row, column, total):
    store(C, row, column, where_positive(total, total))


@part
def add_to(C, row, column, total):
    store(C, row, column, multiply_add(spread(np.float32(1)), total, load(C, row, column)))


@part
def pass_back(C, row, column, total):
    store(C, row, column, where_positive(load(C, row, column), total))


@part
def multiply(A, B, start, C, rows, inner, columns, finish):
    """Call finish(C, A B + start) for eight rows by one vector of columns at a time, with the sums in registers.

    With enough registers, two vectors of columns are taken at a time, so that A is read half as often. The order of
    each sum is the same, so the digits are too.
    """
    paired = columns - columns % (2 * LANES) if REGISTERS == 32 else 0
    for i in range(0, rows, 8):
        for k in range(0, paired, 2 * LANES):
            c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = load(start, 0, k)
            d0 = d1 = d2 = d3 = d4 = d5 = d6 = d7 = load(start, 0, k + LANES)
            for j in range(inner):
                b, e = load(B, j, k), load(B, j, k + LANES)
                a = spread_from(A, i, j)
                c0, d0 = multiply_add(a, b, c0), multiply_add(a, e, d0)
                a = spread_from(A, i + 1, j)
                c1, d1 = multiply_add(a, b, c1), multiply_add(a, e, d1)
                a = spread_from(A, i + 2, j)
                c2, d2 = multiply_add(a, b, c2), multiply_add(a, e, d2)
                a = spread_from(A, i + 3, j)
                c3, d3 = multiply_add(a, b, c3), multiply_add(a, e, d3)
                a = spread_from(A, i + 4, j)
                c4, d4 = multiply_add(a, b, c4), multiply_add(a, e, d4)
                a = spread_from(A, i + 5, j)
                c5, d5 = multiply_add(a, b, c5), multiply_add(a, e, d5)
                a = spread_from(A, i + 6, j)
                c6, d6 = multiply_add(a, b, c6), multiply_add(a, e, d6)
                a = spread_from(A, i + 7, j)
                c7, d7 = multiply_add(a, b, c7), multiply_add(a, e, d7)
            finish(C, i, k, c0)
            finish(C, i, k + LANES, d0)
            finish(C, i + 1, k, c1)
            finish(C, i + 1, k + LANES, d1)
            finish(C, i + 2, k, c2)
            finish(C, i + 2, k + LANES, d2)
            finish(C, i + 3, k, c3)
            finish(C, i + 3, k + LANES, d3)
            finish(C, i + 4, k, c4)
            finish(C, i + 4, k + LANES, d4)
            finish(C, i + 5, k, c5)
            finish(C, i + 5, k + LANES, d5)
            finish(C, i + 6, k, c6)
            finish(C, i + 6, k + LANES, d6)
            finish(C, i + 7, k, c7)
            finish(C, i + 7, k + LANES, d7)
        for k in range(paired, columns, LANES):
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


@part
def multiply_rows(A, B, start, C, first, last, finish):
    """Call finish(C, A B + start) for these rows, which are too few for `multiply`."""
    for i in range(first, last):
        for k in range(0, B.shape[1], LANES):
            c = load(start, 0, k)
            for j in range(B.shape[0]):
                c = multiply_add(spread_from(A, i, j), load(B, j, k), c)
            finish(C, i, k, c)


@part
def layer(flat, plan, l):
    """Return weights and biases of layer l, or their gradients, as views of a flat vector."""
    n, m, w, b = plan[l, ROWS], plan[l, COLUMNS], plan[l, WEIGHT_AT], plan[l, BIAS_AT]
    return flat[w : w + n * m].reshape(n, m), flat[b : b + m].reshape(1, m)


@part
def inputs(space, plan, l):
    """Return the inputs of layer l: the rows for the first layer, activations for the others."""
    n, at = plan[l, ROWS], plan[l, SPACE_AT] * CHUNK
    return space[at : at + n * CHUNK].reshape(CHUNK, n)


@part
def all_widths(plan):
    """Return the number of padded features and hidden units."""
    last = len(plan) - 1
    return plan[last, SPACE_AT] + plan[last, ROWS]


@part
def padded(rows):
    return (rows + 7) // 8 * 8


@part
def load_rows(X, rows, shift, factor, A):
    """Write (X[rows] - shift) * factor to A; each network has its own scaling."""
    for r in range(rows.size):
        x = X[rows[r]]
        for a in range(x.size):
            A[r, a] = np.float32((x[a] - shift[a]) * factor[a])


@part
def forward(parameters, plan, space, n_rows, outputs):
    """Compute the activations of all layers and the outputs of the rows written by `load_rows`."""
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


@part
def output_backward(A, V, errors, gradient, sums, rows):
    """Add errors^T A to the gradient of the output, overwrite A by D = (errors V) where A > 0, and add D to sums."""
    zero, ones = spread(np.float32(0)), spread(np.float32(1))
    for i in range(0, rows, 8):
        for k in range(0, A.shape[1], LANES):
            v, g, s = load(V, 0, k), load(gradient, 0, k), load(sums, 0, k)
            for r in range(i, i + 8):
                a, e = load(A, r, k), spread(errors[r])
                g = multiply_add(e, a, g)
                d = where_positive(a, multiply_add(e, v, zero))
                s = multiply_add(ones, d, s)
                store(A, r, k, d)
            store(gradient, 0, k, g)
            store(sums, 0, k, s)


@part
def add_column_sums(D, sums, rows):
    ones = spread(np.float32(1))
    for i in range(0, rows, 8):
        for k in range(0, D.shape[1], LANES):
            s = load(sums, 0, k)
            for r in range(i, i + 8):
                s = multiply_add(ones, load(D, r, k), s)
            store(sums, 0, k, s)


@part
def transpose(W, T):
    for i in range(0, W.shape[0], 8):  # in blocks: otherwise each number would take a cache line
        for k in range(0, W.shape[1], 8):
            for q in range(k, k + 8):
                for p in range(i, i + 8):
                    T[q, p] = W[p, q]


@part
def backward(parameters, plan, space, n_rows, errors, gradient, scratch, zeros):
    """Add the gradient of sum(errors^2) / 2; the activations are used up."""
    last, rows = len(plan) - 1, padded(n_rows)
    W, b = layer(parameters, plan, last)
    dW, db = layer(gradient, plan, last)
    for r in range(n_rows):
        db[0, 0] += errors[r]
    for r in range(n_rows, rows):  # padding rows have zero error, so they add no gradient
        errors[r] = 0
    below = layer(gradient, plan, last - 1)[1] if last > 0 else scratch[: W.size].reshape(1, W.size)
    output_backward(inputs(space, plan, last), W.reshape(1, W.size), errors, dW.reshape(1, W.size), below, rows)
    for l in range(last - 1, -1, -1):
        A, D = inputs(space, plan, l), inputs(space, plan, l + 1)
        W, b = layer(parameters, plan, l)
        dW, db = layer(gradient, plan, l)
        multiply(A.T, D, zeros, dW, plan[l, INPUTS], n_rows, plan[l, COLUMNS], add_to)
        if l < last - 1:
            add_column_sums(D, db, rows)
        if l > 0:
            T = scratch[: W.size].reshape(W.shape[1], W.shape[0])
            transpose(W, T)
            multiply(D, T, zeros, A, rows, plan[l, UNITS], plan[l, ROWS], pass_back)


@part
def flushed(x):
    """Return zero for tiny numbers: weights of idle units decay to denormals, which slow some processors down."""
    return np.float32(0) if abs(x) < np.float32(1e-30) else x


@part
def adam(w, g, m, v, decay, share, step):
    """Make a step of Adam along the gradient times ``share`` (one over the batch's weight), then set it to zero."""
    keep_m, keep_v, small = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
    new_m, new_v = np.float32(0.1), np.float32(0.001)
    for i in range(w.size):
        mean = (g[i] + decay * w[i]) * share
        m[i] = flushed(keep_m * m[i] + new_m * mean)
        v[i] = flushed(keep_v * v[i] + new_v * mean * mean)
        w[i] = flushed(w[i] - step * m[i] / (np.sqrt(v[i]) + small))
        g[i] = 0


@kernel
def shuffle(order, state):
    """Permute ``order`` in place by Fisher-Yates, with random numbers of a SplitMix64 stream."""
    for i in range(order.size - 1, 0, -1):
        state[0] += np.uint64(0x9E3779B97F4A7C15)
        z = state[0]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
        j = np.int64((z * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@kernel
def scale_rows(X, y, weight, rows, scaling, inputs, targets):
    """Write the scaled inputs of some rows, and their scaled targets and weights.

    ``scaling`` is shift and factor of X, then of y.
    """
    x_shift, x_factor, y_shift, y_factor = scaling
    load_rows(X, rows, x_shift, x_factor, inputs)
    for r in range(rows.size):
        targets[r, 0] = np.float32((y[rows[r]] - y_shift) * y_factor)
        targets[r, 1] = weight[rows[r]]


@kernel
def train_epoch(features, targets, order, plan, parameters, memory, batch, rate, decay, steps):
    """Make one pass over rows of `scale_rows` in ``order``, in batches, and return the weighted sum of squared errors.

    ``memory`` (3, parameters) holds the gradient, zero between calls, and the first and second moments; ``steps`` is
    the number of earlier steps.
    """
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
            first = inputs(space, plan, 0)
            for r in range(rows.size):
                x, later = features[rows[r]], order[min(at + CHUNK + r, order.size - 1)]
                for a in range(x.size):
                    first[r, a] = x[a]
                for a in range(0, x.size, LINE):
                    prefetch(features, later, a)
                prefetch(targets, later, 0)
            forward(parameters, plan, space, rows.size, errors)
            for r in range(rows.size):
                target, weight = targets[rows[r], 0], targets[rows[r], 1]
                miss = errors[r] - target
                errors[r] = weight * miss
                loss += errors[r] * miss
                weights += weight
            backward(parameters, plan, space, rows.size, errors, g, scratch, zeros)
        steps += 1
        step = np.float32(rate * np.sqrt(1 - 0.999**steps) / (1 - 0.9**steps))
        share = np.float32(1 / max(weights, LEAST * (stop - start)))
        adam(parameters[:p], g[:p], m[:p], v[:p], np.float32(decay), share, step)
        adam(parameters[p:], g[p:], m[p:], v[p:], np.float32(0), share, step)
    return loss


@kernel
def predict_rows(X, rows, x_shift, x_factor, y_shift, y_scale, plan, parameters, predictions):
    """Write the prediction of network s for row rows[i] to predictions[i, s]."""
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
    """Compile the kernels for X of this dtype, or load them from numba's cache. Arguments not written are read-only."""

    def fixed(number, n_axes):
        return types.Array(number, n_axes, "C", readonly=True)

    whole, real, single = types.int64, types.float64, types.float32
    X, rows, plan = fixed(from_dtype(dtype), 2), fixed(whole, 1), fixed(whole, 2)
    vector, table = fixed(real, 1), fixed(real, 2)
    scaling = types.Tuple((vector, vector, real, real))
    shuffle.compile((whole[::1], types.uint64[::1]))
    grid, state = single[:, ::1], (single[::1], single[:, ::1])
    scale_rows.compile((X, vector, fixed(single, 1), rows, scaling, grid, grid))
    train_epoch.compile((fixed(single, 2), fixed(single, 2), rows, plan, *state, whole, real, real, whole))
    predict_rows.compile((X, rows, table, table, vector, vector, plan, fixed(single, 2), real[:, ::1]))
