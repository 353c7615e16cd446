"""What cross-fitting gives: out-of-fold predictions of every row, and predictors for new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True)
class CrossFit:
    """A regressor trained once per fold, each time without that fold's rows.

    Attributes
    ----------
    predictions : array (rows, candidates)
        Column c holds, for every row, the prediction of candidate c's model that never saw the row's fold.
    candidates : tuple
        What each column is: ``({},)`` for a plain regressor, ``({"epochs": 5}, {"epochs": 10})`` for a network.
    predictor : function (candidate index, kind) -> fitted regressor
        For new rows; kind is ``"fold-mean"`` (average of the fold models), ``"refit"`` or ``"last-fold"``.
    """

    predictions: np.ndarray
    candidates: tuple[dict[str, Any], ...]
    predictor: Callable[[int, str], Any]


@runtime_checkable
class CrossFitting(Protocol):
    """A regressor that trains for all folds at once, or knows its held-out predictions in closed form."""

    def cross_fit(self, X, y, fold, *, sample_weight=None, n_jobs=None) -> CrossFit: ...
