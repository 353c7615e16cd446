"""Which files a source means, and reading each: an error says which file is at fault.

A source is paths, patterns such as ``year=*/part-*.parquet``, or URLs that fsspec knows. Table files are read with
whichever library is installed.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import narwhals as nw

from bagwise.bags.frames import NULLS, as_frame, refuse_twice
from bagwise.bags.validation import Parameter, ParameterError
from bagwise.io.columns import refuse_unknown

HEADER, LINE = 1 << 26, 1 << 30  # bytes of the names of a table of text, and of a line


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one sentence that names the file."""
    try:
        yield
    except (ImportError, PermissionError):
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}") from error
    except MemoryError as error:
        raise MemoryError(
            f"there is not enough memory to read {path}; read fewer columns with features=, or it is damaged ({error})"
        ) from error
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:
        detail = str(error).strip().split("\n")[0] or type(error).__name__
        hint = (
            "; if it is a table, save it as UTF-8" if isinstance(error, UnicodeError) or "utf" in detail.lower() else ""
        )
        raise ValueError(
            f"{path} cannot be read; it may be cut short, damaged, or of another format ({detail}){hint}"
        ) from error


def read_csv(path: Path, separator: str, ids=(), decimal: str = "."):
    """A table of text. A column of ids holds whole numbers, if every one stands there as it would be written, or text.

    So no two ids become one, and each comes out as it came in: "007", "1.10", "1e5", "true", or 20 digits.
    """
    library = _library(path, "pyarrow", "polars", "pandas")
    separator = _look_at_header(path, separator, decimal)
    with reading(path):
        frame = as_frame(_READERS[library](path, separator))
        read = [name for name in ids if name in frame.columns and frame.schema[name] != nw.String]
        if not read:
            return frame
        texts = nw.from_native(_READERS[library](path, separator, read), eager_only=True)
        odd = [name for name in read if not _are_whole(frame[name], texts[name])]
        # what was read as missing stays so: as text it would be an id called NA
        kept = [nw.when(~nw.col(name).is_null()).then(texts[name]).alias(name) for name in odd]
        return frame.with_columns(*kept)


def _are_whole(column: nw.Series, texts: nw.Series) -> bool:
    """Whether a column was read as whole numbers, of which each stands in the file as it is written."""
    if column.dtype != nw.Int64:  # nor a wider type that only some libraries have
        return False
    return bool(texts.filter(~column.is_null()).str.contains(r"^\s*(?:0|-?[1-9][0-9]*)\s*$").all())


def _look_at_header(path: Path, separator: str, decimal: str) -> str:
    """Refuse names that appear twice, which some libraries change, and the table of a spreadsheet in much of Europe."""
    with reading(path), (gzip.open if path.name.lower().endswith(".gz") else open)(path, "rb") as file:
        line = b"".join(file.readline(HEADER).splitlines()[:1])  # lines may end in a bare carriage return
        names = line if len(line) < HEADER else b""  # cut off, the last name may look like another
        with suppress(csv.Error):  # which the reader will know better
            refuse_twice(next(csv.reader([names.decode("utf-8-sig", "replace")], delimiter=separator), ()))
    if decimal == "," and separator == "," and b";" in line:
        return ";"
    other = {";": ";", "\t": "tab", ",": ","}
    for mark, name in other.items():
        if mark != separator and mark.encode() in line and separator.encode() not in line:
            raise ParameterError(
                "decimal",
                f"{path} is separated by {name!r}, not by {other[separator]!r}; .csv files are read with commas and "
                f".tsv files with tabs (decimals with a point): save it so, or pass pandas.read_csv(..., sep={mark!r})",
                *([", or ", Parameter("decimal", ","), " if its decimals are commas"] if mark == ";" else []),
            )
    return separator


def _read_csv_polars(path: Path, separator: str, as_text=None):
    import polars

    if as_text is not None:
        return polars.read_csv(
            path, separator=separator, columns=as_text, schema_overrides=dict.fromkeys(as_text, polars.String)
        )
    # a type is inferred from the whole column: the first rows may not show that it has fractions
    return polars.read_csv(path, separator=separator, null_values=NULLS, infer_schema_length=None)


