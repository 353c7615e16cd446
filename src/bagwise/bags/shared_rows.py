"""Instances that occur in several bags: how many, which bags they connect, and whether folds separate them.

A held-out bag whose rows are also rows of training bags is not new, so scores on such folds are too good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.bags.validation import bags_of, numbered, warn_user

SHARED_ROWS = "shared-rows"  # as `groups`: bags that share rows are one group
NOTABLE = 0.06  # the share of instances (or of bags) from which on a user is warned
GIANT = 0.5  # the share of bags in one connected set from which on groups of shared rows make no useful folds
ROW_SAMPLE = 2**15  # rows by which a large table is judged before all of its rows are compared
VALUE_SAMPLE = 1000  # rows that show how often the values of a column repeat
MOST_INDICATORS = 50  # columns of 0 and 1 that are taken together, as levels of categories
MOST_COLUMNS = 20  # columns of which the one with the most values decides which rows are sampled


@dataclass(frozen=True)
class SharedRows:
    """How far bags (groups, if the bags have some) consist of the same instances."""

    n_instances: int
    n_shared: int  # instances with the same features as an instance of another bag
    n_bags: int
    n_linked: int  # bags that hold such an instance
    n_copies: int  # bags that hold exactly the instances of another bag
    largest: int  # number of bags in the largest connected set
    sets: np.ndarray  # the connected set of each bag
    by_chance: bool  # whether features have so few distinct values that rows repeat without being copies

    @property
    def share(self) -> float:
        return self.n_shared / self.n_instances

    @property
    def notable(self) -> bool:
        """Whether a user should know: more than a few percent of the instances, or of the bags, are repeated."""
        return not self.by_chance and max(self.share, self.n_copies / self.n_bags) > NOTABLE

    def describe(self) -> str:
        """Return the figures, and what to do."""
        held_out = "Random folds hold out bags whose rows are in training, so held-out scores are too good"
        return f"{self.figures()}. {held_out}. {self.advice()}"

    def figures(self) -> str:
        copies = f"; {self.n_copies:,} bags are exact copies of another bag" if self.n_copies else ""
        percent = f"{100 * self.share:.{1 if self.share < 0.0995 else 0}f} %"
        return (
            f"{percent} of the instances ({self.n_shared:,} of {self.n_instances:,}) have the same "
            f"features as an instance of another bag{copies}. Bags that share rows form connected sets; the largest "
            f"holds {self.largest:,} of {self.n_bags:,} bags"
        )

    def advice(self) -> str:
        if self.largest > GIANT * self.n_bags:
            return (
                f"Groups of bags that share rows do not help here: one connected set holds {self.largest:,} of "
                f"{self.n_bags:,} bags. Leave repeated rows out, or give evaluate a column of folds that keep "
                "similar bags together"
            )
        return f"Keep such bags together with groups={SHARED_ROWS!r}"


def find_shared_rows(bags) -> SharedRows:
    """Count the instances that occur in several bags (groups), and find the sets of bags that they connect."""
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
        contents = np.add.reduceat(mixed ^ (mixed >> np.uint64(32)), bags.offsets[:-1])  # in any order
        n_copies = int(np.count_nonzero(_shared(contents + bags.sizes.astype(np.uint64), unit)[0]))
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
    """Return what `find_shared_rows` finds if it is notable, else None; large tables are judged by a sample first.

    The sample takes rows by a hash of one column, so all copies of a row are in it, or none.
    """
    if bags.n_instances > 2 * ROW_SAMPLE:
        few = bags.instances[:: bags.n_instances // VALUE_SAMPLE, :MOST_COLUMNS]
        column = int(np.argmax([len(np.unique(values)) for values in few.T]))
        bits = (bags.instances[:, column] + 0.0).view(np.uint64 if bags.dtype == np.float64 else np.uint32)
        bits = bits ^ (bits >> bits.dtype.type(4 * bits.itemsize))
        bits *= bits.dtype.type(0x9E3779B97F4A7C15 >> (64 - 8 * bits.itemsize) | 1)
        sample = np.flatnonzero(bits < 2 ** (8 * bits.itemsize) // (bags.n_instances // ROW_SAMPLE + 1))
        if ROW_SAMPLE / 4 < len(sample) < 4 * ROW_SAMPLE:  # else a few values are most of these columns
            hashes = np.sort(row_hashes(bags.instances[sample]))
            if 2 * np.count_nonzero(hashes[1:] == hashes[:-1]) < NOTABLE / 2 * len(sample):
                return None
    shared = find_shared_rows(bags)
    return shared if shared.notable else None


def shared_row_groups(bags) -> np.ndarray:
    """Return a group per bag, the same for bags connected by shared rows: the first id of the set in sorted order."""
    shared = find_shared_rows(bags._with(groups=None))
    order = sorted(range(len(bags)), key=lambda i: str(bags.ids[i]), reverse=True)
    first = np.empty(len(bags), dtype=np.int64)
    first[shared.sets[order]] = order  # of several values for one place, numpy keeps the last: the lowest id
    if shared.largest > GIANT * len(bags):
        warn_user(
            f"groups={SHARED_ROWS!r}: the largest connected set holds {shared.largest:,} of {len(bags):,} bags, and "
            "folds cannot divide it. Use folds given by a column of the table, made so that similar bags stay together"
        )
    return bags.ids[first[shared.sets]]


def warn_of_shared_rows(bags) -> None:
    """Warn if more than a few percent of the instances occur in several bags (of several groups)."""
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
        if share > NOTABLE:
            warn_user(
                f"The folds separate bags that share rows: {100 * share:.2g} % of the instances also occur in a bag of "
                f"another fold, so held-out scores are too good. {shared.advice()}"
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
        block = np.ascontiguousarray(instances[start : start + step], dtype=np.float64) + 0.0  # -0.0 is 0.0
        bits = block.view(np.uint64)
        bits ^= bits >> np.uint64(32)  # the low half of a short number is zero, and would not reach the low bits
        out[start : start + step] = bits @ factors
    return out


def _shared(hashes: np.ndarray, unit_of_row: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mark the rows that occur in several units, and number them: equal rows have one number; with their units."""
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
    """Return whether equal rows are explained by the few distinct values of the features.

    Either independent columns (indicators of categories taken together) would give at least half as many equal rows,
    or a repeated row occurs in so many bags as only a common value does.
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
    if 1 < n_indicators <= MOST_INDICATORS:  # those of one category depend on each other
        columns = [sample[:, is_indicator] @ 2.0 ** np.arange(n_indicators), *sample[:, ~is_indicator].T]
    for column in columns:
        counts = np.unique(column, return_counts=True)[1].astype(np.float64)
        chance *= max(float((counts * (counts - 1)).sum() / (n * (n - 1))), 1e-9)
        if chance < needed:  # further columns only make it smaller
            return False
    return True
