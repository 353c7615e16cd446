"""Checks of the parts of a `Bags`. Each error names the first offending bag and says what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple
from unicodedata import normalize

import numpy as np

from bagwise.bags.frames import NUMBERS, names_of, unbox, unframe


class Parameter(NamedTuple):
    """A parameter named in a message, with the value to pass, if any."""

    name: str
    value: object = None

    def __str__(self) -> str:
        return f"{self.name}=" if self.value is None else f"{self.name}={self.value!r}"


class Message(str):
    """A message that names parameters in Python form; its ``parts`` let the command line write them as options.

    Examples
    --------
    >>> message = Message("drop them with ", Parameter("missing", "drop-instances"))
    >>> message
    "drop them with missing='drop-instances'"
    >>> ("load: " + message).parts
    ('load: ', 'drop them with ', Parameter(name='missing', value='drop-instances'))
    """

    parts: tuple[str | Parameter, ...]

    def __new__(cls, *parts):
        parts = tuple(item for part in parts for item in (part.parts if isinstance(part, Message) else (part,)))
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = parts
        return message

    def __add__(self, other) -> Message:
        return Message(self, other)

    def __radd__(self, other) -> Message:
        return Message(other, self)

    def join(self, messages) -> Message:
        """Return several messages as one, with this one between them."""
        return Message(*[part for message in messages for part in (self, message)][1:])


class ParameterError(ValueError):
    """A parameter has an invalid value. ``parameter`` is its name; the message may name other parameters."""

    def __init__(self, parameter: str, *parts):
        super().__init__(parameter, Message(*parts))

    @property
    def parameter(self) -> str:
        return self.args[0]

    def __str__(self) -> str:
        return str(self.args[1])


class ParameterTypeError(ParameterError, TypeError):
    """A parameter has a wrong type."""


def warn_user(message: str) -> None:
    """Warn at the first line of the caller outside the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("bagwise.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def name_bags(ids: np.ndarray, marked: np.ndarray) -> str:
    """Return the subject of a sentence about the marked bags, with its verb.

    Examples
    --------
    >>> import numpy as np
    >>> name_bags(np.array(["A1", "B17", "C2"], dtype=object), np.array([False, True, True]))
    "bag 'B17' (and 1 other) has"
    """
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
    """Format a number and its noun.

    Examples
    --------
    >>> counted(1, "bag"), counted(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


# Squares of larger numbers, or their sums, may overflow.
LARGEST = 1e100
# The types of instances, and the largest value of each.
FLOATS = {np.dtype(np.float64): LARGEST, np.dtype(np.float32): float(np.finfo(np.float32).max)}


def float_dtype(dtypes: Iterable) -> np.dtype:
    """Return float32 if all dtypes are floats of that or a lower precision, otherwise float64."""
    single = all(np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize <= 4 for dtype in dtypes)
    return np.dtype(np.float32 if single else np.float64)


def unmask(array) -> np.ndarray:
    """Convert to a plain array, with NaN for masked values, which `np.asarray` would return as data.

    Objects that are numbers become numbers.
    """
    if isinstance(array, np.ma.MaskedArray) and array.dtype.kind in "fiub":
        array = np.ma.filled(array.astype(float_dtype([array.dtype])), np.nan)
    elif isinstance(array, np.ma.MaskedArray) and array.dtype == object:
        array = np.where(np.ma.getmaskarray(array), None, array.data)  # type: ignore[call-overload]
    array = np.asarray(array)
    numbers = unbox(array) if array.dtype == object else None
    return array if numbers is None else numbers


def as_instances(instances) -> np.ndarray:
    """Convert to a C-ordered table of float64 or float32 with at least one row and one column."""
    array = unmask(instances)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"instances must be a table of (instances, features), not an array of {array.ndim} dimensions; "
            "for a padded 3-D array use bagwise.from_padded(array, sizes)"
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(f"instances must be numbers, not {array.dtype}; encode text and dates first")
    if array.dtype not in FLOATS:
        array = array.astype(float_dtype([array.dtype]))
    if array.shape[0] == 0:
        raise ValueError("there are no instances (zero rows)")
    if array.shape[1] == 0:
        raise ValueError("instances have no features (zero columns)")
    return np.ascontiguousarray(array)


def as_offsets(offsets, n_instances: int) -> np.ndarray:
    """Return the bag offsets as int64, with the total as last entry; empty bags are refused elsewhere."""
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or offsets.size < 2 or offsets.dtype.kind not in "iu":
        raise ValueError("offsets must be a list of at least two integers: where each bag starts, then the end")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != n_instances:
        raise ValueError(
            f"offsets must rise from 0 to the number of instances ({n_instances}); "
            f"these go from {offsets[0]} to {offsets[-1]}"
        )
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if len(falls):
        before, after = offsets[falls[0] : falls[0] + 2]
        raise ValueError(f"offsets must rise from 0 to {n_instances}; these fall from {before} to {after}")
    return offsets


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


def as_feature_names(names, n_features: int) -> tuple[str, ...] | None:
    """Return one distinct string per column, or None."""
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} columns; give one per column")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"feature name {twice!r} appears twice; names must be distinct")
    return names


def absent(values: np.ndarray) -> np.ndarray:
    """Return which labels are missing: None, NaN, NaT, pandas' NA, or the empty string."""
    if values.dtype.kind in "UT":
        return values == ""
    if values.dtype.kind != "O":
        return values != values
    return np.array([_is_absent(value) for value in values], dtype=bool)


def refuse_empty(sizes: np.ndarray, ids: np.ndarray) -> None:
    if (sizes == 0).any():
        raise ValueError(
            f"{name_bags(ids, sizes == 0)} no instances; every bag needs at least one: "
            "leave the empty ones out, with their targets"
        )


def refuse_repeated(ids: np.ndarray) -> None:
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
    unknown = absent(groups)
    if unknown.any():
        raise ValueError(f"{name_bags(ids, unknown)} no group; give every bag one, or leave groups out")
    return groups


def check_values(instances: np.ndarray, offsets: np.ndarray, ids: np.ndarray, missing: str, names=None) -> bool:
    """Raise an error for infinite values, values too large to square, and NaN if ``missing`` is "refuse"; else True."""
    infinite = np.isinf(instances).any(axis=1)
    if infinite.any():
        raise ParameterError(
            "missing",
            f"{name_bags(ids, bags_of(infinite, offsets))} infinite feature values"
            f"{in_column(np.isinf(instances), names)}; clip them, or leave those instances out, which load does with ",
            Parameter("missing", "drop-instances"),
        )
    large = np.abs(instances) > FLOATS[instances.dtype]
    if large.any():
        raise ValueError(
            f"{name_bags(ids, bags_of(large.any(axis=1), offsets))} feature values beyond {LARGEST:g}"
            f"{in_column(large, names)}, whose squares are infinite; rescale the feature, or look for a fill value"
        )
    if missing == "refuse":
        unknown = bags_of(np.isnan(instances).any(axis=1), offsets)
        raise ParameterError(
            "missing",
            f"{name_bags(ids, unknown)} missing feature values (NaN){in_column(np.isnan(instances), names)}; leave "
            "those instances out, which load does with ",
            Parameter("missing", "drop-instances"),
            ", or keep them with ",
            Parameter("missing", "impute"),
            " for a method that fills them in",
        )
    return True


def in_column(marked: np.ndarray, names) -> str:
    """Return a phrase that names the column of the first marked value; empty if columns have no names."""
    if names is None:
        return ""
    first = int(marked[marked.any(axis=1).argmax()].argmax())
    return f" in column {names[first]!r}{and_others(int(np.count_nonzero(marked.any(axis=0))) - 1)}"


def bags_of(rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return whether each bag has a marked row."""
    return np.logical_or.reduceat(rows, offsets[:-1])


def _is_absent(value) -> bool:
    same = value == value  # False for NaN and NaT; neither true nor false for pandas' NA
    return value is None or not isinstance(same, bool | np.bool_) or not same or value == ""


def as_weights(weights, offsets: np.ndarray, ids: np.ndarray) -> np.ndarray | None:
    """Return one finite, non-negative weight per instance, at least one per bag above zero; or None."""
    if weights is None:
        return None
    array = unmask(weights)
    if array.shape != (offsets[-1],):
        raise ValueError(f"weights must have one entry per instance ({offsets[-1]}), not shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"weights must be numbers, not {array.dtype}")
    array = array.astype(np.float64)
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        raise ValueError(
            f"{name_bags(ids, bags_of(wrong, offsets))} an instance weight that is negative, missing or infinite; "
            "weights must be zero or positive"
        )
    empty = ~bags_of(array > 0, offsets)
    if empty.any():
        raise ValueError(
            f"{name_bags(ids, empty)} no instance of weight above zero; every bag needs one: leave such bags out"
        )
    return array


def as_covariates(values, names, ids: np.ndarray, feature_names) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Return covariates as finite float64 (bags, covariates), and their names; or None twice."""
    if values is None:
        if names is not None:
            raise ValueError("covariate_names without covariates; give both")
        return None, None
    values, columns = unframe(aligned(values, ids, "covariates"), "covariates")
    array = one_per_bag(unmask(values), len(ids), "covariates")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"covariates must be a table of (bags, covariates), not an array of shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"covariates must be numbers, not {array.dtype}")
    array = array.astype(np.float64)
    unknown = ~np.isfinite(array).all(axis=1)
    if unknown.any():
        raise ValueError(f"{name_bags(ids, unknown)} a missing or infinite covariate; fill it in, or leave the bag out")
    names = as_feature_names(names_of(names, columns, "covariate_names"), array.shape[1])
    both = set(names or ()) & set(feature_names or ())
    if both:
        raise ValueError(
            f"{min(both)!r} is a feature of the instances and a covariate of the bag; leave out one of them"
        )
    return array, names


def as_bag_weights(sample_weight, n_bags: int) -> np.ndarray:
    """Return one number per bag, as float64."""
    weights = unmask(sample_weight)
    if weights.ndim == 0 or weights.dtype.kind not in "fiub":
        invalid = next((value for value in weights.flat if not isinstance(value, NUMBERS)), None)
        received = repr(sample_weight) if weights.ndim == 0 else f"{weights.dtype} such as {label(invalid)}"
        raise TypeError(f"sample_weight must be numbers, one per bag ({n_bags}), not {received}")
    if weights.shape != (n_bags,):
        raise ValueError(f"sample_weight must have one entry per bag ({n_bags}), not shape {weights.shape}")
    return weights.astype(np.float64)


def id_keys(*several) -> list[list]:
    """Return the ids of several tables in one form, in which the ids of one bag are equal.

    7.0 becomes 7, dates get one unit, text gets its composed form (NFC), and if one table has numbers and another text,
    numbers become text. The ids of a table stay unchanged if two of them would become equal.

    Examples
    --------
    >>> id_keys(np.array([0.0, 1.0]), np.array([0, 1])), id_keys(["7"], [7])
    ([[0, 1], [0, 1]], [['7'], ['7']])
    """
    keys = [_distinct_keys(ids, _id_key) for ids in several]
    are_numbers = [all(isinstance(key, int | float) for key in column) for column in keys]
    if any(are_numbers) and not all(are_numbers):
        return [_distinct_keys(column, str) for column in keys]
    return keys


def match_ids(ids, other_ids) -> np.ndarray:
    """Return the position of each id among other ids, by the rule of `id_keys`; -1 for none.

    Examples
    --------
    >>> match_ids([7.0, 8], [8, 7]).tolist()
    [1, 0]
    """
    keys, other_keys = id_keys(ids, other_ids)
    place = {key: k for k, key in enumerate(other_keys)}
    return np.array([place.get(key, -1) for key in keys], dtype=np.int64)


def _distinct_keys(ids, form) -> list:
    """Return the ids converted by ``form``, or unchanged if two of them would become equal."""
    dtype = getattr(ids, "dtype", None)
    plain = list(ids) if dtype is None or dtype.kind == "M" else ids.tolist()
    if dtype is not None and dtype.kind in "iu" and form is _id_key:
        return plain
    keys = [form(bag) for bag in plain]
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
    """Return a pandas Series or data frame in the order of the bags, by the ids in its index; other data as they are.

    The order stays as it is if the index is the default one (0, 1, 2, ...) and does not hold the ids.

    Parameters
    ----------
    values : Series, data frame, or anything else, which is returned unchanged
    bags : Bags, or their ids
    parameter : str
        The name of the argument, for messages.
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
    if (at < 0).all():
        raise ParameterError(
            parameter,
            f"The index of {parameter} contains no bag id: it has {label(labels[0]) if len(labels) else 'no label'}"
            f", and the ids are such as {label(ids[0])}. {way[0].upper()}{way[1:]}",
        )
    if (at < 0).any():
        raise ParameterError(
            parameter,
            f"The index of {parameter} holds the ids of {np.count_nonzero(at >= 0):,} of {len(ids):,} bags, but not "
            f"{label(ids[(at < 0).argmax()])}. Give every bag a value, and {way}",
        )
    if not index.is_unique:
        raise ParameterError(
            parameter,
            f"The index of {parameter} holds {label(labels[index.duplicated()][0])} twice; expected one value per bag. "
            "Leave one of them out",
        )
    if len(labels) != len(ids) and len(np.unique(at)) == len(ids):
        raise ParameterError(
            parameter,
            f"{parameter} has {len(labels):,} values for {len(ids):,} bags. Leave out those of other bags: "
            f"{parameter}.loc[bags.ids]",
        )
    return values.iloc[at]
