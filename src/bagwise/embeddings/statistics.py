"""Summary statistics for trees and linear models: everything `Pool` knows, less what never varies."""

from __future__ import annotations

import numpy as np

from bagwise.bags import check_bags, check_fit, remember_columns
from bagwise.embeddings.pools import Pool

STATISTICS = ("mean", "deviation", "quantiles", "min", "max", "size")


class Statistics(Pool):
    """Mean, deviation, quantiles, extremes and size of a bag, then its covariates; columns constant in training go.

    Sparse data (words in sentences) have a thousand columns whose quartiles are all zero: dropping them halves the
    work of what follows and changes nothing. It stands first in a pipeline, so it also checks the targets, which
    scikit-learn's regressors would refuse in words about rows.

    Parameters
    ----------
    statistics, quantiles : as in `Pool`

    Attributes
    ----------
    varies_ : mask over the columns of `Pool`: which are kept (the first, when none varies)

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[5.0, 0.0]])])
    >>> Statistics(("mean", "max")).fit_transform(bags).tolist()
    [[2.0, 3.0], [5.0, 5.0]]
    """

    def __init__(self, statistics=STATISTICS, *, quantiles=(0.25, 0.5, 0.75)):
        super().__init__(statistics, quantiles=quantiles)

    def fit(self, bags, y=None) -> Statistics:
        self.fit_transform(bags, y)
        return self

    def fit_transform(self, bags, y=None) -> np.ndarray:
        options = {"allow_weights": True, "apart": True}
        bags = check_bags(bags, **options) if y is None else check_fit(bags, y, **options)[0]
        self._check()
        remember_columns(self, bags)
        return self.keep_varying(self._rows(bags))

    def keep_varying(self, rows: np.ndarray) -> np.ndarray:
        """Learn which columns vary over the training bags, and keep those."""
        self.varies_ = np.ptp(rows, axis=0) > 0
        self.varies_[0] |= not self.varies_.any()
        return rows[:, self.varies_]

    def transform(self, bags) -> np.ndarray:
        return self._rows(check_bags(bags, fitted=self, allow_weights=True, apart=True))[:, self.varies_]

    def _rows(self, bags) -> np.ndarray:
        rows = super()._rows(bags)
        return rows if bags.covariates is None else np.column_stack([rows, bags.covariates])
