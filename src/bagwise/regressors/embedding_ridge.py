"""Ridge regression on an embedding, both chosen by leave-one-bag-out; its prediction as a sum over instances."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import ParameterGrid

from bagwise.bags import check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.segments import segment_mean, segment_median, segment_sum, segment_weighted_median
from bagwise.embeddings import KernelMean
from bagwise.embeddings.base import CovariatesBeside, Embedding
from bagwise.execution.threads import one_thread
from bagwise.regressors.ridge_path import RidgePath

BLOCK_BAGS = 4096  # instances at a time, each a bag of its own: 16 MB of 500 columns


class AdditiveMixin:
    r"""For regressors that are linear in a fitted ``embedding_``: what every instance adds to its bag's prediction.

    Where the row of a bag is the mean of the rows of its instances (the embedding says so by ``is_mean``), its
    prediction is the mean of one function of the instance, ŷ_i = 1/L_i Σ_l h(x_il), and h is the prediction of a
    bag of that instance alone.
    """

    @property
    def additive_(self) -> bool:
        """Whether the embedding says that it is a mean, so that predictions are sums over instances."""
        return bool(getattr(self.embedding_, "is_mean", False))

    def predict_instances(self, bags) -> np.ndarray:
        """h of every instance: what a bag of it alone is predicted to be. Memory does not grow with their number."""
        singles = check_bags(bags, allow_weights=True, apart=True).singles()
        starts = range(0, len(singles), BLOCK_BAGS)
        return np.concatenate([self.predict(singles[start : start + BLOCK_BAGS]) for start in starts])

    def contributions(self, bags) -> np.ndarray:
        """What each instance adds to its bag's prediction: its share in the bag times h, for rows that are means."""
        bags = check_bags(bags, allow_weights=True, apart=True)
        parts, whole = self.predict_instances(bags) * bags.shares(), self.predict(bags)
        if not np.allclose(segment_sum(parts, bags.offsets), whole, rtol=1e-6, atol=1e-6 * np.abs(whole).max()):
            raise ValueError(
                f"{type(self.embedding_).__name__} is not a mean over instances, so the prediction is no sum of "
                "contributions; use a linear embedding such as KernelMean"
            )
        return parts


OFFSETS = ("none", "mean", "median")


