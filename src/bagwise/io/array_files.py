"""Bags from array files: an archive (.npz) written by `save_npz`, or a folder with one file per bag."""

from __future__ import annotations

import json
import math
import os
import warnings
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from bagwise.bags.arrays import unpad
from bagwise.bags.checks import check_targets
from bagwise.bags.container import Bags
from bagwise.bags.frames import FrameColumns, as_fill_values, as_frame, names_files, with_missing
from bagwise.bags.shared_rows import SHARED_ROWS
from bagwise.bags.validation import (
    ParameterError,
    and_others,
    as_instances,
    as_offsets,
    float_dtype,
    name_bags,
    one_of,
    refuse_repeated,
)
from bagwise.execution.resources import memory_map
from bagwise.io.atomic_files import replace_file
from bagwise.io.columns import Roles, refuse_unknown
from bagwise.io.load import attributes, gather, rows_in_order, warn_of_values, with_instances
from bagwise.io.table_files import read_files, reading

DENSEST = 1040  # the largest compression ratio of deflate
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _open_npz(path: Path):
    """Open an archive; refuse headers that declare more bytes than their parts hold (1 KB may declare 10^12 rows)."""
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
                raise ValueError(f"part {entry.filename!r} holds {held:,} bytes, but its header declares {named:,}")
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
    refuse_repeated(bags.ids)  # a selection may repeat a bag, but repeated ids cannot be loaded
    arrays = {"instances": bags.instances, "offsets": bags.offsets, "ids": _storable(bags.ids, "ids")}
    if y is not None:
        arrays["targets"] = targets_of(y, bags)
    if bags.groups is not None:
        arrays["groups"] = _storable(bags.groups, "groups")
    arrays |= {name: getattr(bags, name) for name in ("weights", "covariates") if getattr(bags, name) is not None}
    for name in ("feature_names", "covariate_names"):
        if getattr(bags, name) is not None:
            arrays[name] = _storable(np.array(getattr(bags, name), dtype=object), name.replace("_", " "))
    for k, (name, values) in enumerate((bags.kept or {}).items()):
        arrays[f"kept_{k}"] = _storable(values, f"kept column {name!r}")
    metadata = {"kept": list(bags.kept or ()), "categories": list((bags.categories or {}).items())}
    metadata |= {"id_name": bags.id_name, "target_name": bags.target_name}
    arrays["metadata"] = np.array(json.dumps(metadata))

    def write(whole: Path) -> None:
        with whole.open("wb") as stream:  # with a path, numpy would append .npz to BAGS.NPZ
            np.savez(stream, **arrays)  # type: ignore[arg-type]  # for its other parameter

    replace_file(path, write)


def targets_of(y, bags: Bags) -> np.ndarray:
    """Return one target per bag, or a column per target; a bag may lack some of several targets."""
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        return np.column_stack([check_targets(column, bags, allow_missing=True) for column in np.asarray(y).T])
    return check_targets(y, bags)


def _storable(values: np.ndarray, description: str) -> np.ndarray:
    """Convert labels to an array that is saved without pickle and compares equal."""
    plain = np.array(values.tolist()) if values.dtype == object else values
    if plain.dtype == object or plain.shape != values.shape or not (plain == values).all():
        raise TypeError(f"{description} can be saved if all are text, all are numbers, or all are dates (datetime64)")
    return plain


