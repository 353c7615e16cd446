"""What a run found, as plain data: held-out predictions and their intervals, tables, and the verdict in sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from scipy.stats import binom, norm
from scipy.stats import t as student

from bagwise.auto.blend import losses
from bagwise.bags import bag_folds
from bagwise.evaluation.metrics import METRICS
from bagwise.evaluation.selection import EXPLANATIONS
from bagwise.explanations import importance, novelty
from bagwise.explanations.feature_importance import predictor_of
from bagwise.explanations.novelty_verdicts import VERDICTS
from bagwise.intervals.order_statistics import conformal_quantile, coverage_by, fifths, unit_shares, units_needed
from bagwise.io.table_output import (
    Column,
    aligned,
    counted,
    duration,
    filled,
    from_rows,
    is_known,
    numbers,
    percent,
    shown,
    shown_p,
    texts,
    to_rows,
)

LEVEL = 0.9  # of the intervals that are drawn
# The errors that a page can be about, and what they are of.
ERRORS = {"rmse": "root mean squared", "mae": "mean absolute"}
LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))


def error_of(subject) -> str:
    """The error of the page on a run or a model: its ``metric``, if that is one of `ERRORS`; else RMSE."""
    metric = getattr(subject, "metric", None)
    return metric if metric in list(ERRORS) else "rmse"


@dataclass(frozen=True)
class HeldOut:
    """One prediction per bag by a model that never saw it: arrays of one entry per bag, and a label.

    ``bag`` is the position of the bag in the data, ``std`` is None for a method that gives no standard deviation,
    ``repeat`` is the round of folds. ``in_sample`` marks predictions of the bags the model was trained on.
    ``unit`` is the group of the bag (0, 1, ...); None where every bag is on its own, or groups are not known.
    ``target_name`` is what the user's table calls the target.
    ``bounds`` are the lower and upper end of the model's own interval, made without the bag; None if it has none.
    ``metric`` is the error of the page, "rmse" or "mae": whatever is called an error of several bags is that.
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

    @property
    def residual(self) -> np.ndarray:
        return self.target - self.prediction

    def error(self, part: np.ndarray | slice = slice(None)) -> float:
        """The error of all bags, or of some."""
        return METRICS[self.metric].of(self.target[part], self.prediction[part])

    def half_widths(self, level: float = LEVEL) -> np.ndarray:
        """Half the width of the central interval of every bag; infinite where there are too few bags.

        With standard deviations, those of the normal distribution. Else cross-conformal: with R the absolute residuals
        of the n bags of the other folds (of the other bags or groups, where there is one fold only), the
        ceil((n + 1) level)-th smallest of R; of grouped bags the `conformal_quantile` in which every group counts
        the same. If bags (groups) are exchangeable, that covers a new one with about the probability ``level``.
        """
        if self.std is not None:
            return norm.ppf((1 + level) / 2) * self.std
        errors = np.abs(self.residual)
        unit = _numbered(np.arange(len(errors)) if self.unit is None else self.unit)
        fold = _numbered(self.fold)
        fold = fold if fold.any() else unit
        if fold.max() == unit.max() == len(errors) - 1:
            return _left_out_quantile(errors, level)
        others = (fold != one for one in range(fold.max() + 1))
        return np.array([_quantile(errors[rest], unit[rest], level) for rest in others])[fold]

    def ends(self) -> np.ndarray:
        """Both ends of every interval of `LEVEL`: the model's own if it has some, else around the prediction."""
        if self.bounds is not None:
            return self.bounds
        half = self.half_widths()
        return self.prediction[:, None] + np.stack([-half, half], axis=1)

    def inside(self) -> np.ndarray:
        """Whether the target of every bag lies between the `ends`."""
        low, high = self.ends().T
        return (low <= self.target) & (self.target <= high)

    def covered(self, level: float = LEVEL) -> np.ndarray:
        """Whether the target of every bag lies in its interval."""
        return np.abs(self.residual) <= self.half_widths(level)

    def calibration(self) -> list[tuple[float, float]]:
        """(nominal, empirical) coverage at many levels; those at which every interval is finite."""
        return [
            (level, float(self.covered(level).mean())) for level in LEVELS if np.isfinite(self.half_widths(level)).all()
        ]


