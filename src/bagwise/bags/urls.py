"""Files on other file systems, by URL, through fsspec: ``s3://bucket/lake``, ``file:///data/lake``, ``memory://lake``."""

from __future__ import annotations

import glob

from bagwise.bags.reading import reading
from bagwise.bags.several import shown


def is_url(source) -> bool:
    return "://" in str(source)


def open_url(url: str) -> tuple:
    """The file system of a URL, and the path within it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"reading {url} needs fsspec: pip install 'bagwise[dask]'") from error
    try:
        return url_to_fs(url)
    except ValueError as error:
        raise ValueError(f"{url} names no file system that fsspec knows ({error})") from error


def expand_url(url: str) -> list[tuple[str, list[str] | None]]:
    """The files and folders meant by a URL, which may be a pattern, each with the files below it (None for a file)."""
    system, path = open_url(url)
    with reading(url):
        magic = glob.has_magic(path) and not system.exists(path)
        names = system.glob(path) if magic else [path]
    found = shown(names, path, url) if magic else names
    with reading(url):
        below = [sorted(system.find(one)) if system.isdir(one) else None for one in found]
    full = _full_name(system)
    return [(full(one), files and [full(file) for file in files]) for one, files in zip(found, below, strict=True)]


def _full_name(system):
    """What a path is called from outside: a local one as it is, others with their protocol."""
    names = system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)
    return str if "file" in names else system.unstrip_protocol
