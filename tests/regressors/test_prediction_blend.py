"""Readings of several learners and their blend, against the same by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import bagwise as bw
from bagwise.embeddings import SlicedQuantiles
from bagwise.instances import ColumnScaler, OutOfFold, OutOfFoldUnion
from bagwise.kernels import FourierFeatures
from bagwise.regressors import EmbeddingRidge, PredictionBlend, RidgePath

RNG = np.random.default_rng(0)
Y = RNG.normal(size=40)
SIZES = RNG.integers(3, 9, 40)
COLUMNS = bw.from_arrays(
    [t + RNG.normal(size=(n, 2)) * [0.5, 1.0] for t, n in zip(Y, SIZES, strict=True)], feature_names=["a", "b"]
)
MEAN, MEDIAN = EmbeddingRidge(offset="mean"), EmbeddingRidge(offset="median")
QUANTILES = EmbeddingRidge(SlicedQuantiles(quantiles=4), RidgePath())
BLEND = PredictionBlend([("mean", MEAN), ("median", MEDIAN), ("quantiles", QUANTILES)])


def column(bags, j):
    return bw.Bags(bags.instances[:, [j]], bags.offsets)


def test_the_blend_is_of_readings_fitted_alone_by_their_left_out_predictions():
    model = clone(BLEND).fit(COLUMNS, Y)
    fitted = {f"{c}:{n}": clone(r).fit(column(COLUMNS, j), Y) for j, c in enumerate("ab") for n, r in BLEND.readings}
    Z = np.column_stack([Y - one.residuals_ for one in fitted.values()])

    def loss(v):
        w = v**2 / (v**2).sum()
        return np.mean((Y - Z @ w) ** 2)

    starts = [np.ones(6), *(np.eye(6) * 3 + 0.3)]
    best = min((minimize(loss, start, tol=1e-14) for start in starts), key=lambda found: found.fun)
    weights = np.array([model.weights_.get(key, 0.0) for key in fitted])
    assert np.isclose(weights.sum(), 1) and (weights >= 0).all()
    assert np.mean((Y - Z @ weights) ** 2) <= best.fun * (1 + 1e-6)
    new = COLUMNS[:7]
    parts = [one.predict(column(new, "ab".index(key[0]))) for key, one in fitted.items()]
    np.testing.assert_allclose(model.predict(new), np.array(parts).T @ weights, rtol=1e-9, atol=1e-12)


def test_the_error_is_that_of_weights_which_have_not_seen_the_fold():
    """On noise a blend of many looks better than it is by its own weights; the error that is told does not."""
    rng = np.random.default_rng(3)
    noise = bw.from_arrays([rng.normal(size=(4, 3)) for _ in range(40)])
    model = clone(BLEND).fit(noise, Y)
    by_own = np.mean((Y - sum(w * (Y - model.readings_[key].residuals_) for key, w in model.weights_.items())) ** 2)
    assert model.error_ > by_own
    np.testing.assert_allclose(model.error_, np.mean(model.residuals_**2))


def test_predictions_beyond_the_range_of_training_count_as_its_end():
    model = clone(BLEND).fit(COLUMNS, Y)
    top = COLUMNS.instances.max(axis=0)
    far, end = (bw.from_arrays([np.tile(v, (3, 1))], feature_names=["a", "b"]) for v in (top + 1e3, top))
    with pytest.warns(UserWarning, match="outside"):
        assert model.predict(far) == pytest.approx(model.predict(end))


def test_means_alone_are_additive_and_medians_are_not():
    additive = PredictionBlend([("mean", MEAN)]).fit(COLUMNS, Y)
    assert additive.additive_ and additive.additive_share_ == pytest.approx(1)
    sums = np.add.reduceat(additive.contributions(COLUMNS), COLUMNS.offsets[:-1])
    np.testing.assert_allclose(sums, additive.predict(COLUMNS), rtol=1e-9, atol=1e-9)
    median = PredictionBlend([("median", MEDIAN)]).fit(COLUMNS, Y)
    assert not median.additive_ and not hasattr(median, "contributions")


def test_the_offset_median_learns_what_to_add_to_the_median():
    bags = column(COLUMNS, 0)
    medians = np.array([np.median(bag) for bag in bags])
    rest = EmbeddingRidge().fit(bags, Y - medians)
    np.testing.assert_allclose(clone(MEDIAN).fit(bags, Y).predict(bags), medians + rest.predict(bags), atol=1e-12)
    weighted = bags.with_weights(np.full(bags.n_instances, 2.0))
    plain, weighed = (clone(MEDIAN).fit(some, Y).predict(some) for some in (bags, weighted))
    np.testing.assert_allclose(weighed, plain, atol=1e-9)


class Failing(EmbeddingRidge):
    def fit(self, bags, y, sample_weight=None):
        raise ValueError("no such reading")


def test_a_reading_that_fails_is_named_and_left_out():
    one = COLUMNS.replace(COLUMNS.instances[:, [0]], feature_names=["a"])
    with pytest.warns(UserWarning, match="the reading 'bad' of 'a' is left out: no such reading"):
        model = PredictionBlend([("mean", MEAN), ("bad", Failing())]).fit(one, Y)
    expected = PredictionBlend([("mean", MEAN)]).fit(one, Y).predict(one)
    np.testing.assert_array_equal(model.predict(one), expected)
    with (
        pytest.warns(UserWarning, match="is left out"),
        pytest.raises(ValueError, match="no reading of any learner can be fitted: no such reading"),
    ):
        PredictionBlend([("bad", Failing())]).fit(one, Y)


class FailingRegressor(LinearRegression):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("no such learner")


def test_union_joins_the_columns_of_its_learners():
    bags, y = bw.datasets.make_problem("mean", 20)
    union = OutOfFoldUnion([("plain", OutOfFold()), ("shallow", OutOfFold(folds=3))])
    joined, alone = union.fit_transform(bags, y), OutOfFold(folds=3).fit(bags, y)
    assert joined.feature_names == ("plain", "shallow")
    np.testing.assert_array_equal(joined.instances[:, 0], OutOfFold().fit_transform(bags, y).instances[:, 0])
    np.testing.assert_array_equal(union.transform(bags).instances[:, 1], alone.transform(bags).instances[:, 0])
    assert union.get_params()["shallow__folds"] == 3
    assert clone(union).set_params(shallow__folds=4).learners[1][1].folds == 4


def test_a_learner_that_fails_is_named_and_left_out():
    bags, y = bw.datasets.make_problem("mean", 20)
    union = OutOfFoldUnion([("plain", OutOfFold()), ("bad", OutOfFold(FailingRegressor()))])
    with pytest.warns(UserWarning, match="the learner 'bad' is left out: no such learner"):
        assert union.fit_transform(bags, y).shape == (20, 1)
    with pytest.raises(ValueError, match="no such learner"):
        OutOfFoldUnion([("bad", OutOfFold(FailingRegressor()))]).fit(bags, y)


def test_sparse_columns_share_a_scale():
    X = np.zeros((50, 3))
    X[:, 0], X[0, 1], X[:4, 2] = np.arange(50.0), 5.0, 1.0
    scaler = ColumnScaler().fit(X)
    common = np.sqrt((X[:, 1].var() + X[:, 2].var()) / 2)
    np.testing.assert_allclose(scaler.scale_, [X[:, 0].std(), common, common])
    np.testing.assert_allclose(scaler.transform(X), (X - X.mean(axis=0)) / scaler.scale_)
    assert ColumnScaler().fit(np.ones((5, 2))).scale_.tolist() == [1.0, 1.0]


def test_explanations_say_how_much_of_a_prediction_is_a_sum():
    bags, y = bw.datasets.make_problem("noisy", 40)
    model = bw.method("instance-kme").fit(bags, y)
    explanation = bw.explain(model, bags[:3])
    assert explanation.kind == "leave-one-out"
    assert explanation.additive_share == model[-1].additive_share_ < 1
    additive = bw.method("instance-kme:additive").fit(bags, y)
    parts = bw.explain(additive, bags[:3])
    assert parts.kind == "contributions" and parts.additive_share is None
    sums = np.add.reduceat(parts.values, bags[:3].offsets[:-1])
    np.testing.assert_allclose(sums, additive.predict(bags[:3]), rtol=1e-9)


def test_many_columns_are_projected():
    X = np.random.default_rng(0).normal(size=(40, 30)) * np.linspace(1, 9, 30)
    scaler = ColumnScaler(8, random_state=2).fit(X)
    expected = (X - X.mean(axis=0)) / X.std(axis=0) @ scaler.directions_
    np.testing.assert_allclose(scaler.transform(X), expected, rtol=1e-10)
    np.testing.assert_array_equal(scaler.transform(X[:1])[0], scaler.transform(X[:2])[0])
    assert FourierFeatures(4, linear=29).fit_transform(X).shape == (40, 4)
    assert FourierFeatures(4, linear=30).fit_transform(X).shape == (40, 34)


def test_a_weight_of_the_scaler_is_a_number_of_rows():
    X, weight = np.random.default_rng(0).normal(size=(9, 2)), np.array([2, 0, 1, 3, 1, 0, 2, 1, 1])
    weighed, repeated = ColumnScaler().fit(X, sample_weight=weight), ColumnScaler().fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(weighed.scale_, repeated.scale_, rtol=1e-12)
    np.testing.assert_allclose(weighed.mean_, repeated.mean_, rtol=1e-12)
