"""The findings of a run or a model as plain data: held-out predictions, tables, and sentences."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from scipy.stats import t as student

from bagwise.bags import bag_folds
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
    to_rows,
)
from bagwise.metrics import METRICS, get_metric
from bagwise.reports.verdict import LEVEL, HeldOut, error_of, verdict_line, worth

GROUPS_SHOWN = 20  # those with the most bags
LABELS_SHOWN = 200  # those with the largest RMSE


def coverage_table(held: HeldOut, groups=None) -> list[Column]:
    """Return coverage and width of intervals by size, predicted value and group; empty without intervals."""
    if not held.has_intervals:
        return []
    bounds = held.ends()
    cuts = [("all bags", np.zeros(len(bounds), dtype=int), lambda part: "")]
    for name, values in (("size", held.size), ("predicted", held.prediction)):
        cuts.append((name, fifths(values), lambda part, values=values: _range(values[part])))
    if groups is not None:
        groups = np.asarray(groups).astype(str)
        names, counts = np.unique(groups, return_counts=True)
        largest = names[np.argsort(-counts, kind="stable")[:GROUPS_SHOWN]]
        cuts.append(("group", groups, lambda part: groups[part][0] if groups[part][0] in largest else None))
    rows = []
    for name, labels, describe in cuts:
        coverage = to_rows(coverage_by(held.target, bounds, labels, LEVEL))
        shown_ = [(row, describe(labels == row["label"])) for row in coverage]
        rows += [row | {"bags of": f"{name} {text}".strip()} for row, text in shown_ if text is not None]
    by_chance = [f"{percent(row['low'])} to {percent(row['high'])}" for row in rows]
    return [
        texts("bags of", [row["bags of"] for row in rows]),
        numbers("bags", [row["bags"] for row in rows], shown=_whole),
        numbers("inside", [row["coverage"] for row in rows], shown=percent, note="share of targets in their interval"),
        texts("by chance", by_chance, note=f"where 95 of 100 such shares lie if intervals hold at {percent(LEVEL)}"),
        numbers("width", [row["width"] for row in rows], note="mean width of the intervals"),
    ]


def _range(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind in "iu":
        return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    return " to ".join(aligned([low, high]))


def held_out(results, method: str) -> HeldOut | None:
    """Return the held-out predictions of a method in the first repeat with most bags; None if none are kept."""
    forecasts = {repeat: results.forecast(method, repeat) for repeat in results.predicted_repeats(method)}
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
        target_name=results.own_names()[1],
        bounds=None if uncertainty is None else uncertainty.bounds,
        metric=error_of(results),
        folds=folds,
    )


def best_verdict(results, bags, y) -> str | None:
    """Return the verdict on the best method, against the mean target and a forest on bag means in the same folds."""
    best = results.best_method()
    held = None if best is None else held_out(results, best)
    return None if held is None else verdict_line(best, worth(held.with_baselines(bags, y)))


def size_fifths(held: HeldOut) -> list[dict]:
    """Return the error of bags from the smallest fifth to the largest (fewer parts if sizes repeat)."""
    part = fifths(held.size)
    sizes = [held.size[part == k] for k in np.unique(part)]
    return [
        {"low": int(size.min()), "high": int(size.max()), "bags": len(size), "error": held.error(part == k)}
        for k, size in enumerate(sizes)
    ]


CHOSEN = "where settings were chosen: inside the training bags, on the scoring folds, or nowhere by this protocol"
SURE = 0.05  # a corrected p-value below this is called more than chance


def results_table(results, rows: list[dict], held: dict[str, HeldOut]) -> list[Column]:
    """Return the table of methods, best first."""
    main, name = results.metric, get_metric(results.metric).label
    of = from_rows(rows)
    with_intervals = {method: prediction for method, prediction in held.items() if prediction.has_intervals}
    finite = [with_intervals.get(method) for method in of["method"]]
    covers = [prediction and float(prediction.inside().mean()) for prediction in finite]
    widths = [prediction and float(np.ptp(prediction.ends(), axis=1).mean() / 2) for prediction in finite]
    return filled(
        texts("method", of["method"]),
        with_deviation(name, of[main], of[f"{main}_sd_folds"], "mean ± deviation over splits"),
        numbers("from best", of["from_best"], digits=2, sign=True, note="mean paired difference on the same splits"),
        numbers("p", of["p_holm"], shown=shown_p, note="corrected resampled t-test, Holm over all pairs"),
        numbers("rank", of["rank"], digits=2, note="average rank over splits, 1 is best"),
        *[numbers(METRICS[m].label, of[m]) for m in ("rmse", "r2", "mae") if m != main],
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
    if results.by is None:
        return None
    rows = [row for row in results.rows("scores_by") if row["method"] == method]
    if not rows:
        return None
    rows.sort(key=lambda row: -row["rmse"])
    notes = results.by_notes()
    if len(rows) > LABELS_SHOWN:
        notes = [f"The {LABELS_SHOWN} of {len(rows):,} with the largest RMSE; scores_by.csv has all.", *notes]
        rows = rows[:LABELS_SHOWN]
    shown_ = [
        numbers(METRICS[m].label if m in METRICS else m, [row[m] for row in rows])
        for m in ("rmse", "mae", "bias", "r2", "spearman")
    ]
    name = results.by["name"]
    columns = [texts(name, [row[name] for row in rows]), numbers("bags", [row["bags"] for row in rows], shown=_whole)]
    covers = numbers("inside", [row["coverage90"] for row in rows], shown=percent, note="of 90 % intervals")
    return {"name": name, "method": method, "columns": filled(*columns, *shown_, covers), "notes": notes}


def differences(results) -> dict[str, dict]:
    """Return, by method, the paired difference from the best, half its 95 % interval, and if it is beyond chance."""
    rows = results.ranked()
    p_values = {row["method"]: row["p_holm"] for row in rows}
    gaps: dict[str, dict] = {}
    for row in results.rows("compare", reference=rows[0]["method"]) if rows[0]["best"] else ():
        if is_known(row["difference"]):
            reach = float(student.ppf(0.975, row["splits"] - 1)) if row["splits"] > 1 else float("nan")
            error = reach * row["standard_error"] if is_known(row["standard_error"]) else float("nan")
            p = p_values[row["method"]]
            sure = is_known(p) and p < SURE
            gaps[row["method"]] = {"mean": row["difference"], "error": error, "sure": sure}
    return gaps


def pairs_table(results) -> list[Column]:
    """Return the table of all pairs of methods."""
    rows = results.rows("compare")
    if not rows:
        return []
    of = from_rows(rows)
    return filled(
        texts("method", of["method"]),
        texts("minus", of["reference"]),
        numbers(
            "difference", of["difference"], sign=True, note=f"mean difference of {get_metric(results.metric).label}"
        ),
        numbers("std. error", of["standard_error"], digits=2, note="corrected for overlapping training sets"),
        numbers("t", of["t"], digits=2),
        numbers("p", of["p"], shown=shown_p),
        numbers("p, Holm", of["p_holm"], shown=shown_p, note="corrected for the number of pairs"),
        numbers("splits", of["splits"], shown=_whole),
    )


def verdict(results, rows: list[dict]) -> dict:
    """Return the headline: the best method, its score, its lead, and whether that is more than chance."""
    name = get_metric(results.metric).label
    best = rows[0]
    if not best["best"]:
        none = "No method has a score yet" if best[results.metric] is None else "No split has a score of every method"
        undone = f"{counted(len(results.failures), 'cell')} failed; {results.missing} are still to be run."
        return {"best": None, "headline": none, "sentences": [undone]}
    score = f"{name} {shown(_overall(results, best))} on bags it never saw"
    if len(rows) == 1:
        return {"best": best["method"], "headline": "", "sentences": [f"{score}. One method was run."]}
    headline = "has the best score" if len(rows) > 2 else "has the better score"
    return {"best": best["method"], "headline": headline, "sentences": [f"{score}.", *_lead(results, rows)]}


def _overall(results, row: dict, metric: str | None = None) -> float:
    """Return the score of all bags of the first repeat together, as charts show it; else the mean of splits."""
    metric = metric or results.metric
    held = held_out(results, row["method"])
    if held is None:
        return row[metric]
    return results.pooled(row["method"], metric)[results.repeats(row["method"]).index(held.repeat)]


def _lead(results, rows: list[dict]) -> list[str]:
    ranked = [row for row in rows[1:] if is_known(row["rank"])]
    if not ranked:
        return ["No other method has a score on all of these splits."]
    next_best, gap = ranked[0], abs(ranked[0]["from_best"])
    share = f" ({percent(gap / abs(next_best[results.metric]))})" if get_metric(results.metric).is_error and gap else ""
    lead = f"Its lead over the next, {next_best['method']}, is {shown(gap, 2)}{share}"
    lead += " in the mean of splits" if len(set(results.distinct_splits().tolist())) > 1 else ""
    worse = [row for row in ranked if is_known(row["p_holm"]) and row["p_holm"] < SURE]
    if not is_known(next_best["p_holm"]):
        return [f"{lead}; one split does not show whether that is chance."]
    p = f"p = {shown_p(next_best['p_holm'])}".replace("= <", "<")
    if next_best in worse:
        return [f"{lead}: more than chance ({p}, corrected)."]
    sentences = [f"{lead}: that may be chance ({p}, corrected)."]
    if worse:
        names = ", ".join(row["method"] for row in worse)
        sentences.append(f"It is better beyond chance than {len(worse)} of {len(ranked)} others: {names}.")
    return sentences


def tiles(results, rows: list[dict], held: HeldOut | None) -> list[dict]:
    """Return the large numbers about the best method."""
    best, tiles = rows[0], []
    if not best["best"]:
        return []
    sd, splits = best[f"{results.metric}_sd_folds"], len(set(results.distinct_splits().tolist()))
    note = f"mean of {counted(splits, 'split')}"
    note += f", ± {shown(sd, 2)} (deviation)" if is_known(sd) else ""
    if held is not None:
        note = f"all bags together; {shown(best[results.metric])} is the {note}" if splits > 1 else "one split"
    tiles.append({"name": get_metric(results.metric).label, "value": shown(_overall(results, best)), "note": note})
    if results.metric != "r2" and is_known(best["r2"]):
        r2 = shown(_overall(results, best, "r2"))
        tiles.append({"name": "R²", "value": r2, "note": "1 is perfect, 0 is the mean target"})
    if len(rows) > 1 and is_known(rows[1]["rank"]):
        p = rows[1]["p_holm"]
        note = f"to {rows[1]['method']}" + (f", p = {shown_p(p)}".replace("= <", "<") if is_known(p) else "")
        tiles.append({"name": "Lead", "value": shown(abs(rows[1]["from_best"]), 2), "note": note})
    if held is not None and held.has_intervals:
        low, high = held.ends().T
        note = f"hold {percent(float(held.inside().mean()))} of the targets"
        width = f"± {shown(float((high - low).mean() / 2), 2)}"
        tiles.append({"name": f"{percent(LEVEL)} intervals", "value": width, "note": note})
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


# One model: its features, and its bags among each other ------------------------------------------------------------

PATIENCE = 10.0  # seconds that the importance of features may take
MOST_FEATURES, MOST_UNUSUAL = 30, 10  # rows of tables
MOST_BLOCKS = 10  # of bags that are compared with the others at a time


def importance_section(model, bags, y, metric: str = "rmse") -> dict | None:
    """Return the importance of features, in as much detail as `PATIENCE` allows; None without fold models."""
    predict, _, held_out = predictor_of(model, bags)
    if not held_out:
        return None
    started = perf_counter()
    predict(bags)
    each = bags.spread().n_features * (perf_counter() - started)
    if each > PATIENCE:
        why = f"Not measured, for it would take more than {PATIENCE:.0f} seconds. "
        return {"columns": None, "order": None, "lead": why + "`bagwise importance` does, also for groups of features."}
    options = {"repeats": 3} if 9 * each < PATIENCE else {"repeats": 1, "parts": "whole"}
    try:
        measured = importance(model, bags, y, metric=metric, **options, progress=False)
    except ValueError as error:  # too few bags
        return {"columns": None, "order": None, "lead": f"Not measured: {error}."}
    if not any(np.nan_to_num(rise).any() for rise in measured.rises.values()):
        return {"columns": None, "order": None, "lead": "No feature matters: no prediction changes with any of them."}
    table = {name: column[:MOST_FEATURES] for name, column in measured.as_dict().items()}
    columns = [texts("feature", table["feature"])]
    for part in measured.rises:
        columns.append(numbers(part, table[part], note="loss of accuracy when the column is permuted across bags"))
        columns.append(numbers("±", table[f"{part}_error"], digits=2, note="standard error over folds"))
    error = f"{get_metric(measured.metric).label} on held-out bags ({shown(measured.baseline)})"
    lead = (
        f"The increase of the {error} when a column is permuted across bags: the whole column, its mean alone, its "
        "spread alone."
    )
    more = f" The first {MOST_FEATURES} of {len(measured.names)}." if len(measured.names) > MOST_FEATURES else ""
    return {"columns": filled(*columns), "order": list(measured.names), "lead": lead + more}


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
    columns = [texts("verdict", VERDICTS), numbers("bags", [m.sum() for m in of_verdict], shown="{:,.0f}".format)]
    unusual = [
        texts("bag", table["bag"][worst]),
        texts("verdict", table["verdict"][worst]),
        numbers("percentile", table["percentile"][worst], note="of its distance to the nearest other bags"),
        numbers(
            "beyond the range",
            table["share_outside"][worst],
            shown=percent,
            note="share of its instances with a value beyond those of the other bags",
        ),
        texts("mostly in", table["column_outside"][worst]),
    ]
    return {
        "lead": f"{lead} New bags are judged so by bw.novelty and `bagwise predict`.",
        "errors": columns if held.in_sample else [*columns, numbers(get_metric(held.metric).label, errors)],
        "bags": unusual if worst else None,
    }
