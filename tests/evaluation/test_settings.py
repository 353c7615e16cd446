"""Reusing fitted steps changes no number; standard deviations are found wherever they are."""

import re
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from tests.helpers.toy_estimators import SPACE, Counted, Spread, TrainMean, kme

from bagwise.bags import BagKFold
from bagwise.embeddings import Pool
from bagwise.evaluation import evaluate
from bagwise.evaluation.selection import as_settings, fit_settings, predict
from bagwise.kernels import Gaussian, InverseMultiquadric
from bagwise.regressors import BagPipeline, PoolPredictions, RidgePath
from bagwise.testing.contract_checks import sample

BAGS, Y = sample(40)
pytestmark = pytest.mark.usefixtures("calm")


def agree(found, model, bags):
    """Equal to the rounding of a prediction b + Σ_j z_j β_j.

    A sum of m terms rounds by at most m ε Σ_j |z_j β_j| <= m ε ‖z‖ ‖β‖, and a row of these kernel means is no longer
    than √k(0) <= 1. At a penalty of 1e-16 ‖β‖ is 1e7, so that this is 1e-7; at 0.1 it is 1e-13.
    """
    coef = model[-1].head_.coef_
    rounding = len(coef) * np.finfo(float).eps * np.linalg.norm(coef)
    np.testing.assert_allclose(found, model.predict(bags), rtol=1e-12, atol=rounding)


@pytest.mark.kernels
def test_reusing_the_fitted_steps_equals_refitting_the_whole():
    settings = as_settings(SPACE)
    train, test = np.arange(30), np.arange(30, 40)
    reused = [p for p, _ in fit_settings(kme(), settings, BAGS[train], Y[train]).predict(BAGS[test])]
    for setting, prediction in zip(settings, reused, strict=True):
        agree(prediction, clone(kme()).set_params(**setting).fit(BAGS[train], Y[train]), BAGS[test])
    assert len(reused) == 4


@pytest.mark.kernels
def test_penalties_share_one_decomposition_and_give_the_numbers_of_a_fit_each(monkeypatch):
    kernels = [Gaussian(1.0), InverseMultiquadric(10.0)]
    settings = (
        *as_settings({"head__embedding__kernel": kernels, "head__head__penalties": [(1e-1,), 1e-3, np.array([1e-16])]}),
        {"head__head__penalties": (1e-2, 1e-4)},  # a choice of its own
        {"head__head__penalties": (1e-2,), "head__grid": {"kernel": kernels}},  # here the penalty chooses the kernel
        {"head__head__penalties": (1e-4,), "head__grid": {"kernel": kernels}},
        {"head__head__penalties": (1e-2,)},
        {"instances__folds": 4, "head__head__penalties": (1e-2,)},
        {"instances__folds": 5, "head__head__penalties": (1e-3,)},
    )
    train, test = np.arange(30), np.arange(30, 40)
    model = kme().set_params(head__offset="mean")
    expected = [clone(model).set_params(**setting).fit(BAGS[train], Y[train]) for setting in settings]
    fits, fit = [], RidgePath.fit
    monkeypatch.setattr(RidgePath, "fit", lambda self, *rest, **more: fits.append(1) or fit(self, *rest, **more))
    found = [p for p, _ in fit_settings(model, settings, BAGS[train], Y[train]).predict(BAGS[test])]
    for prediction, plain in zip(found, expected, strict=True):
        agree(prediction, plain, BAGS[test])
    assert len(fits) == 2 + 1 + 2 * 2 + 1 + 2


def test_untouched_steps_are_fitted_once():
    estimator = Pipeline([("stage", Counted()), ("head", PoolPredictions())])
    Counted.fits = 0
    fit_settings(estimator, as_settings({"head__statistic": ["mean", "median"]}), BAGS, Y)
    assert Counted.fits == 1
    Counted.fits = 0  # a setting that changes the stage itself is refitted every time
    fit_settings(estimator, as_settings({"stage": [Counted(), Counted(), Counted()]}), BAGS, Y)
    assert Counted.fits == 3


def test_standard_deviations_are_found_through_a_pipeline_and_a_search():
    for model in (Spread(), Pipeline([("head", Spread())]), GridSearchCV(Spread(), {"shift": [0.0]}, cv=BagKFold(2))):
        prediction, std = predict(model.fit(BAGS, Y), BAGS)
        assert prediction.shape == std.shape == (40,)
    assert predict(TrainMean().fit(BAGS, Y), BAGS)[1] is None


def pooled(head):
    return make_pipeline(Pool(("mean",)), head)


