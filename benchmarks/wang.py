"""prime, pruning and em on the two sets of Wang et al. (2012) that can be regenerated, beside plain baselines.

1000 x mean squared error on 1,000 new bags without label noise, mean (and standard deviation) over seeds; 100
training bags of 20 instances; the noise of the targets alone makes 2.50. The learner is least squares on x (linear) or
on x and x² (nonlinear), the same for every method, so that the weightings are compared and nothing else. With
``--catalogue`` the methods of the catalogue run too, with the learners they come with.

    python benchmarks/wang.py [--seeds 20] [--catalogue]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import bagwise as bw
from bagwise.datasets import make_gaussian, make_outlier2
from bagwise.embeddings import Pool
from bagwise.instances import EachInstance
from bagwise.regressors import Gate, Mixture, PoolPredictions, Primary, Pruning, Reweighting

CATALOGUE = ("aggregated", "instance-mean", "instance-median", "prime", "pruning", "em", "bmir")


def least_squares(degree: int):
    return make_pipeline(PolynomialFeatures(degree, include_bias=False), LinearRegression())


def same_learner(degree: int) -> dict:
    """Every method with least squares."""
    f, gated = least_squares(degree), Mixture("gated", gate=Gate(8))
    stage = EachInstance(f, scaler=None)
    return {
        "aggregated": Pipeline([("mean", Pool()), ("head", f)]),
        "instance-mean": Pipeline([("instances", stage), ("head", PoolPredictions("mean"))]),
        "instance-median": Pipeline([("instances", stage), ("head", PoolPredictions("median"))]),
        "prime, median": Reweighting(f, weighting=Primary()),
        "pruning": Reweighting(f, weighting=Pruning()),
        "em uniform, mean": Reweighting(f, weighting=Mixture(), rule="mean"),
        "em uniform, median": Reweighting(f, weighting=Mixture()),
        "em gated, mean": Reweighting(f, weighting=gated, rule="mean"),
        "em gated, median": Reweighting(f, weighting=gated),
    }


def draw(kind: str, shape: str, seed: int):
    """Training bags, and test bags of the same kind without label noise."""
    train, test = (np.random.default_rng([seed, part]) for part in (0, 1))
    if kind == "Gaussian":
        return make_gaussian(100, shape=shape, random_state=train), make_gaussian(1000, shape=shape, random_state=test)
    clean = make_outlier2(1000, shape=shape, label_noise_bags=0, random_state=test)
    return make_outlier2(100, shape=shape, random_state=train), clean


def main(seeds: int, catalogue: bool) -> None:
    for kind in ("Gaussian", "Outlier2"):
        for degree, shape in enumerate(("linear", "nonlinear"), start=1):
            models = same_learner(degree)
            if catalogue:
                models |= {f"catalogue: {name}": bw.method(name) for name in CATALOGUE}
            errors, seconds = {name: [] for name in models}, dict.fromkeys(models, 0.0)
            for seed in range(seeds):
                (bags, y), (test, truth) = draw(kind, shape, seed)
                for name, model in models.items():
                    start = time.perf_counter()
                    errors[name].append(1000 * np.mean((model.fit(bags, y).predict(test) - truth) ** 2))
                    seconds[name] += (time.perf_counter() - start) / seeds
            print(f"\n{kind}-{shape}")
            for name, values in errors.items():
                spread = f"({np.std(values):.2f})"
                print(f"  {name:28s} {np.mean(values):6.2f} {spread:>8s}   {seconds[name]:5.2f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--catalogue", action="store_true")
    options = parser.parse_args()
    main(options.seeds, options.catalogue)
