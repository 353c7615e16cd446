"""The findings of a run or a model as plain data: held-out predictions, tables, and sentences."""

from __future__ import annotations

from collections import Counter
from time import perf_counter

import numpy as np
from scipy.stats import t as student

from bagwise.bags import bag_folds
from bagwise.bags.folds import units_of
from bagwise.bags.validation import counted
from bagwise.evaluation.selection import EXPLANATIONS
from bagwise.explanations import importance, novelty
from bagwise.explanations.feature_importance import predictor_of
from bagwise.explanations.novelty_verdicts import VERDICTS
from bagwise.intervals.order_statistics import coverage_by, fifths
from bagwise.io.table_output import (
    Column,
    aligned,
    duration,
    filled,
    from_rows,
    is_known,
    numbers,
    percent,
    shown,
    shown_p,
    texts,
)
from bagwise.metrics import METRICS, get_metric
from bagwise.reports.verdict import HeldOut, error_of, judgement, worth

GROUPS_SHOWN = 20  # those with the most bags
LABELS_SHOWN = 200  # those with the largest RMSE
WHOLE = "{:,.0f}".format


def coverage_table(held: HeldOut, groups=None) -> list[Column]:
    """Return coverage and width of intervals by size, predicted value and group; empty without intervals."""
    if not held.has_intervals:
        return []
    parts, bounds = [("all bags", np.full(len(held.target), True))], held.ends()
    for name, values in (("size", held.size), ("predicted", held.prediction)):
        fifth = fifths(values)
        parts += [(f"{name} {_range(values[fifth == k])}", fifth == k) for k in range(fifth.max() + 1)]
    if groups is not None:
        groups = np.asarray(groups).astype(str)
        largest = Counter(groups.tolist()).most_common(GROUPS_SHOWN)
        parts += [(f"group {name}", groups == name) for name, _ in sorted(largest)]
    covered = [coverage_by(held.target[part], bounds[part], np.zeros(part.sum()), held.level) for _, part in parts]
    of = {name: [columns[name][0] for columns in covered] for name in covered[0]}
    by_chance = [f"{percent(low)} to {percent(high)}" for low, high in zip(of["low"], of["high"], strict=True)]
    return [
        texts("bags of", [name for name, _ in parts]),
        numbers("bags", of["bags"], shown=WHOLE),
        numbers("inside", of["coverage"], shown=percent, note="share of targets in their interval"),
        texts("by chance", by_chance, note="where 95 of 100 such shares lie if intervals hold"),
        numbers("width", of["width"], note="mean width of the intervals"),
    ]


def _range(values: np.ndarray) -> str:
    ends = [float(values.min()), float(values.max())]
    texts = [f"{end:,.0f}" for end in ends] if values.dtype.kind in "iu" else aligned(ends)
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def held_out(results, method: str, units: np.ndarray | None = None) -> HeldOut | None:
    """Return the held-out predictions of a method in the first repeat with most bags; None if none are kept.

    ``units`` has the group of each bag of the data, where the data is known.
    """
    forecasts = {repeat: results.forecast(method, repeat) for repeat in results.repeats(method)}
    if not forecasts:
        return None
    repeat = max(forecasts, key=lambda repeat: len(forecasts[repeat].bags))
    bag, target, prediction, std, uncertainty = forecasts[repeat]
    folds = results.folds(method, repeat)
    return HeldOut(
        label=method,
        bag=bag,
        size=np.array(results.record["data"]["sizes"])[bag],
        target=target,
        prediction=prediction,
        fold=folds.test[bag],
        std=std,
        repeat=int(repeat),
        unit=None if units is None else units[bag],
        target_name=results.column_names()[1],
        bounds=None if uncertainty is None else uncertainty.bounds,
        metric=error_of(results),
        folds=folds,
        level=results.level,
    )


def best_verdict(results, bags, y) -> str | None:
    """Return the verdict on the best method, against the mean target and a forest on bag means in the same folds."""
    best = results.best_method()
    held = None if best is None else held_out(results, best, units_of(bags))
    if held is None:
        return None
    judged = worth(held.with_baselines(bags, y))
    baselines = ", ".join(f"{name} {shown(error)}" for name, error in judged.baseline_errors.items())
    error = f"{get_metric(judged.metric).label} {shown(judged.error)} over all held-out bags"
    return f"{best}: {judgement(judged)['badge'].lower()}. {error}; {baselines}."


