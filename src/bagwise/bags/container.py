"""`Bags`: the one container. Flat instances, offsets, ids; frozen; holding one is the proof it is valid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bagwise.bags import parts


class Bags:
    """A collection of bags: every bag is a non-empty set of instances, every instance a row of numbers.

    The instances of all bags lie in one flat array, bag after bag; bag ``i`` is
    ``instances[offsets[i]:offsets[i + 1]]``. To scikit-learn the bags are the samples (``shape`` is (bags,
    features) and ``bags[indices]`` selects bags), so its cross-validation splits bags, never instances.

    Parameters
    ----------
    instances : array of shape (n_instances, n_features)
        float64 and float32 are kept, integers and booleans become float64. A read-only view is held; the
        flags of the array passed in are not touched.
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
        instances = parts.as_instances(instances)
        offsets = parts.as_offsets(offsets, len(instances))
        n_bags = len(offsets) - 1
        ids = np.arange(n_bags) if ids is None else parts.as_labels(ids, n_bags, "ids")
        parts.refuse_empty(np.diff(offsets), ids)
        parts.refuse_repeated(ids)
        if groups is not None:
            groups = parts.as_labels(groups, n_bags, "groups")
            parts.refuse_unlabelled(groups, ids)
        names = parts.as_feature_names(feature_names, instances.shape[1])
        has_missing = parts.check_values(instances, offsets, ids, missing)
        self._set(instances, offsets, ids, groups, names, has_missing)

    def _set(self, instances, offsets, ids, groups, feature_names, has_missing):
        put = object.__setattr__
        put(self, "instances", parts.read_only(instances))
        put(self, "offsets", parts.read_only(offsets))
        put(self, "ids", parts.read_only(ids))
        put(self, "groups", None if groups is None else parts.read_only(groups))
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

    def __delattr__(self, name):
        self.__setattr__(name, None)

    def __reduce__(self):
        state = (self.instances, self.offsets, self.ids, self.groups, self.feature_names, self.has_missing)
        return (Bags._trusted, state)

    # What it is ---------------------------------------------------------------------------------------------

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
            text += f", {_count(len(set(self.groups.tolist())), 'group')}"
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

    # Selecting ----------------------------------------------------------------------------------------------

    def __getitem__(self, key) -> Bags | np.ndarray:
        """One bag as an array for an integer; `Bags` for a slice, a list of positions or a boolean mask."""
        if isinstance(key, tuple):  # bags[ids, ...], the form scikit-learn uses
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError("bags are selected by one index: bags[3], bags[2:5], bags[[0, 4]]")
            key = key[0]
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            key = int(self._positions([key])[0])
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
        per_bag = parts.one_per_bag(per_bag, len(self), "per_bag")
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
        instances = parts.as_instances(instances)
        if len(instances) != self.n_instances:
            raise ValueError(f"{len(instances)} rows for {self.n_instances} instances; give one row per instance")
        names = parts.as_feature_names(feature_names, instances.shape[1])
        missing = "keep" if self.has_missing else "refuse"
        has_missing = parts.check_values(instances, self.offsets, self.ids, missing)
        return Bags._trusted(instances, self.offsets, self.ids, self.groups, names, has_missing)

    def _positions(self, key) -> np.ndarray:
        if isinstance(key, slice):
            return np.arange(len(self))[key]
        key = np.asarray(key)
        if key.size == 0:
            return np.empty(0, dtype=np.intp)
        if key.ndim != 1 or key.dtype.kind not in "iub":
            raise IndexError("bags are selected by an integer, a slice, a list of integers, or a mask")
        if key.dtype == bool:
            if len(key) != len(self):
                raise IndexError(f"a mask of {len(key)} for {len(self)} bags; give one truth value per bag")
            return np.flatnonzero(key)
        key = key.astype(np.intp)  # small integer types overflow below
        outside = (key < -len(self)) | (key >= len(self))
        if outside.any():
            raise IndexError(f"there is no bag at position {key[outside][0]}; there are {len(self)} bags")
        return np.where(key < 0, key + len(self), key)

    def _select(self, positions: np.ndarray) -> Bags:
        sizes = self.sizes[positions]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if len(positions) and (np.diff(positions) == 1).all():  # a run of bags is a view, not a copy
            instances = self.instances[self.offsets[positions[0]] : self.offsets[positions[-1] + 1]]
        else:
            instances = self.instances[self.rows(positions)]
        groups = None if self.groups is None else self.groups[positions]
        has_missing = self.has_missing and bool(np.isnan(instances).any())
        # A selection with replacement (a bootstrap) may repeat an id; it is still a valid set of bags.
        return Bags._trusted(instances, offsets, self.ids[positions], groups, self.feature_names, has_missing)


def _same(a, b) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(np.all(a == b))


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
