"""Files of tables: which ones a source means, and reading each. An error says which file is at fault.

A source is paths, patterns such as ``year=*/part-*.parquet``, or URLs that fsspec knows. Files are read with whichever
library is installed. A Parquet data set is read part by part, each with the partition values that its folders name.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import narwhals as nw

from bagwise.bags.frames import refuse_twice
from bagwise.bags.validation import Parameter, ParameterError
from bagwise.first_use import lock
from bagwise.io.columns import refuse_unknown

HEAD = 1 << 16  # bytes of a text file that are looked at for leading zeros
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
    """Read a table of text; a column of ids holds whole numbers if each is written in the one usual way, else text.

    So no two ids become one, and each is returned as it was written: "007", "1.10", "1e5", "true", or 20 digits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    separator = _look_at_header(path, separator, decimal)
    with reading(path):
        table = _parse_csv(path, separator)
        refuse_twice(table.column_names)
        read = [name for name in ids if name in table.column_names and not pa.types.is_string(table[name].type)]
        if not read:
            return table
        texts = _parse_csv(path, separator, read)
        for name in read:
            column, text = table[name], texts[name]
            whole = pc.match_substring_regex(text.filter(column.is_valid()), r"^\s*(?:0|-?[1-9][0-9]*)\s*$")
            if column.type != pa.int64() or not pc.all(whole).as_py():
                # A value read as missing stays missing: as text it would be an id called NA.
                text = pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string()))
                table = table.set_column(table.column_names.index(name), name, text)
        return table


def _look_at_header(path: Path, separator: str, decimal: str) -> str:
    """Return the separator; refuse names that appear twice, and tables that are separated by another mark."""
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


def zero_padded(source) -> dict[str, str]:
    """Return the columns of text files whose first lines hold whole numbers with leading zeros, each with one of them.

    They are read as numbers, and lose the zeros, where they are features.
    """
    columns: dict[str, str] = {}
    for path in find_files(source):
        name = path.name.lower()
        if name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")) and path.exists():
            with reading(path), (gzip.open if name.endswith(".gz") else open)(path, "rb") as file:
                lines = file.read(HEAD).decode("utf-8-sig", "replace").splitlines()
            mark = "\t" if ".tsv" in name else ";" if ";" in lines[0] and "," not in lines[0] else ","
            for row in csv.DictReader(lines[:-1] or lines, delimiter=mark):
                for column, text in row.items():
                    if isinstance(text, str) and re.fullmatch("0[0-9]+", text.strip()):
                        columns.setdefault(column, text.strip())
    return columns


