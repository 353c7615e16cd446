import numpy as np
import pytest

from bagwise import kernels as k

pytestmark = pytest.mark.kernels

BY_HAND = {
    k.Gaussian: lambda r, t: np.exp(-(r**2) / (2 * t**2)),
    k.InverseMultiquadric: lambda r, t: 1 / np.sqrt(r**2 + t**2),
    k.RationalQuadratic: lambda r, t: 1 - r**2 / (r**2 + t),
    k.Cauchy: lambda r, t: 1 / (1 + r**2 / t**2),
    k.Student: lambda r, t: 1 / (1 + r**t),
    k.Exponential: lambda r, t: np.exp(-r / (2 * t**2)),
    k.Matern32: lambda r, t: (1 + np.sqrt(3) * r / t) * np.exp(-np.sqrt(3) * r / t),
    k.Matern52: lambda r, t: (1 + np.sqrt(5) * r / t + 5 * r**2 / (3 * t**2)) * np.exp(-np.sqrt(5) * r / t),
    k.PrintedInverse: lambda r, t: (1 - r**2) / (r**2 + t),
}


@pytest.mark.filterwarnings("ignore:the kernel")
@pytest.mark.parametrize("kernel", BY_HAND, ids=lambda c: c.__name__)
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("d", [1, 3])
def test_formula(kernel, bandwidth, d):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(7, d)), rng.normal(size=(5, d))
    r = np.array([[np.linalg.norm(a - b) for b in B] for a in A])
    np.testing.assert_allclose(kernel(bandwidth)(A, B), BY_HAND[kernel](r, bandwidth), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", [k.Student(0.25), k.Exponential(0.3), k.Matern32(0.1), k.Matern52(0.1)], ids=repr)
@pytest.mark.parametrize("d", [2, 12, 300])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_equal_rows_are_equal_for_a_kernel_with_a_kink(kernel, d, kind):
    A = np.random.default_rng(0).normal(size=(50, d)).astype(kind)
    gram = kernel(A, A)
    assert (np.diag(gram) == 1).all()
    near = A + 0.1 * (np.arange(d) == 0)  # near is not equal
    assert (np.diag(kernel(A, near.astype(kind))) < 1).all()


@pytest.mark.parametrize("kernel", [k.Gaussian(5.0), k.Matern32(5.0), k.Polynomial(2.0), k.Linear()], ids=repr)
def test_single_precision_is_multiplied_in_double(kernel):
    """The rounding of a float32 product depends on the number of rows."""
    A = np.random.default_rng(0).normal(2.0, 3.0, size=(40, 11)).astype(np.float32)
    np.testing.assert_array_equal(kernel(A, A[:7]), kernel(A.astype(np.float64), A[:7].astype(np.float64)))


def test_polynomial_and_linear():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(7, 2)), rng.normal(size=(5, 2))
    np.testing.assert_allclose(k.Polynomial(2.0, degree=3)(A, B), (A @ B.T + 2.0) ** 3)
    np.testing.assert_allclose(k.Linear()(A, B), A @ B.T)


@pytest.mark.parametrize("kernel", [c for c in BY_HAND if c is not k.PrintedInverse], ids=lambda c: c.__name__)
def test_positive_definite_ones_have_no_negative_eigenvalue(kernel):
    x = np.linspace(0, 200, 60)
    gram = kernel(1.5)(x, x)
    values = np.linalg.eigvalsh(gram)
    assert kernel(1.5).positive_definite
    assert values[0] > -1e-10 * values[-1]


def test_the_printed_formula_is_no_kernel_and_says_so():
    x = np.linspace(0, 200, 60)
    with pytest.warns(UserWarning, match="not positive definite"):
        values = np.linalg.eigvalsh(k.PrintedInverse(10.0)(x, x))
    assert values[0] < -50  # the specification saw -56
    assert not k.PrintedInverse(10.0).positive_definite
    assert not k.Student(3.0).positive_definite


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf])
def test_bandwidth_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be above zero"):
        k.Gaussian(bandwidth)([[0.0]], [[1.0]])


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_distances_of_few_columns_do_not_depend_on_the_other_rows(columns):
    A, B = np.random.default_rng(0).normal(size=(2, 40, columns))
    alone = [k.squared_distances(A[[i]], B)[0] for i in range(40)]
    np.testing.assert_array_equal(k.squared_distances(A, B), alone)
