"""One view of a table's columns, whatever holds it: a data frame of any library, or arrays by name.

Both classes answer the same questions: ``names``, ``n_rows``, the ``kind`` of a column ("number", "boolean", "list",
"vector", or the name of its type), whether it is ``single`` precision, its ``numbers``, and its distinct labels
(``factorise``).
"""

from __future__ import annotations

import narwhals as nw
import numpy as np

from bagwise.bags.boxed import unbox
from bagwise.bags.choosing import refuse_twice


class FrameColumns:
    """The columns of a data frame: pandas, polars, pyarrow, or another that narwhals knows."""

    def __init__(self, frame):
        self.frame = as_frame(frame)
        self.names = self.frame.columns
        self.n_rows = len(self.frame)
        self._columns: dict = {}

    def column(self, name) -> nw.Series:
        """A column to learn from: numbers that pandas holds sparsely, or as objects, are plain numbers here."""
        if name not in self._columns:
            self._columns[name] = _plain(self.frame.get_column(name))
        return self._columns[name]

    def kind(self, name) -> str:
        dtype = self.column(name).dtype
        if dtype.is_numeric():
            return "number"
        if dtype == nw.Boolean:
            return "boolean"
        if dtype == nw.List and _innermost(dtype).is_numeric():
            return "list"
        if dtype == nw.Array and _innermost(dtype).is_numeric() and len(dtype.shape) == 1:
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
        return to_numbers(self.column(name))

    def factorise(self, name) -> tuple[np.ndarray, np.ndarray]:
        """The number of every row's label, and the labels, in order of first appearance; null is a label too."""
        series = self.frame.get_column(name)
        if series.implementation.is_pyarrow():
            return _factorise_arrow(series.to_native())
        # The first row with the same label, found by the frame library: one pass, whatever the type of the label.
        rows = series.alias("label").to_frame().with_row_index("row")
        first = rows.select(nw.col("row").min().over("label"))["row"].to_numpy()
        starts = first == np.arange(len(first))
        return (np.cumsum(starts) - 1)[first], series[np.flatnonzero(starts)].to_numpy()


class ArrayColumns:
    """Columns that are arrays already, by name."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = arrays
        self.names = list(arrays)
        self.n_rows = len(next(iter(arrays.values())))

    def kind(self, name) -> str:
        dtype = self.arrays[name].dtype
        return {"f": "number", "i": "number", "u": "number", "b": "boolean"}.get(dtype.kind, str(dtype))

    def single(self, name) -> bool:
        return self.arrays[name].dtype in (np.float32, np.float16)

    def numbers(self, name) -> np.ndarray:
        return self.arrays[name]

    def factorise(self, name) -> tuple[np.ndarray, np.ndarray]:
        labels, first, codes = np.unique(self.arrays[name], return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return rank[codes], labels[order]


def as_frame(frame) -> nw.DataFrame:
    """A data frame of any library, as narwhals sees it; two columns of one name are refused."""
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
    """Some rows of some columns as one array, float32 if every column is, else float64; the only copy made."""
    single = all(table.single(name) for name in names)
    count = table.n_rows if isinstance(rows, slice) else len(rows)
    matrix = np.empty((count, len(names)), dtype=np.float32 if single else np.float64)
    for j, name in enumerate(names):
        matrix[:, j] = table.numbers(name)[rows]
    return matrix


def to_numbers(series: nw.Series) -> np.ndarray:
    """A column as numbers, with NaN for null."""
    plain = series.dtype.is_integer() or series.dtype.is_float()
    return (series if plain else series.cast(nw.Float64)).to_numpy()


def _plain(series: nw.Series) -> nw.Series:
    """Numbers of a type that narwhals does not call one, as plain numbers; any other series as it is."""
    if series.dtype == nw.Unknown and series.implementation.is_pandas_like():  # sparse, perhaps
        values = series.to_numpy()
        numbers = values if values.dtype.kind in "fiub" else None
    else:
        numbers = _unboxed(series) if series.dtype == nw.Object else None
    if numbers is None:
        return series
    return nw.new_series(series.name, numbers, backend=series.implementation)


def _unboxed(series: nw.Series) -> np.ndarray | None:
    """Python's numbers, with NaN for null; None if there is anything else, or nothing."""
    known = ~series.is_null().to_numpy().astype(bool)
    values = np.where(known, series.to_numpy(), None)
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
    encoded = column.dictionary_encode(null_encoding="encode")  # all chunks share one dictionary
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return codes.astype(np.int64), encoded.chunk(0).dictionary.to_numpy(zero_copy_only=False)
