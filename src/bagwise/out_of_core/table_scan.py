"""`scan`: a table larger than memory as chunks, of which only the schema and the footers are read at first."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from bagwise.bags import Bags
from bagwise.bags.frames import FrameColumns, as_list
from bagwise.io.columns import refuse_unknown
from bagwise.io.conditions import as_where
from bagwise.io.load import names_files
from bagwise.io.parquet import find_parts, refuse_other_formats, require_pyarrow
from bagwise.out_of_core.chunks import (
    Chunk,
    FileRows,
    Layout,
    TableRows,
    agree,
    asked_for,
    choose,
    cut,
    cut_bags,
    read_footers,
)


@dataclass(frozen=True)
class Scan:
    """A table larger than memory, by chunks: what `scan` returns.

    Attributes
    ----------
    chunks : tuple of Chunk
        Each reads itself, block by block, on whichever process it lands.
    feature_names : tuple of str
    bag, target, groups : names of columns, or None
    dtype : float32 if every feature column is, else float64
    n_rows : the rows of all files, by their footers, before ``where``
    """

    chunks: tuple[Chunk, ...]
    feature_names: tuple[str, ...]
    bag: str
    target: str | None
    groups: str | None
    dtype: np.dtype
    n_rows: int

    def __repr__(self) -> str:
        rows = [getattr(chunk, "rows", None) for chunk in self.chunks]
        files = len({one.part.path for one in rows if isinstance(one, FileRows)})
        where = f" of {_count(files, 'file')}" if files else ""
        return (
            f"Scan: {_count(self.n_rows, 'row')} in {_count(len(self.chunks), 'chunk')}{where}, "
            f"{_count(len(self.feature_names), 'feature')} ({self.dtype})"
        )


def scan(
    source, *, bag=None, target=None, features=None, ignore=(), groups=None, where=None, chunk_rows=1_000_000
) -> Scan:
    """A table larger than memory, to be read chunk by chunk; now only its schema and footers are.

    A chunk is a run of row groups of one Parquet file, or a slice of a table in memory. Of the file only the columns
    with a role are read, a block of rows at a time, and a bag may be spread over chunks and files in any order.

    Parameters
    ----------
    source : path, pattern, folder, URL, list of them, data frame, or Bags
        Parquet files. A folder is searched to the bottom; what starts with ``_`` or ``.`` is no data. URLs are those of
        fsspec (``s3://bucket/pixels``). A folder named ``year=2020`` gives the files in it a column ``year``, which can
        be the bag, the groups, a feature, or stand in ``where``; its values are whole numbers if all are written so,
        and no two become one. In a pattern a wildcard stands for no ``_`` or ``.`` at the start of a name. Of `Bags`
        the ids and groups are taken.
    bag, target, groups : columns
        As for `load`; for `Bags`, ``target`` is the array of targets and ``bag`` is left out.
    features : columns, optional
        Default: every numeric column that is not the bag, target or groups, nor ignored. A column that folders name is
        a feature only if it is named here: it says where the data lie.
    ignore : columns to leave out of the default features
    where : text, or list of tuples, optional
        Which rows are read: ``"year >= 2019 and site == 'A'"``, ``[("year", ">=", 2019), ("site", "==", "A")]``, or
        lists of such lists, of which one holds. Files and row groups that cannot have such a row are not read. A null
        satisfies no condition. At most 250 conditions; a list behind "in" is one, however long.
    chunk_rows : int
        The most rows of a chunk, unless one row group has more.

    Returns
    -------
    Scan

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "aod": [0.3, 0.1, 0.3], "red": [1.0, 2.0, 3.0]})
    >>> table = bw.scan(frame, bag="site", target="aod", chunk_rows=2)
    >>> table
    Scan: 3 rows in 2 chunks, 1 feature (float64)
    >>> ids, codes = table.chunks[0].bags()
    >>> ids.tolist(), codes.tolist()
    (['b', 'a'], [0, 1])
    >>> next(table.chunks[0].blocks(target=True)).y.tolist()
    [0.3, 0.1]
    """
    chunk_rows = _whole(chunk_rows)
    if isinstance(source, Bags):
        others = {"bag": bag, "features": features, "ignore": ignore, "groups": groups, "where": where}
        return _scan_bags(source, target, chunk_rows, others)
    roles, where = {"bag": bag, "target": target, "groups": groups}, as_where(where)
    options = {"features": features, "ignore": ignore, "where": where, "chunk_rows": chunk_rows}
    return (_scan_files if names_files(source) else _scan_frame)(source, roles, **options)


def _scan_files(source, roles: dict, *, features, ignore, where, chunk_rows) -> Scan:
    parts = find_parts(source)
    refuse_other_formats(parts)
    footers = read_footers(parts)
    asked = asked_for(roles, features, ignore, where)
    refuse_unknown(footers[0].names, asked, taken=as_list(features or []))
    only = features is not None and roles["bag"] is not None
    schema = agree(footers, asked, only=only)
    folders = [name for name in (where.names if where else ()) if name not in footers[0].schema.names]
    names = choose(FrameColumns(schema.empty_table()), roles, features, [*as_list(ignore), *folders])
    where = None if where is None else where.fitting(schema)
    runs = [run for footer in footers for run in cut(footer, footer.kept(where, schema), chunk_rows)]
    return _gather(runs, schema, roles, names, where, sum(sum(footer.sizes) for footer in footers))


def _scan_frame(frame, roles: dict, *, features, ignore, where, chunk_rows) -> Scan:
    columns = FrameColumns(frame)
    require_pyarrow("a table chunk by chunk")
    refuse_unknown(columns.names, where.names if where else [])
    names = choose(columns, roles, features, ignore)
    table = _as_arrow(columns, roles, asked_for(roles, names, (), where))
    where = None if where is None else where.fitting(table.schema)
    runs = [TableRows(table.slice(start, chunk_rows), start) for start in range(0, table.num_rows, chunk_rows)]
    roles = {role: None if name is None else str(name) for role, name in roles.items()}
    return _gather(runs, table.schema, roles, [str(name) for name in names], where, table.num_rows)


def _scan_bags(bags: Bags, y, chunk_rows: int, others: dict) -> Scan:
    given = [name for name, value in others.items() if value not in (None, (), [])]
    if given:
        raise ValueError(f"{given[0]}= chooses among the columns of a table; Bags have chosen already, leave it out")
    chunks = cut_bags(bags, y, chunk_rows)
    names = bags.feature_names or tuple(f"x{j + 1}" for j in range(bags.n_features))
    target, groups = None if y is None else "target", None if bags.groups is None else "groups"
    return Scan(chunks, names, "bag", target, groups, bags.dtype, bags.n_instances)


def _gather(runs: list, schema, roles: dict, names: list, where, n_rows: int) -> Scan:
    if not runs:
        raise ValueError(
            "the table has no rows; there is nothing to make bags of"
            if n_rows == 0
            else f"no row can satisfy where: it leaves out all {n_rows:,} rows"
        )
    layout = Layout.of(schema, roles, names, where)
    chunks = tuple(Chunk(run, layout) for run in runs)
    return Scan(chunks, layout.features, **roles, dtype=layout.dtype, n_rows=n_rows)


def _as_arrow(columns: FrameColumns, roles: dict, names: list):
    """Those columns of a data frame as a pyarrow table, labels as they are and all others as the numbers they hold."""
    import pyarrow as pa

    types, others = columns.frame.schema, [name for name in names if name not in (roles["bag"], roles["groups"])]
    numbers = [columns.column(name) for name in others if columns.column(name).dtype != types[name]]
    chosen = nw.maybe_reset_index(columns.frame.select([nw.col(name) for name in names]))  # no index as a column
    chosen = chosen.with_columns(*numbers)
    try:
        return chosen.to_arrow().rename_columns([str(name) for name in names])
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"the table cannot be cut into chunks; give every column one type ({error})") from error


def _whole(chunk_rows: Any) -> int:
    """As an int, also from 1e6."""
    is_number = isinstance(chunk_rows, Real)
    if not is_number or not chunk_rows >= 1 or chunk_rows % 1 != 0:
        raise ValueError(f"chunk_rows must be a whole number, at least 1, not {chunk_rows!r}")
    return int(chunk_rows)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
