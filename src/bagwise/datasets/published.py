"""Simulations from published papers, each from a seed.

- `make_gaussian`, `make_outlier2` (Wang et al. 2012): scalars around a hidden value, without and with outliers.
- `make_bmir` (Park et al. 2020): the target depends on one instance of each bag, the others are noise.
- `make_modes` (as in Meunier et al. 2022), `make_entropy` (as in Szabó et al. 2015): the target is a property of the
  distribution from which the bag is sampled.
- `make_law` (Law et al. 2018): the degrees of freedom behind bags of scaled chi-square draws, bit for bit as
  published; `law_bayes_optimal` returns the posterior of the target given the bag, whose mean is the best prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import segment_min, segment_sum
from bagwise.bags.validation import name_bags

SHAPES = {"linear": lambda x: x, "nonlinear": lambda x: x**2}


def make_gaussian(
    n_bags: int = 100, *, instances: int = 20, shape: str = "linear", random_state=0
) -> tuple[Bags, np.ndarray]:
    r"""Simulate bags of noisy copies of a hidden value: the data set "Gaussian" of Wang et al.

    .. math::

        x_i \sim U(0, 1), \quad y_i = f(x_i) + N(0, 0.05^2), \quad
        \text{bag}_i = \{x_i\} \cup \{x_i + N(0, 0.1^2)\}_{\text{instances} - 1}

    with f(x) = x (linear) or x squared (nonlinear), the instances in random order.

    Parameters
    ----------
    n_bags, instances : int, default 100 and 20
        Number of bags, and of instances per bag. Those of Wang et al. are not known.
    shape : {"linear", "nonlinear"}, default "linear"
        The function f.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    References
    ----------
    Z. Wang, L. Lan, S. Vucetic, "Mixture model for multiple instance regression and applications in remote sensing",
    IEEE Transactions on Geoscience and Remote Sensing, 2012.

    Examples
    --------
    >>> from bagwise.datasets import make_gaussian
    >>> bags, y = make_gaussian(100, shape="nonlinear")
    >>> bags
    Bags: 100 bags of 20 instances (2,000 in all), 1 feature
    """
    rng = np.random.default_rng(random_state)
    x, y = _draw_hidden(rng, n_bags, shape)
    spread = np.full(instances, 0.1)
    spread[0] = 0.0  # the hidden value itself
    values = x[:, None] + spread * rng.standard_normal((n_bags, instances))
    return _equal_bags(rng.permuted(values, axis=1)[:, :, None]), y


def make_outlier2(
    n_bags: int = 100, *, instances: int = 20, shape: str = "linear", label_noise_bags: int = 20, random_state=0
) -> tuple[Bags, np.ndarray]:
    r"""Simulate bags of which up to half is biased and noisier: the data set "Outlier2" of Wang et al.

    Hidden value and target as in `make_gaussian`. Every bag has a bias :math:`b_i \sim U(-0.25, 0.25)` and a share
    :math:`t_i \sim U(0, 0.5)` of outliers: round(instances (1 - t_i)) instances are :math:`x_i + N(0, 0.1^2)`, the
    others :math:`x_i + b_i + N(0, 0.5^2)`. The targets of the first ``label_noise_bags`` bags get additional noise
    :math:`N(0, 0.25^2)`. The hidden value itself is not in the bag.

    Parameters
    ----------
    n_bags, instances : int, default 100 and 20
        Number of bags, and of instances per bag. Those of Wang et al. are not known.
    shape : {"linear", "nonlinear"}, default "linear"
        The function f.
    label_noise_bags : int, default 20
        Number of targets with additional noise; use 0 for a test set.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    References
    ----------
    Z. Wang, L. Lan, S. Vucetic, 2012, see `make_gaussian`.

    Examples
    --------
    >>> from bagwise.datasets import make_outlier2
    >>> bags, y = make_outlier2(100)
    >>> test_bags, test_y = make_outlier2(1000, label_noise_bags=0, random_state=1)
    """
    rng = np.random.default_rng(random_state)
    x, y = _draw_hidden(rng, n_bags, shape)
    y[:label_noise_bags] += rng.normal(0, 0.25, len(y[:label_noise_bags]))
    bias = rng.uniform(-0.25, 0.25, (n_bags, 1))
    share = rng.uniform(0, 0.5, n_bags)
    n_good = np.floor(instances * (1 - share) + 0.5)  # MATLAB rounds halves up, numpy to even
    inlier = np.arange(instances) < n_good[:, None]
    noise = np.where(inlier, 0.1, 0.5) * rng.standard_normal((n_bags, instances))
    values = x[:, None] + np.where(inlier, 0, bias) + noise
    return _equal_bags(rng.permuted(values, axis=1)[:, :, None]), y


def _draw_hidden(rng, n_bags: int, shape: str) -> tuple[np.ndarray, np.ndarray]:
    if shape not in SHAPES:
        raise ValueError(f"shape must be 'linear' or 'nonlinear', not {shape!r}")
    x = rng.uniform(0, 1, n_bags)
    return x, SHAPES[shape](x) + rng.normal(0, 0.05, n_bags)


def _equal_bags(values: np.ndarray) -> Bags:
    """Return bags of equal size from an array (bags, instances, features)."""
    n_bags, instances, features = values.shape
    return Bags(values.reshape(-1, features), instances * np.arange(n_bags + 1))


def make_bmir(
    n_bags: int = 200, *, instances: int = 5, features: int = 5, noise: float = 1.0, random_state=0
) -> tuple[Bags, np.ndarray]:
    r"""Simulate the toy example of Bayesian multiple instance regression, with one primary instance per bag.

    The features of the primary instance are :math:`U(-5, 5)`, those of all others :math:`U(-10, 10)`, and

    .. math:: y_i = 2 + 2 \sum_j x_{ij}^{\text{primary}} + N(0, \text{noise}^2).

    Use half of the 200 bags for training. Equal in distribution to the authors' example, which is drawn in R.

    Parameters
    ----------
    n_bags, instances, features : int, default 200, 5 and 5
    noise : float, default 1.0
        Standard deviation of the target around the plane.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    References
    ----------
    S. Park, X. Wang, J. Lim, G. Xiao, T. Lu, T. Wang, "Bayesian multiple instance regression for modeling immunogenic
    neoantigens", Statistical Methods in Medical Research, 2020.

    Examples
    --------
    >>> from bagwise.datasets import make_bmir
    >>> make_bmir()[0]
    Bags: 200 bags of 5 instances (1,000 in all), 5 features
    """
    rng = np.random.default_rng(random_state)
    values = rng.uniform(-10, 10, (n_bags, instances, features))
    place = rng.integers(instances, size=n_bags)
    primary = rng.uniform(-5, 5, (n_bags, features))
    values[np.arange(n_bags), place] = primary
    return _equal_bags(values), 2 + 2 * primary.sum(axis=1) + rng.normal(0, noise, n_bags)


def make_modes(
    n_bags: int = 100, *, instances: int = 50, max_modes: int = 2, features: int = 2, random_state=0
) -> tuple[Bags, np.ndarray]:
    r"""Simulate samples of Gaussian mixtures; the target is the number of components.

    The target is :math:`p \sim U\{1, \dots, \text{max\_modes}\}`. The p components have equal weights, means
    :math:`U([-5, 5]^r)` and covariances :math:`a A A^\top + B` with :math:`a \sim U(1, 4)`, the entries of the square A
    :math:`U(-1, 1)` and B diagonal with entries :math:`U(0, 1)`.

    Parameters
    ----------
    n_bags, instances, max_modes, features : int, default 100, 50, 2 and 2
        Meunier et al. have 100 or 500 bags to train on, 50 to validate and 100 to test, 50 or 250 instances, 2 or 10
        modes, 2 or 10 features.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    References
    ----------
    J. B. Oliva, W. Neiswanger, B. Poczos, J. Schneider, E. Xing, "Fast distribution to real regression", AISTATS 2014.
    D. Meunier, M. Pontil, C. Ciliberto, "Distribution regression with sliced Wasserstein kernels", ICML 2022.

    Examples
    --------
    >>> from bagwise.datasets import make_modes
    >>> make_modes(max_modes=10)[0]
    Bags: 100 bags of 50 instances (5,000 in all), 2 features
    """
    rng = np.random.default_rng(random_state)
    modes = rng.integers(1, max_modes + 1, n_bags)
    shape = (n_bags, max_modes, features)  # components beyond the number of the bag are drawn but not used
    means = rng.uniform(-5, 5, shape)
    scale = np.sqrt(rng.uniform(1, 4, (n_bags, max_modes)))
    mix = rng.uniform(-1, 1, (*shape, features)) * scale[..., None, None]
    deviation = np.sqrt(rng.uniform(0, 1, shape))
    bag = np.repeat(np.arange(n_bags), instances)
    mode = rng.integers(modes[bag])
    # mix @ z + deviation * e has the covariance a A A' + B
    z, e = rng.standard_normal((2, len(bag), features))
    rows = means[bag, mode] + np.einsum("nij,nj->ni", mix[bag, mode], z) + deviation[bag, mode] * e
    return Bags(rows, instances * np.arange(n_bags + 1)), modes.astype(np.float64)


def make_entropy(n_bags: int = 100, *, instances: int = 500, random_state=0) -> tuple[Bags, np.ndarray]:
    r"""Simulate samples of rotated Gaussians; the target is the entropy of the first coordinate.

    All bags share one 2 x 2 matrix A with entries :math:`U(0, 1)`. Bag u is a sample of
    :math:`N(0, \Sigma_u)`, :math:`\Sigma_u = R(\alpha_u) A A^\top R(\alpha_u)^\top`, turned by an angle
    :math:`\alpha_u \sim U(0, \pi)`; the target is :math:`\tfrac12 \ln(2 \pi e\, \Sigma_{u,11})`.

    Parameters
    ----------
    n_bags, instances : int, default 100 and 500
        Szabo et al. have 25 bags to train on, 25 to validate and 50 to test. Split the bags of one call: another seed
        draws another A.
    random_state : int, Generator or None, default 0

    Returns
    -------
    bags, y : Bags and array of shape (n_bags,)

    References
    ----------
    Z. Szabo, A. Gretton, B. Poczos, B. Sriperumbudur, "Two-stage sampled learning theory on distributions",
    AISTATS 2015.

    Examples
    --------
    >>> from bagwise.datasets import make_entropy
    >>> bags, y = make_entropy()
    >>> train, test = bags[:50], bags[50:]
    """
    rng = np.random.default_rng(random_state)
    base = rng.uniform(0, 1, (2, 2))
    angle = rng.uniform(0, np.pi, n_bags)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    root = turn @ base
    rows = rng.standard_normal((n_bags, instances, 2)) @ root.transpose(0, 2, 1)
    return _equal_bags(rows), 0.5 * np.log(2 * math.pi * math.e * (root[:, 0] ** 2).sum(axis=1))


N_FEATURES = 5
LOWEST, HIGHEST = 4.0, 8.0  # the target is uniform between these
# In the order in which the authors' code draws a seed for each; the number of bags of every part.
PART_SIZES = {"train": 1000, "estop": 500, "val": 500, "test": 1000}


def make_law(
    data_seed: int = 23, *, s5: float | None = None, parts: Sequence[str] = tuple(PART_SIZES)
) -> dict[str, tuple[Bags, np.ndarray]]:
    """Generate the chi-square benchmark of Law et al., bit for bit the data of the published results.

    The target is a number of degrees of freedom, ``y ~ U(4, 8)``, and each of the five features of each instance is
    an independent ``x = chi2(y) / y + noise * N(0, 1)``. The mean of x is 1 for every y, so only the shape of the
    distribution carries information.

    * Fixed size (``s5=None``): 1,000 instances in each bag and noise 1. The published runs have ``data_seed``
      23 to 32.
    * Varying size: ``s5`` percent of the bags have 5 instances, 25 percent have 20, 25 percent have 100, the others
      1,000; no noise. The published runs have ``data_seed`` 23 and ``s5`` in 0, 5, ..., 50.

    Parameters
    ----------
    data_seed : int, default 23
    s5 : float, optional
        Percentage of bags of five instances, from 0 to 50; None for the fixed size.
    parts : sequence of {"train", "estop", "val", "test"}, default all
        Which parts to generate: 1,000, 500 (for early stopping), 500 (for choosing a model) and 1,000 bags.

    Returns
    -------
    dict of (Bags, array)
        Bags and targets of each requested part.

    See Also
    --------
    law_bayes_optimal : The posterior of the target, whose mean has the smallest expected error.

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
    """
    if s5 is not None and not 0 <= s5 <= 50:
        raise ValueError(f"s5 must be a percentage from 0 to 50, or None for bags of equal size, not {s5!r}")
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
    """Draw one part; the legacy generator and the order of its calls make the data equal bit for bit."""
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
        instances[start:stop] += rng.normal(scale=noise, size=shape)  # without noise, too: it advances the generator
    return Bags(instances, offsets), y


@dataclass(frozen=True)
class LawPosterior:
    """Posterior density of the target of each bag, on a grid.

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
        """Return the posterior mean of each bag, the prediction of least expected squared error."""
        return np.exp(self.log_density) @ (self.grid * _trapezoid(self.grid))

    @property
    def sd(self) -> np.ndarray:
        """Return the posterior standard deviation of each bag."""
        density = np.exp(self.log_density) * _trapezoid(self.grid)
        return np.sqrt(np.einsum("bg,bg->b", density, (self.grid - self.mean[:, None]) ** 2))

    def negative_log_likelihood(self, y) -> np.ndarray:
        """Return -log p(y | bag) per bag, interpolated on the grid."""
        pairs = zip(np.asarray(y), self.log_density, strict=True)
        return np.array([-np.interp(target, self.grid, row) for target, row in pairs])


