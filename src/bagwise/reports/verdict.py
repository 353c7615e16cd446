"""The verdict on held-out predictions, and the summary of a fit.

The verdict compares the error with those of two baselines fitted in the same folds: the mean of the training targets,
and a forest of extremely randomised trees on bag means. A model is useful if it beats the better of the two by more
than chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom, norm
from sklearn.ensemble import ExtraTreesRegressor

from bagwise import __version__
from bagwise.bags import Bags
from bagwise.bags.folds import Folds, count_units, numbered, split_bags, units_of
from bagwise.bags.validation import counted
from bagwise.explanations.explanation import unwrapped
from bagwise.explanations.feature_importance import known_means
from bagwise.intervals.order_statistics import ROUNDING, unit_shares
from bagwise.io.table_output import own_name, percent, shown
from bagwise.methods.catalogue import find
from bagwise.metrics import METRICS, get_metric, mae, rmse

LEVEL = 0.9  # default level of intervals, if neither the run nor the model has one
LEVELS = np.arange(1, 20) / 20
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

    ``bag`` has positions in the data. These may be None: ``std`` if the method gives none, ``unit`` (the group of each
    bag) without groups, ``bounds`` (intervals of the model, computed without the bag) without intervals, ``baselines``
    (predictions by name) without the data, and ``folds`` if each fold trains on all bags that it does not hold out.
    ``in_sample`` is true if the model was trained on these bags.
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
    level: float = LEVEL

    @property
    def residual(self) -> np.ndarray:
        return self.target - self.prediction

    @property
    def units(self) -> np.ndarray:
        """The number of the group of each bag, or of the bag where there are no groups."""
        return numbered(np.arange(len(self.bag)) if self.unit is None else self.unit)

    @property
    def has_intervals(self) -> bool:
        """Whether intervals made without the bag exist: from the model, or from the residuals of other folds."""
        by_model = self.std is not None or self.bounds is not None
        exist = not self.in_sample and (by_model or len(np.unique(self.fold)) > 1)
        return exist and bool(np.isfinite(self.ends()).all())

    def error(self, part: np.ndarray | slice = slice(None)) -> float:
        """Return the error of all bags, or of some."""
        return get_metric(self.metric)(self.target[part], self.prediction[part])

    def half_widths(self, levels=LEVEL) -> np.ndarray:
        """Return half the width of the central interval of each bag; infinite where there are too few bags.

        Several levels give a row each. With standard deviations, the widths are those of the normal distribution.
        Otherwise they are cross-conformal: the ceil((n + 1) level)-th smallest of the absolute residuals of the n bags
        in the other folds, or its `conformal_quantile` for groups of bags, in which each group has the same weight. If
        bags (groups) are exchangeable, a new bag is covered with probability about ``level``.
        """
        levels = np.asarray(levels)
        if self.std is not None:
            return norm.ppf((1 + levels) / 2)[..., None] * self.std
        errors, units, fold = np.abs(self.residual), self.units, numbered(self.fold)
        order, widths = np.argsort(errors, kind="stable"), []
        for k in range(fold.max() + 1):
            calibration = order[fold[order] != k]
            shares = unit_shares(units[calibration])
            place = np.searchsorted(np.cumsum(shares), levels * (round(shares.sum()) + 1) - ROUNDING)
            widths.append(np.append(errors[calibration], np.inf)[place])
        return np.stack(widths, axis=-1)[..., fold]

    def ends(self) -> np.ndarray:
        """Return the bounds of intervals at the level: those of the model, or `half_widths` around predictions."""
        if self.bounds is not None:
            return self.bounds
        half = self.half_widths(self.level)
        return self.prediction[:, None] + np.stack([-half, half], axis=1)

    def inside(self) -> np.ndarray:
        """Return whether the target of each bag lies between the `ends`."""
        low, high = self.ends().T
        return (low <= self.target) & (self.target <= high)

    def calibration(self) -> np.ndarray:
        """Return (nominal, empirical) coverage of ± `half_widths`, a row per level at which every width is finite."""
        widths = self.half_widths(LEVELS)
        shares = (np.abs(self.residual) <= widths).mean(axis=1)
        return np.column_stack([LEVELS, shares])[np.isfinite(widths).all(axis=1)]

    def with_baselines(self, bags: Bags, y: np.ndarray) -> HeldOut:
        """Return a copy with `baseline_predictions`; ``bags`` and ``y`` are the whole data."""
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

    ``held_out`` (predictions by models without the bag) and ``fold`` are by default ``held_out_`` and ``fold_`` of the
    model, or those behind the residuals of `Intervals`.
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
    bounds, level = None, LEVEL
    if hasattr(model, "held_out_interval") and np.shape(getattr(model, "calibration_", ())) == y.shape:
        bounds, level = model.held_out_interval(bags, y, model.level), model.level
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
        level=level,
    )


def baseline_predictions(bags: Bags, y: np.ndarray, folds: Folds) -> dict[str, np.ndarray]:
    """Return held-out predictions of the two baselines: the mean of the targets, and a forest on bag means.

    Covariates are further columns of the forest. Missing values do not count in a mean.
    """
    rows = known_means(bags)
    rows = rows if bags.covariates is None else np.column_stack([rows, bags.covariates])
    trees = int(np.clip(FOREST_VALUES / rows.size, *TREES))
    predictions = {name: np.full(len(y), np.nan) for name in (MEAN, FOREST)}
    for train, test in folds.pairs():
        predictions[MEAN][test] = y[train].mean()
        forest = ExtraTreesRegressor(trees, max_features=1 / 3, random_state=0)
        predictions[FOREST][test] = forest.fit(rows[train], y[train]).predict(rows[test])
    return predictions


@dataclass(frozen=True)
class Worth:
    """The error of held-out predictions compared with those of the baselines, and whether chance explains the gap.

    Standard errors treat the bags of a group as one observation. ``gains`` is the advantage of the model over each
    baseline, in standard errors, ``covered`` the share of targets inside their intervals (None without), and
    ``expected`` the bounds of this share for 95 % of correct intervals.
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
    predicts_mean: bool = False  # of the training targets, for each bag
    level: float = LEVEL

    @property
    def rival(self) -> str:
        """The better of the baselines."""
        return min(self.baseline_errors, key=lambda name: self.baseline_errors[name])

    @property
    def mean_error(self) -> float:
        return self.baseline_errors[MEAN]

    @property
    def gain(self) -> float:
        """Relative reduction of the error compared with the better baseline."""
        error = self.baseline_errors[self.rival]
        return 1.0 - self.error / error if error > 0 else 0.0

    def beats(self, name: str) -> bool:
        """Return whether the error is below that of a baseline by more than chance."""
        return self.error < self.baseline_errors[name] and self.gains[name] > BEYOND_CHANCE

    @property
    def better(self) -> bool:
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
    metric, units, fold = get_metric(held.metric), held.units, numbered(held.fold)
    baselines = held.baselines
    if baselines is None:
        part = fold if fold.any() else units
        counts, sums = np.bincount(part), np.bincount(part, held.target)
        means = (sums.sum() - sums) / (len(part) - counts) if part.any() else held.target.mean(keepdims=True)
        baselines = {MEAN: means[part]}
    loss, n_units, error = metric.bag_loss(held.target, held.prediction), int(units.max()) + 1, held.error()
    slope = 1 / (2 * error or 1.0) if metric.root else 1.0  # of the error over the mean loss
    spread = np.bincount(units, loss - loss.mean())
    gains = {}
    for name, prediction in baselines.items():
        gained = np.bincount(units, metric.bag_loss(held.target, prediction) - loss)
        gains[name] = float(gained.sum() / (np.sqrt(((gained - gained.mean()) ** 2).sum()) or 1.0))
    return Worth(
        error=error,
        error_se=float(np.sqrt((spread**2).sum()) / len(loss) * slope),
        baseline_errors={name: replace(held, prediction=column).error() for name, column in baselines.items()},
        gains=gains,
        covered=float(held.inside().mean()) if held.has_intervals else None,
        expected=tuple((binom.ppf([0.025, 0.975], n_units, held.level) / n_units).tolist()),
        half_width=float(np.ptp(held.ends(), axis=1).mean() / 2),
        n_bags=len(loss),
        n_units=n_units,
        metric=held.metric,
        predicts_mean=bool(np.allclose(held.prediction, baselines[MEAN], rtol=1e-9)),
        level=held.level,
    )


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
    elif comparison.gain < -0.005:
        gain = f"the error of the model is {percent(-comparison.gain)} higher than that of {comparison.rival}"
    elif comparison.gain <= 0:
        gain = f"the model is no better than {comparison.rival}"
    sentences = [f"{errors}: {gain}."]
    if comparison.covered is not None:
        low, high = comparison.expected
        why = f"too few: {percent(low)} to {percent(high)} would be chance"
        if comparison.calibrated:
            why = "as they should" if comparison.covered <= high else why.replace("too few", "more than they need")
        width = f"±\u00a0{shown(comparison.half_width, 2)}"
        text = f"Its {percent(comparison.level)} intervals ({width}) hold {percent(comparison.covered)} of the targets"
        sentences.append(f"{text}, {why}.")
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
        status, badge = "poor", "Not clearly better than the mean"
    elif comparison.gain <= 0:
        status, badge = "fair", f"No better than {comparison.rival}"
    elif not comparison.better:
        status, badge = "fair", f"Not clearly better than {comparison.rival}"
    elif few or not comparison.calibrated or comparison.gain < SMALL_GAIN:
        status, badge = "fair", "Use with care"
    return {"status": status, "badge": badge, "sentences": sentences}


