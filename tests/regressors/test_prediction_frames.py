"""Predictions as data frames with the bag ids."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.regressors import MeanRegressor
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(30)
BAGS = BAGS._with(ids=np.array([f"site {i}" for i in range(30)]), id_name="site")


@pytest.mark.parametrize(
    "model", [bw.method("aggregated"), bw.method("statistics:forest"), MeanRegressor([("a", bw.method("aggregated"))])]
)
def test_a_frame_has_ids_and_predictions(model):
    model.fit(BAGS, Y)
    frame = model.predict(BAGS[:5], as_frame=True)
    assert list(frame) == ["site", "prediction"] and frame["site"].to_list() == BAGS.ids[:5].tolist()
    np.testing.assert_array_equal(frame["prediction"], model.predict(BAGS[:5]))


def test_intervals_deviations_and_several_targets():
    bounds = bw.Intervals("aggregated").fit(BAGS, Y).predict_interval(BAGS, as_frame=True)
    assert list(bounds) == ["site", "lower", "upper"] and (bounds["lower"] < bounds["upper"]).all()
    assert list(bw.method("blr").fit(BAGS, Y).predict(BAGS, return_std=True, as_frame=True))[1:] == [
        "prediction",
        "std",
    ]
    both = bw.MultiTarget("aggregated").fit(BAGS, np.column_stack([Y, -Y])).predict(BAGS, as_frame=True)
    assert list(both) == ["site", "target 1_prediction", "target 2_prediction"]
    with pytest.raises(ValueError, match="covariances"):
        bw.method("aggregate-gp").fit(BAGS, Y).predict(BAGS, return_cov=True, as_frame=True)
