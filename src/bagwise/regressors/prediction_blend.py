"""Several predictions of the same bags, blended: the weights, and a regressor that blends readings of learners."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import nnls
from sklearn.base import RegressorMixin, clone
from sklearn.utils.metaestimators import _BaseComposition, available_if

from bagwise.bags import Bags, bag_folds, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.folds import some_of

ROUNDS = 30  # of reweighted least squares, for absolute errors


def blend_weights(
    Z: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None, metric: str = "rmse"
) -> np.ndarray:
    r"""Weights of least squared error, min ‖y - Z w‖² over w ≥ 0 with Σ w = 1; or of least absolute error.

    As Σ w = 1, y - Z w = E w with the errors E = y 1ᵀ - Z. Let v minimise ‖E v‖² + (1ᵀv - 1)² over v ≥ 0, a problem
    of non-negative least squares. Along a direction u with Σ u = 1 its least value is a / (a + 1), a = ‖E u‖², which
    grows with a: so v points where w does, and w = v / Σ v exactly. Absolute errors are squared errors whose weight is
    one over the absolute residual: a few rounds of the same, each with the weights of the round before.

    Parameters
    ----------
    Z : array (bags, members), held-out predictions
    y : the targets
    sample_weight : one weight per bag, optional
    metric : {"rmse", "mae"}

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
    if metric == "mae":
        return least_absolute(errors, np.ones(len(y)) if sample_weight is None else sample_weight)
    return least_squares(errors * root_weights(sample_weight, len(y))[:, None])


def least_squares(errors: np.ndarray) -> np.ndarray:
    """The direction of the simplex in which the squared errors are smallest."""
    errors = np.linalg.qr(errors, mode="r") if len(errors) > errors.shape[1] else errors
    scale = np.sqrt((errors**2).sum(axis=0).min()) or 1.0
    rows = np.vstack([errors / scale, np.ones(errors.shape[1])])
    found = nnls(rows, np.append(np.zeros(len(errors)), 1.0))[0]
    return found / found.sum()


