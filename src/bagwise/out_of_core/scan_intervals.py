"""`Intervals` fitted to a scan: models from sums, each without some bags, and a bounded set of bags to calibrate.

Scores are of whole bags in memory. Where a scan has more of them than can be held, those of the smallest hashes are
taken: a sample that does not depend on what is in them, with which the promise of a conformal interval is the same.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.bags.checks import compared, remember_columns, remember_range
from bagwise.bags.folds import count_folds
from bagwise.intervals.calibration import Calibration, FoldModels, with_last
from bagwise.intervals.conformal import FEWEST, Intervals, check_options, lacking, method_of
from bagwise.intervals.order_statistics import units_needed
from bagwise.out_of_core.chunks import Chunk
from bagwise.out_of_core.passes import Met, Passes, added
from bagwise.out_of_core.scan_heads import FOLD, Candidates, Folds, HeldOut
from bagwise.out_of_core.shards import Deal, Shard, unit_sizes
from bagwise.out_of_core.survey import Survey, refuse_no_target
from bagwise.out_of_core.table_scan import Scan
from bagwise.out_of_core.whole_bags import MOST_VALUES, SelectedChunk, gather_pieces, number_bags
from bagwise.regressors import EmbeddingRidge
from bagwise.regressors.pipeline import last_step

MOST_BAGS = 10_000  # with a score; the quantile of so many has a standard error of 0.3 % of coverage at level 0.9
FEW_BAGS = 500  # have a score, however many instances they have
MOST_PARTS = 64


def fit_intervals(
    scan: Scan, intervals: Intervals, method, fit, *, executor=None, work=None, progress=None
) -> tuple[Intervals, Survey]:
    """The intervals around an unfitted method, and what was found of the bags.

    ``fit(scan, method)`` gives a model and its survey.
    """
    refuse_no_target(scan)
    check_options(intervals)
    intervals, split = clone(intervals), intervals.kind == "split"
    if intervals.kind == "jackknife+":
        raise ValueError("kind='jackknife+' leaves out every bag by itself, a fit for each; take 'cv+' or 'split'")
    if intervals.refit is False and not split and not isinstance(last_step(method), EmbeddingRidge):
        kind = type(last_step(method)).__name__
        raise ValueError(f"refit=False takes ridge heads from sums of folds, and {kind} is none; leave it out")
    if split and intervals.scores == "quantile":
        raise ValueError("scores='quantile' with kind='split' looks at all bags at once; take kind='cv+'")
    method_of(clone(intervals).set_params(method=method))  # refused before any pass
    noun = "bags" if scan.groups is None else "groups"
    with Passes(scan, executor, seed=intervals.random_state, work=work, progress=progress) as passes:
        n_rows = sum(passes.meet(_look))
        units: dict[int, Counter] = passes.by_shard(_units)
        sizes = added(units.values())
        n_bags, n_units = sum(size * count for size, count in sizes.items()), sizes.total()
        if n_units < FEWEST[intervals.kind]:
            raise ValueError(f"kind={intervals.kind!r} needs at least {FEWEST[intervals.kind]} {noun}, not {n_units:,}")
        n_parts = _count_parts(intervals, n_units, noun)
        passes.by_shard(Shard.deal, Deal(units, n_parts), "part")
        most = int(max(FEW_BAGS, min(MOST_BAGS, MOST_VALUES // 2 * n_bags // (n_rows * len(scan.feature_names)))))
        shown = passes.by_shard(_count_shown, split)
        before = dict(zip(shown, np.cumsum([0, *shown.values()]).tolist(), strict=False))
        passes.by_shard(_mark, split, most, before)
        found = gather_pieces(passes, "shown", "are to calibrate intervals", values=True)
        assert found is not None
        numbers, bags, y = found.bags(scan)
        bags, marked = compared(bags), passes.by_shard(_marked)
        part, keys = (np.array([marked[one][k] for one in numbers.tolist()]) for k in (0, 1))
        if not split and intervals.refit is False:
            fitted, survey, left_out, part, held_out = _by_fold_sums(scan, method, fit, n_parts, keys)
        else:
            models = [] if split else [fit(_without(passes, k), method)[0] for k in range(n_parts)]
            fitted, survey = fit(_without(passes, 0) if split else scan, method)
            left_out = FoldModels(tuple(models or [fitted]))
            held_out = left_out.held_out(bags, np.zeros(len(bags), int) if split else part)
    calibration = Calibration(fitted, left_out, np.arange(len(bags)), part, held_out)
    remember_columns(intervals, bags)
    intervals.n_bags_in_ = n_bags
    n = intervals.n_features_in_
    remember_range(intervals, survey.counted.low[:n], survey.counted.high[:n])
    intervals.profile_ = fitted.profile_
    n_shown = len(bags) if bags.groups is None else len(set(bags.groups.tolist()))
    intervals.lacking_ = lacking(intervals.level, n_shown, noun, intervals.kind)
    intervals.keep(calibration, bags, np.asarray(y))
    return intervals, survey


def _by_fold_sums(scan: Scan, method, fit, n_parts: int, keys: np.ndarray) -> tuple:
    """One fit, and the heads without each fold from the sums of the others.

    Model, survey and fold models; and of the bags with these hashes of their ids, the fold and the prediction. What
    comes before the head is that of all bags; instances of training bags are predicted out of fold there, too.
    """
    told: list[Any] = []

    def after(passes: Passes, survey: Survey) -> _Told:
        told.append(_Told(passes, Folds(passes, survey, n_parts, clipped=False), keys))
        return told[0]

    fitted, survey = fit(scan, method, after=after)
    found = told[0]
    models = tuple(_with_head(fitted, *found.head_of(k)) for k in sorted(found.chosen))
    part, held_out = zip(*(found.held[key] for key in keys.tolist()), strict=True)
    return fitted, survey, FoldModels(models), np.array(part), np.array(held_out)


class _Told(HeldOut):
    """Held-out predictions, of which those of some bags, by the hashes of their ids, come here."""

    def __init__(self, passes: Passes, folds: Folds, keys: np.ndarray):
        super().__init__(passes, folds, "held")
        self.keys = np.sort(keys)

    def finish(self) -> None:
        super().finish()
        self.held = self.passes.by_shard(_held_of, self.keys)


def _held_of(shard: Shard, keys: np.ndarray) -> dict[int, tuple[int, float]]:
    own, fold, held = shard.hashes[:, 1], np.asarray(shard[FOLD]), np.asarray(shard["held"])
    rows = np.flatnonzero(np.isin(own, keys))
    return dict(zip(own[rows].tolist(), zip(fold[rows].tolist(), held[rows].tolist(), strict=True), strict=True))


def _with_head(fitted, candidates: Candidates, coef: np.ndarray, intercept: float):
    """The model with another head; all else is shared."""
    ridge = copy(last_step(fitted))
    head = copy(ridge.head_)
    head.coef_, head.intercept_ = coef, intercept
    ridge.embedding_, ridge.beside_, ridge.head_ = candidates.embedding, candidates.view.beside, head
    return with_last(fitted, ridge)


def _count_parts(intervals: Intervals, n_units: int, noun: str) -> int:
    folds = intervals.folds
    if intervals.kind == "split" and folds == "auto":
        # of many bags a smaller share is held out: a thousand bags are enough to calibrate with
        folds = int(np.clip(n_units // units_needed(intervals.level), 2, max(4, min(MOST_PARTS, n_units // 1000))))
    return count_folds(folds, n_units, noun)


def _look(chunk: Chunk) -> Met:
    ids, codes = chunk.bags()
    if not len(ids):
        return Met(ids)
    return Met(ids, chunk.of_bags(ids, codes).groups, {}, len(codes))


def _units(shard: Shard) -> dict[int, Counter]:
    return {shard.number: unit_sizes(shard.units)}


def _count_shown(shard: Shard, split: bool) -> dict[int, int]:
    return {shard.number: int(np.count_nonzero(shard["part"] == 0)) if split else len(shard)}


def _mark(shard: Shard, split: bool, most: int, before: dict[int, int]) -> None:
    """Number the bags that have a score: the first so many, which are in the order of their hashes."""
    shown = np.asarray(shard["part"]) == 0 if split else np.ones(len(shard), dtype=bool)
    shown &= before[shard.number] + np.cumsum(shown) <= most
    shard.keep("shown", number_bags(shard, shown))


def _marked(shard: Shard) -> dict[int, tuple[int, np.uint64]]:
    """Of every bag that has a score, by its number: the part it is dealt to, and the hash of its id."""
    numbers, part = np.asarray(shard["shown"]), np.asarray(shard["part"])
    own = zip(part.tolist(), shard.hashes[:, 1], strict=True)
    return {number: values for number, values in zip(numbers.tolist(), own, strict=True) if number >= 0}


def _without(passes: Passes, part: int) -> Scan:
    """The scan without the bags of a part; good as long as the passes are."""
    chunks: tuple[Any, ...] = tuple(SelectedChunk(piece, passes.shards, part) for piece in passes.chunks)
    return replace(passes.scan, chunks=chunks, source=None)
