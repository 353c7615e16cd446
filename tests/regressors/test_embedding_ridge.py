import numpy as np
import pytest

import bagwise as bw
from bagwise import testing
from bagwise.embeddings import KernelMean, Pool, SecondKernel, SlicedQuantiles
from bagwise.kernels import Gaussian, InverseMultiquadric, PrintedInverse
from bagwise.regressors import EmbeddingRidge, PoolPredictions, RidgePath

rng = np.random.default_rng(0)
SPREADS = rng.uniform(0.5, 2.0, size=30)
BAGS = bw.from_arrays([rng.normal(scale=s, size=rng.integers(1, 30)) for s in SPREADS])
NEW = bw.from_arrays([rng.normal(scale=s, size=12) for s in (0.6, 1.9)])
GRID = {"kernel": [Gaussian(0.5), Gaussian(2.0), InverseMultiquadric(1.0)]}


def test_a_fixed_setting_is_kernel_ridge_by_hand():
    head = RidgePath((1e-4,), scaling="none", fit_intercept=False)
    model = EmbeddingRidge(KernelMean(Gaussian(0.8), units="label"), head).fit(BAGS, SPREADS)
    K, K_new = testing.mean_gram(Gaussian(0.8), BAGS), testing.mean_gram(Gaussian(0.8), NEW, BAGS)
    np.testing.assert_allclose(model.predict(NEW), testing.kernel_ridge(K, SPREADS, 1e-4, K_new), rtol=1e-8)


def test_the_chosen_setting_has_the_smallest_error_of_explicit_refits():
    penalties = (1e-5, 1e-3, 1e-1)
    model = EmbeddingRidge(KernelMean(), RidgePath(penalties), grid=GRID).fit(BAGS, SPREADS)
    errors = {}
    for position, kernel in enumerate(GRID["kernel"]):
        Z = KernelMean(kernel).fit_transform(BAGS)
        for penalty in penalties:

            def refit(train, test, Z=Z, penalty=penalty):
                # λ·n of the whole set, as the closed form leaves it
                head = RidgePath((penalty * 30,), scaling="none").fit(Z[train], SPREADS[train])
                return SPREADS[test] - head.predict(Z[test])

            errors[position, penalty] = np.mean(testing.left_out_residuals(refit, 30) ** 2)
    best = min(errors, key=errors.get)
    assert repr(model.setting_["kernel"]) == repr(GRID["kernel"][best[0]]) and model.head_.penalty_ == best[1]
    np.testing.assert_allclose(model.error_, errors[best], rtol=1e-6)
    assert len(model.search_) == 3
    assert model.leave_one_out_error(BAGS, SPREADS) == model.error_


def test_groups_carried_by_the_bags_are_left_out_together():
    """Three copies of every bag: left out one by one the twins give the answer away; by group they cannot."""
    arrays, y = [bag for bag in BAGS for _ in range(3)], np.repeat(rng.normal(size=30), 3)
    loose = bw.from_arrays(arrays)
    tied = bw.from_arrays(arrays, groups=np.repeat(np.arange(30), 3))
    model = EmbeddingRidge(KernelMean(Gaussian(0.3)), RidgePath())
    assert model.leave_one_out_error(tied, y) > 0.8 * y.var() > 1.2 * model.leave_one_out_error(loose, y)


@pytest.mark.filterwarnings("ignore:the kernel")
def test_an_indefinite_kernel_through_its_gram_matrix():
    kernel, head = PrintedInverse(10.0), RidgePath((1e-2,), scaling="none", fit_intercept=False)
    model = EmbeddingRidge(KernelMean(kernel, units="label", columns="gram"), head).fit(BAGS, SPREADS)
    K, K_new = testing.mean_gram(kernel, BAGS), testing.mean_gram(kernel, NEW, BAGS)
    np.testing.assert_allclose(model.predict(NEW), testing.kernel_ridge(K, SPREADS, 1e-2, K_new), rtol=1e-6)


def test_pool_predictions():
    values = bw.from_arrays([np.array([1.0, 2.0, 9.0]), np.array([4.0])])
    assert PoolPredictions("mean").fit(values, [0, 1]).predict(values).tolist() == [4.0, 4.0]
    assert PoolPredictions("median").fit(values, [0, 1]).predict(values).tolist() == [2.0, 4.0]


def test_an_offset_is_what_a_heavy_penalty_falls_back_on():
    means = np.array([bag.mean() for bag in NEW])
    heavy = EmbeddingRidge(KernelMean(), RidgePath((1e9,)), offset="mean").fit(BAGS, SPREADS)
    shift = np.mean(SPREADS - [bag.mean() for bag in BAGS])
    np.testing.assert_allclose(heavy.predict(NEW), means + shift, atol=1e-6)
    model = EmbeddingRidge(grid=GRID, offset="mean").fit(BAGS, SPREADS)
    parts = np.add.reduceat(model.contributions(NEW), NEW.offsets[:-1])
    np.testing.assert_allclose(parts, model.predict(NEW), atol=1e-9)


def test_contributions_are_refused_where_they_do_not_add_up():
    model = EmbeddingRidge(Pool(("max",))).fit(BAGS, SPREADS)
    with pytest.raises(ValueError, match="Pool is not a mean over instances"):
        model.contributions(BAGS)


def test_a_nearly_flat_gram_matrix_does_not_promise_too_much():
    """Rounding left behind by centring once passed for components: a left-out RMSE of 0.0002 where new bags had 2.7."""
    bags, y = bw.datasets.make_modes(250, instances=50, max_modes=10, features=2, random_state=0)
    model = EmbeddingRidge(SecondKernel(SlicedQuantiles(), Gaussian(10.0))).fit(bags[:100], y[:100])
    new = np.mean((model.predict(bags[100:]) - y[100:]) ** 2)
    assert 0.5 * new < model.error_ < 2 * new
