"""Bags of one instance are plain rows: our intervals beside those of MAPIE and crepes, on the same splits."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import PredefinedSplit

import bagwise as bw
from bagwise.bags import bag_folds
from bagwise.embeddings import Pool
from bagwise.intervals import BagScale, Intervals
from bagwise.regressors import EmbeddingRidge, RidgePath

rng = np.random.default_rng(0)
X, X_NEW = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))
Y = X @ [1.0, -2.0, 0.5] + rng.normal(size=60)
BAGS, NEW = (bw.from_arrays(list(rows[:, None, :])) for rows in (X, X_NEW))
OURS = EmbeddingRidge(Pool(("mean",)), RidgePath((1.0,), scaling="none"))
THEIRS = Ridge(alpha=1.0)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("folds", [5, 60])
def test_cv_plus_and_jackknife_plus_are_those_of_mapie(folds, level):
    mapie = pytest.importorskip("mapie.regression", reason="MAPIE is the oracle (extra: test)")
    kind = {"kind": "jackknife+"} if folds == 60 else {"folds": folds}
    model = Intervals(OURS, scale="none", level=level, **kind).fit(BAGS, Y)
    splits = PredefinedSplit(bag_folds(BAGS, folds))
    oracle = mapie.CrossConformalRegressor(THEIRS, confidence_level=level, method="plus", cv=splits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = oracle.fit_conformalize(X, Y).predict_interval(X_NEW)[1][:, :, 0]
    np.testing.assert_allclose(model.predict_interval(NEW), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_a_split_is_that_of_mapie_and_of_crepes(level):
    mapie = pytest.importorskip("mapie.regression", reason="MAPIE is the oracle (extra: test)")
    crepes = pytest.importorskip("crepes", reason="crepes is the oracle (extra: test)")
    got = Intervals(OURS, kind="split", scale="none", folds=2, level=level).fit(BAGS, Y).predict_interval(NEW)
    held_out = bag_folds(BAGS, 2) == 0
    fitted = THEIRS.fit(X[~held_out], Y[~held_out])
    oracle = mapie.SplitConformalRegressor(fitted, confidence_level=level, prefit=True)
    expected = oracle.conformalize(X[held_out], Y[held_out]).predict_interval(X_NEW)[1][:, :, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    other = crepes.ConformalRegressor().fit(Y[held_out] - fitted.predict(X[held_out]))
    expected = other.predict_int(fitted.predict(X_NEW), confidence=level)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_a_split_by_site_is_that_of_mapie_for_each_site():
    mapie = pytest.importorskip("mapie.regression", reason="MAPIE is the oracle (extra: test)")
    rows, site = np.random.default_rng(1).normal(size=(200, 3)), np.tile([0, 1], 100)
    y = rows @ [1.0, -2.0, 0.5] + (1 + 3 * site) * np.random.default_rng(2).normal(size=200)
    bags = bw.from_arrays(list(rows[:, None, :]))._with(kept={"site": site})
    got = Intervals(OURS, kind="split", scale="none", folds=2, by="site").fit(bags, y).predict_interval(bags)
    held_out = bag_folds(bags, 2) == 0
    fitted = THEIRS.fit(rows[~held_out], y[~held_out])
    for k in (0, 1):
        own = held_out & (site == k)
        oracle = mapie.SplitConformalRegressor(fitted, confidence_level=0.9, prefit=True)
        expected = oracle.conformalize(rows[own], y[own]).predict_interval(rows[site == k])[1][:, :, 0]
        np.testing.assert_allclose(got[site == k], expected, rtol=1e-9, atol=1e-9)


def test_a_scaled_split_is_the_normalised_conformal_regressor_of_crepes():
    crepes = pytest.importorskip("crepes", reason="crepes is the oracle (extra: test)")
    sizes = rng.integers(1, 30, 100)
    bags = bw.from_arrays([rng.normal(size=(n, 3)) + c for n, c in zip(sizes, rng.normal(size=100), strict=True)])
    y = np.array([bag.mean() for bag in bags]) + rng.normal(size=100) / np.sqrt(sizes)
    model = Intervals(OURS, kind="split", scale=BagScale(), level=0.85).fit(bags[:60], y[:60])
    held_out, new = bags[model.calibration_], bags[60:]
    scale = model.scale_.scales[0]
    oracle = crepes.ConformalRegressor().fit(model.residuals_, sigmas=scale.predict(held_out))
    expected = oracle.predict_int(model.predict(new), sigmas=scale.predict(new), confidence=0.85)
    np.testing.assert_allclose(model.predict_interval(new), expected, rtol=1e-9)