def law_bayes_optimal(bags: Bags, *, noise: float = 0.0, n_grid: int = 1001) -> LawPosterior:
    r"""Compute the posterior of the target given a bag of `make_law`; its mean has the smallest expected error.

    With :math:`y \sim U(4, 8)` the posterior is the likelihood, normalised. Without noise the entries x of a bag
    are Gamma variables,

    .. math:: \log p(x \mid y) = \tfrac y2 \log \tfrac y2 - \log\Gamma(\tfrac y2)
              + (\tfrac y2 - 1) \log x - \tfrac y2 x,

    with noise the density is the convolution of that with a normal density, integrated numerically.

    Parameters
    ----------
    bags : Bags
    noise : float, default 0.0
        Standard deviation of the noise, 0 or at least 0.2: 1 for bags of fixed size, 0 for bags of varying size.
    n_grid : int, default 1001
        Number of equally spaced targets, from 4 to 8, at which the posterior is computed.

    Examples
    --------
    >>> from bagwise.datasets import law_bayes_optimal, make_law
    >>> bags, y = make_law(23, s5=25, parts=["test"])["test"]
    >>> posterior = law_bayes_optimal(bags)
    >>> round(float(((posterior.mean - y) ** 2).mean()), 3)  # the published optimum
    0.35
    """
    if noise != 0 and noise < 0.2:  # the numerical integral would need too many nodes
        raise ValueError(f"noise must be 0 or at least 0.2 (the benchmark has 0 and 1), not {noise!r}")
    grid = np.linspace(LOWEST, HIGHEST, n_grid)
    likelihood = _noisy_likelihood(bags, grid, noise) if noise > 0 else _gamma_likelihood(bags, grid)
    likelihood -= likelihood.max(axis=1, keepdims=True)  # so that exp neither overflows nor vanishes
    return LawPosterior(grid, likelihood - np.log(np.exp(likelihood) @ _trapezoid(grid))[:, None])


