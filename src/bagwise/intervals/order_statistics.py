"""Quantiles of scores with a finite-sample guarantee, the coverage of intervals, the distribution of a new target.

The unit is the bag, or the group of bags: in a group of N bags, each score has weight 1/N. The quantiles of held-out
errors at all levels form a conformal predictive system (`PredictiveDistribution`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from numbers import Real

import numpy as np
from scipy.stats import binom, norm

from bagwise.bags.validation import aligned

ROUNDING = 1e-9  # so that rounding of 0.9 * (9 + 1) does not select the tenth of nine scores
VALUES_AT_ONCE = 2**21
BISECTED = 100  # bags per fold above which bisection is quicker than comparing all values
HALVINGS = 36  # steps of the bisection: accurate to 1e-11 of the range


def check_level(level: float) -> float:
    if not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise ValueError(f"level is the share of bags to be covered, a number between 0 and 1, not {level!r}")
    return float(level)


def units_needed(level: float) -> int:
    """Return the least number of calibration bags (groups) with a finite interval, level / (1 - level).

    Parameters
    ----------
    level : float, between 0 and 1

    Examples
    --------
    >>> [units_needed(level) for level in (0.8, 0.9, 0.95, 0.99)]
    [4, 9, 19, 99]
    """
    level = check_level(level)
    return max(1, ceil(level / (1.0 - level) - ROUNDING))


def unit_shares(unit: np.ndarray) -> np.ndarray:
    """Return 1 / (number of bags of its unit) for each bag."""
    return 1.0 / np.bincount(unit)[unit]


def needed_mass(shares: np.ndarray, level: float) -> float:
    """Return the sum of shares that the scores up to a quantile must hold."""
    return level * (shares.sum() + 1.0) - ROUNDING


def conformal_quantile(values: np.ndarray, shares: np.ndarray, level: float) -> np.ndarray:
    """Return the smallest v in each row of ``values`` such that those up to v hold ``level * (K + 1)`` of the K units.

    If each bag is a unit, it is the ⌈level (n + 1)⌉-th smallest of n values. With groups it is the quantile of the
    hierarchical conformal method, where a score of a group of N bags has mass 1 / ((K + 1) N) and the last
    1 / (K + 1) lies at infinity. ``shares`` are those of `unit_shares`.
    """
    mass = needed_mass(shares, level)
    if (shares == 1.0).all():
        rank = min(max(ceil(mass), 1), values.shape[1]) - 1
        return np.partition(values, rank, axis=1)[:, rank]
    order = np.argsort(values, axis=1, kind="stable")
    place = (np.cumsum(shares[order], axis=1) >= mass).argmax(axis=1)[:, None]
    return np.take_along_axis(values, np.take_along_axis(order, place, axis=1), axis=1)[:, 0]


class SortedScores:
    """Calibration scores sorted within each fold, for quantiles of ``scale * score + shift`` at any new bag.

    Within a fold these values rise with the score, so the scores of a fold are one sorted list for all new bags. With
    many scores the quantile over all folds is found by bisection in these lists, in O(K log n) for K folds and n
    scores; otherwise `conformal_quantile` of all values is quicker.

    Parameters
    ----------
    scores, fold, shares : arrays (calibration bags,); folds from 0, shares from `unit_shares`
    n_folds : number of folds, if the last of them may have no score here
    """

    def __init__(self, scores: np.ndarray, fold: np.ndarray, shares: np.ndarray, n_folds: int = 0):
        order = np.lexsort((scores, fold))
        self.scores, self.fold, self.shares = scores[order], fold[order], shares[order]
        self.counts = np.bincount(fold, minlength=n_folds)

    def quantile(self, scale: np.ndarray, shift: np.ndarray, level: float) -> np.ndarray:
        """Return `conformal_quantile` of ``scale[x, k(i)] * score_i + shift[x, k(i)]`` for each new bag x.

        ``scale`` and ``shift`` are arrays (new bags, folds).
        """
        if len(self.scores) >= BISECTED * len(self.counts):
            return self._bisect(scale, shift, level)
        step, quantiles = max(1, VALUES_AT_ONCE // len(self.scores)), np.empty(len(scale))
        for rows in (slice(start, start + step) for start in range(0, len(scale), step)):
            values = scale[rows][:, self.fold] * self.scores + shift[rows][:, self.fold]
            quantiles[rows] = conformal_quantile(values, self.shares, level)
        return quantiles

    def _bisect(self, scale: np.ndarray, shift: np.ndarray, level: float) -> np.ndarray:
        """Find the quantile between the smallest and the largest of the same quantile within each fold."""
        mass = needed_mass(self.shares, level)
        cuts, lists, ends = np.cumsum(self.counts)[:-1], [], []
        for k, (scores, shares) in enumerate(
            zip(np.split(self.scores, cuts), np.split(self.shares, cuts), strict=True)
        ):
            if len(scores):
                reached = np.cumsum(shares)
                place = np.searchsorted(reached, mass / self.shares.sum() * reached[-1])
                ends.append(scale[:, k] * scores[min(place, len(scores) - 1)] + shift[:, k])
                lists.append((scores, np.append(0.0, reached), scale[:, k], shift[:, k]))
        low, high = np.min(ends, axis=0), np.max(ends, axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            reached = sum(total[scores.searchsorted((middle - b) / a, side="right")] for scores, total, a, b in lists)
            is_enough = reached >= mass
            low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
        return high


def plus_interval(lower, upper, scale, scores: SortedScores, level) -> np.ndarray:
    r"""Return the CV+ interval of each new bag.

    From the quantile of :math:`l_{-k(i)}(x) - h_i` at the bottom to that of :math:`u_{-k(i)}(x) + h_i` at the
    top, over the calibration bags i, where k(i) is the fold of i and :math:`h_i = s_{-k(i)}(x)` times its score.

    Parameters
    ----------
    lower, upper : arrays (folds, new bags), both the prediction for absolute scores, else the two quantiles
    scale : array (scales, new bags); fold k has ``scale[k % len(scale)]``
    scores : those of the calibration bags
    """
    width = scale[np.arange(len(lower)) % len(scale)].T
    return np.column_stack([-scores.quantile(width, -lower.T, level), scores.quantile(width, upper.T, level)])


def around(predictions: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the bounds, widened to the prediction where it lies outside, so that they never cross."""
    return np.column_stack([np.minimum(bounds[:, 0], predictions), np.maximum(bounds[:, 1], predictions)])


