"""Distribution regression: every bag is a sample of a distribution, the target a property of that distribution."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags


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
    y = 0.5 * np.log(2 * np.pi * np.e * variance)
    return Bags(rows.reshape(-1, 2), instances * np.arange(n_bags + 1)), y
