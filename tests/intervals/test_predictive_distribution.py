"""The predictive distribution: beside crepes, beside its formulas, and uniform where it should be."""

import numpy as np
import pytest

import bagwise as bw
from bagwise.embeddings import Pool
from bagwise.intervals import Intervals, PredictiveDistribution
from bagwise.regressors import EmbeddingRidge, RidgePath

OURS = EmbeddingRidge(Pool(("mean",)), RidgePath((1.0,), scaling="none"))
P = [0.05, 0.1, 0.33, 0.5, 0.71, 0.9, 0.95]
BAGS, Y = bw.datasets.make_problem("mean", 160, random_state=1)
TRAIN, NEW = slice(0, 100), slice(100, 160)


@pytest.fixture(scope="module")
def cross():
    return Intervals(OURS, folds=5).fit(BAGS[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("scale", ["none", "bag"])
def test_a_split_is_the_predictive_system_of_crepes(scale):
    crepes = pytest.importorskip("crepes", reason="crepes is the oracle (extra: test)")
    model = Intervals(OURS, kind="split", scale=scale, folds=2).fit(BAGS[TRAIN], Y[TRAIN])
    found = model.predict_distribution(BAGS[NEW])
    sigmas = [
        None if scale == "none" else model.scale_.predict_folds(one)[0] for one in (BAGS[model.calibration_], BAGS[NEW])
    ]
    oracle = crepes.ConformalPredictiveSystem().fit(model.residuals_, sigmas=sigmas[0])
    centre = model.predict(BAGS[NEW])
    np.testing.assert_allclose(found.values(), oracle.predict(centre, sigmas=sigmas[1], return_cpds=True), rtol=1e-9)
    low, high = [p for p in P if p < 0.5], [p for p in P if p >= 0.5]
    percent = {"lower_percentiles": [100 * p for p in low], "higher_percentiles": [100 * p for p in high]}
    np.testing.assert_allclose(found.quantile(P), oracle.predict(centre, sigmas=sigmas[1], **percent), rtol=1e-9)
    smooth = np.array([oracle.predict(centre, sigmas=sigmas[1], y=Y[NEW], seed=seed) for seed in range(2)]).reshape(
        2, -1
    )
    assert (np.abs(found.cdf(Y[NEW]) - smooth) <= 0.5 / 51 + 1e-12).all()  # crepes draws where in the step it lies
    if scale == "none":  # with sigmas crepes 0.9 multiplies two of its terms by them once too often
        expected = oracle.evaluate(centre, Y[NEW], metrics=["CRPS"])["CRPS"]
        assert found.crps(Y[NEW]).mean() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scores", ["absolute", "quantile"])
def test_cross_conformal_values_quantiles_and_crps_are_their_formulas(scores):
    model = Intervals(OURS, scores=scores, folds=5).fit(BAGS[TRAIN], Y[TRAIN])
    found = model.predict_distribution(BAGS[NEW])
    held_out = Y[TRAIN] - model.residuals_
    values = np.empty((60, 100))
    for i, k in enumerate(model.fold_):
        mine, new = BAGS[TRAIN][[i]], BAGS[NEW]
        centre = model.left_out_.predict_folds(new)[k]
        if scores == "absolute":
            ratio = model.scale_.scales[k].predict(new) / model.scale_.scales[k].predict(mine)
            values[:, i] = centre + ratio * model.residuals_[i]
        else:
            at_i = held_out[i] + model.quantiles_.models[k].predict(mine, held_out[[i]])[0]
            at_new = centre[:, None] + model.quantiles_.models[k].predict(new, centre)
            ratio = np.ptp(at_new, axis=1) / np.ptp(at_i)
            values[:, i] = at_new.mean(axis=1) + ratio * (Y[i] - at_i.mean())
    values.sort(axis=1)
    np.testing.assert_allclose(found.values(), values, rtol=1e-9, atol=1e-12)
    ranks = [int(np.floor(p * 101 + 1e-9)) if p < 0.5 else int(np.ceil(p * 101 - 1e-9)) for p in P]
    np.testing.assert_allclose(found.quantile(P), values[:, np.array(ranks) - 1], rtol=1e-9, atol=1e-12)
    y = Y[NEW]
    pairs = np.abs(values[:, :, None] - values[:, None, :]).mean(axis=(1, 2))
    np.testing.assert_allclose(found.crps(y), np.abs(values - y[:, None]).mean(axis=1) - pairs / 2, rtol=1e-9)
    np.testing.assert_allclose(found.cdf(y), ((values < y[:, None]).sum(axis=1) + 0.5) / 101)


def test_of_a_group_every_bag_has_its_share():
    groups = np.repeat(np.arange(10), 10)
    groups[:5] = 10  # two groups of five
    bags = bw.Bags(BAGS[TRAIN].instances, BAGS[TRAIN].offsets, groups=groups)
    model = Intervals(OURS, folds=3, scale="none").fit(bags, Y[TRAIN])
    found = model.predict_distribution(BAGS[NEW])
    assert found.known() == pytest.approx((1 / 12, 11 / 12))
    values = model.left_out_.predict_folds(BAGS[NEW])[model.fold_].T + model.residuals_
    shares = 1 / np.bincount(groups)[groups]
    expected = np.array([(shares * (row < t)).sum() + 0.5 for row, t in zip(values, Y[NEW], strict=True)]) / 12
    np.testing.assert_allclose(found.cdf(Y[NEW]), expected)
    w = shares / shares.sum()
    crps = [w @ np.abs(v - t) - w @ np.abs(v[:, None] - v) @ w / 2 for v, t in zip(values, Y[NEW], strict=True)]
    np.testing.assert_allclose(found.crps(Y[NEW]), crps, rtol=1e-9)


def test_a_bag_does_not_depend_on_the_others(cross):
    found = cross.predict_distribution(BAGS[NEW])
    np.testing.assert_allclose(
        found.quantile(P)[3:5], cross.predict_distribution(BAGS[103:105]).quantile(P), rtol=1e-12
    )
    some = cross.predict_distribution(BAGS[103:105]).crps(Y[103:105])
    np.testing.assert_allclose(found.crps(Y[NEW])[3:5], some, rtol=1e-12)
    assert repr(found) == "PredictiveDistribution: 60 bags, quantiles from 0.0099 to 0.99"


def test_ranks_are_uniform_and_quantiles_rise(cross):
    bags, y = bw.datasets.make_problem("mean", 600, random_state=5)
    model = Intervals(OURS, kind="split", scale="none", folds=2).fit(bags[:300], y[:300])
    at = model.predict_distribution(bags[300:]).cdf(y[300:])
    assert abs(np.mean(at < 0.2) - 0.2) < 0.09 and abs(np.mean(at < 0.8) - 0.8) < 0.09
    assert (np.diff(cross.predict_distribution(BAGS[NEW]).quantile(P), axis=1) >= 0).all()


def test_what_it_refuses(cross):
    found = cross.predict_distribution(BAGS[NEW])
    with pytest.raises(ValueError, match=r"quantile of 0.001 needs more .* than 100; .* from 0.0099 to 0.99"):
        found.quantile([0.5, 0.001])
    with pytest.raises(ValueError, match="must lie between 0 and 1, not 1.5"):
        found.quantile(1.5)
    with pytest.raises(ValueError, match=r"one number for each of 60 bags, not shape \(3,\)"):
        found.crps(np.zeros(3))
    with pytest.warns(UserWarning, match="no intervals"):
        few = Intervals(OURS).fit(BAGS[:2], Y[:2])
    with pytest.raises(ValueError, match="needs at least 3 bags, and there are 2"):
        few.predict_distribution(BAGS)
    assert isinstance(found, PredictiveDistribution)
