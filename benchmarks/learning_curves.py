"""The sentence of `bagwise.learning_curve` against the truth, on simulations where more data can be drawn.

    python benchmarks/learning_curves.py            the table of docs/learning_curves.md; some minutes on one core
    python benchmarks/learning_curves.py --quick    two draws of each

Every draw is a new data set of N bags, from which a curve is measured. The truth is the mean RMSE on 1,000 new bags of
the method trained on N bags and on 2N (with all instances and with twice as many), over the same draws. A row has the
true gain, the mean and the deviation of those that curves give, the mean width of their 90 % intervals, and in how many
draws the interval holds the truth.
"""

from __future__ import annotations

import argparse

import numpy as np

import bagwise as bw
from bagwise.evaluation.learning_curves import thinned
from bagwise.metrics import rmse

N_NEW = 1000
# Over instances only simulations whose target is of what the instances are drawn from; in "mean" it is of the very
# instances, all of which have no sampling error left.
CASES = [
    ("mean", "aggregated", "bags", 60),
    ("mean", "aggregated", "bags", 200),
    ("noisy", "statistics:linear", "bags", 60),
    ("noisy", "statistics:linear", "bags", 200),
    ("shape", "statistics:linear", "bags", 60),
    ("shape", "statistics:linear", "bags", 200),
    ("noisy", "statistics:linear", "instances", 200),
    ("shape", "statistics:linear", "instances", 200),
]


def error(method: str, train: tuple, new: tuple) -> float:
    """The RMSE on new bags."""
    return rmse(new[1], bw.method(method).fit(*train).predict(new[0]))


def measure(kind: str, method: str, over: str, n: int, draw: int) -> tuple[float, float, tuple]:
    """RMSE with the data and with twice as much of it, and the gain that the curve gives, with its interval."""
    new = bw.datasets.make_problem(kind, N_NEW, random_state=10_000 + draw)
    bags, y = bw.datasets.make_problem(kind, 2 * n, random_state=draw)
    if over == "bags":
        data, now, twice = (bags[:n], y[:n]), error(method, (bags[:n], y[:n]), new), error(method, (bags, y), new)
    else:
        halves = [thinned(one, [0.5], draw) for one in (bags[:n], new[0])]
        data = halves[0], y[:n]
        now, twice = error(method, data, (halves[1], new[1])), error(method, (bags[:n], y[:n]), new)
    curve = bw.learning_curve(method, *data, over=over, repeats=3, random_state=draw)
    return now, twice, curve.gain()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    draws = 2 if options.quick else options.draws
    print("| simulation, method | twice as many | true gain | mean of curves | deviation | width | holds |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for kind, method, over, n in CASES:
        found = [measure(kind, method, over, n, draw) for draw in range(draws)]
        now, twice = (np.mean([one[i] for one in found]) for i in (0, 1))
        gains = 100 * np.array([one[2] for one in found])
        truth = 100 * (1 - twice / now)
        holds = int(((gains[:, 1] <= truth) & (truth <= gains[:, 2])).sum())
        numbers = [truth, gains[:, 0].mean(), gains[:, 0].std(ddof=1), (gains[:, 2] - gains[:, 1]).mean()]
        texts = " | ".join(f"{one:.1f} %" for one in numbers)
        print(f"| {kind}, {method}, {n} bags | {over} | {texts} | {holds} of {draws} |", flush=True)


if __name__ == "__main__":
    main()
