"""The benchmark of Law et al. equals the published data bit for bit, and its optimum the published one."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from bagwise import Bags
from bagwise.datasets import law_bayes_optimal, make_law


def naive_part(seed, n_bags, s5, noise):
    """Naive version of the supplement and code of the paper, with lists and loops."""
    rs = np.random.RandomState(seed)
    shares = [0, 0, 0] if s5 is None else [s5 / 100, 0.25, 0.25]
    sizes = []
    for size, share in zip([5, 20, 100], shares, strict=True):
        sizes += [size] * int(n_bags * share)
    sizes = np.array(sizes + [1000] * (n_bags - len(sizes)))
    rs.shuffle(sizes)
    y = rs.uniform(4, 8, n_bags)
    return [rs.chisquare(k, (n, 5)) / k + rs.normal(0, noise, (n, 5)) for n, k in zip(sizes, y, strict=True)], y


@pytest.mark.parametrize(
    ("part", "seed", "n_bags"),
    [("train", 2221777491, 1000), ("estop", 2873750246, 500), ("val", 4067173416, 500), ("test", 794519497, 1000)],
)
def test_every_part_equals_a_naive_loop(part, seed, n_bags):
    bags, y = make_law(23, s5=50, parts=[part])[part]
    arrays, targets = naive_part(seed, n_bags, 50, 0.0)
    np.testing.assert_array_equal(y, targets)
    assert bags == Bags(np.concatenate(arrays), np.cumsum([0, *map(len, arrays)]))


def test_fixed_size_equals_a_naive_loop():
    bags, y = make_law(23, parts=["estop"])["estop"]
    arrays, targets = naive_part(2873750246, 500, None, 1.0)
    np.testing.assert_array_equal(y, targets)
    np.testing.assert_array_equal(bags.instances, np.concatenate(arrays))
    assert (bags.sizes == 1000).all()


def test_numbers_of_seed_23():
    bags, y = make_law(23, s5=25, parts=["test"])["test"]
    expected = [6.466683264033486, 7.28871316005414, 6.215941902451162, 6.471361264580052]
    np.testing.assert_array_equal(y[:4], expected)
    np.testing.assert_array_equal(bags.sizes[:8], [1000, 20, 1000, 5, 20, 100, 5, 1000])
    np.testing.assert_array_equal(
        bags.instances[0],
        [0.3771232051783195, 0.8509052038013843, 0.43466493464879086, 2.2542705896564805, 0.6100595443911943],
    )


def test_parts_do_not_depend_on_each_other():
    alone, both, other = (
        make_law(24, s5=50, parts=["val"]),
        make_law(24, s5=50, parts=["val", "estop"]),
        make_law(25, s5=50),
    )
    assert list(alone) == ["val"] and list(both) == ["val", "estop"]
    assert alone["val"][0] == both["val"][0] != other["val"][0]


@pytest.mark.parametrize(("s5", "mse", "nll"), [(0, 0.139, -0.117), (25, 0.350, 0.372), (50, 0.602, 0.888)])
def test_the_published_optimum_of_varying_sizes(s5, mse, nll):
    bags, y = make_law(23, s5=s5, parts=["test"])["test"]
    posterior = law_bayes_optimal(bags)
    assert np.mean((posterior.mean - y) ** 2) == pytest.approx(mse, abs=6e-4)
    assert posterior.negative_log_likelihood(y).mean() == pytest.approx(nll, abs=6e-4)


def test_the_published_optimum_of_the_fixed_size():
    bags, y = make_law(23, parts=["test"])["test"]
    posterior = law_bayes_optimal(bags, noise=1.0)
    assert np.mean((posterior.mean - y) ** 2) == pytest.approx(0.175, abs=6e-4)
    standardised = (y - posterior.mean) / posterior.sd
    assert np.mean(standardised**2) == pytest.approx(1, abs=0.15)  # honest about its own error


def test_noisy_posterior_equals_adaptive_quadrature():
    rng = np.random.default_rng(0)
    bags = Bags(rng.chisquare(5, (5, 2)) / 5 + rng.normal(size=(5, 2)), [0, 2, 5])
    posterior = law_bayes_optimal(bags, noise=1.0, n_grid=5)

    def density(x, y):
        constant = (y / 2) ** (y / 2) / math.gamma(y / 2) / math.sqrt(2 * math.pi)
        return quad(lambda z: constant * z ** (y / 2 - 1) * math.exp(-y * z / 2 - (x - z) ** 2 / 2), 0, 30)[0]

    for bag, row in zip(bags, posterior.log_density, strict=True):
        naive = np.array([sum(np.log(density(x, y)) for x in bag.ravel()) for y in posterior.grid])
        np.testing.assert_allclose(row - row[0], naive - naive[0], atol=1e-4)
    np.testing.assert_allclose(np.trapezoid(np.exp(posterior.log_density), posterior.grid, axis=1), 1, rtol=1e-10)


def test_errors():
    with pytest.raises(ValueError, match="s5 must be .* from 0 to 50, or None .* not 51"):
        make_law(23, s5=51)
    with pytest.raises(ValueError, match="there is no part 'valid'; the parts are train, estop, val, test"):
        make_law(23, parts=["valid"])
    for noise in (-1, 0.1):
        with pytest.raises(ValueError, match=f"noise must be 0 or at least 0.2 .* not {noise}"):
            law_bayes_optimal(Bags(np.ones((2, 5)), [0, 2]), noise=noise)
    with pytest.raises(ValueError, match=r"bag 1 has values that are not above zero.* pass noise=1.0"):
        law_bayes_optimal(Bags([[1.0], [-1.0]], [0, 1, 2]))
