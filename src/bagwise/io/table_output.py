"""Write tables (columns by name) as CSV or Parquet, format them as text or HTML, and format numbers and names."""

from __future__ import annotations

import csv
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bagwise.bags.frames import to_frame
from bagwise.io.atomic_files import replace_file

NONE = "–"
MOST_ROWS = 10  # largest number of rows shown in a notebook
HIDDEN = (
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
)  # Unicode categories of control and format characters, surrogates and separators
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")  # first characters of texts that a spreadsheet may compute


def own_name(name, generic: str, names_in_use) -> str:
    """Return the user's name of a column for a table of results, or the generic name if the user's name is in use."""
    if name is not None and not isinstance(name, list | tuple) and str(name) not in names_in_use:
        return str(name)
    while generic in names_in_use:
        generic += "_"
    return generic


def without_controls(text: str) -> str:
    """Return a text with control and invisible characters escaped, except line breaks and tabs."""
    hidden = [sign for sign in set(text) - {"\n", "\t"} if unicodedata.category(sign) in HIDDEN]
    return text.translate({ord(sign): sign.encode("unicode_escape").decode() for sign in hidden}) if hidden else text


def from_rows(rows: list[dict], names: Sequence[str] = ()) -> dict[str, list]:
    """Convert rows with the same keys to columns; without rows, return empty columns with the given names."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else names)}


def to_rows(columns: dict[str, list]) -> list[dict]:
    """Convert columns to rows, with None for NaN, as JSON needs."""
    rows = zip(*columns.values(), strict=True)
    return [{name: None if value != value else value for name, value in zip(columns, row, strict=True)} for row in rows]


def write_table(path, columns: dict[str, list], *, spreadsheet_safe: bool = False) -> Path:
    """Write columns to a file that ends in .csv or .parquet; the write is atomic."""
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"a table is written as .csv or .parquet, not {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(place: Path) -> None:
        if path.suffix == ".csv":
            with place.open("w", newline="", encoding="utf-8") as file:
                return write_csv(file, columns, spreadsheet_safe=spreadsheet_safe)
        import pyarrow as pa  # slow to import, and most commands write no table
        import pyarrow.parquet as pq

        with place.open("wb") as stream:  # with a path, Arrow would remove even a device when it fails
            pq.write_table(pa.table(columns), stream)

    replace_file(path, write)
    return path


def write_csv(file, columns: dict[str, list], *, spreadsheet_safe: bool = False) -> None:
    """Write columns as CSV, with nothing for None.

    With ``spreadsheet_safe``, an apostrophe is put before names and texts that a spreadsheet would read as a formula.
    """

    def cell(value):
        is_formula = spreadsheet_safe and isinstance(value, str) and value.startswith(FORMULAS)
        return f"'{value}" if is_formula else value

    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(cell, columns))
    writer.writerows(map(cell, row) for row in zip(*columns.values(), strict=True))


def as_text(columns: dict[str, list], width: int | None = None) -> str:
    """Format columns side by side; columns that do not fit into ``width`` are left out, but never the first two."""
    cells = [[name, *map(shown_cell, values)] for name, values in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    while width is not None and len(cells) > 2 and sum(widths) + 2 * (len(widths) - 1) > width:
        cells.pop(), widths.pop()
    lines = zip(*cells, strict=True)
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


class Text(str):
    """A multi-line string that a terminal and a notebook show without quotes and escapes."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Table:
    """Mixin of results that are a table, with their columns by name in `as_dict`."""

    def as_dict(self) -> dict:
        """Return the columns of `table` by name."""
        raise NotImplementedError

    def table(self):
        """Return a pandas data frame, a polars one without pandas, or without both the dict of `as_dict`."""
        return to_frame(self.as_dict())

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the text of the result and its first rows."""
        columns = {name: list(values) for name, values in self.as_dict().items()}
        n_more = len(next(iter(columns.values()))) - MOST_ROWS
        more = f"<p>and {n_more:,} more rows; table() has all of them</p>" if n_more > 0 else ""
        rows = as_html({name: values[:MOST_ROWS] for name, values in columns.items()})
        return f"<pre>{escape(repr(self))}</pre>{rows}{more}"


def as_html(columns: dict[str, list]) -> str:
    """Format columns as an HTML table, with all text escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = zip(*columns.values(), strict=True)
    body = "".join(f"<tr>{''.join(f'<td>{escape(shown_cell(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def shown_cell(value) -> str:
    """Format a value of a table: numbers with four digits, a dash for a missing value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Numbers as text, and columns of a page -------------------------------------------------------------------------------


def is_known(value) -> bool:
    """Return whether a value is a finite number."""
    return value is not None and math.isfinite(value)


def shown(value, digits: int = 3, *, sign: bool = False) -> str:
    """Format one number with a number of significant digits."""
    return aligned([value], digits, sign=sign)[0]


def aligned(values: Iterable, digits: int = 3, *, sign: bool = False) -> list[str]:
    """Format numbers with the same number of decimals, such that the median has ``digits`` significant digits."""
    values = list(values)
    sizes = sorted(abs(value) for value in values if is_known(value) and value != 0)
    power = math.floor(math.log10(sizes[(len(sizes) - 1) // 2])) if sizes else 0
    plus, texts = "+" if sign else "", []
    decimals = max(0, digits - 1 - power) if sizes else 0
    for value in values:
        if not is_known(value):
            texts.append(NONE)
        elif -5 < power < 9:
            texts.append(f"{value:{plus},.{decimals}f}".replace("-", "−"))
        else:
            mantissa, exponent = f"{value:{plus}.{digits - 1}e}".split("e")
            texts.append(f"{mantissa.replace('-', '−')}e{int(exponent)}")
    return texts


def shown_p(value) -> str:
    """Format a p-value: two digits, or less than a thousandth."""
    if not is_known(value):
        return NONE
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def percent(value, digits: int = 0) -> str:
    """Format a share as a percentage, on one line with its sign."""
    return f"{100 * value:.{digits}f}\u00a0%" if is_known(value) else NONE


def duration(seconds) -> str:
    """Format a duration, from milliseconds to hours."""
    if not is_known(seconds):
        return NONE
    if seconds < 0.095:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def shortened(text: str, most: int = 500) -> str:
    """Return a text, cut to a maximum length."""
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True)
class Column:
    """A table column: ``texts`` are shown, and ``values`` (numbers or None) are the sort keys; plain text has none.

    ``drawings`` stand before the texts. A text states the number that its drawing shows, unless the drawing does.
    """

    head: str
    texts: Sequence[str]
    values: Sequence[float | None] | None = None
    note: str = ""  # shown when the pointer is over the column header
    drawings: Sequence[str] | None = None
    marks: Sequence[str] | None = None  # a word or two beside the text, such as "best"


def texts(head: str, texts, *, note: str = "") -> Column:
    """Make a column of plain text."""
    return Column(head, [shortened(str(text)) for text in texts], None, note)


def numbers(head: str, values, *, digits: int = 3, sign: bool = False, note: str = "", shown=None) -> Column:
    """Make a column of numbers with common decimals, or formatted by the function ``shown``."""
    values = [float(value) if is_known(value) else None for value in values]
    if shown is None:
        return Column(head, aligned(values, digits, sign=sign), values, note)
    texts = [NONE if value is None else shown(value) for value in values]
    return Column(head, texts, values, note)


def filled(*columns: Column) -> list[Column]:
    """Return the columns of text, and the columns of numbers that contain at least one number."""
    return [column for column in columns if column.values is None or any(map(is_known, column.values))]
