"""Maps of instances from aggregates of bags: error and coverage of the map and of the totals, where truth is known.

    python benchmarks/instance_maps.py              three draws of each simulation
    python benchmarks/instance_maps.py --draws 1    the table of docs/instance_maps_measured.md
    python benchmarks/instance_maps.py --quick      one draw of each simulation, of 30 bags

Fitted to the bags of a simulation of `bw.datasets.make_instance_map`, every method predicts the instances of those bags
(the map of what was observed), and the instances and the targets of new bags. Errors are
root mean squared errors divided by the deviation of what is predicted: 1 is no better than the mean. Coverage is the
share of true values within 1.645 standard deviations of the prediction, 0.9 if these are right; methods without
standard deviations have none. All numbers are means over draws.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

import bagwise as bw
from bagwise.datasets import make_instance_map
from bagwise.regressors import AdditiveRegressor, AggregateGP

DEVIATIONS = 1.645  # on either side: a level of 0.9
N_NEW = 200


class BagValue:
    """Every instance carries the value of its bag: its target, or its target per unit of exposure."""

    def fit(self, bags, y):
        self.y = y
        return self

    def predict_instances(self, bags):
        return bags.expand(self.y)


@dataclass(frozen=True)
class Simulation:
    """Bags of a kind to learn from, new bags of several kinds to predict, and whether targets are counts."""

    train: str
    n_bags: int
    new: tuple[str, ...]
    counts: bool = False


SIMULATIONS = {
    "surface, 50 bags": Simulation("surface", 50, ("surface", "shifted")),
    "surface, 200 bags": Simulation("surface", 200, ("surface", "shifted")),
    "counts, 200 bags": Simulation("counts", 200, ("counts",), counts=True),
    "swiss roll, 50 bags": Simulation("swiss-roll", 50, ("swiss-roll",), counts=True),
    "swiss roll, 100 bags": Simulation("swiss-roll", 100, ("swiss-roll",), counts=True),
}


def methods(counts: bool) -> dict:
    """Name -> (estimator, whether it is fitted to counts). The others are fitted to means, or to rates of bags."""
    found = {
        "every instance has its bag's value": (BagValue(), False),
        "mean-pool ridge (aggregated)": (bw.method("aggregated"), False),
        "instance-mean": (bw.method("instance-mean"), False),
    }
    if not counts:
        return found | {
            "additive": (bw.method("additive"), False),
            "aggregate-gp": (bw.method("aggregate-gp"), False),
        }
    return found | {
        "additive:sum": (AdditiveRegressor(aggregate="sum"), True),
        "aggregate-gp, Gaussian": (AggregateGP(aggregate="sum"), True),
        "aggregate-gp, Poisson": (AggregateGP(aggregate="sum", likelihood="poisson"), True),
    }


def exposure(bags) -> np.ndarray:
    return bags.sizes if bags.weights is None else np.add.reduceat(bags.weights, bags.offsets[:-1])


def with_std(predict, bags):
    """Predictions, and their standard deviations if there are any."""
    try:
        return predict(bags, return_std=True)
    except TypeError:
        return predict(bags), None


def instances(model, bags):
    if hasattr(model, "predict_instances"):
        return with_std(model.predict_instances, bags)
    return bw.explain(model, bags).instance_predictions, None


def error(truth, predicted) -> float:
    return float(np.sqrt(np.mean((predicted - truth) ** 2)) / truth.std())


def coverage(truth, predicted, std) -> float:
    return np.nan if std is None else float(np.mean(np.abs(predicted - truth) <= DEVIATIONS * std))


def measure(model, counts: bool, simulation: Simulation, n_bags: int, draw: int) -> list[list[float]]:
    """Map of the training bags, error and coverage; then a row for new bags of each kind: map, targets; CPU seconds."""
    bags, y, truth = make_instance_map(simulation.train, n_bags, random_state=draw)
    as_rates = simulation.counts and not counts
    start = time.process_time()
    model = model.fit(bags, y / exposure(bags) if as_rates else y)
    seconds = time.process_time() - start
    predicted, std = instances(model, bags)
    rows = [[error(truth, predicted), coverage(truth, predicted, std), np.nan, np.nan, seconds]]
    for kind in simulation.new if hasattr(model, "predict") else ():
        new, y_new, truth = make_instance_map(kind, N_NEW, random_state=1000 + draw)
        predicted, std = instances(model, new)
        found = [error(truth, predicted), coverage(truth, predicted, std)]
        total, std = with_std(model.predict, new)
        total = total * exposure(new) if as_rates else total
        rows.append([*found, error(y_new, total), coverage(y_new, total, std), np.nan])
    return rows


def cell(number: float, decimals: int) -> str:
    return "" if np.isnan(number) else f"{number:.{decimals}f}"


def main(draws: int, quick: bool) -> None:
    columns = ("simulation", "method", "bags", "map error", "coverage", "target error", "coverage", "CPU s")
    print("| " + " | ".join(columns) + " |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for title, simulation in SIMULATIONS.items():
        for name, (model, counts) in methods(simulation.counts).items():
            n_bags = 30 if quick else simulation.n_bags
            tables = [measure(model, counts, simulation, n_bags, draw) for draw in range(1 if quick else draws)]
            kinds = ("those fitted", *(f"new, {kind}" for kind in simulation.new))
            for kind, (*shares, seconds) in zip(kinds, np.mean(tables, axis=0), strict=False):
                cells = [*(cell(share, 2) for share in shares), cell(seconds, 1)]
                print(f"| {title} | {name} | {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3, help="of each simulation")
    parser.add_argument("--quick", action="store_true", help="one draw of each simulation, of 30 bags")
    options = parser.parse_args()
    main(options.draws, options.quick)
