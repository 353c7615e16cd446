"""A table for people: columns of text, with the values to sort by beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bagwise.reports.numbers import NONE, aligned, is_known, shortened


@dataclass(frozen=True)
class Column:
    """``texts`` are shown, ``values`` (numbers or None) sort them; a column without values is of words."""

    head: str
    texts: Sequence[str]
    values: Sequence[float | None] | None = None
    note: str = ""  # said when the head is hovered

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to show."""
        return self.values is not None and not any(is_known(value) for value in self.values)


def words(head: str, texts, *, note: str = "") -> Column:
    return Column(head, [shortened(str(text)) for text in texts], None, note)


def numbers(head: str, values, *, digits: int = 3, sign: bool = False, note: str = "", shown=None) -> Column:
    """Numbers with common decimals, or each as ``shown`` says it."""
    values = [float(value) if is_known(value) else None for value in values]
    if shown is None:
        return Column(head, aligned(values, digits, sign=sign), values, note)
    texts = [NONE if value is None else shown(value) for value in values]
    return Column(head, texts, values, note)


def filled(*columns: Column) -> list[Column]:
    """Those that have something to show."""
    return [column for column in columns if not column.is_empty]
