"""Read the columns of any data frame, or of a dict of arrays, as pyarrow arrays."""

from __future__ import annotations

import os
import re
from collections import Counter
from copy import copy
from decimal import Decimal
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

# Usual fill values of instruments, archives and raster formats. Numbers as large as HUGE also count as fill values.
FILL_VALUES: tuple[float, ...] = (-99, -999, -9999, -99999, -999.9, -9999.9, -999.99, -9999.99)
FILL_VALUES += (999, 9999, 99999, 999.9, 9999.9, 999.99, 9999.99, -32768, -32767, 32767, 65535, -2147483648, 2147483647)
HUGE = 1e19

NULLS = [
    "",
    "NA",
    "N/A",
    "NaN",
    "nan",
    "null",
    "NULL",
]  # texts that denote a missing value; polars recognises only the empty text
# A code that starts with 0, such as 01001, is not a number.
NUMBER = r"^\s*[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*$"
DECIMAL_COMMA = r"^[-+]?[0-9]+(?:,[0-9]*)?(?:[eE][-+]?[0-9]+)?$"
NUMBERS = (Real, Decimal, np.bool_)


def unbox(values: np.ndarray) -> np.ndarray | None:
    """Convert objects to float64, with NaN for missing ones; return None if any is not a number or all are missing."""
    missing = np.array([value is None or type(value).__name__ == "NAType" for value in values.flat], dtype=bool)
    missing = missing.reshape(values.shape)
    if missing.all() or not all(isinstance(value, NUMBERS) for value in values[~missing]):
        return None
    numbers = np.full(values.shape, np.nan)
    numbers[~missing] = values[~missing].astype(np.float64)
    return numbers


def is_null(value) -> bool:
    """Return whether an object stands for a missing value: None, NaN, NaT, or pandas' NA."""
    if isinstance(value, float | np.floating | np.datetime64 | Decimal):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


class FrameColumns:
    """The columns of a data frame of any library, or of a dict of arrays, as arrays of pyarrow.

    Columns are converted when they are used, without a copy where their library allows it. With ``decimal=","``, a
    column of text is converted to numbers if all its texts have a decimal comma.

    >>> FrameColumns({"red": np.array([0.5, -9999.0])}, fill_values=[-9999]).numbers("red")
    array([0.5, nan])
    """

    def __init__(self, frame, fill_values=(), decimal: str = "."):
        self.fill_values, self.fill_texts = as_fill_values(fill_values)
        self.decimal = decimal
        self.origin: np.ndarray | None = None  # positions of the rows in the table that they were selected from
        self.of_bags: list = []  # columns that belong to the bags, not to the instances
        self.siblings: dict = {}  # column -> columns computed from the same column, which are selected together
        self._made: set = set()  # computed columns, which contain no fill values
        self._parsed: dict = {}
        if isinstance(frame, dict):
            self._columns, self.n_rows = dict(frame), len(next(iter(frame.values())))
        else:
            frame = as_frame(frame)
            self._columns = {name: partial(_series_as_arrow, frame, name) for name in frame.columns}
            self.n_rows = len(frame)

    @property
    def names(self) -> list:
        return list(self._columns)

    def with_columns(self, columns: dict, *, of_bags=(), siblings=None, computed: bool = False) -> FrameColumns:
        """Return a table with further columns, arrays or functions of one; computed ones have no fill values."""
        table = copy(self)
        table._columns = self._columns | columns
        table._made = self._made | set(columns if computed else ())
        table.of_bags, table.siblings = [*self.of_bags, *of_bags], self.siblings | (siblings or {})
        return table

    def rows(self, positions: np.ndarray) -> FrameColumns:
        table = copy(self)
        table._columns = {name: partial(self.select, name, positions) for name in self.names}
        table._parsed, table.n_rows, table.origin = {}, len(positions), positions
        return table

    def raw(self, name):
        column = self._columns[name]
        column = column() if callable(column) else column
        return as_arrow(column) if isinstance(column, np.ndarray) else column

    def select(self, name, positions: np.ndarray):
        return self.raw(name).take(_arrow().array(positions))

    def column(self, name):
        """Return a column; with a decimal comma or fill texts, texts that are numbers are converted."""
        if self.decimal == "." and not self.fill_texts:
            return self.raw(name)
        if name not in self._parsed:
            self._parsed[name] = _parse_numbers(self.raw(name), self.fill_texts, comma=self.decimal == ",")
        return self._parsed[name]

    def kind(self, name) -> str:
        """Return "number", "boolean", "list", "vector" (a fixed-size list), or the name of another type."""
        return kind_of(self.column(name).type)

    def single(self, name) -> bool:
        """Return whether a column has single precision or less."""
        return name in self._made or str(_innermost(self.column(name).type)) in ("float", "halffloat")

    def numbers(self, name) -> np.ndarray:
        """Return a column as numbers, with NaN for missing values and fill values."""
        return with_missing(to_numbers(self.column(name)), () if name in self._made else self.fill_values)

    def values(self, name) -> np.ndarray:
        """Return a column without conversion, as a numpy array."""
        return to_numpy(self.raw(name))

    def texts(self, name, most: int | None = None) -> np.ndarray:
        """Return the first values as text, without missing values and texts that denote them."""
        texts = self.column(name).drop_null()[:most].cast(_arrow().string()).to_pylist()
        return np.array([text for text in texts if text not in NULLS], dtype=object)

    def factorise(self, name) -> tuple[np.ndarray, np.ndarray]:
        """Return a code per row and the labels in order of first appearance; null counts as a label."""
        pa = _arrow()
        column = self.raw(name)
        if pa.types.is_dictionary(column.type):  # the dictionary may have any order and unused labels
            column = column.cast(column.type.value_type)
        if len(column) == 0:
            return np.empty(0, dtype=np.int64), to_numpy(pa.array([], column.type))
        chunks = [column] if isinstance(column, pa.Array) else column.chunks
        encoded = pa.chunked_array(chunks).dictionary_encode("encode")  # all chunks share one dictionary
        codes = np.concatenate([to_numpy(chunk.indices) for chunk in encoded.chunks])
        return codes.astype(np.int64), to_numpy(encoded.chunk(0).dictionary)


