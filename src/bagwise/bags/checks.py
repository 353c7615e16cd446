"""What `fit` and `predict` accept: bags, finite targets, weights of bags; the columns and ranges of training.

An estimator remembers the columns it was fitted on and the range of each. New bags must have the same columns; values
far outside the range are warned of, and stages that extrapolate badly keep to it. A model also keeps a
`TrainingProfile`, a few kilobytes: landmarks, the rows of some training bags in the embedding that these span, and how
far training bags lie from one another there. `bagwise.novelty` compares new bags with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bagwise.bags.arrays import as_bags
from bagwise.bags.container import Bags
from bagwise.bags.frames import differences, is_fill_value, plain_number, unframe
from bagwise.bags.segments import counting, segment_mean, segment_sum
from bagwise.bags.validation import (
    LARGEST,
    Message,
    Parameter,
    ParameterError,
    aligned,
    as_bag_weights,
    bags_of,
    in_column,
    name_bags,
    unmask,
    warn_user,
)

# A value is far outside if it lies beyond the training range by more than so many of its widths. New values of the same
# distribution do not, unless its tails are as heavy as those of a Cauchy distribution.
FAR = 3.0


def check_bags(
    bags, *, fitted=None, fitting=None, allow_missing: bool = False, allow_weights: bool = False, apart: bool = False
) -> Bags:
    """Convert the input of an estimator to `Bags`, and fill in missing values where they were declared.

    Parameters
    ----------
    bags : Bags, or a list of 2-D arrays or data frames (one per bag)
        At least one.
    fitted : estimator, optional
        A fitted estimator that called `remember_columns`. The bags must have the same features in the same order, and
        a warning names values far outside the range of training (see `find_far`). If the estimator has an
        ``imputation_``, missing values are filled in.
    fitting : estimator, optional
        The estimator whose ``fit`` this is. If the bags declare ``missing="impute"``, an `Imputation` is fitted on
        them, stored as ``imputation_`` of the estimator, and applied.
    allow_missing : bool, default False
        Whether remaining missing values (NaN) are accepted.
    allow_weights : bool, default False
        Whether instance weights are accepted; the caller must apply them.
    apart : bool, default False
        Whether covariates stay separate, for a caller that reads them. Otherwise they become columns of each instance.

    Returns
    -------
    Bags
    """
    if not isinstance(bags, Bags):
        bags = as_bags(bags, missing="keep" if hasattr(fitted, "imputation_") else "refuse")
    if len(bags) == 0:
        raise ValueError("Got 0 bags; at least one is required. Check the selection that produced them.")
    if bags.weights is not None and not allow_weights:
        raise ValueError("this method does not take instance weights; drop them with bags.without_weights()")
    bags = bags if apart else bags.spread()
    if fitted is not None:
        bags = _like_training(bags, fitted)
    elif fitting is not None:
        bags = _imputed_for(fitting, bags)
    if bags.has_missing and not allow_missing:
        refuse_missing(bags, fitting if fitted is None else fitted)
    return bags


def _like_training(bags: Bags, fitted) -> Bags:
    """Return new bags as a fitted estimator reads them: compared with its training bags, and imputed as they were."""
    imputation = getattr(fitted, "imputation_", None)
    if imputation is not None and bags.missing == "imputed":
        return bags  # by an outer method of the same estimator
    compare_columns(bags, fitted)
    if not bags.compared:
        warn_of_far(bags, fitted)
    bags = compared(bags)
    return bags if imputation is None else imputation.fill(bags)


def _imputed_for(estimator, bags: Bags) -> Bags:
    """Fit the imputation that the training bags declare, store it on the estimator, and return the imputed bags."""
    estimator.__dict__.pop("imputation_", None)
    if bags.missing != "impute":
        return bags
    from bagwise.bags.imputation import Imputation  # here, for it imports scikit-learn: loading stays light

    estimator.imputation_ = Imputation().fit(bags)
    return estimator.imputation_.fill(bags)


def refuse_missing(bags: Bags, estimator=None) -> None:
    """Raise an error that names the method, the first bag and the first column with a missing value."""
    missing = np.isnan(bags.instances)
    marked = bags_of(missing.any(axis=1), bags.offsets)
    names = bags.feature_names or range(bags.n_features)
    default = "this method" if estimator is None else type(estimator).__name__
    name = getattr(estimator, "_method_name", default)
    which = "the training bags and these" if hasattr(estimator, "n_features_in_") else "the bags"
    raise ParameterError(
        "missing",
        f"{name_bags(bags.ids, marked)} missing feature values (NaN){in_column(missing, names)}, which "
        f"{name} cannot read; to have them imputed, load {which} with ",
        Parameter("missing", "impute"),
        "; to leave such instances out, with ",
        Parameter("missing", "drop-instances"),
    )


def check_targets(y, bags: Bags, *, allow_missing: bool = False) -> np.ndarray:
    """Return one finite number per bag, as float64; a pandas Series is aligned by bag id.

    Parameters
    ----------
    y : one number per bag
    bags : Bags
    allow_missing : bool
        Whether NaN may stand for a bag without a target.
    """
    if y is None:
        raise ValueError("targets are missing: call fit(bags, y) with one number per bag")
    if type(y) is not np.ndarray or y.dtype == object:
        y = unmask(unframe(aligned(y, bags), "y")[0])
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 2 and len(y) == len(bags):
        raise ValueError(
            f"y has {y.shape[1]} targets per bag, and a method learns one; choose a column, or fit "
            "bw.MultiTarget(method), one model per target"
        )
    if y.ndim != 1:
        raise ValueError(f"y must be one number per bag, not an array of shape {y.shape}")
    if len(y) != len(bags):
        hint = ", one per instance; give one per bag" if len(y) == bags.n_instances else ""
        raise ValueError(f"y has {len(y)} values for {len(bags)} bags{hint}")
    if y.dtype.kind not in "fiub":
        raise TypeError(f"y must be numbers, not {y.dtype}")
    y = y.astype(np.float64)
    unknown = np.isinf(y) if allow_missing else ~np.isfinite(y)
    if unknown.any():
        raise ValueError(f"{name_bags(bags.ids, unknown)} a missing or infinite target; drop such bags before fitting")
    large = np.abs(y) > LARGEST
    if large.any():
        raise ValueError(
            f"{name_bags(bags.ids, large)} a target beyond {LARGEST:g}, whose square is infinite; rescale the targets"
        )
    return y


def check_fit(
    bags, y, *, fitting=None, allow_missing: bool = False, allow_weights: bool = False, apart: bool = False
) -> tuple[Bags, np.ndarray]:
    """Check the input of ``fit``: `check_bags`, `check_targets`, and at least two bags.

    Parameters
    ----------
    bags : Bags, or a list of 2-D arrays or data frames (one per bag)
    y : one finite number per bag
    fitting, allow_missing, allow_weights, apart : as in `check_bags`

    Returns
    -------
    bags : Bags
    y : array of float64
    """
    bags = check_bags(bags, fitting=fitting, allow_missing=allow_missing, allow_weights=allow_weights, apart=apart)
    y = check_targets(y, bags)
    if len(bags) < 2:
        raise ValueError("one bag is not enough to learn from; fit needs at least two")
    return bags, y


def check_weights(sample_weight, bags) -> np.ndarray | None:
    """Return bag weights with mean one over those above zero; None when all bags weigh the same.

    Only their ratios count, so a penalty means the same whatever the unit of the weights.

    Parameters
    ----------
    sample_weight : one number per bag from zero up, or None
    bags : Bags, or what `check_bags` takes

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.zeros((2, 1))] * 3)
    >>> check_weights([0, 10, 30], bags).tolist(), check_weights([7, 7, 7], bags)
    ([0.0, 0.5, 1.5], None)
    """
    if sample_weight is None:
        return None
    if hasattr(bags, "ids"):  # a head has rows
        sample_weight = aligned(sample_weight, bags, "sample_weight")
    weights = as_bag_weights(sample_weight, len(bags))
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        ids = getattr(bags, "ids", np.arange(len(bags)))
        raise ValueError(
            f"{name_bags(ids, wrong)} a sample_weight that is negative, missing or infinite; weights are numbers from "
            "zero up"
        )
    if not (weights > 0).any():
        raise ValueError("sample_weight is zero for every bag; at least one must be above zero")
    if (weights == weights[0]).all():
        return None
    weights = weights / weights.max()  # first, so that no sum overflows
    return weights / weights[weights > 0].mean()


def without_equal_weights(bags: Bags) -> Bags:
    """Return the bags without instance weights if all instances of each bag have the same weight."""
    if bags.weights is None:
        return bags
    first = bags.expand(bags.weights[bags.offsets[:-1]])
    return bags.without_weights() if (bags.weights == first).all() else bags


def weights_or_ones(sample_weight, bags) -> np.ndarray:
    """Return bag weights as `check_weights` does, with ones where all bags weigh the same.

    Parameters
    ----------
    sample_weight : one number per bag from zero up, or None
    bags : Bags
    """
    weights = check_weights(sample_weight, bags)
    return np.ones(len(bags)) if weights is None else weights


def one_of(value, options, parameter: str) -> None:
    """Refuse a value of a parameter that is none of its options.

    Examples
    --------
    >>> one_of("sum", ("mean", "median"), "statistic")
    Traceback (most recent call last):
    bagwise.bags.validation.ParameterError: statistic must be 'mean' or 'median', not 'sum'
    """
    if value not in options:
        *first, last = map(repr, options)
        raise ParameterError(parameter, f"{parameter} must be {', '.join(first)} or {last}, not {value!r}")


def whole_number(value, parameter: str, *, least: int = 1) -> None:
    """Refuse a value that is no whole number, or a smaller one than the least allowed."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        allowed = "above zero" if least == 1 else f"of at least {least}"
        raise ValueError(f"{parameter} must be a whole number {allowed}, not {value!r}")


