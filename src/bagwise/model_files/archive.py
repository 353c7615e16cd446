"""The format of a model file: a zip of uncompressed parts, with a JSON header and a checksum at the end.

Parts are not compressed, so a file cannot expand. All declared sizes are compared with the size of the file before a
part is read, and the size of each array with its bytes before it is created. The checksum is the comment of the zip,
which is at the end of the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

AGAIN = "save the model again, or get an unbroken copy of the file"


class Refused(ValueError):
    """Error for a known problem of a model file, with a message for users; other errors mean a damaged file."""


@contextmanager
def refusing(path) -> Iterator[None]:
    """Turn any error while reading a file into one ValueError that names the path, the problem and what to do."""
    try:
        yield
    except (MemoryError, ImportError):  # not a problem of the file
        raise
    except Refused as error:
        raise ValueError(f"cannot open {path}: {_printable(error)}") from None
    except Exception as error:
        reason = _printable(f"{type(error).__name__}: {error}")[:200]
        raise ValueError(f"cannot open {path}: it is damaged ({reason}); {AGAIN}") from error


def _printable(text) -> str:
    """Remove line breaks and terminal control characters: names in a file may come from a stranger."""
    return "".join(sign for sign in " ".join(str(text).split()) if sign.isprintable())


_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_array(name: str, data: bytes) -> np.ndarray:
    """Return an array; refuse one that holds objects, or whose shape claims more or fewer bytes than it has."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise Refused(f"its array {name!r} has the unknown version {version}; {AGAIN}")
    shape, _, dtype = _READERS[version](stream)
    claimed, present = math.prod(shape) * dtype.itemsize, len(data) - stream.tell()
    if dtype.hasobject:
        raise Refused(f"its array {name!r} holds objects, which only pickle could read; {AGAIN}")
    if claimed != present or any(n < 0 for n in shape) or (dtype.itemsize == 0 and math.prod(shape) > 0):
        raise Refused(f"its array {name!r} claims {claimed} bytes (shape {shape}), but has {present}; {AGAIN}")
    return np.load(io.BytesIO(data), allow_pickle=False)


FORMAT = 3
KIND = "bagwise model"
HEADER = "header.json"
FIELDS = {"kind": str, "format": int, "versions": dict}  # required entries of the header and their types
SEAL = len(hashlib.sha256().hexdigest())
OURS = "give a file that bagwise.save_model has written"


def pack(header: dict, parts: dict[str, bytes]) -> bytes:
    """Return the bytes of a model file; the same header and parts give the same bytes."""
    text = json.dumps({"kind": KIND, "format": FORMAT} | {k: v for k, v in header.items() if k != "checksum"}, indent=1)
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        archive.comment = bytes(SEAL)  # room for the checksum
        for name, data in {HEADER: text.encode(), **parts}.items():
            archive.writestr(ZipInfo(name), data)
    return _seal(stream.getvalue())


def _seal(data: bytes) -> bytes:
    """Replace the end of a zip by the SHA-256 of the bytes before it."""
    return data[:-SEAL] + hashlib.sha256(data[:-SEAL]).hexdigest().encode()


def unpack(stream: BinaryIO) -> tuple[dict, dict[str, bytes]]:
    """Return the header and the parts of a model file; refuse one that is foreign, changed or of a newer format."""
    data = stream.read()
    if not data:
        raise Refused(f"it is empty; {OURS}")
    if data[:1] == b"\x80":
        raise Refused(f"it looks like a pickle, which could run any code and is never read here; {OURS}")
    if data[:4] != b"PK\x03\x04":
        raise Refused(f"it is not a bagwise model (it starts with {data[:4]!r}); {OURS}")
    try:
        archive = ZipFile(io.BytesIO(data))
    except BadZipFile as error:
        raise Refused(f"it is cut short or damaged ({error}); {AGAIN}") from None
    with archive:
        _refuse_claims(archive, len(data))
        header = _read_header(archive)
        if _seal(data) != data:
            raise Refused(f"it does not match the checksum at its end: it was changed or damaged; {AGAIN}")
        parts = {name: archive.read(name) for name in archive.namelist() if name != HEADER}
    return header | {"checksum": data[-SEAL:].decode()}, parts


def _refuse_claims(archive: ZipFile, size: int) -> None:
    """Compare the table of contents with the size of the file before a part is read."""
    entries = archive.infolist()
    if len({entry.filename for entry in entries}) < len(entries):
        raise Refused(f"it has two parts of one name; {AGAIN}")
    for entry in entries:
        if entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size:
            raise Refused(
                f"its part {entry.filename!r} is compressed and claims {entry.file_size} bytes, where model files "
                f"are never compressed; {OURS}"
            )
    claimed = sum(entry.file_size for entry in entries)
    if claimed > size:
        raise Refused(f"its parts claim {claimed} bytes, but the file has {size}; {AGAIN}")


def _read_header(archive: ZipFile) -> dict:
    if HEADER not in archive.namelist():
        raise Refused(f"it is a zip, but not a bagwise model (it has no {HEADER}); {OURS}")
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise Refused(f"it is a zip, but not a bagwise model (the {HEADER} is of another kind); {OURS}")
    for name, kind in FIELDS.items():
        if not isinstance(header.get(name), kind):
            raise Refused(f"its header has no valid {name!r}; {AGAIN}")
    if header["format"] != FORMAT:
        text = f"it has format {header['format']}, and this bagwise reads format {FORMAT}"
        raise Refused(f"{text}; update bagwise (pip install --upgrade bagwise), or fit the model and save it again")
    return header
