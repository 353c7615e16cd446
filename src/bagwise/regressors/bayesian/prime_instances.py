"""Bayesian prime-MIR: Gibbs sampling of the primary instance of each bag and of the plane through them.

Targets are standardised, the first column of ``design`` is one, and the target of bag i has the variance s²/w_i.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from bagwise.bags import Bags
from bagwise.bags.segments import segment_softmax, segment_sum
from bagwise.execution.resources import one_thread
from bagwise.instances.out_of_fold import fit_rows, seeded
from bagwise.regressors.bayesian.evidence_ridge import PredictiveRegressor, TargetScale
from bagwise.regressors.iterative_weights import Primary, Reweighting, Task, smallest
from bagwise.regressors.pipeline import SLACK
from bagwise.regressors.ridge_path import linear

SHAPE, RATE = 0.1, 0.001  # of the prior s² ~ IG(shape, rate), in units of standardised targets
SUREST = 0.999  # the odds of the selector lie between 1 : 999 and 999 : 1; a forest is no surer than that
SMALLEST_VARIANCE = 1e-6  # of the first sweep, in units of var(y), if prime-MIR meets every target
DIGITS = 9  # of the chances that the selector learns; the noise of the sampler is far larger


def sample(design, offsets, y, w, start, draws: int, burn_in: int, random) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw δ | b, s², then b | δ, s², then s² | δ, b from ``start`` = (b, s²); the first ``burn_in`` are discarded.

    P(δ_i = l | b, s²) ∝ exp(-w_i (y_i - x_ilᵀb)² / 2s²), and s² | δ, b ~ IG(shape + n/2, rate + Σ w (y - xᵀb)² / 2).
    Return the draws of b and of s², and the mean of the chances P of each instance.
    """
    sizes, n = np.diff(offsets), np.count_nonzero(w)
    y_rows, w_rows = np.repeat(y, sizes), np.repeat(w, sizes)
    b, variance = start
    coefficients, variances = np.empty((draws, design.shape[1])), np.empty(draws)
    inclusion = np.zeros(len(design))
    for sweep in range(-burn_in, draws):
        chances = segment_softmax(-0.5 / variance * (w_rows * (y_rows - design @ b) ** 2), offsets)
        primary = design[draw_primary(chances, offsets, random)]
        b = draw_coefficients(primary, y, w, variance, random)
        variance = float((RATE + w @ (y - primary @ b) ** 2 / 2) / random.gamma(SHAPE + n / 2))
        if sweep >= 0:
            coefficients[sweep], variances[sweep] = b, variance
            inclusion += chances
    return coefficients, variances, inclusion / draws


def draw_primary(chances, offsets, random) -> np.ndarray:
    """Draw one row per bag by its chances, where their running sum passes a uniform number."""
    total = np.cumsum(chances)
    before = np.concatenate([[0.0], total[offsets[1:-1] - 1]])
    target = before + random.uniform(size=len(before)) * (total[offsets[1:] - 1] - before)
    return np.clip(np.searchsorted(total, target, side="right"), offsets[:-1], offsets[1:] - 1)


def draw_coefficients(Z, y, w, variance: float, random) -> np.ndarray:
    """Draw b | δ, s²: normal with the precision P = ZᵀWZ/s² + I/n and the mean P⁻¹ ZᵀWy/s²."""
    weighted = Z.T * w
    precision = weighted @ Z / variance + np.eye(Z.shape[1]) / np.count_nonzero(w)
    mean, root = np.linalg.solve(precision, weighted @ y / variance), np.linalg.cholesky(precision)
    return mean + np.linalg.solve(root.T, random.normal(size=len(mean)))


