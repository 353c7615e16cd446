"""Simulations of published papers.

- `make_gaussian`, `make_outlier2` (Wang et al. 2012): scalars around a hidden value, without and with outliers.
- `make_bmir` (Park et al. 2020): one instance of every bag carries the target, the others are noise.
- `make_modes` (as in Meunier et al. 2022), `make_entropy` (as in Szabó et al. 2015): the target is a property of the
  distribution that the bag is a sample of.
"""

from __future__ import annotations

import math

import numpy as np

from bagwise.bags import Bags

SHAPES = {"linear": lambda x: x, "nonlinear": lambda x: x**2}


def make_gaussian(
    n_bags: int = 100, *, instances: int = 20, shape: str = "linear", random_state=0
) -> tuple[Bags, np.ndarray]:
    r"""Noisy copies of a hidden value, and the value itself: the set "Gaussian" of Wang et al.

    .. math::

        x_i \sim U(0, 1), \quad y_i = f(x_i) + N(0, 0.05^2), \quad
        \text{bag}_i = \{x_i\} \cup \{x_i + N(0, 0.1^2)\}_{\text{instances} - 1}

    with f(x) = x (linear) or x squared (nonlinear), the instances in random order.

    Parameters
    ----------
    n_bags : int
    instances : int
        Instances of every bag. Wang's numbers of bags and of instances are not known; these defaults are ours.
    shape : {"linear", "nonlinear"}
    random_state : int, Generator or None

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
    return _shuffled(rng, x[:, None] + spread * rng.standard_normal((n_bags, instances))), y


def make_outlier2(
    n_bags: int = 100,
    *,
    instances: int = 20,
    shape: str = "linear",
    label_noise_bags: int = 20,
    random_state=0,
) -> tuple[Bags, np.ndarray]:
    r"""Up to half of a bag is biased and far more noisy: the set "Outlier2" of Wang et al.

    Hidden value and target as in `make_gaussian`. Every bag has a bias :math:`b_i \sim U(-0.25, 0.25)` and a share
    :math:`t_i \sim U(0, 0.5)` of outliers: round(instances (1 - t_i)) instances are :math:`x_i + N(0, 0.1^2)`, the
    others :math:`x_i + b_i + N(0, 0.5^2)`. The targets of the first ``label_noise_bags`` bags get additional noise
    :math:`N(0, 0.25^2)`. The hidden value itself is not in the bag.

    Parameters
    ----------
    n_bags : int
    instances : int
        Instances of every bag. Wang's numbers of bags and of instances are not known; these defaults are ours.
    shape : {"linear", "nonlinear"}
    label_noise_bags : int
        How many targets are spoiled; use 0 for a test set.
    random_state : int, Generator or None

    References
    ----------
    Z. Wang, L. Lan, S. Vucetic, "Mixture model for multiple instance regression and applications in remote sensing",
    IEEE Transactions on Geoscience and Remote Sensing, 2012.

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
    good = np.arange(instances) < n_good[:, None]
    noise = np.where(good, 0.1, 0.5) * rng.standard_normal((n_bags, instances))
    return _shuffled(rng, x[:, None] + np.where(good, 0, bias) + noise), y


def _draw_hidden(rng, n_bags: int, shape: str) -> tuple[np.ndarray, np.ndarray]:
    if shape not in SHAPES:
        raise ValueError(f"shape must be 'linear' or 'nonlinear', not {shape!r}")
    x = rng.uniform(0, 1, n_bags)
    return x, SHAPES[shape](x) + rng.normal(0, 0.05, n_bags)


def _shuffled(rng, values: np.ndarray) -> Bags:
    """Bags of scalars from a table (bags, instances), every bag in random order."""
    n_bags, instances = values.shape
    return Bags(rng.permuted(values, axis=1).reshape(-1, 1), instances * np.arange(n_bags + 1))


