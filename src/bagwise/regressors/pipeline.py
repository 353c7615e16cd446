"""`BagRegressor`, the base of regressors on bags, and `BagPipeline`, a scikit-learn Pipeline of bags."""

from __future__ import annotations

from functools import wraps
from html import escape
from inspect import Parameter, signature
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise.bags import Bags, check_bags, check_fit, check_targets, check_weights, remember_columns, weights_or_ones
from bagwise.bags.arrays import as_bags
from bagwise.bags.checks import check_options, compared, refuse_missing, remember_profile
from bagwise.bags.frames import to_frame
from bagwise.bags.segments import pooled, segment_median_shares, segment_sum
from bagwise.bags.validation import counted
from bagwise.instances import EachInstance
from bagwise.instances.out_of_fold import reads_missing
from bagwise.io.table_output import own_name
from bagwise.regressors.target_limits import TargetLimits

PREDICTIONS = {"predict": ("prediction",), "predict_interval": ("lower", "upper")}  # methods and their columns


class BagScore:
    """Mixin of bag regressors: R² of predictions, with targets aligned by bag id, and predictions as a data frame.

    As scikit-learn does for ``set_output``, it wraps the methods of each subclass: ``predict(bags, as_frame=True)``
    returns a data frame with the bag ids, and so does ``predict_interval``.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> list(bw.method("blr").fit(bags, y).predict(bags, return_std=True, as_frame=True))
    ['bag', 'prediction', 'std']
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        for name, heads in PREDICTIONS.items():
            function = getattr(cls, name, None)
            if function is not None and not hasattr(function, "__wrapped__"):
                setattr(cls, name, _with_frame(function, heads))

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


def _with_frame(predict, heads: tuple[str, ...]):
    """Return the method with an option ``as_frame``: whether to return a data frame with the bag ids."""

    @wraps(predict)
    def with_frame(self, bags, *arguments, as_frame: bool = False, **options):
        if not as_frame:
            return predict(self, bags, *arguments, **options)
        bags = bags if isinstance(bags, Bags) else as_bags(bags)
        values = predict(self, bags, *arguments, **options)
        values = np.column_stack(values if isinstance(values, tuple) else [values])
        targets = getattr(self, "target_names_", None)
        names = [*heads, "std"] if targets is None else [f"{name}_prediction" for name in targets]
        if values.shape[1] > len(names):
            raise ValueError("as_frame=True takes predictions and standard deviations, not covariances; leave it out")
        columns = dict(zip(names, values.T, strict=False))
        return to_frame({own_name(bags.id_name, "bag", columns): bags.ids} | columns)

    parameters = signature(predict).parameters
    option = Parameter("as_frame", Parameter.KEYWORD_ONLY, default=False, annotation="bool")
    last = [parameter for parameter in parameters.values() if parameter.kind is Parameter.VAR_KEYWORD]
    first = [parameter for parameter in parameters.values() if parameter not in last]
    with_frame.__signature__ = signature(predict).replace(parameters=[*first, option, *last])
    return with_frame


class FittedDisplay(BagScore):
    """Mixin for a short ``repr`` of a fitted estimator, also shown above its diagram in a notebook.

    An unfitted estimator prints as in scikit-learn, with its parameters.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(30, instances=5)
    >>> print(bw.method("instance-mean").fit(bags, y))
    BagPipeline of the method instance-mean, fitted on 30 bags with 1 feature
    Steps: instances (EachInstance), head (PoolPredictions)
    """

    def _ends(self) -> tuple[Any, Any]:
        """Return the first and the last step of a pipeline."""
        return self, self

    def _error_text(self) -> str | None:
        """Return a line with the error on left-out bags, or None if fitting computed none."""
        error = getattr(self._ends()[1], "error_", np.nan)
        if not np.isfinite(error):
            return None
        how = "each bag left out of the last step only; settings were chosen by this error"
        return f"Held-out RMSE {np.sqrt(error):.4g} ({how})"

    def _lines(self) -> list[str]:
        steps = self.steps if isinstance(self, Pipeline) else []
        n_bags, n_features = (getattr(self._ends()[0], name, None) for name in ("n_bags_in_", "n_features_in_"))
        name = getattr(self, "_method_name", None)  # set by `bagwise.method`; a clone does not have it
        method = f" of the method {name}" if name else ""
        on = "" if n_bags is None else f" on {counted(n_bags, 'bag')}"
        columns = "" if n_features is None else f" with {counted(n_features, 'feature')}"
        lines = [f"{type(self).__name__}{method}, fitted{on}{columns}", self._error_text()]
        if steps:
            lines.append("Steps: " + ", ".join(f"{name} ({_kind(step)})" for name, step in steps))
        return [line for line in lines if line]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return "\n".join(self._lines()) if _is_fitted(self) else super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]

    def _html_repr(self) -> str:
        diagram = super()._html_repr()  # type: ignore[misc]
        if not _is_fitted(self):
            return diagram
        title, *details = map(escape, self._lines())
        return f"<p>{'<br>'.join([f'<strong>{title}</strong>', *details])}</p>{diagram}"


def _is_fitted(model) -> bool:
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return False
    return True


def _kind(step) -> str:
    return step if step is None or isinstance(step, str) else type(step).__name__


class BagRegressor(TargetLimits, FittedDisplay, RegressorMixin, BaseEstimator):
    """Base of regressors on bags. A subclass has ``_fit(bags, y, weight)`` and ``_predict(bags)``.

    Both receive checked bags. ``y`` is float64, and ``weight`` has mean one over the bags of positive weight.
    ``_reads`` holds what the subclass applies itself, as arguments of `check_bags`: instance weights
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


