"""Steps before members on large data: fewer instances per bag, fewer features."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.kernels.formulas import row_keys


class ThinBags(BaseEstimator):
    """At most ``most`` instances of each bag in training, and all instances of new bags.

    A network that has seen 500 instances of a bag learns little from the other 99,500. Instances are chosen by a hash
    of their content, so the choice does not depend on their order. Only ``fit_transform`` thins: a pipeline trains on
    fewer instances and predicts whole bags.

    Parameters
    ----------
    most : int
        Instances per bag.
    random_state : int

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.arange(9.0), np.arange(2.0)])
    >>> ThinBags(most=4).fit_transform(bags).sizes.tolist()
    [4, 2]
    """

    def __init__(self, most: int = 500, *, random_state: int = 0):
        self.most = most
        self.random_state = random_state

    def fit(self, bags, y=None) -> ThinBags:
        remember_columns(self, check_bags(bags, allow_weights=True, apart=True))
        return self

    def fit_transform(self, bags, y=None) -> Bags:
        self.fit(bags)
        return thin(self.transform(bags), self.most, self.random_state)

    def transform(self, bags) -> Bags:
        return check_bags(bags, fitted=self, allow_weights=True, apart=True)


def thin(bags: Bags, most, random_state: int = 0) -> Bags:
    """Return the bags with at most ``most`` (a number, or one per bag) of their instances, in order.

    Instances of weight zero are dropped first.
    """
    most = np.broadcast_to(np.asarray(most), len(bags))
    if (bags.sizes <= most).all():
        return bags
    keys = row_keys(bags.instances, random_state)
    bag_of_row = bags.expand(np.arange(len(bags)))
    weightless = np.zeros(bags.n_instances, dtype=bool) if bags.weights is None else bags.weights == 0
    order = np.lexsort((keys, weightless, bag_of_row))  # the rows of a bag stay within its stretch
    rank = np.empty(bags.n_instances, dtype=np.int64)
    rank[order] = np.arange(bags.n_instances) - bags.expand(bags.offsets[:-1])
    offsets = np.concatenate([[0], np.cumsum(np.minimum(bags.sizes, most))])
    return bags._with_rows(np.flatnonzero(rank < bags.expand(most)), offsets)


class Components(BaseEstimator):
    """The first principal components of the standardised features, new values clipped to the range of training.

    Parameters
    ----------
    n : int
        Number of components; fewer if there are fewer features or instances.
    rows : int
        Largest number of instances to fit on, drawn by a hash of their content.
    random_state : int

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays(list(np.random.default_rng(0).normal(size=(5, 4, 30))))
    >>> Components(3).fit_transform(bags)
    Bags: 5 bags of 4 instances (20 in all), 3 features
    """

    def __init__(self, n: int = 100, *, rows: int = 20_000, random_state: int = 0):
        self.n = n
        self.rows = rows
        self.random_state = random_state

    def fit(self, bags, y=None) -> Components:
        bags = check_bags(bags, allow_weights=True, apart=True)
        X = bags.instances
        if len(X) > self.rows:
            X = X[np.argsort(row_keys(X, self.random_state), kind="stable")[: self.rows]]
        pca = PCA(min(self.n, *X.shape), svd_solver="randomized", random_state=self.random_state)
        self.map_ = make_pipeline(MinMaxScaler(clip=True), StandardScaler(), pca).fit(X)
        remember_columns(self, bags)
        return self

    def fit_transform(self, bags, y=None) -> Bags:
        return self.fit(bags).transform(bags)

    def transform(self, bags) -> Bags:
        bags = check_bags(bags, fitted=self, allow_weights=True, apart=True)
        return bags.replace(self.map_.transform(bags.instances))
