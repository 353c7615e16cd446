"""Held-out bags of a scan: `auto`, intervals and evaluations fit a method without each fold, and predict that fold."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.auto import AutoRegressor
from bagwise.auto.cross_validation import CrossValidation, Fold
from bagwise.auto.members import Member, count_folds, members_of
from bagwise.auto.time_budget import TimeBudget
from bagwise.bags import Bags
from bagwise.bags.checks import compared
from bagwise.bags.folds import Folds, count_units
from bagwise.bags.folds import count_folds as checked_folds
from bagwise.bags.imputation import Imputation
from bagwise.held_out import HeldOut
from bagwise.intervals import Intervals
from bagwise.intervals.calibration import Calibration, FoldModels, fold_models, keeps_folds
from bagwise.intervals.conformal import FEWEST, check_options, lacking, method_of
from bagwise.intervals.order_statistics import units_needed
from bagwise.scale.scan_fit import fit, fit_imputation, unfitted
from bagwise.scale.training_data import MOST_VALUES, TrainingData

# In order of cost.
MEMBERS = ("aggregated", "statistics:moments", "input-kme:fourier", "blr:rows", "instance-kme:ridge")
MOST_BAGS = 10_000  # with a score; the quantile of so many has a standard error of 0.3 % of coverage at level 0.9
FEW_BAGS = 500  # have a score, however many instances they have
MOST_PARTS = 64


def predict_bags(model, data: TrainingData) -> np.ndarray:
    """Predict the bags of all partitions."""
    return data.row_per_bag("held-out", partial(_predict, model))


def _predict(model, bags: Bags) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of held-out bags: the user is not warned
        return model.predict(compared(bags))


def fit_without(model, data: TrainingData, training: np.ndarray, held_out: np.ndarray) -> HeldOut:
    """Fit to the bags that a mask selects, and predict those of another."""
    started = time.perf_counter()
    fitted = fit(model, data if training.all() else data.select(training))
    between = time.perf_counter()
    predictions = predict_bags(fitted, data.select(held_out)) if held_out.any() else np.empty(0)
    return HeldOut(fitted, predictions, between - started, time.perf_counter() - between)


# Auto -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScanValidation(CrossValidation):
    """Cross-validation of members on bags in partitions; the bags themselves are stand-ins."""

    data: TrainingData | None = None

    def _run(self, tasks: list[tuple[Member, Fold, bool]], bags=None) -> list[HeldOut]:
        """Fit each (member, (bags to fit, bags to predict), first)."""
        assert self.data is not None
        return [fit_without(member.make(self.random_state), self.data, *fold) for member, fold, _ in tasks]


def fit_auto(model: AutoRegressor, data: TrainingData) -> AutoRegressor:
    """Fit `AutoRegressor` to a scan: by its own rules, on members that are fitted partition by partition.

    The members are `MEMBERS` unless a list is given. Transforms of the targets and learning curves are not tried.
    """
    started = time.perf_counter()
    model = clone(model).set_params(transforms=False)
    if isinstance(model.members, str):
        model.set_params(members=list(MEMBERS))
    model._check_parameters()
    groups = None if data.groups is None else data.n_units
    n_instances = int(data.sizes.sum())
    model.training_ = {"bags": len(data), "instances": n_instances, "features": data.n_features, "groups": groups}
    data.remember(model)
    data.remember_profile(model)
    if data.missing == "impute":
        model.imputation_ = fit_imputation(Imputation(), data)[0]  # members impute by themselves
    folds = count_folds(data.stand_in) if isinstance(model.folds, str) and model.folds == "auto" else model.folds
    splits = [Folds(data.folds(folds, model.random_state + repeat)) for repeat in range(model.repeats)]
    budget, options = TimeBudget(model.time_budget), dict[str, Any](metric=model.metric, data=data)
    cv = ScanValidation(data.stand_in, data.y, splits, data.weight, model.random_state, None, budget, **options)
    trials = model._try(cv, members_of(model.members), _no_live_line)
    model._blend(trials, cv, _no_live_line)
    model.curve_, model.seconds_ = None, time.perf_counter() - started
    return model


def _no_live_line(*_) -> None:  # a scan shows its passes
    pass


# Intervals ------------------------------------------------------------------------------------------------------------


def check_intervals(intervals: Intervals) -> None:
    """Refuse options that a scan does not have, before any pass."""
    check_options(intervals)
    if intervals.kind == "jackknife+":
        raise ValueError("kind='jackknife+' leaves out every bag by itself, a fit for each; take 'cv+' or 'split'")
    method_of(clone(intervals).set_params(method=unfitted(intervals.method, intervals.random_state)))


def fit_intervals(intervals: Intervals, data: TrainingData) -> Intervals:
    """Fit `Intervals` to a scan: models without some bags, and scores of at most 10,000 bags."""
    intervals, split = clone(intervals), intervals.kind == "split"
    method = unfitted(intervals.method, intervals.random_state)
    if data.weight is not None:
        data = data.select(data.weight > 0)
    noun, n_units = "bags" if data.groups is None else "groups", data.n_units
    if n_units < FEWEST[intervals.kind]:
        raise ValueError(f"kind={intervals.kind!r} needs at least {FEWEST[intervals.kind]} {noun}, not {n_units:,}")
    fold = data.folds(_count_parts(intervals, n_units, noun), intervals.random_state)
    if split:
        training = fold != 0
        fitted = fit(method, data.select(training))
        left_out: Any = FoldModels((fitted,))
        scored = _shown(data, ~training)
        held_out = predict_bags(fitted, data.select(scored))
        shown = scored | _shown(data, training)  # the scale is fitted on bags of the training part
        positions, fold = np.flatnonzero(scored[shown]), np.zeros(len(data), dtype=np.int64)
    else:
        fitted, shown = fit(method, data), _shown(data, np.ones(len(data), dtype=bool))
        if keeps_folds(fitted, data.stand_in) and intervals.scale != "std":
            left_out, fold = fold_models(fitted), np.asarray(fitted.fold_)
            held_out = np.asarray(fitted.held_out_)[shown]
        else:
            models, held_out = [], np.empty(len(data))
            for k in range(int(fold.max()) + 1):
                result = fit_without(method, data, fold != k, fold == k)
                held_out[fold == k] = result.predictions
                models.append(result.model)
            left_out, held_out = FoldModels(tuple(models)), held_out[shown]
        positions = np.arange(len(held_out))
    bags = compared(data.gather(shown))
    data.remember(intervals)
    intervals.feature_range_in_ = np.array([data.columns.counted_low, data.columns.counted_high])
    intervals.profile_ = fitted.profile_
    intervals.lacking_ = lacking(intervals.level, count_units(bags[positions]), noun, intervals.kind)
    calibration = Calibration(fitted, left_out, positions, fold[shown][positions], held_out)
    weight = None if data.weight is None else data.weight[shown]
    return intervals.keep(calibration, bags, data.y[shown], method, weight)


def _count_parts(intervals: Intervals, n_units: int, noun: str) -> int:
    folds = intervals.folds
    if intervals.kind == "split" and folds == "auto":
        # of many bags a smaller share is held out: a thousand bags are enough to calibrate with
        folds = int(np.clip(n_units // units_needed(intervals.level), 2, max(4, min(MOST_PARTS, n_units // 1000))))
    return checked_folds(folds, n_units, noun)


def _shown(data: TrainingData, candidates: np.ndarray) -> np.ndarray:
    """Return a mask of the bags that have a score: those of the smallest hashes, as many as can be held in memory."""
    width, n_rows = max(1, len(data.names or ())), int(data.sizes.sum())
    most = int(max(FEW_BAGS, min(MOST_BAGS, MOST_VALUES // 2 * len(data) // (n_rows * width))))
    chosen = np.zeros(len(data), dtype=bool)
    order = data.hash_order() if np.count_nonzero(candidates) > most else np.arange(len(data))
    chosen[order[candidates[order]][:most]] = True
    return chosen
