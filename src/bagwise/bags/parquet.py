"""Parquet files that make up one table: opening them, what their folders say of them, reading them whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import narwhals as nw

from bagwise.bags.choosing import refuse_twice, refuse_unknown
from bagwise.bags.reading import is_row_number, reading
from bagwise.bags.several import stack
from bagwise.bags.urls import is_url, open_url
from bagwise.first_use import lock

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


def read_parts(parts: tuple[Part, ...], asked: list, *, only: bool) -> nw.DataFrame:
    """One table of all parts: the columns asked for, or all but row numbers; of partition columns those asked for."""
    refuse_other_formats(parts)
    return stack([_read(part, asked, only) for part in parts], [part.name for part in parts])


def _read(part: Part, asked: list, only: bool) -> nw.DataFrame:
    with part.open() as file:
        there = file.schema_arrow.names
        refuse_unknown([*there, *(value.column for value in part.values)], asked if only else [], taken=asked)
        with reading(part.name):
            own = visible(there, asked, only)
            return nw.from_native(part.add_values(file.read(columns=own).select(own), asked), eager_only=True)


def visible(names: list, asked: list, only: bool) -> list:
    """The columns of a file that are read: those asked for, or all but row numbers."""
    refuse_twice(names)
    return [name for name in names if name in asked or not (only or is_row_number(name))]


def refuse_other_formats(parts: tuple[Part, ...]) -> None:
    odd = next((part.name for part in parts if part.name.lower().endswith(_OTHERS)), None)
    if odd is not None:
        raise ValueError(
            f"{odd} is no Parquet file; folders, URLs and what is read chunk by chunk must be Parquet: convert it "
            "once, for example with polars.scan_csv('table.csv').sink_parquet('table.parquet'), or load it whole"
        )


def require_pyarrow(name) -> None:
    try:
        with lock:
            import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(f"reading {name} needs pyarrow: pip install 'bagwise[arrow]'") from error
