"""Missing values filled in: by the median of the bag, else of the training bags; never by other new bags."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import Bags, check_bags, remember_columns
from bagwise.bags.segments import segment_median
from bagwise.bags.validation import and_others

SHARE = "share missing"  # the name of the column that says how much of an instance was missing


class Imputation(BaseEstimator):
    r"""Fill in missing values (NaN) of instances, and say in a column of its own how many there were.

    A missing value of column j in bag i becomes the median of the values that bag i has in that column. A bag that has
    none takes the median over training bags of their medians, so that a large bag counts no more than a small one.
    If training bags had missing values, a last column holds the share of an instance's columns that were missing:
    that something is missing may say something of the target.

    Only training bags decide what is learned, so inside cross-validation nothing of held-out bags is seen, and a new
    bag is filled in alike in any company.

    Parameters
    ----------
    share : bool, default True
        Whether to add the column of shares.

    Attributes
    ----------
    medians_ : array, one per column
    has_share_ : bool
        Whether the column of shares is added: the training bags had missing values, and ``share`` is set.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> from bagwise.instances import Imputation
    >>> bags = bw.from_arrays([[[1.0], [np.nan], [3.0]], [[np.nan]], [[7.0]]], missing="keep")
    >>> Imputation().fit_transform(bags).instances.tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.5, 1.0], [7.0, 0.0]]
    """

    def __init__(self, *, share: bool = True):
        self.share = share

    def fit(self, bags, y=None) -> Imputation:
        bags = check_bags(bags, allow_missing=True, allow_weights=True, apart=True)
        self.fit_medians(bag_medians(bags), bags, has_missing=bags.has_missing)
        remember_columns(self, bags)
        return self

    def fit_medians(self, medians: np.ndarray, bags: Bags, *, has_missing: bool) -> None:
        """As `fit`, when the medians of the training bags are known; of ``bags`` only the names of columns count."""
        empty = np.flatnonzero(np.isnan(medians).all(axis=0))
        if len(empty):
            name = empty[0] if bags.feature_names is None else repr(str(bags.feature_names[empty[0]]))
            raise ValueError(
                f"column {name}{and_others(len(empty) - 1)} has no value in the training bags, so nothing can be "
                "filled in; leave it out, which load does with ignore=[...]"
            )
        self.medians_ = np.nanmedian(medians, axis=0)
        self.has_share_ = bool(self.share and has_missing)

    def fit_transform(self, bags, y=None) -> Bags:
        return self.fit(bags).transform(bags)

    def transform(self, bags) -> Bags:
        check_is_fitted(self)
        bags = check_bags(bags, fitted=self, allow_missing=True, allow_weights=True, apart=True)
        missing = np.isnan(bags.instances)
        instances, names = bags.instances, bags.feature_names
        if missing.any():
            medians = bag_medians(bags)
            filling = np.where(np.isnan(medians), self.medians_, medians)
            instances = np.where(missing, bags.expand(filling), instances).astype(instances.dtype)
        if self.has_share_:
            instances = np.column_stack([instances, missing.mean(axis=1)]).astype(instances.dtype)
            names = None if names is None else [*names, SHARE]
        if instances is bags.instances:
            return bags
        return bags.replace(instances, feature_names=names)


def bag_medians(bags: Bags) -> np.ndarray:
    """The median of every column over the values that a bag has (bags, columns); NaN where it has none."""
    medians = segment_median(bags.instances, bags.offsets)  # NaN where a single value is missing
    for j in np.flatnonzero(np.isnan(medians).any(axis=0)):
        known = ~np.isnan(bags.instances[:, j])
        counts = np.add.reduceat(known.astype(np.int64), bags.offsets[:-1])
        offsets = np.concatenate([[0], np.cumsum(counts[counts > 0])])
        if len(offsets) > 1:
            medians[counts > 0, j] = segment_median(bags.instances[known, j], offsets)
    return medians
