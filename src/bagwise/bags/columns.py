"""One view of a table's columns, whatever holds it: a data frame of any library, or arrays by name.

Both classes answer the same questions: ``names``, ``n_rows``, the ``kind`` of a column ("number", "boolean", "list",
"vector", or the name of its type), whether it is ``single`` precision, its ``numbers``, and its distinct labels
(``factorise``).
"""

from __future__ import annotations

import narwhals as nw
import numpy as np


class FrameColumns:
    """The columns of a data frame: pandas, polars, pyarrow, or another that narwhals knows."""

    def __init__(self, frame):
        try:
            self.frame = nw.from_native(frame, eager_only=True)
        except TypeError as error:
            lazy = "; collect() a lazy frame first" if hasattr(frame, "collect") else ""
            raise TypeError(
                f"expected a data frame (pandas, polars, pyarrow, ...), not {type(frame).__name__}{lazy}"
            ) from error
        except nw.exceptions.DuplicateError as error:
            raise ValueError("two columns have the same name; names must be distinct") from error
        self.types = self.frame.schema
        self.names = list(self.types)
        self.n_rows = len(self.frame)

    def kind(self, name) -> str:
        dtype = self.types[name]
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
        return str(_innermost(self.types[name])) in ("Float32", "Float16")  # older narwhals has no Float16 to name

    def numbers(self, name) -> np.ndarray:
        return to_numbers(self.frame.get_column(name))

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


def to_numbers(series: nw.Series) -> np.ndarray:
    """A column as numbers, with NaN for null."""
    plain = series.dtype.is_integer() or series.dtype.is_float()
    return (series if plain else series.cast(nw.Float64)).to_numpy()


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
