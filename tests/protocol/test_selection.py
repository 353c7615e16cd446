"""Reusing fitted steps changes no number; choosing inside equals scikit-learn's grid search."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from toy_estimators import Counted, Spread, TrainMean

import bagwise as bw
from bagwise.embeddings import KernelMean
from bagwise.heads import RidgePath
from bagwise.instances import BagKFold, OutOfFold
from bagwise.kernels import Gaussian, InverseMultiquadric
from bagwise.protocol.selection import as_settings, choose_inside, chooses_by_itself, predict, predict_settings
from bagwise.regressors import EmbeddingRidge, PoolPredictions
from bagwise.testing.contracts import sample
from bagwise.threads import one_thread

BAGS, Y = sample(40)


@pytest.fixture(autouse=True)
def calm():
    with one_thread():  # as cells run; many threads on small matrices are slow on a busy machine
        yield


SPACE = {
    "head__embedding__kernel": [k(b) for k, b in ((Gaussian, 1.0), (InverseMultiquadric, 10.0))],
    "head__head__penalties": [(10.0**-e,) for e in (1, 16)],
}


def kme():
    head = EmbeddingRidge(KernelMean(units="label"), RidgePath((1e-8,), scaling="none", fit_intercept=False))
    return Pipeline([("instances", OutOfFold(LinearRegression(), folds=3)), ("head", head)])


def test_reusing_the_fitted_steps_equals_refitting_the_whole():
    settings = as_settings(SPACE)
    train, test = np.arange(30), np.arange(30, 40)
    reused = [p for p, _ in predict_settings(kme(), settings, BAGS[train], Y[train], BAGS[test])]
    for setting, prediction in zip(settings, reused, strict=True):
        plain = clone(kme()).set_params(**setting).fit(BAGS[train], Y[train]).predict(BAGS[test])
        np.testing.assert_allclose(prediction, plain, rtol=1e-9)
    assert len(reused) == 4


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
    expected = [
        clone(model).set_params(**setting).fit(BAGS[train], Y[train]).predict(BAGS[test]) for setting in settings
    ]
    fits, fit = [], RidgePath.fit
    monkeypatch.setattr(RidgePath, "fit", lambda self, *rest, **more: fits.append(1) or fit(self, *rest, **more))
    found = [p for p, _ in predict_settings(model, settings, BAGS[train], Y[train], BAGS[test])]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert len(fits) == 2 + 1 + 2 * 2 + 1 + 2


def test_untouched_steps_are_fitted_once():
    estimator = Pipeline([("stage", Counted()), ("head", PoolPredictions())])
    Counted.fits = 0
    list(predict_settings(estimator, as_settings({"head__statistic": ["mean", "median"]}), BAGS, Y, BAGS))
    assert Counted.fits == 1
    Counted.fits = 0  # a setting that changes the stage itself is refitted every time
    list(predict_settings(estimator, as_settings({"stage": [Counted(), Counted(), Counted()]}), BAGS, Y, BAGS))
    assert Counted.fits == 3


def test_choosing_inside_equals_grid_search():
    settings = as_settings(SPACE)
    chosen = choose_inside(kme(), settings, BAGS, Y, metric="rmse", random_state=3)
    search = GridSearchCV(kme(), SPACE, cv=BagKFold(5, random_state=3), scoring="neg_root_mean_squared_error")
    best = search.fit(BAGS, Y).best_params_
    assert {name: repr(value) for name, value in chosen.items()} == {name: repr(value) for name, value in best.items()}


def test_groups_stay_together_while_choosing():
    bags = bw.Bags(BAGS.instances, BAGS.offsets, groups=np.arange(40) // 10)  # four groups: four folds, not five
    assert choose_inside(TrainMean(), as_settings({"shift": [5.0, 0.0]}), bags, Y, metric="mae", random_state=0) == {
        "shift": 0.0
    }


def test_choosing_by_what_a_method_does_not_give_is_refused():
    with pytest.raises(ValueError, match="nll needs standard deviations, which this method does not give"):
        choose_inside(TrainMean(), as_settings({"shift": [0.0, 1.0]}), BAGS, Y, metric="nll", random_state=0)


def test_standard_deviations_are_found_through_a_pipeline_and_a_search():
    for model in (Spread(), Pipeline([("head", Spread())]), GridSearchCV(Spread(), {"shift": [0.0]}, cv=BagKFold(2))):
        prediction, std = predict(model.fit(BAGS, Y), BAGS)
        assert prediction.shape == std.shape == (40,)
    assert predict(TrainMean().fit(BAGS, Y), BAGS)[1] is None


def test_a_method_with_a_grid_chooses_by_itself():
    assert not chooses_by_itself(kme())
    assert chooses_by_itself(kme().set_params(head__grid={"kernel": [Gaussian()]}))
