"""Tables that are computed when they are asked for (polars LazyFrame, DuckDB relation): only what is needed of them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import narwhals as nw

from bagwise.bags.frames import as_list
from bagwise.bags.validation import Message, Parameter
from bagwise.io.columns import Roles, refuse_unknown


def collect(frame, roles: Roles) -> tuple[object, Roles]:
    """A lazy frame with the columns that have a role, computed, and the roles without columns to ignore.

    Without named features, the columns of numbers are features, and those of other types are not computed; a warning
    names them. Anything that is not lazy comes back as it is.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.LazyFrame({"site": ["a", "a"], "red": [1.0, 2.0], "nir": [3.0, 4.0]})
    >>> collect(frame, Roles(bag="site", features=["nir"]))[0].columns
    ['site', 'nir']
    """
    try:
        lazy = nw.from_native(frame)
    except (TypeError, nw.exceptions.DuplicateError):
        return frame, roles  # whoever takes the frame says what is wrong with it
    if not isinstance(lazy, nw.LazyFrame):
        return frame, roles
    schema = lazy.collect_schema()
    if roles.bag is None:
        return lazy.head(1).collect().to_native(), roles  # for the error, which names the columns
    refuse_unknown(schema, as_list(roles.ignore), parameter="ignore")
    asked = replace(roles, ignore=()).asked()
    refuse_unknown(schema, asked)
    needed = set(asked)
    if roles.features is None:
        needed |= _features(schema, {*needed, *as_list(roles.ignore)})
    return lazy.select([name for name in schema if name in needed]).collect().to_native(), replace(roles, ignore=())


def _features(schema, taken: set) -> set:
    """The columns that hold numbers, alone or in lists; of the others, one warning."""
    others = {name: kind for name, kind in schema.items() if name not in taken}
    usable = {name for name, kind in others.items() if _is_usable(kind)}
    lost = [f"{name!r} ({kind})" for name, kind in others.items() if name not in usable]
    if lost:
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        are = "s {} are not numbers" if len(lost) > 1 else " {} is not numbers"
        text = f"column{are.format(', '.join(lost[:5]) + more)}, and left out; encode what should count, or name it in "
        warnings.warn(Message(text, Parameter("ignore")), stacklevel=5)
    return usable


def _is_usable(kind) -> bool:
    while kind == nw.List or kind == nw.Array:
        kind = kind.inner
    return kind.is_numeric() or kind == nw.Boolean
