"""Quantiles of scores with a finite-sample guarantee, the coverage of intervals, the distribution of a new target.

The unit that counts is the bag, or the group of bags: a score of a group of N bags counts 1/N. Held-out errors at all
levels are a conformal predictive system (`PredictiveDistribution`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from numbers import Real

import numpy as np
from scipy.stats import binom, norm

from bagwise.bags.validation import aligned

ROUNDING = 1e-9  # 0.9 * (9 + 1) must not ask for the tenth of nine scores
VALUES_AT_ONCE = 2**21
BISECTED = 100  # bags of a fold, on average; with fewer (one each in jackknife+) comparing all values is quicker


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


def conformal_quantile(values: np.ndarray, shares: np.ndarray, level: float) -> np.ndarray:
    r"""Return the smallest v in each row such that the values up to v hold ``level * (K + 1)`` of the K units.

    With one bag a unit, it is the ⌈level (n + 1)⌉-th smallest of n values. With groups it is the quantile of the
    hierarchical conformal method, where a score of a group of N bags has mass 1 / ((K + 1) N) and the last
    1 / (K + 1) lies at infinity.

    Parameters
    ----------
    values : array (rows, bags)
    shares : array (bags,), from `unit_shares`

    Examples
    --------
    >>> conformal_quantile(np.array([[3.0, 1.0, 2.0, 5.0]]), np.ones(4), 0.6)
    array([3.])
    """
    mass = level * (shares.sum() + 1.0) - ROUNDING
    if (shares == 1.0).all():
        rank = min(max(ceil(mass), 1), values.shape[1]) - 1
        return np.partition(values, rank, axis=1)[:, rank]
    order = np.argsort(values, axis=1, kind="stable")
    place = (np.cumsum(shares[order], axis=1) >= mass).argmax(axis=1)
    return values[np.arange(len(values)), order[np.arange(len(values)), place]]


class SortedScores:
    """Calibration scores sorted once within each fold, for quantiles of ``scale * score + shift`` at any new bag.

    Within a fold the half width of a new bag is its scale times the score, and rises with the score, so each fold is a
    sorted list for every new bag. The quantile over all folds is found by bisection in these lists, in O(K log² n) for
    K folds and n calibration bags where `conformal_quantile` looks at all n, and is equal to the last digit.

    Parameters
    ----------
    scores : array (calibration bags,)
    fold : array (calibration bags,), from 0
    shares : array (calibration bags,), from `unit_shares`
    n_folds : int, optional
        Number of folds, if the last of them may have no score here.

    Examples
    --------
    >>> lists = SortedScores(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0, 1, 0, 1]), np.ones(4))
    >>> lists.quantile(np.ones((1, 2)), np.zeros((1, 2)), 0.6)
    array([3.])
    """

    def __init__(self, scores: np.ndarray, fold: np.ndarray, shares: np.ndarray, n_folds: int = 0):
        order = np.lexsort((scores, fold))
        self.scores, self.fold, self.shares = scores[order], fold[order], shares[order]
        self.ends = np.concatenate([[0], np.cumsum(np.bincount(fold, minlength=n_folds))])
        self.mass = np.concatenate([[0.0], np.cumsum(shares[order])])
        self.n_folds = len(self.ends) - 1
        self.bisected = len(scores) >= BISECTED * self.n_folds

    @property
    def values_per_bag(self) -> int:
        """Numbers held at once for every new bag."""
        return self.n_folds if self.bisected else len(self.scores)

    def quantile(self, scale: np.ndarray, shift: np.ndarray, level: float) -> np.ndarray:
        """Return `conformal_quantile` of ``scale[x, k(i)] * score_i + shift[x, k(i)]`` for each new bag x.

        Parameters
        ----------
        scale, shift : array (new bags, folds)
        """
        if self.bisected:
            return self._bisect(scale, shift, level)
        return conformal_quantile(scale[:, self.fold] * self.scores + shift[:, self.fold], self.shares, level)

    def _bisect(self, scale, shift, level: float) -> np.ndarray:
        """Find the quantile by windows of places in each fold where it may still lie.

        A step compares the quantile with the median of the windows' medians, and discards at least a quarter of what
        is left.
        """
        mass, first = level * (self.shares.sum() + 1.0) - ROUNDING, self.ends[:-1]
        quantiles = np.full(len(scale), np.inf)
        bags = np.arange(len(scale))
        low, high = (np.repeat(ends[None], len(scale), axis=0) for ends in (first, self.ends[1:]))
        while len(bags):
            fold, place, value = self._middle(scale, shift, low, high)
            upto = self._count(scale, shift, low, high, fold, value)
            upto[np.arange(len(bags)), fold] = place + 1
            enough = (self.mass[upto] - self.mass[first]).sum(axis=1) >= mass
            quantiles[bags[enough]] = value[enough]
            low[~enough], high[enough] = upto[~enough], upto[enough]
            high[enough, fold[enough]] -= 1
            is_open = (low < high).any(axis=1)
            if not is_open.all():
                bags, scale, shift, low, high = (part[is_open] for part in (bags, scale, shift, low, high))
        return quantiles

    def _middle(self, scale, shift, low, high) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return fold, place and value of the median of the medians of windows, weighted by their widths."""
        width, middle = high - low, (low + high) // 2
        middle[width == 0] = 0
        values = np.where(width > 0, scale * self.scores[middle] + shift, np.inf)
        order = np.argsort(values, axis=1, kind="stable")
        total = np.cumsum(np.take_along_axis(width, order, axis=1), axis=1)
        rows, at = np.arange(len(low)), (2 * total >= total[:, -1:]).argmax(axis=1)
        fold = order[rows, at]
        return fold, middle[rows, fold], values[rows, fold]

    def _count(self, scale, shift, low, high, fold, value) -> np.ndarray:
        """Return the first place of each window after the pivot, ties in the order of the folds."""
        low, high, ties = low.copy(), high.copy(), np.arange(low.shape[1]) < fold[:, None]
        last, value = len(self.scores) - 1, value[:, None]
        for _ in range(int((high - low).max()).bit_length()):
            middle = (low + high) // 2
            reached = scale * self.scores[np.minimum(middle, last)] + shift
            before = ((reached < value) | (ties & (reached == value))) & (low < high)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return low


