from bagwise.datasets.published import (
    LawPosterior as LawPosterior,
    law_bayes_optimal as law_bayes_optimal,
    make_bmir as make_bmir,
    make_entropy as make_entropy,
    make_gaussian as make_gaussian,
    make_law as make_law,
    make_modes as make_modes,
    make_outlier2 as make_outlier2,
)
from bagwise.datasets.simulations import (
    make_aerosol as make_aerosol,
    make_districts as make_districts,
    make_drift as make_drift,
    make_instance_map as make_instance_map,
    make_problem as make_problem,
)

__all__ = [
    "LawPosterior",
    "law_bayes_optimal",
    "make_aerosol",
    "make_bmir",
    "make_districts",
    "make_drift",
    "make_entropy",
    "make_gaussian",
    "make_instance_map",
    "make_law",
    "make_modes",
    "make_outlier2",
    "make_problem",
]
