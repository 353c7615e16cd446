"""Subgroups of simulated districts: error and coverage of `bagwise.predict_subset`, the truth being known.

    python benchmarks/subgroups.py               the table of docs/subgroups.md; a few minutes on one core
    python benchmarks/subgroups.py --quick       one draw of each

Every row is the mean over draws of districts: root mean squared error of the prediction for a subgroup, and of the
district's own total in its place; the share of districts whose truth (the mean chance of the people of the subgroup) is
within 1.645 standard deviations of the expected target, 90 percent if all is well.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import bagwise as bw
from bagwise.bags.segments import segment_sum
from bagwise.io.conditions import as_where

SUBGROUPS = ("age > 45 and sex == 2", "sex == 2", "age > 60", "income > 1")


def measure(n_bags: int, context: float, where: str, draws: int) -> np.ndarray:
    """Error, error of the total, coverage: means over the draws."""
    rows = []
    for draw in range(draws):
        bags, y = bw.datasets.make_districts(n_bags, context=context, random_state=draw)
        found = bw.predict_subset(bw.method("blr").fit(bags, y), bags, where)
        mask = as_where(where).holds(dict(zip(bags.feature_names, bags.instances.T, strict=True)))
        truth = segment_sum(np.where(mask, bags.kept["chance"], 0.0), bags.offsets)[found.ids] / found.instances
        error = found.prediction - truth
        inside = np.abs(error) < 1.645 * found.std_of_mean
        rows.append([np.sqrt(np.mean(error**2)), np.sqrt(np.mean((y[found.ids] - truth) ** 2)), inside.mean()])
    return np.mean(rows, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    warnings.filterwarnings("ignore", message=".* have no instance that satisfies")
    draws = 1 if parser.parse_args().quick else 10
    print("| districts | context | subgroup | RMSE | RMSE of the total | coverage of 90 % |")
    print("|---|---|---|---|---|---|")
    for n_bags, context in ((100, 0.0), (300, 0.0), (300, 0.5)):
        for where in SUBGROUPS:
            error, total, coverage = measure(n_bags, context, where, draws)
            print(f"| {n_bags} | {context:g} | {where} | {error:.3f} | {total:.3f} | {coverage:.0%} |", flush=True)


if __name__ == "__main__":
    main()