def _read_csv_pandas(path: Path, separator: str, as_text=None):
    import pandas

    return pandas.read_csv(path, sep=separator, usecols=as_text, dtype=None if as_text is None else str)


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
    refuse_unknown(names, columns or [], taken=columns or ())
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


def _read_csv_arrow(path: Path, separator: str, as_text=None):
    import pyarrow
    from pyarrow import csv

    how = {"parse_options": csv.ParseOptions(delimiter=separator)}
    if as_text is not None:
        types = dict.fromkeys(as_text, pyarrow.string())
        how["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=as_text)
    try:
        return csv.read_csv(path, **how)
    except pyarrow.ArrowInvalid:
        # A line may be longer than a block. And types are inferred from the first block; a later one may hold fractions
        # or text. Try all as one block.
        return csv.read_csv(path, **how, read_options=csv.ReadOptions(block_size=LINE))


def is_row_number(name: str) -> bool:
    """Whether a column is the unnamed row numbers that pandas writes."""
    return name == "" or name.startswith(("__index_level_", "Unnamed: "))


def _library(path: Path, *names: str) -> str:
    for name in names:
        if find_spec(name) is not None:
            return name
    raise ImportError(f"reading {path.name} needs {' or '.join(names)}: pip install pyarrow")


_READERS = {"pyarrow": _read_csv_arrow, "polars": _read_csv_polars, "pandas": _read_csv_pandas}


HIDDEN = ("_", ".")  # how the names start of what writers leave beside the data


def find_files(source) -> list[Path]:
    """The files meant by a path, a pattern with ``*``, ``?`` or ``[``, or a list of either; patterns in sorted order.

    A file that is really called so is taken before a pattern is thought of. Each comes once, whatever it is called. A
    wildcard stands for no ``_`` or ``.`` at the start of the name of a file or folder, which is no data; written out,
    it is.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("b.csv", "a.csv", "_a.csv"):
    ...     (folder / name).touch()
    >>> [path.name for path in find_files(folder / "*.csv")]
    ['a.csv', 'b.csv']
    >>> [path.name for path in find_files(folder / "_*.csv")]
    ['_a.csv']
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise ValueError("the list of files is empty; give at least one path or pattern")
    found: dict[str, Path] = {}
    for path in (path for one in sources for path in _expand(one)):
        found.setdefault(os.path.abspath(path), path)
    return list(found.values())


def _expand(source) -> list[Path]:
    path = Path(source).expanduser()
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    return [Path(one) for one in shown(glob.glob(str(path), recursive=True), str(path), path)]


def shown(names: list[str], pattern: str, source) -> list[str]:
    """What a pattern matched, sorted, without what lies behind a hidden name that it does not write out."""
    pieces = [piece for piece in re.split(r"[/\\]", pattern) if piece.startswith(HIDDEN)]

    def meant(step: str) -> bool:
        return not step.startswith(HIDDEN) or any(fnmatchcase(step, piece) for piece in pieces)

    found = [name for name in sorted(names) if all(map(meant, re.split(r"[/\\]", name)))]
    if not found:
        hint = f"; {min(names)} is hidden: write out the _ or ." if names else ""
        raise FileNotFoundError(f"no file matches {source}{hint}")
    return found


def is_url(source) -> bool:
    return "://" in str(source)


def open_url(url: str) -> tuple:
    """The file system of a URL, and the path within it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"reading {url} needs fsspec: pip install 'bagwise[dask]'") from error
    try:
        return url_to_fs(url)
    except ValueError as error:
        raise ValueError(f"{url} names no file system that fsspec knows ({error})") from error


def expand_url(url: str) -> list[tuple[str, list[str] | None]]:
    """The files and folders meant by a URL, which may be a pattern, each with the files below it (None for a file)."""
    system, path = open_url(url)
    with reading(url):
        magic = glob.has_magic(path) and not system.exists(path)
        names = system.glob(path) if magic else [path]
    found = shown(names, path, url) if magic else names
    with reading(url):
        below = [sorted(system.find(one)) if system.isdir(one) else None for one in found]
    full = _full_name(system)
    return [(full(one), files and [full(file) for file in files]) for one, files in zip(found, below, strict=True)]


def _full_name(system):
    """What a path is called from outside: a local one as it is, others with their protocol."""
    names = system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)
    return str if "file" in names else system.unstrip_protocol
