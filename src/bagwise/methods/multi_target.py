"""One model per target."""

from __future__ import annotations

import os
from urllib.parse import quote

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if

from bagwise.bags import Bags, check_bags, check_targets, check_weights, remember_columns
from bagwise.bags.frames import unframe
from bagwise.bags.validation import ParameterError, name_bags, unmask
from bagwise.methods.catalogue import method
from bagwise.regressors.pipeline import BagModel

EVERYTHING = {"allow_missing": True, "allow_weights": True, "apart": True}


class MultiTarget(BagModel, RegressorMixin, BaseEstimator):
    """One model per target, all of the same method, seed and folds.

    A bag whose target is missing (NaN) in one column is left out of that model alone. Folds depend on the ids of the
    bags, so targets observed in the same bags use the same folds.

    Parameters
    ----------
    estimator : str or bag regressor
        A method by name, or an estimator such as `Intervals`, which is cloned for each target.

    Attributes
    ----------
    estimators_ : list of bag regressors
        One fitted estimator per target.
    target_names_ : list of str
        The columns of a data frame, the target columns of `load`, or "target 1", "target 2", ...

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
        """Fit a model to each target.

        Parameters
        ----------
        bags : Bags, or list of 2-D arrays or data frames
            Training bags.
        y : array or data frame of shape (n_bags, n_targets)
            Targets; NaN is missing. Rows of a data frame are aligned by bag id.
        sample_weight : array-like of shape (n_bags,), optional
            Weight of each bag; equal by default.

        Returns
        -------
        self
        """
        bags = check_bags(bags, **EVERYTHING)
        columns, self.target_names_ = _as_targets(y, bags)
        weights = check_weights(sample_weight, bags)
        self.estimators_ = []
        for name, column in zip(self.target_names_, columns.T, strict=True):
            model = method(self.estimator) if isinstance(self.estimator, str) else clone(self.estimator)
            bags_of_target, *arguments = _with_target(bags, column, weights)
            self.estimators_.append(with_own_folder(model, name).fit(bags_of_target, *arguments))
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        """Return the predictions, one row per bag and one column per target."""
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        return np.column_stack([model.predict(bags) for model in self.estimators_])

    def score(self, bags, y, sample_weight=None) -> float:
        """Return the mean of R² over the targets, each over the bags that have it; ``y`` is as in `fit`."""
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        columns, names = _as_targets(y, bags)
        n = len(self.estimators_)
        if len(names) != n:
            raise ParameterError("y", f"y has {len(names)} targets, but the model has {n}; pass the same columns")
        weights = check_weights(sample_weight, bags)
        pairs = zip(self.estimators_, columns.T, strict=True)
        return float(np.mean([model.score(*_with_target(bags, column, weights)) for model, column in pairs]))

    @available_if(lambda self: hasattr(self.estimator, "predict_interval"))
    def predict_interval(self, bags, *, level: float | None = None) -> np.ndarray:
        """Return the lower and upper bounds, of shape (bags, targets, 2)."""
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        return np.stack([model.predict_interval(bags, level=level) for model in self.estimators_], axis=1)


def with_own_folder(estimator, name: str):
    """Return the estimator with a separate work folder for this target, if it has a work folder."""
    works = {key: work for key, work in estimator.get_params().items() if key.split("__")[-1] == "work" and work}
    folder = quote(name, safe=" ")
    return estimator.set_params(**{key: os.path.join(work, folder) for key, work in works.items()})


def _with_target(bags: Bags, column: np.ndarray, weights) -> tuple:
    """Return the bags that have this target, the target, and their weights."""
    has_target = ~np.isnan(column)
    chosen = bags if has_target.all() else bags[has_target]
    return chosen, column[has_target], None if weights is None else weights[has_target]


def _as_targets(y, bags: Bags) -> tuple[np.ndarray, list[str]]:
    """Return the targets as columns of numbers, NaN where one is missing, and their names."""
    if hasattr(y, "loc") and hasattr(y, "columns"):  # pandas: align by bag id if the index contains the ids
        names, columns = [str(name) for name in y.columns], [y[name] for name in y.columns]
    else:
        y, headers = unframe(y, "y")
        y = unmask(y)
        if y.ndim != 2 or y.dtype.kind not in "fiub":
            raise ParameterError(
                "y",
                f"y must be numbers of shape (bags, targets), not {y.dtype} of shape {y.shape}; one target needs no "
                "MultiTarget",
            )
        loaded = list(bags.target_name) if isinstance(bags.target_name, tuple) else []
        default = loaded if len(loaded) == y.shape[1] else [f"target {k + 1}" for k in range(y.shape[1])]
        names, columns = [str(name) for name in headers or default], list(y.T)
    y = np.column_stack([check_targets(column, bags, allow_missing=True) for column in columns])
    missing = np.isnan(y)
    if missing.all(axis=0).any():
        name = names[missing.all(axis=0).argmax()]
        raise ParameterError("y", f"no bag has a target in column {name!r}; leave it out")
    if missing.all(axis=1).any():
        bag = name_bags(bags.ids, missing.all(axis=1))
        raise ParameterError("y", f"{bag} no target at all; drop such bags before fitting")
    return y, names
