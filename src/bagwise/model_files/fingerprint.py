"""Texts that identify the data, library and method of a stored result.

The text is the same in every process. Installed packages are identified by their version, bagwise by a hash of its
source, and functions and classes of scripts and notebooks by the code that was loaded: their file may have changed
since.
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from hashlib import blake2b
from importlib.metadata import distributions, packages_distributions, version
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
LIBRARY = {name: name for name in ("numpy", "scipy", "numba", "torch")} | {"sklearn": "scikit-learn"}


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
    numbers = {"bagwise": f"{bagwise.__version__}+{_source_of_bagwise()}"} | _versions_of_library()
    return ", ".join(map(" ".join, numbers.items()))


@cache
def _source_of_bagwise() -> str:
    return source_hash(Path(bagwise.__file__).parent)


def source_hash(folder: Path) -> str:
    """Return a hash of all Python files below a folder.

    Any change to the source invalidates stored results. A version number raised by hand could be forgotten, and old
    results would be used as current ones; a hash that changes too often only costs time.
    """
    files = sorted(folder.rglob("*.py"))
    return digest(*[part for file in files for part in (file.relative_to(folder).as_posix(), file.read_bytes())])[:8]


@cache
def _versions_of_library() -> dict[str, str]:
    installed = {name: next(iter(distributions(name=name)), None) for name in LIBRARY.values()}
    return {name: distribution.version for name, distribution in installed.items() if distribution is not None}


def versions() -> dict[str, str]:
    """Return the versions for the record of a run; the keys of stored results use only `of_library`."""
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
    parts = [bags.instances, bags.offsets, y, bags.ids, bags.groups, bags.weights, bags.covariates]
    return digest(describe([*parts, bags.feature_names, bags.covariate_names, bags.missing == "impute"]))


def describe(value) -> str:
    """Return text that is equal for two values, estimators above all, if and only if they compute the same.

    Estimators are described by their parameters, and other objects by the state that pickle would store. The text of a
    function without a version includes the globals that it uses, so it changes whenever such a global changes.

    Examples
    --------
    >>> from sklearn.linear_model import Lasso
    >>> describe({"b": Lasso, "a": [1.0, None]})
    "{'a': [1.0, None], 'b': sklearn.linear_model._coordinate_descent.Lasso}"
    >>> describe(Lasso(alpha=2)) == describe(Lasso(alpha=3))
    False
    """
    return _Describer().text(value)


class _Describer:
    """Cache of the texts of a value and its parts."""

    def __init__(self):
        self._texts: dict[int, tuple[Any, str]] = {}  # with the value, so that its id is not used again

    def text(self, value) -> str:
        if value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
            return repr(value)
        if id(value) in self._texts:
            return self._texts[id(value)][1]
        self._texts[id(value)] = value, f"as {len(self._texts)} above"  # where a value names itself
        kind = type(value)
        if isinstance(value, BaseEstimator):
            names, parts = zip(("", kind), *sorted(value.get_params(deep=False).items()), strict=True)
            place, *texts = map(self.text, parts)
            text = f"{place}({', '.join(map('{}={}'.format, names[1:], texts))})"
        elif isinstance(value, type | FunctionType | ModuleType):
            text = self._code(value)
        elif kind is dict:
            pairs = map("{}: {}".format, map(self.text, value), map(self.text, value.values()))
            text = "{" + ", ".join(sorted(pairs)) + "}"
        elif kind in (list, tuple):
            text = ("[{}]" if kind is list else "({})").format(", ".join(map(self.text, value)))
        elif kind in (set, frozenset):
            text = f"{kind.__name__}({', '.join(sorted(map(self.text, value)))})"
        elif kind is np.ndarray:
            content = self.text(value.ravel().tolist()) if value.dtype.hasobject else value
            text = f"array{value.shape}:{digest(content)}"
        else:
            text = f"{kind.__qualname__}:{digest(self.text(_parts_of_object(value)))}"
        self._texts[id(value)] = value, text
        return text

    def _code(self, value) -> str:
        """Return the stable name of a class of ours, or the place of code with its version or a hash of it."""
        is_module = isinstance(value, ModuleType)
        module, name = (value.__name__, "") if is_module else (value.__module__, value.__qualname__)
        if stable := stable_name(module, name):
            return f"{OURS}.{stable}"
        number = _version(module)
        if is_module:
            parts = () if number is not None else _source(value)
        else:
            parts = _parts_of_class(value) if isinstance(value, type) else _parts_of_function(value)
        text = f"{module}.{name}".rstrip(".") + (f"@{number}" if number else "")
        return f"{text}#{digest(self.text(parts))[:8]}" if parts else text


# Code and other objects -----------------------------------------------------------------------------------------------


@cache
def released_version(package: str) -> str | None:
    """Return the version of an installed package, "" if other parts of a key have it, None for code without one."""
    module = sys.modules.get(package)
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    if package in (OURS, *LIBRARY) or package in sys.builtin_module_names:
        return ""
    if {"site-packages", "dist-packages"} & set(Path(place).parts):
        names = packages_distributions().get(package, ())
        return version(names[0]) if names else None
    standard = [Path(get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    return "" if place and any(Path(place).resolve().is_relative_to(folder) for folder in standard) else None


def _version(module: str | None) -> str | None:
    return released_version(str(module).partition(".")[0])


def _source(module: ModuleType) -> tuple:
    place = getattr(module, "__file__", None)
    return (Path(place).read_bytes(),) if place else ()


def _parts_of_class(kind: type) -> tuple:
    """Return all attributes of a class and its bases that affect what it computes; nothing for code with a version."""
    if _version(kind.__module__) is not None:
        return ()
    attributes = vars(kind).items()  # skip attributes that Python adds, some of them only when a class is used
    return {name: part for name, part in attributes if callable(part) or not name.startswith("__")}, *kind.__bases__


def _parts_of_function(function: FunctionType) -> tuple:
    """Return all values besides its arguments that a function depends on; imports inside it are not followed."""
    closure = []
    for cell in function.__closure__ or ():
        try:
            closure.append(cell.cell_contents)
        except ValueError:  # a variable without a value yet
            closure.append(None)
    if _version(function.__module__) is not None:
        return tuple(closure)
    code, namespace = function.__code__, function.__globals__
    named = {name: namespace[name] for name in sorted(_names(code) & namespace.keys())}
    return code, function.__defaults__, function.__kwdefaults__, vars(function), closure, named


def _names(code: CodeType) -> set[str]:
    """Return all names in the code, of globals as of attributes."""
    return set(code.co_names).union(*(_names(part) for part in code.co_consts if isinstance(part, CodeType)))


def _parts_of_object(value) -> tuple:
    if isinstance(value, CodeType):
        counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
        names = value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars
        return value.co_code, value.co_exceptiontable, counts, names, value.co_consts
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, MethodType | classmethod | staticmethod):
        return value.__func__, getattr(value, "__self__", None)
    if hasattr(value, "cache_parameters") or hasattr(value, "py_func"):  # of functools, or compiled by numba
        return value.__wrapped__, getattr(value, "targetoptions", None)  # skip its cached and compiled state
    if hasattr(value, "detach"):  # a tensor, whose pickle has an address
        return str(value.dtype), value.detach().cpu().double().numpy()
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # a lock or an open file, which does not affect results
        return ()
    if isinstance(reduced, str):  # the name of a global, such as a compiled function
        module = str(getattr(value, "__module__", None))
        return module, reduced, _version(module)
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    return make, arguments, state, items and list(items), pairs and dict(pairs)
