"""The network on the CPU: weights as plain arrays, what they are trained on, their training, and what they predict.

All weights of a network lie in one flat vector, padded with zeros to whole processor vectors (`layout`). `Problem`
holds the rows, the folds and each network's scaling, the same for every engine; `train_networks` trains one network per
core, each on all rows but those of its fold, everything in the core's cache; `NetworkEnsemble` predicts.

Training and prediction are compiled by numba, which is imported when a kernel is first needed (`kernels`): importing
bagwise stays quick, and the one long wait is explained. Nearly all of the work is one product of matrices, `multiply`,
used in three directions:

- forward   A' = relu(A W + b)
- gradient  dW += A^T D, with D = d loss / d (A W + b)
- backward  D' = (D W^T) where A > 0, written over A
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array

from bagwise.first_use import once

# Weights as arrays ----------------------------------------------------------------------------------------------------

# Columns of the table of layers: true sizes, padded sizes, and where things start in the flat vectors.
INPUTS, UNITS, ROWS, COLUMNS, WEIGHT_AT, BIAS_AT, SPACE_AT = range(7)
_PADDING = 16  # a multiple of LANES, the same on every machine: a saved network can be loaded on another


def layout(sizes) -> np.ndarray:
    """Where every layer lies in the flat vector of parameters, a row per layer: all weights first, then all biases.

    The last layer has one output, which is not padded. What pads the others stays zero under every step, so loops have
    no tails.
    """
    inputs, units = np.asarray(sizes[:-1]), np.asarray(sizes[1:])
    plan = np.zeros((len(inputs), 7), dtype=np.int64)
    plan[:, INPUTS], plan[:, UNITS] = inputs, units
    plan[:, ROWS], plan[:, COLUMNS] = _pad(inputs), _pad(units)
    plan[-1, COLUMNS] = 1
    weights = plan[:, ROWS] * plan[:, COLUMNS]
    plan[:, WEIGHT_AT] = np.cumsum(weights) - weights
    plan[:, BIAS_AT] = weights.sum() + np.cumsum(plan[:, COLUMNS]) - plan[:, COLUMNS]
    plan[:, SPACE_AT] = np.cumsum(plan[:, ROWS]) - plan[:, ROWS]
    return plan


def _pad(sizes: np.ndarray) -> np.ndarray:
    return -(-sizes // _PADDING) * _PADDING


def layers(parameters: np.ndarray, plan: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (inputs, units) and biases (units) of every layer: views of the flat vector, without the padding."""
    views = []
    for n, m, rows, columns, weight, bias, _ in plan:
        W = parameters[weight : weight + rows * columns].reshape(rows, columns)
        views.append((W[:n, :m], parameters[bias : bias + m]))
    return views


# The compiler ---------------------------------------------------------------------------------------------------------

LANES = 0  # numbers in a vector of the processor; none until `load_compiler`
REGISTERS = 0  # of vectors
load = store = spread = spread_from = multiply_add = where_positive = prefetch = None  # of `vector_operations`
CHUNK = 256  # rows whose activations are held at once: batches and predictions of any length need no more memory
LINE = 16  # numbers in what a cache reads at once
LEAST = 0.1  # weight of a batch, per row: one of next to nothing must not be a step like any other

# NaN and infinity must survive (divergence is detected by them), so not the whole of fastmath.
_OPTIONS = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy"}
_waiting: list[tuple] = []  # what is to be compiled once there is a compiler


def part(function):
    """Compile what kernels are made of, which becomes part of their code."""
    if not LANES:
        _waiting.append((part, function))
        return function
    from numba import njit

    return njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)


