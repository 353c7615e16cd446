"""Bags from files of arrays: NumPy archives (.npz), which `save_npz` writes, and MATLAB matrices (.mat).

`from_folder` takes a file of arrays per bag (.npy, .npz, .h5), and a table with a row per bag.
MATLAB files are those of version 4 or 5 (saved by MATLAB up to 7.2, or with -v7). scipy reads them too, but
crashes the interpreter if a byte in the type of the numbers is damaged. Here each type and length is checked before it
is used, and variables other than numeric matrices are skipped.
"""

from __future__ import annotations

import math
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from bagwise.bags.arrays import unpad
from bagwise.bags.checks import check_targets, one_of
from bagwise.bags.container import Bags
from bagwise.bags.frames import FrameColumns, as_fill_values, as_frame, as_list, with_missing
from bagwise.bags.shared_rows import SHARED_ROWS
from bagwise.bags.validation import (
    Parameter,
    ParameterError,
    and_others,
    as_instances,
    as_offsets,
    float_dtype,
    name_bags,
    refuse_repeated,
)
from bagwise.execution.resources import memory_map
from bagwise.io.atomic_files import replace_file
from bagwise.io.columns import Roles, refuse_unknown
from bagwise.io.load import attributes, gather, rows_in_order, warn_of_values, with_instances
from bagwise.io.table_files import names_files, reading
from bagwise.io.tables import read_files

_HEADER = 128  # bytes before the first variable
_COMPRESSED, _MATRIX = 15, 14
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
# The classes of arrays of numbers. Their values may be stored in fewer bytes than the class has.
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800
_VERSION_4 = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}


def read_matrices(path: Path) -> dict[str, np.ndarray]:
    """Read the real matrices of a file by name, in the type that MATLAB has for them."""
    content = memoryview(path.read_bytes())
    if len(content) < 20:
        raise ValueError(f"it has {len(content)} bytes")
    return dict(_version_4(content) if 0 in content[:4] else _version_5(content))


def _version_4(content: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    """Read version 4: repeatedly five whole numbers, the name and the values; the first number encodes the type."""
    at = 0
    while at < len(content):
        order = "<" if 0 <= struct.unpack_from("<i", content, at)[0] < 1000 else ">"
        code, rows, columns, is_complex, n_name = struct.unpack_from(f"{order}5i", content, at)
        number = _VERSION_4.get(code % 1000 // 10)
        if number is None or code not in range(2000) or min(rows, columns, n_name) < 0:
            raise ValueError(f"a matrix of type {code}, of {rows} x {columns} numbers, is not one that MATLAB writes")
        start, dtype = at + 20 + n_name, np.dtype(order + number)
        length = rows * columns * dtype.itemsize * (2 if is_complex else 1)
        if start + length > len(content):
            raise ValueError(f"a matrix claims {length:,} bytes, and {max(len(content) - start, 0):,} are left")
        if code % 10 == 0 and not is_complex:  # 1 is text, 2 is sparse
            values = np.frombuffer(content[start : start + length], dtype).reshape((rows, columns), order="F")
            title = bytes(content[at + 20 : start]).rstrip(b"\0").decode("latin-1")
            yield title, values.astype(dtype.newbyteorder("="))
        at = start + length


def _version_5(content: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:_HEADER]))
    if order is None:
        raise ValueError("its header does not say in which order bytes stand")
    for kind, data in _elements(content[_HEADER:], order, padded=False):
        if kind == _COMPRESSED:
            kind, data = next(_elements(_inflated(data, order), order), (_COMPRESSED, data))
        if kind == _MATRIX:
            yield from _matrix(data, order)


