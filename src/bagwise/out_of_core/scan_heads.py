"""Heads fitted to the rows of bags that lie in shards: from `RowSums`, and from sums of left-out residuals.

A head needs no more of the rows than the triangle R of their QR decomposition, which has as many lines as the rows have
columns. Where it chooses by bags that are left out, these are judged shard by shard, and their errors are added up.

With the `RowSums` of every fold, the head without fold k follows from those of the others: it gives held-out
predictions (`HeldOut`). What is fitted before the head (scales, bandwidths, landmarks, out-of-fold predictions of
instances) is that of all bags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bagwise.embeddings.second_kernel import CovariatesBeside
from bagwise.out_of_core.passes import Passes
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.sums import Embedded, View, deal_folds
from bagwise.out_of_core.survey import ColumnSums, Survey
from bagwise.regressors import AggregateGP, EmbeddingRidge, EvidenceRidge
from bagwise.regressors.bayesian.evidence_ridge import ROUNDING, Evidence, TargetScale, negative_log_likelihood
from bagwise.regressors.ridge_path import LeftOut, RidgePath, RowSums, SumPath

BLOCK_BAGS = 8192
FOLD = "held_out_fold"
BEYOND = 0.1  # predictions stay within the range of the other targets, widened by this share of it


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
    beside : ColumnSums, optional
        Of the covariates of bags, if they were scaled; the shards keep them as "beside" then.
    held_out : HeldOut, optional
        To be told the heads without each fold.
    """
    head = clone(head)
    return head.keep_best(_ridges(head, passes, survey, embedded, **options))


def _ridges(
    head: EmbeddingRidge,
    passes: Passes,
    survey: Survey,
    embedded: Iterable[Embedded],
    *,
    shared: bool = False,
    beside: ColumnSums | None = None,
    held_out: HeldOut | None = None,
):
    offset, weight = None if head.offset == "none" else "predicted", survey.weight
    job = _Judge(offset, weight, passes.scan.groups is not None)
    covariates = survey.beside if beside is None else beside
    if not shared or covariates is not None:
        for one in embedded:
            if covariates is not None:
                named = "covariates" if beside is None else "beside"
                one = one._replace(view=_joined(passes, one.view, covariates, named))
            ridge = head.fresh_head()
            sums, without = _sums(passes, one.view, job, held_out)
            if held_out is not None:
                heads = {k: Linear(*ridge.path(own).coefficient_path()) for k, own in without.items()}
                held_out.take([Candidates(one.view, heads, plus=offset, embedding=one.embedding)], keep=True)
            yield from _judged(passes, [(one, ridge, ridge.path(sums))], job)
        return
    settings = list(embedded)
    sums, without = _sums(passes, View(kept=slice(0, max(one.view.kept.stop for one in settings))), job, held_out)
    if held_out is not None:
        held_out.take([_products(head, one, without, offset) for one in settings], keep=False)
    tried = []
    for one in settings:
        ridge, matrix = head.fresh_head(), np.asarray(one.view.matrix)
        path = ridge.path(sums.through(matrix)).before(sums, matrix)
        tried.append((one._replace(view=one.view._replace(matrix=None)), ridge, path))
    yield from _judged(passes, tried, job)


def _joined(passes: Passes, view: View, covariates: ColumnSums, named: str) -> View:
    """The rows with the covariates of the bags beside them, so that both vary alike."""
    rows = passes.by_shard(_row_moments, view, add=ColumnSums.merge)
    moments = covariates.mean, covariates.deviation, covariates.largest, rows.variance.sum()
    return view._replace(beside=CovariatesBeside.of_moments(*moments), covariates=named)


def _row_moments(shard: Shard, view: View) -> ColumnSums:
    return ColumnSums.of(view(shard))


class _Judge(NamedTuple):
    """What left-out residuals are of: targets less an offset, by the weights of bags, by bag or by group."""

    offset: str | None
    weight: str | None
    groups: bool


def _judged(passes: Passes, tried: list[tuple[Embedded, RidgePath, SumPath]], job: _Judge):
    jobs = [(one.view, path) for one, _, path in tried]
    found = passes.by_shard(_left_out, jobs, job, add=_add_all)
    for (one, ridge, path), left_out in zip(tried, found, strict=True):
        yield one.setting, one.embedding, one.view.beside, ridge.fit_sums(path, left_out)


