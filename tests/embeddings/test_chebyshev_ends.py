"""The interval includes its ends, whatever their rounding."""

import numpy as np
import pytest

import bagwise as bw
from bagwise import testing
from bagwise.embeddings import KernelMean
from bagwise.embeddings.kernel_mean import Interpolant, fit_interpolant
from bagwise.kernels import Gaussian, InverseMultiquadric


@pytest.mark.parametrize("kernel", [Gaussian(100.0), InverseMultiquadric(140.0)])
def test_a_wide_kernel_always_has_a_short_series(kernel):
    rng = np.random.default_rng(0)
    lows, widths = rng.uniform(-50, 50, 300), 10 ** rng.uniform(-6, 2, 300)
    lengths = [
        fit_interpolant(kernel, low, low + width, 1e-12)[0].length for low, width in zip(lows, widths, strict=True)
    ]
    assert max(lengths) <= 32


def test_values_at_the_ends_count():
    for low, high in np.random.default_rng(1).uniform(0.0, 40.0, (300, 2)):
        interpolant = Interpolant(min(low, high), max(low, high), 8)
        ends = interpolant.polynomials(np.array([interpolant.low, interpolant.high]))
        np.testing.assert_allclose(ends, [[(-1.0) ** j, 1.0] for j in range(8)])


def test_the_embedding_of_a_range_that_rounds_badly():
    bags = bw.from_arrays([np.array([[20.0], [20.3]]), np.array([[20.1]])])
    embedding = KernelMean(Gaussian(100.0), units="label")
    Z = embedding.fit_transform(bags)
    assert embedding.map_ == "chebyshev"
    np.testing.assert_allclose(Z @ Z.T, testing.mean_gram(Gaussian(100.0), bags), rtol=1e-11)
