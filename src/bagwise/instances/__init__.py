"""One number per instance: folds of bags, out-of-fold prediction, instance learners."""

from bagwise.instances.cross_fit import CrossFit, CrossFitting
from bagwise.instances.folds import BagKFold, bag_folds
from bagwise.instances.network import NetworkRegressor
from bagwise.instances.out_of_fold import EachInstance, OutOfFold
from bagwise.instances.random_feature_ridge import RandomFeatureRidge
from bagwise.instances.random_features import FourierFeatures, NystroemFeatures

__all__ = [
    "BagKFold",
    "CrossFit",
    "CrossFitting",
    "EachInstance",
    "FourierFeatures",
    "NetworkRegressor",
    "NystroemFeatures",
    "OutOfFold",
    "RandomFeatureRidge",
    "bag_folds",
]
