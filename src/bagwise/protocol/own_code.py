"""What a function or class does, taken apart: bytecode, constants, defaults, closures, bases, and what it names.

A result depends on code that no version tells: a script, a notebook, a package that is being written. Its file may hold
more than what counts, and two functions on one line have the same source; so the code itself is taken, as it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dis import get_instructions
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from sysconfig import get_path
from types import CodeType, FunctionType, ModuleType

from bagwise.protocol.fingerprints import LIBRARY

_STANDARD = ("stdlib", "platstdlib")
# What Python notes of a class: nothing that it computes by, and some of it comes with use.
_NOTES = {
    "__dict__",
    "__weakref__",
    "__module__",
    "__qualname__",
    "__doc__",
    "__annotations__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "__firstlineno__",
    "__static_attributes__",
    "__abstractmethods__",
    "_abc_impl",
    "__slotnames__",
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
