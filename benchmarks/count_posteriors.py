"""The posterior of counts in `aggregate-gp`: Laplace's against that of Law et al. (2018), on their swiss roll.

    python benchmarks/count_posteriors.py [--bags 50 100] [--seeds 5]

Both have the same features and the same prior. The bound of the exponential link is

    Σ_i [y_i log Σ_l exp m_il - Σ_l exp(m_il + s_il / 2)] - KL(q ‖ p),   f(x_il) ~ N(m_il, s_il) under q = N(μ, S),

largest over μ, S, the scale of the prior and the bandwidth. Laplace's are those of the library.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.optimize import minimize

import bagwise as bw
from bagwise.regressors import AggregateGP

BANDWIDTHS = (0.5, 1.0, 2.0)
ROUNDS = 25


class VariationalBound:
    """The largest bound for given features: μ by quasi-Newton steps, S and the prior by their closed forms, in turn."""

    def __init__(self, phi: np.ndarray, bags, y: np.ndarray, start: np.ndarray, variance: float):
        self.P, self.y, self.offsets = np.column_stack([phi, np.ones(len(phi))]), y, bags.offsets
        self.mu, width = start, phi.shape[1]
        self.prior = np.append(np.full(width, 1 / variance), 1e-4)
        self.bound, self.s = -np.inf, np.zeros(len(phi))
        for _ in range(ROUNDS):
            self.S = np.linalg.inv(np.diag(self.prior) + self._information())
            self.s = np.einsum("ij,ij->i", self.P @ self.S, self.P)
            root = np.linalg.cholesky(self.S)
            found = minimize(self._cost, np.zeros(width + 1), args=(root,), jac=True, method="L-BFGS-B")
            self.mu = self.mu + root @ found.x
            self.prior[:-1] = width / (self.mu[:-1] @ self.mu[:-1] + np.trace(self.S[:-1, :-1]))
            before, self.bound = self.bound, self._bound()
            if abs(self.bound - before) < 0.01:
                break

    def _information(self) -> np.ndarray:
        return (self.P * np.exp(self.P @ self.mu + self.s / 2)[:, None]).T @ self.P

    def _cost(self, step: np.ndarray, root: np.ndarray) -> tuple[float, np.ndarray]:
        mu = self.mu + root @ step
        f = np.minimum(self.P @ mu, 50.0)
        rate, expected = np.exp(f), np.exp(f + self.s / 2)
        total = np.add.reduceat(rate, self.offsets[:-1])
        pull = np.repeat(self.y / total, np.diff(self.offsets)) * rate - expected
        cost = expected.sum() - self.y @ np.log(total) + 0.5 * self.prior @ mu**2
        return cost, root.T @ (self.prior * mu - self.P.T @ pull)

    def _bound(self) -> float:
        cost = self._cost(np.zeros(len(self.mu)), np.eye(len(self.mu)))[0]
        divergence = self.prior @ np.diag(self.S) - np.linalg.slogdet(self.S)[1] - np.log(self.prior).sum()
        return -cost - 0.5 * (divergence - len(self.mu))


def laplace(bags, y) -> tuple[AggregateGP, np.ndarray, np.ndarray]:
    grid = {"bandwidth": list(BANDWIDTHS)}
    model = AggregateGP(grid=grid, aggregate="sum", likelihood="poisson").fit(bags, y)
    return model, *model.predict_instances(bags, return_std=True)


def variational(bags, y) -> tuple[float, np.ndarray, np.ndarray]:
    best = None
    for bandwidth in BANDWIDTHS:
        model = AggregateGP(grid={"bandwidth": [bandwidth]}, aggregate="sum", likelihood="poisson").fit(bags, y)
        fit, phi = model.posterior_, model.features_.transform(bags.instances).astype(np.float64)
        start = np.append(fit.coef, fit.target_mean - fit.row_mean @ fit.coef)
        found = VariationalBound(phi, bags, y, start, fit.ratio)
        if best is None or found.bound > best[0].bound:
            best = found, bandwidth
    rates = np.exp(best[0].P @ best[0].mu)
    return best[1], rates, rates * np.sqrt(best[0].s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print("| bags | posterior | RMSE of rates, constant = 1 | rates within 1.645 std | seconds of CPU |")
    print("|--:|---|--:|--:|--:|")
    for n_bags in options.bags:
        for name, fit in (("Laplace", laplace), ("variational", variational)):
            rows = []
            for seed in range(options.seeds):
                bags, y, truth = bw.datasets.make_instance_map("swiss-roll", n_bags, random_state=seed)
                began = time.process_time()
                _, rates, std = fit(bags, y)
                error = np.sqrt(np.mean((rates - truth) ** 2)) / truth.std()
                rows.append((error, np.mean(np.abs(rates - truth) < 1.645 * std), time.process_time() - began))
            error, inside, seconds = np.mean(rows, axis=0)
            spread = np.std([row[0] for row in rows], ddof=1) if len(rows) > 1 else np.nan
            print(f"| {n_bags} | {name} | {error:.3f} ± {spread:.3f} | {inside:.2f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
