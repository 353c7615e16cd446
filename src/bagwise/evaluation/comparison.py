"""Statistics of paired scores: the corrected resampled t-test, Holm's correction, ranks, the spread over splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student


@dataclass(frozen=True)
class Difference:
    """Mean paired difference, its corrected standard error, t and two-sided p; NaN where there is one fold only."""

    mean: float
    error: float
    t: float
    p: float


def corrected_t_test(differences, *, n_train: float, n_test: float) -> Difference:
    r"""Run the corrected resampled t-test of Nadeau and Bengio on paired differences over repeated folds.

    Training sets overlap, so the differences d_1, ..., d_n are not independent and their plain standard error is too
    small. With s² their sample variance, the variance of the mean is taken to be (1/n + n_test/n_train) s², and
    t = mean / root of it has n - 1 degrees of freedom. Every difference must be of another split: take the mean over
    seeds first. One difference has no variance, and no p.

    Parameters
    ----------
    differences : one number per split, method minus reference
    n_train, n_test : numbers of training and test bags of a split

    Returns
    -------
    Difference, with ``mean``, ``error``, ``t`` and ``p``

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
    n, nan = len(differences), float("nan")
    mean = float(differences.mean()) if n else nan
    if n < 2:
        return Difference(mean, nan, nan, nan)
    error = float(np.sqrt((1 / n + n_test / n_train) * differences.var(ddof=1)))
    if error == 0:  # the same on every fold
        return Difference(mean, 0.0, nan if mean == 0 else float(np.sign(mean)) * np.inf, float(mean == 0))
    t = mean / error
    return Difference(mean, error, t, float(2 * student.sf(abs(t), n - 1)))


def holm(p_values) -> np.ndarray:
    """Return p-values corrected for several comparisons (Holm, 1979); NaN stays NaN and does not count.

    Parameters
    ----------
    p_values : numbers between 0 and 1, NaN for a comparison without one

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(len(p), np.nan)
    comparable = np.flatnonzero(~np.isnan(p))
    order = comparable[np.argsort(p[comparable], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return corrected


def contenders(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of the columns (methods) that can be ranked, and of the rows (splits) to rank them on.

    A method that fails on the hard splits has a better mean for it. So those with a value on every split (that any
    method has one on) are ranked; if there is none, those with any value, on the splits that all of these have.
    """
    has_loss = ~np.isnan(losses)
    has_any = has_loss.any(axis=0)
    complete = has_any & has_loss[has_loss.any(axis=1)].all(axis=0)
    methods = complete if complete.any() else has_any
    return methods, has_loss[:, methods].all(axis=1) & methods.any()


def average_ranks(losses: np.ndarray) -> np.ndarray:
    """Return the mean rank of each column (method) among the `contenders`; 1 is best, NaN if not ranked."""
    methods, rows = contenders(losses)
    ranks = np.full(losses.shape[1], np.nan)
    if rows.any():
        ranks[methods] = rankdata(losses[rows][:, methods], axis=1).mean(axis=0)
    return ranks


def by_split(values: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """Return one value per distinct split: the mean over its repeats, which differ in the seed alone."""
    return np.array([values[splits == split].mean() for split in np.unique(splits)])


def spread(values: np.ndarray, repeats: np.ndarray, splits: np.ndarray | None = None) -> dict[str, float]:
    """Return mean and deviation over distinct splits, deviation of the means of repeats, and number of values.

    NaN values are left out. Over fixed splits the repeats are seeds: their values are averaged before the deviation
    over splits is taken, and the deviation of the means of repeats is that of the seed alone.
    """
    finite = ~np.isnan(values)
    values, repeats = values[finite], repeats[finite]
    parts = values if splits is None else by_split(values, splits[finite])
    deviations = [
        float(np.std(part, ddof=1)) if len(part) > 1 else float("nan") for part in (parts, by_split(values, repeats))
    ]
    mean = float(parts.mean()) if len(parts) else float("nan")
    return {"": mean, "_sd_folds": deviations[0], "_sd_repeats": deviations[1], "_cells": len(values)}
