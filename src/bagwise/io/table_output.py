"""Tables as columns by name: written as CSV or Parquet, and shown as text or HTML."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bagwise.io.atomic_files import replace_file

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a text begins that a spreadsheet may compute


def own_name(name, generic: str, taken) -> str:
    """What a table of results calls a column of the user's: as the user does, unless it has a column of that name.

    Examples
    --------
    >>> own_name("plot", "bag", ["prediction"]), own_name("prediction", "target", ["plot", "prediction"])
    ('plot', 'target')
    """
    if name is not None and not isinstance(name, list | tuple) and str(name) not in taken:  # not the names of several
        return str(name)
    while generic in taken:
        generic += "_"
    return generic


def from_rows(rows: list[dict], names: Sequence[str] = ()) -> dict[str, list]:
    """Columns from rows that have the same names; where there is no row, empty columns of these names."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else names)}


def to_rows(columns: dict[str, list]) -> list[dict]:
    """Rows from columns, with None for NaN: what JSON can hold.

    Examples
    --------
    >>> to_rows({"method": ["a"], "rmse": [float("nan")]})
    [{'method': 'a', 'rmse': None}]
    """
    rows = zip(*columns.values(), strict=True)
    return [{name: None if value != value else value for name, value in zip(columns, row, strict=True)} for row in rows]


def write_table(path, columns: dict[str, list], *, spreadsheet_safe: bool = False) -> Path:
    """Write columns to a file that ends in .csv or .parquet (which needs pyarrow); it appears whole or not at all.

    With ``spreadsheet_safe``, texts of a .csv that a spreadsheet would take for a formula begin with an apostrophe.

    Examples
    --------
    >>> import tempfile
    >>> path = write_table(tempfile.mkdtemp() + "/table.csv", {"method": ["a"], "rmse": [0.5], "error": [None]})
    >>> path.read_text().split()
    ['method,rmse,error', 'a,0.5,']
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"a table is written as .csv or .parquet, not {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if spreadsheet_safe and path.suffix == ".csv":
        columns = without_formulas(columns)

    def write(place: Path) -> None:
        if path.suffix == ".parquet":
            return _write_parquet(place, columns)
        with place.open("w", newline="", encoding="utf-8") as file:
            write_csv(file, columns)

    replace_file(path, write)
    return path


def without_formulas(columns: dict[str, list]) -> dict[str, list]:
    """The columns with an apostrophe before every text, name or value, that a spreadsheet would take for a formula.

    Examples
    --------
    >>> without_formulas({"bag": ["=1+1", "B"], "prediction": [-0.5, 2.0]})
    {'bag': ["'=1+1", 'B'], 'prediction': [-0.5, 2.0]}
    """

    def safe(value):
        return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value

    return {safe(name): [safe(value) for value in values] for name, values in columns.items()}


def write_csv(file, columns: dict[str, list]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))  # None is written as nothing


def _write_parquet(path: Path, columns: dict[str, list]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("writing Parquet needs pyarrow: pip install pyarrow; or write a .csv") from error
    with path.open("wb") as stream:  # given a name, Arrow would remove what is there when it fails, even a device
        pq.write_table(pa.table(columns), stream)


def as_text(columns: dict[str, list]) -> str:
    """Columns side by side, as text for a terminal.

    Examples
    --------
    >>> print(as_text({"method": ["aggregated", "prime"], "rmse": [0.5, 12.25], "rank": [1.0, 2.0]}))
    method      rmse   rank
    aggregated  0.5    1
    prime       12.25  2
    """
    cells = [[name, *map(shown_cell, values)] for name, values in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    lines = zip(*cells, strict=True)
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_html(columns: dict[str, list]) -> str:
    """Columns as a table of HTML, every text escaped: what a notebook shows.

    Examples
    --------
    >>> as_html({"method": ["a<b"], "rmse": [0.5]})
    '<table><tr><th>method</th><th>rmse</th></tr><tr><td>a&lt;b</td><td>0.5</td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = zip(*columns.values(), strict=True)
    body = "".join(f"<tr>{''.join(f'<td>{escape(shown_cell(one))}</td>' for one in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def duration(seconds) -> str:
    """A duration as text, from milliseconds to hours.

    Examples
    --------
    >>> duration(0.0321), duration(12.3), duration(400), duration(7300), duration(None)
    ('32 ms', '12 s', '6.7 min', '2.0 h', '–')
    """
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 0.095:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def shown_cell(value) -> str:
    """A value of a table as text: four digits of a number, "-" for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
