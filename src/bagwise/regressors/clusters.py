"""cluster-MIR: a bag is the exemplar it has in one cluster of instances; the best cluster is found by validation."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.mixture import GaussianMixture

from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.segments import segment_max, segment_softmax, segment_sum
from bagwise.embeddings.landmarks import k_means_centres
from bagwise.execution.threads import one_thread
from bagwise.kernels import squared_distances
from bagwise.regressors.ridge import RidgePath

RELEVANCES = ("nearest", "members", "mixture")
CHOICES = ("validation", "training")


class ClusterRegressor(RegressorMixin, BaseEstimator):
    r"""Regression on the exemplars of the most telling cluster.

    All instances, whatever their bags and targets, are clustered. With r_c(x) the relevance of an instance to cluster
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
        for what, known in (("relevance", RELEVANCES), ("choice", CHOICES)):
            if getattr(self, what) not in known:
                names = ", ".join(map(repr, known))
                raise ValueError(f"{what} must be one of {names}, not {getattr(self, what)!r}")
        bags, y = check_fit(bags, y)
        weights = check_weights(sample_weight, bags)
        distinct = len(np.unique(bags.instances, axis=0)) if bags.n_instances <= 1000 else bags.n_instances
        n_clusters = min(self.clusters, distinct)
        with one_thread():
            self._cluster(bags.instances.astype(np.float64), n_clusters)
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
        return self.heads_[self.cluster_].predict(self._exemplars(bags, [self.cluster_])[0])

    def instance_weights(self, bags) -> np.ndarray:
        """The relevance of every instance in its bag's exemplar; it sums to one in every bag."""
        bags = check_bags(bags, fitted=self)
        return self._relevance(bags, self.cluster_)

    def _cluster(self, X: np.ndarray, n_clusters: int) -> None:
        if self.relevance == "mixture":
            model = GaussianMixture(n_clusters, covariance_type="diag", random_state=self.random_state, reg_covar=1e-4)
            self.mixture_ = model.fit(X if len(X) > n_clusters else np.repeat(X, 2, axis=0))
            self.centres_ = model.means_
        else:
            self.centres_ = k_means_centres(X, n_clusters, np.random.RandomState(self.random_state), starts=4)

    def _exemplars(self, bags: Bags, clusters=None) -> list[np.ndarray]:
        chosen = range(len(self.centres_)) if clusters is None else clusters
        X = bags.instances
        return [segment_sum(self._relevance(bags, c)[:, None] * X, bags.offsets) for c in chosen]

    def _relevance(self, bags: Bags, cluster: int) -> np.ndarray:
        if self.relevance == "mixture":
            # log P(c | x), normalised inside the bag: no underflow, so never 0 / 0.
            return segment_softmax(_log_posterior(self.mixture_, bags.instances)[:, cluster], bags.offsets)
        if self.relevance == "nearest":
            near = -_distances(bags.instances, self.centres_[[cluster]])[:, 0]
            marked = (near == bags.expand(segment_max(near, bags.offsets))).astype(np.float64)
        else:
            marked = (_distances(bags.instances, self.centres_).argmin(axis=1) == cluster).astype(np.float64)
        total = segment_sum(marked, bags.offsets)
        empty = bags.expand(total == 0)
        return np.where(empty, 1.0, marked) / bags.expand(np.where(total == 0, bags.sizes, total))


def _distances(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return squared_distances(X.astype(np.float64), centres)


def _log_posterior(mixture: GaussianMixture, X: np.ndarray) -> np.ndarray:
    """log P(c | x) of a diagonal mixture, row by row alike in any company."""
    precision = 1.0 / mixture.covariances_
    log_joint = np.empty((len(X), len(precision)))
    for c, (mean, inverse) in enumerate(zip(mixture.means_, precision, strict=True)):
        log_joint[:, c] = np.log(mixture.weights_[c]) + 0.5 * np.log(inverse).sum()
        log_joint[:, c] -= 0.5 * np.einsum("ij,j->i", (X - mean) ** 2, inverse)
    top = log_joint.max(axis=1, keepdims=True)
    return log_joint - top - np.log(np.exp(log_joint - top).sum(axis=1, keepdims=True))
