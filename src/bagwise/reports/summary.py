"""What a run found, as tables: methods by rank, every metric, paired differences."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from bagwise.protocol.metrics import METRICS
from bagwise.protocol.summaries import against_best
from bagwise.protocol.tables import to_rows
from bagwise.reports.columns import Column, filled, numbers, words
from bagwise.reports.held_out import LEVEL, HeldOut
from bagwise.reports.numbers import aligned, duration, is_known, percent, shown_p

METRIC_NAMES = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "pearson": "Pearson r", "nll": "NLL", "crps": "CRPS"}
METRIC_NAMES |= {"coverage90": "90 % coverage"}
CHOSEN = "where settings were chosen: inside the training bags, on the scoring folds, or nowhere by this protocol"
SURE = 0.05  # a corrected p-value below this is called more than luck


def ranked(results) -> list[dict]:
    """The rows of `against_best` with every mean of the summary, best first; methods that are not ranked come last."""
    means = {row["method"]: row for row in to_rows(results.summary())}
    loss = METRICS[results.metric].loss
    rows = [means[row["method"]] | row for row in against_best(results)]

    def place(row: dict) -> tuple:
        score = row[results.metric]
        return not row["best"], row["rank"] is None, score is None, loss(score or 0.0)

    return sorted(rows, key=place)


def results_table(results, rows: list[dict], held: dict[str, HeldOut]) -> list[Column]:
    """One row per method, best first."""
    main, name = results.metric, METRIC_NAMES[results.metric]
    of = {key: [row[key] for row in rows] for key in rows[0]}
    inside = [held.get(row["method"]) for row in rows]
    finite = [one if one is not None and np.isfinite(one.half_widths()).all() else None for one in inside]
    covers = [None if one is None else float(one.covered().mean()) for one in finite]
    widths = [None if one is None else float(one.half_widths().mean()) for one in finite]
    return filled(
        words("method", of["method"]),
        _with_deviation(name, of[main], of[f"{main}_sd_folds"]),
        numbers("from best", of["from_best"], digits=2, sign=True, note="mean paired difference on the same splits"),
        numbers("p", of["p_holm"], shown=shown_p, note="corrected resampled t-test, Holm over all pairs"),
        numbers("rank", of["rank"], digits=2, note="average rank over splits, 1 is best"),
        *[numbers(METRIC_NAMES[m], of[m]) for m in ("rmse", "r2", "mae") if m != main],
        numbers("inside", covers, shown=percent, note=f"share of targets inside their {percent(LEVEL)} intervals"),
        numbers("± width", widths, digits=2, note=f"half the mean width of the {percent(LEVEL)} intervals"),
        numbers("per split", of["seconds"], shown=duration, note="mean time to fit and predict"),
        *_if_varied(words("selection", of["selection"], note=CHOSEN)),
        *_if_varied(numbers("cells", of["cells"], shown=_whole, note="that the mean is of")),
        *([numbers("failed", of["failed"], shown=_whole)] if any(of["failed"]) else []),
    )


def _whole(number: float) -> str:
    return f"{number:.0f}"


def _if_varied(column: Column) -> list[Column]:
    return [column] if len(set(column.texts)) > 1 else []


def _with_deviation(name: str, means: list, deviations: list) -> Column:
    """Means with their deviation over splits in the same column, sorted by the mean."""
    texts = aligned(means)
    decimals = len(texts[0].partition(".")[2])
    spreads = [f" ± {spread:.{decimals}f}" if is_known(spread) and "e" not in texts[0] else "" for spread in deviations]
    joined = [text + spread for text, spread in zip(texts, spreads, strict=True)]
    return Column(name, joined, means, "mean ± deviation over splits")


def metrics_table(results, rows: list[dict]) -> list[Column]:
    """Every metric there is, its mean and its deviation over the means of repeats."""
    columns = [words("method", [row["method"] for row in rows])]
    for metric, name in METRIC_NAMES.items():
        columns.append(numbers(name, [row[metric] for row in rows]))
        if metric == results.metric:
            spread = [row[f"{metric}_sd_repeats"] for row in rows]
            columns.append(numbers("± repeats", spread, digits=2, note="deviation of the means of repeats"))
    columns.append(numbers("memory", [row["memory_mb"] for row in rows], shown=lambda mb: f"{mb:,.0f} MB"))
    return filled(*columns)


def differences(results) -> dict[str, dict]:
    """Of every method: its paired difference from the best, half its 95 % interval, and whether it is beyond luck."""
    rows = ranked(results)
    found: dict[str, dict] = {}
    if not rows[0]["best"]:
        return found
    for row in to_rows(results.compare(reference=rows[0]["method"])):
        mine = next(one for one in rows if one["method"] == row["method"])
        if is_known(row["difference"]):
            reach = float(student.ppf(0.975, row["splits"] - 1)) if row["splits"] > 1 else float("nan")
            error = reach * row["standard_error"] if is_known(row["standard_error"]) else float("nan")
            sure = is_known(mine["p_holm"]) and mine["p_holm"] < SURE
            found[row["method"]] = {"mean": row["difference"], "error": error, "sure": sure}
    return found


def pairs_table(results) -> list[Column]:
    """Every pair of methods."""
    rows = to_rows(results.compare())
    of = {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
    if not rows:
        return []
    return filled(
        words("method", of["method"]),
        words("minus", of["reference"]),
        numbers("difference", of["difference"], sign=True, note=f"mean difference of {METRIC_NAMES[results.metric]}"),
        numbers("std. error", of["standard_error"], digits=2, note="corrected for overlapping training sets"),
        numbers("t", of["t"], digits=2),
        numbers("p", of["p"], shown=shown_p),
        numbers("p, Holm", of["p_holm"], shown=shown_p, note="corrected for the number of pairs"),
        numbers("splits", of["splits"], shown=_whole),
    )
