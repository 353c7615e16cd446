import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

import bagwise as bw
from bagwise import kernels as k
from bagwise import testing
from bagwise.embeddings import KernelMean, NystroemMean, Pool, kernel_mean, mean_gram
from bagwise.embeddings.kernel_mean import Interpolant, fit_interpolant
from bagwise.kernels import Exponential, Gaussian, InverseMultiquadric, MedianDistance
from bagwise.regressors import RidgePath
from bagwise.testing import zoo

pytestmark = pytest.mark.kernels

SMOOTH = [Gaussian(0.7), InverseMultiquadric(1.0), k.RationalQuadratic(2.0), k.Cauchy(1.5), k.Polynomial(1.0)]
KINKED = [Exponential(1.0), k.Matern32(1.0), k.Matern52(0.8)]
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
    np.testing.assert_allclose(mean_gram(Gaussian(), bags), testing.mean_gram(Gaussian(), bags), rtol=1e-12)
    np.testing.assert_allclose(
        mean_gram(k.Matern32(), bags, other), testing.mean_gram(k.Matern32(), bags, other), rtol=1e-12
    )


@pytest.mark.parametrize("far", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), InverseMultiquadric(1.0)], ids=label)
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
    for kernel in (Gaussian(0.8), k.Matern32(1.0)):
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
    Z = KernelMean(Gaussian(0.9), units="label").fit_transform(bags)
    ours = RidgePath((0.1,), scaling="none", fit_intercept=False).fit(Z, y).predict(Z)
    theirs = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5 / 0.9**2).fit(bags.instances, y).predict(bags.instances)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_the_map_that_is_used():
    bags = ZOO["ragged"]
    embedding = KernelMean(Gaussian(1.0)).fit(bags)
    assert embedding.map_ == "chebyshev" and embedding.length_ <= 48 and embedding.error_ <= 1e-12
    assert KernelMean(Gaussian(1e-4)).fit(bags).map_ == "exact"


# The series ---------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
BAGS = bw.from_arrays([RNG.normal(size=n) for n in (3, 1, 40, 7)])
OUTLIER = bw.from_arrays([*BAGS, np.array([500.0, 0.1])])
FAR = bw.from_arrays([np.array([-30.0, 0.2, 1.0]), np.array([50.0]), RNG.normal(size=5)])
MANY = bw.Bags(RNG.normal(size=(3000, 1)), np.cumsum([0, 1, 2, 2500, 97, 400]))
WEIGHTS = [None, np.arange(1.0, 3001.0)]
KERNELS = [Gaussian(4.0), Gaussian(0.5), InverseMultiquadric(1.0), Exponential(1.0), Gaussian(MedianDistance())]


@pytest.mark.parametrize("kernel", [Gaussian(100.0), InverseMultiquadric(140.0)])
def test_a_wide_kernel_always_has_a_short_series(kernel):
    rng = np.random.default_rng(0)
    for low, width in zip(rng.uniform(-50, 50, 300), 10 ** rng.uniform(-6, 2, 300), strict=True):
        assert fit_interpolant(kernel, low, low + width, 1e-12)[0].length <= 32


def test_values_at_the_ends_count():
    for low, width in np.random.default_rng(1).uniform(0.0, 40.0, (300, 2)):
        ends = Interpolant(low, low + width, 8).polynomials(np.array([low, low + width]))
        np.testing.assert_allclose(ends, [[(-1.0) ** j, 1.0] for j in range(8)])


def test_the_embedding_of_a_range_that_rounds_badly():
    bags = bw.from_arrays([np.array([[20.0], [20.3]]), np.array([[20.1]])])
    embedding = KernelMean(Gaussian(100.0), units="label")
    Z = embedding.fit_transform(bags)
    assert embedding.map_ == "chebyshev"
    np.testing.assert_allclose(Z @ Z.T, testing.mean_gram(Gaussian(100.0), bags), rtol=1e-11)


