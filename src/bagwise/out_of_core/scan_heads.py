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

from bagwise.auto.cross_validation import BEYOND
from bagwise.embeddings.summaries import CovariatesBeside
from bagwise.out_of_core.passes import Passes, added
from bagwise.out_of_core.shards import Shard
from bagwise.out_of_core.sums import Embedded, View, deal_folds
from bagwise.out_of_core.survey import ColumnSums, Survey
from bagwise.regressors import AggregateGP, EmbeddingRidge, EvidenceRidge
from bagwise.regressors.bayesian.evidence_ridge import ROUNDING, Evidence, TargetScale, negative_log_likelihood
from bagwise.regressors.ridge_path import LeftOut, RidgePath, RowSums, SumPath

BLOCK_BAGS = 8192
FOLD = "held_out_fold"


class Rows(NamedTuple):
    """Rows of bags and what a head learns from them: targets, less an offset if any, and weights; as shards keep them.

    Called with a shard, and bags of it, it gives rows, targets and weights (or None).
    """

    view: View
    target: str = "y"
    offset: str | None = None
    weight: str | None = None

    def __call__(self, shard: Shard, bags: Any = slice(None)) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        y = np.asarray(shard[self.target][bags])
        y = y if self.offset is None else y - shard[self.offset][bags]
        return self.view(shard, bags), y, None if self.weight is None else np.asarray(shard[self.weight][bags])


def _row_sums(shard: Shard, rows: Rows) -> RowSums:
    return RowSums.of(*rows(shard))


def _fold_row_sums(shard: Shard, rows: Rows, column: str) -> dict[int, RowSums]:
    fold, found = np.asarray(shard[column]), {}
    Z, y, w = rows(shard)
    for k in np.unique(fold).tolist():
        own = fold == k
        found[k] = RowSums.of(Z[own], y[own], None if w is None else w[own])
    return found


def without_each(parts: dict[int, Any]) -> dict[int, Any]:
    """The sum of the others for every fold; None where there is no other."""
    return {k: added(part for j, part in parts.items() if j != k) for k in parts}


def _weights(shard: Shard, weight: str | None) -> np.ndarray:
    return np.ones(len(shard)) if weight is None else np.asarray(shard[weight])


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
    offset = None if head.offset == "none" else "predicted"
    covariates = survey.beside if beside is None else beside

    def sums_of(view: View) -> tuple[RowSums, dict[int, RowSums]]:
        rows = Rows(view, offset=offset, weight=survey.weight)
        return (passes.by_shard(_row_sums, rows), {}) if held_out is None else held_out.row_sums(rows)

    def judged(tried: list[tuple[Embedded, RidgePath, SumPath]]):
        jobs = [(Rows(one.view, offset=offset, weight=survey.weight), path) for one, _, path in tried]
        found = passes.by_shard(_left_out, jobs, passes.scan.groups is not None)
        for (one, ridge, path), left_out in zip(tried, found, strict=True):
            yield one.setting, one.embedding, one.view.beside, ridge.fit_sums(path, left_out)

    if not shared or covariates is not None:
        for one in embedded:
            if covariates is not None:
                named = "covariates" if beside is None else "beside"
                one = one._replace(view=_joined(passes, one.view, covariates, named))
            ridge = head.fresh_head()
            sums, without = sums_of(one.view)
            if held_out is not None:
                heads = {k: Linear(*ridge.path(own).coefficient_path()) for k, own in without.items()}
                held_out.take([Candidates(one.view, heads, plus=offset, embedding=one.embedding)], keep=True)
            yield from judged([(one, ridge, ridge.path(sums))])
        return
    settings = list(embedded)
    sums, without = sums_of(View(kept=slice(0, max(one.view.kept.stop for one in settings))))
    if held_out is not None:
        held_out.take([_products(head, one, without, offset) for one in settings], keep=False)
    tried = []
    for one in settings:
        ridge, matrix = head.fresh_head(), np.asarray(one.view.matrix)
        path = ridge.path(sums.through(matrix)).before(sums, matrix)
        tried.append((one._replace(view=one.view._replace(matrix=None)), ridge, path))
    yield from judged(tried)


