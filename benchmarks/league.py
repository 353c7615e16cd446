"""A league: methods of bagwise and the usual alternatives, on the same splits of fourteen open problems.

    python benchmarks/league.py environment ENV --python 3.12     make a virtual environment with all libraries
    ENV/bin/python benchmarks/league.py run --tables DATA         fit everything; about 3 hours of one core
    ENV/bin/python benchmarks/league.py page                      write docs/league.md and its picture from the cells

A cell is one method on one split of one problem. Each finished cell is a line of the results file, so that a run can be
stopped at any moment; the same command goes on. Each cell runs in one thread of one process, ``--workers`` of them at a
time. DATA is a folder with the tables named in `TABLES`; problems whose table is missing are left out.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestRegressor

import bagwise as bw

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs" / "league"
SPLITS = 5
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
LIBRARIES = (
    "autogluon.tabular[lightgbm,catboost,xgboost]==1.6.3",
    "lightgbm==4.7.0",
    "torch==2.13.0",
    "lightning==2.6.6",
    "pytorch-lightning==2.6.6",
    "rdkit>=2025.3",
)
WITHOUT_DEPENDENCIES = ("mikit-learn==1.0.6",)  # it asks for torchvision, which only its example data needs


# Problems ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A data set with five splits: `load(split)` returns bags, targets, and which bags are test bags."""

    text: str
    load: Callable
    seconds: int = 90  # time limit of AutoGluon's best_quality


def drawn(make: Callable, n_train: int, n_test: int) -> Callable:
    """Draw training and test bags anew for each split."""

    def load(split: int):
        return joined(make(n_train, random_state=2 * split), make(n_test, random_state=2 * split + 1))

    return load


def joined(train, test):
    (bags, y), (new, y_new) = train, test
    offsets = np.concatenate([bags.offsets, bags.offsets[-1] + new.offsets[1:]])
    both = bw.Bags(np.concatenate([bags.instances, new.instances]), offsets)
    return both, np.concatenate([y, y_new]), np.arange(len(both)) >= len(bags)


def outliers(n_bags: int, *, random_state: int):
    """Draw Outlier2 of Wang et al.; only training bags (even seeds) have the additional label noise."""
    noise = {"label_noise_bags": 0} if random_state % 2 else {}
    return bw.datasets.make_outlier2(n_bags, shape="nonlinear", random_state=random_state, **noise)


def law(split: int):
    """Draw the chi-square problem of Law et al.: half of the bags have 5 instances, the others up to 1,000."""
    parts = bw.datasets.make_law(23 + split, s5=50, parts=("train", "test"))
    return joined(parts["train"], parts["test"])


def official_folds(path: Path, split: int):
    """Test on one of the five folds of the source; bags of a fold are related, so folds are groups as well."""
    bags, y = bw.load(path, bag="bag", target="target", groups="fold")
    return bags, y, bags.groups == split


def random_folds(path: Path, split: int):
    bags, y = read_molecules(path) if path.suffix == ".csv" else bw.load(path, **COLUMNS)
    return bags, y, np.random.default_rng(0).permutation(len(bags)) % SPLITS == split


COLUMNS = {"bag": "bag", "target": "target", "ignore": ["split"]}


def read_molecules(path: Path):
    """Read bags of ten conformers per molecule, from the file that the first call makes."""
    cache = RUNS / f"{path.stem}.npz"
    if not cache.exists():
        from pyarrow import csv

        table = csv.read_csv(path)
        cache.parent.mkdir(parents=True, exist_ok=True)
        bw.save_npz(cache, *bw.from_smiles(table["smiles"].to_pylist(), table["y"].to_numpy(), conformers=10))
    return bw.load(cache)


TABLES = {
    "peptides DRB1_0301": ("mhc2-DRB1_0301.parquet", official_folds, "binding of peptides, official folds"),
    "peptides H-2-IAb": ("mhc2-H-2-IAb.parquet", official_folds, "binding of peptides, official folds"),
    "conformers": ("conformers-CHEMBL2034_Ki.parquet", random_folds, "potency of molecules, random folds"),
    "SMILES": ("molecules-CHEMBL4203_Ki.csv", random_folds, "potency of molecules, conformers by `bw.from_smiles`"),
    "sentences": ("sentences-ted_comments_tfidf.parquet", random_folds, "ratings of comments, random folds"),
}


