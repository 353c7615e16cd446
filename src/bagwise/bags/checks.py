"""Check the input of `fit` and `predict`: bags, finite targets, bag weights, and the columns and ranges of training.

An estimator stores the columns that it was fitted on, and the range of each. New bags must have the same columns.
Values far outside the range cause a warning, and stages that extrapolate badly clip values to it.
"""

from __future__ import annotations

import numpy as np

from bagwise.bags.arrays import as_bags
from bagwise.bags.container import Bags
from bagwise.bags.frames import differences, is_fill_value, plain_number, unframe
from bagwise.bags.validation import (
    LARGEST,
    ParameterError,
    aligned,
    as_numbers,
    bags_of,
    name_bags,
    name_values,
    refuse_bags,
    warn_user,
)

# A value is far outside if it exceeds the training range by more than FAR times its width. New values of the same
# distribution do so only if its tails are as heavy as those of a Cauchy distribution.
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
        a warning names values far outside the range of training. Its ``imputation_``, if any, is applied.
    fitting : estimator, optional
        The estimator whose ``fit`` this is. If the bags declare ``missing="impute"``, an `Imputation` is fitted on
        them, stored as its ``imputation_``, and applied.
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
        imputation = getattr(fitted, "imputation_", None)
        if imputation is None or bags.missing != "imputed":  # else by an outer method of the same estimator
            compare_columns(bags, fitted)
            if not bags.compared:
                warn_of_far(bags.ids, *find_far(bags, fitted))
            bags = compared(bags)
            bags = bags if imputation is None else imputation.fill(bags)
    elif fitting is not None:
        fitting.__dict__.pop("imputation_", None)
        if bags.missing == "impute":
            from bagwise.bags.imputation import Imputation  # here, for it imports scikit-learn: loading stays light

            fitting.imputation_ = Imputation().fit(bags)
            bags = fitting.imputation_.fill(bags)
    if bags.has_missing and not allow_missing:
        refuse_missing(bags, fitting if fitted is None else fitted)
    return bags


