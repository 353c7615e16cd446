"""Read matrices from MATLAB files (.mat) of version 4 or 5, written by MATLAB up to 7.2 or with -v7.

scipy's reader for version 5 can crash the interpreter on a damaged number type, so this module checks each type and
length before it is used.
"""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np

from bagwise.bags.frames import FrameColumns, as_list
from bagwise.bags.validation import ParameterError, warn_user
from bagwise.io.columns import Roles
from bagwise.io.load import gather
from bagwise.io.table_files import reading

_HEADER = 128  # bytes before the first variable
_COMPRESSED, _MATRIX = 15, 14
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
# Numeric array classes. Values may be stored in a smaller type than that of the class.
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800
# Published files with known columns: the number of reflectances, followed by the number of angles.
_LAYOUTS = {"misr1": (12, 4), "misr2": (12, 4), "modis": (7, 5)}


def load_mat(path: Path, roles: Roles, *, missing: str, fill_values, variable) -> tuple:
    """Load a file; see `bagwise.io.load.load_labels`. Roles name columns, or give their positions in the matrix."""
    if isinstance(roles.target, list | tuple):
        raise ParameterError("target", f"{path.name} has one target; load it once for each of several")
    matrix = _find_matrix(path, variable)
    width = matrix.shape[1]

    def position(column) -> int:
        if not -width <= column < width:
            raise ValueError(f"there is no column {column}; the matrix has {width}, counted from 0")
        return int(column) % width

    def is_position(column) -> bool:
        return isinstance(column, int | np.integer)

    roles = replace(
        roles, bag=0 if roles.bag is None else roles.bag, target=-1 if roles.target is None else roles.target
    )
    special = {position(roles.bag if is_position(roles.bag) else 0): "bag"}
    special[position(roles.target if is_position(roles.target) else -1)] = "target"
    features = [f"x{j + 1}" for j in range(width - len(special))]
    reflectances, angles = _LAYOUTS.get(path.stem.lower(), (0, 0))
    if special == {0: "bag", width - 1: "target"} and reflectances + angles == len(features):
        features = [f"reflectance_{j + 1}" for j in range(reflectances)] + [f"angle_{j + 1}" for j in range(angles)]
    remaining = iter(features)
    names = [special.get(j) or next(remaining) for j in range(width)]

    def named(columns):
        if columns is None or isinstance(columns, str | dict):
            return columns
        return names[position(columns)] if is_position(columns) else [named(column) for column in columns]

    several = ("features", "ignore", "bag_features", "keep", "categories", "dates")
    of_roles = {role: named(getattr(roles, role)) for role in ("bag", "target", "groups", "weights", *several)}
    roles = replace(roles, **of_roles, labels={label: named(column) for label, column in roles.labels.items()})
    if roles.targets is not None and roles.features is None and roles.target not in names:
        column = special.get(width - 1)
        if column is not None and column not in as_list(roles.ignore):
            warn_user(
                f"the last column of {path.name} becomes the feature {column!r}, because the target {roles.target!r} "
                "is read from the second table; leave it out with ignore=-1 if it is a target"
            )
    columns: dict = dict(zip(names, matrix.T, strict=True))
    ids = columns.get(roles.bag)
    if (
        ids is not None and (ids == np.trunc(ids)).all() and np.abs(ids).max() < 2**53
    ):  # MATLAB stores integers as doubles
        columns[roles.bag] = ids.astype(np.int64)
    return gather(FrameColumns(columns, fill_values), roles, missing)


def _find_matrix(path: Path, variable: str | None) -> np.ndarray:
    with reading(path):
        content = path.read_bytes()
    if content.startswith(b"MATLAB 7.3"):
        raise ValueError(f"{path} is a MATLAB 7.3 (HDF5) file, which is not read; save it again with '-v7'")
    with reading(path):
        matrices = {name: matrix for name, matrix in read_matrices(content).items() if matrix.shape[1] >= 3}
    if not matrices:
        raise ValueError(f"{path} holds no matrix of numbers with at least 3 columns (bag id, features, target)")
    if variable is None and len(matrices) > 1:
        raise ValueError(f"{path} holds several matrices; choose one with variable=: {', '.join(matrices)}")
    if variable is not None and variable not in matrices:
        raise ValueError(f"{path} holds no matrix {variable!r}; it holds {', '.join(matrices)}")
    return matrices[variable or next(iter(matrices))]


def read_matrices(content: bytes) -> dict[str, np.ndarray]:
    """Read the real matrices of a file by name, in the type that MATLAB has for them."""
    if len(content) < 20:
        raise ValueError(f"it has {len(content)} bytes")
    if 0 not in content[:4]:
        return dict(_version_5(memoryview(content)))
    from scipy.io import loadmat

    with warnings.catch_warnings(action="error", category=UserWarning):  # for an unknown byte order
        variables = loadmat(BytesIO(content))  # of version 4: a reader in plain Python
    matrices = {name: v for name, v in variables.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiu"}
    return {name: matrix.astype(matrix.dtype.newbyteorder("=")) for name, matrix in matrices.items()}


def _version_5(content: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:_HEADER]))
    if order is None:
        raise ValueError("its header has no valid byte order")
    for kind, data in _elements(content[_HEADER:], order, padded=False):
        if kind == _COMPRESSED:  # decompress one element, and no more bytes than its tag states
            stream = zlib.decompressobj()
            tag = stream.decompress(data, 8)
            (length,) = struct.unpack_from(f"{order}I", tag, 4)
            inflated = memoryview(tag + stream.decompress(stream.unconsumed_tail, max(length, 1)))
            kind, data = next(_elements(inflated, order), (_COMPRESSED, data))
        if kind == _MATRIX:
            yield from _matrix(data, order)


def _elements(data: memoryview, order: str, *, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Yield the type and the content of each element; a content of at most four bytes is stored inside the tag."""
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


def _matrix(data: memoryview, order: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of an array if it is a real numeric matrix."""
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
