"""The bags of a scan in partitions, as input of the stages of a method; arrays with an entry per bag are in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import numpy as np

from bagwise.bags import Bags, bag_folds, remember_columns
from bagwise.bags.checks import remember_profile
from bagwise.bags.folds import unit_hash, units_of
from bagwise.bags.training_profile import MAX_INSTANCES, N_CALIBRATION
from bagwise.bags.validation import ParameterError, name_bags, numbered, warn_user
from bagwise.execution.resources import memory_map
from bagwise.kernels.formulas import row_keys, scale_of
from bagwise.regressors.row_blocks import RowBlocks
from bagwise.scale.partitions import (
    NO_HASHES,
    BagsChunk,
    Partition,
    Run,
    bag_arrays,
    count_hashes,
    find_spread_bags,
    join_chunks,
    join_rows,
    split_rows,
)
from bagwise.scale.passes import Arrays, Passes
from bagwise.scale.table_scan import Scan

PER_BAG = ("ids", "sizes", "first", "totals", "groups", "y", "covariates", "weight")
MOST_VALUES = 2**26  # numbers that are held in memory where a method needs bags as a whole: 512 MB


@dataclass(frozen=True)
class Columns:
    """Moments and extremes of columns over all rows."""

    n: int  # rows
    mean: np.ndarray
    scatter: np.ndarray  # Σ (x - mean)²
    zeros: np.ndarray  # the number of zeros
    low: np.ndarray
    high: np.ndarray
    counted_low: np.ndarray  # over the rows of weight above zero
    counted_high: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, counted: np.ndarray | None = None) -> Columns:
        """Compute them of rows in memory; ``counted`` masks the rows of weight above zero."""
        wide = X.astype(np.float64)
        mean = wide[0] + (wide - wide[0]).mean(axis=0)  # from a row: a constant column has no rounding
        both = wide, wide if counted is None else wide[counted]
        ends = [end.reduce(rows, axis=0) for rows in both for end in (np.fmin, np.fmax)]
        return cls(len(X), mean, ((wide - mean) ** 2).sum(axis=0), (X == 0).sum(axis=0), *ends)

    @classmethod
    def merged(cls, parts: list[Arrays]) -> Columns:
        """Merge those of all partitions (Chan et al. 1979)."""
        each = {name: np.array([part[name] for part in parts]) for name in cls.__annotations__}
        n, means = each["n"][:, None], each["mean"]
        mean = means[0] + (n / n.sum() * (means - means[0])).sum(axis=0)
        scatter = each["scatter"].sum(axis=0) + (n * (means - mean) ** 2).sum(axis=0)
        ends = [(np.fmin if "low" in name else np.fmax).reduce(each[name]) for name in list(each)[4:]]
        return cls(int(n.sum()), mean, scatter, each["zeros"].sum(axis=0), *ends)

    @property
    def deviation(self) -> np.ndarray:
        return np.sqrt(self.scatter / self.n)

    @property
    def scale(self) -> np.ndarray:
        """The deviation, or 1 where nothing but rounding varies."""
        return scale_of(self.deviation, np.maximum(np.abs(self.low), np.abs(self.high)))


@dataclass(frozen=True)
class TrainingData:
    """Bags in partitions, with arrays that have an entry per bag, in the order of the partitions."""

    parts: list[Partition]
    passes: Passes
    names: tuple[str, ...] | None  # of the features
    covariate_names: tuple[str, ...]
    missing: str  # "impute" while missing values remain, then "imputed"; else "refuse"
    ids: np.ndarray
    sizes: np.ndarray
    first: np.ndarray  # the position of the first row in the table
    totals: np.ndarray  # the sum of the weights of the instances
    groups: np.ndarray | None
    y: np.ndarray  # None where the scan has no target
    covariates: np.ndarray | None
    weight: np.ndarray | None  # of mean one over those above zero
    _samples: dict = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of(cls, scan: Scan, passes: Passes) -> TrainingData:
        """Partition a scan by bag."""
        about: dict[str, Any] = {"feature_names": scan.feature_names, "covariate_names": scan.covariates or None}
        about |= {"categories": scan.categories, "id_name": scan.bag, "target_name": scan.target}
        about |= {"missing": "impute" if scan.layout.missing == "impute" else "refuse"}
        parts: list[Partition] = []
        if isinstance(scan.chunks[0], BagsChunk):
            loaded: list = []
            for chunk in scan.chunks:
                bags = chunk.bags._with(**about, compared=True)
                parts.append(Partition(chunk.name, chunk.n_rows, len(bags), bags, {}))
                loaded.append(bag_arrays(bags, chunk.y, chunk.weight, chunk.first))
        else:
            spread: np.ndarray | None = NO_HASHES
            runs, layout, n_rows = join_chunks(scan), scan.layout, 0
            tasks = list(zip(runs, np.cumsum([0, *(run.n_rows for run in runs)]).tolist(), strict=False))
            if len(runs) > 1:
                spread, n_rows = find_spread_bags(passes.each("bag-hashes", count_hashes, tasks, layout))
            n = -(-n_rows // scan.chunk_rows)
            loaded = split = passes.each("partition", split_rows, tasks, layout, spread, n)
            if n:
                joined = [(Run(f"partition {k}", n_rows // n, []), k) for k in range(n)]
                loaded = split + passes.each("load", join_rows, joined, layout, split)
            loaded = [arrays for arrays in loaded if "ids" in arrays]
            if not loaded:
                raise ValueError("The scan has no rows. At least one is required. Check where, and the files.")
            _warn_of_rows(loaded, scan)
            for k, arrays in enumerate(loaded):
                sizes = arrays["sizes"]
                parts.append(Partition(f"partition {k}", int(sizes.sum()), len(sizes), arrays, about))
        scan.warn_of_new_files()
        per_bag: dict[str, Any] = {}
        for name in PER_BAG:
            entries = [arrays.get(name) for arrays in loaded]
            per_bag[name] = None if entries[0] is None else np.concatenate(entries)
        if parts[0].about and per_bag["groups"] is not None:
            _refuse_two_groups(per_bag["ids"], scan)
        per_bag["weight"] = _of_mean_one(per_bag["weight"])
        return cls(parts, passes, scan.feature_names, scan.covariates, about["missing"], **per_bag)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_features(self) -> int:
        return len(self.columns.mean)

    # Bag by bag, in this process -------------------------------------------------------------------------------------

    @cached_property
    def stand_in(self) -> Bags:
        """Bags of one instance that is zero, with the ids and groups: folds are made of them."""
        zeros, n = np.zeros((len(self), 1), dtype=np.float32), np.arange(len(self) + 1)
        return Bags._trusted(instances=zeros, offsets=n, ids=self.ids, groups=self.groups, compared=True)

    def folds(self, folds: int | str, random_state: int) -> np.ndarray:
        """Return the fold of each bag, as in memory."""
        return bag_folds(self.stand_in, folds, random_state=random_state)

    @cached_property
    def n_units(self) -> int:
        """The number of groups, otherwise of bags."""
        return int(units_of(self.stand_in).max()) + 1

    def by_hash(self, most_values: int = MOST_VALUES) -> np.ndarray:
        """Return a mask of a sample of bags, by a hash of their ids: all of them if they hold no more numbers."""
        width = max(1, len(self.names or ()) + len(self.covariate_names))
        if int(self.sizes.sum()) * width <= most_values:
            return np.ones(len(self), dtype=bool)
        order = self.hash_order()
        chosen = np.zeros(len(self), dtype=bool)
        chosen[order[: max(2, np.searchsorted(np.cumsum(self.sizes[order]) * width, most_values))]] = True
        return chosen

    def hash_order(self) -> np.ndarray:
        """Return the positions of the bags in the order of a hash of their ids."""
        hashes = [unit_hash(bag_id, 0) for bag_id in self.ids.tolist()]
        return np.argsort(np.array(hashes, dtype="S8"), kind="stable")

    def select(self, chosen: np.ndarray) -> TrainingData:
        """Return the data of some bags, by a mask."""
        parts = []
        for part, mask in zip(self.parts, self.cut(chosen), strict=True):
            if mask.all():
                parts.append(part)
            elif mask.any():
                positions = np.flatnonzero(mask)
                parts.append(part.then(itemgetter(positions), len(positions)))
        arrays: dict[str, Any] = {name: getattr(self, name) for name in PER_BAG}
        arrays = {name: array if array is None else array[chosen] for name, array in arrays.items()}
        return replace(self, **arrays | {"parts": parts, "weight": _of_mean_one(arrays["weight"])})

    def cut(self, per_bag: np.ndarray) -> list[np.ndarray]:
        """Return the entries of the bags of each partition."""
        return np.split(per_bag, np.cumsum([part.n_bags for part in self.parts])[:-1])

    def gather(self, chosen: np.ndarray) -> Bags:
        """Return selected bags as a whole, in memory."""
        selected = self.select(chosen)
        loaded = [part.load() for part in selected.parts]
        names = ("instances", "ids", "groups", "weights", "covariates")
        present = [name for name in names if getattr(loaded[0], name) is not None]
        parts: dict[str, Any] = {name: np.concatenate([getattr(bags, name) for bags in loaded]) for name in present}
        parts["offsets"] = np.concatenate([[0], np.cumsum(selected.sizes)])
        return loaded[0]._with(**parts, has_missing=any(bags.has_missing for bags in loaded), kept=None)

    def first_bag(self) -> Bags:
        """Return one bag, from which an embedding learns the form of its input."""
        return self.gather(np.arange(len(self)) == 0)

    # Pass by pass -----------------------------------------------------------------------------------------------------

    def tasks(self, *per_bag: np.ndarray) -> list[tuple]:
        """Return a task for each partition, with its part of the arrays that have an entry per bag."""
        return list(zip(self.parts, *map(self.cut, per_bag), strict=True))

    def row_per_bag(self, name: str, transform: Callable[[Bags], np.ndarray]) -> np.ndarray:
        """Map a function of `Bags` that returns a row per bag, and return the rows of all bags in memory."""
        return np.concatenate(
            [arrays["rows"] for arrays in self.passes.each(name, transformed, self.tasks(), transform)]
        )

    def row_blocks(self, results: list[Arrays]) -> RowBlocks:
        """Return the arrays "rows" of a pass, which stay on disk."""
        return RowBlocks.of(*(arrays.path("rows") for arrays in results), whole=self.groups is not None)

    def through(self, change: Callable, names=None, **options) -> TrainingData:
        """Return the data with the bags of each partition changed by a function when they are loaded."""
        return replace(self, parts=[part.then(change) for part in self.parts], names=names, **options)

    def spread(self) -> TrainingData:
        """Return the data with the covariates as columns of the instances."""
        if self.covariates is None:
            return self
        names = None if self.names is None else (*self.names, *self.covariate_names)
        return self.through(Bags.spread, names).without_covariates()

    def without_covariates(self) -> TrainingData:
        """Return the data without covariates."""
        return replace(self, covariates=None, covariate_names=())

    def with_predictions(self, *predicted: tuple[list[Arrays], int], names: tuple[str, ...] | None = None):
        """Return the data with predictions in place of the instances: (arrays of each partition, column) of each."""
        paths = [[(str(arrays[k].path("predictions")), c) for arrays, c in predicted] for k in range(len(self.parts))]
        changes = [partial(_replace_columns, columns=columns) for columns in paths]
        parts = [part.then(change) for part, change in zip(self.parts, changes, strict=True)]
        return replace(self, parts=parts, names=names)

    @cached_property
    def columns(self) -> Columns:
        """Moments and extremes of the columns of all instances."""
        return Columns.merged(self.passes.each("columns", _columns, self.tasks()))

    def sample(self, size: int, seed: int) -> np.ndarray:
        """Return the distinct rows of the smallest hashes of their content, as `sample_rows` chooses them in memory."""
        if (size, seed) not in self._samples:
            samples = self.passes.each("sample", _sample, self.tasks(), size, seed)
            keys, rows = (np.concatenate([arrays[name] for arrays in samples]) for name in ("keys", "rows"))
            self._samples[size, seed] = rows[np.unique(keys, return_index=True)[1][:size]]
        return self._samples[size, seed]

    # What estimators remember of their training ----------------------------------------------------------------------

    def remember(self, estimator, *, apart: bool = True) -> None:
        """Store columns, ranges (if ``apart`` also of covariates) and the number of bags, as a fit in memory does."""
        ends = np.vstack([self.columns.counted_low, self.columns.counted_high])
        parts: dict[str, Any] = {"instances": ends, "offsets": np.arange(3), "ids": np.arange(2)}
        parts |= {"missing": self.missing, "has_missing": bool(np.isnan(ends).any())}
        if apart and self.covariates is not None:
            covariates = np.vstack([self.covariates.min(axis=0), self.covariates.max(axis=0)])
            parts |= {"covariates": covariates, "covariate_names": self.covariate_names}
        remember_columns(estimator, Bags._trusted(**parts, feature_names=self.names, compared=True))
        estimator.n_bags_in_ = len(self)

    def remember_profile(self, estimator) -> None:
        """Compute the profile that `bagwise.novelty` compares new bags with, from a sample of bags."""
        few = np.zeros(len(self), dtype=bool)
        few[np.random.default_rng(0).permutation(len(self))[:N_CALIBRATION]] = True
        few[few] = np.cumsum(self.sizes[few]) <= max(MAX_INSTANCES, self.sizes[few][0])
        remember_profile(estimator, self.gather(few)._with(compared=False))
        profile, (low, high) = estimator.profile_, (self.columns.counted_low, self.columns.counted_high)
        if self.covariates is not None:
            low, high = np.append(low, self.covariates.min(axis=0)), np.append(high, self.covariates.max(axis=0))
        profile.range, profile.n_bags, profile.n_units = np.array([low, high]), len(self), self.n_units


def _of_mean_one(weight: np.ndarray | None) -> np.ndarray | None:
    return weight if weight is None or not (weight > 0).any() else weight / weight[weight > 0].mean()


def _replace_columns(bags: Bags, columns: list[tuple[str, int]]) -> Bags:
    """Replace the instances by columns of arrays in files."""
    arrays = [memory_map(path)[:, [column]] for path, column in columns]
    return bags._with(instances=np.hstack(arrays), feature_names=None, has_missing=False)


def transformed(part, transform: Callable[[Bags], np.ndarray]) -> dict:
    """Return the rows that a function makes of the bags of a partition, as the array "rows"."""
    return {"rows": transform(part.load())}


def _columns(part) -> dict:
    bags = part.load()
    return vars(Columns.of(bags.instances, None if bags.weights is None else bags.weights > 0))


def _sample(part, size: int, seed: int) -> dict:
    X = part.load().instances
    keys = row_keys(X, seed)
    first = np.unique(keys, return_index=True)[1][:size]
    return {"keys": keys[first], "rows": X[first]}


def _refuse_two_groups(ids: np.ndarray, scan: Scan) -> None:
    """Refuse a bag whose rows have two groups: it is in the partitions of both."""
    numbers = numbered(ids)
    at = np.flatnonzero(np.bincount(numbers)[numbers] > 1)
    if len(at):
        first = at[np.unique(numbers[at], return_index=True)[1]]
        raise ParameterError(
            "groups",
            f"{name_bags(ids[first], np.ones(len(first), dtype=bool))} more than one group in column "
            f"{scan.groups!r}; a bag has one group, the same on all its rows",
        )


def _warn_of_rows(loaded: list[Arrays], scan: Scan) -> None:
    """Repeat the warnings of the partitions, each kind once, and count the rows that were dropped."""
    lost = sum(int(arrays["lost"]) for arrays in loaded)
    if lost and scan.layout.where is None:
        warn_user(f"{lost:,} of {scan.n_rows:,} rows have missing or infinite values and were dropped")
    texts = [text for arrays in loaded if "notes" in arrays for text in arrays["notes"].tolist()]
    repeated = ("were dropped", "with other levels")  # counted above, or named when the table was scanned
    texts = [text for text in texts if not any(words in text for words in repeated)]
    for text in {text.split(" ")[0]: text for text in reversed(texts)}.values():
        warn_user(text)