CHOSEN = "where settings were chosen: inside the training bags, on the scoring folds, or nowhere by this protocol"
SURE = 0.05  # a corrected p-value below this is called more than chance


def results_table(results, rows: list[dict], held: dict[str, HeldOut]) -> list[Column]:
    """Return the table of methods, best first."""
    main, name, of = results.metric, get_metric(results.metric).label, from_rows(rows)
    with_intervals = {method: scored for method, scored in held.items() if scored.has_intervals}
    covers = {method: float(scored.inside().mean()) for method, scored in with_intervals.items()}
    widths = {method: float(np.ptp(scored.ends(), axis=1).mean() / 2) for method, scored in with_intervals.items()}
    of_level = f"{percent(results.level)} intervals"
    varied = [texts("selection", of["selection"], note=CHOSEN)]
    varied.append(numbers("cells", of["cells"], shown=WHOLE, note="that the mean is of"))
    return filled(
        texts("method", of["method"]),
        with_deviation(name, of[main], of[f"{main}_sd_folds"], "mean ± deviation over splits"),
        numbers("from best", of["from_best"], digits=2, sign=True, note="mean paired difference on the same splits"),
        numbers("p", of["p_holm"], shown=shown_p, note="corrected resampled t-test, Holm over all pairs"),
        numbers("rank", of["rank"], digits=2, note="average rank over splits, 1 is best"),
        *[numbers(METRICS[m].label, of[m]) for m in ("rmse", "r2", "mae") if m != main],
        numbers("inside", map(covers.get, of["method"]), shown=percent, note=f"share of targets in {of_level}"),
        numbers("± width", map(widths.get, of["method"]), digits=2, note=f"half the mean width of {of_level}"),
        numbers("per split", of["seconds"], shown=duration, note="mean time to fit and predict"),
        *[column for column in varied if len(set(column.texts)) > 1],
        *([numbers("failed", of["failed"], shown=WHOLE)] if any(of["failed"]) else []),
    )


def with_deviation(name: str, means: list, deviations: list, note: str) -> Column:
    """Return a column of means with their deviation, sorted by the mean."""
    means = [mean if is_known(mean) else None for mean in means]
    shown_means = aligned(means)
    decimals = len(shown_means[0].partition(".")[2])
    plain = "e" not in shown_means[0]
    spreads = [f" ± {spread:.{decimals}f}" if is_known(spread) and plain else "" for spread in deviations]
    return Column(name, list(map("".join, zip(shown_means, spreads, strict=True))), means, note)


def metrics_table(results, rows: list[dict]) -> list[Column]:
    """Return the table of all metrics: means, and deviations of the means of repeats."""
    columns = [texts("method", [row["method"] for row in rows])]
    for metric, entry in METRICS.items():
        columns.append(numbers(entry.label, [row[metric] for row in rows]))
        if metric == results.metric:
            spread = [row[f"{metric}_sd_repeats"] for row in rows]
            columns.append(numbers("± repeats", spread, digits=2, note="deviation of the means of repeats"))
    columns.append(numbers("memory", [row["memory_mb"] for row in rows], shown=lambda mb: f"{mb:,.0f} MB"))
    return filled(*columns)


def by_table(results, method: str) -> dict | None:
    """Return the scores of one method by label, largest RMSE first, with notes; None without labels."""
    rows = [] if results.by is None else [row for row in results.rows("scores_by") if row["method"] == method]
    if not rows:
        return None
    rows.sort(key=lambda row: -row["rmse"])
    notes, name = results.by_notes(), results.by["name"]
    if len(rows) > LABELS_SHOWN:
        notes = [f"The {LABELS_SHOWN} of {len(rows):,} with the largest RMSE; scores_by.csv has all.", *notes]
    of = from_rows(rows[:LABELS_SHOWN])
    columns = filled(
        texts(name, of[name]),
        numbers("bags", of["bags"], shown=WHOLE),
        *[numbers(METRICS[m].label if m in METRICS else m, of[m]) for m in ("rmse", "mae", "bias", "r2", "spearman")],
        numbers("inside", of["coverage"], shown=percent, note=f"of {percent(results.level)} intervals"),
    )
    return {"name": name, "method": method, "columns": columns, "notes": notes}


FAR = 4.0  # multiple of the range of the better methods; scores beyond it are drawn at the edge


