"""`Bags`: an immutable container of bags, checked when it is created: flat instances, offsets and ids."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Any, overload

import numpy as np

from bagwise.bags import validation
from bagwise.bags.frames import as_list, to_frame
from bagwise.bags.segments import shares
from bagwise.bags.shared_rows import SHARED_ROWS, shared_row_groups
from bagwise.bags.validation import counted

MOST_FEATURES, MOST_IDS = 12, 3  # shown in a notebook
OF_BAGS = ("groups", "covariates", "time", "fold")  # the optional parts with one entry per bag


class Bags:
    """A collection of bags. Each bag is a non-empty set of instances, and each instance is a row of numbers.

    The instances of all bags lie in one flat array, bag after bag; bag ``i`` is
    ``instances[offsets[i]:offsets[i + 1]]``. To scikit-learn the bags are the samples (``shape`` is (bags,
    features) and ``bags[indices]`` selects bags), so its cross-validation splits bags, never instances.

    Parameters
    ----------
    instances : array of shape (n_instances, n_features), or data frame
        Integers and booleans become float64. A C-ordered array of float64 or float32 is not copied, so later writes to
        it change the bags; pass a copy if you will write to it.
    offsets : array of n_bags + 1 integers, from 0 to n_instances, strictly increasing
        A bag cannot be empty.
    ids : one distinct identifier per bag, default 0, 1, 2, ...
    groups : one label per bag, optional
        Bags that share a label (the patient, the county) stay together in every inner split. With "shared-rows", bags
        that share instances are one group.
    feature_names : one string per column, optional
        Default: the names of the columns of a data frame.
    missing : {"refuse", "impute", "keep"}
        Whether missing values (NaN) raise an error, are imputed by every estimator, fitted on its own training bags, or
        are kept for estimators that read NaN themselves. Infinite values are always refused.
    weights : one number per instance, optional
        Weight of the instance within its bag, in the loss of instance models and in the embedding of the bag. Only
        ratios within a bag matter, except with ``weighting="instance"``, where instances of all bags are compared.
    covariates : array of shape (n_bags, n_covariates), or data frame, optional
        Numbers that describe the bag, such as the angle of the sun; the last stage of a method uses them.
    covariate_names : one string per covariate, optional
        Default: the names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> bags = Bags(np.arange(10.0).reshape(5, 2), offsets=[0, 2, 5], ids=["a", "b"])
    >>> bags
    Bags: 2 bags of 2 to 3 instances (5 in all), 2 features
    >>> bags["a"]
    array([[0., 1.],
           [2., 3.]])
    >>> bags[[1, 0]].ids.tolist()
    ['b', 'a']

    `load` sets further attributes. ``kept`` is a dict of columns that are copied with the instances but are not
    features: ``row``, the position of the instance in the table (from 0), and the columns listed in ``keep``.
    ``id_name`` and ``target_name`` are the names of the bag id and the target in the table, for tables of results.
    ``categories`` maps each categorical column to the names of its level features.
    """

    instances: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    groups: np.ndarray | None
    feature_names: tuple[str, ...] | None
    has_missing: bool
    weights: np.ndarray | None
    covariates: np.ndarray | None
    covariate_names: tuple[str, ...] | None
    compared: bool  # whether values have been compared with the training range
    folds_checked: bool  # whether folds have been checked for bags that share rows
    kept: dict[str, np.ndarray] | None  # columns copied with the instances, set by `load`; never features
    id_name: str | None  # names of the bag id and the target in the table (a tuple for several targets)
    target_name: str | tuple[str, ...] | None
    categories: dict[str, tuple[str, ...]] | None  # columns of categories, and the feature names of their levels
    time: np.ndarray | None  # one date or number per bag, for folds that look forward in time
    fold: np.ndarray | None  # one label per bag: the folds or the split of the table
    validation: Any  # the declared `Validation`, without its columns, which are `groups`, `time` and `fold`
    missing: str  # "refuse", "impute" or "keep", as declared; "imputed" once an estimator has filled them in

    __slots__ = tuple(__annotations__)

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
        if missing == "drop-instances":
            text = "missing='drop-instances' is for tables, which load reads; here, leave such instances out first"
            raise validation.ParameterError("missing", text)
        validation.one_of(missing, ("refuse", "impute", "keep"), "missing")
        instances, names = validation.as_instances(instances, feature_names)
        offsets = validation.as_offsets(offsets, len(instances))
        n_bags = len(offsets) - 1
        ids = np.arange(n_bags) if ids is None else validation.as_labels(ids, n_bags, "ids")
        advice = "every bag needs at least one: leave the empty ones out, with their targets"
        validation.refuse_bags(np.diff(offsets) == 0, ids, f"no instances; {advice}")
        validation.refuse_repeated(ids)
        has_missing = validation.check_values(instances, offsets, ids, missing, names)
        weights = validation.as_weights(weights, offsets, ids)
        covariates = validation.as_covariates(covariates, covariate_names, ids, names)
        self._set(instances, offsets, ids, None, names, has_missing, weights, *covariates, missing=missing)
        object.__setattr__(self, "groups", _read_only(self._as_groups(groups)))

    def _set(self, *values, **named):
        """Set the parts, in the order of ``__slots__`` or by name."""
        parts = dict.fromkeys(("has_missing", "compared", "folds_checked"), False) | {"missing": "refuse"}
        parts |= dict(zip(self.__slots__, values, strict=False)) | named
        for name in self.__slots__:
            object.__setattr__(self, name, _read_only(parts.get(name)))

    @classmethod
    def _trusted(cls, *values, **named) -> Bags:
        """Build from parts that come from a valid `Bags`, in the order of ``__slots__`` or by name, without checks."""
        bags = cls.__new__(cls)
        bags._set(*values, **named)
        return bags

    def __setattr__(self, name, value):
        raise AttributeError("Bags cannot be changed. Use replace() or the with_...() methods, which return new bags")

    def __delattr__(self, name):
        self.__setattr__(name, None)

    def __reduce__(self):
        return (Bags._trusted, tuple(getattr(self, name) for name in self.__slots__))

    # Properties ---------------------------------------------------------------------------------------------

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
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    def __repr__(self) -> str:
        sizes = self.sizes
        low, high = (int(sizes.min()), int(sizes.max())) if len(self) else (0, 0)
        span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        text = (
            f"Bags: {counted(len(self), 'bag')} of {span} {'instance' if high == 1 else 'instances'} "
            f"({self.n_instances:,} in all), {counted(self.n_features, 'feature')}"
        )
        if self.groups is not None:
            text += f", {counted(len(set(self.groups.tolist())), 'group')}"
        if self.covariates is not None:
            text += f", {counted(self.covariates.shape[1], 'covariate')}"
        extras = ["missing values"] * self.has_missing + ["instance weights"] * (self.weights is not None)
        return text + (f", with {' and '.join(extras)}" if extras else "")

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the sizes of the bags, some ids, and the range of each feature."""
        lines = [f"<strong>{escape(repr(self))}</strong>"]
        if len(self) == 0:
            return lines[0]
        groups = [] if self.groups is None else list(dict.fromkeys(self.groups.tolist()))
        for heading, labels in (("ids", self.ids), ("groups", groups)):
            if len(labels):
                more = ", ..." if len(labels) > MOST_IDS else ""
                lines.append(escape(f"{heading}: {', '.join(map(str, labels[:MOST_IDS]))}{more}"))
        low, median, high = np.quantile(self.sizes, [0, 0.5, 1])
        lines.append(f"instances in a bag: {low:,.0f} to {high:,.0f}, median {median:,g}")
        names = self.feature_names or [f"feature {j}" for j in range(self.n_features)]
        columns = list(zip(names, self.instances.T, strict=True))[:MOST_FEATURES]
        if self.n_features > MOST_FEATURES:
            columns.append((f"and {self.n_features - MOST_FEATURES:,} more", np.empty(0)))
        if self.covariates is not None:
            names = self.covariate_names or [f"covariate {j}" for j in range(self.covariates.shape[1])]
            columns += zip([f"{name} (of the bag)" for name in names[:MOST_FEATURES]], self.covariates.T, strict=False)
        table = "<tr><th>feature</th><th>from</th><th>to</th></tr>"
        for name, values in columns:
            present = values[~np.isnan(values)]
            ends = [f"{present.min():.4g}", f"{present.max():.4g}"] if len(present) else ["", ""]
            note = f" ({len(values) - len(present):,} missing)" if len(present) < len(values) else ""
            table += f"<tr><td>{escape(name)}</td><td>{ends[0]}</td><td>{ends[1]}{note}</td></tr>"
        return f'<div style="font-size: 90%">{"<br/>".join(lines)}<table>{table}</table></div>'

    def __eq__(self, other) -> bool:
        if not isinstance(other, Bags):
            return NotImplemented
        arrays = ("offsets", "ids", "groups", "weights", "covariates")
        return (
            (self.feature_names, self.covariate_names) == (other.feature_names, other.covariate_names)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
            and self.instances.dtype == other.instances.dtype
            and np.array_equal(self.instances, other.instances, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]

    # Selecting ----------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int | np.integer | str) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: Any) -> Bags: ...

    def __getitem__(self, key):
        """Return one bag as an array, or `Bags` of several.

        A position or an id (a string) selects one bag; a slice, a list of positions or ids, or a boolean mask selects
        several. An integer is always a position; to select by ids that are not strings, use a mask, as in
        ``bags[bags.ids == 7]``.
        """
        if isinstance(key, tuple):  # bags[ids, ...], the form scikit-learn uses
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError("bags are selected by one index: bags[3], bags[2:5], bags[[0, 4]]")
            key = key[0]
        if isinstance(key, str):
            key = self._positions_of([key])[0]
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            key = int(self._positions([key])[0])
            return self.instances[self.offsets[key] : self.offsets[key + 1]]
        chosen = self._positions(key)
        offsets = np.concatenate([[0], np.cumsum(self.sizes[chosen])])
        # A bootstrap sample repeats ids, which is allowed here.
        of_bags = {name: values[chosen] for name in OF_BAGS if (values := getattr(self, name)) is not None}
        return self._with_rows(self._rows_of(chosen), offsets, ids=self.ids[chosen], **of_bags)

    def _positions(self, key) -> np.ndarray:
        """Return the positions that a slice, a list of integers or ids, or a mask of bags selects."""
        if isinstance(key, slice):
            return np.arange(len(self))[key]
        key = np.asarray(key)
        if key.size == 0:
            return np.empty(0, dtype=np.intp)
        if key.ndim == 1 and (key.dtype.kind in "UT" or all(isinstance(label, str) for label in key)):
            return self._positions_of(key.tolist())
        if key.ndim != 1 or key.dtype.kind not in "iub":
            raise IndexError("bags are selected by an integer or an id, a slice, a list of integers or ids, or a mask")
        n_bags = len(self)
        if key.dtype == bool and len(key) != n_bags:
            raise IndexError(f"a mask of {len(key)} for {n_bags} bags; give one truth value per bag")
        if key.dtype != bool and (outside := (key < -n_bags) | (key >= n_bags)).any():
            raise IndexError(f"there is no bag at position {key[outside][0]}; there are {n_bags} bags")
        return np.arange(n_bags)[key]

    def _positions_of(self, ids: list[str]) -> np.ndarray:
        """Return the positions of the bags with these ids; the first position of an id that occurs several times."""
        places: dict = {}
        for position, label in enumerate(self.ids.tolist()):
            places.setdefault(label, position)
        unknown = [label for label in ids if label not in places]
        if unknown:
            more = f" (and {len(unknown) - 1:,} more ids have none)" if len(unknown) > 1 else ""
            texts = [label for label in places if isinstance(label, str)]
            near = difflib.get_close_matches(unknown[0], texts, n=1)
            hint = f"the nearest is {near[0]!r}" if near else f"ids are {', '.join(map(repr, texts[:3])) or 'none'}"
            if places and not texts:
                kind = type(next(iter(places))).__name__
                hint = f"the ids here are {kind}, not text: select by a mask, bags[bags.ids == ...], or by position"
            raise IndexError(f"there is no bag with the id {unknown[0]!r}{more}; {hint}")
        return np.array([places[label] for label in ids], dtype=np.intp)

    def _rows_of(self, chosen: np.ndarray) -> np.ndarray | slice:
        """Return the rows of the chosen bags; a slice for consecutive bags, so that indexing is a view."""
        if len(chosen) and (np.diff(chosen) == 1).all():
            return slice(self.offsets[chosen[0]], self.offsets[chosen[-1] + 1])
        sizes = self.sizes[chosen]
        shifts = self.offsets[chosen] - np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return np.repeat(shifts, sizes) + np.arange(sizes.sum())

    def __iter__(self) -> Iterator[np.ndarray]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.instances[start:stop]

    def rows(self, chosen) -> np.ndarray:
        """Return the positions, in the flat array, of the instances of the given bags, bag after bag."""
        return np.arange(self.n_instances)[self._rows_of(self._positions(chosen))]

    def expand(self, per_bag) -> np.ndarray:
        """Repeat one value per bag for each of its instances."""
        if not isinstance(per_bag, np.ndarray) or per_bag.shape[:1] != (len(self),):
            per_bag = validation.one_per_bag(per_bag, len(self), "per_bag")
        return np.repeat(per_bag, self.sizes, axis=0)

    def shares(self) -> np.ndarray:
        """Return the share of each instance in its bag, 1 / size or by weight; shares sum to one in each bag."""
        return shares(self.weights, self.offsets)

    def effective_sizes(self) -> np.ndarray:
        """Return the effective sample size of each bag, (Σ w)² / Σ w²; without weights, its size."""
        return self.sizes if self.weights is None else 1.0 / np.add.reduceat(self.shares() ** 2, self.offsets[:-1])

    def to_frame(
        self, y=None, *, bag: str | None = None, target=None, groups: str = "group", weights: str = "weight"
    ) -> Any:
        """Convert the bags to a long table with a row per instance, as `load` reads it.

        Parameters
        ----------
        y : array of one target per bag, or with a column per target, optional
        bag, groups, weights : str, optional
            Names of the columns of ids (by default that of the loaded table, or "bag"), groups and instance weights.
        target : str, or a list of them for several targets, optional
            Names of the target columns; by default those of the loaded table, or "target", or "target_1", ...

        Returns
        -------
        A pandas data frame, or a polars one if only polars is installed, or else a dict of arrays. The columns are: id,
        target, features (x1, x2, ... if they have no names), covariates (c1, c2, ...), groups, weights, and the columns
        kept on loading (``bags.kept``), without ``row`` and ``instance`` if another column has that name.

        Examples
        --------
        >>> import bagwise as bw
        >>> bags = bw.from_arrays([[[1.0], [2.0]], [[3.0]]], ids=["a", "b"])
        >>> bags.to_frame([0.5, 0.1]).to_numpy().tolist()
        [['a', 0.5, 1.0], ['a', 0.5, 2.0], ['b', 0.1, 3.0]]
        """
        columns = [(bag or self.id_name or "bag", self.expand(self.ids))]
        if y is not None:
            y, named = validation.one_per_bag(y, len(self), "y"), as_list(target or self.target_name or ())
            default = ["target"] if y.ndim == 1 else [f"target_{j + 1}" for j in range(y.shape[1])]
            values = self.expand(y).reshape(self.n_instances, len(default))
            columns += zip(named if len(named) == len(default) else default, values.T, strict=True)
        names = self.feature_names or [f"x{j + 1}" for j in range(self.n_features)]
        columns += zip(names, self.instances.T, strict=True)
        if self.covariates is not None:
            names = self.covariate_names or [f"c{j + 1}" for j in range(self.covariates.shape[1])]
            columns += zip(names, self.expand(self.covariates).T, strict=True)
        columns += [] if self.groups is None else [(groups, self.expand(self.groups))]
        columns += [] if self.weights is None else [(weights, self.weights)]
        in_use = {name for name, _ in columns} & {"row", "instance"}
        columns += [(name, values) for name, values in (self.kept or {}).items() if name not in in_use]
        table = dict(columns)
        if len(table) < len(columns):
            twice = next(name for name in table if [used for used, _ in columns].count(name) > 1)
            raise ValueError(
                f"two columns would be called {twice!r}; rename them with to_frame(bag=, target=, groups=, weights=)"
            )
        return to_frame(table)

    # Derived bags; nothing is changed in place -------------------------------------------------------------

    def _with(self, **changes) -> Bags:
        """Return the bags with some parts replaced, without validation."""
        return self._trusted(**({name: getattr(self, name) for name in self.__slots__} | changes))

    def _with_rows(self, rows, offsets: np.ndarray, **changes) -> Bags:
        """Return bags of selected instances, with their weights and kept columns; offsets are not checked."""
        instances = self.instances[rows]
        return self._with(
            instances=instances,
            offsets=offsets,
            has_missing=self.has_missing and bool(np.isnan(instances).any()),
            weights=None if self.weights is None else self.weights[rows],
            kept=None if self.kept is None else {name: values[rows] for name, values in self.kept.items()},
            **changes,
        )

    def singles(self) -> Bags:
        """Return each instance as a separate bag, numbered from 0, without weights."""
        repeated = {name: self.expand(values) for name in OF_BAGS if (values := getattr(self, name)) is not None}
        n = self.n_instances
        return self._with(offsets=np.arange(n + 1), ids=np.arange(n), weights=None, **repeated)

    def replace(self, instances, *, feature_names=None) -> Bags:
        """Return the bags with other features for their instances; rows must correspond one to one."""
        instances, names = validation.as_instances(instances, feature_names)
        if len(instances) != self.n_instances:
            raise ValueError(f"{len(instances)} rows for {self.n_instances} instances; give one row per instance")
        missing = "keep" if self.missing in ("impute", "keep") else "refuse"
        has_missing = validation.check_values(instances, self.offsets, self.ids, missing, names)
        return self._with(instances=instances, feature_names=names, has_missing=has_missing)

    def _as_groups(self, groups) -> np.ndarray | None:
        if groups is None:
            return None
        if isinstance(groups, str) and groups == SHARED_ROWS:
            return shared_row_groups(self)
        return validation.as_groups(groups, self.ids)

    def with_groups(self, groups) -> Bags:
        """Return the same bags with these groups: a label per bag, "shared-rows" for bags that share rows, or None."""
        return self._with(groups=self._as_groups(groups))

    def with_weights(self, weights) -> Bags:
        """Return the bags with these weights of their instances."""
        return self._with(weights=validation.as_weights(weights, self.offsets, self.ids))

    def without_weights(self) -> Bags:
        """Return the bags without instance weights."""
        return self if self.weights is None else self._with(weights=None)

    def with_covariates(self, covariates, names=None) -> Bags:
        """Return the bags with these covariates, one row per bag: an array, or a data frame indexed by bag id."""
        covariates, names = validation.as_covariates(covariates, names, self.ids, self.feature_names)
        return self._with(covariates=covariates, covariate_names=names)

    def with_validation(self, declared) -> Bags:
        """Return the bags with a declared `Validation`, from which folds are derived wherever they are needed.

        Parameters
        ----------
        declared : Validation
            Its ``groups``, ``blocks``, ``time`` and ``given`` are one value per bag, or names of columns of the bags
            (covariates, or columns kept on loading).
        """
        if validation.are_pairs(declared.given):
            raise ValueError(
                "Bags cannot carry (train, test) pairs of positions; pass the Validation as folds= instead"
            )
        changes: dict[str, Any] = {}
        groups = declared.groups if declared.blocks is None else declared.blocks
        if groups is not None:
            by_rows = isinstance(groups, str) and groups == SHARED_ROWS
            changes["groups"] = self._as_groups(groups if by_rows else self._column(groups, "groups"))
        if declared.time is not None:
            changes["time"] = validation.as_times(self._column(declared.time, "time"), self.ids)
        if declared.given is not None:
            changes["fold"] = validation.as_labels(self._column(declared.given, "given"), len(self), "given")
        bare = replace(declared, groups=None, blocks=None, time=None, given=None)
        return self._with(validation=bare, folds_checked=False, **changes)

    def labels(self, column: str) -> np.ndarray:
        """Return the value of each bag in a column, as text: a covariate, a category, or a column kept on loading.

        Examples
        --------
        >>> import bagwise as bw
        >>> bags = bw.from_arrays([[[1.0]], [[2.0]]], covariates=[[30], [60]], covariate_names=["angle"])
        >>> bags.labels("angle").tolist()
        ['30.0', '60.0']
        """
        level_features = (self.categories or {}).get(column)
        if level_features and self.feature_names and set(level_features) <= set(self.feature_names):
            levels = self.instances[:, [self.feature_names.index(name) for name in level_features]].argmax(axis=1)
            values = np.array([name.removeprefix(f"{column}=") for name in level_features])[levels]
            return self._per_bag(values, column, "by").astype(str)
        return np.asarray(self._column(column, "by")).astype(str)

    def _column(self, column, parameter: str) -> np.ndarray:
        """Return one value per bag: the given values, or those of a kept column or a covariate."""
        if not isinstance(column, str):
            return validation.one_per_bag(column, len(self), parameter)
        if self.covariates is not None and self.covariate_names and column in self.covariate_names:
            return self.covariates[:, self.covariate_names.index(column)]
        if self.kept and column in self.kept:
            return self._per_bag(self.kept[column], column, parameter)
        names = [*(self.covariate_names or ()), *(self.kept or {})]
        raise ValueError(
            f"the bags have no column {column!r} for {parameter}; their columns are "
            f"{', '.join(map(repr, names)) or 'none'}. Load it with keep=[{column!r}]"
        )

    def _per_bag(self, values: np.ndarray, column: str, parameter: str) -> np.ndarray:
        """Return the value of each bag in a column of instances, which must be the same on all rows of a bag."""
        first = values[self.offsets[:-1]]
        differs = np.flatnonzero(values != np.repeat(first, self.sizes))
        if len(differs):
            bag = self.ids[np.searchsorted(self.offsets, differs[0], side="right") - 1]
            raise ValueError(
                f"{parameter}={column!r}: bag {validation.label(bag)} has more than one value; "
                "expected the same value on all rows of a bag"
            )
        return first

    def without_covariates(self) -> Bags:
        """Return the bags without covariates."""
        return self if self.covariates is None else self._with(covariates=None, covariate_names=None)

    def spread(self) -> Bags:
        """Return the bags with their covariates appended as columns of each instance."""
        if self.covariates is None:
            return self
        wide = np.hstack([self.instances, self.expand(self.covariates).astype(self.dtype)])
        feature_names, covariate_names = self.feature_names, self.covariate_names
        names = None if feature_names is None or covariate_names is None else feature_names + covariate_names
        return self._with(instances=wide, feature_names=names).without_covariates()


def _read_only(value):
    """Return a read-only view of an array; other values are returned unchanged."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
