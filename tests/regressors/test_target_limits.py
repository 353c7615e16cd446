"""Predictions stay near the training targets, and contributions still sum to them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bagwise as bw
from bagwise.embeddings import Pool
from bagwise.regressors import EmbeddingRidge
from bagwise.regressors.pipeline import without_limits

BAGS, Y = bw.datasets.make_problem("mean", 40, random_state=0)
FAR = BAGS.replace(BAGS.instances * 20.0)
LOW, HIGH = Y.min() - 0.5 * np.ptp(Y), Y.max() + 0.5 * np.ptp(Y)


@pytest.mark.filterwarnings("ignore:.*far outside the range")
@pytest.mark.parametrize("name", ["input-kme:fourier", "blr", "aggregate-gp", "aggregated"])
def test_contributions_sum_to_the_limited_prediction(name):
    model = bw.method(name).fit(BAGS, Y)
    explanation = bw.explain(model, FAR)
    assert explanation.predictions.min() >= LOW and explanation.predictions.max() <= HIGH
    assert_allclose(np.add.reduceat(explanation.contributions, FAR.offsets[:-1]), explanation.predictions)


@pytest.mark.filterwarnings("ignore:.*far outside the range")
def test_slack_is_a_share_of_the_range_of_bags_that_count():
    y, weight = np.append(Y[:-1], 1e6), np.append(np.ones(39), 0.0)
    model = EmbeddingRidge(Pool(), slack=0.25).fit(BAGS, y, sample_weight=weight)
    low, high = Y[:-1].min() - 0.25 * np.ptp(Y[:-1]), Y[:-1].max() + 0.25 * np.ptp(Y[:-1])
    assert model.predict(FAR).min() == low and model.predict(FAR).max() == high
    free = EmbeddingRidge(Pool(), slack=None).fit(BAGS, y, sample_weight=weight)
    assert free.predict(FAR).max() > high
    assert_allclose(without_limits(model).predict(FAR), free.predict(FAR))
    assert model.predict(FAR).max() == high  # the copy alone has no limits
