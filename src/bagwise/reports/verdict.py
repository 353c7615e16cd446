"""The verdict on held-out predictions: their error compared with two baselines, and the coverage of intervals.

The baselines are the mean of the training targets and a forest of extremely randomised trees on bag means, fitted in
the same folds. A model is useful if it beats the better of the two by more than chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom, norm
from sklearn.ensemble import ExtraTreesRegressor

from bagwise.bags import Bags
from bagwise.bags.folds import Folds, count_units, split_bags, units_of
from bagwise.bags.segments import segment_sum
from bagwise.bags.validation import counted
from bagwise.explanations.explanation import unwrapped
from bagwise.intervals.order_statistics import conformal_quantile, unit_shares, units_needed
from bagwise.io.table_output import own_name, percent, shown
from bagwise.metrics import METRICS, get_metric

LEVEL = 0.9  # of the intervals that are drawn
LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))
MEAN, FOREST = "the mean target", "bag means + forest"
TREES, FOREST_VALUES, MOST_FOLDS = (25, 100), 10**7, 20  # limits that keep the forest to seconds
BEYOND_CHANCE = 2.0  # standard errors
FEW = 30  # bags (groups); with fewer, the verdict depends much on which bags were drawn
SMALL_GAIN = 0.1
STATUSES = ("good", "fair", "unknown", "poor")


def error_of(subject) -> str:
    """Return the name of the error for a report: the metric of the run or model if it is an error, else "rmse"."""
    metric = METRICS.get(getattr(subject, "metric", None) or "")
    return metric.name if metric is not None and metric.is_error and not metric.needs_std else "rmse"


@dataclass(frozen=True)
class HeldOut:
    """Held-out predictions of one method: arrays with one entry per bag, and a label.

    Attributes
    ----------
    bag : positions of the bags in the data
    std : standard deviations; None for a method that gives none
    repeat : the repeat of the folds
    in_sample : whether the model was trained on these bags
    unit : the group of each bag (0, 1, ...); None if there are no groups
    target_name : name of the target in the user's table
    bounds : lower and upper bounds of the model's intervals, made without the bag; None without intervals
    metric : name of the error of the page
    baselines : held-out predictions of the baselines by name; None if they could not be fitted without the data
    folds : the folds of all bags; None if each fold trains on all bags that it does not hold out
    """

    label: str
    bag: np.ndarray
    size: np.ndarray
    target: np.ndarray
    prediction: np.ndarray
    fold: np.ndarray
    std: np.ndarray | None = None
    repeat: int | None = None
    in_sample: bool = False
    unit: np.ndarray | None = None
    target_name: str = "target"
    bounds: np.ndarray | None = None
    metric: str = "rmse"
    baselines: dict[str, np.ndarray] | None = None
    folds: Folds | None = None

    @property
    def residual(self) -> np.ndarray:
        """Target minus prediction."""
        return self.target - self.prediction

    @property
    def has_intervals(self) -> bool:
        """Whether intervals made without the bag exist: from the model, or from the residuals of other folds."""
        by_model = self.std is not None or self.bounds is not None
        exist = not self.in_sample and (by_model or len(np.unique(self.fold)) > 1)
        return exist and bool(np.isfinite(self.ends()).all())

    def error(self, part: np.ndarray | slice = slice(None)) -> float:
        """Return the error of all bags, or of some."""
        return get_metric(self.metric)(self.target[part], self.prediction[part])

    def half_widths(self, level: float = LEVEL) -> np.ndarray:
        """Return half the width of the central interval of each bag; infinite where there are too few bags.

        With standard deviations, the widths are those of the normal distribution. Otherwise they are cross-conformal:
        the ceil((n + 1) level)-th smallest of the absolute residuals of the n bags in the other folds (with a single
        fold, of the other bags or groups). For grouped bags it is the `conformal_quantile`, in which each group has the
        same weight. If bags (groups) are exchangeable, a new bag is covered with probability about ``level``.
        """
        if self.std is not None:
            return norm.ppf((1 + level) / 2) * self.std
        errors = np.abs(self.residual)
        unit = numbered(np.arange(len(errors)) if self.unit is None else self.unit)
        fold = numbered(self.fold)
        fold = fold if fold.any() else unit
        if fold.max() == unit.max() == len(errors) - 1:
            return _left_out_quantile(errors, level)
        masks = (fold != k for k in range(fold.max() + 1))
        return np.array([_quantile(errors[mask], unit[mask], level) for mask in masks])[fold]

    def ends(self) -> np.ndarray:
        """Return the bounds of intervals at `LEVEL`: those of the model, or `half_widths` around predictions."""
        if self.bounds is not None:
            return self.bounds
        half = self.half_widths()
        return self.prediction[:, None] + np.stack([-half, half], axis=1)

    def inside(self) -> np.ndarray:
        """Return whether the target of each bag lies between the `ends`."""
        low, high = self.ends().T
        return (low <= self.target) & (self.target <= high)

    def covered(self, level: float = LEVEL) -> np.ndarray:
        """Return whether the target of each bag lies in its interval."""
        return np.abs(self.residual) <= self.half_widths(level)

    def calibration(self) -> list[tuple[float, float]]:
        """Return (nominal, empirical) coverage at all levels at which every interval is finite."""
        return [
            (level, float(self.covered(level).mean())) for level in LEVELS if np.isfinite(self.half_widths(level)).all()
        ]

    def with_baselines(self, bags: Bags, y: np.ndarray) -> HeldOut:
        """Return the same with `baseline_predictions`; ``bags`` and ``y`` are all of the data."""
        if self.in_sample:
            return self
        folds = self.folds
        if folds is None:
            folds = Folds(np.full(len(bags), -1))
            folds.test[self.bag] = numbered(self.fold)
            if len(folds) == 1 or len(folds) > MOST_FOLDS:  # nothing to train on, or too many fits
                folds = split_bags(bags, min(5, count_units(bags)))
        predictions = baseline_predictions(bags, y, folds)
        return replace(self, baselines={name: values[self.bag] for name, values in predictions.items()})


def held_out_of(label: str, model, bags: Bags, y: np.ndarray, *, held_out=None, fold=None, std=None) -> HeldOut:
    """Return the held-out predictions of a fitted model, or in-sample ones (``in_sample=True``) if it has none.

    Parameters
    ----------
    held_out, fold, std : arrays, optional
        Predictions by models without the bag, the fold of each bag, and standard deviations. Default: ``held_out_`` and
        ``fold_`` of the model, or those behind the residuals of `Intervals`.
    """
    source, inner = model, unwrapped(model)
    if held_out is None:
        source = inner if np.shape(getattr(inner, "held_out_", None)) == y.shape else model
        held_out = getattr(source, "held_out_", None)
    if held_out is None and hasattr(model, "residuals_"):
        held_out = np.full(len(y), np.nan)
        held_out[model.calibration_] = y[model.calibration_] - model.residuals_
    if fold is None:  # split intervals have folds for some bags only; then use one fold for all bags
        fold = getattr(source, "fold_", None)
        fold = fold if np.shape(fold) == y.shape else np.zeros(len(y), dtype=int)
    in_sample, fold = held_out is None, np.asarray(fold)
    prediction = np.asarray(model.predict(bags) if in_sample else held_out, dtype=np.float64)
    if prediction.shape != y.shape:
        raise ValueError(f"held_out has shape {prediction.shape} for {len(y)} bags; give one prediction per bag")
    if fold.shape != y.shape:
        raise ValueError(f"fold has shape {fold.shape} for {len(y)} bags; give the fold of every bag")
    bounds = None
    if hasattr(model, "held_out_interval") and np.shape(getattr(model, "calibration_", ())) == y.shape:
        bounds = model.held_out_interval(bags, y, LEVEL)
    at = np.flatnonzero(np.isfinite(prediction))  # with forward folds, the first window has none
    return HeldOut(
        label,
        at,
        bags.sizes[at],
        y[at],
        prediction[at],
        fold[at],
        std=None if std is None else np.asarray(std, dtype=np.float64)[at],
        in_sample=in_sample,
        unit=units_of(bags)[at],
        target_name=own_name(bags.target_name, "target", ()),
        bounds=None if bounds is None else bounds[at],
        metric=error_of(inner),
        folds=getattr(source, "folds_", None),
    )


def baseline_predictions(bags: Bags, y: np.ndarray, folds: Folds) -> dict[str, np.ndarray]:
    """Return held-out predictions of the two baselines: the mean of the targets, and a forest on bag means.

    Parameters
    ----------
    bags : Bags
        Covariates are further columns. Missing values do not count in a mean.
    y : array (bags,)
    folds : Folds

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags, y = bw.datasets.make_problem("mean", 40)
    >>> list(baseline_predictions(bags, y, Folds(np.arange(40) % 4)))
    ['the mean target', 'bag means + forest']
    """
    rows = _bag_means(bags)
    trees = int(np.clip(FOREST_VALUES / rows.size, *TREES))
    predictions = {name: np.full(len(y), np.nan) for name in (MEAN, FOREST)}
    for train, test in folds.pairs():
        predictions[MEAN][test] = y[train].mean()
        forest = ExtraTreesRegressor(trees, max_features=1 / 3, random_state=0)
        predictions[FOREST][test] = forest.fit(rows[train], y[train]).predict(rows[test])
    return predictions


def _bag_means(bags: Bags) -> np.ndarray:
    """Return the weighted mean of each feature per bag, and the covariates; NaN where a bag has no value."""
    finite = np.isfinite(bags.instances)
    weights = finite * (1.0 if bags.weights is None else bags.weights[:, None])
    total = segment_sum(weights, bags.offsets)
    means = segment_sum(np.where(finite, bags.instances, 0.0) * weights, bags.offsets) / np.where(
        total > 0, total, np.nan
    )
    return means if bags.covariates is None else np.column_stack([means, bags.covariates])


def _quantile(errors: np.ndarray, unit: np.ndarray, level: float) -> float:
    """Return the conformal quantile of the errors of some bags; infinite if they have too few units (bags or groups).

    Examples
    --------
    >>> import numpy as np
    >>> _quantile(np.arange(1.0, 10.0), np.arange(9), 0.9), _quantile(np.arange(1.0, 9.0), np.arange(8), 0.9)
    (9.0, inf)
    """
    if len(np.unique(unit)) < units_needed(level):
        return math.inf
    return float(conformal_quantile(errors[None], unit_shares(numbered(unit)), level)[0])


def numbered(labels: np.ndarray) -> np.ndarray:
    """Return labels as numbers 0, 1, ..."""
    return np.unique(labels, return_inverse=True)[1]


def _left_out_quantile(errors: np.ndarray, level: float) -> np.ndarray:
    """Return the quantile of the errors without each in turn, by one sort for all of them."""
    rank = math.ceil(len(errors) * level - 1e-9)  # of n - 1 errors
    if rank > len(errors) - 1:
        return np.full(len(errors), np.inf)
    ordered = np.sort(errors)
    # Leaving out one of the `rank` smallest moves the next one up into its place.
    return np.where(errors <= ordered[rank - 1], ordered[rank], ordered[rank - 1])


@dataclass(frozen=True)
class Worth:
    """The error of held-out predictions compared with those of the baselines, and whether chance explains the gap.

    Attributes
    ----------
    error, error_se : the error of all bags together and its standard error, the bags of a group as one observation
    baseline_errors : the errors of the baselines by name, in the same folds
    gains : (name -> z), how many standard errors the model is better than each baseline
    covered : share of targets inside their intervals; None without intervals
    expected : bounds of the share that 95 % of correct intervals would cover
    half_width : mean half width of the intervals
    n_bags, n_units : number of bags, and of groups
    metric : name of the error
    predicts_mean : whether each prediction is the mean of the training targets
    """

    error: float
    error_se: float
    baseline_errors: dict[str, float]
    gains: dict[str, float]
    covered: float | None
    expected: tuple[float, float]
    half_width: float
    n_bags: int
    n_units: int
    metric: str = "rmse"
    predicts_mean: bool = False

    @property
    def rival(self) -> str:
        """The better of the baselines."""
        return min(self.baseline_errors, key=lambda name: self.baseline_errors[name])

    @property
    def mean_error(self) -> float:
        """The error of the mean of the targets."""
        return self.baseline_errors[MEAN]

    @property
    def gain(self) -> float:
        """By what share the error is lower than that of the better baseline."""
        error = self.baseline_errors[self.rival]
        return 1.0 - self.error / error if error > 0 else 0.0

    def beats(self, name: str) -> bool:
        """Return whether the error is below that of a baseline by more than chance."""
        return self.error < self.baseline_errors[name] and self.gains[name] > BEYOND_CHANCE

    @property
    def better(self) -> bool:
        """Whether the error is below that of the better baseline by more than chance."""
        return self.beats(self.rival)

    @property
    def calibrated(self) -> bool:
        """Whether the intervals cover at least as many targets as they should, within chance."""
        return self.covered is None or self.covered >= self.expected[0]


def worth(held: HeldOut) -> Worth | None:
    """Return the worth of held-out predictions; None for predictions of the training bags.

    Without the data, the only baseline is the mean of the targets of the other folds (of the other bags or groups,
    where there is one fold).
    """
    if held.in_sample:
        return None
    metric = get_metric(held.metric)
    unit = numbered(np.arange(len(held.target)) if held.unit is None else held.unit)
    fold = numbered(held.fold)
    baselines = held.baselines or {MEAN: _mean_of_others(held.target, fold if fold.any() else unit)}
    loss, n_units, error = metric.bag_loss(held.target, held.prediction), int(unit.max()) + 1, held.error()
    slope = 1 / (2 * error or 1.0) if metric.root else 1.0  # of the error over the mean loss
    spread = np.bincount(unit, loss - loss.mean())
    gains = {}
    for name, prediction in baselines.items():
        gained = np.bincount(unit, metric.bag_loss(held.target, prediction) - loss)
        gains[name] = float(gained.sum() / (np.sqrt(((gained - gained.mean()) ** 2).sum()) or 1.0))
    low, high = held.ends().T
    return Worth(
        error=error,
        error_se=float(np.sqrt((spread**2).sum()) / len(loss) * slope),
        baseline_errors={name: replace(held, prediction=column).error() for name, column in baselines.items()},
        gains=gains,
        covered=float(held.inside().mean()) if held.has_intervals else None,
        expected=tuple((binom.ppf([0.025, 0.975], n_units, LEVEL) / n_units).tolist()),
        half_width=float((high - low).mean() / 2),
        n_bags=len(loss),
        n_units=n_units,
        metric=held.metric,
        predicts_mean=bool(np.allclose(held.prediction, baselines[MEAN], rtol=1e-9)),
    )


def _mean_of_others(values: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return the mean of the values of other parts, for each value; the mean of all where there is one part.

    Examples
    --------
    >>> import numpy as np
    >>> _mean_of_others(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]))
    array([5., 5., 2.])
    """
    counts, sums = np.bincount(part), np.bincount(part, values)
    if len(counts) == 1:
        return np.full(len(values), values.mean())
    return ((values.sum() - sums) / (len(values) - counts))[part]


