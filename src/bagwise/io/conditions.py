"""Conditions on the rows to read, as tuples or as one text such as ``year >= 2019 and site == 'A'``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import and_, or_

import numpy as np
import pyarrow as pa

# Largest number of conditions. pyarrow evaluates them recursively, and 1,000 overflow a thread stack of 512 kB.
MOST = 250
OPERATORS = ("==", "=", "!=", "<=", ">=", "<", ">", "in", "not in")

# One condition of a text: a name, an operator, and a value, or several values in brackets.
_NUMBER, _QUOTED = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", r"'[^']*'|\"[^\"]*\""
_VALUE = rf"(?:{_QUOTED}|{_NUMBER}|True|False)"
_CONDITION = re.compile(
    rf"\s*(?P<name>[^\W\d][\w.]*|`[^`]+`)\s*(?P<operator>==|=|!=|<=|>=|<|>|\bnot\s+in\b|\bin\b)\s*"
    rf"(?P<value>{_VALUE}|\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*,?\s*\))\s*(?P<and>\band\b|$)"
)


@dataclass(frozen=True)
class Where:
    """Lists of conditions (column, operator, value); a row satisfies all conditions of at least one list."""

    any_of: tuple[tuple[tuple, ...], ...]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for all_of in self.any_of for name, _, _ in all_of))

    def expression(self):
        """Return the conditions as an expression of pyarrow; a null satisfies none."""
        return reduce(or_, [reduce(and_, map(_expression, all_of)) for all_of in self.any_of])

    def holds(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which rows satisfy the conditions, for columns that are arrays; a missing value satisfies none."""
        from pyarrow.dataset import dataset

        unknown = [name for name in self.names if name not in columns]
        if unknown:
            raise ValueError(f"where: there is no column {unknown[0]!r}; there are {', '.join(columns)}")
        table = pa.table({name: pa.array(np.asarray(columns[name]), from_pandas=True) for name in self.names})
        expression = self.fitting(table.schema).expression()
        selected = dataset(table).to_table(columns={"selected": expression})["selected"]
        return selected.fill_null(False).to_numpy(zero_copy_only=False)

    def fitting(self, schema) -> Where:
        """Convert texts to dates where a column holds dates; refuse values that a column cannot be compared with."""
        return Where(tuple(tuple(_fit(condition, schema) for condition in all_of) for all_of in self.any_of))

    def by_statistics(self, schema):
        """Return the conditions that can be checked against row group statistics, as an expression, or None."""

        def certain(condition) -> bool:  # statistics do not cover NaN, which differs from everything
            return condition[1] not in ("!=", "not in") or not pa.types.is_floating(schema.field(condition[0]).type)

        usable = tuple(tuple(condition for condition in all_of if certain(condition)) for all_of in self.any_of)
        return Where(usable).expression() if all(usable) else None


def as_where(where) -> Where:
    """Parse conditions: one text, a list of tuples (all must hold), or a list of such lists (one must hold)."""
    if isinstance(where, str):
        any_of = [_parse(where)]
    elif isinstance(where, list | tuple) and len(where):
        lists = where if all(isinstance(entry, list) for entry in where) else [where]
        any_of = [[_condition(entry, where) for entry in entries] for entries in lists]
    else:
        raise _wrong(where)
    if not all(any_of):
        raise _wrong(where)
    number = sum(map(len, any_of))
    if number > MOST:
        raise ValueError(
            f"where has {number:,} conditions, and at most {MOST:,} are taken; write values of one column as one "
            "condition, such as (column, 'in', values), or filter the table before"
        )
    return Where(tuple(map(tuple, any_of)))


def _parse(text: str) -> list[tuple]:
    conditions, position, more = [], 0, True
    while more:
        match = _CONDITION.match(text, position)
        if match is None:
            raise ValueError(
                f"where={_quoted(text)} cannot be read from {_quoted(text[position:].strip())} on; "
                "write comparisons joined by 'and', such as \"year >= 2019 and site in ('A', 'B')\"; "
                "names with blanks stand in `backquotes`"
            )
        operator, values = " ".join(match["operator"].split()), [_value(v) for v in re.findall(_VALUE, match["value"])]
        several = match["value"].startswith("(")
        if several != operator.endswith("in"):
            raise ValueError(
                f"where={_quoted(text)}: {operator!r} takes {'one value' if several else 'values in brackets'}"
            )
        conditions.append((match["name"].strip("`"), operator, values if several else values[0]))
        position, more = match.end(), bool(match["and"])
    return conditions


def _value(text: str) -> str | bool | int | float:
    """Convert a value of a text; text between quotes is taken literally."""
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def _condition(entry, where) -> tuple:
    if not isinstance(entry, tuple) or len(entry) != 3 or not isinstance(entry[0], str) or entry[1] not in OPERATORS:
        raise _wrong(where)
    if entry[1] in ("in", "not in") and (isinstance(entry[2], str) or not hasattr(entry[2], "__iter__")):
        raise ValueError(f"where: {entry[1]!r} takes a list of values, not {entry[2]!r}")
    value = list(entry[2]) if entry[1] in ("in", "not in") else entry[2]
    if any(v is None for v in (value if isinstance(value, list) else [value])):
        raise ValueError(
            f"where: column {entry[0]!r} is compared with None; a null satisfies no condition, leave it out"
        )
    return entry[0], entry[1], value


def _quoted(text: str, most: int = 200) -> str:
    return repr(text if len(text) <= most else text[:most] + " ...")


def _wrong(where) -> ValueError:
    return ValueError(
        f"where={where!r} is not understood; give a list of tuples (column, operator, value) that all hold, lists of "
        f"such lists of which one holds, or a text; operators are {', '.join(OPERATORS)}"
    )


def _expression(condition: tuple):
    from pyarrow.dataset import field
    from pyarrow.parquet import filters_to_expression

    expression = filters_to_expression([condition])
    # for pyarrow, a null is not in any list
    return expression & field(condition[0]).is_valid() if condition[1] == "not in" else expression


def _fit(condition: tuple, schema) -> tuple:
    name, operator, value = condition
    kind = schema.field(name).type
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            values = value if isinstance(value, list) else [value]
            values = [date.fromisoformat(v) if isinstance(v, str) and len(v) == 10 else v for v in values]
            values = [pa.scalar(v).cast(kind).as_py() for v in values]
            condition = name, operator, values if isinstance(value, list) else values[0]
        schema.empty_table().filter(_expression(condition))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise ValueError(f"where: column {name!r} is {kind} and cannot be {operator} {value!r}") from error
    return condition
