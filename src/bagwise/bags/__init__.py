"""The data: the container `Bags`, bags from arrays, what `fit` and `predict` accept, folds, reductions over bags."""

from typing import TYPE_CHECKING

from bagwise.bags.arrays import from_arrays, from_awkward, from_padded
from bagwise.bags.checks import check_bags, check_fit, check_targets, check_weights, remember_columns, weights_or_ones
from bagwise.bags.container import Bags
from bagwise.first_use import exported

if TYPE_CHECKING:
    from bagwise.bags.folds import BagKFold, bag_folds

__all__ = [
    "BagKFold",
    "Bags",
    "bag_folds",
    "check_bags",
    "check_fit",
    "check_targets",
    "check_weights",
    "from_arrays",
    "from_awkward",
    "from_padded",
    "remember_columns",
    "weights_or_ones",
]

__getattr__, __dir__ = exported(__name__, {"folds": ("BagKFold", "bag_folds")})
