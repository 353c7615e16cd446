"""The default method: compare several methods on the same folds of bags, and blend the best."""

from bagwise.auto.auto_regressor import AutoRegressor
from bagwise.auto.blend import blend
from bagwise.auto.members import Member
from bagwise.regressors.embedding_ridge import blend_weights

__all__ = ["AutoRegressor", "Member", "blend", "blend_weights"]
