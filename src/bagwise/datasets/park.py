"""Park et al. (2020): one instance of every bag carries the target, the others are noise."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags


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
