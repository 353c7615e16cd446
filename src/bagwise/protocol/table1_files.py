"""The five data sets of Table 1 of Uriot (2019), as files a user brings."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

import numpy as np

from bagwise.bags import Bags, load
from bagwise.protocol.table1_crops import PICKLES, drop_invalid, read_crop

# Options of `load` are of no use where the file is to be the published one: what to do instead.
_INSTEAD = {
    "missing=": "fill them in, or take those rows out of the file",
    "leave target out": "take such bags out of the file",
    "variable=": "save the one with bag ids, features and targets alone",
}


@dataclass(frozen=True)
class DataSet:
    """A data set of the table: its features, the factor its errors are printed by, and what to expect of its file."""

    name: str
    features: int
    scale: float
    crop: bool = False
    blob: str | None = None  # the id git would give the file


DATA_SETS = {
    data.name: data
    for data in (
        DataSet("MODIS", 12, 100.0),
        DataSet("MISR1", 16, 100.0, blob="cf7b9876140f1a5ec5c656ab43fa5a0244fd75ea"),
        DataSet("MISR2", 16, 100.0),
        DataSet("WHEAT", 92, 1.0, crop=True),
        DataSet("CORN", 92, 1.0, crop=True),
    )
}


def find_files(folder) -> dict[str, Path]:
    """The file of every data set that is in a folder: NAME.mat, or for the crops .csv, .parquet, or a pickle.

    Upper or lower case does not matter; a table is preferred to a pickle.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}; give the one that holds MISR1.mat, WHEAT.csv, ...")
    files = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_file()}
    found = {}
    for name in DATA_SETS:
        mine = [files[file.lower()] for file in file_names(name) if file.lower() in files]
        if mine:
            found[name] = mine[0]
    return found


def file_names(name: str) -> list[str]:
    """What the file of a data set may be called, the most welcome first.

    Examples
    --------
    >>> file_names("MISR1"), file_names("CORN")[:2]
    (['MISR1.mat'], ['CORN.csv', 'CORN.csv.gz'])
    """
    endings = (".csv", ".csv.gz", ".parquet", *PICKLES) if DATA_SETS[name].crop else (".mat",)
    return [name + end for end in endings]


def git_blob_id(path) -> str:
    """The id that git gives to the content of a file: sha1 of "blob SIZE\\0" and the content.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "empty"
    >>> path.touch()
    >>> git_blob_id(path)
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    content = Path(path).read_bytes()
    return sha1(b"blob %d\0" % len(content) + content).hexdigest()


def read_file(
    name: str, path: Path, *, trust_pickle: bool = False, invalid: str = "keep", bags_of_100: bool = False
) -> tuple[Bags, np.ndarray, list[str]]:
    """Bags, targets, and notes on what is unlike the published data.

    Parameters
    ----------
    trust_pickle : bool
        Whether a pickle may be opened: it can run any code.
    invalid : {"keep", "drop"}
        Whether instances of the crop tables with an invalid value (0 or -32767) are kept, or left out.
    bags_of_100 : bool
        Whether only bags of exactly 100 instances are kept, as the notebook does for MISR2.
    """
    if invalid not in ("keep", "drop"):
        raise ValueError(f"invalid must be 'keep' or 'drop', not {invalid!r}")
    data, path = DATA_SETS[name], Path(path)
    try:
        bags, y = read_crop(path, trust_pickle=trust_pickle) if data.crop else load(path)
        notes = _unlike(data, path, bags)
        for wanted, keep in ((data.crop and invalid == "drop", drop_invalid), (bags_of_100, _keep_bags_of_100)):
            if wanted:
                bags, y, note = keep(bags, y)
                notes.append(note)
    except (ValueError, TypeError) as error:
        raise ValueError(_fitting(path, str(error))) from error
    return bags, y, notes


def _keep_bags_of_100(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, str]:
    kept = bags.sizes == 100
    if kept.sum() < 2:
        raise ValueError(f"there are {kept.sum()} bags of exactly 100 instances; leave --bags-of-100 out")
    note = f"{kept.sum()} of {len(bags)} bags have exactly 100 instances; the others are left out"
    return bags[kept], y[kept], note


def _fitting(path: Path, text: str) -> str:
    """An error of `load` with the name of the file, and with advice that can be followed."""
    fact, _, advice = text.partition("; ")
    found = [instead for option, instead in _INSTEAD.items() if option in advice]
    text = f"{fact}; {found[0]}" if found else text
    return text if path.name in text else f"{path.name}: {text}"


def _unlike(data: DataSet, path: Path, bags: Bags) -> list[str]:
    notes = []
    if data.blob is not None and (found := git_blob_id(path)) != data.blob:
        notes.append(f"{path.name} is not the file of the paper: its git blob id is {found}, not {data.blob}")
    if bags.n_features != data.features:
        notes.append(f"{path.name} has {bags.n_features} features; the published file has {data.features}")
    return notes