def score_chart(results, ranked: list[dict]) -> dict | None:
    """Return a row per method: its scores, and its difference from the best with a 95 % interval; None without scores.

    The template places the numbers on ``axis`` and ``gap_axis``, (low, high).
    """
    names, rows = [f"repeat {repeat}, fold {fold}" for repeat, fold in results.splits], []
    gaps, scored = _differences(results, ranked), []
    for row in ranked:
        named = zip(results.values(row["method"]).tolist(), names, strict=True)
        scores = [(value, f"{name}: {shown(value)}") for value, name in named if is_known(value)]
        label, mean = "no score on any split", None
        if scores:
            scored.append(np.array([value for value, _ in scores]))
            mean, low, high = (float(of(scored[-1])) for of in (np.mean, np.min, np.max))
            label = f"{counted(len(scores), 'score')}, mean {shown(mean)}, from {shown(low)} to {shown(high)}"
        about = {name: row[name] for name in ("method", "best")}
        rows.append(about | {"scores": scores, "mean": mean, "label": label, "gap": gaps.get(row["method"])})
    if not scored:
        return None
    axis, beyond = _window(scored)
    ends = [end for gap in gaps.values() for end in gap["ends"] or [gap["mean"]]]
    tested = any(gap["ends"] for gap in gaps.values())
    gap_axis = _with_margin(np.array([0.0, *ends])) if gaps else None
    return {"rows": rows, "axis": axis, "gap_axis": gap_axis, "tested": tested, "beyond": beyond}


