"""What a stored result depends on, as text that is the same in every process: the data, the library, the method.

- `of_data`: a hash of bags and targets.
- `of_library`: versions, and a hash of the definitions in bagwise that decide numbers. A definition counts by what it
  says, without comments and docstrings, and not by where it stands: a class or function that moves to another module
  leaves the keys of stored results as they are, and so does a module that is split or merged.
- `describe`: an estimator with all its parameters. Classes of bagwise go by the stable names of `model_files.names`.
  Code that no version tells (a script, a notebook, a package that is being written) is taken apart as it runs:
  bytecode, constants, defaults, closures, bases, and what it names. Its file may hold more than what counts, and two
  functions on one line have the same source.
"""

from __future__ import annotations

import ast
import platform
import sys
from collections.abc import Callable, Iterator
from dis import get_instructions
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

# Where numbers come from: packages, and single files of others.
_NUMERIC = (
    *("bags", "kernels", "instances", "embeddings", "regressors", "methods", "auto", "intervals", "out_of_core"),
    *[f"evaluation/{name}.py" for name in ("evaluation", "metrics", "plan", "selection", "splits")],
    *("execution/resources.py", "execution/tasks.py", "first_use.py"),
)
# Packages that numbers come from, as they are imported and as they are installed.
LIBRARY = {
    "bagwise": "bagwise",
    "sklearn": "scikit-learn",
    "numpy": "numpy",
    "scipy": "scipy",
    "numba": "numba",
    "torch": "torch",
}


def digest(*parts) -> str:
    """A short hash of texts and arrays, in their order."""
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
    """Versions of bagwise and of what it computes with, and a hash of our code, which may change before its version."""
    ours = f"bagwise {bagwise.__version__}+{_code()}"
    return ", ".join([ours, *[f"{name} {number}" for name, number in _below().items()]])


@cache
def _code() -> str:
    return code_hash(Path(bagwise.__file__).parent)


def code_hash(home: Path) -> str:
    """Of the definitions below this folder that numbers depend on, wherever they stand.

    A hash, and no number that is raised by hand when results change: one that was forgotten would hand out old results
    as new ones, where a hash that changes too often only costs time.
    """
    places = [home / name for name in _NUMERIC]
    files = [file for place in places for file in ([place] if place.suffix else place.rglob("*.py"))]
    return digest(*sorted(one for file in files for one in definitions(file.read_text(encoding="utf-8"))))[:8]


def definitions(source: str) -> list[str]:
    r"""What the statements of a module say, in their order; not its imports, exports, docstrings and comments.

    Examples
    --------
    >>> one, other = definitions("import re\nA = 1  # one"), definitions("'Two.'\n\nfrom re import sub\nA = 1")
    >>> one == other != definitions("A = 2")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    found = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return [ast.dump(node) for node in found if not _exports(node)]


def _exports(node: ast.stmt) -> bool:
    """Whether a statement says what a module or package exports: that follows the layout."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    return bool(names) and names <= {"__all__", "__getattr__", "__dir__"}


@cache
def _below() -> dict[str, str]:
    """The versions of the packages that are installed."""
    found = {name: next(iter(distributions(name=name)), None) for name in LIBRARY.values() if name != "bagwise"}
    return {name: one.version for name, one in found.items() if one is not None}


def versions() -> dict[str, str]:
    """What the numbers were computed with, to be written down; results are found by `of_library` alone."""
    system = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    return {"bagwise": bagwise.__version__} | _below() | system


def of_data(bags: Bags, y: np.ndarray) -> str:
    """The hash of bags and targets: values, order, ids, groups, names, weights and covariates.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1)), np.ones((1, 1))])
    >>> of_data(bags, np.array([1.0, 2.0])) == of_data(bags, np.array([1.0, 2.5]))
    False
    """
    labels = [_labels(bags.ids), "no groups" if bags.groups is None else _labels(bags.groups), bags.feature_names]
    beside = {"weights": bags.weights, "covariates": bags.covariates, "names": bags.covariate_names}
    carried = [part for name, value in beside.items() if value is not None for part in (name, value)]
    return digest(bags.instances, bags.offsets, y, *labels, *carried)


