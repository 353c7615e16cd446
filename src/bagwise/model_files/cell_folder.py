"""A folder of finished results: one small file per cell, named by a hash of everything that its content depends on."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from bagwise.io.atomic_files import refuse_unwritable, replace_file
from bagwise.model_files.fingerprint import digest

UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError)  # the last for JSON nested too deeply
DAMAGED = "is damaged or cut short"
RECORD = "work.json"


class CellFolder:
    """``cells/KEY.json`` for every finished cell of some work.

    A file appears whole or not at all. So work that is killed at any moment loses only the cells in flight, two
    processes may share a folder, and cells of other data or of a changed method are never taken for those of this
    work: their keys differ.

    Examples
    --------
    >>> import tempfile
    >>> folder = CellFolder(tempfile.mkdtemp())
    >>> folder.write({"key": "ab12", "error": None})
    >>> folder.read("ab12"), folder.read("cd34")
    ({'key': 'ab12', 'error': None}, None)
    """

    noun = "cell"

    def __init__(self, path: Path | str):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file; results need a folder")
        self.cells = self.path / "cells"
        self.cells.mkdir(parents=True, exist_ok=True)
        self.damaged: set[str] = set()

    def read(self, key: str) -> dict | None:
        """The result of a cell; None if it is not there, or (with a warning) if its file is damaged."""
        path, what = self.cells / f"{key}.json", DAMAGED
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            result = content["result"]
            if content["digest"] == sealed(result):
                if result["key"] == key:
                    return result
                what = f"holds the result of another {self.noun}"
        except FileNotFoundError:
            return None
        except UNREADABLE:
            pass
        self.warn_of(key, path, what)
        return None

    def warn_of(self, key: str, path: Path, what: str) -> None:
        """Name a file that cannot be used, once."""
        if key not in self.damaged:
            self.damaged.add(key)
            warnings.warn(f"{path} {what}; its {self.noun} will be run again", UserWarning, stacklevel=3)

    def write(self, result: dict) -> None:
        self.write_json(f"cells/{result['key']}.json", {"digest": sealed(result), "result": result})

    def write_json(self, name: str, content: dict) -> None:
        text = json.dumps(content)
        replace_file(self.path / name, lambda path: path.write_text(text, encoding="utf-8"))


def sealed(result: dict) -> str:
    """The digest that is written beside a result, to tell whether its file is whole."""
    return digest(json.dumps(result, sort_keys=True))


def claim(path: Path, work: str, *, data: str, about: str, library: str) -> None:
    """Take a folder for some work, or refuse it by name: other work, other data, other versions, or not to be written.

    The record of the work lies in it with its digest. One that is damaged is named in a warning and written again: the
    keys of cells tell other data and versions, too.

    Parameters
    ----------
    path : the folder; made if it is not there
    work : what kind of work it is, such as "fit of auto"
    data : hash of the data
    about : the data in a few words, for messages
    library : versions (`of_library`)
    """
    mine = {"work": work, "data": data, "about": about, "library": library}
    file, way_out = path / RECORD, "give another folder to --work (work=), or delete this one"
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; finished work is kept in a folder")
    refuse_unwritable(path)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        there = {name: str(found[name]) for name in mine}
        if found.get("digest") not in (None, sealed(there)):  # earlier versions wrote none
            raise ValueError(DAMAGED)
    except FileNotFoundError:
        if path.exists() and any(path.iterdir()):
            raise ValueError(f"{path} holds other files, and none of a {work}; {way_out}") from None
        there = mine
    except UNREADABLE:
        text = f"{file} {DAMAGED}; it is written again, and what is finished is kept"
        warnings.warn(text, UserWarning, stacklevel=3)
        there = mine
    for name, what in (("work", "other work"), ("data", "other data"), ("library", "other versions")):
        if there[name] != mine[name]:
            shown = "about" if name == "data" else name
            raise ValueError(
                f"{path} holds what a {there['work']} finished with {what}: {there[shown]} there, {mine[shown]} here; "
                f"{way_out}"
            )
    path.mkdir(parents=True, exist_ok=True)
    text = json.dumps(mine | {"digest": sealed(mine)}, indent=1)
    replace_file(file, lambda whole: whole.write_text(text, encoding="utf-8"))