def _gamma_likelihood(bags: Bags, grid: np.ndarray) -> np.ndarray:
    """Return the log likelihood (bags, grid), which depends on a bag through the sums of x and of log x."""
    from scipy.special import gammaln

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
    """Return the log likelihood (bags, grid), by linear interpolation of log p(x | y) between knots.

    The sum over a bag is then a matrix product: (weight of the bag on each knot) @ (log p at the knots).
    """
    values = bags.instances
    knots = np.arange(values.min(), values.max() + 0.01 * noise, 0.005 * noise)
    at = (values - knots[0]) / (knots[1] - knots[0])
    below = np.minimum(at.astype(np.int64), len(knots) - 2)
    share = at - below
    cell = below + np.repeat(np.arange(len(bags)), bags.sizes)[:, None] * len(knots)
    on_knots = np.bincount(cell.ravel(), (1 - share).ravel(), minlength=len(bags) * len(knots))
    on_knots += np.bincount(cell.ravel() + 1, share.ravel(), minlength=len(on_knots))
    return on_knots.reshape(len(bags), -1) @ _log_noisy_density(knots, grid, noise)


def _log_noisy_density(knots: np.ndarray, grid: np.ndarray, noise: float) -> np.ndarray:
    """Return log of ∫ gamma(z) normal(x - z) dz over z > 0, for each knot x and target: (knots, grid)."""
    from scipy.stats import gamma  # imported here because it is slow to import

    furthest = max(knots[-1], 0) + 10.0
    # With z = u**2 the integrand is smooth at zero, so that Gauss-Legendre nodes converge fast.
    nodes, weights = np.polynomial.legendre.leggauss(100 + int(10 * furthest / noise))
    u = (nodes + 1) / 2 * np.sqrt(furthest)
    mass = (weights / 2 * np.sqrt(furthest) * 2 * u)[:, None] * gamma.pdf(u[:, None] ** 2, grid / 2, scale=2 / grid)
    normal = np.exp(-0.5 * ((knots[:, None] - u**2) / noise) ** 2) / (noise * np.sqrt(2 * np.pi))
    return np.log(np.maximum(normal @ mass, np.finfo(float).tiny))


def _trapezoid(grid: np.ndarray) -> np.ndarray:
    """Return the weights of the trapezoidal rule on an equally spaced grid."""
    weights = np.full(len(grid), grid[1] - grid[0])
    weights[[0, -1]] /= 2
    return weights
