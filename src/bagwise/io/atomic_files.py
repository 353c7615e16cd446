"""Write files and folders atomically."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path | str, write: Callable[[Path], object]) -> None:
    """Write a file by ``write(temporary path)``, then move it to ``path``; an error leaves the old file unchanged.

    Links are followed, and permissions are kept. A device or a pipe cannot be replaced and is written directly. An
    error of the operating system names ``path``.
    """
    place = Path(path).resolve()
    try:
        if place.exists() and not place.is_file():
            write(place)
            return
        permissions = place.stat().st_mode & 0o777 if place.exists() else None
        temporary = _name_beside(place)
        try:  # an interrupt after this line leaves no temporary file
            # The system applies the user's mask to a new file: a process can only read its mask by setting it, and
            # other threads would create files without one meanwhile. A private file stays private while it is written.
            _create(temporary, 0o666 if permissions is None else 0o600)
            write(temporary)
            if permissions is not None:
                temporary.chmod(permissions)
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is None:  # its text is all there is
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def new_folder(path: Path | str, write: Callable[[Path], object]) -> None:
    """Write a folder by ``write(temporary path)``, then move it to ``path``; an error leaves no folder."""
    place = Path(path).resolve()
    refuse_place(path)
    temporary = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        write(temporary)
        if place.exists():  # Windows does not replace even an empty folder
            place.rmdir()
        temporary.replace(place)
    except OSError as error:
        if error.errno is None:  # its text is all there is
            raise
        raise OSError(error.errno, f"{error.strerror}; nothing was written", str(path)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_place(path: Path | str) -> None:
    """Refuse a folder that cannot be created or is not empty, so that the results of two runs are not mixed."""
    place = Path(path)
    if "://" in str(path):
        raise ValueError(
            f"{path} is a URL, and results are written to this machine. Give a local path, and copy the folder later"
        )
    if place.is_file() or (place.is_dir() and any(place.iterdir())):
        raise FileExistsError(f"{path} already exists; give the name of a new folder, or remove its content")
    if not place.resolve().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {place.resolve().parent} to write {place.name} to; make it first")
    refuse_unwritable(place)


def refuse_unwritable(path: Path | str) -> None:
    """Refuse a file or folder that cannot be written, by trying to create it, before any results are computed."""
    place = Path(path).resolve()
    try:
        if not place.exists() or place.is_file() or place.is_dir():
            inside = place if place.is_dir() else next(folder for folder in place.parents if folder.exists())
            trial = _name_beside(inside / place.name)
            _create(trial, 0o600)
            trial.unlink()
        elif not place.is_fifo():  # opening a pipe would block until it has a reader
            place.open("ab").close()
    except OSError as error:
        raise type(error)(f"{path} cannot be written ({error.strerror}); give a place that can be") from error


def _name_beside(place: Path) -> Path:
    """Return the path of a new temporary file in the same folder."""
    return place.with_name(f".{place.stem}-{secrets.token_hex(8)}{place.suffix}")


def _create(path: Path, mode: int) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