def _elements(data: memoryview, order: str, *, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Yield the type and the bytes of each element; up to four bytes are stored inside the tag."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise ValueError("it ends inside the tag of an element")
        kind, length = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:
            kind, length, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
            if length > 4:
                raise ValueError(f"a tag claims to hold {length} bytes, and has four")
        else:
            start, step = at + 8, 8 + (length + -length % 8 if padded else length)
        if start + length > len(data):
            raise ValueError(f"an element claims {length:,} bytes, and {max(len(data) - start, 0):,} are left")
        yield kind, data[start : start + length]
        at += step


def _inflated(data: memoryview, order: str) -> memoryview:
    """Read the single element of a compressed block, up to the number of bytes that its tag states."""
    stream = zlib.decompressobj()
    tag = stream.decompress(data, 8)
    (length,) = struct.unpack_from(f"{order}I", tag, 4)
    return memoryview(tag + stream.decompress(stream.unconsumed_tail, max(length, 1)))


def _matrix(data: memoryview, order: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of an array; nothing unless it is a real numeric matrix."""
    parts = _elements(data, order)
    described = list(islice(parts, 3))
    if len(described) < 3:
        return
    (_, flags), (shape_kind, shape), (_, name) = described
    (flag,) = struct.unpack_from(f"{order}I", flags)
    dtype = _CLASSES.get(flag & 0xFF)
    if dtype is None or flag & _COMPLEX or shape_kind != 5 or len(shape) != 8:
        return
    rows_and_columns = struct.unpack(f"{order}2i", shape)
    title = bytes(name).decode("latin-1")
    kind, values = next(parts, (None, b""))
    if kind not in _STORED:
        raise ValueError(f"the numbers of matrix {title!r} are of the unknown type {kind}")
    stored = np.dtype(order + _STORED[kind])
    if min(rows_and_columns) < 0 or math.prod(rows_and_columns) * stored.itemsize != len(values):
        size = "{} x {}".format(*rows_and_columns)
        raise ValueError(f"matrix {title!r} of {size} numbers of {stored.itemsize} bytes holds {len(values):,} bytes")
    numbers = np.frombuffer(values, stored).reshape(rows_and_columns, order="F")
    yield title, numbers.astype(np.dtype(dtype))


DENSEST = 1040  # deflate cannot make more bytes of one
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def refuse_false_sizes(path: Path) -> None:
    """Refuse a .npz archive whose headers name more bytes than its parts can hold: 1 KB may name 10^12 rows."""
    whole = path.stat().st_size
    with ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.compress_size > whole or entry.file_size > DENSEST * (entry.compress_size + 64):
                raise ValueError(f"part {entry.filename!r} claims {entry.file_size:,} bytes in a file of {whole:,}")
            with archive.open(entry) as part:
                version = np.lib.format.read_magic(part)
                if version not in _HEADERS:
                    raise ValueError(f"part {entry.filename!r} is an array of the unknown version {version}")
                shape, _, dtype = _HEADERS[version](part)
                named, held = math.prod(shape) * dtype.itemsize, entry.file_size - part.tell()
            if named > held:
                raise ValueError(f"part {entry.filename!r} holds {held:,} bytes where its header speaks of {named:,}")


def _open_npz(path: Path):
    refuse_false_sizes(path)
    return np.load(path, allow_pickle=False)


def save_npz(path, bags: Bags, y=None) -> None:
    """Save bags, and targets if given, as a NumPy archive that `load` reads back exactly, without pickle.

    The archive holds ``instances``, ``offsets``, ``ids``, and where there are any ``targets``, ``groups``,
    ``feature_names``, ``weights``, ``covariates`` and ``covariate_names``. The metadata of a loaded table is
    saved too: the kept columns, the names of the id and the target, and the levels of categories. The write is atomic.

    Parameters
    ----------
    path : str or path
        It must end in ``.npz``.
    bags : Bags
    y : array, a target per bag, or a column per target, optional

    Examples
    --------
    >>> import tempfile, pathlib, bagwise as bw
    >>> bags = bw.from_arrays([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], ids=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bw.save_npz(pathlib.Path(folder) / "bags.npz", bags, [0.5, 1.5])
    ...     again, y = bw.load(pathlib.Path(folder) / "bags.npz")
    >>> again == bags, y.tolist()
    (True, [0.5, 1.5])
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".npz":
        raise ValueError(f"the name of the file must end in .npz, not {path.name!r}")
    refuse_repeated(bags.ids)  # a selection may repeat a bag; it could not be loaded again
    arrays = {"instances": bags.instances, "offsets": bags.offsets, "ids": _storable(bags.ids, "ids")}
    if y is not None:
        arrays["targets"] = _targets(y, bags)
    if bags.groups is not None:
        arrays["groups"] = _storable(bags.groups, "groups")
    for name in ("feature_names", "covariate_names"):
        if getattr(bags, name) is not None:
            arrays[name] = _storable(np.array(getattr(bags, name), dtype=object), name.replace("_", " "))
    arrays |= {name: getattr(bags, name) for name in ("weights", "covariates") if getattr(bags, name) is not None}
    arrays |= _from_table(bags)

    def write(whole: Path) -> None:
        with whole.open("wb") as stream:  # given a name, numpy would change that of BAGS.NPZ
            np.savez(stream, **arrays)  # type: ignore[arg-type]  # for its other parameter

    replace_file(path, write)


def _targets(y, bags: Bags) -> np.ndarray:
    """Return one target, or a column for each of several; a bag may lack some of these."""
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        return np.column_stack([check_targets(column, bags, allow_missing=True) for column in np.asarray(y).T])
    return check_targets(y, bags)


# Metadata of a table: each dictionary of columns is stored as one array of names, and one array per column.
_COLUMNS = {"kept": "kept column {!r}", "categories": "levels of {!r}"}


def _from_table(bags: Bags) -> dict[str, np.ndarray]:
    arrays = {}
    for part, text in _COLUMNS.items():
        columns = getattr(bags, part)
        if columns:
            arrays[f"{part}_names"] = _storable(np.array(list(columns), dtype=object), f"names of {part}")
            for k, (name, values) in enumerate(columns.items()):
                arrays[f"{part}_{k}"] = _storable(np.asarray(values, dtype=None), text.format(name))
    names = {"id_name": bags.id_name, "target_name": bags.target_name}
    return arrays | {name: np.array(value) for name, value in names.items() if value is not None}


def _to_table(arrays: dict) -> dict:
    """Read the metadata of a table from the arrays of an archive."""
    metadata: dict = {}
    for part in _COLUMNS:
        if f"{part}_names" in arrays:
            names = arrays[f"{part}_names"].tolist()
            metadata[part] = {name: arrays[f"{part}_{k}"] for k, name in enumerate(names)}
    if "categories" in metadata:
        metadata["categories"] = {name: tuple(levels.tolist()) for name, levels in metadata["categories"].items()}
    for name in ("id_name", "target_name"):
        if name in arrays:
            value = arrays[name].tolist()
            metadata[name] = tuple(value) if isinstance(value, list) else value
    return metadata


def load_npz(path: Path, roles: Roles, *, missing: str, fill_values=()) -> tuple:
    """Load a file; see `bagwise.io.load.load_labels`."""
    with reading(path), _open_npz(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if not _are_bags(arrays):
        return gather(FrameColumns(_as_columns(path, arrays), fill_values), roles, missing)
    options = ("features", "weights", "bag_features", "categories", "dates", "targets", "ignore")
    values = {name: getattr(roles, name) for name in options}
    parameter = next((name for name, value in values.items() if value is not None and len(value)), None)
    if parameter is not None:
        raise ParameterError(
            parameter,
            f"{path} holds bags, not a table; features=, ignore=, weights=, bag_features=, categories=, dates= and "
            "targets= do not apply",
        )
    bags, y = _load_bags(arrays, roles, missing, as_fill_values(fill_values)[0])
    refuse_unknown(arrays, roles.labels.values(), parameter="labels")
    return bags, y, {label: arrays[name] for label, name in roles.labels.items()}


def holds_bags(path: Path) -> bool:
    """Return whether an archive holds bags, whose columns have their roles already, rather than a long table."""
    with reading(path), _open_npz(path) as archive:
        return _are_bags({name: archive[name] for name in archive.files if name in ("instances", "X")})


def _are_bags(arrays: dict) -> bool:
    """Return whether arrays are those of `save_npz`, or a padded block."""
    return "instances" in arrays or getattr(arrays.get("X"), "ndim", 0) == 3


def _load_bags(arrays: dict, roles: Roles, missing: str, fill_values) -> tuple[Bags, np.ndarray | None]:
    for parameter, name in roles.single:
        refuse_unknown(arrays, [name], parameter=parameter)
    instances, offsets = _flat(arrays)
    instances = with_missing(instances, fill_values)
    ids, groups = arrays.get(roles.bag or "ids"), arrays.get(roles.groups or "groups")
    extra = {name: arrays.get(name) for name in ("feature_names", "weights", "covariates", "covariate_names")}
    more = _to_table(arrays)
    if missing == "drop-instances":
        names = np.arange(len(offsets) - 1) if ids is None else ids
        columns = FrameColumns(dict(enumerate(instances.T)))
        codes = np.repeat(np.arange(len(names)), np.diff(offsets))
        rows, offsets = rows_in_order(columns, columns.names, codes, names, missing)
        if extra["weights"] is not None and len(extra["weights"]) == len(instances):
            extra["weights"] = extra["weights"][rows]
        instances, missing = instances[rows], "refuse"
        more["kept"] = {name: values[rows] for name, values in more.get("kept", {}).items()} or None
    bags = Bags(instances, offsets, ids, groups=groups, missing=missing, **extra)
    wrong = [name for name, values in (more.get("kept") or {}).items() if len(values) != bags.n_instances]
    if wrong:
        raise ValueError(
            f"kept column {wrong[0]!r} has {len(more['kept'][wrong[0]])} values; one per instance is needed"
        )
    bags = bags._with(**more)
    bags = bags.with_groups(SHARED_ROWS) if roles.group_by_rows else bags
    y = arrays.get(roles.target or ("targets" if "targets" in arrays else "y"))
    y = None if y is None else _targets(with_missing(np.asarray(y), fill_values), bags)
    targets = [] if y is None else [f"target {k + 1}" for k in range(y.shape[1])] if y.ndim == 2 else ["targets"]
    warn_of_values(bags, y, targets, shared_rows=set(roles.labels) <= {"time"})
    return bags, y


def _flat(arrays: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return instances and offsets, from offsets, sizes, or a padded block with sizes."""
    if "instances" not in arrays:
        return unpad(arrays["X"], arrays.get("sizes"))
    if "offsets" not in arrays and "sizes" not in arrays:
        raise ValueError("instances alone do not say which rows belong together; store offsets or sizes beside them")
    instances = as_instances(arrays["instances"])
    offsets = arrays["offsets"] if "offsets" in arrays else np.concatenate([[0], np.cumsum(arrays["sizes"])])
    return instances, as_offsets(offsets, len(instances))


def _as_columns(path: Path, arrays: dict) -> dict:
    """Return arrays of one length by name; a 2-D array is several columns."""
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            columns |= {f"{name}_{j + 1}": column for j, column in enumerate(array.T)}
        elif array.ndim == 1:
            columns[name] = array
    if len({len(column) for column in columns.values()}) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{path} is not a table: its arrays must have one length, but are {shapes}")
    return columns


def _storable(values: np.ndarray, description: str) -> np.ndarray:
    """Convert labels to an array that is saved without pickle and compares equal."""
    plain = np.array(values.tolist()) if values.dtype == object else values
    if plain.dtype == object or plain.shape != values.shape or not (plain == values).all():
        raise TypeError(f"{description} can be saved if all are text, all are numbers, or all are dates (datetime64)")
    return plain


# Published files whose columns are known: so many reflectances, then so many angles.
_LAYOUTS = {"misr1": (12, 4), "misr2": (12, 4), "modis": (7, 5)}


def load_mat(path: Path, roles: Roles, *, missing: str, fill_values, variable) -> tuple:
    """Load a file; see `bagwise.io.load.load_labels`."""
    matrix = _find_matrix(path, variable)
    bag, target = 0 if roles.bag is None else roles.bag, -1 if roles.target is None else roles.target
    if isinstance(target, list | tuple):
        raise ParameterError("target", f"{path.name} has one target; load it once for each of several")
    names = _name_columns(path.stem.lower(), matrix.shape[1], bag, target)

    def named(columns):
        return [_name_of(column, names) for column in as_list(columns)]

    columns_of = {name: named(getattr(roles, name)) for name in ("ignore", "keep", "dates")}
    for name in ("features", "bag_features", "categories"):
        role = getattr(roles, name)
        columns_of[name] = role if role is None or isinstance(role, str | dict) else named(role)
    roles = replace(
        roles,
        bag=_name_of(bag, names),
        target=_name_of(target, names),
        groups=_name_of(roles.groups, names),
        weights=_name_of(roles.weights, names),
        labels={label: _name_of(column, names) for label, column in roles.labels.items()},
        **columns_of,
    )
    columns: dict = dict(zip(names, matrix.T, strict=True))
    ids = columns.get(roles.bag)
    if ids is not None and (ids == np.trunc(ids)).all() and np.abs(ids).max() < 2**53:  # MATLAB counts in doubles
        columns[roles.bag] = ids.astype(np.int64)
    return gather(FrameColumns(columns, fill_values), roles, missing)


def _find_matrix(path: Path, variable: str | None) -> np.ndarray:
    with reading(path), path.open("rb") as file:
        start = file.read(10)
    if start == b"MATLAB 7.3":
        raise ValueError(f"{path} is a MATLAB 7.3 (HDF5) file, which is not read; save it again with '-v7'")
    with reading(path):
        matrices = {name: matrix for name, matrix in read_matrices(path).items() if matrix.shape[1] >= 3}
    if not matrices:
        raise ValueError(f"{path} holds no matrix of numbers with at least 3 columns (bag id, features, target)")
    if variable is None and len(matrices) > 1:
        raise ValueError(f"{path} holds several matrices; choose one with variable=: {', '.join(matrices)}")
    if variable is not None and variable not in matrices:
        raise ValueError(f"{path} holds no matrix {variable!r}; it holds {', '.join(matrices)}")
    return matrices[variable or next(iter(matrices))]


def _name_columns(stem: str, width: int, bag, target) -> list[str]:
    """Name the columns: "bag", "target", and features by the published layout of the file, or x1, x2, ..."""
    bag_at = _position(bag if _is_position(bag) else 0, width)
    target_at = _position(target if _is_position(target) else -1, width)
    at = {bag_at: "bag", target_at: "target"}
    features = [f"x{j + 1}" for j in range(width - len(at))]
    reflectances, angles = _LAYOUTS.get(stem, (0, 0))
    if at == {0: "bag", width - 1: "target"} and reflectances + angles == len(features):
        features = [f"reflectance_{j + 1}" for j in range(reflectances)] + [f"angle_{j + 1}" for j in range(angles)]
    remaining = iter(features)
    return [at.get(j) or next(remaining) for j in range(width)]


def _name_of(column, names: list[str]):
    return names[_position(column, len(names))] if _is_position(column) else column


def _is_position(column) -> bool:
    return isinstance(column, int | np.integer)


def _position(column: int, width: int) -> int:
    if not -width <= column < width:
        raise ValueError(f"there is no column {column}; the matrix has {width}, counted from 0")
    return int(column) % width


# A folder with a file per bag -----------------------------------------------------------------------------------------

HDF5 = (".h5", ".hdf5")
ENDINGS = (".npy", ".npz", *HDF5)


def from_folder(
    folder,
    table=None,
    *,
    bag=None,
    target=None,
    groups=None,
    bag_features=None,
    array=None,
    feature_names=None,
    unmatched="refuse",
    missing="refuse",
) -> tuple[Bags, np.ndarray | None]:
    """Build bags and targets from a folder with a file per bag, and a table with a row per bag.

    This is how embeddings of slides, scans and recordings are stored: ``slides/S017.h5`` holds an array (instances,
    features), and a clinical table has a row for S017. A file belongs to the row whose id is its name without
    the ending. Files are read one after the other into the one array of the bags.

    Parameters
    ----------
    folder : path
        With files .npy, .npz, .h5 or .hdf5, each an array (instances, features); others are ignored. Pickled arrays
        are never read.
    table : data frame or path of a table, optional
        A row per bag. Default: a bag per file, without targets, in the order of their names.
    bag : column of the table with the ids
    target : column of the table with the targets, optional
    groups : column of labels, optional
        Bags of one group (slides of one patient) stay together in every inner split.
    bag_features : columns of numbers of the bag as a whole, optional
        They become the bags' covariates.
    array : str, optional
        The array of a .npz or .h5 file that holds several, such as "features".
    feature_names : one string per column, optional
    unmatched : {"refuse", "drop"}
        What happens to rows without a file and files without a row. "drop" leaves them out, with a warning.
    missing : {"refuse", "impute", "keep"}
        Whether NaN among the features is refused or kept for a method that takes it.

    Returns
    -------
    bags : Bags
        In the order of the table. float32 if every array is (or of lower precision), else float64.
    y : array of float64, one target per bag, or None without ``target``

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, pandas as pd, bagwise as bw
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for slide, size in (("S1", 2), ("S2", 3)):
    ...     np.save(folder / f"{slide}.npy", np.ones((size, 4)))
    >>> clinical = pd.DataFrame({"slide": ["S2", "S1"], "grade": [3, 1]})
    >>> bags, y = bw.from_folder(folder, clinical, bag="slide", target="grade")
    >>> bags, bags.ids.tolist(), y.tolist()
    (Bags: 2 bags of 2 to 3 instances (5 in all), 4 features, ['S2', 'S1'], [3.0, 1.0])
    """
    one_of(unmatched, ("refuse", "drop"), "unmatched")
    one_of(missing, ("refuse", "impute", "keep"), "missing")
    files = find_arrays(folder)
    if table is None:
        if unusable := [n for n, v in (("bag", bag), ("target", target), ("groups", groups)) if v is not None]:
            raise ParameterError(
                unusable[0], f"{unusable[0]} names a column of the table; give the table, or leave it out"
            )
        attributes, y = Bags(np.arange(len(files), dtype=float)[:, None], np.arange(len(files) + 1), list(files)), None
    else:
        attributes, y = _attributes(table, Roles(bag, target, groups=groups, bag_features=bag_features))
        matched = _matched(attributes.ids, files, unmatched, folder)
        attributes, y = attributes[matched], None if y is None else y[matched]
    arrays, sizes = _read([files[str(bag)] for bag in attributes.ids], array)
    return with_instances(attributes, arrays, sizes, feature_names=feature_names, missing=missing), y


def find_arrays(folder) -> dict[str, Path]:
    """Return the files of arrays in a folder, by name without the ending, in sorted order."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    paths: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in ENDINGS or path.name.startswith("."):
            continue
        if path.stem in paths:
            raise ValueError(
                f"{paths[path.stem].name} and {path.name} are both files of bag {path.stem!r}; leave one of them"
            )
        paths[path.stem] = path
    if not paths:
        raise ValueError(f"{folder} holds no file of arrays; a bag is a file that ends in {', '.join(ENDINGS)}")
    return paths


def _attributes(table, roles: Roles) -> tuple[Bags, np.ndarray | None]:
    """Read a table with a row per bag: ids, targets, groups and covariates."""
    if roles.bag is None:
        raise ParameterError("bag", Parameter("bag"), " is needed: the column of the table that names the files")
    frame = read_files(table, roles) if names_files(table) else as_frame(table)
    if frame is None:
        raise ValueError(f"{table} is not a table; give a .csv, .tsv, .parquet, .feather or .arrow file")
    remedy = "in column {column!r}; the table needs a row per bag: drop the others, or join their files"
    return attributes(FrameColumns(frame), roles, repeated="{id} appears twice " + remedy)


def _matched(ids: np.ndarray, files: dict, unmatched: str, folder) -> np.ndarray:
    """Return the positions of the ids that have a file.

    Ids and files without counterpart are refused, or dropped with a warning.
    """
    lacks = np.array([str(bag) not in files for bag in ids])
    texts = set(map(str, ids))
    without_row = [stem for stem in files if stem not in texts]
    faults = [f"{name_bags(ids, lacks)} no file in {folder}"] if lacks.any() else []
    if without_row:
        faults.append(f"{files[without_row[0]].name}{and_others(len(without_row) - 1)} has no row in the table")
    if not faults:
        return np.arange(len(ids))
    if unmatched == "refuse" or lacks.all():
        end = "the names of the files without their endings must be the ids of the table"
        way = [] if lacks.all() else [", or leave them out by ", Parameter("unmatched", "drop")]
        raise ParameterError("unmatched", f"{'; '.join(faults)}; {end}", *way)
    warnings.warn(f"{'; '.join(faults)}; they are left out", stacklevel=3)
    return np.flatnonzero(~lacks)


def _read(paths: list[Path], array) -> tuple[np.ndarray, list[int]]:
    """Read all instances, file after file; shapes are checked first, so that there is one copy."""
    shapes: list[tuple[int, ...]] = []
    dtypes: list[np.dtype] = []
    for path in paths:
        with _opened(path, array) as values:
            if values.ndim != 2 or values.dtype.kind not in "fiu" or 0 in values.shape:
                raise ValueError(
                    f"{path.name} holds an array of shape {values.shape} and type {values.dtype}; every bag must be "
                    "numbers, (instances, features), with one instance at least"
                )
            if shapes and values.shape[1] != shapes[0][1]:
                raise ValueError(
                    f"{path.name} has {values.shape[1]} features, but {paths[0].name} has {shapes[0][1]}; "
                    "all bags need the same"
                )
            shapes.append(values.shape)
            dtypes.append(values.dtype)
    sizes = [height for height, _ in shapes]
    instances = np.empty((sum(sizes), shapes[0][1]), dtype=float_dtype(dtypes))
    start = 0
    for path, size in zip(paths, sizes, strict=True):
        with _opened(path, array) as values:
            instances[start : start + size] = values[:]
        start += size
    return instances, sizes


@contextmanager
def _opened(path: Path, array):
    """Open the array of a file, which is read when it is indexed where the format allows it."""
    ending = path.suffix.lower()
    if ending == ".npy":
        if array is not None:
            raise ParameterError("array", f"array= chooses among the arrays of a file; {path.name} holds one")
        with reading(path):
            values = memory_map(path)
        yield values
        return
    names: list[str] = []
    with reading(path):
        if ending == ".npz":
            file = _open_npz(path)
            names = file.files
        else:
            try:
                import h5py
            except ImportError as error:
                raise ImportError(f"reading {path.name} needs h5py: pip install 'bagwise[hdf5]'") from error
            file = h5py.File(os.fspath(path), "r")
            file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
    with file:
        name = _chosen(path, names, array)
        with reading(path):
            values = file[name]
        yield values


def _chosen(path: Path, names: list[str], array) -> str:
    if array is None and len(names) == 1:
        return names[0]
    if array not in names:
        held = ", ".join(names) or "none"
        problem = "several arrays" if array is None else f"no array {array!r}"
        raise ParameterError("array", f"{path.name} holds {problem}; choose one by ", Parameter("array"), f": {held}")
    return array
