import pickle
import warnings
from math import ceil

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import bagwise as bw
from bagwise.auto import AutoRegressor
from bagwise.bags import bag_folds
from bagwise.embeddings import Pool
from bagwise.intervals import Intervals, calibration
from bagwise.model_files import load_model, save_model
from bagwise.regressors import EmbeddingRidge, RidgePath
from bagwise.testing import bag_estimator_checks

BAGS, Y = bw.datasets.make_problem("mean", 40, random_state=0)
NEW, Y_NEW = bw.datasets.make_problem("mean", 25, random_state=1)
TREES = bw.method("statistics").set_params(head__max_iter=10)
RIDGE = EmbeddingRidge(Pool(("mean",)), RidgePath((1e-2,)))


def naive_cv_plus(method, fold, level):
    """The CV+ interval of every new bag, in plain loops."""
    models = [clone(method).fit(BAGS[fold != k], Y[fold != k]) for k in range(fold.max() + 1)]
    residual = [abs(Y[i] - models[fold[i]].predict(BAGS[[i]])[0]) for i in range(40)]
    rank = ceil(level * 41 - 1e-9)
    rows = []
    for x in range(len(NEW)):
        said = [model.predict(NEW[[x]])[0] for model in models]
        low = sorted(said[fold[i]] - residual[i] for i in range(40))
        high = sorted(said[fold[i]] + residual[i] for i in range(40))
        rows.append((low[40 - rank], high[rank - 1]))
    return np.array(rows)


@pytest.mark.parametrize("kind, folds", [("cv+", 5), ("cv+", "auto"), ("jackknife+", "each")])
def test_the_interval_is_that_of_the_naive_loops(kind, folds):
    model = Intervals(RIDGE, kind=kind, scale="none", refit=True, **({"folds": folds} if kind == "cv+" else {}))
    model.fit(BAGS, Y)
    np.testing.assert_array_equal(model.fold_, bag_folds(BAGS, folds))
    for level in (0.9, 0.7):
        expected = naive_cv_plus(RIDGE, model.fold_, level)
        np.testing.assert_allclose(model.predict_interval(NEW, level=level), expected, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(NEW), clone(RIDGE).fit(BAGS, Y).predict(NEW))


@pytest.mark.parametrize("kind", ["cv+", "jackknife+", "split"])
def test_bags_taken_a_few_at_a_time_have_the_same_intervals(kind, monkeypatch):
    model = Intervals(RIDGE, kind=kind).fit(BAGS, Y)
    expected = model.predict_interval(NEW)
    monkeypatch.setattr("bagwise.intervals.conformal.VALUES_AT_ONCE", 100)
    np.testing.assert_allclose(model.predict_interval(NEW), expected, rtol=1e-12)


def test_a_split_holds_out_as_many_bags_as_the_level_needs():
    sizes = {level: len(Intervals(kind="split", level=level).fit(BAGS, Y).calibration_) for level in (0.8, 0.92, 0.95)}
    assert sizes == {0.8: 10, 0.92: 14, 0.95: 20}


@pytest.mark.parametrize("kind", ["cv+", "jackknife+", "split"])
def test_the_laws_hold_for_intervals_too(kind):
    model = Intervals(kind=kind).fit(BAGS, Y)
    interval = model.predict_interval(NEW)
    alone = np.concatenate([model.predict_interval(NEW[[i]]) for i in range(len(NEW))])
    np.testing.assert_allclose(alone, interval, rtol=1e-9)
    turned = bw.from_arrays([bag[::-1] for bag in NEW])
    np.testing.assert_allclose(model.predict_interval(turned), interval, rtol=1e-9)
    order = np.random.default_rng(0).permutation(40)
    shuffled = clone(model).fit(BAGS[order], Y[order])
    np.testing.assert_allclose(shuffled.predict_interval(NEW), interval, rtol=1e-7)
    np.testing.assert_allclose(clone(model).fit(BAGS, 1e9 * Y).predict_interval(NEW), 1e9 * interval, rtol=1e-4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_interval(NEW), interval)


