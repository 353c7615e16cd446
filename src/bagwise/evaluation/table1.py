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
import pyarrow as pa

from bagwise.bags import Bags
from bagwise.bags.validation import counted, one_of
from bagwise.evaluation.comparison import spread
from bagwise.evaluation.evaluation import evaluate
from bagwise.evaluation.plan import Entry
from bagwise.evaluation.results import Results
from bagwise.evaluation.selection import LABELS, as_settings
from bagwise.evaluation.splits import make_splits
from bagwise.io import load
from bagwise.io.table_files import is_row_number, read_table, reading
from bagwise.io.table_output import as_text
from bagwise.kernels import Gaussian, InverseMultiquadric
from bagwise.methods import method
from bagwise.methods.instance_kme import PAPER_BANDWIDTHS, PAPER_PENALTIES, notebook_network

INVALID = (0.0, -32767.0)  # what the tables hold where a pixel was not seen
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


def file_names(name: str) -> list[str]:
    """Return the possible file names of a data set, in the order of preference."""
    endings = (".csv", ".csv.gz", ".parquet", *PICKLES) if DATA_SETS[name].crop else (".mat",)
    return [name + end for end in endings]


def find_files(folder) -> dict[str, Path]:
    """Find the files of the data sets in a folder: NAME.mat, or for the crops .csv, .parquet, or a pickle.

    Upper or lower case does not matter; a table is preferred to a pickle.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}; give the one that holds MISR1.mat, WHEAT.csv, ...")
    files = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_file()}
    options = {name: [files.get(file.lower()) for file in file_names(name)] for name in DATA_SETS}
    return {name: next(filter(None, paths)) for name, paths in options.items() if any(paths)}


def read_file(
    name: str, path: Path, *, trust_pickle: bool = False, invalid: str = "keep", bags_of_100: bool = False
) -> tuple[Bags, np.ndarray, list[str]]:
    """Read bags, targets, and notes on differences from the published data.

    ``trust_pickle`` opens pickles, which can run any code. With ``invalid="drop"`` (not "keep"), instances of the crop
    tables with an invalid value (0 or -32767) are left out; with ``bags_of_100``, bags of another size than 100, as in
    the notebook for MISR2.
    """
    one_of(invalid, ("keep", "drop"), "invalid")
    data, path, notes = DATA_SETS[name], Path(path), []
    try:
        bags, y = _read_crop(path, trust_pickle) if data.crop else load(path)
    except (ValueError, TypeError) as error:
        text = str(error)
        fact, _, advice = text.partition("; ")
        if "=" in advice or "leave target out" in advice:  # options of `load`, and the file must be the published one
            text = f"{fact}; correct the file"
        raise ValueError(text if path.name in text else f"{path.name}: {text}") from error
    if data.blob is not None and (blob_id := git_blob_id(path)) != data.blob:
        notes.append(f"{path.name} is not the file of the paper: its git blob id is {blob_id}, not {data.blob}")
    if bags.n_features != data.features:
        notes.append(f"{path.name} has {bags.n_features} features; the published file has {data.features}")
    if data.crop and invalid == "drop":
        bags, y, note = _drop_invalid(bags, y)
        notes.append(note)
    if bags_of_100:
        of_100 = bags.sizes == 100
        if of_100.sum() < 2:
            raise ValueError(f"there are {of_100.sum()} bags of exactly 100 instances; leave --bags-of-100 out")
        notes.append(f"{of_100.sum()} of {len(bags)} bags have exactly 100 instances; the others are left out")
        bags, y = bags[of_100], y[of_100]
    return bags, y, notes


def git_blob_id(path: Path) -> str:
    r"""Return the id that git gives to the content of a file: sha1 of "blob SIZE\0" and the content."""
    content = path.read_bytes()
    return sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _read_crop(path: Path, trust_pickle: bool) -> tuple[Bags, np.ndarray]:
    """Read a table with columns `bag` and `target`, or with bag ids in the first column and targets in the last."""
    frame = _read_table(path, trust_pickle)
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2:
            raise ValueError(f"it holds an array of shape {frame.shape}; a row per instance is needed")
        frame = pa.table({f"x{j}": column for j, column in enumerate(frame.T)})
    if not nw.dependencies.is_into_dataframe(frame):
        raise ValueError(f"it holds a {type(frame).__name__}; a data frame or an array is needed")
    columns = nw.from_native(frame, eager_only=True).columns
    names = [name for name in columns if not is_row_number(str(name))]
    if len(names) < 3:
        raise ValueError(f"it has {len(names)} columns; the bag id, features and the target are needed")
    bag, target = ("bag", "target") if {"bag", "target"} <= set(names) else (names[0], names[-1])
    return load(frame, bag=bag, target=target, ignore=[name for name in columns if name not in names])


def _read_table(path: Path, trust_pickle: bool):
    if path.suffix.lower() not in PICKLES:
        return read_table(path)
    if not trust_pickle:
        raise PermissionError(
            f"{path.name} is a pickle, which can run any code when opened; pass --trust-pickle if you trust where "
            "it comes from, or save it as .csv or .parquet"
        )
    try:
        with reading(path):
            return pickle.loads(path.read_bytes())  # noqa: S301 (behind --trust-pickle only)
    except ImportError as error:
        raise ImportError(f"{path.name} needs what is not installed here: {error}; save it as .csv there") from error


def _drop_invalid(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, str]:
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


# The rows -------------------------------------------------------------------------------------------------------------

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
    from the same folds and networks. ``inner_folds`` is D of the paper, at most the number of training bags;
    ``options`` are passed on to `evaluate`.
    """
    splits = make_splits(bags, repeats=repeats, folds=folds)  # refuses what cannot be split
    inner_folds = min(inner_folds, *[len(split.train) for split in splits])
    entries = table_entries(crop=DATA_SETS[name].crop, inner_folds=inner_folds, rows=rows)
    return evaluate(bags, y, entries, repeats=repeats, folds=folds, selection="paper", name=name, **options)


