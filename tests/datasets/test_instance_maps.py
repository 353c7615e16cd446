import numpy as np
import pytest

from bagwise.datasets import make_instance_map


def aggregated(bags, values):
    parts = zip(np.split(values, bags.offsets[1:-1]), np.split(bags.shares(), bags.offsets[1:-1]), strict=True)
    return np.array([share @ value for value, share in parts])


@pytest.mark.parametrize("kind", ["surface", "shifted"])
def test_means_differ_from_the_mean_value_by_noise_alone(kind):
    bags, y, values = make_instance_map(kind, 400)
    noise = y - aggregated(bags, values)
    assert abs(noise.mean()) < 0.004 and noise.std() == pytest.approx(0.02, rel=0.15)
    assert bags.instances.min() >= 0 and bags.instances.max() <= 1


@pytest.mark.parametrize("kind", ["counts", "swiss-roll"])
def test_counts_are_poisson_around_the_sum_of_rates(kind):
    bags, y, rate = make_instance_map(kind, 300)
    exposure = bags.sizes if bags.weights is None else np.add.reduceat(bags.weights, bags.offsets[:-1])
    mean = exposure * aggregated(bags, rate)
    assert np.mean((y - mean) ** 2 / mean) == pytest.approx(1.0, abs=0.3)  # dispersion; its deviation is 0.08
    assert (y == y.astype(int)).all() and (y >= 0).all()


def test_the_value_is_one_function_of_the_features():
    one, _, values = make_instance_map("surface", 300)
    other, _, again = make_instance_map("shifted", 300, random_state=1)
    near = np.array([np.argmin(((one.instances - row) ** 2).sum(axis=1)) for row in other.instances[:200]])
    assert np.abs(values[near] - again[:200]).max() < 0.5 and np.corrcoef(values[near], again[:200])[0, 1] > 0.99
    assert other.instances.mean() - one.instances.mean() > 0.2


def test_the_roll_is_cut_into_slabs_and_keeps_its_radius():
    bags, _, rate = make_instance_map("swiss-roll", 40)
    lengths = np.linalg.svd(bags.instances - bags.instances.mean(axis=0), compute_uv=False)
    assert bags.n_features == 18 and lengths[2] > 1.0 and lengths[3] < 1e-8  # three dimensions, turned
    rotation, _ = np.linalg.qr(np.random.default_rng(23).standard_normal((18, 18)))
    x, _, z = (bags.instances @ rotation[:3].T).T
    np.testing.assert_allclose(np.hypot(x, z), 2 * rate, rtol=1e-10)
    assert (np.diff(z) <= 1e-9).all()


def test_sizes_of_slabs_are_negative_binomial():
    sizes = make_instance_map("swiss-roll", 400)[0].sizes
    assert sizes.mean() == pytest.approx(150, abs=8) and sizes.std() == pytest.approx(50, abs=7)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind must be one of 'surface', 'shifted', 'counts', 'swiss-roll', not 'map'"):
        make_instance_map("map")
