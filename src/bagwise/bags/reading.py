"""Reading table files with whichever library is installed, and saying which file is at fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from bagwise.bags.choosing import refuse_unknown

_NULLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]  # polars knows only the empty field


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one sentence that names the file."""
    try:
        yield
    except (ImportError, PermissionError):
        raise
    except MemoryError as error:
        raise MemoryError(
            f"there is not enough memory to read {path}; read fewer columns with features=, or it is damaged ({error})"
        ) from error
    except Exception as error:
        detail = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(
            f"{path} cannot be read; it may be cut short, damaged, or of another format ({detail})"
        ) from error


def read_csv(path: Path, separator: str):
    library = _library(path, "pyarrow", "polars", "pandas")
    with reading(path):
        if library == "pyarrow":
            return _read_csv_arrow(path, separator)
        if library == "polars":
            import polars

            # a type is inferred from the whole column: the first rows may not show that it has fractions
            return polars.read_csv(path, separator=separator, null_values=_NULLS, infer_schema_length=None)
        import pandas

        return pandas.read_csv(path, sep=separator)


def read_parquet(path: Path, columns: list | None):
    """All columns, or only those given."""
    library = _library(path, "pyarrow", "polars")
    with reading(path):
        if library == "pyarrow":
            from pyarrow.parquet import ParquetFile

            file = ParquetFile(path)
            names, read = file.schema_arrow.names, file.read
        else:
            import polars

            names = list(polars.read_parquet_schema(path))
            read = lambda columns: polars.read_parquet(path, columns=columns)  # noqa: E731
    refuse_unknown(names, columns or [])
    with reading(path):
        return read(columns=columns)


def read_arrow(path: Path):
    """An Arrow (Feather) file, or an Arrow stream, which lacks the mark at the start."""
    library = _library(path, "pyarrow", "polars")
    with reading(path):
        with path.open("rb") as file:
            is_stream = file.read(4) not in (b"ARRO", b"FEA1")
        if library == "polars":
            import polars

            return polars.read_ipc_stream(path) if is_stream else polars.read_ipc(path)
        import pyarrow

        if is_stream:
            with pyarrow.OSFile(str(path)) as source:
                return pyarrow.ipc.open_stream(source).read_all()
        from pyarrow.feather import read_table

        return read_table(path, memory_map=False)


def _read_csv_arrow(path: Path, separator: str):
    import pyarrow
    from pyarrow import csv

    layout = csv.ParseOptions(delimiter=separator)
    try:
        return csv.read_csv(path, parse_options=layout)
    except pyarrow.ArrowInvalid:
        # Types are inferred from the first block; a later one may hold fractions or text. Try all as one block.
        whole = csv.ReadOptions(block_size=1 << 30)
        return csv.read_csv(path, parse_options=layout, read_options=whole)


def _library(path: Path, *names: str) -> str:
    for name in names:
        if find_spec(name) is not None:
            return name
    raise ImportError(f"reading {path.name} needs {' or '.join(names)}: pip install 'bagwise[arrow]'")
