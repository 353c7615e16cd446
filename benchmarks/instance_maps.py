"""Maps of instances from aggregates of bags: error and coverage of the map and of the totals, where truth is known.

    python benchmarks/instance_maps.py            the table of docs/instance_maps_measured.md
    python benchmarks/instance_maps.py --quick    one draw of each simulation, and fewer bags

Fitted to the bags of a simulation of `bw.datasets.make_instance_map`, every method predicts the instances of those bags
(the map of what was observed: the first pair of columns), then the instances and the targets of new bags. Errors are
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
DRAWS, N_NEW = 3, 200


class BagValue:
    """Every instance carries the value of its bag: its target, or its target per unit of exposure."""

    def fit(self, bags, y):
        self.bags, self.y = bags, y
        return self

    def predict_instances(self, bags):
        return bags.expand(self.y) if bags is self.bags else None


@dataclass(frozen=True)
class Simulation:
    """Bags of a kind to learn from, bags of a kind to predict, and whether targets are counts."""

    train: str
    new: str
    n_bags: int
    counts: bool = False


SIMULATIONS = {
    "surface, 50 bags": Simulation("surface", "surface", 50),
    "surface, 200 bags": Simulation("surface", "surface", 200),
    "surface, 200 bags, new bags shifted": Simulation("surface", "shifted", 200),
    "counts, 200 bags": Simulation("counts", "counts", 200, counts=True),
    "swiss roll, 50 bags": Simulation("swiss-roll", "swiss-roll", 50, counts=True),
    "swiss roll, 200 bags": Simulation("swiss-roll", "swiss-roll", 200, counts=True),
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
    return np.nan if predicted is None else float(np.sqrt(np.mean((predicted - truth) ** 2)) / truth.std())


def coverage(truth, predicted, std) -> float:
    return np.nan if std is None else float(np.mean(np.abs(predicted - truth) <= DEVIATIONS * std))


def measure(model, counts: bool, simulation: Simulation, n_bags: int, draw: int) -> list[float]:
    """Map: error and coverage of training bags, then of new bags; targets of new bags: error and coverage; seconds."""
    bags, y, truth = make_instance_map(simulation.train, n_bags, random_state=draw)
    new, y_new, truth_new = make_instance_map(simulation.new, N_NEW, random_state=1000 + draw)
    as_rates = simulation.counts and not counts
    start = time.process_time()
    model = model.fit(bags, y / exposure(bags) if as_rates else y)
    seconds = time.process_time() - start
    found = []
    for where, values in ((bags, truth), (new, truth_new)):
        predicted, std = instances(model, where)
        found += [error(values, predicted), coverage(values, predicted, std)]
    if not hasattr(model, "predict"):
        return [*found, np.nan, np.nan, seconds]
    total, std = with_std(model.predict, new)
    total = total * exposure(new) if as_rates else total
    return [*found, error(y_new, total), coverage(y_new, total, std), seconds]


def cell(number: float, decimals: int) -> str:
    return "" if np.isnan(number) else f"{number:.{decimals}f}"


def main(quick: bool) -> None:
    columns = ("simulation", "method", *("map error", "coverage") * 2, "target error", "coverage", "CPU s")
    print("| " + " | ".join(columns) + " |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for title, simulation in SIMULATIONS.items():
        n_bags, draws = (30, 1) if quick else (simulation.n_bags, DRAWS)
        for name, (model, counts) in methods(simulation.counts).items():
            rows = [measure(model, counts, simulation, n_bags, draw) for draw in range(draws)]
            *shares, seconds = np.mean(rows, axis=0)
            cells = [*(cell(share, 2) for share in shares), cell(seconds, 1)]
            print(f"| {title} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one draw of each simulation, and fewer bags")
    main(parser.parse_args().quick)
