"""Checkpoints of a fit: what its passes have found so far, in a folder, so that it goes on where its process ended.

A pass is deterministic: the same data, method and version give the same results, on the same kind of CPU to the last
bit. So a fit that finds the results of a pass, or of some of its chunks, takes them as they are. What is found is
arrays, numbers and texts, and tuples, lists, dicts and dataclasses of them; nothing is pickled.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from bagwise.bags.validation import Parameter, ParameterError
from bagwise.io.atomic_files import replace_file
from bagwise.io.table_files import is_url
from bagwise.model_files.fingerprint import describe, digest, of_library
from bagwise.out_of_core.chunks import AT_ONCE, FileRows, TableRows, as_objects
from bagwise.out_of_core.table_scan import Scan

EVERY = 30.0  # seconds between the checkpoints of a pass
LARGEST = 2**26  # bytes of results that wait for the next
ABOUT = "fit.json"
ENDING = ".npz"
SHARDS = "shards-"
# numpy parses the header of an array as Python, and two threads that parse at once end in SystemError before Python
# 3.11.8 (CPython's issue 106905): one at a time.
HEADERS = Lock()


class Work:
    """A work folder: ``fit.json``, which says what is fitted to what, and the results of its passes.

    ``02-fold-sums-000040.npz`` holds those of some chunks of the second pass, from number 40 on, and
    ``02-fold-sums-total.npz`` the sum over all; while it is made, ``-nodes`` that of some. What is known of the bags is
    in ``shards-1``. A file appears whole or not at all.

    Parameters
    ----------
    path : path of the folder, which may be a new one
    """

    def __init__(self, path):
        self.given, self.path = path, Path(path)
        self._passes = self._shards = 0

    def open(self, scan: Scan, method) -> None:
        """Begin, or go on; a folder of other data, another method or another version is refused."""
        if is_url(self.given):
            raise ValueError(f"{self.given} is a URL; the work folder is on the machine that fits: give its path")
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file; checkpoints need a folder")
        self.path.mkdir(parents=True, exist_ok=True)
        about = {"library": of_library(), "method": describe(method), "data": describe_scan(scan)}
        place, names = self.path / ABOUT, sorted(one.name for one in self.path.iterdir())
        if ABOUT in names:
            self._compare(place, about)
            self._remove_damaged()
        elif names:
            raise FileExistsError(
                f"{self.path} is not a work folder of a fit: it holds {names[0]}; give an empty folder, or a new name"
            )
        else:
            text = json.dumps(about, indent=1)
            replace_file(place, lambda path: path.write_text(text, encoding="utf-8"))

    def _compare(self, place: Path, about: dict) -> None:
        try:
            found = json.loads(place.read_text(encoding="utf-8"))
            what = _difference(found, about)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            what = f"of what is not known, for {ABOUT} is damaged"
        if what is not None:
            text = f"{self.path} holds passes {what}; give another folder as "
            raise ParameterError("work", text, Parameter("work"), ", or remove this one")

    def _remove_damaged(self) -> None:
        """Name damaged files. What came after them had their results, and is removed with them.

        Tasks leave arrays for later passes, which may have replaced them since: if more than the last pass is to be run
        again, all are.
        """
        files = {path: int(path.name.partition("-")[0]) for path in sorted(self.path.glob(f"*{ENDING}"))}
        wrong = {path: error for path in files if (error := damage(path)) is not None}
        if not wrong:
            return
        path = min(wrong, key=lambda one: (files[one], one))
        last = files[path] == max(files.values())
        for one, number in files.items():
            if not last or (number == files[path] and one >= path):
                one.unlink()
        for folder in () if last else self.path.glob(f"{SHARDS}*"):
            shutil.rmtree(folder)
        more = f" (and {len(wrong) - 1:,} others)" if len(wrong) > 1 else ""
        what = "that pass is run again from there" if last else "later passes were made of it, and all are run again"
        warnings.warn(f"{path}{more} is damaged or cut short ({wrong[path]}); {what}", UserWarning, stacklevel=2)

    def next_pass(self, name: str) -> PassFiles:
        """The files of the pass that begins now: passes come in the same order whenever a fit goes on."""
        self._passes += 1
        return PassFiles(self.path, self._passes, name)

    def new_shards(self) -> Path:
        """The folder for what `Passes` know of bags."""
        self._shards += 1
        folder = self.path / f"{SHARDS}{self._shards}"
        folder.mkdir(exist_ok=True)
        return folder


def open_work(work, scan: Scan, method) -> Work | None:
    """The work folder of a fit, by its path, if there is to be one; that of the fit which this one is part of."""
    if isinstance(work, Work):
        return work
    if work is None or not isinstance(scan, Scan):  # `Passes` refuses what is no scan
        return None
    opened = Work(work)
    opened.open(scan, method)
    return opened


def _difference(old: dict, new: dict) -> str | None:
    """What passes of another fit are of, in words."""
    if old["library"] != new["library"]:
        return f"by another version: {old['library']}, where this is {new['library']}"
    if old["method"] != new["method"]:
        return "of another method, or of the same with other parameters"
    one, other = old["data"], new["data"]
    files, others = one["files"], other["files"]
    changed = [name for name in {**others, **files} if files.get(name) != others.get(name)]
    if changed:
        first, more = changed[0], f" (and {len(changed) - 1:,} others)" if changed[1:] else ""
        what = "is gone" if first not in others else "has changed" if first in files else "is new"
        return f"over other data: {first}{more} {what}"
    return None if one == other else "over other columns, rows or chunks of the data"


def describe_scan(scan: Scan) -> dict:
    """The data of a scan: its files by size and time, what is read of them, and how it is cut into chunks."""
    apart = ("chunks", "source", "left_out")  # how the files were named, and those that are not read, do not matter
    fields = {one.name: getattr(scan, one.name) for one in dataclasses.fields(scan) if one.name not in apart}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = dict(pool.map(lambda part: (part.name, part.stamp()), scan.files.values()))
    layouts = {id(chunk.layout): chunk.layout for chunk in scan.chunks if hasattr(chunk, "layout")}
    read = describe([fields, *layouts.values()])
    return {"files": files, "read": digest(read), "chunks": digest(*map(_describe_chunk, scan.chunks))}


def _describe_chunk(chunk) -> str:
    rows = getattr(chunk, "rows", None)
    if isinstance(rows, FileRows):
        return f"{rows.part} {rows.groups} {rows.n_rows}"
    if isinstance(rows, TableRows):
        return digest(np.frombuffer(rows.packed(), np.uint8))
    return describe(chunk)


class PassFiles:
    """What one pass has found: a list of results, some to a file, or a sum."""

    def __init__(self, folder: Path, number: int, name: str):
        self.folder, self.number, self.name = folder, number, name

    def results(self) -> Iterator[Any]:
        """Those of the first chunks, as far as they are kept."""
        start = 0
        while found := self.read(f"{start:06d}"):
            yield from found
            start += len(found)

    def keep(self, start: int, results: Iterable[Any]) -> Iterator[Any]:
        """Hand on the results of the chunks from a number on, and write them some at a time."""
        held: list = []
        size, since = 0, time.monotonic()
        try:
            for result in results:
                held.append(result)
                size += sum(array.nbytes for array in _packed(result)[1])
                yield result
                if time.monotonic() - since >= EVERY or size >= LARGEST:
                    self.write(f"{start:06d}", held)
                    start, held, size, since = start + len(held), [], 0, time.monotonic()
        finally:  # also when a chunk fails, or is given up
            if held:
                self.write(f"{start:06d}", held)

    def read(self, which: str) -> Any:
        """What a file holds; None if it is not there."""
        path = self._path(which)
        return read(path) if path.exists() else None

    def write(self, which: str, value) -> None:
        write(self._path(which), value)

    def remove(self, which: str) -> None:
        self._path(which).unlink(missing_ok=True)

    def _path(self, which: str) -> Path:
        return self.folder / f"{self.number:02d}-{self.name}-{which}{ENDING}"


# Results in files ---------------------------------------------------------------------------------------------------


def write(path: Path, value) -> None:
    """Write a value to an ``.npz`` file: its arrays, and as JSON how they are put together.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "01-survey-000000.npz"
    >>> write(path, [(np.array([0.1, 0.2]), {"fold": 3, (0, 1): None})])
    >>> read(path)
    [(array([0.1, 0.2]), {'fold': 3, (0, 1): None})]
    """

    def save_to(place: Path) -> None:
        with place.open("wb") as file:
            save(file, value)

    replace_file(path, save_to)


def save(file, value) -> None:
    """The same to an open file."""
    structure, arrays = _packed(value)
    named = {str(number): array for number, array in enumerate(arrays)}
    text = np.frombuffer(json.dumps(structure).encode(), np.uint8)
    np.savez(file, allow_pickle=False, structure=text, **named)


def damage(path: Path) -> str | None:
    """What is wrong with a file, in words; None if nothing is."""
    try:
        read(path)
    except Exception as error:  # whatever a damaged archive may cause
        return str(error) or type(error).__name__
    return None


def read(path: Path) -> Any:
    """The value again; an error if a bit of it has changed."""
    with HEADERS, path.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        return _unpacked(json.loads(arrays["structure"].tobytes()), arrays)


def _packed(value) -> tuple[Any, list[np.ndarray]]:
    """A value as JSON, with the numbers of its arrays, and these."""
    arrays: list[np.ndarray] = []

    def number(kind: str, array: np.ndarray) -> dict:
        arrays.append(array)
        return {kind: len(arrays) - 1}

    def pack(one) -> Any:
        if one is None or type(one) in (bool, int, float, str):
            return one
        if isinstance(one, np.generic):
            return number("scalar", np.asarray(one))
        if isinstance(one, np.ndarray):
            if not one.dtype.hasobject:
                return number("array", one)
            stream = _as_stream(one)
            return {"elements": [pack(inner) for inner in one]} if stream is None else number("objects", stream)
        if type(one) in (tuple, list):
            return {type(one).__name__: [pack(inner) for inner in one]}
        if type(one) in (dict, Counter):
            return {type(one).__name__: [[pack(key), pack(inner)] for key, inner in one.items()]}
        if (names := _fields(type(one))) is not None:
            values = {name: pack(getattr(one, name)) for name in names}
            return {"of": f"{type(one).__module__}:{type(one).__qualname__}", "fields": values}
        raise TypeError(
            f"a pass gave {type(one).__name__}, which a checkpoint does not hold; it holds arrays, numbers, texts and "
            "None, and tuples, lists, dicts, named tuples and dataclasses of them"
        )

    return pack(value), arrays


def _unpacked(structure, arrays) -> Any:
    def unpack(one) -> Any:
        if not isinstance(one, dict):
            return one
        if "of" in one:
            values = {name: unpack(inner) for name, inner in one["fields"].items()}
            return _class(one["of"])(**values)
        ((kind, content),) = one.items()
        if kind in ("tuple", "list"):
            return (tuple if kind == "tuple" else list)(map(unpack, content))
        if kind in ("dict", "Counter"):
            pairs = {unpack(key): unpack(inner) for key, inner in content}
            return pairs if kind == "dict" else Counter(pairs)
        if kind == "elements":
            return as_objects(list(map(unpack, content)))
        array = arrays[str(content)]
        return _from_stream(array) if kind == "objects" else array[()] if kind == "scalar" else array

    return unpack(structure)


def _fields(kind: type) -> list[str] | None:
    if dataclasses.is_dataclass(kind):
        return [one.name for one in dataclasses.fields(kind) if one.init]
    return list(kind._fields) if issubclass(kind, tuple) and hasattr(kind, "_fields") else None


def _class(name: str) -> type:
    """A class of results, of a module of ours that is there: none is imported for a file."""
    module, _, inner = name.partition(":")
    kind = getattr(sys.modules.get(module), inner, None) if module.partition(".")[0] == "bagwise" else None
    if not isinstance(kind, type) or _fields(kind) is None:
        raise ValueError(f"it names the class {name}, which no pass gives")
    return kind


def _as_stream(objects: np.ndarray) -> np.ndarray | None:
    """Texts, dates and the like as a stream of Arrow; None if they are of several types."""
    import pyarrow as pa

    try:
        column = pa.array(objects.tolist())
    except (pa.ArrowException, OverflowError):
        return None
    if column.to_pylist() != objects.tolist():
        return None
    sink, table = pa.BufferOutputStream(), pa.table({"objects": column})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _from_stream(stream: np.ndarray) -> np.ndarray:
    import pyarrow as pa

    return as_objects(pa.ipc.open_stream(stream.tobytes()).read_all()["objects"].to_pylist())
