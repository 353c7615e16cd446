"""`MultiTarget`: one model per target."""

from __future__ import annotations

import os
from urllib.parse import quote

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags, check_bags, check_targets, check_weights, remember_columns
from bagwise.bags.frames import unframe
from bagwise.bags.validation import ParameterError, name_bags, unmask
from bagwise.methods.catalogue import method
from bagwise.regressors.pipeline import FittedDisplay

EVERYTHING = {"allow_missing": True, "allow_weights": True, "apart": True}


class MultiTarget(FittedDisplay, RegressorMixin, BaseEstimator):
    """One model per target, all of the same method, seed and folds.

    A bag whose target is missing (NaN) in one column is left out of that model alone. Folds depend on the ids of the
    bags, so targets that the same bags have are fitted on the same folds.

    Parameters
    ----------
    estimator : str or bag regressor
        A method by name, or an estimator such as `Intervals`, which is cloned for each target.

    Attributes
    ----------
    estimators_ : list of fitted estimators, one per target
    target_names_ : list of str
        The columns of a data frame, the columns that `load` was asked for, or "target 1", "target 2", ...

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags, y = bw.datasets.make_gaussian(40, instances=5)
    >>> both = np.column_stack([y, -y])
    >>> both[0, 1] = np.nan  # one bag lacks one target
    >>> model = bw.MultiTarget(bw.method("aggregated")).fit(bags, both)
    >>> model.predict(bags).shape
    (40, 2)
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, bags, y, sample_weight=None) -> MultiTarget:
        """Fit a model to each column of ``y``, an array or data frame of shape (bags, targets); NaN is missing."""
        bags = check_bags(bags, **EVERYTHING)
        columns, self.target_names_ = _as_targets(y, bags)
        weights = check_weights(sample_weight, bags)
        self.estimators_ = []
        for name, column in zip(self.target_names_, columns.T, strict=True):
            known = ~np.isnan(column)
            some = bags if known.all() else bags[known]
            options = {} if weights is None else {"sample_weight": weights[known]}
            model = method(self.estimator) if isinstance(self.estimator, str) else clone(self.estimator)
            self.estimators_.append(with_own_folder(model, name).fit(some, column[known], **options))
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        """Return the predictions, one row per bag and one column per target."""
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        return np.column_stack([model.predict(bags) for model in self.estimators_])

    def score(self, bags, y, sample_weight=None) -> float:
        """Return the mean of R² over the targets, each over the bags that have it.

        Parameters
        ----------
        bags : Bags
        y : array or data frame (bags, targets)
            NaN is missing.
        sample_weight : one number per bag, optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        columns, names = _as_targets(y, bags)
        if len(names) != len(self.estimators_):
            raise ParameterError(
                "y", f"y has {len(names)} targets, the model {len(self.estimators_)}; give the same columns"
            )
        weights = check_weights(sample_weight, bags)
        scores = []
        for model, column in zip(self.estimators_, columns.T, strict=True):
            known = ~np.isnan(column)
            some = bags if known.all() else bags[known]
            scores.append(model.score(some, column[known], None if weights is None else weights[known]))
        return float(np.mean(scores))

    @available_if(lambda self: hasattr(self.estimator, "predict_interval"))
    def predict_interval(self, bags, *, level: float | None = None) -> np.ndarray:
        """Return the lower and upper bounds, of shape (bags, targets, 2)."""
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        return np.stack([model.predict_interval(bags, level=level) for model in self.estimators_], axis=1)


def with_own_folder(estimator, name: str):
    """Return the estimator with a work folder of its own for this target, if it has a work folder."""
    works = {key: work for key, work in estimator.get_params().items() if key.split("__")[-1] == "work" and work}
    own = quote(name, safe=" ")
    return estimator.set_params(**{key: os.path.join(work, own) for key, work in works.items()})


def _as_targets(y, bags: Bags) -> tuple[np.ndarray, list[str]]:
    """Return the targets as columns of numbers, NaN where one is missing, and their names."""
    if hasattr(y, "loc") and hasattr(y, "columns"):  # pandas: by the ids of the bags, where its index holds them
        names = [str(name) for name in y.columns]
        columns = [_column(y[name], bags, name) for name in y.columns]
    else:
        y, given = unframe(y, "y")
        y = unmask(y)
        if y.ndim != 2 or y.dtype.kind not in "fiub":
            raise ParameterError(
                "y",
                f"y must be numbers of shape (bags, targets), not {y.dtype} of shape {y.shape}; one target needs no "
                "MultiTarget",
            )
        known = list(bags.target_name) if isinstance(bags.target_name, tuple) else []
        known = known if len(known) == y.shape[1] else [f"target {k + 1}" for k in range(y.shape[1])]
        names = [str(name) for name in given or known]
        columns = [_column(column, bags, name) for name, column in zip(names, y.T, strict=True)]
    y = np.column_stack(columns)
    unknown = np.isnan(y).all(axis=1)
    if unknown.any():
        raise ParameterError("y", f"{name_bags(bags.ids, unknown)} no target at all; drop such bags before fitting")
    return y, names


def _column(column, bags: Bags, name: str) -> np.ndarray:
    y = check_targets(column, bags, allow_missing=True)
    if np.isnan(y).all():
        raise ParameterError("y", f"no bag has a target in column {name!r}; leave it out")
    return y