def _joined(passes: Passes, view: View, covariates: ColumnSums, named: str) -> View:
    """The rows with the covariates of the bags beside them, so that both vary alike."""
    rows = passes.by_shard(_row_moments, view)
    moments = covariates.mean, covariates.deviation, covariates.largest, rows.variance.sum()
    return view._replace(beside=CovariatesBeside.of_moments(*moments), covariates=named)


def _row_moments(shard: Shard, view: View) -> ColumnSums:
    return ColumnSums.of(view(shard))


def _products(head: EmbeddingRidge, one: Embedded, without: dict[int, RowSums], offset: str | None) -> Candidates:
    """The candidates of a setting whose rows are a product, for the rows before it."""
    ridge, matrix = head.fresh_head(), np.asarray(one.view.matrix)
    heads = {k: Linear(*ridge.path(sums.through(matrix)).coefficient_path()) for k, sums in without.items()}
    before = {k: Linear(matrix @ coef, intercept) for k, (coef, intercept) in heads.items()}
    return Candidates(one.view._replace(matrix=None), before, plus=offset, embedding=one.embedding, heads=heads)


def _left_out(shard: Shard, jobs: list[tuple[Rows, SumPath]], groups: bool) -> list[LeftOut]:
    """The left-out residuals of the bags of a shard, added up, for every setting; a group is judged as a whole."""
    units, most = (shard.units, len(shard)) if groups else (None, BLOCK_BAGS)
    blocks = (slice(start, start + most) for start in range(0, len(shard), most))
    return added([path.left_out(*rows(shard, bags), groups=units) for rows, path in jobs] for bags in blocks)


# Evidence ---------------------------------------------------------------------------------------------------------


def fit_evidence(
    head: EvidenceRidge, passes: Passes, survey: Survey, embedded: Iterable[Embedded], held_out: HeldOut | None = None
) -> EvidenceRidge:
    """The head fitted as if on all rows; settings are judged by the likelihood of held-out folds."""
    head = clone(head)
    head.target_ = target_scale(passes, "y", survey.weight)
    judged = len(head.settings()) > 1
    if judged:
        deal_folds(passes, survey, min(head.folds, max(survey.n_units, 2)))
    return head.keep_best(_evidences(head, passes, survey.weight, embedded, judged, held_out))


def _evidences(head, passes: Passes, weight: str | None, embedded: Iterable[Embedded], judged: bool, held_out):
    target = head.target_
    for one in embedded:
        rows = Rows(one.view, weight=weight)
        if held_out is not None:
            held_out.take([Candidates(one.view, _posteriors(held_out.row_sums(rows)[1], target))], keep=True)
        if not judged:
            sums = passes.by_shard(_row_sums, rows).standardised(target.mean, target.scale)
            yield one.setting, one.embedding, Evidence.from_sums(sums), 0.0
            continue
        found = passes.by_shard(_fold_row_sums, rows, "fold")
        # folds in which some bag weighs something
        parts = {k: part.standardised(target.mean, target.scale) for k, part in found.items() if part.n}
        without = {k: Evidence.from_sums(sums) for k, sums in without_each(parts).items() if sums is not None}
        score = passes.by_shard(_held_out_score, rows, without, target)
        total = sum(part.weight for part in parts.values())
        yield one.setting, one.embedding, Evidence.from_sums(added(parts.values())), float(score) / total


def _posteriors(without: dict[int, RowSums], target: TargetScale) -> dict[int, Linear]:
    """The mean of the posterior without each fold, in the units of the target."""
    heads = {}
    for k, sums in without.items():
        found = Evidence.from_sums(sums.standardised(target.mean, target.scale))
        level = found.target_mean - found.row_mean @ found.coef
        heads[k] = Linear(target.scale * found.coef[:, None], np.array([target.mean + target.scale * level]))
    return heads


