"""What of a member knows nothing of the targets, fitted once to all bags; its heads are fitted without each fold.

Statistics, kernel means and slices of a bag, the scale of its features, landmarks and the unit of distances between
bags are the same for every fold and for the fit to all bags. So bags are embedded once, and a fold is a choice of rows.
Held-out bags count in these, but their targets count nowhere: settings and penalties are chosen without them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import delayed
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor

from bagwise.auto.preparation import Components
from bagwise.bags import Bags
from bagwise.bags.folds import unit_hash
from bagwise.embeddings import NystroemMean, Pool
from bagwise.embeddings.second_kernel import SecondKernel
from bagwise.embeddings.summaries import SlicedQuantiles, Statistics
from bagwise.execution.resources import one_thread
from bagwise.instances import EachInstance
from bagwise.model_files.fingerprint import describe
from bagwise.regressors import BagPipeline, EmbeddingRidge

BLIND = (Pool, Statistics, NystroemMean, SlicedQuantiles)  # embeddings that look at no target
MANY_BAGS = 1000  # above so many, settings are compared on some of the bags
COMPARED = 800  # of them
GOES_ON = 4  # one setting in so many, the best there, is compared on all bags
MUCH_WORSE = 1.05  # unless its squared error is so many times that of the best
NEAR = 40.0  # with penalties that are at most so many times as heavy or light as the best there
KEPT_NUMBERS = 5 * 10**7  # in the rows that are kept for other members and for the fit to all bags, 400 MB
MOST_BAGS = 20_000  # with more, the rows of all settings at once would take gigabytes: every fold embeds its own

Parallel = Callable[[Any], list]


@dataclass(frozen=True)
class Task:
    """A fit to the bags ``seen`` (their numbers), with their targets, and the bags to predict then."""

    seen: np.ndarray
    y: np.ndarray  # of all bags
    predicted: np.ndarray
    weight: np.ndarray | None  # of all bags

    @property
    def weight_seen(self) -> np.ndarray | None:
        return None if self.weight is None else self.weight[self.seen]


@dataclass
class Fit:
    """A fitted model, its predictions of the bags asked for, and the seconds of both."""

    model: Any
    predictions: np.ndarray
    fit_seconds: float
    predict_seconds: float


@dataclass
class SharedEmbeddings:
    """The embeddings of some bags, each made when the first member asks for it.

    Parameters
    ----------
    bags : Bags
    counted : mask over the bags: which count. The others are embedded as new bags are.
    """

    bags: Bags
    counted: np.ndarray
    known: dict[str, Any] = field(default_factory=dict)
    second: dict[str, SecondKernel] = field(default_factory=dict)  # so that all models of a member hold the same one
    seconds: float = 0.0  # of what was made once and is kept: further folds do not take them again

    def fits(self, model, tasks: Sequence[Task], parallel: Parallel) -> list[Fit] | None:
        """The model fitted to every task; None if it has no part that can be shared, or the bags are too many."""
        if len(self.bags) > MOST_BAGS:
            return None
        started, heads = time.perf_counter(), self._heads(model, self.bags, "")
        if heads is None:
            return None
        shared = time.perf_counter() - started
        found = heads.fits(tasks, parallel)
        found[0].fit_seconds += shared
        return found

    def _heads(self, model, bags: Bags, path: str):
        """``bags`` as the model sees them; ``path`` names what they went through."""
        if isinstance(model, TransformedTargetRegressor):
            inner = None if model.transformer is None else self._heads(model.regressor, bags, path)
            return None if inner is None else _TargetHeads(model, inner)
        if isinstance(model, EmbeddingRidge):
            return _RidgeHeads(model, self, bags, path) if _is_blind(model) else None
        if not isinstance(model, BagPipeline):
            return None
        (name, first), *rest = model.steps
        if isinstance(first, Statistics):
            return _RowHeads(model, *self._statistics(first, bags, path))
        if len(rest) != 1 or not _is_blind_stage(first) or not _has_heads(rest[0][1]):
            return None
        stage, seen = self._once(f"{path}{describe(first)}", lambda: self._staged(first, bags))
        inner = self._heads(rest[0][1], seen, f"{path}{describe(first)}")
        return _StageHeads(((name, stage), rest[0][0]), inner)

    def _once(self, key: str, make):
        """What ``make`` gives, kept if it is not too large."""
        if key in self.known:
            return self.known[key]
        started, made = time.perf_counter(), make()
        held = sum(_numbers(one) for one in self.known.values())
        if held + _numbers(made) <= KEPT_NUMBERS:
            self.known[key] = made
            self.seconds += time.perf_counter() - started
        return made

    def _staged(self, stage, bags: Bags) -> tuple:
        fitted = clone(stage)
        if self.counted.all():
            return fitted, fitted.fit_transform(bags)
        return fitted, fitted.fit(bags[self.counted]).transform(bags)

    def _statistics(self, stage: Statistics, bags: Bags, path: str) -> tuple:
        def make():
            fitted = clone(stage)
            fitted.remember_levels(bags if self.counted.all() else bags[self.counted])
            return fitted, fitted.all_columns(bags)

        return self._once(f"{path}all columns of {describe(stage)}", make)

    def rows(self, embedding, bags: Bags, path: str) -> tuple:
        """An embedding fitted to the bags that count, and the rows of all."""
        bags = bags if embedding.reads_covariates else bags.without_covariates()
        return self._once(f"{path}{describe(embedding)}", lambda: self._staged(embedding, bags))


def _numbers(made: tuple) -> int:
    last = made[-1]
    return last.instances.size if isinstance(last, Bags) else last.size


def _is_blind_stage(stage) -> bool:
    """Whether bags pass through it in training as they do later, and without a look at the targets."""
    return isinstance(stage, Components) or (isinstance(stage, EachInstance) and hasattr(stage.estimator, "transform"))


def _has_heads(model) -> bool:
    """Whether something can be shared below a stage."""
    if isinstance(model, EmbeddingRidge):
        return _is_blind(model)
    return isinstance(model, BagPipeline) and (
        isinstance(model.steps[0][1], Statistics)
        or (len(model.steps) == 2 and _is_blind_stage(model.steps[0][1]) and _has_heads(model.steps[1][1]))
    )


def _is_blind(model: EmbeddingRidge) -> bool:
    first = model.embedding
    first = first.embedding if isinstance(first, SecondKernel) else first
    return model.offset == "none" and type(first) in BLIND


class _TargetHeads:
    """Heads that learn a transform of the targets."""

    def __init__(self, model: TransformedTargetRegressor, inner):
        self.model, self.inner = model, inner

    def fits(self, tasks: Sequence[Task], parallel: Parallel) -> list[Fit]:
        targets = [clone(self.model.transformer).fit(task.y[task.seen][:, None]) for task in tasks]
        found = self.inner.fits([_learning(*pair) for pair in zip(tasks, targets, strict=True)], parallel)
        for fit, target in zip(found, targets, strict=True):
            whole = clone(self.model)
            whole.regressor_, whole.transformer_, whole._training_dim = fit.model, target, 1
            fit.model, fit.predictions = whole, target.inverse_transform(fit.predictions[:, None])[:, 0]
        return found


def _learning(task: Task, target) -> Task:
    """The task with transformed targets of the bags seen; those of others may not have one."""
    y = np.full(len(task.y), np.nan)
    y[task.seen] = target.transform(task.y[task.seen][:, None])[:, 0]
    return replace(task, y=y)


class _StageHeads:
    """Heads behind a stage that was fitted to all bags."""

    def __init__(self, steps, inner):
        (self.stage, self.name), self.inner = steps, inner

    def fits(self, tasks: Sequence[Task], parallel: Parallel) -> list[Fit]:
        found = self.inner.fits(tasks, parallel)
        for fit in found:
            fit.model = BagPipeline([self.stage, (self.name, fit.model)])
        return found


class _RowHeads:
    """What follows the statistics of bags: any steps of scikit-learn on rows."""

    def __init__(self, model: BagPipeline, stage: Statistics, rows: np.ndarray):
        self.name, self.stage, self.rows = model.steps[0][0], stage, rows
        self.rest = BagPipeline(model.steps[1:])

    def fits(self, tasks: Sequence[Task], parallel: Parallel) -> list[Fit]:
        stages = [copy(self.stage) for _ in tasks]
        found = parallel(
            delayed(_fit_rest)(
                self.rest,
                stage.keep_varying(self.rows[task.seen]),
                task.y[task.seen],
                task.weight_seen,
                self.rows[task.predicted][:, stage.varies_],
            )
            for stage, task in zip(stages, tasks, strict=True)  # one after the other: a copy of the rows for each
        )
        for fit, stage, task in zip(found, stages, tasks, strict=True):
            stage.n_bags_in_ = len(task.seen)
            fit.model = BagPipeline([(self.name, stage), *fit.model.steps])
        return found


def _fit_rest(rest: BagPipeline, Z: np.ndarray, y: np.ndarray, weight, others: np.ndarray) -> Fit:
    started = time.perf_counter()
    with one_thread(), _quiet():
        model = clone(rest).fit(Z, y, **({} if weight is None else {"sample_weight": weight}))
        fitted = time.perf_counter()
        predictions = model.predict(others) if len(others) else np.empty(0)
    return Fit(model, predictions, fitted - started, time.perf_counter() - fitted)


@dataclass(frozen=True)
class _Columns:
    """What `EmbeddingRidge.fit_rows` asks of an embedding, in place of one that need not travel to a worker."""

    columns: str
    reads_covariates: bool


class _RidgeHeads:
    """Ridge regression for every setting of an embedding, the best kept."""

    def __init__(self, model: EmbeddingRidge, shared: SharedEmbeddings, bags: Bags, path: str):
        self.model, self.shared, self.bags, self.path = model, shared, bags, path
        self.settings = model.settings()
        # A bag of one instance stands for each: of bags, heads ask for ids, groups and covariates alone.
        self.standing = bags._with(
            instances=bags.instances[bags.offsets[:-1]],
            offsets=np.arange(len(bags) + 1),
            weights=None,
            kept=None,
        )
        self.place = np.cumsum(shared.counted) - 1  # of a bag among those that count

    def fits(self, tasks: Sequence[Task], parallel: Parallel) -> list[Fit]:
        started = time.perf_counter()
        tried = self._compared(tasks, parallel)
        columns = {at: self._columns(at) for at in dict.fromkeys(at for some, _ in tried for at in some)}
        shared = time.perf_counter() - started
        found = parallel(
            delayed(_fit_ridge)(
                model,
                self.standing[task.seen],
                task.y[task.seen],
                task.weight_seen,
                [(at, self.settings[at], *self._seen(*columns[at], task)) for at in some],
                self.standing.covariates
                if self.standing.covariates is None
                else self.standing.covariates[task.predicted],
            )
            for task, (some, model) in zip(tasks, tried, strict=True)
        )
        for fit, task in zip(found, tasks, strict=True):
            self._complete(fit.model, columns, task)
        found[0].fit_seconds += shared
        return found

    def _compared(self, tasks: Sequence[Task], parallel: Parallel) -> list[tuple[list[int], EmbeddingRidge]]:
        """The settings worth a fit to all bags of each task, and the model with the penalties worth it: all of them, or
        of many bags the best on some of them."""
        every = list(range(len(self.settings))), self.model
        if len(self.settings) == 1 or not isinstance(self.model.embedding, SecondKernel):
            return [every] * len(tasks)
        small = [len(task.seen) <= MANY_BAGS for task in tasks]
        if all(small):
            return [every] * len(tasks)
        firsts = [self._first(setting)[1] for setting in self.settings]
        keys = np.array([int.from_bytes(unit_hash(one, 0)) for one in self.bags.ids.tolist()], dtype=np.uint64)
        best = parallel(
            delayed(_best_settings)(
                self.model,
                self.settings,
                self.standing[some],
                task.y[some],
                _of(task.weight, some),
                [Z[some] for Z in firsts],
            )
            for task in tasks
            for some in [_drawn(task.seen, keys, COMPARED)]
        )
        return [every if few else some for few, some in zip(small, best, strict=True)]

    def _first(self, setting: dict) -> tuple:
        """The fitted embedding of instances for a setting, and the rows of all bags."""
        unfitted = self.model.embedding_for(setting)
        first = unfitted.embedding if isinstance(unfitted, SecondKernel) else unfitted
        return self.shared.rows(first, self.bags, self.path)

    def _columns(self, at: int) -> tuple:
        """The embedding for a setting, fitted to all bags that count, and the columns of all bags."""
        unfitted, (first, rows) = self.model.embedding_for(self.settings[at]), self._first(self.settings[at])
        if not isinstance(unfitted, SecondKernel):
            return first, rows
        known, key = self.shared.second, f"{self.path}{describe(unfitted)}"
        if key not in known:
            known[key] = self._second(unfitted, first, rows)
        # Kept where there is room: with a time budget folds come one at a time.
        return self.shared._once(f"{key} columns", lambda: (known[key], known[key].columns_of(self.standing, rows)))

    def _second(self, embedding: SecondKernel, first, rows: np.ndarray) -> SecondKernel:
        counted = self.shared.counted
        embedding.fit_rows(self.standing[counted], first, rows[counted])
        embedding.feature_range_in_ = first.feature_range_in_
        for other in self.shared.second.values():  # rows are many numbers: one array for all second kernels
            if np.array_equal(other.rows_, embedding.rows_):
                embedding.rows_, embedding.mean_ = other.rows_, other.mean_
        return embedding

    def _seen(self, embedding, columns: np.ndarray, task: Task) -> tuple:
        """Columns of the bags seen, and of those to predict: similarities are to the bags seen."""
        kind = _Columns(embedding.columns, getattr(embedding, "reads_covariates", False))
        if embedding.columns != "gram":
            return kind, columns[task.seen], columns[task.predicted]
        to_seen = columns[:, self.place[task.seen]]
        return kind, to_seen[task.seen], to_seen[task.predicted]

    def _complete(self, model: EmbeddingRidge, columns: dict, task: Task) -> None:
        """Give a fitted head its embedding. A bag that was not seen has the coefficient zero."""
        embedding = columns[model.embedding_][0]
        if embedding.columns == "gram":
            _widen(model.head_, self.place[task.seen], len(embedding.rows_))
        model.embedding_ = embedding
        model.feature_range_in_ = embedding.feature_range_in_


def _of(weight, some: np.ndarray):
    return None if weight is None else weight[some]


def _drawn(seen: np.ndarray, keys: np.ndarray, n: int) -> np.ndarray:
    """So many of the bags, those of the smallest keys: a hash of their ids, whatever their order."""
    return np.sort(seen[np.argsort(keys[seen], kind="stable")[:n]])


def _widen(head, place: np.ndarray, n: int) -> None:
    """Coefficients of some bags among those of all ``n``."""
    coef, path = np.zeros(n), np.zeros((len(head.coef_path_), n))
    coef[place], path[:, place] = head.coef_, head.coef_path_
    head.coef_, head.coef_path_, head.n_features_in_ = coef, path, n


def _best_settings(
    model: EmbeddingRidge, settings: list[dict], bags: Bags, y: np.ndarray, weight, rows: list[np.ndarray]
) -> tuple[list[int], EmbeddingRidge]:
    """The numbers of the settings of least left-out error on some bags, whose rows are known for each; and the model
    with penalties near theirs.

    To compare settings every second penalty will do: near the best one the error hardly changes.
    """
    penalties, head = np.array(model.head.penalties), clone(model.head)
    groups = np.arange(len(bags)) if bags.groups is None else bags.groups
    found = []
    with _quiet(), one_thread():
        for setting, Z in zip(settings, rows, strict=True):
            embedding = model.embedding_for(setting)
            columns = embedding.fit_rows(bags, _NoEmbedding(), Z)
            head.set_params(penalties=penalties[::2], kernel="precomputed" if embedding.columns == "gram" else "linear")
            found.append(head.judge(columns, y, weight, groups))
    errors = np.array([error for _, error in found])
    best = np.argsort(errors, kind="stable")[: -(-len(found) // GOES_ON)]
    best = best[errors[best] <= MUCH_WORSE * errors[best[0]]]
    theirs = [found[at][0] for at in best]
    near = penalties[(penalties >= min(theirs) / NEAR) & (penalties <= max(theirs) * NEAR)]
    return sorted(best.tolist()), clone(model).set_params(head__penalties=tuple(near.tolist()))


class _NoEmbedding:
    """Stands for the first embedding of a `SecondKernel` whose rows are known."""

    columns = "features"


def _fit_ridge(model: EmbeddingRidge, bags: Bags, y: np.ndarray, weight, embedded: list, covariates) -> Fit:
    """The best of some settings; ``embedding_`` of the model is the number of it."""
    started = time.perf_counter()
    fitted, numbers = clone(model), {id(kind): (at, others) for at, _, kind, _, others in embedded}
    with _quiet():
        fitted.fit_rows(bags, y, [(setting, kind, rows) for _, setting, kind, rows, _ in embedded], weight)
    fitted.embedding_, others = numbers[id(fitted.embedding_)]
    between = time.perf_counter()
    others = others if fitted.beside_ is None else fitted.beside_.join(others, covariates)
    predictions = fitted.head_.predict(others) if len(others) else np.empty(0)
    return Fit(fitted, predictions, between - started, time.perf_counter() - between)


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings are not passed on: what the member is worth is seen on held-out bags."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
