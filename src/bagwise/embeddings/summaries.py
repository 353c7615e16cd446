"""Summary statistics of a bag, side by side: `Pool`; and, less the columns that never vary, `Statistics`."""

from __future__ import annotations

import numpy as np

from bagwise.bags import check_bags, check_fit, remember_columns
from bagwise.bags.segments import segment_max, segment_mean, segment_median, segment_min, segment_quantiles, segment_sum
from bagwise.embeddings.base import Embedding

POOLED = ("mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max", "quantiles", "size")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
POWERS = {"skewness": 3, "kurtosis": 4}


class Pool(Embedding):
    """Statistics of every feature over the instances of a bag, side by side.

    Parameters
    ----------
    statistics : tuple of {"mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max",
    "quantiles", "size"}
        Variance and the moments above it are those of the instances themselves (divided by the size of the bag); the
        skewness and kurtosis of a bag that does not vary are 0. "size" is log(1 + number of instances), one column.
        Instance weights weigh means, moments and quantiles; instances of weight zero are no instances.
    quantiles : tuple of probabilities, for "quantiles"

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.embeddings import Pool
    >>> bags = bw.from_arrays([np.array([1.0, 3.0]), np.array([5.0])])
    >>> Pool(("mean", "max")).fit_transform(bags).tolist()
    [[2.0, 3.0], [5.0, 5.0]]
    """

    def __init__(self, statistics=("mean",), *, quantiles=QUANTILES):
        self.statistics = statistics
        self.quantiles = quantiles

    @property
    def is_mean(self) -> bool:
        """Whether the row of a bag is the mean of those that its instances have alone."""
        return tuple(self.statistics) == ("mean",)

    def fit(self, bags, y=None) -> Pool:
        self._check()
        remember_columns(self, check_bags(bags, allow_weights=True))
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        return self._rows(bags)

    def _check(self) -> None:
        unknown = [name for name in self.statistics if name not in POOLED]
        if unknown or not len(self.statistics) or isinstance(self.statistics, str):
            raise ValueError(f"statistics must be a tuple of {', '.join(POOLED)}; got {self.statistics!r}")

    def _rows(self, bags) -> np.ndarray:
        return np.column_stack([self._one(name, bags) for name in self.statistics])

    def _one(self, name: str, bags) -> np.ndarray:
        X, offsets, weights = bags.instances, bags.offsets, bags.weights
        if name == "size":
            return np.log1p(bags.sizes if weights is None else segment_sum((weights > 0).astype(np.int64), offsets))
        if name == "quantiles":
            return segment_quantiles(X, offsets, self.quantiles, weights).reshape(len(bags), -1)
        if name in ("mean", "median", "min", "max"):
            whole = {"mean": segment_mean, "median": segment_median, "min": segment_min, "max": segment_max}
            return whole[name](X, offsets, weights)
        return _moment(name, bags)


def _moment(name: str, bags) -> np.ndarray:
    def mean(values):
        return segment_mean(values, bags.offsets, bags.weights)

    centred = bags.instances - bags.expand(mean(bags.instances))
    variance = mean(centred**2)
    if name == "variance":
        return variance
    deviation = np.sqrt(variance)
    if name == "deviation":
        return deviation
    power = POWERS[name]
    return shape(power, mean(centred**power), deviation, mean(np.abs(bags.instances)))


def shape(power: int, moment: np.ndarray, deviation: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Skewness (power 3) or kurtosis (4) from the central moment, the deviation and the mean of |x|."""
    # A feature that is constant in a bag has a deviation of rounding size, and no shape.
    flat = deviation <= 1e-9 * np.maximum(size, 1e-300)
    standardised = moment / np.where(flat, 1.0, deviation) ** power - (3.0 if power == 4 else 0.0)
    return np.where(flat, 0.0, standardised)


STATISTICS = ("mean", "deviation", "quantiles", "min", "max", "size")


class Statistics(Pool):
    """Mean, deviation, quantiles, extremes and size of a bag, then its covariates; columns constant in training go.

    Sparse data (words in sentences) have a thousand columns whose quartiles are all zero: dropping them halves the
    work of what follows and changes nothing. It stands first in a pipeline, so it also checks the targets, which
    scikit-learn's regressors would refuse with errors about rows.

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