def least_absolute(errors: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The same for absolute errors, by reweighted least squares; the best of the rounds, as the last need not be."""
    found = np.ones(errors.shape[1]) / errors.shape[1]
    best, least = found, np.inf
    smallest = 1e-6 * np.abs(errors).mean() or 1.0
    for _ in range(ROUNDS):
        residual = np.abs(errors @ found)
        loss = float(np.average(residual, weights=weight))
        if loss < least * (1 - 1e-9):
            best, least = found, loss
        elif loss > least * (1 + 1e-9):
            break
        found = least_squares(errors * np.sqrt(weight / np.maximum(residual, smallest))[:, None])
    return best


def root_weights(sample_weight, n: int) -> np.ndarray:
    """Roots of the weights, of mean square one."""
    return np.ones(n) if sample_weight is None else np.sqrt(sample_weight / np.mean(sample_weight))


def _is_additive(self) -> bool:
    return self.additive_


class PredictionBlend(RegressorMixin, _BaseComposition):
    r"""Read the instance predictions of several learners in several ways, and blend what they say.

    A bag comes with a column of instance predictions for each learner. A reading is a ridge on an embedding of one
    column: on its kernel mean, as a correction to the mean or to the median of the column, or on its quantiles. Every
    reading of every column has exact left-out predictions of the training bags, Z, and the blend is

        ŷ = Σ_m w_m z_m,   w = argmin ‖y - Z w‖²  over  w ≥ 0, Σ w = 1.

    Predictions of new instances beyond the range of training count as its nearer end. A reading that cannot be fitted,
    or not left out, is passed over with a warning.

    Parameters
    ----------
    readings : list of (name, unfitted EmbeddingRidge)
        Each is fitted to every column by itself.
    random_state : int
        Of the folds of bags by which the error is told: the weights for a fold are those of the other folds.

    Attributes
    ----------
    weights_ : dict "learner:reading" -> weight, those above zero
    readings_ : dict "learner:reading" -> the fitted reading
    error_ : mean squared left-out error of the blend
    residuals_ : left-out residuals of the training bags
    additive_ : whether the prediction is an exact sum over instances
    additive_share_ : the weight of the readings that are such sums
    learner_weights_ : the weight of every learner, over its readings

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

    def __init__(self, readings, *, random_state: int = 0):
        self.readings = readings
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict:
        """Parameters, those of the readings by name: ``mean__grid``."""
        return self._get_params("readings", deep=deep)

    def set_params(self, **params) -> PredictionBlend:
        return self._set_params("readings", **params)

    def fit(self, bags, y, sample_weight=None) -> PredictionBlend:
        bags, y = check_fit(bags, y, allow_weights=True, apart=True)
        weight = check_weights(sample_weight, bags)
        self.learners_ = list(bags.feature_names or map(str, range(bags.n_features)))
        self.range_ = bags.instances.min(axis=0), bags.instances.max(axis=0)
        fitted = self._fitted(bags, y, sample_weight)
        known = [key for key, model in fitted.items() if np.isfinite(model.residuals_).all()] or list(fitted)
        Z = np.column_stack([y - fitted[key].residuals_ for key in known])
        told = np.isfinite(Z).all()
        weights = blend_weights(Z, y, weight) if told else np.full(len(known), 1 / len(known))
        self.weights_ = {key: float(w) for key, w in zip(known, weights, strict=True) if w > 0}
        self.readings_ = {key: fitted[key] for key in self.weights_}
        self.residuals_ = y - (self._left_out(Z, bags, y, weight) if told else Z @ weights)
        self.error_ = float(np.average(self.residuals_**2, weights=weight))
        remember_columns(self, bags)
        return self

    def predict(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True, apart=True)
        return self._blended("predict", bags, np.zeros(len(bags)))

    @property
    def additive_share_(self) -> float:
        return sum(w for key, w in self.weights_.items() if self.readings_[key].additive_)

    @property
    def learner_weights_(self) -> np.ndarray:
        totals = dict.fromkeys(self.learners_, 0.0)
        for key, weight in self.weights_.items():
            totals[_learner(key)] += weight
        return np.array(list(totals.values()))

    @property
    def additive_(self) -> bool:
        return all(model.additive_ for model in self.readings_.values())

    @available_if(_is_additive)
    def predict_instances(self, bags) -> np.ndarray:
        """What a bag of the instance alone is predicted to be, for every instance."""
        bags = check_bags(bags, fitted=self, allow_weights=True, apart=True)
        return self._blended("predict_instances", bags, np.zeros(bags.n_instances))

    @available_if(_is_additive)
    def contributions(self, bags) -> np.ndarray:
        """What each instance adds to its bag's prediction: its share in the bag times what it alone is predicted."""
        return self.predict_instances(bags) * bags.shares()

    def leave_one_out_error(self, bags, y, sample_weight=None) -> float:
        """Mean squared error of a fresh fit on these bags, each bag (group) left out in turn."""
        return clone(self).fit(bags, y, sample_weight).error_

    def _fitted(self, bags: Bags, y, sample_weight) -> dict:
        """Every reading of every column that can be fitted, by "learner:reading"."""
        fitted, failed = {}, None
        for j, learner in enumerate(self.learners_):
            column = self._column(bags, j)
            for name, reading in self.readings:
                try:
                    fitted[f"{learner}:{name}"] = clone(reading).fit(column, y, sample_weight)
                except (ValueError, np.linalg.LinAlgError) as error:
                    failed = error
                    warnings.warn(
                        f"the reading {name!r} of {learner!r} is left out: {error}", UserWarning, stacklevel=3
                    )
        if not fitted:
            raise ValueError(f"no reading of any learner can be fitted: {failed}") from failed
        return fitted

    def _column(self, bags: Bags, j: int) -> Bags:
        low, high = (end[j] for end in self.range_)
        return bags.replace(np.clip(bags.instances[:, [j]], low, high))

    def _blended(self, what: str, bags: Bags, total: np.ndarray) -> np.ndarray:
        columns = {learner: self._column(bags, j) for j, learner in enumerate(self.learners_)}
        for key, model in self.readings_.items():
            total += self.weights_[key] * getattr(model, what)(columns[_learner(key)])
        return total

    def _left_out(self, Z, bags: Bags, y, weight) -> np.ndarray:
        """The blend of every bag by weights of the other folds."""
        fold, out = bag_folds(bags, "auto", random_state=self.random_state), np.empty(len(y))
        for k in range(fold.max() + 1):
            seen = fold != k
            out[~seen] = Z[~seen] @ blend_weights(*some_of(seen, Z, y, weight))
        return out


def _learner(key: str) -> str:
    return key.rpartition(":")[0]
