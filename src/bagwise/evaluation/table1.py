"""Table 1 of Uriot (2019): read its five data sets, run its six rows, and compare them with the published numbers.

The data sets are files of the user. Settings are chosen by the protocol of the paper and within the training bags.
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

INVALID = (0.0, -32767.0)  # fill values of the crop tables for pixels without an observation
PICKLES = (".p", ".pkl", ".pickle")


@dataclass(frozen=True)
class DataSet:
    """Data set of Table 1: its name, number of features, kind, and the git blob id of the published file."""

    name: str
    features: int
    scale: float  # factor of printed errors
    crop: bool = False
    blob: str | None = None


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

    Case is ignored, and a table is preferred to a pickle.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(f"There is no folder {folder}. Pass the folder with MISR1.mat, WHEAT.csv, ...")
    files = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_file()}
    options = {name: [files.get(file.lower()) for file in file_names(name)] for name in DATA_SETS}
    return {name: next(filter(None, paths)) for name, paths in options.items() if any(paths)}


def read_file(
    name: str, path: Path, *, trust_pickle: bool = False, invalid: str = "keep", bags_of_100: bool = False
) -> tuple[Bags, np.ndarray, list[str]]:
    """Read bags, targets, and notes on differences from the published data.

    ``trust_pickle`` allows pickles, which can run any code. ``invalid="drop"`` drops the instances of crop tables with
    an invalid value (0 or -32767). ``bags_of_100`` drops bags that do not have 100 instances, as the notebook of the
    paper does for MISR2.
    """
    one_of(invalid, ("keep", "drop"), "invalid")
    data, path, notes = DATA_SETS[name], Path(path), []
    try:
        bags, y = _read_crop(path, trust_pickle) if data.crop else load(path)
    except (ValueError, TypeError) as error:
        text = str(error)
        fact, _, advice = text.partition("; ")
        if "=" in advice or "leave target out" in advice:  # advice on options of `load`, which do not apply here
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
            raise ValueError(f"Only {of_100.sum()} bags have exactly 100 instances. Leave --bags-of-100 out.")
        notes.append(f"{of_100.sum()} of {len(bags)} bags have exactly 100 instances; the others were dropped")
        bags, y = bags[of_100], y[of_100]
    return bags, y, notes


def git_blob_id(path: Path) -> str:
    r"""Return the git blob id of a file: the sha1 of "blob SIZE\0" and the content."""
    content = path.read_bytes()
    return sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _read_crop(path: Path, trust_pickle: bool) -> tuple[Bags, np.ndarray]:
    """Read a table with the columns `bag` and `target`, or with bag ids in its first and targets in its last column."""
    frame = _read_table(path, trust_pickle)
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2:
            raise ValueError(f"it contains an array of shape {frame.shape}; expected a row per instance")
        frame = pa.table({f"x{j}": column for j, column in enumerate(frame.T)})
    if not nw.dependencies.is_into_dataframe(frame):
        raise ValueError(f"it contains a {type(frame).__name__}; expected a data frame or an array")
    columns = nw.from_native(frame, eager_only=True).columns
    names = [name for name in columns if not is_row_number(str(name))]
    if len(names) < 3:
        raise ValueError(f"it has {len(names)} columns; expected the bag id, at least one feature and the target")
    bag, target = ("bag", "target") if {"bag", "target"} <= set(names) else (names[0], names[-1])
    return load(frame, bag=bag, target=target, ignore=[name for name in columns if name not in names])


def _read_table(path: Path, trust_pickle: bool):
    if path.suffix.lower() not in PICKLES:
        return read_table(path)
    if not trust_pickle:
        raise PermissionError(
            f"{path.name} is a pickle, which can run code when opened. Pass --trust-pickle if you trust its source, "
            "or save it as .csv or .parquet."
        )
    try:
        with reading(path):
            return pickle.loads(path.read_bytes())  # noqa: S301 (only with --trust-pickle)
    except ImportError as error:
        raise ImportError(f"{path.name} needs a missing package: {error}; save it as .csv elsewhere") from error


def _drop_invalid(bags: Bags, y: np.ndarray) -> tuple[Bags, np.ndarray, str]:
    """Drop instances with an invalid value, and bags without valid instances; return a note on how many."""
    valid = ~np.isin(bags.instances, INVALID).any(axis=1)
    sizes = np.add.reduceat(valid, bags.offsets[:-1], dtype=np.int64)
    has_valid = sizes > 0
    if has_valid.sum() < 2:
        raise ValueError("Fewer than two bags have an instance without invalid values. Use --invalid keep.")
    offsets = np.concatenate([[0], np.cumsum(sizes[has_valid])])
    note = f"{(~valid).sum():,} of {len(valid):,} instances contain 0 or -32767 and were dropped, "
    note += f"and with them {counted((~has_valid).sum(), 'bag')} without other instances"
    bags = Bags(bags.instances[valid], offsets, bags.ids[has_valid], feature_names=bags.feature_names)
    return bags, y[has_valid], note


# Rows of the table ----------------------------------------------------------------------------------------------------

# 100 x RMSE for MODIS, MISR1, MISR2; RMSE for the crops. The paper copied EM-MIR and attention-MIR from other papers.
PUBLISHED = {
    "instance-MIR (mean)": {"MODIS": 10.4, "MISR1": 9.02, "MISR2": 7.61, "WHEAT": 4.96, "CORN": 24.57},
    "instance-MIR (median)": {"MODIS": 10.4, "MISR1": 8.89, "MISR2": 7.50, "WHEAT": 5.00, "CORN": 24.72},
    "instance-kme-MIR (INV)": {"MODIS": 10.1, "MISR1": 8.68, "MISR2": 7.28, "WHEAT": 4.91, "CORN": 24.40},
    "instance-kme-MIR (RBF)": {"MODIS": 10.1, "MISR1": 8.70, "MISR2": 7.38, "WHEAT": 4.90, "CORN": 24.51},
    "EM-MIR": {"MODIS": 9.5, "MISR1": 7.5, "MISR2": 7.3, "WHEAT": 4.9, "CORN": 26.8},
    "attention-MIR": {"MODIS": 9.05, "MISR1": 7.32, "MISR2": 6.95, "WHEAT": 5.24, "CORN": 27.00},
}
INNER_FOLDS = 50
# "paper": the best setting on the scoring folds. "nested": the setting chosen within the training bags. "clipped": as
# nested, but instance predictions are clipped to the training range, because with tiny penalties a bag outside has a
# huge prediction. The paper does not clip.
PROTOCOLS = ("paper", "nested", "clipped")
_KERNELS = {"instance-kme-MIR (INV)": InverseMultiquadric, "instance-kme-MIR (RBF)": Gaussian}
_POOLS = {"instance-MIR (mean)": "mean", "instance-MIR (median)": "median"}
_OTHERS = {"EM-MIR": "em", "attention-MIR": "attention"}


def choose_rows(rows: list[str] | None = None) -> list[str]:
    """Check the names of rows of Table 1 and return them without repetition; all rows by default."""
    unknown = [row for row in rows or () if row not in PUBLISHED]
    if unknown:
        raise ValueError(f"Table 1 has no row {unknown[0]!r}. Its rows are {', '.join(PUBLISHED)}.")
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
    """Evaluate rows of the table on one data set; `read_row` compares the results with the published numbers.

    Each cell trains the networks once. It scores all settings of the paper's grid (14 bandwidths x 16 penalties x 2
    kernels) and the setting that leave-one-bag-out on the training bags chooses, so all protocols use the same folds
    and networks. ``inner_folds`` is D of the paper, at most the number of training bags. ``options`` are passed to
    `evaluate`.
    """
    splits = make_splits(bags, repeats=repeats, folds=folds)
    inner_folds = min(inner_folds, *[len(split.train) for split in splits])
    entries = table_entries(crop=DATA_SETS[name].crop, inner_folds=inner_folds, rows=rows)
    return evaluate(bags, y, entries, repeats=repeats, folds=folds, selection="paper", name=name, **options)


def table_entries(*, crop: bool, inner_folds: int, rows: list[str]) -> list[Entry]:
    """Return the methods of the rows; for crops with the network of the notebook, which was run on CORN."""

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
    """Return the settings of a method as (row of the table, protocols, setting)."""
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
    """Return the scores of one row of the table, and its published number.

    For each of `PROTOCOLS`, the result has the mean score, its standard error over repeats, and its difference from the
    published number in standard errors.
    """
    scores = results.scores(_label(row), "rmse") * DATA_SETS[name].scale
    complete = ~np.isnan(scores).any(axis=1)  # False for failed cells
    repeats, published = np.array([repeat for repeat, _ in results.splits])[complete], PUBLISHED[row][name]
    result = {"data": name, "row": row, "published": published, "failed": int((~complete).sum())}
    for protocol in PROTOCOLS:
        settings = enumerate(_settings(_label(row)))
        columns = [k for k, (name_of_row, protocols, _) in settings if name_of_row == row and protocol in protocols]
        if protocol == "paper":
            result["selection"] = LABELS["paper" if len(columns) > 1 else "none"]
        part = scores[complete][:, columns] if complete.any() else np.empty((0, 1))
        best = part.mean(axis=0).argmin() if len(part) else 0
        statistics = spread(part[:, best], repeats)
        error = float(statistics["_sd_repeats"] / np.sqrt(len(np.unique(repeats)) or 1))
        gap = (statistics[""] - published) / error if error > 0 else float("nan")
        result |= {protocol: statistics[""], f"{protocol}_se": error, f"{protocol}_gap_in_se": float(gap)}
    return result


# Text -----------------------------------------------------------------------------------------------------------------

OPTIMISTIC = "* paper (optimistic): the best setting on the scoring folds, as in the paper."
NOTE = """nested: the setting is chosen by leave-one-bag-out within the training bags. Rows without * have one setting.
clipped: as nested, with instance predictions clipped to the range of the training targets, unlike in the paper.
±: standard error over repeats. In brackets: difference from the published number in standard errors.
EM-MIR and attention-MIR: the paper copied these numbers from other papers, which used other folds."""


def table_text(rows: list[dict]) -> str:
    """Return the rows of all data sets and the published numbers as a text table."""
    parts = []
    for name in dict.fromkeys(row["data"] for row in rows):
        selected = [row for row in rows if row["data"] == name]
        columns = {"row": [row["row"] for row in selected]}
        columns["published"] = [f"{row['published']:.2f}" for row in selected]
        for protocol in PROTOCOLS:
            columns[protocol] = [_cell_text(row, protocol) for row in selected]
        if any(row["failed"] for row in selected):
            columns["cells failed"] = [str(row["failed"]) for row in selected]
        parts.append(f"{name}, {'RMSE' if DATA_SETS[name].crop else '100 x RMSE'}\n{as_text(columns)}\n")
    has_optimistic = any(row["selection"] != "none" for row in rows)
    return "\n".join([*parts, *([OPTIMISTIC] if has_optimistic else []), NOTE])


def _cell_text(row: dict, protocol: str) -> str:
    """Return the text of an error, its standard error and its difference from the published number."""
    value, error, gap = (row[f"{protocol}{end}"] for end in ("", "_se", "_gap_in_se"))
    text = "* " if protocol == "paper" and row["selection"] != "none" else ""
    if value != value:
        return f"{text}-"
    text += f"{value:.2f}" + (f" ± {error:.2f}" if error == error else "")
    return text + (f" ({gap:+.1f})" if gap == gap else "")
