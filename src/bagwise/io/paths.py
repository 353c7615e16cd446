"""Several files as one table: a list of paths, or a pattern such as ``year=*/part-*.parquet``.

Files on other file systems, by URL, through fsspec: ``s3://bucket/lake``, ``file:///data/lake``, ``memory://lake``.
"""

from __future__ import annotations

import glob
import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

import narwhals as nw

from bagwise.io.readers import reading

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


def stack(frames: list[nw.DataFrame], paths: list[Path]) -> nw.DataFrame:
    """The rows of all frames, one below the other; a bag may be spread over them. Columns are matched by name."""
    names = frames[0].columns
    for frame, path in zip(frames[1:], paths[1:], strict=True):
        _refuse_other_columns(frame.columns, names, path, paths[0])
    mixed = [name for name in names if len({frame.schema[name] for frame in frames}) > 1]
    for name in mixed:
        _refuse_mixed_text(name, frames, paths)
    # Whole numbers in one file and fractions in another are both numbers; whole numbers of two widths stay whole.
    as_numbers = [nw.col(name).cast(_common(name, frames, paths)) for name in mixed]
    frames = [frame.select(names).with_columns(*as_numbers) for frame in frames]
    if frames[0].implementation.is_pyarrow():
        import pyarrow as pa

        tables = _one_text([frame.to_native() for frame in frames])
        return nw.from_native(pa.concat_tables(tables, promote_options="permissive"), eager_only=True)
    return nw.concat(frames, how="vertical")


def _one_text(tables: list) -> list:
    """Tables of pyarrow in which a text is of one type: libraries write it in two widths, or as a view."""
    import pyarrow as pa

    def texts(kind) -> bool:
        return pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()

    for k, name in enumerate(tables[0].column_names):
        kinds = {table.schema.field(k).type for table in tables}
        if len(kinds) > 1 and all(map(texts, kinds)):
            tables = [table.set_column(k, name, table.column(k).cast(pa.large_string())) for table in tables]
    return tables


def _common(name, frames: list[nw.DataFrame], paths: list[Path]):
    """The type that holds the whole numbers, or numbers, of all files exactly."""
    whole = all(frame.schema[name].is_integer() for frame in frames)
    limit = 2**63 - 1 if whole else 2**53
    for frame, path in zip(frames, paths, strict=True):
        if frame.schema[name].is_integer() and (frame[name].max() or 0) > limit:
            raise ValueError(
                f"column {name!r} of {path} has whole numbers beyond {limit}, which another file holds in a type that "
                "would round them; give the column one type"
            )
    return nw.Int64 if whole else nw.Float64


def _refuse_other_columns(columns, names, path: Path, first: Path) -> None:
    lost, added = [n for n in names if n not in columns], [n for n in columns if n not in names]
    if lost or added:
        what = [f"lacks {', '.join(map(str, lost[:5]))}"] if lost else []
        what += [f"adds {', '.join(map(str, added[:5]))}"] if added else []
        raise ValueError(f"{path} {' and '.join(what)}; all files need the columns of the first, {first}")


def _refuse_mixed_text(name, frames, paths) -> None:
    types = [frame.schema[name] for frame in frames]
    odd = [not dtype.is_numeric() for dtype in types]
    if any(odd):
        other = next(k for k, dtype in enumerate(types) if dtype != types[0])
        raise ValueError(
            f"column {name!r} is {types[0]} in {paths[0]} but {types[other]} in {paths[other]}; give it one type"
        )


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
