"""Regressors that reduce a bag to one instance, its exemplar.

cluster-MIR uses the exemplar of a bag in one cluster of instances, and validation chooses the cluster. Salience uses a
weighted mean of the instances, and learns the weights and the regression in turn.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture

from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns, weights_or_ones
from bagwise.bags.checks import check_options, whole_number
from bagwise.bags.segments import segment_max, segment_mean, segment_softmax, segment_sum
from bagwise.embeddings.landmarks import k_means_centres
from bagwise.execution.resources import one_thread
from bagwise.kernels import squared_distances
from bagwise.regressors.ridge_path import RidgePath
from bagwise.regressors.target_limits import TargetLimits


class ClusterRegressor(TargetLimits, RegressorMixin, BaseEstimator):
    r"""Regression on the exemplars of the cluster that predicts best.

    The instances of all bags are clustered without their targets. With r_c(x) the relevance of an instance to cluster
    c, a bag has one exemplar per cluster, z_ic = Σ_l R_cl x_il, R_cl = r_c(x_il) / Σ_m r_c(x_im), and every cluster
    its own ridge regression on its exemplars. The cluster whose regression has the smallest left-out error predicts
    new bags.

    Parameters
    ----------
    clusters : int
        Fewer are made when there are fewer instances.
    relevance : {"nearest", "members", "mixture"}
        Weight 1 for the instance of the bag nearest to the centre of the cluster; equal weights for the bag's members
        of the cluster (all instances if there is none); the posterior P(c | x) of a Gaussian mixture with diagonal
        covariances.
    choice : {"validation", "training"}
        Whether the cluster is chosen by leave-one-bag-out error (our choice: by group when bags carry groups) or by
        the training error, as the published implementation does.
    random_state : int

    Attributes
    ----------
    cluster_ : int, the one that predicts
    errors_ : mean squared error of every cluster's regression
    heads_ : their fitted regressions

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> key = [np.array([[v, 5.0]]) for v in y]                       # one instance near (., 5) tells
    >>> bags = bw.from_arrays([np.vstack([k, rng.normal(size=(6, 2))]) for k in key])
    >>> ClusterRegressor(4).fit(bags, y).score(bags, y) > 0.95
    True

    References
    ----------
    Wagstaff, Lane, Roper (2008), Multiple-instance regression with structured data.
    """

    def __init__(self, clusters: int = 5, *, relevance="nearest", choice="validation", random_state: int = 0):
        self.clusters = clusters
        self.relevance = relevance
        self.choice = choice
        self.random_state = random_state

    def fit(self, bags, y, sample_weight=None) -> ClusterRegressor:
        check_options(self, relevance=("nearest", "members", "mixture"), choice=("validation", "training"))
        bags, y = check_fit(bags, y, fitting=self)
        weights = check_weights(sample_weight, bags)
        self.remember_targets(y, weights)
        distinct = len(np.unique(bags.instances, axis=0)) if bags.n_instances <= 1000 else bags.n_instances
        n_clusters = min(self.clusters, distinct)
        with one_thread():
            X, seed = bags.instances.astype(np.float64), self.random_state
            if self.relevance == "mixture":
                mixture = GaussianMixture(n_clusters, covariance_type="diag", random_state=seed, reg_covar=1e-4)
                self.mixture_ = mixture.fit(X if len(X) > n_clusters else np.repeat(X, 2, axis=0))
                self.centres_ = mixture.means_
            else:
                self.centres_ = k_means_centres(X, n_clusters, np.random.RandomState(seed), starts=4)
            exemplars = self._exemplars(bags)
            self.heads_ = [RidgePath().fit(rows, y, sample_weight=weights, groups=bags.groups) for rows in exemplars]
        if self.choice == "validation":
            self.errors_ = np.array([head.error_ for head in self.heads_])
        else:
            fits = zip(self.heads_, exemplars, strict=True)
            self.errors_ = np.array([np.average((y - head.predict(rows)) ** 2, weights=weights) for head, rows in fits])
        self.cluster_ = int(np.argmin(self.errors_))
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self)
        return self.within_limits(self.heads_[self.cluster_].predict(self._exemplars(bags, [self.cluster_])[0]))

    def instance_weights(self, bags) -> np.ndarray:
        """Return the weight of each instance in the exemplar of its bag; the weights of a bag sum to one."""
        bags = check_bags(bags, fitted=self)
        return self._relevance(bags, self.cluster_)

    def _exemplars(self, bags: Bags, clusters=None) -> list[np.ndarray]:
        chosen = range(len(self.centres_)) if clusters is None else clusters
        return [segment_sum(self._relevance(bags, c)[:, None] * bags.instances, bags.offsets) for c in chosen]

    def _relevance(self, bags: Bags, cluster: int) -> np.ndarray:
        if self.relevance == "mixture":
            # log P(c | x), normalised inside the bag: no underflow, so never 0 / 0.
            return segment_softmax(_log_posterior(self.mixture_, bags.instances)[:, cluster], bags.offsets)
        if self.relevance == "nearest":
            near = -squared_distances(bags.instances, self.centres_[[cluster]])[:, 0]
            marked = (near == bags.expand(segment_max(near, bags.offsets))).astype(np.float64)
        else:
            marked = (squared_distances(bags.instances, self.centres_).argmin(axis=1) == cluster).astype(np.float64)
        total = segment_sum(marked, bags.offsets)
        empty = bags.expand(total == 0)
        return np.where(empty, 1.0, marked) / bags.expand(np.where(total == 0, bags.sizes, total))


def _log_posterior(mixture: GaussianMixture, X: np.ndarray) -> np.ndarray:
    """Return log P(c | x) of a diagonal mixture; each row is computed independently of the others."""
    precision = 1.0 / mixture.covariances_
    log_joint = np.empty((len(X), len(precision)))
    for c, (mean, inverse) in enumerate(zip(mixture.means_, precision, strict=True)):
        log_joint[:, c] = np.log(mixture.weights_[c]) + 0.5 * np.log(inverse).sum()
        log_joint[:, c] -= 0.5 * np.einsum("ij,j->i", (X - mean) ** 2, inverse)
    return log_softmax(log_joint, axis=1)


SELECTOR_PENALTY = 1e-2  # a row, on standardised features


class SalienceRegressor(TargetLimits, RegressorMixin, BaseEstimator):
    r"""Ridge regression w on weighted means of the instances, alternating with their weights ψ.

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
        check_options(self, new_bags=("learned", "uniform"))
        whole_number(self.rounds, "rounds")
        if self.smoothness < 0:
            raise ValueError(f"smoothness must not be negative, not {self.smoothness!r}")
        bags, y = check_fit(bags, y, fitting=self)
        importance = weights_or_ones(sample_weight, bags)
        self.remember_targets(y, importance)
        centre = np.average(y, weights=importance)
        scale = np.sqrt(np.average((y - centre) ** 2, weights=importance)) or 1.0
        self.selector_ = None
        with one_thread():
            head = self._alternate(bags, (y - centre) / scale, importance)
            if self.new_bags == "learned" and bags.n_instances > len(bags):
                relative, rows = self.weights_ * bags.expand(bags.sizes), bags.expand(importance)
                self.selector_ = Ridge(alpha=SELECTOR_PENALTY * rows.sum()).fit(bags.instances, relative, rows)
        self.coef_, self.intercept_ = scale * head.coef_, float(centre + scale * head.intercept_)
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self)
        values = self.instance_weights(bags) * self.predict_instances(bags)
        return self.within_limits(segment_sum(values, bags.offsets))

    def predict_instances(self, bags) -> np.ndarray:
        """Return the prediction of each instance by the regression."""
        bags = check_bags(bags, fitted=self)
        return np.einsum("ij,j->i", bags.instances.astype(np.float64), self.coef_) + self.intercept_

    def instance_weights(self, bags) -> np.ndarray:
        """Return the weights of the instances of new bags; the weights of a bag sum to one."""
        bags = check_bags(bags, fitted=self)
        share = 1.0 / bags.expand(bags.sizes)
        if self.selector_ is None:
            return share
        scores = np.einsum("ij,j->i", bags.instances, self.selector_.coef_) + self.selector_.intercept_
        relative = np.maximum(scores, 0.0)
        total = segment_sum(relative, bags.offsets)
        # Equal weights where the selector gives no instance of the bag a positive weight.
        return np.where(bags.expand(total <= 0), share, relative / bags.expand(np.where(total <= 0, 1.0, total)))

    def _alternate(self, bags: Bags, z: np.ndarray, importance: np.ndarray) -> RidgePath:
        psi = 1.0 / bags.expand(bags.sizes)
        path, previous = [], np.inf
        for _ in range(self.rounds):
            exemplars = segment_sum(psi[:, None] * bags.instances, bags.offsets)
            head = RidgePath((self.penalty,)).fit(exemplars, z, sample_weight=importance)
            values = np.einsum("ij,j->i", bags.instances.astype(np.float64), head.coef_) + head.intercept_
            psi = simplex_weights(values, z, bags.offsets, self.smoothness)
            fitted = segment_sum(psi * values, bags.offsets)
            rough = segment_sum(psi**2, bags.offsets)
            loss = np.sum(importance * ((z - fitted) ** 2 + self.smoothness * rough))
            loss += self.penalty * np.count_nonzero(importance) * head.coef_ @ head.coef_
            path.append(float(loss))
            if previous - loss <= self.tolerance * abs(loss):
                break
            previous = loss
        self.weights_, self.objective_ = psi, np.array(path)
        return head


def simplex_weights(values: np.ndarray, targets: np.ndarray, offsets: np.ndarray, smoothness: float) -> np.ndarray:
    r"""Return for each bag the ψ on the simplex that minimises (y - Σ ψ_l h_l)² + ε ‖ψ‖².

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
    """Return the nearest point of the simplex for each bag: max(0, v - τ), with τ by one sort of all bags."""
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
