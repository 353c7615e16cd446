"""When each method wins: the error of every method on eight simulations, as a table and a picture.

    python benchmarks/which_method.py --json errors.json --n-jobs 2     fits everything; about an hour on two cores
    python benchmarks/which_method.py --picture errors.json             draws docs/pictures/which-method.png from it

Every draw has 200 training bags and 500 new ones. An error is the RMSE on new bags, mean over the draws, in units of
the smallest error on that simulation.
"""

from __future__ import annotations

import argparse
import json
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

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


def error(simulation: str, method: str, draw: int) -> float:
    bags, y = simulate(simulation, 200, random_state=2 * draw)
    new, truth = simulate(simulation, 500, random_state=2 * draw + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values far outside the training range: those count as errors here
        return rmse(truth, bw.method(method, random_state=draw).fit(bags, y).predict(new))


def measure(methods: list[str], draws: int, n_jobs: int) -> dict[str, dict[str, list[float]]]:
    """For every method and simulation, the errors of all draws."""
    tasks = [(simulation, method, draw) for method in methods for simulation in SIMULATIONS for draw in range(draws)]
    found = iter(Parallel(n_jobs=n_jobs, verbose=1)(delayed(error)(*task) for task in tasks))
    return {method: {name: [next(found) for _ in range(draws)] for name in SIMULATIONS} for method in methods}


def relative(errors: dict) -> tuple[list[str], np.ndarray]:
    """Methods from the smallest to the largest typical error, and their errors over the smallest of each simulation."""
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
    axis.set_xticks(range(len(SIMULATIONS)), SIMULATIONS.values())
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    figure.savefig(path, dpi=130, facecolor="white")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--method", action="append", help="a method; default all")
    parser.add_argument("--json", type=Path, help="where to keep the errors")
    parser.add_argument("--picture", type=Path, help="draw the picture from errors kept before; nothing is fitted")
    options = parser.parse_args()
    if options.picture:
        errors = json.loads(options.picture.read_text())
        draw_picture(*relative(errors), PICTURE)
        print(f"Wrote {PICTURE}")
    else:
        usable = [name for name, card in CATALOGUE.items() if card.needs is None or find_spec(card.needs)]
        errors = measure(options.method or usable, options.draws, options.n_jobs)
        if options.json:
            options.json.write_text(json.dumps(errors))
    methods, table = relative(errors)
    print(f"| method | {' | '.join(SIMULATIONS)} |\n|---{'|--:' * len(SIMULATIONS)}|")
    for name, row in zip(methods, table, strict=True):
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in row)} |")


if __name__ == "__main__":
    main()
