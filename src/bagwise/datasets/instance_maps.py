"""Bags whose target is an aggregate of instance values that are known: what maps of instances are measured on."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean, segment_sum


def make_instance_map(kind: str, n_bags: int = 200, *, random_state=0) -> tuple[Bags, np.ndarray, np.ndarray]:
    r"""Bags, targets, and the value of every instance, of which only the aggregates over bags are told.

    ==========  ===================================================================================================
    kind        how the bag is drawn
    ==========  ===================================================================================================
    surface     20 to 60 points around a centre in the unit square, deviation 0.12 in each direction (those beyond an
                edge are reflected at it); y is the mean of a smooth surface, with noise of deviation 0.02. Most
                centres are near the lower left corner.
    shifted     The same surface, most centres near the upper right corner and points half as far apart: new bags for
                what was fitted to "surface".
    counts      Points as in "surface" with an elevation as a third feature and a population, log-normal, as the
                weight; y is Poisson, its mean the sum of population times rate, about 56 on average.
    swiss-roll  Points on a swiss roll in 18 dimensions, sorted along an axis and cut into bags whose sizes are negative
                binomial of mean 150 and deviation 50; the rate is half the angle, from 2.4 to 7.1, and y the Poisson
                count of the bag: every bag is a slab across the roll, and holds many rates.
    ==========  ===================================================================================================

    Parameters
    ----------
    kind : {"surface", "shifted", "counts", "swiss-roll"}
    n_bags : int
    random_state : int, Generator or None
        Different seeds draw different bags of the same problem.

    Returns
    -------
    bags : Bags
    y : array
        The mean of the values of a bag with noise ("surface", "shifted"), or a count.
    values : array
        The value of every instance; in "counts" and "swiss-roll" a rate, per unit of population or per point.

    Notes
    -----
    "swiss-roll" is drawn as in the paper, with our own random numbers and rotation; the others are bagwise's own.

    References
    ----------
    H. C. L. Law, D. Sejdinovic, E. Cameron, T. C. D. Lucas, S. Flaxman, K. Battle, K. Fukumizu, "Variational learning
    on aggregate outputs with Gaussian processes", NeurIPS 2018.

    Examples
    --------
    >>> from bagwise.datasets import make_instance_map
    >>> bags, y, rate = make_instance_map("counts", 50)
    >>> bags
    Bags: 50 bags of 20 to 59 instances (1,917 in all), 3 features, with instance weights
    >>> rate.shape
    (1917,)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, not {kind!r}")
    return KINDS[kind](np.random.default_rng(random_state), n_bags)


def _points(rng, n_bags: int, *, corner: tuple[float, float], deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Points in the unit square and the offsets of their bags."""
    sizes = rng.integers(20, 61, n_bags)
    centres = np.repeat(rng.beta(*corner, size=(n_bags, 2)), sizes, axis=0)
    points = np.abs(centres + deviation * rng.standard_normal(centres.shape))
    return 1.0 - np.abs(1.0 - points), np.concatenate([[0], np.cumsum(sizes)])


LOWER_LEFT, UPPER_RIGHT = (1.2, 2.4), (2.4, 1.2)  # of the beta distribution of a centre's coordinates


def _surface_of(points: np.ndarray) -> np.ndarray:
    u, v = points[:, 0], points[:, 1]
    return np.sin(2 * np.pi * u) * np.cos(np.pi * v) + 2.0 * np.exp(-((u - 0.6) ** 2 + (v - 0.4) ** 2) / 0.05)


def _surface(rng, n_bags: int, corner=LOWER_LEFT, deviation: float = 0.12):
    points, offsets = _points(rng, n_bags, corner=corner, deviation=deviation)
    values = _surface_of(points)
    return Bags(points, offsets), segment_mean(values, offsets) + rng.normal(0, 0.02, n_bags), values


def _shifted(rng, n_bags: int):
    return _surface(rng, n_bags, UPPER_RIGHT, 0.06)


def _counts(rng, n_bags: int):
    points, offsets = _points(rng, n_bags, corner=LOWER_LEFT, deviation=0.12)
    elevation = np.sin(5 * points[:, 0]) + np.cos(4 * points[:, 1]) + 0.5 * rng.standard_normal(len(points))
    population = np.exp(rng.normal(3.0, 1.0, len(points)))
    rate = np.exp(_surface_of(points) - 0.8 * elevation - 3.5)
    y = rng.poisson(segment_sum(population * rate, offsets)).astype(np.float64)
    features = np.column_stack([points, elevation])
    names = ["east", "north", "elevation"]
    return Bags(features, offsets, weights=population, feature_names=names), y, rate


DIMENSIONS, MEAN_SIZE, SIZE_DEVIATION = 18, 150.0, 50.0


def _swiss_roll(rng, n_bags: int):
    # One more than a negative binomial, so that no bag is empty.
    success = (MEAN_SIZE - 1) / SIZE_DEVIATION**2
    sizes = 1 + rng.negative_binomial((MEAN_SIZE - 1) * success / (1 - success), success, n_bags)
    angle = 1.5 * np.pi * (1 + 2 * rng.uniform(size=sizes.sum()))
    angle = angle[np.argsort(-angle * np.sin(angle))]
    roll = np.column_stack([angle * np.cos(angle), 21 * rng.uniform(size=len(angle)), angle * np.sin(angle)])
    # The rotation is the same in every draw, so that bags of two seeds belong to one problem.
    rotation, _ = np.linalg.qr(np.random.default_rng(23).standard_normal((DIMENSIONS, DIMENSIONS)))
    offsets, rate = np.concatenate([[0], np.cumsum(sizes)]), 0.5 * angle
    return Bags(roll @ rotation[:3], offsets), rng.poisson(segment_sum(rate, offsets)).astype(np.float64), rate


KINDS = {"surface": _surface, "shifted": _shifted, "counts": _counts, "swiss-roll": _swiss_roll}
