import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

import bagwise as bw
from bagwise import kernels as k
from bagwise import testing
from bagwise.embeddings import KernelMean, Pool, mean_gram
from bagwise.regressors import RidgePath
from bagwise.testing import zoo

pytestmark = pytest.mark.kernels

SMOOTH = [k.Gaussian(0.7), k.InverseMultiquadric(1.0), k.RationalQuadratic(2.0), k.Cauchy(1.5), k.Polynomial(1.0)]
KINKED = [k.Exponential(1.0), k.Matern32(1.0), k.Matern52(0.8)]
ZOO = zoo()
SMALL = {name: bags for name, bags in ZOO.items() if bags.n_instances < 200}


def label(kernel):
    return type(kernel).__name__


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("kernel", SMOOTH + KINKED, ids=label)
def test_rows_have_the_inner_products_of_the_double_loop(kernel, name):
    bags = SMALL[name]
    Z = KernelMean(kernel, units="label").fit_transform(bags)
    exact = testing.mean_gram(kernel, bags)
    np.testing.assert_allclose(Z @ Z.T, exact, rtol=1e-9, atol=1e-11 * np.abs(exact).max())


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("kernel", SMOOTH + KINKED, ids=label)
def test_series_equals_blocks(kernel, name):
    bags = ZOO[name]
    fast, exact = KernelMean(kernel), KernelMean(kernel, map="exact")
    Z, E = fast.fit_transform(bags), exact.fit_transform(bags)
    np.testing.assert_allclose(Z @ Z.T, E @ E.T, rtol=1e-9, atol=1e-10 * np.abs(E @ E.T).max())
    assert fast.map_ == ("chebyshev" if kernel.smooth and name != "far outlier" else fast.map_)


def test_blocks_equal_the_double_loop_across_block_borders(monkeypatch):
    monkeypatch.setattr("bagwise.embeddings.kernel_mean.BLOCK", 5)
    bags = zoo(n_features=3)["ragged"]
    other = zoo(n_features=3, random_state=1)["ragged"]
    np.testing.assert_allclose(mean_gram(k.Gaussian(), bags), testing.mean_gram(k.Gaussian(), bags), rtol=1e-12)
    np.testing.assert_allclose(
        mean_gram(k.Matern32(), bags, other), testing.mean_gram(k.Matern32(), bags, other), rtol=1e-12
    )


@pytest.mark.parametrize("far", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("kernel", [k.Gaussian(1.0), k.InverseMultiquadric(1.0)], ids=label)
@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_new_values_beyond_the_training_range(kernel, far):
    """Predictions equal kernel ridge by double loops; to the square root of rounding outside the interval."""
    rng = np.random.default_rng(0)
    train = bw.from_arrays([rng.normal(size=rng.integers(1, 9)) for _ in range(25)])
    new = bw.from_arrays([rng.normal(size=rng.integers(1, 9)) + far for _ in range(6)])
    y = rng.normal(size=25)
    embedding = KernelMean(kernel, units="label")
    head = RidgePath((1e-3,), scaling="none", fit_intercept=False).fit(embedding.fit_transform(train), y)
    expected = testing.kernel_ridge(testing.mean_gram(kernel, train), y, 1e-3, testing.mean_gram(kernel, new, train))
    np.testing.assert_allclose(head.predict(embedding.transform(new)), expected, rtol=1e-5, atol=1e-7)


def test_gram_columns_are_similarities_to_the_training_bags():
    bags, new = ZOO["ragged"], zoo(random_state=3)["ragged"]
    for kernel in (k.Gaussian(0.8), k.Matern32(1.0)):
        embedding = KernelMean(kernel, units="label", columns="gram")
        np.testing.assert_allclose(embedding.fit_transform(bags), testing.mean_gram(kernel, bags), rtol=1e-10)
        np.testing.assert_allclose(embedding.transform(new), testing.mean_gram(kernel, new, bags), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:the kernel")
def test_the_printed_formula_needs_gram_columns():
    bags = ZOO["ragged"]
    with pytest.raises(ValueError, match="not positive definite and has no feature map; use columns='gram'"):
        KernelMean(k.PrintedInverse(10.0)).fit(bags)
    K = KernelMean(k.PrintedInverse(10.0), units="label", columns="gram").fit_transform(bags)
    np.testing.assert_allclose(K, testing.mean_gram(k.PrintedInverse(10.0), bags), rtol=1e-10)


def test_linear_kernel_mean_is_the_mean_pool():
    """Linear kernel mean + kernel ridge = mean pool + ridge without intercept."""
    rng = np.random.default_rng(0)
    bags = bw.from_arrays([rng.normal(size=(rng.integers(1, 9), 3)) for _ in range(20)])
    y = rng.normal(size=20)
    Z = KernelMean(k.Linear(), units="label").fit_transform(bags)
    ours = RidgePath((0.5,), scaling="none", fit_intercept=False).fit(Z, y).predict(Z)
    M = Pool(("mean",)).fit_transform(bags)
    np.testing.assert_allclose(ours, Ridge(alpha=0.5, fit_intercept=False).fit(M, y).predict(M), rtol=1e-9)


def test_bags_of_one_are_plain_kernel_ridge():
    bags = ZOO["singles"]
    y = np.arange(9.0)
    Z = KernelMean(k.Gaussian(0.9), units="label").fit_transform(bags)
    ours = RidgePath((0.1,), scaling="none", fit_intercept=False).fit(Z, y).predict(Z)
    theirs = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5 / 0.9**2).fit(bags.instances, y).predict(bags.instances)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_units_of_spread_are_scale_free():
    small, large = zoo(scale=1e-6)["ragged"], zoo(scale=1e6)["ragged"]
    np.testing.assert_allclose(
        KernelMean().fit_transform(small), KernelMean().fit_transform(large), rtol=1e-8, atol=1e-9
    )


def test_what_was_reached_is_said():
    embedding = KernelMean(k.Gaussian(1.0)).fit(ZOO["ragged"])
    assert embedding.map_ == "chebyshev" and embedding.length_ <= 48 and embedding.error_ <= 1e-12
    narrow = KernelMean(k.Gaussian(1e-4)).fit(ZOO["ragged"])
    assert narrow.map_ == "exact"


def test_refusals():
    bags = ZOO["ragged"]
    with pytest.raises(ValueError, match="too narrow for the range"):
        KernelMean(k.Gaussian(1e-4), map="chebyshev").fit(bags)
    with pytest.raises(ValueError, match="one feature and a smooth kernel"):
        KernelMean(k.Matern32(), map="chebyshev").fit(bags)
    with pytest.raises(ValueError, match="units must be 'spread' or 'label'"):
        KernelMean(units="metres").fit(bags)


def test_pool_statistics_against_numpy_and_scipy():
    from scipy import stats

    bags = zoo(n_features=2)["ragged"]
    pool = Pool(("mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max", "quantiles", "size"))
    rows = pool.fit_transform(bags)
    for row, bag in zip(rows, bags, strict=True):
        alone = len(bag) == 1
        expected = [
            *bag.mean(0),
            *np.median(bag, 0),
            *bag.var(0),
            *bag.std(0),
            *([0.0, 0.0] if alone else stats.skew(bag)),
            *([0.0, 0.0] if alone else stats.kurtosis(bag)),
            *bag.min(0),
            *bag.max(0),
            *np.quantile(bag, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0).ravel(),
            np.log1p(len(bag)),
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="statistics must be a tuple of mean, median"):
        Pool(("average",)).fit(bags)