GROUPS_SHOWN = 20  # those with the most bags
LABELS_SHOWN = 200  # those with the largest RMSE


def coverage_table(held: HeldOut, groups=None) -> list[Column]:
    """Coverage and width of the intervals for all bags, by size, by predicted value and by group; empty if unknown."""
    bounds = held.ends()
    if held.in_sample or not np.isfinite(bounds).all():
        return []
    cuts = [("all bags", np.zeros(len(bounds), dtype=int), lambda part: "")]
    for name, values in (("size", held.size), ("predicted", held.prediction)):
        cuts.append((name, fifths(values), lambda part, values=values: _range(values[part])))
    if groups is not None:
        groups = np.asarray(groups).astype(str)
        names, counts = np.unique(groups, return_counts=True)
        kept = names[np.argsort(-counts, kind="stable")[:GROUPS_SHOWN]]
        cuts.append(("group", groups, lambda part: groups[part][0] if groups[part][0] in kept else None))
    rows = []
    for name, labels, describe in cuts:
        found = to_rows(coverage_by(held.target, bounds, labels, LEVEL))
        shown_ = [(row, describe(labels == row["label"])) for row in found]
        rows += [row | {"bags of": f"{name} {text}".strip()} for row, text in shown_ if text is not None]
    by_luck = [f"{percent(row['low'])} to {percent(row['high'])}" for row in rows]
    return [
        texts("bags of", [row["bags of"] for row in rows]),
        numbers("bags", [row["bags"] for row in rows], shown=_whole),
        numbers("inside", [row["coverage"] for row in rows], shown=percent, note="share of targets in their interval"),
        texts("by luck", by_luck, note=f"where 95 of 100 such shares lie if intervals hold at {percent(LEVEL)}"),
        numbers("width", [row["width"] for row in rows], note="mean width of the intervals"),
    ]


