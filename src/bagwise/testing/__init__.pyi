from bagwise.testing.contract_checks import (
    bag_estimator_checks as bag_estimator_checks,
    check_bag_estimator as check_bag_estimator,
    kernel_ridge as kernel_ridge,
    left_out_residuals as left_out_residuals,
    mean_gram as mean_gram,
    parametrize_with_checks as parametrize_with_checks,
    zoo as zoo,
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
