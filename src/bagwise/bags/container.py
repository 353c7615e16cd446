"""`Bags`: the one container. Flat instances, offsets, ids; frozen; holding one is the proof that it is valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bagwise.bags.naming import name_bags

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class Bags:
    """A collection of bags: every bag is a non-empty set of instances, every instance a row of numbers.

    The instances of all bags lie in one flat array, bag after bag; bag ``i`` is
    ``instances[offsets[i]:offsets[i + 1]]``. To scikit-learn the bags are the samples (``shape`` is
    (bags, features) and ``bags[indices]`` selects bags), so its cross-validation splits bags, never instances.

    Parameters
    ----------
    instances : array of shape (n_instances, n_features)
        float64 and float32 are kept, integers and booleans become float64. A read-only view is held; the flags of
        the array passed in are not touched.
    offsets : array of n_bags + 1 integers, from 0 to n_instances, strictly increasing
        A bag cannot be empty.
    ids : one distinct identifier per bag, default 0, 1, 2, ...
    groups : one label per bag, optional
        Bags that share a label (the patient, the county) stay together in every inner split.
    feature_names : one string per column, optional
    missing : {"refuse", "keep"}
        Whether NaN is refused or kept for learners that take it. Infinite values are always refused.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> bags = Bags(np.arange(10.0).reshape(5, 2), offsets=[0, 2, 5], ids=["a", "b"])
    >>> bags
    Bags: 2 bags of 2 to 3 instances (5 in all), 2 features
    >>> bags[1]
    array([[4., 5.],
           [6., 7.],
           [8., 9.]])
    >>> bags[[1, 0]].ids.tolist()
    ['b', 'a']
    """

    __slots__ = ("instances", "offsets", "ids", "groups", "feature_names", "has_missing")

    instances: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    groups: np.ndarray | None
    feature_names: tuple[str, ...] | None
    has_missing: bool

    def __init__(self, instances, offsets, ids=None, *, groups=None, feature_names=None, missing="refuse"):
        if missing not in ("refuse", "keep"):
            raise ValueError(f"missing must be 'refuse' or 'keep' here, not {missing!r}")
        instances = _as_instances(instances)
        offsets = _as_offsets(offsets, len(instances))
        n_bags = len(offsets) - 1
        ids = np.arange(n_bags) if ids is None else _one_per_bag(ids, n_bags, "ids")
        sizes = np.diff(offsets)
        if (sizes == 0).any():
            raise ValueError(
                f"{name_bags(ids, sizes == 0)} no instances; every bag needs at least one: "
                "leave the empty ones out, with their targets"
            )
        _refuse_repeated(ids)
        if groups is not None:
            groups = _one_per_bag(groups, n_bags, "groups")
            _refuse_missing_labels(groups, ids)
        if feature_names is not None:
            feature_names = tuple(str(name) for name in feature_names)
            if len(feature_names) != instances.shape[1]:
                raise ValueError(
                    f"{len(feature_names)} feature names for {instances.shape[1]} columns; give one per column"
                )
            if len(set(feature_names)) != len(feature_names):
                twice = next(name for name in feature_names if feature_names.count(name) > 1)
                raise ValueError(f"feature name {twice!r} appears twice; names must be distinct")
        has_missing = _check_values(instances, offsets, ids, missing)
        self._set(instances, offsets, ids, groups, feature_names, has_missing)

    def _set(self, instances, offsets, ids, groups, feature_names, has_missing):
        put = object.__setattr__
        put(self, "instances", _read_only(instances))
        put(self, "offsets", _read_only(offsets))
        put(self, "ids", _read_only(ids))
        put(self, "groups", None if groups is None else _read_only(groups))
        put(self, "feature_names", feature_names)
        put(self, "has_missing", has_missing)

    @classmethod
    def _trusted(cls, instances, offsets, ids, groups, feature_names, has_missing) -> Bags:
        """Build from parts that come from a valid `Bags`, without checking them again."""
        bags = cls.__new__(cls)
        bags._set(instances, offsets, ids, groups, feature_names, has_missing)
        return bags

    def __setattr__(self, name, value):
        raise AttributeError("Bags cannot be changed; use replace() or select bags to make new ones")

    def __reduce__(self):
        parts = (self.instances, self.offsets, self.ids, self.groups, self.feature_names, self.has_missing)
        return (Bags._trusted, parts)

    # What it is -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(number of bags, number of features): bags are the samples."""
        return len(self), self.instances.shape[1]

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> np.dtype:
        return self.instances.dtype

    @property
    def n_instances(self) -> int:
        return len(self.instances)

    @property
    def n_features(self) -> int:
        return self.instances.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """Number of instances of every bag."""
        return np.diff(self.offsets)

    def __repr__(self) -> str:
        sizes = self.sizes
        low, high = (int(sizes.min()), int(sizes.max())) if len(self) else (0, 0)
        span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        text = (
            f"Bags: {_count(len(self), 'bag')} of {span} {'instance' if high == 1 else 'instances'} "
            f"({self.n_instances:,} in all), {_count(self.n_features, 'feature')}"
        )
        if self.groups is not None:
            text += f", {_count(len(np.unique(self.groups)), 'group')}"
        return text + (", with missing values" if self.has_missing else "")

    def __eq__(self, other) -> bool:
        if not isinstance(other, Bags):
            return NotImplemented
        return (
            self.feature_names == other.feature_names
            and _same(self.offsets, other.offsets)
            and _same(self.ids, other.ids)
            and _same(self.groups, other.groups)
            and self.instances.dtype == other.instances.dtype
            and np.array_equal(self.instances, other.instances, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]

    # Selecting ------------------------------------------------------------------------------------------------

    def __getitem__(self, key) -> Bags | np.ndarray:
        """One bag as an array for an integer; `Bags` for a slice, a list of positions or a boolean mask."""
        if isinstance(key, tuple):  # bags[ids, ...], the form scikit-learn uses
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError("bags are selected by one index: bags[3], bags[2:5], bags[[0, 4]]")
            key = key[0]
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise IndexError(f"bag {key} of {len(self)}")
            key = int(key) % len(self)
            return self.instances[self.offsets[key] : self.offsets[key + 1]]
        return self._select(self._positions(key))

    def __iter__(self) -> Iterator[np.ndarray]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.instances[start:stop]

    def rows(self, positions) -> np.ndarray:
        """Positions, in the flat array, of the instances of the given bags, bag after bag."""
        positions = self._positions(positions)
        sizes = self.sizes[positions]
        shifts = self.offsets[positions] - np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return np.repeat(shifts, sizes) + np.arange(sizes.sum())

    def expand(self, per_bag) -> np.ndarray:
        """One value per bag, repeated for each of its instances."""
        per_bag = _one_per_bag(per_bag, len(self), "per_bag")
        return np.repeat(per_bag, self.sizes, axis=0)

    def singles(self) -> Bags:
        """Every instance as a bag of its own, numbered from 0."""
        n = self.n_instances
        groups = None if self.groups is None else self.expand(self.groups)
        return Bags._trusted(
            self.instances, np.arange(n + 1), np.arange(n), groups, self.feature_names, self.has_missing
        )

    def replace(self, instances, *, feature_names=None) -> Bags:
        """The same bags with other rows for their instances; rows must correspond one to one."""
        instances = _as_instances(instances)
        if len(instances) != self.n_instances:
            raise ValueError(f"{len(instances)} rows for {self.n_instances} instances; give one row per instance")
        new = Bags.__new__(Bags)
        has_missing = _check_values(instances, self.offsets, self.ids, "keep" if self.has_missing else "refuse")
        names = None if feature_names is None else tuple(feature_names)
        new._set(instances, self.offsets, self.ids, self.groups, names, has_missing)
        return new

    def _positions(self, key) -> np.ndarray:
        if isinstance(key, slice):
            return np.arange(len(self))[key]
        key = np.asarray(key)
        if key.dtype == bool:
            if key.shape != (len(self),):
                raise IndexError(f"a mask of {len(key)} for {len(self)} bags")
            return np.flatnonzero(key)
        if key.size == 0:
            return np.empty(0, dtype=np.intp)
        if key.ndim != 1 or key.dtype.kind not in "iu":
            raise IndexError("bags are selected by integers, a slice, or a mask")
        if key.min() < -len(self) or key.max() >= len(self):
            raise IndexError(f"bag {int(key.max())} of {len(self)}")
        return np.where(key < 0, key + len(self), key)

    def _select(self, positions: np.ndarray) -> Bags:
        sizes = self.sizes[positions]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if len(positions) and (np.diff(positions) == 1).all():  # a run of bags is a view, not a copy
            instances = self.instances[self.offsets[positions[0]] : self.offsets[positions[-1] + 1]]
        else:
            instances = self.instances[self.rows(positions)]
        groups = None if self.groups is None else self.groups[positions]
        # A selection with replacement (a bootstrap) may repeat an id; it is still a valid set of bags to learn from.
        return Bags._trusted(
            instances, offsets, self.ids[positions], groups, self.feature_names, self.has_missing
        )


def _as_instances(instances) -> np.ndarray:
    array = np.asarray(instances)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"instances must be a table of (instances, features), not an array of {array.ndim} dimensions; "
            "for a padded 3-D array use bagwise.from_padded(array, sizes)"
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(f"instances must be numbers, not {array.dtype}; encode text and dates first")
    if array.dtype not in _FLOATS:
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.shape[0] == 0:
        raise ValueError("there are no instances (zero rows)")
    if array.shape[1] == 0:
        raise ValueError("instances have no features (zero columns)")
    return np.ascontiguousarray(array)


def _as_offsets(offsets, n_instances: int) -> np.ndarray:
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or offsets.size < 2 or offsets.dtype.kind not in "iu":
        raise ValueError("offsets must be a list of at least two integers: where each bag starts, then the end")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != n_instances or (np.diff(offsets) < 0).any():
        raise ValueError(
            f"offsets must rise from 0 to the number of instances ({n_instances}); "
            f"these go from {offsets[0]} to {offsets[-1]}"
        )
    return offsets


def _one_per_bag(values: Sequence[Any], n_bags: int, what: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != n_bags:
        came = "one value" if array.ndim == 0 else f"{len(array)}"
        raise ValueError(f"{what} must have one entry per bag ({n_bags}), not {came}")
    if array.dtype.kind == "U":  # fixed-width text wastes memory and truncates on assignment
        array = array.astype(object)
    return array


def _refuse_repeated(ids: np.ndarray) -> None:
    if ids.dtype.kind in "iuM" and (len(ids) < 2 or (ids[1:] > ids[:-1]).all()):
        return
    seen = set()
    for bag in ids.tolist():
        if bag in seen:
            raise ValueError(f"bag id {bag!r} appears twice; every bag needs an id of its own")
        seen.add(bag)


def _refuse_missing_labels(groups: np.ndarray, ids: np.ndarray) -> None:
    unknown = groups != groups if groups.dtype.kind in "fM" else np.array([g is None or g != g for g in groups])
    if unknown.any():
        raise ValueError(f"{name_bags(ids, unknown)} no group; give every bag one, or leave groups out")


def _check_values(instances, offsets, ids, missing: str) -> bool:
    """Refuse what is not finite (NaN may be kept); return whether NaN is there."""
    if _all_finite(instances):
        return False
    infinite = np.isinf(instances).any(axis=1)
    if infinite.any():
        raise ValueError(
            f"{name_bags(ids, _bag_of(infinite, offsets))} infinite feature values; "
            "clip them or drop those instances (missing='drop-instances')"
        )
    absent = np.isnan(instances).any(axis=1)
    if missing == "refuse":
        raise ValueError(
            f"{name_bags(ids, _bag_of(absent, offsets))} missing feature values (NaN); fill them in, drop those "
            "instances (missing='drop-instances'), or keep them for a learner that takes NaN (missing='keep')"
        )
    return True


def _all_finite(instances: np.ndarray, block: int = 1 << 20) -> bool:
    """In blocks, so that no boolean array as large as the data is made."""
    flat = instances.reshape(-1)
    return all(np.isfinite(flat[i : i + block]).all() for i in range(0, flat.size, block))


def _bag_of(rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Which bags have any of the marked rows."""
    return np.logical_or.reduceat(rows, offsets[:-1])


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _same(a, b) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(np.all(a == b))


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
