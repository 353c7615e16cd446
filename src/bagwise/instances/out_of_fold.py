"""Out-of-fold predictions of instances: each training instance is predicted by a model that never saw its bag.

`CrossFit` is the result of training once per fold: held-out predictions of each row, and predictors for new rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import has_fit_parameter

from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.checks import compared, within_range
from bagwise.bags.folds import Folds, split_bags
from bagwise.bags.segments import segment_mean
from bagwise.bags.validation import check_options, one_of
from bagwise.execution.resources import DeviceError, one_thread
from bagwise.held_out import assemble, hold_out


@dataclass(frozen=True)
class CrossFit:
    """A regressor trained once per fold, each time without that fold's rows.

    Attributes
    ----------
    predictions : array (rows, candidates)
        Column c holds the prediction of each row by the model of candidate c that never saw the row's fold.
    candidates : tuple
        The label of each column: ``({},)`` for a plain regressor, ``({"epochs": 5}, {"epochs": 10})`` for a network.
    predictor : function (candidate index, kind) -> fitted regressor
        For new rows; kind is ``"fold-mean"`` (average of the fold models), ``"refit"`` or ``"last-fold"``.
    """

    predictions: np.ndarray
    candidates: tuple[dict[str, Any], ...]
    predictor: Callable[[int, str], Any]


@runtime_checkable
class CrossFitting(Protocol):
    """Regressor that trains for all folds at once, or has its held-out predictions in closed form."""

    def cross_fit(self, X, y, fold, *, sample_weight=None, n_jobs=None) -> CrossFit: ...


PREDICTORS = ("fold-mean", "refit", "last-fold")
WEIGHTINGS = ("bag", "instance")
BEYOND = ("clip", "regressor")


class OutOfFold(BaseEstimator):
    """Out-of-fold predictions of instances; ``fit_transform`` and ``transform`` differ on the training bags.

    ``fit_transform(bags, y)`` splits the bags into folds, trains the regressor without each fold (each instance has
    its bag's target) and returns, for each instance, the prediction of the model that never saw its bag.
    ``transform(bags)`` predicts new bags with the final predictor. A second stage is thus fitted on
    predictions like those of new bags; predictions of a model for its own training bags would be too good.
    (`RandomFeatureRidge` fits its feature map on the rows of all folds, without targets.) To score the whole method,
    keep bags out of both stages, as `bagwise.evaluate`, "auto" and `Intervals` do.

    Parameters
    ----------
    regressor : scikit-learn regressor, default LinearRegression
        A regressor with ``cross_fit`` (see `CrossFitting`) is trained for all folds at once, or in closed form.
    folds : int, "auto", "each", "random", "forward", "given" or Validation, default "auto"
        Number of folds of bags; "auto" is 10, or the number of bags (groups) if that is smaller; "each" leaves out one
        at a time. With a number, the scheme that the bags declare still applies; see `Validation`.
    predictor : {"fold-mean", "refit", "last-fold"}, default "fold-mean"
        Predictor of new bags. "fold-mean" averages the fold models; with folds forward in time it is one
        model of all bags, because early fold models saw few bags. "refit" is a model trained on all bags. "last-fold"
        is the model of the last fold, as in the notebook of Uriot (2019).
    weighting : {"bag", "instance"}, default "bag"
        "bag" gives each bag the same weight in the loss: an instance has the weight 1 / size of its bag, or its share
        in the instance weights of the bag. "instance" gives each instance the same weight, or its instance weight. The
        product with the weight of the bag is the ``sample_weight`` of the regressor.
    scaler : "standard", None or transformer, default "standard"
        Fitted on the training instances of each fold, before the regressor. A regressor with ``cross_fit`` scales the
        instances itself.
    judge : bag regressor with ``leave_one_out_error(bags, y, sample_weight)``, optional
        Chooses among the candidates of the regressor (epochs, penalties) by the error of the second stage. By default
        the candidate with the smallest squared error of the bag means is chosen.
    keep_covariates : bool, default True
        Whether the output keeps the covariates of the bags. The regressor always sees them, as columns of each
        instance.
    beyond : {"clip", "regressor"}, default "clip"
        Whether values of new instances outside the training range are clipped to it, so that one wrong number cannot
        dominate a bag, or passed to the regressor.
    random_state : int, default 0
        Seed of the folds, and of a regressor without a seed.
    n_jobs : int, optional
        Number of folds trained at once. Results do not depend on it.

    Attributes
    ----------
    predictor_ : regressor
        The fitted predictor of new instances.
    candidate_ : dict
        The chosen candidate, empty if there is only one.
    fold_ : array of int
        The fold of each training bag.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.instances import OutOfFold
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=(4, 2)) + i for i in range(8)])
    >>> OutOfFold(folds=4).fit_transform(bags, np.arange(8.0))
    Bags: 8 bags of 4 instances (32 in all), 1 feature

    References
    ----------
    Uriot (2019), Target-wise kernel mean embedding in multiple instance regression, Algorithm 1, part 1.
    """

    def __init__(
        self,
        regressor=None,
        *,
        folds: int | str = "auto",
        predictor: str = "fold-mean",
        weighting: str = "bag",
        scaler="standard",
        judge=None,
        keep_covariates: bool = True,
        beyond: str = "clip",
        random_state: int = 0,
        n_jobs: int | None = None,
    ):
        self.regressor = regressor
        self.folds = folds
        self.predictor = predictor
        self.weighting = weighting
        self.scaler = scaler
        self.judge = judge
        self.keep_covariates = keep_covariates
        self.beyond = beyond
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, bags, y, sample_weight=None) -> OutOfFold:
        self.fit_transform(bags, y, sample_weight)
        return self

    def fit_transform(self, bags, y, sample_weight=None) -> Bags:
        """Fit, and return the out-of-fold predictions of the training instances."""
        check_options(self, predictor=PREDICTORS, beyond=BEYOND)
        checked, y = check_fit(
            bags, y, fitting=self, allow_missing=reads_missing(self.regressor), allow_weights=True, apart=True
        )
        bag_weights = check_weights(sample_weight, checked)
        folds = split_bags(checked, self.folds, random_state=self.random_state, inner=True)
        self.fold_ = folds.test
        if bag_weights is not None and len(set(self.fold_[bag_weights > 0].tolist())) < 2:
            raise ValueError(
                "all bags with a weight above zero are in one fold, so no model can be trained without it. Check "
                "sample_weight and groups"
            )
        regressor, (X, target, fold, weights) = self.problem(checked, y, self.fold_, bag_weights)
        _refuse_lost_weights(regressor, bag_weights is not None or checked.weights is not None)
        train = regressor.cross_fit if isinstance(regressor, CrossFitting) else partial(fold_by_fold, regressor)
        if not folds.is_partition:
            train = partial(cross_fit_windows, train, [checked.expand(folds.train(k)) for k in range(len(folds))])
        result = train(X, target, fold, sample_weight=weights, n_jobs=self.n_jobs)
        return self.adopt(result, checked, y, bag_weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = reads_missing(self.regressor)
        return tags

    def problem(self, bags: Bags, y: np.ndarray, fold: np.ndarray, weight=None) -> tuple:
        """Return the regressor, and rows, targets, folds and weights of instances for cross-fitting."""
        bags = bags.spread()
        weights = instance_weights(bags, self.weighting, weight)
        regressor = prepared(self.regressor, self.scaler, self.random_state)
        return regressor, (bags.instances, bags.expand(y), bags.expand(fold), weights)

    def adopt(self, result: CrossFit, bags: Bags, y: np.ndarray, weight=None) -> Bags:
        """Choose among the candidates of a cross-fit, keep the predictor and return the out-of-fold predictions."""
        chosen = self._choose(result, self._out(bags), y, weight)
        self.keep(result, chosen)
        remember_columns(self, bags)
        return self._out(bags).replace(result.predictions[:, [chosen]])

    def keep(self, result: CrossFit, chosen: int) -> None:
        """Keep the chosen candidate and its predictor of new bags."""
        self.candidate_ = result.candidates[chosen]
        self.predictor_ = result.predictor(chosen, self.predictor)

    def transform(self, bags) -> Bags:
        """Return the predictions of the final predictor, as one column."""
        checked = check_bags(
            bags, fitted=self, allow_missing=reads_missing(self.regressor), allow_weights=True, apart=True
        )
        rows = within_range(checked, self) if self.beyond == "clip" else checked
        predictions = self.predictor_.predict(rows.spread().instances)
        return self._out(checked).replace(np.reshape(predictions, (-1, 1)))

    def _out(self, bags: Bags) -> Bags:
        return bags if self.keep_covariates else bags.without_covariates()

    def _choose(self, result: CrossFit, bags: Bags, y: np.ndarray, weight) -> int:
        if len(result.candidates) == 1:
            return 0
        columns = (bags.replace(result.predictions[:, [c]]) for c in range(len(result.candidates)))
        if self.judge is not None:
            errors = [self.judge.leave_one_out_error(column, y, weight) for column in columns]
        else:
            squares = ((segment_mean(b.instances[:, 0], b.offsets, b.weights) - y) ** 2 for b in columns)
            errors = [np.average(square, weights=weight) for square in squares]
        self.candidate_errors_ = np.array(errors)
        return int(np.argmin(errors))


class OutOfFoldUnion(_BaseComposition):
    """Out-of-fold predictions of several learners on the same folds of bags, a column per learner.

    A learner that fails is skipped with a warning that names it; if all fail, the error of the last is raised.

    Parameters
    ----------
    learners : list of (str, OutOfFold)
        Names and stages. With equal ``folds`` and ``random_state``, all use the same folds.

    Attributes
    ----------
    learners_ : dict of str to OutOfFold
        The fitted stages by name.
    fold_ : array of int
        The fold of each training bag.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.instances import OutOfFold, OutOfFoldUnion
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> bags = bw.from_arrays([rng.normal(size=(4, 2)) + i for i in range(8)])
    >>> OutOfFoldUnion([("plain", OutOfFold()), ("ridge", OutOfFold(Ridge()))]).fit_transform(bags, np.arange(8.0))
    Bags: 8 bags of 4 instances (32 in all), 2 features
    """

    def __init__(self, learners):
        self.learners = learners

    def get_params(self, deep: bool = True) -> dict:
        """Return the parameters, those of the learners by name: ``network__regressor__epochs``."""
        return self._get_params("learners", deep=deep)

    def set_params(self, **params) -> OutOfFoldUnion:
        return self._set_params("learners", **params)

    def fit(self, bags, y, sample_weight=None) -> OutOfFoldUnion:
        self.fit_transform(bags, y, sample_weight)
        return self

    def fit_transform(self, bags, y, sample_weight=None) -> Bags:
        """Fit all learners, and return their out-of-fold predictions of the training instances."""
        bags, y = check_fit(bags, y, fitting=self, allow_missing=True, allow_weights=True, apart=True)
        self.learners_, columns, failed = {}, [], None
        for name, stage in self.learners:
            stage = clone(stage)
            try:
                columns.append(stage.fit_transform(bags, y, sample_weight))
            except DeviceError:
                raise
            except (ValueError, np.linalg.LinAlgError) as error:
                failed = error
                if len(self.learners) > 1:
                    warnings.warn(f"the learner {name!r} is left out: {error}", UserWarning, stacklevel=2)
                continue
            self.learners_[name], self.fold_ = stage, stage.fold_
        if failed is not None and not columns:
            raise failed
        remember_columns(self, bags)
        return self._joined(columns)

    def transform(self, bags) -> Bags:
        """Return the predictions of the final predictors, a column per learner."""
        bags = check_bags(bags, fitted=self, allow_missing=True, allow_weights=True, apart=True)
        return self._joined([stage.transform(compared(bags)) for stage in self.learners_.values()])

    def _joined(self, columns: list[Bags]) -> Bags:
        values = np.column_stack([column.instances[:, 0] for column in columns])
        return columns[0].replace(values)._with(feature_names=tuple(map(str, self.learners_)))


class EachInstance(BaseEstimator):
    """Apply a scikit-learn estimator to each instance: its ``transform`` if it has one, otherwise its predictions.

    A regressor is trained on all instances, each with its bag's target, and predicts its training bags like new ones.
    Use it if no later step is fitted on the predictions, and `OutOfFold` otherwise.

    A transformer is fitted on the instances without weights. Covariates of the bags are scaled to mean 0 and variance 1
    over the training bags and clipped to their range. A regressor sees covariates as columns of each instance, and its
    output has none.

    Parameters
    ----------
    estimator : scikit-learn transformer or regressor, default LinearRegression
    weighting, scaler, beyond, random_state
        As in `OutOfFold`, for regressors.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.instances import EachInstance
    >>> from sklearn.preprocessing import StandardScaler
    >>> bags = bw.from_arrays([np.array([[1.0], [3.0]]), np.array([[5.0], [7.0]])])
    >>> EachInstance(StandardScaler()).fit_transform(bags).instances.mean()
    np.float64(0.0)
    """

    def __init__(
        self, estimator=None, *, weighting: str = "bag", scaler="standard", beyond: str = "clip", random_state: int = 0
    ):
        self.estimator = estimator
        self.weighting = weighting
        self.scaler = scaler
        self.beyond = beyond
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = reads_missing(self.estimator)
        return tags

    def fit(self, bags, y=None, sample_weight=None) -> EachInstance:
        if hasattr(self.estimator, "transform"):
            bags = check_bags(bags, fitting=self, allow_missing=True, allow_weights=True, apart=True)
            self.estimator_ = clone(self.estimator).fit(bags.instances)
            if bags.covariates is not None:
                self.covariate_scaler_ = make_pipeline(MinMaxScaler(clip=True), StandardScaler()).fit(bags.covariates)
        else:
            check_options(self, beyond=BEYOND)
            bags, y = check_fit(bags, y, fitting=self, allow_missing=reads_missing(self.estimator), allow_weights=True)
            bag_weights = check_weights(sample_weight, bags)
            weights = instance_weights(bags, self.weighting, bag_weights)
            regressor = prepared(self.estimator, self.scaler, self.random_state)
            _refuse_lost_weights(regressor, bag_weights is not None or bags.weights is not None)
            groups = bags.expand(np.arange(len(bags)))
            self.estimator_ = fit_rows(regressor, bags.instances, bags.expand(y), weights, groups)
        remember_columns(self, bags)
        return self

    def fit_transform(self, bags, y=None, sample_weight=None) -> Bags:
        bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        fitted = self.fit(bags, y, sample_weight)
        return fitted.transform(compared(bags))  # no need to compare training bags with themselves

    def transform(self, bags) -> Bags:
        scales = hasattr(self.estimator, "transform")
        reads = scales or reads_missing(self.estimator)
        bags = check_bags(bags, fitted=self, allow_missing=reads, allow_weights=True, apart=scales)
        if scales:
            return self._scaled(bags)
        rows = within_range(bags, self) if self.beyond == "clip" else bags
        return bags.replace(self.estimator_.predict(rows.instances))

    def _scaled(self, bags: Bags) -> Bags:
        scaled = bags.replace(self.estimator_.transform(bags.instances), feature_names=bags.feature_names)
        if bags.covariates is None:
            return scaled
        return scaled.with_covariates(self.covariate_scaler_.transform(bags.covariates), bags.covariate_names)


def reads_missing(estimator) -> bool:
    """Return whether an estimator reads missing values (NaN), by its scikit-learn tags."""
    return hasattr(estimator, "__sklearn_tags__") and get_tags(estimator).input_tags.allow_nan


def instance_weights(bags: Bags, weighting: str, sample_weight=None) -> np.ndarray | None:
    """Return the weight of each instance in the loss, with mean one, or None if all are equal.

    It is the weight of the bag times the share of the instance in it ("bag") or the instance weight ("instance").
    """
    one_of(weighting, WEIGHTINGS, "weighting")
    if weighting == "bag":
        weights = bags.shares()
    else:
        weights = np.ones(bags.n_instances) if bags.weights is None else bags.weights / bags.weights.max()
    weights = weights if sample_weight is None else weights * bags.expand(sample_weight)
    if bags.weights is None and (weights == weights[0]).all():
        return None
    return weights / weights.mean()


def prepared(regressor, scaler, random_state: int):
    """Return a seeded clone of the regressor, with the scaler before it unless it scales by itself."""
    regressor = seeded(clone(regressor) if regressor is not None else LinearRegression(), random_state)
    if scaler is None or isinstance(regressor, CrossFitting):
        return regressor
    return make_pipeline(StandardScaler() if scaler == "standard" else clone(scaler), regressor)


def seeded(estimator, random_state: int):
    """Set each random_state that is None to a seed, so that repeated calls give the same result."""
    for name, value in sorted(estimator.get_params(deep=True).items()):
        if value is None and (name == "random_state" or name.endswith("__random_state")):
            estimator.set_params(**{name: random_state})
    return estimator


def fit_options(regressor, **offered) -> dict:
    """Select the arguments of ``fit`` (not None) that the regressor takes, or the last step of a pipeline.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> fit_options(LinearRegression(), sample_weight=[1.0, 2.0], groups=[0, 1])
    {'sample_weight': [1.0, 2.0]}
    """
    name, last = regressor.steps[-1] if hasattr(regressor, "steps") else ("", regressor)
    prefix = f"{name}__" if name else ""
    return {prefix + key: value for key, value in offered.items() if value is not None and has_fit_parameter(last, key)}


def fit_rows(regressor, X, y, sample_weight=None, groups=None):
    """Fit on rows, passing weights and groups where the regressor takes them; on one thread, so results never vary."""
    with one_thread():
        return regressor.fit(X, y, **fit_options(regressor, sample_weight=sample_weight, groups=groups))


class FoldMean(BaseEstimator):
    """The average of several fitted regressors."""

    def __init__(self, regressors):
        self.regressors = regressors

    def predict(self, X) -> np.ndarray:
        total = np.zeros(len(X))
        for regressor in self.regressors:
            total += regressor.predict(X)
        return total / len(self.regressors)


def fold_by_fold(regressor, X, y, fold, *, sample_weight=None, n_jobs=None) -> CrossFit:
    """Cross-fit any regressor: train a clone without each fold."""
    pairs = list(Folds(fold).pairs())
    tasks = [(partial(_fit_clone, regressor), *pair) for pair in pairs]
    results = hold_out(tasks, X, y, sample_weight=sample_weight, n_jobs=n_jobs)
    models = [result.model for result in results]

    def predictor(_, kind):
        if kind == "refit":
            return fit_rows(clone(regressor), X, y, sample_weight)
        return FoldMean(models) if kind == "fold-mean" else models[-1]

    return CrossFit(assemble(results, pairs, len(X))[:, None], ({},), predictor)


def cross_fit_windows(train, masks, X, y, fold, *, sample_weight=None, n_jobs=None) -> CrossFit:
    """Cross-fit with folds in time: fold k trains on the rows ``masks[k]``, those of the bags before its window.

    No fold holds out the rows of the first window. They are predicted by a model trained on the rows of fold 0, the
    nearest window. New rows are predicted by a model of all rows, also for the kind ``fold-mean``.
    """
    steps = [(mask, fold == k) for k, mask in enumerate(masks)] + [(fold == 0, fold < 0)] * bool((fold < 0).any())
    results = []
    for training, held_out in steps:
        rows = training | held_out
        weights = None if sample_weight is None else sample_weight[rows]
        part = train(X[rows], y[rows], held_out[rows].astype(np.int64), sample_weight=weights, n_jobs=n_jobs)
        results.append((rows, held_out, part))
    candidates = results[0][2].candidates
    predictions = np.empty((len(X), len(candidates)))
    for rows, held_out, part in results:
        predictions[held_out] = part.predictions[held_out[rows]]

    def predictor(chosen, kind):
        if kind == "last-fold":
            return results[len(masks) - 1][2].predictor(chosen, kind)
        # a mean would include models of early windows, which were trained on few and old bags
        last = (fold == fold.max()).astype(np.int64)
        return train(X, y, last, sample_weight=sample_weight, n_jobs=n_jobs).predictor(chosen, "refit")

    return CrossFit(predictions, candidates, predictor)


def _fit_clone(regressor, X, y, sample_weight):
    return fit_rows(clone(regressor), X, y, sample_weight)


def _refuse_lost_weights(regressor, has_weights: bool) -> None:
    """Raise an error if the caller passed weights that the regressor cannot take."""
    last = regressor.steps[-1][1] if hasattr(regressor, "steps") else regressor
    if has_weights and not (isinstance(last, CrossFitting) or has_fit_parameter(last, "sample_weight")):
        raise ValueError(
            f"{type(last).__name__} takes no sample_weight, but weights of bags or instances were passed. Use a "
            "regressor that takes sample_weight, or drop the weights."
        )
