r"""The model behind bag-size aware regression, in coordinates in which every bag size is diagonal.

The embedding of a bag, seen at s landmarks, is a draw μ ~ N(m0, ηR); of it N instances show μ̂ ~ N(μ, Σ/N). With V such
that VᵀRV = I and VᵀΣV = diag(d) (two symmetric matrices have such a V), the coordinates t = Vᵀ(μ - m0) and
z = Vᵀ(μ̂ - m0) are independent from one to the next:

    t_j ~ N(0, η),    z_j | t_j ~ N(t_j, d_j/N),    t_j | z_j ~ N(g_j z_j, g_j d_j/N),    g_j = η / (η + d_j/N).

That is M = R(R + Σ/N)⁻¹(μ̂ - m0) + m0 and C = R - R(R + Σ/N)⁻¹R for all N, from one O(s³) decomposition. The target is
y = b + wᵀt + ε, ε ~ N(0, σ²), hence

    y | z ~ N(b + Σ_j w_j g_j z_j,  σ² + Σ_j w_j² g_j d_j/N).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.kernels import Gaussian
from bagwise.kernels.pseudolikelihood import smoothed

PRIORS = ("kernel", "nonstationary", "between")
SMALLEST = 1e-10  # of the largest eigenvalue of R: what is smaller the prior rules out


def prior_covariance(kind: str, embedding, means: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """R up to a factor: the kernel at the landmarks, its smoothed version, or the spread of the bags seen."""
    u, kernel = embedding.landmarks_, embedding.kernel_
    if kind == "kernel":
        return kernel(u, u)
    if kind == "nonstationary":
        if not isinstance(kernel, Gaussian):
            raise ValueError(f"prior='nonstationary' is for the Gaussian kernel, not {type(kernel).__name__}")
        return smoothed(u, kernel.bandwidth, 1.0 / embedding.unit_)  # instances spread by 1 / unit_ in every feature
    between, floor = between_covariance(means, sizes, embedding.noise_), kernel(u, u)
    # The fewer the bags, the less their covariance is to be trusted, and directions in which they do not seem to differ
    # must stay in play.
    share = 0.1 * len(u) / len(means)
    return between + share * (np.trace(between) or np.trace(floor)) / np.trace(floor) * floor


def between_covariance(means: np.ndarray, sizes: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Covariance of the true embeddings of bags: that of the empirical ones, less what their sizes explain.

    Bags weigh N/(N + N0), N0 the size at which noise and signal are equal; the estimate is unbiased for any weights,
    and its negative eigenvalues are set to zero.
    """
    equal = np.full(len(sizes), 1.0 / len(sizes))
    raw = np.trace(_between(means, sizes, noise, equal))
    weights = sizes / (sizes + np.trace(noise) / raw) if raw > 0 else sizes.astype(float)
    values, axes = np.linalg.eigh(_between(means, sizes, noise, weights / weights.sum()))
    return (axes * np.maximum(values, 0.0)) @ axes.T


def _between(means, sizes, noise, weights):
    centred = means - weights @ means
    # E[Σ w (μ̂ - m)(μ̂ - m)ᵀ] = T (1 - Σ w²) + Σ · Σ_i w_i (1 - w_i)/N_i
    observed = (centred.T * weights) @ centred - noise * (weights * (1 - weights) / sizes).sum()
    return observed / (1 - (weights**2).sum())


@dataclass(frozen=True)
class Coordinates:
    """z = Vᵀ(μ̂ - m0), and d: the noise of one instance in every coordinate."""

    centre: np.ndarray
    axes: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, prior: np.ndarray, noise: np.ndarray, means: np.ndarray, sizes: np.ndarray) -> Coordinates:
        """V from R and Σ, scaled so that the coordinates of the bags have mean square 1 (a bag weighing N)."""
        values, vectors = np.linalg.eigh(prior)
        keep = values > SMALLEST * values[-1]
        whiten = vectors[:, keep] / np.sqrt(values[keep])
        spectrum, rotation = np.linalg.eigh(whiten.T @ noise @ whiten)
        axes, centre = whiten @ rotation, means.mean(axis=0)
        # The sign of an eigenvector is an accident of the library; a sampler would draw other numbers for the other.
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
        square = np.average(((means - centre) @ axes) ** 2, axis=0, weights=sizes).mean()
        square = square if square > 0 else 1.0
        return cls(centre, axes / np.sqrt(square), np.maximum(spectrum, 0.0) / square)

    def __call__(self, means: np.ndarray) -> np.ndarray:
        # einsum, not BLAS: a row must not depend on how many other rows there are.
        return np.einsum("ij,jk->ik", means - self.centre, self.axes)

    def noise_of(self, sizes: np.ndarray) -> np.ndarray:
        """d/N, a row per bag."""
        return self.noise / sizes[:, None]


def shrink(z: np.ndarray, noise: np.ndarray, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean g z and variance g d/N of the true coordinates of every bag; ``noise`` is d/N."""
    g = eta / (eta + noise)
    return g * z, g * noise


def predictive(mean: np.ndarray, variance: np.ndarray, w, b, noise, covariance, square=None):
    """Mean and variance of targets, given mean and variance of the coordinates of their bags (rows).

    ``w``, ``b`` and ``noise`` are the (mean) weights, intercept and σ²; ``covariance`` is that of (w, b); ``square`` is
    the mean of w², that of the given w if left out.
    """
    rows = np.column_stack([mean, np.ones(len(mean))])
    unsure = np.einsum("ij,ij->i", np.einsum("ij,jk->ik", rows, covariance), rows)
    spread = np.einsum("ij,j->i", variance, w**2 if square is None else square)
    return np.einsum("ij,j->i", mean, w) + b, noise + spread + unsure