def load_npz(path: Path, roles: Roles, *, missing: str, fill_values=()) -> tuple:
    """Load a file; see `bagwise.io.load.load_labels`."""
    with reading(path), _open_npz(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
        metadata = _read_metadata(arrays)
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
    for parameter, name in roles.single:
        refuse_unknown(arrays, [name], parameter=parameter)
    bags, y = _load_bags(arrays, metadata, roles, missing, as_fill_values(fill_values)[0])
    return bags, y, {label: arrays[name] for label, name in roles.labels.items()}


def holds_bags(path: Path) -> bool:
    """Return whether an archive holds bags, whose columns already have roles, or a long table."""
    with reading(path), _open_npz(path) as archive:
        return _are_bags({name: archive[name] for name in archive.files if name in ("instances", "X")})


def _are_bags(arrays: dict) -> bool:
    """Return whether arrays are those of `save_npz`, or a padded block."""
    return "instances" in arrays or getattr(arrays.get("X"), "ndim", 0) == 3


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


def _read_metadata(arrays: dict) -> dict:
    """Return the metadata of a loaded table, as the attributes of bags."""
    stored = json.loads(str(arrays.get("metadata", "{}")))
    target_name = stored.get("target_name")
    return {
        "kept": {name: arrays[f"kept_{k}"] for k, name in enumerate(stored.get("kept", ()))} or None,
        "categories": {name: tuple(levels) for name, levels in stored.get("categories", ())} or None,
        "id_name": stored.get("id_name"),
        "target_name": tuple(target_name) if isinstance(target_name, list) else target_name,
    }


def _load_bags(arrays: dict, metadata: dict, roles: Roles, missing: str, fill_values) -> tuple[Bags, np.ndarray | None]:
    if "instances" not in arrays:
        instances, offsets = unpad(arrays["X"], arrays.get("sizes"))
    elif "offsets" not in arrays and "sizes" not in arrays:
        raise ValueError(
            "instances alone do not show which rows belong together; store offsets or sizes in the same file"
        )
    else:
        instances, _ = as_instances(arrays["instances"])
        offsets = arrays["offsets"] if "offsets" in arrays else np.concatenate([[0], np.cumsum(arrays["sizes"])])
        offsets = as_offsets(offsets, len(instances))
    instances = with_missing(instances, fill_values)
    ids, weights, kept = arrays.get(roles.bag or "ids"), arrays.get("weights"), metadata["kept"]
    for name, values in (kept or {}).items():
        if len(values) != len(instances):
            raise ValueError(f"kept column {name!r} has {len(values)} values; one per instance is needed")
    if missing == "drop-instances":
        names = np.arange(len(offsets) - 1) if ids is None else ids
        columns = FrameColumns(dict(enumerate(instances.T)))
        codes = np.repeat(np.arange(len(names)), np.diff(offsets))
        rows, offsets = rows_in_order(columns, columns.names, codes, names, missing)
        if weights is not None and len(weights) == len(instances):
            weights = weights[rows]
        instances, missing = instances[rows], "refuse"
        metadata["kept"] = kept and {name: values[rows] for name, values in kept.items()}
    groups = arrays.get(roles.groups or "groups")
    more = {name: arrays.get(name) for name in ("feature_names", "covariates", "covariate_names")}
    bags = Bags(instances, offsets, ids, groups=groups, missing=missing, weights=weights, **more)._with(**metadata)
    bags = bags.with_groups(SHARED_ROWS) if roles.group_by_rows else bags
    y = arrays.get(roles.target or ("targets" if "targets" in arrays else "y"))
    y = None if y is None else targets_of(with_missing(np.asarray(y), fill_values), bags)
    targets = [] if y is None else [f"target {k + 1}" for k in range(y.shape[1])] if y.ndim == 2 else ["targets"]
    warn_of_values(bags, y, targets, shared_rows=set(roles.labels) <= {"time"})
    return bags, y


# A folder with a file per bag -----------------------------------------------------------------------------------------

ENDINGS = (".npy", ".npz", ".h5", ".hdf5")


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

    A file belongs to the row whose id is its name without the ending: ``slides/S017.h5`` holds an array (instances,
    features), and a clinical table has a row for S017.

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
        How to treat rows without a file, and files without a row. "drop" leaves them out, with a warning.
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
    files = _find_arrays(folder)
    if table is None:
        if unusable := [n for n, v in (("bag", bag), ("target", target), ("groups", groups)) if v is not None]:
            raise ParameterError(
                unusable[0], f"{unusable[0]} names a column of the table; give the table, or leave it out"
            )
        of_bags, y = Bags(np.arange(len(files), dtype=float)[:, None], np.arange(len(files) + 1), list(files)), None
    else:
        if bag is None:
            raise ParameterError("bag", "bag= is needed: the column of the table that names the files")
        roles = Roles(bag, target, groups=groups, bag_features=bag_features)
        frame = read_files(table, roles) if names_files(table) else as_frame(table)
        if frame is None:
            raise ValueError(f"{table} is not a table; give a .csv, .tsv, .parquet, .feather or .arrow file")
        repeated = (
            "{id} appears twice in column {column!r}; the table needs a row per bag: drop the others, or join "
            "their files"
        )
        of_bags, y = attributes(FrameColumns(frame), roles, repeated=repeated)
        matched = _matched(of_bags.ids, files, unmatched, folder)
        of_bags, y = of_bags[matched], None if y is None else y[matched]
    instances, sizes = _read([files[str(bag)] for bag in of_bags.ids], array)
    return with_instances(of_bags, instances, sizes, feature_names=feature_names, missing=missing), y


def _find_arrays(folder) -> dict[str, Path]:
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


def _matched(ids: np.ndarray, files: dict, unmatched: str, folder) -> np.ndarray:
    """Return the positions of the ids that have a file; refuse ids and files without counterpart, or drop them."""
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
        way = "" if lacks.all() else ", or leave them out by unmatched='drop'"
        raise ParameterError("unmatched", f"{'; '.join(faults)}; {end}{way}")
    warnings.warn(f"{'; '.join(faults)}; they are left out", stacklevel=3)
    return np.flatnonzero(~lacks)


def _read(paths: list[Path], array) -> tuple[np.ndarray, list[int]]:
    """Read all instances, file after file; shapes are checked first, so that there is one copy."""
    sizes: list[int] = []
    dtypes: list[np.dtype] = []
    width = 0
    for path in paths:
        with _opened(path, array) as values:
            if values.ndim != 2 or values.dtype.kind not in "fiu" or 0 in values.shape:
                raise ValueError(
                    f"{path.name} holds an array of shape {values.shape} and type {values.dtype}; every bag must be "
                    "numbers, (instances, features), with one instance at least"
                )
            width = width or values.shape[1]
            if values.shape[1] != width:
                counts = f"{values.shape[1]} features, but {paths[0].name} has {width}"
                raise ValueError(f"{path.name} has {counts}; all bags need the same")
            sizes.append(len(values))
            dtypes.append(values.dtype)
    instances = np.empty((sum(sizes), width), dtype=float_dtype(dtypes))
    for path, end, size in zip(paths, np.cumsum(sizes), sizes, strict=True):
        with _opened(path, array) as values:
            instances[end - size : end] = values[:]
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
        name = names[0] if array is None and len(names) == 1 else array
        if name not in names:
            held = ", ".join(names) or "none"
            problem = "several arrays" if array is None else f"no array {array!r}"
            raise ParameterError("array", f"{path.name} holds {problem}; choose one by array=: {held}")
        with reading(path):
            values = file[name]
        yield values