def problems(tables: Path | None) -> dict[str, Problem]:
    kinds = {
        "noisy": "each instance is a noisy view of the target",
        "mean": "the target is linear in the bag mean",
        "shape": "the target is the spread in one direction",
        "prime": "the target depends on one key instance",
    }
    gaussian = partial(bw.datasets.make_gaussian, shape="nonlinear")
    sky = {f"pixels, {name}": partial(bw.datasets.make_aerosol, cloud_fraction=name) for name in ("clear", "cloudy")}
    return {
        **{
            name: Problem(text, partial(load, tables / file), seconds=180)
            for name, (file, load, text) in TABLES.items()
            if tables is not None and (tables / file).exists()
        },
        **{name: Problem("aerosol simulation", drawn(make, 200, 500)) for name, make in sky.items()},
        "Law": Problem("chi-square distributions; half of the bags have 5 instances", law, seconds=180),
        "Wang, Gaussian": Problem("Gaussian instances, nonlinear target", drawn(gaussian, 100, 500)),
        "Wang, outliers": Problem("simulation Outlier2 of Wang et al., nonlinear target", drawn(outliers, 100, 500)),
        **{
            kind: Problem(text, drawn(partial(bw.datasets.make_problem, kind), 200, 500))
            for kind, text in kinds.items()
        },
    }


# Methods: fit on training bags, predict new bags --------------------------------------------------------------------


def ours(name: str, bags, y, new, split: int, seconds: int):
    return bw.method(name, random_state=split).fit(bags, y).predict(new)


def bag_means(bags) -> np.ndarray:
    means = np.add.reduceat(bags.instances, bags.offsets[:-1], axis=0) / bags.sizes[:, None]
    return means if bags.covariates is None else np.hstack([means, bags.covariates])


def statistics(bags) -> np.ndarray:
    """Return mean, deviation, minimum, median and maximum of each feature, the size of the bag, and its covariates."""
    parts = (np.mean, np.std, np.min, np.median, np.max)
    rows = np.array([np.concatenate([part(bag, axis=0) for part in parts] + [[len(bag)]]) for bag in bags])
    return rows if bags.covariates is None else np.hstack([rows, bags.covariates])


def forest(rows: Callable, bags, y, new, split: int, seconds: int):
    model = RandomForestRegressor(300, max_features=1 / 3, random_state=split)
    return model.fit(rows(bags), y).predict(rows(new))


def lightgbm(bags, y, new, split: int, seconds: int):
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(random_state=split, n_jobs=1, verbose=-1)
    return model.fit(statistics(bags), y).predict(statistics(new))


def autogluon(preset: str, bags, y, new, split: int, seconds: int):
    """Fit AutoGluon on statistics, with a time limit; its inner folds follow the groups, as ours do."""
    import pandas as pd

    frame, frame_new = pd.DataFrame(statistics(bags)), pd.DataFrame(statistics(new))
    frame.columns = frame_new.columns = [f"x{k}" for k in frame.columns]
    frame, groups = frame.assign(y=y), {}
    if bags.groups is not None:
        frame, groups = frame.assign(group=bags.groups), {"groups": "group"}
    ends = time.monotonic() + (seconds if preset == "best_quality" else 30)
    try:
        return fit_autogluon(frame, frame_new, ends, presets=preset, **groups)
    except AssertionError:  # the trial of its stacking took so long that no model was fitted: without that trial
        return fit_autogluon(frame, frame_new, ends, presets=preset, dynamic_stacking=False, **groups)


def fit_autogluon(frame, frame_new, ends: float, *, groups=None, **options) -> np.ndarray:
    from autogluon.tabular import TabularPredictor

    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor("y", problem_type="regression", path=folder, verbosity=0, groups=groups)
        predictor.fit(frame, time_limit=max(ends - time.monotonic(), 30), num_cpus=1, num_gpus=0, **options)
        return predictor.predict(frame_new).to_numpy()


def arrays(bags) -> list[np.ndarray]:
    """Return one array per bag, its covariates repeated in each row."""
    if bags.covariates is None:
        return list(bags)
    return [np.hstack([bag, np.tile(row, (len(bag), 1))]) for bag, row in zip(bags, bags.covariates, strict=True)]


