"""Numbers, durations and table columns as text: as many digits as mean something, the same for a whole column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NONE = "–"


def is_known(value) -> bool:
    """Whether there is a finite number to show."""
    return value is not None and math.isfinite(value)


def shown(value, digits: int = 3, *, sign: bool = False) -> str:
    """One number with so many significant digits.

    Examples
    --------
    >>> shown(0.073119), shown(1234.5), shown(None), shown(2.5e-9), shown(0.5, sign=True)
    ('0.0731', '1,234', '–', '2.50e-9', '+0.500')
    """
    return aligned([value], digits, sign=sign)[0]


def aligned(values: Iterable, digits: int = 3, *, sign: bool = False) -> list[str]:
    """Numbers with the same number of decimals: enough for the middle one to have so many significant digits.

    Examples
    --------
    >>> aligned([0.0731, 0.08, 1.2, None])
    ['0.0731', '0.0800', '1.2000', '–']
    """
    values = list(values)
    sizes = sorted(abs(value) for value in values if is_known(value) and value != 0)
    power = math.floor(math.log10(sizes[(len(sizes) - 1) // 2])) if sizes else 0
    plus = "+" if sign else ""
    if not -5 < power < 9:
        return [_scientific(value, digits, plus) for value in values]
    decimals = max(0, digits - 1 - power) if sizes else 0
    texts = [f"{value:{plus},.{decimals}f}" if is_known(value) else NONE for value in values]
    return [text.replace("-", "−") for text in texts]


def _scientific(value, digits: int, plus: str) -> str:
    if not is_known(value):
        return NONE
    mantissa, power = f"{value:{plus}.{digits - 1}e}".split("e")
    return f"{mantissa.replace('-', '−')}e{int(power)}"


def shown_p(value) -> str:
    """A p-value: two digits, or less than a thousandth.

    Examples
    --------
    >>> shown_p(0.0412), shown_p(1e-9), shown_p(1.0), shown_p(None)
    ('0.041', '< 0.001', '1', '–')
    """
    if not is_known(value):
        return NONE
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def percent(value, digits: int = 0) -> str:
    """A share as a percentage, on one line with its sign.

    Examples
    --------
    >>> percent(0.914), percent(None)
    ('91\\xa0%', '–')
    """
    return f"{100 * value:.{digits}f}\u00a0%" if is_known(value) else NONE


def shortened(text: str, most: int = 500) -> str:
    """A text from data, cut to a length that a page can hold.

    Examples
    --------
    >>> shortened("a" * 12, 10)
    'aaaaaaaaa…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def counted(n: int, noun: str) -> str:
    """A number and its noun.

    Examples
    --------
    >>> counted(1, "bag"), counted(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


@dataclass(frozen=True)
class Column:
    """``texts`` are shown, ``values`` (numbers or None) sort them; a column of plain text has no values.

    ``drawings`` stand before the texts; the text is the number that they show, or a drawing names it itself.
    """

    head: str
    texts: Sequence[str]
    values: Sequence[float | None] | None = None
    note: str = ""  # shown when the pointer is on the head
    drawings: Sequence[str] | None = None
    marks: Sequence[str] | None = None  # a word or two beside the text, such as "best"

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to show."""
        return self.values is not None and not any(is_known(value) for value in self.values)


def texts(head: str, texts, *, note: str = "") -> Column:
    """A column of plain text."""
    return Column(head, [shortened(str(text)) for text in texts], None, note)


def numbers(head: str, values, *, digits: int = 3, sign: bool = False, note: str = "", shown=None) -> Column:
    """A column of numbers with common decimals, or each by the function ``shown``."""
    values = [float(value) if is_known(value) else None for value in values]
    if shown is None:
        return Column(head, aligned(values, digits, sign=sign), values, note)
    texts = [NONE if value is None else shown(value) for value in values]
    return Column(head, texts, values, note)


def filled(*columns: Column) -> list[Column]:
    """Those that have something to show."""
    return [column for column in columns if not column.is_empty]
