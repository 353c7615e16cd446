"""`Intervals` fitted to a scan: models from sums, each without some bags, and a bounded set of bags to calibrate.

Scores are of whole bags in memory. Where a scan has more of them than can be held, those of the smallest hashes are
taken: a sample that does not depend on what is in them, with which the promise of a conformal interval is the same.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.bags.checks import compared, remember_columns, remember_range
from bagwise.bags.folds import count_folds
from bagwise.intervals.calibration import Calibration, FoldModels
from bagwise.intervals.conformal import FEWEST, Intervals, check_options, lacking, method_of
from bagwise.intervals.order_statistics import units_needed
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.passes import Met, Passes, Survey, refuse_no_target
from bagwise.out_of_core.shards import Deal, Shard, unit_sizes
from bagwise.out_of_core.table_scan import Scan
from bagwise.out_of_core.whole_bags import MOST_VALUES, SelectedChunk, gather_pieces, number_bags

MOST_BAGS = 10_000  # with a score; the quantile of so many has a standard error of 0.3 % of coverage at level 0.9
FEW_BAGS = 500  # have a score, however many instances they have
MOST_PARTS = 64


def fit_intervals(scan: Scan, intervals: Intervals, fit, *, executor=None, work=None) -> tuple[Intervals, Survey]:
    """The intervals, and what was found of the bags; ``fit(scan, method)`` gives a model and its survey."""
    refuse_no_target(scan)
    check_options(intervals)
    if intervals.kind == "jackknife+":
        raise ValueError("kind='jackknife+' leaves out every bag by itself, a fit for each; take 'cv+' or 'split'")
    split = intervals.kind == "split"
    if split and intervals.scores == "quantile":
        raise ValueError("scores='quantile' with kind='split' looks at all bags at once; take kind='cv+'")
    method_of(replace_method(intervals, scan))  # refused before any pass
    intervals, method = clone(intervals), replace_method(intervals, scan).method
    with ExitStack() as stack:
        passes = stack.enter_context(Passes(scan, executor, seed=intervals.random_state, work=work))
        n_bags, n_units, units, n_rows = _meet(passes)
        noun = "bags" if scan.groups is None else "groups"
        if n_units < FEWEST[intervals.kind]:
            raise ValueError(f"kind={intervals.kind!r} needs at least {FEWEST[intervals.kind]} {noun}, not {n_units:,}")
        n_parts = _count_parts(intervals, n_units, noun)
        passes.by_shard(_deal, Deal(units, n_parts))
        most = int(max(FEW_BAGS, min(MOST_BAGS, MOST_VALUES // 2 * n_bags // (n_rows * len(scan.feature_names)))))
        shown = passes.by_shard(_count_shown, split, add=_merged)
        passes.by_shard(_mark, split, most, _before(shown))
        found = gather_pieces(passes, "shown", "are to calibrate intervals", values=True)
        assert found is not None
        numbers, bags, y = found.bags(scan)
        part = _parts_of(passes, numbers)
        bags = compared(bags)
        without = [] if split else range(n_parts)
        models = [fit(_without(passes, k), method)[0] for k in without]
        fitted, survey = fit(_without(passes, 0) if split else scan, method)
    held_out = FoldModels(tuple(models or [fitted])).held_out(bags, np.zeros(len(bags), int) if split else part)
    calibration = Calibration(fitted, FoldModels(tuple(models or [fitted])), np.arange(len(bags)), part, held_out)
    remember_columns(intervals, bags)
    intervals.n_bags_in_ = n_bags
    n = intervals.n_features_in_
    remember_range(intervals, survey.low[:n], survey.high[:n])
    intervals.profile_ = fitted.profile_
    intervals.lacking_ = lacking(intervals.level, _units(bags), noun, intervals.kind)
    intervals.keep(calibration, bags, np.asarray(y))
    return intervals, survey


def replace_method(intervals: Intervals, scan: Scan) -> Intervals:
    """The same around a method that fills in missing values if the scan says so."""
    from bagwise.out_of_core.scan_fit import made

    return clone(intervals).set_params(method=made(intervals.method, intervals.random_state, scan))


def _units(bags) -> int:
    return len(bags) if bags.groups is None else len(set(bags.groups.tolist()))


def _count_parts(intervals: Intervals, n_units: int, noun: str) -> int:
    folds = intervals.folds
    if intervals.kind == "split" and folds == "auto":
        # of many bags a smaller share is held out: a thousand bags are enough to calibrate with
        folds = int(np.clip(n_units // units_needed(intervals.level), 2, max(4, min(MOST_PARTS, n_units // 1000))))
    return count_folds(folds, n_units, noun)


def _meet(passes: Passes) -> tuple[int, int, dict[int, Counter], int]:
    """The numbers of bags and of groups, the latter by shard and size, and of rows."""
    n_rows = sum(passes.meet(_look))
    units = passes.by_shard(_shard_units, add=_merged)
    counts: Counter = sum(units.values(), Counter())
    return sum(size * count for size, count in counts.items()), counts.total(), units, n_rows


def _look(chunk: Chunk) -> Met:
    ids, codes = chunk.bags()
    if not len(ids):
        return Met(ids)
    return Met(ids, chunk.of_bags(ids, codes).groups, {}, len(codes))


def _shard_units(shard: Shard) -> dict[int, Counter]:
    return {shard.number: unit_sizes(shard.units)}


def _merged(left: dict, right: dict) -> dict:
    return left | right


def _deal(shard: Shard, deal: Deal) -> None:
    shard.keep("part", deal.folds(shard.number, shard.units))


def _count_shown(shard: Shard, split: bool) -> dict[int, int]:
    return {shard.number: int(np.count_nonzero(shard["part"] == 0)) if split else len(shard)}


def _before(counts: dict[int, int]) -> dict[int, int]:
    numbers = sorted(counts)
    return dict(zip(numbers, np.cumsum([0, *(counts[k] for k in numbers[:-1])]).tolist(), strict=True))


def _mark(shard: Shard, split: bool, most: int, before: dict[int, int]) -> None:
    """Number the bags that have a score: the first so many, which are in the order of their hashes."""
    shown = np.asarray(shard["part"]) == 0 if split else np.ones(len(shard), dtype=bool)
    shown &= before[shard.number] + np.cumsum(shown) <= most
    shard.keep("shown", number_bags(shard, shown))


def _parts_of(passes: Passes, numbers: np.ndarray) -> np.ndarray:
    found: dict[int, int] = passes.by_shard(_own_parts, numbers, add=_merged)
    return np.array([found[one] for one in numbers.tolist()], dtype=np.int64)


def _own_parts(shard: Shard, numbers: np.ndarray) -> dict[int, int]:
    own, part = np.asarray(shard["shown"]), np.asarray(shard["part"])
    return {int(one): int(k) for one, k in zip(own[own >= 0], part[own >= 0], strict=True)}


def _without(passes: Passes, part: int) -> Scan:
    """The scan without the bags of a part; good as long as the passes are."""
    chunks: tuple[Any, ...] = tuple(
        SelectedChunk(piece.chunk, piece.number, passes.shards, part) for piece in passes.chunks
    )
    return replace(passes.scan, chunks=chunks, source=None)
