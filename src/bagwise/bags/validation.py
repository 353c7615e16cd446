"""Messages of errors and warnings, checks of the parts of `Bags`, and alignment by bag id.

Each error names the first offending bag and what to do.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from datetime import date
from unicodedata import normalize

import numpy as np

from bagwise.bags.frames import NUMBER, NUMBERS, is_null, unbox, unframe


class ParameterError(ValueError):
    """A parameter has an invalid value. ``parameter`` is its name; the message may name other parameters.

    Messages write parameters as in Python, ``missing='impute'``; the command line converts them to options.
    """

    def __init__(self, parameter: str, message: str):
        super().__init__(parameter, message)

    @property
    def parameter(self) -> str:
        return self.args[0]

    def __str__(self) -> str:
        return self.args[1]


class ParameterTypeError(ParameterError, TypeError):
    """A parameter has a wrong type."""


def warn_user(message: str) -> None:
    """Warn at the first line of the caller outside the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("bagwise.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def name_bags(ids: np.ndarray, marked: np.ndarray) -> str:
    """Return the subject and verb of a sentence about the marked bags, such as "bag 'B17' (and 1 other) has"."""
    positions = np.flatnonzero(marked)
    return f"bag {label(ids[positions[0]])}{and_others(len(positions) - 1)} has"


def and_others(n: int) -> str:
    """Return a phrase such as " (and 2 others)", or an empty string for zero."""
    return f" (and {counted(n, 'other')})" if n else ""


def label(bag) -> str:
    """Return a bag id for messages: text in quotes, numbers and dates plain."""
    if isinstance(bag, np.datetime64):
        return str(bag)
    return repr(bag.item() if isinstance(bag, np.generic) else bag)


def counted(n: int, noun: str) -> str:
    """Format a number and its noun, such as "1,200 bags"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def bags_of(rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return whether each bag has a marked row."""
    return np.logical_or.reduceat(rows, offsets[:-1])


def refuse_bags(marked: np.ndarray, ids: np.ndarray, reason: str) -> None:
    """Raise an error if bags are marked: the phrase of `name_bags`, and the reason."""
    if marked.any():
        raise ValueError(f"{name_bags(ids, marked)} {reason}")


def name_values(marked: np.ndarray, offsets: np.ndarray, ids: np.ndarray, names) -> tuple[str, str]:
    """Return the phrase of `name_bags` for marked values, and one such as " in column 'red'" if columns have names."""
    rows = np.logical_or.reduce(marked, axis=1)
    subject = name_bags(ids, bags_of(rows, offsets))
    if names is None:
        return subject, ""
    first = int(marked[rows.argmax()].argmax())
    return subject, f" in column {names[first]!r}{and_others(int(np.count_nonzero(marked.any(axis=0))) - 1)}"


def one_of(value, options, parameter: str) -> None:
    """Refuse a value that is not among the options of a parameter."""
    if value not in options:
        *first, last = map(repr, options)
        raise ParameterError(parameter, f"{parameter} must be {', '.join(first)} or {last}, not {value!r}")


def check_options(estimator, **options) -> None:
    """Refuse parameters of the estimator that are not among their options: ``rule=("best", "one-se")``."""
    for name, values in options.items():
        one_of(getattr(estimator, name), values, name)


def whole_number(value, parameter: str, *, least: int = 1) -> None:
    """Refuse a value that is not a whole number, or is below the minimum."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        allowed = "above zero" if least == 1 else f"of at least {least}"
        raise ValueError(f"{parameter} must be a whole number {allowed}, not {value!r}")


# Squares of larger numbers, or their sums, may overflow.
LARGEST = 1e100
# The types of instances, and the largest value of each.
FLOATS = {np.dtype(np.float64): LARGEST, np.dtype(np.float32): float(np.finfo(np.float32).max)}


def float_dtype(dtypes: Iterable) -> np.dtype:
    """Return float32 if all dtypes are floats of that or a lower precision, otherwise float64."""
    single = all(np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize <= 4 for dtype in dtypes)
    return np.dtype(np.float32 if single else np.float64)


def unmask(array) -> np.ndarray:
    """Convert to a plain array, with NaN for masked values and numbers for objects that are numbers."""
    if isinstance(array, np.ma.MaskedArray) and array.dtype.kind in "fiub":
        array = np.ma.filled(array.astype(float_dtype([array.dtype])), np.nan)
    elif isinstance(array, np.ma.MaskedArray) and array.dtype == object:
        array = np.where(np.ma.getmaskarray(array), None, array.data)  # type: ignore[call-overload]
    array = np.asarray(array)
    numbers = unbox(array) if array.dtype == object else None
    return array if numbers is None else numbers


def as_numbers(values, parameter: str) -> np.ndarray:
    """Convert to a plain array of numbers or booleans, with NaN for missing values."""
    array = unmask(values)
    if array.dtype.kind not in "fiub":
        objects = np.asarray(values, dtype=object).ravel()
        example = next((f" such as {label(value)}" for value in objects if not isinstance(value, NUMBERS)), "")
        raise TypeError(f"{parameter} must be numbers, not {array.dtype}{example}; encode text and dates first")
    return array


def as_instances(instances, feature_names=None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return a C-ordered table of float64 or float32 with at least one row and one column, and its column names."""
    columns = None
    if not isinstance(instances, np.ndarray):
        instances, columns = unframe(instances, "instances")
    array = as_numbers(instances, "instances")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"instances must be a table of (instances, features), not an array of {array.ndim} dimensions; "
            "for a padded 3-D array use bagwise.from_padded(array, sizes)"
        )
    if array.dtype not in FLOATS:
        array = array.astype(float_dtype([array.dtype]))
    if 0 in array.shape:
        raise ValueError(f"there must be at least one instance and one feature, not a table of shape {array.shape}")
    return np.ascontiguousarray(array), as_names(feature_names, columns, array.shape[1])


