"""One number per instance: folds of bags, out-of-fold prediction, instance learners."""

from bagwise.instances.cross_fit import CrossFit, CrossFitting
from bagwise.instances.imputation import Imputation
from bagwise.instances.networks.estimator import NetworkRegressor
from bagwise.instances.out_of_fold import EachInstance, OutOfFold
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
