"""A store of finished results, in memory or in a folder. The key of a result is a hash of all its inputs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from hashlib import file_digest
from pathlib import Path
from typing import Any

from bagwise.io.atomic_files import refuse_unwritable, replace_file
from bagwise.model_files.fingerprint import digest

WAY_OUT = "give another folder to --work (work=), or delete this one"


class Store:
    """Results of some work by key: in memory, or as ``cells/KEY.json`` with the files attached to them.

    Files are written atomically and contain a checksum, and two processes may share a folder. Results of other data or
    of a changed method are never used, because their keys differ.

    Parameters
    ----------
    path : path of the folder, which is created; None keeps results in memory
    noun : what a result is called in warnings
    """

    def __init__(self, path: Path | str | None = None, *, noun: str = "cell"):
        self.path, self.noun = None if path is None else Path(path), noun
        self.damaged: set[str] = set()
        self._results: dict[str, Any] = {}
        if self.path is not None:
            if self.path.exists() and not self.path.is_dir():
                raise NotADirectoryError(f"{self.path} is a file; finished work needs a folder. Give another path.")
            self.cells = self.path / "cells"
            self.cells.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of_work(cls, path: Path | str, work: str, *, library: str, data: dict[str, str], noun: str = "cell") -> Store:
        """Open the store of a piece of work; raise an error that names the difference if the folder belongs to another.

        Parameters
        ----------
        path : path of the folder
        work : what kind of work it is, such as "fit of auto"
        library : versions (`of_library`)
        data : what else the work depends on: name -> short description or hash
        noun : what a result is called in warnings
        """
        path = Path(path)
        refuse_unwritable(path)
        names = {file.name for file in path.iterdir()} if path.is_dir() else set()
        if "work.json" not in names and any(name != "cells" and name[0] != "." for name in names):
            raise ValueError(f"{path} contains files that do not belong to a {work}; {WAY_OUT}")
        store, record = cls(path, noun=noun), {"work": work, "versions": library, **data}
        stored = store.read_record("work") or record
        for name in {**record, **stored}:
            there, here = stored.get(name, "missing"), record.get(name, "missing")
            if there != here:
                text = f"{path} holds the results of a {stored.get('work')} with other {name}"
                raise ValueError(f"{text}: {there} there, {here} here; {WAY_OUT}")
        store.write_record("work", record)
        return store

    def __contains__(self, key: str) -> bool:
        return key in self._results if self.path is None else self.file(key).exists()

    def is_empty(self) -> bool:
        return not (self._results if self.path is None else any(self.cells.glob("*.json")))

    def file(self, key: str, ending: str = ".json") -> Path:
        """Return the path of a result, or of a file attached to it."""
        return self.cells / f"{key}{ending}"

    def read(self, key: str) -> Any:
        """Return the result of a key; None if there is none, or (with a warning) if one of its files is damaged."""
        if self.path is None:
            return self._results.get(key)
        path = self.file(key)
        if not path.exists():
            return None
        content, problem = _read_sealed(path), "is damaged or cut short"
        if content is not None and content["key"] != key:
            problem = f"holds the result of another {self.noun}"
        elif content is not None:
            files = [ending for ending, checksum in content["files"].items() if self._sum(key, ending) != checksum]
            if not files:
                return content["result"]
            path, problem = self.file(key, files[0]), "is damaged or missing"
        if key not in self.damaged:
            self.damaged.add(key)
            warnings.warn(f"{path} {problem}; its {self.noun} will be run again", UserWarning, stacklevel=3)
        return None

    def write(self, key: str, result, files: dict[str, Callable[[Path], None]] | None = None) -> None:
        """Store a result that JSON can hold. ``files`` are attached: ending -> function that writes to a path."""
        if self.path is None:
            self._results[key] = result
            return
        for ending, write in (files or {}).items():  # first, so that a stored result always has all its files
            replace_file(self.file(key, ending), write)
        checksums = {ending: self._sum(key, ending) for ending in files or {}}
        write_sealed(self.file(key), {"key": key, "files": checksums, "result": result})

    def read_record(self, name: str) -> dict | None:
        """Return the document ``NAME.json`` about the whole folder; None if there is none, or it is damaged."""
        return None if self.path is None else _read_sealed(self.path / f"{name}.json")

    def write_record(self, name: str, record: dict) -> None:
        """Write a document about the whole folder; a damaged one is replaced, with a warning that names it."""
        if self.path is None:
            return
        path = self.path / f"{name}.json"
        if path.exists() and _read_sealed(path) is None:
            text = f"{path} is damaged or cut short; it is written again, and finished results are kept"
            warnings.warn(text, UserWarning, stacklevel=3)
        write_sealed(path, record)

    def _sum(self, key: str, ending: str) -> str | None:
        try:
            with self.file(key, ending).open("rb") as file:
                return file_digest(file, "blake2b").hexdigest()
        except FileNotFoundError:
            return None


def write_sealed(path: Path, content: dict) -> None:
    """Write a JSON document with a checksum, atomically."""
    content = json.loads(json.dumps(content))  # JSON turns numeric keys into text; seal the text
    text = json.dumps(content | {"digest": _seal(content)})
    replace_file(path, lambda whole: whole.write_text(text, encoding="utf-8"))


def _read_sealed(path: Path) -> dict | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if content.pop("digest") == _seal(content) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # for other content
        return None


def _seal(content: dict) -> str:
    return digest(json.dumps(content, sort_keys=True))
