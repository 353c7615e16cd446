"""The five data sets of Table 1 of Uriot (2019), as files a user brings."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

import narwhals as nw
import numpy as np

from bagwise.bags import Bags, load
from bagwise.bags.columns import ArrayColumns
from bagwise.bags.reading import read_csv, read_parquet
from bagwise.bags.tables import from_table, gather

INVALID = (0.0, -32767.0)  # what the crop tables hold where a pixel was not seen
PICKLES = (".p", ".pkl", ".pickle")


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
    for data in DATA_SETS.values():
        endings = (".csv", ".csv.gz", ".parquet", *PICKLES) if data.crop else (".mat",)
        mine = [files[data.name.lower() + end] for end in endings if data.name.lower() + end in files]
        if mine:
            found[data.name] = mine[0]
    return found


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
    data = DATA_SETS[name]
    bags, y = _read_crop(path, trust_pickle) if data.crop else load(path)
    notes = _unlike(data, path, bags)
    if data.crop and invalid == "drop":
        bags, y, note = _drop_invalid(bags, y)
        notes.append(note)
    if bags_of_100:
        kept = bags.sizes == 100
        notes.append(f"{kept.sum()} of {len(bags)} bags have exactly 100 instances; the others are left out")
        if kept.sum() < 2:
            raise ValueError(f"{path.name} has {kept.sum()} bags of exactly 100 instances; leave --bags-of-100 out")
        bags, y = bags[kept], y[kept]
    return bags, y, notes


def _unlike(data: DataSet, path: Path, bags: Bags) -> list[str]:
    notes = []
    if data.blob is not None and (found := git_blob_id(path)) != data.blob:
        notes.append(f"{path.name} is not the file of the paper: its git blob id is {found}, not {data.blob}")
    if bags.n_features != data.features:
        notes.append(f"{path.name} has {bags.n_features} features; the published file has {data.features}")
    return notes


def _read_crop(path: Path, trust_pickle: bool) -> tuple[Bags, np.ndarray]:
    """A table with columns `bag` and `target`, or with the bag id in the first column and the target in the last."""
    if path.suffix.lower() in PICKLES:
        if not trust_pickle:
            raise PermissionError(
                f"{path.name} is a pickle, which can run any code when opened; pass --trust-pickle if you trust where "
                "it comes from, or save it as .csv or .parquet"
            )
        frame = pickle.loads(path.read_bytes())
        if isinstance(frame, np.ndarray):
            columns = {f"x{j}": column for j, column in enumerate(frame.T)}
            ends = {"bag": "x0", "target": f"x{len(columns) - 1}"}
            return gather(ArrayColumns(columns), **ends, features=None, ignore=(), groups=None, missing="refuse")
    else:
        frame = read_parquet(path, None) if path.suffix.lower() == ".parquet" else read_csv(path, ",")
    names = nw.from_native(frame, eager_only=True).columns
    rows = [name for name in names if name == "" or name.startswith(("Unnamed: ", "__index_level_"))]
    names = [name for name in names if name not in rows]
    bag, target = ("bag", "target") if {"bag", "target"} <= set(names) else (names[0], names[-1])
    return from_table(frame, bag=bag, target=target, ignore=rows)


def _drop_invalid(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, str]:
    kept = ~np.isin(bags.instances, INVALID).any(axis=1)
    sizes = np.add.reduceat(kept, bags.offsets[:-1], dtype=np.int64)
    left = sizes > 0
    if left.sum() < 2:
        raise ValueError("hardly a bag has an instance without invalid values; use --invalid keep")
    offsets = np.concatenate([[0], np.cumsum(sizes[left])])
    note = f"{(~kept).sum():,} of {len(kept):,} instances hold 0 or -32767: left out, and {(~left).sum()} bags wholly"
    return Bags(bags.instances[kept], offsets, bags.ids[left], feature_names=bags.feature_names), y[left], note
