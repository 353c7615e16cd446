"""Which columns of a table are the features, and which names are wrong."""

from __future__ import annotations

from difflib import get_close_matches

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
            raise ValueError(f"there is no numeric feature column; {_list(others, 'the others are')}")
        return features
    _refuse_features(table, features, bag, target, weights)
    return features


def refuse_unknown(names, wanted, taken=()) -> None:
    """Refuse the first wanted name that is not there, and suggest the nearest one that is, and is not taken."""
    known = set(names)
    for name in wanted:
        if name not in known:
            near = get_close_matches(str(name), [str(one) for one in names if one not in taken], n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(f"there is no column {name!r}{hint}; {_list(names)}")


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
