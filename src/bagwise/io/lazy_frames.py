"""Tables that are computed when they are asked for (polars LazyFrame, DuckDB relation): only what is needed of them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import narwhals as nw

from bagwise.bags.frames import FrameColumns, as_list
from bagwise.bags.validation import Message
from bagwise.io.columns import Roles, left_out, refuse_unknown
from bagwise.io.encodings import PARTS


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
    needed = {name for name in schema if any(_is_made_of(name, one) for one in asked)}
    if roles.targets is None:  # else they may be columns of the second table, and whoever joins it says what is not
        refuse_unknown(schema, [one for one in asked if not any(_is_made_of(name, one) for name in needed)])
    if isinstance(roles.categories, str) and roles.categories == "auto":
        needed |= {name for name, kind in schema.items() if kind in (nw.String, nw.Categorical, nw.Enum)}
    needed -= set(as_list(roles.ignore)) - set(asked)
    if roles.features is None:
        needed |= _features(schema, roles, {*needed, *as_list(roles.ignore)})
    return lazy.select([name for name in schema if name in needed]).collect().to_native(), replace(roles, ignore=())


def _is_made_of(name: str, asked) -> bool:
    """Whether a column is asked for, or a level or a part of a date that is made of it: crop=wheat, sown_year."""
    return name == asked or str(asked).startswith((f"{name}=", *(f"{name}_{part}" for part in PARTS)))


def _features(schema, roles: Roles, taken: set) -> set:
    """The columns that hold numbers, alone or in lists; of the others, one warning."""
    usable = {name for name, kind in schema.items() if name not in taken and _is_usable(kind)}
    others = [name for name in schema if name not in usable and name not in taken]
    notes = left_out(_empty(schema, others), replace(roles, ignore=()), [])
    if notes:
        warnings.warn(Message(*[part for note in notes for part in ("; ", note)][1:]), stacklevel=5)
    return usable


def _empty(schema, names: list) -> FrameColumns:
    """Columns of the types of a lazy frame, without a row."""
    import pyarrow as pa

    fields = []
    for name in names:
        try:
            fields.append(nw.Schema({name: schema[name]}).to_arrow().field(0))
        except (NotImplementedError, TypeError):  # a type that Arrow does not have
            fields.append(pa.field(name, pa.null()))
    return FrameColumns(pa.schema(fields).empty_table())


def _is_usable(kind) -> bool:
    while kind == nw.List or kind == nw.Array:
        kind = kind.inner
    return kind.is_numeric() or kind == nw.Boolean
