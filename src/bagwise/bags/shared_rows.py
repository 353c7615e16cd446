"""Count instances that occur in several bags, find the bags that they connect, and warn if folds separate these bags.

If rows of a held-out bag are also in training bags, its score is too optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags.validation import bags_of, numbered, warn_user

SHARED_ROWS = "shared-rows"  # value of `groups` by which bags that share rows are one group
WARN_SHARE = 0.06  # warn above this share of shared instances, or of copied bags
MAX_CONNECTED = 0.5  # above this share of bags in one connected set, groups of shared rows cannot be split into folds
ROW_SAMPLE = 2**15  # rows of a large table that are compared before all rows are
VALUE_SAMPLE = 1000  # rows that estimate how often the values of a column repeat
MAX_INDICATORS = 50  # columns of 0 and 1 that are treated as one column, as levels of categories
MAX_COLUMNS = 20  # columns among which the one with the most distinct values selects the sampled rows


@dataclass(frozen=True)
class SharedRows:
    """Numbers of instances and bags that occur more than once (of bags with groups, in more than one group)."""

    n_instances: int
    n_shared: int  # instances with the same features as an instance of another bag
    n_bags: int
    n_linked: int  # bags with such an instance
    n_copies: int  # bags with exactly the instances of another bag
    largest: int  # number of bags in the largest connected set
    sets: np.ndarray  # the connected set of each bag
    by_chance: bool  # whether rows are equal only because features have few distinct values

    @property
    def share(self) -> float:
        return self.n_shared / self.n_instances

    @property
    def notable(self) -> bool:
        """Whether so many instances or bags are repeated that the user should be warned."""
        return not self.by_chance and max(self.share, self.n_copies / self.n_bags) > WARN_SHARE

    def describe(self) -> str:
        """Return the figures, their consequence for scores, and advice."""
        held_out = "With random folds, rows of held-out bags are also in training, so scores are too optimistic"
        return f"{self.figures()}. {held_out}. {self.advice()}"

    def figures(self) -> str:
        copies = f"; {self.n_copies:,} bags are exact copies of another bag" if self.n_copies else ""
        percent = f"{100 * self.share:.{1 if self.share < 0.0995 else 0}f} %"
        return (
            f"{percent} of the instances ({self.n_shared:,} of {self.n_instances:,}) have the same "
            f"features as an instance of another bag{copies}. The largest set of bags connected by shared rows has "
            f"{self.largest:,} of {self.n_bags:,} bags"
        )

    def advice(self) -> str:
        if self.largest > MAX_CONNECTED * self.n_bags:
            return (
                f"Groups of bags that share rows do not help, because one group would have {self.largest:,} of "
                f"{self.n_bags:,} bags. Leave repeated rows out, or pass a column of folds that keep similar bags "
                "together to evaluate"
            )
        return f"Keep bags that share rows together with groups={SHARED_ROWS!r}"


def find_shared_rows(bags) -> SharedRows:
    """Count the instances that occur in several bags (groups), and find the sets of connected bags."""
    unit = np.arange(len(bags)) if bags.groups is None else numbered(bags.groups)
    hashes = row_hashes(bags.instances)
    shared, row, unit_of_row = _shared(hashes, np.repeat(unit, bags.sizes))
    linked = bags_of(shared, bags.offsets)
    sets, n_copies, n_units = unit, 0, int(unit.max()) + 1
    if len(row):
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        first = np.empty(row.max() + 1, dtype=np.int64)
        first[row] = unit_of_row
        graph = coo_array((np.ones(len(row), dtype=bool), (first[row], unit_of_row)), shape=(n_units, n_units))
        sets = connected_components(graph, directed=False)[1][unit].astype(np.int64)
        mixed = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        bag_hashes = np.add.reduceat(mixed ^ (mixed >> np.uint64(32)), bags.offsets[:-1])  # for any order of rows
        n_copies = int(np.count_nonzero(_shared(bag_hashes + bags.sizes.astype(np.uint64), unit)[0]))
    return SharedRows(
        n_instances=bags.n_instances,
        n_shared=int(np.count_nonzero(shared)),
        n_bags=len(bags),
        n_linked=int(np.count_nonzero(linked)),
        n_copies=n_copies,
        largest=int(np.bincount(sets).max()),
        sets=sets,
        by_chance=len(row) > 0 and _repeat_by_chance(bags.instances, shared, row, unit_of_row, len(unit)),
    )


def shares_rows(bags) -> SharedRows | None:
    """Return the shared rows if they are notable, else None. Large tables are first checked on a sample of rows.

    Rows are sampled by a hash of one column, so either all copies of a row are in the sample or none.
    """
    if bags.n_instances > 2 * ROW_SAMPLE:
        sample_values = bags.instances[:: bags.n_instances // VALUE_SAMPLE, :MAX_COLUMNS]
        column = int(np.argmax([len(np.unique(values)) for values in sample_values.T]))
        bits = (bags.instances[:, column] + 0.0).view(np.uint64 if bags.dtype == np.float64 else np.uint32)
        bits = bits ^ (bits >> bits.dtype.type(4 * bits.itemsize))
        bits *= bits.dtype.type(0x9E3779B97F4A7C15 >> (64 - 8 * bits.itemsize) | 1)
        sample = np.flatnonzero(bits < 2 ** (8 * bits.itemsize) // (bags.n_instances // ROW_SAMPLE + 1))
        if ROW_SAMPLE / 4 < len(sample) < 4 * ROW_SAMPLE:  # otherwise most rows have one of a few values in this column
            hashes = np.sort(row_hashes(bags.instances[sample]))
            if 2 * np.count_nonzero(hashes[1:] == hashes[:-1]) < WARN_SHARE / 2 * len(sample):
                return None
    shared = find_shared_rows(bags)
    return shared if shared.notable else None


def shared_row_groups(bags) -> np.ndarray:
    """Return a group per bag, equal for bags connected by shared rows; its name is the first sorted id of the set."""
    shared = find_shared_rows(bags._with(groups=None))
    order = sorted(range(len(bags)), key=lambda i: str(bags.ids[i]), reverse=True)
    first = np.empty(len(bags), dtype=np.int64)
    first[shared.sets[order]] = order  # repeated indices: numpy keeps the last value, the lowest id
    if shared.largest > MAX_CONNECTED * len(bags):
        warn_user(
            f"groups={SHARED_ROWS!r}: the largest group has {shared.largest:,} of {len(bags):,} bags and cannot be "
            "split into folds. Pass a column of folds that keep similar bags together instead"
        )
    return bags.ids[first[shared.sets]]


def warn_of_shared_rows(bags) -> None:
    """Warn if a notable share of the instances occurs in several bags (groups)."""
    shared = shares_rows(bags)
    if shared is not None:
        warn_user(shared.describe())


def check_separation(bags, fold: np.ndarray):
    """Warn if folds, (bags,) or (repeats, bags), separate bags that share rows; return the bags marked as checked."""
    if bags.folds_checked:
        return bags
    shared = shares_rows(bags)
    if shared is None:
        return bags._with(folds_checked=True)
    hashes = row_hashes(bags.instances)
    for fold_of_bag in np.atleast_2d(fold):
        unit = np.unique(fold_of_bag, return_inverse=True)[1]
        share = np.count_nonzero(_shared(hashes, np.repeat(unit, bags.sizes))[0]) / bags.n_instances
        if share > WARN_SHARE:
            warn_user(
                f"The folds separate bags that share rows: {100 * share:.2g} % of the instances also occur in a bag of "
                f"another fold, so held-out scores are too optimistic. {shared.advice()}"
            )
            break
    return bags._with(folds_checked=True)


def row_hashes(instances: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each row; rows with equal values have equal hashes."""
    rng = np.random.default_rng(0)
    factors = rng.integers(1, 2**63, instances.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    out = np.empty(len(instances), dtype=np.uint64)
    step = max(1, 2**16 // instances.shape[1])
    for start in range(0, len(instances), step):
        block = np.ascontiguousarray(instances[start : start + step], dtype=np.float64) + 0.0  # -0.0 becomes 0.0
        bits = block.view(np.uint64)
        bits ^= bits >> np.uint64(32)  # mix the high bits into the low bits, which are zero for numbers with few digits
        out[start : start + step] = bits @ factors
    return out


def _shared(hashes: np.ndarray, unit_of_row: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a mask of rows that occur in several units, and for each of them a code of its values and its unit."""
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    shared = np.zeros(len(hashes), dtype=bool)
    rows = np.flatnonzero(np.isin(hashes, repeated))
    distinct, code = np.unique(hashes[rows], return_inverse=True)
    units = unit_of_row[rows]
    low, high = np.full(len(distinct), len(hashes)), np.full(len(distinct), -1)
    np.minimum.at(low, code, units)
    np.maximum.at(high, code, units)
    several = (low < high)[code]
    shared[rows[several]] = True
    return shared, code[several], units[several]


def _repeat_by_chance(instances, shared, row, unit_of_row, n_units: int) -> bool:
    """Return whether rows are equal only because the features have few distinct values.

    This is assumed if independent columns (with indicators as one column) would lead to at least half as many equal
    rows, or if repeated rows occur in very many bags, as only common values do.
    """
    pairs = np.unique(row * np.int64(unit_of_row.max() + 1) + unit_of_row)
    units_of_row = np.bincount(pairs // (unit_of_row.max() + 1))
    if np.median(units_of_row[units_of_row > 0]) > max(10, n_units / 10):
        return True
    sample = instances[np.random.default_rng(0).permutation(len(instances))[:VALUE_SAMPLE]]
    n, chance = len(sample), 1.0
    needed = np.count_nonzero(shared) / len(shared) / 2 / len(instances)
    columns = list(sample.T)
    is_indicator = ((sample == 0) | (sample == 1)).all(axis=0)
    n_indicators = np.count_nonzero(is_indicator)
    if 1 < n_indicators <= MAX_INDICATORS:  # indicators of one category are dependent
        columns = [sample[:, is_indicator] @ 2.0 ** np.arange(n_indicators), *sample[:, ~is_indicator].T]
    for column in columns:
        counts = np.unique(column, return_counts=True)[1].astype(np.float64)
        chance *= max(float((counts * (counts - 1)).sum() / (n * (n - 1))), 1e-9)
        if chance < needed:  # further columns can only decrease it
            return False
    return True