def _held_out_score(shard: Shard, rows: Rows, without: dict[int, Evidence], target: TargetScale) -> float:
    """Σ of the weighted negative log likelihood of bags, each predicted without its fold."""
    (Z, y, _), fold, w = rows(shard), np.asarray(shard["fold"]), _weights(shard, rows.weight)
    y, total = target.standardised(y), 0.0
    for k in np.unique(fold).tolist():
        if k in without:
            mean, variance = without[k](Z[fold == k])
            total += w[fold == k] @ negative_log_likelihood(y[fold == k], mean, np.sqrt(variance))
    return total


def target_scale(passes: Passes, target: str, weight: str | None) -> TargetScale:
    """As `TargetScale.of`, of what the shards keep."""
    sums, found = passes.by_shard(_target_sums, target, weight)
    mean, R = sums.centred()
    scale = float(np.sqrt((R[:, -1] ** 2).sum() / sums.weight))
    varies = found.high[0] - found.low[0] > ROUNDING * found.largest[0]
    return TargetScale(float(mean[-1]), scale if varies else 0.0)


def _target_sums(shard: Shard, target: str, weight: str | None) -> tuple[RowSums, ColumnSums] | None:
    y, w = np.asarray(shard[target]), _weights(shard, weight)
    y, w = y[w > 0], w[w > 0]
    return (RowSums.of(np.empty((len(y), 0)), y, w), ColumnSums.of(y[:, None])) if len(y) else None


# Aggregates -------------------------------------------------------------------------------------------------------


def fit_aggregate(
    head: AggregateGP, passes: Passes, survey: Survey, embedded: Iterable[Embedded], held_out: HeldOut | None = None
) -> AggregateGP:
    """The head fitted as if on all rows; settings are judged by their evidence."""
    head = clone(head)
    head.noise_exposure_, target, weight = 1.0, "y", survey.weight
    totals, weighted, count = passes.by_shard(_exposures, weight)
    if head.aggregate == "sum":
        head.noise_exposure_ = weighted / count
        passes.by_shard(_keep_rates, head.noise_exposure_, weight)
        target, weight = "rate", "exposure"
    head.target_ = target_scale(passes, target, weight)
    head.exposure_range_in_ = np.array([[1.0, 1.0], [totals.low[0], totals.high[0]]])
    head.with_exposure_ = passes.scan.weights is not None
    return head.keep_best(_aggregates(head, passes, embedded, target, weight, held_out))


def _aggregates(head: AggregateGP, passes: Passes, embedded: Iterable[Embedded], target: str, weight, held_out):
    for one in embedded:
        rows = Rows(one.view, target, weight=weight)
        if held_out is not None:
            heads = _posteriors(held_out.row_sums(rows)[1], head.target_)
            held_out.take([Candidates(one.view, heads, times=None if target == "y" else "totals")], keep=True)
        sums = passes.by_shard(_row_sums, rows)
        yield one.setting, one.embedding, Evidence.from_sums(sums.standardised(head.target_.mean, head.target_.scale))