def mikit_learn(bags, y, new, split: int, seconds: int):
    """Fit the additive attention network of mikit-learn with its defaults, on standardised features and targets."""
    from milearn.network.regressor import AdditiveAttentionNetworkRegressor
    from milearn.preprocessing import BagStandardScaler

    mean, deviation, scaler = y.mean(), y.std(), BagStandardScaler()
    inputs = scaler.fit_transform(arrays(bags))
    model = AdditiveAttentionNetworkRegressor(random_seed=split).fit(inputs, (y - mean) / deviation)
    return mean + deviation * model.predict(scaler.transform(arrays(new)))


def deep_sets(bags, y, new, split: int, seconds: int):
    """Fit five DeepSets of torch, each stopped early on another fifth of the training bags, and average them."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(split)
    rows = np.concatenate(arrays(bags))
    centre, scale = rows.mean(axis=0), np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1)
    inputs, inputs_new = ([torch.tensor((a - centre) / scale).float() for a in arrays(part)] for part in (bags, new))
    targets = torch.tensor((y - y.mean()) / y.std()).float()

    class DeepSets(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(rows.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
            self.decode = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, batch):
            bag = torch.repeat_interleave(torch.arange(len(batch)), torch.tensor([len(a) for a in batch]))
            encoded = self.encode(torch.cat(batch))
            return self.decode(torch.zeros(len(batch), 64).index_reduce_(0, bag, encoded, "mean", include_self=False))

    fold, predictions = np.random.default_rng(split).permutation(len(y)) % 5, []
    for k in range(5):
        network = DeepSets()
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4)
        train, held_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        best, waited, state = np.inf, 0, None
        for epoch in range(200):
            order = np.random.default_rng([split, k, epoch]).permutation(train)
            for batch in np.array_split(order, max(1, len(order) // 32)):
                loss = ((network([inputs[i] for i in batch])[:, 0] - targets[batch]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                error = float(((network([inputs[i] for i in held_out])[:, 0] - targets[held_out]) ** 2).mean())
            waited += 1
            if error < best:
                best, waited, state = error, 0, {key: value.clone() for key, value in network.state_dict().items()}
            if waited == 15:
                break
        network.load_state_dict(state)
        with torch.no_grad():
            predictions.append(network(inputs_new)[:, 0].numpy())
    return y.mean() + y.std() * np.mean(predictions, axis=0)


METHODS: dict[str, Callable] = {
    "auto": partial(ours, "auto"),
    "instance-kme": partial(ours, "instance-kme"),
    "input-kme": partial(ours, "input-kme"),
    "statistics:forest": partial(ours, "statistics:forest"),
    "forest on bag means": partial(forest, bag_means),
    "forest on statistics": partial(forest, statistics),
    "LightGBM on statistics": lightgbm,
    "AutoGluon medium": partial(autogluon, "medium_quality"),
    "AutoGluon best": partial(autogluon, "best_quality"),
    "mikit-learn attention": mikit_learn,
    "DeepSets": deep_sets,
}
OURS = tuple(METHODS)[:4]


# Running ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def split_of(tables: Path | None, name: str, split: int):
    bags, y, test = problems(tables)[name].load(split)
    return bags[~test], y[~test], bags[test], y[test]


def cpu_seconds() -> float:
    times = os.times()  # with those of child processes
    return times.user + times.system + times.children_user + times.children_system


def run_cell(tables: Path | None, name: str, split: int, method: str) -> dict:
    """Fit and predict one cell; a method that fails is a cell with its error."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    cell = {"problem": name, "split": split, "method": method}
    try:
        bags, y, new, y_new = split_of(tables, name, split)
        cpu, wall = cpu_seconds(), time.perf_counter()
        predictions = METHODS[method](bags, y, new, split, problems(tables)[name].seconds)
        cell |= {"cpu": round(cpu_seconds() - cpu, 2), "wall": round(time.perf_counter() - wall, 2)}
    except Exception as error:
        return cell | {"error": f"{type(error).__name__}: {error}"[:300]}
    if not np.isfinite(predictions).all():
        return cell | {"error": "a prediction is not finite"}
    cell |= {"bags": len(bags), "rows": int(bags.n_instances), "features": bags.n_features}
    errors = np.subtract(predictions, y_new)
    return cell | {"errors": [float(f"{value:.6g}") for value in errors], "spread": float(np.std(y))}


