"""Ridge regression on an embedding that is chosen with the penalty, and a blend of several."""

from __future__ import annotations

from copy import copy
from functools import partial
from operator import attrgetter
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.utils.metaestimators import _BaseComposition, available_if

from bagwise.bags import Bags, bag_folds
from bagwise.bags.segments import pooled
from bagwise.bags.validation import bags_of, check_options, name_bags, warn_user
from bagwise.embeddings import KernelMean
from bagwise.embeddings.summaries import CovariatesBeside, Embedding
from bagwise.execution.resources import one_thread
from bagwise.metrics import absolute, get_metric
from bagwise.regressors.pipeline import SLACK, AdditiveMixin, BagRegressor, EmbeddingGrid
from bagwise.regressors.ridge_path import RidgePath

FAR = 0.1  # share of the range of training predictions; farther outside, predictions of bags are unreliable


class EmbeddingRidge(EmbeddingGrid, AdditiveMixin, BagRegressor):
    r"""Ridge regression on an embedding whose parameters, like the penalty, are chosen by leave-one-bag-out.

    Each setting of ``grid`` embeds the bags and runs the whole penalty path once; the setting with the smallest exact
    left-out error is kept (left out by group when the bags carry groups). Nothing is refitted per fold.

    When the embedding is a mean over instances (`KernelMean`, `Pool` of means), the prediction of a bag is the mean
    over its instances of one function h, and `contributions` returns h of each instance, divided by the size of its
    bag: they sum to the prediction exactly.

    Covariates of the bags become columns next to the embedding's rows, under the same penalty (see `CovariatesBeside`);
    a `SecondKernel` reads them itself.

    Parameters
    ----------
    embedding : embedding, default=KernelMean()
        Transformer of bags to rows.
    head : RidgePath or LassoPath, default=RidgePath()
        Regressor on the rows.
    grid : dict, optional
        Lists of values for parameters of the embedding, among which the left-out error chooses.
    offset : {"none", "mean", "median"}, default="none"
        Value towards which the penalty shrinks a prediction: a constant ("none"), or the mean or median of the bag's
        instance predictions, to which the head learns a correction. With the median the prediction is not a sum
        over instances.
    slack : float or None, default=0.5
        How far a prediction may lie outside the training targets, as a share of their range; None for no limit.

    Attributes
    ----------
    setting_, embedding_, head_ : dict, fitted embedding, fitted head
        The setting chosen.
    error_, residuals_ : float, ndarray of shape (n_bags,)
        Its mean squared left-out error, and the left-out residuals of the training bags.
    search_ : list of (setting, penalty, error)
        The best penalty of each setting.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.kernels import Gaussian
    >>> from bagwise.regressors import EmbeddingRidge
    >>> bags, y = bw.datasets.make_gaussian(40, instances=30)
    >>> model = EmbeddingRidge(grid={"kernel": [Gaussian(0.5), Gaussian(1.0)]}).fit(bags, y)
    >>> bool(model.score(bags, y) > 0.8)
    True
    """

    _reads: ClassVar = {"allow_weights": True, "apart": True}
    _embedding: ClassVar = KernelMean

    def __init__(self, embedding=None, head=None, *, grid=None, offset: str = "none", slack: float | None = SLACK):
        self.embedding = embedding
        self.head = head
        self.grid = grid
        self.offset = offset
        self.slack = slack

    def _fit(self, bags, y, weight) -> None:
        self.check_offset(bags.n_features)
        embedding, groups, folds = self.embedding_for({}), bags.groups, getattr(self.fresh_head(), "folds", None)
        if groups is None and folds is not None:
            groups = bag_folds(bags, min(folds, len(bags)))  # by ids: rounding of the rows must not move bags
        fit_grid = getattr(embedding, "fit_grid", partial(Embedding.fit_grid, embedding))  # not all are Embeddings
        embedded = fit_grid(_readable(embedding, bags), y, self.settings())
        self.fit_embedded(embedded, y - self._offset(bags), weight, groups, bags.covariates)

    def fit_embedded(self, embedded, y, weight=None, groups=None, covariates=None) -> EmbeddingRidge:
        """Fit to (setting, fitted embedding, rows) for each setting; rows may be `RowBlocks`, y is minus the offset."""
        best, self.search_ = None, []
        with one_thread():
            for setting, embedding, rows in embedded:
                columns, head = self._fit_head(embedding, rows, y, weight, groups, covariates)
                self.search_.append((setting, head.penalty_, head.error_))
                if best is None or head.error_ < best[-1].error_:
                    best = setting, embedding, columns, head
        self.setting_, self.embedding_, self.beside_, self.head_ = best
        self.error_, self.residuals_ = self.head_.error_, self.head_.residuals_
        return self

    def fresh_head(self) -> RidgePath:
        """Return an unfitted head: a shallow copy, because a clone would copy the penalties one by one."""
        return copy(self.head) if self.head is not None else RidgePath()

    @property
    def additive_(self) -> bool:
        """Whether the prediction is a sum over instances: rows that are means, and no median added to them."""
        return super().additive_ and self.offset != "median"

    def check_offset(self, n_features: int) -> None:
        """Refuse an offset for bags that are not instance predictions."""
        check_options(self, offset=("none", "mean", "median"))
        if self.offset != "none" and n_features != 1:
            raise ValueError(
                f"offset={self.offset!r} is for instance predictions (one column), not {n_features} features"
            )

    def _fit_head(self, embedding, rows, y, weight, groups, covariates) -> tuple:
        head, columns = self.fresh_head(), None
        gram = getattr(embedding, "columns", "features") == "gram"
        if gram:
            head.kernel = "precomputed"  # not by set_params, which takes as long as a small fit
        if covariates is not None and not reads_covariates(embedding):
            columns = CovariatesBeside.of(covariates, rows, gram)
            rows = columns.join(rows, covariates)
        if groups is None and isinstance(head, RidgePath):
            groups = np.arange(len(y))  # each bag alone, even if its row and target equal those of another
        return columns, head.fit(rows, y, sample_weight=weight, groups=groups)

    def _predict(self, bags) -> np.ndarray:
        self._warn_of_extrapolation(bags)
        if self.beside_ is None and hasattr(self.embedding_, "project") and hasattr(self.head_, "coef_"):
            values = self.embedding_.project(_readable(self.embedding_, bags), self.head_.coef_) + self.head_.intercept_
        else:
            values = self.head_.predict(self._rows(bags))
        return values + self._offset(bags)

    def predict_path(self, bags) -> np.ndarray:
        """Return predictions with each penalty of the head, (bags, penalties), all by the chosen embedding."""
        bags = self._checked(bags)
        return self.within_limits(self.head_.predict_path(self._rows(bags)) + np.reshape(self._offset(bags), (-1, 1)))

    def _rows(self, bags) -> np.ndarray:
        rows = self.embedding_.transform(_readable(self.embedding_, bags))
        return rows if self.beside_ is None else self.beside_.join(rows, bags.covariates)

    def _offset(self, bags) -> np.ndarray | float:
        return 0.0 if self.offset == "none" else pooled(bags, self.offset)

    def _warn_of_extrapolation(self, bags) -> None:
        """Warn if instance predictions in units of the label are far outside the range of training."""
        embedding = self.embedding_
        if not isinstance(embedding, KernelMean) or embedding.units != "label" or embedding.beyond == "clip":
            return
        low, high = self.feature_range_in_[:, 0]
        values, slack = bags.instances[:, 0], FAR * (high - low)
        far = (values < low - slack) | (values > high + slack)
        if far.any():
            warn_user(
                f"{name_bags(bags.ids, bags_of(far, bags.offsets))} instance predictions of up to "
                f"{values[far][np.abs(values[far] - (low + high) / 2).argmax()]:.6g}, far outside the training "
                f"range of {low:.6g} to {high:.6g}. With a small penalty the prediction may be far off. Use "
                "KernelMean(beyond='clip') to clip them."
            )

    def leave_one_out_error(self, bags, y, sample_weight=None) -> float:
        """Return the mean squared error of a fresh fit on these bags, each bag (group) left out in turn."""
        return copy(self).fit(bags, y, sample_weight).error_


