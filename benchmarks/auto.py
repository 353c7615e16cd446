"""`auto` against the stack that others reach, against instance-kme, and against the best single method: one table.

    python benchmarks/auto.py                              every data set that can be had
    python benchmarks/auto.py --data prime --data noisy    some of them
    python benchmarks/auto.py --only auto                  without instance-kme beside it
    python benchmarks/auto.py --cost                       CPU seconds against those of a forest
    python benchmarks/auto.py --cost --data law-fixed      the same on Law's bags of fixed size

Real tables, fixed folds and the published benchmarks are those of compare.py, and so are the figures of others; the
four kinds of simulated problem are drawn anew, 200 bags to learn from and 1,000 to test on. Finished cells are kept
in ``--runs``: killed at any moment, the same command goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.ensemble import RandomForestRegressor

import bagwise as bw
from bagwise.evaluation import Results
from bagwise.io.atomic_files import replace_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compare

METHODS = ("auto", "instance-kme")
STACK = f"{compare.COLUMNS[-1]} (measured)"
SINGLE = [f"{name} (measured)" for name in compare.COLUMNS[:-1]]
COLUMNS = ["auto", "se", "stack", "auto / stack", "best single", "instance-kme", "auto - instance-kme", "seconds"]


def simulated(kind: str):
    """200 bags for training, 1,000 for testing, of one kind of problem."""

    def load(draw: int):
        train = bw.datasets.make_problem(kind, 200, random_state=draw)
        return compare.join(train, bw.datasets.make_problem(kind, 1000, random_state=1000 + draw))

    return load


def problems(draws: int) -> dict[str, compare.Problem]:
    found = {
        kind: compare.Problem(kind, "RMSE, test bags", simulated(kind), compare.on_test("rmse"), draws=draws)
        for kind in ("noisy", "mean", "shape", "prime")
    }
    wang = ("gaussian", "outlier2")
    order = sorted(compare.problems().items(), key=lambda item: item[0].startswith(("law", "mhc2-D")))
    return found | {name: problem for name, problem in order if not name.startswith(wang)}


def losses(problem: compare.Problem, found: list[Results], method: str) -> np.ndarray:
    """Squared (or absolute) error of every scored bag, in the order of the splits."""
    rows = [results.predictions(method) for results in found]
    error = np.concatenate([np.subtract(row["prediction"], row["target"]) for row in rows])
    return np.abs(error) if problem.metric == "mae" else error**2


def standard_error(problem: compare.Problem, loss: np.ndarray, level: float) -> float:
    """Of the number shown, over bags; `level` is the mean loss that the root is taken at, if one is taken."""
    plain = loss.std() / np.sqrt(len(loss))
    return float(plain / (2 * np.sqrt(level)) if problem.unit.startswith("RMSE") else plain)


def as_row(problem: compare.Problem, found: list[Results], methods: list[str]) -> dict[str, str]:
    value = float(np.mean([problem.value(results, "auto") for results in found]))
    loss = losses(problem, found, "auto")
    row = {"auto": f"{value:.4g}", "se": f"{standard_error(problem, loss, loss.mean()):.2g}"}
    row["seconds"] = f"{np.mean([s for results in found for s in seconds_of(results)]):.0f}"
    if STACK in problem.peers:
        stack = problem.peers[STACK]
        row |= {"stack": f"{stack:.4g}", "auto / stack": f"{value / stack:.3f}"}
        row["best single"] = f"{min(v for k, v in problem.peers.items() if k in SINGLE):.4g}"
    if "instance-kme" in methods:
        other, theirs = losses(problem, found, "instance-kme"), [problem.value(r, "instance-kme") for r in found]
        more = value - np.mean(theirs)
        error = standard_error(problem, loss - other, (loss.mean() + other.mean()) / 2)
        row |= {"instance-kme": f"{np.mean(theirs):.4g}", "auto - instance-kme": f"{more:+.4f} ± {error:.4f}"}
    return row


def seconds_of(results: Results) -> list[float]:
    table = results.table()
    return [s for method, s in zip(table["method"], table["seconds"], strict=True) if method == "auto"]


TREES = 500
COST_COLUMNS = ["forest, CPU s", "auto, CPU s", "ratio", "forest", "auto"]


def statistics(bags) -> np.ndarray:
    """Mean, deviation, least, greatest and median of every feature in every bag."""
    parts = (np.mean, np.std, np.min, np.max, np.median)
    return np.array([np.concatenate([part(bag, axis=0) for part in parts]) for bag in bags])


def forest(bags, y, folds: int = 5):
    """Trees on the statistics, cross-validated and fitted once more: what the cost of auto is measured against."""
    rows, fold = statistics(bags), bw.bags.bag_folds(bags, folds, random_state=0)
    for k in range(folds):
        RandomForestRegressor(TREES, random_state=0).fit(rows[fold != k], y[fold != k]).predict(rows[fold == k])
    model = RandomForestRegressor(TREES, random_state=0).fit(rows, y)
    return lambda new: model.predict(statistics(new))


def cost_row(train, test) -> dict[str, float]:
    """CPU seconds of both on the same bags in one process, and their RMSE on test bags."""
    bags, y = train
    started = time.process_time()
    theirs = forest(bags, y)
    between = time.process_time()
    ours = bw.method("auto").fit(bags, y).predict
    seconds = between - started, time.process_time() - between
    errors = [float(np.sqrt(np.mean((predict(test[0]) - test[1]) ** 2))) for predict in (theirs, ours)]
    return dict(zip(COST_COLUMNS, (*seconds, seconds[1] / seconds[0], *errors), strict=True))


SIMULATED = ("noisy", "mean", "shape", "prime", "aerosol")


def bags_of(name: str, draw: int) -> list[tuple]:
    """Bags and targets to learn from, and those to test on: simulated ones, or a table of compare.py with a split."""
    if name in SIMULATED:
        make = bw.datasets.make_aerosol if name == "aerosol" else partial(bw.datasets.make_problem, name)
        return [make(200, random_state=draw), make(1000, random_state=1000 + draw)]
    bags, y, options = compare.problems()[name].load(draw)
    if "split" not in options:
        raise SystemExit(f"{name} has folds and no split; --cost is for data with a split")
    return [(bags[options["split"] == part], y[options["split"] == part]) for part in ("train", "test")]


def cost(draws: int, names=None, console=None) -> None:
    """The table of cost ratios over four simulated kinds and the aerosol simulation, a draw a row, and its median."""
    for warm in ("instance-kme", "attention"):  # imports and compiled kernels are had by then
        bw.method(warm).fit(*bw.datasets.make_problem("mean", 30))
    rows = {}
    for name in names or SIMULATED:
        for draw in range(draws):
            found = cost_row(*bags_of(name, draw))
            rows[f"{name}, draw {draw}"] = {column: f"{value:.3g}" for column, value in found.items()}
            console.print(compare.as_markdown(rows, COST_COLUMNS, "data"), soft_wrap=True, markup=False)
    console.print(f"median ratio: {np.median([float(row['ratio']) for row in rows.values()]):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", action="append", help="a data set; default all")
    parser.add_argument("--only", action="append", choices=METHODS, help="a method; default both")
    parser.add_argument("--draws", type=int, default=1, help="of each kind of simulated problem")
    parser.add_argument("--out", type=Path, help="where to write the table as well")
    parser.add_argument("--runs", type=Path, default=compare.ROOT / "runs" / "auto", help="folder of finished cells")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--cost", action="store_true", help="CPU seconds against a forest, and nothing else")
    parser.add_argument("--list", action="store_true", help="say what there is")
    options = parser.parse_args()
    console = Console()
    if options.cost:
        cost(options.draws, options.data, console)
        return
    known = problems(options.draws)
    if options.list:
        console.print(", ".join(known))
        return
    absent = [name for name in compare.MEASURED if name not in known]
    if absent:
        console.print(f"not here, so left out: {', '.join(absent)}")
    unknown = set(options.data or ()) - set(known)
    if unknown:
        parser.error(f"there is no data set {sorted(unknown)[0]!r}; there are {', '.join(known)}")
    methods, rows = list(options.only or METHODS), {}
    for name in options.data or known:
        found = compare.run(known[name], methods, runs=options.runs, n_jobs=options.n_jobs, tune=False, console=console)
        if any(results.failures for results in found):
            console.print(f"{name}: {found[0].failures}")
            continue
        rows[f"{name} ({known[name].unit})"] = as_row(known[name], found, methods)
        table = compare.as_markdown(rows, COLUMNS, "data")
        if options.out is not None:
            replace_file(options.out, lambda path, text=table: path.write_text(text, encoding="utf-8"))
        console.print(table, soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