def warm_up(tables: Path | None) -> None:
    """Compile the kernels of bagwise and import the other libraries before anything is timed."""
    bags, y = bw.datasets.make_problem("mean", 40)
    for method in METHODS:
        if not method.startswith("AutoGluon"):
            with suppress(Exception):  # the cells of the method report it
                METHODS[method](bags, y, bags[:2], 0, 90)


def describe_run() -> dict:
    """Return when and where the cells below this line were run."""
    packages = "numpy scikit-learn numba autogluon.tabular lightgbm catboost xgboost-cpu mikit-learn torch"
    versions = {"bagwise": bw.__version__}
    for name in packages.split():
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "run": str(date.today()),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "processor": models[0] if models else "",
        "versions": versions,
    }


def read(path: Path) -> list[dict]:
    """Return the lines of a results file: cells, a line per run that describes it, and notes for the page.

    The last line of a run that was killed may be incomplete, and is left out.
    """
    cells = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            cells.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return cells


def order(names: list[str], methods: list[str], splits: int) -> list[tuple[str, int, str]]:
    """Return the cells split by split, so that unfinished runs have complete rows; AutoGluon's last ones at the end."""
    cells = [(name, split, method) for split in range(splits) for name in names for method in methods]
    late = {cell: cell[2].startswith("AutoGluon") and cell[1] >= 2 for cell in cells}
    return sorted(cells, key=lambda cell: (late[cell], cell[1], names.index(cell[0])))


def run(
    tables: Path | None, names: list[str], methods: list[str], *, splits: int, out: Path, workers: int, seconds: float
) -> None:  # fmt: skip
    finished = {(cell["problem"], cell["split"], cell["method"]) for cell in read(out) if "errors" in cell}
    print(f"{len(finished)} cells are finished.")
    cells = [cell for cell in order(names, methods, splits) if cell not in finished]
    out.parent.mkdir(parents=True, exist_ok=True)
    os.environ.update(dict.fromkeys(THREADS, "1"), CUDA_VISIBLE_DEVICES="")  # the workers read them when they start
    ends = time.monotonic() + seconds
    if "SMILES" in names:
        read_molecules(tables / TABLES["SMILES"][0])
    initializer = {"initializer": warm_up, "initargs": (tables,)}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), **initializer) as pool, out.open("a") as file:
        file.write(json.dumps(describe_run() | {"workers": workers}) + "\n")
        futures = [pool.submit(run_cell, tables, *cell) for cell in cells]
        for k, future in enumerate(as_completed(futures), 1):
            cell = future.result()
            file.write(json.dumps(cell) + "\n")
            file.flush()
            message = cell.get("error") or f"{cell['cpu']:.1f} s of CPU"
            print(f"{k}/{len(cells)} {cell['problem']}, split {cell['split']}, {cell['method']}: {message}", flush=True)
            if time.monotonic() > ends:
                pool.shutdown(wait=False, cancel_futures=True)
                print("Stopped at the limit; the same command goes on.")
                os._exit(0)  # do not wait for the cells that run


# The page -----------------------------------------------------------------------------------------------------------

RESAMPLES = 2000


def collect(path: Path, splits: int) -> dict[str, dict[str, dict[int, dict]]]:
    """Return the finished cells of the first splits by problem, method and split, those of the last run of each."""
    cells: dict = {}
    for cell in read(path):
        if "errors" in cell and cell["split"] < splits:
            cells.setdefault(cell["problem"], {}).setdefault(cell["method"], {})[cell["split"]] = cell
    return {name: rows for name, rows in cells.items() if "auto" in rows}


@dataclass(frozen=True)
class Comparison:
    """One method on one problem, beside `auto` on the same test bags."""

    rmse: float
    ratio: float  # RMSE over that of auto
    low: float  # 95 percent interval of the ratio
    high: float
    cpu: float
    splits: int


