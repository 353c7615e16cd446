"""The file itself: a zip of parts that are stored as they are, a header that knows the checksum of each, and a seal.

Nothing is compressed, so a file can never unfold to more bytes than it has, and every claim about sizes is compared
with the size of the file before anything is read. The seal, the comment of the zip and the last bytes of the file, is
the checksum of all that comes before it.

An array is compared with the bytes it has before it is made. A file is refused in one way: the path, what is wrong with
it and the way out, in one line.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

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


_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def check_array(name: str, data: bytes) -> None:
    """Refuse an array that holds objects, or claims more or fewer numbers than it has bytes for."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise Refused(f"its array {name!r} has the unknown version {version}; {AGAIN}")
    shape, _, dtype = _READERS[version](stream)
    claimed, held = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if dtype.hasobject:
        raise Refused(f"its array {name!r} holds objects, which only pickle could read; {AGAIN}")
    if claimed != held or any(n < 0 for n in shape) or (dtype.itemsize == 0 and math.prod(shape) > 0):
        raise Refused(f"its array {name!r} claims {claimed} bytes (shape {shape}), but has {held}; {AGAIN}")


def read_array(data: bytes) -> np.ndarray:
    """An array that `check_array` has passed."""
    return np.load(io.BytesIO(data), allow_pickle=False)


FORMAT = 3  # 1 had no seal, 2 named our classes by their modules
OLDEST = 2  # that can be read
KIND = "bagwise model"
HEADER = "header.json"
SEAL = len(hashlib.sha256().hexdigest())
OURS = "give a file that bagwise.save_model has written"
# What every header has; the values may be anything JSON can say where no type stands.
FIELDS = {"kind": str, "format": int, "versions": dict, "parts": dict, "checksum": str}


def pack(header: dict, parts: dict[str, bytes]) -> bytes:
    """The bytes of a model file; digests of the parts and the checksum are added to the header."""
    header = {"kind": KIND, "format": FORMAT, **header, "parts": {name: _digest(data) for name, data in parts.items()}}
    header["checksum"] = checksum(header)
    data = pack_parts({HEADER: json.dumps(header, indent=1).encode(), **parts}, comment=bytes(SEAL))[:-SEAL]
    return data + _digest(data).encode()


def pack_parts(parts: dict[str, bytes], comment: bytes = b"") -> bytes:
    """A zip of stored parts; the same parts give the same bytes."""
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        archive.comment = comment
        for name, data in parts.items():
            archive.writestr(ZipInfo(name), data)
    return stream.getvalue()


def unpack(stream: BinaryIO) -> tuple[dict, dict[str, bytes]]:
    """The header and the parts of a model file, every checksum compared; anything else is refused."""
    _refuse_foreign(stream)
    try:
        archive = ZipFile(stream)
    except BadZipFile as error:
        raise Refused(f"it is cut short or damaged ({error}); {AGAIN}") from None
    with archive:
        _refuse_claims(archive, stream)
        header = _header(archive)
        names = [name for name in archive.namelist() if name != HEADER]
        _compare_names(header, names)
        parts = {name: archive.read(name) for name in names}
    _compare(header, parts)
    _refuse_broken_seal(stream)
    return header, parts


def checksum(header: dict) -> str:
    """SHA-256 of everything else in the header, the digests of all parts among it."""
    rest = {key: value for key, value in header.items() if key != "checksum"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _refuse_broken_seal(stream: BinaryIO) -> None:
    """The last look, at all that is no part: the zip's own tables, and what may stand before, between or behind."""
    stream.seek(0)
    data = memoryview(stream.read())
    if _digest(data[:-SEAL]).encode() != data[-SEAL:]:
        raise Refused(f"it does not match the checksum at its end: it was changed or damaged; {AGAIN}")


def _refuse_foreign(stream: BinaryIO) -> None:
    start = stream.read(4)
    if not start:
        raise Refused(f"it is empty; {OURS}")
    if start[:1] == b"\x80":
        raise Refused(f"it looks like a pickle, which could run any code and is never read here; {OURS}")
    if start != b"PK\x03\x04":
        raise Refused(f"it is not a bagwise model (it starts with {start!r}); {OURS}")


def _refuse_claims(archive: ZipFile, stream: BinaryIO) -> None:
    """Compare what the table of contents claims with the size of the file, before a part is read."""
    entries = archive.infolist()
    if len({entry.filename for entry in entries}) < len(entries):
        raise Refused(f"it has two parts of one name; {AGAIN}")
    whole = stream.seek(0, os.SEEK_END)
    for entry in entries:
        if entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size:
            raise Refused(
                f"its part {entry.filename!r} is compressed and claims {entry.file_size} bytes, where model files "
                f"are never compressed; {OURS}"
            )
    claimed = sum(entry.file_size for entry in entries)
    if claimed > whole:
        raise Refused(f"its parts claim {claimed} bytes, but the file has {whole}; {AGAIN}")


def _header(archive: ZipFile) -> dict:
    if HEADER not in archive.namelist():
        raise Refused(f"it is a zip, but not a bagwise model (it has no {HEADER}); {OURS}")
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise Refused(f"it is a zip, but not a bagwise model (its {HEADER} does not say so); {OURS}")
    if isinstance(header.get("format"), int) and header["format"] > FORMAT:
        raise Refused(
            f"it has format {header['format']}, and this bagwise reads up to {FORMAT}; "
            "update it: pip install --upgrade bagwise"
        )
    if isinstance(header.get("format"), int) and header["format"] < OLDEST:
        raise Refused(
            f"it was saved by an earlier bagwise (format {header['format']}); fit the model and save it again"
        )
    wrong = [name for name, kind in FIELDS.items() if not isinstance(header.get(name), kind)]
    if wrong:
        raise Refused(f"its header has no valid {wrong[0]!r}; {AGAIN}")
    return header


def _compare_names(header: dict, names: list[str]) -> None:
    """Before the parts are read: there may be any number of them that nobody needs."""
    if checksum(header) != header["checksum"]:
        raise Refused(f"its header does not match its checksum: it was changed or damaged; {AGAIN}")
    if odd := set(names) ^ set(header["parts"]):
        raise Refused(f"its parts are not those its header lists (see {min(odd)!r}); {AGAIN}")


def _compare(header: dict, parts: dict[str, bytes]) -> None:
    for name, data in parts.items():
        if _digest(data) != header["parts"][name]:
            raise Refused(f"its part {name!r} does not match its checksum: it was changed or damaged; {AGAIN}")
