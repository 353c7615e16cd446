"""`Imputation`: replace missing values by the median of their bag or, if it has none, of the training bags."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags.checks import check_bags, remember_columns
from bagwise.bags.container import Bags
from bagwise.bags.segments import chosen_offsets, segment_median
from bagwise.bags.validation import and_others

SHARE = "share missing"  # the name of the column that holds the share of missing values of an instance


class Imputation(BaseEstimator):
    r"""Imputation of missing values (NaN) by medians, with an additional column for the share of missing values.

    A missing value in a column becomes the median of the bag in this column. If the bag has no value in the column, the
    median of the medians of the training bags is used, so large and small bags count equally. If training bags have
    missing values, a last column has the share of missing values of each instance. Estimators impute bags loaded with
    ``missing="impute"`` themselves; this class is for pipelines with an explicit imputation step.

    Parameters
    ----------
    share : bool, default True
        Whether to add the column with the share of missing values.

    Attributes
    ----------
    medians_ : array of shape (n_features,)
        Value of each column for bags without a value in it.
    has_share_ : bool
        Whether the column with the share of missing values is added.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.instances import Imputation
    >>> bags = bw.from_arrays([[[1.0], [np.nan], [3.0]], [[np.nan]], [[7.0]]], missing="impute")
    >>> Imputation().fit_transform(bags).instances.tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.5, 1.0], [7.0, 0.0]]
    """

    def __init__(self, *, share: bool = True):
        self.share = share

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, bags, y=None) -> Imputation:
        """Compute the medians of the training bags."""
        bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        self.fit_medians(bag_medians(bags), bags, has_missing=bags.has_missing)
        remember_columns(self, bags)
        return self

    def fit_medians(self, medians: np.ndarray, bags: Bags, *, has_missing: bool) -> None:
        """Fit on the medians of the training bags; ``bags`` is used only for the column names."""
        empty = np.flatnonzero(np.isnan(medians).all(axis=0))
        if len(empty):
            name = empty[0] if bags.feature_names is None else repr(str(bags.feature_names[empty[0]]))
            raise ValueError(
                f"column {name}{and_others(len(empty) - 1)} has only missing values in the training bags, so it cannot "
                f"be imputed. Leave the column out, for instance with load(..., ignore=[{name}])."
            )
        self.medians_ = np.nanmedian(medians, axis=0)
        self.has_share_ = bool(self.share and has_missing)

    def fit_transform(self, bags, y=None) -> Bags:
        """Fit on the bags and return the imputed bags."""
        return self.fit(bags).fill(check_bags(bags, allow_missing=True, allow_weights=True, apart=True))

    def transform(self, bags) -> Bags:
        """Return the imputed bags, with the column of shares of missing values if ``has_share_``."""
        return self.fill(check_bags(bags, fitted=self, allow_missing=True, allow_weights=True, apart=True))

    def fill(self, bags: Bags) -> Bags:
        """Return the imputed bags; the input must have been checked."""
        instances, names = bags.instances, bags.feature_names
        missing = np.isnan(instances) if bags.has_missing else np.zeros(instances.shape, dtype=bool)
        if bags.has_missing:
            medians = bag_medians(bags)
            medians = np.where(np.isnan(medians), self.medians_, medians)
            instances = np.where(missing, bags.expand(medians), instances).astype(instances.dtype)
        if self.has_share_:
            instances = np.column_stack([instances, missing.mean(axis=1)]).astype(instances.dtype)
            names = None if names is None else (*names, SHARE)
        return bags._with(instances=instances, feature_names=names, has_missing=False, missing="imputed")

    def without_share(self, bags: Bags) -> Bags:
        """Return imputed bags without the column of shares."""
        if not self.has_share_:
            return bags
        names = None if bags.feature_names is None else bags.feature_names[:-1]
        return bags._with(instances=np.ascontiguousarray(bags.instances[:, :-1]), feature_names=names)


def bag_medians(bags: Bags) -> np.ndarray:
    """Return the median of each column in each bag (bags, columns), without missing values; NaN if all are missing."""
    medians = segment_median(bags.instances, bags.offsets)  # NaN if any value is missing
    for j in np.flatnonzero(np.isnan(medians).any(axis=0)):
        present = ~np.isnan(bags.instances[:, j])
        offsets, have_values = chosen_offsets(present, bags.offsets)
        if have_values.any():
            medians[have_values, j] = segment_median(bags.instances[present, j], offsets)
    return medians
