"""`from_folder`: a file of arrays per bag (.npy, .npz, .h5), and a table of what is known of the bags."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.frames import as_frame, as_list
from bagwise.bags.validation import Parameter, ParameterError, label, name_bags
from bagwise.io.array_files import refuse_false_sizes
from bagwise.io.columns import Roles, refuse_unknown
from bagwise.io.load import load, names_files
from bagwise.io.table_files import reading
from bagwise.io.tables import read_files

HDF5 = (".h5", ".hdf5")
ENDINGS = (".npy", ".npz", *HDF5)
_ROW = "the position in the table"


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
    """Bags and targets from a folder with a file per bag, and a table with a row per bag.

    This is how embeddings of slides, scans and recordings are stored: ``slides/S017.h5`` holds an array (instances,
    features), and a clinical table says what is known of S017. A file belongs to the row whose id is its name without
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
    for name, value, allowed in (
        ("unmatched", unmatched, ("refuse", "drop")),
        ("missing", missing, ("refuse", "impute", "keep")),
    ):
        if value not in allowed:
            *others, last = map(repr, allowed)
            raise ParameterError(name, f"{name} must be {', '.join(others)} or {last}, not {value!r}")
    files = find_arrays(folder)
    if table is None:
        if given := [n for n, v in (("bag", bag), ("target", target), ("groups", groups)) if v is not None]:
            raise ParameterError(given[0], f"{given[0]} names a column of the table; give the table, or leave it out")
        known, y = Bags(np.arange(len(files), dtype=float)[:, None], np.arange(len(files) + 1), list(files)), None
    else:
        known, y = _rows(table, Roles(bag, target, groups=groups, bag_features=bag_features))
        kept = _matched(known.ids, files, unmatched, folder)
        known, y = known[kept], None if y is None else y[kept]
    paths = [files[str(one)] for one in known.ids]
    instances, sizes = _read(paths, array)
    bags = Bags(
        instances,
        np.concatenate([[0], np.cumsum(sizes)]),
        known.ids,
        groups=known.groups,
        feature_names=feature_names,
        missing=missing,
        covariates=known.covariates,
        covariate_names=known.covariate_names,
    )
    return bags, y


def find_arrays(folder) -> dict[str, Path]:
    """The files of arrays in a folder, by their names without the ending, in sorted order."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in ENDINGS or path.name.startswith("."):
            continue
        if path.stem in found:
            raise ValueError(
                f"{found[path.stem].name} and {path.name} are both files of bag {path.stem!r}; leave one of them"
            )
        found[path.stem] = path
    if not found:
        raise ValueError(f"{folder} holds no file of arrays; a bag is a file that ends in {', '.join(ENDINGS)}")
    return found


def _rows(table, roles: Roles) -> tuple[Bags, np.ndarray | None]:
    """One row is one bag here, so the checks of `load` are the checks."""
    if roles.bag is None:
        raise ParameterError("bag", Parameter("bag"), " is needed: the column of the table that names the files")
    if names_files(table):
        frame = read_files(table, roles)
        if frame is None:
            raise ValueError(f"{table} is not a table; give a .csv, .tsv, .parquet, .feather or .arrow file")
    else:
        frame = as_frame(table)
    covariates = None if roles.bag_features is None else as_list(roles.bag_features)  # one row cannot tell "auto"
    named = [name for name in (roles.bag, roles.target, roles.groups) if name is not None]
    refuse_unknown(frame.columns, [*named, *(covariates or ())])
    ids = frame.get_column(roles.bag)  # type: ignore[arg-type]  # a name of any type
    twice = ids.is_duplicated().to_numpy() & ~ids.is_null().to_numpy()
    if twice.any():
        raise ValueError(
            f"{label(ids.to_numpy()[twice.argmax()])} appears twice in column {roles.bag!r}; the table needs a row per "
            "bag: drop the others, or join their files"
        )
    frame = frame.with_row_index(_ROW).to_native()
    return load(
        frame, bag=roles.bag, target=roles.target, groups=roles.groups, bag_features=covariates, features=[_ROW]
    )


def _matched(ids: np.ndarray, files: dict, unmatched: str, folder) -> np.ndarray:
    """Positions of the ids that have a file; what has no counterpart is refused, or dropped with a warning."""
    lacks = np.array([str(one) not in files for one in ids])
    known = set(map(str, ids))
    others = [stem for stem in files if stem not in known]
    told = [f"{name_bags(ids, lacks)} no file in {folder}"] if lacks.any() else []
    if others:
        more = f" (and {len(others) - 1:,} others)" if len(others) > 1 else ""
        told.append(f"{files[others[0]].name}{more} has no row in the table")
    if not told:
        return np.arange(len(ids))
    if unmatched == "refuse" or lacks.all():
        end = "the names of the files without their endings must be the ids of the table"
        way = [] if lacks.all() else [", or leave them out by ", Parameter("unmatched", "drop")]
        raise ParameterError("unmatched", f"{'; '.join(told)}; {end}", *way)
    warnings.warn(f"{'; '.join(told)}; they are left out", stacklevel=3)
    return np.flatnonzero(~lacks)


def _read(paths: list[Path], array) -> tuple[np.ndarray, list[int]]:
    """All instances, file after file; the shapes are looked at first, so that there is one copy."""
    shapes: list[tuple[int, ...]] = []
    single = True
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
            single &= values.dtype.kind == "f" and values.dtype.itemsize <= 4
    sizes = [height for height, _ in shapes]
    instances = np.empty((sum(sizes), shapes[0][1]), dtype=np.float32 if single else np.float64)
    start = 0
    for path, size in zip(paths, sizes, strict=True):
        with _opened(path, array) as values:
            instances[start : start + size] = values[:]
        start += size
    return instances, sizes


@contextmanager
def _opened(path: Path, array):
    """The array of a file, read when it is indexed where the format allows it."""
    ending = path.suffix.lower()
    if ending == ".npy":
        if array is not None:
            raise ParameterError("array", f"array= chooses among the arrays of a file; {path.name} holds one")
        with reading(path):
            values = np.load(path, mmap_mode="r", allow_pickle=False)
        yield values
        return
    with reading(path):
        if ending == ".npz":
            refuse_false_sizes(path)
        file = np.load(path, allow_pickle=False) if ending == ".npz" else _hdf5(path)
    with file:
        name = _chosen(path, file.files if ending == ".npz" else _arrays_of(file), array)
        with reading(path):
            values = file[name]
        yield values


def _hdf5(path: Path):
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"reading {path.name} needs h5py: pip install 'bagwise[hdf5]'") from error
    return h5py.File(os.fspath(path), "r")


def _arrays_of(file) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
    return names


def _chosen(path: Path, names: list[str], array) -> str:
    if array is None and len(names) == 1:
        return names[0]
    if array not in names:
        held = ", ".join(names) or "none"
        what = "several arrays" if array is None else f"no array {array!r}"
        raise ParameterError("array", f"{path.name} holds {what}; choose one by ", Parameter("array"), f": {held}")
    return array