def refuse_missing(bags: Bags, estimator=None) -> None:
    """Raise an error that names the method, the first bag and the first column with a missing value."""
    names = bags.feature_names or range(bags.n_features)
    subject, where = name_values(np.isnan(bags.instances), bags.offsets, bags.ids, names)
    default = "this method" if estimator is None else type(estimator).__name__
    which = "the training bags and these" if hasattr(estimator, "n_features_in_") else "the bags"
    raise ParameterError(
        "missing",
        f"{subject} missing feature values (NaN){where}, which {getattr(estimator, '_method_name', default)} cannot "
        f"read; to have them imputed, load {which} with missing='impute'; to leave such instances out, with "
        "missing='drop-instances'",
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
    y = as_numbers(unframe(aligned(y, bags), "y")[0], "y")
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
    y = y.astype(np.float64)
    unknown = np.isinf(y) if allow_missing else ~np.isfinite(y)
    refuse_bags(unknown, bags.ids, "a missing or infinite target; drop such bags before fitting")
    large = np.abs(y) > LARGEST
    refuse_bags(large, bags.ids, f"a target beyond {LARGEST:g}, whose square is infinite; rescale the targets")
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
    """Return bag weights, scaled so that the positive ones have mean one; None if all bags have the same weight.

    Only ratios matter, so penalties do not depend on the unit of the weights.

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
    weights = as_numbers(sample_weight, "sample_weight").astype(np.float64)
    if weights.shape != (len(bags),):
        raise ValueError(f"sample_weight must have one entry per bag ({len(bags)}), not shape {weights.shape}")
    wrong, ids = ~(np.isfinite(weights) & (weights >= 0)), getattr(bags, "ids", np.arange(len(bags)))
    refuse_bags(wrong, ids, "a sample_weight that is negative, missing or infinite; weights are numbers from zero up")
    if not (weights > 0).any():
        raise ValueError("sample_weight is zero for every bag; at least one must be above zero")
    if (weights == weights[0]).all():
        return None
    weights = weights / weights.max()  # scale first, so that no sum overflows
    return weights / weights[weights > 0].mean()


def weights_or_ones(sample_weight, bags) -> np.ndarray:
    """Return bag weights as `check_weights` does, but ones instead of None.

    Parameters
    ----------
    sample_weight : one number per bag from zero up, or None
    bags : Bags
    """
    weights = check_weights(sample_weight, bags)
    return np.ones(len(bags)) if weights is None else weights


def without_equal_weights(bags: Bags) -> Bags:
    """Return the bags without instance weights if all instances of each bag have the same weight."""
    if bags.weights is None:
        return bags
    first = bags.expand(bags.weights[bags.offsets[:-1]])
    return bags.without_weights() if (bags.weights == first).all() else bags


def compared(bags: Bags) -> Bags:
    """Mark bags as compared with the training range, so that the steps of an estimator do not warn again."""
    return bags if bags.compared else bags._with(compared=True)


# The columns of training ----------------------------------------------------------------------------------------------


def remember_columns(estimator, bags: Bags) -> None:
    """Store on the estimator the names and the number of its features, their ranges, and the number of bags.

    Parameters
    ----------
    estimator : the one being fitted
    bags : Bags, those of ``fit``
    """
    imputation = getattr(estimator, "imputation_", None)
    if imputation is not None and bags.missing == "imputed":
        bags = imputation.without_share(bags)  # which is not a feature
    estimator.n_bags_in_ = len(bags)
    estimator.n_features_in_ = bags.n_features
    estimator.n_covariates_in_ = 0 if bags.covariates is None else bags.covariates.shape[1]
    for part in ("feature_names", "covariate_names"):
        names = getattr(bags, part)
        _store(estimator, f"{part}_in_", None if names is None else np.array(names, dtype=object))
    # Instances of weight zero do not widen the range.
    instances = bags.instances if bags.weights is None else bags.instances[bags.weights > 0]
    estimator.feature_range_in_ = np.array(_extremes(instances))
    _store(estimator, "covariate_range_in_", None if bags.covariates is None else np.array(_extremes(bags.covariates)))
    if hasattr(type(estimator), "predict"):
        remember_profile(estimator, bags)


def remember_profile(estimator, bags: Bags) -> None:
    """Store on the estimator the `TrainingProfile` with which `bagwise.novelty` compares new bags.

    A model has one profile: its steps and fold models store none, because their bags are marked as compared.
    """
    from bagwise.bags.training_profile import TrainingProfile  # here, for it imports scipy: loading stays light

    _store(estimator, "profile_", None if bags.compared else TrainingProfile(bags))


def _store(estimator, attribute: str, value) -> None:
    """Set an attribute, or remove the one of an earlier fit if there is no value."""
    estimator.__dict__.pop(attribute, None)
    if value is not None:
        setattr(estimator, attribute, value)


def compare_columns(bags: Bags, fitted) -> None:
    """Refuse bags whose features or covariates are not those that the estimator remembers."""
    kind = type(fitted).__name__
    if not hasattr(fitted, "n_features_in_"):
        from sklearn.exceptions import NotFittedError  # here, for scikit-learn imports pandas: loading stays light

        raise NotFittedError(f"this {kind} is not fitted yet; call fit(bags, y) first")
    for part in ("feature", "covariate"):
        names, fitted_names = getattr(bags, f"{part}_names"), getattr(fitted, f"{part}_names_in_", None)
        if names is not None and fitted_names is not None:
            refuse_other_names(list(names), [str(name) for name in fitted_names], part)
    n_covariates = 0 if bags.covariates is None else bags.covariates.shape[1]
    if n_covariates != fitted.n_covariates_in_:
        listed = f" ({', '.join(map(str, fitted_names[:5]))})" if fitted_names is not None else ""
        raise ParameterError(
            "bag_features",
            f"bags have {n_covariates} covariates, but {kind} was fitted on {fitted.n_covariates_in_}{listed}; load "
            "with bag_features= the same columns, or use bags.with_covariates(values, names)",
        )
    if bags.n_features != fitted.n_features_in_:
        raise ValueError(f"bags have {bags.n_features} features, but {kind} was fitted on {fitted.n_features_in_}")


def refuse_other_names(names: list[str], fitted_names: list[str], part: str = "feature") -> None:
    """Refuse names of features (or covariates) that differ from those of the fit, or have another order."""
    if names != fitted_names:
        parameter = "features" if part == "feature" else "bag_features"
        raise ValueError(
            f"the {part}s differ from those at fit ({differences(names, fitted_names)}); load with "
            f"{parameter}=list(estimator.{part}_names_in_), or select those columns of your data frames"
        )


# The range of training ------------------------------------------------------------------------------------------------


def within_range(bags: Bags, fitted, *, widths: float = 0.0) -> Bags:
    """Clip values to the training range, widened by a multiple of its width."""
    instances = _clipped(bags.instances, _limits(fitted, "feature", widths))
    covariates = None if bags.covariates is None else _clipped(bags.covariates, _limits(fitted, "covariate", widths))
    if instances is bags.instances and covariates is bags.covariates:
        return bags
    return bags._with(instances=instances, covariates=covariates)


def find_far(bags: Bags, fitted) -> tuple[np.ndarray, str]:
    """Return which bags hold a value far outside the training range, and the text of a warning about the first one."""
    marked, text = np.zeros(len(bags), dtype=bool), ""
    for part, values in (("feature", bags.instances), ("covariate", bags.covariates)):
        limits = _limits(fitted, part, FAR)
        if limits is None or values is None:
            continue
        low, high = getattr(fitted, f"{part}_range_in_").astype(np.float64)
        # A column that was constant in training has no width to compare with.
        far = ((values < limits[0]) | (values > limits[1])) & (high > low)
        rows = np.logical_or.reduce(far, axis=1)
        if not rows.any():
            continue
        far_bags = bags_of(rows, bags.offsets) if part == "feature" else rows
        if not text or far_bags.argmax() < marked.argmax():
            row = int(rows.argmax())
            j = int(far[row].argmax())
            names, value = getattr(bags, f"{part}_names"), float(values[row, j])
            number, column = plain_number(value), str(j) if names is None else repr(names[j])
            text = f"{number if value.is_integer() else f'{value:.6g}'} in column {column}, where training had "
            text += f"{low[j]:.6g} to {high[j]:.6g}; check its units"
            if is_fill_value(value):
                text += f", or, if it stands for a missing value, load with fill_values=[{number}]"
        marked |= far_bags
    return marked, text


def warn_of_far(ids: np.ndarray, marked: np.ndarray, text: str) -> None:
    """Warn, once, if `find_far` has marked bags."""
    if text:
        warn_user(f"{name_bags(ids, marked)} values far outside the range of training: {text}")


def _extremes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest value of each column; NaN for a column without values."""
    return np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)


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
