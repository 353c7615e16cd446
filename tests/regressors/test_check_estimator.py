"""The regressors on plain arrays are regressors of scikit-learn: its own checks pass.

One check is expected to fail for some of them: that a row of weight two is a row that came twice.
The reasons are listed; `RidgePath` with one penalty and `LassoPath` pass it.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bagwise.instances import NetworkRegressor, RandomFeatureRidge
from bagwise.kernels import FourierFeatures
from bagwise.regressors import BoostedTrees, LassoPath, RidgePath

ESTIMATORS = [
    RidgePath((0.1,)),  # weights are repeated rows
    RidgePath(),
    LassoPath(10),
    BoostedTrees(max_iter=60, learning_rate=0.1, max_features=1.0),
    NetworkRegressor((16,), epochs=40, batch_size=16, learning_rate=0.02),
    RandomFeatureRidge(FourierFeatures(16), penalties=(1e-3, 1e-2, 1e-1)),
]
REASONS = {
    RidgePath: "the penalty is chosen by leaving out rows, and of a row that came twice one stays",
    BoostedTrees: "bins are quantiles of the rows; scikit-learn expects it of HistGradientBoostingRegressor, too",
    NetworkRegressor: "batches are drawn from the rows, whatever they weigh, in single precision",
    RandomFeatureRidge: "columns are scaled by the rows, whatever they weigh",
}


def expected_failures(estimator) -> dict[str, str]:
    fixed = isinstance(estimator, RidgePath) and len(estimator.penalties) == 1
    reason = None if fixed else REASONS.get(type(estimator))
    return {"check_sample_weight_equivalence_on_dense_data": reason} if reason else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_no_columns_are_refused(estimator):
    with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(5, 0\)\) while a minimum of 1 is required"):
        type(estimator)().fit(np.empty((5, 0)), np.arange(5.0))
