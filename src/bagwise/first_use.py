"""Imports and compilation at first use, each done once and by one thread at a time.

`functools.cache` runs a function twice when two threads miss the cache together, and a package whose modules import
each other can be seen half imported by a second thread. Imports and compilation that several threads may trigger
therefore run under one lock. Code that starts threads loads what they need before, so that they do not wait.

Modules must not take the lock while they are being imported: another thread could hold it and wait for that import.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, wraps
from importlib import import_module
from threading import RLock

lock = RLock()  # a single one, because the imports of one feature overlap with those of another


def once(function: Callable) -> Callable:
    """Cache the results of a function, and let one thread at a time compute them; errors are not cached.

    Examples
    --------
    >>> @once
    ... def engine(name):
    ...     print("loading", name)
    ...     return name.upper()
    >>> engine("numba"), engine("numba")
    loading numba
    ('NUMBA', 'NUMBA')
    """
    cached = cache(function)

    @cache  # outside the lock, so that cached results are returned without waiting
    @wraps(function)
    def guarded(*arguments):
        with lock:
            return cached(*arguments)

    clear_guarded = guarded.cache_clear

    def cache_clear() -> None:
        cached.cache_clear()
        clear_guarded()

    vars(guarded)["cache_clear"] = cache_clear
    return guarded


def read_stub(path) -> tuple[dict[str, str], list[str]]:
    """Return the module of each public name of a package, and its ``__all__``, from its stub file."""
    with open(path, encoding="utf-8") as stub:
        body = ast.parse(stub.read()).body
    imports = [statement for statement in body if isinstance(statement, ast.ImportFrom)]
    (exported,) = (ast.literal_eval(statement.value) for statement in body if isinstance(statement, ast.Assign))
    return {alias.name: str(statement.module) for statement in imports for alias in statement.names}, exported


def attach_stub(package: str, file: str, *, locked: bool = False) -> tuple[Callable, Callable, list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package that imports its public names at first use.

    The names are those of the stub file ``__init__.pyi`` beside ``__init__.py``, which editors and type checkers read.
    It holds absolute imports and ``__all__``. A name that is also a submodule must be imported by the package itself.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    file : str
        ``__file__`` of the package.
    locked : bool, default False
        Import under the lock. For packages that are used by users and not imported by other modules.
    """
    sources, exported = read_stub(file + "i")

    def load(module: str):
        with lock if locked else nullcontext():
            return import_module(module)

    def get_attribute(name: str):
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if sources[name] == package:
            return load(f"{package}.{name}")
        value = getattr(load(sources[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def get_names() -> list[str]:
        special = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*special, *sources})

    return get_attribute, get_names, exported
