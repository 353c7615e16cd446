"""The stage that standardises instances, fitted from the sums of the columns."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.bags import remember_columns
from bagwise.instances import EachInstance
from bagwise.instances.random_features import varies
from bagwise.sums.survey import Survey


def is_standardised(stage) -> bool:
    """Whether a stage is that of `methods.learners.standardised`: within the range of training, then standardised."""
    if not isinstance(stage, EachInstance) or not isinstance(stage.estimator, Pipeline):
        return False
    return [type(step) for _, step in stage.estimator.steps] == [MinMaxScaler, StandardScaler]


def fit_scaling(stage: EachInstance, survey: Survey) -> EachInstance:
    """The stage, fitted as if on all instances.

    scikit-learn learns from rows: two of them have the extremes of all, and two others their mean and deviation.
    """
    stage, columns = clone(stage), survey.columns
    (_, ranged), (_, standardised) = stage.estimator.steps
    # What varies by rounding alone is constant: the order of adding must not decide how it is blown up.
    live = varies(columns.deviation, columns.largest)
    ranged = clone(ranged).fit(np.vstack([columns.low, np.where(live, columns.high, columns.low)]))
    mean, deviation = (columns.mean * ranged.scale_ + ranged.min_), columns.deviation * ranged.scale_
    mean, deviation = np.where(live, mean, 0.0), np.where(live, deviation, 0.0)
    standardised = clone(standardised).fit(np.vstack([mean - deviation, mean + deviation]))
    ranged.n_samples_seen_ = standardised.n_samples_seen_ = columns.n
    names = [name for name, _ in stage.estimator.steps]
    stage.estimator_ = Pipeline(list(zip(names, (ranged, standardised), strict=True)))
    remember_columns(stage, survey.bags)
    return stage