def check_options(estimator, **options) -> None:
    """Refuse a parameter of the estimator that is none of its options: ``rule=("best", "one-se")``."""
    for name, values in options.items():
        one_of(getattr(estimator, name), values, name)


def remember_columns(estimator, bags: Bags) -> None:
    """Store on the estimator the names and the number of its features, their ranges, and the number of bags.

    Parameters
    ----------
    estimator : the one being fitted
    bags : Bags
        Those of ``fit``. A column that an imputation of the estimator added is not a feature.
    """
    imputation = getattr(estimator, "imputation_", None)
    if imputation is not None and bags.missing == "imputed":
        bags = imputation.without_share(bags)
    estimator.n_bags_in_ = len(bags)
    estimator.n_features_in_ = bags.n_features
    estimator.n_covariates_in_ = 0 if bags.covariates is None else bags.covariates.shape[1]
    for part in ("feature_names", "covariate_names"):
        names = getattr(bags, part)
        _store(estimator, f"{part}_in_", None if names is None else np.array(names, dtype=object))
    remember_ranges(estimator, bags)
    if hasattr(type(estimator), "predict"):
        remember_profile(estimator, bags)


def remember_profile(estimator, bags: Bags) -> None:
    """Store on the estimator the `TrainingProfile` with which `bagwise.novelty` compares new bags.

    A model has one profile: its parts, and the models of its folds, are fitted on bags that are marked as compared.
    """
    _store(estimator, "profile_", None if bags.compared else TrainingProfile(bags))


