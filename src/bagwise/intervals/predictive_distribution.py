"""The whole distribution of a new bag's target, from held-out errors: a conformal predictive system."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bagwise.intervals.order_statistics import ROUNDING, VALUES_AT_ONCE, SortedScores

DECILES = tuple(round(0.1 * i, 1) for i in range(1, 10))


@dataclass(frozen=True)
class PredictiveDistribution:
    r"""The distribution of every new bag's target, as `Intervals.predict_distribution` gives it.

    Every calibration bag i puts a value where the target of the new bag x would be if its error were that of i,

    .. math:: C_i(x) = \mu_{-k(i)}(x) + s_{-k(i)}(x)\, (y_i - \mu_{-k(i)}(x_i)) / s_{-k(i)}(x_i),

    and the values, each of weight 1 / (n + 1), with 1 / (n + 1) at no known place, are the distribution. A group of N
    bags shares its weight, 1/N for each. For a split this is the split conformal predictive system, whose ranks are
    exactly uniform; for cv+ and jackknife+ it is the cross-conformal one, in practice close to it.

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
    >>> found = bw.Intervals("aggregated").fit(bags[:200], y[:200]).predict_distribution(bags[200:])
    >>> found.quantile([0.1, 0.5, 0.9]).shape
    (100, 3)
    >>> bool(0.8 < (y[200:] < found.quantile(0.9)).mean() < 1.0)
    True
    """

    centre: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    fold: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return self.centre.shape[1]

    def __repr__(self) -> str:
        low, high = self.known()
        return f"PredictiveDistribution: {len(self)} bags, quantiles from {low:.3g} to {high:.3g}"

    def known(self) -> tuple[float, float]:
        """The smallest and the largest probability that has a finite quantile: 1 / (n + 1) and n / (n + 1)."""
        units = round(self.shares.sum())
        return 1 / (units + 1), units / (units + 1)

    def quantile(self, probability) -> np.ndarray:
        """Quantiles (bags,) of one probability, (bags, probabilities) of several.

        From 0.5 on, the ⌈p (n + 1)⌉-th smallest value; below, the ⌊p (n + 1)⌋-th smallest: the quantiles of p and
        1 - p hold a share of at least 1 - 2p between them.
        """
        wanted = np.asarray(probability, dtype=np.float64)
        low, high = self.known()
        odd = [p for p in wanted.ravel().tolist() if not 0 < p < 1]
        if odd:
            raise ValueError(f"a probability must lie between 0 and 1, not {odd[0]:g}")
        far = [p for p in wanted.ravel().tolist() if not low - ROUNDING <= p <= high + ROUNDING]
        if far:
            raise ValueError(
                f"a quantile of {far[0]:g} needs more calibration bags (groups) than {round(self.shares.sum())}; with "
                f"these, ask for probabilities from {low:.3g} to {high:.3g}"
            )
        found = [self._one(p) for p in np.atleast_1d(wanted).tolist()]
        return found[0] if wanted.ndim == 0 else np.column_stack(found)

    def _one(self, p: float) -> np.ndarray:
        sign, level = (1.0, p) if p >= 0.5 else (-1.0, 1.0 - p)
        scores = SortedScores(sign * self.scores, self.fold, self.shares)
        step = max(1, VALUES_AT_ONCE // scores.values_per_bag)
        parts = (slice(start, start + step) for start in range(0, len(self), step))
        found = [scores.quantile(self.scale[:, at].T, sign * self.centre[:, at].T, level) for at in parts]
        return sign * np.concatenate(found) if found else np.empty(0)

    def cdf(self, y) -> np.ndarray:
        """The probability of a target below y, a number per bag: (mass below y + (mass at y + 1) / 2) / (n + 1)."""
        y = self._one_per_bag(y)
        found = [
            (self.shares * ((values < t) + 0.5 * (values == t))).sum(axis=1) + 0.5
            for values, t in zip(self._values(), self._cut(y[:, None]), strict=True)
        ]
        return np.concatenate(found) / (self.shares.sum() + 1.0)

    def crps(self, y) -> np.ndarray:
        r"""The continuous ranked probability score of every bag: E\|C - y\| - E\|C - C'\| / 2, C drawn from the values.

        In the unit of the target; for a distribution that is one point it is the absolute error. The mass at no known
        place is left out.
        """
        y, weights = self._one_per_bag(y), self.shares / self.shares.sum()
        found = []
        for values, t in zip(self._values(), self._cut(y[:, None]), strict=True):
            order = np.argsort(values, axis=1, kind="stable")
            ordered, w = np.take_along_axis(values, order, axis=1), weights[order]
            below = np.cumsum(w, axis=1) - w / 2  # half the mean distance of two draws, by ranks
            found.append((w * np.abs(ordered - t)).sum(axis=1) - (w * (2 * below - 1) * ordered).sum(axis=1))
        return np.concatenate(found)

    def values(self) -> np.ndarray:
        """All values C (bags, calibration bags), in increasing order; as large as it sounds."""
        return np.sort(self.scale[self.fold].T * self.scores + self.centre[self.fold].T, axis=1)

    def _one_per_bag(self, y) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        if y.shape != (len(self),):
            raise ValueError(f"y must have one number for each of {len(self)} bags, not shape {y.shape}")
        return y

    def _parts(self) -> Iterator[slice]:
        step = max(1, VALUES_AT_ONCE // len(self.scores))
        return (slice(start, start + step) for start in range(0, len(self), step))

    def _values(self) -> Iterator[np.ndarray]:
        for at in self._parts():
            # One row after the other in memory: a bag's sum then has the same order beside any others.
            yield np.ascontiguousarray(self.scale[self.fold, at].T * self.scores + self.centre[self.fold, at].T)

    def _cut(self, y: np.ndarray) -> Iterator[np.ndarray]:
        return (y[at] for at in self._parts())
