"""Table 1 of Uriot (2019) again: its six rows, by its protocol and by an honest one, beside the published numbers."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np

from bagwise.bags import Bags
from bagwise.kernels import Gaussian, InverseMultiquadric
from bagwise.methods import CATALOGUE, method
from bagwise.methods.instance_kme import PAPER_BANDWIDTHS, PAPER_PENALTIES
from bagwise.methods.learners import notebook_network
from bagwise.protocol.entries import Entry, as_entries
from bagwise.protocol.evaluation import evaluate
from bagwise.protocol.labelling import LABELS
from bagwise.protocol.results import Results
from bagwise.protocol.selection import as_settings
from bagwise.protocol.splits import make_splits
from bagwise.protocol.summaries import spread
from bagwise.protocol.table1_files import DATA_SETS

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
_KERNELS = {"instance-kme-MIR (INV)": InverseMultiquadric, "instance-kme-MIR (RBF)": Gaussian}
_POOLS = {"instance-MIR (mean)": "mean", "instance-MIR (median)": "median"}
_OTHERS = {"EM-MIR": "em", "attention-MIR": "attention"}


def reproduce(name: str, bags: Bags, y: np.ndarray, *, rows: list[str] | None = None, **options) -> list[dict]:
    """The rows of the table for one data set, ours beside the published ones.

    Every cell trains the networks once and scores all settings of the paper's grid (14 bandwidths x 16 penalties x 2
    kernels), and the one that leave-one-bag-out on the training bags would choose among them. So both protocols
    come from the same folds and networks: ``paper`` is the best setting on the scoring folds, ``nested`` the one
    chosen inside.

    Parameters
    ----------
    name : one of MODIS, MISR1, MISR2, WHEAT, CORN
    rows : names of rows, default all that can be run
    options : see `run_rows`

    Returns
    -------
    list of dict
        row, published, and for "paper" and "nested" our mean, its standard error over repeats, and how many of those
        ours is above the published number; ``selection`` says whether a setting was chosen on the scoring folds.
    """
    rows = choose_rows(rows)
    results = run_rows(name, bags, y, rows=rows, **options)
    return [read_row(results, row, name) for row in rows]


def choose_rows(rows: list[str] | None = None) -> list[str]:
    """The rows that are asked for, if they can be run; or all that can, with a warning that names the others."""
    unknown = [row for row in rows or () if row not in PUBLISHED]
    if unknown:
        raise ValueError(f"there is no row {unknown[0]!r} in Table 1; there are {', '.join(PUBLISHED)}")
    chosen = list(dict.fromkeys(PUBLISHED if rows is None else rows))
    lacking = {row: needs for row in chosen if (needs := _lacks(row))}
    for row, needs in lacking.items():
        text = f"{row} needs {needs}: pip install 'bagwise[{needs}]'"
        if rows is not None:
            raise ImportError(text)
        warnings.warn(f"{text}; it is left out", UserWarning, stacklevel=2)
    return [row for row in chosen if row not in lacking]


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
    """The cells behind some rows.

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
    """The methods behind the rows. Crops have the network of the notebook (it was run on CORN), aerosol the other."""
    preset = "notebook" if crop else "paper"

    def pool(seed: int):
        made = method("instance-mean", preset="paper", random_state=seed)
        return made.set_params(instances__estimator=notebook_network(random_state=seed)) if crop else made

    def kme(seed: int):
        return method("instance-kme", preset=preset, random_state=seed).set_params(instances__folds=inner_folds)

    own = {"instance-MIR": Entry("instance-MIR", pool, _settings(_POOLS))}
    own["instance-kme-MIR"] = Entry("instance-kme-MIR", kme, _settings(_KERNELS))
    labels = list(dict.fromkeys(map(_label, rows)))
    return [own[label] if label in own else _other(label) for label in labels]


def _settings(of_row: dict) -> tuple[dict, ...]:
    return tuple(setting for row in of_row for settings in _row_settings(row).values() for setting in settings)


def _row_settings(row: str) -> dict[str, tuple[dict, ...]]:
    """The settings that a row is read from, for either protocol."""
    if row in _POOLS:  # nothing to choose
        return {"both": ({"head__statistic": _POOLS[row]},)}
    kernels = [_KERNELS[row](bandwidth) for bandwidth in PAPER_BANDWIDTHS]
    penalties = [(penalty,) for penalty in PAPER_PENALTIES]
    grid = as_settings({"head__embedding__kernel": kernels, "head__head__penalties": penalties})
    return {"paper": grid, "nested": ({"head__grid": {"kernel": kernels}, "head__head__penalties": PAPER_PENALTIES},)}


def read_row(results: Results, row: str, name: str) -> dict:
    """Ours and theirs, for one row of the table."""
    scores = results.scores(_label(row), "rmse") * DATA_SETS[name].scale
    known = ~np.isnan(scores).any(axis=1)  # all but failed cells
    found = {"data": name, "row": row, "published": PUBLISHED[row][name], "failed": int((~known).sum())}
    columns = _columns_of(row, "paper")
    found["selection"] = LABELS["paper" if columns.stop - columns.start > 1 else "none"]
    repeats = np.array([repeat for repeat, _ in results.splits])[known]
    for protocol in ("paper", "nested"):
        part = scores[known, _columns_of(row, protocol)] if known.any() else np.empty((0, 1))
        best = part.mean(axis=0).argmin() if len(part) else 0
        found |= _compare(part[:, best], repeats, found["published"], protocol)
    return found


def _columns_of(row: str, protocol: str) -> slice:
    """Where the settings of a row are among those of its method."""
    start = 0
    for other in next((rows for rows in (_POOLS, _KERNELS) if row in rows), ()):
        for which, settings in _row_settings(other).items():
            if other == row and which in (protocol, "both"):
                return slice(start, start + len(settings))
            start += len(settings)
    return slice(0, 1)


def _compare(values: np.ndarray, repeats: np.ndarray, published: float, protocol: str) -> dict:
    found = spread(values, repeats)
    error = found["_sd_repeats"] / np.sqrt(len(np.unique(repeats)) or 1)
    gap = (found[""] - published) / error if error > 0 else float("nan")
    return {protocol: found[""], f"{protocol}_se": float(error), f"{protocol}_gap_in_se": float(gap)}


def _label(row: str) -> str:
    return row.split(" (")[0]


def _lacks(row: str) -> str | None:
    """The package that a row needs and that is not installed."""
    needs = CATALOGUE[_OTHERS[row]].needs if row in _OTHERS else None
    return needs if needs is not None and find_spec(needs) is None else None


def _other(label: str) -> Entry:
    """EM-MIR and attention-MIR as the catalogue has them: no grid is published, so nothing is chosen on the folds."""
    preset = "paper" if "paper" in CATALOGUE[_OTHERS[label]].presets else None
    (entry,) = as_entries(f"{_OTHERS[label]}:{preset}" if preset else _OTHERS[label], tune=False)
    return Entry(label, entry.make)
