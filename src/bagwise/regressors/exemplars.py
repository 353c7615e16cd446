"""Regressors that reduce a bag to one instance, its exemplar: in a cluster of instances, or a weighted mean."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_mean, segment_softmax, segment_sum
from bagwise.bags.validation import check_options, whole_number
from bagwise.embeddings.feature_mean import k_means_centres
from bagwise.execution.resources import one_thread
from bagwise.kernels import squared_distances
from bagwise.regressors.iterative_weights import best_of_bag
from bagwise.regressors.pipeline import BagRegressor
from bagwise.regressors.ridge_path import RidgePath, linear


class ClusterRegressor(BagRegressor):
    r"""Regression on the exemplars of the cluster that predicts best.

    The instances of all bags are clustered without their targets. With r_c(x) the relevance of an instance to cluster
    c, a bag has one exemplar per cluster, z_ic = Σ_l R_cl x_il, R_cl = r_c(x_il) / Σ_m r_c(x_im), and each cluster
    its own ridge regression on its exemplars. The cluster with the smallest error predicts new bags.

    Parameters
    ----------
    clusters : int, default=5
        Number of clusters; at most the number of distinct instances.
    relevance : {"nearest", "members", "mixture"}, default="nearest"
        Weight 1 for the instance of the bag nearest to the centre of the cluster; equal weights for the bag's members
        of the cluster (all instances if there is none); or the posterior P(c | x) of a Gaussian mixture with diagonal
        covariances.
    choice : {"validation", "training"}, default="validation"
        Choose the cluster by leave-one-bag-out error (by group when bags carry groups), or by the training error, as
        the published implementation does.
    random_state : int, default=0
        Seed of the clustering.

    Attributes
    ----------
    cluster_ : int
        The cluster that predicts.
    heads_, errors_ : list of RidgePath, ndarray of shape (n_clusters,)
        The regression of each cluster, and its mean squared error.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import ClusterRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)  # one instance near (., 5) has the target
    >>> bags = bw.from_arrays([np.vstack([[[v, 5.0]], rng.normal(size=(6, 2))]) for v in y])
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

    def _fit(self, bags, y, weight) -> None:
        check_options(self, relevance=("nearest", "members", "mixture"), choice=("validation", "training"))
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
            exemplars = [self._exemplars(bags, cluster) for cluster in range(n_clusters)]
            self.heads_ = [RidgePath().fit(rows, y, sample_weight=weight, groups=bags.groups) for rows in exemplars]
        if self.choice == "validation":
            self.errors_ = np.array([head.error_ for head in self.heads_])
        else:
            fits = zip(self.heads_, exemplars, strict=True)
            self.errors_ = np.array([np.average((y - head.predict(rows)) ** 2, weights=weight) for head, rows in fits])
        self.cluster_ = int(np.argmin(self.errors_))

    def _predict(self, bags) -> np.ndarray:
        return self.heads_[self.cluster_].predict(self._exemplars(bags, self.cluster_))

    def instance_weights(self, bags) -> np.ndarray:
        """Return the weight of each instance in the exemplar of its bag; the weights of a bag sum to one."""
        return self._relevance(self._checked(bags), self.cluster_)

    def _exemplars(self, bags: Bags, cluster: int) -> np.ndarray:
        return segment_sum(self._relevance(bags, cluster)[:, None] * bags.instances, bags.offsets)

    def _relevance(self, bags: Bags, cluster: int) -> np.ndarray:
        if self.relevance == "mixture":
            # log P(c | x), normalised inside the bag: no underflow, so never 0 / 0.
            return segment_softmax(_log_posterior(self.mixture_, bags.instances)[:, cluster], bags.offsets)
        if self.relevance == "nearest":
            return best_of_bag(bags, -squared_distances(bags.instances, self.centres_[[cluster]])[:, 0])
        is_member = (squared_distances(bags.instances, self.centres_).argmin(axis=1) == cluster).astype(np.float64)
        n_members = segment_sum(is_member, bags.offsets)
        empty = bags.expand(n_members == 0)
        return np.where(empty, 1.0, is_member) / bags.expand(np.where(n_members == 0, bags.sizes, n_members))


def _log_posterior(mixture: GaussianMixture, X: np.ndarray) -> np.ndarray:
    """Return log P(c | x) of a diagonal mixture; each row is computed independently of the others."""
    precisions = 1.0 / mixture.covariances_
    pairs = zip(mixture.means_, precisions, strict=True)
    distances = np.column_stack([np.einsum("ij,j->i", (X - mean) ** 2, precision) for mean, precision in pairs])
    return log_softmax(np.log(mixture.weights_) + 0.5 * (np.log(precisions).sum(axis=1) - distances), axis=1)


