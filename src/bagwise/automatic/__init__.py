"""One default for every problem: methods tried on the same folds of bags, and an honest blend of them."""

from bagwise.automatic.blending import blend, blend_weights
from bagwise.automatic.members import Member
from bagwise.automatic.regressor import AutoRegressor

__all__ = ["AutoRegressor", "Member", "blend", "blend_weights"]
