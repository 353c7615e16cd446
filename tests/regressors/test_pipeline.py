"""A pipeline that hands bag weights to the steps that take them, and is a Pipeline in all else."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline

import bagwise as bw
from bagwise.embeddings import Pool, Statistics
from bagwise.instances import EachInstance, OutOfFold
from bagwise.regressors import BagPipeline, EmbeddingRidge, PoolPredictions
from bagwise.regressors.pipeline import standardised

BAGS, Y = bw.datasets.make_gaussian(30, instances=5)
W = np.random.default_rng(0).uniform(0.1, 3.0, size=30)


def test_weights_reach_every_step_that_takes_them():
    pipeline = BagPipeline([("instances", OutOfFold(folds=5)), ("head", EmbeddingRidge(Pool()))])
    by_name = Pipeline(clone(pipeline).steps)
    by_name.fit(BAGS, Y, instances__sample_weight=W, head__sample_weight=W)
    np.testing.assert_allclose(pipeline.fit(BAGS, Y, sample_weight=W).predict(BAGS), by_name.predict(BAGS), rtol=1e-9)
    assert not np.allclose(pipeline.predict(BAGS), clone(pipeline).fit(BAGS, Y).predict(BAGS))


def test_rows_for_a_regressor_of_scikit_learn():
    model = BagPipeline([("rows", Statistics()), ("head", LinearRegression())]).fit(BAGS, Y, sample_weight=W)
    expected = LinearRegression().fit(Statistics().fit_transform(BAGS), Y, sample_weight=W)
    np.testing.assert_allclose(model[-1].coef_, expected.coef_, rtol=1e-8, atol=1e-10)


def test_it_is_a_pipeline_in_all_else():
    model = BagPipeline([("none", "passthrough"), ("scale", standardised()), ("head", EmbeddingRidge(Pool()))])
    model.set_params(head__offset="none").fit(BAGS, Y, W)
    assert type(model[:2]) is BagPipeline and clone(model).get_params()["head__embedding"].statistics == ("mean",)
    assert model[:2].transform(BAGS) == clone(model[:2]).fit_transform(BAGS, Y, sample_weight=W)
    nested = BagPipeline([("inner", clone(model))]).fit(BAGS, Y, W)
    np.testing.assert_array_equal(nested.predict(BAGS), model.predict(BAGS))


def test_an_ensemble_passes_the_weights_on(tmp_path):
    model = bw.method("input-kme", preset="ensemble").fit(BAGS, Y, sample_weight=W)
    members = [clone(member).fit(BAGS, Y, W).predict(BAGS) for _, member in model.estimators]
    np.testing.assert_allclose(model.predict(BAGS), np.mean(members, axis=0), rtol=1e-10)
    again = clone(model).fit(BAGS, Y, W)  # positionally, as every method takes them
    np.testing.assert_array_equal(again.predict(BAGS), model.predict(BAGS))
    bw.save_model(model, tmp_path / "ensemble.bagwise")
    np.testing.assert_array_equal(bw.load_model(tmp_path / "ensemble.bagwise").predict(BAGS), model.predict(BAGS))


def test_refused():
    rows = ("rows", Statistics())
    with pytest.raises(ValueError, match="the last step, KNeighborsRegressor, takes no sample_weight"):
        BagPipeline([rows, ("head", KNeighborsRegressor())]).fit(BAGS, Y, sample_weight=W)
    with pytest.raises(ValueError, match=r"one entry per bag \(30\)"):
        BagPipeline([rows, ("head", Ridge())]).fit(BAGS, Y, sample_weight=W[1:])


def test_instance_folds_need_weight_in_two():
    with pytest.raises(ValueError, match="weight above zero are in one fold"):
        OutOfFold(folds=5).fit(BAGS, Y, np.eye(30)[3])


def test_bag_weights_weigh_the_loss_of_instances_and_choose_candidates():
    stage = EachInstance(Ridge(), scaler=None).fit(BAGS, Y, W)
    expected = Ridge().fit(BAGS.instances, BAGS.expand(Y), BAGS.expand(W / W.mean()))
    np.testing.assert_allclose(stage.estimator_.coef_, expected.coef_, rtol=1e-9)
    assert PoolPredictions().fit(stage.transform(BAGS), Y, W).predict(stage.transform(BAGS)).shape == (30,)


def test_scores_align_a_series_by_bag_id():
    pd = pytest.importorskip("pandas")
    model = EmbeddingRidge(Pool()).fit(BAGS, Y)
    shuffled = pd.Series(Y, index=BAGS.ids).sample(frac=1.0, random_state=0)
    assert model.score(BAGS, shuffled) == model.score(BAGS, Y)
