"""The density behind `MarginalPseudolikelihood`: features of instances about a Gaussian embedding, in closed form."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from bagwise.bags.segments import segment_mean
from bagwise.kernels.formulas import Gaussian, squared_distances


def smoothed(z: np.ndarray, bandwidth: float, width: float) -> np.ndarray:
    r"""r(z_i, z_j) = ∫ k(z_i, t) k(t, z_j) ν(dt), k Gaussian of bandwidth θ and ν = N(0, width² I).

    = (1 + 2 width²/θ²)^(-d/2) exp(-‖z_i - z_j‖² / (4θ²)) exp(-‖z_i + z_j‖² / (8 (θ²/2 + width²))).
    """
    z = np.atleast_2d(z)
    near = squared_distances(z, z) / (4 * bandwidth**2)
    central = squared_distances(z, -z) / (8 * (bandwidth**2 / 2 + width**2))
    return (1 + 2 * (width / bandwidth) ** 2) ** (-z.shape[1] / 2) * np.exp(-near - central)


class Features:
    """What the log density needs of the features of bags at d landmarks z (d columns), for one bandwidth.

    With R = Q Λ Qᵀ every bag is diagonal, so that a density costs O(bags · d) for each noise τ².
    """

    def __init__(self, rows: np.ndarray, offsets: np.ndarray, z: np.ndarray, bandwidth: float):
        phi = Gaussian(bandwidth)(rows, z)
        means = segment_mean(phi, offsets)
        spectrum, axes = np.linalg.eigh(smoothed(z, bandwidth, 1.0))
        sizes = np.diff(offsets)
        self.scatter = float(((phi - np.repeat(means, sizes, axis=0)) ** 2).sum())
        self.prior = (sizes[:, None] * np.maximum(spectrum, 0.0)).ravel()
        self.weight = (sizes[:, None] * (means @ axes) ** 2).ravel()
        self.total, self.spare = phi.size, phi.size - means.size  # m n, and m (n - 1), over all bags
        # J = diag(k(x, z_l)) (z - x) / θ² is square: log |det J| = Σ_l log k(x, z_l) - 2 d log θ + log |det(z - x)|.
        self.jacobian = -squared_distances(rows, z).sum() / (2 * bandwidth**2) - 2 * phi.size * np.log(bandwidth)

    def log_density(self, noise: float) -> float:
        """Up to Σ log |det(z - x)|, which depends on no parameter."""
        at = self.prior + noise
        quadratic = self.scatter / noise + (self.weight / at).sum()
        determinant = self.spare * np.log(noise) + np.log(at).sum()
        return self.jacobian - 0.5 * (self.total * np.log(2 * np.pi) + determinant + quadratic)


def largest_density(several: list[Features]) -> tuple[float, float]:
    """The largest average log density over the noise τ² that they share, and that τ²."""

    def cost(log_noise: float) -> float:
        return -sum(features.log_density(np.exp(log_noise)) for features in several) / len(several)

    found = minimize_scalar(cost, bounds=(-30.0, 2.0), method="bounded")
    return -float(found.fun), float(np.exp(found.x))
