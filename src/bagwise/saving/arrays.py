"""Arrays in a model file: what an array claims to be is compared with the bytes it has, before it is made."""

from __future__ import annotations

import io
import math

import numpy as np

from bagwise.saving.refusing import AGAIN, Refused

_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def check_array(name: str, data: bytes) -> None:
    """Refuse an array that holds objects, or claims more or fewer numbers than it has bytes for."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise Refused(f"its array {name!r} has the unknown version {version}; {AGAIN}")
    shape, _, dtype = _READERS[version](stream)
    claimed, held = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if dtype.hasobject:
        raise Refused(f"its array {name!r} holds objects, which only pickle could read; {AGAIN}")
    if claimed != held or any(n < 0 for n in shape) or (dtype.itemsize == 0 and math.prod(shape) > 0):
        raise Refused(f"its array {name!r} claims {claimed} bytes (shape {shape}), but has {held}; {AGAIN}")


def read_array(data: bytes) -> np.ndarray:
    """An array that `check_array` has passed."""
    return np.load(io.BytesIO(data), allow_pickle=False)
