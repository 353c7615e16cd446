"""instance-kme against its baselines and without each of its ingredients, on simulations and real tables.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/instance_kme.py
                                                   20 draws of every simulation, the real tables, ten seeds
    python benchmarks/instance_kme.py --draws 3    fewer draws
    python benchmarks/instance_kme.py --set noisy  one of them

Draws begin at 300: those below served to choose the design. Real tables are used when ``../shared/data`` is there. Two
tables in Markdown: errors of the baselines with the change that the default brings against the best of them, paired by
draw; and the change of the error without each ingredient.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from functools import partial

import compare
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

import bagwise as bw
from bagwise.bags import BagKFold

FIRST = 300
BASELINES = ("instance-mean", "instance-median", "instance-kme:single")
DEFAULT = "instance-kme"
KINDS = ("noisy", "mean", "shape", "prime")
SEEDS = 10


def problem(kind: str, draw: int):
    train = bw.datasets.make_problem(kind, 200, random_state=FIRST + draw)
    return train, bw.datasets.make_problem(kind, 1000, random_state=9000 + draw), 0


def aerosol(ragged: bool, draw: int):
    """Five draws for every fold of five: 240 training bags and 60 test bags."""
    bags, y = bw.datasets.make_aerosol(300, instances=40, ragged=ragged, random_state=FIRST + draw // 5)
    train, test = list(BagKFold(5).split(bags))[draw % 5]
    return (bags[train], y[train]), (bags[test], y[test]), 0


def published(load, draw: int):
    bags, y, options = load(FIRST + draw)
    return *_parted(bags, y, options["split"] == "test"), 0


def table(stem: str, column: str, draw: int):
    """A real table: for a fixed split a draw is a seed, for fixed folds a draw is a fold."""
    bags, y, options = compare.real_table(stem, column)(0)
    if "split" in options:
        return *_parted(bags, y, options["split"] == "test"), draw
    return *_parted(bags, y, options["fold"] == np.unique(options["fold"])[draw]), 0


def _parted(bags, y, test):
    return (bags[~test], y[~test]), (bags[test], y[test])


SETS = {
    **{kind: partial(problem, kind) for kind in KINDS},
    "aerosol": partial(aerosol, False),
    "aerosol, ragged": partial(aerosol, True),
    **{
        f"{kind}-{shape}": partial(published, compare.wang(kind, shape))
        for kind in ("gaussian", "outlier2")
        for shape in ("linear", "nonlinear")
    },
}
TABLES = {
    "law-s5-50": (partial(published, compare.law(50)), 1),
    "conformers": (partial(table, "conformers-CHEMBL2034_Ki", "split"), SEEDS),
    "sentences": (partial(table, "sentences-ted_comments_tfidf", "split"), SEEDS),
    "mhc2-H-2-IAb": (partial(table, "mhc2-H-2-IAb", "fold"), 5),
    "mhc2-DRB1_0301": (partial(table, "mhc2-DRB1_0301", "fold"), 5),
}


def without(seed: int) -> dict:
    """The default without each of its ingredients."""
    model = bw.method(DEFAULT, random_state=seed)

    def less(learners=(), readings=()):
        union, blend = (clone(step) for _, step in model.steps)
        union.set_params(learners=[pair for pair in union.learners if pair[0] not in learners])
        blend.set_params(readings=[pair for pair in blend.readings if pair[0] not in readings])
        return bw.BagPipeline([("instances", union), ("head", blend)])

    return {
        "without the network": less(learners=["network"]),
        "without the ridge": less(learners=["ridge"]),
        "without the linear ridge": less(learners=["linear"]),
        "the network alone": less(learners=["ridge", "linear"]),
        "without the median": less(readings=["median"]),
        "without quantiles": less(readings=["quantiles"]),
        "the mean alone": less(readings=["median", "quantiles"]),
    }


def run(name: str, draw: int, ingredients: bool) -> tuple[str, int, dict[str, float]]:
    load = SETS.get(name) or TABLES[name][0]
    (train, y), (test, truth), seed = load(draw)
    models = {method: bw.method(method, random_state=seed) for method in (*BASELINES, DEFAULT)}
    if ingredients:
        models |= without(seed)
    errors = {}
    for method, model in models.items():
        wrong = model.fit(train, y).predict(test) - truth
        errors[method] = float(np.abs(wrong).mean() if name == "sentences" else np.sqrt(np.mean(wrong**2)))
    return name, draw, errors


def report(found: dict[str, list[dict[str, float]]]) -> None:
    """The two tables."""
    print("| set | draws |", " | ".join(BASELINES), f"| {DEFAULT} | against the best of them, % |")
    print("|---|--:|" + "--:|" * (len(BASELINES) + 2))
    changes = {}
    for name, rows in found.items():
        mean = {method: np.mean([row[method] for row in rows]) for method in (*BASELINES, DEFAULT)}
        best = min(BASELINES, key=lambda method: mean[method])
        changes[name] = percent(rows, DEFAULT, best)
        print(f"| {name} | {len(rows)} |", " | ".join(f"{mean[m]:.4g}" for m in mean), f"| {shown(*changes[name])} |")
    print(f"\nGeometric mean over the sets: {np.mean([change for change, _ in changes.values()]):+.1f} %\n")
    parts = [key for key in next(iter(found.values()))[0] if key not in (*BASELINES, DEFAULT)]
    some = {name: rows for name, rows in found.items() if all(key in row for row in rows for key in parts)}
    if parts and some:
        print("| change of the error, % |", " | ".join(some), "| mean |")
        print("|---|" + "--:|" * (len(some) + 1))
        for key in parts:
            values = [percent(rows, key, DEFAULT) for rows in some.values()]
            mean = np.mean([value for value, _ in values])
            print(f"| {key} |", " | ".join(shown(*v) for v in values), f"| {mean:+.1f} |")
    print("\nDeviation of the error over seeds, %:")
    for name, rows in found.items():
        if name in ("conformers", "sentences"):
            spread = {m: 100 * np.std(np.log([r[m] for r in rows])) for m in ("instance-kme:single", DEFAULT)}
            print(f"- {name}:", ", ".join(f"{m} {value:.2f}" for m, value in spread.items()))


def percent(rows, method: str, other: str) -> tuple[float, float]:
    ratio = 100 * np.log([row[method] / row[other] for row in rows])
    return float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(len(ratio))) if len(ratio) > 1 else 0.0


def shown(change: float, error: float) -> str:
    return f"{change:+.1f} ± {error:.1f}" if error else f"{change:+.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--set", dest="names", action="append", help="one of the sets; again for more")
    parser.add_argument("--n-jobs", type=int, default=-1)
    options = parser.parse_args()
    names = options.names or [*SETS, *(name for name in TABLES if name.startswith("law") or compare.SHARED.is_dir())]
    # The long ones first, so that no core waits for them in the end.
    names = sorted(names, key=lambda name: name in SETS)
    jobs = [(name, draw, name in SETS) for name in names for draw in range(_draws(name, options.draws))]
    bw.method(DEFAULT).fit(*bw.datasets.make_problem("mean", 30))  # compiles the kernels before the workers start
    found = defaultdict(list)
    for name, _, errors in Parallel(n_jobs=options.n_jobs)(delayed(run)(*job) for job in jobs):
        found[name].append(errors)
    report({name: found[name] for name in [*SETS, *TABLES] if name in found})


def _draws(name: str, draws: int) -> int:
    return draws if name in SETS else TABLES[name][1]


if __name__ == "__main__":
    main()
