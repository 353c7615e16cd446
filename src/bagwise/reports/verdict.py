"""The first screen in words: which method is best, by how much, whether that is more than luck, and what to beware."""

from __future__ import annotations

import numpy as np

from bagwise.protocol.labelling import WORDS, ways
from bagwise.protocol.summaries import distinct_splits
from bagwise.reports.held_out import LEVEL, HeldOut
from bagwise.reports.numbers import counted, is_known, percent, shown, shown_p
from bagwise.reports.summary import METRIC_NAMES, SURE

RELATIVE = ("rmse", "mae", "crps")  # metrics of which a difference in per cent makes sense


def verdict(results, rows: list[dict]) -> dict:
    """The first thing to read: the best method, its score, its lead, and whether that is more than luck."""
    name = METRIC_NAMES[results.metric]
    best = rows[0]
    if not best["best"]:
        none = "No method has a score yet" if best[results.metric] is None else "No split has a score of every method"
        return {"best": None, "headline": none, "sentences": [_undone(results)]}
    score = f"{name} {_with_spread(best, results.metric)} on bags it never saw"
    if len(rows) == 1:
        return {"best": best["method"], "headline": "", "sentences": [f"{score}. One method was run."]}
    headline = "has the best score" if len(rows) > 2 else "has the better score"
    return {"best": best["method"], "headline": headline, "sentences": [f"{score}.", *_lead(results, rows)]}


def _undone(results) -> str:
    return f"{counted(len(results.failures), 'cell')} failed; {results.missing} are still to be run."


def _with_spread(row: dict, metric: str) -> str:
    spread = row[f"{metric}_sd_folds"]
    return shown(row[metric]) + (f" ± {shown(spread, 2)}" if is_known(spread) else "")


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
    splits = len(set(distinct_splits(results).tolist()))
    note = f"± {shown(sd, 2)} over {counted(splits, 'split')}" if is_known(sd) else "one split"
    found.append({"name": name, "value": shown(best[results.metric]), "note": note})
    if results.metric != "r2" and is_known(best["r2"]):
        found.append({"name": "R²", "value": shown(best["r2"]), "note": "1 is perfect, 0 is the mean target"})
    if len(rows) > 1 and is_known(rows[1]["rank"]):
        p = rows[1]["p_holm"]
        note = f"to {rows[1]['method']}" + (f", p = {shown_p(p)}".replace("= <", "<") if is_known(p) else "")
        found.append({"name": "Lead", "value": shown(abs(rows[1]["from_best"]), 2), "note": note})
    return found + ([] if held is None else interval_tiles(held))


def interval_tiles(held: HeldOut) -> list[dict]:
    """How wide the intervals are and how many hold; nothing where too few bags tell."""
    if not np.isfinite(held.half_widths()).all():
        return []
    note = f"hold {percent(float(held.covered().mean()))} of the targets"
    width = f"± {shown(float(held.half_widths().mean()), 2)}"
    return [{"name": f"{percent(LEVEL)} intervals", "value": width, "note": note}]


def notes(results) -> list[str]:
    """What a reader must know before believing a number."""
    found = []
    optimistic = ways(results).get("paper", [])
    if optimistic:
        whose = "" if optimistic == results.methods else f" for {', '.join(optimistic)}"
        found.append(f"Optimistic{whose}: {WORDS['paper'].removesuffix(': optimistic')}, so no such score is honest.")
    if results.missing:
        cells = len(results.record["cells"])
        found.append(f"Unfinished: {results.missing} of {cells} cells are still to be run; averages are over the rest.")
    if results.failures:
        failed = sorted({method for method, *_ in results.failures})
        told = f"{counted(len(results.failures), 'cell')} failed ({', '.join(failed)}); they count in no average."
        found.append(f"{told} What went wrong is listed under “What was run”.")
    return found + results.notes()
