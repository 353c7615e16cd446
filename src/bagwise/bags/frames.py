"""Data frames where arrays are expected: their numbers, and the names of their columns."""

from __future__ import annotations

import narwhals as nw
import numpy as np

from bagwise.bags.columns import FrameColumns, as_frame, as_matrix


def unframe(data, what: str) -> tuple:
    """The numbers of a data frame as an array, and its columns; anything else as it is, and None.

    Examples
    --------
    >>> import pandas as pd
    >>> array, names = unframe(pd.DataFrame({"red": [1, 2], "nir": [0.5, 1.5]}), "instances")
    >>> array.tolist(), names
    ([[1.0, 0.5], [2.0, 1.5]], ['red', 'nir'])
    """
    if isinstance(data, np.ndarray | list | tuple) or not nw.dependencies.is_into_dataframe(data):
        return data, None
    table = FrameColumns(as_frame(data))
    odd = [name for name in table.names if table.kind(name) not in ("number", "boolean")]
    if odd:
        raise TypeError(
            f"{what} must be numbers, but column {odd[0]!r} is {table.kind(odd[0])}; encode it, or leave it out"
        )
    return as_matrix(table, table.names), table.names


def names_of(given, columns, what: str):
    """The names asked for, or else those of a frame's columns: one who gives both must mean the same.

    Columns that pandas counts (0, 1, ...) have no names, as scikit-learn has it.
    """
    if columns is None or not all(isinstance(name, str) for name in columns):
        return given
    if given is not None and [str(name) for name in given] != columns:
        raise ValueError(
            f"{what} are {', '.join(map(str, list(given)[:5]))}, but the columns of the data frame are "
            f"{', '.join(columns[:5])}; leave {what} out, or rename the columns"
        )
    return columns


def differences(names: list, known: list) -> str:
    """What is missing and what is new; empty for the same names, in whatever order.

    Examples
    --------
    >>> differences(["x", "w"], ["x", "y"]), differences(["y", "x"], ["x", "y"])
    ('missing: y; new: w', '')
    """
    lost, added = set(known) - set(names), set(names) - set(known)
    said = {"missing": sorted(map(str, lost)), "new": sorted(map(str, added))}
    return "; ".join(f"{what}: {', '.join(those[:5])}" for what, those in said.items() if those)
