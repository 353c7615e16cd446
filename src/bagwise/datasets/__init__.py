"""Simulations and published benchmarks, regenerated: every function gives `(bags, y)` from a seed.

`make_instance_map` gives the true values of the instances as well.
"""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.datasets.published import (
        LawPosterior,
        law_bayes_optimal,
        make_bmir,
        make_entropy,
        make_gaussian,
        make_law,
        make_modes,
        make_outlier2,
    )
    from bagwise.datasets.simulations import make_aerosol, make_districts, make_instance_map, make_problem

__all__ = [
    "LawPosterior",
    "law_bayes_optimal",
    "make_aerosol",
    "make_bmir",
    "make_districts",
    "make_entropy",
    "make_gaussian",
    "make_instance_map",
    "make_law",
    "make_modes",
    "make_outlier2",
    "make_problem",
]

__getattr__, __dir__ = exported(
    __name__,
    {
        "simulations": (
            "make_aerosol",
            "make_districts",
            "make_instance_map",
            "make_problem",
        ),
        "published": (
            "LawPosterior",
            "law_bayes_optimal",
            "make_bmir",
            "make_entropy",
            "make_gaussian",
            "make_law",
            "make_modes",
            "make_outlier2",
        ),
    },
)