@pytest.mark.parametrize("name, check", [c for c in bag_estimator_checks() if c[0] != "n_jobs_changes_nothing"])
def test_it_is_a_bag_estimator(name, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # too few bags
        check(Intervals("aggregated", folds=3))


@pytest.mark.slow
def test_n_jobs_changes_no_interval(monkeypatch):
    monkeypatch.setattr(calibration, "WORKERS_START", 0.0)
    one, two = (Intervals(n_jobs=n).fit(BAGS, Y).predict_interval(NEW) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["cv+", "jackknife+"])
def test_a_saved_model_gives_the_same_intervals(kind, tmp_path):
    model = Intervals(kind=kind, folds=3).fit(BAGS, Y)
    save_model(model, tmp_path / "model.bagwise")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.bagwise").predict_interval(NEW), model.predict_interval(NEW)
    )


CASES = [
    (TREES, {}),
    (TREES, {"kind": "split"}),
    ("aggregated", {"kind": "jackknife+"}),
    (RIDGE, {"kind": "jackknife+", "refit": True}),
    (RIDGE, {"scale": "none"}),
    ("blr", {"scale": "std", "folds": 3}),
]


@pytest.mark.parametrize("method, options", CASES)
def test_the_prediction_is_inside_at_every_level(method, options):
    """Quantiles of fold models crossed at low levels, and left the prediction outside."""
    model = Intervals(method, **options).fit(BAGS, Y)
    said, widest = model.predict(NEW), None
    for level in (0.01, 0.1, 0.3, 0.9):
        low, high = model.predict_interval(NEW, level=level).T
        assert (low <= said).all() and (said <= high).all()
        if widest is not None:
            assert (low <= widest[0]).all() and (widest[1] <= high).all()
        widest = low, high


def test_weights_are_for_training_only():
    weights = np.linspace(0.5, 1.5, 40)
    model = Intervals(RIDGE, scale="none", folds=4).fit(BAGS, Y, sample_weight=weights)
    for k, fitted in enumerate(model.left_out_.models):
        train = model.fold_ != k
        alone = clone(RIDGE).fit(BAGS[train], Y[train], sample_weight=weights[train])
        np.testing.assert_allclose(fitted.predict(NEW), alone.predict(NEW), rtol=1e-10)
    np.testing.assert_array_equal(model.shares_, 1.0)


@pytest.mark.parametrize("kind", ["cv+", "jackknife+", "split"])
def test_a_bag_of_weight_zero_has_no_say(kind):
    weights = (np.arange(40) % 4 != 0).astype(float)
    some = np.flatnonzero(weights)
    weighted = Intervals(kind=kind).fit(BAGS, Y, sample_weight=weights)
    dropped = Intervals(kind=kind).fit(BAGS[some], Y[some])
    np.testing.assert_allclose(weighted.predict_interval(NEW), dropped.predict_interval(NEW), rtol=1e-9)
    np.testing.assert_array_equal(weighted.calibration_, some[dropped.calibration_])


def test_instance_weights_covariates_and_missing_values_reach_the_method():
    rng = np.random.default_rng(0)
    covariates = rng.normal(size=(40, 1))
    bags = bw.Bags(BAGS.instances, BAGS.offsets, covariates=covariates, weights=rng.uniform(1, 2, BAGS.n_instances))
    y = Y + 5.0 * covariates[:, 0]
    narrow = {kind: np.diff(Intervals(kind=kind).fit(bags, y).predict_interval(bags)) for kind in ("cv+", "jackknife+")}
    blind = np.diff(Intervals().fit(BAGS, y).predict_interval(BAGS))
    assert all(4 * width.mean() < blind.mean() for width in narrow.values())


class KeepsFolds(BaseEstimator):
    """A method that keeps its fold models, as automatic selection does, and counts its fits."""

    fits = 0

    def fit(self, bags, y):
        KeepsFolds.fits += 1
        self.fold_ = bag_folds(bags, 4, random_state=9)
        self.models_ = [clone(RIDGE).fit(bags[self.fold_ != k], y[self.fold_ != k]) for k in range(4)]
        self.held_out_ = self.predict_folds(bags)[self.fold_, np.arange(len(bags))]
        return self

    def predict_folds(self, bags):
        return np.stack([model.predict(bags) for model in self.models_])

    def predict(self, bags):
        return self.predict_folds(bags).mean(axis=0)


