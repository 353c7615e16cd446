"""What every contract check uses: a small problem, and assertions that say what was broken."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags, from_arrays


def sample(n_bags: int = 24, *, n_features: int = 3, random_state: int = 0, **options) -> tuple[Bags, np.ndarray]:
    """A small learnable problem with ragged bags."""
    rng = np.random.default_rng(random_state)
    centres = rng.normal(size=(n_bags, n_features))
    arrays = [c + 0.3 * rng.normal(size=(rng.integers(1, 9), n_features)) for c in centres]
    return from_arrays(arrays, **options), 2.0 * centres[:, 0] - centres[:, 1] + 0.1 * rng.normal(size=n_bags)


def expect_finite(values, when: str = "") -> None:
    """No prediction is NaN or infinite."""
    assert np.isfinite(values).all(), f"predictions are not finite{when and f' for {when}'}"


def expect_bounded(values, y, when: str) -> None:
    """Predictions are finite, and spread no more than a thousand times as far as the targets."""
    expect_finite(values, when)
    assert np.ptp(values) < 1e3 * np.ptp(y), f"predictions explode for {when}"


def expect_same(got, expected, broken: str) -> None:
    """Equal to the last bit."""
    np.testing.assert_array_equal(got, expected, err_msg=broken)


def expect_close(got, expected, y, broken: str) -> None:
    """Equal up to rounding: the same sums, taken in another order."""
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.std(y), err_msg=broken)


def expect_refusal(call, words: str) -> None:
    """The call raises a ValueError that says these words."""
    try:
        call()
    except ValueError as error:
        assert words in str(error), f"expected an error with {words!r}, got {error}"
        return
    raise AssertionError(f"expected a ValueError with {words!r}")