def compare_columns(bags: Bags, fitted) -> None:
    """Refuse bags whose features or covariates are not those that the estimator remembers."""
    if not hasattr(fitted, "n_features_in_"):
        from sklearn.exceptions import NotFittedError  # here, for scikit-learn imports pandas: loading stays light

        raise NotFittedError(f"this {type(fitted).__name__} is not fitted yet; call fit(bags, y) first")
    names = getattr(fitted, "feature_names_in_", None)
    if names is not None and bags.feature_names is not None:
        refuse_other_names(list(bags.feature_names), [str(name) for name in names])
    _compare_covariates(bags, fitted)
    if bags.n_features != fitted.n_features_in_:
        raise ValueError(
            f"bags have {bags.n_features} features, but {type(fitted).__name__} was fitted on {fitted.n_features_in_}"
        )


def _store(estimator, attribute: str, value) -> None:
    """Set an attribute, or remove the one of an earlier fit if there is no value."""
    estimator.__dict__.pop(attribute, None)
    if value is not None:
        setattr(estimator, attribute, value)


def _compare_covariates(bags: Bags, fitted) -> None:
    n, n_fitted = (0 if bags.covariates is None else bags.covariates.shape[1]), fitted.n_covariates_in_
    fitted_names = getattr(fitted, "covariate_names_in_", None)
    listed = "" if fitted_names is None else f" ({', '.join(map(str, fitted_names[:5]))})"
    if n != n_fitted:
        raise ParameterError(
            "bag_features",
            f"bags have {n} covariates, but {type(fitted).__name__} was fitted on {n_fitted}{listed}; load with ",
            Parameter("bag_features"),
            " the same columns, or use bags.with_covariates(values, names)",
        )
    if (
        fitted_names is not None
        and bags.covariate_names is not None
        and list(bags.covariate_names) != [str(n) for n in fitted_names]
    ):
        raise ValueError(
            f"the covariates are {', '.join(bags.covariate_names[:5])}, but {type(fitted).__name__} was fitted on "
            f"{', '.join(map(str, fitted_names[:5]))}, in that order"
        )