class TestKeptFolds:
    def test_a_method_that_keeps_its_folds_is_fitted_once(self):
        KeepsFolds.fits = 0
        model = Intervals(KeepsFolds(), scale="none").fit(BAGS, Y)
        assert KeepsFolds.fits == 1
        expected = naive_cv_plus(RIDGE, bag_folds(BAGS, 4, random_state=9), 0.9)
        np.testing.assert_allclose(model.predict_interval(NEW), expected, rtol=1e-9)

    def test_a_fitted_method_is_copied_and_fitted_to_what_is_given(self):
        """One that was fitted on the same bags and other targets was taken as it was."""
        fitted = KeepsFolds().fit(BAGS, Y)
        before = fitted.predict(NEW)
        model = Intervals(fitted).fit(BAGS, 7 - 100 * Y)
        expected = Intervals(KeepsFolds()).fit(BAGS, 7 - 100 * Y)
        np.testing.assert_array_equal(model.predict_interval(NEW), expected.predict_interval(NEW))
        assert model.method_ is not fitted
        np.testing.assert_array_equal(fitted.predict(NEW), before)

    def test_automatic_selection_keeps_its_folds(self):
        auto = AutoRegressor(members=["aggregated"], folds=4, transforms=False)
        model = Intervals(auto).fit(BAGS, Y)
        np.testing.assert_array_equal(model.residuals_, Y - auto.fit(BAGS, Y).held_out_)
        np.testing.assert_array_equal(model.left_out_.predict_folds(NEW), auto.predict_folds(NEW))
        assert np.isfinite(model.predict_interval(NEW)).all()

    def test_a_file_holds_fold_models_only_if_intervals_need_them(self, tmp_path):
        auto = AutoRegressor(members=["aggregated", "statistics:forest"], folds=4, transforms=False).fit(BAGS, Y)
        models = {"auto": auto, "split": Intervals(clone(auto), kind="split"), "cv+": Intervals(clone(auto))}
        sizes = {}
        for name, model in models.items():
            if name != "auto":
                model.fit(BAGS, Y)
            save_model(model, tmp_path / name)
            sizes[name] = (tmp_path / name).stat().st_size
            opened = load_model(tmp_path / name)
            np.testing.assert_array_equal(opened.predict(NEW), model.predict(NEW))
            if name != "auto":
                np.testing.assert_array_equal(opened.predict_interval(NEW), model.predict_interval(NEW))
        assert 2 * sizes["auto"] < sizes["cv+"] and 2 * sizes["split"] < sizes["cv+"]