def coverage(y, intervals) -> float:
    """Return the share of the targets inside their interval, bounds included.

    Parameters
    ----------
    y : one target per bag
    intervals : array (bags, 2), lower and upper bounds

    Examples
    --------
    >>> coverage([1.0, 2.0, 3.0, 9.0], [[0, 4]] * 4)
    0.75
    """
    y, intervals = np.asarray(y), np.asarray(intervals)
    if intervals.shape != (len(y), 2):
        raise ValueError(f"expected a lower and an upper bound for each of {len(y)} bags, not shape {intervals.shape}")
    return float(np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1])))


def coverage_by_size(y, intervals, sizes) -> dict[str, float]:
    """Return the coverage of all bags, of the smallest fifth and of the largest fifth, ties included.

    Parameters
    ----------
    y : one target per bag
    intervals : array (bags, 2), lower and upper bounds
    sizes : number of instances of every bag

    Examples
    --------
    >>> coverage_by_size([1, 2, 3, 4, 5], [[0, 4]] * 5, sizes=[9, 7, 5, 3, 1])
    {'all': 0.8, 'smallest': 0.0, 'largest': 1.0}
    """
    y, intervals, sizes = np.asarray(y), np.asarray(intervals), np.asarray(sizes)
    low, high = np.quantile(sizes, 0.2, method="lower"), np.quantile(sizes, 0.8, method="higher")
    parts = {"all": sizes > 0, "smallest": sizes <= low, "largest": sizes >= high}
    return {name: coverage(y[part], intervals[part]) for name, part in parts.items()}


