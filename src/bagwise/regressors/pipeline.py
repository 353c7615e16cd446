"""Base classes of regressors on bags, and `BagPipeline`, a scikit-learn Pipeline of bags."""

from __future__ import annotations

from copy import deepcopy
from functools import wraps
from html import escape
from inspect import Parameter, signature
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise.bags import Bags, check_bags, check_fit, check_targets, check_weights, remember_columns, weights_or_ones
from bagwise.bags.arrays import as_bags
from bagwise.bags.checks import compared, refuse_missing, remember_profile
from bagwise.bags.frames import to_frame
from bagwise.bags.segments import pooled, segment_median_shares, segment_sum
from bagwise.bags.validation import check_options, counted
from bagwise.instances import EachInstance
from bagwise.instances.out_of_fold import reads_missing
from bagwise.io.table_output import own_name

UNUSED = (None, "passthrough")  # steps of a pipeline that do nothing
SLACK = 0.5  # how far predictions may lie outside the training targets, as a share of their range

BLOCK_BAGS = 4096  # bags of one instance that are predicted at a time: 16 MB with 500 columns


def tail_limits(y: np.ndarray) -> tuple[float, float]:
    """Return the range of the targets, widened on each side by the length of its tail, and by half the range at most.

    The lengths of the tails are the distances from the minimum to the 10 % quantile and from the 90 % quantile to the
    maximum. So predictions may exceed a long tail, but hardly an end of the range at which many targets lie.
    """
    low, tenth, last_tenth, high = np.quantile(y, [0.0, 0.1, 0.9, 1.0])
    most = SLACK * (high - low)
    return float(low - min(most, tenth - low)), float(high + min(most, high - last_tenth))


