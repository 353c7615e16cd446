"""Fill values: numbers such as -9999 that stand for a missing one. Which are suspected, and how they become missing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Real

import numpy as np

# Written by instruments, archives and raster formats; any number as large as the last stands far from all data, too.
KNOWN = (-99, -999, -9999, -99999, -999.9, -9999.9, -999.99, -9999.99, 999, 9999, 99999, 999.9, 9999.9, 999.99)
KNOWN += (9999.99, -32768, -32767, 32767, 65535, -2147483648, 2147483647)
HUGE = 1e19
# An extreme is isolated if its distance from all other values is so many times their width: the second is for one
# that is not known as a fill value, which must also be repeated.
GAP, WIDE_GAP, REPEATED = 1.0, 10.0, 3
SAMPLE = 1000  # values that show the usual ones


def as_fill_values(fill_values) -> tuple[float, ...]:
    """The numbers that stand for a missing value, one or several."""
    values = fill_values if isinstance(fill_values, Iterable) and not isinstance(fill_values, str) else [fill_values]
    odd = [value for value in values if isinstance(value, bool | np.bool_) or not isinstance(value, Real | np.number)]
    if odd:
        raise TypeError(f"fill_values must be numbers such as [-9999], not {odd[0]!r}")
    return tuple(float(value) for value in values)


class FilledColumns:
    """The columns of a table (see `columns`) with NaN in place of the fill values.

    Examples
    --------
    >>> from bagwise.bags.frames import ArrayColumns
    >>> FilledColumns(ArrayColumns({"red": np.array([0.5, -9999.0])}), [-9999]).numbers("red")
    array([0.5, nan])
    """

    def __init__(self, table, fill_values):
        self._table, self._fill_values = table, fill_values

    def __getattr__(self, name):
        return getattr(self._table, name)

    def numbers(self, name) -> np.ndarray:
        return with_missing(self._table.numbers(name), self._fill_values)


def with_missing(values: np.ndarray, fill_values) -> np.ndarray:
    """The values with NaN in place of the fill values; the same array where there are none."""
    if len(fill_values) == 0 or values.dtype.kind not in "fiu":
        return values
    # in the precision of the values: -3.4e38 of a file in single precision is another number in double
    kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        marked = np.isin(values, np.array(fill_values, dtype=np.float64).astype(kind))
    return np.where(marked, np.array(np.nan, dtype=kind), values) if marked.any() else values


def suspects(values: np.ndarray) -> dict[float, int]:
    """Values of a column that look like fill values, and how often each stands there.

    A suspect is the lowest or the highest value of the column, and isolated: farther from all other values than they
    are from each other if it is one of `KNOWN` or huge; else ten times as far, outside [-1, 1], and there three
    times or more.

    Examples
    --------
    >>> suspects(np.array([0.2, 0.5, -9999.0, 0.3, -9999.0]))
    {-9999.0: 2}
    >>> suspects(np.array([-9999.0, -9000.0, 5000.0]))  # nearer to the others than they are to each other
    {}
    """
    found: dict[float, int] = {}
    if len(values) == 0 or not _ends(values):  # most columns hold none, and are not copied
        return found
    values = values[np.isfinite(values)]
    while len(values):
        ends = _ends(values)
        rest = values[~np.isin(values, [end for end in ends if is_known(end)])]
        marked = [end for end in ends if _is_isolated(end, rest[rest != end], int(np.sum(values == end)))]
        if not marked:
            break
        found |= {end: int(np.sum(values == end)) for end in marked}
        values = values[~np.isin(values, marked)]
    return found


def warn_of_suspects(columns: Iterable[tuple[str, np.ndarray]]) -> None:
    """One warning, if some columns hold what looks like fill values."""
    found = {str(name): own for name, values in columns if (own := suspects(values))}
    if found:
        warnings.warn(describe_suspects(found), UserWarning, stacklevel=5)


def describe_suspects(found: dict[str, dict[float, int]]) -> str:
    """One sentence on the suspects of some columns: the first of them, how many others, and the option."""
    name, own = next(iter(found.items()))
    value, count = next(iter(own.items()))
    times = "once" if count == 1 else f"{count:,} times"
    more = len(found) - 1
    others = f" (and {more:,} other column{'s hold' if more > 1 else ' holds'} such a value)" if more else ""
    every = ", ".join(dict.fromkeys(written(one) for values in found.values() for one in values))
    return (
        f"column {name!r} holds {written(value)} {times}{others}, which looks like a fill value for missing data; "
        f"fill_values=[{every}] makes it missing"
    )


def is_known(value: float) -> bool:
    """Whether a number is one of those that are written for missing data."""
    return abs(value) >= HUGE or any(value == float(np.float32(one)) or value == one for one in KNOWN)


def _ends(values: np.ndarray) -> list[float]:
    """The lowest and the highest value, those that are known as fill values or stand out from a few of the others."""
    some = values[:: max(1, len(values) // SAMPLE)].astype(np.float64)
    some = some[np.isfinite(some)]
    with np.errstate(over="ignore"):  # numbers whose differences are infinite are refused elsewhere
        low, high = np.quantile(some, [0.25, 0.75]) if len(some) else (0.0, 0.0)
        reach = WIDE_GAP * (high - low)
    ends = dict.fromkeys((float(np.fmin.reduce(values)), float(np.fmax.reduce(values))))
    return [end for end in ends if is_known(end) or end < low - reach or end > high + reach]


def _is_isolated(value: float, rest: np.ndarray, count: int) -> bool:
    if len(rest) == 0:
        return False
    low, high = float(rest.min()), float(rest.max())
    gap, width = max(low - value, value - high), high - low
    if is_known(value):
        return gap > GAP * width and gap > 0
    # 0 and 1 are ends of a scale more often than fill values
    return abs(value) > 1.0 and width > 0 and gap > WIDE_GAP * width and count >= REPEATED


def written(value: float) -> str:
    """A number as a user would give it."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
