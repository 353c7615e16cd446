"""The state of an object in a plan: named attributes, none in the place of something that its class defines.

Python looks at an object before its class. So an attribute called like a method would be called instead of it, and
numpy's multiplication could stand where a tree compares the width of what it is given with the width it knows.
"""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module

from bagwise.saving.refusing import AGAIN, Refused


def check_state(node: dict, parts: dict[str, bytes]) -> None:
    """Refuse a state that is no dictionary of attributes, or has a name that the class of the object has already."""
    kind, state = _kind(node["__module__"], node["__class__"]), node.get("content")
    if state is None or (state["__loader__"], state["content"]) == ("JsonNode", "null"):
        return
    if state["__loader__"] != "DictNode":
        raise Refused(f"the state of a {kind.__name__} is not made of attributes; {AGAIN}")
    hidden = sorted(name for name in state["content"] if is_taken(kind, name))
    if hidden:
        raise Refused(f"a {kind.__name__} has a {hidden[0]!r} of its own, which its class defines; {AGAIN}")


def is_taken(kind: type, name: str) -> bool:
    """Whether a class defines this name, other than as the default of a parameter of its constructor.

    Examples
    --------
    >>> from sklearn.linear_model import LassoLars
    >>> [is_taken(LassoLars, name) for name in ("predict", "_parameter_constraints", "coef_", "positive")]
    [True, True, False, False]
    """
    return hasattr(kind, name) and name not in _parameters(kind)


@cache
def _kind(module: str, name: str) -> type:
    return getattr(import_module(module), name)


@cache
def _parameters(kind: type) -> frozenset[str]:
    return frozenset(inspect.signature(kind).parameters)
