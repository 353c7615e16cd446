"""Heads fitted to the rows of bags that lie in shards: from `RowSums`, and from sums of left-out residuals.

A head needs no more of the rows than the triangle R of their QR decomposition, which has as many lines as the rows have
columns. Where it chooses by bags that are left out, these are judged shard by shard, and their errors are added up.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.base import clone

from bagwise.out_of_core.held_out import Candidates, HeldOut, Linear, fold_row_sums, merge_folds, merged
from bagwise.out_of_core.passes import ColumnSums, Passes, Survey
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.sums import Embedded, View, deal_folds
from bagwise.regressors import AggregateGP, EmbeddingRidge, EvidenceRidge
from bagwise.regressors.bayesian.evidence_ridge import ROUNDING, Evidence, TargetScale, negative_log_likelihood
from bagwise.regressors.ridge import LeftOut, RidgePath, RowSums, SumPath

BLOCK_BAGS = 8192


# Ridge ------------------------------------------------------------------------------------------------------------


def fit_ridge(head: EmbeddingRidge, passes: Passes, survey: Survey, embedded: Iterable[Embedded], **options):
    """The head fitted as if on all rows.

    Parameters
    ----------
    head : EmbeddingRidge
    passes, survey : of the scan
    embedded : for every setting of the head, where the rows are; they need be there only until the next is asked for
    shared : bool
        Whether the rows of all settings are one array times matrices, of which the sums serve all.
    held_out : HeldOut, optional
        To be told the heads without each fold.
    """
    head = clone(head)
    return head.keep_best(_ridges(head, passes, embedded, **options))


def _ridges(
    head: EmbeddingRidge,
    passes: Passes,
    embedded: Iterable[Embedded],
    *,
    shared: bool = False,
    held_out: HeldOut | None = None,
):
    offset = None if head.offset == "none" else "predicted"
    if not shared:
        for one in embedded:
            ridge = head.fresh_head()
            sums, without = _sums(passes, one.view, offset, held_out)
            if held_out is not None:
                heads = {k: Linear(*ridge.path(own).coefficient_path()) for k, own in without.items()}
                held_out.take([Candidates(one.view, heads, plus=offset)], keep=True)
            yield from _judged(passes, [(one, ridge, ridge.path(sums))], offset)
        return
    settings = list(embedded)
    sums, without = _sums(passes, View(kept=slice(0, max(one.view.kept.stop for one in settings))), offset, held_out)
    if held_out is not None:
        held_out.take([_products(head, one, without, offset) for one in settings], keep=False)
    tried = []
    for one in settings:
        ridge, matrix = head.fresh_head(), np.asarray(one.view.matrix)
        path = ridge.path(sums.through(matrix)).before(sums, matrix)
        tried.append((one._replace(view=one.view._replace(matrix=None)), ridge, path))
    yield from _judged(passes, tried, offset)


def _judged(passes: Passes, tried: list[tuple[Embedded, RidgePath, SumPath]], offset: str | None):
    jobs = [(one.view, path) for one, _, path in tried]
    found = passes.by_shard(_left_out, jobs, offset, passes.scan.groups is not None, add=_add_all)
    for (one, ridge, path), left_out in zip(tried, found, strict=True):
        yield one.setting, one.embedding, None, ridge.fit_sums(path, left_out)


def _sums(passes: Passes, view: View, offset: str | None, held_out: HeldOut | None) -> tuple[RowSums, dict]:
    return (row_sums(passes, view, offset), {}) if held_out is None else held_out.row_sums(view, plus=offset)


def _products(head: EmbeddingRidge, one: Embedded, without: dict[int, RowSums], offset: str | None) -> Candidates:
    """The candidates of a setting whose rows are a product, for the rows before it."""
    ridge, matrix, heads = head.fresh_head(), np.asarray(one.view.matrix), {}
    for k, sums in without.items():
        coef, intercept = ridge.path(sums.through(matrix)).coefficient_path()
        heads[k] = Linear(matrix @ coef, intercept)
    return Candidates(one.view._replace(matrix=None), heads, plus=offset)


def row_sums(passes: Passes, view: View, offset: str | None = None, *, weight: str | None = None) -> RowSums:
    """Of the rows of all bags, and their targets less what the shards keep as ``offset``."""
    return passes.by_shard(_row_sums, view, "y", offset, weight, add=RowSums.merge)


def _row_sums(shard: Shard, view: View, target: str, offset: str | None, weight: str | None) -> RowSums:
    y = _target(shard, slice(None), offset, target)
    return RowSums.of(view(shard), y, None if weight is None else np.asarray(shard[weight]))


def _target(shard: Shard, bags: slice, offset: str | None, target: str = "y") -> np.ndarray:
    y = np.asarray(shard[target][bags])
    return y if offset is None else y - shard[offset][bags]


def _left_out(shard: Shard, jobs: list[tuple[View, SumPath]], offset: str | None, groups: bool) -> list[LeftOut]:
    """The left-out residuals of the bags of a shard, added up, for every setting."""
    totals: list = [None] * len(jobs)
    units = shard.units if groups else None  # a group is judged as a whole
    n = len(shard)
    for start in range(0, n, n if groups else BLOCK_BAGS):
        bags = slice(start, None if groups else start + BLOCK_BAGS)
        y = _target(shard, bags, offset)
        for k, (view, path) in enumerate(jobs):
            found = path.left_out(view(shard, bags), y, groups=units)
            totals[k] = found if totals[k] is None else totals[k] + found
    return totals


def _add_all(left: list, right: list) -> list:
    return [a + b for a, b in zip(left, right, strict=True)]


# Evidence ---------------------------------------------------------------------------------------------------------


def fit_evidence(
    head: EvidenceRidge, passes: Passes, survey: Survey, embedded: Iterable[Embedded], held_out: HeldOut | None = None
) -> EvidenceRidge:
    """The head fitted as if on all rows; settings are judged by the likelihood of held-out folds."""
    head = clone(head)
    head.target_ = target_scale(survey.y)
    folds = None
    if len(head.settings()) > 1:
        folds = deal_folds(passes, survey, min(head.folds, max(survey.n_units, 2)))
    return head.keep_best(_evidences(head, passes, survey, embedded, folds, held_out))


def _evidences(head, passes: Passes, survey: Survey, embedded: Iterable[Embedded], folds: int | None, held_out):
    target = head.target_
    for one in embedded:
        if held_out is not None:
            held_out.take([Candidates(one.view, _posteriors(held_out.row_sums(one.view)[1], target))], keep=True)
        if folds is None:
            sums = row_sums(passes, one.view).standardised(target.mean, target.scale)
            yield one.setting, one.embedding, Evidence.from_sums(sums), 0.0
            continue
        parts = passes.by_shard(fold_row_sums, one.view, "fold", "y", None, None, add=merge_folds)
        parts = {k: part.standardised(target.mean, target.scale) for k, part in sorted(parts.items())}
        without = {k: Evidence.from_sums(merged(own for j, own in parts.items() if j != k)) for k in parts}
        score = passes.by_shard(_held_out_score, one.view, without, target, add=np.add) / survey.n_bags
        yield one.setting, one.embedding, Evidence.from_sums(merged(parts.values())), float(score)


def _posteriors(without: dict[int, RowSums], target: TargetScale) -> dict[int, Linear]:
    """The mean of the posterior without each fold, in the units of the target."""
    heads = {}
    for k, sums in without.items():
        found = Evidence.from_sums(sums.standardised(target.mean, target.scale))
        level = found.target_mean - found.row_mean @ found.coef
        heads[k] = Linear(target.scale * found.coef[:, None], np.array([target.mean + target.scale * level]))
    return heads


def _held_out_score(shard: Shard, view: View, without: dict[int, Evidence], target: TargetScale) -> float:
    """Σ of the negative log likelihood of bags, each predicted without its fold."""
    rows, y, fold = view(shard), target.standardised(np.asarray(shard["y"])), np.asarray(shard["fold"])
    total = 0.0
    for k in np.unique(fold).tolist():
        mean, variance = without[k](rows[fold == k])
        total += negative_log_likelihood(y[fold == k], mean, np.sqrt(variance)).sum()
    return total


def target_scale(y: ColumnSums) -> TargetScale:
    """As `TargetScale.of`."""
    varies = y.high[0] - y.low[0] > ROUNDING * y.largest[0]
    return TargetScale(float(y.mean[0]), float(y.deviation[0]) if varies else 0.0)


# Aggregates -------------------------------------------------------------------------------------------------------


def fit_aggregate(
    head: AggregateGP, passes: Passes, survey: Survey, embedded: Iterable[Embedded], held_out: HeldOut | None = None
) -> AggregateGP:
    """The head fitted as if on all rows; settings are judged by their evidence."""
    head = clone(head)
    head.noise_exposure_, weight = 1.0, None
    head.target_ = target_scale(survey.y)
    if head.aggregate == "sum":
        head.noise_exposure_ = survey.columns.n / survey.n_bags
        weight = "exposure"
        found = passes.by_shard(_keep_rates, head.noise_exposure_, add=_add_rates)
        head.target_ = _rate_scale(found)
    sizes = sorted(survey.sizes)
    head.exposure_range_in_ = np.array([[1.0, 1.0], [sizes[0], sizes[-1]]])
    head.with_exposure_ = False
    return head.keep_best(_aggregates(head, passes, embedded, weight, held_out))


def _aggregates(head: AggregateGP, passes: Passes, embedded: Iterable[Embedded], weight: str | None, held_out):
    for one in embedded:
        if held_out is not None:
            target, times = ("y", None) if weight is None else ("rate", "sizes")
            without = held_out.row_sums(one.view, target, weight=weight)[1]
            held_out.take([Candidates(one.view, _posteriors(without, head.target_), times=times)], keep=True)
        sums = passes.by_shard(_row_sums, one.view, "y" if weight is None else "rate", None, weight, add=RowSums.merge)
        yield one.setting, one.embedding, Evidence.from_sums(sums.standardised(head.target_.mean, head.target_.scale))


def _keep_rates(shard: Shard, average: float) -> tuple[RowSums, float, float, float]:
    """Keep targets over exposures, and how much each counts; the sums of it, and the range."""
    rate, weight = shard["y"] / shard["sizes"], shard["sizes"] / average
    shard.keep("rate", rate)
    shard.keep("exposure", weight)
    return RowSums.of(np.empty((len(rate), 0)), rate, weight), rate.min(), rate.max(), np.abs(rate).max()


def _add_rates(left: tuple, right: tuple) -> tuple:
    return left[0].merge(right[0]), min(left[1], right[1]), max(left[2], right[2]), max(left[3], right[3])


def _rate_scale(found: tuple) -> TargetScale:
    sums, low, high, largest = found
    mean, R = sums.centred()
    scale = float(np.sqrt((R[:, -1] ** 2).sum() / sums.weight))
    return TargetScale(float(mean[-1]), scale if high - low > ROUNDING * largest else 0.0)
