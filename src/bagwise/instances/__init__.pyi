from bagwise.bags.imputation import Imputation as Imputation
from bagwise.instances.networks.estimator import NetworkRegressor as NetworkRegressor
from bagwise.instances.out_of_fold import (
    CrossFit as CrossFit,
    CrossFitting as CrossFitting,
    EachInstance as EachInstance,
    OutOfFold as OutOfFold,
    OutOfFoldUnion as OutOfFoldUnion,
)
from bagwise.instances.random_feature_ridge import (
    ColumnScaler as ColumnScaler,
    RandomFeatureRidge as RandomFeatureRidge,
)

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
