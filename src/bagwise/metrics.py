"""The metrics: each is one entry of `METRICS`, which every part of the library looks up by name.

To add a metric, add an entry: a name, a function of arrays, a direction and a label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

LEVEL = 0.9  # of the intervals that are judged, by default
DECILES = tuple(round(0.1 * i, 1) for i in range(1, 10))
RESAMPLES = 50  # of the bags, for the standard error of a metric that is not a mean over bags


@dataclass(frozen=True)
class Uncertainty:
    """Predictive distributions as numbers per bag: the ends of an interval, nine deciles, and the CRPS."""

    bounds: np.ndarray  # (bags, 2)
    deciles: np.ndarray  # (bags, 9)
    crps: np.ndarray
    level: float = LEVEL  # of the interval

    def __getitem__(self, rows) -> Uncertainty:
        return replace(self, bounds=self.bounds[rows], deciles=self.deciles[rows], crps=self.crps[rows])

    def as_lists(self) -> dict[str, list]:
        """Return the arrays as lists by name, which JSON can hold."""
        return {name: getattr(self, name).tolist() for name in ("bounds", "deciles", "crps")}

    @classmethod
    def of_lists(cls, lists: dict[str, list], level: float = LEVEL) -> Uncertainty:
        """Rebuild the object that `as_lists` was called on."""
        arrays = {name: np.asarray(lists[name], dtype=np.float64) for name in ("bounds", "deciles", "crps")}
        return cls(**arrays, level=level)

    @classmethod
    def normal(cls, y, prediction, std, level: float = LEVEL) -> Uncertainty:
        """Describe the normal distribution N(ŷ, std²).

        Its CRPS is std (z (2Φ(z) - 1) + 2φ(z) - 1/√π) with z = (y - ŷ) / std; where std is 0 it is the limit, |y - ŷ|.
        """
        from scipy.stats import norm

        certain = std == 0
        z = (y - prediction) / np.where(certain, 1.0, std)
        spread = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
        half = norm.ppf((1 + level) / 2) * std
        deciles = prediction[:, None] + np.multiply.outer(std, norm.ppf(DECILES))
        crps = np.where(certain, np.abs(z), spread)
        return cls(np.stack([prediction - half, prediction + half], axis=1), deciles, crps, level)


def uncertainty_of(model, bags, y, level: float = LEVEL) -> Uncertainty | None:
    """Return the predictive distributions of a fitted `Intervals`; None for other models and for too few bags."""
    if getattr(model, "left_out_", None) is None or not hasattr(model, "predict_distribution"):
        return None
    distribution = model.predict_distribution(bags)
    if distribution.known()[1] < level - 1e-9:
        return None
    bounds = model.predict_interval(bags, level=level)
    return Uncertainty(bounds, distribution.quantile(DECILES), distribution.crps(y), level)


def squared(y, prediction) -> np.ndarray:
    return (prediction - y) ** 2


def absolute(y, prediction) -> np.ndarray:
    return np.abs(prediction - y)


@dataclass(frozen=True)
class Metric:
    """One way to measure predictions against targets.

    Attributes
    ----------
    name : what users pass as ``metric=``
    of : function (y, prediction) -> number, with weights of bags as third parameter if it takes them; default: the mean
        of ``per_bag``
    direction : which values are better: "lower", "higher", or "nearest" to ``best``
    label, full_name : what tables and sentences call it, and what a paragraph for a paper does (default: the label)
    per_bag : function (y, prediction) -> a number per bag, of which the metric is the mean; with ``needs_std`` it also
        takes the standard deviations and an `Uncertainty`
    root : whether the metric is the square root of that mean
    bag_loss : loss per bag by which `auto` weighs its members, `squared` or `absolute`
    best : value of perfect predictions
    needs : what it needs to be a number, for messages
    needs_std : whether it needs standard deviations or (all but NLL) an `Uncertainty`
    pooled : whether inner folds are scored together, because the metric means little on a fold of few bags
    is_error : whether it is in the unit of the target and 0 for perfect predictions
    level : level of the intervals made of standard deviations
    """

    name: str
    of: Callable | None = None
    direction: str = "lower"
    label: str = ""
    full_name: str = ""
    per_bag: Callable | None = None
    root: bool = False
    bag_loss: Callable = squared
    best: float = 0.0
    needs: str = "finite predictions"
    needs_std: bool = False
    pooled: bool = False
    is_error: bool = False
    level: float = LEVEL

    def __call__(self, y, prediction, std=None, uncertainty=None, *, weight=None) -> float:
        """Return the metric; NaN where it needs standard deviations and there are none."""
        if self.of is None:
            return float(np.mean(self.values(y, prediction, std, uncertainty)))
        if weight is None:
            return float(self.of(y, prediction))
        if len(signature(self.of).parameters) < 3:
            raise ValueError(f"the metric {self.name!r} takes no weights of bags; choose 'rmse', or leave them out")
        return float(self.of(y, prediction, weight))

    def values(self, y, prediction, std=None, uncertainty=None) -> np.ndarray:
        """Return the numbers per bag whose mean is the metric (or its square)."""
        assert self.per_bag is not None
        if not self.needs_std:
            return self.per_bag(y, prediction)
        if uncertainty is None:
            if std is None:
                return np.full(len(y), np.nan)
            uncertainty = Uncertainty.normal(y, prediction, std, self.level)
        return self.per_bag(y, prediction, std, uncertainty)

    @property
    def in_full(self) -> str:
        """The name for running text."""
        return self.full_name or self.label

    def loss(self, value):
        """Return a number that is smaller for a better value."""
        if self.direction == "nearest":
            return np.abs(value - self.best)
        return value if self.direction == "lower" else -value

    def compare(self, y, prediction, other, *, weight=None) -> tuple[float, float, float, float]:
        """Return the metric with its standard error, and its paired difference from other predictions with its error.

        The difference is that of `loss`, so a positive one is worse whatever the direction.
        """
        pair = prediction, other
        values = [self(y, predicted, weight=weight) for predicted in pair]
        difference = float(self.loss(values[0]) - self.loss(values[1]))
        if self.per_bag is self.bag_loss:
            scale = np.ones(len(y)) if weight is None else weight
            losses = [scale * self.bag_loss(y, predicted) for predicted in pair]
            errors = np.array([losses[0].std(), (losses[0] - losses[1]).std()]) / np.sqrt(len(y))
            if self.root:  # d√m = dm / 2√m, between the two
                errors = errors / (2 * values[0] or 1.0, sum(values) or 1.0)
            return values[0], float(errors[0]), difference, float(errors[1])
        rng, draws = np.random.default_rng(0), []
        for _ in range(RESAMPLES):
            rows = rng.integers(len(y), size=len(y))
            drawn_weight = None if weight is None else weight[rows]
            value, reference = (self(y[rows], predicted[rows], weight=drawn_weight) for predicted in pair)
            draws.append((value, self.loss(value) - self.loss(reference)))
        spread = np.nanstd(draws, axis=0) if np.isfinite(draws).any() else np.full(2, np.nan)
        return values[0], float(spread[0]), difference, float(spread[1])


def rmse(y, prediction, weight=None) -> float:
    """Return sqrt(mean (y - ŷ)²)."""
    return float(np.sqrt(np.average((y - prediction) ** 2, weights=weight)))


def mae(y, prediction, weight=None) -> float:
    """Return mean |y - ŷ|."""
    return float(np.average(np.abs(y - prediction), weights=weight))


def medae(y, prediction, weight=None) -> float:
    """Return the median of |y - ŷ|."""
    errors = np.abs(y - prediction)
    if weight is None:
        return float(np.median(errors))
    order = np.argsort(errors)
    below = np.cumsum(weight[order])
    return float(errors[order][np.searchsorted(below, below[-1] / 2)])


def r2(y, prediction, weight=None) -> float:
    """Return 1 - Σ (y - ŷ)² / Σ (y - mean y)²; NaN when the targets do not vary by more than rounding."""
    scatter = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    error = np.average((y - prediction) ** 2, weights=weight)
    return float(1 - error / scatter) if _varies(y) and scatter > 0 else float("nan")


def pearson(y, prediction, weight=None) -> float:
    """Return the correlation of y and ŷ; NaN when either does not vary by more than rounding."""
    if not (_varies(y) and _varies(prediction)):
        return float("nan")
    covariance = np.cov(y, prediction, aweights=weight)
    return float(covariance[0, 1] / np.prod(np.sqrt(np.diag(covariance))))


def spearman(y, prediction, weight=None) -> float:
    """Return Spearman's rank correlation (ties share their rank); NaN when either does not vary."""
    from scipy.stats import rankdata

    return pearson(rankdata(y), rankdata(prediction), weight) if _varies(y) and _varies(prediction) else float("nan")


