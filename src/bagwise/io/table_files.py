"""Find the files of a source, and read them as one pyarrow table; errors name the file."""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import narwhals as nw
import pyarrow as pa

from bagwise.bags.frames import kind_of, refuse_twice
from bagwise.bags.validation import ParameterError
from bagwise.first_use import lock
from bagwise.io.columns import Roles, refuse_unknown

# File name endings by format. Archives of arrays are read by `array_files` and `matlab_files`.
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
TABLES = (*SEPARATORS, ".parquet", ".feather", ".arrow")
ARCHIVES = (".mat", ".npz")
PARQUET = (".parquet", ".parq", ".pq")
NOT_PARQUET = (*SEPARATORS, ".feather", ".arrow", *ARCHIVES, ".xlsx", ".xls", ".json")
HEAD = 1 << 16  # bytes of a text file that are searched for leading zeros
LINE = 1 << 30  # largest block that is parsed at once, in bytes; a line must fit into it
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # a server other than Amazon's that implements S3
HIDDEN = ("_", ".")  # first characters of the names of files that are not data
NULL = "__HIVE_DEFAULT_PARTITION__"  # folder name by which Hive, Spark and Arrow denote a missing value


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Convert the errors that libraries raise for a damaged file into one message that names the file."""
    try:
        yield
    except (ImportError, PermissionError):
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}") from error
    except MemoryError as error:
        raise MemoryError(
            f"there is not enough memory to read {path}; read fewer columns with features=. It may be damaged ({error})"
        ) from error
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:
        detail = str(error).strip().split("\n")[0] or type(error).__name__
        is_unicode = isinstance(error, UnicodeError) or "utf" in detail.lower()
        hint = "; if it is a table, save it as UTF-8" if is_unicode else ""
        raise ValueError(
            f"{path} cannot be read; it may be cut short, damaged, or of another format ({detail}){hint}"
        ) from error


def read_files(source, roles: Roles, *, only: bool = False, decimal: str = ".") -> pa.Table | None:
    """Read all files of a source as one table; None for an archive (.mat, .npz), which is no table.

    Row numbers and partition columns are read only if they have a role. With ``only``, the same holds for all columns
    of Parquet files.
    """
    named, parts = roles.asked(), find_parts(source)
    paths = [part.name for part in parts]
    if all(map(is_parquet, paths)) or any(map(is_url, paths)):
        refuse_other_formats(parts)
        tables = [part.read(named, only) for part in parts]
    else:
        tables = [read_table(Path(path), roles.ids(), named, only=only, decimal=decimal) for path in paths]
        archive = next((path for path, table in zip(paths, tables, strict=True) if table is None), None)
        if archive is not None:
            if len(paths) > 1:
                raise ValueError(f"several files must be tables ({', '.join(TABLES)}); {Path(archive).name} is not one")
            return None
        if all(path.lower().endswith(tuple(SEPARATORS)) for path in paths):
            tables = _agree_on_ids(tables, paths, roles.ids())
    pa.default_memory_pool().release_unused()  # Arrow keeps the memory of its readers, twice the size of the table
    return tables[0] if len(tables) == 1 else stack(tables, paths)


def read_table(path: Path, ids=(), named=(), *, only: bool = False, decimal: str = "."):
    """Read the table of a file as in `read_files`; None for an archive of arrays."""
    endings = (*TABLES, *ARCHIVES)
    ending = next((ending for ending in endings if path.name.lower().endswith(ending)), None)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise ValueError(f"{path.name} is a spreadsheet, which is not read; export the sheet as .csv")
    if ending is None:
        raise ValueError(f"{path.name} is of no known type; the known endings are {', '.join(endings)}")
    if ending in ARCHIVES:
        return None
    if ending == ".parquet":
        return Part(str(path), str(path)).read(named, only)
    table = read_csv(path, SEPARATORS[ending], ids, decimal) if ending in SEPARATORS else read_arrow(path)
    with reading(path):  # names that are not UTF-8 raise an error here
        return table.select(visible(table.column_names, named))


def visible(names: list, named, only: bool = False) -> list:
    """Return the columns to read from a file: the requested ones, or all but row numbers."""
    refuse_twice(names)
    return [name for name in names if name in named or not (only or is_row_number(name))]


def is_row_number(name: str) -> bool:
    """Return whether a column is the unnamed row numbers that pandas writes."""
    return name == "" or name.startswith(("__index_level_", "Unnamed: "))


def read_csv(path: Path, separator: str, ids=(), decimal: str = "."):
    """Read a text file; a column of ids becomes integers only if each value is written as a plain integer, else text.

    So distinct ids stay distinct and are returned as written: "007", "1.10", "1e5", "true", or 20 digits.
    """
    import pyarrow.compute as pc

    with reading(path), _opened(path) as file:
        header = b"".join(file.readline(LINE).splitlines()[:1])  # lines may end in a bare carriage return
    if decimal == "," and separator == "," and b";" in header:
        separator = ";"
    _refuse_other_separator(path, header, separator)
    with reading(path):
        table = _parse_csv(path, separator)
        refuse_twice(table.column_names)
        read = [name for name in ids if name in table.column_names and not pa.types.is_string(table[name].type)]
        texts = _parse_csv(path, separator, read) if read else table
        for name in read:
            column, text = table[name], texts[name]
            whole = pc.match_substring_regex(text.filter(column.is_valid()), r"^\s*(?:0|-?[1-9][0-9]*)\s*$")
            if column.type != pa.int64() or not pc.all(whole).as_py():
                # Keep missing values missing; as text they would become an id such as NA.
                text = pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string()))
                table = table.set_column(table.column_names.index(name), name, text)
        return table


def _opened(path: Path):
    return (gzip.open if path.name.lower().endswith(".gz") else open)(path, "rb")


def _refuse_other_separator(path: Path, header: bytes, separator: str) -> None:
    names = {";": ";", "\t": "tab", ",": ","}
    for mark, name in names.items():
        if mark != separator and mark.encode() in header and separator.encode() not in header:
            way = ", or decimal=',' if its decimals are commas" if mark == ";" else ""
            raise ParameterError(
                "decimal",
                f"{path} is separated by {name!r}, not by {names[separator]!r}; .csv files are read with commas and "
                f".tsv files with tabs (decimals with a point): save it so, or pass pandas.read_csv(..., sep={mark!r})"
                f"{way}",
            )


def _parse_csv(path: Path, separator: str, as_text=None):
    from pyarrow import csv

    options = {"parse_options": csv.ParseOptions(delimiter=separator)}
    if as_text is not None:
        types = dict.fromkeys(as_text, pa.string())
        options["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=as_text)
    try:
        return csv.read_csv(path, **options)
    except pa.ArrowInvalid:
        # A line may be longer than a block, or a later block may not have the types inferred from the first one.
        # Try the whole file as one block.
        return csv.read_csv(path, **options, read_options=csv.ReadOptions(block_size=LINE))


def zero_padded(source) -> dict[str, str]:
    """Return a dict from each column of text files with leading zeros in its first lines to one of these numbers."""
    columns: dict[str, str] = {}
    for path in find_files(source):
        name = path.name.lower()
        if not name.endswith(tuple(SEPARATORS)) or not path.exists():
            continue
        with reading(path), _opened(path) as file:
            lines = file.read(HEAD).decode("utf-8-sig", "replace").splitlines()
        mark = "\t" if ".tsv" in name else ";" if ";" in lines[0] and "," not in lines[0] else ","
        for row in csv.DictReader(lines[:-1] or lines, delimiter=mark):
            padded = {name: text.strip() for name, text in row.items() if re.fullmatch(r"\s*0[0-9]+\s*", str(text))}
            columns = padded | columns
    return columns


def read_arrow(path: Path):
    """Read an Arrow (Feather) file, or an Arrow stream, which has no magic bytes at the start."""
    from pyarrow import feather

    with reading(path), pa.OSFile(str(path)) as file:
        is_stream = file.read(4) not in (b"ARRO", b"FEA1")
        file.seek(0)
        table = pa.ipc.open_stream(file).read_all() if is_stream else feather.read_table(file, memory_map=False)
        table.validate()  # lengths in a damaged file may exceed its buffers
        return table


def stack(tables: list[pa.Table], paths: list[str]) -> pa.Table:
    """Stack the rows of all files, with columns matched by name and types that hold all values exactly."""
    names = tables[0].column_names
    for table, path in zip(tables[1:], paths[1:], strict=True):
        columns = table.column_names
        lost, added = [n for n in names if n not in columns], [n for n in columns if n not in names]
        if lost or added:
            clauses = [f"lacks {', '.join(lost[:5])}"] if lost else []
            clauses += [f"adds {', '.join(added[:5])}"] if added else []
            raise ValueError(f"{path} {' and '.join(clauses)}; all files need the columns of the first, {paths[0]}")
    stacked = []
    for name in names:
        parts = [table.select([name]) for table in tables]
        types = [part.schema.field(0).type for part in parts]
        if len(set(types)) > 1 and all(kind_of(kind) == "String" for kind in types):  # Arrow has three types of text
            parts = [part.cast(pa.schema([(name, pa.large_string())])) for part in parts]
        try:
            stacked.append(pa.concat_tables(parts, promote_options="permissive")[0])
        except pa.ArrowException as error:
            other = next(k for k, kind in enumerate(types) if kind != types[0])
            raise ValueError(
                f"column {name!r} is {types[0]} in {paths[0]} but {types[other]} in {paths[other]}, and no type holds "
                "the values of both; give it one type"
            ) from error
    return pa.table(stacked, names)


def _agree_on_ids(tables: list[pa.Table], paths: list[str], ids: list) -> list[pa.Table]:
    """Convert ids to text if they are text in any file; refuse ids such as 7 in one file and 7.0 or 007 in another."""
    for name in ids:
        columns = [table[name] for table in tables if name in table.column_names]
        if len(columns) < len(tables) or len({column.type for column in columns}) == 1:
            continue  # `stack` says what is missing
        path_of_number: dict = {}
        for column, path in zip(columns, paths, strict=True):
            if pa.types.is_integer(column.type):
                path_of_number |= dict.fromkeys(map(Decimal, column.drop_null().unique().to_pylist()), path)
        for column, path in zip(columns, paths, strict=True):
            for text in column.cast(pa.string()).drop_null().unique().to_pylist():
                number = _as_number(text)
                if number in path_of_number and text != f"{number:.0f}":
                    raise ValueError(
                        f"column {name!r} has {number:.0f} in {path_of_number[number]} and {text} in {path}: "
                        "the same number in two forms would be two ids; write it in the same form in all files"
                    )
        tables = [
            table.set_column(table.column_names.index(name), name, column.cast(pa.string()))
            for table, column in zip(tables, columns, strict=True)
        ]
    return tables


def _as_number(text: str) -> Decimal | None:
    try:
        number = Decimal(text.replace("_", "?"))  # Decimal would ignore underscores
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


# Finding files -------------------------------------------------------------------------------------------------------


def find_files(source) -> list[Path]:
    """Find the files of a path, a pattern with ``*``, ``?`` or ``[``, or a list of either, each once.

    Wildcards do not match names that begin with ``_`` or ``.``, because such files are not data.
    """
    paths: dict[str, Path] = {}
    for entry in _sources(source):
        path = Path(entry).expanduser()
        matches = [path]
        if glob.has_magic(str(path)) and not path.exists():
            matches = [Path(name) for name in shown(glob.glob(str(path), recursive=True), str(path), path)]
        for match in matches:
            paths.setdefault(os.path.abspath(match), match)
    return list(paths.values())


def _sources(source) -> list:
    """Return the paths, patterns and URLs of a source as a list."""
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise ValueError("the list of files is empty; give at least one path or pattern")
    return sources


def shown(names: list[str], pattern: str, source) -> list[str]:
    """Return the sorted matches of a pattern; hidden names match only pieces that begin with ``_`` or ``.``."""
    pieces = [piece for piece in re.split(r"[/\\]", pattern) if piece.startswith(HIDDEN)]

    def is_visible(step: str) -> bool:
        return not step.startswith(HIDDEN) or any(fnmatchcase(step, piece) for piece in pieces)

    visible_names = [name for name in sorted(names) if all(map(is_visible, re.split(r"[/\\]", name)))]
    if not visible_names:
        hint = f"; {min(names)} is hidden: write out the _ or ." if names else ""
        raise FileNotFoundError(f"no file matches {source}{hint}")
    return visible_names


def is_url(source) -> bool:
    return "://" in str(source)


def is_parquet(name: str) -> bool:
    return name.lower().endswith(PARQUET)


def open_url(url: str) -> tuple:
    """Return the fsspec file system of a URL, and the path within it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"reading {url} needs fsspec: pip install 'bagwise[dask]'") from error
    try:
        return url_to_fs(url)
    except ImportError as error:  # s3fs, gcsfs or adlfs is not installed: try pyarrow
        scheme, _, path = url.partition("://")
        system = _of_pyarrow(scheme, path.partition("/")[0], *map(os.environ.get, ENDPOINTS))
        if system is None:
            raise ImportError(f"reading {url} needs another package ({error})") from error
        return system, path.rstrip("/")
    except ValueError as error:
        raise ValueError(f"{url} names no file system that fsspec knows ({error})") from error


