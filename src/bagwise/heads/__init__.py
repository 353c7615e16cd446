"""From one row per bag to the target."""

from bagwise.heads.boosted_trees import BoostedTrees
from bagwise.heads.lasso_path import LassoPath
from bagwise.heads.ridge_path import RidgePath

__all__ = ["BoostedTrees", "LassoPath", "RidgePath"]