@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_a_value_out_of_reach_counts_as_the_farthest():
    embedding = KernelMean(Gaussian(0.5), reach=2.0)
    rows = embedding.fit_transform(OUTLIER)
    values = OUTLIER.instances[:, 0]
    low, high = values.mean() - 2 * values.std(), values.mean() + 2 * values.std()
    cut = OUTLIER.replace(np.clip(OUTLIER.instances, low, high))
    plain = KernelMean(Gaussian(0.5 * embedding.spread_), units="label").fit_transform(cut)
    np.testing.assert_allclose(rows @ rows.T, plain @ plain.T, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(embedding.transform(OUTLIER), rows, rtol=1e-9, atol=1e-12)
    far, nearest = (embedding.transform([np.array([value])]) for value in (1e6, high))
    np.testing.assert_allclose(far, nearest, rtol=1e-9, atol=1e-12)
    plain, reaching = (KernelMean(Gaussian(1.0), reach=reach).fit(BAGS) for reach in (None, 50.0))
    np.testing.assert_array_equal(plain.transform(BAGS), reaching.transform(BAGS))


@pytest.mark.parametrize("kernel", [Gaussian(0.5), InverseMultiquadric(0.5)], ids=str)
def test_far_from_zero_a_series_is_as_good_as_the_values(kernel):
    far = BAGS.replace(BAGS.instances + 1e4)
    embedding = KernelMean(kernel)
    rows = embedding.fit_transform(far)
    assert embedding.map_ == "chebyshev"
    near = KernelMean(kernel).fit_transform(BAGS)
    np.testing.assert_allclose(rows @ rows.T, near @ near.T, atol=1e-8)


@pytest.mark.parametrize("weights", WEIGHTS, ids=["equal", "weighted"])
def test_a_short_series_is_the_beginning_of_a_longer_one(weights):
    some = MANY.with_weights(weights)
    longest = Interpolant(-3.0, 2.0, 64).means(some)
    for length in (8, 24, 64):
        np.testing.assert_array_equal(Interpolant(-3.0, 2.0, length).means(some), longest[:, :length])


@pytest.mark.parametrize("weights", WEIGHTS, ids=["equal", "weighted"])
@pytest.mark.parametrize("columns", ["features", "gram"])
def test_a_grid_is_fitted_as_its_settings_one_by_one(columns, weights):
    some, new = MANY.with_weights(weights), bw.from_arrays([np.array([0.3, -0.2]), np.array([1.0])])
    grid = [{"kernel": kernel, **more} for kernel in KERNELS for more in ({}, {"units": "label"}, {"reach": 1.0})]
    grid += [{"kernel__bandwidth": bandwidth} for bandwidth in (0.5, 2.0)]
    found = list(KernelMean(Gaussian(), columns=columns).fit_grid(some, None, grid))
    assert [setting for setting, *_ in found] == grid
    assert {embedding.map_ for _, embedding, _ in found} == {"chebyshev", "exact"}
    for setting, embedding, rows in found:
        alone = KernelMean(Gaussian(), columns=columns).set_params(**setting)
        np.testing.assert_array_equal(rows, alone.fit_transform(some))
        np.testing.assert_array_equal(embedding.transform(new), alone.transform(new))


def test_the_means_of_a_grid_are_made_once(monkeypatch):
    made, means = [], Interpolant.means
    monkeypatch.setattr(Interpolant, "means", lambda self, some: made.append(self.length) or means(self, some))
    lengths = [one.length_ for _, one, _ in KernelMean().fit_grid(MANY, None, [{"kernel": k} for k in KERNELS[:3]])]
    assert made == [max(lengths)] != [min(lengths)]


@pytest.mark.parametrize("new", [BAGS, FAR, FAR.with_weights(np.arange(1.0, 10.0))], ids=["training", "far", "weighed"])
@pytest.mark.parametrize(
    "embedding",
    [
        KernelMean(Gaussian(0.7)),
        KernelMean(InverseMultiquadric(0.5), beyond="clip"),
        KernelMean(Gaussian(0.7), columns="gram"),
        KernelMean(Exponential(1.0)),
        NystroemMean(Gaussian(1.0)),
        Pool(("mean", "max")),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_project_is_the_product_of_the_rows(embedding, new):
    rows = embedding.fit(BAGS).transform(new)
    coef = RNG.normal(size=rows.shape[1])
    # The whitening amplifies the rounding of similarities a millionfold.
    atol = 1e-9 if isinstance(embedding, NystroemMean) else 1e-12
    np.testing.assert_allclose(embedding.project(new, coef), rows @ coef, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("embedding", [KernelMean(Gaussian(0.7)), NystroemMean(Gaussian(1.0))], ids=str)
@pytest.mark.filterwarnings("ignore:.*far outside the range of training")
def test_project_does_not_depend_on_the_other_bags(embedding):
    embedding.fit(BAGS)
    coef = RNG.normal(size=embedding.transform(FAR).shape[1])
    whole = embedding.project(FAR, coef)
    assert [float(embedding.project(FAR[[k]], coef)[0]) for k in range(3)] == whole.tolist()


# On a device --------------------------------------------------------------------------------------------------------

DEVICE_KERNELS = [
    Gaussian(1.5), InverseMultiquadric(0.7), k.RationalQuadratic(2.0), k.Cauchy(1.0), k.Student(1.5),
    Exponential(1.2), k.Matern32(1.0), k.Matern52(2.0), k.Polynomial(1.0), k.Linear(),
]  # fmt: skip


def drawn(seed, n=7, d=3, weighted=False):
    rng = np.random.default_rng(seed)
    made = bw.from_arrays([rng.normal(size=(rng.integers(1, 12), d)) + 5 for _ in range(n)])
    return made.with_weights(rng.uniform(0.1, 2, made.n_instances)) if weighted else made


@pytest.mark.torch
@pytest.mark.parametrize("kernel", DEVICE_KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("d", [1, 3])
def test_every_kernel_is_the_same_on_a_device(kernel, d, monkeypatch):
    """The device is torch's CPU."""
    pytest.importorskip("torch")
    monkeypatch.setattr(kernel_mean, "DEVICE_BLOCK", 8)  # bags are cut in two
    monkeypatch.setattr(kernel_mean, "choose_device", lambda device, is_large: device.replace("cuda", "cpu:0"))
    monkeypatch.setattr(kernel_mean, "log_device", lambda *_: None)
    left, right = drawn(0, d=d, weighted=True), drawn(1, n=4, d=d)
    for pair in ((left,), (left, right), (right, left), (right,)):
        double = mean_gram(kernel, *pair, device="cuda")
        np.testing.assert_allclose(double, mean_gram(kernel, *pair), rtol=1e-7)  # a kink makes much of a distance 1e-8
        single = mean_gram(kernel, *pair, device="cuda", precision="float32")
        np.testing.assert_allclose(single, double, rtol=2e-3 if isinstance(kernel, Exponential) else 1e-4)


@pytest.mark.torch
def test_devices_and_precisions():
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="precision must be 'float64' or 'float32', not 'float16'"):
        mean_gram(Gaussian(), drawn(0), precision="float16")
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda'.* not 'tpu'"):
        KernelMean(device="tpu").fit(drawn(0))
    plain, auto = KernelMean().fit_transform(drawn(0)), KernelMean(device="auto").fit_transform(drawn(0))
    np.testing.assert_array_equal(plain, auto)  # so few pairs are not worth a GPU