def kernel(function):
    """Compile without the interpreter lock, and keep the result on disk where anything on disk can be written."""
    if not LANES:
        _waiting.append((kernel, function))
        return function
    from numba import njit

    try:
        return njit(nogil=True, cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no folder for its cache
        return njit(nogil=True, **_OPTIONS)(function)


def load_compiler() -> None:
    """Import numba, and put compiled functions in the place of those of this module that are marked so.

    Whoever calls it holds the lock of `bagwise.first_use`, or imports under it.
    """
    if not LANES:
        globals().update(vector_operations())
        for mark, function in _waiting:
            globals()[function.__name__] = mark(function)


def vector_operations() -> dict:
    """Vectors of numbers as a type of compiled code, held in one register of the processor.

    Plain loops are vectorised well, but a tile of sums is not kept in registers while a loop runs along a matrix.
    Written with these operations it is, and a product of matrices comes close to the peak of the core.
    """
    from llvmlite import binding, ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, models, register_model

    LANES, REGISTERS = (16, 32) if binding.get_host_cpu_features().get("avx512f", False) else (8, 16)
    floats = ir.VectorType(ir.FloatType(), LANES)
    zero = ir.Constant(floats, [0.0] * LANES)

    class VectorType(types.Type):
        pass

    @register_model(VectorType)
    class VectorModel(models.PrimitiveModel):
        def __init__(self, manager, kind):
            super().__init__(manager, kind, floats)

    vector = VectorType(name=f"float32x{LANES}")

    def item(context, builder, kind, array, row, column):
        """Its address. Indices are not negative, which spares the loop a test each."""
        array = context.make_array(kind)(context, builder, array)
        return cgutils.get_item_pointer(context, builder, kind, array, [row, column], wraparound=False)

    def address(context, builder, *where):
        return builder.bitcast(item(context, builder, *where), floats.as_pointer())

    def everywhere(builder, number):
        first = builder.insert_element(zero, number, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    @intrinsic
    def load(typing, array, row, column):
        """The vector array[row, column : column + LANES]."""

        def generate(context, builder, signature, args):
            found = builder.load(address(context, builder, array, *args))
            found.align = 4
            return found

        return vector(array, types.intp, types.intp), generate

    @intrinsic
    def store(typing, array, row, column, values):
        """array[row, column : column + LANES] = values."""

        def generate(context, builder, signature, args):
            builder.store(args[3], address(context, builder, array, *args[:3])).align = 4
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp, vector), generate

    @intrinsic
    def spread(typing, number):
        """A vector with the number in every lane."""

        def generate(context, builder, signature, args):
            return everywhere(builder, args[0])

        return vector(types.float32), generate

    @intrinsic
    def spread_from(typing, array, row, column):
        """A vector with array[row, column] in every lane."""

        def generate(context, builder, signature, args):
            return everywhere(builder, builder.load(item(context, builder, array, *args)))

        return vector(array, types.intp, types.intp), generate

    @intrinsic
    def multiply_add(typing, a, b, c):
        """a * b + c, fused where the processor can."""

        def generate(context, builder, signature, args):
            product = builder.fmul(args[0], args[1], flags=("contract",))
            return builder.fadd(product, args[2], flags=("contract",))

        return vector(vector, vector, vector), generate

    @intrinsic
    def where_positive(typing, gate, values):
        """The values where the gate is above zero (or NaN, which must not disappear), else zero."""

        def generate(context, builder, signature, args):
            return builder.select(builder.fcmp_unordered(">", args[0], zero), args[1], zero)

        return vector(vector, vector), generate

    @intrinsic
    def prefetch(typing, array, row, column):
        """Have the memory about array[row, column] brought near, without waiting for it."""

        def generate(context, builder, signature, args):
            whole, byte = ir.IntType(32), ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            where = builder.bitcast(item(context, builder, array, *args), byte)
            builder.call(call, [where, whole(0), whole(2), whole(1)])  # to read; into the second cache; data
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp), generate

    operations = (load, store, spread, spread_from, multiply_add, where_positive, prefetch)
    return {"LANES": LANES, "REGISTERS": REGISTERS} | {operation._name: operation for operation in operations}


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
    """finish(C, A B + start), eight rows by one vector of columns at a time, the sums in registers.

    By two vectors where there are registers for the sums of both: every number of A is then read half as often. Each
    sum runs over the same terms in the same order, so the digits are the same.
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
def layer(flat, plan, l):
    """Weights and biases of layer l, or their gradients: views of a flat vector."""
    n, m, w, b = plan[l, ROWS], plan[l, COLUMNS], plan[l, WEIGHT_AT], plan[l, BIAS_AT]
    return flat[w : w + n * m].reshape(n, m), flat[b : b + m].reshape(1, m)


@part
def inputs(space, plan, l):
    """What layer l is given: the rows themselves for the first, activations for the others."""
    n, at = plan[l, ROWS], plan[l, SPACE_AT] * CHUNK
    return space[at : at + n * CHUNK].reshape(CHUNK, n)


@part
def all_widths(plan):
    """Padded features and hidden units together."""
    last = len(plan) - 1
    return plan[last, SPACE_AT] + plan[last, ROWS]


@part
def padded(rows):
    return (rows + 7) // 8 * 8


@part
def load_rows(X, rows, shift, factor, A):
    """A = (X[rows] - shift) * factor: every network standardises in its own way."""
    for r in range(rows.size):
        x = X[rows[r]]
        for a in range(x.size):
            A[r, a] = np.float32((x[a] - shift[a]) * factor[a])


@part
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


@part
def output_backward(A, V, errors, gradient, sums, rows):
    """Of the single output: gradient += errors^T A, then A is overwritten by D = (errors V) where A > 0, sums += D."""
    zero, one = spread(np.float32(0)), spread(np.float32(1))
    for i in range(0, rows, 8):
        for k in range(0, A.shape[1], LANES):
            v, g, s = load(V, 0, k), load(gradient, 0, k), load(sums, 0, k)
            for r in range(i, i + 8):
                a, e = load(A, r, k), spread(errors[r])
                g = multiply_add(e, a, g)
                d = where_positive(a, multiply_add(e, v, zero))
                s = multiply_add(one, d, s)
                store(A, r, k, d)
            store(gradient, 0, k, g)
            store(sums, 0, k, s)


@part
def add_column_sums(D, sums, rows):
    one = spread(np.float32(1))
    for i in range(0, rows, 8):
        for k in range(0, D.shape[1], LANES):
            s = load(sums, 0, k)
            for r in range(i, i + 8):
                s = multiply_add(one, load(D, r, k), s)
            store(sums, 0, k, s)


@part
def transpose(W, T):
    for i in range(0, W.shape[0], 8):  # in blocks, or every number would be a cache line of its own
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
    for r in range(n_rows, rows):  # what fills up the last eight rows teaches nothing
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
    """Zero for what is next to it: weights of idle units shrink for ever, and some processors are slow below 1e-38."""
    return np.float32(0) if abs(x) < np.float32(1e-30) else x


@part
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


@kernel
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


@kernel
def scale_rows(X, y, weight, rows, scaling, inputs, aims):
    """Inputs, targets and weights of some rows as a network wants them.

    ``scaling`` is what to take off and to multiply by, for X and for y.
    """
    x_shift, x_factor, y_shift, y_factor = scaling
    load_rows(X, rows, x_shift, x_factor, inputs)
    for r in range(rows.size):
        aims[r, 0] = np.float32((y[rows[r]] - y_shift) * y_factor)
        aims[r, 1] = weight[rows[r]]


@kernel
def train_epoch(given, aims, order, plan, parameters, memory, batch, rate, decay, steps):
    """One pass over rows of `scale_rows` in ``order``, in batches; returns the weighted sum of squared errors.

    ``memory`` (3, parameters) holds the gradient, zero between calls, and the first and second moments; ``steps`` have
    been made before.
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
                x, later = given[rows[r]], order[min(at + CHUNK + r, order.size - 1)]
                for a in range(x.size):
                    first[r, a] = x[a]
                for a in range(0, x.size, LINE):
                    prefetch(given, later, a)
                prefetch(aims, later, 0)
            forward(parameters, plan, space, rows.size, errors)
            for r in range(rows.size):
                target, weight = aims[rows[r], 0], aims[rows[r], 1]
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


