"""Bags from files of arrays: NumPy archives (.npz) and MATLAB matrices (.mat); `save_npz` writes the former."""

from __future__ import annotations

import math
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from bagwise.bags.arrays import unpad
from bagwise.bags.checks import check_targets
from bagwise.bags.container import Bags
from bagwise.bags.frames import ArrayColumns, as_fill_values, as_list, with_missing
from bagwise.bags.validation import ParameterError, as_instances, as_offsets, refuse_repeated
from bagwise.io.atomic_files import replace_file
from bagwise.io.columns import Roles, refuse_unknown, warn_of_suspects
from bagwise.io.load import gather, rows_in_order
from bagwise.io.matlab import read_matrices
from bagwise.io.readers import reading

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


def save_npz(path, bags: Bags, y=None) -> None:
    """Save bags, and targets if given, as a NumPy archive that `load` reads back exactly, without pickle.

    The archive holds ``instances``, ``offsets``, ``ids``, and where there are any ``targets``, ``groups``,
    ``feature_names``, ``weights``, ``covariates`` and ``covariate_names``. What `load` knows of a table goes with them:
    the columns kept, the names of the id and the target, and the levels of categories. It is written beside its place
    and moved there when complete.

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
            np.savez(stream, **arrays)

    replace_file(path, write)


def _targets(y, bags: Bags) -> np.ndarray:
    """One target, or a column for each of several, of which a bag may lack some."""
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        return np.column_stack([check_targets(column, bags, some=True) for column in np.asarray(y).T])
    return check_targets(y, bags)


# What `load` knows of a table: dictionaries of columns as one array of their names, and one array for each.
_COLUMNS = {"kept": "kept column {!r}", "categories": "levels of {!r}"}


def _from_table(bags: Bags) -> dict[str, np.ndarray]:
    arrays = {}
    for what, text in _COLUMNS.items():
        columns = getattr(bags, what)
        if columns:
            arrays[f"{what}_names"] = _storable(np.array(list(columns), dtype=object), f"names of {what}")
            for k, (name, values) in enumerate(columns.items()):
                arrays[f"{what}_{k}"] = _storable(np.asarray(values, dtype=None), text.format(name))
    names = {"id_name": bags.id_name, "target_name": bags.target_name}
    return arrays | {name: np.array(value) for name, value in names.items() if value is not None}


def _to_table(arrays: dict) -> dict:
    """The same, read back."""
    found: dict = {}
    for what in _COLUMNS:
        if f"{what}_names" in arrays:
            names = arrays[f"{what}_names"].tolist()
            found[what] = {name: arrays[f"{what}_{k}"] for k, name in enumerate(names)}
    if "categories" in found:
        found["categories"] = {name: tuple(levels.tolist()) for name, levels in found["categories"].items()}
    for name in ("id_name", "target_name"):
        if name in arrays:
            value = arrays[name].tolist()
            found[name] = tuple(value) if isinstance(value, list) else value
    return found


def load_npz(path: Path, roles: Roles, *, missing: str, fill_values=()) -> tuple:
    """See `bagwise.io.load.load_labels`."""
    with reading(path):
        refuse_false_sizes(path)
    with reading(path), np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if not _are_bags(arrays):
        return gather(ArrayColumns(_as_columns(path, arrays), fill_values), roles, missing)
    given = ("features", "weights", "bag_features", "categories", "dates", "targets", "ignore")
    asked = {name: getattr(roles, name) for name in given}
    parameter = next((name for name, value in asked.items() if value is not None and len(value)), None)
    if parameter is not None:
        raise ParameterError(
            parameter,
            f"{path} holds bags, not a table; features=, ignore=, weights=, bag_features=, categories=, dates= and "
            "targets= do not apply",
        )
    bags, y = _load_bags(arrays, roles, missing, as_fill_values(fill_values))
    refuse_unknown(arrays, roles.labels.values(), parameter="labels")
    return bags, y, {what: arrays[name] for what, name in roles.labels.items()}


def holds_bags(path: Path) -> bool:
    """Whether an archive holds bags, whose columns have their roles already, rather than a long table."""
    with reading(path):
        refuse_false_sizes(path)
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return _are_bags({name: archive[name] for name in archive.files if name in ("instances", "X")})


def _are_bags(arrays: dict) -> bool:
    """One of our own archives, or a padded block."""
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
        columns = ArrayColumns(dict(enumerate(instances.T)))
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
    y = arrays.get(roles.target or ("targets" if "targets" in arrays else "y"))
    y = None if y is None else _targets(with_missing(np.asarray(y), fill_values), bags)
    names = bags.feature_names or range(bags.n_features)
    warn_of_suspects(
        [*zip(names, bags.instances.T, strict=True), *([] if y is None or y.ndim == 2 else [("targets", y)])]
    )
    return bags, y


def _flat(arrays: dict) -> tuple[np.ndarray, np.ndarray]:
    """Instances and offsets, from either, from sizes, or from a padded block with sizes."""
    if "instances" not in arrays:
        return unpad(arrays["X"], arrays.get("sizes"))
    if "offsets" not in arrays and "sizes" not in arrays:
        raise ValueError("instances alone do not say which rows belong together; store offsets or sizes beside them")
    instances = as_instances(arrays["instances"])
    offsets = arrays["offsets"] if "offsets" in arrays else np.concatenate([[0], np.cumsum(arrays["sizes"])])
    return instances, as_offsets(offsets, len(instances))


def _as_columns(path: Path, arrays: dict) -> dict:
    """Arrays of one length by name; a 2-D array is several columns."""
    columns = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            columns |= {f"{name}_{j + 1}": column for j, column in enumerate(array.T)}
        elif array.ndim == 1:
            columns[name] = array
    if len({len(column) for column in columns.values()}) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{path} is not a table: its arrays must have one length, but are {shapes}")
    return columns


def _storable(values: np.ndarray, what: str) -> np.ndarray:
    """Labels as an array that needs no pickle and comes back equal."""
    plain = np.array(values.tolist()) if values.dtype == object else values
    if plain.dtype == object or plain.shape != values.shape or not (plain == values).all():
        raise TypeError(f"{what} can be saved if all are text, all are numbers, or all are dates (datetime64)")
    return plain


# Published files whose columns are known: so many reflectances, then so many angles.
_LAYOUTS = {"misr1": (12, 4), "misr2": (12, 4), "modis": (7, 5)}


def load_mat(path: Path, roles: Roles, *, missing: str, fill_values, variable) -> tuple:
    """See `bagwise.io.load.load_labels`. Columns are given by name or by position, counted from the end if negative."""
    matrix = _find_matrix(path, variable)
    bag, target = 0 if roles.bag is None else roles.bag, -1 if roles.target is None else roles.target
    if isinstance(target, list | tuple):
        raise ParameterError("target", f"{path.name} has one target; load it once for each of several")
    names = _name_columns(path.stem.lower(), matrix.shape[1], bag, target)

    def named(columns):
        return [_name_of(column, names) for column in as_list(columns)]

    covariates = roles.bag_features
    roles = Roles(
        bag=_name_of(bag, names),
        target=_name_of(target, names),
        features=None if roles.features is None else named(roles.features),
        ignore=named(roles.ignore),
        groups=_name_of(roles.groups, names),
        weights=_name_of(roles.weights, names),
        bag_features=covariates if covariates is None or covariates == "auto" else named(covariates),
        keep=named(roles.keep),
        categories=roles.categories if isinstance(roles.categories, str | dict) else named(roles.categories),
        dates=named(roles.dates),
        targets=roles.targets,
        labels={what: _name_of(column, names) for what, column in roles.labels.items()},
    )
    columns = dict(zip(names, matrix.T, strict=True))
    ids = columns.get(roles.bag)
    if ids is not None and (ids == np.trunc(ids)).all() and np.abs(ids).max() < 2**53:  # MATLAB counts in doubles
        columns[roles.bag] = ids.astype(np.int64)
    return gather(ArrayColumns(columns, fill_values), roles, missing)


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
    """ "bag", "target", and the features between them: by the published layout of the file, or x1, x2, ..."""
    bag_at = _position(bag if _is_position(bag) else 0, width)
    target_at = _position(target if _is_position(target) else -1, width)
    at = {bag_at: "bag", target_at: "target"}
    features = [f"x{j + 1}" for j in range(width - len(at))]
    reflectances, angles = _LAYOUTS.get(stem, (0, 0))
    if at == {0: "bag", width - 1: "target"} and reflectances + angles == len(features):
        features = [f"reflectance_{j + 1}" for j in range(reflectances)] + [f"angle_{j + 1}" for j in range(angles)]
    rest = iter(features)
    return [at.get(j) or next(rest) for j in range(width)]


def _name_of(column, names: list[str]):
    return names[_position(column, len(names))] if _is_position(column) else column


def _is_position(column) -> bool:
    return isinstance(column, int | np.integer)


def _position(column: int, width: int) -> int:
    if not -width <= column < width:
        raise ValueError(f"there is no column {column}; the matrix has {width}, counted from 0")
    return int(column) % width
