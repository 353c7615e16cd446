"""Metrics equal scikit-learn's, and the integrals they stand for."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kendalltau, norm, spearmanr
from sklearn import metrics as sk

from bagwise.metrics import DECILES, METRICS, Uncertainty, best_of, get_metric, score

rng = np.random.default_rng(0)
Y, P, S = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.5, 2.0, size=50)


def test_points_equal_scikit_learn():
    found = score(Y, P)
    assert found["rmse"] == pytest.approx(sk.root_mean_squared_error(Y, P))
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(Y, P))
    assert found["r2"] == pytest.approx(sk.r2_score(Y, P))
    assert found["pearson"] == pytest.approx(np.corrcoef(Y, P)[0, 1])
    assert all(np.isnan(found[name]) for name in ("nll", "crps", "coverage"))


def test_crps_is_the_integral_of_squared_distances_of_distributions():
    def integral(y, mean, std):
        below = quad(lambda t: norm.cdf(t, mean, std) ** 2, mean - 12 * std, y)[0]
        return below + quad(lambda t: norm.sf(t, mean, std) ** 2, y, mean + 12 * std)[0]

    expected = np.mean([integral(*one) for one in zip(Y[:5], P[:5], S[:5], strict=True)])
    assert METRICS["crps"](Y[:5], P[:5], S[:5]) == pytest.approx(expected, rel=1e-6)


def test_a_calibrated_forecast_covers_and_scores_best():
    y = rng.normal(P, S)
    found, wrong = score(y, P, S), score(y, P, 3 * S)
    assert abs(found["coverage"] - 0.9) < 0.12
    assert found["nll"] < wrong["nll"] and found["crps"] < wrong["crps"]


def test_what_cannot_be_told_is_nan():
    found = score(np.ones(3), np.ones(3))
    assert np.isnan(found["r2"]) and np.isnan(found["pearson"]) and found["rmse"] == 0
    assert np.isnan(score(np.ones(1), np.zeros(1))["pearson"])


def test_what_differs_by_rounding_alone_does_not_vary():
    nearly = np.array([0.1 + 0.2, 0.3, 0.3])
    assert len(set(nearly)) == 2
    assert np.isnan(score(nearly, np.array([1.0, 2.0, 3.0]))["r2"])
    assert np.isnan(score(np.array([1.0, 2.0, 3.0]), nearly)["pearson"])
    small = np.array([1.0, 2.0, 4.0])
    assert score(1e6 + 1e-5 * small, 1e6 + 1e-5 * small)["r2"] == 1  # a small spread is a spread
    assert score(1e-100 * small, 1e-100 * small)["r2"] == 1


def test_certainty_is_the_limit_of_small_deviations():
    zero, small = np.zeros(50), np.full(50, 1e-9)
    assert METRICS["crps"](Y, P, zero) == pytest.approx(METRICS["crps"](Y, P, small)) == METRICS["mae"](Y, P)
    assert np.isnan(METRICS["nll"](Y, P, zero)) and METRICS["coverage"](Y, P, zero) == 0
    assert METRICS["crps"](Y, Y, zero) == 0


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ([np.nan, 3.0, 2.0, 2.0], 2),
        ([1.0, np.nan], 0),
        ([np.nan, np.inf], 1),
        ([-np.inf, np.nan, 0.0], 0),
        ([np.nan, np.nan], None),
        ([], None),
    ],
)
def test_nan_is_worst(losses, best):
    assert best_of(losses) == best


@pytest.mark.parametrize(("name", "good", "bad"), [("rmse", 1, 2), ("r2", 0.9, 0.1), ("coverage", 0.88, 0.99)])
def test_a_loss_is_smaller_when_better(name, good, bad):
    assert METRICS[name].loss(good) < METRICS[name].loss(bad)


def test_an_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="there is no metric 'mse'; the metrics are rmse, mae"):
        get_metric("mse")


def test_ranks_equal_scipy_and_intervals_equal_their_formulas():
    found = score(Y, P, S)
    assert found["spearman"] == pytest.approx(spearmanr(Y, P).statistic)
    assert found["kendall"] == pytest.approx(kendalltau(Y, P).statistic)
    losses = [sk.mean_pinball_loss(Y, norm.ppf(p, P, S), alpha=p) for p in np.arange(1, 10) / 10]
    assert found["pinball"] == pytest.approx(np.mean(losses))
    low, high = norm.ppf(0.05, P, S), norm.ppf(0.95, P, S)
    two = sk.mean_pinball_loss(Y, low, alpha=0.05) + sk.mean_pinball_loss(Y, high, alpha=0.95)
    assert found["interval_score"] == pytest.approx(20 * two)  # Winkler's score is the pinball loss of both ends
    assert found["coverage"] == np.mean((low <= Y) & (high >= Y))
    assert np.isnan(score(np.ones(4), P[:4])["kendall"]) and np.isnan(score(Y[:4], np.ones(4))["spearman"])


def test_intervals_are_judged_at_their_level():
    found = score(Y, P, S, level=0.8)
    low, high = norm.ppf(0.1, P, S), norm.ppf(0.9, P, S)
    two = sk.mean_pinball_loss(Y, low, alpha=0.1) + sk.mean_pinball_loss(Y, high, alpha=0.9)
    assert found["interval_score"] == pytest.approx(10 * two)
    assert found["coverage"] == np.mean((low <= Y) & (high >= Y)) == get_metric("coverage", level=0.8)(Y, P, S)
    assert get_metric("coverage", level=0.8).loss(0.8) == 0


def test_a_tie_shares_its_rank():
    y, p = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 3.0])
    assert score(y, p)["spearman"] == pytest.approx(np.corrcoef([1, 2.5, 2.5, 4], [1, 2, 3.5, 3.5])[0, 1])


def test_own_uncertainty_stands_in_for_the_normal_one():
    own = Uncertainty(np.stack([P - 1, P + 2], axis=1), P[:, None] + norm.ppf(DECILES), np.abs(Y - P))
    found = score(Y, P, None, own)
    assert found["crps"] == pytest.approx(found["mae"]) and np.isnan(found["nll"])
    assert found["coverage"] == np.mean((P - 1 <= Y) & (Y <= P + 2))
    assert found["pinball"] == pytest.approx(score(Y, P, np.ones(50))["pinball"])
    again = Uncertainty.of_lists(own.as_lists())
    assert score(Y[:7], P[:7], None, again[:7]) == pytest.approx(
        score(Y[:7], P[:7], None, own[np.arange(7)]), nan_ok=True
    )
