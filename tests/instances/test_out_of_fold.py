import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import bagwise as bw
from bagwise.bags.segments import segment_mean
from bagwise.instances import CrossFit, EachInstance, OutOfFold

rng = np.random.default_rng(0)
SIZES = rng.integers(1, 9, size=24)
BAGS = bw.from_arrays([rng.normal(size=(n, 3)) for n in SIZES], ids=[f"b{i}" for i in range(24)])
Y = rng.normal(size=24)


class Memory(RegressorMixin, BaseEstimator):
    """Predicts 1 for a row it was trained on, else 0."""

    def fit(self, X, y):
        self.seen_ = {row.tobytes() for row in np.ascontiguousarray(X)}
        return self

    def predict(self, X):
        return np.array([float(row.tobytes() in self.seen_) for row in np.ascontiguousarray(X)])


class Recorder(RegressorMixin, BaseEstimator):
    """Keeps what it was given."""

    def fit(self, X, y, sample_weight=None):
        self.X_, self.y_, self.weight_ = X, y, sample_weight
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize("folds", [2, 5, "auto", "each"])
def test_no_instance_is_predicted_by_a_model_that_saw_its_bag(folds):
    stage = OutOfFold(Memory(), folds=folds, scaler=None)
    assert stage.fit_transform(BAGS, Y).instances.max() == 0
    # The memory works: the final predictor, trained on all folds but one, knows most rows.
    assert stage.transform(BAGS).instances.mean() > 0.4


