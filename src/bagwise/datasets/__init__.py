"""Simulations and published benchmarks, regenerated: every function gives `(bags, y)` from a seed."""

from bagwise.datasets.aerosol import make_aerosol
from bagwise.datasets.distributions import make_entropy, make_modes
from bagwise.datasets.law import make_law
from bagwise.datasets.law_optimum import LawPosterior, law_bayes_optimal
from bagwise.datasets.park import make_bmir
from bagwise.datasets.problems import make_problem
from bagwise.datasets.wang import make_gaussian, make_outlier2

__all__ = [
    "LawPosterior",
    "law_bayes_optimal",
    "make_aerosol",
    "make_bmir",
    "make_entropy",
    "make_gaussian",
    "make_law",
    "make_modes",
    "make_outlier2",
    "make_problem",
]