def coverage_by(y, intervals, labels, level: float = 0.9) -> dict[str, list]:
    """Return the coverage per label (site, year) as columns: label, bags, coverage, low, high, mean width.

    The coverage of few bags varies by chance: for n independent bags it lies between ``low`` and ``high`` in 95 of 100
    cases, if the intervals hold at ``level``.

    Parameters
    ----------
    y : one target per bag
    intervals : array (bags, 2), lower and upper bounds
    labels : one label per bag
    level : float, that of the intervals

    Examples
    --------
    >>> columns = coverage_by([1, 2, 3, 9], [[0, 4]] * 4, ["a", "a", "a", "b"])
    >>> columns["label"], columns["bags"], columns["coverage"], columns["low"]
    (['a', 'b'], [3, 1], [1.0, 0.0], [0.333, 0.0])
    """
    y, intervals, labels = np.asarray(y), np.asarray(intervals), np.asarray(labels)
    if labels.shape != y.shape:
        raise ValueError(f"give one label for each of {len(y)} bags, not shape {labels.shape}")
    rows = []
    for label in np.unique(labels):
        part = labels == label
        n = int(part.sum())
        chance = [round(float(end) / n, 3) for end in binom.interval(0.95, n, check_level(level))]
        width = float(np.mean(np.ptp(intervals[part], axis=1)))
        rows.append((label.item(), n, coverage(y[part], intervals[part]), *chance, width))
    names = ("label", "bags", "coverage", "low", "high", "width")
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def fifths(values) -> np.ndarray:
    """Return the fifth (0 to 4) of each value; equal values share one, so few distinct values have fewer."""
    values = np.asarray(values)
    edges = np.unique(np.quantile(values, [0.2, 0.4, 0.6, 0.8], method="lower"))
    return np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)[1]


def gaussian_coverage(y, mean, std, levels=(0.5, 0.8, 0.9, 0.95)) -> dict[float, float]:
    r"""Return the share of targets within mean ± z std, with z the normal quantile of each level.

    For the methods whose ``predict(bags, return_std=True)`` gives a standard deviation ("blr", "shrinkage", "bdr").

    Parameters
    ----------
    y : one target per bag
    mean, std : predictions and their standard deviations, one per bag or one for all
    levels : numbers between 0 and 1

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=10_000)
    >>> {level: round(share, 2) for level, share in gaussian_coverage(y, 0.0, 1.0).items()}
    {0.5: 0.5, 0.8: 0.8, 0.9: 0.9, 0.95: 0.95}
    """
    distance = np.abs(np.asarray(y, dtype=np.float64) - mean)
    return {level: float(np.mean(distance <= norm.ppf(0.5 + level / 2) * std)) for level in levels}


