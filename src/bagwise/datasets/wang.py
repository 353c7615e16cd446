"""Wang et al. (2012): one-dimensional bags around a hidden value, without and with outliers."""

from __future__ import annotations

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
