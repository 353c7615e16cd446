"""The presets against references written by hand, and the methods inside scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate, learning_curve

import bagwise as bw
from bagwise import testing
from bagwise.kernels import Gaussian, InverseMultiquadric

BAGS, Y = bw.datasets.make_aerosol(60, instances=6, ragged=True, random_state=0)
NEW, _ = bw.datasets.make_aerosol(9, instances=6, ragged=True, random_state=1)
QUICK = {"instances__regressor__epochs": 3, "instances__regressor__hidden": (8,)}


@pytest.mark.parametrize(
    ("preset", "kernel", "penalty", "predictor"),
    [("paper", Gaussian(70.0), 1e-8, "fold-mean"), ("notebook", InverseMultiquadric(100.0), 1e-8 * 60, "last-fold")],
)
def test_preset_is_the_algorithm_by_hand(preset, kernel, penalty, predictor):
    """Parts 2 and 3 of Algorithm 1 by double loops and a solve, from the preset's own instance predictions."""
    model = bw.method("instance-kme", preset=preset).set_params(**QUICK)
    assert model[0].folds == 50 and model[0].predictor == predictor and model[0].weighting == "instance"
    train = clone(model[0]).fit_transform(BAGS, Y)
    new = model.fit(BAGS, Y)[:1].transform(NEW)
    expected = testing.kernel_ridge(testing.mean_gram(kernel, train), Y, penalty, testing.mean_gram(kernel, new, train))
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-4)


def test_networks_of_the_presets():
    paper = bw.method("instance-kme", preset="paper")[0].regressor
    notebook = bw.method("instance-kme", preset="notebook")[0].regressor
    assert (paper.hidden, paper.epochs, paper.weight_decay, paper.scale_target) == ((128,), 100, 0.05, False)
    assert (notebook.hidden, notebook.epochs, notebook.weight_decay, notebook.scale_target) == ((512,), 75, 1.0, False)


def test_the_first_step_gives_instance_predictions():
    model = bw.method("instance-kme:single").set_params(**QUICK).fit(BAGS, Y)
    predictions = model[:1].transform(BAGS)
    assert isinstance(predictions, bw.Bags) and predictions.shape == (60, 1)
    np.testing.assert_array_equal(predictions.offsets, BAGS.offsets)
    h = model[-1].predict(predictions.singles())
    np.testing.assert_allclose(np.add.reduceat(h, BAGS.offsets[:-1]) / BAGS.sizes, model.predict(BAGS), atol=1e-9)


def test_epochs_are_chosen_by_the_second_stage():
    """Labels that only the spread of a bag tells: bag means of any network are useless, yet its late epochs are not."""
    model = bw.method("instance-kme:single").set_params(instances__regressor__epochs=(1, 2, 3)).fit(BAGS, Y)
    errors = model[0].candidate_errors_
    assert model[0].candidate_ == {"epochs": (1, 2, 3)[int(np.argmin(errors))]}
    column = clone(model[0]).fit_transform(BAGS, Y)
    np.testing.assert_allclose(model[0].judge.leave_one_out_error(column, Y), errors.min(), rtol=1e-9)


def test_inside_scikit_learn():
    model = bw.method("instance-kme:single").set_params(**QUICK)
    assert cross_val_score(model, BAGS, Y, cv=3).shape == (3,)
    assert len(cross_validate(model, BAGS, Y, cv=3, return_train_score=True)["train_score"]) == 3
    assert cross_val_predict(model, BAGS, Y, cv=3).shape == (60,)
    sizes, _, scores = learning_curve(model, BAGS, Y, cv=3, train_sizes=[0.5, 1.0])
    assert scores.shape == (2, 3) and list(sizes) == [20, 40]
    search = GridSearchCV(model, {"head__head__scaling": ["n", "none"]}, cv=3, n_jobs=2).fit(BAGS, Y)
    assert np.isfinite(search.best_score_)
    fitted = clone(model).fit(BAGS, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(NEW), fitted.predict(NEW))


def test_instance_mean_is_the_mean_of_one_networks_predictions():
    model = bw.method("instance-mean").set_params(instances__estimator__epochs=3).fit(BAGS, Y)
    within = np.clip(NEW.instances, BAGS.instances.min(axis=0), BAGS.instances.max(axis=0))
    values = model[0].estimator_.predict(within)
    np.testing.assert_allclose(model.predict(NEW), np.add.reduceat(values, NEW.offsets[:-1]) / NEW.sizes, rtol=1e-10)


def test_noise_labels_give_no_skill():
    y = np.random.default_rng(1).normal(size=60)  # not 0, the seed from which the targets of the bags were drawn
    assert cross_val_score(bw.method("instance-kme"), BAGS, y, cv=3).mean() < 0.1
    assert cross_val_score(bw.method("instance-kme:single").set_params(**QUICK), BAGS, y, cv=5).mean() < 0.1


def test_fifty_folds_need_fifty_bags():
    with pytest.raises(ValueError, match="50 folds need at least 50 bags, and there are 20; ask for fewer folds"):
        bw.method("instance-kme", preset="paper").fit(BAGS[:20], Y[:20])


def test_the_paper_preset_warns_of_predictions_far_outside_those_of_training():
    model = bw.method("instance-kme:paper").set_params(**QUICK).fit(BAGS, Y)
    low, high = model[-1].feature_range_in_[:, 0]
    inside, outside = (bw.from_arrays([np.full((3, 1), high + part * (high - low))]) for part in (0.05, 0.2))
    model[-1].predict(inside)
    with pytest.warns(UserWarning, match=r"bag 0 has instance predictions of up to .*Use KernelMean\(beyond='clip'\)"):
        model[-1].predict(outside)