def _arrow():
    import pyarrow  # here, because archives of bags are read without it

    return pyarrow


def _series_as_arrow(frame: nw.DataFrame, name):
    series = frame.get_column(name)
    column = series.to_native()
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) or type(dtype).__name__ == "SparseDtype":
        return as_arrow(np.asarray(column))
    return column if series.implementation.is_pyarrow() else series.to_arrow()


def as_arrow(values: np.ndarray):
    """Convert an array to pyarrow, without a copy where its type allows it.

    Objects of one type keep it; numbers of several types become float64, other objects text.
    """
    pa = _arrow()
    if values.dtype.isnative and values.dtype.str[1:] in ("f4", "f8", "i4", "i8"):  # pa.array would import pandas
        buffer = pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])
    try:
        return pa.array(values, from_pandas=values.dtype == object)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        if values.dtype != object:  # another byte order, or a type or unit that Arrow lacks
            types = {"i": "i8", "u": "u8", "f": "f8", "M": "M8[us]"}
            return pa.array(values.astype(types.get(values.dtype.kind, str)))
    cells = [None if is_null(value) else value for value in values]
    numbers = unbox(np.array([*cells, None], dtype=object)[:-1])
    if numbers is not None:
        return pa.array(numbers)
    if all(cell is None or isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        try:
            return pa.array([list(cell) if isinstance(cell, np.ndarray) else cell for cell in cells])
        except pa.ArrowException:  # lists of mixed types
            pass
    quoted = {str(cell) for cell in cells if not isinstance(cell, str)}  # 1 and "1" are two labels
    texts = [repr(cell) if isinstance(cell, str) and cell in quoted else str(cell) for cell in cells]
    return pa.array([None if cell is None else text for cell, text in zip(cells, texts, strict=True)], pa.string())


def kind_of(dtype) -> str:
    """Return the kind of an Arrow type; see `FrameColumns.kind`."""
    of = _arrow().types
    if of.is_fixed_size_list(dtype) and _is_number(dtype.value_type, of):
        return "vector"
    if of.is_list(dtype) or of.is_large_list(dtype):
        return "list" if _is_number(_innermost(dtype), of) else "List"
    if _is_number(dtype, of):
        return "number"
    tests = {
        "String": lambda dtype: of.is_string(dtype) or of.is_large_string(dtype) or of.is_string_view(dtype),
        "boolean": of.is_boolean,
        "Categorical": of.is_dictionary,
        "Datetime": of.is_timestamp,
        "Date": of.is_date,
        "Struct": of.is_struct,
        "Array": of.is_fixed_size_list,
        "Unknown": of.is_null,
    }
    return next((name for name, test in tests.items() if test(dtype)), str(dtype).capitalize())


def _is_number(dtype, of) -> bool:
    return of.is_integer(dtype) or of.is_floating(dtype) or of.is_decimal(dtype)


def _innermost(dtype):
    while hasattr(dtype, "value_type") and not _arrow().types.is_dictionary(dtype):
        dtype = dtype.value_type
    return dtype


def as_fill_values(fill_values) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return the numbers and the texts that stand for a missing value."""
    values = list(fill_values) if np.iterable(fill_values) and not isinstance(fill_values, str) else [fill_values]
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
    # compare in the precision of the values: -3.4e38 differs between single and double precision
    kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        marked = np.isin(values, np.array(fill_values, dtype=np.float64).astype(kind))
    return np.where(marked, np.array(np.nan, dtype=kind), values) if marked.any() else values


def is_fill_value(value: float) -> bool:
    """Return whether a number is a usual fill value for missing data."""
    return abs(value) >= HUGE or any(value in (fill, float(np.float32(fill))) for fill in FILL_VALUES)


def plain_number(value: float) -> int | float:
    """Return a number as an int where it has no decimals."""
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def refuse_twice(names) -> None:
    """Refuse repeated column names and columns without a name."""
    for name, count in Counter(names).items():
        if count > 1:
            no_name = f"{count} columns have no name; name them, or take them out of the table"
            twice = f"two columns have the same name, {name!r}; names must be distinct"
            raise nw.exceptions.DuplicateError(no_name if name == "" else twice)


def as_list(names) -> list:
    """Return one name or several as a list."""
    return [names] if isinstance(names, str | int) else list(names)


def names_files(source) -> bool:
    """Return whether a source is a path or a list of paths, not a data frame."""
    if isinstance(source, list | tuple):
        return all(isinstance(path, str | os.PathLike) for path in source)
    return isinstance(source, str | os.PathLike)


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


def as_matrix(table: FrameColumns, names: list, rows=slice(None)) -> np.ndarray:
    """Copy some rows of some columns into one array, float32 if all columns are, else float64."""
    single = all(table.single(name) for name in names)
    count = table.n_rows if isinstance(rows, slice) else len(rows)
    matrix = np.empty((count, len(names)), dtype=np.float32 if single else np.float64)
    for j, name in enumerate(names):
        matrix[:, j] = table.numbers(name)[rows]
    return matrix


def to_numbers(column) -> np.ndarray:
    """Convert a column of pyarrow to numbers, with NaN for null."""
    pa = _arrow()
    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return to_numpy(column)


def to_numpy(column) -> np.ndarray:
    """Convert a column of pyarrow to numpy; for numbers and text without `pandas`, which pyarrow would import."""
    pa = _arrow()
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if kind_of(column.type) == "String":
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    if column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return np.from_dlpack(column)
    return column.to_numpy(zero_copy_only=False)


def _parse_numbers(column, fill_texts: tuple[str, ...], *, comma: bool):
    """Convert texts to numbers if all have a decimal comma, or some are fill texts and the others numbers."""
    import pyarrow.compute as pc

    pa = _arrow()
    if kind_of(column.type) != "String":
        return column
    column_texts = column.cast(pa.string())
    missing = pc.is_in(column_texts, value_set=pa.array([*NULLS, *fill_texts]))
    texts = pc.if_else(missing, pa.scalar(None, pa.string()), column_texts)
    present = texts.drop_null()
    if comma and len(present) and pc.all(pc.match_substring_regex(present, DECIMAL_COMMA)).as_py():
        texts = pc.replace_substring(texts, ",", ".")
    elif not (
        pc.any(pc.is_in(column_texts, value_set=pa.array(fill_texts, pa.string()))).as_py()
        and pc.all(pc.match_substring_regex(present, NUMBER)).as_py()
    ):
        return column
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+", "").cast(pa.float64())


def unframe(data, parameter: str) -> tuple:
    """Return the numbers of a data frame as an array, and its columns; other data unchanged, and None."""
    if isinstance(data, np.ndarray | list | tuple) or not nw.dependencies.is_into_dataframe(data):
        return data, None
    table = FrameColumns(as_frame(data))
    odd = [name for name in table.names if table.kind(name) not in ("number", "boolean")]
    if odd:
        raise TypeError(
            f"{parameter} must be numbers, but column {odd[0]!r} is {table.kind(odd[0])}; encode it, or leave it out"
        )
    return as_matrix(table, table.names), table.names


def to_frame(columns: dict) -> Any:
    """Convert equally long columns to a data frame of pandas or polars; return the dict where neither is installed."""
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(columns)
    return columns


def differences(names: list, expected: list) -> str:
    """Describe how names differ from the expected ones: missing names, new names, or another order."""
    phrases = {"missing": sorted(map(str, set(expected) - set(names)))}
    phrases["new"] = sorted(map(str, set(names) - set(expected)))
    if not any(phrases.values()):
        phrases = {"the order is": list(map(str, names)), "expected": list(map(str, expected))}
    return "; ".join(f"{heading}: {', '.join(texts[:5])}" for heading, texts in phrases.items() if texts)