def reads_covariates(embedding) -> bool:
    return getattr(embedding, "reads_covariates", False)


def _readable(embedding, bags):
    """Return the bags with covariates if the embedding reads them, otherwise without."""
    return bags if reads_covariates(embedding) else bags.without_covariates()


ROUNDS = 30  # of reweighted least squares, for absolute errors


def blend_weights(
    Z: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None, metric: str = "rmse"
) -> np.ndarray:
    r"""Return the weights w ≥ 0 with Σ w = 1 that minimise the squared error ‖y - Z w‖², or the absolute error.

    As Σ w = 1, y - Z w = E w with the errors E = y 1ᵀ - Z. Let v minimise ‖E v‖² + (1ᵀv - 1)² over v ≥ 0, a problem
    of non-negative least squares. Along a direction u with Σ u = 1 its minimum is a / (a + 1), a = ‖E u‖², which
    grows with a. So v is parallel to w, and w = v / Σ v exactly. Absolute errors are minimised by squared errors
    weighted by one over the absolute residual of the previous round.

    Parameters
    ----------
    Z : ndarray of shape (n_bags, n_members)
        Held-out predictions.
    y : ndarray of shape (n_bags,)
        Targets.
    sample_weight : ndarray of shape (n_bags,), optional
        Weight of each bag.
    metric : str, default="rmse"
        Name of a metric, whose ``bag_loss`` is minimised.

    Returns
    -------
    ndarray of shape (n_members,)

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0.0, 1.0, 2.0, 3.0])
    >>> Z = np.column_stack([y + [1, -1, 1, -1], y - [1, -1, 1, -1], 9 - y])
    >>> blend_weights(Z, y).round(6).tolist()  # two errors that cancel, and a member that is wrong
    [0.5, 0.5, 0.0]

    References
    ----------
    Breiman (1996), Stacked regressions. Lawson, Hanson (1974), Solving least squares problems.
    """
    errors = y[:, None] - Z
    if get_metric(metric).bag_loss is absolute:
        return least_absolute(errors, np.ones(len(y)) if sample_weight is None else sample_weight)
    return least_squares(errors * root_weights(sample_weight, len(y))[:, None])


