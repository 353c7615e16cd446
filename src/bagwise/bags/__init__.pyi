from bagwise.bags.arrays import from_arrays as from_arrays, from_awkward as from_awkward, from_padded as from_padded
from bagwise.bags.checks import (
    check_bags as check_bags,
    check_fit as check_fit,
    check_targets as check_targets,
    check_weights as check_weights,
    remember_columns as remember_columns,
    weights_or_ones as weights_or_ones,
)
from bagwise.bags.container import Bags as Bags
from bagwise.bags.folds import (
    Folds as Folds,
    Validation as Validation,
    bag_folds as bag_folds,
    split_bags as split_bags,
)
from bagwise.bags.splitter import BagKFold as BagKFold

__all__ = [
    "BagKFold",
    "Bags",
    "Folds",
    "Validation",
    "bag_folds",
    "check_bags",
    "check_fit",
    "check_targets",
    "check_weights",
    "from_arrays",
    "from_awkward",
    "from_padded",
    "remember_columns",
    "split_bags",
    "weights_or_ones",
]