def _sums(passes: Passes, view: View, job: _Judge, held_out: HeldOut | None) -> tuple[RowSums, dict]:
    if held_out is None:
        return row_sums(passes, view, job.offset, weight=job.weight), {}
    return held_out.row_sums(view, plus=job.offset, weight=job.weight)


def _products(head: EmbeddingRidge, one: Embedded, without: dict[int, RowSums], offset: str | None) -> Candidates:
    """The candidates of a setting whose rows are a product, for the rows before it."""
    ridge, matrix = head.fresh_head(), np.asarray(one.view.matrix)
    heads = {k: Linear(*ridge.path(sums.through(matrix)).coefficient_path()) for k, sums in without.items()}
    before = {k: Linear(matrix @ coef, intercept) for k, (coef, intercept) in heads.items()}
    return Candidates(one.view._replace(matrix=None), before, plus=offset, embedding=one.embedding, heads=heads)


def row_sums(passes: Passes, view: View, offset: str | None = None, *, weight: str | None = None) -> RowSums:
    """Of the rows of all bags, and their targets less what the shards keep as ``offset``."""
    return passes.by_shard(_row_sums, view, "y", offset, weight, add=RowSums.merge)


def _row_sums(shard: Shard, view: View, target: str, offset: str | None, weight: str | None) -> RowSums:
    y = _target(shard, slice(None), offset, target)
    return RowSums.of(view(shard), y, None if weight is None else np.asarray(shard[weight]))


def _target(shard: Shard, bags: slice, offset: str | None, target: str = "y") -> np.ndarray:
    y = np.asarray(shard[target][bags])
    return y if offset is None else y - shard[offset][bags]


def _left_out(shard: Shard, jobs: list[tuple[View, SumPath]], job: _Judge) -> list[LeftOut]:
    """The left-out residuals of the bags of a shard, added up, for every setting."""
    totals: list = [None] * len(jobs)
    units = shard.units if job.groups else None  # a group is judged as a whole
    n = len(shard)
    for start in range(0, n, n if job.groups else BLOCK_BAGS):
        bags = slice(start, None if job.groups else start + BLOCK_BAGS)
        y = _target(shard, bags, job.offset)
        weight = None if job.weight is None else np.asarray(shard[job.weight][bags])
        for k, (view, path) in enumerate(jobs):
            found = path.left_out(view(shard, bags), y, weight, groups=units)
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
    head.target_ = target_scale(passes, "y", survey.weight)
    folds = None
    if len(head.settings()) > 1:
        folds = deal_folds(passes, survey, min(head.folds, max(survey.n_units, 2)))
    return head.keep_best(_evidences(head, passes, survey.weight, embedded, folds, held_out))


def _evidences(head, passes: Passes, weight: str | None, embedded: Iterable[Embedded], folds: int | None, held_out):
    target = head.target_
    for one in embedded:
        if held_out is not None:
            held_out.take(
                [Candidates(one.view, _posteriors(held_out.row_sums(one.view, weight=weight)[1], target))], keep=True
            )
        if folds is None:
            sums = row_sums(passes, one.view, weight=weight).standardised(target.mean, target.scale)
            yield one.setting, one.embedding, Evidence.from_sums(sums), 0.0
            continue
        parts = passes.by_shard(fold_row_sums, one.view, "fold", "y", None, weight, add=merge_folds)
        parts = {k: part.standardised(target.mean, target.scale) for k, part in sorted(parts.items())}
        live = [k for k, part in parts.items() if part.n]  # folds in which some bag weighs something
        without = {k: Evidence.from_sums(merged(parts[j] for j in live if j != k)) for k in live if len(live) > 1}
        score = passes.by_shard(_held_out_score, one.view, weight, without, target, add=np.add)
        total = sum(part.weight for part in parts.values())
        yield one.setting, one.embedding, Evidence.from_sums(merged(parts[k] for k in live)), float(score) / total


def _weights(shard: Shard, weight: str | None) -> np.ndarray:
    return np.ones(len(shard)) if weight is None else np.asarray(shard[weight])


def _posteriors(without: dict[int, RowSums], target: TargetScale) -> dict[int, Linear]:
    """The mean of the posterior without each fold, in the units of the target."""
    heads = {}
    for k, sums in without.items():
        found = Evidence.from_sums(sums.standardised(target.mean, target.scale))
        level = found.target_mean - found.row_mean @ found.coef
        heads[k] = Linear(target.scale * found.coef[:, None], np.array([target.mean + target.scale * level]))
    return heads


