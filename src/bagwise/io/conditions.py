"""Which rows are read: conditions on columns, as tuples or as one text such as ``year >= 2019 and site == 'A'``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from operator import and_, or_

import numpy as np

# Conditions. pyarrow walks them by recursion: with 1,000 it crashes in a thread of half a megabyte, which some systems
# give, with 10,000 anywhere.
MOST = 250
OPERATORS = ("==", "=", "!=", "<=", ">=", "<", ">", "in", "not in")

# A condition of a text: a name, an operator, and a value or several in brackets.
_NUMBER, _QUOTED = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", r"'[^']*'|\"[^\"]*\""
_VALUE = rf"(?:{_QUOTED}|{_NUMBER}|True|False)"
_CONDITION = re.compile(
    rf"\s*(?P<name>[^\W\d][\w.]*|`[^`]+`)\s*(?P<operator>==|=|!=|<=|>=|<|>|\bnot\s+in\b|\bin\b)\s*"
    rf"(?P<value>{_VALUE}|\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*,?\s*\))\s*(?P<and>\band\b|$)"
)


@dataclass(frozen=True)
class Where:
    """Conditions (column, operator, value): all those of one of the lists hold."""

    any_of: tuple[tuple[tuple, ...], ...]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for all_of in self.any_of for name, _, _ in all_of))

    def expression(self):
        """Return the conditions as an expression of pyarrow."""
        return _joined(or_, [_joined(and_, map(_expression, all_of)) for all_of in self.any_of])

    def keep(self, table):
        """Return the rows of a table that satisfy the conditions, in their order; a null satisfies none."""
        return table.filter(self.expression())

    def holds(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which rows satisfy the conditions, for columns that are arrays; a missing value satisfies none."""
        import pyarrow as pa
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
        any_of = tuple(tuple(_fit(condition, schema) for condition in all_of) for all_of in self.any_of)
        for all_of in any_of:
            for condition in all_of:
                _try(condition, schema)
        return Where(any_of)

    def by_statistics(self, schema):
        """Return the conditions that statistics of row groups can refute, as an expression, or None.

        NaN is in no statistics, but differs from everything: conditions of inequality say nothing of fractions.
        """
        import pyarrow as pa

        def certain(condition) -> bool:
            return condition[1] not in ("!=", "not in") or not pa.types.is_floating(schema.field(condition[0]).type)

        usable = tuple(tuple(condition for condition in all_of if certain(condition)) for all_of in self.any_of)
        return Where(usable).expression() if all(usable) else None


def as_where(where) -> Where | None:
    r"""Parse conditions: one text, a list of tuples that all hold, or lists of tuples of which one holds.

    Examples
    --------
    >>> as_where("year >= 2019 and site in ('A', 'B')").any_of
    ((('year', '>=', 2019), ('site', 'in', ['A', 'B'])),)
    >>> as_where([("year", ">=", 2019)]).names
    ['year']

    Text between quotes is taken literally:

    >>> print(as_where(r"path == 'C:\new'").any_of[0][0][2])
    C:\new
    """
    return None if where is None else read_where(where)


def read_where(where) -> Where:
    """Parse conditions that are not None; see `as_where`."""
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


def _joined(operator, expressions):
    """Combine expressions by pairs, and pairs of pairs, so that the depth grows with the logarithm of their number."""
    expressions = list(expressions)
    while len(expressions) > 1:
        pairs = [expressions[at : at + 2] for at in range(0, len(expressions), 2)]
        expressions = [operator(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return expressions[0]


def _expression(condition: tuple):
    from pyarrow.dataset import field
    from pyarrow.parquet import filters_to_expression

    expression = filters_to_expression([condition])
    return (
        expression & field(condition[0]).is_valid() if condition[1] == "not in" else expression
    )  # pyarrow finds no null in any list


def _fit(condition: tuple, schema) -> tuple:
    import pyarrow as pa

    name, operator, value = condition
    kind = schema.field(name).type
    if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
        return condition
    values = value if isinstance(value, list) else [value]
    try:
        values = [date.fromisoformat(v) if isinstance(v, str) and len(v) == 10 else v for v in values]
        values = [pa.scalar(v).cast(kind) for v in values]
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise _mismatch(condition, schema) from error
    return name, operator, [v.as_py() for v in values] if isinstance(value, list) else values[0].as_py()


def _try(condition: tuple, schema) -> None:
    import pyarrow as pa

    try:
        Where(((condition,),)).keep(schema.empty_table())
    except (TypeError, OverflowError, pa.ArrowException) as error:
        raise _mismatch(condition, schema) from error


def _mismatch(condition: tuple, schema) -> ValueError:
    name, operator, value = condition
    return ValueError(f"where: column {name!r} is {schema.field(name).type} and cannot be {operator} {value!r}")
