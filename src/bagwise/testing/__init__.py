"""For tests: contract checks for bag estimators, a collection of awkward bags, naive references."""

from bagwise.testing.contract_checks import (
    bag_estimator_checks,
    check_bag_estimator,
    kernel_ridge,
    left_out_residuals,
    mean_gram,
    parametrize_with_checks,
    zoo,
)

__all__ = [
    "bag_estimator_checks",
    "check_bag_estimator",
    "kernel_ridge",
    "left_out_residuals",
    "mean_gram",
    "parametrize_with_checks",
    "zoo",
]