def compare(cells: dict[int, dict], auto: dict[int, dict]) -> Comparison:
    """Compare on the splits that both have; the bootstrap draws splits, and bags within each split."""
    splits = sorted(set(cells) & set(auto))
    squares = [np.square([part[split]["errors"] for part in (cells, auto)]) for split in splits]
    drawn = np.stack([resampled_shares(pair.shape[1], k) @ pair.T for k, pair in enumerate(squares)], axis=1)
    chosen_splits = np.random.default_rng(0).integers(0, len(splits), (RESAMPLES, len(splits)))
    chosen = drawn[np.arange(RESAMPLES)[:, None], chosen_splits].mean(axis=1)
    method, reference = np.mean([pair.mean(axis=1) for pair in squares], axis=0)
    low, high = np.quantile(np.sqrt(chosen[:, 0] / chosen[:, 1]), (0.025, 0.975))
    cpu = np.mean([cells[split]["cpu"] for split in splits])
    return Comparison(np.sqrt(method), np.sqrt(method / reference), low, high, cpu, len(splits))


@lru_cache(maxsize=SPLITS)
def resampled_shares(n: int, seed: int) -> np.ndarray:
    """Return the share of each bag in each bootstrap sample of n bags, one row per sample."""
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), RESAMPLES) / n


def summarise(table: dict[str, dict[str, Comparison]]) -> dict[str, dict]:
    """Return one row per method that was run on all problems: means over problems, with bootstrap intervals."""
    methods = [method for method in METHODS if all(method in row for row in table.values())]
    ratios = np.array([[row[method].ratio for method in methods] for row in table.values()])
    ranks = rankdata(ratios, axis=1)
    seconds = np.array([[row[method].cpu for method in methods] for row in table.values()])
    real = np.array([name in TABLES for name in table])
    groups = {"error": real | True, "real": real, "simulated": ~real}
    draws = np.random.default_rng(0).integers(0, len(ratios), (RESAMPLES, len(ratios)))
    error_limits = np.exp(np.quantile(np.log(ratios)[draws].mean(axis=1), (0.025, 0.975), axis=0))
    rank_limits = np.quantile(ranks[draws].mean(axis=1), (0.025, 0.975), axis=0)
    return {
        method: {
            **{group: np.exp(np.log(ratios[rows, k]).mean()) for group, rows in groups.items() if rows.any()},
            "error_limits": error_limits[:, k],
            "rank": ranks[:, k].mean(),
            "rank_limits": rank_limits[:, k],
            "worse": sum(row[method].low > 1 for row in table.values()),
            "better": sum(row[method].high < 1 for row in table.values()),
            "cpu": np.exp(np.log(np.maximum(seconds[:, k], 0.01)).mean()),
        }
        for k, method in enumerate(methods)
    }