BLOCK_BAGS = 4096  # bags of one instance that are predicted at a time: 16 MB with 500 columns


class AdditiveMixin:
    r"""Mixin of bag regressors that are linear in a fitted ``embedding_``: the contributions of the instances.

    Where the row of a bag is the mean of the rows of its instances (``is_mean`` of the embedding), its prediction is
    the mean of one function of the instance, ŷ_i = 1/L_i Σ_l h(x_il), and h is the prediction of a bag of that
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


class BagPipeline(FittedDisplay, Pipeline):
    """scikit-learn Pipeline that passes ``sample_weight``, a weight per bag, to each step whose ``fit`` takes it.

    A plain Pipeline requires ``head__sample_weight=...``, so the caller would have to know the steps. Everything else
    works as in Pipeline: slicing, cloning, ``passthrough``, ``memory``, parameters of steps by name.

    Parameters
    ----------
    steps : list of (str, estimator)
        The steps. The first takes `Bags`, the last is a regressor.
    transform_input : list of str, optional
        Arguments of ``fit`` that are transformed as the bags are, such as a validation set (scikit-learn's own).
    memory : str or joblib.Memory, optional
        Where fitted stages are cached.
    verbose : bool, default=False
        Whether to print the time that each step takes.

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
        """Raise an error if a step would get missing values that it does not read."""
        for _, step in self.steps:
            if step in (None, "passthrough"):
                continue
            if not reads_missing(step):
                refuse_missing(bags, self)
            if not hasattr(getattr(step, "estimator", None), "transform"):  # a scaler passes them on
                return

    def fit_transform(self, bags, y=None, sample_weight=None, **params):
        return super().fit_transform(bags, y, **params, **self._routed(bags, sample_weight))

    def _ends(self):
        return first_step(self), last_step(self)

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
        model = next((step for _, step in model.steps if step not in (None, "passthrough")), None)
    return model


def last_step(model):
    """Return the regressor at the end of a pipeline, or the model itself."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def standardised() -> EachInstance:
    """Return a scaler to mean 0 and variance 1 that keeps new values within the training range.

    A feature that hardly varied in training could otherwise move a new instance a hundred deviations away.
    """
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
        How far a prediction may lie outside the training targets, as a share of their range; by default anywhere.

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
        """Return the weight of each instance in the prediction: its share for a mean, the middle ones for a median.

        Instances with equal predictions have equal weights.
        """
        bags = self._checked(bags)
        if self.statistic == "mean":
            return bags.shares()
        return segment_median_shares(bags.instances[:, 0].astype(np.float64), bags.shares(), bags.offsets)

    @available_if(lambda self: self.statistic == "mean")
    def contributions(self, bags) -> np.ndarray:
        """Return the contribution of each instance to the mean: its share in the bag times its prediction."""
        bags = self._checked(bags)
        return self.limited_contributions(bags.shares() * bags.instances[:, 0].astype(np.float64), bags)