def _range(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind in "iu":
        return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    return " to ".join(aligned([low, high]))


def _quantile(errors: np.ndarray, unit: np.ndarray, level: float) -> float:
    """The conformal quantile of the errors of some bags; infinite where they are of too few units.

    Examples
    --------
    >>> import numpy as np
    >>> _quantile(np.arange(1.0, 10.0), np.arange(9), 0.9), _quantile(np.arange(1.0, 9.0), np.arange(8), 0.9)
    (9.0, inf)
    """
    if len(np.unique(unit)) < units_needed(level):
        return math.inf
    return float(conformal_quantile(errors[None], unit_shares(_numbered(unit)), level)[0])


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Labels as numbers 0, 1, ..."""
    return np.unique(labels, return_inverse=True)[1]


def _left_out_quantile(errors: np.ndarray, level: float) -> np.ndarray:
    """The quantile of the errors without each in turn: one sort for all of them."""
    rank = math.ceil(len(errors) * level - 1e-9)  # of n - 1 errors
    if rank > len(errors) - 1:
        return np.full(len(errors), np.inf)
    ordered = np.sort(errors)
    # Leaving out one of the `rank` smallest moves the next one up into its place.
    return np.where(errors <= ordered[rank - 1], ordered[rank], ordered[rank - 1])


def held_out(results, method: str) -> HeldOut | None:
    """The held-out predictions of a method in one repeat, the first that holds most bags; None if none are kept."""
    bag, target = results.own_names()
    rows = results.prediction_rows(method)
    if not rows:
        return None
    table = {name: np.array([row[name] for row in rows]) for name in rows[0] if name != bag}
    repeats, counts = np.unique(table["repeat"], return_counts=True)
    repeat = repeats[np.argmax(counts)]
    here = table["repeat"] == repeat
    std = table["std"][here].astype(float)  # None, where there is none, becomes NaN
    cells = [results.cell(method, split) for split in results.splits if split[0] == repeat]
    cells = [cell for cell in cells if cell and cell["predictions"]]
    bag = np.concatenate([cell["bags"] for cell in cells])
    own = [cell.get("uncertainty") for cell in cells]
    bounds = np.concatenate([one["bounds"] for one in own]) if all(own) else None
    return HeldOut(
        label=method,
        bag=bag.astype(int),
        size=table["size"][here],
        target=table[target][here],
        prediction=table["prediction"][here],
        fold=table["fold"][here],
        std=None if np.isnan(std).any() else std,
        repeat=int(repeat),
        target_name=target,
        bounds=bounds,
        metric=error_of(results),
    )


def size_fifths(held: HeldOut) -> list[dict]:
    """The error of bags from the smallest fifth to the largest (fewer parts if sizes repeat)."""
    edges = np.unique(np.quantile(held.size, np.linspace(0, 1, 6), method="nearest"))
    part = np.clip(np.searchsorted(edges, held.size, side="right") - 1, 0, max(len(edges) - 2, 0))
    rows = []
    for k in np.unique(part).tolist():
        inside = held.size[part == k]
        rows.append(
            {"low": int(inside.min()), "high": int(inside.max()), "bags": len(inside), "error": held.error(part == k)}
        )
    return rows


@dataclass(frozen=True)
class Worth:
    """What held-out predictions are worth: their error beside that of the mean target, and how far that can be luck.

    ``mean_error`` is that of predicting a bag by the mean target of the other folds (of the other bags or groups, where
    there is one fold only). ``error_se`` and ``gain_z`` take the bags of one group as one observation: ``gain_z`` is
    the difference of the summed losses (squared errors, absolute ones for "mae") over its standard error. ``covered``
    is None without intervals; ``expected`` are the bounds of the share covered that 95 % of right intervals would keep.
    """

    error: float
    error_se: float
    mean_error: float
    gain_z: float
    covered: float | None
    expected: tuple[float, float]
    half_width: float
    n_bags: int
    n_units: int
    metric: str = "rmse"

    @property
    def gain(self) -> float:
        """The share of the error of the mean that is saved."""
        return 1.0 - self.error / self.mean_error if self.mean_error > 0 else 0.0

    @property
    def better(self) -> bool:
        """Whether the error is below that of the mean by more than chance."""
        return self.error < self.mean_error and self.gain_z > BEYOND_LUCK

    @property
    def calibrated(self) -> bool:
        """Whether the intervals hold as many targets as they should, within chance, or more."""
        return self.covered is None or self.covered >= self.expected[0]


def worth(held: HeldOut) -> Worth | None:
    """What the held-out predictions are worth; None for predictions of the training bags."""
    if held.in_sample:
        return None
    unit = _numbered(np.arange(len(held.target)) if held.unit is None else held.unit)
    fold = _numbered(held.fold)
    mean = _mean_of_others(held.target, fold if fold.any() else unit)
    loss, mean_loss = (losses(one, held.target, held.metric) for one in (held.prediction, mean))
    n_units, error = int(unit.max()) + 1, held.error()
    slope = 1.0 if held.metric == "mae" else 1 / (2 * error or 1.0)  # of the error over the mean loss
    low, high = held.ends().T
    gained = np.bincount(unit, mean_loss - loss)
    spread = np.bincount(unit, loss - loss.mean())
    return Worth(
        error=error,
        error_se=float(np.sqrt((spread**2).sum()) / len(loss) * slope),
        mean_error=replace(held, prediction=mean).error(),
        gain_z=float(gained.sum() / (np.sqrt(((gained - gained.mean()) ** 2).sum()) or 1.0)),
        covered=float(held.inside().mean()) if np.isfinite(high - low).all() else None,
        expected=tuple((binom.ppf([0.025, 0.975], n_units, LEVEL) / n_units).tolist()),
        half_width=float((high - low).mean() / 2),
        n_bags=len(loss),
        n_units=n_units,
        metric=held.metric,
    )


def _mean_of_others(values: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The mean of the values that are not of the same part, for every value; its own mean where there is one part.

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


FEW = 30  # bags (groups): below, the figures of the first screen change much with other bags
SMALL_GAIN = 0.1
STATUSES = ("good", "fair", "unknown", "poor")


def judgement(found: Worth | None) -> dict:
    """A verdict in a few words, and the sentences that it rests on: is it better than the mean, do intervals hold."""
    if found is None:
        return {"status": "unknown", "badge": "Not judged", "sentences": []}
    gain = "the difference may be chance"
    if found.better:
        gain = f"{percent(found.gain)} of that error is saved, which is more than chance"
    of_mean = f"{METRIC_NAMES[found.metric]} {shown(found.mean_error)}"
    sentences = [f"Always predicting the mean target has {of_mean}: {gain}."]
    if found.covered is not None:
        low, high = (percent(bound) for bound in found.expected)
        text = f"Its {percent(LEVEL)} intervals (±\u00a0{shown(found.half_width, 2)}) hold {percent(found.covered)}"
        why = "as they should" if found.calibrated else f"too few: {low} to {high} would be chance"
        sentences.append(f"{text} of the targets, {why}.")
    few = found.n_units < FEW
    noun = "bag" if found.n_units == found.n_bags else "group"
    if few:
        sentences.append(f"With {counted(found.n_units, noun)} these figures can change much with other {noun}s.")
    if not found.better:
        return {"status": "poor", "badge": "No better than the mean", "sentences": sentences}
    if few or not found.calibrated or found.gain < SMALL_GAIN:
        return {"status": "fair", "badge": "Use with care", "sentences": sentences}
    return {"status": "good", "badge": "Worth using", "sentences": sentences}


METRIC_NAMES = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "pearson": "Pearson r", "nll": "NLL", "crps": "CRPS"}
METRIC_NAMES |= {"spearman": "Spearman ρ", "kendall": "Kendall τ", "pinball": "pinball loss"}
METRIC_NAMES |= {"interval90": "90 % interval score", "coverage90": "90 % coverage"}
CHOSEN = "where settings were chosen: inside the training bags, on the scoring folds, or nowhere by this protocol"
BEYOND_LUCK = 2.0  # standard errors
SURE = 0.05  # a corrected p-value below this is called more than luck


def results_table(results, rows: list[dict], held: dict[str, HeldOut]) -> list[Column]:
    """One row per method, best first."""
    main, name = results.metric, METRIC_NAMES[results.metric]
    of = from_rows(rows)
    inside = [held.get(row["method"]) for row in rows]
    finite = [one if one is not None and np.isfinite(one.ends()).all() else None for one in inside]
    covers = [None if one is None else float(one.inside().mean()) for one in finite]
    widths = [None if one is None else float(np.ptp(one.ends(), axis=1).mean() / 2) for one in finite]
    return filled(
        texts("method", of["method"]),
        with_deviation(name, of[main], of[f"{main}_sd_folds"], "mean ± deviation over splits"),
        numbers("from best", of["from_best"], digits=2, sign=True, note="mean paired difference on the same splits"),
        numbers("p", of["p_holm"], shown=shown_p, note="corrected resampled t-test, Holm over all pairs"),
        numbers("rank", of["rank"], digits=2, note="average rank over splits, 1 is best"),
        *[numbers(METRIC_NAMES[m], of[m]) for m in ("rmse", "r2", "mae") if m != main],
        numbers("inside", covers, shown=percent, note=f"share of targets inside their {percent(LEVEL)} intervals"),
        numbers("± width", widths, digits=2, note=f"half the mean width of the {percent(LEVEL)} intervals"),
        numbers("per split", of["seconds"], shown=duration, note="mean time to fit and predict"),
        *_if_varied(texts("selection", of["selection"], note=CHOSEN)),
        *_if_varied(numbers("cells", of["cells"], shown=_whole, note="that the mean is of")),
        *([numbers("failed", of["failed"], shown=_whole)] if any(of["failed"]) else []),
    )


def _whole(number: float) -> str:
    return f"{number:.0f}"


def _if_varied(column: Column) -> list[Column]:
    return [column] if len(set(column.texts)) > 1 else []


def with_deviation(name: str, means: list, deviations: list, note: str) -> Column:
    """Means with their deviation in the same column, sorted by the mean."""
    means = [mean if is_known(mean) else None for mean in means]
    shown_means = aligned(means)
    decimals = len(shown_means[0].partition(".")[2])
    plain = "e" not in shown_means[0]
    spreads = [f" ± {spread:.{decimals}f}" if is_known(spread) and plain else "" for spread in deviations]
    return Column(name, list(map("".join, zip(shown_means, spreads, strict=True))), means, note)


def metrics_table(results, rows: list[dict]) -> list[Column]:
    """Every metric there is, its mean and its deviation over the means of repeats."""
    columns = [texts("method", [row["method"] for row in rows])]
    for metric, name in METRIC_NAMES.items():
        columns.append(numbers(name, [row[metric] for row in rows]))
        if metric == results.metric:
            spread = [row[f"{metric}_sd_repeats"] for row in rows]
            columns.append(numbers("± repeats", spread, digits=2, note="deviation of the means of repeats"))
    columns.append(numbers("memory", [row["memory_mb"] for row in rows], shown=lambda mb: f"{mb:,.0f} MB"))
    return filled(*columns)


def by_table(results, method: str) -> dict | None:
    """The scores of one method apart by label, largest RMSE first, and the notes on them; None without labels."""
    if results.by is None:
        return None
    rows = [row for row in results.scores_by_rows() if row["method"] == method]
    if not rows:
        return None
    rows.sort(key=lambda row: -row["rmse"])
    notes = results.by_notes()
    if len(rows) > LABELS_SHOWN:
        notes = [f"The {LABELS_SHOWN} of {len(rows):,} with the largest RMSE; scores_by.csv has all.", *notes]
        rows = rows[:LABELS_SHOWN]
    shown_ = [
        numbers(METRIC_NAMES.get(m, m), [row[m] for row in rows]) for m in ("rmse", "mae", "bias", "r2", "spearman")
    ]
    name = results.by["name"]
    columns = [texts(name, [row[name] for row in rows]), numbers("bags", [row["bags"] for row in rows], shown=_whole)]
    covers = numbers("inside", [row["coverage90"] for row in rows], shown=percent, note="of 90 % intervals")
    return {"name": name, "method": method, "columns": filled(*columns, *shown_, covers), "notes": notes}


def differences(results) -> dict[str, dict]:
    """Of every method: its paired difference from the best, half its 95 % interval, and whether it is beyond luck."""
    rows = results.ranked()
    found: dict[str, dict] = {}
    if not rows[0]["best"]:
        return found
    for row in results.comparison_rows(reference=rows[0]["method"]):
        mine = next(one for one in rows if one["method"] == row["method"])
        if is_known(row["difference"]):
            reach = float(student.ppf(0.975, row["splits"] - 1)) if row["splits"] > 1 else float("nan")
            error = reach * row["standard_error"] if is_known(row["standard_error"]) else float("nan")
            sure = is_known(mine["p_holm"]) and mine["p_holm"] < SURE
            found[row["method"]] = {"mean": row["difference"], "error": error, "sure": sure}
    return found


def pairs_table(results) -> list[Column]:
    """Every pair of methods."""
    rows = results.comparison_rows()
    if not rows:
        return []
    of = from_rows(rows)
    return filled(
        texts("method", of["method"]),
        texts("minus", of["reference"]),
        numbers("difference", of["difference"], sign=True, note=f"mean difference of {METRIC_NAMES[results.metric]}"),
        numbers("std. error", of["standard_error"], digits=2, note="corrected for overlapping training sets"),
        numbers("t", of["t"], digits=2),
        numbers("p", of["p"], shown=shown_p),
        numbers("p, Holm", of["p_holm"], shown=shown_p, note="corrected for the number of pairs"),
        numbers("splits", of["splits"], shown=_whole),
    )


RELATIVE = ("rmse", "mae", "crps", "pinball", "interval90")  # metrics of which a difference in per cent makes sense


def verdict(results, rows: list[dict]) -> dict:
    """The first thing to read: the best method, its score, its lead, and whether that is more than chance."""
    name = METRIC_NAMES[results.metric]
    best = rows[0]
    if not best["best"]:
        none = "No method has a score yet" if best[results.metric] is None else "No split has a score of every method"
        undone = f"{counted(len(results.failures), 'cell')} failed; {results.missing} are still to be run."
        return {"best": None, "headline": none, "sentences": [undone]}
    sd = best[f"{results.metric}_sd_folds"]
    spread = f" ± {shown(sd, 2)}" if is_known(sd) else ""
    score = f"{name} {shown(best[results.metric])}{spread} on bags it never saw"
    if len(rows) == 1:
        return {"best": best["method"], "headline": "", "sentences": [f"{score}. One method was run."]}
    headline = "has the best score" if len(rows) > 2 else "has the better score"
    return {"best": best["method"], "headline": headline, "sentences": [f"{score}.", *_lead(results, rows)]}


def _lead(results, rows: list[dict]) -> list[str]:
    others = [row for row in rows[1:] if is_known(row["rank"])]
    if not others:
        return ["No other method has a score on all of these splits."]
    next_best, gap = others[0], abs(others[0]["from_best"])
    share = f" ({percent(gap / abs(next_best[results.metric]))})" if results.metric in RELATIVE and gap else ""
    lead = f"Its lead over the next, {next_best['method']}, is {shown(gap, 2)}{share}"
    worse = [row for row in others if is_known(row["p_holm"]) and row["p_holm"] < SURE]
    if not is_known(next_best["p_holm"]):
        return [f"{lead}; one split cannot tell whether that is luck."]
    p = f"p = {shown_p(next_best['p_holm'])}".replace("= <", "<")
    if next_best in worse:
        return [f"{lead}: more than the luck of the folds ({p}, corrected)."]
    sentences = [f"{lead}: that may be the luck of the folds ({p}, corrected)."]
    if worse:
        names = ", ".join(row["method"] for row in worse)
        sentences.append(f"It is better beyond luck than {len(worse)} of {len(others)} others: {names}.")
    return sentences


def tiles(results, rows: list[dict], held: HeldOut | None) -> list[dict]:
    """A few large numbers about the best method."""
    best, found = rows[0], []
    if not best["best"]:
        return []
    name = METRIC_NAMES[results.metric]
    sd = best[f"{results.metric}_sd_folds"]
    splits = len(set(results.distinct_splits().tolist()))
    note = f"± {shown(sd, 2)} over {counted(splits, 'split')}" if is_known(sd) else "one split"
    found.append({"name": name, "value": shown(best[results.metric]), "note": note})
    if results.metric != "r2" and is_known(best["r2"]):
        found.append({"name": "R²", "value": shown(best["r2"]), "note": "1 is perfect, 0 is the mean target"})
    if len(rows) > 1 and is_known(rows[1]["rank"]):
        p = rows[1]["p_holm"]
        note = f"to {rows[1]['method']}" + (f", p = {shown_p(p)}".replace("= <", "<") if is_known(p) else "")
        found.append({"name": "Lead", "value": shown(abs(rows[1]["from_best"]), 2), "note": note})
    low, high = (np.inf, np.inf) if held is None else held.ends().T
    if held is not None and np.isfinite(high - low).all():  # else there are too few bags
        note = f"hold {percent(float(held.inside().mean()))} of the targets"
        width = f"± {shown(float((high - low).mean() / 2), 2)}"
        found.append({"name": f"{percent(LEVEL)} intervals", "value": width, "note": note})
    return found


def notes(results) -> list[str]:
    """What a reader must know before believing a number."""
    found = []
    optimistic = results.by_selection().get("paper", [])
    if optimistic:
        whose = "" if optimistic == results.methods else f" for {', '.join(optimistic)}"
        found.append(
            f"Optimistic{whose}: {EXPLANATIONS['paper'].removesuffix(': optimistic')}, so no such score is honest."
        )
    if results.missing:
        cells = len(results.record["cells"])
        found.append(f"Unfinished: {results.missing} of {cells} cells are still to be run; averages are over the rest.")
    if results.failures:
        failed = sorted({method for method, *_ in results.failures})
        text = f"{counted(len(results.failures), 'cell')} failed ({', '.join(failed)}); they count in no average."
        found.append(f"{text} The errors are listed under “What was run”.")
    return found + results.notes()


# One model: its features, and its bags among each other ------------------------------------------------------------

PATIENCE = 10.0  # seconds that the importance of features may take
MOST_FEATURES, MOST_UNUSUAL = 30, 10  # rows of tables
MOST_BLOCKS = 10  # of bags that are compared with the others at a time


def importance_section(model, bags, y, metric: str = "rmse") -> dict | None:
    """Which features matter on held-out bags, in as much detail as `PATIENCE` allows; None without fold models."""
    predict, _, held_out = predictor_of(model, bags)
    if not held_out:
        return None
    started = perf_counter()
    predict(bags)
    each = bags.spread().n_features * (perf_counter() - started)
    if each > PATIENCE:
        why = f"Not measured, for it would take more than {PATIENCE:.0f} seconds. "
        return {"columns": None, "lead": why + "`bagwise importance` does, also for groups of features."}
    options = {"repeats": 3} if 9 * each < PATIENCE else {"repeats": 1, "parts": "whole"}
    try:
        found = importance(model, bags, y, metric=metric, **options, progress=False)
    except ValueError as error:  # too few bags
        return {"columns": None, "lead": f"Not measured: {error}."}
    table = {name: column[:MOST_FEATURES] for name, column in found.as_dict().items()}
    columns = [texts("feature", table["feature"])]
    for part in found.rises:
        columns.append(numbers(part, table[part], note="rise of the error when exchanged for that of other bags"))
        columns.append(numbers("±", table[f"{part}_error"], digits=2, note="standard error over folds"))
    lead = (
        f"By how much the {found.metric.upper()} on held-out bags ({shown(found.baseline)}) rises when a column of a "
        "bag is exchanged for that of another bag: the whole column, its mean alone, its spread alone."
    )
    more = f" The first {MOST_FEATURES} of {len(found.names)}." if len(found.names) > MOST_FEATURES else ""
    return {"columns": filled(*columns), "lead": lead + more}


def novelty_section(bags, held: HeldOut) -> dict | None:
    """Usual and unusual bags and their errors: each bag judged by the bags of the other folds alone."""
    fold = held.fold if held.fold.any() else bag_folds(bags)
    block = np.unique(fold, return_inverse=True)[1] % MOST_BLOCKS
    order = np.argsort(block, kind="stable")
    try:
        judged = [novelty(bags[block != k], bags[block == k]).as_dict() for k in np.unique(block)]
    except ValueError:  # too few bags
        return None
    found = {name: np.concatenate([one[name] for one in judged])[np.argsort(order)] for name in judged[0]}
    of_verdict = [found["verdict"] == one for one in VERDICTS]
    rank = np.argmax(of_verdict, axis=0)
    worst = [i for i in np.lexsort((-found["percentile"], -found["share_outside"], -rank))[:MOST_UNUSUAL] if rank[i]]
    errors = [held.error(m) if m.any() else None for m in of_verdict]
    lead = (
        "Every bag compared with those of the other folds. Where all are of one kind, 5 % are at the edge or outside."
    )
    columns = [texts("verdict", VERDICTS), numbers("bags", [m.sum() for m in of_verdict], shown="{:,.0f}".format)]
    unusual = [
        texts("bag", found["bag"][worst]),
        texts("verdict", found["verdict"][worst]),
        numbers("percentile", found["percentile"][worst], note="of its distance to the nearest other bags"),
        numbers("outside the range", found["share_outside"][worst], shown=percent, note="share of its instances"),
        texts("mostly in", found["column_outside"][worst]),
    ]
    return {
        "lead": f"{lead} New bags are judged so by bw.novelty and `bagwise predict`.",
        "errors": columns if held.in_sample else [*columns, numbers(METRIC_NAMES[held.metric], errors)],
        "bags": unusual if worst else None,
    }
