"""One model per target: by name, with missing targets, scored and compared with its training bags."""

import numpy as np
from sklearn.base import clone

import bagwise as bw

BAGS, Y = bw.datasets.make_problem("mean", 60, random_state=0)
BOTH = np.column_stack([Y, 2.0 - Y])
BOTH[3, 1] = np.nan


def test_a_method_by_name_is_one_model_per_target():
    model = clone(bw.MultiTarget("aggregated")).fit(BAGS, BOTH)
    alone = bw.method("aggregated").fit(BAGS[~np.isnan(BOTH[:, 1])], BOTH[~np.isnan(BOTH[:, 1]), 1])
    np.testing.assert_array_equal(model.predict(BAGS)[:, 1], alone.predict(BAGS))
    known = ~np.isnan(BOTH[:, 1])
    r2 = [model.estimators_[0].score(BAGS, Y), alone.score(BAGS[known], BOTH[known, 1])]
    np.testing.assert_allclose(model.score(BAGS, BOTH), np.mean(r2))


def test_new_bags_are_compared_with_those_of_training():
    model = bw.MultiTarget("aggregated").fit(BAGS, BOTH)
    assert (bw.novelty(model, BAGS).verdict == bw.novelty(BAGS, BAGS).verdict).all()
