"""From plain data to plots: what each section of a report shows."""

from __future__ import annotations

import numpy as np

from bagwise.reports import figures, rows
from bagwise.reports.held_out import LEVEL, HeldOut, size_fifths
from bagwise.reports.numbers import NONE, percent, shown
from bagwise.reports.svg import span

FAR = 4.0  # times the range of the better methods: a score further off is drawn at the edge


def draw_scores(results, ranked: list[dict], gaps: dict[str, dict]) -> dict:
    """A row of dots per method, and beside it the difference from the best with its interval."""
    methods = [row["method"] for row in ranked]
    values = {method: results.values(method) for method in methods}
    if not any(np.isfinite(one).any() for one in values.values()):
        return {"chart": [], "has_gaps": False, "beyond": ""}
    low, high, beyond = _window([one for one in values.values() if np.isfinite(one).any()])
    names = [f"repeat {repeat}, fold {fold}" for repeat, fold in results.splits]
    ends = [gap["mean"] + sign * np.nan_to_num(gap["error"]) for gap in gaps.values() for sign in (-1, 1)]
    edges = dict(zip(("low", "high"), span(ends, [0.0]), strict=True))
    chart = [
        {
            "method": method,
            "strip": rows.strip(np.clip(values[method], low, high), names, low=low, high=high),
            "gap": rows.difference(**gaps[method], **edges) if method in gaps else None,
            "why": "the best" if row["best"] else NONE,
        }
        for row, method in zip(ranked, methods, strict=True)
    ]
    axes = {"axis": rows.row_axis(low, high), "gap_axis": rows.row_axis(**edges)}
    return {"chart": chart, "has_gaps": bool(gaps), "beyond": beyond} | axes


def _window(values: list[np.ndarray]) -> tuple[float, float, str]:
    """The range to draw: around the better half of the methods, so that one astray does not squeeze the others."""
    better = np.concatenate(values[: (len(values) + 1) // 2])
    low, high = np.nanmin(better), np.nanmax(better)
    reach = FAR * max(high - low, abs(low + high) / 4)
    known = np.concatenate(values)
    known = known[np.isfinite(known)]
    kept = known[(known >= low - reach) & (known <= high + reach)]
    out = len(known) - len(kept)
    told = f"{out} of {len(known)} scores lie far beyond the others and are drawn at the edge."
    return *span(kept), told if out else ""


def draw_predictions(held: HeldOut, aside: str) -> dict:
    """Predicted against true, residuals by bag size, calibration of intervals."""
    plots = [{"svg": figures.predicted_against_true(held), "caption": _interval_words(held)}]
    if held.size.min() < held.size.max():
        plots.append({"svg": figures.residuals_against_size(held), "caption": _size_words(held)})
    if not held.in_sample and len(held.calibration()) > 1:
        told = "How often intervals of every level hold the target. Inside the band, luck alone explains the distance"
        told += "." if held.std is not None else "; intervals from residuals should be there."
        plots.append({"svg": figures.calibration(held), "caption": told})
    return {"label": held.label, "aside": aside, "plots": plots}


def _interval_words(held: HeldOut) -> str:
    """What the intervals are and how well they do."""
    if held.in_sample:
        return "The model saw these bags when it was fitted: no measure of how it does on new ones."
    half = held.half_widths()
    if not np.isfinite(half).all():
        return f"Too few held-out bags ({len(half)}) for {percent(LEVEL)} intervals."
    kind = "by the method’s own standard deviations" if held.std is not None else "from the residuals of other folds"
    told = f"With {percent(LEVEL)} intervals {kind}: ±{shown(float(half.mean()), 2)} on average"
    return f"{told}; {percent(float(held.covered().mean()))} hold the target, the others are marked."


def _size_words(held: HeldOut) -> str:
    parts = size_fifths(held)
    if len(parts) < 2:
        return "Residuals of bags of every size."
    first, last = parts[0], parts[-1]
    told = [f"{shown(part['rmse'], 2)} for bags of {_range(part)}" for part in (first, last)]
    return f"Root mean squared residual, the shaded steps: {told[0]}, {told[1]}."


def _range(part: dict) -> str:
    return f"{part['low']:,}" if part["low"] == part["high"] else f"{part['low']:,} to {part['high']:,}"


def draw_function(label: str, found: dict) -> dict:
    """The learned function h, and how far it is from the plain mean."""
    gap = float(np.max(np.abs(found["h"] - found["grid"])))
    reach = float(found["grid"][-1] - found["grid"][0])
    words = f"It is at most {shown(gap, 2)} away from the plain mean; predictions range over {shown(reach, 2)}."
    return {"svg": figures.learned_function(**found), "label": label, "words": words}
