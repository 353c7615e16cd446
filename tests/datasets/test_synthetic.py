"""The smaller generators have the properties that follow from their formulas."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from bagwise.bags.segments import segment_mean, segment_sum
from bagwise.datasets import (
    make_aerosol,
    make_bmir,
    make_entropy,
    make_gaussian,
    make_instance_map,
    make_modes,
    make_outlier2,
    make_problem,
)
from bagwise.datasets.simulations import INSTANCE_MAPS, SIMULATIONS, simulate

MAPS = {f"map:{kind}": partial(make_instance_map, kind) for kind in INSTANCE_MAPS}
GENERATORS = MAPS | {name: make for name, (make, _) in SIMULATIONS.items()} | {"aerosol:full": make_aerosol}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_seed_decides(name):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (GENERATORS[name](7, random_state=seed) for seed in (3, 3, 4))
    assert first[0] == again[0] != other[0] and (first[1] == again[1]).all()
    assert len(first[0]) == len(first[1]) == 7 and np.isfinite(first[1]).all() and first[1].dtype == np.float64
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("make", [make_bmir, make_entropy, make_gaussian, make_modes, make_outlier2])
def test_bags_of_one_instance(make):
    assert make(5, instances=1)[0].n_instances == 5


def test_unknown_names_and_numbers_are_refused():
    with pytest.raises(ValueError, match="there is no data set 'aerosl'; did you mean 'aerosol'?"):
        simulate("aerosl")
    with pytest.raises(ValueError, match="n_bags must be at least 1, not 0"):
        simulate("mean", 0)
    with pytest.raises(ValueError, match="kind must be one of 'noisy', 'mean', 'shape', 'prime', not 'max'"):
        make_problem("max")
    for make in (make_gaussian, make_outlier2):
        with pytest.raises(ValueError, match="shape must be 'linear' or 'nonlinear', not 'cubic'"):
            make(5, shape="cubic")


# Wang et al. ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "power"), [("linear", 1), ("nonlinear", 2)])
def test_gaussian_holds_its_hidden_value(shape, power):
    bags, y = make_gaussian(2000, shape=shape)
    # The hidden value is one of the instances, so the nearest candidate is off by the label noise at most.
    nearest = np.array([np.abs(bag[:, 0] ** power - target).min() for bag, target in zip(bags, y, strict=True)])
    assert nearest.max() < 4.5 * 0.05
    inside = bags.instances[:, 0] - np.repeat(segment_mean(bags.instances[:, 0], bags.offsets), bags.sizes)
    assert inside.std() == pytest.approx(0.1 * np.sqrt(19 / 20 * (1 - 1 / 20)), rel=0.02)


def test_gaussian_is_shuffled():
    bags, y = make_gaussian(2000)
    first = np.array([bag[0, 0] for bag in bags])
    assert np.std(first - y) == pytest.approx(np.hypot(0.05, 0.1), rel=0.06)  # were it first, 0.05


@pytest.mark.parametrize(
    ("make", "published", "off"), [(make_gaussian, 3.01e-3, 0.25e-3), (make_outlier2, 7.82e-3, 0.9e-3)]
)
def test_mean_pool_error_of_earlier_runs(make, published, off):
    """Compare with independent runs: MSE of least squares on bag means, with 100 training bags."""
    options = {} if make is make_gaussian else {"label_noise_bags": 0}
    test_bags, test_y = make(1000, random_state=99, **options)
    errors = []
    for seed in range(20):
        bags, y = make(100, random_state=seed)
        model = LinearRegression().fit(segment_mean(bags.instances, bags.offsets), y)
        errors.append(np.mean((model.predict(segment_mean(test_bags.instances, test_bags.offsets)) - test_y) ** 2))
    assert np.mean(errors) == pytest.approx(published, abs=off)


def test_outlier2_spoils_the_first_targets_only():
    runs = [make_outlier2(40, random_state=seed) for seed in range(200)]
    medians = np.array([[np.median(bag) for bag in bags] for bags, _ in runs])
    errors = np.array([y for _, y in runs]) - medians
    assert errors[:, :20].std() > 2 * errors[:, 20:].std()
    clean, y = make_outlier2(2000, label_noise_bags=0)
    assert np.std(y - [np.median(bag) for bag in clean]) < 0.12


def test_outlier2_noise_is_the_mixture_of_its_formula():
    bags, y = make_outlier2(5000, label_noise_bags=0)
    outlying = np.abs(bags.instances[:, 0] - np.repeat(y, bags.sizes)) > 0.5
    # A quarter of the instances have sd hypot(.5, .05, .25 / sqrt 3); the others never come this far.
    assert outlying.mean() == pytest.approx(0.25 * 0.345, rel=0.05)


# Park, Oliva, Szabo -----------------------------------------------------------------------------------------------


def test_bmir_target_belongs_to_one_instance_at_any_place():
    bags, y = make_bmir(1000)
    candidates = 2 + 2 * bags.instances.sum(axis=1)
    off = np.abs(candidates - np.repeat(y, bags.sizes)).reshape(1000, 5)
    assert off.min(axis=1).max() < 4.5
    counts = np.bincount(off.argmin(axis=1), minlength=5)
    assert counts.min() > 120  # 200 expected at each place
    primary = bags.instances.reshape(1000, 5, 5)[np.arange(1000), off.argmin(axis=1)]
    assert (np.abs(primary) <= 5).mean() > 0.9
    assert np.abs(bags.instances).max() <= 10


def test_modes_count_and_spread():
    bags, y = make_modes(3000, instances=20, max_modes=3, features=4)
    assert set(y) == {1.0, 2.0, 3.0}
    assert np.abs(np.bincount(y.astype(int))[1:] / 3000 - 1 / 3).max() < 0.04
    mean = segment_mean(bags.instances, bags.offsets)
    square = segment_sum(bags.instances**2, bags.offsets) - 20 * mean**2
    single = square[y == 1].mean() / 19
    # E[a] E[(A A')_jj] + E[B_jj] = 2.5 * 4 / 3 + 0.5; with p modes (1 - 1/p) 100 / 12 between them
    assert single == pytest.approx(2.5 * 4 / 3 + 0.5, rel=0.05)
    assert square[y == 3].mean() / 19 == pytest.approx(2.5 * 4 / 3 + 0.5 + 2 / 3 * 100 / 12, rel=0.05)


def test_entropy_is_that_of_the_first_coordinate():
    bags, y = make_entropy(20, instances=20_000)
    measured = [0.5 * np.log(2 * np.pi * np.e * bag[:, 0].var()) for bag in bags]
    np.testing.assert_allclose(y, measured, atol=0.03)
    traces = [np.trace(np.cov(bag.T)) for bag in bags]  # a rotation changes no trace
    assert np.ptp(traces) / np.mean(traces) < 0.1


# The four kinds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "spread"), [("noisy", 0.891), ("mean", 1.959), ("shape", 0.734), ("prime", 2.327)])
def test_problem_sizes_and_targets(kind, spread):
    bags, y = make_problem(kind, 3000)
    assert bags.n_features == 8
    assert bags.sizes.min() == 5 and bags.sizes.max() == 55
    assert y.std() == pytest.approx(spread, rel=0.04)


def held_out_r2(features, y):
    half = len(y) // 2
    return LinearRegression().fit(features[:half], y[:half]).score(features[half:], y[half:])


@pytest.mark.parametrize(("kind", "low", "high"), [("mean", 0.94, 0.97), ("shape", -0.05, 0.05), ("prime", -0.05, 0.1)])
def test_what_the_bag_mean_tells(kind, low, high):
    bags, y = make_problem(kind, 2000)
    assert low < held_out_r2(segment_mean(bags.instances, bags.offsets), y) < high


def test_shape_is_in_the_second_moments():
    bags, y = make_problem("shape", 2000)
    moments = np.array([(bag.T @ bag / len(bag))[np.triu_indices(8)] for bag in bags])
    assert held_out_r2(moments, y) > 0.5


def test_prime_is_the_instance_largest_in_the_first_feature():
    bags, y = make_problem("prime", 1000)
    key = np.array([bag[bag[:, 0].argmax()] for bag in bags])
    assert held_out_r2(key, y) > 0.97


def test_noisy_gets_better_with_the_size_of_the_bag():
    bags, y = make_problem("noisy", 4000)
    mean = segment_mean(bags.instances, bags.offsets)
    model = LinearRegression().fit(mean, y)
    errors = np.abs(model.predict(mean) - y)
    assert errors[bags.sizes < 12].mean() > 1.15 * errors[bags.sizes > 40].mean()