class BayesianPrime(PredictiveRegressor):
    r"""Bayesian prime-MIR: y_i ~ N(b₀ + xᵀb, s²) for the primary instance x of bag i, drawn by Gibbs sampling.

    Priors: b ~ N((ȳ, 0, ...), n var(y) I) for n bags, s² ~ IG(0.1, 0.001 var(y)), δ_i uniform over its bag; scale the
    features first. Each sweep draws δ, b and s² from their conditionals, the first from the solution of prime-MIR.

    In a new bag a selector predicts the primary instance from the features. Each training bag contributes one primary
    instance in total and one other (each with weight (1 - p)/(L_i - 1)); the selector is a regressor that learns the
    share of the former at x, τ(x). By Bayes' rule the chance of instance l of a new bag is π_l ∝ τ(x_l) / (1 - τ(x_l)),
    whatever the sizes of the bags. The prediction is the π-weighted mean of b₀ + xᵀb̄ over the ``top`` most likely
    instances.

    Parameters
    ----------
    draws, burn_in : int, default=1000, 500
        Number of sweeps, and of discarded sweeps before them.
    selector : regressor, default=RandomForestRegressor(100, min_samples_leaf=5)
        scikit-learn regressor whose ``fit`` takes ``sample_weight``.
    top : int, default=1
        Number of instances of a new bag that are averaged (and those that tie with the last).
    slack : float or None, default=0.5
        How far a prediction may lie outside the training targets, as a share of their range; None for no limit.
    random_state : int, default=0
        Seed of the draws and of the selector.

    Attributes
    ----------
    inclusion_ : ndarray of shape (n_instances,)
        The chance of each training instance to be the primary one; they sum to one in each bag.
    coef_, intercept_ : ndarray, float
        Posterior means, in units of y.
    coef_draws_, variance_draws_ : ndarray of shape (draws, 1 + n_features), ndarray of shape (draws,)
        Draws, the intercept first, in units of y.
    selector_ : fitted regressor or None
        None when every bag has a single instance.

    Examples
    --------
    >>> from bagwise.datasets import make_bmir
    >>> from bagwise.regressors import BayesianPrime
    >>> bags, y = make_bmir(200)  # intercept 2, slopes 2
    >>> model = BayesianPrime(draws=300, burn_in=200).fit(bags[:100], y[:100])
    >>> model.coef_.round(1).tolist()
    [2.0, 2.0, 2.0, 1.9, 2.0]

    Notes
    -----
    A standard deviation is the root of the expected squared error: the noise, the uncertainty of the coefficients and
    that of the primary instance, mean(s²) + Σ_l π_l (var(x_lᵀb) + (x_lᵀb̄ - ŷ)²).

    The source takes s² ~ IG(0.1, 0.1) in the units of y. Its forest regresses logit(p - 1/L_i), which is undefined for
    p < 1/L_i; the odds above are our reading. ``sample_weight`` divides the variance of a bag. Standard deviations of
    predictions are rather too large, because a forest is less certain than it could be.

    References
    ----------
    Park, Wang, Lim, Xiao, Lu, Wang (2020), Bayesian multiple instance regression for modeling immunogenic neoantigens.
    """

    _reads: ClassVar = {}
    target_ = TargetScale(0.0, 1.0)  # predictions are in units of y

    def __init__(
        self,
        *,
        draws: int = 1000,
        burn_in: int = 500,
        selector=None,
        top: int = 1,
        slack: float | None = SLACK,
        random_state: int = 0,
    ):
        self.draws = draws
        self.burn_in = burn_in
        self.selector = selector
        self.top = top
        self.slack = slack
        self.random_state = random_state

    def _fit(self, bags, y, weight) -> None:
        if self.draws < 1 or self.burn_in < 0 or self.top < 1:
            raise ValueError("draws and top must be at least 1, and burn_in not negative")
        # Instances and bags are sorted, so that their order changes nothing; bags without weight must not influence it.
        X = bags.instances
        within = np.lexsort((*X.T[::-1], bags.expand(np.arange(len(bags)))))
        order = np.lexsort((*X[within[bags.offsets[:-1]]].T[::-1], np.where(weight > 0, y, np.inf)))
        rows = within[bags.rows(order)]
        task = Task.of(bags[order].replace(X[rows]), y[order], weight[order])
        with one_thread():
            coefficients, variances, inclusion = self._sample(task)
        self.selector_ = self._fit_selector(task, inclusion)
        self.coef_draws_, self.variance_draws_ = task.scale * coefficients, task.scale**2 * variances
        self.coef_draws_[:, 0] += task.centre
        self.intercept_, self.coef_ = float(self.coef_draws_[:, 0].mean()), self.coef_draws_[:, 1:].mean(axis=0)
        self.inclusion_ = np.empty(bags.n_instances)
        self.inclusion_[rows] = inclusion

    def _predict(self, bags) -> np.ndarray:
        return segment_sum(self.instance_weights(bags) * self.predict_instances(bags), bags.offsets)

    def _moments(self, bags):
        mean, values = self._predict(bags), self.predict_instances(bags)
        covariance, design = np.atleast_2d(np.cov(self.coef_draws_.T, bias=True)), _design(bags)
        spread = np.einsum("ij,jk,ik->i", design, covariance, design, optimize=True)
        missed = self._chances(bags) * (spread + (values - bags.expand(mean)) ** 2)
        return mean, self.variance_draws_.mean() + segment_sum(missed, bags.offsets)

    def predict_instances(self, bags) -> np.ndarray:
        """Return b₀ + xᵀb̄ of each instance: the target if it is the primary one."""
        return linear(self._checked(bags).instances, self.coef_, self.intercept_)

    def instance_weights(self, bags) -> np.ndarray:
        """Return the weight of each instance in its bag: π over the ``top`` most likely, else zero."""
        bags = self._checked(bags)
        chances = self._chances(bags)
        chosen = chances * smallest(bags, -chances, np.minimum(self.top, bags.sizes))
        return chosen / bags.expand(segment_sum(chosen, bags.offsets))

    def _sample(self, task: Task) -> tuple:
        """Start from the plane of prime-MIR, because a chain may need many hundred sweeps to find one."""
        weights = task.share * np.count_nonzero(task.share)  # of mean one over the bags that count
        prime = Reweighting(weighting=Primary(), random_state=self.random_state).fit(task.bags, task.y, weights)
        plane = prime.scale_ * np.array([prime.regressor_.intercept_, *prime.regressor_.coef_])
        start = plane, max(prime.scale_**2 * float(prime.objective_.min()), SMALLEST_VARIANCE)
        random = np.random.default_rng(self.random_state)
        data = _design(task.bags), task.bags.offsets, task.y, weights
        return sample(*data, start, self.draws, self.burn_in, random)

    def _fit_selector(self, task: Task, inclusion: np.ndarray):
        """Fit τ(x): the share of primary instances at x, where a bag has one primary and one other in total."""
        bags = task.bags
        learned = bags.expand((bags.sizes > 1) & (task.share > 0))
        if not learned.any():
            return None
        # Rounding must not decide a tie between two splits of the forest, which are many in small leaves.
        primary = np.round(inclusion[learned], DIGITS)
        other = (1.0 - primary) / (bags.expand(bags.sizes)[learned] - 1)
        total = primary + other
        forest = RandomForestRegressor(100, min_samples_leaf=5)
        selector = seeded(clone(self.selector) if self.selector is not None else forest, self.random_state)
        return fit_rows(selector, bags.instances[learned], primary / total, total * bags.expand(task.share)[learned])

    def _chances(self, bags: Bags) -> np.ndarray:
        """Return π: the probability of each instance to be the primary one, by its features."""
        if self.selector_ is None:
            return 1.0 / bags.expand(bags.sizes)
        with one_thread():
            share = np.clip(self.selector_.predict(bags.instances), 1.0 - SUREST, SUREST)
        odds = share / (1.0 - share)
        return odds / bags.expand(segment_sum(odds, bags.offsets))


def _design(bags: Bags) -> np.ndarray:
    return np.column_stack([np.ones(bags.n_instances), bags.instances])