def refuse_other_names(names: list[str], fitted_names: list[str]) -> None:
    if names == fitted_names:
        return
    difference = differences(names, fitted_names)
    deviation = f"differ from those at fit ({difference})"
    if not difference:
        deviation = f"are in another order than at fit ({', '.join(fitted_names[:3])}, ...)"
    raise ValueError(
        f"the features {deviation}; load with features=list(estimator.feature_names_in_), or select those columns of "
        "your data frames, to have the same"
    )


def remember_range(estimator, low, high, *, of: str = "feature") -> None:
    """Store on the estimator the lowest and the highest training value of each column."""
    setattr(estimator, f"{of}_range_in_", np.array([low, high]))


def remember_ranges(estimator, bags: Bags) -> None:
    """Store the range of each feature and covariate of the training bags, without instances of weight zero."""
    counted = bags.instances if bags.weights is None else bags.instances[bags.weights > 0]
    remember_range(estimator, *_extremes(counted, bags.has_missing))
    _store(estimator, "covariate_range_in_", None)
    if bags.covariates is not None:
        remember_range(estimator, *_extremes(bags.covariates), of="covariate")


def compared(bags: Bags) -> Bags:
    """Return the bags marked as compared with training, so that parts of an estimator do not warn again."""
    return bags if bags.compared else bags._with(compared=True)


def within_range(bags: Bags, fitted, *, widths: float = 0.0) -> Bags:
    """Clip values to the training range, widened by a number of its widths; values within it are unchanged."""
    instances = _clipped(bags.instances, _limits(fitted, "feature", widths))
    covariates = None if bags.covariates is None else _clipped(bags.covariates, _limits(fitted, "covariate", widths))
    if instances is bags.instances and covariates is bags.covariates:
        return bags
    return bags._with(instances=instances, covariates=covariates)


class FarValue(NamedTuple):
    """A value far outside the range of training, and where it stands."""

    value: float
    column: str
    low: float
    high: float