class TestTooFewBags:
    @pytest.mark.parametrize("kind, highest", [("cv+", 0.888), ("jackknife+", 0.888), ("split", 0.8)])
    def test_the_level_that_the_warning_names_is_there(self, kind, highest, tmp_path):
        """It was refused with the words of the level of fitting."""
        with pytest.warns(UserWarning, match=f"of at most {highest};? ?.*no intervals of this level"):
            model = Intervals(kind=kind, level=0.95).fit(BAGS[:8], Y[:8])
        same = Intervals(kind=kind, level=highest, folds=2 if kind == "split" else "auto").fit(BAGS[:8], Y[:8])
        save_model(model, tmp_path / "m.bagwise")
        for one in (model, load_model(tmp_path / "m.bagwise")):
            np.testing.assert_array_equal(one.predict_interval(NEW, level=highest), same.predict_interval(NEW))
            with pytest.raises(ValueError, match=f"level {highest + 0.05:g} needs at least"):
                one.predict_interval(NEW, level=highest + 0.05)

    def test_nine_are_enough_for_nine_in_ten(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            model = Intervals().fit(BAGS[:9], Y[:9])
        assert np.isfinite(model.predict_interval(NEW)).all()
        with pytest.raises(ValueError, match="level 0.95 needs at least 19 calibration bags, and there are 9"):
            model.predict_interval(NEW, level=0.95)

    def test_groups_are_what_counts(self):
        grouped = bw.from_arrays(list(BAGS), groups=np.arange(40) % 5)
        with pytest.warns(UserWarning, match="at least 9 calibration groups, and there are 5"):
            Intervals().fit(grouped, Y)
        assert np.isfinite(Intervals(level=0.8).fit(grouped, Y).predict_interval(NEW)).all()

    def test_a_split_says_that_others_use_every_bag(self):
        with pytest.warns(UserWarning, match="there are 15; .*or kind='cv\\+', which calibrates with all"):
            Intervals(kind="split", level=0.95).fit(BAGS[:30], Y[:30])

    @pytest.mark.parametrize("kind, fewest", [("cv+", 3), ("jackknife+", 3), ("split", 6)])
    def test_the_fewest_bags_of_all(self, kind, fewest):
        with pytest.warns(UserWarning, match=f"needs at least {fewest} bags, and there are {fewest - 1}"):
            none = Intervals(kind=kind, level=0.5).fit(BAGS[: fewest - 1], Y[: fewest - 1])
        assert none.left_out_ is None and np.isfinite(none.predict(NEW)).all()
        with pytest.raises(ValueError, match=f"needs at least {fewest} bags"):
            none.predict_interval(NEW, level=0.1)
        model = Intervals(kind=kind, level=0.5).fit(BAGS[:fewest], Y[:fewest])
        assert np.isfinite(model.predict_interval(NEW)).all()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kind": "cv"}, "kind must be 'cv\\+', 'jackknife\\+' or 'split', not 'cv'"),
        ({"level": 95}, "level is the share of bags to be covered"),
        ({"level": "0.9"}, "a number between 0 and 1, not '0.9'"),
        ({"level": None}, "a number between 0 and 1, not None"),
        ({"scale": "size"}, "scale must be 'bag', 'std', 'none' or an object such as BagScale\\(\\), not 'size'"),
        ({"scale": None}, "scale must be"),
        ({"refit": "never"}, "refit must be 'auto', True or False, not 'never'"),
        ({"method": "agregated"}, "did you mean 'aggregated'"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Intervals(**options).fit(BAGS, Y)


@pytest.mark.parametrize(
    "method, message",
    [
        (Ridge(), "Ridge takes rows, not bags; put an embedding before it, as in BagPipeline"),
        (make_pipeline(StandardScaler(), Ridge()), "StandardScaler takes rows, not bags"),
        (Ridge, "must be a name of the catalogue or a bag regressor, not <class"),
        (3, "must be a name of the catalogue or a bag regressor, not 3"),
    ],
)
def test_what_cannot_read_bags_is_refused(method, message):
    with pytest.raises(TypeError, match=message):
        Intervals(method).fit(BAGS, Y)


@pytest.mark.parametrize(
    "method",
    [
        DummyRegressor(),
        make_pipeline(Pool(("mean",)), Ridge()),
        GridSearchCV(RIDGE, {"head__scaling": ["n"]}, cv=2),
        VotingRegressor([("a", RIDGE)]),
        TransformedTargetRegressor(RIDGE),
        make_pipeline("passthrough", RIDGE),
        make_pipeline(FunctionTransformer(), RIDGE),
    ],
    ids=lambda method: type(method).__name__,
)
def test_parts_of_scikit_learn_that_read_bags_are_taken(method):
    assert np.isfinite(Intervals(method, folds=3).fit(BAGS, Y).predict_interval(NEW)).all()


def test_unfitted_intervals_are_refused():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Intervals().predict_interval(NEW)


@pytest.mark.parametrize("method", [RIDGE, AutoRegressor(["aggregated"], transforms=False)], ids=["ridge", "auto"])
def test_forward_folds_have_scores_of_later_bags_alone(method):
    bags = BAGS.with_validation(bw.Validation("forward", folds=3, time=np.arange(40)))
    model = Intervals(method, scale="none").fit(bags, Y)
    assert model.calibration_.tolist() == list(range(10, 40))
    assert model.fold_.tolist() == np.repeat([0, 1, 2], 10).tolist()
    if method is RIDGE:
        held_out = [clone(RIDGE).fit(BAGS[:n], Y[:n]).predict(BAGS[n : n + 10]) for n in (10, 20, 30)]
        np.testing.assert_allclose(model.residuals_, Y[10:] - np.concatenate(held_out), rtol=1e-9)
    assert np.isfinite(model.predict_interval(NEW)).all()
    assert model.held_out_interval(bags, Y, level=0.8).shape == (30, 2)
    last = Intervals(method, kind="split", level=0.8).fit(bags, Y)
    assert last.calibration_.tolist() == list(range(30, 40))


def test_a_given_split_is_the_calibration_set():
    split = bw.Validation("given", given=["train"] * 25 + ["test"] * 15)
    model = Intervals(RIDGE, folds=split).fit(BAGS, Y)
    assert model.calibration_.tolist() == list(range(25, 40)) and model.left_out_.predict_folds(NEW).shape == (1, 25)
    expected = clone(RIDGE).fit(BAGS[:25], Y[:25]).predict(BAGS[25:])
    np.testing.assert_allclose(model.residuals_, Y[25:] - expected, rtol=1e-9)
