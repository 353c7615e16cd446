"""What is imported or compiled at its first use: once, and by one thread at a time.

Packages whose modules import each other may be seen half made by a second thread that imports them meanwhile, and
`functools.cache` lets two threads that miss it both do the work. So every import and every compilation that waits for
its first use, and that a thread may come to, is done under this one lock. Whoever starts threads asks for what they
need before: then the work is not done while the others wait.

No module asks for the lock while it is being imported: it would wait, with the import of itself unfinished, for a
thread that may wait for just that import.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
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

    @wraps(function)
    def guarded(*arguments):
        with lock:
            return known(*arguments)

    vars(guarded)["cache_clear"] = known.cache_clear
    return guarded