class EmbeddingRidge(AdditiveMixin, RegressorMixin, BaseEstimator):
    r"""Ridge regression on an embedding whose parameters, like the penalty, are chosen by leave-one-bag-out.

    Every setting of ``grid`` embeds the bags and runs the whole penalty path once; the exact left-out errors of all
    of them are compared (left out by group when the bags carry groups), and the best is kept. Nothing is refitted per
    fold, so a grid of 14 bandwidths x 16 penalties x 2 kernels is 28 small decompositions.

    When the embedding is a mean over instances (`KernelMean`, `Pool` of means) and the head is linear, the prediction
    of a bag is the mean over its instances of one function h, and `contributions` gives h of every instance, divided
    by the size of its bag: they add up to the prediction exactly.

    Covariates of the bags stand beside the embedding's rows, standardised and on a common scale, under the same
    penalty (see `CovariatesBeside`); a `SecondKernel` reads them itself. Instance weights are the embedding's to
    honour, or to refuse.

    Parameters
    ----------
    embedding : Bags -> array, default KernelMean()
    head : RidgePath, default RidgePath()
    grid : dict of parameter name of the embedding -> list of values, optional
    offset : {"none", "mean", "median"}
        What the penalty shrinks the prediction of a bag towards: a constant; or the mean or median of its instances,
        for bags of instance predictions. Then the head learns what to add to the mean, h(t) = t + g(t), and where there
        is nothing to learn the method falls back on the mean. With the median the prediction is no sum over instances.

    Attributes
    ----------
    embedding_, head_ : fitted, of the best setting
    setting_ : dict, the setting chosen
    error_ : its mean squared left-out error
    residuals_ : the left-out residuals of the training bags
    search_ : list of (setting, penalty, error)

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(scale=s, size=30) for s in np.linspace(1, 3, 40)])
    >>> model = EmbeddingRidge(grid={"kernel": [Gaussian(0.5), Gaussian(1.0)]}).fit(bags, np.linspace(1, 3, 40))
    >>> bool(model.score(bags, np.linspace(1, 3, 40)) > 0.8)
    True
    """

    def __init__(self, embedding=None, head=None, *, grid=None, offset: str = "none"):
        self.embedding = embedding
        self.head = head
        self.grid = grid
        self.offset = offset

    def fit(self, bags, y, sample_weight=None) -> EmbeddingRidge:
        bags, y = check_fit(bags, y, allow_weights=True, apart=True)
        self._check(bags)
        embedding = self.embedding_for({})
        fit_grid = getattr(embedding, "fit_grid", partial(Embedding.fit_grid, embedding))  # not all are Embeddings
        return self.fit_rows(bags, y, fit_grid(_for(embedding, bags), y, self.settings()), sample_weight)

    def fit_rows(self, bags, y, embedded, sample_weight=None) -> EmbeddingRidge:
        """Fit when the rows are known: ``embedded`` gives (setting, fitted embedding, rows) for each of `settings`.

        Of the bags only ids, groups, covariates and columns count, and their means if ``offset`` is "mean": a bag of
        one instance, the mean, may stand for a bag that is elsewhere.
        """
        self._check(bags)
        weights, y = check_weights(sample_weight, bags), y - self._offset(bags)
        best, self.search_ = None, []
        with one_thread():
            for setting, embedding, rows in embedded:
                beside, head = self._head(embedding, rows, bags, y, weights)
                self.search_.append((setting, head.penalty_, head.error_))
                if best is None or head.error_ < best[-1].error_:
                    best = setting, embedding, beside, head
        self.setting_, self.embedding_, self.beside_, self.head_ = best
        self.error_, self.residuals_ = self.head_.error_, self.head_.residuals_
        remember_columns(self, bags)
        return self

    @property
    def additive_(self) -> bool:
        """Whether the prediction is a sum over instances: rows that are means, and no median added to them."""
        return super().additive_ and self.offset != "median"

    def settings(self) -> list[dict]:
        """The settings to try, in order."""
        return list(ParameterGrid(self.grid or {}))

    def embedding_for(self, setting: dict):
        """An unfitted embedding with this setting."""
        return clone(self.embedding if self.embedding is not None else KernelMean()).set_params(**setting)

    def _check(self, bags) -> None:
        if self.offset not in OFFSETS:
            raise ValueError(f"offset must be 'none', 'mean' or 'median', not {self.offset!r}")
        if self.offset != "none" and bags.n_features != 1:
            raise ValueError(
                f"offset={self.offset!r} is for instance predictions (one column), not {bags.n_features} features"
            )

    def _head(self, embedding, rows, bags, y, weights) -> tuple:
        head, beside = clone(self.head if self.head is not None else RidgePath()), None
        gram = getattr(embedding, "columns", "features") == "gram"
        if gram:
            head.set_params(kernel="precomputed")
        if bags.covariates is not None and not reads_covariates(embedding):
            beside = CovariatesBeside.of(bags.covariates, rows, gram)
            rows = beside.join(rows, bags.covariates)
        return beside, head.fit(rows, y, sample_weight=weights, groups=bags.groups)

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True, apart=True)
        if self.beside_ is None and hasattr(self.embedding_, "project") and hasattr(self.head_, "coef_"):
            seen = _for(self.embedding_, bags)
            return self.embedding_.project(seen, self.head_.coef_) + self.head_.intercept_ + self._offset(bags)
        return self.head_.predict(self._rows(bags)) + self._offset(bags)

    def predict_path(self, bags) -> np.ndarray:
        """Predictions with every penalty of the head, (bags, penalties), all by the embedding that was chosen."""
        bags = check_bags(bags, fitted=self, allow_weights=True, apart=True)
        return self.head_.predict_path(self._rows(bags)) + np.reshape(self._offset(bags), (-1, 1))

    def _rows(self, bags) -> np.ndarray:
        rows = self.embedding_.transform(_for(self.embedding_, bags))
        return rows if self.beside_ is None else self.beside_.join(rows, bags.covariates)

    def _offset(self, bags) -> np.ndarray | float:
        if self.offset == "none":
            return 0.0
        return pooled(bags, self.offset)

    def leave_one_out_error(self, bags, y, sample_weight=None) -> float:
        """Mean squared error of a fresh fit on these bags, each bag (group) left out in turn."""
        return clone(self).fit(bags, y, sample_weight).error_


def pooled(bags, statistic: str) -> np.ndarray:
    """The mean or median of every bag of scalars, by the weights of its instances if any."""
    values = bags.instances[:, 0].astype(np.float64)
    if statistic == "mean":
        return segment_mean(values, bags.offsets, bags.weights)
    if bags.weights is None:
        return segment_median(values, bags.offsets)
    return segment_weighted_median(values, bags.shares(), bags.offsets)


def reads_covariates(embedding) -> bool:
    return getattr(embedding, "reads_covariates", False)


def _for(embedding, bags):
    """The bags as the embedding is to see them: with covariates only if it reads them."""
    return bags if reads_covariates(embedding) else bags.without_covariates()
