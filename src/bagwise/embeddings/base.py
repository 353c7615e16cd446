"""What every embedding has, unless it says otherwise; and the covariates of bags beside its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone


class Embedding(BaseEstimator):
    """Bags in, one row per bag out: ``fit(bags, y=None)`` and ``transform(bags)``.

    Attributes
    ----------
    columns : {"features", "gram"}
        Whether the columns are features, or similarities to the training bags.
    is_mean : bool
        Whether the row of a bag is the mean of the rows that its instances have alone.
    reads_covariates : bool
        Whether it takes the covariates of bags into its rows itself.
    """

    columns: Any = "features"
    is_mean: Any = False
    reads_covariates = False

    def fit_transform(self, bags, y=None) -> np.ndarray:
        return self.fit(bags, y).transform(bags)

    def fit_grid(self, bags, y, settings: Iterable[dict]) -> Iterator[tuple[dict, Embedding, np.ndarray]]:
        """For every setting of the parameters: the setting, a fitted copy, and the rows of the training bags."""
        for setting in settings:
            fitted = clone(self).set_params(**setting)
            yield setting, fitted, fitted.fit_transform(bags, y)

    def project(self, bags, coef: np.ndarray) -> np.ndarray:
        """``transform(bags) @ coef``: what a linear head asks for. Where it takes no rows, an embedding says so."""
        # A dot product per row: BLAS may round a row differently in different company.
        return np.einsum("ij,j->i", self.transform(bags), coef)


@dataclass(frozen=True)
class CovariatesBeside:
    r"""Covariates c standardised over the training bags and multiplied by one factor a, beside the embedding's rows.

    Features get further columns, z ↦ [z, a c]; similarities to the training bags get the linear kernel of the
    covariates added, K_ij + a² c_i·c_j, which is the same ridge. a is such that the covariates together vary as much as
    the rows, a² Σ var(c) = Σ var(z), so that one penalty serves both.

    Attributes
    ----------
    mean, scale : of every covariate; the scale of a constant one is infinite, so that it stays out
    factor : a
    training : scaled covariates of the training bags, for a Gram matrix; else None
    """

    mean: np.ndarray
    scale: np.ndarray
    factor: float
    training: np.ndarray | None

    @classmethod
    def of(cls, covariates: np.ndarray, rows: np.ndarray, gram: bool) -> CovariatesBeside:
        spread = np.trace(rows) / len(rows) - rows.mean() if gram else rows.var(axis=0).sum()
        largest = np.abs(covariates).max(axis=0)
        fitted = cls.of_moments(covariates.mean(axis=0), covariates.std(axis=0), largest, spread)
        return replace(fitted, training=fitted._scaled(covariates)) if gram else fitted

    @classmethod
    def of_moments(cls, mean: np.ndarray, deviation: np.ndarray, largest: np.ndarray, spread: float):
        """The same for features, from moments of the covariates and Σ var(z) of the rows."""
        varies = deviation > 1e-12 * largest
        factor = float(np.sqrt(max(spread, 0.0) / max(varies.sum(), 1))) or 1.0
        return cls(mean, np.where(varies, deviation, np.inf), factor, None)

    def join(self, rows: np.ndarray, covariates) -> np.ndarray:
        """Rows of the embedding, with the covariates of the same bags."""
        scaled = self._scaled(covariates)
        if self.training is None:
            return np.hstack([rows, scaled])
        # einsum, not BLAS: a row must not depend on how many other rows there are.
        return rows + np.einsum("ij,kj->ik", scaled, self.training)

    def _scaled(self, covariates: np.ndarray) -> np.ndarray:
        return self.factor * (covariates - self.mean) / self.scale