def test_groups_are_out_of_fold_together():
    grouped = bw.from_arrays([np.full((2, 1), float(i // 4)) for i in range(16)], groups=np.arange(16) // 4)
    assert OutOfFold(Memory(), folds=4, scaler=None).fit_transform(grouped, np.arange(16.0)).instances.max() == 0


def test_equals_a_hand_written_loop():
    stage = OutOfFold(Ridge(), folds=4, weighting="bag")
    got = stage.fit_transform(BAGS, Y).instances[:, 0]
    weights = 1.0 / np.repeat(SIZES, SIZES)
    weights /= weights.mean()
    expected, models = np.empty(len(got)), []
    for k in range(4):
        train = np.isin(np.repeat(np.arange(24), SIZES), np.flatnonzero(stage.fold_ != k))
        scaler = StandardScaler().fit(BAGS.instances[train])
        model = Ridge().fit(scaler.transform(BAGS.instances[train]), np.repeat(Y, SIZES)[train], weights[train])
        expected[~train] = model.predict(scaler.transform(BAGS.instances[~train]))
        models.append((scaler, model))
    np.testing.assert_allclose(got, expected, rtol=1e-10)
    new = bw.from_arrays([rng.normal(size=(4, 3))])
    average = np.mean([model.predict(scaler.transform(new[0])) for scaler, model in models], axis=0)
    np.testing.assert_allclose(stage.transform(new).instances[:, 0], average, rtol=1e-10)
    last = OutOfFold(Ridge(), folds=4, predictor="last-fold").fit(BAGS, Y).transform(new).instances[:, 0]
    np.testing.assert_allclose(last, models[-1][1].predict(models[-1][0].transform(new[0])), rtol=1e-10)


def test_refit_is_one_model_on_everything():
    new = bw.from_arrays([rng.normal(size=(4, 3))])
    got = OutOfFold(LinearRegression(), predictor="refit", weighting="instance").fit(BAGS, Y).transform(new)
    plain = LinearRegression().fit(BAGS.instances, np.repeat(Y, SIZES)).predict(new[0])
    np.testing.assert_allclose(got.instances[:, 0], plain, rtol=1e-10)


def test_weights_reach_a_regressor_that_takes_them():
    stage = EachInstance(Recorder(), scaler=None).fit(BAGS, Y)
    weight = stage.estimator_.weight_
    np.testing.assert_allclose(segment_mean(weight, BAGS.offsets) * SIZES, (weight * np.repeat(SIZES, SIZES))[0])
    assert EachInstance(Recorder(), weighting="instance", scaler=None).fit(BAGS, Y).estimator_.weight_ is None
    bag_weights = np.linspace(1, 2, 24)
    given = EachInstance(Recorder(), weighting="instance", scaler=None).fit(BAGS, Y, sample_weight=bag_weights)
    np.testing.assert_allclose(given.estimator_.weight_ / given.estimator_.weight_[0], np.repeat(bag_weights, SIZES))
    OutOfFold(KNeighborsRegressor(2), folds=3).fit(BAGS, Y)  # takes none, and is given none


def test_same_numbers_whatever_n_jobs():
    forest = RandomForestRegressor(5)
    one = OutOfFold(forest, folds=3, random_state=3).fit_transform(BAGS, Y)
    two = OutOfFold(forest, folds=3, random_state=3, n_jobs=2).fit_transform(BAGS, Y)
    assert one == two
    assert one != OutOfFold(forest, folds=3, random_state=4).fit_transform(BAGS, Y)


def test_order_of_bags_permutes_the_output():
    order = rng.permutation(24)
    straight = OutOfFold(Ridge(), folds=4).fit_transform(BAGS, Y)
    permuted = OutOfFold(Ridge(), folds=4).fit_transform(BAGS[order], Y[order])
    np.testing.assert_allclose(permuted.instances, straight[order].instances, rtol=1e-9)


class TwoWays(RegressorMixin, BaseEstimator):
    """Offers two candidates: the truth and noise."""

    def cross_fit(self, X, y, fold, *, sample_weight=None, n_jobs=None):
        noise = np.random.default_rng(0).normal(size=len(y))
        return CrossFit(np.column_stack([noise, y]), ({"which": "noise"}, {"which": "truth"}), lambda c, kind: self)

    def predict(self, X):
        return np.zeros(len(X))


class Contrary:
    """A judge that likes what is far from the targets."""

    def leave_one_out_error(self, bags, y, sample_weight=None):
        return -np.mean((segment_mean(bags.instances[:, 0], bags.offsets) - y) ** 2)


def test_candidates_are_chosen_by_bag_means_or_by_the_judge():
    assert OutOfFold(TwoWays()).fit(BAGS, Y).candidate_ == {"which": "truth"}
    assert OutOfFold(TwoWays(), judge=Contrary()).fit(BAGS, Y).candidate_ == {"which": "noise"}


def test_each_instance_transforms_and_predicts():
    scaled = EachInstance(MinMaxScaler()).fit_transform(BAGS)
    np.testing.assert_allclose(scaled.instances, MinMaxScaler().fit_transform(BAGS.instances))
    plain = LinearRegression().fit(BAGS.instances, np.repeat(Y, SIZES)).predict(BAGS.instances)
    got = EachInstance(LinearRegression(), weighting="instance").fit_transform(BAGS, Y)
    np.testing.assert_allclose(got.instances[:, 0], plain, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"predictor": "first-fold"}, "predictor must be 'fold-mean', 'refit' or 'last-fold'"),
        ({"weighting": "row"}, "weighting must be 'bag' or 'instance'"),
        ({"folds": 99}, "99 folds need at least 99 bags"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        OutOfFold(**options).fit(BAGS, Y)


def test_more_refusals():
    with pytest.raises(NotFittedError, match="this OutOfFold is not fitted yet"):
        OutOfFold().transform(BAGS)
    with pytest.raises(ValueError, match="one bag is not enough"):
        OutOfFold().fit(BAGS[[0]], Y[:1])
    with pytest.raises(ValueError, match="y has 23 values for 24 bags"):
        OutOfFold().fit(BAGS, Y[1:])
    clone(OutOfFold(Ridge()))


@pytest.mark.parametrize("stage", [OutOfFold, EachInstance])
def test_given_weights_are_never_lost(stage):
    bags, y = bw.datasets.make_gaussian(12, instances=3)
    deaf = stage(KNeighborsRegressor(2)).fit(bags, y)  # nothing to weigh
    assert deaf.transform(bags).n_features == 1
    for given in ((bags, y, np.arange(1.0, 13)), (bags.with_weights(np.arange(1.0, 37)), y)):
        with pytest.raises(ValueError, match="KNeighborsRegressor takes no sample_weight"):
            stage(KNeighborsRegressor(2)).fit(*given)
