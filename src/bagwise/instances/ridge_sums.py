"""Ridge regression from sums over rows: Σ w d dᵀ, d = [1, φ(x), y], is all it needs, and such sums add up.

Features and targets are counted from an ``origin`` (an entry per column of d, its first zero) near their mean, so that
centring subtracts no near-equal numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class RidgeModels(NamedTuple):
    """Ridge in the eigenbasis: [1, φ] @ basis has orthogonal columns, the intercept first."""

    basis: np.ndarray  # (1 + features, 1 + features)
    shrink: np.ndarray  # (1 + features, penalties): 1 / (eigenvalue + λ)
    coef: np.ndarray  # (1 + features, penalties)


def design(phi: np.ndarray, y: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """d of some rows, always in float64: only the features are computed in the precision of the data."""
    d = np.empty((len(phi), phi.shape[1] + 2))
    d[:, 0], d[:, 1:-1], d[:, -1] = 1.0, phi, y
    d -= origin
    return d


def ridge_path(gram: np.ndarray, lam: np.ndarray) -> RidgeModels:
    """Ridge for every λ from Σ w d dᵀ; the intercept, unpenalised, is split off by centring."""
    weight, mean = gram[0, 0], gram[0, 1:-1] / gram[0, 0]
    values, vectors = np.linalg.eigh(gram[1:-1, 1:-1] - weight * np.outer(mean, mean))
    basis = np.eye(len(mean) + 1)
    basis[0, 1:], basis[1:, 1:] = -mean @ vectors, vectors
    shrink = np.full((len(basis), len(lam)), 1 / weight)
    shrink[1:] = 1 / (np.maximum(values, 0.0)[:, None] + lam)
    return RidgeModels(basis, shrink, basis @ (shrink * (basis.T @ gram[:-1, -1])[:, None]))


def trace(gram: np.ndarray, origin: np.ndarray) -> float:
    """Trace of the centred Σ w φφᵀ; never less than its rounding, and 1 if the features are all zero."""
    diagonal = np.diag(gram)[1:-1] - gram[0, 1:-1] ** 2 / gram[0, 0]
    return max(diagonal.sum(), np.finfo(float).eps * gram[0, 0] * (origin[1:-1] ** 2).sum()) or 1.0


def uncentred(coef: np.ndarray, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """β and the intercept counted from zero instead of the origin."""
    return coef[1:], coef[0] + origin[-1] - origin[1:-1] @ coef[1:]
