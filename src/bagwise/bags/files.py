"""`load`: bags and targets from a data frame or a file."""

from __future__ import annotations

import os
from pathlib import Path

import narwhals as nw
import numpy as np

from bagwise.bags.choosing import as_list
from bagwise.bags.container import Bags
from bagwise.bags.matlab import load_mat
from bagwise.bags.npz import load_npz
from bagwise.bags.reading import read_arrow, read_csv, read_parquet, reading
from bagwise.bags.several import find_files, stack
from bagwise.bags.tables import from_table

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".feather", ".arrow", ".mat", ".npz")


def load(
    source,
    *,
    bag=None,
    target=None,
    features=None,
    ignore=(),
    groups=None,
    missing="refuse",
    weights=None,
    bag_features=None,
    variable=None,
) -> tuple[Bags, np.ndarray | None]:
    """Bags and targets from a data frame, or from files by the endings of their names.

    - **.csv, .tsv** (also .gz), **.parquet, .feather, .arrow**: a long table, read by pyarrow, polars or pandas,
      whichever is installed. The unnamed row numbers that pandas writes are left out.
    - **.mat**: a MATLAB matrix with the bag id in the first column and the target in the last, as in MISR1.mat;
      other columns by position. Features are named x1, x2, ...; those of MISR1, MISR2 and MODIS reflectance_1, ...,
      angle_1, ...
    - **.npz**: bags saved by `save_npz` (instances with offsets or sizes; ids, targets, groups, feature_names,
      weights, covariates and covariate_names if there are any), a padded array X with sizes (and y), or a long table
      as arrays by name. There ``bag``, ``target`` and ``groups`` are names of arrays. Pickled arrays are never read.

    Several tables, given as a list of paths or as a pattern such as ``"year-*.parquet"``, are read as one: their rows
    follow each other, and a bag may be spread over them.

    Parameters
    ----------
    source : data frame, path, pattern, or list of paths
    bag, target, features, ignore, groups, missing, weights, bag_features
        As for `from_table`. ``bag`` is needed for every table.
    variable : str, optional
        The matrix to take from a .mat file that holds several.

    Returns
    -------
    bags : Bags
    y : array of float64, one target per bag, or None if there is no target

    Examples
    --------
    >>> import pandas as pd, bagwise as bw
    >>> frame = pd.DataFrame({"site": ["a", "a", "b"], "red": [1.0, 2.0, 3.0], "aod": [0.1, 0.1, 0.3]})
    >>> bags, y = bw.load(frame, bag="site", target="aod")
    >>> bags
    Bags: 2 bags of 1 to 2 instances (3 in all), 1 feature
    """
    columns = {"bag": bag, "target": target, "features": features, "ignore": ignore, "groups": groups}
    columns |= {"weights": weights, "bag_features": bag_features}
    options = columns | {"missing": missing}
    if not _names_files(source):
        return from_table(source, **options)
    paths = find_files(source)
    if len(paths) > 1:
        return from_table(_read_several(paths, **columns), **options)
    path = paths[0]
    ending = _ending(path)
    if ending == ".mat":
        return load_mat(path, variable=variable, **options)
    if variable is not None:
        raise ValueError(f"variable= chooses a matrix of a .mat file; {path.name} is not one")
    if ending == ".npz":
        return load_npz(path, **options)
    return from_table(_read(path, ending, **columns), **options)


def read_table(source, *, bag=None, target=None, groups=None) -> nw.DataFrame | None:
    """The whole long table of a source, as `load` sees it; None for an archive (.mat, .npz), which is no data frame."""
    if not _names_files(source):
        return nw.from_native(source, eager_only=True)
    paths, columns = (
        find_files(source),
        {"bag": bag, "target": target, "groups": groups, "features": None, "ignore": ()},
    )
    if len(paths) > 1:
        return _read_several(paths, **columns)
    ending = _ending(paths[0])
    return None if ending in (".mat", ".npz") else _read(paths[0], ending, **columns)


def _names_files(source) -> bool:
    """Whether a source is a path or a list of them, not a data frame."""
    if isinstance(source, list | tuple):
        return all(isinstance(one, str | os.PathLike) for one in source)
    return isinstance(source, str | os.PathLike)


def _read_several(paths: list[Path], **columns) -> nw.DataFrame:
    endings = [_ending(path) for path in paths]
    odd = [path.name for path, ending in zip(paths, endings, strict=True) if ending in (".mat", ".npz")]
    if odd:
        raise ValueError(f"several files must be tables (.csv, .tsv, .parquet, .feather, .arrow); {odd[0]} is not one")
    return stack([_read(path, ending, **columns) for path, ending in zip(paths, endings, strict=True)], paths)


def _ending(path: Path) -> str:
    ending = next((one for one in ENDINGS if path.name.lower().endswith(one)), None)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of one file")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise ValueError(f"{path.name} is a spreadsheet, which is not read; export the sheet as .csv")
    if ending is None:
        raise ValueError(f"{path.name} is of no known type; the known endings are {', '.join(ENDINGS)}")
    return ending


def _read(
    path: Path, ending: str, *, bag, target, features, ignore, groups, weights=None, bag_features=None
) -> nw.DataFrame:
    """The table in a file, without the unnamed row numbers unless they are asked for."""
    roles = [name for name in (bag, target, groups, weights) if name is not None]
    roles += [] if bag_features is None or bag_features == "auto" else as_list(bag_features)
    asked = list(dict.fromkeys(roles + as_list(features or []) + as_list(ignore)))
    if ending == ".parquet":
        # reading some columns only is what the format is for; with features left open, all must be looked at
        frame = read_parquet(path, asked if features is not None and bag is not None else None)
    elif ending in (".feather", ".arrow"):
        frame = read_arrow(path)
    else:
        frame = read_csv(path, "\t" if ending.startswith(".tsv") else ",", [n for n in (bag, groups) if n is not None])
    with reading(path):  # names that are no text show themselves here
        frame = nw.from_native(frame, eager_only=True)
        names = frame.columns
    return frame.drop([name for name in names if _is_row_number(name) and name not in asked])


def _is_row_number(name: str) -> bool:
    return name == "" or name.startswith(("__index_level_", "Unnamed: "))