def _held_out_score(
    shard: Shard, view: View, weight: str | None, without: dict[int, Evidence], target: TargetScale
) -> float:
    """Σ of the weighted negative log likelihood of bags, each predicted without its fold."""
    rows, y, fold = view(shard), target.standardised(np.asarray(shard["y"])), np.asarray(shard["fold"])
    w, total = _weights(shard, weight), 0.0
    for k in np.unique(fold).tolist():
        if k in without:
            mean, variance = without[k](rows[fold == k])
            total += w[fold == k] @ negative_log_likelihood(y[fold == k], mean, np.sqrt(variance))
    return total


def target_scale(passes: Passes, target: str, weight: str | None) -> TargetScale:
    """As `TargetScale.of`, of what the shards keep."""
    sums, low, high = passes.by_shard(_target_sums, target, weight, add=_add_targets)
    mean, R = sums.centred()
    scale = float(np.sqrt((R[:, -1] ** 2).sum() / sums.weight))
    largest = max(abs(low), abs(high))
    return TargetScale(float(mean[-1]), scale if high - low > ROUNDING * largest else 0.0)


def _target_sums(shard: Shard, target: str, weight: str | None) -> tuple[RowSums, float, float] | None:
    y, w = np.asarray(shard[target]), _weights(shard, weight)
    y, w = y[w > 0], w[w > 0]
    return (RowSums.of(np.empty((len(y), 0)), y, w), y.min(), y.max()) if len(y) else None


def _add_targets(left: tuple, right: tuple) -> tuple:
    return left[0].merge(right[0]), min(left[1], right[1]), max(left[2], right[2])


# Aggregates -------------------------------------------------------------------------------------------------------


def fit_aggregate(
    head: AggregateGP, passes: Passes, survey: Survey, embedded: Iterable[Embedded], held_out: HeldOut | None = None
) -> AggregateGP:
    """The head fitted as if on all rows; settings are judged by their evidence."""
    head = clone(head)
    head.noise_exposure_, target, weight = 1.0, "y", survey.weight
    low, high, total, count = passes.by_shard(_exposures, weight, add=_add_exposures)
    if head.aggregate == "sum":
        head.noise_exposure_ = total / count
        passes.by_shard(_keep_rates, head.noise_exposure_, weight)
        target, weight = "rate", "exposure"
    head.target_ = target_scale(passes, target, weight)
    head.exposure_range_in_ = np.array([[1.0, 1.0], [low, high]])
    head.with_exposure_ = passes.scan.weights is not None
    return head.keep_best(_aggregates(head, passes, embedded, target, weight, held_out))


def _aggregates(head: AggregateGP, passes: Passes, embedded: Iterable[Embedded], target: str, weight, held_out):
    for one in embedded:
        if held_out is not None:
            times = None if target == "y" else "totals"
            without = held_out.row_sums(one.view, target, weight=weight)[1]
            held_out.take([Candidates(one.view, _posteriors(without, head.target_), times=times)], keep=True)
        sums = passes.by_shard(_row_sums, one.view, target, None, weight, add=RowSums.merge)
        yield one.setting, one.embedding, Evidence.from_sums(sums.standardised(head.target_.mean, head.target_.scale))


def _exposures(shard: Shard, weight: str | None) -> tuple[float, float, float, float]:
    """The range of the totals of bags, Σ w total and Σ w."""
    totals, w = np.asarray(shard["totals"]), _weights(shard, weight)
    return totals.min(), totals.max(), w @ totals, w.sum()


def _add_exposures(left: tuple, right: tuple) -> tuple:
    return min(left[0], right[0]), max(left[1], right[1]), left[2] + right[2], left[3] + right[3]


def _keep_rates(shard: Shard, average: float, weight: str | None) -> None:
    """Keep targets over exposures, and how much each counts."""
    totals = np.asarray(shard["totals"])
    shard.keep("rate", shard["y"] / totals)
    shard.keep("exposure", _weights(shard, weight) * totals / average)


# Held-out predictions ---------------------------------------------------------------------------------------------