def _window(scored: list[np.ndarray]) -> tuple[tuple[float, float], str]:
    """Return the range to draw, around the better half of the methods, so that outliers do not squeeze it."""
    better, scores = np.concatenate(scored[: (len(scored) + 1) // 2]), np.concatenate(scored)
    low, high = better.min(), better.max()
    reach = FAR * max(high - low, abs(low + high) / 4)
    inside = scores[(scores >= low - reach) & (scores <= high + reach)]
    n_out = len(scores) - len(inside)
    text = f"{n_out} of {len(scores)} scores lie far beyond the others and are drawn at the edge."
    return _with_margin(inside), text if n_out else ""


def _with_margin(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * ((high - low) or abs(high)) or 1.0
    return low - margin, high + margin


def ticks(axis: tuple[float, float]) -> list[tuple[float, str]]:
    """Return at most five round numbers on an axis, with their texts."""
    from matplotlib.ticker import MaxNLocator  # slow to import, and `bagwise fit` draws nothing

    values = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(*axis)
    return [(tick, f"{tick:g}".replace("-", "−")) for tick in values.tolist() if axis[0] <= tick <= axis[1]]


def _differences(results, ranked: list[dict]) -> dict[str, dict]:
    """Return, by method, the paired difference from the best, its 95 % interval, and whether it is beyond chance."""
    p_values, gaps = {row["method"]: row["p_holm"] for row in ranked}, {}
    for row in results.rows("compare", reference=ranked[0]["method"]) if ranked[0]["best"] else ():
        mean, error, p = row["difference"], row["standard_error"], p_values[row["method"]]
        if not is_known(mean):
            continue
        label, ends = f"difference from the best {shown(mean, sign=True)}", None
        if is_known(error) and row["splits"] > 1:
            reach = float(student.ppf(0.975, row["splits"] - 1)) * error
            label, ends = f"{label} ± {shown(reach, 2)}", (mean - reach, mean + reach)
        kind = "sure" if is_known(p) and p < SURE else "unsure"
        gaps[row["method"]] = {"mean": mean, "ends": ends, "kind": kind, "label": label}
    return gaps


def pairs_table(results) -> list[Column]:
    """Return the table of all pairs of methods."""
    rows, label = results.rows("compare"), get_metric(results.metric).label
    if not rows:
        return []
    of = from_rows(rows)
    return filled(
        texts("method", of["method"]),
        texts("minus", of["reference"]),
        numbers("difference", of["difference"], sign=True, note=f"mean difference of {label}"),
        numbers("std. error", of["standard_error"], digits=2, note="corrected for overlapping training sets"),
        numbers("t", of["t"], digits=2),
        numbers("p", of["p"], shown=shown_p),
        numbers("p, Holm", of["p_holm"], shown=shown_p, note="corrected for the number of pairs"),
        numbers("splits", of["splits"], shown=WHOLE),
    )


def verdict(results, rows: list[dict]) -> dict:
    """Return the headline: the best method, its score, its lead, and whether that is more than chance."""
    name, best = get_metric(results.metric).label, rows[0]
    if not best["best"]:
        none = "No method has a score yet" if best[results.metric] is None else "No split has a score of every method"
        undone = f"{counted(len(results.failures), 'cell')} failed; {results.missing} are still to be run."
        return {"best": None, "headline": none, "sentences": [undone]}
    score = f"{name} {shown(_overall(results, best))} on bags it never saw."
    if len(rows) == 1:
        return {"best": best["method"], "headline": "", "sentences": [score, "One method was run."]}
    headline = "has the best score" if len(rows) > 2 else "has the better score"
    return {"best": best["method"], "headline": headline, "sentences": [score, *_lead(results, rows)]}


def _overall(results, row: dict, metric: str | None = None) -> float:
    """Return the score of all bags of the first repeat together, as charts show it; else the mean of splits."""
    held = held_out(results, row["method"])
    if held is None:
        return row[metric or results.metric]
    return results.pooled(row["method"], metric)[results.repeats(row["method"]).index(held.repeat)]


def _lead(results, rows: list[dict]) -> list[str]:
    ranked = [row for row in rows[1:] if is_known(row["rank"])]
    if not ranked:
        return ["No other method has a score on all of these splits."]
    gap, p = abs(ranked[0]["from_best"]), ranked[0]["p_holm"]
    lead = f"Its lead over the next, {ranked[0]['method']}, is {shown(gap, 2)}"
    if get_metric(results.metric).is_error and gap:
        lead += f" ({percent(gap / abs(ranked[0][results.metric]))})"
    lead += " in the mean of splits" if len(set(results.distinct_splits().tolist())) > 1 else ""
    if not is_known(p):
        return [f"{lead}; one split does not show whether that is chance."]
    if p < SURE:
        return [f"{lead}: more than chance ({_shown_p(p)}, corrected)."]
    worse = [row["method"] for row in ranked if is_known(row["p_holm"]) and row["p_holm"] < SURE]
    more = f"It is better beyond chance than {len(worse)} of {len(ranked)} others: {', '.join(worse)}."
    return [f"{lead}: that may be chance ({_shown_p(p)}, corrected).", *([more] if worse else [])]


def _shown_p(p: float) -> str:
    return f"p = {shown_p(p)}".replace("= <", "<")


def tiles(results, rows: list[dict], held: HeldOut | None) -> list[tuple[str, str, str]]:
    """Return the large numbers about the best method: names, values and notes."""
    best, tiles = rows[0], []
    if not best["best"]:
        return []
    sd, splits = best[f"{results.metric}_sd_folds"], len(set(results.distinct_splits().tolist()))
    note = f"mean of {counted(splits, 'split')}" + (f", ± {shown(sd, 2)} (deviation)" if is_known(sd) else "")
    if held is not None:
        note = f"all bags together; {shown(best[results.metric])} is the {note}" if splits > 1 else "one split"
    tiles.append((get_metric(results.metric).label, shown(_overall(results, best)), note))
    if results.metric != "r2" and is_known(best["r2"]):
        tiles.append(("R²", shown(_overall(results, best, "r2")), "1 is perfect, 0 is the mean target"))
    if len(rows) > 1 and is_known(rows[1]["rank"]):
        p, note = rows[1]["p_holm"], f"to {rows[1]['method']}"
        note += f", {_shown_p(p)}" if is_known(p) else ""
        tiles.append(("Lead", shown(abs(rows[1]["from_best"]), 2), note))
    if held is not None and held.has_intervals:
        width = f"± {shown(np.ptp(held.ends(), axis=1).mean() / 2, 2)}"
        tiles.append(
            (f"{percent(held.level)} intervals", width, f"hold {percent(held.inside().mean())} of the targets")
        )
    return tiles


def notes(results) -> list[str]:
    """Return the caveats of all numbers of the page."""
    caveats = []
    optimistic = results.by_selection().get("paper", [])
    if optimistic:
        whose = "" if optimistic == results.methods else f" for {', '.join(optimistic)}"
        caveats.append(
            f"Optimistic{whose}: {EXPLANATIONS['paper'].removesuffix(': optimistic')}, so no such score is honest."
        )
    if results.missing:
        cells = len(results.record["cells"])
        caveats.append(f"Unfinished: {results.missing} of {cells} cells have not run; averages are over the others.")
    if results.failures:
        failed = sorted({method for method, *_ in results.failures})
        text = f"{counted(len(results.failures), 'cell')} failed ({', '.join(failed)}); they count in no average."
        caveats.append(f"{text} The errors are listed under “What was run”.")
    return caveats + results.notes()


# One model: importance of features, and unusual bags -----------------------------------------------------------------

PATIENCE = 10.0  # seconds that the importance of features may take
MOST_FEATURES, MOST_UNUSUAL = 30, 10  # largest number of rows of tables
MOST_BLOCKS = 10  # largest number of blocks of bags, each compared with the other bags


def importance_section(model, bags, y, metric: str = "rmse") -> dict | None:
    """Return the importance of features, in as much detail as `PATIENCE` allows; None without fold models."""
    predict, _, held_out = predictor_of(model, bags)
    if not held_out:
        return None
    started = perf_counter()
    predict(bags)
    each = bags.spread().n_features * (perf_counter() - started)
    section: dict = {"columns": None, "order": None}
    if each > PATIENCE:
        why = f"Not measured, because it would take more than {PATIENCE:.0f} seconds"
        return section | {"lead": f"{why}. `bagwise importance` measures it, also for groups of features."}
    options = {"repeats": 3} if 9 * each < PATIENCE else {"repeats": 1, "parts": "whole"}
    try:
        measured = importance(model, bags, y, metric=metric, **options, progress=False)
    except ValueError as error:  # too few bags
        return section | {"lead": f"Not measured: {error}."}
    if not any(np.nan_to_num(rise).any() for rise in measured.rises.values()):
        return section | {"lead": "No feature matters: no prediction changes with any of them."}
    table = {name: column[:MOST_FEATURES] for name, column in measured.as_dict().items()}
    columns = [texts("feature", table["feature"])]
    for part in measured.rises:
        columns.append(numbers(part, table[part], note="loss of accuracy when the column is permuted across bags"))
        columns.append(numbers("±", table[f"{part}_error"], digits=2, note="standard error over folds"))
    error = f"{get_metric(measured.metric).label} on held-out bags ({shown(measured.baseline)})"
    lead = f"The increase of the {error} when a column is permuted across bags: the whole column"
    lead += ", its mean alone, its spread alone." if len(measured.rises) > 1 else "."
    lead += f" The first {MOST_FEATURES} of {len(measured.names)}." if len(measured.names) > MOST_FEATURES else ""
    return {"columns": filled(*columns), "order": list(measured.names), "lead": lead}


def novelty_section(bags, held: HeldOut) -> dict | None:
    """Return usual and unusual bags with their errors, each bag compared with the other folds only."""
    fold = held.fold if held.fold.any() else bag_folds(bags)
    block = np.unique(fold, return_inverse=True)[1] % MOST_BLOCKS
    order = np.argsort(block, kind="stable")
    try:
        judged = [novelty(bags[block != k], bags[block == k]).as_dict() for k in np.unique(block)]
    except ValueError:  # too few bags
        return None
    table = {name: np.concatenate([part[name] for part in judged])[np.argsort(order)] for name in judged[0]}
    of_verdict = [table["verdict"] == verdict for verdict in VERDICTS]
    rank = np.argmax(of_verdict, axis=0)
    worst = [i for i in np.lexsort((-table["percentile"], -table["share_outside"], -rank))[:MOST_UNUSUAL] if rank[i]]
    errors = [held.error(m) if m.any() else None for m in of_verdict]
    lead = (
        "Every bag compared with those of the other folds. Where all are of one kind, 5 % are at the edge or outside."
    )
    columns = [texts("verdict", VERDICTS), numbers("bags", [m.sum() for m in of_verdict], shown=WHOLE)]
    note = "share of its instances with a value beyond those of the other bags"
    least = {name: column[worst] for name, column in table.items()}
    unusual = [
        texts("bag", least["bag"]),
        texts("verdict", least["verdict"]),
        numbers("percentile", least["percentile"], note="of its distance to the nearest other bags"),
        numbers("beyond the range", least["share_outside"], shown=percent, note=note),
        texts("mostly in", least["column_outside"]),
    ]
    return {
        "lead": f"{lead} New bags are judged so by bw.novelty and `bagwise predict`.",
        "errors": columns if held.in_sample else [*columns, numbers(get_metric(held.metric).label, errors)],
        "bags": unusual if worst else None,
    }