def table_entries(*, crop: bool, inner_folds: int, rows: list[str]) -> list[Entry]:
    """Return the methods of the rows. Crops have the network of the notebook (it was run on CORN), aerosol not."""

    def pool(seed: int):
        estimator = method("instance-mean", preset="paper", random_state=seed)
        return estimator.set_params(instances__estimator=notebook_network(random_state=seed)) if crop else estimator

    def kme(seed: int):
        preset = "notebook" if crop else "paper"
        return method("instance-kme", preset=preset, random_state=seed).set_params(instances__folds=inner_folds)

    makers = {"instance-MIR": pool, "instance-kme-MIR": kme}
    makers |= {label: Entry.of(name).make for label, name in _OTHERS.items()}
    labels = dict.fromkeys(map(_label, rows))
    return [Entry(label, makers[label], tuple(setting for *_, setting in _settings(label))) for label in labels]


def _label(row: str) -> str:
    return row.split(" (")[0]


def _settings(label: str) -> list[tuple[str, tuple[str, ...], dict]]:
    """Return the settings of a method, each with its row of the table and the protocols that it is of."""
    if label == "instance-MIR":
        return [(row, PROTOCOLS, {"head__statistic": statistic}) for row, statistic in _POOLS.items()]
    if label in _OTHERS:  # no grid is published, so no setting is chosen
        return [(label, PROTOCOLS, {})]
    settings = []
    for row, kernel in _KERNELS.items():
        kernels = [kernel(bandwidth) for bandwidth in PAPER_BANDWIDTHS]
        penalties = [(penalty,) for penalty in PAPER_PENALTIES]
        grid = as_settings({"head__embedding__kernel": kernels, "head__head__penalties": penalties})
        nested = {"head__grid": {"kernel": kernels}, "head__head__penalties": PAPER_PENALTIES}
        settings += [(row, ("paper",), setting) for setting in grid]
        settings += [(row, ("nested",), nested), (row, ("clipped",), nested | {"head__embedding__beyond": "clip"})]
    return settings


def read_row(results: Results, row: str, name: str) -> dict:
    """Return our scores and the published one for one row of the table.

    For "paper" (the best setting on the scoring folds), "nested" (the one chosen inside) and "clipped" (the same with
    predictions clipped to the range of training) there are the mean, its standard error over repeats, and how many
    standard errors it is above the published number.
    """
    scores = results.scores(_label(row), "rmse") * DATA_SETS[name].scale
    complete = ~np.isnan(scores).any(axis=1)  # all but failed cells
    repeats, published = np.array([repeat for repeat, _ in results.splits])[complete], PUBLISHED[row][name]
    result = {"data": name, "row": row, "published": published, "failed": int((~complete).sum())}
    for protocol in PROTOCOLS:
        settings = enumerate(_settings(_label(row)))
        columns = [k for k, (of_row, protocols, _) in settings if of_row == row and protocol in protocols]
        if protocol == "paper":
            result["selection"] = LABELS["paper" if len(columns) > 1 else "none"]
        part = scores[complete][:, columns] if complete.any() else np.empty((0, 1))
        best = part.mean(axis=0).argmin() if len(part) else 0
        statistics = spread(part[:, best], repeats)
        error = float(statistics["_sd_repeats"] / np.sqrt(len(np.unique(repeats)) or 1))
        gap = (statistics[""] - published) / error if error > 0 else float("nan")
        result |= {protocol: statistics[""], f"{protocol}_se": error, f"{protocol}_gap_in_se": float(gap)}
    return result


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
        mine = [row for row in rows if row["data"] == name]
        columns = {"row": [row["row"] for row in mine], "published": [f"{row['published']:.2f}" for row in mine]}
        for protocol in PROTOCOLS:
            columns[protocol] = [_cell_text(row, protocol) for row in mine]
        if any(row["failed"] for row in mine):
            columns["cells failed"] = [str(row["failed"]) for row in mine]
        parts.append(f"{name}, {'RMSE' if DATA_SETS[name].crop else '100 x RMSE'}\n{as_text(columns)}\n")
    has_optimistic = any(row["selection"] != "none" for row in rows)
    return "\n".join([*parts, *([OPTIMISTIC] if has_optimistic else []), NOTE])


def _cell_text(row: dict, protocol: str) -> str:
    """Return an error, its standard error (of several repeats) and the difference from the published number."""
    value, error, gap = (row[f"{protocol}{end}"] for end in ("", "_se", "_gap_in_se"))
    text = "* " if protocol == "paper" and row["selection"] != "none" else ""
    if value != value:
        return f"{text}-"
    text += f"{value:.2f}" + (f" ± {error:.2f}" if error == error else "")
    return text + (f" ({gap:+.1f})" if gap == gap else "")
