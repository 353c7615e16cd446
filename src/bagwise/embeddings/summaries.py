"""The base class `Embedding`, covariates of bags as additional columns, and summary statistics of bags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from bagwise.bags import Bags, check_bags, check_fit, remember_columns
from bagwise.bags.imputation import SHARE
from bagwise.bags.segments import (
    chosen_offsets,
    segment_cumsum,
    segment_max,
    segment_mean,
    segment_median,
    segment_min,
    segment_quantiles,
    segment_search,
    segment_sum,
)
from bagwise.bags.validation import check_options, whole_number
from bagwise.kernels.formulas import scale_of


class Embedding(BaseEstimator):
    """Base class of embeddings, which turn bags into one row per bag: ``fit(bags, y=None)``, ``transform(bags)``.

    A subclass defines ``transform``, and ``fit`` or ``fit_transform``.

    Attributes
    ----------
    columns : {"features", "gram"}
        Whether the columns are features, or similarities to the training bags.
    is_mean : bool
        Whether the row of a bag is the mean of the rows of its instances.
    reads_covariates : bool
        Whether the embedding includes the covariates of bags; otherwise they are joined to its rows.
    """

    columns: Any = "features"
    is_mean: Any = False
    reads_covariates = False

    def fit(self, bags, y=None) -> Self:
        self.fit_transform(bags, y)
        return self

    def fit_transform(self, bags, y=None) -> np.ndarray:
        return self.fit(bags, y).transform(bags)

    def fit_grid(self, bags, y, settings: Iterable[dict]) -> Iterator[tuple[dict, Embedding, np.ndarray]]:
        """Yield, for each setting of the parameters, the setting, a fitted copy, and the rows of the training bags."""
        for setting in settings:
            fitted = clone(self).set_params(**setting)
            yield setting, fitted, fitted.fit_transform(bags, y)

    def project(self, bags, coef: np.ndarray) -> np.ndarray:
        """Compute ``transform(bags) @ coef`` for a linear head; subclasses may do so without the rows."""
        # One dot product per row, because BLAS may round a row differently beside other rows.
        return np.einsum("ij,j->i", self.transform(bags), coef)


@dataclass(frozen=True)
class CovariatesBeside:
    r"""Covariates c of bags, standardised over the training bags and multiplied by a factor a, as additional columns.

    Features get columns, z ↦ [z, a c]. Similarities to the training bags get the linear kernel of the covariates,
    K_ij + a² c_i·c_j, which gives the same ridge regression. The factor a is such that the covariates together vary as
    much as the rows, a² Σ var(c) = Σ var(z), so one penalty is suitable for both.
    """

    mean: np.ndarray
    scale: np.ndarray  # infinite for a constant covariate, which then has no effect
    factor: float
    training: np.ndarray | None  # scaled covariates of the training bags, for a Gram matrix

    @classmethod
    def of(cls, covariates: np.ndarray, rows: np.ndarray, gram: bool) -> CovariatesBeside:
        spread = np.trace(rows) / len(rows) - rows.mean() if gram else rows.var(axis=0).sum()
        scale = scale_of(covariates.std(axis=0), np.abs(covariates).max(axis=0), constant=np.inf)
        factor = float(np.sqrt(max(spread, 0.0) / max(np.isfinite(scale).sum(), 1))) or 1.0
        fitted = cls(covariates.mean(axis=0), scale, factor, None)
        return replace(fitted, training=fitted._scaled(covariates)) if gram else fitted

    def join(self, rows: np.ndarray, covariates) -> np.ndarray:
        """Return the rows of the embedding with the covariates of the same bags as additional columns."""
        scaled = self._scaled(covariates)
        if self.training is None:
            return rows.with_columns(scaled) if hasattr(rows, "with_columns") else np.hstack([rows, scaled])
        # einsum instead of BLAS, so that a row does not depend on the number of rows.
        return rows + np.einsum("ij,kj->ik", scaled, self.training)

    def _scaled(self, covariates: np.ndarray) -> np.ndarray:
        return self.factor * (covariates - self.mean) / self.scale


POOLED = ("mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max", "quantiles", "size")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
POWERS = {"skewness": 3, "kurtosis": 4}
WHOLE = {"mean": segment_mean, "median": segment_median, "min": segment_min, "max": segment_max}


class Pool(Embedding):
    """Statistics of each feature over the instances of a bag.

    Parameters
    ----------
    statistics : tuple of str, default ("mean",)
        Of "mean", "median", "variance", "deviation", "skewness", "kurtosis", "min", "max", "quantiles" and "size".
        Moments are those of the instances (divided by the size of the bag); the skewness and kurtosis of a bag that
        does not vary are 0. "size" is log(1 + number of instances), one column. Instance weights are used in means,
        moments and quantiles, and instances of weight zero are ignored.
    quantiles : tuple of float, default (0.1, 0.25, 0.5, 0.75, 0.9)
        Probabilities for "quantiles".

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([1.0, 3.0]), np.array([5.0])])
    >>> Pool(("mean", "max")).fit_transform(bags).tolist()
    [[2.0, 3.0], [5.0, 5.0]]
    """

    def __init__(self, statistics=("mean",), *, quantiles=QUANTILES):
        self.statistics = statistics
        self.quantiles = quantiles

    @property
    def is_mean(self) -> bool:
        return tuple(self.statistics) == ("mean",)

    def fit_transform(self, bags, y=None) -> np.ndarray:
        self._check()
        bags = check_bags(bags, fitting=self, allow_weights=True)
        remember_columns(self, bags)
        return self._rows(bags)

    def transform(self, bags) -> np.ndarray:
        return self._rows(check_bags(bags, fitted=self, allow_weights=True))

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the columns, such as "mean of red"; ``input_features`` replace those of training."""
        names = self._names_in(input_features)
        return np.array([name for of in self.statistics for name in self._named(of, names)], dtype=object)

    def _names_in(self, input_features) -> np.ndarray:
        """Return the names of the features, with the share of missing values that an imputation adds."""
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        share = [SHARE] if getattr(getattr(self, "imputation_", None), "has_share_", False) else []
        return np.array([*input_features, *share], dtype=object)

    def _named(self, statistic: str, names) -> list[str]:
        if statistic == "size":
            return ["size"]
        if statistic == "quantiles":
            return [f"quantile {p:g} of {name}" for p in self.quantiles for name in names]
        return [f"{statistic} of {name}" for name in names]

    def _check(self) -> None:
        unknown = [name for name in self.statistics if name not in POOLED]
        if unknown or not len(self.statistics) or isinstance(self.statistics, str):
            raise ValueError(f"statistics must be a tuple of {', '.join(POOLED)}; got {self.statistics!r}")

    def _rows(self, bags) -> np.ndarray:
        return np.column_stack([self._statistic(name, bags) for name in self.statistics])

    def _statistic(self, name: str, bags) -> np.ndarray:
        X, offsets, weights = bags.instances, bags.offsets, bags.weights
        if name == "size":
            return np.log1p(bags.sizes if weights is None else segment_sum((weights > 0).astype(np.int64), offsets))
        if name == "quantiles":
            return segment_quantiles(X, offsets, self.quantiles, weights).reshape(len(bags), -1)
        if name in WHOLE:
            return WHOLE[name](X, offsets, weights)
        mean = partial(segment_mean, offsets=offsets, weights=weights)
        centred = X - bags.expand(mean(X))
        variance = mean(centred**2)
        if name == "variance":
            return variance
        deviation = np.sqrt(variance)
        if name == "deviation":
            return deviation
        power = POWERS[name]
        # A feature that is constant in a bag has a deviation within rounding, so its skewness and kurtosis are zero.
        flat = deviation <= 1e-9 * np.maximum(mean(np.abs(X)), 1e-300)
        standardised = mean(centred**power) / np.where(flat, 1.0, deviation) ** power - (3.0 if power == 4 else 0.0)
        return np.where(flat, 0.0, standardised)