# The summary of a fit -----------------------------------------------------------------------------------------------

SCORES = {
    "absolute": "scaled by bag size and spread",
    "quantile": "around quantiles of the error (Romano et al. 2019) given size, spread, prediction and feature means",
}


def summarise_fit(model, name: str, bags, y: np.ndarray) -> dict:
    """Return held-out scores and the verdict, a paragraph for a paper, and the method's own summary if it has one.

    For a `MultiTarget` (a column of y per target), return a summary per target, and their texts below each other.

    Examples
    --------
    >>> import bagwise as bw
    >>> bags, y = bw.testing.contract_checks.sample(30)
    >>> summary = summarise_fit(bw.Intervals("aggregated").fit(bags, y), "aggregated", bags, y)
    >>> summary["verdict"], sorted(summary["held_out"])
    ('Worth using', ['mae', 'metric', 'r2', 'rmse', 'rmse_of_forest', 'rmse_of_mean'])
    """
    if y.ndim == 2:
        targets, texts = {}, {}
        for target, estimator, column in zip(model.target_names_, model.estimators_, y.T, strict=True):
            has_target = ~np.isnan(column)
            targets[target] = summarise_fit(estimator, name, bags[has_target], column[has_target])
        for text in ("paragraph", "summary"):
            titled = [f"{target}: {summary[text]}" for target, summary in targets.items() if text in summary]
            texts |= {text: "\n\n".join(titled)} if titled else {}
        return {"method": name, "bags": len(y), "targets": targets} | texts
    held = held_out_of(name, model, bags, y).with_baselines(bags, y)
    judged, metric = worth(held), held.metric
    if judged is None:
        return summarise_scores(model, name, len(y), None)
    error, mean_error = (rmse(held.target, column) for column in (held.prediction, held.baselines[MEAN]))
    r2 = 1 - (error / mean_error) ** 2 if mean_error > 0 else 0.0
    scores = {"rmse": error, "mae": mae(held.target, held.prediction), "r2": r2, "rmse_of_mean": mean_error}
    scores |= {"metric": metric, metric: judged.error, f"{metric}_of_mean": judged.mean_error}
    scores |= {f"{metric}_of_forest": judged.baseline_errors[FOREST]}
    return summarise_scores(model, name, len(y), scores) | {"verdict": judgement(judged)["badge"]}


