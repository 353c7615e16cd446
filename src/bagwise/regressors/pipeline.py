"""A scikit-learn Pipeline whose ``fit`` takes bag weights; its steps; the simplest of them: scaled inputs, a pool."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from bagwise.bags import Bags, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.checks import compared, remember_profile
from bagwise.bags.segments import segment_median_shares
from bagwise.instances import EachInstance
from bagwise.regressors.display import FittedDisplay
from bagwise.regressors.ridge import pooled


class BagPipeline(FittedDisplay, Pipeline):
    """A scikit-learn Pipeline that hands ``sample_weight``, a weight per bag, to every step whose ``fit`` takes it.

    A plain Pipeline wants ``head__sample_weight=...``, so the caller would have to know the steps. All else is that of
    Pipeline: slicing, cloning, ``passthrough``, ``memory``, parameters of steps by name.

    Parameters
    ----------
    steps : list of (name, estimator)
        Stages, of which the first takes `Bags`, and the regressor at the end.
    transform_input : list of str, optional
        Arguments of ``fit`` that are transformed as the bags are, such as a validation set (scikit-learn's own).
    memory : str or object with the joblib.Memory interface, optional
        Where fitted stages are cached.
    verbose : bool
        Print the time that each step takes.

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
        super().fit(compared(bags), y, **params, **self._routed(bags, sample_weight))
        remember_profile(self, bags)
        return self

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
            raise ValueError(f"the last step, {type(last).__name__}, takes no sample_weight, so bags cannot be weighed")
        return {f"{name}__sample_weight": weights for name in taking}


def first_step(model):
    """What is given the bags: the beginning of a pipeline, or the model itself."""
    while isinstance(model, Pipeline):
        model = next((step for _, step in model.steps if step not in (None, "passthrough")), None)
    return model


def last_step(model):
    """The regressor at the end of a pipeline, or the model itself."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def standardised() -> EachInstance:
    """Features of mean 0 and variance 1, new values kept within the range of training.

    A feature that hardly varied in training would otherwise put a new instance a hundred deviations out.
    """
    return EachInstance(make_pipeline(MinMaxScaler(clip=True), StandardScaler()))


def scaled(head) -> BagPipeline:
    """Inputs standardised over all training instances, then the head."""
    return BagPipeline([("scale", standardised()), ("head", head)])


STATISTICS = ("mean", "median")


def _is_mean(self) -> bool:
    return self.statistic == "mean"


class PoolPredictions(RegressorMixin, BaseEstimator):
    """ŷ = mean (or median) of the instance predictions of the bag, by their weights if any; nothing is learned.

    Parameters
    ----------
    statistic : {"mean", "median"}

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> predictions = bw.from_arrays([np.array([1.0, 2.0, 9.0]), np.array([5.0])])
    >>> PoolPredictions("median").fit(predictions, [2.0, 5.0]).predict(predictions).tolist()
    [2.0, 5.0]
    """

    def __init__(self, statistic: str = "mean"):
        self.statistic = statistic

    def fit(self, bags, y, sample_weight=None) -> PoolPredictions:
        if self.statistic not in STATISTICS:
            raise ValueError(f"statistic must be 'mean' or 'median', not {self.statistic!r}")
        bags, _ = check_fit(bags, y, allow_weights=True)
        check_weights(sample_weight, bags)  # nothing is learned, so they change nothing
        if bags.n_features != 1:
            raise ValueError(f"PoolPredictions takes instance predictions (one column), not {bags.n_features} features")
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        return pooled(check_bags(bags, fitted=self, allow_weights=True), self.statistic)

    def instance_weights(self, bags) -> np.ndarray:
        """The weight of every instance in the prediction: equal in a mean; in a median, that of the middle one or two.

        Instances of one prediction share alike.
        """
        bags = check_bags(bags, fitted=self, allow_weights=True)
        if self.statistic == "mean":
            return bags.shares()
        return segment_median_shares(bags.instances[:, 0].astype(np.float64), bags.shares(), bags.offsets)

    @available_if(_is_mean)
    def contributions(self, bags) -> np.ndarray:
        """What each instance adds to the mean: its share in the bag, times its prediction."""
        bags = check_bags(bags, fitted=self, allow_weights=True)
        return self.instance_weights(bags) * bags.instances[:, 0].astype(np.float64)