class Folds:
    """Folds of bags, and the targets of each.

    Attributes
    ----------
    y : {fold: `ColumnSums` of its targets}
    limits : {fold: the range of the targets of the others, a little widened}, or infinite ones
    """

    def __init__(self, passes: Passes, survey: Survey, folds: int, *, clipped: bool = True):
        self.n = deal_folds(passes, survey, folds, FOLD)
        found = passes.by_shard(_fold_targets, add=merge_folds)
        self.y: dict[int, ColumnSums] = dict(sorted(found.items()))
        self.without = {k: merged(own for j, own in self.y.items() if j != k) for k in self.y}
        self.limits = {k: limits_of(own) if clipped else (-np.inf, np.inf) for k, own in self.without.items()}


def limits_of(y: ColumnSums) -> tuple[float, float]:
    """The range of targets, a little widened."""
    low, high = float(y.low[0]), float(y.high[0])
    return low - BEYOND * (high - low), high + BEYOND * (high - low)


def _fold_targets(shard: Shard) -> dict[int, ColumnSums]:
    y, fold = shard["y"], shard[FOLD]
    return {int(k): ColumnSums.of(y[fold == k][:, None]) for k in np.unique(fold)}


def merge_folds(left: dict, right: dict) -> dict:
    return left | right | {k: left[k].merge(right[k]) for k in left.keys() & right.keys()}


def merged(parts: Iterable) -> Any:
    """All of them in one, by their ``merge``."""
    total: Any = None
    for part in parts:
        total = part if total is None else total.merge(part)
    return total


class Linear(NamedTuple):
    """Candidates that are linear in a bag's row: coefficients (columns, candidates) and intercepts."""

    coef: np.ndarray
    intercept: np.ndarray


