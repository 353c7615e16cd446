"""Matrices of numbers in MATLAB files, of version 4 or 5 (saved by MATLAB up to 7.2, or with -v7).

scipy reads them too, but trusts what a file says of itself: one damaged byte in the type of the numbers ends the
interpreter. Here every type and length is looked at before it is used, and what is no matrix of numbers is passed over.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

_HEADER = 128  # bytes before the first variable
_COMPRESSED, _MATRIX = 15, 14
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
# The classes of arrays of numbers. Their values may be stored in fewer bytes than the class has.
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800
_VERSION_4 = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}


def read_matrices(path: Path) -> dict[str, np.ndarray]:
    """The real matrices of a file by name, in the type that MATLAB has for them."""
    content = memoryview(path.read_bytes())
    if len(content) < 20:
        raise ValueError(f"it has {len(content)} bytes")
    return dict(_version_4(content) if 0 in content[:4] else _version_5(content))


def _version_4(content: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    """Five whole numbers, the name and the values, over and over. The first number is the type, in decimal digits."""
    at = 0
    while at < len(content):
        order = "<" if 0 <= struct.unpack_from("<i", content, at)[0] < 1000 else ">"
        code, rows, columns, is_complex, n_name = struct.unpack_from(f"{order}5i", content, at)
        number = _VERSION_4.get(code % 1000 // 10)
        if number is None or code not in range(2000) or min(rows, columns, n_name) < 0:
            raise ValueError(f"a matrix of type {code}, of {rows} x {columns} numbers, is none that MATLAB writes")
        start, dtype = at + 20 + n_name, np.dtype(order + number)
        length = rows * columns * dtype.itemsize * (2 if is_complex else 1)
        if start + length > len(content):
            raise ValueError(f"a matrix claims {length:,} bytes, and {max(len(content) - start, 0):,} are left")
        if code % 10 == 0 and not is_complex:  # 1 is text, 2 is sparse
            values = np.frombuffer(content[start : start + length], dtype).reshape((rows, columns), order="F")
            title = bytes(content[at + 20 : start]).rstrip(b"\0").decode("latin-1")
            yield title, values.astype(dtype.newbyteorder("="))
        at = start + length


def _version_5(content: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:_HEADER]))
    if order is None:
        raise ValueError("its header does not say in which order bytes stand")
    for kind, data in _elements(content[_HEADER:], order, padded=False):
        if kind == _COMPRESSED:
            kind, data = next(_elements(_inflated(data, order), order), (None, data))
        if kind == _MATRIX:
            yield from _matrix(data, order)


def _elements(data: memoryview, order: str, *, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """The type and the bytes of one element after another; up to four bytes stand inside the tag."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise ValueError("it ends inside the tag of an element")
        kind, length = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:
            kind, length, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
            if length > 4:
                raise ValueError(f"a tag claims to hold {length} bytes, and has four")
        else:
            start, step = at + 8, 8 + (length + -length % 8 if padded else length)
        if start + length > len(data):
            raise ValueError(f"an element claims {length:,} bytes, and {max(len(data) - start, 0):,} are left")
        yield kind, data[start : start + length]
        at += step


def _inflated(data: memoryview, order: str) -> memoryview:
    """The one element that is compressed here: no more bytes than its tag speaks of."""
    stream = zlib.decompressobj()
    tag = stream.decompress(data, 8)
    (length,) = struct.unpack_from(f"{order}I", tag, 4)
    return memoryview(tag + stream.decompress(stream.unconsumed_tail, max(length, 1)))


def _matrix(data: memoryview, order: str) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the values of an array; nothing if it is none of real numbers in two dimensions."""
    parts = _elements(data, order)
    described = list(islice(parts, 3))
    if len(described) < 3:
        return
    (_, flags), (shape_kind, shape), (_, name) = described
    (flag,) = struct.unpack_from(f"{order}I", flags)
    dtype = _CLASSES.get(flag & 0xFF)
    if dtype is None or flag & _COMPLEX or shape_kind != 5 or len(shape) != 8:
        return
    rows_and_columns = struct.unpack(f"{order}2i", shape)
    title = bytes(name).decode("latin-1")
    kind, values = next(parts, (None, b""))
    if kind not in _STORED:
        raise ValueError(f"the numbers of matrix {title!r} are of the unknown type {kind}")
    stored = np.dtype(order + _STORED[kind])
    if min(rows_and_columns) < 0 or math.prod(rows_and_columns) * stored.itemsize != len(values):
        size = "{} x {}".format(*rows_and_columns)
        raise ValueError(f"matrix {title!r} of {size} numbers of {stored.itemsize} bytes holds {len(values):,} bytes")
    numbers = np.frombuffer(values, stored).reshape(rows_and_columns, order="F")
    yield title, numbers.astype(np.dtype(dtype))