def test_a_search_as_the_last_step_of_a_pipeline_gives_what_its_best_estimator_gives():
    search = GridSearchCV(BayesianRidge(), {"alpha_1": [1e-6, 1e-3]}, cv=3)
    model = pooled(search).fit(BAGS, Y)
    rows, best = model[0].transform(BAGS), model[-1].best_estimator_
    for found, expected in zip(predict(model, BAGS), best.predict(rows, return_std=True), strict=True):
        np.testing.assert_array_equal(found, expected)
    whole = GridSearchCV(pooled(BayesianRidge()), {"bayesianridge__alpha_1": [1e-6]}, cv=BagKFold(3)).fit(BAGS, Y)
    assert predict(whole, BAGS)[1].shape == (40,)
    assert predict(pooled(GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=3)).fit(BAGS, Y), BAGS)[1] is None
    results = evaluate(BAGS, Y, [("searched", pooled(search))], repeats=1)
    assert results.failures == [] and np.isfinite(results.values("searched", "nll")).all()


class Hundred(Pipeline):
    def predict(self, X, return_std=False):
        mean, std = super().predict(X, return_std=True)
        return (mean + 100, 2 * std) if return_std else mean + 100


class Silent(Pipeline):
    def predict(self, X):
        return super().predict(X) + 100


def test_the_predict_of_a_pipeline_of_the_user_is_called():
    for kind in (Hundred, Silent):
        model = kind([("pool", Pool(("mean",))), ("ridge", BayesianRidge())]).fit(BAGS, Y)
        mean, std = predict(model, BAGS)
        np.testing.assert_array_equal(mean, model.predict(BAGS))
        expected = None if kind is Silent else model.predict(BAGS, return_std=True)[1]
        np.testing.assert_array_equal(std, expected)
    model, settings = Silent(kme().steps), as_settings({"head__head__penalties": [(0.1,), (1e-3,)]})
    found = [mean for mean, _ in fit_settings(model, settings, BAGS[:30], Y[:30]).predict(BAGS[30:])]
    for setting, mean in zip(settings, found, strict=True):
        plain = clone(model).set_params(**setting).fit(BAGS[:30], Y[:30]).predict(BAGS[30:])
        np.testing.assert_allclose(mean, plain, rtol=1e-9)


class Answers(TrainMean):
    """Gives what it is told to, for all bags."""

    def __init__(self, mean=None, std=None, alone=False):
        self.mean, self.std, self.alone = mean, std, alone

    def fit(self, bags, y):
        return self

    def predict(self, bags, return_std=False):
        mean = np.zeros(len(bags)) if self.mean is None else self.mean(bags)
        return mean if self.alone or not return_std else (mean, self.std(bags))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": lambda b: np.zeros((len(b), 1)), "std": len}, r"returned predictions of shape \(8, 1\)"),
        (
            {"std": lambda b: np.ones((len(b), 1))},
            r"returned std of shape \(8, 1\)",
        ),
        ({"std": lambda b: 0.5}, r"returned std of shape \(\)"),
        ({"alone": True}, r"must return \(predictions, std\), not ndarray"),
        (
            {"std": lambda b: np.where(b.ids < 2, -1.0, 1.0)},
            r"bag 0 \(and 1 other\) has a std of -1.0; a finite",
        ),
        ({"std": lambda b: np.where(b.ids == 1, np.nan, 1.0)}, "bag 1 has a std of nan; a finite number that is not"),
        ({"std": lambda b: np.where(b.ids == 1, np.inf, 1.0)}, "bag 1 has a std of inf; a finite number"),
    ],
)
def test_odd_answers_fail_their_cell(options, message):
    split = np.where(np.arange(40) < 8, "test", "train")
    results = evaluate(BAGS, Y, [("odd", Answers(**options))], split=split)
    ((_, _, _, error),) = results.failures
    assert re.search(message, error), error


def test_certainty_has_no_density_and_is_judged_by_the_rest():
    split = np.where(np.arange(40) < 8, "test", "train")
    results = evaluate(BAGS, Y, [("sure", Answers(std=lambda b: np.zeros(len(b))))], split=split)
    assert results.failures == [] and np.isnan(results.values("sure", "nll")).all()
    np.testing.assert_allclose(results.values("sure", "crps"), results.values("sure", "mae"))


class Exits(TrainMean):
    def fit(self, bags, y):
        sys.exit("no licence")


def test_a_method_that_exits_fails_alone():
    results = evaluate(BAGS, Y, [("exits", Exits()), ("mean", TrainMean())], repeats=1)
    assert [failure[0] for failure in results.failures] == ["exits"] * 5
    assert "SystemExit: no licence" in results.failures[0][3] and np.isfinite(results.values("mean")).all()


def test_standard_deviations_are_found_through_pipelines_of_the_catalogue():
    """`BagPipeline` has a `predict` of its own, so they were lost, and penalties shared no decomposition."""
    results = evaluate(BAGS, Y, "instance-kme-shrinkage", repeats=1, folds=2, tune=False)
    assert results.failures == [] and np.isfinite(results.values("instance-kme-shrinkage", "nll")).all()
    steps = BagPipeline(kme().steps)
    settings = as_settings({"head__head__penalties": [(0.1,), (1e-3,)]})
    assert [n_settings for _, n_settings in fit_settings(steps, settings, BAGS, Y).models] == [2]
