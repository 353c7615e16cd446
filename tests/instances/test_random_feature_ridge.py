"""Closed forms against explicit refits: every held-out prediction is that of a ridge trained without the fold."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from bagwise.instances import random_feature_ridge as module
from bagwise.instances.out_of_fold import CrossFitting
from bagwise.instances.random_feature_ridge import RandomFeatureRidge
from bagwise.kernels.formulas import KERNELS, FourierFeatures, NystroemFeatures

PENALTIES = (1e-7, 1e-4, 1e-1)
KINDS = ("refit", "fold-mean", "last-fold")


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


class UnweighedFeatures(FourierFeatures):
    """The map as `cross_fit` fits it; that of a weighted `fit` is weighted, where the map takes weights."""

    def fit(self, X, y=None):
        return super().fit(X)


def make_bags(sizes, n_columns=3, seed=0):
    """Rows of bags of the given sizes, shuffled, with targets that are the same inside a bag."""
    rng = np.random.default_rng(seed)
    bag = rng.permutation(np.repeat(rng.permutation(len(sizes)), sizes))
    X = rng.normal(size=(len(bag), n_columns)) + rng.normal(size=(len(sizes), n_columns))[bag]
    y = 5.0 + rng.normal(size=len(sizes))[bag] + np.sin(2 * X[:, 0]) + X[:, 1]
    return X, y, bag


def refits(features, X, y, fold, penalties, weight=None):
    """For every penalty the ridges trained without each fold, one after the other."""
    weight = np.ones(len(y)) if weight is None else weight
    phi = clone(features).fit(X).transform(X).astype(np.float64)
    trace = (weight[:, None] * (phi - np.average(phi, axis=0, weights=weight)) ** 2).sum()

    def train(penalty, rows):
        return Ridge(penalty * trace, solver="svd").fit(phi[rows], y[rows], sample_weight=weight[rows])

    return [[train(penalty, fold != k) for k in np.unique(fold)] for penalty in penalties], phi


def held_out(features, X, y, fold, penalties, weight=None):
    models, phi = refits(features, X, y, fold, penalties, weight)
    out = np.empty((len(y), len(penalties)))
    for p, per_fold in enumerate(models):
        for k, model in zip(np.unique(fold), per_fold, strict=True):
            out[fold == k, p] = model.predict(phi[fold == k])
    return out


UNEQUAL = [*range(1, 21), 30, 40]
CASES = {
    "few folds": ([5, 1, 9, 30, 12, 3], 32),
    "few folds, fewer rows than features": ([2, 1, 3, 4], 64),
    "every bag of 1 to 40 rows": (UNEQUAL, 40),
    "bags longer than the features": ([150, 200, *UNEQUAL], 16),
    "bags of one row": ([1] * 60, 16),
    "fewer rows than features": ([1, 2, 3] * 8, 64),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_held_out_predictions_equal_refits(case, weighted):
    sizes, n_features = CASES[case]
    X, y, fold = make_bags(sizes)
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(y)) if weighted else None
    features = FourierFeatures(n_features)
    result = RandomFeatureRidge(features, penalties=PENALTIES).cross_fit(X, y, fold, sample_weight=weight)
    expected = held_out(features, X, y, fold, PENALTIES, weight)
    assert result.candidates == tuple({"penalty": p} for p in PENALTIES)
    np.testing.assert_allclose(result.predictions, expected, rtol=0, atol=1e-8 * np.abs(y).max())


@pytest.mark.parametrize("constants", [{"FEW_FOLDS": 0}, {"FEW_FOLDS": 0, "LONG_FOLD": 5}, {"STORED_FOLDS": 2}])
def test_every_route_gives_the_same(monkeypatch, constants):
    X, y, fold = make_bags([5, 1, 9, 30, 12, 3, 40])
    ridge = RandomFeatureRidge(FourierFeatures(10), penalties=PENALTIES)
    one = ridge.cross_fit(X, y, fold)
    for name, value in constants.items():
        monkeypatch.setattr(module, name, value)
    other = ridge.cross_fit(X, y, fold)
    np.testing.assert_allclose(other.predictions, one.predictions, rtol=1e-8)
    for kind in KINDS:
        new = [result.predictor(1, kind).predict(X) for result in (one, other)]
        np.testing.assert_allclose(*new, rtol=1e-8)


@pytest.mark.parametrize("case", ["few folds", "every bag of 1 to 40 rows", "bags longer than the features"])
def test_predictors_equal_refits(case):
    sizes, n_features = CASES[case]
    X, y, fold = make_bags(sizes)
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    features = UnweighedFeatures(n_features)
    result = RandomFeatureRidge(features, penalties=PENALTIES).cross_fit(X, y, fold, sample_weight=weight)
    models, _ = refits(features, X, y, fold, PENALTIES, weight)
    new = np.random.default_rng(2).normal(size=(30, 3))
    phi = clone(features).fit(X).transform(new)
    for p in range(len(PENALTIES)):
        each = np.array([model.predict(phi) for model in models[p]])
        tolerance = {"rtol": 0, "atol": 1e-8 * np.abs(y).max()}
        np.testing.assert_allclose(result.predictor(p, "fold-mean").predict(new), each.mean(axis=0), **tolerance)
        np.testing.assert_allclose(result.predictor(p, "last-fold").predict(new), each[-1], **tolerance)
        alone = RandomFeatureRidge(features, penalties=PENALTIES[p]).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(result.predictor(p, "refit").predict(new), alone.predict(new), **tolerance)


def test_last_fold_may_be_a_long_or_a_short_one():
    X, y, _ = make_bags([40, 30, 20])
    for last in (np.arange(90) % 30, np.where(np.arange(90) < 60, 29, np.arange(90) % 29)):
        result = RandomFeatureRidge(FourierFeatures(20), penalties=(1e-3,)).cross_fit(X, y, last)
        model = result.predictor(0, "last-fold")
        rows = last == last.max()
        np.testing.assert_allclose(model.predict(X[rows]), result.predictions[rows, 0], rtol=1e-9)


def test_rows_of_weight_zero_are_predicted_but_not_learned_from():
    X, y, fold = make_bags(UNEQUAL)
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
    features, spoiled = FourierFeatures(20), np.where(weight == 0, 1e3, y)
    ridge = RandomFeatureRidge(features, penalties=PENALTIES)
    result = ridge.cross_fit(X, y, fold, sample_weight=weight)
    np.testing.assert_allclose(result.predictions, held_out(features, X, y, fold, PENALTIES, weight), rtol=1e-8)
    again = ridge.cross_fit(X, spoiled, fold, sample_weight=weight)
    np.testing.assert_allclose(again.predictions, result.predictions, rtol=1e-8)


def test_interpolation_is_not_taken_for_skill():
    """Many more features than rows, almost no penalty, targets of pure noise: there is no skill to report."""
    rng = np.random.default_rng(0)
    X, fold = rng.normal(size=(60, 5)), np.repeat(np.arange(30), 2)
    y = rng.normal(size=30)[fold]
    features, penalties = FourierFeatures(400), (1e-10, 1e-9, 1e-8)
    result = RandomFeatureRidge(features, penalties=penalties).cross_fit(X, y, fold)
    assert np.abs(result.predictor(0, "refit").predict(X) - y).max() < 1e-4  # it does interpolate
    errors = ((result.predictions - y[:, None]) ** 2).mean(axis=0)
    expected = ((held_out(features, X, y, fold, penalties) - y[:, None]) ** 2).mean(axis=0)
    np.testing.assert_allclose(errors, expected, rtol=1e-5)
    assert errors.min() > y.var()


def test_penalties_lost_to_rounding_are_no_candidates():
    X, y, fold = make_bags([1] * 30)
    X[7] = 1e6  # carries the whole spread, so that at 1e-10 its leverage is one to ten digits
    ridge = RandomFeatureRidge(FourierFeatures(2), penalties=(1e-10, 1e-3))
    result = ridge.cross_fit(X, y, fold)
    assert result.candidates == ({"penalty": 1e-3},)
    assert result.predictions.shape == (30, 1)
    assert result.predictor(0, "refit").penalty_ == 1e-3
    all_weight = np.where(fold == 3, 1.0, 1e-30)
    with pytest.raises(ValueError, match="at every penalty up to 0.001 some fold is fitted exactly"):
        ridge.cross_fit(X, y, fold, sample_weight=all_weight)


@pytest.mark.parametrize("folds", [8, 40])
def test_blocks_threads_and_order_change_nothing_but_rounding(folds, monkeypatch):
    X, y, bag = make_bags(UNEQUAL)
    fold = bag % folds
    ridge = RandomFeatureRidge(FourierFeatures(20), penalties=PENALTIES)
    one = ridge.cross_fit(X, y, fold)
    for block_rows in (7, 10_000, 50):
        monkeypatch.setattr(module, "BLOCK_ROWS", block_rows)
        np.testing.assert_allclose(ridge.cross_fit(X, y, fold).predictions, one.predictions, rtol=1e-8)
    alone, threads = (ridge.cross_fit(X, y, fold, n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(alone.predictions, threads.predictions)
    for kind in KINDS:
        np.testing.assert_array_equal(alone.predictor(0, kind).coef_, threads.predictor(0, kind).coef_)
    order = np.random.default_rng(3).permutation(len(y))
    permuted = ridge.cross_fit(X[order], y[order], fold[order])
    np.testing.assert_allclose(permuted.predictions, one.predictions[order], rtol=1e-7)


@pytest.mark.parametrize("grouped", [True, False])
def test_penalty_is_that_of_a_brute_force_search(grouped):
    X, y, bag = make_bags([1, 2, 3] * 10)
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    features = UnweighedFeatures(20)
    model = RandomFeatureRidge(features, penalties=PENALTIES)
    model.fit(X, y, sample_weight=weight, groups=bag if grouped else None)
    expected = held_out(features, X, y, bag if grouped else np.arange(len(y)), PENALTIES, weight)
    errors = [np.average((y - column) ** 2, weights=weight) for column in expected.T]
    np.testing.assert_allclose(model.errors_, errors, rtol=1e-8)
    assert model.penalty_ == PENALTIES[int(np.argmin(errors))]
    np.testing.assert_array_equal(model.penalties_, PENALTIES)


def test_many_rows_without_groups_are_dealt_to_ten_folds(monkeypatch):
    X, y, _ = make_bags(UNEQUAL)
    monkeypatch.setattr(module, "MANY_ROWS", 100)
    ridge = RandomFeatureRidge(FourierFeatures(20))
    fold = ridge._row_folds(X, y)
    assert np.ptp(np.bincount(fold)) <= 1 and len(np.bincount(fold)) == 10
    order = np.random.default_rng(3).permutation(len(y))
    np.testing.assert_array_equal(ridge._row_folds(X[order], y[order]), fold[order])
    assert ridge.fit(X, y).penalty_ == ridge.fit(X[order], y[order]).penalty_


def test_penalty_does_not_depend_on_the_scale_of_weights_or_the_number_of_rows():
    X, y, _ = make_bags(UNEQUAL)
    ridge = RandomFeatureRidge(FourierFeatures(20), penalties=1e-3)
    once = ridge.fit(X, y).predict(X)
    np.testing.assert_allclose(ridge.fit(X, y, sample_weight=np.full(len(y), 9.0)).predict(X), once, rtol=1e-9)
    np.testing.assert_allclose(ridge.fit(np.vstack([X, X]), np.hstack([y, y])).predict(X), once, rtol=1e-9)


@pytest.mark.kernels
def test_features_of_single_precision_do_not_depend_on_the_other_rows():
    X = np.random.default_rng(0).normal(size=(3000, 11)).astype(np.float32)
    features = FourierFeatures(64).fit(X)
    whole = features.transform(X)
    for rows in (1, 2, 3, 5, 7, 13, 100, 1023, 1025, 2999):
        # Products in double differ by 1e-16; after rounding to single, one in 1e8 may fall on the other side.
        assert np.mean(features.transform(X[:rows]) != whole[:rows]) < 1e-5


@pytest.mark.kernels
def test_float32_is_close_to_float64():
    X, y, fold = make_bags(UNEQUAL)
    features = FourierFeatures(64).fit(X)
    phi = features.transform(X.astype(np.float32))
    assert phi.dtype == np.float32
    np.testing.assert_allclose(phi, features.transform(X), atol=1e-5)
    single = RandomFeatureRidge(FourierFeatures(64), penalties=(1e-4,)).cross_fit(X.astype(np.float32), y, fold)
    expected = held_out(FourierFeatures(64), X.astype(np.float32), y, fold, (1e-4,))
    np.testing.assert_allclose(single.predictions, expected, rtol=1e-8)


def test_constant_column_and_constant_target():
    X, y, fold = make_bags(UNEQUAL)
    X = np.column_stack([X, np.full(len(y), 0.1)])
    features = FourierFeatures(20)
    result = RandomFeatureRidge(features, penalties=PENALTIES).cross_fit(X, y, fold)
    np.testing.assert_allclose(result.predictions, held_out(features, X, y, fold, PENALTIES), rtol=1e-8)
    model = RandomFeatureRidge(features).fit(X, np.full(len(y), 3.7), groups=fold)
    np.testing.assert_allclose(model.predict(X), 3.7, rtol=1e-12)
    model = RandomFeatureRidge(features).fit(np.full_like(X, 0.1), y, groups=fold)
    np.testing.assert_allclose(model.predict(X[:3] * 0 + 0.1), y.mean(), rtol=1e-9)


def test_seeds_pickles_and_clones():
    X, y, fold = make_bags([3] * 10)
    ridge = RandomFeatureRidge(random_state=1, penalties=(1e-3, 1e-1))
    assert isinstance(ridge, CrossFitting)
    one, two = ridge.cross_fit(X, y, fold), clone(ridge).cross_fit(X, y, fold)
    np.testing.assert_array_equal(one.predictions, two.predictions)
    other = clone(ridge).set_params(random_state=2).cross_fit(X, y, fold)
    assert np.abs(other.predictions - one.predictions).max() > 1e-6
    assert not hasattr(ridge, "features_")  # cross-fitting leaves the regressor as it was
    back = pickle.loads(pickle.dumps(one))
    for kind in KINDS:
        model = one.predictor(1, kind)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
        np.testing.assert_array_equal(back.predictor(1, kind).predict(X), model.predict(X))
    np.testing.assert_array_equal(model.predict(X[4:5]), model.predict(X)[4:5])


@pytest.mark.parametrize("kernel", KERNELS)
def test_features_approximate_the_kernel(kernel):
    X, _, _ = make_bags([60])
    for features, tolerance in ((FourierFeatures(8_000), 0.06), (NystroemFeatures(60), 1e-5)):
        phi = features.set_params(kernel=kernel, linear=False, bandwidth=2.0).fit_transform(X)
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        np.testing.assert_allclose(phi @ phi.T, KERNELS[kernel][0](features.bandwidth_)(Z, Z), atol=tolerance)
        with_inputs = clone(features).set_params(linear=True).fit_transform(X)
        np.testing.assert_allclose(with_inputs, np.hstack([phi, Z / np.sqrt(3)]), atol=1e-12)


def test_bandwidth_is_the_median_rule_whatever_the_order_of_rows():
    X, _, _ = make_bags([50] * 30)
    features = FourierFeatures(4, bandwidth=3.0)
    order = np.random.default_rng(3).permutation(len(X))
    assert features.fit(X).bandwidth_ == pytest.approx(features.fit(X[order]).bandwidth_, rel=1e-12)
    few = np.array([[0.0], [1.0], [1.0], [3.0]])  # distinct rows 0, 1, 3: distances 1, 2, 3
    assert features.fit(few).bandwidth_ == pytest.approx(3.0 * 2 / few.std() / np.sqrt(2))


def test_nystroem_features_serve_as_well():
    X, y, fold = make_bags(UNEQUAL)
    features = NystroemFeatures(30)
    result = RandomFeatureRidge(features, penalties=PENALTIES).cross_fit(X, y, fold)
    np.testing.assert_allclose(result.predictions, held_out(features, X, y, fold, PENALTIES), rtol=1e-7)
    assert NystroemFeatures(30).fit(np.repeat(X[:5], 9, axis=0)).landmarks_.shape == (5, 3)


@pytest.mark.parametrize(
    "features, message",
    [
        (FourierFeatures(7), "n_features must be even"),
        (FourierFeatures(0), "n_features must be at least 2, not 0"),
        (FourierFeatures(bandwidth=0.0), "bandwidth must be above zero, not 0.0"),
        (NystroemFeatures(kernel="cubic"), "kernel must be 'gaussian', .*, not 'cubic'"),
    ],
)
def test_errors_of_features(features, message):
    with pytest.raises(ValueError, match=message):
        features.fit(np.eye(3))
    with pytest.raises(NotFittedError):
        features.transform(np.eye(3))


def test_errors():
    X, y, fold = make_bags([3] * 5)
    ridge = RandomFeatureRidge(FourierFeatures(4))
    with pytest.raises(ValueError, match="need at least two folds with rows of positive weight; got 1"):
        ridge.cross_fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="need at least two folds with rows of positive weight; got 1"):
        ridge.cross_fit(X, y, fold, sample_weight=(fold == 1) * 1.0)
    for bad in (0.0, 1e-12, np.nan):
        with pytest.raises(ValueError, match="penalties must be numbers of at least 1e-10; got"):
            RandomFeatureRidge(penalties=bad).fit(X, y)
    with pytest.raises(ValueError, match="penalties must be numbers of at least 1e-10; got \\[\\]"):
        RandomFeatureRidge(penalties=()).cross_fit(X, y, fold)
    with pytest.raises(ValueError, match="kind must be 'fold-mean', 'refit' or 'last-fold', not 'best'"):
        ridge.cross_fit(X, y, fold).predictor(0, "best")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ridge.cross_fit(X, y, fold[:-1])
    with pytest.raises(ValueError, match="Negative values"):
        ridge.cross_fit(X, y, fold, sample_weight=-np.ones(len(y)))
    with pytest.raises(NotFittedError):
        ridge.predict(X)
