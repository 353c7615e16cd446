"""Fast members with known errors."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import bagwise as bw
from bagwise.auto.cross_validation import CrossValidation
from bagwise.bags import check_bags, remember_columns
from bagwise.bags.folds import Folds
from bagwise.bags.segments import segment_mean


def problem(n=60, seed=0, noise=0.3, **options):
    """y is the sum of the centres of two columns; bags of two to five instances."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n, 3))
    bags = bw.from_arrays([c + 0.1 * rng.normal(size=(rng.integers(2, 6), 3)) for c in centres], **options)
    return bags, centres[:, 0] + centres[:, 1] + noise * rng.normal(size=n)


def five_folds(bags, y, **options):
    """Cross-validation on five folds, of every fifth bag each."""
    return CrossValidation(bags, y, [Folds(np.arange(len(y)) % 5)], **options)


class Column(RegressorMixin, BaseEstimator):
    """Least squares on the bag mean of one column."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, bags, y, sample_weight=None):
        x = self._rows(bags)
        self.slope_, self.intercept_ = np.polyfit(x, y, 1, w=None if sample_weight is None else np.sqrt(sample_weight))
        remember_columns(self, check_bags(bags))
        return self

    def predict(self, bags):
        return self.intercept_ + self.slope_ * self._rows(bags)

    def _rows(self, bags):
        bags = check_bags(bags)
        return segment_mean(bags.instances, bags.offsets)[:, self.column]


class Memory(Column):
    """Nearest neighbour on the mean of a column, without error on its training bags."""

    def fit(self, bags, y, sample_weight=None):
        self.x_, self.y_ = self._rows(bags), np.asarray(y)
        return self

    def predict(self, bags):
        return self.y_[np.abs(self._rows(bags)[:, None] - self.x_).argmin(axis=1)]


class Wild(Column):
    """Predictions with the scale of the targets, independent of the bag's target."""

    def predict(self, bags):
        return self.intercept_ + 3 * np.sin(1e4 * self._rows(bags))


class Broken(Column):
    def fit(self, bags, y, sample_weight=None):
        raise ValueError("this member is broken\nin two lines")


class Unsound(Column):
    def predict(self, bags):
        return np.full(len(bags), np.nan)


class Counting(Wild):
    """Member with large errors that counts its fits."""

    fits = 0

    def fit(self, bags, y, sample_weight=None):
        Counting.fits += 1
        return super().fit(bags, y, sample_weight)


TWO = [("first", Column(0)), ("second", Column(1))]