def kendall(y, prediction) -> float:
    """Return Kendall's τ-b: pairs in the right order less those in the wrong one; NaN when either does not vary."""
    from scipy.stats import kendalltau

    return float(kendalltau(y, prediction).statistic) if _varies(y) and _varies(prediction) else float("nan")


def _varies(values: np.ndarray) -> bool:
    """Return whether the values differ by more than the rounding of sums in another order."""
    return bool(np.ptp(values) > 64 * np.finfo(np.float64).eps * np.abs(values).max())


def nll(y, prediction, std, uncertainty) -> np.ndarray:
    """Return -log of the density of N(ŷ, std²) at y, per bag; NaN for all when some std is 0."""
    from scipy.stats import norm

    if std is None or not np.all(std > 0):
        return np.full(len(y), np.nan)
    return -norm.logpdf(y, prediction, std)


def crps(y, prediction, std, uncertainty) -> np.ndarray:
    """Return the continuous ranked probability scores."""
    return uncertainty.crps


def pinball(y, prediction, std, uncertainty) -> np.ndarray:
    """Return the mean pinball loss max(p (y - q), (p - 1)(y - q)) of the nine deciles q, p = 0.1 to 0.9, per bag."""
    gap, p = y[:, None] - uncertainty.deciles, np.array(DECILES)
    return np.maximum(p * gap, (p - 1) * gap).mean(axis=1)


