"""Rows of the summary of results, and of the comparison of its methods."""

from __future__ import annotations

import numpy as np

from bagwise.protocol.comparing import average_ranks, contenders, corrected_t_test, holm
from bagwise.protocol.labelling import label
from bagwise.protocol.metrics import METRICS, best_of, get_metric
from bagwise.protocol.tables import to_rows

# Columns of a comparison, also where there is no pair to compare.
COMPARED = ("method", "reference", "metric", "selection", "reference_selection", "splits")
COMPARED += ("difference", "standard_error", "t", "p", "p_holm")


def distinct_splits(results) -> np.ndarray:
    """A number for every split, the same for those that score the same bags: over fixed folds, a fold's repeats."""
    numbers: dict[tuple, int] = {}
    return np.array([numbers.setdefault(_scored(results, split), len(numbers)) for split in results.splits])


def _scored(results, split: tuple) -> tuple:
    """The bags that a split scores, by any of its cells; the split itself where every cell failed or is to come."""
    cells = (results.cell(method, split) for method in results.methods)
    return next((tuple(cell["bags"]) for cell in cells if cell), split)


def by_split(values: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """One value per distinct split: its mean over repeats, which there are seeds and nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> by_split(np.array([1.0, 3.0, 2.0, 6.0]), np.array([0, 1, 0, 1])).tolist()
    [1.5, 4.5]
    """
    return np.array([values[splits == one].mean() for one in np.unique(splits)])


# One row per method -------------------------------------------------------------------------------------------------


def summarise(results) -> list[dict]:
    """One row per method; see `Results.summary`."""
    splits = distinct_splits(results)
    ranks = average_ranks(get_metric(results.metric).loss(_contest(results, splits)))
    return [_summary(results, *pair, splits) for pair in zip(results.methods, ranks.tolist(), strict=True)]


def _contest(results, splits: np.ndarray) -> np.ndarray:
    """(distinct splits, methods): what methods are ranked by; in an unfinished run, the splits that all have run."""
    ran = np.array([[results.ran(method, split) is not None for method in results.methods] for split in results.splits])
    run = ran.all(axis=1) if ran.all(axis=1).any() else np.full(len(ran), True)
    return np.column_stack([by_split(results.values(method)[run], splits[run]) for method in results.methods])


def _summary(results, method: str, rank: float, splits: np.ndarray) -> dict:
    done = _done(results, method)
    failed = sum(one[0] == method for one in results.failures)
    repeats = np.array([repeat for repeat, _ in results.splits])
    found = {name: spread(results.values(method, name), repeats, splits) for name in METRICS}
    row = {"method": method, "selection": label(results, method), "cells": found[results.metric]["_cells"]}
    row |= {"failed": failed} | {f"{name}{end}": value for name in METRICS for end, value in found[name].items()}
    seconds, memory = ([cell[name] for cell in done] or [np.nan] for name in ("seconds", "memory_mb"))
    return row | {"rank": rank, "seconds": float(np.mean(seconds)), "memory_mb": float(np.max(memory))}


def spread(values: np.ndarray, repeats: np.ndarray, splits: np.ndarray | None = None) -> dict[str, float]:
    """Mean and deviation over distinct splits (default: all are), deviation of the means of repeats, number of values.

    NaN values are left out. Over fixed splits the repeats are seeds: their values are averaged before the deviation
    over splits is taken, and the deviation of the means of repeats is that of the seed alone.

    Examples
    --------
    >>> import numpy as np
    >>> values, repeats = np.array([1.0, 3.0, 2.0, 6.0]), np.array([0, 0, 1, 1])
    >>> spread(values, repeats)["_sd_folds"].__round__(4), spread(values, repeats)["_sd_repeats"].__round__(4)
    (2.1602, 1.4142)
    >>> spread(values, repeats, splits=np.array([0, 1, 0, 1]))["_sd_folds"].__round__(4)
    2.1213
    """
    known = ~np.isnan(values)
    values, repeats = values[known], repeats[known]
    parts = by_split(values, np.arange(len(values)) if splits is None else splits[known])
    found = [parts, np.array([values[repeats == repeat].mean() for repeat in np.unique(repeats)])]
    deviations = [float(np.std(part, ddof=1)) if len(part) > 1 else float("nan") for part in found]
    mean = float(parts.mean()) if len(parts) else float("nan")
    return {"": mean, "_sd_folds": deviations[0], "_sd_repeats": deviations[1], "_cells": len(values)}


def best_method(results) -> str | None:
    """The one with the best mean among the `contenders`, on the splits that all of them have; None if there is none."""
    loss = get_metric(results.metric).loss
    values = _contest(results, distinct_splits(results))
    methods, rows = contenders(values)
    means = np.full(len(results.methods), np.nan)
    if rows.any():
        means[methods] = values[rows][:, methods].mean(axis=0)
    best = best_of(loss(means))
    return None if best is None else results.methods[best]


# One row per pair ---------------------------------------------------------------------------------------------------


def compare_pairs(results, pairs: list[tuple[str, str]], metric: str) -> list[dict]:
    """One row per pair; see `Results.compare`."""
    splits = distinct_splits(results)
    rows = [_compared(results, *pair, metric, splits) for pair in pairs]
    corrected = holm([row["p"] for row in rows]).tolist()
    return [row | {"p_holm": p} for row, p in zip(rows, corrected, strict=True)]


def _compared(results, method: str, reference: str, metric: str, splits: np.ndarray) -> dict:
    gaps = results.values(method, metric) - results.values(reference, metric)
    known = ~np.isnan(gaps)
    gaps = by_split(gaps[known], splits[known])
    sizes = [(cell["n_train"], cell["n_test"]) for cell in _done(results, method)]
    n_train, n_test = np.mean(sizes, axis=0) if sizes else (1, 1)
    found = corrected_t_test(gaps, n_train=n_train, n_test=n_test)
    labels = label(results, method), label(results, reference)
    values = method, reference, metric, *labels, len(gaps), found.mean, found.error, found.t, found.p
    return dict(zip(COMPARED, values, strict=False))  # p_holm is known when all are


def against_best(results) -> list[dict]:
    """One row per method, to look at: its score and spread, the paired difference from the best, p, costs.

    Which method is best was found on the same folds, so p is corrected for all pairs, not only for those shown.
    """
    name, best = results.metric, best_method(results)
    gaps = _gaps(results, best)
    shown = ("method", name, f"{name}_sd_folds", f"{name}_sd_repeats")
    return [
        {key: row[key] for key in shown}
        | dict(zip(("from_best", "p_holm"), gaps.get(row["method"], (None, None)), strict=True))
        | {key: row[key] for key in ("rank", "seconds", "memory_mb", "cells", "failed")}
        | {"best": row["method"] == best}
        for row in to_rows(results.summary())
    ]


def _gaps(results, best: str | None) -> dict[str, tuple]:
    """Of every method its difference from the best and the corrected p."""
    pairs = to_rows(results.compare())
    gaps = {pair["method"]: (pair["difference"], pair["p_holm"]) for pair in pairs if pair["reference"] == best}
    return gaps | {
        pair["reference"]: (None if pair["difference"] is None else -pair["difference"], pair["p_holm"])
        for pair in pairs
        if pair["method"] == best
    }


def _done(results, method: str) -> list[dict]:
    return [cell for split in results.splits if (cell := results.cell(method, split))]