def _parse_csv(path: Path, separator: str, as_text=None):
    import pyarrow
    from pyarrow import csv

    options = {"parse_options": csv.ParseOptions(delimiter=separator)}
    if as_text is not None:
        types = dict.fromkeys(as_text, pyarrow.string())
        options["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=as_text)
    try:
        return csv.read_csv(path, **options)
    except pyarrow.ArrowInvalid:
        # A line may be longer than a block. Types are inferred from the first block, and a later one may hold fractions
        # or text. Try the whole file as one block.
        return csv.read_csv(path, **options, read_options=csv.ReadOptions(block_size=LINE))


def read_parquet(path: Path, columns: list | None = None):
    """Read all columns, or only those named."""
    with reading(path):
        from pyarrow.parquet import ParquetFile

        file = ParquetFile(path)
    refuse_unknown(file.schema_arrow.names, columns or [], used=columns or ())
    with reading(path):
        return file.read(columns=columns)


def read_arrow(path: Path):
    """Read an Arrow (Feather) file, or an Arrow stream, which lacks the mark at the start."""
    with reading(path):
        import pyarrow
        from pyarrow import feather

        with path.open("rb") as file:
            is_stream = file.read(4) not in (b"ARRO", b"FEA1")
        if is_stream:
            with pyarrow.OSFile(str(path)) as source:
                table = pyarrow.ipc.open_stream(source).read_all()
        else:
            table = feather.read_table(path, memory_map=False)
        table.validate()  # lengths in a damaged file may exceed its buffers
        return table


# The formats by the ending of the name. Archives of arrays are read by `bagwise.io.array_files`.
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
TABLES = (*SEPARATORS, ".parquet", ".feather", ".arrow")
ARCHIVES = (".mat", ".npz")
ENDINGS = (*TABLES, *ARCHIVES)


def read_table(path: Path, ids=(), named=(), *, only: bool = False, decimal: str = "."):
    """Read the table of a file, without unnamed row numbers unless they are asked for; None for an archive of arrays.

    With ``only``, a format that stores columns is read without columns that are not asked for.
    """
    ending = next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise ValueError(f"{path.name} is a spreadsheet, which is not read; export the sheet as .csv")
    if ending is None:
        raise ValueError(f"{path.name} is of no known type; the known endings are {', '.join(ENDINGS)}")
    if ending in ARCHIVES:
        return None
    if ending in SEPARATORS:
        table = read_csv(path, SEPARATORS[ending], ids, decimal)
    else:
        table = read_parquet(path, list(named) if only else None) if ending == ".parquet" else read_arrow(path)
    with reading(path):  # names that are no text show themselves here
        return table.select(visible(table.column_names, named))


def is_row_number(name: str) -> bool:
    """Return whether a column is the unnamed row numbers that pandas writes."""
    return name == "" or name.startswith(("__index_level_", "Unnamed: "))


ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # a server of one's own that understands S3
HIDDEN = ("_", ".")  # how the names start of what writers leave beside the data


def find_files(source) -> list[Path]:
    """Find the files of a path, a pattern with ``*``, ``?`` or ``[``, or a list of either; patterns in sorted order.

    A file whose name is the pattern itself is taken first. Each file is listed once, whatever name it is given by. A
    wildcard does not match ``_`` or ``.`` at the start of the name of a file or folder, which mark files that are not
    data; a pattern that writes them out does.

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
    paths: dict[str, Path] = {}
    for path in (path for entry in _sources(source) for path in _expand(entry)):
        paths.setdefault(os.path.abspath(path), path)
    return list(paths.values())


def names_files(source) -> bool:
    """Return whether a source is a path or a list of paths, not a data frame."""
    if isinstance(source, list | tuple):
        return all(isinstance(path, str | os.PathLike) for path in source)
    return isinstance(source, str | os.PathLike)


def _sources(source) -> list:
    """Return the paths, patterns and URLs of a source as a list."""
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise ValueError("the list of files is empty; give at least one path or pattern")
    return sources


def _expand(source) -> list[Path]:
    path = Path(source).expanduser()
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    return [Path(name) for name in shown(glob.glob(str(path), recursive=True), str(path), path)]


def shown(names: list[str], pattern: str, source) -> list[str]:
    """Return the matches of a pattern, sorted, without hidden names that it does not write out."""
    pieces = [piece for piece in re.split(r"[/\\]", pattern) if piece.startswith(HIDDEN)]

    def meant(step: str) -> bool:
        return not step.startswith(HIDDEN) or any(fnmatchcase(step, piece) for piece in pieces)

    visible_names = [name for name in sorted(names) if all(map(meant, re.split(r"[/\\]", name)))]
    if not visible_names:
        hint = f"; {min(names)} is hidden: write out the _ or ." if names else ""
        raise FileNotFoundError(f"no file matches {source}{hint}")
    return visible_names


def is_url(source) -> bool:
    return "://" in str(source)


def open_url(url: str) -> tuple:
    """Return the file system of a URL, for fsspec, and the path within it.

    What fsspec needs another package for (s3fs, gcsfs, adlfs) is opened by pyarrow if that is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"reading {url} needs fsspec: pip install 'bagwise[dask]'") from error
    try:
        return url_to_fs(url)
    except ImportError as error:
        scheme, _, path = url.partition("://")
        system = _of_pyarrow(scheme, path.partition("/")[0], *map(os.environ.get, ENDPOINTS))
        if system is None:
            raise ImportError(f"reading {url} needs another package ({error})") from error
        return system, path.rstrip("/")
    except ValueError as error:
        raise ValueError(f"{url} names no file system that fsspec knows ({error})") from error