class Candidates(NamedTuple):
    """Heads on the rows of a view, without each fold; their predictions plus or times what the shards keep."""

    view: View
    without: dict[int, Linear]
    plus: str | None = None
    times: str | None = None
    kept: str | None = None  # under which name their predictions are kept, where the rows are not
    embedding: Any = None  # fitted, whose rows the heads are of; it stays in this process
    heads: dict[int, Linear] | None = None  # for those rows, where the view has the rows before a product

    def predict(self, shard: Shard, k: int, bags: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
        """Of some bags of fold k: (bags, candidates)."""
        coef, intercept = self.without[k]
        out = self.view(shard, bags) @ coef + intercept
        out = out if self.plus is None else out + shard[self.plus][bags][:, None]
        out = out if self.times is None else out * shard[self.times][bags][:, None]
        return np.clip(out, *limits)

    @property
    def n(self) -> int:
        return len(next(iter(self.without.values())).intercept)

    @property
    def bare(self) -> Candidates:
        """What travels to the shards."""
        return self._replace(embedding=None, heads=None)


class HeldOut:
    """Held-out predictions of one method; in fold k by the setting and penalty that do best on the other folds.

    Heads hand in their candidates with `take`; `finish` keeps one number for every bag.

    Parameters
    ----------
    passes : Passes
    folds : Folds
    column : str, under which the shards keep the predictions
    """

    def __init__(self, passes: Passes, folds: Folds, column: str):
        self.passes, self.folds, self.column = passes, folds, column
        self.candidates: list[Candidates] = []
        self.errors: list[np.ndarray] = []

    def row_sums(self, view: View, target: str = "y", plus: str | None = None, weight: str | None = None) -> tuple:
        """The sums of all rows, and those without each fold."""
        found = self.passes.by_shard(fold_row_sums, view, FOLD, target, plus, weight, add=merge_folds)
        found = dict(sorted(found.items()))
        return merged(found.values()), {k: merged(own for j, own in found.items() if j != k) for k in found}

    def take(self, some: list[Candidates], *, keep: bool) -> None:
        """Judge candidates; ``keep`` their predictions if their rows will be gone."""
        start = len(self.candidates)
        some = [one._replace(kept=f"{self.column}-{start + k}" if keep else None) for k, one in enumerate(some)]
        found = self.passes.by_shard(_judge, [one.bare for one in some], self.folds.limits, add=np.add)
        self.candidates += some
        self.errors.append(found)

    def finish(self) -> None:
        """Keep the prediction of every bag by the candidate that did best on the other folds."""
        errors = np.hstack(self.errors)  # (folds, candidates)
        errors = np.where(np.isfinite(errors), errors, np.inf)
        keys = sorted(self.folds.y)
        chosen = {k: int(np.argmin(np.delete(errors, i, axis=0).sum(axis=0))) for i, k in enumerate(keys)}
        bare = [one.bare for one in self.candidates]
        self.passes.by_shard(_choose, bare, chosen, self.folds.limits, self.column)
        self.chosen = chosen
        self.passes.shards.remove(*(one.kept for one in self.candidates if one.kept is not None))

    def head_of(self, k: int) -> tuple[Candidates, np.ndarray, float]:
        """The candidates of which one predicted fold k, and its coefficients and intercept for their embedding."""
        starts = np.cumsum([0, *(one.n for one in self.candidates)])
        at = int(np.searchsorted(starts, self.chosen[k], side="right")) - 1
        one, own = self.candidates[at], self.chosen[k] - int(starts[at])
        head = (one.without if one.heads is None else one.heads)[k]
        return one, head.coef[:, own], float(head.intercept[own])


def fold_row_sums(shard: Shard, view: View, column: str, target: str, plus, weight) -> dict[int, RowSums]:
    rows, y, fold = view(shard), np.asarray(shard[target]), np.asarray(shard[column])
    y = y if plus is None else y - shard[plus]
    w = None if weight is None else np.asarray(shard[weight])
    return {
        int(k): RowSums.of(rows[fold == k], y[fold == k], None if w is None else w[fold == k]) for k in np.unique(fold)
    }


def _judge(shard: Shard, some: list[Candidates], limits: dict[int, tuple[float, float]]) -> np.ndarray:
    """Σ of squared errors of the bags of every fold, for all candidates."""
    y, fold = shard["y"], np.asarray(shard[FOLD])
    numbers = sorted(limits)
    errors = []
    for one in some:
        found, kept = np.zeros((len(numbers), one.n)), np.empty((len(y), one.n if one.kept else 0))
        for i, k in enumerate(numbers):
            for bags in _blocks(np.flatnonzero(fold == k)):
                predictions = one.predict(shard, k, bags, limits[k])
                found[i] += ((predictions - y[bags][:, None]) ** 2).sum(axis=0)
                if one.kept:
                    kept[bags] = predictions
        if one.kept:
            shard.keep(one.kept, kept)
        errors.append(found)
    return np.hstack(errors)


def _blocks(bags: np.ndarray, most: int = 8192) -> Iterable[np.ndarray]:
    return (bags[start : start + most] for start in range(0, len(bags), most))


def _choose(shard: Shard, some: list[Candidates], chosen: dict[int, int], limits: dict, column: str) -> None:
    fold, starts = np.asarray(shard[FOLD]), np.cumsum([0, *(one.n for one in some)])
    out = np.empty(len(fold))
    for k, candidate in chosen.items():
        at = int(np.searchsorted(starts, candidate, side="right")) - 1
        one, own = some[at], candidate - int(starts[at])
        only = {k: Linear(one.without[k].coef[:, [own]], one.without[k].intercept[[own]])}
        for bags in _blocks(np.flatnonzero(fold == k)):
            if one.kept is not None:
                out[bags] = shard[one.kept][bags, own]
            else:
                out[bags] = one._replace(without=only).predict(shard, k, bags, limits[k])[:, 0]
    shard.keep(column, out)


# Errors -----------------------------------------------------------------------------------------------------------


class ErrorSums(NamedTuple):
    """Of the held-out errors e of several methods: n, Σ e eᵀ, Σ |e|, and Σ s sᵀ of their squares s."""

    n: int
    products: np.ndarray
    absolute: np.ndarray
    squares: np.ndarray

    def merge(self, other: ErrorSums) -> ErrorSums:
        arrays = (a + b for a, b in zip(self[1:], other[1:], strict=True))
        return ErrorSums(self.n + other.n, *arrays)


def error_sums(passes: Passes, columns: list[str]) -> dict[int, ErrorSums]:
    """The sums of every fold."""
    return dict(sorted(passes.by_shard(_error_sums, columns, add=merge_folds).items()))


def _error_sums(shard: Shard, columns: list[str]) -> dict[int, ErrorSums]:
    errors = shard["y"][:, None] - np.column_stack([shard[column] for column in columns])
    fold, found = np.asarray(shard[FOLD]), {}
    for k in np.unique(fold).tolist():
        own = errors[fold == k]
        found[k] = ErrorSums(len(own), own.T @ own, np.abs(own).sum(axis=0), (own**2).T @ own**2)
    return found
