"""What an archive of arrays claims to hold, compared with the bytes it has, before anything is allocated."""

from __future__ import annotations

import math
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import numpy as np

DENSEST = 1040  # deflate cannot make more bytes of one
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def refuse_claims(path: Path) -> None:
    """Refuse a .npz archive whose parts speak of more bytes than they can hold: 1 KB may claim 10^12 rows."""
    whole = path.stat().st_size
    with ZipFile(path) as archive:
        for entry in archive.infolist():
            _refuse_part(archive, entry, whole)


def _refuse_part(archive: ZipFile, entry: ZipInfo, whole: int) -> None:
    if entry.compress_size > whole or entry.file_size > DENSEST * (entry.compress_size + 64):
        raise ValueError(f"part {entry.filename!r} claims {entry.file_size:,} bytes in a file of {whole:,}")
    with archive.open(entry) as part:
        version = np.lib.format.read_magic(part)
        if version not in _HEADERS:
            raise ValueError(f"part {entry.filename!r} is an array of the unknown version {version}")
        shape, _, dtype = _HEADERS[version](part)
        claimed, held = math.prod(shape) * dtype.itemsize, entry.file_size - part.tell()
    if claimed > held:
        raise ValueError(f"part {entry.filename!r} holds {held:,} bytes where its header speaks of {claimed:,}")
