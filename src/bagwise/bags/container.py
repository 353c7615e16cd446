"""`Bags`: the one container. Flat instances, offsets, ids; frozen; holding one is the proof it is valid.

Which bags a selection means, and which rows are theirs.

Bags made from bags: the same ones with other instances, weights or covariates.

Bags in a notebook: what they are, how large, and what their features range over. No script, every string escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, overload

import numpy as np

from bagwise.bags import validation
from bagwise.bags.frames import names_of, unframe


def positions(key, n_bags: int) -> np.ndarray:
    """The positions meant by a slice, a list of integers or a mask of bags."""
    if isinstance(key, slice):
        return np.arange(n_bags)[key]
    key = np.asarray(key)
    if key.size == 0:
        return np.empty(0, dtype=np.intp)
    if key.ndim != 1 or key.dtype.kind not in "iub":
        raise IndexError("bags are selected by an integer, a slice, a list of integers, or a mask")
    if key.dtype == bool:
        if len(key) != n_bags:
            raise IndexError(f"a mask of {len(key)} for {n_bags} bags; give one truth value per bag")
        return np.flatnonzero(key)
    key = key.astype(np.intp)  # small integer types overflow below
    outside = (key < -n_bags) | (key >= n_bags)
    if outside.any():
        raise IndexError(f"there is no bag at position {key[outside][0]}; there are {n_bags} bags")
    return np.where(key < 0, key + n_bags, key)


def rows_of(offsets: np.ndarray, chosen: np.ndarray) -> np.ndarray | slice:
    """Where the instances of the chosen bags lie, bag after bag; a slice for a run of bags: a view, not a copy."""
    if len(chosen) and (np.diff(chosen) == 1).all():
        return slice(offsets[chosen[0]], offsets[chosen[-1] + 1])
    sizes = np.diff(offsets)[chosen]
    shifts = offsets[chosen] - np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.repeat(shifts, sizes) + np.arange(sizes.sum())


class Deriving:
    """What `Bags` can be turned into; nothing is changed in place."""

    __slots__ = ()

    def _with(self, **changes) -> Bags:
        """The same bags with some parts changed, which are trusted."""
        return self._trusted(**({name: getattr(self, name) for name in self.__slots__} | changes))

    def singles(self) -> Bags:
        """Every instance as a bag of its own, numbered from 0; it needs no weight there."""
        groups, covariates = (None if a is None else self.expand(a) for a in (self.groups, self.covariates))
        n = self.n_instances
        return self._with(
            offsets=np.arange(n + 1), ids=np.arange(n), groups=groups, weights=None, covariates=covariates
        )

    def replace(self, instances, *, feature_names=None) -> Bags:
        """The same bags with other rows for their instances; rows must correspond one to one."""
        instances, columns = unframe(instances, "instances")
        instances = validation.as_instances(instances)
        if len(instances) != self.n_instances:
            raise ValueError(f"{len(instances)} rows for {self.n_instances} instances; give one row per instance")
        names = validation.as_feature_names(names_of(feature_names, columns, "feature_names"), instances.shape[1])
        missing = "keep" if self.has_missing else "refuse"
        has_missing = validation.check_values(instances, self.offsets, self.ids, missing)
        return self._with(instances=instances, feature_names=names, has_missing=has_missing)

    def with_weights(self, weights) -> Bags:
        """The same bags with these weights of their instances."""
        return self._with(weights=validation.as_weights(weights, self.offsets, self.ids))

    def without_weights(self) -> Bags:
        """The same bags, every instance counting the same."""
        return self if self.weights is None else self._with(weights=None)

    def with_covariates(self, covariates, names=None) -> Bags:
        """The same bags with these covariates, a row per bag: an array, or a data frame, whose columns name them."""
        covariates, names = validation.as_covariates(covariates, names, self.ids, self.feature_names)
        return self._with(covariates=covariates, covariate_names=names)

    def without_covariates(self) -> Bags:
        return self if self.covariates is None else self._with(covariates=None, covariate_names=None)

    def spread(self) -> Bags:
        """The same bags with their covariates as columns of every instance."""
        if self.covariates is None:
            return self
        instances, names = validation.spread(self)
        return self._with(instances=instances, feature_names=names).without_covariates()


MOST_FEATURES, MOST_IDS, MOST_BARS = 12, 3, 20
WIDTH, HEIGHT = 240, 48


def html_of(bags: Bags) -> str:
    """A caption, the sizes as bars, and a table of the features.

    Examples
    --------
    >>> import numpy as np, bagwise as bw
    >>> bags = bw.from_arrays([np.array([1.0, 2.0])], ids=["<b>"], feature_names=["x"])
    >>> "&lt;b&gt;" in html_of(bags) and "<b>" not in html_of(bags)
    True
    """
    parts = [f"<p><strong>{escape(repr(bags))}</strong></p>"]
    if len(bags):
        parts += [f"<p>{_named('ids', bags.ids)}{_groups(bags)}</p>", _sizes(bags.sizes), _features(bags)]
    return f'<div style="font-size: 90%">{"".join(parts)}</div>'


def _named(what: str, values) -> str:
    some = ", ".join(str(value) for value in values[:MOST_IDS])
    return escape(f"{what}: {some}{', ...' if len(values) > MOST_IDS else ''}")


def _groups(bags: Bags) -> str:
    if bags.groups is None:
        return ""
    found = list(dict.fromkeys(bags.groups.tolist()))
    return f"<br>{_named('groups', found)}"


def _sizes(sizes: np.ndarray) -> str:
    """How many bags have how many instances, as bars in the colour of the text."""
    bars = min(MOST_BARS, int(sizes.max() - sizes.min()) + 1)
    counts, edges = np.histogram(sizes, bins=bars)
    heights = np.ceil(counts / counts.max() * HEIGHT)
    step = WIDTH / bars
    drawn = "".join(
        f'<rect x="{i * step:.1f}" y="{HEIGHT - height:.0f}" width="{step - 1:.1f}" height="{height:.0f}">'
        f"<title>{_span(edges[i : i + 2], last=i == bars - 1)}: {count:,}</title></rect>"
        for i, (height, count) in enumerate(zip(heights, counts, strict=True))
    )
    label = f"bags by size, {sizes.min():,} to {sizes.max():,} instances"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}" '
        f'fill="currentColor" opacity="0.6">{drawn}</svg><p>{label}</p>'
    )


def _span(edges: np.ndarray, *, last: bool) -> str:
    """The sizes that a bar counts: whole numbers from one edge up to the other, which belongs to the last bar alone."""
    low, high = int(np.ceil(edges[0])), int(edges[1] if last else np.ceil(edges[1]) - 1)
    return f"{low:,}" if low >= high else f"{low:,} to {high:,}"


def _features(bags: Bags) -> str:
    names = bags.feature_names or tuple(f"feature {j}" for j in range(bags.n_features))
    rows = "".join(_row(name, bags.instances[:, j]) for j, name in enumerate(names[:MOST_FEATURES]))
    more = bags.n_features - MOST_FEATURES
    if more > 0:
        rows += f'<tr><td colspan="3">and {more:,} more</td></tr>'
    if bags.covariates is not None:
        own = bags.covariate_names or tuple(f"covariate {j}" for j in range(bags.covariates.shape[1]))
        shown = zip(own[:MOST_FEATURES], bags.covariates.T, strict=False)
        rows += "".join(_row(f"{name} (of the bag)", column) for name, column in shown)
    return f"<table><tr><th>feature</th><th>from</th><th>to</th></tr>{rows}</table>"


def _row(name: str, values: np.ndarray) -> str:
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    lost = len(values) - len(known)
    low, high = (f"{known.min():.4g}", f"{known.max():.4g}") if len(known) else ("", "")
    note = f" ({lost:,} missing)" if lost else ""
    return f"<tr><td>{escape(str(name))}</td><td>{low}</td><td>{high}{note}</td></tr>"


class Bags(Deriving):
    """A collection of bags: every bag is a non-empty set of instances, every instance a row of numbers.

    The instances of all bags lie in one flat array, bag after bag; bag ``i`` is
    ``instances[offsets[i]:offsets[i + 1]]``. To scikit-learn the bags are the samples (``shape`` is (bags,
    features) and ``bags[indices]`` selects bags), so its cross-validation splits bags, never instances.

    Parameters
    ----------
    instances : array of shape (n_instances, n_features), or data frame
        float64 and float32 are kept, integers and booleans become float64. A C-ordered array of floats is not copied:
        the bags hold a read-only view of it, and what is written to the array later changes them too. Pass a copy if
        it will be written to. Its own flags are not touched.
    offsets : array of n_bags + 1 integers, from 0 to n_instances, strictly increasing
        A bag cannot be empty.
    ids : one distinct identifier per bag, default 0, 1, 2, ...
    groups : one label per bag, optional
        Bags that share a label (the patient, the county) stay together in every inner split.
    feature_names : one string per column, optional
        Default: the names of the columns of a data frame.
    missing : {"refuse", "keep"}
        Whether NaN is refused or kept for learners that take it. Infinite values are always refused.
    weights : one number per instance, optional
        How much an instance counts in its bag: in the loss of instance models and in the embedding of the bag. Only
        ratios within a bag matter, unless every instance is to weigh the same (``weighting="instance"``).
    covariates : array of shape (n_bags, n_covariates), or data frame, optional
        Numbers of the bag as a whole, such as the angle of the sun, for the last stage of a method.
    covariate_names : one string per covariate, optional
        Default: the names of the columns of a data frame.

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

    __slots__ = (
        "instances",
        "offsets",
        "ids",
        "groups",
        "feature_names",
        "has_missing",
        "weights",
        "covariates",
        "covariate_names",
        "compared",
    )

    instances: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    groups: np.ndarray | None
    feature_names: tuple[str, ...] | None
    has_missing: bool
    weights: np.ndarray | None
    covariates: np.ndarray | None
    covariate_names: tuple[str, ...] | None
    compared: bool  # whether an estimator has compared the values with those of its training

    def __init__(
        self,
        instances,
        offsets,
        ids=None,
        *,
        groups=None,
        feature_names=None,
        missing="refuse",
        weights=None,
        covariates=None,
        covariate_names=None,
    ):
        if missing not in ("refuse", "keep"):
            way = "; 'drop-instances' is for tables: leave the rows out first" if missing == "drop-instances" else ""
            raise ValueError(f"missing must be 'refuse' or 'keep' here, not {missing!r}{way}")
        instances, columns = unframe(instances, "instances")
        instances = validation.as_instances(instances)
        offsets = validation.as_offsets(offsets, len(instances))
        n_bags = len(offsets) - 1
        ids = np.arange(n_bags) if ids is None else validation.as_labels(ids, n_bags, "ids")
        validation.refuse_empty(np.diff(offsets), ids)
        validation.refuse_repeated(ids)
        if groups is not None:
            groups = validation.as_labels(groups, n_bags, "groups")
            validation.refuse_unlabelled(groups, ids)
        names = names_of(feature_names, columns, "feature_names")
        names = validation.as_feature_names(names, instances.shape[1])
        has_missing = validation.check_values(instances, offsets, ids, missing)
        weights = validation.as_weights(weights, offsets, ids)
        covariates = validation.as_covariates(covariates, covariate_names, ids, names)
        self._set(instances, offsets, ids, groups, names, has_missing, weights, *covariates, False)

    def _set(self, *values):
        for name, value in zip(self.__slots__, values, strict=True):
            value = validation.read_only(value) if isinstance(value, np.ndarray) else value
            object.__setattr__(self, name, value)

    @classmethod
    def _trusted(cls, *values, **named) -> Bags:
        """Build from parts that come from a valid `Bags`, in the order of ``__slots__`` or by name, without checks."""
        bags, given = (
            cls.__new__(cls),
            {"has_missing": False, "compared": False} | dict(zip(cls.__slots__, values, strict=False)) | named,
        )
        bags._set(*(given.get(name) for name in cls.__slots__))
        return bags

    def __setattr__(self, name, value):
        raise AttributeError("Bags cannot be changed; use replace() or select bags to make new ones")

    def __delattr__(self, name):
        self.__setattr__(name, None)

    def __reduce__(self):
        return (Bags._trusted, tuple(getattr(self, name) for name in self.__slots__))

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
        if self.covariates is not None:
            text += f", {_count(self.covariates.shape[1], 'covariate')}"
        extras = ["missing values"] * self.has_missing + ["instance weights"] * (self.weights is not None)
        return text + (f", with {' and '.join(extras)}" if extras else "")

    def _repr_html_(self) -> str:
        """What a notebook shows."""

        return html_of(self)

    def __eq__(self, other) -> bool:
        if not isinstance(other, Bags):
            return NotImplemented
        others = ("offsets", "ids", "groups", "weights", "covariates")
        return (
            (self.feature_names, self.covariate_names) == (other.feature_names, other.covariate_names)
            and all(_same(getattr(self, name), getattr(other, name)) for name in others)
            and self.instances.dtype == other.instances.dtype
            and np.array_equal(self.instances, other.instances, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]

    # Selecting ----------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int | np.integer) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: Any) -> Bags: ...

    def __getitem__(self, key):
        """One bag as an array for an integer; `Bags` for a slice, a list of positions or a boolean mask."""
        if isinstance(key, tuple):  # bags[ids, ...], the form scikit-learn uses
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError("bags are selected by one index: bags[3], bags[2:5], bags[[0, 4]]")
            key = key[0]
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            key = int(positions([key], len(self))[0])
            return self.instances[self.offsets[key] : self.offsets[key + 1]]
        return self._select(positions(key, len(self)))

    def __iter__(self) -> Iterator[np.ndarray]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.instances[start:stop]

    def rows(self, chosen) -> np.ndarray:
        """Positions, in the flat array, of the instances of the given bags, bag after bag."""
        return np.arange(self.n_instances)[rows_of(self.offsets, positions(chosen, len(self)))]

    def expand(self, per_bag) -> np.ndarray:
        """One value per bag, repeated for each of its instances."""
        per_bag = validation.one_per_bag(per_bag, len(self), "per_bag")
        return np.repeat(per_bag, self.sizes, axis=0)

    def shares(self) -> np.ndarray:
        """The share of every instance in its bag, 1 / size or by its weight: they sum to one in every bag."""
        return validation.shares(self.weights, self.offsets)

    def effective_sizes(self) -> np.ndarray:
        """How many equal instances would tell as much of a mean: (Σ w)² / Σ w²; the size without weights."""
        return self.sizes if self.weights is None else 1.0 / np.add.reduceat(self.shares() ** 2, self.offsets[:-1])

    def _select(self, chosen: np.ndarray) -> Bags:
        rows = rows_of(self.offsets, chosen)
        instances = self.instances[rows]
        # A selection with replacement (a bootstrap) may repeat an id; it is still a valid set of bags.
        return self._with(
            instances=instances,
            offsets=np.concatenate([[0], np.cumsum(self.sizes[chosen])]),
            ids=self.ids[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            has_missing=self.has_missing and bool(np.isnan(instances).any()),
            weights=None if self.weights is None else self.weights[rows],
            covariates=None if self.covariates is None else self.covariates[chosen],
        )


def _same(a, b) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(np.all(a == b))


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
