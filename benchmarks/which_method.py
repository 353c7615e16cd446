"""When each method wins: the error of every method on eight simulations, as a table and a picture.

    python benchmarks/which_method.py --json errors.json --n-jobs 2     fit everything; half an hour of one core
    python benchmarks/which_method.py --picture errors.json             draw docs/pictures/which-method.png from it

Every draw has 200 training bags and 500 new ones. An error is the RMSE on new bags, mean over the draws, in units of
the smallest error on that simulation. The file keeps each method that is finished, and the same command runs the
others. Rows in italics are outside baselines of `league.py`; those that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from league import METHODS as LEAGUE

import bagwise as bw
from bagwise.datasets.simulations import simulate
from bagwise.methods import CATALOGUE
from bagwise.metrics import rmse

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "which-method.png"
SIMULATIONS = {
    "mean": "mean of the\ninstances",
    "aerosol": "pixels,\nclouds",
    "noisy": "noisy\ninstances",
    "outlier": "outliers",
    "shape": "spread",
    "modes": "number of\nmodes",
    "prime": "one key\ninstance",
    "primary": "one hidden\ninstance",
}
OUTSIDE = {  # methods of league.py, and the library that each needs; AutoGluon would add an hour
    "forest on bag means": "sklearn",
    "forest on statistics": "sklearn",
    "LightGBM on statistics": "lightgbm",
    "mikit-learn attention": "milearn",
    "DeepSets": "torch",
}


def error(simulation: str, method: str, draw: int) -> float:
    bags, y = simulate(simulation, 200, random_state=2 * draw)
    new, truth = simulate(simulation, 500, random_state=2 * draw + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values far outside the training range: those count as errors here
        if method in OUTSIDE:
            return rmse(truth, LEAGUE[method](bags, y, new, draw, 0))
        return rmse(truth, bw.method(method, random_state=draw).fit(bags, y).predict(new))


def measure(method: str, draws: int, n_jobs: int) -> dict[str, list[float]]:
    """Return the errors of all draws by simulation."""
    tasks = [(simulation, method, draw) for simulation in SIMULATIONS for draw in range(draws)]
    errors = iter(Parallel(n_jobs=n_jobs)(delayed(error)(*task) for task in tasks))
    return {simulation: [next(errors) for _ in range(draws)] for simulation in SIMULATIONS}


def relative(errors: dict) -> tuple[list[str], np.ndarray]:
    """Return the methods, smallest typical error first, and their errors over the smallest of each simulation."""
    table = np.array([[np.mean(row[name]) for name in SIMULATIONS] for row in errors.values()])
    table = table / table.min(axis=0)
    order = np.argsort(np.log(table).mean(axis=1))
    return [list(errors)[k] for k in order], table[order]


def draw_picture(methods: list[str], table: np.ndarray, path: Path) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 0.31 * len(methods) + 1.0), layout="constrained")
    axis = figure.subplots()
    axis.imshow(table, cmap="YlGnBu_r", norm=LogNorm(1.0, 4.0), aspect="auto")
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            best = {"weight": "bold"} if value <= 1.05 else {}
            axis.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value < 1.9 else "#222", **best)
    axis.set_yticks(range(len(methods)), methods)
    for label in axis.get_yticklabels():
        label.set_style("italic" if label.get_text() in OUTSIDE else "normal")
    axis.set_xticks(range(len(SIMULATIONS)), SIMULATIONS.values())
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    figure.savefig(path, dpi=130, facecolor="white")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--method", action="append", help="a method; default all")
    parser.add_argument("--json", type=Path, help="file that keeps the errors of finished methods")
    parser.add_argument("--picture", type=Path, help="draw the picture from errors kept before; nothing is fitted")
    options = parser.parse_args()
    file = options.picture or options.json
    errors = json.loads(file.read_text()) if file and file.exists() else {}
    if options.picture:
        draw_picture(*relative(errors), PICTURE)
        print(f"Wrote {PICTURE}")
    else:
        installed = [*CATALOGUE, *(name for name, library in OUTSIDE.items() if find_spec(library))]
        for method in options.method or installed:
            if method not in errors:
                errors[method] = measure(method, options.draws, options.n_jobs)
                print(f"{method} is finished.", flush=True)
                if options.json:
                    options.json.write_text(json.dumps(errors))
    methods, table = relative(errors)
    print(f"| method | {' | '.join(SIMULATIONS)} |\n|---{'|--:' * len(SIMULATIONS)}|")
    for name, row in zip(methods, table, strict=True):
        label = f"*{name}*" if name in OUTSIDE else name
        print(f"| {label} | {' | '.join(f'{value:.2f}' for value in row)} |")


if __name__ == "__main__":
    main()
