"""The benchmark of Law et al. (2018): the degrees of freedom behind bags of scaled chi-square draws.

`make_law` gives the published data bit for bit; `law_bayes_optimal` the posterior of the target given the bag, whose
mean no method can beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from scipy.stats import gamma

from bagwise.bags import Bags
from bagwise.bags.segments import segment_min, segment_sum
from bagwise.bags.validation import name_bags

N_FEATURES = 5
LOWEST, HIGHEST = 4.0, 8.0  # the target is uniform between these
# In the order in which the authors' code draws a seed for each; the number of bags of every part.
PART_SIZES = {"train": 1000, "estop": 500, "val": 500, "test": 1000}


def make_law(
    data_seed: int = 23, *, s5: float | None = None, parts: Sequence[str] = tuple(PART_SIZES)
) -> dict[str, tuple[Bags, np.ndarray]]:
    """The chi-square benchmark of Law et al., equal bit for bit to the data behind the published numbers.

    The target is a number of degrees of freedom, ``y ~ U(4, 8)``, and every one of the five features of every
    instance is an independent ``x = chi2(y) / y + noise * N(0, 1)``. The mean of x is 1 whatever y is: only the
    shape of the bag tells.

    * Fixed size (``s5=None``): 1,000 instances in every bag and noise 1. The published runs have ``data_seed``
      23 to 32.
    * Varying size: ``s5`` percent of the bags have 5 instances, 25 percent have 20, 25 percent have 100, the others
      1,000; no noise. The published runs have ``data_seed`` 23 and ``s5`` in 0, 5, ..., 50. A good method knows how
      little a small bag says.

    Parameters
    ----------
    data_seed : int
    s5 : float, optional
        Percentage of bags of five instances, from 0 to 50; None for the fixed size.
    parts : sequence of {"train", "estop", "val", "test"}
        Which parts to generate: 1,000, 500 (for early stopping), 500 (for choosing a model) and 1,000 bags. A part of
        fixed size takes up to 40 MB.

    Returns
    -------
    dict of (Bags, array)
        Bags and targets of every part asked for.

    See Also
    --------
    law_bayes_optimal : The best possible answer.

    References
    ----------
    H. C. L. Law, D. J. Sutherland, D. Sejdinovic, S. Flaxman, "Bayesian approaches to distribution regression",
    AISTATS 2018.

    Examples
    --------
    >>> from bagwise.datasets import make_law
    >>> bags, y = make_law(23, s5=25, parts=["test"])["test"]
    >>> bags
    Bags: 1,000 bags of 5 to 1,000 instances (281,250 in all), 5 features
    >>> y[:3].round(4)
    array([6.4667, 7.2887, 6.2159])
    """
    if s5 is not None and not 0 <= s5 <= 50:
        raise ValueError(f"s5 is a percentage of the bags, from 0 to 50, or None for bags of one size; not {s5!r}")
    unknown = [part for part in parts if part not in PART_SIZES]
    if unknown:
        raise ValueError(f"there is no part {unknown[0]!r}; the parts are {', '.join(PART_SIZES)}")
    shares = (0.0, 0.0, 0.0) if s5 is None else (s5 * 0.01, 0.25, 0.25)
    noise = 1.0 if s5 is None else 0.0
    # int64 as on the authors' machine: another integer type would draw other seeds.
    seeds = np.random.RandomState(data_seed).randint(2**32, size=4, dtype=np.int64)
    seed_of = dict(zip(PART_SIZES, seeds, strict=True))
    return {part: _draw_part(seed_of[part], PART_SIZES[part], shares, noise) for part in parts}


def _draw_part(seed: int, n_bags: int, shares, noise: float) -> tuple[Bags, np.ndarray]:
    """One part. The legacy generator and the order of its calls are what makes the bits equal."""
    rng = np.random.RandomState(seed)
    counts = [int(n_bags * share) for share in shares]
    sizes = np.repeat([5, 20, 100, 1000], [*counts, n_bags - sum(counts)])
    rng.shuffle(sizes)
    y = rng.uniform(LOWEST, HIGHEST, size=n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    instances = np.empty((offsets[-1], N_FEATURES))
    for start, stop, degrees in zip(offsets[:-1], offsets[1:], y, strict=True):
        shape = (stop - start, N_FEATURES)
        instances[start:stop] = rng.chisquare(degrees, size=shape) / degrees
        instances[start:stop] += rng.normal(scale=noise, size=shape)  # drawn even without noise: it moves the state
    return Bags(instances, offsets), y


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
