"""The survey, which is the first pass: sizes, targets and means of the bags, moments and extremes of columns, a sample.

What is found adds up over chunks (`ColumnSums`, `Sample`), and over shards for what is of whole bags.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array

from bagwise.bags import Bags, remember_columns
from bagwise.bags.checks import CALIBRATION, TrainingProfile, compared
from bagwise.bags.validation import FLOATS, LARGEST, Parameter, ParameterError, name_bags
from bagwise.embeddings.landmarks import unbiasing
from bagwise.io.columns import any_row
from bagwise.kernels.formulas import row_keys, scale_of
from bagwise.out_of_core.chunks import Block, Chunk
from bagwise.out_of_core.passes import Met, Passes, add, added
from bagwise.out_of_core.shards import Shard, unit_sizes
from bagwise.out_of_core.table_scan import Scan


def sum_rows(bag: np.ndarray, values: np.ndarray, n_bags: int, weight: np.ndarray | None = None) -> np.ndarray:
    """Σ over the rows of every bag, by their weights if any, the rows in any order: (n_bags, columns) in float64."""
    # A matrix with a one (or the weight) for every row, in the line of its bag: compiled code adds the rows up, one
    # after another.
    ones = np.ones(len(bag)) if weight is None else weight
    cells = csc_array((ones, bag, np.arange(len(bag) + 1)), shape=(n_bags, len(bag)))
    return cells @ np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class ColumnSums:
    """Mean and scatter of columns. Two of them merge into that of all rows, by the formula of Chan et al. (1979).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> both = ColumnSums.of(X[:1]).merge(ColumnSums.of(X[1:]))
    >>> both.mean.tolist(), both.variance.round(6).tolist(), both.high.tolist()
    ([2.0, 3.0], [2.666667, 2.666667], [4.0, 5.0])
    """

    n: int
    mean: np.ndarray
    scatter: np.ndarray  # Σ (x - mean)²
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> ColumnSums:
        X = X.astype(np.float64)
        mean = X[0] + (X - X[0]).mean(axis=0)  # counted from a row: a constant column has no rounding
        return cls(len(X), mean, ((X - mean) ** 2).sum(axis=0), X.min(axis=0), X.max(axis=0))

    def merge(self, other: ColumnSums) -> ColumnSums:
        n, gap = self.n + other.n, other.mean - self.mean
        return ColumnSums(
            n,
            self.mean + gap * (other.n / n),
            self.scatter + other.scatter + gap**2 * (self.n * other.n / n),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def some(self, kept) -> ColumnSums:
        """Those of some columns."""
        return ColumnSums(self.n, *(part[kept] for part in (self.mean, self.scatter, self.low, self.high)))

    @property
    def variance(self) -> np.ndarray:
        return self.scatter / self.n

    @property
    def deviation(self) -> np.ndarray:
        return np.sqrt(self.variance)

    @property
    def largest(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def scale(self) -> np.ndarray:
        """The deviation, or 1 where nothing but rounding varies."""
        return scale_of(self.deviation, self.largest)


@dataclass(frozen=True)
class Sample:
    """The distinct rows of the smallest keys, in the order of the keys: the same whatever the order of all rows.

    ``groups`` are those of the rows, where these are of bags.
    """

    size: int
    keys: np.ndarray
    rows: np.ndarray
    groups: np.ndarray | None = None

    @classmethod
    def of(cls, X: np.ndarray, size: int, seed: int) -> Sample:
        return cls(size, row_keys(X, seed), X).smallest() if size else cls(0, np.empty(0, np.uint64), X[:0])

    def merge(self, other: Sample) -> Sample:
        keys, rows = np.concatenate([self.keys, other.keys]), np.concatenate([self.rows, other.rows])
        groups = None if self.groups is None or other.groups is None else np.concatenate([self.groups, other.groups])
        return Sample(self.size, keys, rows, groups).smallest()

    def smallest(self) -> Sample:
        """No more than ``size`` of them."""
        own = self
        if self.size < len(self.keys):  # a first cut without sorting them all, unless copies of a row fill it
            near = self.keys <= np.partition(self.keys, self.size)[self.size]
            own = self._some(near) if len(np.unique(self.keys[near])) >= self.size else self
        return own._some(np.unique(own.keys, return_index=True)[1][: self.size])

    def _some(self, kept: np.ndarray) -> Sample:
        groups = None if self.groups is None else self.groups[kept]
        return Sample(self.size, self.keys[kept], self.rows[kept], groups)


@dataclass(frozen=True)
class Survey:
    """What the first pass finds.

    Of the bags themselves the shards keep "means", "y", "sizes" (the number of instances), "counted" (of those of a
    weight above zero), "totals" (Σ w), "effective" ((Σ w)² / Σ w²), "covariates" if there are some, and "importance",
    the weights of the bags, of mean one over those above zero.

    Attributes
    ----------
    names : list of the columns
    covariates : list of the columns that are covariates of the bags; of a scan that is spread, the last of ``names``
    columns : `ColumnSums` of all instances
    counted : the same of the instances of a weight above zero
    beside : `ColumnSums` of the covariates of bags, or None
    samples : {sampling: array}
        Distinct rows, drawn by a hash of their content.
    means : `ColumnSums` of the means of bags
    y : `ColumnSums` of the targets of bags, one column
    sizes : how many bags there are of every number of instances
    units : for every shard that has bags, how many groups (or bags) there are of every number of bags
    some : Bags
        A few bags, drawn by a hash of their ids, each as one instance, its mean.
    """

    names: list[str]
    covariates: list[str]
    columns: ColumnSums
    counted: ColumnSums
    beside: ColumnSums | None
    samples: dict[tuple[int, int], np.ndarray]
    means: ColumnSums
    y: ColumnSums
    sizes: Counter
    n_several: int  # bags of more than one effective instance
    units: dict[int, Counter]
    some: Bags
    weight: str | None = None  # under which name the shards keep the weights of bags

    @property
    def n_bags(self) -> int:
        return self.y.n

    @property
    def n_units(self) -> int:
        return sum(one.total() for one in self.units.values())

    @property
    def is_spread(self) -> bool:
        """Whether the covariates are columns of the instances."""
        return bool(self.covariates) and self.names[-len(self.covariates) :] == self.covariates

    @property
    def n_own(self) -> int:
        """The number of columns that are no covariates."""
        return len(self.names) - len(self.covariates) * self.is_spread

    def remember(
        self, estimator, columns: ColumnSums | None = None, *, apart: bool = False, beside: ColumnSums | None = None
    ) -> None:
        """As `remember_columns`, of bags of which the range of the means is known; by default those of the scan.

        ``apart`` says whether the covariates stay apart, ``beside`` what became of them if they were scaled.
        """
        found, names, n = self.means if columns is None else columns, None, None
        if columns is None:
            n = self.n_own if apart else len(self.names)
            names = self.names[:n]
        more: dict[str, Any] = {}
        if apart and self.beside is not None:
            scaled = self.beside if beside is None else beside
            more = {"covariates": np.vstack([scaled.low, scaled.high]), "covariate_names": self.covariates}
        ends = Bags(np.vstack([found.low, found.high])[:, :n], [0, 1, 2], feature_names=names, **more)
        remember_columns(estimator, compared(ends))  # no model's profile is of means
        estimator.n_bags_in_ = self.n_bags

    def profile(self, n_features: int | None = None) -> TrainingProfile:
        """What `bagwise.novelty` compares new bags with: so many features, and the covariates."""
        n, some = self.n_own if n_features is None else n_features, self.some
        kept = np.r_[0:n, self.n_own : self.n_own + len(self.covariates)]
        low, high = self.counted.low, self.counted.high
        if self.beside is not None and not self.is_spread:
            low, high = np.append(low, self.beside.low), np.append(high, self.beside.high)
        names = [*self.names[: self.n_own], *self.covariates]
        few = some._with(instances=some.instances[:, kept], feature_names=tuple(names[j] for j in kept))
        profile = TrainingProfile(few, means_within=(low[kept], high[kept]))
        profile.n_bags, profile.n_units = self.n_bags, self.n_units
        return profile

    def describe(self) -> dict:
        """As `model_files.describe_counts`."""
        sizes, counts = np.array(sorted(self.sizes.items())).T
        middle = np.searchsorted(np.cumsum(counts), [(self.n_bags - 1) // 2, self.n_bags // 2], side="right")
        median = float(sizes[middle].mean())
        return {
            "bags": self.n_bags,
            "instances": int(sizes @ counts),
            "features": len(self.names),
            "instances_per_bag": {"min": float(sizes[0]), "median": median, "max": float(sizes[-1])},
            "target": {"min": float(self.y.low[0]), "mean": float(self.y.mean[0]), "max": float(self.y.high[0])},
        }


def refuse_no_target(scan: Scan) -> None:
    if scan.target is None:
        raise ParameterError(
            "target",
            "there is no target to learn from; scan the table with ",
            Parameter("target"),
            " the name of its column",
        )


def survey(passes: Passes, *samplings: tuple[int, int]) -> Survey:
    """Go over all chunks once; a sampling is how many distinct rows to draw, and the seed."""
    scan = passes.scan
    refuse_no_target(scan)
    found = added(passes.meet(_survey, len(scan.feature_names), samplings))
    if scan.groups is not None:
        passes.by_shard(Shard.agree_on_groups, scan.groups)
    named = {"y": f"target in column {scan.target!r}"}
    if scan.covariates:
        named["covariates"] = f"value in a column of bag features ({', '.join(scan.covariates)})"
    if scan.bag_weights is not None:
        named["weight"] = f"bag weight in column {scan.bag_weights!r}"
    facts = passes.by_shard(_whole_bags, named)
    if facts.y.n < 2:
        raise ValueError("one bag is not enough to learn from; fit needs at least two")
    if facts.weight is not None:
        if facts.weight[0] == 0:
            raise ValueError("the weight of every bag is zero; at least one must be above zero")
        passes.by_shard(_keep_importance, facts.weight[1] / facts.weight[0])
    passes.shards.remove("sums", "ids", "tally", "weight")
    columns, counted, samples = found
    means, groups = facts.some.rows, facts.some.groups if scan.groups is not None else None
    some = compared(Bags(means, np.arange(len(means) + 1), groups=groups))
    rows = {sampling: sample.rows for sampling, sample in zip(samplings, samples, strict=True)}
    known = list(scan.feature_names), list(scan.covariates), columns, counted, facts.beside, rows
    weight = None if facts.weight is None else "importance"
    return Survey(*known, facts.means, facts.y, facts.sizes, facts.n_several, facts.units, some, weight)


def _survey(chunk: Chunk, width: int, samplings) -> Met:
    ids, bag = chunk.bags()
    if not len(ids):
        return Met(ids)
    values, found = chunk.of_bags(ids, bag), None
    tally, sums = np.zeros((len(ids), 4)), np.zeros((len(ids), width))
    for block in chunk.blocks(codes=bag):
        refuse_unusable(block, ids, chunk)
        tally += tally_of(block, len(ids))
        sums += sum_rows(block.bag, block.X, len(ids), block.weight)
        columns: ColumnSums | None = ColumnSums.of(block.X)
        counted = columns
        if block.weight is not None:
            some = block.X[block.weight > 0]
            counted = ColumnSums.of(some) if len(some) else None
        found = add(found, (columns, counted, [Sample.of(block.X, *sampling) for sampling in samplings]))
    rows = {"tally": tally, "sums": sums, "y": values.y, "covariates": values.covariates, "weight": values.weight}
    return Met(ids, values.groups, {name: array for name, array in rows.items() if array is not None}, found)


def tally_of(block: Block, n_bags: int) -> np.ndarray:
    """How much there is of every bag: rows, those of a weight above zero, Σ w and Σ w², side by side."""
    sizes = np.bincount(block.bag, minlength=n_bags).astype(np.float64)
    if block.weight is None:
        return np.column_stack([sizes] * 4)
    parts = ((block.weight > 0).astype(np.float64), block.weight, block.weight**2)
    return np.column_stack([sizes, *(np.bincount(block.bag, part, n_bags) for part in parts)])


def keep_tally(shard: Shard) -> np.ndarray:
    """Keep "sizes", "counted", "totals" and "effective" of every bag; one without a row that counts is refused."""
    tally = shard.gather("tally")
    for column, what in ((0, "finite instance"), (1, "instance of weight above zero")):
        if (empty := tally[:, column] == 0).any():
            ids = shard.gather_ids()[0]
            raise ValueError(f"{name_bags(ids, empty)} no {what}; every bag needs one: leave such bags out")
    sizes = tally[:, 0].astype(np.int64)
    effective = tally[:, 2] ** 2 / tally[:, 3]
    known = {"sizes": sizes, "counted": tally[:, 1].astype(np.int64), "totals": tally[:, 2], "effective": effective}
    for name, rows in known.items():
        shard.keep(name, rows)
    return sizes


class _Facts(NamedTuple):
    """What is found in a shard."""

    means: ColumnSums
    y: ColumnSums
    sizes: Counter
    n_several: int
    units: dict[int, Counter]
    some: Sample
    beside: ColumnSums | None
    weight: np.ndarray | None  # the number of those above zero, and their sum


def _whole_bags(shard: Shard, named: dict[str, str]) -> _Facts:
    y, sizes = shard.agree("y", named["y"]), keep_tally(shard)
    means = shard.gather("sums") / shard["totals"][:, None]
    wide, beside, weight = means, None, None
    shard.keep("y", y)
    shard.keep("means", means)
    if "covariates" in named:
        covariates = shard.agree("covariates", named["covariates"])
        unknown = ~np.isfinite(covariates).all(axis=1)
        if unknown.any():
            named_bags = name_bags(shard.gather_ids()[0], unknown)
            raise ValueError(f"{named_bags} a missing or infinite covariate; fill it in, or leave the bag out")
        shard.keep("covariates", covariates)
        beside, wide = ColumnSums.of(covariates), np.hstack([means, covariates])
    if "weight" in named:
        importance = shard.agree("weight", named["weight"])
        shard.keep("importance", importance)
        weight = np.array([np.count_nonzero(importance), importance.sum()])
    distinct, counts = np.unique(sizes, return_counts=True)
    of_size = Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
    units, ids = shard.hashes.T
    some, several = Sample(CALIBRATION, ids, wide, units).smallest(), np.count_nonzero(unbiasing(shard["effective"]))
    found = ColumnSums.of(means), ColumnSums.of(y[:, None]), of_size, int(several)
    return _Facts(*found, {shard.number: unit_sizes(shard.units)}, some, beside, weight)


def _keep_importance(shard: Shard, mean: float) -> None:
    shard.keep("importance", shard["importance"] / mean)


def refuse_unusable(block: Block, ids: np.ndarray, chunk: Chunk, *, allow_missing: bool = False) -> None:
    """No NaN unless allowed, nothing infinite, nothing whose square is; no weight that is none."""
    with np.errstate(invalid="ignore"):
        usable = np.abs(block.X) <= FLOATS[block.X.dtype]
    if allow_missing:
        usable |= np.isnan(block.X)
    if not usable.all():
        column = int(usable.all(axis=0).argmin())
        rows = ~usable[:, column]
        values = block.X[rows, column]
        missing, infinite = np.isnan(values), np.isinf(values)
        kinds = {"missing (NaN)": missing, "infinite": infinite, f"huge (beyond {LARGEST:g})": ~(missing | infinite)}
        found = " and ".join(kind for kind, those in kinds.items() if those.any())
        filled = ("fill missing ones in with ", Parameter("missing", "impute"), ", or ") if missing.any() else ()
        raise ParameterError(
            "missing",
            f"{name_bags(ids, any_row(rows, block.bag, ids))} {found} feature values in "
            f"{chunk.column_text(column)}{chunk.name}; ",
            *filled,
            "leave such rows out with ",
            Parameter("missing", "drop-instances"),
            " or ",
            Parameter("where"),
        )
    if block.weight is not None and not (right := np.isfinite(block.weight) & (block.weight >= 0)).all():
        raise ValueError(
            f"{name_bags(ids, any_row(~right, block.bag, ids))} an instance weight that is negative, missing or "
            f"infinite in {chunk.name}; weights are numbers from zero up"
        )
