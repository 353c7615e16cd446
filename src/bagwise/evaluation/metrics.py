"""How far predictions are from targets: errors and correlations; with uncertainty NLL, CRPS, pinball, intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau, norm, spearmanr

NOMINAL = 0.9  # of the interval whose coverage is measured
DECILES = tuple(round(0.1 * i, 1) for i in range(1, 10))


@dataclass(frozen=True)
class Uncertainty:
    """What a method says about its error, as numbers per bag.

    Attributes
    ----------
    bounds : array (bags, 2), of the interval of level 0.9
    deciles : array (bags, 9), quantiles of 0.1, ..., 0.9
    crps : array (bags,) of continuous ranked probability scores against the target
    """

    bounds: np.ndarray
    deciles: np.ndarray
    crps: np.ndarray

    def __getitem__(self, rows) -> Uncertainty:
        return Uncertainty(self.bounds[rows], self.deciles[rows], self.crps[rows])

    def as_lists(self) -> dict[str, list]:
        return {name: getattr(self, name).tolist() for name in ("bounds", "deciles", "crps")}

    @classmethod
    def of_lists(cls, found: dict[str, list]) -> Uncertainty:
        return cls(*(np.asarray(found[name], dtype=np.float64) for name in ("bounds", "deciles", "crps")))

    @classmethod
    def normal(cls, y, prediction, std) -> Uncertainty:
        """Of the normal distribution N(ŷ, std²).

        Its CRPS is std (z (2Φ(z) - 1) + 2φ(z) - 1/√π) with z = (y - ŷ) / std; where std is 0 it is the limit, |y - ŷ|.
        """
        certain = std == 0
        z = (y - prediction) / np.where(certain, 1.0, std)
        spread = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
        half = norm.ppf((1 + NOMINAL) / 2) * std
        deciles = prediction[:, None] + np.multiply.outer(std, norm.ppf(DECILES))
        crps = np.where(certain, np.abs(z), spread)
        return cls(np.stack([prediction - half, prediction + half], axis=1), deciles, crps)


def uncertainty_of(model, bags, y) -> Uncertainty | None:
    """That of a model with intervals and a predictive distribution (`Intervals`); None of others, and of few bags."""
    if getattr(model, "left_out_", None) is None or not hasattr(model, "predict_distribution"):
        return None
    found = model.predict_distribution(bags)
    if found.known()[1] < NOMINAL - 1e-9:
        return None
    return Uncertainty(model.predict_interval(bags, level=NOMINAL), found.quantile(DECILES), found.crps(y))


@dataclass(frozen=True)
class Metric:
    """``of(y, prediction, std, uncertainty)`` is the number reported; ``loss`` one that is better when smaller.

    ``needs`` is what must be there for it to be a number. ``needs_std``: it needs standard deviations, or (all but NLL)
    an `Uncertainty`. ``pooled``: it means little on a fold of few bags, so inner folds are scored together (see
    `choose_inside`). ``is_error``: it is in the unit of the target and 0 for perfect predictions.
    """

    name: str
    of: Callable
    loss: Callable = lambda value: value
    needs: str = "finite predictions"
    needs_std: bool = False
    pooled: bool = False
    is_error: bool = False


def rmse(y, prediction, std=None, uncertainty=None) -> float:
    """sqrt(mean (y - ŷ)²)"""
    return float(np.sqrt(np.mean((y - prediction) ** 2)))


def mae(y, prediction, std=None, uncertainty=None) -> float:
    """mean |y - ŷ|"""
    return float(np.mean(np.abs(y - prediction)))


def r2(y, prediction, std=None, uncertainty=None) -> float:
    """1 - Σ (y - ŷ)² / Σ (y - mean y)²; NaN when the targets do not vary by more than rounding."""
    total = np.sum((y - y.mean()) ** 2)
    return float(1 - np.sum((y - prediction) ** 2) / total) if _varies(y) and total > 0 else float("nan")


def pearson(y, prediction, std=None, uncertainty=None) -> float:
    """Correlation of y and ŷ; NaN when either does not vary by more than rounding."""
    if not (_varies(y) and _varies(prediction)):
        return float("nan")
    return float(np.corrcoef(y, prediction)[0, 1])


def spearman(y, prediction, std=None, uncertainty=None) -> float:
    """Spearman's rank correlation, ties sharing their rank; NaN when either does not vary by more than rounding."""
    return float(spearmanr(y, prediction).statistic) if _varies(y) and _varies(prediction) else float("nan")