@lru_cache(maxsize=16)  # it holds connections
def _of_pyarrow(scheme: str, bucket: str, *endpoints: str | None):
    """Return a file system of pyarrow in the form of fsspec, or None; it finds credentials in the usual places."""
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    endpoint = next(filter(None, endpoints), None) if scheme == "s3" else None
    try:
        if endpoint is None:
            return ArrowFSWrapper(FileSystem.from_uri(f"{scheme}://{bucket}")[0])
        from pyarrow.fs import S3FileSystem

        return ArrowFSWrapper(S3FileSystem(endpoint_override=endpoint, region=os.environ.get("AWS_DEFAULT_REGION")))
    except (ArrowException, ImportError):  # no such scheme, or built without it
        return None


def for_pyarrow(system):
    """Convert a file system of fsspec to one of pyarrow."""
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    return system.fs if isinstance(system, ArrowFSWrapper) else PyFileSystem(FSSpecHandler(system))


def expand_url(url: str) -> list[tuple[str, list[str] | None]]:
    """Find the files and folders of a URL, which may be a pattern, each with the files below it (None for a file)."""
    system, path = open_url(url)
    with reading(url):
        magic = glob.has_magic(path) and not system.exists(path)
        names = system.glob(path) if magic else [path]
    names = shown(names, path, url) if magic else names
    with reading(url):
        below = [sorted(system.find(entry)) if system.isdir(entry) else None for entry in names]
    protocols = system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)
    full = str if "file" in protocols else system.unstrip_protocol  # as it is called from outside
    return [(full(entry), files and [full(file) for file in files]) for entry, files in zip(names, below, strict=True)]


# A Parquet data set: files of a folder, a pattern or a URL, and partition values that their folders name --------------

PARQUET = (".parquet", ".parq", ".pq")
_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Hive, Spark and Arrow write a missing value as the name of a folder
_NOT_PARQUET = (*(ending for ending in ENDINGS if ending not in PARQUET), ".xlsx", ".xls", ".json")


class Value(NamedTuple):
    """The value of a partition column, from a folder ``column=value``; a whole number if those of all files are."""

    column: str
    value: int | str | None
    whole: bool


@dataclass(frozen=True)
class Part:
    """A Parquet file: its path, its name for messages, and its partition values; small, so that workers receive it."""

    path: str
    name: str
    values: tuple[Value, ...] = ()

    def place(self) -> tuple:
        """Return the path within its file system, and that file system for pyarrow."""
        from pyarrow.fs import LocalFileSystem

        if not is_url(self.path):
            return self.path, LocalFileSystem()
        system, path = open_url(self.path)
        return path, for_pyarrow(system)

    def stamp(self) -> str:
        """Return a text that changes when the file does: its size and time, or the key of its remote file system."""
        with reading(self.name):
            if is_url(self.path):
                system, path = open_url(self.path)
                return system.ukey(path)
            status = os.stat(self.path)
            return f"{status.st_size} bytes, {status.st_mtime_ns} ns"

    def open(self, **options):
        """Open the file and read its footer; checksums of pages are verified where present."""
        with lock:  # threads that import the same module at once may find half of it
            from pyarrow.parquet import ParquetFile

        with reading(self.name):
            path, system = self.place()
            return ParquetFile(path, filesystem=system, page_checksum_verification=True, **options)

    def add_values(self, table, names):
        """Append the requested partition columns that are not in the file to a table of its rows."""
        import pyarrow as pa

        for column, value, whole in self.values:
            if column in names and column not in table.column_names:
                scalar = pa.scalar(value, pa.int64() if whole else pa.string())
                table = table.append_column(column, pa.repeat(scalar, table.num_rows))
        return table