@lru_cache(maxsize=16)  # a file system holds connections
def _of_pyarrow(scheme: str, bucket: str, *endpoints: str | None):
    """Return a pyarrow file system wrapped for fsspec, or None; it finds credentials in the usual places."""
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
    full = str if "file" in protocols else system.unstrip_protocol
    return [(full(entry), files and [full(file) for file in files]) for entry, files in zip(names, below, strict=True)]


# A Parquet data set: files of a folder, a pattern or a URL, and partition values that their folders name --------------


class Value(NamedTuple):
    """The value of a partition column, from a folder ``column=value``; an integer if it is one in all files."""

    column: str
    value: int | str | None
    whole: bool


@dataclass(frozen=True)
class Part:
    """A Parquet file: path, name for messages, and partition values. It is small, because it is sent to workers."""

    path: str
    name: str
    values: tuple[Value, ...] = ()

    def place(self) -> tuple:
        """Return the path within its file system, and that file system for pyarrow."""
        from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

        if not is_url(self.path):
            return self.path, LocalFileSystem()
        from fsspec.implementations.arrow import ArrowFSWrapper

        system, path = open_url(self.path)
        return path, system.fs if isinstance(system, ArrowFSWrapper) else PyFileSystem(FSSpecHandler(system))

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
        with lock:  # another thread may see a module that is only partly imported
            from pyarrow.parquet import ParquetFile

        with reading(self.name):
            path, system = self.place()
            return ParquetFile(path, filesystem=system, page_checksum_verification=True, **options)

    def read(self, named: list, only: bool):
        """Read the requested columns and partition values of the file, or all columns."""
        with self.open() as file:
            names = file.schema_arrow.names
            refuse_unknown([*names, *(value.column for value in self.values)], named if only else [], used=named)
            with reading(self.name):
                columns = visible(names, named, only)
                return self.add_values(file.read(columns=columns).select(columns), named)

    def add_values(self, table, names):
        """Append the requested partition columns that are not in the file to a table of its rows."""
        for column, value, whole in self.values:
            if column in names and column not in table.column_names:
                scalar = pa.scalar(value, pa.int64() if whole else pa.string())
                table = table.append_column(column, pa.repeat(scalar, table.num_rows))
        return table