@once
def kernels(dtype: np.dtype):
    """This module, its kernels compiled for data of this dtype or loaded from numba's cache on disk."""
    with announced():
        load_compiler()
        _compile_for(dtype)
    return sys.modules[__name__]


def _compile_for(dtype: np.dtype) -> None:
    """Compile the kernels for X of this dtype, or load them from numba's cache. What is only read is read-only."""
    from numba import from_dtype, types

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


spent = {"compiling": 0.0}  # seconds so far, to take them off where a fit is timed


@contextmanager
def announced():
    """Say once that compiling has begun; numba tells so only when its cache has nothing."""
    started = time.perf_counter()
    from numba.core import event

    class Announce(event.Listener):
        said = False

        def on_start(self, _):
            if not self.said:
                cached = type(train_epoch._cache).__name__ != "NullCache"
                often = (
                    "once" if cached else "in each process: set NUMBA_CACHE_DIR to a writable folder to compile once"
                )
                print(f"bagwise: compiling the network kernels (about 10 s), {often} ...", file=sys.stderr, flush=True)
            self.said = True

        def on_end(self, _):
            pass

    try:
        with event.install_listener("numba:compile", Announce()):
            yield
    finally:
        spent["compiling"] += time.perf_counter() - started


def frozen(array) -> np.ndarray:
    """A read-only view: one compiled version serves arrays that can be written, that cannot, and that are on disk."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


# Prediction -----------------------------------------------------------------------------------------------------------

_BLOCK = 4096  # rows predicted as one job


class NetworkEnsemble(RegressorMixin, BaseEstimator):
    r"""The average of trained networks of one shape, each with its own scaling.

    .. math:: f(x) = \frac{1}{S} \sum_s \mu_s + \sigma_s \, g_s\big((x - a_s) \odot b_s\big)

    Made by `NetworkRegressor`, not by hand. All state is in the constructor's arguments: a tuple and plain arrays.

    Parameters
    ----------
    sizes : tuple of int
        Features, units of every hidden layer, and 1.
    parameters : float32 array (networks, parameters)
        A flat vector per network, arranged and padded by `layout`.
    x_shift, x_factor : array (networks, features)
    y_shift, y_scale : array (networks,)
    n_jobs : int, optional
        Blocks of rows predicted at once; the numbers do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.instances.networks.estimator import NetworkRegressor
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> fits = NetworkRegressor(hidden=(8,), epochs=20).cross_fit(X, X[:, 0] ** 2, fold=np.arange(60) % 3)
    >>> ensemble = fits.predictor(0, "fold-mean")
    >>> ensemble
    NetworkEnsemble(3 networks, 1-8-1)
    >>> np.allclose(ensemble.predict(X), np.mean([ensemble[s].predict(X) for s in range(3)], axis=0))
    True
    """

    def __init__(self, sizes, parameters, x_shift, x_factor, y_shift, y_scale, *, n_jobs=None):
        self.sizes = sizes
        self.parameters = parameters
        self.x_shift = x_shift
        self.x_factor = x_factor
        self.y_shift = y_shift
        self.y_scale = y_scale
        self.n_jobs = n_jobs

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, index) -> NetworkEnsemble:
        """Some of the networks: ``ensemble[0]``, ``ensemble[2:5]``."""
        pick = np.atleast_1d(np.arange(len(self))[index])
        arrays = (self.parameters, self.x_shift, self.x_factor, self.y_shift, self.y_scale)
        return NetworkEnsemble(self.sizes, *(array[pick] for array in arrays), n_jobs=self.n_jobs)

    @classmethod
    def joined(cls, parts) -> NetworkEnsemble:
        """All networks of several ensembles of the same shape."""
        names = ("parameters", "x_shift", "x_factor", "y_shift", "y_scale")
        arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(parts[0].sizes, *arrays, n_jobs=parts[0].n_jobs)

    def __repr__(self) -> str:
        plural = "" if len(self) == 1 else "s"
        return f"NetworkEnsemble({len(self)} network{plural}, {'-'.join(map(str, self.sizes))})"

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def n_features_in_(self) -> int:
        return self.sizes[0]

    def predict(self, X) -> np.ndarray:
        """The average of the networks' predictions, one number per row."""
        X = check_array(X, dtype=[np.float64, np.float32], order="C")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but these networks were trained on {self.n_features_in_}")
        return self.predict_checked(X)

    def predict_checked(self, X: np.ndarray) -> np.ndarray:
        """`predict` of finite, contiguous rows with the right number of columns."""
        blocks = [np.arange(start, min(start + _BLOCK, len(X))) for start in range(0, len(X), _BLOCK)]
        n_jobs = min(effective_n_jobs(self.n_jobs), cpu_count(), len(blocks))  # on a cluster, its cores are not ours
        kernels(X.dtype)  # compiled or loaded here, before there are threads
        run = Parallel(n_jobs=n_jobs, require="sharedmem")
        return np.concatenate(run(delayed(self._mean)(X, rows) for rows in blocks))

    def _mean(self, X, rows):
        return self.predict_each(X, rows).mean(axis=1)

    def predict_each(self, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The prediction of every network for some rows of X, shape (rows, networks)."""
        scaling = (self.x_shift, self.x_factor, self.y_shift, self.y_scale)
        state = (X, rows, *scaling, layout(self.sizes), self.parameters)
        predictions = np.empty((len(rows), len(self)))
        kernels(X.dtype).predict_rows(*map(frozen, state), predictions)
        return predictions


# Training -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """How a network is trained. Its weights are kept after each number of epochs in ``epochs``, which increases."""

    hidden: tuple[int, ...]
    epochs: tuple[int, ...]
    batch_size: int | None  # None: by the number of rows
    learning_rate: float
    weight_decay: float
    standardise: bool
    scale_target: bool
    seed: int

    def batch(self, n_rows: int) -> int:
        """Rows per step, of a network that learns from so many."""
        return min(self.batch_size or int(np.clip(n_rows // 64, 16, 200)), n_rows)


@dataclass(frozen=True)
class Trained:
    """One network after every number of epochs asked for, and what each of them says of the rows held out."""

    networks: NetworkEnsemble
    rows: np.ndarray
    predictions: np.ndarray


@dataclass(frozen=True)
class Problem:
    """Network k, for k < n_networks, learns from the rows with fold != k and weight > 0; `of` makes one.

    ``weight`` has mean one. ``x_shift``, ``x_scale`` (networks, features) and ``y_shift``, ``y_scale`` (networks,) are
    mean and deviation over each network's rows. Network k draws from ``[seed, k]``, whoever is trained beside it.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fold: np.ndarray
    n_networks: int
    seed: int
    x_shift: np.ndarray
    x_scale: np.ndarray
    y_shift: np.ndarray
    y_scale: np.ndarray

    @classmethod
    def of(cls, X, y, weight, fold, recipe: Recipe, *, n_networks: int) -> Problem:
        weight = (weight / weight.mean()).astype(np.float32)
        used = np.flatnonzero(weight > 0)
        used = used[np.argsort(fold[used], kind="stable")]
        folds, starts = np.unique(fold[used], return_index=True)
        if len(folds) == 1 and folds[0] < n_networks:
            raise ValueError("nothing to learn from: all rows of weight above zero are in one fold")
        parts = dict(zip(folds.tolist(), np.split(used, starts[1:]), strict=True))
        x_moments = _moments(X, parts, n_networks, wanted=recipe.standardise)
        y_moments = _moments(y[:, None], parts, n_networks, wanted=recipe.scale_target)
        moments = (*x_moments, *(moment[:, 0] for moment in y_moments))
        return cls(X, y, weight, fold, n_networks, recipe.seed, *moments)

    def rows(self, k: int) -> np.ndarray:
        return np.flatnonzero((self.weight > 0) & (self.fold != k))

    def held(self, k: int) -> np.ndarray:
        return np.flatnonzero(self.fold == k)

    def ensemble(self, k: int, kept: np.ndarray, recipe: Recipe, n_jobs=None) -> NetworkEnsemble:
        """Network k after each number of epochs, of which ``kept`` holds the parameters."""
        shared = [np.tile(part, (len(kept), 1)) for part in (self.x_shift[k], inverse(self.x_scale[k]))]
        shared += [np.repeat(part, len(kept)) for part in (self.y_shift[k], self.y_scale[k])]
        return NetworkEnsemble((self.X.shape[1], *recipe.hidden, 1), kept, *shared, n_jobs=n_jobs)


def refuse_divergence(finite: bool, epoch: int, recipe: Recipe) -> None:
    if not finite:
        raise ValueError(
            f"training diverged in epoch {epoch + 1}: the loss is not finite; lower learning_rate, now "
            f"{recipe.learning_rate:g}" + ("" if recipe.scale_target else ", or train with scale_target=True")
        )


def initial_parameters(plan: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights and biases uniform within sqrt(6 / (inputs + units)), as scikit-learn draws them."""
    parameters = np.zeros(plan[-1, BIAS_AT] + 1, dtype=np.float32)
    for W, b in layers(parameters, plan):
        bound = np.sqrt(6 / sum(W.shape))
        W[:] = rng.uniform(-bound, bound, W.shape)
        b[:] = rng.uniform(-bound, bound, b.shape)
    return parameters


def inverse(scale):
    """One over the scale; 0 for a constant column, which teaches nothing, so its random weights must not count."""
    return np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)


def _moments(values, parts: dict[int, np.ndarray], n_networks: int, *, wanted: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column over each network's training rows, (networks, columns).

    ``parts`` is fold -> rows.
    """
    if not wanted:
        return np.zeros((n_networks, values.shape[1])), np.ones((n_networks, values.shape[1]))
    means, squares = np.empty((2, len(parts), values.shape[1]))
    for j, rows in enumerate(parts.values()):
        part = values[rows]
        same = (part == part[0]).all(axis=0)  # adding up many equal numbers rounds, and the rounding is no deviation
        means[j] = np.where(same, part[0], part.mean(axis=0, dtype=np.float64))
        squares[j] = ((part - means[j]) ** 2).sum(axis=0)
    folds, counts = np.array(list(parts)), np.array([len(rows) for rows in parts.values()])
    return moments_without(range(n_networks), folds, counts, means, squares)


def moments_without(held, folds, counts, means, squares) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every column over all folds but one, for each one in ``held``: (held, columns).

    Known of every fold are its rows, and mean and sum of squares about it of every column. A constant column has
    standard deviation 0.
    """
    shift, scale = np.empty((2, len(held), means.shape[1]))
    for at, k in enumerate(held):
        others = folds != k
        share = counts[others, None] / counts[others].sum()
        shift[at] = (share * means[others]).sum(axis=0)
        between = share * (means[others] - shift[at]) ** 2
        scale[at] = np.sqrt(between.sum(axis=0) + squares[others].sum(axis=0) / counts[others].sum())
    scale[scale <= 32 * np.finfo(np.float64).eps * np.abs(shift)] = 0
    return shift, scale


@dataclass
class Learner:
    """A network while it is trained; `begin` makes one.

    Attributes
    ----------
    plan : table of `layout`
    scaling : what to take off and to multiply by, for X and for y
    batch : rows per step
    decay : the penalty, times the mean weight of the rows it learns from: as if their weights had mean one
    parameters, memory : the flat vector, and beside it gradient and moments of Adam
    stream : state of the random numbers that permute its rows
    steps : made so far
    """

    plan: np.ndarray
    scaling: tuple[np.ndarray, np.ndarray, float, float]
    batch: int
    decay: float
    parameters: np.ndarray
    memory: np.ndarray
    stream: np.ndarray
    steps: int = 0

    @classmethod
    def begin(cls, plan: np.ndarray, scaling, batch: int, decay: float, *, seed) -> Learner:
        """Before its first step; the seed is for the first parameters and the permutations."""
        rng = np.random.default_rng(seed)
        parameters = initial_parameters(plan, rng)
        memory = np.zeros((3, len(parameters)), dtype=np.float32)
        stream = rng.integers(2**64, size=1, dtype=np.uint64)
        return cls(plan, scaling, batch, decay, parameters, memory, stream)

    @property
    def size(self) -> int:
        return len(self.parameters)

    def prepared(self, X, y, weight, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of some rows, and their targets and weights, as `learn` wants them: in single precision, scaled.

        Rows are visited in random order, many times. That is quicker where they take little memory and no arithmetic.
        """
        inputs, aims = (_on_lines(len(rows), width) for width in (X.shape[1], 2))
        x_shift, x_factor, *target = self.scaling
        data = (*map(frozen, (X, y, weight, rows)), (frozen(x_shift), frozen(x_factor), *target))
        kernels(X.dtype).scale_rows(*data, inputs, aims)
        return frozen(inputs), frozen(aims)

    def learn(self, inputs, aims, order: np.ndarray, rate: float) -> bool:
        """Go once over rows that are `prepared`, in an order that is permuted in place; whether all is finite."""
        shuffle(order, self.stream)
        data, state = (inputs, aims, frozen(order), frozen(self.plan)), (self.parameters, self.memory)
        loss = train_epoch(*data, *state, self.batch, rate, self.decay, self.steps)
        self.steps += -(-len(order) // self.batch)
        return bool(np.isfinite(loss) and np.isfinite(self.parameters).all())


def _on_lines(*shape: int) -> np.ndarray:
    """An array of single precision that begins where a line of the cache does: fewer rows lie on two."""
    room = np.empty(math.prod(shape) + LINE, dtype=np.float32)
    start = -room.ctypes.data // 4 % LINE
    return room[start : start + math.prod(shape)].reshape(shape)


def train_networks(problem: Problem, recipe: Recipe, *, n_jobs=None) -> list[Trained]:
    """All networks of a problem.

    The arithmetic of a network is sequential and its random stream is its own, so ``n_jobs`` (how many threads, each
    training one network without the interpreter's lock, on its own copy of the rows in single precision) changes the
    time and nothing else. Nor does a backend of joblib's that somebody chose: processes, or the workers of a cluster.
    """
    kernels(problem.X.dtype)  # compiled or loaded here, before there are threads
    # effective_n_jobs: with None, joblib's context counts, also where it is about processes and we take threads
    run = Parallel(n_jobs=effective_n_jobs(n_jobs), prefer="threads")
    return run(delayed(_train)(problem, recipe, k, n_jobs) for k in range(problem.n_networks))


def _train(problem: Problem, recipe: Recipe, k: int, n_jobs) -> Trained:
    held = problem.held(k)
    networks = problem.ensemble(k, _train_one(problem, recipe, k), recipe, n_jobs)
    return Trained(networks, held, networks.predict_each(problem.X, held))


def _train_one(problem: Problem, recipe: Recipe, k: int) -> np.ndarray:
    """The parameters after each number of epochs asked for, shape (epochs, parameters)."""
    weight, rows = problem.weight, problem.rows(k)
    plan = layout((problem.X.shape[1], *recipe.hidden, 1))
    target = float(problem.y_shift[k]), float(inverse(problem.y_scale[[k]])[0])
    scaling = (problem.x_shift[k], inverse(problem.x_scale[k]), *target)
    decay = recipe.weight_decay * float(weight[rows].mean())
    learner = Learner.begin(plan, scaling, recipe.batch(len(rows)), decay, seed=[problem.seed, k])
    prepared, order, kept = learner.prepared(problem.X, problem.y, weight, rows), np.arange(len(rows)), []
    for epoch in range(recipe.epochs[-1]):
        finite = learner.learn(*prepared, order, recipe.learning_rate)
        refuse_divergence(finite, epoch, recipe)
        if epoch + 1 in recipe.epochs:
            kept.append(learner.parameters.copy())
    return np.array(kept)
