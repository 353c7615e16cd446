"""The simulations by name, with a line on each, for `bagwise datasets`."""

from __future__ import annotations

import difflib
from functools import partial

from bagwise.datasets.aerosol import make_aerosol
from bagwise.datasets.districts import make_districts
from bagwise.datasets.problems import make_problem
from bagwise.datasets.published import make_bmir, make_entropy, make_gaussian, make_modes, make_outlier2

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
