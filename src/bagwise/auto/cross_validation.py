"""Cross-validation of members on the same folds of bags: held-out predictions, models, seconds; or why there are none.

Members run one after the other, in order of cost. The costly ones are all fitted without the first fold, and those go
on that a blend of all would want there (`CrossValidation.race`). A learning curve says what more bags, or more
instances, would bring: one member fitted again to half of either. A transform of the targets is kept if it helps on the
same folds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.utils.validation import has_fit_parameter

from bagwise.auto.members import Member
from bagwise.auto.preparation import MonotoneTarget, prepare, thin, worth_trying
from bagwise.bags import Bags, bag_folds
from bagwise.bags.folds import Folds
from bagwise.execution.resources import one_thread
from bagwise.execution.tasks import starts_processes
from bagwise.held_out import HeldOut, assemble, fit_held_out
from bagwise.instances.networks.cpu import spent
from bagwise.metrics import get_metric, squared
from bagwise.regressors import BagPipeline
from bagwise.regressors.embedding_ridge import blend_weights

if TYPE_CHECKING:
    from bagwise.auto.kept_fits import KeptFits

Fold = tuple[np.ndarray, np.ndarray]  # masks of the bags that a model is fitted to, and of those that it predicts

PROBE = 8  # one bag in so many is fitted to guess how long a member takes, where fewer leave a doubt
FEWEST = 16  # bags to judge anything by
FEW_SECONDS = 2.0  # of work that is not worth sending to a worker
FEWEST_SECONDS = 0.1  # of the budget: with less, not even a fit to a few bags of a costly member is begun
SURE = 2.0  # standard errors by which a transform of the targets must help
TRANSFORM_SHARE = 1 / 3  # of the rest of the budget that a transform of the targets may take
WHOLE = 1.25  # seconds of a fit to all bags for one of a fit without a fifth of them, or of a fit on a busier machine
LEAST_SHARE = 1e-9  # a weight in a blend that is not rounding: beside a member that is exactly right it decides
BEGUN = "begun"  # status of a member of which only the first fold is known
BEYOND = 0.1  # predictions stay within the range of the training targets, widened by this share of it


@dataclass
class Trial:
    """Result of a member: held-out predictions, models and seconds, or why it was "skipped", "failed" or "dropped".

    ``held_out`` are the predictions in the first repeat, ``averaged`` their mean over all repeats. Seconds are those of
    fits and of predictions, without the start of workers.
    """

    member: Member
    status: str = "tried"
    why: str = ""
    predictions: np.ndarray | None = None  # (deals, bags), NaN where there are none yet
    held_out: np.ndarray | None = None
    averaged: np.ndarray | None = None
    models: list = field(default_factory=list)
    fits: int = 0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0

    @property
    def done(self) -> bool:
        return self.held_out is not None

    @property
    def seconds(self) -> float:
        return self.fit_seconds + self.predict_seconds

    @property
    def seconds_of_a_fit(self) -> float:
        return self.fit_seconds / max(self.fits, 1)


def refit_seconds(trials: Sequence[Trial]) -> float:
    """Return the seconds of fitting each member that may be chosen to all bags."""
    return WHOLE * sum(trial.seconds_of_a_fit for trial in trials if trial.done)


class Clock:
    """The time budget of a fit: seconds passed and left, and what was learned of the cost of members.

    Attributes
    ----------
    longest_probe : seconds of the longest fit to a few bags
    quickest_skipped : seconds that the quickest of the members without networks would take that were skipped
    """

    def __init__(self, budget: float | None):
        self.budget, self.started, self.longest_probe = budget, time.perf_counter(), 0.0
        self.quickest_skipped = np.inf

    @property
    def passed(self) -> float:
        return time.perf_counter() - self.started

    @property
    def left(self) -> float:
        return np.inf if self.budget is None else self.budget - self.passed

    def advance(self, passed: float) -> None:
        """Count the seconds of stored fits: set the clock to at least the time at which they were finished."""
        self.started = min(self.started, time.perf_counter() - passed)


@dataclass(frozen=True)
class CrossValidation:
    """The data, their folds, the metric, and the number of workers.

    ``deals`` has the fold of each bag, one row per repeat; -1 for a bag that no fold holds out. ``splits`` are the
    `Folds` of each repeat, where a fold is not trained on all other bags.
    """

    bags: Bags
    y: np.ndarray
    deals: np.ndarray
    sample_weight: np.ndarray | None
    random_state: int
    n_jobs: int | None
    clock: Clock
    metric: str = "rmse"
    race_costly: bool = True
    clipped: bool = True
    kept: KeptFits | None = None
    splits: Sequence[Folds] | None = None
    starting: list[Thread] = field(default_factory=list)

    @property
    def fold(self) -> np.ndarray:
        return self.deals[0]

    @property
    def folds(self) -> int:
        return int(self.fold.max()) + 1

    @property
    def counted(self) -> np.ndarray:
        """Mask of the bags of weight above zero; the others are left out of everything."""
        return np.ones(len(self.y), dtype=bool) if self.sample_weight is None else self.sample_weight > 0

    @property
    def held_out(self) -> np.ndarray:
        """Mask of the bags that some fold of each repeat holds out."""
        return (self.deals >= 0).all(axis=0)

    @property
    def scored(self) -> np.ndarray:
        """Mask of the bags that count and have held-out predictions."""
        return self.counted & self.held_out

    @property
    def weight(self) -> np.ndarray:
        """The weights of the scored bags; their mean is one if all bags are scored."""
        return np.ones(self.scored.sum()) if self.sample_weight is None else self.sample_weight[self.scored]

    def limits(self, seen: np.ndarray | None = None) -> tuple[float, float]:
        """Return the limits of predictions: the range of the targets (of some bags), widened by a tenth."""
        if not self.clipped:
            return -np.inf, np.inf
        y = self.y[self.counted if seen is None else self.counted & seen]
        beyond = BEYOND * np.ptp(y)
        return float(y.min() - beyond), float(y.max() + beyond)

    def loss(self, predictions: np.ndarray) -> np.ndarray:
        """Return the losses per bag that stand for the metric, of the bags that count, times their weights."""
        scored = self.scored
        return get_metric(self.metric).bag_loss(self.y[scored], predictions[scored]) * self.weight

    def error(self, predictions: np.ndarray) -> float:
        """Return the metric over all bags that count."""
        weight = None if self.sample_weight is None else self.weight
        return get_metric(self.metric)(self.y[self.scored], predictions[self.scored], weight=weight)

    def start_workers(self) -> None:
        """Start the worker processes and their imports, so that the seconds of members do not contain them.

        Under a time budget they start in the background, and this process works until they are ready.
        """
        number = effective_n_jobs(self.n_jobs)
        if number == 1:
            return
        tasks = [delayed(_ready)(k) for k in range(number)]
        if self.clock.budget is None or not starts_processes():
            self._parallel(tasks)  # of a cluster another thread would not know
            return
        self.starting.append(Thread(target=Parallel(n_jobs=self.n_jobs), args=(tasks,), daemon=True))
        self.starting[0].start()

    @property
    def workers(self) -> int:
        """The number of processes that can work now."""
        return 1 if self._waiting else effective_n_jobs(self.n_jobs)

    @property
    def _waiting(self) -> bool:
        return any(start.is_alive() for start in self.starting)

    def try_member(self, member: Member, reserve: float = 0.0) -> Trial:
        """Return the trial of a member with its held-out predictions, or the reason why there are none.

        ``reserve`` are seconds of the budget that must be left for the fits of others to all bags.
        """
        return self._guarded(self._all_folds, Trial(member), reserve)

    def race(self, members: Sequence[Member], rivals: Sequence[Trial], show=lambda name, trials: None) -> list[Trial]:
        """Fit all members without the first fold, and those that improve the blend there without the others."""
        trials: list[Trial] = []

        def finished() -> list[Trial]:
            return [*rivals, *(trial for trial in trials if trial.status != BEGUN)]

        for member in members:
            show(member.name, finished())
            trials.append(self._guarded(self._first_fold, Trial(member), refit_seconds(rivals)))
        begun = [trial for trial in trials if trial.status == BEGUN]
        for trial, why in zip(begun, self.useless(begun, [rival for rival in rivals if rival.done]), strict=True):
            trial.status, trial.why = ("dropped", why) if why else (BEGUN, "")
        for trial in begun:
            if trial.status == BEGUN:
                show(trial.member.name, finished())
                self._guarded(self._other_folds, trial, refit_seconds([*rivals, *trials]))
        return trials

    def _guarded(self, work, trial: Trial, reserve: float) -> Trial:
        try:
            trial.status, trial.why = work(trial, reserve)
        except ConnectionError:  # a cluster is gone, for which no member is to blame
            raise
        except Exception as error:  # whatever it is, the others go on
            trial.status, trial.why = "failed", (str(error).splitlines() or [type(error).__name__])[0][:120]
        return trial

    def fit_whole(self, members: Sequence[Member]) -> list:
        """Return the members fitted to all bags."""
        return [found.model for found in self._fits([(member, self._whole, False) for member in members])]

    @property
    def _whole(self) -> Fold:
        return np.ones(len(self.y), dtype=bool), np.zeros(len(self.y), dtype=bool)

    def _fold(self, deal: int, k: int) -> Fold:
        held_out = self.deals[deal] == k
        return (~held_out if self.splits is None else self.splits[deal].train(k)), held_out

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """All pairs (deal, fold)."""
        return [(deal, k) for deal in range(len(self.deals)) for k in range(self.folds)]

    def _all_folds(self, trial: Trial, reserve: float) -> tuple[str, str]:
        """Fill in the trial; return its status and the reason for it."""
        if why := self._too_long(trial.member, reserve):
            return "skipped", why
        return self._complete(trial, self._pairs, reserve)

    def _first_fold(self, trial: Trial, reserve: float) -> tuple[str, str]:
        if why := self._too_long(trial.member, reserve):
            return "skipped", why
        self._fit_pairs(trial, self._pairs[:1], first=True)
        return BEGUN, ""

    def _other_folds(self, trial: Trial, reserve: float) -> tuple[str, str]:
        pairs = self._pairs
        if trial.member.make_first is not None:
            trial.models.clear()
            return self._complete(trial, pairs, reserve)
        if why := self._too_long(trial.member, reserve, each=trial.seconds, fits=len(pairs)):
            return "skipped", why
        return self._complete(trial, pairs[1:], reserve)

    def _complete(self, trial: Trial, pairs: list[tuple[int, int]], reserve: float) -> tuple[str, str]:
        """Fit the remaining folds: all at once, or a few at a time under a budget, until it is exceeded."""
        step = len(pairs) if self.clock.budget is None else self._at_once
        for at in range(0, len(pairs), step):
            started = self.clock.passed
            found = self._fit_pairs(trial, pairs[at : at + step])
            took, left = self.clock.passed - started, len(pairs) - at - step
            if left > 0 and (why := self._behind(trial, took * np.ceil(left / step), reserve)):
                return "skipped", f"{why}; given up after {at + step} of {len(pairs)} folds"
        trial.held_out = found[0]
        trial.averaged = found.mean(axis=0) if len(found) > 1 else found[0]
        return "tried", ""

    def _fit_pairs(self, trial: Trial, pairs: list[tuple[int, int]], first=False) -> np.ndarray:
        """Fit without fold k of a deal, for every pair (deal, k), and predict that fold; all predictions so far."""
        if trial.predictions is None:
            trial.predictions = np.full(self.deals.shape, np.nan)
        fits = self._fits([(trial.member, self._fold(deal, k), first) for deal, k in pairs])
        for (deal, k), (model, found, fit_seconds, predict_seconds) in zip(pairs, fits, strict=True):
            seen, held_out = self._fold(deal, k)
            trial.fits, trial.fit_seconds = trial.fits + 1, trial.fit_seconds + fit_seconds
            trial.predict_seconds += predict_seconds
            if not np.isfinite(found).all():
                raise ValueError("a prediction is not finite")
            trial.predictions[deal, held_out] = np.clip(found, *self.limits(seen))
            if deal == 0:  # the models of further deals serve the weights alone
                trial.models.append(model)
        return trial.predictions

    def useless(self, begun: Sequence[Trial], rivals: Sequence[Trial]) -> list[str]:
        """Return for each member with a first fold the reason to drop it, or "".

        Let b be the blend of the rivals, weighted on all bags. A member continues if it has a weight in the best blend
        of b and the members on the first fold. That is so if and only if the slope of y - b on z - b is above zero,
        with b the blend without it, z its predictions and y the targets. A stricter rule, such as a standard error,
        drops good members, as one fold is little evidence.
        """
        if not begun or not rivals:
            return [""] * len(begun)
        first = np.column_stack([trial.predictions[0] for trial in begun])
        at = self.counted & np.isfinite(first).all(axis=1)
        if at.sum() < FEWEST:
            return [""] * len(begun)
        weight = None if self.sample_weight is None else self.sample_weight[at] / self.sample_weight[at].mean()
        Z = np.column_stack([rival.averaged for rival in rivals])
        blended = Z @ blend_weights(Z[self.scored], self.y[self.scored], self.weight, self.metric)
        columns = np.column_stack([blended, first])[at]
        weights = blend_weights(columns, self.y[at], weight, self.metric)
        judge = get_metric(self.metric)
        best, *own = (judge(self.y[at], column, weight=weight) for column in (columns @ weights, *columns[:, 1:].T))
        name = judge.label
        reasons = (
            f"did not improve the blend on the first fold: {name} {e:.4g} there, {best:.4g} for a blend of all"
            for e in own
        )
        return ["" if share > LEAST_SHARE else why for share, why in zip(weights[1:], reasons, strict=True)]

    def has_whole(self, members: Sequence[Member]) -> bool:
        """Return whether the fits of the members to all bags are stored."""
        return self.kept is not None and all(self.kept.has(self._key(member, self._whole)) for member in members)

    def _is_kept(self, member: Member, *, begun: bool) -> bool:
        """Return whether the first fit of a member is stored, or all of them if it has begun."""
        if self.kept is None:
            return False
        if begun:
            return all(self.kept.has(self._key(member, self._fold(*pair))) for pair in self._pairs)
        return any(self.kept.has(self._key(member, self._fold(0, 0), first)) for first in (False, True))

    def _key(self, member: Member, fold: Fold, first: bool = False) -> str:
        seen, held_out = fold
        others = held_out if (seen ^ held_out).all() else np.stack([seen, held_out])
        return self.kept.key(member, others, first)

    def _fits(self, tasks: list[tuple[Member, Fold, bool]]) -> list[HeldOut]:
        """Return the fit of each (member, fold, first): stored fits are read, others run and are stored."""
        if self.kept is None:
            return self._run(tasks)
        keys = [self._key(*task) for task in tasks]
        stored = {key: fit for key in keys if (fit := self.kept.read_fit(key)) is not None}
        for *_, elapsed in stored.values():
            self.clock.advance(elapsed)
        found = {key: HeldOut(*fit[:4]) for key, fit in stored.items()}
        missing = [(key, task) for key, task in zip(keys, tasks, strict=True) if key not in found]
        step = self.workers
        for at in range(0, len(missing), step):  # few at a time, so that an interrupt loses little
            some = missing[at : at + step]
            for (key, _), fit in zip(some, self._run([task for _, task in some]), strict=True):
                self.kept.write_fit(key, fit, self.clock.passed)
                found[key] = fit
        return [found[key] for key in keys]

    def _run(self, tasks: list[tuple[Member, Fold, bool]]) -> list[HeldOut]:
        return self._parallel(self._fit_of(member, self.bags, *fold, first) for member, fold, first in tasks)

    def fit_folds(self, member: Member, bags: Bags, folds: Sequence[Fold]) -> list[HeldOut]:
        """Fit the member to some of the bags and predict others, for each fold."""
        return self._parallel(self._fit_of(member, bags, *fold) for fold in folds)

    def _fit_of(self, member: Member, bags: Bags, seen: np.ndarray, predicted: np.ndarray, first=False):
        fit = partial(fit_member, member, random_state=self.random_state, first=first)
        positions = np.flatnonzero(seen), np.flatnonzero(predicted)
        return delayed(fit_held_out)(fit, bags, self.y, *positions, self.sample_weight)

    def at_hand(self, seconds: float) -> AbstractContextManager:
        """Return a context in which this process does short work itself under a budget.

        Sending it to workers may take longer on a busy machine.
        """
        few = self.clock.budget is not None and seconds < FEW_SECONDS
        return parallel_config(backend="sequential") if few else nullcontext()

    def _parallel(self, tasks) -> list:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="joblib")  # that a worker was replaced, which changes nothing
            return Parallel(n_jobs=1 if self._waiting else self.n_jobs)(tasks)

    @property
    def _at_once(self) -> int:
        """The number of folds that are fitted at a time."""
        return max(1, min(self.folds, self.workers))

    def _behind(self, trial: Trial, more: float, reserve: float) -> str:
        """Return why a begun member is given up, if ``more`` seconds and a fit to all bags exceed the budget."""
        if trial.member.always or self._is_kept(trial.member, begun=True):
            return ""
        more += WHOLE * trial.seconds_of_a_fit
        return "" if more <= self.clock.left - reserve else self._shortage(more, reserve)

    def _shortage(self, seconds: float, reserve: float) -> str:
        return f"about {seconds:.0f} s, and {max(self.clock.left - reserve, 0.0):.0f} s were left"

    def _too_long(self, member: Member, reserve: float, each: float | None = None, fits: int | None = None) -> str:
        """Return why the member does not fit into the rest of the budget, or "".

        ``each`` are the seconds of one fit. If they are unknown, a fit to a few bags estimates them.
        """
        if self.clock.budget is None or member.always or self._is_kept(member, begun=each is not None):
            return ""
        if self.clock.left <= reserve:
            return "no time was left"
        if each is None and member.costly and self.clock.quickest_skipped < np.inf:
            # Even a fit to a few bags takes seconds in a new process, which first loads compiled networks or torch.
            least = self.clock.quickest_skipped
            return f"longer than a quicker member, which takes {self._shortage(least, reserve)}"
        if each is None:
            # Members come in order of cost: another such fit takes about as long as the longest so far, or longer.
            fewest = max(2 * self.clock.longest_probe, FEWEST_SECONDS * self.clock.budget if member.costly else 0.0)
            if self.clock.left - reserve <= fewest:
                return "no time was left to see how long it takes"
            fits = self.deals.shape[0] * self.folds + 1
            few, some = self._probes()
            each = self._seconds_by(member, few)
            left = self.clock.left - reserve
            # The fewest bags overrate the fixed cost of a fit: more bags decide, if there is time to fit them.
            affordable = len(some) > len(few) and 2 * each * len(some) / self.counted.sum() <= left
            if affordable and self._all_fits(each, fits) > left:
                each = self._seconds_by(member, some)
        guess = self._all_fits(each, fits)
        if guess <= self.clock.left - reserve:
            return ""
        if not member.costly:
            self.clock.quickest_skipped = min(self.clock.quickest_skipped, guess)
        return self._shortage(guess, reserve)

    def too_long_again(self, trials: Sequence[Trial], members: Sequence[Member]) -> str:
        """Return why members that take as long as these trials are not tried, or ""."""
        if self.clock.budget is None or all(self._is_kept(member, begun=True) for member in members):
            return ""
        seconds = sum(self._all_fits(trial.seconds_of_a_fit, trial.fits + 1) for trial in trials)
        return self._shortage(seconds, 0.0) if seconds > TRANSFORM_SHARE * self.clock.left else ""

    def _all_fits(self, each: float, fits: int) -> float:
        """Return the seconds of so many fits, the last of them to all bags by one worker."""
        return each * (np.ceil((fits - 1) / self._at_once) + WHOLE)

    def _probes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return positions of the fewest bags of a probe, and of one bag in eight if those are more, from all folds."""
        order = np.argsort(self.fold, kind="stable")
        order = order[self.counted[order]]
        few, some = (max(1, len(order) // number) for number in (FEWEST, max(FEWEST, len(order) // PROBE)))
        return np.sort(order[::few]), np.sort(order[::some])

    def _seconds_by(self, member: Member, some: np.ndarray) -> float:
        """Return the seconds of a fit without a fold, at least linear in the bags, from a fit to some bags.

        Those of compiling, once in a process, are not among them.
        """
        started, compiling = time.perf_counter(), spent["compiling"]
        weight = None if self.sample_weight is None else self.sample_weight[some]
        with parallel_config(backend="sequential"):  # as in a worker
            fit_member(member, self.bags[some], self.y[some], weight, self.random_state)
        took = time.perf_counter() - started - (spent["compiling"] - compiling)
        self.clock.longest_probe = max(self.clock.longest_probe, took)
        return took * self.counted.sum() / len(some) * (1 - 1 / self.folds)


def fit_member(member: Member, bags: Bags, y, sample_weight, random_state: int, *, first: bool = False):
    """Fit a member in one thread, so that results are the same in this process and in a worker.

    Everything is fitted to these bags alone, imputation and the routing of constant columns included. Bags of weight
    zero are left out. Warnings are silenced: held-out errors judge the member.
    """
    make = member.make_first if first and member.make_first is not None else member.make
    model, weights = make(random_state), {}
    if sample_weight is not None:
        counted = sample_weight > 0
        bags, y, weights = bags[counted], y[counted], {"sample_weight": sample_weight[counted]}
        _refuse_weights(model.regressor if isinstance(model, TransformedTargetRegressor) else model)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps, bags = prepare(bags)
        model.fit(bags, y, **weights)
    return BagPipeline([*steps, ("model", model)]) if steps else model


def _refuse_weights(model) -> None:
    """Raise an error if the model takes no bag weights; a vote passes them on, though its signature lacks them."""
    if not isinstance(model, VotingRegressor) and not has_fit_parameter(model, "sample_weight"):
        raise ValueError("takes no sample_weight")


def _ready(number: int) -> int:
    """Return the number; calling it makes a worker import this module."""
    return number


FEWEST_BAGS = 40
COSTLY_FOLDS = 2  # that a learning curve of a costly member looks at
SMALL = 0.05  # a rise of the error below which more of the same hardly helps


@dataclass(frozen=True)
class Curve:
    """By how much the error of a member rises, as a share of its error, with half the bags and half the instances."""

    member: str
    rise: dict[str, float]
    se: dict[str, float]

    def sentences(self) -> str:
        """Return one sentence per curve. A change within two standard errors is called noise.

        Examples
        --------
        >>> Curve("aggregated", {"bags": 0.2}, {"bags": 0.04}).sentences()
        'More bags would probably help: with half of them the error of aggregated changed by +20 % (± 4 %).'
        """
        return " ".join(self._sentence(what) for what in self.rise)

    def _sentence(self, what: str) -> str:
        rise, se = self.rise[what], self.se[what]
        shown = round(rise, 2) + 0.0  # no -0 %
        noun = "bags" if what == "bags" else "instances per bag"
        measured = f"with half of them the error of {self.member} changed by {shown:+.0%} (± {se:.0%})".replace(
            "%", " %"
        )
        if rise > 2 * se:
            return f"More {noun} would probably help: {measured}."
        if rise + 2 * se < SMALL:
            return f"More {noun} would hardly help: {measured}."
        return f"Inconclusive: the effect of more {noun} is within noise; {measured}."


def learning_curve(cv: CrossValidation, member: Member, held_out: np.ndarray) -> Curve | None:
    """Return the learning curve of a member from its held-out predictions; None for too few bags.

    A costly member is fitted again without two of the folds: a hint is not worth twice its time.
    """
    if len(cv.bags) < FEWEST_BAGS:
        return None
    halves = {"bags": _with_half_the_bags}
    if np.median(cv.bags.sizes) >= 2:
        halves["instances"] = _with_half_the_instances
    folds = min(cv.folds, COSTLY_FOLDS) if member.costly else cv.folds
    seen = (cv.fold < folds)[cv.scored]
    whole = cv.loss(held_out)[seen]
    level = max(float(whole.mean()), np.finfo(float).tiny)
    rise, se, judge = {}, {}, get_metric(cv.metric)
    for what, halve in halves.items():
        worse = cv.loss(halve(cv, member, folds))[seen] - whole
        ratio, error = max(level + worse.mean(), 0.0) / level, worse.std() / np.sqrt(len(worse)) / level
        # d√m / √m = dm / 2m
        rise[what], se[what] = judge.in_unit(ratio) - 1.0, error / (2 if judge.bag_loss is squared else 1)
    return Curve(member.name, *({what: float(v) for what, v in part.items()} for part in (rise, se)))


def _with_half_the_bags(cv: CrossValidation, member: Member, folds: int) -> np.ndarray:
    """Predict each fold by a model of half of its training bags, drawn by a hash of their ids, groups or not."""
    half = bag_folds(cv.bags._with(groups=None), 2, random_state=cv.random_state) == 0
    return _cross_fit(cv, member, cv.bags, half, folds)


def _with_half_the_instances(cv: CrossValidation, member: Member, folds: int) -> np.ndarray:
    """Predict each fold with half of the instances of each bag, in training and in prediction."""
    thinned = thin(cv.bags, (cv.bags.sizes + 1) // 2, cv.random_state)
    return _cross_fit(cv, member, thinned, np.ones(len(cv.y), dtype=bool), folds)


def _cross_fit(cv: CrossValidation, member: Member, bags: Bags, some: np.ndarray, folds: int) -> np.ndarray:
    """Predict the bags in the first folds by models of some of the bags outside; NaN for the others."""
    pairs = [(some & seen, held_out) for seen, held_out in (cv._fold(0, k) for k in range(folds))]
    return assemble(cv.fit_folds(member, bags, pairs), pairs, len(cv.y))


def transformed(member: Member, formula: str) -> Member:
    """Return the member with estimators that learn a transform of the targets."""

    def learning(make):
        def made(random_state: int):
            target = MonotoneTarget(formula)
            return TransformedTargetRegressor(make(random_state), transformer=target, check_inverse=False)

        return made

    first = None if member.make_first is None else learning(member.make_first)
    return replace(member, make=learning(member.make), make_first=first)


@dataclass(frozen=True)
class Choice:
    """The transform to use (None: none), a row for each that was tried, and the trials with it."""

    formula: str | None
    rows: list[dict]
    trials: list[Trial]


def choose_transform(cv: CrossValidation, plain: list[Trial]) -> Choice:
    """Fit a few quick members once more, to transformed targets, on the same folds.

    A transform is kept if it lowers the loss of the best of them, in the unit of the target, by more than `SURE`
    standard errors of the difference, paired by bag. It is not tried with the others if it raises the loss of the first
    by as much, and not at all if it would take more than a third of the rest of the time budget.
    """
    choice, before = Choice(None, [], plain), _best_losses(plain, cv)
    for formula in worth_trying(cv.y[cv.counted]) if before is not None else []:
        members = [transformed(trial.member, formula) for trial in plain]
        if why := cv.too_long_again(plain, members):
            choice = replace(choice, rows=[*choice.rows, {"transform": formula, "kept": False, "why": why}])
            continue
        trials = [cv.try_member(members[0])]
        gain = _gain(_best_losses(plain[:1], cv), _best_losses(trials, cv))
        if gain is None or gain[0] >= -SURE * gain[1]:
            trials += [cv.try_member(member) for member in members[1:]]
            gain = _gain(before, _best_losses(trials, cv))
        if gain is not None:
            mean, error = gain
            kept = len(trials) == len(plain) and mean > SURE * error
            rows = [*choice.rows, {"transform": formula, "gain": mean, "se": error, "kept": kept}]
            choice = Choice(formula, rows, trials) if kept else replace(choice, rows=rows)
    return choice


def _gain(before: np.ndarray | None, after: np.ndarray | None) -> tuple[float, float] | None:
    """Return the mean relative fall of the losses and its standard error; None if some are unknown."""
    if before is None or after is None:
        return None
    gain = (before - after) / before.mean()
    return float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))


def _best_losses(trials: list[Trial], cv: CrossValidation) -> np.ndarray | None:
    losses = [cv.loss(trial.held_out) for trial in trials if trial.done]
    return min(losses, key=np.mean) if losses else None
