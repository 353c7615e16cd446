"""Writing files so that they appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path | str, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, then put it in place in one step; an error leaves the old file alone.

    A link keeps pointing where it did, and a file keeps the permissions it had. What is no ordinary file (a device, a
    pipe) cannot be replaced and is written to as it is. An error of the system names ``path``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> replace_file(folder / "note.txt", lambda path: path.write_text("whole"))
    >>> [file.name for file in folder.iterdir()]
    ['note.txt']
    """
    place = Path(path).resolve()
    try:
        if place.exists() and not place.is_file():
            write(place)
        else:
            _swap(place, write)
    except OSError as error:
        if error.errno is None:  # its text is all there is
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _swap(place: Path, write: Callable[[Path], object]) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.stem}-", suffix=place.suffix)
    temporary = Path(name)
    try:
        os.close(handle)
        write(temporary)
        temporary.chmod(_mode(place))
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def _mode(place: Path) -> int:
    """The permissions of the file that was there; of a new one, what the user's mask leaves."""
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