def as_offsets(offsets, n_instances: int) -> np.ndarray:
    """Return the bag offsets as int64, with the total as last entry; empty bags are refused elsewhere."""
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or offsets.size < 2 or offsets.dtype.kind not in "iu":
        raise ValueError("offsets must be a list of at least two integers: where each bag starts, then the end")
    offsets = offsets.astype(np.int64)
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if offsets[0] != 0 or offsets[-1] != n_instances or len(falls):
        first, then = offsets[falls[0] : falls[0] + 2] if len(falls) else offsets[[0, -1]]
        raise ValueError(
            f"offsets must rise from 0 to the number of instances ({n_instances}); these go from {first} to {then}"
        )
    return offsets


def one_per_bag(values, n_bags: int, parameter: str) -> np.ndarray:
    """Return an array whose first axis is the bags."""
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != n_bags:
        size = "one value" if array.ndim == 0 else f"{len(array)}"
        raise ValueError(f"{parameter} must have one entry per bag ({n_bags}), not {size}")
    if array.dtype.kind in "UT":  # fixed-width text wastes memory and truncates on assignment
        # Convert the list, not the array, in which [1, "a"] has already become ["1", "a"].
        array = array.astype(object) if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    return array


def as_labels(values, n_bags: int, parameter: str) -> np.ndarray:
    """Return one identifier or group label per bag; text as Python strings, masked values as missing."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        values = np.where(np.ma.getmaskarray(values), None, values.data.astype(object))  # type: ignore[call-overload]
    array = one_per_bag(values, n_bags, parameter)
    if array.ndim != 1:
        raise ValueError(f"{parameter} must be one value per bag, not an array of shape {array.shape}")
    if array.dtype == np.dtype("datetime64[ns]") and (array == array.astype("datetime64[us]")).all():
        array = array.astype("datetime64[us]")  # tolist() turns nanoseconds, the unit of pandas 2, into integers
    return array.copy()  # so that a later write by the caller cannot create duplicate ids


def numbered(labels) -> np.ndarray:
    """Return the number of each label among the distinct ones."""
    labels = np.asarray(labels)
    return np.unique(labels.astype(str) if labels.dtype == object else labels, return_inverse=True)[1]


def absent(values: np.ndarray) -> np.ndarray:
    """Return which labels are missing: None, NaN, NaT, pandas' NA, or the empty string."""
    if values.dtype.kind in "UT":
        return values == ""
    if values.dtype.kind != "O":
        return values != values
    return np.array([is_null(value) or value == "" for value in values], dtype=bool)


def refuse_repeated(ids: np.ndarray) -> None:
    """Refuse ids that are missing or appear twice."""
    if ids.dtype.kind in "iuM" and (ids[1:] > ids[:-1]).all():
        return
    unknown = absent(ids)
    if unknown.any():
        raise ValueError(f"the bag at position {unknown.argmax()} has no id; give every bag one, or leave ids out")
    earlier: set = set()
    for again, value in enumerate(ids.tolist()):
        if value in earlier:
            raise ValueError(f"bag id {label(ids[again])} appears twice; every bag needs a distinct id")
        earlier.add(value)