def interval_score(y, prediction, std, uncertainty) -> np.ndarray:
    """Return Winkler's scores of intervals: width plus 2 / (1 - level) times the distance of a target outside.

    References
    ----------
    Gneiting, Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
    """
    low, high = uncertainty.bounds.T
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return high - low + 2 / (1 - uncertainty.level) * outside


def coverage(y, prediction, std, uncertainty) -> np.ndarray:
    """Return whether each target is inside its interval."""
    low, high = uncertainty.bounds.T
    return (low <= y) & (y <= high)


_RANKED: dict[str, Any] = {"needs": "targets and predictions that vary", "pooled": True, "best": 1.0}
_FORECAST: dict[str, Any] = {"needs": "standard deviations or intervals", "needs_std": True}
METRICS = {
    metric.name: metric
    for metric in (
        Metric("rmse", rmse, "lower", "RMSE", "root mean squared error", squared, root=True, is_error=True),
        Metric("mae", mae, "lower", "MAE", "mean absolute error", absolute, bag_loss=absolute, is_error=True),
        Metric("medae", medae, "lower", "median absolute error", bag_loss=absolute, is_error=True),
        Metric("r2", r2, "higher", "R²", needs="targets that vary", pooled=True, best=1.0),
        Metric("pearson", pearson, "higher", "Pearson r", **_RANKED),
        Metric("spearman", spearman, "higher", "Spearman ρ", **_RANKED),
        Metric("kendall", kendall, "higher", "Kendall τ", **_RANKED),
        Metric(
            "nll", None, "lower", "NLL", per_bag=nll, best=-np.inf, needs_std=True, needs="standard deviations above 0"
        ),
        Metric("crps", None, "lower", "CRPS", per_bag=crps, is_error=True, **_FORECAST),
        Metric("pinball", None, "lower", "pinball loss", per_bag=pinball, is_error=True, **_FORECAST),
        Metric("interval_score", None, "lower", "interval score", per_bag=interval_score, is_error=True, **_FORECAST),
        Metric(
            "coverage", None, "nearest", "interval coverage", per_bag=coverage, best=LEVEL, pooled=True, **_FORECAST
        ),
    )
}
POINT_METRICS = [metric.name for metric in METRICS.values() if not metric.needs_std]


def get_metric(name: str, *, point: bool = False, level: float = LEVEL) -> Metric:
    """Return a metric by its name, for intervals at a level; with ``point``, refuse one that needs standard deviations.

    Examples
    --------
    >>> get_metric("r2").label, get_metric("coverage", level=0.8).best
    ('R²', 0.8)
    """
    names = [metric.name for metric in METRICS.values() if not (point and metric.needs_std)]
    if name not in METRICS:
        raise ValueError(f"there is no metric {name!r}; the metrics are {', '.join(names)}")
    if name not in names:
        raise ValueError(f"the metric {name!r} needs standard deviations; use one of {', '.join(names)}")
    metric = METRICS[name]
    if level == LEVEL:
        return metric
    return replace(metric, level=level, best=level if metric.direction == "nearest" else metric.best)


def best_of(losses) -> int | None:
    """Return the position of the smallest loss, the first of equal ones; None if all are NaN."""
    losses = np.asarray(losses, dtype=np.float64)
    comparable = np.flatnonzero(~np.isnan(losses))  # nanargmin would take a NaN for as good as infinity
    return int(comparable[np.argmin(losses[comparable])]) if len(comparable) else None


def score(y, prediction, std=None, uncertainty=None, *, level: float = LEVEL) -> dict[str, float]:
    """Return all metrics by name; those that need a standard deviation are NaN without one.

    Examples
    --------
    >>> import numpy as np
    >>> scores = score(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    >>> {name: round(value, 3) for name, value in scores.items() if not np.isnan(value)}
    {'rmse': 0.707, 'mae': 0.5, 'medae': 0.5, 'r2': 0.5, 'pearson': 1.0, 'spearman': 1.0, 'kendall': 1.0}
    """
    if uncertainty is None and std is not None:
        uncertainty = Uncertainty.normal(y, prediction, std, level)
    return {metric.name: metric(y, prediction, std, uncertainty) for metric in METRICS.values()}