def overall(summary: dict[str, dict]) -> str:
    """Return the table over all problems, in Markdown."""
    lines = [
        "| method | error / error of auto | real tables | simulations | mean rank | auto better | auto worse | CPU s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for method, row in sorted(summary.items(), key=lambda item: item[1]["error"]):
        cells = [
            f"{row['error']:.2f} ({row['error_limits'][0]:.2f} to {row['error_limits'][1]:.2f})",
            *(f"{row[group]:.2f}" if group in row else "" for group in ("real", "simulated")),
            f"{row['rank']:.1f} ({row['rank_limits'][0]:.1f} to {row['rank_limits'][1]:.1f})",
            *map(str, (row["worse"], row["better"])),
            seconds_text(row["cpu"]),
        ]
        if method == "auto":
            cells[:3], cells[4:6] = ["1"] * 3, ["", ""]
        lines.append(f"| {f'**{method}**' if method in OURS else method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def seconds_text(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def not_run(cells: dict[str, dict[str, dict[int, dict]]], splits: int) -> str:
    """Return the cells without a result, in words; empty if there are none."""
    missing = [
        f"{method} on split {split} of {name}"
        for name, rows in cells.items()
        for method in METHODS
        for split in range(splits)
        if split not in rows.get(method, {})
    ]
    return f"Not run: {'; '.join(missing)}." if missing else ""


def section(name: str, text: str, row: dict[str, Comparison]) -> str:
    """Return the table of one problem, in Markdown."""
    lines = [f"### {name}", "", f"{text[0].upper()}{text[1:]}.", ""]
    lines += ["| method | RMSE | against auto, % (95 % interval) | CPU s | splits |", "|---|--:|--:|--:|--:|"]
    for method, value in sorted(row.items(), key=lambda item: item[1].ratio):
        change = [100 * (limit - 1) for limit in (value.ratio, value.low, value.high)]
        against = "" if method == "auto" else "{:+.1f} ({:+.1f} to {:+.1f})".format(*change)
        shown = f"**{method}**" if method in OURS else method
        lines.append(f"| {shown} | {value.rmse:.4g} | {against} | {seconds_text(value.cpu)} | {value.splits} |")
    return "\n".join(lines) + "\n"


def not_ahead(table: dict[str, dict[str, Comparison]]) -> str:
    """Return the problems on which another method has a lower error than `auto`, with what is beyond noise."""
    lines = []
    for name, row in table.items():
        ahead = sorted((value.ratio, method) for method, value in row.items() if value.ratio < 1)
        if ahead:
            parts = [
                f"{method} {100 * (ratio - 1):+.1f} %{' (beyond noise)' if row[method].high < 1 else ''}"
                for ratio, method in ahead
            ]
            lines.append(f"- {name}: {', '.join(parts)}.")
    return "\n".join(lines) + "\n"


def draw(summary: dict[str, dict], path: Path) -> None:
    """Draw error against CPU seconds, one dot per method."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullFormatter, ScalarFormatter

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axis = figure.subplots()
    for method, row in summary.items():
        colour = "#0b6e8f" if method in OURS else "#8a8a8a"
        low, high = row["error_limits"]
        axis.plot([row["cpu"]] * 2, [low, high], color=colour, linewidth=1, alpha=0.5)
        axis.plot(row["cpu"], row["error"], "o", color=colour, markersize=7)
        offset, side = ((-7, -11), "right") if method == "statistics:forest" else ((7, 3), "left")
        text = {"textcoords": "offset points", "fontsize": 8, "color": colour, "horizontalalignment": side}
        axis.annotate(method, (row["cpu"], row["error"]), offset, **text)
    axis.set(xscale="log", yscale="log", xlabel="CPU seconds per fit, with predictions")
    axis.set_ylabel("error, relative to auto")
    axis.yaxis.set_major_locator(FixedLocator([0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 2.5, 3]))
    axis.yaxis.set_major_formatter(ScalarFormatter())
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.axhline(1, color="#cccccc", linewidth=0.8, zorder=0)
    axis.margins(x=0.16)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130, facecolor="white")


def write_page(path: Path, splits: int) -> str:
    """Write docs/league.md and its picture, and return the table over all problems."""
    cells = collect(path, splits)
    table = {
        name: {method: compare(rows[method], rows["auto"]) for method in METHODS if method in rows}
        for name, rows in cells.items()
    }
    summary = summarise(table)
    texts = problems(None) | {name: Problem(text, load) for name, (_, load, text) in TABLES.items()}
    runs = [line for line in read(path) if "run" in line]
    measured = [
        f"Run on {line['run']} with Python {line['python']} on {line['cores']} cores ({line['processor']}), "
        f"{line['workers']} cells at a time, with "
        f"{', '.join(f'{name} {number}' for name, number in line['versions'].items())}."
        for line in runs[-1:]
    ]
    measured += [line["note"] for line in read(path) if "note" in line]
    parts = [
        INTRODUCTION.format(problems=len(table), splits=splits), *measured, not_run(cells, splits), "",
        overall(summary), "![Error against CPU seconds](pictures/league.png)\n",
    ]  # fmt: skip
    parts += ["## Where auto is not ahead\n", "Methods with a lower error than `auto`:\n", not_ahead(table)]
    parts += ["## Each problem\n", *(section(name, texts[name].text, row) for name, row in table.items())]
    draw(summary, PICTURE)
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    return overall(summary)


PAGE = ROOT / "docs" / "league.md"
PICTURE = ROOT / "docs" / "pictures" / "league.png"
INTRODUCTION = """\
# League

This page compares `auto`, three other methods of bagwise and seven alternatives on {problems} open problems. All
methods get the same training bags and predict the same test bags.
[Why not group means and a forest? Why not AutoGluon?](why.md) discusses the result.

```
python benchmarks/league.py environment ENV
ENV/bin/python benchmarks/league.py run --tables DATA --splits {splits}
ENV/bin/python benchmarks/league.py page --splits {splits}
```

You can stop the second command at any time; the same command continues it.
DATA is a folder with the real tables; without `--tables` only the simulations run.

- *Splits*: the first {splits} of five. For peptides, these are the official folds of the source. Peptides of one fold
  are related, so the methods of bagwise and AutoGluon keep each fold together when they cross-validate inside the
  training bags. The other tables are divided into five random folds. Simulations are drawn anew for each split: 200
  training bags (Wang: 100, Law: 1,000) and 500 test bags (Law: 1,000).
- A *cell* is one method on one split of one problem.
- *Outside baselines*: forests have 300 trees and try a third of the columns at a split. *Statistics* are the
  mean, standard deviation, minimum, median and maximum of each feature, and the size of the bag. LightGBM has its
  defaults. AutoGluon gets the statistics and one core. Its time limit is 30 s for `medium_quality`; for `best_quality`
  it is 90 s on simulations, and 180 s on real tables and Law. Foundation models and fastai are not installed. The
  attention network of mikit-learn has its defaults, on standardised features and targets. *DeepSets* is the average of
  five torch networks, each with early stopping on a different fifth of the training bags.
- *Error*: root mean squared error over the test bags of all splits. The paired interval is a bootstrap of splits and of
  bags within splits; a method is better or worse *beyond noise* if its interval excludes zero.
- *CPU s*: CPU seconds of one fit and its predictions, in one process and one thread, while other cells ran on the
  same machine.
- *The first table* summarises all problems. *Error / error of auto* is the geometric mean over all problems, then over
  the real tables and over the simulations alone. This mean and the mean rank have 95 % bootstrap intervals over
  problems. *auto better* and *auto worse* count the problems on which the difference is beyond noise. *CPU s* is a
  geometric mean, too. If a method has fewer splits than `auto`, both are compared on the splits of that method.

How to read it:

- Simulations show which relations a method can learn; the real tables show how much that matters on data like theirs.
- Most of these tables and kinds of simulation were also used while `auto` was developed, so its lead may be smaller on
  new data.
- Few splits say little about how much results differ between splits. The intervals over problems are the safer guide.
- AutoGluon uses all the time and cores that it gets, so with more of them its errors may be lower. Some of its
  learners ran on several threads in spite of the setting; its CPU seconds include them.

Methods of bagwise are in bold.
"""


def make_environment(folder: Path, python: str) -> None:
    """Make a virtual environment with bagwise and the libraries of the other methods."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "install"]
    subprocess.run([*pip, ROOT, *LIBRARIES], check=True)
    subprocess.run([*pip, "--no-deps", *WITHOUT_DEPENDENCIES], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    environment = commands.add_parser("environment", help="make a virtual environment with all libraries")
    environment.add_argument("folder", type=Path)
    environment.add_argument("--python", default=sys.executable)
    running = commands.add_parser("run", help="fit and predict all cells that are not finished")
    running.add_argument("--tables", type=Path, help="folder of the real tables; without it only simulations run")
    running.add_argument("--problem", action="append", help="a problem; default all")
    running.add_argument("--method", action="append", choices=METHODS, help="a method; default all")
    running.add_argument("--workers", type=int, default=1)
    running.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    for command in (running, commands.add_parser("page", help="write the page and the picture from the cells")):
        command.add_argument("--splits", type=int, default=SPLITS, help="the first splits only; default all")
        command.add_argument("--cells", type=Path, default=RUNS / "cells.jsonl", help="the results file")
    options = parser.parse_args()
    if options.command == "environment":
        make_environment(options.folder, options.python)
    elif options.command == "run":
        names = list(problems(options.tables))
        unknown = set(options.problem or ()) - set(names)
        if unknown:
            parser.error(f"there is no problem {sorted(unknown)[0]!r}; there are {', '.join(names)}")
        run(
            options.tables, options.problem or names, options.method or list(METHODS),
            splits=options.splits, out=options.cells, workers=options.workers, seconds=options.seconds,
        )  # fmt: skip
    else:
        print(write_page(options.cells, options.splits))


if __name__ == "__main__":
    main()
