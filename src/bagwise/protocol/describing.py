"""Values, estimators above all, as text: what a result depends on beside the data, the same in every process."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from types import FunctionType, MethodType, ModuleType

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.protocol.fingerprints import digest
from bagwise.protocol.own_code import class_parts, function_parts, is_own, with_release


@cache
def _cached():
    """For its type only."""


def describe(value) -> str:
    """A value, an estimator above all, with every parameter, as text that is equal if and only if the value is.

    Functions and classes that are told by no version are told by what they do (see `own_code`), and any other object by
    its class and by what pickle would keep of it; what cannot be kept, such as a lock, by its class. What a function or
    class of one's own names is part of it, so one that counts its calls in a global is another one after each.

    Examples
    --------
    >>> from sklearn.linear_model import Lasso
    >>> describe({"b": Lasso, "a": [1.0, None]})
    "{'a': [1.0, None], 'b': sklearn.linear_model._coordinate_descent.Lasso}"
    >>> describe(Lasso(alpha=2)) == describe(Lasso(alpha=3))
    False
    """
    return _text(value, {})


def _text(value, seen: dict) -> str:
    """``seen`` holds what was met on the way: a function may name itself, and no id may come twice."""
    if value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        return repr(value)
    if id(value) not in seen:
        seen[id(value)] = value, f"as {len(seen)} above"
        seen[id(value)] = value, _written(value, seen)
    return seen[id(value)][1]


def _written(value, seen: dict) -> str:
    if isinstance(value, BaseEstimator):
        parameters = sorted(value.get_params(deep=False).items())
        return f"{_text(type(value), seen)}({', '.join(f'{name}={_text(one, seen)}' for name, one in parameters)})"
    if isinstance(value, type):
        return _name(value, class_parts(value) if is_own(value.__module__) else (), seen)
    if isinstance(value, FunctionType):
        return _name(value, function_parts(value), seen)
    if isinstance(value, ModuleType):
        return with_release(value.__name__, value.__name__)
    return _CONTAINERS.get(type(value), _object)(value, seen)


def _name(value, parts: tuple, seen: dict) -> str:
    """Where a class or function lives, and a hash of what it is made of."""
    code = f"#{digest(_text(parts, seen))[:8]}" if parts else ""
    return with_release(f"{value.__module__}.{value.__qualname__}", value.__module__) + code


def _object(value, seen: dict) -> str:
    """Anything else: a hash of what pickle would keep of it, which may be long."""
    wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
    if wrapped is not None and (isinstance(value, type(_cached)) or type(value).__module__.startswith("numba.")):
        parts = type(value), wrapped, getattr(value, "targetoptions", None)  # what it has cached or compiled is no part
    else:
        parts = _kept(value)
    return f"{type(value).__qualname__}:{digest(_text(parts, seen))}"


def _kept(value) -> tuple:
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if hasattr(value, "detach"):  # a tensor: what pickle keeps of it has an address
        return type(value), str(value.dtype), value.detach().cpu().double().numpy()
    if isinstance(value, MethodType | classmethod | staticmethod):
        return type(value), value.__func__, getattr(value, "__self__", None)
    try:
        made = value.__reduce_ex__(4)
    except Exception:  # a lock, an open file: it decides no number
        return (type(value),)
    if isinstance(made, str):  # the name of something that is there once, such as a compiled function
        module = str(getattr(value, "__module__", None))
        return type(value), with_release(f"{module}.{made}", module)
    make, args, state, items, pairs = (*made, None, None, None)[:5]
    return make, args, state, items and list(items), pairs and dict(pairs)


def _dict(value: dict, seen: dict) -> str:
    pairs = sorted(((_text(key, seen), one) for key, one in value.items()), key=itemgetter(0))
    return "{" + ", ".join(f"{key}: {_text(one, seen)}" for key, one in pairs) + "}"


def _list(value: list | tuple, seen: dict) -> str:
    left, right = "[]" if isinstance(value, list) else "()"
    return left + ", ".join(_text(one, seen) for one in value) + right


def _set(value: set | frozenset, seen: dict) -> str:
    inside = sorted(_text(one, dict(seen)) for one in value)  # a set has no order, so no element knows of another
    return f"{type(value).__name__}({', '.join(inside)})"


def _array(value: np.ndarray, seen: dict) -> str:
    if value.dtype.hasobject:
        return f"array{value.shape}:{_list(value.ravel().tolist(), seen)}"
    return f"array{value.shape}:{digest(value)}"


_CONTAINERS = {dict: _dict, list: _list, tuple: _list, set: _set, frozenset: _set, np.ndarray: _array}
