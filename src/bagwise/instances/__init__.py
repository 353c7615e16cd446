"""One number per instance: out-of-fold prediction, and the regressors of instances."""

from bagwise.instances.cross_fit import CrossFit, CrossFitting
from bagwise.instances.networks.estimator import NetworkRegressor
from bagwise.instances.out_of_fold import EachInstance, OutOfFold
from bagwise.instances.random_feature_ridge import RandomFeatureRidge

__all__ = ["CrossFit", "CrossFitting", "EachInstance", "NetworkRegressor", "OutOfFold", "RandomFeatureRidge"]