class SalienceRegressor(BagRegressor):
    r"""Ridge regression w on weighted means of the instances, alternating with their weights ψ.

    .. math::

        \min_{w, \psi_i \in \Delta} \sum_i (y_i - w^T X_i^T \psi_i)^2 + \epsilon_1 s^2 \sum_i \|\psi_i\|^2 +
        \epsilon_2 \|w\|^2

    Given w, the weights of a bag solve a small quadratic programme on the simplex exactly. Given ψ, the regression is
    ridge on the exemplars X_iᵀψ_i.

    Parameters
    ----------
    smoothness : float, default=1.0
        ε₁, in units of the variance s² of the targets: with 0 the weighted mean fits the target as closely as it can,
        large values make the weights equal. The source does not state its regulariser.
    penalty : float, default=1e-3
        ε₂, times the number of bags, on standardised features.
    new_bags : {"learned", "uniform"}, default="learned"
        Weights in new bags: a ridge regression of the learned weights (relative to equal ones) on the instances, as
        Pappas and Popescu-Belis add; or equal weights.
    rounds : int, default=50
        Maximum number of rounds.
    tolerance : float, default=1e-6
        Stop when the relative decrease of the objective is smaller.

    Attributes
    ----------
    weights_, objective_ : ndarray of shape (n_instances,), ndarray
        ψ of the training instances, and the objective after each round.
    coef_, intercept_ : ndarray, float
        The regression.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import SalienceRegressor
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

    def _fit(self, bags, y, weight) -> None:
        check_options(self, new_bags=("learned", "uniform"))
        whole_number(self.rounds, "rounds")
        if self.smoothness < 0:
            raise ValueError(f"smoothness must not be negative, not {self.smoothness!r}")
        centre = np.average(y, weights=weight)
        scale = np.sqrt(np.average((y - centre) ** 2, weights=weight)) or 1.0
        self.selector_ = None
        with one_thread():
            head = self._alternate(bags, (y - centre) / scale, weight)
            if self.new_bags == "learned" and bags.n_instances > len(bags):
                relative, row_weight = self.weights_ * bags.expand(bags.sizes), bags.expand(weight)
                selector = Ridge(alpha=0.01 * row_weight.sum())  # for standardised features
                self.selector_ = selector.fit(bags.instances, relative, row_weight)
        self.coef_, self.intercept_ = scale * head.coef_, float(centre + scale * head.intercept_)

    def _predict(self, bags) -> np.ndarray:
        return segment_sum(self.instance_weights(bags) * self.predict_instances(bags), bags.offsets)

    def predict_instances(self, bags) -> np.ndarray:
        """Return the prediction of each instance by the regression."""
        return linear(self._checked(bags).instances.astype(np.float64), self.coef_, self.intercept_)

    def instance_weights(self, bags) -> np.ndarray:
        """Return the weights of the instances of new bags; the weights of a bag sum to one."""
        bags = self._checked(bags)
        share = bags.shares()
        if self.selector_ is None:
            return share
        relative = np.maximum(linear(bags.instances, self.selector_.coef_, self.selector_.intercept_), 0.0)
        total = segment_sum(relative, bags.offsets)
        # Equal weights where the selector gives no instance of the bag a positive weight.
        return np.where(bags.expand(total <= 0), share, relative / bags.expand(np.where(total <= 0, 1.0, total)))

    def _alternate(self, bags: Bags, z: np.ndarray, weight: np.ndarray) -> RidgePath:
        psi = bags.shares()
        path, previous = [], np.inf
        for _ in range(self.rounds):
            exemplars = segment_sum(psi[:, None] * bags.instances, bags.offsets)
            head = RidgePath((self.penalty,)).fit(exemplars, z, sample_weight=weight)
            values = linear(bags.instances.astype(np.float64), head.coef_, head.intercept_)
            psi = simplex_weights(values, z, bags.offsets, self.smoothness)
            fitted = segment_sum(psi * values, bags.offsets)
            roughness = segment_sum(psi**2, bags.offsets)
            loss = np.sum(weight * ((z - fitted) ** 2 + self.smoothness * roughness))
            loss += self.penalty * np.count_nonzero(weight) * head.coef_ @ head.coef_
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
    sizes, smoothness = np.diff(offsets), max(smoothness, 1e-9)
    mean = segment_mean(values, offsets)
    centred, error = values - np.repeat(mean, sizes), targets - mean
    span = segment_max(np.abs(centred), offsets)
    low, high = error - span, error + span

    def weights(g):
        return project_simplex(np.repeat(g / smoothness, sizes) * centred, offsets)

    for _ in range(60):
        g = (low + high) / 2
        above = g > error - segment_sum(weights(g) * centred, offsets)
        low, high = np.where(above, low, g), np.where(above, g, high)
    return weights((low + high) / 2)


def project_simplex(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the nearest point of the simplex for each bag: max(0, v - τ), with τ by one sort of all bags."""
    sizes = np.diff(offsets)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    # Values more than one below the largest get no weight; clipping them keeps the sums accurate.
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
