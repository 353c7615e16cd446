"""The Gibbs sampler of Bayesian prime-MIR: three conditionals, each a function, and the loop over them.

Targets come standardised (mean 0, variance 1), ``design`` has a first column of ones, ``w`` is a weight per bag: the
target of bag i has the variance s²/w_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags.segments import segment_softmax


@dataclass(frozen=True)
class Prior:
    """s² ~ IG(shape, rate) and b ~ N(0, n I) for n bags, in units of standardised targets."""

    shape: float = 0.1
    rate: float = 0.001


@dataclass(frozen=True)
class Posterior:
    """Draws of the coefficients (draws, 1 + features) and of s², and the chance of every instance to be primary."""

    coefficients: np.ndarray
    variances: np.ndarray
    inclusion: np.ndarray


def sample(design, offsets, y, w, start, prior: Prior, draws: int, burn_in: int, random) -> Posterior:
    """Sweeps of δ | b, s², then b | δ, s², then s² | δ, b from ``start`` = (b, s²); ``burn_in`` are thrown away."""
    sizes = np.diff(offsets)
    y_rows, w_rows = np.repeat(y, sizes), np.repeat(w, sizes)
    b, variance = start
    coefficients, variances = np.empty((draws, design.shape[1])), np.empty(draws)
    inclusion = np.zeros(len(design))
    for sweep in range(-burn_in, draws):
        chances = primary_chances(w_rows * (y_rows - design @ b) ** 2, variance, offsets)
        primary = design[draw_primary(chances, offsets, random)]
        b = draw_coefficients(primary, y, w, variance, random)
        variance = draw_variance(w @ (y - primary @ b) ** 2, np.count_nonzero(w), prior, random)
        if sweep >= 0:
            coefficients[sweep], variances[sweep] = b, variance
            inclusion += chances
    return Posterior(coefficients, variances, inclusion / draws)


def primary_chances(squares, variance: float, offsets) -> np.ndarray:
    """P(δ_i = l | b, s²) ∝ exp(-w_i (y_i - x_ilᵀb)² / 2s²), the prior being uniform over the bag."""
    return segment_softmax(-0.5 / variance * squares, offsets)


def draw_primary(chances, offsets, random) -> np.ndarray:
    """One row per bag, drawn by its chances: where the running sum over all bags passes a uniform number of its bag."""
    total = np.cumsum(chances)
    before = np.concatenate([[0.0], total[offsets[1:-1] - 1]])
    target = before + random.uniform(size=len(before)) * (total[offsets[1:] - 1] - before)
    return np.clip(np.searchsorted(total, target, side="right"), offsets[:-1], offsets[1:] - 1)


def coefficient_moments(Z, y, w, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and precision of b | δ, s²: precision P = ZᵀWZ/s² + I/n, mean P⁻¹ ZᵀWy/s²."""
    weighted = Z.T * w
    precision = weighted @ Z / variance + np.eye(Z.shape[1]) / np.count_nonzero(w)
    return np.linalg.solve(precision, weighted @ y / variance), precision


def draw_coefficients(Z, y, w, variance: float, random) -> np.ndarray:
    mean, precision = coefficient_moments(Z, y, w, variance)
    root = np.linalg.cholesky(precision)
    return mean + np.linalg.solve(root.T, random.normal(size=len(mean)))


def draw_variance(squares: float, n: int, prior: Prior, random) -> float:
    """s² | δ, b ~ IG(shape + n/2, rate + Σ w (y - xᵀb)² / 2)."""
    return float((prior.rate + squares / 2) / random.gamma(prior.shape + n / 2))
