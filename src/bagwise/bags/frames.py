"""The columns of a table, whatever holds it: a data frame of any library, or arrays by name.

`FrameColumns` and `ArrayColumns` answer the same questions: ``names``, ``n_rows``, the ``kind`` of a column ("number",
"boolean", "list", "vector", or the name of its type), whether it is ``single`` precision, its ``numbers``, with NaN for
what is missing and for the fill values (numbers such as -9999 that stand for a missing one), and its distinct labels
(``factorise``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

# Written by instruments, archives and raster formats; any number as large as the last stands far from all data, too.
KNOWN: tuple[float, ...] = (-99, -999, -9999, -99999, -999.9, -9999.9, -999.99, -9999.99)
KNOWN += (999, 9999, 99999, 999.9, 9999.9, 999.99, 9999.99, -32768, -32767, 32767, 65535, -2147483648, 2147483647)
HUGE = 1e19

NULLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]  # texts for a missing value; polars knows only the empty one
# A code that starts with 0, such as 01001, is no number.
NUMBER = r"^\s*[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*$"
DECIMAL_COMMA = r"^[-+]?[0-9]+(?:,[0-9]*)?(?:[eE][-+]?[0-9]+)?$"
NUMBERS = (Real, Decimal, np.bool_)


def unbox(values: np.ndarray) -> np.ndarray | None:
    """Convert objects to float64, with NaN for missing ones; return None if any is no number, or all are missing.

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


class FrameColumns:
    """The columns of a data frame: pandas, polars, pyarrow, or another that narwhals knows."""

    of_bags: tuple = ()
    siblings: dict = {}

    def __init__(self, frame, fill_values=(), decimal: str = "."):
        self.frame, self.decimal = as_frame(frame), decimal
        self.fill_values, self.fill_texts = as_fill_values(fill_values)
        self.names = self.frame.columns
        self.n_rows = len(self.frame)
        self.origin: np.ndarray | None = None  # the positions of these rows in the table they were selected from
        self._columns: dict = {}

    def column(self, name) -> nw.Series:
        """Return a column for learning: numbers that pandas stores sparsely or as objects are converted."""
        if name not in self._columns:
            series = _plain(self.frame.get_column(name))
            if self.decimal == ",":
                series = _with_points(series)
            if self.fill_texts and series.dtype in (nw.String, nw.Object):
                series = _without_texts(series, self.fill_texts)
            self._columns[name] = series
        return self._columns[name]

    def kind(self, name) -> str:
        dtype = self.column(name).dtype
        if dtype.is_numeric():
            return "number"
        if dtype == nw.Boolean:
            return "boolean"
        if dtype == nw.List and _innermost(dtype).is_numeric():
            return "list"
        if dtype == nw.Array and _innermost(dtype).is_numeric() and len(dtype.shape) == 1:  # type: ignore[attr-defined]
            return "vector"
        if dtype == nw.Object:  # pandas keeps lists and arrays as objects
            some = self.frame.get_column(name).drop_nulls().head(1).to_list()
            if some and isinstance(some[0], list | tuple | np.ndarray):
                return "list"
        return str(dtype)

    def single(self, name) -> bool:
        inner = _innermost(self.column(name).dtype)
        return str(inner) in ("Float32", "Float16")  # older narwhals has no Float16 to name

    def numbers(self, name) -> np.ndarray:
        return with_missing(to_numbers(self.column(name)), self.fill_values)

    def values(self, name) -> np.ndarray:
        """Return a column without conversion."""
        return self.frame.get_column(name).to_numpy()

    def rows(self, positions: np.ndarray) -> FrameColumns:
        """Return the table of some rows."""
        some = FrameColumns(self.frame[positions], (*self.fill_values, *self.fill_texts), self.decimal)
        some.origin = positions
        return some

    def factorise(self, name) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each row's label, and the labels in order of first appearance; null is a label too."""
        series = self.frame.get_column(name)
        if series.implementation.is_pyarrow():
            return _factorise_arrow(series.to_native())
        # The first row with the same label, found by the frame library: one pass, whatever the type of the label.
        rows = series.alias("label").to_frame().with_row_index("row")
        first = rows.select(nw.col("row").min().over("label"))["row"].to_numpy()
        starts = first == np.arange(len(first))
        return (np.cumsum(starts) - 1)[first], series[np.flatnonzero(starts)].to_numpy()