def summarise_scores(model, name: str, n_bags: int, scores: dict | None) -> dict:
    """Return a summary made of the model and its errors on held-out bags; the level is None without intervals."""
    method, level = getattr(model, "method_", model), None
    if hasattr(method, "paragraph"):
        paragraph = method.paragraph()
    else:
        cites = find(name)[0].cites
        paragraph = f"The method {name} ({cites}) was fitted on {n_bags:,} bags with bagwise {__version__}."
        if scores is not None:
            paragraph += (
                f" Bags held out in turn were predicted with a root mean squared error of {scores['rmse']:.4g} "
                f"(R² {scores['r2']:.2f}), where the mean of the targets has {scores['rmse_of_mean']:.4g}."
            )
    if getattr(model, "lacking_", "no intervals at all") is None:
        level, kind = model.level, f"{model.kind} (Barber et al. 2021) over folds of bags"
        kind = "from one split of the bags (Papadopoulos et al. 2008)" if model.kind == "split" else kind
        paragraph += f" Prediction intervals at level {level:g} are conformal: {kind}, {SCORES[model.scores]}."
    summary = {"method": name, "bags": n_bags, "held_out": scores, "paragraph": paragraph, "level": level}
    return summary | ({"summary": method.summary()} if hasattr(method, "summary") else {})


def first_line(summary: dict) -> str:
    """Return the typical error, the verdict, the errors of the baselines, and the level of the intervals, as a line.

    Examples
    --------
    >>> scores = {"rmse": 2.084, "rmse_of_mean": 1.93, "rmse_of_forest": 1.87}
    >>> print(first_line({"held_out": scores, "verdict": "Worse than the mean", "level": None}).partition("; ")[0])
    Typical error 2.084, worse than the mean (RMSE of held-out bags
    """
    if "targets" in summary:
        return "\n".join(f"{target}: {first_line(part)}" for target, part in summary["targets"].items())
    level, scores = summary["level"], summary["held_out"]
    intervals = "no intervals" if level is None else f"intervals at level {level:g}"
    if scores is None:
        return f"The error is not known, because no bag was held out; {intervals}"
    metric = scores.get("metric", "rmse")
    baselines = f"{scores[f'{metric}_of_mean']:.4g} for the mean of the targets"
    if f"{metric}_of_forest" in scores:
        baselines += f", {scores[f'{metric}_of_forest']:.4g} for bag means + forest"
    verdict = f", {summary['verdict'].lower()}" if "verdict" in summary else ""
    error = f"Typical error {scores[metric]:.4g}{verdict} ({METRICS[metric].label} of held-out bags; {baselines})"
    return f"{error}, {intervals}"
