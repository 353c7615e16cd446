"""What is imported or compiled at its first use: once, and by one thread at a time.

Packages whose modules import each other may be seen half made by a second thread that imports them meanwhile, and
`functools.cache` lets two threads that miss it both do the work. So every import and every compilation that waits for
its first use, and that a thread may come to, is done under this one lock. Whoever starts threads asks for what they
need before: then the work is not done while the others wait.

No module asks for the lock while it is being imported: it would wait, with the import of itself unfinished, for a
thread that may wait for just that import. So the names that packages export (`exported`) are loaded without it, as an
import statement would load them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from threading import RLock

lock = RLock()  # one for all: what is loaded for one purpose may be half of what another needs


def once(function: Callable) -> Callable:
    """`functools.cache`, filled by one thread at a time; an error is not kept.

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
    known = cache(function)

    @cache  # before the lock: what is known is answered without waiting for it
    @wraps(function)
    def guarded(*arguments):
        with lock:
            return known(*arguments)

    clear = guarded.cache_clear

    def forget() -> None:
        known.cache_clear()
        clear()

    vars(guarded)["cache_clear"] = forget
    return guarded


def exported(package: str, modules: dict[str, tuple[str, ...]]) -> tuple[Callable, Callable]:
    """``__getattr__`` and ``__dir__`` of a package: a name is loaded from its module when it is first asked for.

    So importing one module of a package does not import what all its others need. A type checker does not follow
    this: the package imports the same names under ``if TYPE_CHECKING:``. A name must not be that of a module of the
    package, which takes its place as soon as the module is imported.

    Examples
    --------
    >>> get, names = exported("json", {"decoder": ("JSONDecoder",)})
    >>> get("JSONDecoder").__module__
    'json.decoder'
    """
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def get(name: str):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
