"""Rows of the summary of results, and of the comparison of its methods."""

from __future__ import annotations

import numpy as np

from bagwise.protocol.comparing import average_ranks, corrected_t_test, holm
from bagwise.protocol.metrics import METRICS, get_metric
from bagwise.protocol.selection import SELECTIONS
from bagwise.protocol.tables import to_rows


def summarise(results) -> list[dict]:
    """One row per method; see `Results.summary`."""
    loss = get_metric(results.metric).loss
    ranks = average_ranks(np.column_stack([loss(results.values(method)) for method in results.methods]))
    return [_summary(results, *pair) for pair in zip(results.methods, ranks.tolist(), strict=True)]


def _summary(results, method: str, rank: float) -> dict:
    done = _done(results, method)
    failed = sum(one[0] == method for one in results.failures)
    row = {"method": method, "selection": SELECTIONS[results.selection], "cells": len(done), "failed": failed}
    repeats = np.array([repeat for repeat, _ in results.splits])
    for name in METRICS:
        row |= {f"{name}{end}": value for end, value in spread(results.values(method, name), repeats).items()}
    seconds, memory = ([cell[name] for cell in done] or [np.nan] for name in ("seconds", "memory_mb"))
    return row | {"rank": rank, "seconds": float(np.mean(seconds)), "memory_mb": float(np.max(memory))}


def spread(values: np.ndarray, repeats: np.ndarray) -> dict[str, float]:
    """Mean, deviation over all values, deviation of the means of repeats; NaN values left out.

    Examples
    --------
    >>> import numpy as np
    >>> spread(np.array([1.0, 3.0, 2.0, 6.0]), np.array([0, 0, 1, 1]))["_sd_repeats"].__round__(4)
    1.4142
    """
    known = ~np.isnan(values)
    means = [values[known & (repeats == repeat)].mean() for repeat in np.unique(repeats[known])]
    deviations = [float(np.std(part, ddof=1)) if len(part) > 1 else float("nan") for part in (values[known], means)]
    mean = float(values[known].mean()) if known.any() else float("nan")
    return {"": mean, "_sd_folds": deviations[0], "_sd_repeats": deviations[1]}


def compare_pairs(results, pairs: list[tuple[str, str]], metric: str) -> list[dict]:
    """One row per pair; see `Results.compare`."""
    rows = [_compared(results, *pair, metric) for pair in pairs]
    corrected = holm([row["p"] for row in rows]).tolist()
    return [row | {"p_holm": p} for row, p in zip(rows, corrected, strict=True)]


def _compared(results, method: str, reference: str, metric: str) -> dict:
    gaps = results.values(method, metric) - results.values(reference, metric)
    sizes = [(cell["n_train"], cell["n_test"]) for cell in _done(results, method)]
    n_train, n_test = np.mean(sizes, axis=0) if sizes else (1, 1)
    found = corrected_t_test(gaps[~np.isnan(gaps)], n_train=n_train, n_test=n_test)
    row = {"method": method, "reference": reference, "metric": metric, "selection": SELECTIONS[results.selection]}
    row |= {"splits": int((~np.isnan(gaps)).sum()), "difference": found.mean, "standard_error": found.error}
    return row | {"t": found.t, "p": found.p}


def against_best(results) -> list[dict]:
    """One row per method, to look at: its score and spread, the paired difference from the best, p, costs.

    Which method is best was found on the same folds, so p is corrected for all pairs, not only for those shown.
    """
    rows, name = to_rows(results.summary()), results.metric
    known = [row for row in rows if row[name] is not None]
    best = min(known, key=lambda row: get_metric(name).loss(row[name]))["method"] if known else None
    pairs = to_rows(results.compare())
    gaps = {pair["method"]: (pair["difference"], pair["p_holm"]) for pair in pairs if pair["reference"] == best}
    gaps |= {
        pair["reference"]: (None if pair["difference"] is None else -pair["difference"], pair["p_holm"])
        for pair in pairs
        if pair["method"] == best
    }
    shown = ("method", name, f"{name}_sd_folds", f"{name}_sd_repeats")
    return [
        {key: row[key] for key in shown}
        | dict(zip(("from_best", "p_holm"), gaps.get(row["method"], (None, None)), strict=True))
        | {key: row[key] for key in ("rank", "seconds", "memory_mb", "failed")}
        for row in rows
    ]


def _done(results, method: str) -> list[dict]:
    return [cell for split in results.splits if (cell := results.cell(method, split))]