def least_squares(errors: np.ndarray) -> np.ndarray:
    """Return the weights on the simplex with the smallest squared error."""
    errors = np.linalg.qr(errors, mode="r") if len(errors) > errors.shape[1] else errors
    scale = np.sqrt((errors**2).sum(axis=0).min()) or 1.0
    rows = np.vstack([errors / scale, np.ones(errors.shape[1])])
    weights = nnls(rows, np.append(np.zeros(len(errors)), 1.0))[0]
    return weights / weights.sum()


def least_absolute(errors: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights on the simplex with the smallest absolute error, those of the best reweighted round."""
    weights = np.ones(errors.shape[1]) / errors.shape[1]
    best, least = weights, np.inf
    smallest = 1e-6 * np.abs(errors).mean() or 1.0
    for _ in range(ROUNDS):
        residual = np.abs(errors @ weights)
        loss = float(np.average(residual, weights=weight))
        if loss < least * (1 - 1e-9):
            best, least = weights, loss
        elif loss > least * (1 + 1e-9):
            break
        weights = least_squares(errors * np.sqrt(weight / np.maximum(residual, smallest))[:, None])
    return best


def root_weights(sample_weight, n: int) -> np.ndarray:
    """Return the square roots of the weights, scaled to mean square one."""
    return np.ones(n) if sample_weight is None else np.sqrt(sample_weight / np.mean(sample_weight))


class PredictionBlend(AdditiveMixin, BagRegressor, _BaseComposition):
    r"""Regress on the instance predictions of several learners in several ways, and blend the results.

    A bag has a column of instance predictions for each learner. A reading is a ridge on an embedding of one column.
    Each reading of each column has exact left-out predictions of the training bags, Z, and the blend is

        ŷ = Σ_m w_m z_m,   w = argmin ‖y - Z w‖²  over  w ≥ 0, Σ w = 1.

    New instance predictions are clipped to the range of training. A reading that cannot be fitted is left out with a
    warning.

    Parameters
    ----------
    readings : list of (name, EmbeddingRidge)
        Each is fitted to each column alone.
    random_state : int, default=0
        Seed of the folds that estimate the error: the blend of each fold has the weights of the other folds.

    Attributes
    ----------
    weights_, readings_ : dict of str to float, dict of str to EmbeddingRidge
        Weights above zero and their fitted readings, by "learner:reading".
    error_, residuals_ : float, ndarray of shape (n_bags,)
        Mean squared left-out error of the blend, and the left-out residuals of the training bags.
    additive_, additive_share_ : bool, float
        Whether the prediction is an exact sum over instances, and the total weight of the readings that are.
    learner_weights_ : ndarray of shape (n_learners,)
        Total weight of the readings of each learner.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import EmbeddingRidge, PredictionBlend
    >>> rng = np.random.default_rng(0)
    >>> y = np.linspace(1, 3, 40)
    >>> learners = bw.from_arrays([t + rng.normal(size=(30, 2)) for t in y], feature_names=["network", "linear"])
    >>> model = PredictionBlend([("mean", EmbeddingRidge(offset="mean"))]).fit(learners, y)
    >>> sorted(model.weights_)
    ['linear:mean', 'network:mean']

    References
    ----------
    Uriot (2019), Target-wise kernel mean embedding in multiple instance regression. Breiman (1996), Stacked
    regressions.
    """

    _reads: ClassVar = {"allow_weights": True, "apart": True}

    def __init__(self, readings, *, random_state: int = 0):
        self.readings = readings
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict:
        """Return the parameters, those of the readings by name, such as ``mean__grid``."""
        return self._get_params("readings", deep=deep)

    def set_params(self, **params) -> PredictionBlend:
        return self._set_params("readings", **params)

    def _fit(self, bags, y, weight) -> None:
        self.learners_ = list(bags.feature_names or map(str, range(bags.n_features)))
        self.range_ = bags.instances.min(axis=0), bags.instances.max(axis=0)
        columns = {learner: self._column(bags, j) for j, learner in enumerate(self.learners_)}
        fitted = self.fit_readings(columns.items(), lambda reading, column: clone(reading).fit(column, y, weight))
        self.keep_readings(fitted, y, weight, bag_folds(bags, "auto", random_state=self.random_state))

    def fit_readings(self, columns, fit) -> dict:
        """Return the readings that can be fitted to (learner, column of predictions), by "learner:reading"."""
        fitted, failed = {}, None
        for learner, column in columns:
            for name, reading in self.readings:
                try:
                    fitted[f"{learner}:{name}"] = fit(reading, column)
                except (ValueError, np.linalg.LinAlgError) as error:
                    failed = error
                    warn_user(f"the reading {name!r} of {learner!r} is left out: {error}")
        if not fitted:
            raise ValueError(f"no reading of any learner can be fitted: {failed}") from failed
        return fitted

    def keep_readings(self, fitted: dict, y, weight, fold: np.ndarray) -> None:
        """Blend fitted readings, by "learner:reading"; ``fold`` is the fold of each bag in the error estimate."""
        names = [name for name, model in fitted.items() if np.isfinite(model.residuals_).all()] or list(fitted)
        Z = np.column_stack([y - fitted[name].residuals_ for name in names])
        errors = (y[:, None] - Z) * root_weights(weight, len(y))[:, None]
        if np.isfinite(errors).all():
            weights, blend = least_squares(errors), np.empty(len(y))
            for k in range(fold.max() + 1):
                blend[fold == k] = Z[fold == k] @ least_squares(errors[fold != k])
        else:
            weights = np.full(len(names), 1 / len(names))
            blend = Z @ weights
        self.weights_ = {name: float(w) for name, w in zip(names, weights, strict=True) if w > 0}
        self.readings_ = {name: fitted[name] for name in self.weights_}
        self.residuals_ = y - blend
        self.error_ = float(np.average(self.residuals_**2, weights=weight))

    def _predict(self, bags) -> np.ndarray:
        columns = {learner: self._column(bags, j) for j, learner in enumerate(self.learners_)}
        parts = ((weight, name, columns[name.rpartition(":")[0]]) for name, weight in self.weights_.items())
        return sum(weight * self.readings_[name].unlimited(column) for weight, name, column in parts)

    @property
    def additive_share_(self) -> float:
        return sum(w for name, w in self.weights_.items() if self.readings_[name].additive_)

    @property
    def learner_weights_(self) -> np.ndarray:
        totals = dict.fromkeys(self.learners_, 0.0)
        for name, weight in self.weights_.items():
            totals[name.rpartition(":")[0]] += weight
        return np.array(list(totals.values()))

    @property
    def additive_(self) -> bool:
        return all(model.additive_ for model in self.readings_.values())

    predict_instances = available_if(attrgetter("additive_"))(AdditiveMixin.predict_instances)
    contributions = available_if(attrgetter("additive_"))(AdditiveMixin.contributions)

    def leave_one_out_error(self, bags, y, sample_weight=None) -> float:
        """Return the mean squared error of a fresh fit on these bags, each bag (group) left out in turn."""
        return clone(self).fit(bags, y, sample_weight).error_

    def _column(self, bags: Bags, j: int) -> Bags:
        low, high = (end[j] for end in self.range_)
        return bags.replace(np.clip(bags.instances[:, [j]], low, high))
