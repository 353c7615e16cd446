"""Law et al. (2018), ours beside published: test MSE / negative log likelihood on the same data, bit for bit.

    python benchmarks/law.py                     both tables: bags of one size, data seeds 23 to 32; and of varying size
    python benchmarks/law.py --quick             one data seed and one share of small bags
    python benchmarks/law.py --seeds 23 24       bags of 1,000 instances
    python benchmarks/law.py --s5 0 25 50        5, 20, 100 or 1,000 instances, s5 percent of the bags having 5
    python benchmarks/law.py --all-bags          train on the 2,000 bags that are not for testing

The published rows learn from 1,000 bags and use 500 more to stop early and 500 to choose a model. Ours see the 1,000
training bags alone (everything is chosen on folds of them), unless --all-bags is given. Published: table 1 of the
paper, and the predictions that its authors stored for figure 4. ``shrinkage`` is the first stage of ``bdr``.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import bagwise as bw
from bagwise.datasets import make_law
from bagwise.regressors.bayesian.evidence_ridge import negative_log_likelihood

FIXED = {  # mean over ten data seeds: MSE, NLL
    "optimal": (0.170, 0.401),
    "blr": (0.228, 0.681),
    "shrinkage": (0.237, 0.703),
    "shrinkage, nonstationary": (0.236, 0.700),
    "bdr": (0.227, 0.683),
}
COLUMNS = ("blr", "shrinkage, nonstationary", "shrinkage", "bdr", "optimal")
VARYING = {  # s5: MSE, NLL of every column
    0: ((0.238, 0.664), (0.225, 0.230), (0.179, 0.212), (0.179, 0.211), (0.139, -0.117)),
    5: ((0.416, 0.902), (0.374, 0.339), (0.262, 0.307), (0.239, 0.295), (0.165, -0.045)),
    10: ((0.456, 0.984), (0.487, 0.494), (0.315, 0.436), (0.282, 0.415), (0.208, 0.045)),
    15: ((0.468, 1.018), (0.381, 0.545), (0.324, 0.495), (0.313, 0.485), (0.239, 0.129)),
    20: ((0.527, 1.071), (0.357, 0.544), (0.371, 0.583), (0.369, 0.583), (0.286, 0.241)),
    25: ((0.613, 1.162), (0.543, 0.783), (0.465, 0.738), (0.430, 0.708), (0.350, 0.372)),
    30: ((0.659, 1.195), (0.579, 0.869), (0.504, 0.810), (0.479, 0.786), (0.389, 0.472)),
    35: ((0.767, 1.277), (0.539, 0.911), (0.632, 0.927), (0.557, 0.892), (0.475, 0.597)),
    40: ((0.690, 1.234), (0.522, 0.974), (0.563, 0.947), (0.532, 0.922), (0.446, 0.627)),
    45: ((0.714, 1.249), (0.631, 1.075), (0.625, 1.052), (0.614, 1.050), (0.493, 0.734)),
    50: ((0.800, 1.304), (0.725, 1.187), (0.725, 1.179), (0.688, 1.148), (0.602, 0.888)),
}
PRESETS = {"": "default", ", nonstationary": "nonstationary", ", between": "between"}
METHODS = ("input-kme", "blr", *(name + preset for preset in PRESETS for name in ("shrinkage", "bdr")))


def evaluate(data_seed: int, s5, *, names, all_bags: bool, n_jobs) -> dict[str, tuple[float, float]]:
    """(MSE, NLL) on the test bags of one data set, for every method asked for."""
    data = make_law(data_seed, s5=s5, parts=["train", "estop", "val", "test"] if all_bags else ["train", "test"])
    test, targets = data.pop("test")
    bags, y = joined(data.values()) if all_bags else data["train"]
    fitted = {name: bw.method(name, n_jobs=n_jobs).fit(bags, y) for name in ("input-kme", "blr") if name in names}
    for label, preset in PRESETS.items():
        if {f"shrinkage{label}", f"bdr{label}"} & set(names):
            model = bw.method("bdr", preset=preset, n_jobs=n_jobs).fit(bags, y)
            fitted |= {f"shrinkage{label}": model.shrinkage_, f"bdr{label}": model}
    return {name: score(name, fitted[name], test, targets) for name in names}


def joined(parts) -> tuple[bw.Bags, np.ndarray]:
    parts = list(parts)
    return bw.from_arrays([bag for bags, _ in parts for bag in bags]), np.concatenate([y for _, y in parts])


def score(name: str, model, bags, y) -> tuple[float, float]:
    if name == "input-kme":  # it has no predictive deviation
        return float(np.mean((model.predict(bags) - y) ** 2)), float("nan")
    mean, std = model.predict(bags, return_std=True)
    return float(np.mean((mean - y) ** 2)), float(negative_log_likelihood(y, mean, std).mean())


def pair(scores) -> str:
    return "-" if scores is None else f"{scores[0]:.3f}/{scores[1]:.3f}"


def fixed_table(seeds, names, **options) -> None:
    print("\nBags of 1,000 instances with noise: MSE/NLL, mean (standard deviation) over data seeds", *seeds)
    print("every seed:")
    results = []
    for seed in seeds:
        start = time.perf_counter()
        results.append(evaluate(seed, None, names=names, **options))
        row = "  ".join(f"{name} {pair(results[-1][name])}" for name in names)
        print(f"{seed}: {row}  ({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"\n| {'method':26} | {'ours':33} | {'published':11} |\n|---|---|---|")
    for name in names:
        values = np.array([result[name] for result in results])
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else (0.0, 0.0)
        (mse, nll), (mse_sd, nll_sd) = values.mean(axis=0), spread
        ours = f"{mse:.4f} ({mse_sd:.4f}) / {nll:.4f} ({nll_sd:.4f})"
        print(f"| {name:26} | {ours:33} | {pair(FIXED.get(name)):11} |")
    print(f"| {'optimal':26} | {'':33} | {pair(FIXED['optimal']):11} |", flush=True)


def varying_table(shares, names, **options) -> None:
    print("\nBags of 5, 20, 100 or 1,000 instances, data seed 23: MSE/NLL, ours (published)")
    print("| s5 | " + " | ".join((*names, "optimal")) + " | seconds |\n|" + "---|" * (len(names) + 3))
    for s5 in shares:
        start = time.perf_counter()
        ours = evaluate(23, s5, names=names, **options)
        published = dict(zip(COLUMNS, VARYING.get(s5, [None] * len(COLUMNS)), strict=True))
        cells = [f"{pair(ours[name])} ({pair(published.get(name))})" for name in names]
        cells += [f"({pair(published['optimal'])})", f"{time.perf_counter() - start:.0f}"]
        print(f"| {s5} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", help="data seeds of the table of fixed size")
    parser.add_argument("--s5", type=int, nargs="*", help="percentages of bags of 5 of the table of varying size")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--all-bags", action="store_true")
    parser.add_argument("--n-jobs", type=int)
    parser.add_argument("--method", action="append", choices=METHODS, help="one method only; may be repeated")
    asked = parser.parse_args()
    names = tuple(asked.method or METHODS)
    seeds, shares = ([23], [25]) if asked.quick else (list(range(23, 33)), list(VARYING))
    if asked.seeds is not None or asked.s5 is not None:
        seeds, shares = asked.seeds or [], asked.s5 or []
    options = {"all_bags": asked.all_bags, "n_jobs": asked.n_jobs}
    if shares:
        varying_table(shares, names, **options)
    if seeds:
        fixed_table(seeds, names, **options)


if __name__ == "__main__":
    main()