def find_far(instances: np.ndarray, fitted, names=None, *, of: str = "feature") -> tuple[np.ndarray, FarValue | None]:
    """Return which rows hold a value far outside the training range, and the first of these values."""
    limits = _limits(fitted, of, FAR)
    rows = np.zeros(len(instances), dtype=bool)
    if limits is None or len(instances) == 0:
        return rows, None
    low, high = getattr(fitted, f"{of}_range_in_").astype(np.float64)
    extremes = _extremes(instances, missing=True)
    live = high > low  # a column that was constant in training says nothing of how far is far
    columns = np.flatnonzero(live & ((extremes[0] < limits[0]) | (extremes[1] > limits[1])))
    for j in columns:
        rows |= (instances[:, j] < limits[0][j]) | (instances[:, j] > limits[1][j])
    if len(columns) == 0:
        return rows, None
    row = int(rows.argmax())
    j = next(j for j in columns if not limits[0][j] <= instances[row, j] <= limits[1][j])
    name = str(j) if names is None else repr(str(names[j]))
    return rows, FarValue(float(instances[row, j]), name, float(low[j]), float(high[j]))


def warn_of_far(bags: Bags, fitted) -> None:
    """Warn, once, if bags hold values far outside the range of training."""
    rows, first = find_far(bags.instances, fitted, bags.feature_names)
    marked = np.zeros(len(bags), dtype=bool) if first is None else bags_of(rows, bags.offsets)
    if bags.covariates is not None:
        far_bags, first_covariate = find_far(bags.covariates, fitted, bags.covariate_names, of="covariate")
        if first_covariate is not None and (first is None or far_bags.argmax() < marked.argmax()):
            first = first_covariate
        marked = marked | far_bags
    if first is not None:
        say_far(bags.ids, marked, first)


def say_far(ids: np.ndarray, marked: np.ndarray, first: FarValue) -> None:
    """Warn about values far outside the training range: the first bag, its column and value."""
    number = plain_number(first.value)
    message = Message(
        f"{name_bags(ids, marked)} values far outside the range of training: "
        f"{number if first.value.is_integer() else f'{first.value:.6g}'} in column {first.column}, where "
        f"training had {first.low:.6g} to {first.high:.6g}; check its units"
    )
    if is_fill_value(first.value):
        message += Message(", or, if it stands for a missing value, load with ", Parameter("fill_values", [number]))
    warn_user(message)


