"""Several targets of the same bags: a model for each, behind one object."""

from __future__ import annotations

import os
from urllib.parse import quote

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags, check_bags, check_targets
from bagwise.bags.frames import unframe
from bagwise.bags.validation import ParameterError, name_bags, unmask
from bagwise.regressors.pipeline import FittedDisplay


def _has_intervals(self) -> bool:
    return hasattr(self.estimator, "predict_interval")


class MultiTarget(FittedDisplay, RegressorMixin, BaseEstimator):
    """One model per target, all of the same kind, seed and folds.

    A bag whose target is missing (NaN) in one column is left out of that model alone. Folds are dealt by the ids of
    the bags, so the models of targets that the same bags have are fitted on the same folds.

    Parameters
    ----------
    estimator : bag regressor
        Cloned for every target: a method, or `Intervals` around one.

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
        """Fit a model to every column of ``y``, an array or data frame of shape (bags, targets); NaN is missing."""
        bags = bags if isinstance(bags, Bags) else check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        columns, self.target_names_ = _as_targets(y, bags)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        self.estimators_ = []
        for name, column in zip(self.target_names_, columns.T, strict=True):
            known = ~np.isnan(column)
            some = bags if known.all() else bags[known]
            options = {} if weights is None else {"sample_weight": weights[known]}
            model = with_own_folder(clone(self.estimator), name)
            self.estimators_.append(model.fit(some, column[known], **options))
        first = self.estimators_[0]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    def predict(self, bags) -> np.ndarray:
        """One row per bag, one column per target."""
        check_is_fitted(self)
        return np.column_stack([model.predict(bags) for model in self.estimators_])

    @available_if(_has_intervals)
    def predict_interval(self, bags, *, level: float | None = None) -> np.ndarray:
        """Lower and upper ends, of shape (bags, targets, 2)."""
        check_is_fitted(self)
        return np.stack([model.predict_interval(bags, level=level) for model in self.estimators_], axis=1)


def with_own_folder(estimator, name: str):
    """The estimator with a folder of finished work for this target alone, where it has one: targets are other data."""
    works = {key: work for key, work in estimator.get_params().items() if key.split("__")[-1] == "work" and work}
    own = quote(name, safe=" ")
    return estimator.set_params(**{key: os.path.join(work, own) for key, work in works.items()})


def _as_targets(y, bags: Bags) -> tuple[np.ndarray, list[str]]:
    """A column of numbers per target with NaN for missing ones, and the names of the targets."""
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
        known = bags.target_name if isinstance(bags.target_name, tuple) else ()
        known = known if len(known) == y.shape[1] else [f"target {k + 1}" for k in range(y.shape[1])]
        names = [str(name) for name in given or known]
        columns = [_column(column, bags, name) for name, column in zip(names, y.T, strict=True)]
    y = np.column_stack(columns)
    unknown = np.isnan(y).all(axis=1)
    if unknown.any():
        raise ParameterError("y", f"{name_bags(bags.ids, unknown)} no target at all; drop such bags before fitting")
    return y, names


def _column(column, bags: Bags, name: str) -> np.ndarray:
    y = check_targets(column, bags, some=True)
    if np.isnan(y).all():
        raise ParameterError("y", f"no bag has a target in column {name!r}; leave it out")
    return y
