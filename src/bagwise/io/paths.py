"""Which files a source means: paths, patterns such as ``year=*/part-*.parquet``, and URLs that fsspec knows."""

from __future__ import annotations

import glob
import os
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from bagwise.io.readers import reading

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # a server of one's own that understands S3
HIDDEN = ("_", ".")  # how the names start of what writers leave beside the data


def find_files(source) -> list[Path]:
    """The files meant by a path, a pattern with ``*``, ``?`` or ``[``, or a list of either; patterns in sorted order.

    A file that is really called so is taken before a pattern is thought of. Each comes once, whatever it is called. A
    wildcard stands for no ``_`` or ``.`` at the start of the name of a file or folder, which is no data; written out,
    it is.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("b.csv", "a.csv", "_a.csv"):
    ...     (folder / name).touch()
    >>> [path.name for path in find_files(folder / "*.csv")]
    ['a.csv', 'b.csv']
    >>> [path.name for path in find_files(folder / "_*.csv")]
    ['_a.csv']
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not sources:
        raise ValueError("the list of files is empty; give at least one path or pattern")
    found: dict[str, Path] = {}
    for path in (path for one in sources for path in _expand(one)):
        found.setdefault(os.path.abspath(path), path)
    return list(found.values())


def _expand(source) -> list[Path]:
    path = Path(source).expanduser()
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    return [Path(one) for one in shown(glob.glob(str(path), recursive=True), str(path), path)]


def shown(names: list[str], pattern: str, source) -> list[str]:
    """What a pattern matched, sorted, without what lies behind a hidden name that it does not write out."""
    pieces = [piece for piece in re.split(r"[/\\]", pattern) if piece.startswith(HIDDEN)]

    def meant(step: str) -> bool:
        return not step.startswith(HIDDEN) or any(fnmatchcase(step, piece) for piece in pieces)

    found = [name for name in sorted(names) if all(map(meant, re.split(r"[/\\]", name)))]
    if not found:
        hint = f"; {min(names)} is hidden: write out the _ or ." if names else ""
        raise FileNotFoundError(f"no file matches {source}{hint}")
    return found


def is_url(source) -> bool:
    return "://" in str(source)


def open_url(url: str) -> tuple:
    """The file system of a URL, for fsspec, and the path within it.

    What fsspec needs another package for (s3fs, gcsfs, adlfs) is opened by pyarrow if that is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"reading {url} needs fsspec: pip install 'bagwise[dask]'") from error
    try:
        return url_to_fs(url)
    except ImportError as error:
        scheme, _, path = url.partition("://")
        system = _of_pyarrow(scheme, path.partition("/")[0], *map(os.environ.get, ENDPOINTS))
        if system is None:
            raise ImportError(f"reading {url} needs another package ({error})") from error
        return system, path.rstrip("/")
    except ValueError as error:
        raise ValueError(f"{url} names no file system that fsspec knows ({error})") from error


@lru_cache(maxsize=16)  # it holds connections
def _of_pyarrow(scheme: str, bucket: str, *endpoints: str | None):
    """What pyarrow itself can open, in the form of fsspec; None if it cannot. Keys are found in the usual places."""
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    endpoint = next(filter(None, endpoints), None) if scheme == "s3" else None
    try:
        if endpoint is None:
            return ArrowFSWrapper(FileSystem.from_uri(f"{scheme}://{bucket}")[0])
        from pyarrow.fs import S3FileSystem

        return ArrowFSWrapper(S3FileSystem(endpoint_override=endpoint, region=os.environ.get("AWS_DEFAULT_REGION")))
    except (ArrowException, ImportError):  # no such scheme, or built without it
        return None


def for_pyarrow(system):
    """A file system of fsspec as one of pyarrow."""
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    return system.fs if isinstance(system, ArrowFSWrapper) else PyFileSystem(FSSpecHandler(system))


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
