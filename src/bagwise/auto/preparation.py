"""What bags and targets go through before a member.

Constant features become covariates, large data get fewer rows and columns, skewed or bounded targets are transformed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import skew
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.checks import compared
from bagwise.bags.imputation import Imputation
from bagwise.bags.segments import segment_mean, segment_sum
from bagwise.kernels.formulas import row_keys

SKEWED = 1.0  # a skewness from which a transform is tried; that of an exponential distribution is 2
MARGIN = 0.01  # targets in [0, 1] are drawn in by so much: the logit of 0 and of 1 is infinite
# (there, back) of a target of deviation one
FORMULAS = {
    "log": (np.log, np.exp),
    "logit": (lambda y: logit(MARGIN + (1 - 2 * MARGIN) * y), lambda t: (expit(t) - MARGIN) / (1 - 2 * MARGIN)),
    "asinh": (np.arcsinh, np.sinh),
}


@dataclass(frozen=True)
class Routing:
    """Which columns never vary within a training bag. Called with bags, it moves them to the covariates.

    In bags of one instance everything is constant: where those are half of the bags or more, nothing is moved. A new
    bag in which such a column does vary counts with its mean.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([[1.0, 7.0], [2.0, 7.0]]), np.array([[3.0, 8.0], [1.0, 8.0]])])
    >>> Routing.of(bags)(bags).covariates.tolist()
    [[7.0], [8.0]]
    """

    columns: np.ndarray

    @classmethod
    def of(cls, bags: Bags) -> Routing:
        first = bags.instances[bags.offsets[:-1]]
        same = (bags.instances == bags.expand(first)).all(axis=0)
        plain = same.all() or np.mean(bags.sizes > 1) <= 0.5
        return cls(np.flatnonzero(same & ~plain))

    def __call__(self, bags: Bags) -> Bags:
        """Return the bags with these columns as covariates."""
        if len(self.columns) == 0:
            return bags
        kept = np.setdiff1d(np.arange(bags.n_features), self.columns)
        names = bags.feature_names
        moved = _one_per_bag(bags, self.columns)
        left = bags.replace(bags.instances[:, kept], feature_names=None if names is None else [names[c] for c in kept])
        return left.with_covariates(*self._beside(bags, moved))

    transform = __call__  # so that it can be a step of a pipeline

    def _beside(self, bags: Bags, moved: np.ndarray) -> tuple[np.ndarray, list | None]:
        """Return the covariates of the bags followed by the moved columns, and names if all have one."""
        had = np.empty((len(bags), 0)) if bags.covariates is None else bags.covariates
        named = bags.feature_names is not None and (bags.covariates is None or bags.covariate_names is not None)
        names = [*(bags.covariate_names or ()), *(bags.feature_names[c] for c in self.columns)] if named else None
        return np.column_stack([had, moved]), names


def _one_per_bag(bags: Bags, columns: np.ndarray) -> np.ndarray:
    """Return the value of each bag with a single value (a mean would be rounded), else the mean."""
    values = bags.instances[:, columns].astype(np.float64)
    first = values[bags.offsets[:-1]]
    varies = segment_sum((values != bags.expand(first)).astype(np.int64), bags.offsets) > 0
    return np.where(varies, segment_mean(values, bags.offsets, bags.weights), first)


def prepare(bags: Bags) -> tuple[list, Bags]:
    """Fit the steps that training bags go through before any member; return them, and the bags after them.

    Missing values are imputed if the bags declare it, and features that never vary within a bag become covariates. A
    step that would change nothing is left out.
    """
    steps: list = []
    if bags.missing == "impute":
        steps.append(("imputation", Imputation()))
        bags = compared(steps[-1][1].fit_transform(bags))
    routing = Routing.of(bags)
    if len(routing.columns):
        steps.append(("routing", routing))
        bags = compared(routing(bags))
    return steps, bags


class ThinBags(BaseEstimator):
    """At most so many instances of every bag in training; new bags pass whole.

    A network that has seen 500 instances of a bag learns little from the other 99,500. Which ones are kept is decided
    by a hash of their content, so it does not depend on their order. Passing ``fit_transform`` only, a pipeline thins
    the bags it learns from and predicts whole ones.

    Parameters
    ----------
    most : int
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
    void = np.zeros(bags.n_instances, dtype=bool) if bags.weights is None else bags.weights == 0
    order = np.lexsort((keys, void, bag_of_row))  # the rows of a bag stay within its stretch
    rank = np.empty(bags.n_instances, dtype=np.int64)
    rank[order] = np.arange(bags.n_instances) - bags.expand(bags.offsets[:-1])
    kept = rank < bags.expand(most)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(bags.sizes, most))])
    return bags._with_rows(np.flatnonzero(kept), offsets)


class Components(BaseEstimator):
    """The first principal components of the standardised features, new values kept within the range of training.

    Parameters
    ----------
    n : int
        Their number; fewer if there are fewer features or instances.
    rows : int
        At most so many instances are looked at, drawn by a hash of their content.
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


class MonotoneTarget(TransformerMixin, BaseEstimator):
    r"""A monotone function of the target, and its inverse within the range seen in training.

    ======  ================================================================================
    log     log(y / c), c the median: for positive targets over orders of magnitude
    asinh   asinh((y - c) / s), median and deviation: a logarithm on either side, for skewed targets of both signs
    logit   log(p / (1 - p)), p = 0.01 + 0.98 y: for targets between 0 and 1
    ======  ================================================================================

    What a model predicts beyond the range of the transformed training targets is drawn back to its edge: the inverse
    would turn a small excess into a large one.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([[1.0], [10.0], [1000.0]])
    >>> target = MonotoneTarget("log").fit(y)
    >>> target.inverse_transform(target.transform(y)).round(9).ravel().tolist()
    [1.0, 10.0, 1000.0]
    """

    def __init__(self, formula: str = "log"):
        self.formula = formula

    def fit(self, y, _=None) -> MonotoneTarget:
        y = np.asarray(y, dtype=np.float64)
        self.centre_, self.scale_ = 0.0, 1.0
        if self.formula == "log":
            self.scale_ = float(np.median(y))
        elif self.formula == "asinh":
            self.centre_, self.scale_ = float(np.median(y)), float(y.std()) or 1.0
        seen = self.transform(y)
        self.low_, self.high_ = float(seen.min()), float(seen.max())
        return self

    def transform(self, y) -> np.ndarray:
        return FORMULAS[self.formula][0]((np.asarray(y, dtype=np.float64) - self.centre_) / self.scale_)

    def inverse_transform(self, t) -> np.ndarray:
        return self.centre_ + self.scale_ * FORMULAS[self.formula][1](np.clip(t, self.low_, self.high_))


def worth_trying(y: np.ndarray) -> list[str]:
    """Return the transforms to try: none for targets that are neither skewed nor within [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> normal = np.random.default_rng(0).normal(size=200)
    >>> worth_trying(normal), worth_trying(np.exp(normal)), worth_trying(1 / (1 + np.exp(-normal)))
    ([], ['log'], ['logit'])
    """
    if np.ptp(y) <= 1e-9 * np.abs(y).max():
        return []
    if y.min() >= 0 and y.max() <= 1 and np.ptp(y) > 0.5:
        return ["logit"]
    if abs(skew(y)) < SKEWED:
        return []
    return ["log"] if y.min() > 0 else ["asinh"]
