"""Table 1 of Uriot (2019): its five data sets as files a user brings, its six rows by two protocols.

One is the paper's, the other chooses inside the training bags; the published numbers stand beside both.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

import narwhals as nw
import numpy as np

from bagwise.bags import Bags
from bagwise.bags.checks import one_of
from bagwise.bags.frames import FrameColumns
from bagwise.bags.validation import counted
from bagwise.evaluation.comparison import spread
from bagwise.evaluation.evaluation import evaluate
from bagwise.evaluation.plan import Entry, as_entries
from bagwise.evaluation.results import Results
from bagwise.evaluation.selection import LABELS, as_settings
from bagwise.evaluation.splits import make_splits
from bagwise.io import load
from bagwise.io.columns import Roles
from bagwise.io.load import gather
from bagwise.io.table_files import is_row_number, read_csv, read_parquet, reading
from bagwise.io.table_output import as_text
from bagwise.kernels import Gaussian, InverseMultiquadric
from bagwise.methods import CATALOGUE, method
from bagwise.methods.instance_kme import PAPER_BANDWIDTHS, PAPER_PENALTIES, notebook_network

INVALID = (0.0, -32767.0)  # what the tables hold where a pixel was not seen
PICKLES = (".p", ".pkl", ".pickle")


def read_crop(path: Path, *, trust_pickle: bool = False) -> tuple[Bags, np.ndarray]:
    """Read a table with columns `bag` and `target`, or with bag ids in the first column and targets in the last."""
    frame = _read(path, trust_pickle)
    if isinstance(frame, np.ndarray):
        return _from_matrix(frame)
    if not nw.dependencies.is_into_dataframe(frame):
        raise ValueError(f"it holds a {type(frame).__name__}; a data frame or an array is needed")
    names = nw.from_native(frame, eager_only=True).columns
    rows = [name for name in names if is_row_number(str(name))]
    names = [name for name in names if name not in rows]
    if len(names) < 3:
        raise ValueError(f"it has {len(names)} columns; the bag id, features and the target are needed")
    bag, target = ("bag", "target") if {"bag", "target"} <= set(names) else (names[0], names[-1])
    return load(frame, bag=bag, target=target, ignore=rows)


def _read(path: Path, trust_pickle: bool):
    if path.suffix.lower() not in PICKLES:
        return read_parquet(path, None) if path.suffix.lower() == ".parquet" else read_csv(path, ",")
    if not trust_pickle:
        raise PermissionError(
            f"{path.name} is a pickle, which can run any code when opened; pass --trust-pickle if you trust where "
            "it comes from, or save it as .csv or .parquet"
        )
    try:
        with reading(path):
            return pickle.loads(path.read_bytes())
    except ImportError as error:
        raise ImportError(f"{path.name} needs what is not installed here: {error}; save it as .csv there") from error


def _from_matrix(matrix: np.ndarray) -> tuple[Bags, np.ndarray]:
    if matrix.ndim != 2 or matrix.shape[1] < 3:
        raise ValueError(f"it holds an array of shape {matrix.shape}; columns of bag id, features, target are needed")
    columns = {f"x{j}": column for j, column in enumerate(matrix.T)}
    ends = {"bag": "x0", "target": f"x{len(columns) - 1}"}
    return gather(FrameColumns(columns), Roles(**ends))[:2]


def drop_invalid(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, str]:
    """Drop instances that hold an invalid value, and bags without others; return a note with their number."""
    valid = ~np.isin(bags.instances, INVALID).any(axis=1)
    sizes = np.add.reduceat(valid, bags.offsets[:-1], dtype=np.int64)
    has_valid = sizes > 0
    if has_valid.sum() < 2:
        raise ValueError("fewer than two bags have an instance without invalid values; use --invalid keep")
    offsets = np.concatenate([[0], np.cumsum(sizes[has_valid])])
    note = f"{(~valid).sum():,} of {len(valid):,} instances hold 0 or -32767 and are left out, "
    note += f"with {counted((~has_valid).sum(), 'bag')} that had no others"
    bags = Bags(bags.instances[valid], offsets, bags.ids[has_valid], feature_names=bags.feature_names)
    return bags, y[has_valid], note


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
    """Find the files of the data sets in a folder: NAME.mat, or for the crops .csv, .parquet, or a pickle.

    Upper or lower case does not matter; a table is preferred to a pickle.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}; give the one that holds MISR1.mat, WHEAT.csv, ...")
    files = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_file()}
    paths = {}
    for name in DATA_SETS:
        mine = [files[file.lower()] for file in file_names(name) if file.lower() in files]
        if mine:
            paths[name] = mine[0]
    return paths


