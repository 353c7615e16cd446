"""Rows of the summary of results, and of the comparison of its methods.

What a reader must know before believing a number: how settings were chosen, and whose mean is of fewer cells.

Whether a difference between two methods is more than the luck of the folds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from bagwise.evaluation.metrics import METRICS, best_of, get_metric
from bagwise.evaluation.selection import EXPLAINED, SELECTIONS
from bagwise.io.table_output import to_rows

# Besides the two ways to choose: where the protocol has one setting of a method, it chooses nothing.
LABELS = SELECTIONS | {"none": "none"}
WORDS = EXPLAINED | {
    "none": "nothing is searched; a method is used as it comes, or chooses for itself inside the training bags"
}
_NOT_SEARCHED = "({})"  # how plans that do not count settings describe the one empty setting


def way(results, method: str) -> str:
    """How the setting of a method was chosen: "nested" or "paper" where it had several, "none" where it had one."""
    written = results.record["methods"][method]["settings"]
    found = results.record.get("n_settings", {}).get(method, 1 if written == _NOT_SEARCHED else 2)
    return results.selection if found > 1 else "none"


def label(results, method: str) -> str:
    """The word for it in tables; an optimistic way says that it is."""
    return LABELS[way(results, method)]


def ways(results) -> dict[str, list[str]]:
    """The methods by how their settings were chosen."""
    found: dict[str, list[str]] = {}
    for method in results.methods:
        found.setdefault(way(results, method), []).append(method)
    return found


def explained(results) -> str:
    """How hyperparameters were chosen, in words; of which methods, if not of all in the same way."""
    found = ways(results)
    if len(found) == 1:
        return WORDS[next(iter(found))]
    return "; ".join(f"{WORDS[one]} ({', '.join(methods)})" for one, methods in found.items())


def title(results) -> str:
    """The data set, and how hyperparameters were chosen."""
    kinds = " and ".join(LABELS[one] for one in ways(results))
    return f"{results.record['data']['name']}, selection {kinds}: {explained(results)}"


def notes(results) -> list[str]:
    """Methods whose mean is over fewer splits than that of others, or that have none, and why."""
    return [text for method in results.methods if (text := _note(results, method))]


def _note(results, method: str) -> str:
    metric = results.metric
    done, ran = (sum(of(method, split) is not None for split in results.splits) for of in (results.cell, results.ran))
    known = int((~np.isnan(results.values(method))).sum())
    if done and results.setting(method) is None:
        return f"{method}: no setting has {metric} on every split, so none is the best; {_way_out(metric)}"
    if done and not known:
        return f"{method} has no {metric} on any split and is not ranked; {_way_out(metric)}"
    if 0 < known < ran:
        told = f"{method}: {metric} on {known} of {ran} splits only; its mean is of those"
        return f"{told}, and it is not ranked with methods that have them all."
    return ""


def _way_out(metric: str) -> str:
    if get_metric(metric).needs_std:
        return f"{metric} needs a method that gives standard deviations; or rank by rmse."
    return f"{metric} is not defined where targets or predictions do not vary; rank by rmse."


@dataclass(frozen=True)
class Difference:
    """Mean paired difference, its corrected standard error, t and two-sided p; NaN where one fold says nothing."""

    mean: float
    error: float
    t: float
    p: float


def corrected_t_test(differences, *, n_train: float, n_test: float) -> Difference:
    r"""The corrected resampled t-test of Nadeau and Bengio, for paired differences over repeated folds.

    Training sets overlap, so the differences d_1, ..., d_n are not independent and their plain standard error is too
    small. With s² their sample variance, the variance of the mean is taken to be (1/n + n_test/n_train) s², and
    t = mean / root of it has n - 1 degrees of freedom. Every difference must be of another split: the same split again
    with another seed tells nothing about other training bags, so take its mean over seeds first. One difference has
    no variance, and no p.

    References
    ----------
    Nadeau, Bengio (2003), Inference for the generalization error. Bouckaert, Frank (2004), Evaluating the
    replicability of significance tests for comparing learning algorithms (for repeated folds).

    Examples
    --------
    >>> found = corrected_t_test([0.1, 0.2, 0.3, 0.2], n_train=80, n_test=20)
    >>> round(found.mean, 3), round(found.error, 4), round(found.p, 4)
    (0.2, 0.0577, 0.0405)
    """
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    mean = float(differences.mean()) if n else float("nan")
    if n < 2:
        return Difference(mean, float("nan"), float("nan"), float("nan"))
    error = float(np.sqrt((1 / n + n_test / n_train) * differences.var(ddof=1)))
    if error == 0:  # the same on every fold
        return Difference(mean, 0.0, float("nan") if mean == 0 else float(np.sign(mean)) * np.inf, float(mean == 0))
    t = mean / error
    return Difference(mean, error, t, float(2 * student.sf(abs(t), n - 1)))


def holm(p_values) -> np.ndarray:
    """p-values corrected for making several comparisons at once (Holm, 1979). NaN stays NaN and does not count.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return corrected


def contenders(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the columns (methods) that can be ranked, and of the rows (splits) to rank them on.

    A method that fails on the hard splits has a better mean for it. So those with a value on every split (that any
    method has one on) are ranked; if there is none, those with any value, on the splits that all of these have.

    Examples
    --------
    >>> import numpy as np
    >>> [mask.tolist() for mask in contenders(np.array([[0.1, 0.3, np.nan], [0.2, np.nan, np.nan]]))]
    [[True, False, False], [True, True]]
    >>> [mask.tolist() for mask in contenders(np.array([[np.nan, 0.3], [0.2, 0.1], [0.1, np.nan]]))]
    [[True, True], [False, True, False]]
    """
    known = ~np.isnan(losses)
    some = known.any(axis=0)
    complete = some & known[known.any(axis=1)].all(axis=0)
    methods = complete if complete.any() else some
    return methods, known[:, methods].all(axis=1) & methods.any()


def average_ranks(losses: np.ndarray) -> np.ndarray:
    """Mean rank of every column (method) among the `contenders`; 1 is best, ties share, NaN for those not ranked.

    Examples
    --------
    >>> import numpy as np
    >>> average_ranks(np.array([[0.1, 0.3, 0.2], [0.2, 0.2, np.nan]])).tolist()
    [1.25, 1.75, nan]
    """
    methods, rows = contenders(losses)
    ranks = np.full(losses.shape[1], np.nan)
    if rows.any():
        ranks[methods] = rankdata(losses[rows][:, methods], axis=1).mean(axis=0)
    return ranks


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
