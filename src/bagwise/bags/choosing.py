"""Which columns of a table are the features, and which names are wrong."""

from __future__ import annotations

from difflib import get_close_matches

import narwhals as nw

_USABLE = ("number", "list", "vector")


def choose_features(table, *, bag, target, groups, features, ignore, weights=None) -> list:
    """The feature columns: those asked for, or every numeric one that has no other role."""
    ignore, features = as_list(ignore), None if features is None else as_list(features)
    if bag is None:
        raise ValueError(f"bag= is needed: the column that says which bag a row belongs to; {_list(table.names)}")
    roles = [name for name in (bag, target, groups, weights) if name is not None]
    refuse_unknown(table.names, [*roles, *ignore, *(features or [])], taken=features or ())
    if target == bag:
        raise ValueError(f"column {bag!r} cannot be both the bag id and the target")
    if features is None:
        kinds = {name: table.kind(name) for name in table.names if name not in {*roles, *ignore}}
        features = [name for name, kind in kinds.items() if kind in _USABLE]
        if not features:
            others = [f"{name} ({kind})" for name, kind in kinds.items()]
            what = _list(others, "the others are") if others else "every column has another role, or is ignored"
            raise ValueError(f"there is no numeric feature column; {what}")
        return features
    _refuse_features(table, features, bag, target, weights)
    return features


def refuse_unknown(names, wanted, taken=()) -> None:
    """Refuse the first wanted name that is not there, and suggest the nearest one that is, and is not taken."""
    known = set(names)
    for name in wanted:
        if name not in known:
            near = _nearest(str(name), [str(one) for one in names if one not in taken])
            hint = f" (did you mean {near!r}?)" if near else ""
            raise ValueError(f"there is no column {name!r}{hint}; {_list(names)}")


def _nearest(name: str, names: list[str]) -> str | None:
    """The name that differs in case only, or the nearest in spelling."""
    same = [one for one in names if one.lower() == name.lower()]
    return next(iter(same or get_close_matches(name, names, n=1)), None)


def refuse_twice(names) -> None:
    """Refuse columns of which two have one name; one that is unnamed is no column but row numbers."""
    unnamed = list(names).count("")
    if unnamed > 1:
        raise nw.exceptions.DuplicateError(f"{unnamed} columns have no name; name them, or take them out of the table")
    seen: set = set()
    again = next((name for name in names if name != "" and (name in seen or seen.add(name))), None)
    if again is not None:
        raise nw.exceptions.DuplicateError(f"two columns have the same name, {again!r}; names must be distinct")


def as_list(names) -> list:
    """One name, or several."""
    return [names] if isinstance(names, str | int) else list(names)


def _refuse_features(table, features, bag, target, weights) -> None:
    if not features:
        raise ValueError("features is empty; name at least one column, or leave it out to take every numeric one")
    for name, role in ((bag, "bag id"), (target, "target"), (weights, "instance weight")):
        if name is not None and name in features:
            raise ValueError(f"column {name!r} is the {role}; it cannot be a feature as well")
    odd = {name: table.kind(name) for name in features if table.kind(name) not in (*_USABLE, "boolean")}
    if odd:
        named = ", ".join(f"{name!r} ({kind})" for name, kind in list(odd.items())[:5])
        raise TypeError(f"not numeric: {named}; encode them as numbers, or leave them out of features")


def _list(names, verb: str = "the columns are", most: int = 20) -> str:
    shown = ", ".join(str(name) for name in list(names)[:most])
    return f"{verb} {shown or 'none'}" + (f", ... ({len(names)} in all)" if len(names) > most else "")
