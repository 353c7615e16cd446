"""Salience: a bag is a weighted combination of its instances, the weights and the regression learned in turn."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

from bagwise.bags import Bags, check_bags, check_fit, remember_columns, weights_or_ones
from bagwise.bags.segments import segment_max, segment_mean, segment_sum
from bagwise.execution.threads import one_thread
from bagwise.regressors.ridge import RidgePath

NEW_BAGS = ("learned", "uniform")
SELECTOR_PENALTY = 1e-2  # a row, on standardised features


class SalienceRegressor(RegressorMixin, BaseEstimator):
    r"""Alternate between the weights ψ of the instances and a ridge regression w on the weighted exemplars.

    .. math::

        \min_{w, \psi_i \in \Delta} \sum_i (y_i - w^T X_i^T \psi_i)^2 + \epsilon_1 s^2 \sum_i \|\psi_i\|^2 +
        \epsilon_2 \|w\|^2

    Given w the weights of a bag solve a small quadratic programme on the simplex, whose solution has the form
    ψ_l = max(0, τ - h_l g) with h the instance predictions: it is found by sorting, exactly. Given ψ the regression
    is ridge on the exemplars X_iᵀψ_i. Both steps lower the same objective, so it falls to a stop.

    Parameters
    ----------
    smoothness : float
        ε₁: 0 puts all weight where the target is met, large values make the weights equal. In units of the variance
        s² of the targets (our choice, so that it does not depend on their scale). Wagstaff and Lane's regulariser is
        not known to us; the squared norm is the one that makes this step a quadratic programme.
    penalty : float
        ε₂, times the number of bags, on standardised features.
    new_bags : {"learned", "uniform"}
        Weights of bags whose target is unknown: a ridge regression of the learned weights (relative to equal ones) on
        the instances, as Pappas and Popescu-Belis add; or equal weights.
    rounds : int
    tolerance : float
        Stop when the objective falls by less, relatively.

    Attributes
    ----------
    weights_ : ψ of the training instances
    objective_ : its value after every round
    coef_, intercept_ : the regression

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(40, instances=8)
    >>> model = SalienceRegressor().fit(bags, y)
    >>> bool(np.all(np.diff(model.objective_) <= 1e-9))
    True

    References
    ----------
    Wagstaff, Lane (2007), Salience assignment for multiple-instance regression.
    Pappas, Popescu-Belis (2014), Explaining the stars: weighted multiple-instance learning for aspect-based sentiment
    analysis.
    """

    def __init__(
        self,
        *,
        smoothness: float = 1.0,
        penalty: float = 1e-3,
        new_bags="learned",
        rounds: int = 50,
        tolerance: float = 1e-6,
    ):
        self.smoothness = smoothness
        self.penalty = penalty
        self.new_bags = new_bags
        self.rounds = rounds
        self.tolerance = tolerance

    def fit(self, bags, y, sample_weight=None) -> SalienceRegressor:
        if self.new_bags not in NEW_BAGS:
            raise ValueError(f"new_bags must be 'learned' or 'uniform', not {self.new_bags!r}")
        if self.smoothness < 0:
            raise ValueError(f"smoothness must not be negative, not {self.smoothness!r}")
        bags, y = check_fit(bags, y)
        importance = weights_or_ones(sample_weight, bags)
        centre = np.average(y, weights=importance)
        scale = np.sqrt(np.average((y - centre) ** 2, weights=importance)) or 1.0
        with one_thread():
            self._alternate(bags, (y - centre) / scale, importance)
            self._learn_weights(bags, importance)
        self.coef_, self.intercept_ = scale * self._w[:-1], float(centre + scale * self._w[-1])
        self.objective_ = np.array(self.objective_)
        del self._w
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self)
        values = np.einsum("ij,j->i", bags.instances.astype(np.float64), self.coef_) + self.intercept_
        return segment_sum(self.instance_weights(bags) * values, bags.offsets)

    def predict_instances(self, bags) -> np.ndarray:
        """The regression at every instance."""
        bags = check_bags(bags, fitted=self)
        return np.einsum("ij,j->i", bags.instances.astype(np.float64), self.coef_) + self.intercept_

    def instance_weights(self, bags) -> np.ndarray:
        """Weights of the instances of bags whose target is not known; they sum to one in every bag."""
        bags = check_bags(bags, fitted=self)
        share = 1.0 / bags.expand(bags.sizes)
        if self.selector_ is None:
            return share
        scores = np.einsum("ij,j->i", bags.instances, self.selector_.coef_) + self.selector_.intercept_
        relative = np.maximum(scores, 0.0)
        total = segment_sum(relative, bags.offsets)
        # A bag all of whose instances look worthless has no better guess than equal weights.
        return np.where(bags.expand(total <= 0), share, relative / bags.expand(np.where(total <= 0, 1.0, total)))

    def _alternate(self, bags: Bags, z: np.ndarray, importance: np.ndarray) -> None:
        psi = 1.0 / bags.expand(bags.sizes)
        self.objective_, previous = [], np.inf
        for _ in range(self.rounds):
            exemplars = segment_sum(psi[:, None] * bags.instances, bags.offsets)
            self._w = self._ridge(exemplars, z, importance)
            values = np.einsum("ij,j->i", bags.instances.astype(np.float64), self._w[:-1]) + self._w[-1]
            psi = simplex_weights(values, z, bags.offsets, self.smoothness)
            fitted = segment_sum(psi * values, bags.offsets)
            rough = segment_sum(psi**2, bags.offsets)
            loss = np.sum(importance * ((z - fitted) ** 2 + self.smoothness * rough))
            loss += self.penalty * np.count_nonzero(importance) * self._w[:-1] @ self._w[:-1]
            self.objective_.append(float(loss))
            if previous - loss <= self.tolerance * abs(loss):
                break
            previous = loss
        self.weights_ = psi

    def _ridge(self, rows: np.ndarray, z: np.ndarray, importance: np.ndarray) -> np.ndarray:
        head = RidgePath((self.penalty,)).fit(rows, z, sample_weight=importance)
        return np.append(head.coef_, head.intercept_)

    def _learn_weights(self, bags: Bags, importance: np.ndarray) -> None:
        self.selector_ = None
        relative = self.weights_ * bags.expand(bags.sizes)
        if self.new_bags == "learned" and bags.n_instances > len(bags):
            rows = bags.expand(importance)
            self.selector_ = Ridge(alpha=SELECTOR_PENALTY * rows.sum()).fit(bags.instances, relative, rows)


def simplex_weights(values: np.ndarray, targets: np.ndarray, offsets: np.ndarray, smoothness: float) -> np.ndarray:
    r"""For every bag the ψ on the simplex that minimises (y - Σ ψ_l h_l)² + ε ‖ψ‖².

    With the residual g = y - Σ ψ h fixed, the stationary point is ψ_l = max(0, (τ + g h_l) / ε), τ such that they sum
    to one: the projection of g h / ε onto the simplex. The right g is the root of g - (y - Σ ψ(g) h), which rises
    with g: bisection finds it for all bags at once.
    """
    smoothness = max(smoothness, 1e-9)
    sizes = np.diff(offsets)
    mean = segment_mean(values, offsets)
    centred = values - np.repeat(mean, sizes)
    span = segment_max(np.abs(centred), offsets)
    low = targets - mean - span
    high = targets - mean + span

    def weights(g):
        return project_simplex(np.repeat(g / smoothness, sizes) * centred, offsets)

    for _ in range(60):
        g = (low + high) / 2
        above = g - (targets - mean - segment_sum(weights(g) * centred, offsets)) > 0
        low, high = np.where(above, low, g), np.where(above, g, high)
    return weights((low + high) / 2)


def project_simplex(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex, for every bag: max(0, v - τ), τ by one sort of all bags."""
    sizes = np.diff(offsets)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    # What lies more than one below the largest gets no weight; cut off, it cannot spoil the sums.
    shifted = np.maximum(values - np.repeat(segment_max(values, offsets), sizes), -1.5)
    order = np.lexsort((-shifted, bag))
    ordered = shifted[order]
    total = np.cumsum(ordered)
    before = np.concatenate([[0.0], total])[offsets[:-1]]
    rank = np.arange(len(values)) - np.repeat(offsets[:-1], sizes) + 1
    threshold = (total - np.repeat(before, sizes) - 1.0) / rank
    last = segment_sum((ordered > threshold).astype(np.int64), offsets)
    tau = threshold[offsets[:-1] + np.maximum(last, 1) - 1]
    return np.maximum(shifted - np.repeat(tau, sizes), 0.0)