def refuse_other_formats(parts: tuple[Part, ...]) -> None:
    odd = next((part.name for part in parts if part.name.lower().endswith(NOT_PARQUET)), None)
    if odd is not None:
        raise ValueError(
            f"{odd} is not a Parquet file; folders, URLs and tables read in chunks must be Parquet: convert it "
            "once, for example with polars.scan_csv('table.csv').sink_parquet('table.parquet'), or load it whole"
        )


def find_parts(source) -> tuple[Part, ...]:
    """Find the Parquet files of a path, pattern, folder, URL, or a list of them, with the values that folders name.

    A column becomes integers only if all its values are integers and stay distinct: ``01`` and ``1`` remain text.
    """
    names: dict[str, str] = {}
    for entry in _sources(source):
        entries = expand_url(str(entry)) if is_url(entry) else [(str(path), _walk(path)) for path in find_files(entry)]
        for place, below in entries:
            for name in [place] if below is None else _parquet_files(place, below):
                # workers may have another working directory
                names.setdefault(name if is_url(name) else os.path.abspath(name), name)
    texts_of_files = []
    for name in names.values():
        pairs = [folder.split("=", 1) for folder in re.split(r"[/\\]", name)[:-1] if re.match("[^=]+=", folder)]
        texts_of_files.append({unquote(c): None if text in ("", NULL) else unquote(text) for c, text in pairs})
    whole = set()
    for column in {column for texts in texts_of_files for column in texts}:
        distinct = {text for texts in texts_of_files if (text := texts.get(column))}
        are_whole = all(re.fullmatch("-?[0-9]{1,18}", text) for text in distinct)
        if are_whole and len(set(map(int, distinct))) == len(distinct):
            whole.add(column)
    return tuple(
        Part(path, name, tuple(Value(c, int(v) if v and c in whole else v, c in whole) for c, v in texts.items()))
        for (path, name), texts in zip(names.items(), texts_of_files, strict=True)
    )


def _walk(folder: Path) -> list[str] | None:
    """List all files below a folder; None for a file."""
    if not folder.is_dir():
        return None
    files = []
    for root, folders, names in os.walk(folder, followlinks=True):
        files += [str(Path(root) / name) for name in names]
        here = Path(root).resolve()  # follow links, except to a parent folder, which would never end
        folders[:] = [name for name in folders if not here.is_relative_to(Path(root, name).resolve())]
    return sorted(files)


def _parquet_files(folder: str, names: list[str]) -> list[str]:
    """Return the Parquet files below a folder."""
    below = {name: Path(name).relative_to(folder).parts for name in names}
    shown = [name for name, steps in below.items() if not any(step.startswith(HIDDEN) for step in steps)]
    parquet = list(filter(is_parquet, shown))
    if not parquet:
        contents = f"but {len(shown):,} other{'s' * (len(shown) > 1)}, such as {shown[0]}" if shown else "nor any other"
        raise FileNotFoundError(
            f"the folder {folder} has no Parquet file (named *.parquet), {contents}; "
            "tables of other types are read by a path or a pattern such as 'folder/*.csv'"
        )
    return parquet
