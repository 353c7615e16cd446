"""How far predictions are from targets, and which of two methods is closer.

Errors and correlations; with uncertainty NLL, CRPS, pinball loss and intervals. Statistics of paired scores: the
corrected resampled t-test, Holm's correction, ranks, the spread over splits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import neg

import numpy as np
from scipy.stats import kendalltau, norm, rankdata, spearmanr
from scipy.stats import t as student

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


_STD = {"needs": "standard deviations or intervals", "needs_std": True}
_VARIED = {"loss": neg, "needs": "targets and predictions that vary", "pooled": True}
METRICS = {
    metric.name: metric
    for metric in (
        Metric("rmse", rmse, is_error=True),
        Metric("mae", mae, is_error=True),
        Metric("r2", r2, loss=neg, needs="targets that vary", pooled=True),
        Metric("pearson", pearson, **_VARIED),
        Metric("spearman", spearman, **_VARIED),
        Metric("kendall", kendall, **_VARIED),
        Metric("nll", nll, needs="standard deviations above 0", needs_std=True),
        Metric("crps", crps, **_STD, is_error=True),
        Metric("pinball", pinball, **_STD, is_error=True),
        Metric("interval90", interval_score, **_STD, is_error=True),
        Metric("coverage90", coverage, loss=lambda value: np.abs(value - NOMINAL), **_STD, pooled=True),
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


@dataclass(frozen=True)
class Difference:
    """Mean paired difference, its corrected standard error, t and two-sided p; NaN where there is one fold only."""

    mean: float
    error: float
    t: float
    p: float


def corrected_t_test(differences, *, n_train: float, n_test: float) -> Difference:
    r"""The corrected resampled t-test of Nadeau and Bengio, for paired differences over repeated folds.

    Training sets overlap, so the differences d_1, ..., d_n are not independent and their plain standard error is too
    small. With s² their sample variance, the variance of the mean is taken to be (1/n + n_test/n_train) s², and
    t = mean / root of it has n - 1 degrees of freedom. Every difference must be of another split: the same split again
    with another seed has the same training bags, so take its mean over seeds first. One difference has
    no variance, and no p.

    Parameters
    ----------
    differences : one number per split, method minus reference
    n_train, n_test : numbers of training and test bags of a split

    Returns
    -------
    Difference, with ``mean``, ``error``, ``t`` and ``p``

    References
    ----------
    Nadeau, Bengio (2003), Inference for the generalization error. Bouckaert, Frank (2004), Evaluating the
    replicability of significance tests for comparing learning algorithms (for repeated folds).

    Examples
    --------
    >>> found = corrected_t_test([0.1, 0.2, 0.3, 0.2], n_train=80, n_test=20)
    >>> round(found.mean, 3), round(found.error, 4), round(found.p, 4)
    (0.2, 0.0577, 0.0405)
    """
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    mean = float(differences.mean()) if n else float("nan")
    if n < 2:
        return Difference(mean, float("nan"), float("nan"), float("nan"))
    error = float(np.sqrt((1 / n + n_test / n_train) * differences.var(ddof=1)))
    if error == 0:  # the same on every fold
        return Difference(mean, 0.0, float("nan") if mean == 0 else float(np.sign(mean)) * np.inf, float(mean == 0))
    t = mean / error
    return Difference(mean, error, t, float(2 * student.sf(abs(t), n - 1)))


def holm(p_values) -> np.ndarray:
    """p-values corrected for making several comparisons at once (Holm, 1979). NaN stays NaN and does not count.

    Parameters
    ----------
    p_values : numbers between 0 and 1, NaN for a comparison without one

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return corrected


def contenders(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the columns (methods) that can be ranked, and of the rows (splits) to rank them on.

    A method that fails on the hard splits has a better mean for it. So those with a value on every split (that any
    method has one on) are ranked; if there is none, those with any value, on the splits that all of these have.

    Examples
    --------
    >>> import numpy as np
    >>> [mask.tolist() for mask in contenders(np.array([[0.1, 0.3, np.nan], [0.2, np.nan, np.nan]]))]
    [[True, False, False], [True, True]]
    >>> [mask.tolist() for mask in contenders(np.array([[np.nan, 0.3], [0.2, 0.1], [0.1, np.nan]]))]
    [[True, True], [False, True, False]]
    """
    known = ~np.isnan(losses)
    some = known.any(axis=0)
    complete = some & known[known.any(axis=1)].all(axis=0)
    methods = complete if complete.any() else some
    return methods, known[:, methods].all(axis=1) & methods.any()


def average_ranks(losses: np.ndarray) -> np.ndarray:
    """Mean rank of every column (method) among the `contenders`; 1 is best, ties share, NaN for those not ranked.

    Examples
    --------
    >>> import numpy as np
    >>> average_ranks(np.array([[0.1, 0.3, 0.2], [0.2, 0.2, np.nan]])).tolist()
    [1.25, 1.75, nan]
    """
    methods, rows = contenders(losses)
    ranks = np.full(losses.shape[1], np.nan)
    if rows.any():
        ranks[methods] = rankdata(losses[rows][:, methods], axis=1).mean(axis=0)
    return ranks


def by_split(values: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """One value per distinct split: its mean over repeats, which there are seeds and nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> by_split(np.array([1.0, 3.0, 2.0, 6.0]), np.array([0, 1, 0, 1])).tolist()
    [1.5, 4.5]
    """
    return np.array([values[splits == one].mean() for one in np.unique(splits)])


def spread(values: np.ndarray, repeats: np.ndarray, splits: np.ndarray | None = None) -> dict[str, float]:
    """Mean and deviation over distinct splits (default: all are), deviation of the means of repeats, number of values.

    NaN values are left out. Over fixed splits the repeats are seeds: their values are averaged before the deviation
    over splits is taken, and the deviation of the means of repeats is that of the seed alone.

    Examples
    --------
    >>> import numpy as np
    >>> values, repeats = np.array([1.0, 3.0, 2.0, 6.0]), np.array([0, 0, 1, 1])
    >>> spread(values, repeats)["_sd_folds"].__round__(4), spread(values, repeats)["_sd_repeats"].__round__(4)
    (2.1602, 1.4142)
    >>> spread(values, repeats, splits=np.array([0, 1, 0, 1]))["_sd_folds"].__round__(4)
    2.1213
    """
    known = ~np.isnan(values)
    values, repeats = values[known], repeats[known]
    parts = by_split(values, np.arange(len(values)) if splits is None else splits[known])
    found = [parts, np.array([values[repeats == repeat].mean() for repeat in np.unique(repeats)])]
    deviations = [float(np.std(part, ddof=1)) if len(part) > 1 else float("nan") for part in found]
    mean = float(parts.mean()) if len(parts) else float("nan")
    return {"": mean, "_sd_folds": deviations[0], "_sd_repeats": deviations[1], "_cells": len(values)}