def plus_interval(lower, upper, scale, scores: SortedScores, level) -> np.ndarray:
    r"""Return the CV+ interval of each new bag.

    From the quantile of :math:`l_{-k(i)}(x) - h_i` at the bottom to that of :math:`u_{-k(i)}(x) + h_i` at the
    top, over the calibration bags i, where k(i) is the fold of i and :math:`h_i = s_{-k(i)}(x)` times its score.

    Parameters
    ----------
    lower, upper : array (folds, new bags)
        What the model of every fold gives; both its prediction where scores are absolute, else its two quantiles.
    scale : array (scales, new bags); fold k has ``scale[k % len(scale)]``
    scores : SortedScores, those of the calibration bags
    """
    n_new, folds = lower.shape[1], np.arange(scores.n_folds)
    bounds = np.empty((n_new, 2))
    step = max(1, VALUES_AT_ONCE // scores.values_per_bag)
    for start in range(0, n_new, step):
        rows = slice(start, start + step)
        width = scale[folds % len(scale), rows].T
        bounds[rows, 0] = -scores.quantile(width, -lower[folds, rows].T, level)
        bounds[rows, 1] = scores.quantile(width, upper[folds, rows].T, level)
    return bounds


def around(predictions: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the bounds, widened to the prediction where it lies outside, so that they never cross.

    Examples
    --------
    >>> around(np.array([1.0, 5.0]), np.array([[0.0, 2.0], [4.0, 3.0]]))
    array([[0., 2.],
           [4., 5.]])
    """
    return np.column_stack([np.minimum(bounds[:, 0], predictions), np.maximum(bounds[:, 1], predictions)])


LEVELS = (0.5, 0.8, 0.9, 0.95)


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
    columns: dict[str, list] = {name: [] for name in ("label", "bags", "coverage", "low", "high", "width")}
    for label in np.unique(labels):
        part = labels == label
        n = int(part.sum())
        chance = [round(float(end) / n, 3) for end in binom.interval(0.95, n, check_level(level))]
        width = float(np.mean(np.ptp(intervals[part], axis=1)))
        row = (label.item(), n, coverage(y[part], intervals[part]), *chance, width)
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    return columns


def fifths(values) -> np.ndarray:
    """Return the fifth (0 to 4) of each value; equal values share one, so few distinct values have fewer.

    Examples
    --------
    >>> fifths([1, 2, 3, 4, 5, 5, 5, 5, 5, 5]).tolist()
    [0, 0, 1, 1, 2, 2, 2, 2, 2, 2]
    """
    values = np.asarray(values)
    edges = np.unique(np.quantile(values, [0.2, 0.4, 0.6, 0.8], method="lower"))
    return np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)[1]


def gaussian_coverage(y, mean, std, levels=LEVELS) -> dict[float, float]:
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

    centre: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    fold: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)
    ids: np.ndarray | None = field(default=None, repr=False)  # of the new bags, to align targets by

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
        probabilities = np.atleast_1d(np.asarray(probability, dtype=np.float64)).tolist()
        low, high = self.known()
        for p in probabilities:
            if not 0 < p < 1:
                raise ValueError(f"a probability must lie between 0 and 1, not {p:g}")
            if not low - ROUNDING <= p <= high + ROUNDING:
                raise ValueError(
                    f"a quantile of {p:g} needs more calibration bags (groups) than {round(self.shares.sum())}; with "
                    f"these, ask for probabilities from {low:.3g} to {high:.3g}"
                )
        columns = [self._quantile(p) for p in probabilities]
        return columns[0] if np.ndim(probability) == 0 else np.column_stack(columns)

    def _quantile(self, p: float) -> np.ndarray:
        sign, level = (1.0, p) if p >= 0.5 else (-1.0, 1.0 - p)
        scores = SortedScores(sign * self.scores, self.fold, self.shares)
        step = max(1, VALUES_AT_ONCE // scores.values_per_bag)
        parts = (slice(start, start + step) for start in range(0, len(self), step))
        quantiles = [scores.quantile(self.scale[:, at].T, sign * self.centre[:, at].T, level) for at in parts]
        return sign * np.concatenate(quantiles) if quantiles else np.empty(0)

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
            # One row after the other in memory: a bag's sum then has the same order beside any others.
            yield np.ascontiguousarray(values), y[at, None]
