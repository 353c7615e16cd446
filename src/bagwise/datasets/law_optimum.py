"""The best possible answer to the benchmark of Law et al.: the posterior of the target given the bag."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from scipy.stats import gamma

from bagwise.bags import Bags
from bagwise.bags.naming import name_bags
from bagwise.bags.segments import segment_min, segment_sum
from bagwise.datasets.law import HIGHEST, LOWEST


@dataclass(frozen=True)
class LawPosterior:
    """Posterior density of the target of every bag, on a grid.

    Attributes
    ----------
    grid : array of shape (n_grid,)
    log_density : array of shape (n_bags, n_grid)
        Integrates to one over the grid by the trapezoidal rule.
    """

    grid: np.ndarray
    log_density: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean of every bag: no prediction has a smaller expected squared error."""
        return np.exp(self.log_density) @ (self.grid * _trapezoid(self.grid))

    @property
    def sd(self) -> np.ndarray:
        """Posterior standard deviation of every bag."""
        density = np.exp(self.log_density) * _trapezoid(self.grid)
        return np.sqrt(np.einsum("bg,bg->b", density, (self.grid - self.mean[:, None]) ** 2))

    def negative_log_likelihood(self, y) -> np.ndarray:
        """-log p(y | bag) of every bag, interpolated on the grid."""
        pairs = zip(np.asarray(y), self.log_density, strict=True)
        return np.array([-np.interp(target, self.grid, row) for target, row in pairs])


def law_bayes_optimal(bags: Bags, *, noise: float = 0.0, n_grid: int = 1001) -> LawPosterior:
    r"""Posterior of the target, given the bag and the way `make_law` draws it: the floor under every method's error.

    With :math:`y \sim U(4, 8)` the posterior is the likelihood, normalised. Without noise the entries x of a bag
    are Gamma variables,

    .. math:: \log p(x \mid y) = \tfrac y2 \log \tfrac y2 - \log\Gamma(\tfrac y2)
              + (\tfrac y2 - 1) \log x - \tfrac y2 x,

    with noise the density is the convolution of that with a normal density, integrated numerically.

    Parameters
    ----------
    bags : Bags
    noise : float
        Standard deviation of the noise, 0 or at least 0.2: 1 for bags of fixed size, 0 for bags of varying size.
    n_grid : int
        Number of equally spaced targets, from 4 to 8, at which the posterior is computed.

    References
    ----------
    H. C. L. Law, D. J. Sutherland, D. Sejdinovic, S. Flaxman, "Bayesian approaches to distribution regression",
    AISTATS 2018.

    Examples
    --------
    >>> from bagwise.datasets import law_bayes_optimal, make_law
    >>> bags, y = make_law(23, s5=25, parts=["test"])["test"]
    >>> posterior = law_bayes_optimal(bags)
    >>> round(float(((posterior.mean - y) ** 2).mean()), 3)  # the published optimum
    0.35
    """
    if noise != 0 and noise < 0.2:  # the numerical integral would need too many nodes
        raise ValueError(f"noise is a standard deviation, 0 or at least 0.2 (the benchmark has 0 and 1), not {noise!r}")
    grid = np.linspace(LOWEST, HIGHEST, n_grid)
    likelihood = _noisy_likelihood(bags, grid, noise) if noise > 0 else _gamma_likelihood(bags, grid)
    likelihood -= likelihood.max(axis=1, keepdims=True)  # so that exp neither overflows nor vanishes
    return LawPosterior(grid, likelihood - np.log(np.exp(likelihood) @ _trapezoid(grid))[:, None])


def _gamma_likelihood(bags: Bags, grid: np.ndarray) -> np.ndarray:
    """(bags, grid): a bag enters through the sums of x and of log x alone."""
    lowest = segment_min(bags.instances, bags.offsets).min(axis=1)
    if (lowest <= 0).any():
        raise ValueError(
            f"{name_bags(bags.ids, lowest <= 0)} values that are not above zero, which bags without noise never have; "
            "pass noise=1.0 for bags of fixed size"
        )
    count = bags.sizes * bags.n_features
    total = segment_sum(bags.instances, bags.offsets).sum(axis=1)
    log_total = segment_sum(np.log(bags.instances), bags.offsets).sum(axis=1)
    shape = grid / 2
    constant = shape * np.log(shape) - gammaln(shape)
    return np.outer(count, constant) + np.outer(log_total, shape - 1) - np.outer(total, shape)


def _noisy_likelihood(bags: Bags, grid: np.ndarray, noise: float) -> np.ndarray:
    """(bags, grid): interpolating log p(x | y) linearly between knots makes its sum over a bag a product of matrices,
    (how much of the bag falls on every knot) @ (log p at the knots).
    """
    values = bags.instances
    knots = np.arange(values.min(), values.max() + 0.01 * noise, 0.005 * noise)
    at = (values - knots[0]) / (knots[1] - knots[0])
    left = np.minimum(at.astype(np.int64), len(knots) - 2)
    share = at - left
    cell = left + np.repeat(np.arange(len(bags)), bags.sizes)[:, None] * len(knots)
    on_knots = np.bincount(cell.ravel(), (1 - share).ravel(), minlength=len(bags) * len(knots))
    on_knots += np.bincount(cell.ravel() + 1, share.ravel(), minlength=len(on_knots))
    return on_knots.reshape(len(bags), -1) @ _log_noisy_density(knots, grid, noise)


def _log_noisy_density(knots: np.ndarray, grid: np.ndarray, noise: float) -> np.ndarray:
    """(knots, grid): log of the integral over z > 0 of the Gamma density of z times the normal density of x - z."""
    furthest = max(knots[-1], 0) + 10.0
    # With z = u**2 the integrand is smooth at zero, so that Gauss-Legendre nodes converge fast.
    nodes, weights = np.polynomial.legendre.leggauss(100 + int(10 * furthest / noise))
    u = (nodes + 1) / 2 * np.sqrt(furthest)
    mass = (weights / 2 * np.sqrt(furthest) * 2 * u)[:, None] * gamma.pdf(u[:, None] ** 2, grid / 2, scale=2 / grid)
    normal = np.exp(-0.5 * ((knots[:, None] - u**2) / noise) ** 2) / (noise * np.sqrt(2 * np.pi))
    return np.log(np.maximum(normal @ mass, np.finfo(float).tiny))


def _trapezoid(grid: np.ndarray) -> np.ndarray:
    """Weights of the trapezoidal rule on an equally spaced grid."""
    weights = np.full(len(grid), grid[1] - grid[0])
    weights[[0, -1]] /= 2
    return weights
