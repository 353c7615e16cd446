"""What `Shrinkage` minimises, and how."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from bagwise.regressors.shrinkage_model import shrink

ROUNDS = 20
FLOOR = 1e-8  # part of every variance: no target is known better than to 1e-4 of its standard deviation


class Loss:
    r"""½ Σ_i [log v_i + (y_i - m_i)²/v_i] + ½ penalty ‖w‖² of the vector (w, b, log σ², log η), and its gradient.

    m and v are mean and variance of the target given the bag (see the module); ‖w‖² is αᵀRα for the weights α = Vw of
    the landmarks. Wide normal priors on log σ² and log η keep both finite where the data do not say. With weights of
    the bags, the term of bag i counts w_i times.
    """

    CENTRES, WIDTH = np.array([-1.0, 0.0]), 3.0

    def __init__(self, z: np.ndarray, noise: np.ndarray, y: np.ndarray, penalty: float, weight=None):
        self.z, self.noise, self.y, self.penalty = z, noise, y, penalty
        self.weight = np.ones(len(y)) if weight is None else weight

    def start(self) -> np.ndarray:
        return np.concatenate([np.zeros(self.z.shape[1]), [0.0], self.CENTRES])

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        w, b, sigma2, eta = unpacked(vector)
        mean, variance = shrink(self.z, self.noise, eta)
        m, v = mean @ w + b, variance @ w**2 + sigma2
        error = self.y - m
        a = self.weight / v
        to_m, to_v = -a * error, 0.5 * a * (1.0 - error**2 / v)  # derivatives of the loss by m and by v
        to_eta = to_m @ self._m_by_eta(mean, variance, w, eta) + to_v @ self._v_by_eta(variance, w, eta)
        prior = (vector[-2:] - self.CENTRES) / self.WIDTH
        value = 0.5 * (self.weight @ np.log(v) - error @ to_m + self.penalty * w @ w + prior @ prior)
        to_w = to_m @ mean + 2.0 * w * (to_v @ variance) + self.penalty * w
        to_logs = np.array([(sigma2 - FLOOR) * to_v.sum(), to_eta]) + prior / self.WIDTH
        return value, np.concatenate([to_w, [to_m.sum()], to_logs])

    def information(self, vector: np.ndarray) -> np.ndarray:
        """Fisher information of the vector, plus penalty and priors: about the curvature of the loss."""
        w, _, sigma2, eta = unpacked(vector)
        mean, variance = shrink(self.z, self.noise, eta)
        v, none = variance @ w**2 + sigma2, np.zeros(len(self.y))
        by_m = [mean, none + 1.0, none, self._m_by_eta(mean, variance, w, eta)]
        by_v = [2.0 * w * variance, none, none + sigma2 - FLOOR, self._v_by_eta(variance, w, eta)]
        prior = np.concatenate([np.full(len(w), self.penalty), [1e-6], np.full(2, self.WIDTH**-2)])
        return fisher(np.column_stack(by_m), np.column_stack(by_v), v, prior, self.weight)

    # dg/d log η = g (1 - g) and 1 - g = variance / η.
    def _m_by_eta(self, mean, variance, w, eta):
        return (mean * variance) @ w / eta

    def _v_by_eta(self, variance, w, eta):
        return variance**2 @ w**2 / eta


def unpacked(vector: np.ndarray) -> tuple[np.ndarray, float, float, float]:
    """w, b, σ² (with its floor) and η; a line search that goes astray is kept from overflowing."""
    sigma2, eta = np.exp(np.clip(vector[-2:], -30.0, 30.0))
    return vector[:-3], float(vector[-3]), float(sigma2) + FLOOR, float(eta)


def fisher(by_m: np.ndarray, by_v: np.ndarray, v: np.ndarray, prior: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Σ_i w_i (∇m∇mᵀ/v + ½ ∇v∇vᵀ/v²) + diag(prior): the information in normal targets, a row of ∇m and ∇v per bag."""
    information = (by_m.T * (weight / v)) @ by_m + 0.5 * (by_v.T * (weight / v**2)) @ by_v + np.diag(prior)
    return information + 1e-9 * np.diag(np.diag(information))  # positive definite whatever was rounded away


def minimum(loss: Loss, start: np.ndarray, tolerance: float) -> np.ndarray:
    """Where the loss is least: L-BFGS in coordinates in which the information is the identity, renewed as it moves."""
    options = {"maxiter": 20, "ftol": tolerance}
    vector = start
    for _ in range(ROUNDS):
        lower = cholesky(loss.information(vector), lower=True)
        spread = solve_triangular(lower, np.eye(len(vector)), lower=True)

        def from_here(q, at=vector, spread=spread):
            value, gradient = loss(at + q @ spread)
            return value, spread @ gradient

        found = minimize(from_here, np.zeros(len(vector)), jac=True, method="L-BFGS-B", options=options)
        vector = vector + found.x @ spread
        if found.success:
            break
    return vector


def path(z, noise, y, penalties, tolerance=1e-7, weight=None):
    """For each penalty the vector (w, b, log σ², log η) of least loss, starting from that of the one before; and the
    covariance of (w, b), by the information there."""
    vector = None
    for penalty in penalties:
        loss = Loss(z, noise, y, penalty, weight)
        vector = minimum(loss, loss.start() if vector is None else vector, tolerance)
        yield vector, np.linalg.inv(loss.information(vector))[:-2, :-2]
