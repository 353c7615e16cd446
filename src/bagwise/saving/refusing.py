"""One way to refuse a file: the path, what is wrong with it, and the way out, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = "save the model again, or get an unbroken copy of the file"


class Refused(ValueError):
    """What is wrong with a model file, said by us; any other error while reading means damage."""


@contextmanager
def refusing(path) -> Iterator[None]:
    """Whatever goes wrong while reading what came from a file becomes one clear ValueError.

    Examples
    --------
    >>> with refusing("a.bagwise"):
    ...     {}["schema.json"]
    Traceback (most recent call last):
    ValueError: cannot open a.bagwise: it is damaged (KeyError: 'schema.json'); save the model again, ...
    """
    try:
        yield
    except (MemoryError, ImportError):  # not the file's fault
        raise
    except Refused as error:
        raise ValueError(f"cannot open {path}: {_one_line(error)}") from None
    except Exception as error:
        why = _one_line(f"{type(error).__name__}: {error}")[:200]
        raise ValueError(f"cannot open {path}: it is damaged ({why}); {AGAIN}") from error


def _one_line(text) -> str:
    """Without line breaks and without signs that a terminal would obey: names in it may come from a stranger's file."""
    return "".join(sign for sign in " ".join(str(text).split()) if sign.isprintable())