def file_names(name: str) -> list[str]:
    """Return the possible file names of a data set, in the order of preference.

    Examples
    --------
    >>> file_names("MISR1"), file_names("CORN")[:2]
    (['MISR1.mat'], ['CORN.csv', 'CORN.csv.gz'])
    """
    endings = (".csv", ".csv.gz", ".parquet", *PICKLES) if DATA_SETS[name].crop else (".mat",)
    return [name + end for end in endings]


def git_blob_id(path) -> str:
    r"""Return the id that git gives to the content of a file: sha1 of "blob SIZE\0" and the content.

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
    """Read bags, targets, and notes on differences from the published data.

    Parameters
    ----------
    trust_pickle : bool
        Whether a pickle may be opened: it can run any code.
    invalid : {"keep", "drop"}
        Whether instances of the crop tables with an invalid value (0 or -32767) are kept, or left out.
    bags_of_100 : bool
        Whether only bags of exactly 100 instances are kept, as the notebook does for MISR2.
    """
    one_of(invalid, ("keep", "drop"), "invalid")
    data, path = DATA_SETS[name], Path(path)
    try:
        bags, y = read_crop(path, trust_pickle=trust_pickle) if data.crop else load(path)
    except (ValueError, TypeError) as error:
        text = str(error)
        fact, _, advice = text.partition("; ")
        if "=" in advice or "leave target out" in advice:  # options of `load`, and the file must be the published one
            text = f"{fact}; correct the file"
        raise ValueError(text if path.name in text else f"{path.name}: {text}") from error
    notes = _unlike(data, path, bags)
    for applies, keep in ((data.crop and invalid == "drop", drop_invalid), (bags_of_100, _keep_bags_of_100)):
        if applies:
            bags, y, note = keep(bags, y)
            notes.append(note)
    return bags, y, notes


def _keep_bags_of_100(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, str]:
    of_100 = bags.sizes == 100
    if of_100.sum() < 2:
        raise ValueError(f"there are {of_100.sum()} bags of exactly 100 instances; leave --bags-of-100 out")
    note = f"{of_100.sum()} of {len(bags)} bags have exactly 100 instances; the others are left out"
    return bags[of_100], y[of_100], note


def _unlike(data: DataSet, path: Path, bags: Bags) -> list[str]:
    notes = []
    if data.blob is not None and (blob_id := git_blob_id(path)) != data.blob:
        notes.append(f"{path.name} is not the file of the paper: its git blob id is {blob_id}, not {data.blob}")
    if bags.n_features != data.features:
        notes.append(f"{path.name} has {bags.n_features} features; the published file has {data.features}")
    return notes


# 100 x RMSE for MODIS, MISR1, MISR2; RMSE for the crops. EM-MIR and attention-MIR were copied there from other papers.
PUBLISHED = {
    "instance-MIR (mean)": {"MODIS": 10.4, "MISR1": 9.02, "MISR2": 7.61, "WHEAT": 4.96, "CORN": 24.57},
    "instance-MIR (median)": {"MODIS": 10.4, "MISR1": 8.89, "MISR2": 7.50, "WHEAT": 5.00, "CORN": 24.72},
    "instance-kme-MIR (INV)": {"MODIS": 10.1, "MISR1": 8.68, "MISR2": 7.28, "WHEAT": 4.91, "CORN": 24.40},
    "instance-kme-MIR (RBF)": {"MODIS": 10.1, "MISR1": 8.70, "MISR2": 7.38, "WHEAT": 4.90, "CORN": 24.51},
    "EM-MIR": {"MODIS": 9.5, "MISR1": 7.5, "MISR2": 7.3, "WHEAT": 4.9, "CORN": 26.8},
    "attention-MIR": {"MODIS": 9.05, "MISR1": 7.32, "MISR2": 6.95, "WHEAT": 5.24, "CORN": 27.00},
}
INNER_FOLDS = 50
# The best setting on the scoring folds; the one chosen inside the training bags; and that one with instance predictions
# outside the range of training counted as its end, which the paper does not do: a bag out there is carried away by
# tiny penalties.
PROTOCOLS = ("paper", "nested", "clipped")
_KERNELS = {"instance-kme-MIR (INV)": InverseMultiquadric, "instance-kme-MIR (RBF)": Gaussian}
_POOLS = {"instance-MIR (mean)": "mean", "instance-MIR (median)": "median"}
_OTHERS = {"EM-MIR": "em", "attention-MIR": "attention"}


def choose_rows(rows: list[str] | None = None) -> list[str]:
    """Check the names of rows of Table 1 and return them without repetition; all rows by default."""
    unknown = [row for row in rows or () if row not in PUBLISHED]
    if unknown:
        raise ValueError(f"there is no row {unknown[0]!r} in Table 1; there are {', '.join(PUBLISHED)}")
    return list(dict.fromkeys(PUBLISHED if rows is None else rows))


def run_rows(
    name: str,
    bags: Bags,
    y: np.ndarray,
    *,
    rows: list[str],
    repeats: int = 10,
    folds: int = 5,
    inner_folds: int = INNER_FOLDS,
    **options,
) -> Results:
    """Run the cells of some rows for one data set; `read_row` compares them with the published numbers.

    Every cell trains the networks once and scores all settings of the paper's grid (14 bandwidths x 16 penalties x 2
    kernels), and the one that leave-one-bag-out on the training bags would choose among them. So all protocols come
    from the same folds and networks.

    Parameters
    ----------
    inner_folds : int
        D of the paper, at most the number of training bags.
    options : passed on to `evaluate`, such as ``out``, ``n_jobs``, ``progress``
    """
    splits = make_splits(bags, repeats=repeats, folds=folds)  # refuses what cannot be split
    inner_folds = min(inner_folds, *[len(split.train) for split in splits])
    entries = table_entries(crop=DATA_SETS[name].crop, inner_folds=inner_folds, rows=rows)
    return evaluate(bags, y, entries, repeats=repeats, folds=folds, selection="paper", name=name, **options)


def table_entries(*, crop: bool, inner_folds: int, rows: list[str]) -> list[Entry]:
    """Return the methods of the rows. Crops have the network of the notebook (it was run on CORN), aerosol not."""
    preset = "notebook" if crop else "paper"

    def pool(seed: int):
        estimator = method("instance-mean", preset="paper", random_state=seed)
        return estimator.set_params(instances__estimator=notebook_network(random_state=seed)) if crop else estimator

    def kme(seed: int):
        return method("instance-kme", preset=preset, random_state=seed).set_params(instances__folds=inner_folds)

    entries = {"instance-MIR": Entry("instance-MIR", pool, _settings(_POOLS))}
    entries["instance-kme-MIR"] = Entry("instance-kme-MIR", kme, _settings(_KERNELS))
    labels = list(dict.fromkeys(map(_label, rows)))
    return [entries[label] if label in entries else _other(label) for label in labels]


def _settings(of_row: dict) -> tuple[dict, ...]:
    return tuple(setting for row in of_row for settings in _row_settings(row).values() for setting in settings)


def _row_settings(row: str) -> dict[str, tuple[dict, ...]]:
    """Return the settings of a row for each protocol."""
    if row in _POOLS:  # nothing to choose
        return {"both": ({"head__statistic": _POOLS[row]},)}
    kernels = [_KERNELS[row](bandwidth) for bandwidth in PAPER_BANDWIDTHS]
    penalties = [(penalty,) for penalty in PAPER_PENALTIES]
    grid = as_settings({"head__embedding__kernel": kernels, "head__head__penalties": penalties})
    nested = {"head__grid": {"kernel": kernels}, "head__head__penalties": PAPER_PENALTIES}
    return {"paper": grid, "nested": (nested,), "clipped": (nested | {"head__embedding__beyond": "clip"},)}


def read_row(results: Results, row: str, name: str) -> dict:
    """Return our scores and the published one for one row of the table.

    For "paper" (the best setting on the scoring folds), "nested" (the one chosen inside) and "clipped" (the same with
    predictions clipped to the range of training) there are the mean, its standard error over repeats, and how many
    standard errors it is above the published number.
    """
    scores = results.scores(_label(row), "rmse") * DATA_SETS[name].scale
    complete = ~np.isnan(scores).any(axis=1)  # all but failed cells
    result = {"data": name, "row": row, "published": PUBLISHED[row][name], "failed": int((~complete).sum())}
    columns = _columns_of(row, "paper")
    result["selection"] = LABELS["paper" if columns.stop - columns.start > 1 else "none"]
    repeats = np.array([repeat for repeat, _ in results.splits])[complete]
    for protocol in PROTOCOLS:
        part = scores[complete, _columns_of(row, protocol)] if complete.any() else np.empty((0, 1))
        best = part.mean(axis=0).argmin() if len(part) else 0
        result |= _compare(part[:, best], repeats, result["published"], protocol)
    return result


def _columns_of(row: str, protocol: str) -> slice:
    """Return the positions of the settings of a row among those of its method."""
    start = 0
    for other in next((rows for rows in (_POOLS, _KERNELS) if row in rows), ()):
        for which, settings in _row_settings(other).items():
            if other == row and which in (protocol, "both"):
                return slice(start, start + len(settings))
            start += len(settings)
    return slice(0, 1)


def _compare(values: np.ndarray, repeats: np.ndarray, published: float, protocol: str) -> dict:
    statistics = spread(values, repeats)
    error = statistics["_sd_repeats"] / np.sqrt(len(np.unique(repeats)) or 1)
    gap = (statistics[""] - published) / error if error > 0 else float("nan")
    return {protocol: statistics[""], f"{protocol}_se": float(error), f"{protocol}_gap_in_se": float(gap)}


def _label(row: str) -> str:
    return row.split(" (")[0]


def _other(label: str) -> Entry:
    """Return EM-MIR or attention-MIR from the catalogue; no grid is published, so no setting is chosen."""
    preset = "paper" if "paper" in CATALOGUE[_OTHERS[label]].presets else None
    (entry,) = as_entries(f"{_OTHERS[label]}:{preset}" if preset else _OTHERS[label], tune=False)
    return Entry(label, entry.make)


# As text --------------------------------------------------------------------------------------------------------------

OPTIMISTIC = "* paper (optimistic): the best setting on the scoring folds, as published."
NOTE = """nested: settings chosen by leave-one-bag-out inside the training bags. Without a *, there is one setting.
clipped: as nested, with instance predictions limited to the range of the training targets, which the paper does not do.
± is the standard error over repeats; in brackets, the difference from the published number in standard errors.
EM-MIR and attention-MIR: the paper copied these numbers from other papers, which used other folds."""


def table_text(rows: list[dict]) -> str:
    """Return the rows of all data sets beside the published numbers, as text for a terminal."""
    parts = []
    for name in dict.fromkeys(row["data"] for row in rows):
        unit = "RMSE" if name in ("WHEAT", "CORN") else "100 x RMSE"
        columns = _text_columns([row for row in rows if row["data"] == name])
        parts.append(f"{name}, {unit}\n{as_text(columns)}\n")
    has_optimistic = any(row["selection"] != "none" for row in rows)
    return "\n".join([*parts, *([OPTIMISTIC] if has_optimistic else []), NOTE])


def _text_columns(rows: list[dict]) -> dict[str, list[str]]:
    columns = {"row": [row["row"] for row in rows], "published": [f"{row['published']:.2f}" for row in rows]}
    columns["paper"] = [("" if row["selection"] == "none" else "* ") + _cell_text(row, "paper") for row in rows]
    columns |= {protocol: [_cell_text(row, protocol) for row in rows] for protocol in ("nested", "clipped")}
    failed = {"cells failed": [str(row["failed"]) for row in rows]}
    return columns | (failed if any(row["failed"] for row in rows) else {})


def _cell_text(row: dict, protocol: str) -> str:
    """Return an error, its standard error (of several repeats) and the difference from the published number."""
    value, error, gap = (row[f"{protocol}{end}"] for end in ("", "_se", "_gap_in_se"))
    if value != value:
        return "-"
    return f"{value:.2f}" + ("" if error != error else f" ± {error:.2f}") + ("" if gap != gap else f" ({gap:+.1f})")
