"""Conformalised quantile regression: beside MAPIE, beside the formula, and honest where errors are skewed."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import QuantileRegressor

import bagwise as bw
from bagwise.embeddings import Pool
from bagwise.intervals import BagQuantiles, Intervals, coverage
from bagwise.intervals.scales import FoldQuantiles
from bagwise.regressors import EmbeddingRidge, RidgePath

OURS = EmbeddingRidge(Pool(("mean",)), RidgePath((1.0,), scaling="none"))


def skewed(n, seed=0):
    """Bags of one to thirty instances; the error is exponential, and large for small bags and large predictions."""
    rng = np.random.default_rng(seed)
    sizes, level = rng.integers(1, 30, n), rng.uniform(0, 3, n)
    bags = bw.from_arrays([rng.normal(size=(m, 2)) * 0.1 + [c, 0] for m, c in zip(sizes, level, strict=True)])
    return bags, level + rng.exponential(size=n) * (0.1 + level / np.sqrt(sizes))


class Fixed(RegressorMixin, BaseEstimator):
    """Numbers known beforehand, found by the first column of a row."""

    def __init__(self, numbers=None):
        self.numbers = numbers

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return self.numbers[X[:, 0].astype(int)]


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_a_split_is_conformalised_quantile_regression_of_mapie_on_the_same_quantiles(level):
    mapie = pytest.importorskip("mapie.regression", reason="MAPIE is the oracle (extra: test)")
    bags, y = skewed(120)
    train, new = np.arange(80), np.arange(80, 120)
    model = Intervals(OURS, kind="split", scores="quantile", level=level).fit(bags[train], y[train])
    held_out = model.calibration_
    bounds = model.quantiles_.predict_folds(bags, model.left_out_.predict_folds(bags))[0]
    place = np.arange(120.0)[:, None]
    made = [Fixed(numbers).fit(place, y) for numbers in (bounds[:, 0], bounds[:, 1], model.predict(bags))]
    oracle = mapie.ConformalizedQuantileRegressor(made, confidence_level=level, prefit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle.conformalize(place[held_out], y[held_out])
        expected = oracle.predict_interval(place[new], symmetric_correction=True)[1][:, :, 0]
    outside = np.column_stack([np.minimum(expected[:, 0], model.predict(bags[new])), expected[:, 1]])
    outside[:, 1] = np.maximum(outside[:, 1], model.predict(bags[new]))
    np.testing.assert_allclose(model.predict_interval(bags[new]), outside, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind, folds", [("cv+", 4), ("jackknife+", "auto")])
def test_the_plus_form_is_its_formula(kind, folds):
    bags, y = skewed(60)
    model = Intervals(OURS, kind=kind, folds=folds, scores="quantile", level=0.8).fit(bags[:40], y[:40])
    new = bags[40:]
    centre = model.left_out_.predict_folds(new)
    models = model.quantiles_.models
    lower, upper = [], []
    for score, k in zip(model.scores_, model.fold_, strict=True):
        low, high = models[k % len(models)].predict(new, centre[k]).T
        lower.append(centre[k] + low - score)
        upper.append(centre[k] + high + score)
    rank = int(np.ceil(0.8 * 41 - 1e-9))
    expected = np.column_stack([-np.sort(-np.array(lower), axis=0)[rank - 1], np.sort(upper, axis=0)[rank - 1]])
    prediction = model.predict(new)
    expected = np.column_stack([np.minimum(expected[:, 0], prediction), np.maximum(expected[:, 1], prediction)])
    np.testing.assert_allclose(model.predict_interval(new), expected, rtol=1e-9)
    held_out = y[:40] - model.residuals_
    bounds = np.array([models[k % len(models)].predict(bags[[i]], held_out[[i]])[0] for i, k in enumerate(model.fold_)])
    low, high = (held_out[:, None] + bounds).T
    np.testing.assert_allclose(model.scores_, np.maximum(low - y[:40], y[:40] - high), rtol=1e-9, atol=1e-12)


def test_quantiles_are_those_of_scikit_learn_on_the_description_of_the_bags():
    bags, y = skewed(150)
    found = BagQuantiles(level=0.8).fit(bags, y - y.mean(), np.sqrt(y))
    rows = np.column_stack([np.sqrt(y), found._describe(bags)])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    z = 2.3263478740408408  # five columns: the normal quantile of 1 - 0.1 / 10
    for side, tau in enumerate((0.1, 0.9)):
        alpha = 0.5 * z * np.sqrt(0.09 / 150)
        oracle = QuantileRegressor(quantile=tau, alpha=alpha).fit(rows, y - y.mean())
        np.testing.assert_allclose(found.predict(bags, np.sqrt(y))[:, side], oracle.predict(rows), atol=1e-6)


def test_errors_that_depend_on_nothing_have_the_quantiles_of_all():
    rng = np.random.default_rng(2)
    bags = bw.from_arrays(list(rng.normal(size=(200, 5, 30))))
    errors = rng.exponential(size=200)
    found = BagQuantiles(level=0.8, penalty=1.0).fit(bags, errors, rng.normal(size=200))
    assert not found.coef_.any() and len(found.chosen_) == 20
    np.testing.assert_allclose(found.intercept_, np.quantile(errors, [0.1, 0.9]), atol=0.03)


def test_skewed_errors_get_asymmetric_intervals_that_cover_and_score_better():
    bags, y = skewed(700)
    model = Intervals(OURS, scores="quantile", folds=5).fit(bags[:300], y[:300])
    plain = Intervals(OURS, scale="none", folds=5).fit(bags[:300], y[:300])
    new, truth = bags[300:], y[300:]
    interval, prediction = model.predict_interval(new), model.predict(new)
    assert 0.86 <= coverage(truth, interval) <= 0.95
    below, above = prediction - interval[:, 0], interval[:, 1] - prediction
    assert np.median(above / below) > 1.3
    assert winkler(truth, interval) < 0.95 * winkler(truth, plain.predict_interval(new))
    high = np.argsort(prediction)[-80:]  # one width for all covers too few here
    assert coverage(truth[high], plain.predict_interval(new)[high]) < 0.84 < coverage(truth[high], interval[high])


def winkler(y, interval):
    """Width, and twenty times the distance of a target outside: smaller is better at level 0.9."""
    below, above = interval[:, 0] - y, y - interval[:, 1]
    return np.mean(np.ptp(interval, axis=1) + 20 * np.maximum(below, 0) + 20 * np.maximum(above, 0))


def test_groups_weights_covariates_missing_values_and_files(tmp_path):
    rng = np.random.default_rng(3)
    bags, y = skewed(80)
    rows = bags.instances.copy()
    rows[rng.random(rows.shape) < 0.1] = np.nan
    bags = bw.Bags(
        rows,
        bags.offsets,
        groups=np.arange(80) // 4,
        weights=rng.uniform(0.1, 1, len(rows)),
        covariates=rng.normal(size=(80, 2)),
        missing="impute",
    )
    model = Intervals(bw.method("aggregated"), scores="quantile", folds=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # instance weights and missing values: the method says what it does with them
        model.fit(bags, y, sample_weight=np.where(np.arange(80) < 76, 1.0, 0.0))
    assert model.unit_ == "groups" and len(model.scores_) == 76
    interval = model.predict_interval(bags)
    assert np.isfinite(interval).all() and (interval[:, 0] <= interval[:, 1]).all()
    np.testing.assert_allclose(interval[7:9], model.predict_interval(bags[7:9]), rtol=1e-9)
    bw.save_model(model, tmp_path / "model.bagwise")
    again = bw.load_model(tmp_path / "model.bagwise")
    assert np.array_equal(again.predict_interval(bags), interval)
    p = [0.1, 0.5, 0.9]
    quantiles = model.predict_distribution(bags).quantile(p)
    assert np.array_equal(again.predict_distribution(bags).quantile(p), quantiles)


def test_constant_targets_and_few_bags():
    bags = bw.from_arrays(list(np.random.default_rng(0).normal(size=(20, 3, 2))))
    model = Intervals(OURS, scores="quantile").fit(bags, np.ones(20))
    np.testing.assert_allclose(model.predict_interval(bags), 1.0, atol=1e-9)
    np.testing.assert_allclose(model.predict_distribution(bags).quantile(0.5), 1.0, atol=1e-9)
    assert isinstance(model.quantiles_, FoldQuantiles)


def test_what_it_refuses():
    bags, y = skewed(20)
    with pytest.raises(ValueError, match="scores must be 'absolute' or 'quantile', not 'signed'"):
        Intervals(OURS, scores="signed").fit(bags, y)
    with pytest.raises(ValueError, match="scale='none' is for absolute scores; .* leave the scale out"):
        Intervals(OURS, scores="quantile", scale="none").fit(bags, y)
