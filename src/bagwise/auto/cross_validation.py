"""Cross-validate members on the same folds of bags: held-out predictions, models and times, or the reason for none.

Members run one after the other, in order of cost. All costly members are fitted without the first fold, and those
continue that have a weight in the best blend there (`CrossValidation.race`). Under a time budget, a member is skipped
or given up if it cannot finish in time.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.utils.validation import has_fit_parameter

from bagwise.auto.members import Member
from bagwise.auto.time_budget import PROBE_SHARE, REFIT_FACTOR, TimeBudget
from bagwise.bags import Bags
from bagwise.bags.checks import compared
from bagwise.bags.folds import Folds
from bagwise.bags.imputation import Imputation
from bagwise.execution.resources import one_thread
from bagwise.execution.tasks import starts_processes
from bagwise.held_out import HeldOut, hold_out
from bagwise.instances.networks.cpu import spent
from bagwise.metrics import get_metric
from bagwise.regressors import BagPipeline
from bagwise.regressors.embedding_ridge import blend_weights
from bagwise.regressors.pipeline import tail_limits

if TYPE_CHECKING:
    from bagwise.auto.stored_fits import StoredFits

Fold = tuple[np.ndarray, np.ndarray]  # masks of the training bags and of the bags to predict

FEWEST = 16  # smallest number of bags in the first fold for a race
LEAST_WEIGHT = 1e-9  # smaller weights in a blend are rounding errors
BEGUN = "begun"  # status of a member whose folds are not all fitted


@dataclass
class Trial:
    """The result of a member: held-out predictions, models, and seconds without the start of workers.

    ``status`` is "tried" if all folds are fitted, else "begun", "skipped", "failed" or "dropped", and ``why`` the
    reason.
    """

    member: Member
    status: str = BEGUN
    why: str = ""
    predictions: np.ndarray | None = None  # (repeats, bags), NaN where there are none yet
    models: list = field(default_factory=list)  # of the first repeat
    fits: int = 0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0

    @property
    def done(self) -> bool:
        return self.status == "tried"

    @property
    def held_out(self) -> np.ndarray:
        """The predictions in the first repeat."""
        assert self.predictions is not None
        return self.predictions[0]

    @property
    def averaged(self) -> np.ndarray:
        """The mean of the predictions over all repeats."""
        assert self.predictions is not None
        return self.predictions.mean(axis=0)

    @property
    def seconds(self) -> float:
        return self.fit_seconds + self.predict_seconds

    @property
    def seconds_of_a_fit(self) -> float:
        return self.fit_seconds / max(self.fits, 1)


def refit_seconds(trials: Sequence[Trial]) -> float:
    """Return the seconds of fitting each member that may be chosen to all bags."""
    return REFIT_FACTOR * sum(trial.seconds_of_a_fit for trial in trials if trial.done)


@dataclass(frozen=True)
class CrossValidation:
    """The data, their folds, the metric, the time budget and the number of workers.

    ``splits`` has the `Folds` of each repeat, ``stored`` the finished fits of a work folder.
    """

    bags: Bags
    y: np.ndarray
    splits: Sequence[Folds]
    sample_weight: np.ndarray | None = None
    random_state: int = 0
    n_jobs: int | None = None
    budget: TimeBudget = field(default_factory=lambda: TimeBudget(None))
    metric: str = "rmse"
    race_costly: bool = True
    limited: bool = True
    stored: StoredFits | None = None
    starting: list[Thread] = field(default_factory=list)

    @property
    def fold(self) -> np.ndarray:
        return self.splits[0].test

    @property
    def n_folds(self) -> int:
        return len(self.splits[0])

    @property
    def counted(self) -> np.ndarray:
        """Mask of the bags with positive weight; the others are not used at all."""
        return np.ones(len(self.y), dtype=bool) if self.sample_weight is None else self.sample_weight > 0

    @property
    def held_out(self) -> np.ndarray:
        """Mask of the bags that some fold of each repeat holds out."""
        return np.logical_and.reduce([split.held_out for split in self.splits])

    @property
    def scored(self) -> np.ndarray:
        """Mask of the bags that count and have held-out predictions."""
        return self.counted & self.held_out

    @property
    def weight(self) -> np.ndarray | None:
        """The weights of the scored bags; their mean is one if all bags are scored."""
        return None if self.sample_weight is None else self.sample_weight[self.scored]

    def limits(self, train: np.ndarray | None = None) -> tuple[float, float]:
        """Return the limits of predictions by models of these bags, by default of all."""
        if not self.limited:
            return -np.inf, np.inf
        return tail_limits(self.y[self.counted if train is None else self.counted & train])

    def loss(self, predictions: np.ndarray) -> np.ndarray:
        """Return the weighted loss of each scored bag, whose mean represents the metric."""
        loss = get_metric(self.metric).bag_loss(self.y[self.scored], predictions[self.scored])
        return loss if self.weight is None else loss * self.weight

    def error(self, predictions: np.ndarray) -> float:
        """Return the metric over all scored bags."""
        return get_metric(self.metric)(self.y[self.scored], predictions[self.scored], weight=self.weight)

    # Folds and fits -------------------------------------------------------------------------------------------------

    def fold_masks(self, repeat: int, k: int) -> Fold:
        split = self.splits[repeat]
        return split.train(k), split.test == k

    @property
    def _whole(self) -> Fold:
        return np.ones(len(self.y), dtype=bool), np.zeros(len(self.y), dtype=bool)

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """All pairs (repeat, fold)."""
        return [(repeat, k) for repeat, split in enumerate(self.splits) for k in range(len(split))]

    def fit_whole(self, members: Sequence[Member]) -> list:
        """Return the members fitted to all bags."""
        return [result.model for result in self._fits([(member, self._whole, False) for member in members])]

    def _fits(self, tasks: list[tuple[Member, Fold, bool]]) -> list[HeldOut]:
        """Return the fit of each (member, fold, first): read stored fits, and run and store the others."""
        if self.stored is None:
            return self._run(tasks)
        keys = [self._key(*task) for task in tasks]
        results = {}
        for key in keys:
            if (stored := self.stored.read_fit(key)) is not None:
                results[key], passed = stored
                self.budget.advance(passed)
        missing = [(key, task) for key, task in zip(keys, tasks, strict=True) if key not in results]
        step = self.workers
        for start in range(0, len(missing), step):  # run few at a time, so that an interrupt loses little work
            part = missing[start : start + step]
            for (key, _), fit in zip(part, self._run([task for _, task in part]), strict=True):
                self.stored.write_fit(key, fit, self.budget.elapsed)
                results[key] = fit
        return [results[key] for key in keys]

    def _run(self, tasks: list[tuple[Member, Fold, bool]], bags: Bags | None = None) -> list[HeldOut]:
        """Fit each (member, fold, first), on the training bags or on the bags passed instead."""
        fits = [
            (partial(fit_member, member, random_state=self.random_state, first=first), *map(np.flatnonzero, fold))
            for member, fold, first in tasks
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="joblib")  # ignore the warning that a worker was replaced
            options = {"sample_weight": self.sample_weight, "n_jobs": 1 if self._waiting else self.n_jobs}
            return hold_out(fits, self.bags if bags is None else bags, self.y, **options)

    def _key(self, member: Member, fold: Fold, first: bool = False) -> str:
        return self.stored.key(member, np.stack(fold), first)

    def is_stored(self, member: Member) -> bool:
        """Return whether all folds of a member are stored."""
        folds = [self.fold_masks(*pair) for pair in self._pairs]
        return self.stored is not None and all(self._key(member, fold) in self.stored for fold in folds)

    def has_whole(self, members: Sequence[Member]) -> bool:
        """Return whether the fits of the members to all bags are stored."""
        return self.stored is not None and all(self._key(member, self._whole) in self.stored for member in members)

    # Workers --------------------------------------------------------------------------------------------------------

    def start_workers(self) -> None:
        """Start the worker processes and their imports, so that they are not part of the measured time of members.

        Under a time budget they start in the background, and this process works until they are ready.
        """
        number = effective_n_jobs(self.n_jobs)
        if number == 1:
            return
        start = partial(Parallel(n_jobs=self.n_jobs), [delayed(_ready)(k) for k in range(number)])
        if self.budget.seconds is None or not starts_processes():
            start()  # a cluster is set per thread
            return

        def start_quietly() -> None:
            with suppress(Exception):  # workers stopped by Ctrl-C need no traceback, and fits start new ones
                start()

        self.starting.append(Thread(target=start_quietly, daemon=True))
        self.starting[0].start()

    @property
    def workers(self) -> int:
        """The number of processes that can work now."""
        return 1 if self._waiting else effective_n_jobs(self.n_jobs)

    @property
    def _waiting(self) -> bool:
        return any(thread.is_alive() for thread in self.starting)

    # Members --------------------------------------------------------------------------------------------------------

    def try_member(self, member: Member, reserve: float = 0.0) -> Trial:
        """Return the trial of a member with its held-out predictions, or the reason why there are none.

        ``reserve`` is the time, in seconds, that must remain for fitting other members on all bags.
        """
        trial = Trial(member)
        self._guarded(trial, lambda: self.too_long(member, reserve) or self._complete(trial, self._pairs, reserve))
        return trial

    def race(self, members: Sequence[Member], rivals: Sequence[Trial], show=lambda name, trials: None) -> list[Trial]:
        """Fit all members without the first fold, and continue with those that improve the blend on it."""
        trials = [Trial(member) for member in members]

        def finished() -> list[Trial]:
            return [*rivals, *(trial for trial in trials if trial.status != BEGUN)]

        for trial in trials:
            show(trial.member.name, finished())
            self._guarded(trial, partial(self._first_fold, trial, refit_seconds(rivals)), done=BEGUN)
        racing = [trial for trial in trials if trial.status == BEGUN]
        for trial, why in zip(racing, self.useless(racing, [rival for rival in rivals if rival.done]), strict=True):
            if why:
                trial.status, trial.why = "dropped", why
        for trial in racing:
            if trial.status == BEGUN:
                show(trial.member.name, finished())
                self._guarded(trial, partial(self._other_folds, trial, refit_seconds([*rivals, *trials])))
        return trials

    def _guarded(self, trial: Trial, work: Callable[[], str], done: str = "tried") -> None:
        """Call ``work``, which returns why the member is skipped, or ""; set status and reason of the trial."""
        try:
            trial.why = work()
            trial.status = "skipped" if trial.why else done
        except ConnectionError:  # a lost cluster is not the fault of the member
            raise
        except Exception as error:  # any error; the other members continue
            trial.status, trial.why = "failed", (str(error).splitlines() or [type(error).__name__])[0][:120]

    def _first_fold(self, trial: Trial, reserve: float) -> str:
        if why := self.too_long(trial.member, reserve):
            return why
        self._fit_pairs(trial, self._pairs[:1], first=True)
        return ""

    def _other_folds(self, trial: Trial, reserve: float) -> str:
        pairs = self._pairs[1:]
        if trial.member.make_first is not None:  # a cheaper estimator was fitted without the first fold
            trial.models.clear()
            pairs = self._pairs
        return self._behind(trial, len(pairs), reserve) or self._complete(trial, pairs, reserve)

    def _complete(self, trial: Trial, pairs: list[tuple[int, int]], reserve: float) -> str:
        """Fit the remaining folds: all at once, or a few at a time under a budget, until it is exceeded."""
        step = len(pairs) if self.budget.seconds is None else self._at_once
        for start in range(0, len(pairs), step):
            before = self.budget.elapsed
            self._fit_pairs(trial, pairs[start : start + step])
            more, took = len(pairs) - start - step, self.budget.elapsed - before
            if more > 0 and (why := self._behind(trial, more, reserve, took=took)):
                return f"{why}; given up after {start + step} of {len(pairs)} folds"
        return ""

    def _fit_pairs(self, trial: Trial, pairs: list[tuple[int, int]], first: bool = False) -> None:
        """Fit without fold k of a repeat, for every pair (repeat, k), and add the predictions of that fold."""
        if trial.predictions is None:
            trial.predictions = np.full((len(self.splits), len(self.y)), np.nan)
        fits = self._fits([(trial.member, self.fold_masks(*pair), first) for pair in pairs])
        for (repeat, k), (model, predictions, fit_seconds, predict_seconds) in zip(pairs, fits, strict=True):
            train, test = self.fold_masks(repeat, k)
            trial.fits, trial.fit_seconds = trial.fits + 1, trial.fit_seconds + fit_seconds
            trial.predict_seconds += predict_seconds
            if not np.isfinite(predictions).all():
                raise ValueError("a prediction is not finite")
            trial.predictions[repeat, test] = np.clip(predictions, *self.limits(train))
            if repeat == 0:
                trial.models.append(model)

    def useless(self, racing: Sequence[Trial], rivals: Sequence[Trial]) -> list[str]:
        """Return for each member with a first fold the reason to drop it, or "".

        Let b be the blend of the rivals, weighted on all bags. A member continues if it has a weight in the best blend
        of b and the members on the first fold. That is so if and only if the slope of y - b on z - b is above zero,
        with b the blend without it, z its predictions and y the targets. A stricter rule, such as a standard error,
        drops good members, as one fold is little evidence.
        """
        if not racing or not rivals:
            return [""] * len(racing)
        first = np.column_stack([trial.held_out for trial in racing])
        at = self.counted & np.isfinite(first).all(axis=1)
        if at.sum() < FEWEST:
            return [""] * len(racing)
        weight = None if self.sample_weight is None else self.sample_weight[at] / self.sample_weight[at].mean()
        Z = np.column_stack([rival.averaged for rival in rivals])
        blended = Z @ blend_weights(Z[self.scored], self.y[self.scored], self.weight, self.metric)
        columns = np.column_stack([blended, first])[at]
        weights = blend_weights(columns, self.y[at], weight, self.metric)
        metric = get_metric(self.metric)
        best, *errors = (metric(self.y[at], z, weight=weight) for z in (columns @ weights, *columns[:, 1:].T))
        why = "did not improve the blend on the first fold: {} {:.4g} there, {:.4g} for a blend of all"
        return [
            "" if share > LEAST_WEIGHT else why.format(metric.label, error, best)
            for share, error in zip(weights[1:], errors, strict=True)
        ]

    # The time budget ------------------------------------------------------------------------------------------------

    @property
    def _at_once(self) -> int:
        """The number of folds that are fitted at a time."""
        return max(1, min(self.n_folds, self.workers))

    def rounds(self, n_fits: int) -> float:
        """Return the number of sequential rounds of ``n_fits`` fits with all workers busy."""
        return np.ceil(n_fits / self._at_once)

    def too_long(self, member: Member, reserve: float) -> str:
        """Return why the member does not fit into the rest of the budget, judged by fits to a few bags, or "".

        If the first fold is quick enough, it is fitted anyway, because its time is a better estimate.
        """
        budget = self.budget
        if budget.seconds is None or member.always:
            return ""
        if self.stored is not None and any(
            self._key(member, self.fold_masks(0, 0), first) in self.stored for first in (False, True)
        ):
            return ""
        if why := budget.refusal(member.name, member.costly, reserve):
            return why
        order = np.argsort(self.fold, kind="stable")
        n_train, n_fits = self.counted.sum() * (1 - 1 / self.n_folds), self.rounds(len(self._pairs)) + REFIT_FACTOR
        each = budget.estimate(partial(self.probe, member), order[self.counted[order]], n_train, n_fits, reserve)
        if not budget.shortage(each, reserve, share=PROBE_SHARE):
            return ""
        why = budget.shortage(n_fits * each, reserve)
        if why and not member.costly:
            budget.quickest_skipped = min(budget.quickest_skipped, n_fits * each)
        return why

    def _behind(self, trial: Trial, n_fits: int, reserve: float, took: float | None = None) -> str:
        """Return why a begun member is given up, if the other folds and a fit to all bags exceed the budget."""
        if trial.member.always or self.budget.seconds is None or self.is_stored(trial.member):
            return ""
        each = trial.seconds if took is None else took
        return self.budget.shortage(self.rounds(n_fits) * each + REFIT_FACTOR * trial.seconds_of_a_fit, reserve)

    def probe(self, member: Member, positions: np.ndarray) -> float:
        """Return the time of a fit on some bags, in seconds, without the compilation at the first use in a process."""
        started, compiling = time.perf_counter(), spent["compiling"]
        weight = None if self.sample_weight is None else self.sample_weight[positions]
        with parallel_config(backend="sequential"):  # as in a worker
            fit_member(member, self.bags[positions], self.y[positions], weight, self.random_state)
        return time.perf_counter() - started - (spent["compiling"] - compiling)


def fit_member(member: Member, bags: Bags, y, sample_weight, random_state: int, *, first: bool = False):
    """Fit a member in one thread, so that results are the same in this process and in a worker.

    All steps, including imputation, are fitted only on these bags. Bags of weight zero are left out. Warnings are
    silenced: held-out errors judge the member.
    """
    make = member.make_first if first and member.make_first is not None else member.make
    model, weights = make(random_state), {}
    if sample_weight is not None:
        counted = sample_weight > 0
        bags, y, weights = bags[counted], y[counted], {"sample_weight": sample_weight[counted]}
        weighted = model.regressor if isinstance(model, TransformedTargetRegressor) else model
        # A voting regressor accepts weights, although they are not in its signature.
        if not isinstance(weighted, VotingRegressor) and not has_fit_parameter(weighted, "sample_weight"):
            raise ValueError("takes no sample_weight")
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if bags.missing != "impute":
            return model.fit(bags, y, **weights)
        imputation = Imputation()
        model.fit(compared(imputation.fit_transform(bags)), y, **weights)
    return BagPipeline([("imputation", imputation), ("model", model)])


def _ready(number: int) -> int:
    """Return the number; calling it makes a worker import this module."""
    return number