def as_groups(groups, ids: np.ndarray) -> np.ndarray:
    """Return one group label per bag, none missing."""
    groups = as_labels(aligned(groups, ids, "groups"), len(ids), "groups")
    refuse_bags(absent(groups), ids, "no group; give every bag one, or leave groups out")
    return groups


def as_times(values, ids: np.ndarray) -> np.ndarray:
    """Return one time per bag as float64 or datetime64[us]; text may be a number or an ISO date."""
    values = as_labels(values, len(ids), "time")
    missing = absent(values)
    if missing.any():
        raise ParameterError("time", f"{name_bags(ids, missing)} no time; give each bag one, or leave such bags out")
    if values.dtype.kind in "Mbiuf":
        return values.astype("datetime64[us]" if values.dtype.kind == "M" else np.float64)
    times: list = []
    for bag, value in zip(ids, values, strict=True):
        is_number = re.match(NUMBER, value) if isinstance(value, str) else isinstance(value, int | float | np.number)
        try:
            times.append(
                float(value) if is_number else np.datetime64(value.strip() if isinstance(value, str) else value, "us")
            )
        except (ValueError, TypeError):
            raise ParameterError(
                "time", f"time must be numbers or dates: bag {label(bag)} has {value!r}; write dates as 2019-04-23"
            ) from None
        if type(times[-1]) is not type(times[0]):
            raise ParameterTypeError(
                "time",
                f"time must be numbers or dates, not both: bag {label(bag)} has {value!r}; write all times in one way",
            )
    return np.array(times)


def are_pairs(folds) -> bool:
    """Return whether folds are given as (train, test) pairs of positions."""
    return isinstance(folds, list | tuple) and len(folds) > 0 and all(isinstance(p, tuple | list) for p in folds)


def as_names(names, columns, n_features: int, parameter: str = "feature_names") -> tuple[str, ...] | None:
    """Return one distinct string per column: the given ones, or else the names of a data frame's columns; or None.

    The default columns of pandas (0, 1, ...) count as no names, as in scikit-learn.
    """
    if columns is not None and all(isinstance(name, str) for name in columns):
        if names is not None and [str(name) for name in names] != columns:
            raise ValueError(
                f"{parameter} are {', '.join(map(str, list(names)[:5]))}, but the columns of the data frame are "
                f"{', '.join(columns[:5])}; leave {parameter} out, or rename the columns"
            )
        names = columns
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} columns; give one per column")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"feature name {twice!r} appears twice; names must be distinct")
    return names


def check_values(instances: np.ndarray, offsets: np.ndarray, ids: np.ndarray, missing: str, names=None) -> bool:
    """Return whether values are missing; raise an error if ``missing`` is "refuse", or for infinite or huge values."""
    largest = FLOATS[instances.dtype]
    if instances.min() >= -largest and instances.max() <= largest:
        return False
    leave_out = "drop these instances, in load with missing='drop-instances'"
    refused = [
        (np.isinf(instances), "infinite feature values", f"clip them, or {leave_out}"),
        (
            np.abs(instances) > largest,
            f"feature values beyond {LARGEST:g}",
            "their squares are infinite: rescale the feature, or look for a fill value",
        ),
    ]
    if missing == "refuse":
        way = f"{leave_out}, or impute the values with missing='impute'"
        refused.append((np.isnan(instances), "missing feature values (NaN)", way))
    for marked, problem, way in refused:
        if marked.any():
            subject, where = name_values(marked, offsets, ids, names)
            raise ParameterError("missing", f"{subject} {problem}{where}; {way}")
    return True


def as_weights(weights, offsets: np.ndarray, ids: np.ndarray) -> np.ndarray | None:
    """Return one finite, non-negative weight per instance, at least one per bag above zero; or None."""
    if weights is None:
        return None
    array = as_numbers(weights, "weights").astype(np.float64)
    if array.shape != (offsets[-1],):
        raise ValueError(f"weights must have one entry per instance ({offsets[-1]}), not shape {array.shape}")
    wrong = bags_of(~(np.isfinite(array) & (array >= 0)), offsets)
    refuse_bags(
        wrong, ids, "an instance weight that is negative, missing or infinite; weights must be zero or positive"
    )
    empty = ~bags_of(array > 0, offsets)
    refuse_bags(empty, ids, "no instance of weight above zero; every bag needs one: leave such bags out")
    return array


