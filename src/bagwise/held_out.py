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
    """A model, its predictions of samples that it was not fitted on, and the seconds of both."""

    model: Any
    predictions: np.ndarray
    fit_seconds: float
    predict_seconds: float


def fit_held_out(fit: Fit, train: np.ndarray, test: np.ndarray, X, y: np.ndarray, sample_weight=None) -> HeldOut:
    """Fit to the samples ``train`` and predict the samples ``test``, which may be none.

    Parameters
    ----------
    fit : function of samples, targets and weights (or None) that returns a fitted model
    train, test : positions of samples
    X : Bags or array of rows
    y, sample_weight : one number per sample; weights may be None
    """
    started = time.perf_counter()
    model = fit(*(some_of(train, X, y, sample_weight) if len(train) < len(y) else (X, y, sample_weight)))
    fitted = time.perf_counter()
    with one_thread():
        predictions = model.predict(X[test]) if len(test) else np.empty(0)
    return HeldOut(model, predictions, fitted - started, time.perf_counter() - fitted)


def hold_out(
    tasks: Iterable[tuple[Fit, np.ndarray, np.ndarray]], X, y: np.ndarray, *, sample_weight=None, n_jobs=None
) -> list[HeldOut]:
    """Return a `HeldOut` for each task (fit, train, test), as `fit_held_out` makes it.

    Parameters
    ----------
    tasks : tuples of a fit function and positions, such as those of ``Folds.pairs()``
    X : Bags or array of rows
    y, sample_weight : one number per sample; weights may be None
    n_jobs : int, optional
        Number of fits at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyRegressor
    >>> def fit(X, y, weight):
    ...     return DummyRegressor().fit(X, y)
    >>> folds = [(np.array([0]), np.array([1])), (np.array([0, 1]), np.array([2]))]
    >>> first, second = hold_out([(fit, *fold) for fold in folds], np.zeros((3, 1)), np.array([1.0, 3.0, 5.0]))
    >>> first.predictions.tolist(), second.predictions.tolist()
    ([1.0], [2.0])
    """
    return Parallel(n_jobs=n_jobs)(delayed(fit_held_out)(*task, X, y, sample_weight) for task in tasks)


def assemble(results: Sequence[HeldOut], folds: Iterable[tuple], n: int) -> np.ndarray:
    """Return the held-out prediction of each of n samples, NaN for those that no fold tests."""
    values = np.full(n, np.nan)
    for result, (_, test) in zip(results, folds, strict=True):
        values[test] = result.predictions
    return values