def judgement(comparison: Worth | None) -> dict:
    """Return the verdict: a status, a badge of a few words, and the sentences that explain it."""
    if comparison is None:
        return {"status": "unknown", "badge": "Not judged", "sentences": []}
    label = get_metric(comparison.metric).label
    errors = f"Always predicting the mean target has {label} {shown(comparison.mean_error)}"
    if FOREST in comparison.baseline_errors:
        errors += f", {FOREST} in the same folds {shown(comparison.baseline_errors[FOREST])}"
    gain = f"the difference from {comparison.rival} may be chance"
    if comparison.better:
        which = "that error" if comparison.rival == MEAN else f"the error of {comparison.rival}"
        gain = f"{percent(comparison.gain)} of {which} is saved, which is more than chance"
    elif comparison.error >= comparison.baseline_errors[comparison.rival]:
        gain = f"the model is no better than {comparison.rival}"
    sentences = [f"{errors}: {gain}."]
    if comparison.covered is not None:
        low, high = (percent(bound) for bound in comparison.expected)
        width = f"±\u00a0{shown(comparison.half_width, 2)}"
        text = f"Its {percent(LEVEL)} intervals ({width}) hold {percent(comparison.covered)}"
        why = "as they should" if comparison.calibrated else f"too few: {low} to {high} would be chance"
        sentences.append(f"{text} of the targets, {why}.")
    few = comparison.n_units < FEW
    noun = "bag" if comparison.n_units == comparison.n_bags else "group"
    if few:
        sentences.append(f"With {counted(comparison.n_units, noun)} these figures can change much with other {noun}s.")
    status, badge = "good", "Worth using"
    if comparison.predicts_mean:
        status, badge = "poor", "No better than the mean, so it predicts the mean"
    elif comparison.error > comparison.mean_error:
        status, badge = "poor", "Worse than the mean"
    elif not comparison.beats(MEAN):
        status, badge = "poor", "No better than the mean"
    elif not comparison.better:
        status, badge = "fair", f"No better than {comparison.rival}"
    elif few or not comparison.calibrated or comparison.gain < SMALL_GAIN:
        status, badge = "fair", "Use with care"
    return {"status": status, "badge": badge, "sentences": sentences}


def verdict_line(label: str, comparison: Worth) -> str:
    """Return the verdict as a line of text for a terminal.

    Examples
    --------
    >>> found = Worth(2.084, 0.2, {MEAN: 1.93, FOREST: 1.87}, {MEAN: -1.0, FOREST: -1.2}, None, (0.8, 1.0), 1.0, 40, 40)
    >>> print(verdict_line("auto", found))
    auto: worse than the mean. RMSE 2.08 over all held-out bags; the mean target 1.93, bag means + forest 1.87.
    """
    badge = judgement(comparison)["badge"]
    baselines = ", ".join(f"{name} {shown(error)}" for name, error in comparison.baseline_errors.items())
    error = f"{get_metric(comparison.metric).label} {shown(comparison.error)} over all held-out bags"
    return f"{label}: {badge[0].lower()}{badge[1:]}. {error}; {baselines}."