class ArrayColumns:
    """Columns that are arrays already, by name.

    Examples
    --------
    >>> ArrayColumns({"red": np.array([0.5, -9999.0])}, fill_values=[-9999]).numbers("red")
    array([0.5, nan])
    """

    of_bags: tuple = ()
    siblings: dict = {}

    def __init__(self, arrays: dict[Any, np.ndarray], fill_values=()):
        self.arrays = arrays
        self.fill_values, self.fill_texts = as_fill_values(fill_values)
        self.names = list(arrays)
        self.n_rows = len(next(iter(arrays.values())))
        self.origin: np.ndarray | None = None

    def kind(self, name) -> str:
        dtype = self.arrays[name].dtype
        return {"f": "number", "i": "number", "u": "number", "b": "boolean"}.get(dtype.kind, str(dtype))

    def single(self, name) -> bool:
        return self.arrays[name].dtype in (np.float32, np.float16)

    def numbers(self, name) -> np.ndarray:
        return with_missing(self.arrays[name], self.fill_values)

    def values(self, name) -> np.ndarray:
        return self.arrays[name]

    def rows(self, positions: np.ndarray) -> ArrayColumns:
        arrays = {name: values[positions] for name, values in self.arrays.items()}
        some = ArrayColumns(arrays, (*self.fill_values, *self.fill_texts))
        some.origin = positions
        return some

    def factorise(self, name) -> tuple[np.ndarray, np.ndarray]:
        labels, first, codes = np.unique(self.arrays[name], return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return rank[codes], labels[order]


class ExtendedColumns:
    """A table with further columns, which answer for themselves: of a second table, or made of others.

    ``of_bags`` are those of them that belong to the bags, not to the instances; ``siblings`` of a column are those made
    of the same one, with which it stays.
    """

    def __init__(self, table, more: dict, *, of_bags=(), siblings=None):
        self.table, self.more, self.fill_values, self.fill_texts = table, more, table.fill_values, table.fill_texts
        self.names, self.n_rows, self.origin = [*table.names, *more], table.n_rows, table.origin
        self.of_bags, self.siblings = [*table.of_bags, *of_bags], siblings or {}

    def column(self, name) -> nw.Series:
        more = self.more.get(name)
        return self.table.column(name) if more is None else more.table.column(more.name)

    def kind(self, name) -> str:
        return self.more[name].kind if name in self.more else self.table.kind(name)

    def single(self, name) -> bool:
        return self.more[name].single if name in self.more else self.table.single(name)

    def numbers(self, name) -> np.ndarray:
        return self.more[name].numbers() if name in self.more else self.table.numbers(name)

    def values(self, name) -> np.ndarray:
        return self.more[name].values() if name in self.more else self.table.values(name)

    def factorise(self, name) -> tuple[np.ndarray, np.ndarray]:
        return self.more[name].factorise() if name in self.more else self.table.factorise(name)


def as_fill_values(fill_values) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return the numbers and the texts that stand for a missing value.

    Examples
    --------
    >>> as_fill_values(-9999), as_fill_values([-99, "n/a?"])
    (((-9999.0,), ()), ((-99.0,), ('n/a?',)))
    """
    values = fill_values if isinstance(fill_values, Iterable) and not isinstance(fill_values, str) else [fill_values]
    values = list(values)
    texts = tuple(value for value in values if isinstance(value, str) and not re.match(NUMBER, value))
    numbers = [value for value in values if value not in texts]
    odd = [value for value in numbers if isinstance(value, bool | np.bool_) or not isinstance(value, Real | np.number)]
    if odd:
        raise TypeError(f"fill_values must be numbers such as [-9999], not {odd[0]!r}, or texts such as 'n/a?'")
    return tuple(float(value) for value in numbers), texts


def with_missing(values: np.ndarray, fill_values) -> np.ndarray:
    """Replace fill values by NaN; return the same array where there are none."""
    if len(fill_values) == 0 or values.dtype.kind not in "fiu":
        return values
    # in the precision of the values: -3.4e38 of a file in single precision is another number in double
    kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        marked = np.isin(values, np.array(fill_values, dtype=np.float64).astype(kind))
    return np.where(marked, np.array(np.nan, dtype=kind), values) if marked.any() else values


def is_known(value: float) -> bool:
    """Return whether a number is one of those that are written for missing data."""
    return abs(value) >= HUGE or any(value == float(np.float32(one)) or value == one for one in KNOWN)


def plain_number(value: float) -> int | float:
    """Return a number as an int where it has no decimals."""
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def refuse_twice(names) -> None:
    """Refuse columns of which two have one name; one that is unnamed is no column but row numbers."""
    unnamed = list(names).count("")
    if unnamed > 1:
        raise nw.exceptions.DuplicateError(f"{unnamed} columns have no name; name them, or take them out of the table")
    seen: set = set()
    for name in names:
        if name != "" and name in seen:
            raise nw.exceptions.DuplicateError(f"two columns have the same name, {name!r}; names must be distinct")
        seen.add(name)


def as_list(names) -> list:
    """Return one name or several as a list."""
    return [names] if isinstance(names, str | int) else list(names)


def as_frame(frame) -> nw.DataFrame:
    """Wrap a data frame of any library with narwhals; refuse two columns of one name."""
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        lazy = "; collect() a lazy frame first" if hasattr(frame, "collect") else ""
        raise TypeError(
            f"expected a data frame (pandas, polars, pyarrow, ...), not {type(frame).__name__}{lazy}"
        ) from error
    except nw.exceptions.DuplicateError:
        refuse_twice(getattr(frame, "column_names", None) or frame.columns)  # pyarrow has other names for them
        raise


def as_matrix(table: FrameColumns | ArrayColumns, names: list, rows=slice(None)) -> np.ndarray:
    """Copy some rows of some columns into one array, float32 if all columns are, else float64."""
    single = all(table.single(name) for name in names)
    count = table.n_rows if isinstance(rows, slice) else len(rows)
    matrix = np.empty((count, len(names)), dtype=np.float32 if single else np.float64)
    for j, name in enumerate(names):
        matrix[:, j] = table.numbers(name)[rows]
    return matrix


def to_numbers(series: nw.Series) -> np.ndarray:
    """Convert a column to numbers, with NaN for null."""
    plain = series.dtype.is_integer() or series.dtype.is_float()
    return (series if plain else series.cast(nw.Float64)).to_numpy()


def _plain(series: nw.Series) -> nw.Series:
    """Convert numbers of a type that narwhals does not know to plain numbers; return any other series unchanged."""
    if series.dtype == nw.Unknown and series.implementation.is_pandas_like():  # sparse, perhaps
        values = series.to_numpy()
        numbers = values if values.dtype.kind in "fiub" else None
    else:
        numbers = _unboxed(series) if series.dtype == nw.Object else None
    if numbers is None:
        return series
    return nw.new_series(series.name, numbers, backend=series.implementation)


def _with_points(series: nw.Series) -> nw.Series:
    """Convert texts that are all numbers with a decimal comma; return any other series unchanged."""
    if series.dtype != nw.String:
        return series
    known = series.drop_nulls()
    known = known.filter(~known.is_in(NULLS))
    if len(known) == 0 or not known.str.contains(DECIMAL_COMMA).all():
        return series
    names = nw.col(series.name)
    texts = series.to_frame().select(nw.when(~names.is_in(NULLS)).then(names)).get_column(series.name)
    return texts.str.replace_all(",", ".", literal=True).cast(nw.Float64)


def _without_texts(series: nw.Series, fill_texts: tuple[str, ...]) -> nw.Series:
    """Return numbers if all values are but those texts, which are missing; else the series as it is."""
    values = [None if one is None or one != one else str(one) for one in series.to_list()]
    if not any(one in fill_texts for one in values):
        return series
    texts = [None if one in NULLS or one in fill_texts else one for one in values]
    if not all(one is None or re.match(NUMBER, one) for one in texts):
        return series
    numbers = np.array([np.nan if one is None else float(one) for one in texts])
    return nw.new_series(series.name, numbers, backend=series.implementation)


def _unboxed(series: nw.Series) -> np.ndarray | None:
    """Convert Python numbers to an array, with NaN for null; return None if there is anything else, or nothing."""
    known = ~series.is_null().to_numpy().astype(bool)
    values = np.where(known, series.to_numpy(), None)  # type: ignore[call-overload]
    if set(map(type, values[known])) <= {bool, np.bool_}:
        return values.astype(bool) if known.all() and known.any() else None
    return unbox(values)


def _innermost(dtype):
    while dtype == nw.List or dtype == nw.Array:
        dtype = dtype.inner
    return dtype


def _factorise_arrow(column) -> tuple[np.ndarray, np.ndarray]:
    # Natively: pyarrow joins, on which narwhals builds `over`, return the rows of a large table in any order.
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):  # its dictionary may be in any order, with labels no row has
        column = column.cast(column.type.value_type)
    if len(column) == 0:
        return np.empty(0, dtype=np.int64), pa.array([], column.type).to_numpy(zero_copy_only=False)
    encoded = column.dictionary_encode(null_encoding="encode")  # all chunks share one dictionary
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return codes.astype(np.int64), encoded.chunk(0).dictionary.to_numpy(zero_copy_only=False)


def unframe(data, what: str) -> tuple:
    """Return the numbers of a data frame as an array, and its columns; other data unchanged, and None.

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
    """Return the given names, or else the columns of the data frame; where both are given, they must agree.

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


def to_frame(columns: dict) -> Any:
    """Convert equally long columns to a data frame of pandas or polars; return the dict where neither is installed.

    Examples
    --------
    >>> to_frame({"method": ["aggregated"], "rmse": [0.5]})["rmse"].to_list()
    [0.5]
    """
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(columns)
    return columns


def differences(names: list, known: list) -> str:
    """Describe which names are missing and which are new; empty for the same names in any order.

    Examples
    --------
    >>> differences(["x", "w"], ["x", "y"]), differences(["y", "x"], ["x", "y"])
    ('missing: y; new: w', '')
    """
    lost, added = set(known) - set(names), set(names) - set(known)
    said = {"missing": sorted(map(str, lost)), "new": sorted(map(str, added))}
    return "; ".join(f"{what}: {', '.join(those[:5])}" for what, those in said.items() if those)