@dataclass(frozen=True)
class PredictiveDistribution:
    r"""The distribution of the target of each new bag, returned by `Intervals.predict_distribution`.

    Each calibration bag i gives the value that the target of the new bag x would have with the error of i,

    .. math:: C_i(x) = \mu_{-k(i)}(x) + s_{-k(i)}(x)\, (y_i - \mu_{-k(i)}(x_i)) / s_{-k(i)}(x_i),

    and the values, each of weight 1 / (n + 1), are the distribution; the place of the last 1 / (n + 1) is not known. A
    group of N bags shares its weight, 1/N for each. For a split this is the split conformal predictive system, whose
    ranks are exactly uniform; for cv+ and jackknife+ it is the cross-conformal one, in practice close to it.

    Attributes
    ----------
    centre, scale : arrays (folds, bags), μ and s of every fold at the new bags
    scores, fold, shares : arrays (calibration bags,), the signed scores, their folds and their weights in units

    References
    ----------
    V. Vovk, J. Shen, V. Manokhin, M. Xie, "Nonparametric predictive distributions based on conformal prediction",
    Machine Learning, 2019. V. Vovk, I. Nouretdinov, V. Manokhin, A. Gammerman, "Cross-conformal predictive
    distributions", 2018.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_problem("mean", 300)
    >>> distribution = bw.Intervals("aggregated").fit(bags[:200], y[:200]).predict_distribution(bags[200:])
    >>> distribution.quantile([0.1, 0.5, 0.9]).shape
    (100, 3)
    >>> bool(0.8 < (y[200:] < distribution.quantile(0.9)).mean() < 1.0)
    True
    """

    centre: np.ndarray
    scale: np.ndarray
    scores: np.ndarray
    fold: np.ndarray
    shares: np.ndarray
    ids: np.ndarray | None = None  # of the new bags, to align targets by

    def __len__(self) -> int:
        return self.centre.shape[1]

    def __repr__(self) -> str:
        low, high = self.known()
        return f"PredictiveDistribution: {len(self)} bags, quantiles from {low:.3g} to {high:.3g}"

    def known(self) -> tuple[float, float]:
        """Return the lowest and the highest probability with a finite quantile: 1 / (n + 1) and n / (n + 1)."""
        units = round(self.shares.sum())
        return 1 / (units + 1), units / (units + 1)

    def quantile(self, probability) -> np.ndarray:
        """Return quantiles, (bags,) for one probability, (bags, probabilities) for several.

        From 0.5 on, the ⌈p (n + 1)⌉-th smallest value; below, the ⌊p (n + 1)⌋-th smallest: the quantiles of p and
        1 - p hold a share of at least 1 - 2p between them.
        """
        low, high = self.known()
        columns = []
        for p in np.atleast_1d(np.asarray(probability, dtype=np.float64)).tolist():
            if not 0 < p < 1:
                raise ValueError(f"a probability must lie between 0 and 1, not {p:g}")
            if not low - ROUNDING <= p <= high + ROUNDING:
                raise ValueError(
                    f"a quantile of {p:g} needs more calibration bags (groups) than {round(self.shares.sum())}; with "
                    f"these, ask for probabilities from {low:.3g} to {high:.3g}"
                )
            sign, level = (1.0, p) if p >= 0.5 else (-1.0, 1.0 - p)
            scores = SortedScores(sign * self.scores, self.fold, self.shares)
            columns.append(sign * scores.quantile(self.scale.T, sign * self.centre.T, level))
        return columns[0] if np.ndim(probability) == 0 else np.column_stack(columns)

    def cdf(self, y) -> np.ndarray:
        """Return the probability of a target below y per bag: (mass below y + (mass at y + 1) / 2) / (n + 1)."""
        parts = [(self.shares * ((values < t) + 0.5 * (values == t))).sum(axis=1) for values, t in self._values(y)]
        return (np.concatenate(parts) + 0.5) / (self.shares.sum() + 1.0)

    def crps(self, y) -> np.ndarray:
        r"""Return the continuous ranked probability score per bag, E\|C - y\| - E\|C - C'\| / 2, C one of the values.

        In the unit of the target; for a distribution that is one point it is the absolute error. The mass whose place
        is not known is left out.
        """
        parts, weights = [], self.shares / self.shares.sum()
        for values, t in self._values(y):
            order = np.argsort(values, axis=1, kind="stable")
            ordered, w = np.take_along_axis(values, order, axis=1), weights[order]
            below = np.cumsum(w, axis=1) - w / 2  # half the mean distance of two draws, by ranks
            parts.append((w * np.abs(ordered - t)).sum(axis=1) - (w * (2 * below - 1) * ordered).sum(axis=1))
        return np.concatenate(parts)

    def values(self) -> np.ndarray:
        """Return all values C in increasing order, (bags, calibration bags)."""
        return np.sort(self.scale[self.fold].T * self.scores + self.centre[self.fold].T, axis=1)

    def _values(self, y) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the values of some bags at a time, with the number of each bag."""
        y = np.asarray(y if self.ids is None else aligned(y, self.ids), dtype=np.float64)
        if y.shape != (len(self),):
            raise ValueError(f"y must have one number for each of {len(self)} bags, not shape {y.shape}")
        step = max(1, VALUES_AT_ONCE // len(self.scores))
        for at in (slice(start, start + step) for start in range(0, len(self), step)):
            values = self.scale[self.fold, at].T * self.scores + self.centre[self.fold, at].T
            # Use C order, so that the sum of a bag does not depend on the other bags.
            yield np.ascontiguousarray(values), y[at, None]
