"""What every embedding has, unless it says otherwise."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator


class Embedding(BaseEstimator):
    """Bags in, one row per bag out: ``fit(bags, y=None)`` and ``transform(bags)``.

    Attributes
    ----------
    columns : {"features", "gram"}
        Whether the columns are features, or similarities to the training bags.
    is_mean : bool
        Whether the row of a bag is the mean of the rows that its instances have alone.
    """

    columns = "features"
    is_mean = False

    def fit_transform(self, bags, y=None) -> np.ndarray:
        return self.fit(bags, y).transform(bags)

    def project(self, bags, coef: np.ndarray) -> np.ndarray:
        """``transform(bags) @ coef``: what a linear head asks for. Where it takes no rows, an embedding says so."""
        # A dot product per row: BLAS may round a row differently in different company.
        return np.einsum("ij,j->i", self.transform(bags), coef)
