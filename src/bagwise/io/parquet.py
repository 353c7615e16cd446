"""A Parquet data set: the files of a folder, a pattern or a URL, and the partition values that their folders name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from bagwise.bags.frames import refuse_twice
from bagwise.first_use import lock
from bagwise.io.readers import HIDDEN, expand_url, find_files, is_row_number, is_url, open_url, reading

_OTHERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".feather", ".arrow", ".mat", ".npz", ".xlsx", ".xls", ".json")


class Value(NamedTuple):
    """What a folder ``column=value`` says of the files in it; whole numbers if those of all files are."""

    column: str
    value: int | str | None
    whole: bool


@dataclass(frozen=True)
class Part:
    """One Parquet file: where it lies, how messages call it, and its partition values. Little, so that it travels."""

    path: str
    name: str
    values: tuple[Value, ...] = ()

    def place(self) -> tuple:
        """The path as its file system knows it, and that file system for pyarrow."""
        from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

        if not is_url(self.path):
            return self.path, LocalFileSystem()
        system, path = open_url(self.path)
        return path, PyFileSystem(FSSpecHandler(system))

    def open(self, **options):
        """The file, its footer read; pages are compared with their checksums, where the writer left any."""
        require_pyarrow(self.name)
        from pyarrow.parquet import ParquetFile

        with reading(self.name):
            path, system = self.place()
            return ParquetFile(path, filesystem=system, page_checksum_verification=True, **options)

    def add_values(self, table, names):
        """A table of rows of this file with those of its partition columns that are named, and not in the file."""
        import pyarrow as pa

        for column, value, whole in self.values:
            if column in names and column not in table.column_names:
                scalar = pa.scalar(value, pa.int64() if whole else pa.string())
                table = table.append_column(column, pa.repeat(scalar, table.num_rows))
        return table


def visible(names: list, asked: list, only: bool) -> list:
    """The columns of a file that are read: those asked for, or all but row numbers."""
    refuse_twice(names)
    return [name for name in names if name in asked or not (only or is_row_number(name))]


def refuse_other_formats(parts: tuple[Part, ...]) -> None:
    odd = next((part.name for part in parts if part.name.lower().endswith(_OTHERS)), None)
    if odd is not None:
        raise ValueError(
            f"{odd} is not a Parquet file; folders, URLs and what is read chunk by chunk must be Parquet: convert it "
            "once, for example with polars.scan_csv('table.csv').sink_parquet('table.parquet'), or load it whole"
        )


def require_pyarrow(name) -> None:
    try:
        with lock:
            import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(f"reading {name} needs pyarrow: pip install pyarrow") from error


ENDINGS = (".parquet", ".parq", ".pq")
_WHOLE = re.compile("-?[0-9]{1,18}")
_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Hive, Spark and Arrow write a missing value as the name of a folder


def find_parts(source) -> tuple[Part, ...]:
    """The Parquet files of a path, pattern, folder, URL, or a list of them; each with the values its folders name.

    Files come in sorted order, each once, whatever it is called. Those below a folder whose own name, or that of a
    folder between, starts with ``_`` or ``.`` are no data. Values are whole numbers if all of a column are and no
    two become one: ``01`` to ``12`` are, but ``01`` and ``1`` are two texts.

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
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise ValueError("the list of files is empty; give at least one path or pattern")
    names: dict[str, str] = {}
    for name in (name for one in sources for name in _expand(one)):
        names.setdefault(name if is_url(name) else os.path.abspath(name), name)  # a worker may stand in another folder
    texts = [_texts(name) for name in names.values()]
    columns = {column for values in texts for column in values}
    whole = {c for c in columns if _are_whole({text for values in texts if (text := values.get(c))})}
    return tuple(
        Part(path, name, tuple(Value(c, int(v) if v and c in whole else v, c in whole) for c, v in values.items()))
        for (path, name), values in zip(names.items(), texts, strict=True)
    )


def _are_whole(values: set[str]) -> bool:
    return all(map(_WHOLE.fullmatch, values)) and len(set(map(int, values))) == len(values)


def is_data_set(source) -> bool:
    """Whether a source, or one of a list of them, is a folder or a URL."""
    sources = [source] if isinstance(source, str | os.PathLike) else source
    return any(is_url(one) or Path(one).expanduser().is_dir() for one in sources)


def _texts(name: str) -> dict[str, str | None]:
    pairs = [folder.split("=", 1) for folder in re.split(r"[/\\]", name)[:-1] if re.match("[^=]+=", folder)]
    return {unquote(column): None if value in ("", _NULL) else unquote(value) for column, value in pairs}


def _expand(source) -> list[str]:
    found = expand_url(str(source)) if is_url(source) else [(str(one), _walk(one)) for one in find_files(source)]
    return [name for one, below in found for name in ([one] if below is None else _data(one, below))]


def _walk(folder: Path) -> list[str] | None:
    """All files below a folder; None for a file."""
    if not folder.is_dir():
        return None
    found = []
    for root, folders, names in os.walk(folder, followlinks=True):
        found += [str(Path(root) / name) for name in names]
        # links are followed, but not back up: there would be no end
        folders[:] = [one for one in folders if not Path(root).resolve().is_relative_to(Path(root, one).resolve())]
    return sorted(found)


def _data(folder: str, names: list[str]) -> list[str]:
    """The Parquet files below a folder."""
    below = {name: Path(name).relative_to(folder).parts for name in names}
    shown = [name for name, steps in below.items() if not any(step.startswith(HIDDEN) for step in steps)]
    found = [name for name in shown if name.lower().endswith(ENDINGS)]
    if not found:
        what = f"but {len(shown):,} other{'s' * (len(shown) > 1)}, such as {shown[0]}" if shown else "nor any other"
        raise FileNotFoundError(
            f"the folder {folder} has no Parquet file (named *.parquet), {what}; "
            "tables of other types are read by a path or a pattern such as 'folder/*.csv'"
        )
    return found
