"""Four kinds of problem, each won by another family of methods; and all simulations by name, for `bagwise datasets`."""

from __future__ import annotations

import difflib
from functools import partial

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean
from bagwise.datasets.aerosol import make_aerosol
from bagwise.datasets.districts import make_districts
from bagwise.datasets.published import make_bmir, make_entropy, make_gaussian, make_modes, make_outlier2

N_FEATURES = 8
# The same in every draw, so that bags of two seeds belong to one problem.
DIRECTION = np.array([1.0, -1.0, 2.0, 0.5, -0.5, 1.5, -2.0, 1.0]) / np.sqrt(13.75)


def make_problem(kind: str, n_bags: int = 200, *, random_state=0) -> tuple[Bags, np.ndarray]:
    r"""Bags of 5 to 55 instances and 8 features, in which the target hides in one of four ways.

    =======  ======================================================================================================
    kind     how the bag is drawn (u is a fixed unit vector, all noise is normal)
    =======  ======================================================================================================
    noisy    Every instance is a nonlinear view of a hidden t, with noise; 15 percent show another t. y is t with noise.
    mean     The instances scatter around a centre, and y is linear in their mean: 1.87 u' mean(bag) + 0.4 N(0, 1).
    shape    Zero-mean instances with spread exp(y) along u and 1 across: the mean says nothing.
    prime    The instance that is largest in feature 0 carries the target, y = 2.4 u' x + 0.3 N(0, 1), its feature 0
             left out. The others say nothing.
    =======  ======================================================================================================

    Parameters
    ----------
    kind : {"noisy", "mean", "shape", "prime"}
    n_bags : int
    random_state : int, Generator or None
        Different seeds draw different bags of the same problem.

    Notes
    -----
    The design is bagwise's own. Predicting the mean has a root mean squared error of about 0.89, 1.96, 0.73 and 2.3.

    Examples
    --------
    >>> from bagwise.datasets import make_problem
    >>> bags, y = make_problem("prime")
    >>> bags.shape
    (200, 8)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, not {kind!r}")
    rng = np.random.default_rng(random_state)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(5, 56, n_bags))])
    rows, y = KINDS[kind](rng, offsets)
    return Bags(rows, offsets), y


def _noisy(rng, offsets):
    n_bags, n_rows = len(offsets) - 1, offsets[-1]
    hidden = rng.normal(0, 0.87, n_bags)
    seen = np.repeat(hidden, np.diff(offsets))
    corrupted = rng.uniform(size=n_rows) < 0.15
    seen[corrupted] = rng.uniform(-3, 3, corrupted.sum())
    # Every feature is another sine of the hidden value: none of them tells it alone.
    rows = np.sin(np.outer(seen, np.linspace(0.5, 2.5, N_FEATURES)) + np.arange(N_FEATURES))
    return rows + 0.7 * rng.standard_normal(rows.shape), hidden + rng.normal(0, 0.2, n_bags)


def _mean(rng, offsets):
    n_bags = len(offsets) - 1
    centre = np.repeat(rng.standard_normal((n_bags, N_FEATURES)), np.diff(offsets), axis=0)
    rows = centre + rng.standard_normal(centre.shape)
    return rows, 1.87 * segment_mean(rows, offsets) @ DIRECTION + rng.normal(0, 0.4, n_bags)


def _shape(rng, offsets):
    y = rng.uniform(-1.27, 1.27, len(offsets) - 1)
    rows = rng.standard_normal((offsets[-1], N_FEATURES))
    stretch = np.repeat(np.exp(y), np.diff(offsets)) - 1
    return rows + np.outer(stretch * (rows @ DIRECTION), DIRECTION), y


def _prime(rng, offsets):
    rows = rng.standard_normal((offsets[-1], N_FEATURES))
    # A stable sort by feature 0, then by bag: the last row of every bag is its largest.
    order = np.lexsort((rows[:, 0], np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))
    key = rows[order[offsets[1:] - 1]]
    return rows, 2.4 * key[:, 1:] @ DIRECTION[1:] + rng.normal(0, 0.3, len(key))


KINDS = {"noisy": _noisy, "mean": _mean, "shape": _shape, "prime": _prime}


SIMULATIONS = {
    "aerosol": (partial(make_aerosol, ragged=True), "satellite pixels around ground stations, clouds included"),
    "districts": (make_districts, "the share of supporters in districts of people; ecological inference"),
    "gaussian": (make_gaussian, "noisy copies of a hidden value (Wang et al. 2012)"),
    "outlier": (make_outlier2, "the same with outliers among the instances (Wang et al. 2012)"),
    "primary": (make_bmir, "one primary instance hidden among others (Park et al. 2020)"),
    "modes": (make_modes, "the number of modes of the distribution behind a bag (as in Meunier et al. 2022)"),
    "entropy": (make_entropy, "the entropy of the distribution behind a bag (as in Szabó et al. 2015)"),
    "noisy": (partial(make_problem, "noisy"), "every instance a nonlinear view of the target, some corrupted"),
    "mean": (partial(make_problem, "mean"), "the target is linear in the mean instance"),
    "shape": (partial(make_problem, "shape"), "the target is the spread along one direction; the mean does not help"),
    "prime": (partial(make_problem, "prime"), "one key instance carries the target"),
}


def simulate(name: str, n_bags: int = 200, *, random_state=0):
    """Bags and targets of a simulation, by its name.

    Examples
    --------
    >>> bags, y = simulate("prime", 50)
    >>> bags.shape
    (50, 8)
    """
    make = simulation(name)
    if n_bags < 1:
        raise ValueError(f"a data set needs at least one bag, not {n_bags}")
    return make(n_bags, random_state=random_state)


def simulation(name: str):
    """The function that makes the simulation of this name."""
    if name not in SIMULATIONS:
        close = difflib.get_close_matches(name, SIMULATIONS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"there is no data set {name!r}{hint} The data sets are: {', '.join(SIMULATIONS)}")
    return SIMULATIONS[name][0]