def _labels(values: np.ndarray):
    return repr(values.tolist()) if values.dtype.kind in "OM" else values


_STANDARD = ("stdlib", "platstdlib")
# What Python notes of a class: nothing that it computes by, and some of it comes with use.
_NOTES = {
    *("__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
    *("__abstractmethods__", "_abc_impl", "__slotnames__"),
}


def function_parts(function: FunctionType) -> tuple:
    """All that decides what a function gives beside its arguments. What is imported inside it is not followed."""
    closed = [_content(cell) for cell in function.__closure__ or ()]
    if not is_own(function.__module__):  # a version tells its code, but not what it closes over
        return tuple(closed)
    named = dict(_named(*_names(function.__code__), function.__globals__))
    given = function.__defaults__, function.__kwdefaults__, vars(function)
    return _code_parts(function.__code__), given, closed, named


def class_parts(kind: type) -> tuple:
    """The attributes of a class and of all its bases; of those that a version tells, the class alone."""
    return tuple(
        {name: value for name, value in vars(base).items() if name not in _NOTES} if is_own(base.__module__) else base
        for base in kind.__mro__
    )


def is_own(module: str | None) -> bool:
    """Whether code of this module is told by no version."""
    return _released(_package(module)) is None


def with_release(name: str, module: str | None) -> str:
    """A name with the version of the package it is of, unless that is known anyway, or none tells the code."""
    found = _released(_package(module))
    return f"{name}@{found}" if found else name


def _package(module: str | None) -> str:
    return str(module).partition(".")[0]


@cache
def _released(package: str) -> str | None:
    """The version of a package; empty if the key of a result has it, None if there is none."""
    module = sys.modules.get(package)
    home = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    installed = bool({"site-packages", "dist-packages"} & set(Path(home).parts))
    if package in LIBRARY or (package in sys.stdlib_module_names and not installed and _comes_with_python(home)):
        return ""
    if not installed:  # a script, or a package in development
        return None
    names = packages_distributions().get(package, ())
    return version(names[0]) if names else None


def _comes_with_python(home: str) -> bool:
    """By where it lies: a script of one's own may be called profile.py, too. What is built in lies nowhere."""
    return not home or any(Path(home).resolve().is_relative_to(Path(get_path(one)).resolve()) for one in _STANDARD)


def _code_parts(code: CodeType) -> tuple:
    constants = [_code_parts(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_exceptiontable, counts, names, constants


def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """Names that are looked up in the module of the code, and all names, those of attributes too."""
    inner = [_names(one) for one in code.co_consts if isinstance(one, CodeType)]
    looked_up = {step.argval for step in get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return looked_up.union(*[one for one, _ in inner]), set(code.co_names).union(*[every for _, every in inner])


def _named(names: set[str], attributes: set[str], space: dict) -> Iterator[tuple[str, object]]:
    """What the names stand for; of a module of one's own, those of its members that are named."""
    for name in sorted(names & set(space)):
        value = space[name]
        if isinstance(value, ModuleType) and is_own(value.__name__):
            members = _named(attributes - {name}, attributes - {name}, vars(value))
            yield from ((f"{name}.{inner}", one) for inner, one in members)
        else:
            yield name, value


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


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
    """The stable name of a class of ours; else where a class or function lives, and a hash of what it is made of."""
    if name := stable_name(value.__module__, value.__qualname__):
        return f"{OURS}.{name}"
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


_CONTAINERS: dict[type, Callable[[Any, dict], str]] = {
    dict: _dict,
    list: _list,
    tuple: _list,
    set: _set,
    frozenset: _set,
    np.ndarray: _array,
}
