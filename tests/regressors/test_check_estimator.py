"""The regressors on plain arrays are regressors of scikit-learn: its own checks pass.

One check is expected to fail for trees and networks, as it does for those of scikit-learn: that a row of weight two is
a row that came twice. The reasons are listed, and tests below show that nothing else is in the way.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    parametrize_with_checks,
)

from bagwise.instances import NetworkRegressor, RandomFeatureRidge
from bagwise.kernels import FourierFeatures
from bagwise.regressors import BoostedTrees, LassoPath, RidgePath

ESTIMATORS = [
    RidgePath((0.1,)),  # weights are repeated rows
    RidgePath(),
    LassoPath(10),
    BoostedTrees(max_iter=60, learning_rate=0.1, max_features=1.0),
    NetworkRegressor((16,), epochs=40, batch_size=16, learning_rate=0.02),
    RandomFeatureRidge(FourierFeatures(16), penalties=1e-2),  # weights are repeated rows
    RandomFeatureRidge(FourierFeatures(16), penalties=(1e-3, 1e-2, 1e-1)),
]
CHECK = "check_sample_weight_equivalence_on_dense_data"
REASONS = {
    BoostedTrees: "bins are quantiles of the rows; scikit-learn expects it of HistGradientBoostingRegressor, too",
    NetworkRegressor: "batches are made of the rows there are, as those of MLPRegressor; only ratios of weights count, "
    "and it learns in single precision",
}


def expected_failures(estimator) -> dict[str, str]:
    return {CHECK: REASONS[type(estimator)]} if type(estimator) in REASONS else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_check_estimator(estimator, check):
    check(estimator)


def weighed_and_repeated(estimator, *, grouped: bool) -> tuple:
    """Predictions of a fit with weights 0 to 4, and of one on rows that came as often."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(40, 3)), rng.normal(size=40), rng.integers(0, 5, size=40)
    row = np.repeat(np.arange(40), weight)
    groups = ({"groups": np.arange(40)}, {"groups": row}) if grouped else ({}, {})
    weighed = clone(estimator).fit(X, y, sample_weight=weight, **groups[0]).predict(X)
    return weighed, clone(estimator).fit(X[row], y[row], **groups[1]).predict(X)


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("estimator", [ESTIMATORS[1], ESTIMATORS[-1]], ids=lambda estimator: type(estimator).__name__)
def test_weights_are_repeated_rows_for_copies_are_left_out_together(estimator, grouped):
    np.testing.assert_allclose(*weighed_and_repeated(estimator, grouped=grouped), rtol=1e-9, atol=1e-12)


def test_weights_are_repeated_rows_for_a_network_that_sees_all_rows_at_once():
    plain = {"batch_size": 10_000, "weight_decay": 0.0, "standardise": False, "scale_target": False}
    network = NetworkRegressor((16,), epochs=40, learning_rate=0.02, **plain)
    np.testing.assert_allclose(*weighed_and_repeated(network, grouped=False), atol=1e-4)