def _extremes(values: np.ndarray, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest value of each column; NaN where there is none."""
    if missing:
        return np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    return values.min(axis=0), values.max(axis=0)


def _limits(fitted, of: str, widths: float) -> np.ndarray | None:
    limits = getattr(fitted, f"{of}_range_in_", None)
    if limits is None or widths == 0.0:
        return limits
    low, high = limits.astype(np.float64)
    return np.array([low - widths * (high - low), high + widths * (high - low)])


def _clipped(values: np.ndarray, limits: np.ndarray | None) -> np.ndarray:
    if limits is None:
        return values
    low, high = limits
    features, share = np.split(values, [len(low)], axis=1)  # an imputation adds a column, a share between 0 and 1
    if not ((features < low) | (features > high)).any():
        return values
    clipped = np.where(features < low, low, np.where(features > high, high, features))
    return np.ascontiguousarray(np.hstack([clipped, share]), dtype=values.dtype)


LANDMARKS = 12  # points that span the embedding
REFERENCES = 80  # training bags whose rows are kept
CALIBRATION = 300  # training bags whose distances are kept
INSTANCES = 2_000_000  # at most, of the bags that are embedded at fit; but of no fewer than `REFERENCES` bags
NEAREST = 3  # training bags to which the distance of a bag is averaged
FEWEST = 10  # bags (groups) of training from which on a distance can be called large
BLOCK_ROWS = 2**16


class TrainingProfile:
    r"""Range, landmark embedding and leave-one-out distances of the training bags.

    With z the columns in units of their deviation and l_1, ..., l_m points halfway between two training instances, a
    bag has the row μ, the mean of φ(z) = exp(-‖z - l_k‖² / 2s²) over its instances, s² the median squared distance.
    Rows are whitened by their covariance over the training bags, C + εI with ε the mean variance times max(0.05, m /
    bags), so that a direction in which training bags hardly differ counts as much as the others. The distance of a bag
    is the mean Euclidean distance to its nearest 3 of at most 80 training bags. A training bag is compared with others
    than itself (than those of its group), and the share of its instances outside the range with that of the others.

    Covariates are columns like others; a missing value is replaced by the mean of the column and is never outside.

    Parameters
    ----------
    bags : Bags

    Attributes
    ----------
    names : list of the columns, covariates last; None if they have none
    range : array (2, columns), the lowest and the highest training value
    distances, shares : leave-one-out distance, and share outside the range of the others, of at most 300 training bags
    """

    def __init__(self, bags: Bags):
        from bagwise.bags.folds import units_of  # here, for it imports scikit-learn: loading stays light

        bags = bags.spread()
        instances, offsets, weights = counting(bags.instances, bags.offsets, bags.weights)
        bags = bags._with(instances=instances, offsets=offsets, weights=weights, kept=None)
        self.names = None if bags.feature_names is None else list(bags.feature_names)
        lows, highs = (extreme.reduceat(instances, offsets[:-1], axis=0) for extreme in (np.fmin, np.fmax))
        self.range = np.array([np.fmin.reduce(lows, axis=0), np.fmax.reduce(highs, axis=0)])
        unit = units_of(bags)
        self.n_bags, self.n_units = len(bags), int(unit.max()) + 1
        if self.n_units < FEWEST:
            return
        chosen = _some_bags(bags)
        sample, unit_of_sample = bags[chosen], unit[chosen]
        self._fit_embedding(sample)
        rows = self._rows(sample)
        reference_positions = np.sort(np.random.default_rng(1).permutation(len(sample))[:REFERENCES])
        self.references = rows[reference_positions].astype(np.float32)
        apart = unit_of_sample[:, None] != unit_of_sample[reference_positions][None]
        self.distances = _nearest(rows, self.references, apart).astype(np.float32)
        low, high = _of_others(lows, unit, np.fmin)[chosen], _of_others(highs, unit, np.fmax)[chosen]
        marked = _outside(sample, sample.expand(low), sample.expand(high))
        self.shares = _share(np.logical_or.reduce(marked, axis=1), sample).astype(np.float32)

    # At fit ---------------------------------------------------------------------------------------------------------

    def _fit_embedding(self, bags: Bags) -> None:
        rng = np.random.default_rng(0)
        values = bags.instances.astype(np.float64)
        present = ~np.isnan(values)
        counts = np.maximum(present.sum(axis=0), 1)
        self.centre = np.where(present, values, 0.0).sum(axis=0) / counts
        deviation = np.sqrt((np.where(present, values - self.centre, 0.0) ** 2).sum(axis=0) / counts)
        live = deviation > 1e-9 * np.maximum(np.abs(self.centre), 1e-300)  # a column that varies by rounding alone
        self.factor = np.where(live, 1 / np.where(live, deviation, 1.0), 0.0)
        # Points halfway between instances of two bags: one instance itself would set its own bag apart.
        pairs = rng.integers(len(bags), size=(2, LANDMARKS))
        rows = bags.offsets[pairs] + rng.integers(bags.sizes[pairs])
        self.landmarks = self._scaled(values[rows]).mean(axis=0).astype(np.float32)
        sample = rng.permutation(len(values))[:1000]
        squares = _squared_distances(self._scaled(values[sample]), self.landmarks)
        self.width = float(np.median(squares)) or 1.0
        means = self._means(bags)
        self.mean = means.mean(axis=0)
        variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(means.T)))
        ridge = max(0.05, len(self.mean) / len(means)) * max(variances.mean(), 1e-12)
        self.whitening = directions / np.sqrt(np.maximum(variances, 0.0) + ridge)

    # The embedding --------------------------------------------------------------------------------------------------

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        values = np.where(np.isnan(values), self.centre, values)
        return (values - self.centre) * self.factor

    def _means(self, bags: Bags) -> np.ndarray:
        near = np.empty((bags.n_instances, len(self.landmarks)))
        for start in range(0, bags.n_instances, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            squares = _squared_distances(self._scaled(bags.instances[rows].astype(np.float64)), self.landmarks)
            near[rows] = np.exp(-squares / (2 * self.width))
        return segment_mean(near, bags.offsets, bags.weights)

    def _rows(self, bags: Bags) -> np.ndarray:
        # By einsum: the row of a bag is the same to the last bit whatever other bags there are.
        return np.einsum("ij,jk->ik", self._means(bags) - self.mean, self.whitening)

    # New bags -------------------------------------------------------------------------------------------------------

    def outside(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Return the share of the instances of each bag outside the range: in any column (bags,), and (bags, columns).

        By their weights, if they have some.
        """
        bags = bags.spread()
        marked = _outside(bags, *self.range)
        return _share(np.logical_or.reduce(marked, axis=1), bags), _share(marked, bags)

    def distance(self, bags: Bags) -> np.ndarray:
        """Return the mean distance of each bag to its nearest training bags."""
        return _nearest(self._rows(bags.spread()), self.references)

    def ranks(self, distance: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how many training bags have a smaller distance, and how many a smaller maximum of both ranks."""
        by_distance, larger = _ranks(self.distances, distance), self._larger(distance, share)
        return by_distance, _ranks(self._larger(self.distances, self.shares), larger)

    def _larger(self, distance: np.ndarray, share: np.ndarray) -> np.ndarray:
        return np.maximum(_ranks(self.distances, distance), _ranks(self.shares, share))


def _ranks(references: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return how many reference values are smaller than each value; differences of float32 rounding do not count."""
    values = np.asarray(values, dtype=np.float64) * (1 - 1e-6)
    return np.searchsorted(np.sort(references), values.astype(np.float32), side="left")


def _some_bags(bags: Bags) -> np.ndarray:
    """Return positions of randomly chosen bags that together hold at most ``INSTANCES`` instances."""
    order = np.random.default_rng(0).permutation(len(bags))[:CALIBRATION]
    few_enough = np.cumsum(bags.sizes[order]) <= INSTANCES
    few_enough[:REFERENCES] = True
    return np.sort(order[few_enough])


def _of_others(ends: np.ndarray, unit: np.ndarray, extreme: np.ufunc) -> np.ndarray:
    """Return for each bag the extreme over the bags of other units."""
    order = np.argsort(unit, kind="stable")
    starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
    of_unit = extreme.reduceat(ends[order], starts, axis=0)
    worst = -np.inf if extreme is np.fmax else np.inf
    filled = np.where(np.isnan(of_unit), worst, of_unit)
    first = filled.argmax(axis=0) if extreme is np.fmax else filled.argmin(axis=0)
    columns = np.arange(ends.shape[1])
    best = filled[first, columns]
    filled[first, columns] = worst
    second = extreme.reduce(filled, axis=0)
    units = np.arange(len(of_unit))[:, None]
    return np.where(units == first, second, best)[unit]


def _share(marked: np.ndarray, bags: Bags) -> np.ndarray:
    """Return the share of the marked instances in each bag."""
    shares = bags.shares().reshape(-1, *[1] * (marked.ndim - 1))
    return np.minimum(segment_sum(marked * shares, bags.offsets), 1.0)


def _outside(bags: Bags, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return which values lie outside the range, as (instances, columns); a missing value does not."""
    return (bags.instances < low) | (bags.instances > high)


def _squared_distances(values: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """Return squared distances, pair by pair: a matrix product rounds differently for other numbers of rows."""
    from scipy.spatial.distance import cdist

    return cdist(values, landmarks.astype(np.float64), "sqeuclidean")


def _nearest(rows: np.ndarray, references: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    distances = np.sqrt(_squared_distances(rows, references))
    if allowed is not None:
        distances = np.where(allowed, distances, np.inf)
    nearest = np.sort(distances, axis=1)[:, :NEAREST]
    near = np.isfinite(nearest)
    return np.where(near, nearest, 0.0).sum(axis=1) / np.maximum(near.sum(axis=1), 1)
