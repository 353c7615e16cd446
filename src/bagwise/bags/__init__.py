"""What the data is: the container `Bags`, ways to build it, the checks at the door, reductions over bags."""

from bagwise.bags.arrays import from_arrays, from_awkward, from_padded
from bagwise.bags.checks import (
    check_bags,
    check_fit,
    check_targets,
    check_weights,
    weights_or_ones,
)
from bagwise.bags.container import Bags
from bagwise.bags.files import load
from bagwise.bags.inspecting import inspect_table
from bagwise.bags.npz import save_npz
from bagwise.bags.remembering import remember_columns
from bagwise.bags.tables import from_table

__all__ = [
    "Bags",
    "check_bags",
    "check_fit",
    "check_targets",
    "check_weights",
    "from_arrays",
    "from_awkward",
    "from_padded",
    "from_table",
    "inspect_table",
    "load",
    "remember_columns",
    "save_npz",
    "weights_or_ones",
]