def make_bmir(
    n_bags: int = 200, *, instances: int = 5, features: int = 5, noise: float = 1.0, random_state=0
) -> tuple[Bags, np.ndarray]:
    r"""The toy example of Bayesian multiple instance regression: a primary instance hidden among wider ones.

    The features of the primary instance are :math:`U(-5, 5)`, those of all others :math:`U(-10, 10)`, and

    .. math:: y_i = 2 + 2 \sum_j x_{ij}^{\text{primary}} + N(0, \text{noise}^2).

    Half of the 200 bags are meant for training. Equal in distribution to the authors' example, which draws with R.

    Parameters
    ----------
    n_bags, instances, features : int
    noise : float
        Standard deviation of the target around the plane.
    random_state : int, Generator or None

    References
    ----------
    S. Park, X. Wang, J. Lim, G. Xiao, T. Lu, T. Wang, "Bayesian multiple instance regression for modeling immunogenic
    neoantigens", Statistical Methods in Medical Research, 2020.

    Examples
    --------
    >>> from bagwise.datasets import make_bmir
    >>> bags, y = make_bmir()
    >>> bags
    Bags: 200 bags of 5 instances (1,000 in all), 5 features
    """
    rng = np.random.default_rng(random_state)
    values = rng.uniform(-10, 10, (n_bags, instances, features))
    place = rng.integers(instances, size=n_bags)
    primary = rng.uniform(-5, 5, (n_bags, features))
    values[np.arange(n_bags), place] = primary
    y = 2 + 2 * primary.sum(axis=1) + rng.normal(0, noise, n_bags)
    return Bags(values.reshape(-1, features), instances * np.arange(n_bags + 1)), y


def make_modes(
    n_bags: int = 100, *, instances: int = 50, max_modes: int = 2, features: int = 2, random_state=0
) -> tuple[Bags, np.ndarray]:
    r"""How many components has the mixture of Gaussians behind the bag?

    The target is :math:`p \sim U\{1, \dots, \text{max\_modes}\}`. The p components have equal weights, means
    :math:`U([-5, 5]^r)` and covariances :math:`a A A^\top + B` with :math:`a \sim U(1, 4)`, the entries of the square A
    :math:`U(-1, 1)` and B diagonal with entries :math:`U(0, 1)`.

    Parameters
    ----------
    n_bags, instances, max_modes, features : int
        Meunier et al. have 100 or 500 bags to train on, 50 to validate and 100 to test, 50 or 250 instances, 2 or 10
        modes, 2 or 10 features.
    random_state : int, Generator or None

    References
    ----------
    J. B. Oliva, W. Neiswanger, B. Poczos, J. Schneider, E. Xing, "Fast distribution to real regression", AISTATS 2014.
    D. Meunier, M. Pontil, C. Ciliberto, "Distribution regression with sliced Wasserstein kernels", ICML 2022.

    Examples
    --------
    >>> from bagwise.datasets import make_modes
    >>> bags, y = make_modes(max_modes=10)
    >>> bags
    Bags: 100 bags of 50 instances (5,000 in all), 2 features
    """
    rng = np.random.default_rng(random_state)
    modes = rng.integers(1, max_modes + 1, n_bags)
    shape = (n_bags, max_modes, features)  # components past the bag's own number are drawn and never used
    means = rng.uniform(-5, 5, shape)
    scale = np.sqrt(rng.uniform(1, 4, (n_bags, max_modes)))
    mix = rng.uniform(-1, 1, (*shape, features)) * scale[..., None, None]
    own = np.sqrt(rng.uniform(0, 1, shape))
    bag = np.repeat(np.arange(n_bags), instances)
    mode = rng.integers(modes[bag])
    # mix @ z + own * e has the covariance a A A' + B
    z, e = rng.standard_normal((2, len(bag), features))
    rows = means[bag, mode] + np.einsum("nij,nj->ni", mix[bag, mode], z) + own[bag, mode] * e
    return Bags(rows, instances * np.arange(n_bags + 1)), modes.astype(np.float64)


def make_entropy(n_bags: int = 100, *, instances: int = 500, random_state=0) -> tuple[Bags, np.ndarray]:
    r"""The entropy of the first coordinate of a rotated Gaussian.

    One 2 x 2 matrix A with entries :math:`U(0, 1)` serves all bags. Bag u is a sample of
    :math:`N(0, \Sigma_u)`, :math:`\Sigma_u = R(\alpha_u) A A^\top R(\alpha_u)^\top`, turned by an angle
    :math:`\alpha_u \sim U(0, \pi)`; the target is :math:`\tfrac12 \ln(2 \pi e\, \Sigma_{u,11})`.

    Parameters
    ----------
    n_bags, instances : int
        Szabo et al. have 25 bags to train on, 25 to validate and 50 to test. Split the bags of one call: another seed
        draws another A.
    random_state : int, Generator or None

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
    variance = (root[:, 0] ** 2).sum(axis=1)
    y = 0.5 * np.log(2 * math.pi * math.e * variance)
    return Bags(rows.reshape(-1, 2), instances * np.arange(n_bags + 1)), y
