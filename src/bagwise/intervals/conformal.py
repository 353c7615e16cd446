"""`Intervals`: a bag regressor with conformal intervals, by cv+, jackknife+ or a split."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import get_tags

from bagwise.bags import Bags, bag_folds, check_bags, check_fit, check_weights, remember_columns
from bagwise.bags.checks import compared
from bagwise.bags.folds import Folds, count_units, following, some_of, split_bags, units_of
from bagwise.bags.shared_rows import check_separation
from bagwise.bags.validation import one_of
from bagwise.intervals.calibration import (
    Calibration,
    by_folds,
    by_ridge,
    by_split,
    fit_once,
    fit_without_folds,
    gives_std,
)
from bagwise.intervals.order_statistics import (
    VALUES_AT_ONCE,
    PredictiveDistribution,
    SortedScores,
    around,
    check_level,
    conformal_quantile,
    plus_interval,
    unit_shares,
    units_needed,
)
from bagwise.intervals.scales import BagQuantiles, BagScale, Constant, Fitted, ModelStd, fold_quantiles, model_std
from bagwise.regressors.pipeline import BagModel, first_step

# Minimum number of bags (groups), so that two remain for training after those held out for scores and for the scale.
FEWEST = {"cv+": 3, "jackknife+": 3, "split": 6}
FEWEST_BY = 20  # calibration bags (groups) that a value of ``by`` needs to be calibrated separately
SCALES = ("bag", "std", "none")
MOST_SCALES = 10  # largest number of fitted scales; with more folds, several folds share one
INNER_FOLDS = 5  # folds of the training part of a split
# The wrapped method accepts or refuses missing values, instance weights and covariates.
EVERYTHING = {"allow_missing": True, "allow_weights": True, "apart": True}


class Intervals(BagModel, RegressorMixin, BaseEstimator):
    r"""Wrap a bag regressor and add intervals around its predictions that cover the target with probability ``level``.

    Held-out predictions measure the error on new bags. No distribution is assumed, only that bags (groups, if the bags
    have them) are exchangeable: new ones are drawn from the same source as the training bags. With
    :math:`\mu_{-k}` the method trained without fold k, :math:`s_{-k}` the scale of a bag's error and the scores
    :math:`R_i = |y_i - \mu_{-k(i)}(x_i)| / s_{-k(i)}(x_i)`, the interval of a new bag x is

    .. math:: \big[\,q^-_i\{\mu_{-k(i)}(x) - R_i\, s_{-k(i)}(x)\},\; q^+_i\{\mu_{-k(i)}(x) + R_i\, s_{-k(i)}(x)\}\,\big]

    with :math:`q^+` the ⌈level (n + 1)⌉-th smallest of the n values and :math:`q^-` the ⌈level (n + 1)⌉-th largest, and
    widened to the prediction :math:`\mu(x)` where that lies outside.

    Parameters
    ----------
    method : bag regressor, or the name of one in the catalogue, default "aggregated"
        A clone is fitted. For "cv+", a method that stores its fold models (``held_out_``, ``fold_``,
        ``predict_folds``), such as "auto", is fitted only once.
    level : float, default 0.9
        The share of new bags whose interval contains the target.
    kind : {"cv+", "jackknife+", "split"}, default "cv+"
        * "cv+": a model for each of ``folds`` folds, and one on all bags for `predict`. Each bag serves for training
          and for calibration. Coverage is at least 2 level - 1 minus a term of order 1/√n, in practice close to level.
        * "jackknife+": each bag (group) is left out by itself, for few bags; coverage as for "cv+". If the method ends
          in `EmbeddingRidge`, and the steps before it are out of fold or learn nothing from the targets, left-out
          predictions have a closed form.
        * "split": one model, trained without one of the folds, whose bags give the scores. Coverage is at least level,
          but the model is fitted on fewer bags. This is the fastest kind.
    scale : {"bag", "std", "none"} or an object with ``fit(bags, residuals)`` and ``predict(bags)``, default "bag"
        The scale s: `BagScale`, from bag size and within-bag spread; the standard deviation that the method gives with
        each prediction (``predict(bags, return_std=True)``); or 1 for all bags.
    scores : {"absolute", "quantile"}, default "absolute"
        "absolute" is the score R above: both sides of an interval are about equally wide. "quantile" is conformalised
        quantile regression by `BagQuantiles` (see Notes): intervals are asymmetric and wide where errors are.
    folds : int, "auto", "random", "forward", "given", Validation, or list of (train, test) pairs
        How bags are held out, see `bagwise.Validation`; the method follows it inside. With "forward" only bags after
        the first window have scores, and "split" holds out the last window. "auto" is what the bags declare, else 10
        folds for "cv+", and 4 for "split", of which one is held out, or 3 or 2 if a quarter of the bags is not enough
        for the level.
    refit : {"auto", True, False}, default "auto"
        Whether "jackknife+" fits a model per bag where there is a closed form. "auto" does so if more than the penalty
        of the ridge is chosen from data, and for bags with groups, whose features may differ in scale.
    by : str, optional
        A covariate, a column of categories, or a column kept on loading (``keep=``), the same on all rows of a bag.
        Bags are calibrated by the scores of the bags with the same value, so that the level holds within each value. A
        value with fewer than 20 calibration bags, or fewer than the level needs, uses the scores of all bags.
    random_state : int, default 0
        For the folds, and for a method given by name.
    n_jobs : int, optional
        Number of folds fitted at a time. Results do not depend on it.

    Attributes
    ----------
    method_ : the method that `predict` uses, fitted to all bags, for "split" to those not held out
    calibration_ : positions of the training bags with a score: all of them, for "split" those held out
    residuals_, fold_, scores_ : target minus held-out prediction, fold, and score of each of them
    left_out_ : the models fitted without each fold, ``left_out_.predict_folds(bags)``; None with too few bags for any
    lacking_ : why there are no intervals of ``level``; None if there are
    scale_ : the scale of every fold, ``scale_.predict_folds(bags)``
    quantiles_ : for scores="quantile", the quantiles of every fold, ``quantiles_.predict_folds(bags, predictions)``

    Notes
    -----
    *Quantile scores.* With l and u two quantiles of the error, fitted without fold k on the held-out residuals of
    the others, and :math:`l'_k = \mu_{-k} + l_{-k}`, :math:`u'_k = \mu_{-k} + u_{-k}`, the scores are
    :math:`E_i = \max\{l'_{k(i)}(x_i) - y_i,\; y_i - u'_{k(i)}(x_i)\}` and the interval is
    :math:`[q^-_i\{l'_{k(i)}(x) - E_i\},\; q^+_i\{u'_{k(i)}(x) + E_i\}]`. Another level of `predict_interval` is
    covered as well, by the same two quantiles and another E.

    *Closed form.* The residuals and the predictions of new bags are both those of a ridge refitted without the bag.
    Settings chosen with all bags are not chosen again, so intervals are exact if no setting is chosen from data, almost
    exact if only the penalty is, and a little too narrow if the embedding is chosen from a grid.

    *Groups.* The group is the unit: a score of a group of N bags has weight 1/N in the quantile, and n is the number of
    groups. Coverage is guaranteed for bags of *new* groups.

    *By value.* The promise of ``kind`` holds within each value that has scores of its own; the others have it over all
    bags only. `predict_distribution` uses the scores of all bags.

    *Weights* of bags are for training; each bag (group) has the same weight in the quantile, except those of weight
    zero, which are left out before anything is fitted.

    *Few bags.* A level needs at least level / (1 - level) bags (groups) with a score: 9 for 0.9, 19 for 0.95. With
    fewer, `fit` warns, and `predict_interval` accepts only lower levels, so no bound is ever infinite. With less than 3
    bags (6 for "split") the method alone is fitted.

    References
    ----------
    R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani, "Predictive inference with the jackknife+", Annals of
    Statistics, 2021. Y. Lee, R. F. Barber, R. Willett, "Distribution-free inference with hierarchical data", 2023.
    Y. Romano, E. Patterson, E. J. Candès, "Conformalized quantile regression", NeurIPS, 2019.

    Examples
    --------
    >>> import bagwise as bw
    >>> from bagwise.intervals import Intervals
    >>> bags, y = bw.datasets.make_problem("mean", 300)
    >>> model = Intervals("aggregated", level=0.8).fit(bags[:200], y[:200])
    >>> interval = model.predict_interval(bags[200:])
    >>> bool(0.7 < ((interval[:, 0] <= y[200:]) & (y[200:] <= interval[:, 1])).mean() < 0.9)
    True
    """

    def __init__(
        self,
        method="aggregated",
        *,
        level: float = 0.9,
        kind: str = "cv+",
        scale="bag",
        scores: str = "absolute",
        folds="auto",
        refit: bool | str = "auto",
        by: str | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
    ):
        self.method = method
        self.level = level
        self.kind = kind
        self.scale = scale
        self.scores = scores
        self.folds = folds
        self.refit = refit
        self.by = by
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _lines(self) -> list[str]:
        inner = self.method if isinstance(self.method, str) else type(self.method_).__name__
        return [*super()._lines(), f"Intervals of level {self.level:g} around the predictions of {inner}"]

    def _error_text(self) -> str | None:
        residuals = getattr(self, "residuals_", None)
        return None if residuals is None else f"Held-out RMSE {np.sqrt(np.mean(residuals**2)):.4g}"

    def fit(self, bags, y, sample_weight=None) -> Intervals:
        check_options(self)
        method = method_of(self)
        bags, y = check_fit(bags, y, **EVERYTHING)
        remember_columns(self, bags)
        weights = check_weights(sample_weight, bags)
        counted = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
        if len(counted) < len(y):
            bags, y, weights = some_of(counted, bags, y, weights)
        bags = following(compared(bags), self.folds)  # compared: do not warn the user about held-out bags
        folds, self.lacking_ = split(self, bags)
        if self.lacking_ is not None:
            which = "" if folds is None else " of this level"
            warnings.warn(f"{self.lacking_}; the model gives predictions, but no intervals{which}", stacklevel=2)
        if folds is None:
            self.method_ = fit_once(method, bags, y, weights)
            self.left_out_: Any = None
            return self
        bags = check_separation(bags, folds.test)
        calibration = self._calibrate(method, bags, y, weights, folds)
        self.keep(calibration, bags, y, method, weights)
        self.calibration_ = counted[calibration.positions]
        return self

    def keep(self, calibration: Calibration, bags: Bags, y: np.ndarray, method, weights) -> Intervals:
        """Set residuals of held-out predictions, the scale or quantiles of each fold, and the scores.

        With "split" the scale is fitted on the bags that `calibration` leaves out, which the method is fitted to.
        """
        scored, targets, held_out = bags[calibration.positions], y[calibration.positions], calibration.held_out
        self.method_, self.left_out_ = calibration.method, calibration.left_out
        self.calibration_, self.fold_, self.residuals_ = calibration.positions, calibration.fold, targets - held_out
        self.unit_, self.shares_ = units_noun(scored), unit_shares(units_of(scored))
        if self.by is not None:
            self.label_, self.unit_number_ = scored.labels(self.by), units_of(scored)
        if self.scores == "quantile":
            fitted = self._fit_apart(BagQuantiles(level=self.level), method, bags, y, weights, calibration)
            self.quantiles_ = fold_quantiles(*fitted)
        elif self._scale_is("none"):
            self.scale_: Constant | ModelStd | Fitted = Constant()
        elif self._scale_is("std"):
            self.scale_ = model_std(calibration.left_out, scored)
        else:
            scale = BagScale() if self._scale_is("bag") else self.scale
            self.scale_ = Fitted(tuple(self._fit_apart(scale, method, bags, y, weights, calibration)[0]))
        lower, upper, scale = self._held_out_band(scored, held_out)
        self.scores_ = np.maximum(lower - targets, targets - upper) / scale
        if self.scores == "quantile":
            middle, half = self.quantiles_.middle_and_half(lower, upper)
            self.signed_scores_ = (targets - middle) / half
        return self

    def _fit_apart(self, model, method, bags, y, weights, calibration: Calibration) -> tuple[list, Bags, np.ndarray]:
        """Fit a scale or quantiles for each fold on the held-out residuals of the bags outside it.

        With one fold (a split) it is fitted on residuals held out within the training part. Also return the bags that
        all were fitted on, and their held-out predictions.
        """
        if not calibration.fold.any():
            from bagwise.regressors.bayesian.evidence_ridge import few_folds

            train = np.setdiff1d(np.arange(len(bags)), calibration.positions)
            bags, y, weights = some_of(train, bags, y, weights)
            folds = Folds(few_folds(bags, INNER_FOLDS, self.random_state))
            held_out = fit_without_folds(method, bags, y, folds, weights, self.n_jobs)[1]
            residuals, outside = y - held_out, [np.arange(len(y))]
        else:
            bags, held_out, residuals = bags[calibration.positions], calibration.held_out, self.residuals_
            part = calibration.fold % MOST_SCALES
            outside = [np.flatnonzero(part != j) for j in range(part.max() + 1)]
        columns = [residuals, held_out] if isinstance(model, BagQuantiles) else [residuals]
        # Fit one at a time, because each selection copies nearly all instances.
        fitted = [clone(model).fit(bags[rows], *[column[rows] for column in columns]) for rows in outside]
        return fitted, bags, held_out

    def _band(self, bags, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the bounds that scores widen, lower and upper (folds, bags), and the scale (scales, bags)."""
        if self.scores == "quantile":
            lower, upper = np.moveaxis(self.quantiles_.predict_folds(bags, centre), -1, 0)
            return lower, upper, np.ones((1, len(bags)))
        return centre, centre, self.scale_.predict_folds(bags)

    def _held_out_band(self, bags, held_out: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the same for the calibration bags, each by the models without its fold: three arrays (bags,)."""
        n_models = len(self.quantiles_.models) if self.scores == "quantile" else 1
        lower, upper, scale = self._band(bags, np.tile(held_out, (n_models, 1)))
        at = np.arange(len(bags))
        return tuple(part[self.fold_ % len(part), at] for part in (lower, upper, scale))

    def predict(self, bags) -> np.ndarray:
        """Return the prediction of ``method_`` for each bag."""
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        return self.method_.predict(bags)

    def predict_interval(self, bags, level: float | None = None) -> np.ndarray:
        """Return the lower and upper bound of each bag, (bags, 2), for ``level`` (default: that of fitting)."""
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        level = check_level(self.level if level is None else level)
        refusal = self.refusal(level)
        if refusal is not None:
            raise ValueError(refusal)
        n_folds, bounds = int(self.fold_.max()) + 1, np.empty((len(bags), 2))
        # Predict some bags at a time: with a fold per bag, all predictions together would be a matrix of bags by bags.
        step = max(1, VALUES_AT_ONCE // n_folds)
        for chosen, scored, shares in self._calibrated_by(bags, level):
            scores = SortedScores(self.scores_[scored], self.fold_[scored], shares, n_folds)
            for start in range(0, len(chosen), step):
                part = chosen[start : start + step]
                band = self._band(bags[part], self.left_out_.predict_folds(bags[part]))
                bounds[part] = plus_interval(*band, scores, level)
        return around(self.method_.predict(bags), bounds)

    def _calibrated_by(self, bags, level: float) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield positions of bags, the calibration bags whose scores apply to them, and the weights of these scores."""
        everything = np.arange(len(self.scores_))
        if self.by is None:
            yield np.arange(len(bags)), everything, self.shares_
            return
        labels = bags.labels(self.by)
        for value in np.unique(labels):
            scored = np.flatnonzero(self.label_ == value)
            if len(np.unique(self.unit_number_[scored])) < max(units_needed(level), FEWEST_BY):
                yield np.flatnonzero(labels == value), everything, self.shares_
            else:
                unit = np.unique(self.unit_number_[scored], return_inverse=True)[1]
                yield np.flatnonzero(labels == value), scored, unit_shares(unit)

    def predict_distribution(self, bags) -> PredictiveDistribution:
        """Return the predictive distribution of each bag's target, from the same held-out errors.

        Unlike intervals it uses the sign of the errors, so quantiles are asymmetric for all kinds of scores. It stores
        one number per fold and bag.
        """
        bags = check_bags(bags, fitted=self, **EVERYTHING)
        if self.left_out_ is None:
            raise ValueError(self.lacking_)
        centre, upper, scales = self._band(bags, self.left_out_.predict_folds(bags))
        if self.scores == "quantile":
            centre, scale = self.quantiles_.middle_and_half(centre, upper)
            signed = self.signed_scores_
        else:
            scale = scales[np.arange(len(centre)) % len(scales)]
            signed = np.copysign(self.scores_, self.residuals_)
        return PredictiveDistribution(centre, scale, signed, self.fold_, self.shares_, bags.ids)

    def held_out_interval(self, bags, y, level: float | None = None) -> np.ndarray | None:
        """Return intervals of the training bags ``calibration_``, each by the model and scores of other folds.

        They measure coverage without new bags: the model of a bag's fold never saw the bag, and the bag's own score is
        not among those that make its interval wide. None if the other folds have too few scores for the level. With one
        fold (a split) every bag (group) is left out of the scores in turn.
        """
        bags, y = check_fit(bags, y, **EVERYTHING)
        level = check_level(self.level if level is None else level)
        if self.left_out_ is None:
            return None
        bags, held_out = compared(bags[self.calibration_]), y[self.calibration_] - self.residuals_
        lower, upper, scale = self._held_out_band(bags, held_out)
        unit = units_of(bags)
        part = self.fold_ if self.fold_.any() else unit
        half = np.empty(len(bags))
        for k in range(part.max() + 1):
            outside = part != k
            if len(np.unique(unit[outside])) < units_needed(level):
                return None
            for chosen, scored, shares in self._calibrated_by(bags, level):
                used = outside[scored]
                if used.any():
                    scores = self.scores_[None, scored[used]]
                    half[chosen[~outside[chosen]]] = conformal_quantile(scores, shares[used], level)[0]
        return around(held_out, np.column_stack([lower - half * scale, upper + half * scale]))

    def refusal(self, level: float) -> str | None:
        """Return why there are no intervals of this level, or None."""
        if self.left_out_ is None:
            return self.lacking_
        return lacking(level, round(self.shares_.sum()), self.unit_, self.kind)

    def _calibrate(self, method, bags, y, weights, folds: Folds) -> Calibration:
        if self.kind == "split":
            return by_split(method, bags, y, weights, next(folds.pairs()))
        # The closed form does not refit the scale of the features, which may differ much without a group.
        if self.kind == "jackknife+" and (self.refit is False or (self.refit == "auto" and bags.groups is None)):
            calibration = by_ridge(method, bags, y, weights, any_grid=self.refit is False)
            if calibration is not None:
                return calibration
        reuse = self.kind == "cv+" and not self._scale_is("std")
        return by_folds(method, bags, y, weights, folds, reuse=reuse, n_jobs=self.n_jobs)

    def _scale_is(self, name: str) -> bool:
        return isinstance(self.scale, str) and self.scale == name


# Options, folds, and levels that need more bags --------------------------------------------------------------------


def check_options(intervals) -> None:
    """Refuse an unknown kind, level, scale, scores or refit."""
    check_level(intervals.level)
    one_of(intervals.kind, FEWEST, "kind")
    one_of(intervals.scores, ("absolute", "quantile"), "scores")
    one_of(intervals.refit, ("auto", True, False), "refit")
    scale = intervals.scale
    if scale not in SCALES if isinstance(scale, str) else not hasattr(scale, "predict"):
        raise ValueError(f"scale must be 'bag', 'std', 'none' or an object such as BagScale(), not {scale!r}")
    if intervals.scores == "quantile" and not (isinstance(scale, str) and scale == "bag"):
        raise ValueError(
            f"scale={scale!r} is for absolute scores; with scores='quantile' the width comes from the quantiles, so "
            "leave the scale out"
        )


def method_of(intervals):
    """Return the method as a bag estimator; refuse other objects, and methods without deviations for scale="std"."""
    method = intervals.method
    if isinstance(method, str):
        from bagwise.methods import method as by_name  # imported late: a loaded model does not need all methods

        method = by_name(method, random_state=intervals.random_state)
    if not hasattr(method, "fit") or isinstance(method, type):
        raise TypeError(f"method must be a name of the catalogue or a bag regressor, not {method!r}")
    if _takes_rows(first := first_step(method)):
        raise TypeError(
            f"{type(first).__name__} takes rows, not bags; put an embedding before it, as in "
            "BagPipeline([('rows', Pool()), ('head', Ridge())]), or pass the name of a method, such as 'aggregated'"
        )
    if intervals._scale_is("std") and not gives_std(method):
        named = intervals.method if isinstance(intervals.method, str) else type(method).__name__
        raise ValueError(
            "scale='std' needs a method whose predict takes return_std, such as 'blr', 'shrinkage' or 'bdr'; "
            f"{named} gives no standard deviations. Use scale='bag'"
        )
    return method


def _takes_rows(step) -> bool:
    """Return whether a step is a plain estimator of scikit-learn, which cannot read bags."""
    if not type(step).__module__.startswith("sklearn.") or get_tags(step).no_validation:
        return False
    return not any(hasattr(part, "fit") or isinstance(part, list) for part in step.get_params(deep=False).values())


def split(intervals, bags: Bags) -> tuple[Folds | None, str | None]:
    """Return the folds (one for "split"), and the reason if they do not suffice for the level, or None."""
    kind, noun, n_units = intervals.kind, units_noun(bags), count_units(bags)
    if n_units < FEWEST[kind]:
        return None, f"kind={kind!r} needs at least {FEWEST[kind]} {noun}, and there are {n_units}"
    number = intervals.folds
    random = bags.validation is None or bags.validation.scheme == "random"
    if kind == "split" and random and isinstance(number, str) and number in ("auto", "random"):
        number = int(np.clip(n_units // units_needed(intervals.level), 2, 4))
    if kind == "jackknife+":
        folds = Folds(bag_folds(bags, "each", random_state=intervals.random_state))
    else:
        folds = split_bags(bags, number, random_state=intervals.random_state)
    if kind == "split":  # hold out the last window of time, or the first of random folds
        last = 0 if folds.is_partition else len(folds) - 1
        folds = Folds(np.where(folds.test == last, 0, -1), (folds.train(last),))
    scored = bags if folds.held_out.all() else bags[folds.held_out]
    return folds, lacking(intervals.level, count_units(scored), noun, kind)


def lacking(level: float, n_units: int, noun: str, kind: str) -> str | None:
    """Return why the level has no finite interval with this number of scores, or None."""
    if n_units >= units_needed(level):
        return None
    highest = np.floor(1000 * n_units / (n_units + 1)) / 1000
    hint = ", or kind='cv+', which calibrates with all of them" if kind == "split" else ""
    return (
        f"level {level:g} needs at least {units_needed(level)} calibration {noun}, and there are {n_units}; "
        f"use more {noun}, or a level of at most {highest:g}{hint}"
    )


def units_noun(bags: Bags) -> str:
    return "bags" if bags.groups is None else "groups"
