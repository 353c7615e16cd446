"""Held-out predictions: fit without some samples, predict those. `hold_out` is what all cross-validation rests on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from bagwise.bags.folds import some_of
from bagwise.execution.resources import one_thread

Fit = Callable[[Any, np.ndarray, np.ndarray | None], Any]  # samples, targets, weights or None -> fitted model


class HeldOut(NamedTuple):
    """A model, its predictions of the samples that it was not fitted on, and the seconds of both."""

    model: Any
    predictions: np.ndarray
    fit_seconds: float
    predict_seconds: float


def fit_held_out(fit: Fit, X, y: np.ndarray, train: np.ndarray, test: np.ndarray, sample_weight=None) -> HeldOut:
    """Fit to the samples ``train`` and predict the samples ``test``, which may be none.

    Parameters
    ----------
    fit : function of samples, targets and weights (or None) that returns a fitted model
    X : Bags or array of rows
    y, sample_weight : one number per sample; weights may be None
    train, test : positions of samples
    """
    started = time.perf_counter()
    model = fit(*(some_of(train, X, y, sample_weight) if len(train) < len(y) else (X, y, sample_weight)))
    fitted = time.perf_counter()
    with one_thread():
        predictions = model.predict(X[test]) if len(test) else np.empty(0)
    return HeldOut(model, predictions, fitted - started, time.perf_counter() - fitted)


def hold_out(
    fits: Sequence[Fit], X, y: np.ndarray, folds: Iterable[tuple], *, sample_weight=None, n_jobs=None
) -> list[list[HeldOut]]:
    """Fit without each fold and predict it; return a list of `HeldOut`, one per fold, for each of ``fits``.

    Parameters
    ----------
    fits : functions as in `fit_held_out`
    X : Bags or array of rows
    y, sample_weight : one number per sample; weights may be None
    folds : pairs (train, test) of positions, such as ``Folds.pairs()``
        A sample that no fold tests has no prediction.
    n_jobs : int, optional
        Number of fits at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyRegressor
    >>> folds = [(np.array([0]), np.array([1])), (np.array([0, 1]), np.array([2]))]
    >>> fits = [lambda X, y, weight: DummyRegressor().fit(X, y)]
    >>> ((first, second),) = hold_out(fits, np.zeros((3, 1)), np.array([1.0, 3.0, 5.0]), folds)
    >>> first.predictions.tolist(), second.predictions.tolist()
    ([1.0], [2.0])
    """
    folds = list(folds)
    jobs = (delayed(fit_held_out)(fit, X, y, *fold, sample_weight) for fit in fits for fold in folds)
    found = Parallel(n_jobs=n_jobs)(jobs)
    return [found[start : start + len(folds)] for start in range(0, len(found), len(folds))]


def assemble(found: Sequence[HeldOut], folds: Iterable[tuple], n: int) -> np.ndarray:
    """Return the held-out prediction of each of n samples, NaN for those that no fold tests."""
    values = np.full(n, np.nan)
    for one, (_, test) in zip(found, folds, strict=True):
        values[test] = one.predictions
    return values