def kendall(y, prediction, std=None, uncertainty=None) -> float:
    """Kendall's τ-b: pairs in the right order less those in the wrong one; NaN when either does not vary."""
    return float(kendalltau(y, prediction).statistic) if _varies(y) and _varies(prediction) else float("nan")


def _varies(values: np.ndarray) -> bool:
    """Whether the values differ by more than what some additions in another order would do."""
    return bool(np.ptp(values) > 64 * np.finfo(np.float64).eps * np.abs(values).max())


def nll(y, prediction, std, uncertainty=None) -> float:
    """Mean of -log of the normal density N(ŷ, std²) at y; NaN when some std is 0, for certainty has no density."""
    if std is None or not np.all(std > 0):
        return float("nan")
    return float(-np.mean(norm.logpdf(y, prediction, std)))


def _known(y, prediction, std, uncertainty) -> Uncertainty:
    return Uncertainty.normal(y, prediction, std) if uncertainty is None else uncertainty


def crps(y, prediction, std, uncertainty=None) -> float:
    """Mean continuous ranked probability score, of N(ŷ, std²) or of the method's own distribution."""
    return float(np.mean(_known(y, prediction, std, uncertainty).crps))


def pinball(y, prediction, std, uncertainty=None) -> float:
    """Pinball loss max(p (y - q), (p - 1)(y - q)) of the nine deciles q of p = 0.1, ..., 0.9, their mean."""
    gap, p = y[:, None] - _known(y, prediction, std, uncertainty).deciles, np.array(DECILES)
    return float(np.mean(np.maximum(p * gap, (p - 1) * gap)))


def interval_score(y, prediction, std, uncertainty=None) -> float:
    """Winkler's score of the 90 % intervals: their width, and 2/0.1 times the distance of a target outside; the mean.

    References
    ----------
    Gneiting, Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
    """
    low, high = _known(y, prediction, std, uncertainty).bounds.T
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - NOMINAL) * outside))


def coverage(y, prediction, std, uncertainty=None) -> float:
    """Share of targets inside their 90 % intervals, of N(ŷ, std²) or the method's own."""
    low, high = _known(y, prediction, std, uncertainty).bounds.T
    return float(np.mean((low <= y) & (y <= high)))


def _negative(value):
    return -value


def _off_nominal(value):
    return np.abs(value - NOMINAL)


_STD = {"needs": "standard deviations or intervals", "needs_std": True}
_VARIED = {"loss": _negative, "needs": "targets and predictions that vary", "pooled": True}
METRICS = {
    metric.name: metric
    for metric in (
        Metric("rmse", rmse, is_error=True),
        Metric("mae", mae, is_error=True),
        Metric("r2", r2, loss=_negative, needs="targets that vary", pooled=True),
        Metric("pearson", pearson, **_VARIED),
        Metric("spearman", spearman, **_VARIED),
        Metric("kendall", kendall, **_VARIED),
        Metric("nll", nll, needs="standard deviations above 0", needs_std=True),
        Metric("crps", crps, **_STD, is_error=True),
        Metric("pinball", pinball, **_STD, is_error=True),
        Metric("interval90", interval_score, **_STD, is_error=True),
        Metric("coverage90", coverage, loss=_off_nominal, **_STD, pooled=True),
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


def score(y, prediction, std=None, uncertainty=None) -> dict[str, float]:
    """Every metric that can be had; those that need a standard deviation are NaN without one.

    Examples
    --------
    >>> import numpy as np
    >>> found = score(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    >>> {name: round(value, 3) for name, value in found.items() if not np.isnan(value)}
    {'rmse': 0.707, 'mae': 0.5, 'r2': 0.5, 'pearson': 1.0, 'spearman': 1.0, 'kendall': 1.0}
    """
    unknown = std is None and uncertainty is None
    return {
        metric.name: float("nan") if metric.needs_std and unknown else metric.of(y, prediction, std, uncertainty)
        for metric in METRICS.values()
    }
