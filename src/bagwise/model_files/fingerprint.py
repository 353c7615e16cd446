"""Text that identifies what a stored result depends on: the data, the library and the method.

- `of_data`: a hash of bags and targets.
- `of_library`: versions, and a hash of the source of bagwise.
- `describe`: an estimator with all its parameters. Classes of bagwise appear under the stable names of
  `model_files.names`, installed packages by their version. Code without a version (scripts, notebooks, packages in
  development) is identified by its compiled code and the globals that it names.

The text is the same in every process.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib.metadata import distributions, packages_distributions, version
from operator import itemgetter
from pathlib import Path
from sysconfig import get_path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import bagwise
from bagwise.bags import Bags
from bagwise.model_files.names import OURS, stable_name

# Packages that compute our numbers: the name to import -> the name to install. `of_library` has their versions.
LIBRARY = {
    "bagwise": "bagwise",
    "sklearn": "scikit-learn",
    "numpy": "numpy",
    "scipy": "scipy",
    "numba": "numba",
    "torch": "torch",
}


def digest(*parts) -> str:
    """Return a short hash of texts and arrays in their order."""
    total = blake2b(digest_size=16)
    raw: Any
    for part in parts:
        if isinstance(part, np.ndarray):
            kind, raw = f"{part.dtype.str}{part.shape}", np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        else:
            kind, raw = "text", str(part).encode()
        total.update(f"{kind}:{len(raw)};".encode())
        total.update(raw)
    return total.hexdigest()


def of_library() -> str:
    """Return the versions of bagwise and its numeric dependencies, and a hash of the source of bagwise."""
    bagwise_version = f"bagwise {bagwise.__version__}+{_source_of_bagwise()}"
    return ", ".join([bagwise_version, *[f"{name} {number}" for name, number in _versions_of_library().items()]])


@cache
def _source_of_bagwise() -> str:
    return source_hash(Path(bagwise.__file__).parent)


def source_hash(folder: Path) -> str:
    """Return a hash of all Python files below a folder.

    Any change to the source invalidates stored results. A number raised by hand could be forgotten, and old results
    would then be taken for new ones; a hash that changes too often only costs time.
    """
    files = sorted(folder.rglob("*.py"))
    return digest(*[part for file in files for part in (file.relative_to(folder).as_posix(), file.read_bytes())])[:8]


@cache
def _versions_of_library() -> dict[str, str]:
    installed = {name: next(iter(distributions(name=name)), None) for name in LIBRARY.values() if name != "bagwise"}
    return {name: distribution.version for name, distribution in installed.items() if distribution is not None}


def versions() -> dict[str, str]:
    """Return the versions that a record of results mentions; stored results are found by `of_library` alone."""
    system = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    return {"bagwise": bagwise.__version__} | _versions_of_library() | system


def of_data(bags: Bags, y: np.ndarray) -> str:
    """Return the hash of bags and targets: values, order, ids, groups, names, weights, covariates, imputation.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1)), np.ones((1, 1))])
    >>> of_data(bags, np.array([1.0, 2.0])) == of_data(bags, np.array([1.0, 2.5]))
    False
    """
    labels = [_labels(bags.ids), "no groups" if bags.groups is None else _labels(bags.groups), bags.feature_names]
    labels += ["impute"] * (bags.missing == "impute")
    optional = {"weights": bags.weights, "covariates": bags.covariates, "names": bags.covariate_names}
    present = [part for name, value in optional.items() if value is not None for part in (name, value)]
    return digest(bags.instances, bags.offsets, y, *labels, *present)


def _labels(values: np.ndarray):
    return repr(values.tolist()) if values.dtype.kind in "OM" else values


# Code without a version ----------------------------------------------------------------------------------------------

# Entries of a class that do not affect what it computes; some of them appear only when the class is used.
_BOOKKEEPING = {
    *("__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
    *("__abstractmethods__", "_abc_impl", "__slotnames__"),
}


@cache
def released_version(package: str) -> str | None:
    """Return the version of an installed package, "" if other parts of a key have it, None for code without one."""
    module = sys.modules.get(package)
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    if package in LIBRARY or package in sys.builtin_module_names:
        return ""
    if {"site-packages", "dist-packages"} & set(Path(place).parts):
        names = packages_distributions().get(package, ())
        return version(names[0]) if names else None
    standard = [Path(get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    return "" if place and any(Path(place).resolve().is_relative_to(folder) for folder in standard) else None


def has_version(module: str | None) -> bool:
    return released_version(_package(module)) is not None


def _package(module: str | None) -> str:
    return str(module).partition(".")[0]


def _with_version(name: str, module: str | None) -> str:
    number = released_version(_package(module))
    return f"{name}@{number}" if number else name


def _function_parts(function: FunctionType) -> tuple:
    """Return what decides the results of a function besides its arguments; imports inside it are not followed."""
    closure = [_cell_value(cell) for cell in function.__closure__ or ()]
    if has_version(function.__module__):
        return tuple(closure)
    names, namespace = _names(function.__code__), function.__globals__
    named = {name: namespace[name] for name in sorted(names & set(namespace))}
    defaults = function.__defaults__, function.__kwdefaults__, vars(function)
    return _code_parts(function.__code__), defaults, closure, named


def _class_parts(kind: type) -> tuple:
    return tuple(
        base
        if has_version(base.__module__)
        else {name: value for name, value in vars(base).items() if name not in _BOOKKEEPING}
        for base in kind.__mro__
    )


def _code_parts(code: CodeType) -> tuple:
    constants = [_code_parts(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_exceptiontable, counts, names, constants


def _names(code: CodeType) -> set[str]:
    """Return all names in the code, of globals as of attributes."""
    return set(code.co_names).union(
        *[_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    )


def _cell_value(cell):
    try:
        return cell.cell_contents
    except ValueError:  # a variable without a value yet
        return None


# Values as text ------------------------------------------------------------------------------------------------------


def describe(value) -> str:
    """Return text that is equal for two values, estimators above all, if and only if they compute the same.

    Objects other than estimators, containers, functions and classes are described by their class and what pickle would
    store. A function without a version includes the globals that it names, so one that counts its calls in a global
    has another description after each call.

    Examples
    --------
    >>> from sklearn.linear_model import Lasso
    >>> describe({"b": Lasso, "a": [1.0, None]})
    "{'a': [1.0, None], 'b': sklearn.linear_model._coordinate_descent.Lasso}"
    >>> describe(Lasso(alpha=2)) == describe(Lasso(alpha=3))
    False
    """
    return _text(value, {})


def _text(value, described: dict) -> str:
    """Return the text of a value; ``described`` holds the values on the way, because a function may name itself."""
    if value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        return repr(value)
    if id(value) not in described:
        described[id(value)] = value, f"as {len(described)} above"  # with the value, so that its id is not used again
        described[id(value)] = value, _new_text(value, described)
    return described[id(value)][1]


def _new_text(value, described: dict) -> str:
    if isinstance(value, BaseEstimator):
        parameters = sorted(value.get_params(deep=False).items())
        pairs = [f"{name}={_text(element, described)}" for name, element in parameters]
        return f"{_text(type(value), described)}({', '.join(pairs)})"
    if isinstance(value, type):
        return _name(value, () if has_version(value.__module__) else _class_parts(value), described)
    if isinstance(value, FunctionType):
        return _name(value, _function_parts(value), described)
    if isinstance(value, ModuleType):
        place = None if has_version(value.__name__) else getattr(value, "__file__", None)
        source = f"#{digest(Path(place).read_text(encoding='utf-8'))[:8]}" if place else ""
        return _with_version(value.__name__, value.__name__) + source
    return _CONTAINERS.get(type(value), _object)(value, described)


def _name(value, parts: tuple, described: dict) -> str:
    """Return the stable name of a class of ours, or the place of a class or function and a hash of its code."""
    if name := stable_name(value.__module__, value.__qualname__):
        return f"{OURS}.{name}"
    code = f"#{digest(_text(parts, described))[:8]}" if parts else ""
    return _with_version(f"{value.__module__}.{value.__qualname__}", value.__module__) + code


def _object(value, described: dict) -> str:
    wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
    if wrapped is not None and (
        isinstance(value, type(_source_of_bagwise)) or type(value).__module__.startswith("numba.")
    ):
        parts = type(value), wrapped, getattr(value, "targetoptions", None)  # not what it has cached or compiled
    else:
        parts = _pickled_parts(value)
    return f"{type(value).__qualname__}:{digest(_text(parts, described))}"


def _pickled_parts(value) -> tuple:
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if hasattr(value, "detach"):  # a tensor, whose pickle has an address
        return type(value), str(value.dtype), value.detach().cpu().double().numpy()
    if isinstance(value, MethodType | classmethod | staticmethod):
        return type(value), value.__func__, getattr(value, "__self__", None)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # a lock or an open file, which decides no result
        return (type(value),)
    if isinstance(reduced, str):  # the name of a global, such as a compiled function
        module = str(getattr(value, "__module__", None))
        return type(value), _with_version(f"{module}.{reduced}", module)
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    return make, arguments, state, items and list(items), pairs and dict(pairs)


def _dict(value: dict, described: dict) -> str:
    pairs = sorted(((_text(key, described), element) for key, element in value.items()), key=itemgetter(0))
    return "{" + ", ".join(f"{key}: {_text(element, described)}" for key, element in pairs) + "}"


def _list(value: list | tuple, described: dict) -> str:
    opening, closing = "[]" if isinstance(value, list) else "()"
    return opening + ", ".join(_text(element, described) for element in value) + closing


def _set(value: set | frozenset, described: dict) -> str:
    elements = sorted(_text(item, dict(described)) for item in value)  # each with its own copy: a set has no order
    return f"{type(value).__name__}({', '.join(elements)})"


def _array(value: np.ndarray, described: dict) -> str:
    if value.dtype.hasobject:
        return f"array{value.shape}:{_list(value.ravel().tolist(), described)}"
    return f"array{value.shape}:{digest(value)}"


_CONTAINERS: dict[type, Callable[[Any, dict], str]] = {
    dict: _dict,
    list: _list,
    tuple: _list,
    set: _set,
    frozenset: _set,
    np.ndarray: _array,
}
