"""What is imported or compiled at its first use: once, and by one thread at a time.

Packages whose modules import each other may be seen half made by a second thread that imports them meanwhile, and
`functools.cache` lets two threads that miss it both do the work. So every import and every compilation that waits for
its first use, and that a thread may come to, is done under this one lock. Whoever starts threads asks for what they
need before: then the work is not done while the others wait.

No module asks for the lock while it is being imported: it would wait, with the import of itself unfinished, for a
thread that may wait for just that import. So the names that packages export (`exported`) are loaded without it, as an
import statement would load them; those of bagwise itself, which users ask for, with it.
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


def exported(package: str, modules: dict[str, tuple[str, ...]], *, aliases=None, renamed=None, locked=False):
    """``__getattr__`` and ``__dir__`` of a package: a name is loaded from its module when it is first asked for.

    So importing one module of a package does not import what all its others need. A type checker does not follow
    this: the package imports the same names under ``if TYPE_CHECKING:``. A name must not be that of a module of the
    package, which takes its place as soon as the module is imported.

    Parameters
    ----------
    package : name of the package
    modules : the names that each of its modules has
    aliases : modules to be imported by a name, those of another place too
    renamed : old names, which give a DeprecationWarning, and the new ones
    locked : whether names are loaded under the lock: for a package that users ask, and no module being imported

    Examples
    --------
    >>> get, names = exported("json", {"decoder": ("JSONDecoder",)})
    >>> get("JSONDecoder").__module__
    'json.decoder'
    """
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names}
    aliases, renamed = aliases or {}, renamed or {}
    find = once(import_module) if locked else import_module

    def get(name: str):
        if name in renamed:
            from warnings import warn

            new = renamed[name]
            text = f"{package}.{name} is now {package}.{new}; the old name will be removed"
            warn(text, DeprecationWarning, stacklevel=2)
            return get(new)
        if name in aliases:
            return import_module(aliases[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(find(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        there = vars(sys.modules[package])
        return sorted({*(name for name in there if not aliases or name.startswith("__")), *homes, *aliases})

    return get, names