def as_covariates(values, names, ids: np.ndarray, feature_names) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Return covariates as finite float64 (bags, covariates), and their names; or None twice."""
    if values is None:
        if names is not None:
            raise ValueError("covariate_names without covariates; give both")
        return None, None
    values, columns = unframe(aligned(values, ids, "covariates"), "covariates")
    array = one_per_bag(as_numbers(values, "covariates"), len(ids), "covariates").astype(np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"covariates must be a table of (bags, covariates), not an array of shape {array.shape}")
    names = as_names(names, columns, array.shape[1], "covariate_names")
    if (unknown := ~np.isfinite(array)).any():
        subject, column = name_values(unknown, np.arange(len(ids) + 1), ids, names)
        raise ValueError(f"{subject} a missing or infinite covariate{column}; fill it in, or leave the bag out")
    both = set(names or ()) & set(feature_names or ())
    if both:
        raise ValueError(
            f"{min(both)!r} is a feature of the instances and a covariate of the bag; leave out one of them"
        )
    return array, names


# Alignment by bag id --------------------------------------------------------------------------------------------------


def match_ids(ids, other_ids) -> np.ndarray:
    """Return the position of each id among other ids; -1 for none.

    7.0 matches 7, dates match in any unit, text in its composed form (NFC), and numbers match text if one side has
    numbers and the other text. Ids are not converted if that would make two of them equal.

    >>> match_ids([7.0, 8], [8, 7]).tolist(), match_ids(["7"], [7]).tolist()
    ([1, 0], [0])
    """
    keys, other_keys = _distinct_keys(ids, _id_key), _distinct_keys(other_ids, _id_key)
    if _are_numbers(keys) != _are_numbers(other_keys):
        keys, other_keys = _distinct_keys(keys, str), _distinct_keys(other_keys, str)
    place = {key: k for k, key in enumerate(other_keys)}
    return np.array([place.get(key, -1) for key in keys], dtype=np.int64)


def _are_numbers(keys: list) -> bool:
    return all(isinstance(key, int | float) for key in keys)


def _distinct_keys(ids, convert) -> list:
    """Return the converted ids, or unchanged ones if two of them would become equal."""
    dtype = getattr(ids, "dtype", None)
    plain = list(ids) if dtype is None or dtype.kind == "M" else ids.tolist()
    if dtype is not None and dtype.kind in "iu":
        return plain
    keys = [convert(bag) for bag in plain]
    return keys if len(set(keys)) == len(set(plain)) else plain


def _id_key(bag):
    if isinstance(bag, str):
        return bag if bag.isascii() else normalize("NFC", bag)
    if isinstance(bag, float | np.floating) and float(bag).is_integer():
        return int(bag)
    if isinstance(bag, date) and getattr(bag, "tzinfo", None) is None or isinstance(bag, np.datetime64):
        return np.datetime64(bag, "us").item()
    return bag.item() if isinstance(bag, np.generic) else bag


def aligned(values, bags, parameter: str = "y"):
    """Return a pandas Series or data frame in the order of the bags (or ids), by its index; other data as they are.

    The order stays as it is if the index is the default one (0, 1, 2, ...) and does not hold the ids.
    """
    index = getattr(values, "index", None)
    if index is None or callable(index) or not hasattr(values, "iloc"):  # a list has a method of that name
        return values
    ids = bags.ids if hasattr(bags, "ids") else np.asarray(bags)
    labels = index.to_numpy()
    at = match_ids(ids, labels)
    in_order = labels.dtype.kind in "iu" and bool((labels == np.arange(len(labels))).all())
    if in_order and (at < 0).any():
        return values
    way = f"index it by the ids of the bags, or pass {parameter}.to_numpy() in the order of the bags"
    error = None
    if (at < 0).all():
        received = label(labels[0]) if len(labels) else "no label"
        error = f"contains no bag id: it has {received}, and the ids are such as {label(ids[0])}; {way}"
    elif (at < 0).any():
        matched = f"{np.count_nonzero(at >= 0):,} of {len(ids):,} bags"
        error = (
            f"holds the ids of {matched}, but not {label(ids[(at < 0).argmax()])}. Give every bag a value, and {way}"
        )
    elif not index.is_unique:
        twice = label(labels[index.duplicated()][0])
        error = f"holds {twice} twice; expected one value per bag. Leave one of them out"
    if error is not None:
        raise ParameterError(parameter, f"The index of {parameter} {error}")
    if len(labels) != len(ids) and len(np.unique(at)) == len(ids):
        raise ParameterError(
            parameter,
            f"{parameter} has {len(labels):,} values for {len(ids):,} bags. Leave out those of other bags: "
            f"{parameter}.loc[bags.ids]",
        )
    return values.iloc[at]