STATISTICS = ("mean", "deviation", "quantiles", "min", "max", "size")


class Statistics(Pool):
    """Statistics of each feature over the instances of a bag, and the covariates of the bag, without constant columns.

    Dropping columns that are constant over the training bags, such as the quartiles of rare words, saves later steps
    time. As the first step of a pipeline, it also checks the targets.

    The mean of a level of a category (``crop=wheat``, see `bagwise.load`), which is 1 or 0, is its share in the bag.
    Quantiles and extremes of levels are left out.

    Parameters
    ----------
    statistics : tuple of str, default ("mean", "deviation", "quantiles", "min", "max", "size")
        As in `Pool`.
    quantiles : tuple of float, default (0.25, 0.5, 0.75)
        Probabilities for "quantiles".
    by : str or sequence of str, default ()
        Categories. For each level, columns are added with the mean of each other feature over the instances of that
        level, or over all instances of a bag that has none of the level.
    missing : {"refuse", "keep"}, default "refuse"
        "keep" accepts missing values (NaN): statistics are those of the observed values, and NaN for bags without
        any. The next step must accept NaN, as boosted trees do.

    Attributes
    ----------
    varies_ : mask (columns,)
        The columns that vary over the training bags, or the first if none does.
    levels_ : mask (features,)
        The features that are levels of a category.

    Examples
    --------
    The share of two types of cell, and the mean size of each:

    >>> import bagwise as bw, pandas as pd
    >>> cells = pd.DataFrame({"donor": [1, 1, 1, 2], "size": [2.0, 4.0, 9.0, 5.0], "type": ["T", "T", "B", "B"]})
    >>> bags, _ = bw.load(cells, bag="donor", categories="type")
    >>> Statistics(("mean",), by="type").fit_transform(bags).round(2).tolist()
    [[0.33, 0.67, 9.0, 3.0], [1.0, 0.0, 5.0, 5.0]]
    """

    def __init__(self, statistics=STATISTICS, *, quantiles=(0.25, 0.5, 0.75), by=(), missing="refuse"):
        super().__init__(statistics, quantiles=quantiles)
        self.by = by
        self.missing = missing

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "keep"
        return tags

    def _options(self) -> dict:
        return {"allow_missing": self.missing == "keep", "allow_weights": True, "apart": True}

    def fit_transform(self, bags, y=None) -> np.ndarray:
        if y is None:
            bags = check_bags(bags, fitting=self, **self._options())
        else:
            bags, _ = check_fit(bags, y, fitting=self, **self._options())
        self.remember_levels(bags)
        rows = self._rows(bags)
        missing = np.isnan(rows)
        low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)  # NaN is ignored
        self.keep_columns((high > low) | (missing.any(axis=0) & ~missing.all(axis=0)))
        return rows[:, self.varies_]

    def _check(self) -> None:
        check_options(self, missing=("refuse", "keep"))
        super()._check()

    def remember_levels(self, bags) -> None:
        """Record the columns, and which of them are levels of a category."""
        self._check()
        remember_columns(self, bags)
        names = {name: j for j, name in enumerate(bags.feature_names or ())}
        categories = bags.categories or {}
        levels = [names[level] for levels in categories.values() for level in levels if level in names]
        self.levels_ = np.isin(np.arange(bags.n_features), levels)
        middle, self.by_ = self.feature_range_in_.mean(axis=0), []
        for name in [self.by] if isinstance(self.by, str) else self.by:
            if name not in categories or categories[name][0] not in names:
                raise ValueError(
                    f"by={name!r} is not a category of the instances. Categories are: "
                    f"{', '.join(map(repr, categories)) or 'none'}. Load the bags with categories=[{name!r}]."
                )
            self.by_ += [(names[level], float(middle[names[level]])) for level in categories[name]]

    def keep_columns(self, varies: np.ndarray) -> None:
        """Record which columns vary over the training bags, or the first if none does."""
        self.varies_ = varies
        self.varies_[0] |= not self.varies_.any()

    def transform(self, bags) -> np.ndarray:
        return self.all_columns(bags)[:, self.varies_]

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the columns that vary, such as "mean of red"."""
        names = self._names_in(input_features)
        levels, plain = names[self.levels_], names[~self.levels_]
        columns = [name for of in self.statistics for name in self._named(of, names if of == "mean" else plain)]
        columns += [] if "mean" in self.statistics else self._named("mean", levels)
        columns += [f"mean of {name} where {names[j]}" for j, _ in self.by_ for name in plain]
        covariates = getattr(self, "covariate_names_in_", [f"covariate {j}" for j in range(self.n_covariates_in_)])
        return np.array([*columns, *covariates], dtype=object)[self.varies_]

    def all_columns(self, bags) -> np.ndarray:
        """Compute all columns, those that are constant in training included."""
        return self._rows(check_bags(bags, fitted=self, **self._options()))

    def _rows(self, bags) -> np.ndarray:
        levels = self.levels_
        plain = bags if not levels.any() else _columns(bags, ~levels)
        parts = []
        for name in self.statistics:
            subset = bags if name == "mean" else plain
            if name == "size" or subset.n_features and not subset.has_missing:
                parts.append(self._statistic(name, subset))
            elif subset.n_features:
                parts.append(self._observed_statistic(name, subset))
        if levels.any() and "mean" not in self.statistics:
            parts.append(self._statistic("mean", _columns(bags, levels)))
        parts += [_mean_where(plain, bags.instances[:, j] > above) for j, above in self.by_]
        return np.column_stack(parts if bags.covariates is None else [*parts, bags.covariates])

    def _observed_statistic(self, name: str, bags) -> np.ndarray:
        """Compute a statistic of the values that are not missing, per feature; NaN for a bag without values."""
        columns = []
        for j in range(bags.n_features):
            observed = ~np.isnan(bags.instances[:, j]) & (bags.weights is None or bags.weights > 0)
            offsets, have_values = chosen_offsets(observed, bags.offsets)
            column = np.full((len(bags), len(self.quantiles) if name == "quantiles" else 1), np.nan)
            if have_values.any():
                weights = None if bags.weights is None else bags.weights[observed]
                values = bags._with(instances=bags.instances[observed, j : j + 1], offsets=offsets, weights=weights)
                column[have_values] = self._statistic(name, values)
            columns.append(column)
        # ordered as for complete bags: all columns for the first quantile, then for the second
        return np.stack(columns, axis=2).reshape(len(bags), -1) if name == "quantiles" else np.hstack(columns)


def _columns(bags, chosen: np.ndarray):
    """Return the bags with a subset of their features."""
    return bags._with(instances=bags.instances[:, chosen], feature_names=None)


def _mean_where(bags, chosen: np.ndarray) -> np.ndarray:
    """Return the mean of each feature over the chosen instances of a bag, or over all if none is chosen or observed."""

    def mean(shares):
        weights = np.where(np.isnan(bags.instances), 0.0, shares[:, None])
        sums = segment_sum(np.where(weights > 0, bags.instances, 0.0) * weights, bags.offsets)
        total = segment_sum(weights, bags.offsets)
        return np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)

    shares = bags.shares()
    of_level = mean(shares * chosen)
    return np.where(np.isnan(of_level), mean(shares), of_level)


ROUNDING = 1e-9  # tolerance, relative to the weight of a bag, when a sum of weights is compared with a probability
BLOCK_VALUES = 2**22  # projections per block: 32 MB


class SlicedQuantiles(Embedding):
    r"""Quantiles of instances projected on random directions; distances are sliced Wasserstein distances.

    On the line, the squared Wasserstein distance is W_2² = ∫ (Q_i(p) - Q_j(p))² dp, with Q the quantile function. With
    N quantiles at the midpoints p = (k + 1/2) / N along each of M directions θ on the unit sphere, the rows z satisfy

        SW_2² = 1/M Σ_θ W_2²(θ·P_i, θ·P_j) = ‖z_i - z_j‖².

    Q is a step function without interpolation, so distances along a direction are exact for bags whose sizes divide N.
    A second kernel on the rows, ``SecondKernel(SlicedQuantiles(), Gaussian(b))``, is exp(-γ SW_2²); with
    ``distance="l1"`` it is exp(-γ SW_1).

    Parameters
    ----------
    directions : int, default 100
        M. For one feature there is one direction, and the distance is W_2.
    quantiles : int, default 100
        N; a row has M·N columns.
    random_state : int, default 0

    Attributes
    ----------
    directions_ : array (features, directions) of unit length

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([3.0, 1.0]), np.array([2.0, 6.0])])
    >>> Z = SlicedQuantiles(quantiles=2).fit_transform(bags)
    >>> round(float(((Z[0] - Z[1]) ** 2).sum()), 12)  # ((1 - 2)² + (3 - 6)²) / 2
    5.0

    References
    ----------
    Kolouri, Zou, Rohde (2016), Sliced Wasserstein kernels for probability distributions. Meunier, Pontil, Ciliberto
    (2022), Distribution regression with sliced Wasserstein kernels.
    """

    def __init__(self, directions: int = 100, quantiles: int = 100, *, random_state: int = 0):
        self.directions = directions
        self.quantiles = quantiles
        self.random_state = random_state

    def fit(self, bags, y=None) -> SlicedQuantiles:
        bags = check_bags(bags, fitting=self, allow_weights=True)
        whole_number(self.directions, "directions")
        whole_number(self.quantiles, "quantiles")
        draws = np.random.default_rng(self.random_state).normal(size=(self.directions, bags.n_features)).T
        draws = np.ones((1, 1)) if bags.n_features == 1 else draws
        self.directions_ = draws / np.sqrt((draws**2).sum(axis=0))
        remember_columns(self, bags)
        return self

    def transform(self, bags) -> np.ndarray:
        bags = check_bags(bags, fitted=self, allow_weights=True)
        n_directions = self.directions_.shape[1]
        rows = np.empty((len(bags), n_directions, self.quantiles))
        step = max(1, BLOCK_VALUES // bags.n_instances)
        for start in range(0, n_directions, step):
            block = slice(start, start + step)
            projected = self.directions_[:, block].T @ bags.instances.T
            rows[:, block] = step_quantiles(projected, bags, self.quantiles)
        return rows.reshape(len(bags), -1) / np.sqrt(n_directions * self.quantiles)


def step_quantiles(values: np.ndarray, bags: Bags, n: int) -> np.ndarray:
    """Return the quantiles (k + 1/2) / n of each bag for several projections (lines, instances): (bags, lines, n).

    Q(p) is the smallest value with at least p of the (weight of the) bag at or below it. Without weights bags of one
    size are sorted together, as one array.
    """
    out = np.empty((len(bags), len(values), n))
    if bags.weights is not None:
        bag_of_row, share = bags.expand(np.arange(len(bags))), bags.shares()
        probabilities = np.tile((np.arange(n) + 0.5) / n - ROUNDING, (len(bags), 1))
        for j, line in enumerate(values):
            order = np.lexsort((line, bag_of_row))
            at = segment_search(segment_cumsum(share[order], bags.offsets), bags.offsets, probabilities)
            out[:, j] = line[order][np.minimum(at, bags.offsets[1:, None] - 1)]
        return out
    for size in np.unique(bags.sizes):
        same_size = np.flatnonzero(bags.sizes == size)
        ordered = np.sort(values[:, bags.offsets[same_size][:, None] + np.arange(size)], axis=-1)
        # the smallest value with at least (k + 1/2)/n of the bag at or below it, in integer arithmetic
        at = -(-(2 * np.arange(n) + 1) * size // (2 * n)) - 1
        out[same_size] = ordered[:, :, at].swapaxes(0, 1)
    return out