def _exposures(shard: Shard, weight: str | None) -> tuple[ColumnSums, float, float]:
    """The totals of bags, Σ w total and Σ w."""
    totals, w = np.asarray(shard["totals"]), _weights(shard, weight)
    return ColumnSums.of(totals[:, None]), w @ totals, w.sum()


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
    without : the same, of all others
    limits : {fold: the range of the targets of the others, a little widened}, or infinite ones
    """

    def __init__(self, passes: Passes, survey: Survey, folds: int, *, clipped: bool = True):
        self.n = deal_folds(passes, survey, folds, FOLD)
        self.y: dict[int, ColumnSums] = passes.by_shard(_fold_targets)
        self.without = without_each(self.y)
        self.limits = {k: limits_of(own) if clipped else (-np.inf, np.inf) for k, own in self.without.items()}


def limits_of(y: ColumnSums) -> tuple[float, float]:
    """The range of targets, a little widened."""
    low, high = float(y.low[0]), float(y.high[0])
    return low - BEYOND * (high - low), high + BEYOND * (high - low)


def _fold_targets(shard: Shard) -> dict[int, ColumnSums]:
    y, fold = shard["y"], shard[FOLD]
    return {int(k): ColumnSums.of(y[fold == k][:, None]) for k in np.unique(fold)}


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

    def row_sums(self, rows: Rows) -> tuple[RowSums, dict[int, RowSums]]:
        """The sums of all rows, and those without each fold."""
        found = self.passes.by_shard(_fold_row_sums, rows, FOLD)
        return added(found.values()), without_each(found)

    def take(self, some: list[Candidates], *, keep: bool) -> None:
        """Judge candidates; ``keep`` their predictions if their rows will be gone."""
        start = len(self.candidates)
        some = [one._replace(kept=f"{self.column}-{start + k}" if keep else None) for k, one in enumerate(some)]
        found = self.passes.by_shard(_judge, [one.bare for one in some], self.folds.limits)
        self.candidates += some
        self.errors.append(found)

    def finish(self) -> None:
        """Keep the prediction of every bag by the candidate that did best on the other folds."""
        errors = np.hstack(self.errors)  # (folds, candidates)
        errors = np.where(np.isfinite(errors), errors, np.inf)
        places = [(at, own) for at, one in enumerate(self.candidates) for own in range(one.n)]
        others = {k: np.delete(errors, i, axis=0).sum(axis=0) for i, k in enumerate(self.folds.y)}
        self.chosen = {k: places[int(np.argmin(errors))] for k, errors in others.items()}
        bare = [one.bare for one in self.candidates]
        self.passes.by_shard(_choose, bare, self.chosen, self.folds.limits, self.column)
        self.passes.shards.remove(*(one.kept for one in self.candidates if one.kept is not None))

    def head_of(self, k: int) -> tuple[Candidates, np.ndarray, float]:
        """The candidates of which one predicted fold k, and its coefficients and intercept for their embedding."""
        at, own = self.chosen[k]
        one = self.candidates[at]
        head = (one.without if one.heads is None else one.heads)[k]
        return one, head.coef[:, own], float(head.intercept[own])


def _judge(shard: Shard, some: list[Candidates], limits: dict[int, tuple[float, float]]) -> np.ndarray:
    """Σ of squared errors of the bags of every fold, for all candidates."""
    y, fold = shard["y"], np.asarray(shard[FOLD])
    errors = []
    for one in some:
        found, kept = np.zeros((len(limits), one.n)), np.empty((len(y), one.n if one.kept else 0))
        for i, (k, ends) in enumerate(limits.items()):
            for bags in _blocks(np.flatnonzero(fold == k)):
                predictions = one.predict(shard, k, bags, ends)
                found[i] += ((predictions - y[bags][:, None]) ** 2).sum(axis=0)
                if one.kept:
                    kept[bags] = predictions
        if one.kept:
            shard.keep(one.kept, kept)
        errors.append(found)
    return np.hstack(errors)


def _blocks(bags: np.ndarray) -> Iterable[np.ndarray]:
    return (bags[start : start + BLOCK_BAGS] for start in range(0, len(bags), BLOCK_BAGS))


def _choose(shard: Shard, some: list[Candidates], chosen: dict[int, tuple[int, int]], limits, column: str) -> None:
    fold = np.asarray(shard[FOLD])
    out = np.empty(len(fold))
    for k, (at, own) in chosen.items():
        one = some[at]
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


def error_sums(passes: Passes, columns: list[str]) -> dict[int, ErrorSums]:
    """The sums of every fold."""
    return passes.by_shard(_error_sums, columns)


def _error_sums(shard: Shard, columns: list[str]) -> dict[int, ErrorSums]:
    errors = shard["y"][:, None] - np.column_stack([shard[column] for column in columns])
    fold, found = np.asarray(shard[FOLD]), {}
    for k in np.unique(fold).tolist():
        own = errors[fold == k]
        found[k] = ErrorSums(len(own), own.T @ own, np.abs(own).sum(axis=0), (own**2).T @ own**2)
    return found
