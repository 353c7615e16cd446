"""One number per instance: out-of-fold prediction, and the regressors of instances."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.instances.imputation import Imputation
    from bagwise.instances.networks.estimator import NetworkRegressor
    from bagwise.instances.out_of_fold import CrossFit, CrossFitting, EachInstance, OutOfFold
    from bagwise.instances.random_feature_ridge import RandomFeatureRidge

__all__ = [
    "CrossFit",
    "CrossFitting",
    "EachInstance",
    "Imputation",
    "NetworkRegressor",
    "OutOfFold",
    "RandomFeatureRidge",
]

__getattr__, __dir__ = exported(
    __name__,
    {
        "imputation": ("Imputation",),
        "networks.estimator": ("NetworkRegressor",),
        "out_of_fold": ("CrossFit", "CrossFitting", "EachInstance", "OutOfFold"),
        "random_feature_ridge": ("RandomFeatureRidge",),
    },
)
