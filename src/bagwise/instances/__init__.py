"""One number per instance: out-of-fold prediction, and the regressors of instances."""

from typing import TYPE_CHECKING

from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.instances.imputation import Imputation
    from bagwise.instances.networks.estimator import NetworkRegressor
    from bagwise.instances.out_of_fold import CrossFit, CrossFitting, EachInstance, OutOfFold, OutOfFoldUnion
    from bagwise.instances.random_feature_ridge import ColumnScaler, RandomFeatureRidge

__all__ = [
    "ColumnScaler",
    "CrossFit",
    "CrossFitting",
    "EachInstance",
    "Imputation",
    "NetworkRegressor",
    "OutOfFold",
    "OutOfFoldUnion",
    "RandomFeatureRidge",
]

__getattr__, __dir__ = exported(
    __name__,
    {
        "imputation": ("Imputation",),
        "networks.estimator": ("NetworkRegressor",),
        "out_of_fold": ("CrossFit", "CrossFitting", "EachInstance", "OutOfFold", "OutOfFoldUnion"),
        "random_feature_ridge": ("ColumnScaler", "RandomFeatureRidge"),
    },
)
