"""One number per instance: folds of bags, out-of-fold prediction, instance learners."""

from bagwise.instances.cross_fit import CrossFit, CrossFitting
from bagwise.instances.folds import BagKFold, bag_folds
from bagwise.instances.out_of_fold import EachInstance, OutOfFold

__all__ = ["BagKFold", "CrossFit", "CrossFitting", "EachInstance", "OutOfFold", "bag_folds"]
