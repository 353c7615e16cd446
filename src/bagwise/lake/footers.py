"""What the footers of Parquet files say: the columns, on which all must agree, and the row groups worth reading."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import and_

import narwhals as nw

from bagwise.bags.parquet import Part, visible
from bagwise.bags.reading import reading
from bagwise.bags.several import stack
from bagwise.lake.filters import Where
from bagwise.lake.rows import FileRows

AT_ONCE = 16  # footers of distant files are waited for together


@dataclass(frozen=True)
class Footer:
    """What is known of one file: its columns, and the number of rows of every row group."""

    part: Part
    schema: object
    sizes: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        """The columns of the file, then those its folders name."""
        return [*self.schema.names, *(v.column for v in self.part.values if v.column not in self.schema.names)]

    def empty(self, asked: list, only: bool) -> nw.DataFrame:
        """A table of the columns that are seen, without rows."""
        with reading(self.part.name):  # names that appear twice show themselves here
            table = self.schema.empty_table().select(visible(self.schema.names, asked, only))
            return nw.from_native(self.part.add_values(table, asked), eager_only=True)

    def kept(self, where: Where | None, schema) -> list[int]:
        """The row groups that are not empty, and may have a row that satisfies the conditions."""
        expression = None if where is None else where.by_statistics(schema)
        groups = range(len(self.sizes)) if expression is None else self._possible(expression, schema)
        return [k for k in groups if self.sizes[k]]

    def _possible(self, expression, schema) -> list[int]:
        import pyarrow.compute as pc
        from pyarrow.dataset import ParquetFileFormat

        values = [v for v in self.part.values if v.column not in self.schema.names and v.value is not None]
        said = [pc.field(v.column) == v.value for v in values if v.column in schema.names]
        with reading(self.part.name):
            path, system = self.part.place()
            known = reduce(and_, said) if said else None
            fragment = ParquetFileFormat().make_fragment(path, system, partition_expression=known)
            return [one.row_groups[0].id for one in fragment.split_by_row_group(expression, schema=schema)]


def read_footers(parts: tuple[Part, ...]) -> list[Footer]:
    first = _read(parts[0])  # in this thread: what reading imports is there for the others
    with ThreadPoolExecutor(min(AT_ONCE, len(parts))) as pool:
        return [first, *pool.map(_read, parts[1:])]


def _read(part: Part) -> Footer:
    with part.open() as file:
        groups = range(file.metadata.num_row_groups)
        return Footer(part, file.schema_arrow, tuple(file.metadata.row_group(k).num_rows for k in groups))


def agree(footers: list[Footer], asked: list, *, only: bool):
    """The schema of all files: every column that is seen, in a type that holds its values in all of them.

    The rules are those by which `load` stacks tables; here the tables have no rows.
    """
    kinds: dict = {}  # the first file of every kind: thousands may be of one
    for footer in footers:
        kinds.setdefault((*footer.names, *footer.schema.types, *(v.whole for v in footer.part.values)), footer)
    frames = [footer.empty(asked, only) for footer in kinds.values()]
    return stack(frames, [footer.part.name for footer in kinds.values()]).to_arrow().schema


def cut(footer: Footer, groups: list[int], most: int) -> Iterator[FileRows]:
    """Runs of consecutive row groups of at most that many rows in all; a larger row group is a run of its own."""
    for _, run in groupby(enumerate(groups), key=lambda pair: pair[1] - pair[0]):
        held: list[int] = []
        for _, k in run:
            if held and sum(footer.sizes[i] for i in [*held, k]) > most:
                yield _rows(footer, held)
                held = []
            held.append(k)
        yield _rows(footer, held)


def _rows(footer: Footer, groups: list[int]) -> FileRows:
    return FileRows(footer.part, tuple(groups), sum(footer.sizes[k] for k in groups))
