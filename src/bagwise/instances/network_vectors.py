"""Vectors of numbers as a type of compiled code, held in one register of the processor.

Plain loops are vectorised well, but a tile of sums is not kept in registers while a loop runs along a matrix.
Written with these operations it is, and a product of matrices comes close to the peak of the core.

numba's cache on disk does not watch this file: after an edit here, touch network_kernels.py too.
"""

from __future__ import annotations

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

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