class TargetLimits:
    """Mixin of regressors whose predictions stay within the range of the training targets, widened on each side.

    The widening is a share of the range, the parameter ``slack`` of the regressor if it has one; None is no limit.
    """

    def remember_targets(self, y: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        """Store the limits as ``target_limits_``; bags of weight zero are ignored."""
        slack = getattr(self, "slack", SLACK)
        y = np.asarray(y) if sample_weight is None else np.asarray(y)[np.asarray(sample_weight) > 0]
        low, high = float(y.min()), float(y.max())
        self.target_limits_ = None
        if slack is not None:
            self.target_limits_ = np.array([low - slack * (high - low), high + slack * (high - low)])

    def within_limits(self, predictions: np.ndarray, scale: np.ndarray | float = 1.0) -> np.ndarray:
        """Clip predictions to the limits times ``scale``: the exposure of each bag, for targets that are sums."""
        limits = getattr(self, "target_limits_", None)
        return predictions if limits is None else np.clip(predictions, limits[0] * scale, limits[1] * scale)

    def limited_contributions(self, parts: np.ndarray, bags: Bags, scale: np.ndarray | float = 1.0) -> np.ndarray:
        """Return contributions that sum to the limited prediction; the instances of a bag share the difference."""
        total = segment_sum(parts, bags.offsets)
        excess = self.within_limits(total, scale) - total
        return parts + bags.expand(excess) * bags.shares() if excess.any() else parts


def without_limits(model):
    """Return a copy of a fitted model that predicts without limits, for parts of bags, which vary more than bags."""
    model = deepcopy(model)
    parts = [model]
    while parts:
        part = parts.pop()
        if isinstance(part, TargetLimits):
            part.target_limits_ = None
        values = vars(part) if isinstance(part, BaseEstimator) else part
        parts += values.values() if isinstance(values, dict) else values if isinstance(values, list | tuple) else ()
    return model


class BagModel:
    """Mixin of bag regressors: R² of predictions by bag id, predictions as a data frame, and a short ``repr``.

    As scikit-learn does for ``set_output``, it wraps the methods of each subclass: ``predict(bags, as_frame=True)``
    returns a data frame with the bag ids, and so does ``predict_interval``. The ``repr`` of a fitted estimator is also
    shown above its diagram in a notebook.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        for name, columns in (("predict", ("prediction", "std")), ("predict_interval", ("lower", "upper"))):
            function = getattr(cls, name, None)
            if function is not None and not hasattr(function, "__wrapped__"):
                setattr(cls, name, _with_frame(function, columns))

    def score(self, bags, y, sample_weight=None) -> float:
        """Return the coefficient of determination R² of ``predict(bags)``.

        Parameters
        ----------
        bags : Bags, or list of 2-D arrays or data frames
            One array per bag.
        y : array-like of shape (n_bags,)
            True targets; a pandas Series is aligned by bag id.
        sample_weight : array-like of shape (n_bags,), optional
            Weight of each bag; equal by default.

        Returns
        -------
        float
        """
        bags = bags if isinstance(bags, Bags) else as_bags(bags)
        predicted = self.predict(bags)  # type: ignore[attr-defined]
        return r2_score(check_targets(y, bags), predicted, sample_weight=check_weights(sample_weight, bags))

    def _error_text(self) -> str | None:
        """Return a line with the error on left-out bags, or None if fitting computed none."""
        error = getattr(last_step(self), "error_", np.nan)
        if not np.isfinite(error):
            return None
        how = "leave-one-bag-out, of the last step only; settings were chosen by this error"
        return f"Held-out RMSE {np.sqrt(error):.4g} ({how})"

    def _lines(self) -> list[str]:
        n_bags, n_features = (getattr(first_step(self), name, None) for name in ("n_bags_in_", "n_features_in_"))
        name = getattr(self, "_method_name", None)  # set by `bagwise.method`; a clone does not have it
        method = f" of the method {name}" if name else ""
        on = "" if n_bags is None else f" on {counted(n_bags, 'bag')}"
        columns = "" if n_features is None else f" with {counted(n_features, 'feature')}"
        lines = [f"{type(self).__name__}{method}, fitted{on}{columns}", self._error_text()]
        if isinstance(self, Pipeline):
            kinds = [(name, step if step in UNUSED else type(step).__name__) for name, step in self.steps]
            lines.append("Steps: " + ", ".join(f"{name} ({kind})" for name, kind in kinds))
        return [line for line in lines if line]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return "\n".join(self._lines()) if _is_fitted(self) else super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]

    def _html_repr(self) -> str:
        diagram = super()._html_repr()  # type: ignore[misc]
        if not _is_fitted(self):
            return diagram
        title, *details = map(escape, self._lines())
        return f"<p>{'<br>'.join([f'<strong>{title}</strong>', *details])}</p>{diagram}"


def _with_frame(predict, columns: tuple[str, str]):
    """Return the method with an option ``as_frame``: whether to return a data frame with the bag ids."""

    @wraps(predict)
    def with_frame(self, bags, *arguments, as_frame: bool = False, **options):
        if not as_frame:
            return predict(self, bags, *arguments, **options)
        bags = bags if isinstance(bags, Bags) else as_bags(bags)
        values = predict(self, bags, *arguments, **options)
        values = np.column_stack(values if isinstance(values, tuple) else [values])
        targets = getattr(self, "target_names_", None)
        names = columns if targets is None else [f"{name}_prediction" for name in targets]
        if values.shape[1] > len(names):
            raise ValueError("as_frame=True supports predictions and standard deviations, not covariances; omit it")
        frame = dict(zip(names, values.T, strict=False))
        return to_frame({own_name(bags.id_name, "bag", frame): bags.ids} | frame)

    parameters = list(signature(predict).parameters.values())
    end = len(parameters) - (parameters[-1].kind is Parameter.VAR_KEYWORD)
    parameters.insert(end, Parameter("as_frame", Parameter.KEYWORD_ONLY, default=False, annotation="bool"))
    with_frame.__signature__ = signature(predict).replace(parameters=parameters)
    return with_frame


def _is_fitted(model) -> bool:
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return False
    return True


class BagRegressor(TargetLimits, BagModel, RegressorMixin, BaseEstimator):
    """Base of regressors on bags. A subclass has ``_fit(bags, y, weight)`` and ``_predict(bags)``.

    Both receive checked bags. ``y`` is float64, and ``weight`` has mean one over the bags of positive weight.
    ``_reads`` holds arguments of `check_bags` for the inputs that the subclass handles itself: instance weights
    (``allow_weights``) or covariates (``apart``).
    """

    _reads: ClassVar[dict[str, bool]] = {}

    def fit(self, bags, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        bags : Bags, or list of 2-D arrays or data frames
            Training bags, one array per bag.
        y : array-like of shape (n_bags,)
            Targets; a pandas Series is aligned by bag id.
        sample_weight : array-like of shape (n_bags,), optional
            Weight of each bag; equal by default.

        Returns
        -------
        self
        """
        bags, y = check_fit(bags, y, fitting=self, **self._reads)
        weight = weights_or_ones(sample_weight, bags)
        self.remember_targets(y, weight)
        self._fit(bags, y, weight)
        remember_columns(self, bags)
        return self

    def predict(self, bags):
        """Predict the target of each bag.

        Parameters
        ----------
        bags : Bags, or list of 2-D arrays or data frames
            New bags, with the features of the training bags.
        as_frame : bool, default=False
            Whether to return a data frame with the bag ids.

        Returns
        -------
        ndarray of shape (n_bags,), or data frame
        """
        return self.within_limits(self._predict(self._checked(bags)))

    def _checked(self, bags) -> Bags:
        return check_bags(bags, fitted=self, **self._reads)

    def _fit(self, bags: Bags, y: np.ndarray, weight: np.ndarray) -> None:
        raise NotImplementedError

    def _predict(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError


class EmbeddingGrid:
    """Mixin of bag regressors on an ``embedding``, whose parameters are chosen from a ``grid``."""

    _embedding: ClassVar[type]  # the default

    def settings(self) -> list[dict]:
        """Return the settings to try, in order."""
        return list(ParameterGrid(self.grid or {}))

    def embedding_for(self, setting: dict):
        """Return an unfitted embedding with this setting."""
        return clone(self._embedding() if self.embedding is None else self.embedding).set_params(**setting)


class AdditiveMixin:
    r"""Mixin of bag regressors that are linear in a fitted ``embedding_``: the contributions of the instances.

    For an embedding that is a mean over instances, ŷ_i = 1/L_i Σ_l h(x_il), and h is the prediction of a bag of that
    instance alone, without limits.
    """

    def unlimited(self, bags) -> np.ndarray:
        """Return the predictions without limits; for mean embeddings they are sums over instances."""
        return self._predict(self._checked(bags))

    @property
    def additive_(self) -> bool:
        """Whether predictions are sums over instances: the embedding is a mean."""
        return bool(getattr(self.embedding_, "is_mean", False))

    def predict_instances(self, bags) -> np.ndarray:
        """Return h of each instance, the prediction of a bag with this instance alone, block by block."""
        singles = self._checked(bags).singles()
        starts = range(0, len(singles), BLOCK_BAGS)
        return np.concatenate([self.unlimited(singles[start : start + BLOCK_BAGS]) for start in starts])

    def contributions(self, bags) -> np.ndarray:
        """Return the contribution of each instance to the prediction of its bag: its share in the bag times h."""
        bags = self._checked(bags)
        parts, total = self.predict_instances(bags) * bags.shares(), self.unlimited(bags)
        if not np.allclose(segment_sum(parts, bags.offsets), total, rtol=1e-6, atol=1e-6 * np.abs(total).max()):
            raise ValueError(
                f"{type(self.embedding_).__name__} is not a mean over instances, so the prediction is not a sum of "
                "contributions; use a linear embedding such as KernelMean"
            )
        return self.limited_contributions(parts, bags)


class BagPipeline(BagModel, Pipeline):
    """scikit-learn Pipeline that passes ``sample_weight``, a weight per bag, to each step whose ``fit`` takes it.

    Parameters
    ----------
    steps : list of (str, estimator)
        The steps. The first takes `Bags`, the last is a regressor.
    transform_input, memory, verbose
        As in scikit-learn's Pipeline.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.embeddings import Statistics
    >>> from bagwise.regressors import BagPipeline
    >>> from sklearn.linear_model import Ridge
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> model = BagPipeline([("rows", Statistics()), ("head", Ridge())]).fit(bags, y, sample_weight=1.0 + y**2)
    >>> model.predict(bags).shape
    (30,)
    """

    def fit(self, bags, y=None, sample_weight=None, **params):
        if not (isinstance(bags, Bags | list | tuple) and hasattr(self.steps[-1][1], "predict")):
            return super().fit(bags, y, **params, **self._routed(bags, sample_weight))
        bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        if bags.has_missing and bags.missing != "impute":
            self._refuse_unread(bags)
        super().fit(compared(bags), y, **params, **self._routed(bags, sample_weight))
        remember_profile(self, bags)
        return self

    def predict(self, bags, **params):
        """Return the predictions of the last step, one per bag; ``params`` are passed on to it."""
        if isinstance(bags, Bags) and bags.has_missing and not hasattr(first_step(self), "imputation_"):
            self._refuse_unread(bags)
        return super().predict(bags, **params)

    def _refuse_unread(self, bags: Bags) -> None:
        """Raise an error if a step would get missing values that it does not accept."""
        for _, step in self.steps:
            if step in UNUSED:
                continue
            if not reads_missing(step):
                refuse_missing(bags, self)
            if not hasattr(getattr(step, "estimator", None), "transform"):  # a scaler passes them on
                return

    def fit_transform(self, bags, y=None, sample_weight=None, **params):
        return super().fit_transform(bags, y, **params, **self._routed(bags, sample_weight))

    def _routed(self, bags, sample_weight) -> dict:
        weights = check_weights(sample_weight, bags)
        if weights is None:
            return {}
        taking = [name for name, step in self.steps if has_fit_parameter(step, "sample_weight")]
        name, last = self.steps[-1]
        if hasattr(last, "predict") and name not in taking:
            raise ValueError(
                f"the last step, {type(last).__name__}, takes no sample_weight. Use a regressor that does, or leave "
                "sample_weight out"
            )
        return {f"{name}__sample_weight": weights for name in taking}


def first_step(model):
    """Return the first step of a pipeline, which reads the bags, or the model itself."""
    while isinstance(model, Pipeline):
        model = next((step for _, step in model.steps if step not in UNUSED), None)
    return model


def last_step(model):
    """Return the regressor at the end of a pipeline, or the model itself."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def standardised() -> EachInstance:
    """Return a scaler that clips new values, because a feature that hardly varied in training is magnified."""
    return EachInstance(make_pipeline(MinMaxScaler(clip=True), StandardScaler()))


def scaled(head) -> BagPipeline:
    """Return a pipeline that standardises the features over all training instances, then applies the head."""
    return BagPipeline([("scale", standardised()), ("head", head)])


class PoolPredictions(BagRegressor):
    """Mean (or median) of the instance predictions of a bag, by their weights if any.

    Parameters
    ----------
    statistic : {"mean", "median"}, default="mean"
        How the instance predictions of a bag are combined.
    slack : float, optional
        How far a prediction may lie outside the training targets, as a share of their range; no limit by default.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.regressors import PoolPredictions
    >>> predictions = bw.from_arrays([np.array([1.0, 2.0, 9.0]), np.array([5.0])])
    >>> PoolPredictions("median").fit(predictions, [2.0, 5.0]).predict(predictions).tolist()
    [2.0, 5.0]
    """

    _reads: ClassVar = {"allow_weights": True}

    def __init__(self, statistic: str = "mean", *, slack: float | None = None):
        self.statistic = statistic
        self.slack = slack

    def _fit(self, bags, y, weight) -> None:
        check_options(self, statistic=("mean", "median"))
        if bags.n_features != 1:
            raise ValueError(f"PoolPredictions takes instance predictions (one column), not {bags.n_features} features")

    def _predict(self, bags) -> np.ndarray:
        return pooled(bags, self.statistic)

    def instance_weights(self, bags) -> np.ndarray:
        """Return the weight of each instance in the prediction; equal predictions have equal weights."""
        bags = self._checked(bags)
        if self.statistic == "mean":
            return bags.shares()
        return segment_median_shares(bags.instances[:, 0].astype(np.float64), bags.shares(), bags.offsets)

    @available_if(lambda self: self.statistic == "mean")
    def contributions(self, bags) -> np.ndarray:
        """Return the contribution of each instance to the mean: its share in the bag times its prediction."""
        bags = self._checked(bags)
        return self.limited_contributions(bags.shares() * bags.instances[:, 0].astype(np.float64), bags)
