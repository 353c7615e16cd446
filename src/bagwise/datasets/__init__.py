"""Simulations and published benchmarks, regenerated: every function gives `(bags, y)` from a seed.

`make_instance_map` gives the true values of the instances as well.
"""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.datasets.aerosol import make_aerosol
    from bagwise.datasets.districts import make_districts
    from bagwise.datasets.instance_maps import make_instance_map
    from bagwise.datasets.law import LawPosterior, law_bayes_optimal, make_law
    from bagwise.datasets.published import make_bmir, make_entropy, make_gaussian, make_modes, make_outlier2
    from bagwise.datasets.simulations import make_problem

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
        "aerosol": ("make_aerosol",),
        "districts": ("make_districts",),
        "instance_maps": ("make_instance_map",),
        "law": ("LawPosterior", "law_bayes_optimal", "make_law"),
        "simulations": ("make_problem",),
        "published": ("make_bmir", "make_entropy", "make_gaussian", "make_modes", "make_outlier2"),
    },
)
