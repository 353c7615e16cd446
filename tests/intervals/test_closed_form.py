import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

import bagwise as bw
from bagwise.embeddings import KernelMean, Pool, SecondKernel
from bagwise.instances import EachInstance, OutOfFold
from bagwise.intervals import Intervals
from bagwise.intervals.calibration import FoldModels, LeavingOut, LeftOutHead, LeftOutRidge, by_ridge
from bagwise.kernels import Gaussian
from bagwise.regressors import EmbeddingRidge, RidgePath

rng = np.random.default_rng(0)
Z, NEW, Y = rng.normal(size=(20, 4)), rng.normal(size=(6, 4)), rng.normal(size=20)
REFITS = ("auto", True, False)
GROUPS = rng.integers(0, 6, 20)
WEIGHTS = rng.uniform(0.5, 2.0, 20)
BAGS, TARGETS = bw.datasets.make_problem("mean", 30, random_state=1)
UNSEEN, _ = bw.datasets.make_problem("mean", 8, random_state=2)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_left_out_predictions_at_new_rows_are_those_of_a_refit(kernel, groups, weights, intercept):
    rows, new = (Z, NEW) if kernel == "linear" else (Z @ Z.T, NEW @ Z.T)
    head = LeavingOut((0.3,), scaling="none", fit_intercept=intercept, kernel=kernel)
    head.fit(rows, Y, sample_weight=weights, groups=groups)
    unit = np.arange(20) if groups is None else np.unique(groups, return_inverse=True)[1]
    got = LeftOutHead(head, unit).predict(new)
    w = np.ones(20) if weights is None else weights / weights.mean()
    for u in range(unit.max() + 1):
        kept = unit != u
        # RidgePath makes the mean weight one; the penalty must stay what it was against the weights of the whole set
        plain = RidgePath((0.3 / w[kept].mean(),), scaling="none", fit_intercept=intercept)
        refit = plain.fit(Z[kept], Y[kept], sample_weight=w[kept])
        np.testing.assert_allclose(got[u], refit.predict(NEW), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("embedding", [Pool(("mean",)), SecondKernel(KernelMean(Gaussian(2.0)), kernel=Gaussian(1.0))])
def test_a_method_leaves_its_training_bags_out(embedding):
    """Asked about a training bag, the model without it is off by the free residual."""
    column = BAGS.replace(BAGS.instances[:, :1])
    ridge = by_ridge(EmbeddingRidge(embedding, RidgePath((1e-3,)), offset="mean"), column, TARGETS, None)
    left_out = ridge.left_out.predict_folds(column)[np.arange(30), np.arange(30)]
    np.testing.assert_allclose(left_out, ridge.held_out, rtol=1e-6, atol=1e-9)


def test_with_everything_fixed_jackknife_plus_needs_no_refit():
    """No choice and no stage that learns: the closed form and a fit per bag give the same intervals."""
    method = EmbeddingRidge(Pool(("mean",)), RidgePath((0.5,), scaling="none"))
    free = Intervals(method, kind="jackknife+").fit(BAGS, TARGETS)
    slow = Intervals(method, kind="jackknife+", refit=True).fit(BAGS, TARGETS)
    assert isinstance(free.left_out_, LeftOutRidge) and isinstance(slow.left_out_, FoldModels)
    np.testing.assert_allclose(free.residuals_, slow.residuals_, rtol=1e-7, atol=1e-9)
    none = [clone(model).set_params(scale="none").fit(BAGS, TARGETS) for model in (free, slow)]
    np.testing.assert_allclose(*(model.predict_interval(UNSEEN) for model in none), rtol=1e-7)
    np.testing.assert_allclose(free.predict(UNSEEN), slow.predict(UNSEEN), rtol=1e-12)


def is_free(method, bags=BAGS) -> bool:
    return by_ridge(method, bags, TARGETS, None) is not None


def test_the_closed_form_is_used_only_where_it_is_honest():
    ridge = EmbeddingRidge(KernelMean(Gaussian(1.0)), RidgePath((1e-2,)))
    assert is_free(Pipeline([("instances", OutOfFold(LinearRegression())), ("head", ridge)]))
    assert not is_free(Pipeline([("instances", EachInstance(LinearRegression())), ("head", ridge)]))  # learns from y
    assert not is_free(bw.method("blr"))
    mean = EmbeddingRidge(Pool(("mean",)))
    assert is_free(mean) and not is_free(Pipeline([("scale", "passthrough"), ("rest", Pipeline([("head", mean)]))]))
    assert not is_free(mean, bags=BAGS[np.r_[0, 0:29]])  # a bag that stands twice is never left out alone


def test_a_ridge_that_fits_every_bag_exactly_is_refitted():
    apart = bw.from_arrays(list(1e6 * np.eye(12)[:, None, :]))
    exact = EmbeddingRidge(Pool(("mean",)), RidgePath((1e-12,), scaling="none", fit_intercept=False))
    assert by_ridge(exact, apart, TARGETS[:12], None) is None
    assert isinstance(Intervals(exact, kind="jackknife+").fit(apart, TARGETS[:12]).left_out_, FoldModels)


def test_an_embedding_chosen_with_all_bags_is_left_out_only_when_asked():
    grid = EmbeddingRidge(KernelMean(), RidgePath((1e-2,)), grid={"kernel": [Gaussian(1.0), Gaussian(3.0)]})
    column, y = BAGS.replace(BAGS.instances[:, :1])[:12], TARGETS[:12]
    kinds = {refit: type(Intervals(grid, kind="jackknife+", refit=refit).fit(column, y).left_out_) for refit in REFITS}
    assert kinds == {"auto": FoldModels, True: FoldModels, False: LeftOutRidge}
