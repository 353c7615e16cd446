"""How far predictions are from targets: RMSE, MAE, R², Pearson; with standard deviations NLL, CRPS, coverage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

NOMINAL = 0.9  # of the interval whose coverage is measured


@dataclass(frozen=True)
class Metric:
    """``of(y, prediction, std)`` is the number reported; ``loss`` turns it into one that is better when smaller.

    ``needs`` is what must be there for it to be a number. ``pooled``: it means little on a fold of few bags, so inner
    folds are scored together (see `choose_inside`).
    """

    name: str
    of: Callable
    loss: Callable = lambda value: value
    needs: str = "finite predictions"
    needs_std: bool = False
    pooled: bool = False


def rmse(y, prediction, std=None) -> float:
    """sqrt(mean (y - ŷ)²)"""
    return float(np.sqrt(np.mean((y - prediction) ** 2)))


def mae(y, prediction, std=None) -> float:
    """mean |y - ŷ|"""
    return float(np.mean(np.abs(y - prediction)))


def r2(y, prediction, std=None) -> float:
    """1 - Σ (y - ŷ)² / Σ (y - mean y)²; NaN when the targets do not vary by more than rounding."""
    total = np.sum((y - y.mean()) ** 2)
    return float(1 - np.sum((y - prediction) ** 2) / total) if _varies(y) and total > 0 else float("nan")


def pearson(y, prediction, std=None) -> float:
    """Correlation of y and ŷ; NaN when either does not vary by more than rounding."""
    if not (_varies(y) and _varies(prediction)):
        return float("nan")
    return float(np.corrcoef(y, prediction)[0, 1])


def _varies(values: np.ndarray) -> bool:
    """Whether the values differ by more than what some additions in another order would do."""
    return bool(np.ptp(values) > 64 * np.finfo(np.float64).eps * np.abs(values).max())


def nll(y, prediction, std) -> float:
    """Mean of -log of the normal density N(ŷ, std²) at y; NaN when some std is 0, for certainty has no density."""
    return float(-np.mean(norm.logpdf(y, prediction, std))) if np.all(std > 0) else float("nan")


def crps(y, prediction, std) -> float:
    """Continuous ranked probability score of N(ŷ, std²): std (z (2Φ(z) - 1) + 2φ(z) - 1/√π), z = (y - ŷ) / std.

    Where std is 0 it is the limit, |y - ŷ|.
    """
    certain = std == 0
    z = (y - prediction) / np.where(certain, 1.0, std)
    spread = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return float(np.mean(np.where(certain, np.abs(z), spread)))


def coverage(y, prediction, std) -> float:
    """Share of targets inside the central 90 % interval of N(ŷ, std²)."""
    return float(np.mean(np.abs(y - prediction) <= norm.ppf((1 + NOMINAL) / 2) * std))


def _negative(value):
    return -value


def _off_nominal(value):
    return np.abs(value - NOMINAL)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("rmse", rmse),
        Metric("mae", mae),
        Metric("r2", r2, loss=_negative, needs="targets that vary", pooled=True),
        Metric("pearson", pearson, loss=_negative, needs="targets and predictions that vary", pooled=True),
        Metric("nll", nll, needs="standard deviations above 0", needs_std=True),
        Metric("crps", crps, needs="standard deviations", needs_std=True),
        Metric("coverage90", coverage, loss=_off_nominal, needs="standard deviations", needs_std=True, pooled=True),
    )
}


def get_metric(name: str) -> Metric:
    """A metric by its name."""
    if name not in METRICS:
        raise ValueError(f"there is no metric {name!r}; the metrics are {', '.join(METRICS)}")
    return METRICS[name]


def best_of(losses) -> int | None:
    """Position of the smallest loss, the first of equal ones; a NaN is never the best; None if all are NaN.

    Examples
    --------
    >>> best_of([float("nan"), 2.0, 1.0]), best_of([float("nan")])
    (2, None)
    """
    losses = np.asarray(losses, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(losses))  # nanargmin would take a NaN for as good as infinity
    return int(known[np.argmin(losses[known])]) if len(known) else None


def score(y, prediction, std=None) -> dict[str, float]:
    """Every metric that can be had; those that need a standard deviation are NaN without one.

    Examples
    --------
    >>> import numpy as np
    >>> {name: round(value, 3) for name, value in score(np.array([0.0, 2.0]), np.array([1.0, 2.0])).items()}
    {'rmse': 0.707, 'mae': 0.5, 'r2': 0.5, 'pearson': 1.0, 'nll': nan, 'crps': nan, 'coverage90': nan}
    """
    return {
        metric.name: float("nan") if metric.needs_std and std is None else metric.of(y, prediction, std)
        for metric in METRICS.values()
    }