def visible(names: list, named, only: bool = False) -> list:
    """Return the columns to read from a file: the requested ones, or all but row numbers."""
    refuse_twice(names)
    return [name for name in names if name in named or not (only or is_row_number(name))]


def refuse_other_formats(parts: tuple[Part, ...]) -> None:
    odd = next((part.name for part in parts if part.name.lower().endswith(_NOT_PARQUET)), None)
    if odd is not None:
        raise ValueError(
            f"{odd} is not a Parquet file; folders, URLs and what is read chunk by chunk must be Parquet: convert it "
            "once, for example with polars.scan_csv('table.csv').sink_parquet('table.parquet'), or load it whole"
        )


def find_parts(source) -> tuple[Part, ...]:
    """Find the Parquet files of a path, pattern, folder, URL, or a list of them, with the values that folders name.

    Files are sorted, and each is listed once. Files and folders whose names start with ``_`` or ``.`` are not data.
    Values are whole numbers if all values of a column are and no two become one: ``01`` to ``12`` are, but ``01`` and
    ``1`` are two texts.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for year in ("year=2020", "year=2019", "_log"):
    ...     (folder / year).mkdir()
    ...     (folder / year / "part-0.parquet").touch()
    >>> [part.values[0][:2] for part in find_parts(folder)]
    [('year', 2019), ('year', 2020)]
    """
    names: dict[str, str] = {}
    for entry in _sources(source):
        entries = expand_url(str(entry)) if is_url(entry) else [(str(path), _walk(path)) for path in find_files(entry)]
        for place, below in entries:
            for name in [place] if below is None else _parquet_files(place, below):
                # a worker may stand in another folder
                names.setdefault(name if is_url(name) else os.path.abspath(name), name)
    texts = [_texts(name) for name in names.values()]
    columns = {column for values in texts for column in values}
    whole = set()
    for column in columns:
        values_of_column = {text for values in texts if (text := values.get(column))}
        if all(re.fullmatch("-?[0-9]{1,18}", text) for text in values_of_column) and len(
            set(map(int, values_of_column))
        ) == len(values_of_column):
            whole.add(column)
    return tuple(
        Part(path, name, tuple(Value(c, int(v) if v and c in whole else v, c in whole) for c, v in values.items()))
        for (path, name), values in zip(names.items(), texts, strict=True)
    )


def is_data_set(source) -> bool:
    """Return whether a source, or one of a list of them, is a folder or a URL."""
    return any(is_url(path) or Path(path).expanduser().is_dir() for path in _sources(source))


def _texts(name: str) -> dict[str, str | None]:
    pairs = [folder.split("=", 1) for folder in re.split(r"[/\\]", name)[:-1] if re.match("[^=]+=", folder)]
    return {unquote(column): None if value in ("", _NULL) else unquote(value) for column, value in pairs}


def _walk(folder: Path) -> list[str] | None:
    """List all files below a folder; None for a file."""
    if not folder.is_dir():
        return None
    files = []
    for root, folders, names in os.walk(folder, followlinks=True):
        files += [str(Path(root) / name) for name in names]
        # links are followed, but not back up: there would be no end
        folders[:] = [
            folder_name
            for folder_name in folders
            if not Path(root).resolve().is_relative_to(Path(root, folder_name).resolve())
        ]
    return sorted(files)


def _parquet_files(folder: str, names: list[str]) -> list[str]:
    """Return the Parquet files below a folder."""
    below = {name: Path(name).relative_to(folder).parts for name in names}
    shown = [name for name, steps in below.items() if not any(step.startswith(HIDDEN) for step in steps)]
    parquet = [name for name in shown if name.lower().endswith(PARQUET)]
    if not parquet:
        contents = f"but {len(shown):,} other{'s' * (len(shown) > 1)}, such as {shown[0]}" if shown else "nor any other"
        raise FileNotFoundError(
            f"the folder {folder} has no Parquet file (named *.parquet), {contents}; "
            "tables of other types are read by a path or a pattern such as 'folder/*.csv'"
        )
    return parquet
