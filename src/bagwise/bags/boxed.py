"""Numbers that come as Python objects."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real

import numpy as np

NUMBERS = (Real, Decimal, np.bool_)


def unbox(values: np.ndarray) -> np.ndarray | None:
    """Objects that are numbers as float64, NaN for None and pandas' NA; None if there is anything else, or no number.

    Examples
    --------
    >>> unbox(np.array([1, Decimal("0.5"), None], dtype=object)).tolist()
    [1.0, 0.5, nan]
    >>> unbox(np.array([1, "2"], dtype=object)) is None
    True
    """
    kinds = set(map(type, values.flat))
    nulls = {kind for kind in kinds if kind.__name__ in ("NoneType", "NAType")}
    if kinds == nulls or not all(issubclass(kind, NUMBERS) for kind in kinds - nulls):
        return None
    known = np.array([type(value) not in nulls for value in values.flat]).reshape(values.shape)
    numbers = np.full(values.shape, np.nan)
    numbers[known] = values[known].astype(np.float64)
    return numbers
